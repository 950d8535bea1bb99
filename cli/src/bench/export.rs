//! The same rows for other databases: Parquet (zstd, level 3) and, on request, NDJSON.

use std::fs::File;
use std::io::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use sealcast_common::durable::{Durable as _, RealFiles};
use sealcast_common::segment::SegmentView;

use super::events::{Generator, write_json};
use crate::output::{Failure, failed};

/// As in the study that the goal comes from.
const ZSTD_LEVEL: i32 = 3;
/// The file of the rows as clients send them.
pub(super) const NDJSON: &str = "events.ndjson";
/// Text that is written at once, bytes.
const CHUNK_BYTES: usize = 1 << 20;

/// Where the exports go.
#[derive(Debug)]
pub(super) struct Exports {
    parquet: PathBuf,
    ndjson: Option<Mutex<File>>,
}

impl Exports {
    pub(super) fn new(dir: &Path, ndjson: bool) -> Result<Self, Failure> {
        let parquet = dir.join("parquet");
        RealFiles.create_dir(&parquet).map_err(failed)?;
        let ndjson = if ndjson { Some(Mutex::new(open(&dir.join(NDJSON))?)) } else { None };
        Ok(Exports { parquet, ndjson })
    }

    /// One Parquet file of one segment, in the segment's order: tenant, then time.
    pub(super) fn parquet(&self, view: &SegmentView, start: u64) -> Result<(), Failure> {
        let batches = view.decode().map_err(failed)?;
        let level = ZstdLevel::try_new(ZSTD_LEVEL).map_err(failed)?;
        let properties = WriterProperties::builder().set_compression(Compression::ZSTD(level));
        let file = open(&self.parquet.join(format!("{start:012}.parquet")))?;
        let mut writer =
            ArrowWriter::try_new(file, view.schema().clone(), Some(properties.build()))
                .map_err(failed)?;
        for batch in &batches {
            writer.write(batch).map_err(failed)?;
        }
        writer.close().map_err(failed)?;
        Ok(())
    }

    /// Appends rows as clients send them, if asked for.
    pub(super) fn ndjson(&self, events: &Generator, range: Range<u64>) -> Result<(), Failure> {
        let Some(file) = &self.ndjson else { return Ok(()) };
        let mut file = file.lock().map_err(failed)?;
        let mut text = String::with_capacity(2 * CHUNK_BYTES);
        for index in range {
            write_json(&events.event(index), &mut text);
            if text.len() >= CHUNK_BYTES {
                file.write_all(text.as_bytes()).map_err(failed)?;
                text.clear();
            }
        }
        file.write_all(text.as_bytes()).map_err(failed)
    }
}

fn open(path: &Path) -> Result<File, Failure> {
    let file = File::options().write(true).create(true).truncate(true).open(path);
    file.map_err(|error| Failure::new(format!("{} cannot be written: {error}", path.display())))
}

/// Bytes of all files below `dir`.
pub(super) fn bytes_below(dir: &Path) -> Result<u64, Failure> {
    let mut total = 0;
    for entry in std::fs::read_dir(dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let meta = entry.metadata().map_err(failed)?;
        total += if meta.is_dir() { bytes_below(&entry.path())? } else { meta.len() };
    }
    Ok(total)
}
