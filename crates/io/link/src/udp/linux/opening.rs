//! How a link comes to its socket: bound, connected to one peer, or lent by the caller.
//!
//! Always true: of a socket that the caller lends no option or flag is changed.

use super::UdpLink;
use super::unsegmented::Unsegmented;
use crate::LinkCounters;
use crate::sys::{
    self, Buffer, Control, Family, Name, Outgoing, canonical, datagram_family, foreign_family, halved, route,
};
use crate::udp::{Offload, PathMtu, UdpOptions};
use libc::c_int;
use pinnace_core::Ecn;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Reads that must find nothing before the socket cannot hold a datagram from before it was connected: the kernel may
/// still be delivering one that it looked up earlier.
const SETTLING_READS: u32 = 64;

impl UdpLink {
    /// A link on a new socket bound to `local`, which hears everybody.
    ///
    /// # Errors
    /// If the address cannot be bound.
    pub fn bind(local: SocketAddr, options: &UdpOptions) -> io::Result<Self> {
        let socket = if options.v6_only && local.is_ipv6() {
            Self::bind_with(local, (libc::SOL_IPV6, libc::IPV6_V6ONLY), Name::bind)?
        } else {
            UdpSocket::bind(local)?
        };
        Self::on(socket, options)
    }

    /// A link on a socket that is bound.
    pub(super) fn on(socket: UdpSocket, options: &UdpOptions) -> io::Result<Self> {
        let (fd, local) = (socket.as_raw_fd(), socket.local_addr()?);
        let family = if local.is_ipv4() { Family::V4 } else { Family::V6 };
        let mut link = Self::new(fd, fd, family, options);
        link.local = Some(canonical(local));
        link.socket = Some(socket);
        link.set_up(options)?;
        link.refresh_mtu();
        Ok(link)
    }

