//! Groups: UDP links that hear what is sent to many.
//!
//! A [`UdpLink`] can join groups on its own socket ([`UdpLink::join_multicast`]): then it has to be bound to the group's
//! port on all addresses, and no two programs of a machine can have it. [`GroupLink`] has a second socket for what is sent
//! to the group, so that any number of programs of a machine are members, each with an address of its own.
//!
//! Always true: what this host sends to a group comes back to the members on this host.

use super::readable::Readable;
use super::{UdpLink, UdpOptions};
use crate::socket::set_option;
use crate::{BufferTable, Descriptors, Link, LinkCounters, ReadBuffer, ReadOutcome, SendOutcome};
use libc::c_int;
use pinnace_core::{Address, ReceivePlan, Train};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsRawFd;

/// How groups are reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MulticastOptions {
    /// The address of the interface (IPv4); unspecified: what the routes say.
    pub interface: Ipv4Addr,
    /// The index of the interface (IPv6); 0: what the routes say.
    pub interface_index: u32,
    /// How many routers a datagram to a group passes, and one more: 1 stays on the link.
    pub ttl: u8,
}

impl Default for MulticastOptions {
    fn default() -> Self {
        Self { interface: Ipv4Addr::UNSPECIFIED, interface_index: 0, ttl: 1 }
    }
}

impl UdpLink {
    /// Makes the link's socket a member of `group`, and sends what goes to groups by the same interface. What the link
    /// itself sends to the group comes back to the members of its host.
    ///
    /// # Errors
    /// If `group` is no multicast address of the socket's family, if there is no such interface, or if the descriptor is
    /// the caller's.
    pub fn join_multicast(&mut self, group: IpAddr, options: &MulticastOptions) -> io::Result<()> {
        let socket = self.own_socket()?;
        match group {
            IpAddr::V4(group) => socket.join_multicast_v4(&group, &options.interface)?,
            IpAddr::V6(group) => socket.join_multicast_v6(&group, options.interface_index)?,
        }
        self.send_multicast(group, options)
    }

    /// How datagrams to groups like `group` leave.
    pub(super) fn send_multicast(&mut self, group: IpAddr, options: &MulticastOptions) -> io::Result<()> {
        let fd = self.own_socket()?.as_raw_fd();
        let set = |level, name, value| set_option(fd, level, name, value);
        match group {
            IpAddr::V4(_) => {
                let interface = c_int::from_ne_bytes(options.interface.octets());
                set(libc::IPPROTO_IP, libc::IP_MULTICAST_IF, interface)?;
                set(libc::IPPROTO_IP, libc::IP_MULTICAST_LOOP, 1)?;
                set(libc::IPPROTO_IP, libc::IP_MULTICAST_TTL, options.ttl.into())
            }
            IpAddr::V6(_) => {
                let index = c_int::try_from(options.interface_index).map_err(|_| io::ErrorKind::InvalidInput)?;
                set(libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_IF, index)?;
                set(libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_LOOP, 1)?;
                set(libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_HOPS, options.ttl.into())
            }
        }
    }
}

/// A link with an address of its own that is also a member of a group.
///
/// It sends from its own address; what comes for it, and what comes for the group, is told apart by
/// [`RxMeta::destination`](pinnace_core::RxMeta).
///
/// ```no_run
/// use pinnace_link::{GroupLink, MulticastOptions, UdpOptions};
/// let group = "239.1.2.3:4000".parse().unwrap();
/// let link = GroupLink::bind("0.0.0.0:0".parse().unwrap(), group, &UdpOptions::default(), &MulticastOptions::default())?;
/// println!("{:?} is a member of {}", link.local_address(), link.group());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct GroupLink {
    own: UdpLink,
    of_group: UdpLink,
    group: SocketAddr,
    /// When one of the two is.
    readable: Readable,
    /// Whose turn it is to be read first.
    is_groups_turn: bool,
}

impl GroupLink {
    /// A link bound to `local`, of the family of `group`, which is its member.
    ///
    /// # Errors
    /// If `local` cannot be bound, if `group` is no group, or if no interface leads there (without a multicast route, name
    /// one in the options).
    pub fn bind(
        local: SocketAddr,
        group: SocketAddr,
        options: &UdpOptions,
        multicast: &MulticastOptions,
    ) -> io::Result<Self> {
        if local.is_ipv4() != group.is_ipv4() || !group.ip().is_multicast() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut own = UdpLink::bind(local, options)?;
        own.send_multicast(group.ip(), multicast)?;
        let mut of_group = UdpLink::bind_shared(group, options)?;
        of_group.join_multicast(group.ip(), multicast)?;
        let readable = Readable::new()?;
        for link in [&own, &of_group] {
            readable.add(link.descriptors().readable)?;
        }
        Ok(Self { own, of_group, group, readable, is_groups_turn: false })
    }

    /// The group.
    pub fn group(&self) -> SocketAddr {
        self.group
    }

    /// The link's own address, as far as it is bound to one.
    pub fn local_address(&self) -> Option<SocketAddr> {
        self.own.local_address()
    }

    /// Bytes of receive buffer that the system gave, counted as they were asked for: for the group, and as many again.
    pub fn receive_buffer_bytes(&self) -> usize {
        self.of_group.receive_buffer_bytes()
    }

    /// What the system refused, in plain words, each with the command that would change it.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = self.own.warnings();
        warnings.extend(self.of_group.warnings());
        warnings.dedup();
        warnings
    }
}

impl Link for GroupLink {
    forward_sizes!(own);

    fn send(&mut self, train: &Train, memory: &BufferTable) -> io::Result<SendOutcome> {
        self.own.send(train, memory)
    }

    fn receive(&mut self, plan: &ReceivePlan, memory: &BufferTable, pool: &mut ReadBuffer) -> io::Result<ReadOutcome> {
        self.is_groups_turn = !self.is_groups_turn;
        for is_group in [self.is_groups_turn, !self.is_groups_turn] {
            let link = if is_group { &mut self.of_group } else { &mut self.own };
            match link.receive(plan, memory, pool)? {
                ReadOutcome::Empty => {}
                ReadOutcome::Received(mut read) => {
                    if is_group {
                        read.meta.destination = Some(Address::Inet(self.group));
                    }
                    return Ok(ReadOutcome::Received(read));
                }
                outcome @ ReadOutcome::Unreachable => return Ok(outcome),
            }
        }
        self.readable.settle();
        Ok(ReadOutcome::Empty)
    }

    fn descriptors(&self) -> Descriptors {
        Descriptors::new(self.readable.as_raw_fd(), self.own.descriptors().writable)
    }

    fn counters(&self) -> LinkCounters {
        let mut sum = self.own.counters();
        sum.add_reads(&self.of_group.counters());
        sum
    }
}

/// Whether this machine can send to a group over `interface` and hear itself: without a route, it cannot.
///
/// # Errors
/// Why not.
pub fn probe_multicast(options: &MulticastOptions) -> io::Result<()> {
    let group = SocketAddr::from(([239, 255, 255, 250], 0));
    let mut probe = UdpLink::bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)), &UdpOptions::default())?;
    probe.join_multicast(group.ip(), options)?;
    let port = probe.local_address().map_or(0, |local| local.port());
    let socket = probe.own_socket()?;
    socket.send_to(b"probe", SocketAddr::new(group.ip(), port))?;
    socket.set_read_timeout(Some(std::time::Duration::from_millis(200)))?;
    let mut bytes = [0; 8];
    socket.recv(&mut bytes).map(|_| ())
}
