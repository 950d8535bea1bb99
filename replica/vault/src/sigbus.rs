//! A page that a mapped file no longer has: its readers get zeros and its map is poisoned, once.
//!
//! The kernel answers a read of a page that cannot be loaded (a file cut from outside, a failed
//! disk) with SIGBUS, which ends a process. Here the handler looks the address up among the
//! registered maps. Inside one of them it marks the map, puts zero pages over the rest of it and
//! returns; anywhere else the action that was in force before decides. Whoever reads a map asks
//! [`MapWatch::fault`] before believing what was read.
//!
//! The handler only reads and writes atomics and calls `mmap`, `sigaction` and `raise`: no lock, no
//! allocation. A map stays registered while anybody can read it, so the one that faults is found;
//! others may come and go meanwhile, which is what the version of a place is for.
#![expect(unsafe_code, reason = "a signal handler and what it does to the map it is about")]

use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

/// Maps of the process at most, those that only wait for their last reader included.
const PLACES: usize = 32_768;
/// No fault so far.
const SOUND: usize = usize::MAX;

/// One registered range. `version` is odd while it changes.
struct Place {
    version: AtomicU64,
    start: AtomicUsize,
    len: AtomicUsize,
    /// Offset of the first page that could not be read.
    fault: AtomicUsize,
}

static REGISTRY: [Place; PLACES] = [const {
    Place {
        version: AtomicU64::new(0),
        start: AtomicUsize::new(0),
        len: AtomicUsize::new(0),
        fault: AtomicUsize::new(SOUND),
    }
}; PLACES];
/// Places beyond this one were never used.
static USED: AtomicUsize = AtomicUsize::new(0);
/// Places given back.
static FREE: Mutex<Vec<usize>> = Mutex::new(Vec::new());
/// What SIGBUS did before.
static PREVIOUS: OnceLock<libc::sigaction> = OnceLock::new();

impl Place {
    fn set(&self, start: usize, len: usize) {
        self.version.fetch_add(1, Ordering::SeqCst);
        self.start.store(start, Ordering::SeqCst);
        self.len.store(len, Ordering::SeqCst);
        self.version.fetch_add(1, Ordering::SeqCst);
    }

    /// The range, unless it changes right now.
    fn range(&self) -> Option<(usize, usize)> {
        let version = self.version.load(Ordering::SeqCst);
        let range = (self.start.load(Ordering::SeqCst), self.len.load(Ordering::SeqCst));
        let same = version.is_multiple_of(2) && version == self.version.load(Ordering::SeqCst);
        same.then_some(range)
    }
}

/// Tells whether a map has been poisoned; outlives the map.
#[derive(Clone, Debug)]
pub struct MapWatch {
    place: Option<Arc<Registration>>,
}

impl MapWatch {
    /// Watches nothing: an empty file.
    pub(crate) fn nothing() -> Self {
        MapWatch { place: None }
    }

    /// Offset of the first page that could not be read: everything read from there on may be zeros.
    pub fn fault(&self) -> Option<u64> {
        let place = REGISTRY.get(self.place.as_ref()?.0)?;
        let fault = place.fault.load(Ordering::SeqCst);
        (fault != SOUND).then_some(fault as u64)
    }
}

/// A place in the registry, given back by the last who watches it.
#[derive(Debug)]
struct Registration(usize);

impl Drop for Registration {
    fn drop(&mut self) {
        FREE.lock().push(self.0);
    }
}

/// The registered range of a map: to be dropped before the map is.
#[derive(Debug)]
pub(crate) struct Guarded {
    place: Arc<Registration>,
}

impl Guarded {
    /// Registers `[start, start + len)`, which is a map of whole pages.
    pub(crate) fn new(start: usize, len: usize) -> io::Result<Self> {
        install()?;
        let given_back = FREE.lock().pop();
        let unused = || {
            USED.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |used| {
                (used < PLACES).then_some(used + 1)
            })
        };
        let full = |_| io::Error::other(format!("{PLACES} files are mapped already"));
        let number = given_back.map_or_else(unused, Ok).map_err(full)?;
        let place = Arc::new(Registration(number));
        if let Some(free) = REGISTRY.get(number) {
            free.fault.store(SOUND, Ordering::SeqCst);
            free.set(start, len);
        }
        Ok(Guarded { place })
    }

    pub(crate) fn watch(&self) -> MapWatch {
        MapWatch { place: Some(Arc::clone(&self.place)) }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        if let Some(place) = REGISTRY.get(self.place.0) {
            place.set(0, 0);
        }
    }
}

