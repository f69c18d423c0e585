//! Programs that are started with an environment which lacks the library. One that is given a listener, or a stream as one of
//! its first three descriptors, could not use it: so its environment gets what is missing. Any other has what it was given.
//!
//! Always true: what is added is what this process was started with, and nothing of what is there is changed.

use crate::{stream, sys, table};
use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char, c_int};
use core::ptr::null;
use core::sync::atomic::{AtomicUsize, Ordering};

/// The first is the one without which nothing is added.
const NAMES: [&CStr; 6] =
    [c"LD_PRELOAD", c"PINNACE_COMPANION", c"PINNACE_LIFE", c"PINNACE_BYPASS", c"PINNACE_SAME_HOST", c"PINNACE_VERBOSE"];
/// A longer variable is not kept.
const LONGEST: usize = 1024;
/// An environment with more variables has not been emptied, and stays as it is.
const MOST: usize = 500;

/// `NAME=VALUE` with a zero byte: programs write over the memory in which their environment was.
struct Kept(UnsafeCell<[[u8; LONGEST]; NAMES.len()]>);

// SAFETY: it is written by `keep` alone, when the library is loaded, and nobody else runs.
unsafe impl Sync for Kept {}

static KEPT: Kept = Kept(UnsafeCell::new([[0; LONGEST]; NAMES.len()]));
/// Bit by bit, which of them there are.
static FOUND: AtomicUsize = AtomicUsize::new(0);

/// Keeps what the environment says of this library.
pub(crate) fn keep() {
    for (index, name) in NAMES.iter().enumerate() {
        // SAFETY: the name ends with a zero byte; nobody changes the environment while libraries are being loaded.
        let value = unsafe { libc::getenv(name.as_ptr()) };
        if value.is_null() {
            continue;
        }
        // SAFETY: as above.
        let value = unsafe { CStr::from_ptr(value) }.to_bytes();
        let name = name.to_bytes();
        if name.len() + value.len() + 2 > LONGEST {
            continue;
        }
        // SAFETY: see `Kept`; the index is below the number of names.
        let place = unsafe { &mut (*KEPT.0.get())[index] };
        place[..name.len()].copy_from_slice(name);
        place[name.len()] = b'=';
        place[name.len() + 1..][..value.len()].copy_from_slice(value);
        FOUND.fetch_or(1 << index, Ordering::Relaxed);
    }
}

/// Whether an entry is a variable of this name.
unsafe fn is(entry: *const c_char, name: &CStr) -> bool {
    let name = name.to_bytes();
    // SAFETY: the caller's promise: it ends with a zero byte, behind which the comparison does not go.
    unsafe { libc::strncmp(entry, name.as_ptr().cast(), name.len()) == 0 && *entry.add(name.len()) == b'=' as c_char }
}

/// Whether something is handed on that needs the library. `spawns`: which of the descriptors, is not known yet.
fn is_needed(spawns: bool) -> bool {
    let survives =
        |fd: c_int| spawns || sys::fcntl(fd, libc::F_GETFD, 0).is_ok_and(|flags| flags & libc::FD_CLOEXEC == 0);
    table::listeners().any(|(fd, _)| survives(fd)) || (0..3).any(|fd| survives(fd) && stream::find(fd).is_some())
}

/// Calls `start` with the environment, or with one that has what is missing.
///
/// # Safety
///
/// `environment` is as for execve().
pub(crate) unsafe fn with_library<R>(
    environment: *const *const c_char,
    spawns: bool,
    start: impl FnOnce(*const *const c_char) -> R,
) -> R {
    let found = FOUND.load(Ordering::Relaxed);
    let mut list = [null::<c_char>(); MOST + NAMES.len() + 1];
    let mut count = 0;
    let mut missing = found;
    // SAFETY: the caller's promise: entries that end with a zero byte, and behind them a null pointer; or there is no list.
    unsafe {
        while !environment.is_null() && !(*environment.add(count)).is_null() {
            let entry = *environment.add(count);
            if count == MOST || is(entry, NAMES[0]) {
                return start(environment);
            }
            list[count] = entry;
            count += 1;
            for (index, name) in NAMES.iter().enumerate() {
                if is(entry, name) {
                    missing &= !(1 << index);
                }
            }
        }
    }
    let saved = sys::errno();
    let is_needed = found & 1 != 0 && is_needed(spawns);
    sys::set_errno(saved);
    if !is_needed {
        return start(environment);
    }
    for index in 0..NAMES.len() {
        if missing & 1 << index != 0 {
            // SAFETY: see `Kept`: it does not change any more.
            list[count] = unsafe { (*KEPT.0.get())[index].as_ptr().cast() };
            count += 1;
        }
    }
    start(list.as_ptr())
}

/// The environment of this process.
pub(crate) fn environment() -> *const *const c_char {
    unsafe extern "C" {
        static environ: *const *const c_char;
    }
    // SAFETY: the C library's, which whoever calls exec() does not change meanwhile.
    unsafe { environ }
}
