//! Several sockets on one port: one hears everybody, and each of its peers has a socket of its own.
//!
//! Always true: the port is shared by SO_REUSEPORT, which the kernel allows to nobody but the same user, and who does not ask for it is
//! told that the port is taken; the socket that hears everybody asks for it only while another one is bound, so that the kernel
//! deals nothing of what is for it to the others.

use super::{UdpLink, canonical};
use crate::UdpOptions;
use crate::sys::{self, Name};
use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::os::fd::RawFd;

/// Datagrams of others that a peer's own link may have got, at most; a flood of them is not worth more.
const MOST_STRAYS: usize = 1024;
/// Bytes of each that are told.
const STRAY_BYTES: usize = 64;

impl UdpLink {
    /// A link bound to `at`, beside others that are.
    pub(in crate::udp) fn bind_shared(at: SocketAddr, options: &UdpOptions) -> io::Result<Self> {
        Self::on(Self::bind_with(at, (libc::SOL_SOCKET, libc::SO_REUSEADDR), Name::bind)?, options)
    }

    /// A link to `peer` alone, on the port of this one, which goes on hearing everybody else: from the address that the peer wrote
    /// to, if it sent what was read last and that was told ([`UdpOptions::local_address`]).
    ///
    /// # Errors
    /// If this link's descriptor is the caller's, if the address cannot be bound, or if there is no way to the peer.
    pub fn connect_beside(&self, peer: SocketAddr, options: &UdpOptions) -> io::Result<Self> {
        self.connect_beside_while(peer, options, || ())
    }

    /// The same, where something happens between its being bound and its being connected.
    fn connect_beside_while(&self, peer: SocketAddr, options: &UdpOptions, happens: impl FnOnce()) -> io::Result<Self> {
        let bound = self.local.ok_or(io::ErrorKind::Unsupported)?;
        let wrote_to = self.last_seen.filter(|(from, _)| *from == canonical(peer)).map(|(_, to)| to);
        let local = match (wrote_to, canonical(peer)) {
            (Some(IpAddr::V6(ip)), SocketAddr::V6(peer)) => {
                SocketAddrV6::new(ip, bound.port(), 0, peer.scope_id()).into()
            }
            (Some(ip), _) => SocketAddr::new(ip, bound.port()),
            (None, _) => bound,
        };
        let to = Name::new(canonical(peer), local.is_ipv6()).ok_or(io::ErrorKind::InvalidInput)?;
        // While it is bound and has no peer, the kernel takes it for the one that hears everybody.
        let mut link = self.beside(local, options, |fd| {
            happens();
            to.connect(fd)
        })?;
        link.connect_from(peer, None)?;
        Ok(link)
    }

    /// Takes what others have sent to this peer's [own](UdpLink::connect_beside) link while it was not connected yet, as far as
    /// that is before what the peer has sent: `each` is told who, and what, whole or the first 64 bytes.
    pub fn take_strays(&mut self, mut each: impl FnMut(SocketAddr, &[u8])) {
        for _ in 0..MOST_STRAYS {
            let mut bytes = [0; STRAY_BYTES];
            match self.look_at_next(&mut bytes, libc::MSG_PEEK) {
                Some((from, _)) if Some(from) != self.peer => {}
                _ => break,
            }
            let Some((from, len)) = self.look_at_next(&mut bytes, 0) else { break };
            each(from, &bytes[..len]);
        }
    }

    /// Who sent what is next, and how much of it was written to `bytes`.
    fn look_at_next(&self, bytes: &mut [u8], flags: libc::c_int) -> Option<(SocketAddr, usize)> {
        let mut name = Name::room();
        let mut header = sys::header();
        name.attach(&mut header);
        let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        (header.msg_iov, header.msg_iovlen) = (&raw mut part, 1);
        // SAFETY: the header points to `name` and to `part`, and that to `bytes`; all stay where they are.
        let read = unsafe { sys::receive_message(self.read_fd, &mut header, flags | libc::MSG_DONTWAIT) };
        Some((name.address()?, usize::try_from(read).ok()?))
    }

