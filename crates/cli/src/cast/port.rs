//! Whether a UDP port is closed, as the system there says.
//!
//! Always true: who answers in time never sees the question; and the answer, which anybody can forge, ends no try.

use pinnace_wire::a1::{self, Header};
use std::io::ErrorKind;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Whoever is there on a short path has answered by then.
const FIRST: Duration = Duration::from_millis(50);
/// How often to look whether somebody has answered.
const STEP: Duration = Duration::from_millis(50);

/// A SYNC of a connection that nobody has: whoever is there drops it, and answers nothing.
fn question() -> Vec<u8> {
    let header = Header {
        connection: NonZeroU32::MAX,
        sequence: 0,
        edge: 0,
        stamp: 0,
        is_checked: false,
        is_retransmitted: false,
    };
    let mut bytes = Vec::new();
    a1::sync(&header, &mut bytes);
    bytes
}

/// Waits up to `patience` for the system at `address` to say that nobody has the port; false if it does not, or somebody
/// `is_answered` meanwhile. The socket that A1 uses cannot tell: it has many peers, and such a report does not say which.
pub(super) fn is_closed(address: SocketAddr, patience: Duration, is_answered: &AtomicBool) -> bool {
    let begun = Instant::now();
    std::thread::sleep(FIRST);
    let is_over = || is_answered.load(Ordering::Relaxed) || begun.elapsed() > patience;
    let any = match address {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    let asked = || {
        let socket = UdpSocket::bind(any)?;
        socket.connect(address)?;
        socket.set_read_timeout(Some(STEP))?;
        socket.send(&question()).map(|_| socket)
    };
    if is_over() {
        return false;
    }
    let Ok(socket) = asked() else { return false };
    while !is_over() {
        match socket.recv(&mut [0]) {
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => return true,
            Err(error) if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => return false,
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_port_is_told_from_one_that_says_nothing() {
        let open = UdpSocket::bind("127.0.0.1:0").unwrap();
        open.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let address = open.local_addr().unwrap();
        let nobody = AtomicBool::new(false);
        assert!(!is_closed(address, Duration::from_millis(200), &nobody), "it has the port");
        let mut bytes = [7; 40];
        let len = open.recv(&mut bytes).unwrap();
        let head = a1::Head::parse(&bytes[..len], len, false).expect("a datagram of A1");
        assert_eq!((head.kind, head.header.connection), (a1::Kind::Sync, NonZeroU32::MAX));
        // Who has answered is not asked.
        open.set_nonblocking(true).unwrap();
        assert!(!is_closed(address, Duration::from_secs(10), &AtomicBool::new(true)) && open.recv(&mut bytes).is_err());
        drop(open);
        assert!(is_closed(address, Duration::from_secs(10), &nobody));
    }
}
