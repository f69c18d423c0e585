//! What a descriptor is, written in the kernel: the abstract names of the Unix sockets.
//!
//! | name | socket |
//! |---|---|
//! | `pinnace/1L4/ADDR:PORT` | a listener of an IPv4 socket (`0.0.0.0`: any address) |
//! | `pinnace/1L6/[ADDR]:PORT` | a listener of an IPv6 socket that takes IPv6 only, or at one IPv6 address |
//! | `pinnace/1LD/[::]:PORT` | a listener of an IPv6 socket at any address, IPv4 too |
//! | `pinnace/1LM/ADDR:PORT` | a listener of an IPv6 socket at one IPv4-mapped address |
//! | `pinnace/1C4/FROM>TO`, `pinnace/1C6/FROM>TO` | who connects from a socket of that family, on this host |
//! | `pinnace/1R4/FROM>TO`, `pinnace/1R6/FROM>TO` | the application's end of a connection with another host |
//! | `pinnace/1H/...` | who hands over such an end |
//! | `pinnace/1E/...` | the other side of such an end, once everything that the other host said has been passed on |
//! | `pinnace/1T/...` | the same, once the other host has been silent for too long |
//!
//! A listener of several that share a port (SO_REUSEPORT) has `#` and a number behind it. The name of who connects is the
//! hello: it has the magic word, the version, and both internet addresses, and the kernel hands it over with the
//! connection. An accepted socket has the listener's name as its own and the connecting one's as its peer's, so both ends
//! know both addresses without a table, after fork, exec, dup and SCM_RIGHTS. Two connections never have the same pair of
//! addresses, because the kernel refuses the second name. Those with other hosts may: one port opens as many streams there as it
//! likes, and an accepted socket, as the application's end is one, does not keep its name from others.

use core::ffi::c_int;
use core::fmt::{self, Write};
use core::mem::offset_of;
use core::net::{IpAddr, SocketAddr};
use core::str;

/// The bytes before the name in a `sockaddr_un`: the family.
const PATH: usize = offset_of!(libc::sockaddr_un, sun_path);
const MAGIC: &str = "pinnace/";
const VERSION: &str = "1";
/// `sun_path`, without the zero byte that makes a name abstract.
const NAME_MAX: usize = 107;

/// Which internet addresses a program sees: those of an IPv4 or of an IPv6 socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

impl Family {
    /// Its number.
    pub(crate) fn domain(self) -> c_int {
        if self == Self::V4 { libc::AF_INET } else { libc::AF_INET6 }
    }
}

/// What a listener takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    V4,
    V6,
    Dual,
    Mapped,
}

impl Class {
    /// The family of the sockets that it gives.
    pub(crate) fn family(self) -> Family {
        if self == Self::V4 { Family::V4 } else { Family::V6 }
    }

    fn letter(self) -> char {
        match self {
            Self::V4 => '4',
            Self::V6 => '6',
            Self::Dual => 'D',
            Self::Mapped => 'M',
        }
    }
}

/// A socket's name. Addresses are never IPv4-mapped: the family says how a program sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    Listener { class: Class, at: SocketAddr, share: Option<u8> },
    Connection { family: Family, from: SocketAddr, to: SocketAddr, remote: bool },
    Handover,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Listener { class, at, share } => {
                write!(f, "{MAGIC}{VERSION}L{}/{at}", class.letter())?;
                share.map_or(Ok(()), |share| write!(f, "#{share}"))
            }
            Self::Handover => write!(f, "{MAGIC}{VERSION}H/"),
            Self::Connection { family, from, to, remote } => {
                let kind = if remote { 'R' } else { 'C' };
                let family = if family == Family::V4 { '4' } else { '6' };
                write!(f, "{MAGIC}{VERSION}{kind}{family}/{from}>{to}")
            }
        }
    }
}

/// The bytes of a `sockaddr_un` with an abstract name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnixAddress {
    bytes: [u8; PATH + 1 + NAME_MAX],
    len: usize,
}

impl UnixAddress {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// An abstract name that is not one of ours to read (the companion's).
    pub(crate) fn new(name: impl fmt::Display) -> Self {
        let mut address = Self { bytes: [0; PATH + 1 + NAME_MAX], len: PATH + 1 };
        address.bytes[..PATH].copy_from_slice(&(libc::AF_UNIX as libc::sa_family_t).to_ne_bytes());
        // The longest of our names fits exactly (see the tests); of a longer one the beginning counts.
        let _ = write!(address, "{name}");
        address
    }
}

