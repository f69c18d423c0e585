//! The method `zcrp`: requests as ZCRP messages. Loses nothing.
//!
//! ZCRP joins two sockets that know each other and puts messages into buffers of the right size, so two things come
//! before: a TCP connection to the endpoint's address, over which the UDP ports are agreed, and for each request a *head*
//! that tells its size. The connection stays open as long as the way; its end is how either side learns that the other
//! has gone.
//!
//! | over TCP | bytes |
//! |---|---|
//! | client: hello | `"RSRZ"`, version u8 = 1, 0 u8, UDP port u16 |
//! | server: answer | `"RSRZ"`, version u8 = 1, status u8 (0 ready, 1 too many peers), UDP port u16, largest request u32 |
//!
//! Numbers are big-endian. A request is one ZCRP message, its size (u32) and its bytes, if it has at most
//! [`INLINE_BYTES`]; otherwise a message with the size alone, and one with the bytes.
//!
//! Always true: a way has one sender and one receiver, so heads and bodies alternate as they should.

mod client;
mod server;

use super::Cause;
use super::method::{Incoming, Method, Outgoing, Sink};
use crate::network::canonical;
use crate::zcrp::Options;
use std::io;
use std::net::{TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of a request that fit beside its size.
const INLINE_BYTES: usize = 4092;
/// Bytes of a request's size.
const SIZE_BYTES: usize = 4;
/// How long the peer may take over the agreement.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// How often it is looked whether the peer has gone while nothing comes of it.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

const MAGIC: [u8; 4] = *b"RSRZ";
const VERSION: u8 = 1;

/// The method `zcrp`.
#[derive(Clone, Debug)]
pub struct Zcrp {
    /// Settings of the protocol.
    pub options: Options,
    /// The largest request that an endpoint takes, in bytes with its header: 256 MiB. Twice as much may be on its way in,
    /// from all peers together.
    pub most_request_bytes: u32,
}

impl Default for Zcrp {
    fn default() -> Self {
        Self { options: Options::default(), most_request_bytes: 256 << 20 }
    }
}

impl Method for Zcrp {
    fn name(&self) -> &str {
        "zcrp"
    }

    fn connect(&self, address: &str, _options: &str) -> Result<Arc<dyn Outgoing>, Cause> {
        client::connect(address, &self.options)
    }

    fn listen(&self, address: &str, sink: Sink) -> Result<Box<dyn Incoming>, Cause> {
        Ok(Box::new(server::listen(address, sink, self)?))
    }
}

/// A UDP socket beside a TCP connection: at the same address of this host.
fn socket_beside(control: &TcpStream) -> io::Result<UdpSocket> {
    let mut local = canonical(control.local_addr()?);
    local.set_port(0);
    UdpSocket::bind(local)
}

/// Joins the socket to the peer's, which has this port.
fn join(socket: &UdpSocket, control: &TcpStream, port: u16) -> io::Result<[OwnedFd; 2]> {
    let mut peer = canonical(control.peer_addr()?);
    peer.set_port(port);
    socket.connect(peer)?;
    Ok([socket.try_clone()?.into(), socket.try_clone()?.into()])
}

/// Whether the peer has closed the connection, or keeps to nothing. It must not block.
fn has_gone(control: &TcpStream) -> bool {
    match control.peek(&mut [0]) {
        // Its end; or it says something, as nobody does after the agreement: behind that no end would be seen.
        Ok(_) => true,
        Err(error) => !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::TcpListener;
    use std::time::Instant;

    #[test]
    fn who_says_more_than_was_agreed_and_goes_has_gone() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut theirs = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (ours, _) = listener.accept().unwrap();
        ours.set_nonblocking(true).unwrap();
        assert!(!has_gone(&ours));
        theirs.write_all(b"x").unwrap();
        drop(theirs);
        let begun = Instant::now();
        while !has_gone(&ours) {
            assert!(begun.elapsed() < Duration::from_secs(5), "it keeps its place for ever");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