    /// Whether what is read next from this link came from `peer`: what came before that had a link of its own waits here.
    pub fn next_is_from(&self, peer: SocketAddr) -> bool {
        self.look_at_next(&mut [], libc::MSG_PEEK).is_some_and(|(from, _)| from == canonical(peer))
    }

    /// A link that hears everybody at `bound` in the place of this one, which was bound there and is to be closed.
    ///
    /// # Errors
    /// If this link's descriptor is the caller's, or if the address cannot be bound.
    pub fn bind_again(&self, bound: SocketAddr, options: &UdpOptions) -> io::Result<Self> {
        let link = self.beside(bound, options, |_| Ok(()))?;
        share(link.read_fd, 0)?;
        Ok(link)
    }

    /// A link bound to `at`, with whose socket `at_once` does what cannot wait until it is set up.
    fn beside(
        &self,
        at: SocketAddr,
        options: &UdpOptions,
        at_once: impl FnOnce(RawFd) -> io::Result<()>,
    ) -> io::Result<Self> {
        if self.socket.is_none() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "a caller's socket shares no port"));
        }
        let socket = Self::bind_with(at, (libc::SOL_SOCKET, libc::SO_REUSEPORT), |name, fd| {
            share(self.read_fd, 1)?;
            let bound = name.bind(fd).and_then(|()| at_once(fd));
            share(self.read_fd, 0)?;
            bound
        })?;
        Self::on(socket, options)
    }
}

fn share(fd: RawFd, on: libc::c_int) -> io::Result<()> {
    sys::set_option(fd, libc::SOL_SOCKET, libc::SO_REUSEPORT, on)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn what_others_send_to_a_link_that_is_not_connected_yet_is_not_lost() {
        for (listen, at) in [("127.0.0.1:0", "127.0.0.1"), ("0.0.0.0:0", "127.0.0.2"), ("[::1]:0", "::1")] {
            let options = UdpOptions { local_address: true, ..UdpOptions::default() };
            let mut listening = UdpLink::bind(listen.parse().unwrap(), &options).unwrap();
            let to = SocketAddr::new(at.parse().unwrap(), listening.local.unwrap().port());
            let socket = || UdpSocket::bind(SocketAddr::new(at.parse().unwrap(), 0)).unwrap();
            let (peer, strangers) = (socket(), [socket(), socket(), socket()]);
            // It wrote to this address.
            listening.last_seen = Some((peer.local_addr().unwrap(), to.ip()));
            let longer = [7; STRAY_BYTES + 1];
            let said: [&[u8]; 3] = [b"one", b"", &longer];
            let send = || {
                for (stranger, said) in strangers.iter().zip(said) {
                    stranger.send_to(said, to).unwrap();
                }
            };
            let mut own = listening.connect_beside_while(peer.local_addr().unwrap(), &options, send).unwrap();
            peer.send_to(b"from the peer", to).unwrap();
            let mut strays = Vec::new();
            own.take_strays(|from, bytes| strays.push((from, bytes.to_vec())));
            // Those that the kernel has dealt to the one that hears everybody are there.
            let mut bytes = [0; STRAY_BYTES];
            while let Some((from, len)) = listening.look_at_next(&mut bytes, 0) {
                strays.push((from, bytes[..len].to_vec()));
            }
            strays.sort();
            let said = said.map(|said| said[..said.len().min(STRAY_BYTES)].to_vec());
            let mut expected: Vec<_> =
                strangers.iter().map(|stranger| stranger.local_addr().unwrap()).zip(said).collect();
            expected.sort();
            assert_eq!(strays, expected, "{listen}");
            assert!(own.next_is_from(peer.local_addr().unwrap()), "{listen}");
        }
    }
}
