//! What the environment says, read once when the library is loaded.
//!
//! | variable | meaning |
//! |---|---|
//! | `PINNACE_BYPASS` | ports, and ranges of ports, that are left to TCP: `22,8000-8010` |
//! | `PINNACE_SAME_HOST` | `off`: no shortcut to programs on this host |
//! | `PINNACE_COMPANION` | the name of the socket at which `pinnace run` answers |
//! | `PINNACE_LIFE` | the inode of the pipe that keeps the companion alive, for as long as somebody has it |
//! | `PINNACE_VERBOSE` | set, and not `0`: say on standard error which way connections go |

use crate::name::UnixAddress;
use crate::sys;
use crate::table;
use core::ffi::{CStr, c_int};
use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};

static BYPASSED: [AtomicU64; 1024] = [const { AtomicU64::new(0) }; 1024];
static SAME_HOST: AtomicBool = AtomicBool::new(true);
static VERBOSE: AtomicI32 = AtomicI32::new(-1);
/// Which file it is: a program that makes system calls itself may have given the number to another.
static LOG: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
static LIFE: AtomicU64 = AtomicU64::new(0);
static COMPANION: [AtomicU64; 12] = [const { AtomicU64::new(0) }; 12];
static COMPANION_LEN: AtomicUsize = AtomicUsize::new(0);

fn variable(name: &CStr) -> Option<&'static [u8]> {
    // SAFETY: `name` ends with a zero byte; nobody changes the environment while libraries are being loaded.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    // SAFETY: as above; what is read of it is read before this function's caller (the loader) goes on.
    (!value.is_null()).then(|| unsafe { CStr::from_ptr(value) }.to_bytes())
}

/// Reads the environment.
pub(crate) fn read() {
    if let Some(list) = variable(c"PINNACE_BYPASS") {
        bypass(list);
    }
    if variable(c"PINNACE_SAME_HOST") == Some(b"off") {
        SAME_HOST.store(false, Ordering::Relaxed);
    }
    if let Some(name) = variable(c"PINNACE_COMPANION")
        && name.len() <= 8 * COMPANION.len()
    {
        for (word, bytes) in COMPANION.iter().zip(name.chunks(8)) {
            let mut value = [0; 8];
            value[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_ne_bytes(value), Ordering::Relaxed);
        }
        COMPANION_LEN.store(name.len(), Ordering::Relaxed);
    }
    if variable(c"PINNACE_VERBOSE").is_some_and(|value| !value.is_empty() && value != b"0") {
        // A descriptor of our own: the application may close its standard error, and give the number to a connection.
        if let Ok(fd) = sys::fcntl(2, libc::F_DUPFD_CLOEXEC, crate::listener::hidden_base()) {
            if let Ok((device, inode)) = sys::identity(fd) {
                LOG[0].store(device, Ordering::Relaxed);
                LOG[1].store(inode, Ordering::Relaxed);
            }
            table::keep(fd);
            VERBOSE.store(fd, Ordering::Relaxed);
        }
    }
    let life = variable(c"PINNACE_LIFE").and_then(|text| str::from_utf8(text).ok()?.parse().ok());
    LIFE.store(life.unwrap_or(0), Ordering::Relaxed);
}

/// Keeps a pipe if it is the one that the companion lives by: a program that closes everything it does not know, in order
/// to go on in the background, still needs it.
pub(crate) fn learn(fd: c_int) {
    let life = LIFE.load(Ordering::Relaxed);
    if life != 0 && sys::identity(fd).is_ok_and(|(_, inode)| inode == life) {
        table::keep(fd);
    }
}

/// The application wants a number that one of our own has: it moves.
pub(crate) fn make_room(fd: c_int) {
    let Ok(flags) = sys::fcntl(fd, libc::F_GETFD, 0) else { return };
    let duplicate = if flags & libc::FD_CLOEXEC != 0 { libc::F_DUPFD_CLOEXEC } else { libc::F_DUPFD };
    let Ok(moved) = sys::fcntl(fd, duplicate, crate::listener::hidden_base()) else { return };
    table::reset(fd);
    table::keep(moved);
    if !table::is_borrowed() {
        let _ = VERBOSE.compare_exchange(fd, moved, Ordering::Relaxed, Ordering::Relaxed);
    }
}

fn bypass(list: &[u8]) {
    for part in list.split(|&byte| byte == b',') {
        let part = part.trim_ascii();
        let mut ends = part
            .splitn(2, |&byte| byte == b'-')
            .map(|end| str::from_utf8(end.trim_ascii()).ok().and_then(|text| text.parse::<u16>().ok()));
        let Some(Some(low)) = ends.next() else { continue };
        let Some(high) = ends.next().unwrap_or(Some(low)) else { continue };
        for port in low..=high {
            BYPASSED[usize::from(port / 64)].fetch_or(1 << (port % 64), Ordering::Relaxed);
        }
    }
}

/// Whether a port is left to TCP.
pub(crate) fn is_bypassed(port: u16) -> bool {
    BYPASSED[usize::from(port / 64)].load(Ordering::Relaxed) & 1 << (port % 64) != 0
}

/// Whether programs on this host are reached without a network protocol.
pub(crate) fn same_host() -> bool {
    SAME_HOST.load(Ordering::Relaxed)
}

/// The address of the process that speaks QMP to other hosts.
pub(crate) fn companion() -> Option<UnixAddress> {
    let len = COMPANION_LEN.load(Ordering::Relaxed);
    let mut bytes = [0; 96];
    for (bytes, word) in bytes.chunks_mut(8).zip(&COMPANION) {
        bytes.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
    }
    (len > 0).then(|| str::from_utf8(&bytes[..len]).ok().map(UnixAddress::new)).flatten()
}

/// Says something on standard error, if the user wants to hear it.
pub(crate) fn say(text: fmt::Arguments<'_>) {
    let fd: c_int = VERBOSE.load(Ordering::Relaxed);
    let file = (LOG[0].load(Ordering::Relaxed), LOG[1].load(Ordering::Relaxed));
    if fd < 0 || sys::identity(fd) != Ok(file) {
        return;
    }
    let mut line = Line { bytes: [0; 256], len: 0 };
    let _ = fmt::write(&mut line, format_args!("pinnace: {text}\n"));
    let _ = sys::write(fd, &line.bytes[..line.len]);
}

struct Line {
    bytes: [u8; 256],
    len: usize,
}

impl fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let count = text.len().min(self.bytes.len() - self.len);
        self.bytes[self.len..self.len + count].copy_from_slice(&text.as_bytes()[..count]);
        self.len += count;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_and_ranges_are_bypassed() {
        bypass(b"22, 8000-8010,nonsense,70000,9-,7-5, 65535");
        for (port, expected) in
            [(22, true), (8000, true), (8005, true), (8010, true), (8011, false), (9, false), (7, false), (65535, true)]
        {
            assert_eq!(is_bypassed(port), expected, "{port}");
        }
    }
}
