//! What a process inherits from whoever starts it: signals that are ignored, and descriptors.
//!
//! Always true: what runs between fork and exec here makes bare system calls only. It is the one file of this crate that has
//! `unsafe` code, because the standard library changes what the command is to find, and offers nothing to undo it.

use nix::libc;
use std::mem::zeroed;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr::null;
use std::sync::atomic::{AtomicU64, Ordering};

/// The signals that were ignored when this program began, bit by bit.
static IGNORED: AtomicU64 = AtomicU64::new(0);

/// Runs before the standard library does, which ignores SIGPIPE whatever it was.
extern "C" fn look() {
    for signal in 1..64 {
        // SAFETY: zeroes are a value of the structure, which lives through the call.
        let ignored = unsafe {
            let mut action: libc::sigaction = zeroed();
            libc::sigaction(signal, null(), &raw mut action) == 0 && action.sa_sigaction == libc::SIG_IGN
        };
        if ignored {
            IGNORED.fetch_or(1 << signal, Ordering::Relaxed);
        }
    }
}

#[used]
// SAFETY: the section lists functions that the loader calls, and this is one without conditions.
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

/// Whether whoever started this program had it ignore the signal.
pub(crate) fn is_ignored(signal: i32) -> bool {
    IGNORED.load(Ordering::Relaxed) & 1 << signal != 0
}

/// Has a command ignore SIGPIPE if this program was to; the standard library would have it end by it. What else is ignored
/// stays so by itself.
pub(super) fn keep_ignored(command: &mut Command) {
    if is_ignored(libc::SIGPIPE) {
        let change = || {
            ignore(libc::SIGPIPE);
            Ok(())
        };
        // SAFETY: it makes a system call, which may be made between fork and exec.
        unsafe { command.pre_exec(change) };
    }
}

/// Has a process ignore what is sent to all processes of a service or a terminal, and inherit nothing but its first three
/// descriptors: locks and pipes of whoever started this program are none of its business.
pub(super) fn keep_apart(command: &mut Command) {
    let change = || {
        [libc::SIGHUP, libc::SIGINT, libc::SIGTERM].into_iter().for_each(ignore);
        // SAFETY: no pointers. Nothing is closed before exec.
        unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
        Ok(())
    };
    // SAFETY: it makes system calls, which may be made between fork and exec.
    unsafe { command.pre_exec(change) };
}

fn ignore(signal: i32) {
    // SAFETY: no handler is installed, and no pointer given.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
}
