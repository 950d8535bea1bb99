//! Sealing: rows become an immutable file, which is judged from disk before anything is signed.

use std::io;

use arrow_buffer::Buffer;
use sealcast_common::durable::temporary_name;
use sealcast_common::fault::Corruption;
use sealcast_common::integrity::{Growth, Hash, SignerError, file_hash};
use sealcast_common::segment::{
    Expectation, Row, SealRequest, SegmentName, encode_rows, verify_segment, verify_segment_at_once,
};

use crate::context::ShardContext;
use crate::disk::{holds, read_aligned};

/// A sealed segment on disk, verified and signed. Only [`seal_rows`] makes one.
#[derive(Debug)]
pub(crate) struct SealedFile {
    name: SegmentName,
    bytes: u64,
}

impl SealedFile {
    /// Its name: range and hash.
    pub(crate) fn name(&self) -> &SegmentName {
        &self.name
    }

    /// Its length.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Why a tail was not sealed. Its log file is still there.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    /// The rows cannot be encoded, or the file on disk does not say what the tree says.
    #[error("segment is not sealed: {0}")]
    Corrupt(#[from] Corruption),
    /// The file system refused.
    #[error("segment {file} is not sealed: {source}")]
    Io {
        /// Its path.
        file: String,
        /// The system's word.
        source: io::Error,
    },
    /// No signature.
    #[error("segment is not signed: {0}")]
    Sign(#[from] SignerError),
}

/// Seals `rows`: write and sync, judge, compare what the file holds with what was judged, sign,
/// publish. A crash leaves a `.tmp` file, or a note without its segment: both are made again.
pub(crate) fn seal_rows(
    rows: &[Row],
    request: &SealRequest,
    ctx: &ShardContext,
) -> Result<SealedFile, SealError> {
    let bytes = Buffer::from_vec(encode_rows(rows, request)?);
    let hash = file_hash(&bytes);
    let (start, end) = (request.range.begin(), request.range.end());
    let rows = u32::try_from(end - start).map_err(|_| {
        Corruption::new("encode", None, "rows within a segment's bound", (end - start).to_string())
    })?;
    let name = SegmentName::new(start, rows, &hash);
    let path = ctx.dir.sealed_dir(ctx.shard).join(name.file_name());
    let failed = |source| SealError::Io { file: path.display().to_string(), source };
    let temporary = temporary_name(&path);
    // The disk works while the bytes are judged.
    let (written, judged) = std::thread::scope(|scope| {
        let write = scope.spawn(|| ctx.files.write_new(&temporary, &bytes));
        let judged = judge(bytes.clone(), request, ctx);
        let written = write.join().unwrap_or_else(|_| Err(io::Error::other("write broke off")));
        (written, judged)
    });
    written.map_err(failed)?;
    let named = |corruption: Corruption| corruption.in_object(temporary.display().to_string());
    let root = judged.map_err(named)?;
    if !holds(&temporary, &bytes).map_err(failed)? {
        let found = read_aligned(&temporary).map_err(failed)?;
        return Err(named(changed(found, &hash, request, ctx)).into());
    }
    let note = ctx.signer.sign_growth(&Growth::new(&request.range, root))?;
    let note_path = ctx.dir.sealed_dir(ctx.shard).join(name.note_name());
    ctx.files.replace(&note_path, note.to_text().as_bytes()).map_err(failed)?;
    ctx.files.rename(&temporary, &path).map_err(failed)?;
    Ok(SealedFile { name, bytes: bytes.len() as u64 })
}

/// What a segment of the request must say.
fn expected(request: &SealRequest, ctx: &ShardContext) -> Result<Expectation, Corruption> {
    let mut tree = request.frontier.clone();
    tree.merge(&request.range)?;
    Ok(Expectation {
        cluster: Some(ctx.cluster.clone()),
        shard: Some(ctx.shard),
        range: Some((request.range.begin(), request.range.end())),
        frontier: Some(request.frontier.clone()),
        root_after: Some(tree.root()?),
        ..Expectation::default()
    })
}

/// The root that the judged bytes add up to.
fn judge(bytes: Buffer, request: &SealRequest, ctx: &ShardContext) -> Result<Hash, Corruption> {
    let expect = expected(request, ctx)?;
    let (view, _batches) = verify_segment_at_once(bytes, &expect)?;
    // The verifier has shown that the columns give the seal's nodes; here, that the seal's nodes
    // are those of the leaves that were acknowledged.
    let seal = view.seal();
    request.range.check_nodes(&seal.range_nodes)?;
    Ok(seal.root_after)
}

/// What is wrong with a file that does not hold the judged bytes: never nothing.
fn changed(
    found: Buffer,
    hash: &[u8; 32],
    request: &SealRequest,
    ctx: &ShardContext,
) -> Corruption {
    let expect = expected(request, ctx)
        .map(|expect| Expectation { file_hash: Some(hash.to_vec()), ..expect });
    match expect.and_then(|expect| verify_segment(found, &expect)) {
        Ok(_) => Corruption::new("blake3", None, "the bytes that were written", "others"),
        Err(corruption) => corruption,
    }
}