    /// A socket that has an `option` of a level before it is bound: sharing its port with others that have the same, or not
    /// taking what is another family's. `bind` does with its name what it says.
    pub(super) fn bind_with(
        at: SocketAddr,
        (level, option): (c_int, c_int),
        bind: impl FnOnce(&Name, RawFd) -> io::Result<()>,
    ) -> io::Result<UdpSocket> {
        let domain = if at.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
        // SAFETY: no pointers.
        let fd = unsafe { libc::socket(domain, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new, and nobody else's.
        let socket = unsafe { UdpSocket::from_raw_fd(fd) };
        sys::set_option(fd, level, option, 1)?;
        bind(&Name::new(at, at.is_ipv6()).ok_or(io::ErrorKind::InvalidInput)?, fd)?;
        Ok(socket)
    }

    /// A link to `peer` alone, from `local` or from wherever the system sees fit.
    ///
    /// # Errors
    /// If the address cannot be bound, or there is no way to the peer.
    pub fn connect(local: Option<SocketAddr>, peer: SocketAddr, options: &UdpOptions) -> io::Result<Self> {
        let any: IpAddr = if peer.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let mut link = Self::bind(local.unwrap_or(SocketAddr::new(any, 0)), options)?;
        link.connect_from(peer, None)?;
        Ok(link)
    }

    /// Makes `peer` the only one that this link talks with, from the address that it wrote to, if that was told
    /// ([`UdpOptions::local_address`]; it is not told any more). What others sent before is thrown away from now on.
    ///
    /// # Errors
    /// If there is no way to the peer, or if the descriptor is the caller's.
    pub fn connect_to(&mut self, peer: SocketAddr) -> io::Result<()> {
        let wrote_to = self.last_seen.filter(|(from, _)| *from == canonical(peer)).map(|(_, to)| to);
        self.connect_from(peer, wrote_to)?;
        // From now on it is always the same: not worth being told with every read.
        let _ = sys::set_option(self.read_fd, libc::SOL_IP, libc::IP_PKTINFO, 0);
        if self.family == Family::V6 {
            let _ = sys::set_option(self.read_fd, libc::SOL_IPV6, libc::IPV6_RECVPKTINFO, 0);
        }
        Ok(())
    }

    /// As [`UdpLink::connect_to`]; `local` is the local address that the peer knows us by ([`RxMeta::destination`](pinnace_core::RxMeta::destination)).
    ///
    /// # Errors
    /// If there is no way to the peer, or if the descriptor is the caller's.
    pub fn connect_from(&mut self, peer: SocketAddr, local: Option<IpAddr>) -> io::Result<()> {
        if self.socket.is_none() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "a caller's socket is not connected elsewhere"));
        }
        let peer = canonical(peer);
        self.to = self.name(peer)?;
        self.pinned = None;
        // A socket that is bound to every address would be bound by the kernel to the one that it routes from; if the
        // peer wrote to another of ours, its datagrams would be lost. Then the check of sources stays here.
        let bound_to_all = self.local.is_none_or(|local| local.ip().is_unspecified());
        if bound_to_all && let Some(local) = local {
            let routed_from = route(peer)?.0;
            if routed_from != local {
                self.pinned = Some(local);
            }
        }
        self.connected = self.pinned.is_none();
        if self.connected {
            self.to.connect(self.write_fd)?;
            self.local = Name::own(self.write_fd)?.address();
        }
        self.peer = Some(peer);
        self.settling = SETTLING_READS;
        self.out.forget();
        self.refresh_mtu();
        Ok(())
    }

    /// A link over a connected datagram socket of the caller (UDP, or AF_UNIX), of which no option or flag is changed.
    /// Without `UDP_GRO` on it a read brings one datagram.
    ///
    /// # Errors
    /// If it is no connected datagram socket.
    ///
    /// # Safety
    /// `fd` must stay open as long as the link lives.
    pub unsafe fn from_borrowed_fd(fd: RawFd, options: &UdpOptions) -> io::Result<Self> {
        // SAFETY: the caller's promise.
        unsafe { Self::from_descriptors(fd, fd, options) }
    }

    /// As [`UdpLink::from_borrowed_fd`], reading from one socket and writing to another.
    ///
    /// # Errors
    /// If one of them is no connected datagram socket.
    ///
    /// # Safety
    /// Both must stay open as long as the link lives.
    pub unsafe fn from_descriptors(read_fd: RawFd, write_fd: RawFd, options: &UdpOptions) -> io::Result<Self> {
        let read_family = foreign_family(read_fd)?;
        let family = if read_fd == write_fd { read_family } else { foreign_family(write_fd)? };
        let mut link = Self::new(read_fd, write_fd, family, options);
        link.connected = true;
        link.path_mtu = PathMtu::System;
        link.peer = Name::peer(read_fd)?.address();
        link.local = Name::own(read_fd)?.address();
        link.settling = if link.peer.is_some() { SETTLING_READS } else { 0 };
        link.coalescing =
            read_family != Family::Unix && sys::option(read_fd, libc::SOL_UDP, sys::UDP_GRO).is_ok_and(|on| on != 0);
        link.heeds_control = read_family != Family::Unix;
        if family == Family::Unix {
            link.segments = 1;
        }
        link.receive_buffer = halved(sys::option(read_fd, libc::SOL_SOCKET, libc::SO_RCVBUF));
        link.refresh_mtu();
        Ok(link)
    }

    /// The same, of sockets that are closed with the link.
    ///
    /// # Errors
    /// If one of them is no connected datagram socket.
    pub fn from_sockets(read: OwnedFd, write: OwnedFd, options: &UdpOptions) -> io::Result<Self> {
        // SAFETY: the link keeps both.
        let mut link = unsafe { Self::from_descriptors(read.as_raw_fd(), write.as_raw_fd(), options)? };
        link.kept = Some([read, write]);
        Ok(link)
    }

    /// A link over a bound UDP socket of the caller that has no peer, and hears everybody. Of it, too, no option or flag is
    /// changed.
    ///
    /// # Errors
    /// If it is no UDP socket.
    ///
    /// # Safety
    /// `fd` must stay open as long as the link lives.
    pub unsafe fn from_unconnected_fd(fd: RawFd, options: &UdpOptions) -> io::Result<Self> {
        let family = datagram_family(fd)?;
        if family == Family::Unix {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("descriptor {fd} is no UDP socket")));
        }
        let mut link = Self::new(fd, fd, family, options);
        link.path_mtu = PathMtu::System;
        link.local = Name::own(fd)?.address();
        link.coalescing = sys::option(fd, libc::SOL_UDP, sys::UDP_GRO).is_ok_and(|on| on != 0);
        link.receive_buffer = halved(sys::option(fd, libc::SOL_SOCKET, libc::SO_RCVBUF));
        link.refresh_mtu();
        Ok(link)
    }

    fn new(read_fd: RawFd, write_fd: RawFd, family: Family, options: &UdpOptions) -> Self {
        let offload = if options.offload { Offload::of_this_kernel() } else { Offload::NONE };
        Self {
            read_fd,
            write_fd,
            socket: None,
            kept: None,
            family,
            local: None,
            peer: None,
            connected: false,
            settling: 0,
            pinned: None,
            last_seen: None,
            path_mtu: options.path_mtu,
            busy_poll: options.busy_poll,
            max_datagram: 0,
            segments: offload.segments,
            coalescing: offload.coalescing,
            heeds_control: true,
            unsegmented: Unsegmented::default(),
            ecn: options.ecn,
            marks: Ecn::NotCapable,
            marks_differ: false,
            stage_below: options.stage_below,
            receive_buffer: 0,
            warnings: Vec::new(),
            counters: LinkCounters::default(),
            last_drops: 0,
            empty_looks: 0,
            to: Name::room(),
            from: Name::room(),
            out: Outgoing::new(),
            control: Control::new(),
        }
    }

    /// Sets the options of a socket of our own. Those that only make things better may fail.
    fn set_up(&mut self, options: &UdpOptions) -> io::Result<()> {
        let fd = self.read_fd;
        let set = |level, name, value| sys::set_option(fd, level, name, value);
        if self.coalescing {
            self.coalescing = set(libc::SOL_UDP, sys::UDP_GRO, 1).is_ok();
        }
        let _ = set(libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1);
        let to_all = options.local_address && self.local.is_none_or(|local| local.ip().is_unspecified());
        // An IPv6 socket may carry IPv4 too; if it cannot, these fail and nothing is missing.
        if options.ecn {
            let _ = set(libc::SOL_IP, libc::IP_RECVTOS, 1);
        }
        if self.family == Family::V4 && to_all {
            set(libc::SOL_IP, libc::IP_PKTINFO, 1)?;
        }
        if self.family == Family::V6 {
            if options.ecn {
                let _ = set(libc::SOL_IPV6, libc::IPV6_RECVTCLASS, 1);
            }
            if to_all {
                set(libc::SOL_IPV6, libc::IPV6_RECVPKTINFO, 1)?;
            }
        }
        sys::discover(self.write_fd, self.family, options.path_mtu)?;
        if let Some(budget) = options.busy_poll {
            let micros = c_int::try_from(budget.as_micros()).unwrap_or(c_int::MAX);
            if let Err(error) = set(libc::SOL_SOCKET, libc::SO_BUSY_POLL, micros) {
                self.warnings.push(format!(
                    "only who waits polls the device, reads do not (SO_BUSY_POLL: {error}): run as root, or `sysctl -w net.core.busy_read={micros}`"
                ));
            }
        }
        self.receive_buffer = sys::size_buffer(fd, options.receive_buffer, Buffer::Receive, &mut self.warnings);
        sys::size_buffer(fd, options.send_buffer, Buffer::Send, &mut self.warnings);
        Ok(())
    }
}
