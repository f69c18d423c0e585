//! Registrations in epoll instances: as they are remembered, or read from /proc/self/fdinfo, the kernel's own list.

use crate::sys::{self, Outcome};
use crate::table::{self, Place};
use core::ffi::{CStr, c_int};
use core::fmt::Write;

/// How a descriptor is registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Registration {
    /// The epoll instance.
    pub(crate) epoll: c_int,
    pub(crate) events: u32,
    pub(crate) data: u64,
}

impl Registration {
    /// Takes it out of the instance, as the file that it is now: the kernel does so by itself only when nobody has that file any
    /// more.
    pub(crate) fn remove(self, fd: c_int) {
        let _ = sys::epoll_ctl(self.epoll, libc::EPOLL_CTL_DEL, fd, 0, 0);
    }

    /// Registers the descriptor again, which is now another file.
    pub(crate) fn restore(self, fd: c_int) {
        let _ = sys::epoll_ctl(self.epoll, libc::EPOLL_CTL_ADD, fd, self.events, self.data);
    }
}

/// A path in a few bytes, with its zero byte.
pub(crate) struct Path {
    bytes: [u8; 48],
    len: usize,
}

impl Path {
    pub(crate) fn new(folder: &str, fd: c_int) -> Self {
        let mut path = Self { bytes: [0; 48], len: 0 };
        let _ = write!(path, "{folder}{fd}");
        path
    }

    pub(crate) fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or(c"")
    }
}

impl Write for Path {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let Some(place) = self.bytes[self.len..].get_mut(..text.len() + 1) else { return Err(core::fmt::Error) };
        place[..text.len()].copy_from_slice(text.as_bytes());
        self.len += text.len();
        Ok(())
    }
}

/// What the kernel calls an epoll instance.
pub(crate) const INSTANCE: &[u8] = b"anon_inode:[eventpoll]";

/// Calls `visit` with every descriptor of this process, and what it is.
pub(crate) fn every(mut visit: impl FnMut(c_int, &[u8])) -> Outcome<()> {
    let folder = sys::open(c"/proc/self/fd", libc::O_RDONLY | libc::O_DIRECTORY)?;
    let mut entries = [0; 2048];
    while let Ok(count @ 1..) = sys::getdents(folder, &mut entries) {
        let mut rest = &entries[..count];
        // u64 inode, i64 offset, u16 length, u8 type, name
        while let Some(len) = rest.get(16..18).map(|len| usize::from(u16::from_ne_bytes([len[0], len[1]]))) {
            let Some((entry, next)) = rest.split_at_checked(len.max(19)) else { break };
            rest = next;
            let name = entry[19..].split(|&byte| byte == 0).next().unwrap_or_default();
            let Some(fd) = str::from_utf8(name).ok().and_then(|name| name.parse::<c_int>().ok()) else { continue };
            let mut target = [0; 32];
            if let Ok(target) = sys::readlink(Path::new("/proc/self/fd/", fd).as_c_str(), &mut target) {
                visit(fd, target);
            }
        }
    }
    sys::close(folder);
    Ok(())
}

/// Calls `visit` with every descriptor that is registered in an epoll instance, until it says `false`.
pub(crate) fn each(epoll: c_int, mut visit: impl FnMut(c_int, Registration) -> bool) {
    let Ok(file) = sys::open(Path::new("/proc/self/fdinfo/", epoll).as_c_str(), libc::O_RDONLY) else { return };
    let mut buffer = [0; 4096];
    let mut filled = 0;
    'all: while let Ok(count @ 1..) = sys::read(file, &mut buffer[filled..]) {
        filled += count;
        let mut begin = 0;
        while let Some(len) = buffer[begin..filled].iter().position(|&byte| byte == b'\n') {
            if let Some((fd, registration)) = parse(&buffer[begin..begin + len], epoll)
                && !visit(fd, registration)
            {
                break 'all;
            }
            begin += len + 1;
        }
        if begin == 0 && filled == buffer.len() {
            break; // no line is as long as this
        }
        buffer.copy_within(begin..filled, 0);
        filled -= begin;
    }
    sys::close(file);
}

/// `tfd:        5 events:       19 data:                5  pos:0 ino:1f sdev:9`
fn parse(line: &[u8], epoll: c_int) -> Option<(c_int, Registration)> {
    let mut words = str::from_utf8(line).ok()?.split_ascii_whitespace();
    let mut value = |name: &str| (words.next()? == name).then(|| words.next()).flatten();
    let fd = value("tfd:")?.parse().ok()?;
    let events = u32::from_str_radix(value("events:")?, 16).ok()?;
    let data = u64::from_str_radix(value("data:")?, 16).ok()?;
    Some((fd, Registration { epoll, events, data }))
}

/// How a socket that is about to become another file was registered before, if it was. An error if that cannot be said: in
/// several instances, in one that is not here any more, or where the kernel's list cannot be read. Then it has to stay the
/// file that it is, or whoever waits for it would wait for ever.
pub(crate) fn registration(fd: c_int) -> Outcome<Option<Registration>> {
    if !table::is_noted(fd) {
        return Err(libc::ENOTSUP);
    }
    let epoll = match table::notes(fd).epoll() {
        Place::Nowhere => return Ok(None),
        Place::Somewhere => return Err(libc::ENOTSUP),
        Place::In(epoll) => epoll,
    };
    // The list may be long. The kernel says whether what is remembered holds: to set it once more fails, if it is registered no
    // more. An event that comes once may have come, which only the list tells.
    const UNSURE: u32 = libc::EPOLLONESHOT as u32 | libc::EPOLLEXCLUSIVE as u32;
    if let Some((events, data)) = table::registered(fd)
        && events & UNSURE == 0
        && sys::epoll_ctl(epoll, libc::EPOLL_CTL_MOD, fd, events, data).is_ok()
    {
        return Ok(Some(Registration { epoll, events, data }));
    }
    let mut found = Err(libc::ENOTSUP);
    each(epoll, |target, registration| {
        if target == fd {
            found = Ok(Some(registration));
        }
        found.is_err()
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_kernel_is_read() {
        let line = b"tfd:      900 events:       19 data: 504e515080000000  pos:0 ino:1f sdev:9";
        let expected = Registration { epoll: 3, events: 0x19, data: 0x504e_5150_8000_0000 };
        assert_eq!(parse(line, 3), Some((900, expected)));
        assert_eq!(parse(b"pos:\t0", 3), None);
        assert_eq!(parse(b"", 3), None);
    }

    #[test]
    fn the_kernels_list_is_found() {
        let epoll = sys::epoll_create(libc::EPOLL_CLOEXEC).expect("an epoll instance");
        let mut ends = [0; 2];
        // SAFETY: room for two descriptors.
        assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
        let mut many = Vec::new();
        for _ in 0..200 {
            let fd = sys::fcntl(ends[0], libc::F_DUPFD_CLOEXEC, 0).expect("a duplicate");
            sys::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, libc::EPOLLIN as u32, fd as u64).expect("registered");
            many.push(fd);
        }
        let mut seen = Vec::new();
        each(epoll, |fd, registration| {
            assert_eq!(registration.data, fd as u64);
            seen.push(fd);
            true
        });
        // A descriptor that another test closes meanwhile is given out again, below the others.
        many.sort_unstable();
        seen.sort_unstable();
        assert_eq!(seen, many);
    }
}
