//! Addresses and ports that no other test meets: what the system chooses (port 0) it also gives to whoever asks next.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU16, Ordering};

/// An address of this host where nobody listens: a [free] port, on a loopback address that only this process uses where there
/// are others than 127.0.0.1 (Linux).
///
/// # Panics
///
/// There is none.
pub fn nobody() -> SocketAddr {
    let id = std::process::id();
    let host = if cfg!(target_os = "linux") {
        // Above those that tests name: 127.0.0.0 to 127.0.9.255.
        Ipv4Addr::new(127, 100 + (id >> 16) as u8 % 100, (id >> 8) as u8, id as u8 % 254 + 1)
    } else {
        Ipv4Addr::LOCALHOST
    };
    (host, free()).into()
}

/// A port that nobody has, of UDP or TCP, and that the system gives to nobody by itself: below those that it chooses from.
///
/// # Panics
///
/// There is none.
pub fn free() -> u16 {
    const FIRST: u16 = 10_000;
    const COUNT: u16 = 20_000;
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let begin = (std::process::id().wrapping_mul(97) % u32::from(COUNT)) as u16;
    for _ in 0..COUNT {
        let port = FIRST + (begin + NEXT.fetch_add(1, Ordering::Relaxed) % COUNT) % COUNT;
        let any = (Ipv4Addr::UNSPECIFIED, port);
        if TcpListener::bind(any).is_ok() && UdpSocket::bind(any).is_ok() {
            return port;
        }
    }
    panic!("no free port");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_free_and_not_given_twice() {
        let (one, other) = (free(), free());
        assert_ne!(one, other);
        let held = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, one)).unwrap();
        assert!(TcpListener::bind((Ipv4Addr::UNSPECIFIED, one)).is_ok());
        assert_eq!(held.local_addr().unwrap().port(), one);
    }

    #[test]
    fn nobody_has_an_address_of_this_host() {
        let nobody = nobody();
        assert!(nobody.ip().is_loopback() && nobody.port() > 0);
        assert!(UdpSocket::bind(nobody).is_ok());
    }
}
