//! What the kernel says of a path: its MTU, whom it leads to, and why it refused.

use super::{self as sys, Name};
use crate::{LinkCounters, PathMtu, ReadOutcome, SendOutcome};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};

/// What kind of socket it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Family {
    V4,
    V6,
    Unix,
}

/// Why the kernel did not do it.
#[derive(Debug)]
pub(crate) enum Refusal {
    Blocked,
    /// `ENOBUFS`: no room behind the socket, in an interface's queue say, so that no room in the socket will tell.
    QueueFull,
    Unreachable,
    TooLarge,
    /// `EIO`, `EINVAL`: what a path says that cannot do what a control message asks for.
    Unwilling,
    /// A firewall, mostly: this one datagram is lost.
    Other,
    Fatal(io::Error),
}

impl Refusal {
    /// Why the last call failed; None if it was only interrupted.
    pub(crate) fn last() -> Option<Self> {
        let error = io::Error::last_os_error();
        Some(match error.raw_os_error().unwrap_or(0) {
            libc::EINTR => return None,
            libc::EAGAIN | libc::ENOMEM => Self::Blocked,
            libc::ENOBUFS => Self::QueueFull,
            libc::ECONNREFUSED
            | libc::ECONNRESET
            // What ICMP and ICMPv6 say of an IP protocol that nobody listens to.
            | libc::ENOPROTOOPT
            | libc::EPROTO
            | libc::EHOSTUNREACH
            | libc::EHOSTDOWN
            | libc::ENETUNREACH
            | libc::ENETDOWN
            // The interface is gone.
            | libc::ENXIO
            | libc::ENODEV
            | libc::ENOTCONN
            | libc::EDESTADDRREQ
            | libc::EPIPE
            // What ICMP says of source routes, to sockets that want to hear everything (IP_RECVERR).
            | libc::EOPNOTSUPP => Self::Unreachable,
            libc::EMSGSIZE => Self::TooLarge,
            libc::EIO | libc::EINVAL => Self::Unwilling,
            libc::EBADF | libc::ENOTSOCK | libc::EFAULT => Self::Fatal(error),
            _ => Self::Other,
        })
    }

    /// Counts one to send, and says what it means. Whoever knows the path knows better what is too large.
    pub(crate) fn outcome(self, counters: &mut LinkCounters) -> io::Result<SendOutcome> {
        match self {
            Self::Blocked | Self::QueueFull => {
                counters.sends_blocked += 1;
                Ok(SendOutcome::Blocked)
            }
            Self::Unreachable => {
                counters.unreachable_reports += 1;
                Ok(SendOutcome::Unreachable)
            }
            Self::TooLarge => Ok(SendOutcome::TooLarge(None)),
            Self::Unwilling | Self::Other => {
                counters.send_errors += 1;
                Ok(SendOutcome::Sent)
            }
            Self::Fatal(error) => Err(error),
        }
    }

    /// The same of one to read. Whoever knows a path sees first to what is too large.
    pub(crate) fn read_outcome(self, counters: &mut LinkCounters) -> io::Result<ReadOutcome> {
        match self {
            Self::Blocked | Self::QueueFull => Ok(ReadOutcome::Empty),
            Self::Unreachable | Self::TooLarge | Self::Other => {
                counters.unreachable_reports += 1;
                Ok(ReadOutcome::Unreachable)
            }
            // No ICMP message says this, and no interface: it would come back for ever.
            Self::Unwilling => Err(io::Error::from_raw_os_error(libc::EINVAL)),
            Self::Fatal(error) => Err(error),
        }
    }
}

/// Says what to do about datagrams larger than the path carries.
pub(crate) fn discover(fd: RawFd, family: Family, path_mtu: PathMtu) -> io::Result<()> {
    let (v4, v6) = match path_mtu {
        PathMtu::Discover => (libc::IP_PMTUDISC_DO, libc::IPV6_PMTUDISC_DO),
        PathMtu::Probe => (libc::IP_PMTUDISC_PROBE, libc::IPV6_PMTUDISC_PROBE),
        PathMtu::Fragment => (libc::IP_PMTUDISC_DONT, libc::IPV6_PMTUDISC_DONT),
        PathMtu::System => return Ok(()),
    };
    // An IPv6 socket may carry IPv4 too; if it cannot, this fails and nothing is missing.
    let done = sys::set_option(fd, libc::SOL_IP, libc::IP_MTU_DISCOVER, v4);
    match family {
        Family::V6 => sys::set_option(fd, libc::SOL_IPV6, libc::IPV6_MTU_DISCOVER, v6),
        _ => done,
    }
}

/// The MTU of the path of a connected socket, headers included.
pub(crate) fn mtu_of(fd: RawFd, v4: bool) -> Option<usize> {
    let (level, name) = if v4 { (libc::SOL_IP, libc::IP_MTU) } else { (libc::SOL_IPV6, libc::IPV6_MTU) };
    sys::option(fd, level, name).ok().and_then(|mtu| usize::try_from(mtu).ok()).filter(|mtu| *mtu > 0)
}

/// Where the kernel would send to `peer` from, and the MTU of that path.
pub(crate) fn route(peer: SocketAddr) -> io::Result<(IpAddr, Option<usize>)> {
    let any: IpAddr = if peer.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(peer)?;
    Ok((socket.local_addr()?.ip(), mtu_of(socket.as_raw_fd(), peer.is_ipv4())))
}

/// The family of a caller's socket, if it is one that can be used.
pub(crate) fn foreign_family(fd: RawFd) -> io::Result<Family> {
    let family = datagram_family(fd)?;
    Name::peer(fd).map_err(|_| unfit(fd, "not connected"))?;
    Ok(family)
}

fn unfit(fd: RawFd, why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("descriptor {fd} is {why}"))
}

/// The family of a datagram socket of the caller, connected or not.
pub(crate) fn datagram_family(fd: RawFd) -> io::Result<Family> {
    let option = |name| sys::option(fd, libc::SOL_SOCKET, name);
    if option(libc::SO_TYPE)? != libc::SOCK_DGRAM {
        return Err(unfit(fd, "no datagram socket"));
    }
    Ok(match (option(libc::SO_DOMAIN)?, option(libc::SO_PROTOCOL)?) {
        (libc::AF_INET, libc::IPPROTO_UDP) => Family::V4,
        (libc::AF_INET6, libc::IPPROTO_UDP) => Family::V6,
        (libc::AF_UNIX, _) => Family::Unix,
        _ => return Err(unfit(fd, "neither UDP nor AF_UNIX")),
    })
}
