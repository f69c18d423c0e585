//! What the preload library says: one line.

use super::pair::Family;
use pinnace::qmp::Patience;
use std::net::SocketAddr;
use std::str::Split;
use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Request {
    /// A stream to another host.
    Connect { family: Family, to: SocketAddr },
    /// The streams of other hosts, to be handed over at the abstract name.
    Listen { takes: Takes, at: SocketAddr, name: String },
    /// How long the other host of a stream may be silent.
    Bear { stream: u64, patience: Patience },
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
        if what == "BEAR" {
            return Self::bear(words);
        }
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

    fn bear(words: Split<'_, char>) -> Option<Self> {
        let numbers: Result<Vec<u64>, _> = words.map(str::parse).collect();
        let &[stream, is_on, idle, interval, count, user_millis] = numbers.ok()?.as_slice() else { return None };
        let seconds = Duration::from_secs;
        let count = u32::try_from(count).ok()?;
        let keep_alive = (is_on != 0).then_some((seconds(idle), seconds(interval), count));
        let user_timeout = (user_millis > 0).then_some(Duration::from_millis(user_millis));
        let patience = Patience::of_socket(keep_alive, user_timeout);
        Some(Self::Bear { stream, patience })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinnace::qmp::KeepAlive;

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
        for (times, keep_alive, unacknowledged) in [
            ("0 2 3 4 0", None, None),
            ("1 2 3 4 0", Some((2, 12)), None),
            ("0 2 3 4 1500", None, Some(1500)),
            ("1 2 3 4 1500", Some((2, 3)), Some(1500)),
            ("1 2 3 4 9000", Some((2, 9)), Some(9000)),
        ] {
            let seconds = Duration::from_secs;
            let keep_alive = keep_alive.map(|(idle, limit)| KeepAlive { idle: seconds(idle), limit: seconds(limit) });
            let patience = Patience { keep_alive, unacknowledged: unacknowledged.map(Duration::from_millis) };
            let line = format!("1 BEAR 7 {times}");
            assert_eq!(Request::parse(line.as_bytes()), Some(Request::Bear { stream: 7, patience }), "{times}");
        }
        for wrong in [
            "",
            "1",
            "2 CONNECT 4 192.0.2.1:80",
            "1 CONNECT 5 192.0.2.1:80",
            "1 CONNECT 4 192.0.2.1",
            "1 CONNECT 4 192.0.2.1:80 more",
            "1 LISTEN 4 192.0.2.1:80",
            "1 SPEAK 4 192.0.2.1:80 name",
            "1 BEAR 7 1 2 3 4",
            "1 BEAR 7 1 2 3 4 x",
        ] {
            assert_eq!(Request::parse(wrong.as_bytes()), None, "{wrong}");
        }
        assert_eq!(Request::parse(b"\xff"), None);
    }
}
