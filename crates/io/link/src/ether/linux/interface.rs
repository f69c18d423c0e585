//! What the kernel says of a network interface, asked through a socket: so that a link asks in its own network namespace,
//! whichever thread drives it.

use std::ffi::CStr;
use std::io;
use std::os::fd::RawFd;

use crate::ether::{Mac, absent};

/// An Ethernet interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Interface {
    /// What the kernel calls it, whatever it becomes known as.
    pub(super) index: u32,
    pub(super) name: String,
    pub(super) mac: Mac,
    /// Bytes of payload that a frame may have.
    pub(super) mtu: usize,
    pub(super) is_up: bool,
}

impl Interface {
    /// The interface called `name`, which may be one of its alternative names.
    pub(super) fn find(socket: RawFd, name: &str) -> io::Result<Self> {
        let mut request = Request::named(name).ok_or_else(|| absent(name))?;
        request.ask(socket, libc::SIOCGIFINDEX).map_err(|error| match error.raw_os_error() {
            Some(libc::ENODEV | libc::ENXIO) => absent(name),
            _ => error,
        })?;
        Self::of_index(socket, request.index())?.ok_or_else(|| absent(name))
    }

    /// The interface that has this index; None if it is gone.
    pub(super) fn of_index(socket: RawFd, index: u32) -> io::Result<Option<Self>> {
        match Self::describe(socket, index) {
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ENXIO)) => Ok(None),
            other => other.map(Some),
        }
    }

    fn describe(socket: RawFd, index: u32) -> io::Result<Self> {
        let mut request = Request::indexed(index);
        request.ask(socket, libc::SIOCGIFNAME)?;
        let name = request.name();
        request.ask(socket, libc::SIOCGIFHWADDR)?;
        let mac = request.mac().ok_or_else(|| {
            let text = format!("the interface {name} is not Ethernet (`ip link` says what it is)");
            io::Error::new(io::ErrorKind::InvalidInput, text)
        })?;
        request.ask(socket, libc::SIOCGIFMTU)?;
        let mtu = request.mtu();
        request.ask(socket, libc::SIOCGIFFLAGS)?;
        Ok(Self { index, name, mac, mtu, is_up: request.is_up() })
    }
}

/// Room for one question and its answer.
struct Request(libc::ifreq);

impl Request {
    fn empty() -> Self {
        // SAFETY: all zeros is a valid `ifreq`: an empty name, and integers.
        Self(unsafe { std::mem::zeroed() })
    }

    /// None if no interface can have this name.
    fn named(name: &str) -> Option<Self> {
        let mut request = Self::empty();
        // One byte stays 0: the end of the name.
        let room = request.0.ifr_name.len() - 1;
        // A colon would name an address of the interface, in the old way.
        if name.is_empty() || name.len() > room || name.contains(['\0', ':']) {
            return None;
        }
        for (to, byte) in request.0.ifr_name.iter_mut().zip(name.bytes()) {
            *to = byte as libc::c_char;
        }
        Some(request)
    }

    fn indexed(index: u32) -> Self {
        let mut request = Self::empty();
        request.0.ifr_ifru.ifru_ifindex = index.cast_signed();
        request
    }

    fn ask(&mut self, socket: RawFd, what: libc::c_ulong) -> io::Result<()> {
        // SAFETY: the questions of this module read and write one `ifreq`.
        let done = unsafe { libc::ioctl(socket, what as _, &raw mut self.0) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    fn name(&self) -> String {
        let bytes = self.0.ifr_name.map(|byte| byte as u8);
        CStr::from_bytes_until_nul(&bytes).unwrap_or_default().to_string_lossy().into_owned()
    }

    fn index(&self) -> u32 {
        // SAFETY: every member of the union is made of integers; all bytes are initialised.
        unsafe { self.0.ifr_ifru.ifru_ifindex }.cast_unsigned()
    }

    fn mtu(&self) -> usize {
        // SAFETY: as in `index`.
        usize::try_from(unsafe { self.0.ifr_ifru.ifru_mtu }).unwrap_or(0)
    }

    fn is_up(&self) -> bool {
        // SAFETY: as in `index`.
        let flags = unsafe { self.0.ifr_ifru.ifru_flags };
        libc::c_int::from(flags) & libc::IFF_UP != 0
    }

    /// None if the interface is not Ethernet.
    fn mac(&self) -> Option<Mac> {
        // SAFETY: as in `index`.
        let address = unsafe { self.0.ifr_ifru.ifru_hwaddr };
        let mac = address.sa_data.map(|byte| byte as u8).first_chunk().copied();
        mac.filter(|_| address.sa_family == libc::ARPHRD_ETHER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsRawFd;

    #[test]
    fn what_is_no_ethernet_interface_is_refused_in_words() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let find = |name: &str| Interface::find(socket.as_raw_fd(), name).unwrap_err();
        for name in ["", "nosuch0", "a name that is too long", "lo:1", "l\0o"] {
            let error = find(name);
            assert_eq!(error.kind(), io::ErrorKind::NotFound, "{name:?}");
            assert!(error.to_string().contains("`ip link` lists them"), "{error}");
        }
        let error = find("lo");
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert!(error.to_string().contains("lo is not Ethernet"), "{error}");
        assert_eq!(Interface::of_index(socket.as_raw_fd(), 0x7FFF_FFFF).unwrap(), None);
    }
}
