//! A client that says what it wants.

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    SocketAddrUnix, SocketFlags, SocketType, recvmsg, sendmsg,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

pub(crate) const BYTES: usize = 256;

pub(crate) const HELLO: u16 = 1;
pub(crate) const ATTACH: u16 = 2;
pub(crate) const LISTEN: u16 = 3;
pub(crate) const CONNECT: u16 = 4;
pub(crate) const TOTALS: u16 = 5;
pub(crate) const WELCOME: u16 = 0x101;
pub(crate) const REFUSED: u16 = 0x107;

/// A message, as the protocol's table says.
pub(crate) fn message(version: u16, kind: u16, body: &[u8]) -> Vec<u8> {
    let mut bytes = [&b"PnDm"[..], &version.to_le_bytes(), &kind.to_le_bytes(), body].concat();
    bytes.resize(BYTES, 0);
    bytes
}

pub(crate) struct Raw(pub(crate) OwnedFd);

impl Raw {
    pub(crate) fn connect(path: &Path) -> Self {
        let socket =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        rustix::net::connect(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
        let patience = Some(Duration::from_secs(30));
        rustix::net::sockopt::set_socket_timeout(&socket, rustix::net::sockopt::Timeout::Recv, patience).unwrap();
        Self(socket)
    }

    /// False: the daemon has hung up.
    pub(crate) fn send(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> bool {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(fds.is_empty() || control.push(SendAncillaryMessage::ScmRights(fds)));
        sendmsg(&self.0, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL).is_ok()
    }

    /// The kind of the next message, and what follows it; `None`: the daemon has hung up.
    pub(crate) fn receive(&self) -> Option<(u16, Vec<u8>)> {
        let mut bytes = vec![0; BYTES];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        match recvmsg(&self.0, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC) {
            Ok(found) if found.bytes == 0 => None,
            Ok(found) => {
                assert_eq!(found.bytes, BYTES);
                Some((u16::from_le_bytes([bytes[6], bytes[7]]), bytes[8..].to_vec()))
            }
            Err(rustix::io::Errno::CONNRESET) => None,
            Err(error) => panic!("the daemon neither answers nor hangs up: {error}"),
        }
    }

    pub(crate) fn ask(&self, kind: u16, body: &[u8]) -> Option<(u16, Vec<u8>)> {
        self.send(&message(2, kind, body), &[]);
        self.receive()
    }

    /// Whether the daemon hangs up, after answers that nobody minds.
    pub(crate) fn is_dropped(&self) -> bool {
        (0..100_000).any(|_| self.receive().is_none())
    }
}
