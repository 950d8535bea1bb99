//! A file as memory: with `sigbus` the workspace's only `unsafe`, and why it is sound.
//!
//! Every buffer handed out owns the map, so the map outlives the last batch, wherever that batch
//! went. The vault maps a file only after it has written and synced it whole; from then on it
//! never writes to, truncates or reuses it: it is renamed, set to mode 0400, and at last unlinked,
//! which leaves the pages to whoever still reads them. Others may still cut the file, or its disk
//! fail: then [`crate::sigbus`] keeps the process alive, and [`Mapped::watch`] tells.
#![expect(unsafe_code, reason = "mapping a file is unsafe; everything about it stays in here")]

use std::fs::File;
use std::io;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;

use arrow_buffer::Buffer;
use memmap2::Mmap;

use crate::evict::Rights;
use crate::sigbus::{Guarded, MapWatch};

/// A mapped file and its share of the budgets of bytes and maps: an unlinked file's space comes
/// back only with the last unmapping, so its charge ends there too.
#[derive(Debug)]
struct Mapping {
    /// First, as fields are dropped in order: unmapped addresses may soon be those of another map.
    _guarded: Guarded,
    map: Mmap,
    _rights: Rights,
}

/// A file's bytes, and whether all of them could be read.
#[derive(Debug)]
pub(crate) struct Mapped {
    /// It and every slice of it keep the map alive.
    pub(crate) buffer: Buffer,
    pub(crate) watch: MapWatch,
}

/// Maps a whole file read-only.
pub(crate) fn map_file(path: &Path, rights: Rights) -> io::Result<Mapped> {
    let file = File::open(path)?;
    if file.metadata()?.len() == 0 {
        return Ok(Mapped { buffer: Buffer::from(Vec::<u8>::new()), watch: MapWatch::nothing() });
    }
    // SAFETY: the file is the vault's own, immutable from before its first map on (see the module); nothing
    // in this process writes to it, and the folder is locked against other vaults.
    let map = unsafe { Mmap::map(&file) }?;
    let guarded = Guarded::new(map.as_ptr() as usize, map.len())?;
    let watch = guarded.watch();
    let mapping = Arc::new(Mapping { _guarded: guarded, map, _rights: rights });
    let len = mapping.map.len();
    let start = NonNull::from(mapping.map.as_ref()).cast::<u8>();
    // SAFETY: `start` and `len` are exactly the map's, and `mapping`, which unmaps when dropped,
    // is owned by the buffer and by every slice of it. The bytes are never written.
    let buffer = unsafe { Buffer::from_custom_allocation(start, len, mapping) };
    Ok(Mapped { buffer, watch })
}
