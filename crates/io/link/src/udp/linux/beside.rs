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
        // While it is bound and has no peer, the kernel takes it for the one that hears everybody, and what comes then is lost.
        let mut link = self.beside(local, options, |fd| to.connect(fd))?;
        link.connect_from(peer, None)?;
        Ok(link)
    }

    /// Whether what is read next from this link came from `peer`: what came before that had a link of its own waits here.
    pub fn next_is_from(&self, peer: SocketAddr) -> bool {
        let mut name = Name::room();
        let mut header = sys::header();
        name.attach(&mut header);
        // SAFETY: the header points to `name` alone, which stays where it is.
        let read = unsafe { sys::receive_message(self.read_fd, &mut header, libc::MSG_PEEK | libc::MSG_DONTWAIT) };
        read >= 0 && name.address() == Some(canonical(peer))
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
