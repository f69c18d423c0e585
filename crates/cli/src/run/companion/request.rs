//! What the preload library says: one line.

use super::pair::Family;
use std::net::SocketAddr;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// A stream to another host.
    Connect { family: Family, to: SocketAddr },
    /// The streams of other hosts, to be handed over at the abstract name.
    Listen { takes: Takes, at: SocketAddr, name: String },
}

/// Whose streams a listener takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Takes {
    V4,
    V6,
    /// Those of IPv4 too, as IPv6 has them.
    Both,
}

impl Takes {
    /// The family of the sockets that it gives.
    pub(super) fn family(self) -> Family {
        if self == Self::V4 { Family::V4 } else { Family::V6 }
    }
}

const VERSION: &str = "1";

impl Request {
    pub(super) fn parse(line: &[u8]) -> Option<Self> {
        let mut words = std::str::from_utf8(line).ok()?.split(' ');
        if words.next()? != VERSION {
            return None;
        }
        let what = words.next()?;
        let takes = match words.next()? {
            "4" => Takes::V4,
            "6" => Takes::V6,
            "D" => Takes::Both,
            _ => return None,
        };
        let address = words.next()?.parse().ok()?;
        let name = words.next().map(str::to_owned);
        match (what, name, words.next()) {
            ("CONNECT", None, None) => Some(Self::Connect { family: takes.family(), to: address }),
            ("LISTEN", Some(name), None) => Some(Self::Listen { takes, at: address, name }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read() {
        assert_eq!(
            Request::parse(b"1 CONNECT 4 192.0.2.1:80"),
            Some(Request::Connect { family: Family::V4, to: SocketAddr::from(([192, 0, 2, 1], 80)) })
        );
        assert_eq!(
            Request::parse(b"1 LISTEN D [::]:80 pinnace/1LD/[::]:80"),
            Some(Request::Listen {
                takes: Takes::Both,
                at: "[::]:80".parse().expect("an address"),
                name: "pinnace/1LD/[::]:80".into()
            })
        );
        for wrong in [
            "",
            "1",
            "2 CONNECT 4 192.0.2.1:80",
            "1 CONNECT 5 192.0.2.1:80",
            "1 CONNECT 4 192.0.2.1",
            "1 CONNECT 4 192.0.2.1:80 more",
            "1 LISTEN 4 192.0.2.1:80",
            "1 SPEAK 4 192.0.2.1:80 name",
        ] {
            assert_eq!(Request::parse(wrong.as_bytes()), None, "{wrong}");
        }
        assert_eq!(Request::parse(b"\xff"), None);
    }
}