impl Write for UnixAddress {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.bytes.len() - self.len;
        let part = text.as_bytes().get(..room).unwrap_or(text.as_bytes());
        self.bytes[self.len..self.len + part.len()].copy_from_slice(part);
        self.len += part.len();
        if part.len() == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

impl Name {
    pub(crate) fn address(&self) -> UnixAddress {
        UnixAddress::new(self)
    }

    /// Reads the bytes of a socket address: `None` if the socket is not one of ours.
    pub(crate) fn parse(address: &[u8]) -> Option<Self> {
        let (family, path) = address.split_at_checked(PATH)?;
        if family != (libc::AF_UNIX as libc::sa_family_t).to_ne_bytes() {
            return None;
        }
        let text = str::from_utf8(path.strip_prefix(&[0])?).ok()?;
        let text = text.strip_prefix(MAGIC)?.strip_prefix(VERSION)?;
        let (kind, text) = text.split_once('/')?;
        let family = match kind {
            "C4" | "R4" => Family::V4,
            "C6" | "R6" => Family::V6,
            "H" => return Some(Self::Handover),
            "L4" => return Self::listener(Class::V4, text),
            "L6" => return Self::listener(Class::V6, text),
            "LD" => return Self::listener(Class::Dual, text),
            "LM" => return Self::listener(Class::Mapped, text),
            _ => return None,
        };
        let (from, to) = text.split_once('>')?;
        let (from, to) = (from.parse::<SocketAddr>().ok()?, to.parse::<SocketAddr>().ok()?);
        let fits = match (from.ip(), to.ip()) {
            (IpAddr::V4(_), IpAddr::V4(_)) => true,
            (IpAddr::V6(_), IpAddr::V6(_)) => family == Family::V6,
            _ => false,
        };
        (fits && from.port() != 0 && to.port() != 0).then_some(Self::Connection {
            family,
            from,
            to,
            remote: kind.starts_with('R'),
        })
    }

    fn listener(class: Class, text: &str) -> Option<Self> {
        let (at, share) = match text.split_once('#') {
            Some((at, share)) => (at, Some(share.parse().ok()?)),
            None => (text, None),
        };
        Some(Self::Listener { class, at: at.parse().ok()?, share })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection(family: Family, from: &str, to: &str) -> Name {
        let (from, to) = (from.parse().expect("an address"), to.parse().expect("an address"));
        Name::Connection { family, from, to, remote: false }
    }

    #[test]
    fn names_are_read_as_they_were_written() {
        let long = "[1111:2222:3333:4444:5555:6666:7777:8888]:65535";
        for name in [
            connection(Family::V4, "127.0.0.1:40000", "127.0.0.1:80"),
            connection(Family::V6, "127.0.0.1:40000", "127.0.0.1:80"),
            connection(Family::V6, long, long),
            Name::Listener { class: Class::V4, at: "0.0.0.0:80".parse().expect("an address"), share: None },
            Name::Listener { class: Class::V6, at: long.parse().expect("an address"), share: Some(63) },
            Name::Listener { class: Class::Dual, at: "[::]:80".parse().expect("an address"), share: None },
            Name::Listener { class: Class::Mapped, at: "10.0.0.1:80".parse().expect("an address"), share: None },
        ] {
            let address = name.address();
            assert_eq!(Name::parse(address.bytes()), Some(name), "{name}");
            for len in 0..address.bytes().len() {
                assert_ne!(Name::parse(&address.bytes()[..len]), Some(name), "{name} cut at {len}");
            }
        }
    }

    #[test]
    fn the_longest_name_fits() {
        let long = "[1111:2222:3333:4444:5555:6666:7777:8888]:65535";
        assert_eq!(connection(Family::V6, long, long).to_string().len(), NAME_MAX);
    }

    #[test]
    fn names_of_others_are_nobodys() {
        for text in [
            "",
            "pinnace/",
            "pinnace/2C4/127.0.0.1:1>127.0.0.1:2",
            "pinnace/1C4/127.0.0.1:1",
            "pinnace/1C4/127.0.0.1:0>127.0.0.1:2",
            "pinnace/1C4/[::1]:1>[::1]:2",
            "pinnace/1C6/[::1]:1>127.0.0.1:2",
            "pinnace/1X4/127.0.0.1:1>127.0.0.1:2",
            "pinnace/1L4/127.0.0.1",
            "pinnace/1L4/127.0.0.1:1#x",
        ] {
            assert_eq!(Name::parse(UnixAddress::new(text).bytes()), None, "{text}");
        }
        assert_eq!(Name::parse(b"\x02\0\0\x50"), None);
    }
}