/// Installs the handler, once a process.
fn install() -> io::Result<()> {
    static INSTALLED: Mutex<bool> = Mutex::new(false);
    let mut installed = INSTALLED.lock();
    if *installed {
        return Ok(());
    }
    // SAFETY: all zeros is a valid `sigaction`: the default action, no flags, an empty mask.
    let mut before: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: a null new action only asks; `before` is ours to write.
    if unsafe { libc::sigaction(libc::SIGBUS, std::ptr::null(), &raw mut before) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // The handler may run from the next call on, so what it falls back to is stored first.
    PREVIOUS.get_or_init(|| before);
    // SAFETY: as above.
    let mut ours: libc::sigaction = unsafe { std::mem::zeroed() };
    let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = on_sigbus;
    ours.sa_sigaction = handler as libc::sighandler_t;
    ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: `ours` is a whole action whose handler has the form that SA_SIGINFO asks for.
    if unsafe { libc::sigaction(libc::SIGBUS, &raw const ours, std::ptr::null_mut()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    *installed = true;
    Ok(())
}

extern "C" fn on_sigbus(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: with SA_SIGINFO the kernel passes a valid `info` for the handler's duration.
    let code = unsafe { (*info).si_code };
    // SAFETY: as above.
    let info_ref = unsafe { &*info };
    // SAFETY: a SIGBUS of the kernel's own (positive code) carries an address; of another, this
    // reads some other plain field, which is not used.
    let address = unsafe { info_ref.si_addr() } as usize;
    // Somebody's `kill` has no address.
    if code > 0 && cover(address) {
        return;
    }
    fall_back(signal, info, context);
}

/// Poisons the map around `address` and lets its readers go on. False: no map of ours.
fn cover(address: usize) -> bool {
    let used = USED.load(Ordering::SeqCst).min(PLACES);
    for place in REGISTRY.iter().take(used) {
        let Some((start, len)) = place.range() else { continue };
        let Some(offset) = address.checked_sub(start).filter(|offset| *offset < len) else {
            continue;
        };
        let page = page_bytes();
        let first = offset - offset % page;
        // Before the zeros can be seen: who reads them and asks afterwards is told.
        place.fault.fetch_min(first, Ordering::SeqCst);
        return zero(start + first, len - first);
    }
    false
}

fn page_bytes() -> usize {
    // SAFETY: reads a constant of the system; async-signal-safe.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).ok().filter(|bytes| *bytes > 0).unwrap_or(4_096)
}

/// Zero pages from `start` to the end of the map: one piece however many pages are gone.
fn zero(start: usize, len: usize) -> bool {
    let protection = libc::PROT_READ;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    let at = start as *mut libc::c_void;
    // SAFETY: the range is the end of a registered map, page-aligned, which its faulting reader keeps alive;
    // read-only before and after, so nobody loses a write. A call that succeeds leaves the
    // interrupted code's `errno` as it was.
    let mapped = unsafe { libc::mmap(at, len, protection, flags, -1, 0) };
    mapped != libc::MAP_FAILED
}

/// What would have happened without us.
fn fall_back(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    type Informed = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);
    type Plain = extern "C" fn(libc::c_int);
    let handler = PREVIOUS.get().map_or(libc::SIG_DFL, |before| before.sa_sigaction);
    let flags = PREVIOUS.get().map_or(0, |before| before.sa_flags);
    if handler == libc::SIG_DFL || handler == libc::SIG_IGN {
        // SAFETY: all zeros is the default action.
        let default: libc::sigaction = unsafe { std::mem::zeroed() };
        // SAFETY: a whole action and no wish to know the old one; async-signal-safe.
        unsafe { libc::sigaction(signal, &raw const default, std::ptr::null_mut()) };
        // SAFETY: async-signal-safe; delivered when this handler returns.
        unsafe { libc::raise(signal) };
    } else if flags & libc::SA_SIGINFO != 0 {
        // SAFETY: a handler that was installed with SA_SIGINFO has this form.
        let handler: Informed = unsafe { std::mem::transmute(handler) };
        handler(signal, info, context);
    } else {
        // SAFETY: a handler that was installed without SA_SIGINFO has this form.
        let handler: Plain = unsafe { std::mem::transmute(handler) };
        handler(signal);
    }
}
