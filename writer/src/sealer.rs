//! Sealing: rows become an immutable file, which is judged from disk before anything is signed.

use std::io;
use std::path::Path;

use sealcast_common::durable::temporary_name;
use sealcast_common::fault::Corruption;
use sealcast_common::integrity::{Checkpoint, Note, SignerError, file_hash};
use sealcast_common::segment::{
    Expectation, Row, SealRequest, SegmentName, encode_segment, verify_segment,
};

use crate::context::ShardContext;
use crate::disk::read_aligned;

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

/// Seals `rows`: write, sync, re-read, verify against the tree that grew with the appends, sign,
/// publish. A crash leaves a `.tmp` file, or a note without its segment: both are made again.
pub(crate) fn seal_rows(
    rows: Vec<Row>,
    request: &SealRequest,
    ctx: &ShardContext,
) -> Result<SealedFile, SealError> {
    let bytes = encode_segment(rows, request)?;
    let hash = file_hash(&bytes);
    let (start, end) = (request.range.begin(), request.range.end());
    let rows = u32::try_from(end - start).map_err(|_| {
        Corruption::new("encode", None, "rows within a segment's bound", (end - start).to_string())
    })?;
    let name = SegmentName::new(start, rows, &hash);
    let path = ctx.dir.sealed_dir(ctx.shard).join(name.file_name());
    let failed = |source| SealError::Io { file: path.display().to_string(), source };
    let temporary = temporary_name(&path);
    ctx.files.write_new(&temporary, &bytes).map_err(failed)?;
    let len = bytes.len() as u64;
    drop(bytes);
    let checkpoint = judge(&temporary, &hash, len, request, ctx)?;
    let note = Note::sign(checkpoint.to_text(), &ctx.signer)?;
    let note_path = ctx.dir.sealed_dir(ctx.shard).join(name.note_name());
    ctx.files.replace(&note_path, note.to_text().as_bytes()).map_err(failed)?;
    ctx.files.rename(&temporary, &path).map_err(failed)?;
    Ok(SealedFile { name, bytes: len })
}

/// Reads the written file back and judges it; the checkpoint is what the judged bytes add up to.
fn judge(
    path: &Path,
    hash: &[u8; 32],
    len: u64,
    request: &SealRequest,
    ctx: &ShardContext,
) -> Result<Checkpoint, SealError> {
    let file = path.display().to_string();
    let bytes =
        read_aligned(path).map_err(|source| SealError::Io { file: file.clone(), source })?;
    let mut tree = request.frontier.clone();
    tree.merge(&request.range)?;
    let root = tree.root()?;
    let expect = Expectation {
        file_hash: Some(hash.to_vec()),
        bytes: Some(len),
        cluster: Some(ctx.cluster.clone()),
        shard: Some(ctx.shard),
        range: Some((request.range.begin(), request.range.end())),
        frontier: Some(request.frontier.clone()),
        root_after: Some(root),
    };
    let (view, _batches) =
        verify_segment(bytes, &expect).map_err(|corruption| corruption.in_object(&file))?;
    // The verifier has shown that the columns give the seal's nodes; here, that the seal's nodes
    // are those of the leaves that were acknowledged.
    request.range.check_nodes(&view.seal().range_nodes).map_err(|c| c.in_object(&file))?;
    Ok(Checkpoint { origin: ctx.origin.clone(), size: tree.end(), root })
}
