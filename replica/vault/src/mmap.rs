//! A file as memory: the workspace's only `unsafe`, and why it is sound.
//!
//! Every buffer handed out owns the map, so the map outlives the last batch, wherever that batch
//! went. The vault maps a file only after it has written and synced it whole; from then on it
//! never writes to, truncates or reuses it: it is renamed, set to mode 0400, and at last unlinked,
//! which leaves the pages to whoever still reads them.
#![expect(unsafe_code, reason = "mapping a file is unsafe; everything about it stays in here")]

use std::fs::File;
use std::io;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;

use arrow_buffer::Buffer;
use memmap2::Mmap;

use crate::evict::Charge;

/// A mapped file and its share of the cache's budget: an unlinked file's space comes back only
/// with the last unmapping, so the charge ends there too.
#[derive(Debug)]
struct Mapping {
    map: Mmap,
    _charge: Arc<Charge>,
}

/// Maps a whole file read-only. The buffer and every slice of it keep the map alive.
pub(crate) fn map_file(path: &Path, charge: Arc<Charge>) -> io::Result<Buffer> {
    let file = File::open(path)?;
    if file.metadata()?.len() == 0 {
        return Ok(Buffer::from(Vec::<u8>::new()));
    }
    // SAFETY: the file is the vault's own, immutable from before its first map on (see the module); nothing
    // in this process writes to it, and the folder is locked against other vaults.
    let map = unsafe { Mmap::map(&file) }?;
    let mapping = Arc::new(Mapping { map, _charge: charge });
    let len = mapping.map.len();
    let start = NonNull::from(mapping.map.as_ref()).cast::<u8>();
    // SAFETY: `start` and `len` are exactly the map's, and `mapping`, which unmaps when dropped,
    // is owned by the buffer and by every slice of it. The bytes are never written.
    Ok(unsafe { Buffer::from_custom_allocation(start, len, mapping) })
}
