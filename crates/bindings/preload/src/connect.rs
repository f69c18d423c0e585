//! connect(): to a listener on this host by its abstract name, to one on another host by the companion, else by TCP.

//= Q-13

use crate::epoll::{self, Registration};
use crate::listener::SHARES;
use crate::name::{Class, Family, Name};
use crate::sys::{self, End, Outcome};
use crate::{carrier, config, diag, internet, options, real, stream};
use core::ffi::c_int;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use libc::{sockaddr, socklen_t};

/// connect().
///
/// # Safety
///
/// `address` has `len` bytes.
pub(crate) unsafe fn connect(fd: c_int, address: *const sockaddr, len: socklen_t) -> Outcome {
    // SAFETY: the caller's promise.
    let bytes = unsafe { internet::borrow(address, len) };
    if let Some((family, to)) = internet::parse(bytes) {
        match convert(fd, family, to) {
            Err(Refusal::Final(error)) => return Err(error),
            Err(Refusal::Tcp) => {}
            Ok(()) => return Ok(0),
        }
    }
    // SAFETY: the caller's promise.
    match unsafe { real::connect(fd, address, len) } {
        -1 => Err(sys::errno()),
        value => Ok(value),
    }
}

/// Why a socket stays as it is.
pub(crate) enum Refusal {
    /// TCP shall try, and say whatever is to be said.
    Tcp,
    /// The call ends with this error.
    Final(c_int),
}

impl From<c_int> for Refusal {
    fn from(_: c_int) -> Self {
        Self::Tcp
    }
}

/// Makes a fresh TCP socket a stream, if there is a way to the address that is not TCP.
pub(crate) fn convert(fd: c_int, wanted: Family, to: SocketAddr) -> Result<(), Refusal> {
    if sys::option::<c_int>(fd, libc::SOL_SOCKET, libc::SO_PROTOCOL)? != libc::IPPROTO_TCP {
        // A second connect() asks whether the first is done.
        return Err(if stream::find(fd).is_some() { Refusal::Final(libc::EISCONN) } else { Refusal::Tcp });
    }
    if to.port() == 0 || config::is_bypassed(to.port()) || internet::is_link_local(to.ip()) {
        return Err(Refusal::Tcp);
    }
    // Neither connected, nor about to be, nor a listener; and of the right family.
    let state: u8 = sys::option(fd, libc::IPPROTO_TCP, libc::TCP_INFO)?;
    let domain: c_int = sys::option(fd, libc::SOL_SOCKET, libc::SO_DOMAIN)?;
    let family = if domain == libc::AF_INET { Family::V4 } else { Family::V6 };
    let refused =
        family == Family::V6 && to.is_ipv4() && sys::option::<c_int>(fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY)? != 0;
    if state != TCP_CLOSE || family != wanted || refused {
        return Err(Refusal::Tcp);
    }
    if options::is_tcp_only(fd) {
        return Err(Refusal::Tcp);
    }
    let registered = epoll::registration(fd)?;
    let to = SocketAddr::new(somewhere(to.ip()), to.port());
    let mut buffer = [0; 128];
    let (_, bound) = internet::parse(sys::address(fd, End::Own, &mut buffer)?).ok_or(Refusal::Tcp)?;
    let Some(source) = source(bound.ip(), to.ip()) else {
        return carrier::connect(fd, registered, family, bound, to);
    };
    if !config::same_host() {
        return Err(Refusal::Tcp);
    }
    let unix = sys::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 0)?;
    let connected = bind(unix, family, SocketAddr::new(source, bound.port()), to)
        .and_then(|from| meet(unix, from, to))
        .and_then(|()| replace(fd, registered, unix));
    sys::close(unix);
    connected?;
    config::say(format_args!("connected to {to} on this host"));
    Ok(())
}

/// `tcpi_state` of a socket that does nothing.
const TCP_CLOSE: u8 = 7;

/// No address means this host.
fn somewhere(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    }
}

/// The address that a connection to this host's own `to` comes from; `None` if `to` is another host's.
fn source(bound: IpAddr, to: IpAddr) -> Option<IpAddr> {
    let natural = if to.is_loopback() {
        match to {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        }
    } else {
        internet::source(to).ok().filter(|&source| source == to)?
    };
    Some(if bound.is_unspecified() || bound.is_ipv4() != to.is_ipv4() { natural } else { bound })
}

/// Takes the name that says both addresses; a port that the application did not choose is any that is free.
fn bind(unix: c_int, family: Family, from: SocketAddr, to: SocketAddr) -> Outcome<SocketAddr> {
    let attempts = if from.port() == 0 { 64 } else { 1 };
    for _ in 0..attempts {
        let mut from = from;
        if from.port() == 0 {
            // The kernel's default range of ephemeral ports.
            from.set_port((32768 + sys::random() % 28232) as u16);
        }
        let name = Name::Connection { family, from, to, remote: false };
        match sys::bind(unix, name.address().bytes()) {
            Err(libc::EADDRINUSE) => {}
            other => return other.map(|_| from),
        }
    }
    Err(libc::EADDRINUSE)
}

/// Connects to whoever listens for `to`: the particular address before the general one, as TCP looks for it.
fn meet(unix: c_int, from: SocketAddr, to: SocketAddr) -> Outcome<()> {
    let any4 = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), to.port());
    let any6 = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), to.port());
    let candidates = if to.is_ipv4() {
        [(Class::V4, to), (Class::V4, any4), (Class::Dual, any6), (Class::Mapped, to)]
    } else {
        [(Class::V6, to), (Class::V6, any6), (Class::Dual, any6), (Class::V6, any6)]
    };
    let attempt = |share: Option<u8>| {
        for (class, at) in candidates {
            let name = Name::Listener { class, at, share };
            match sys::connect(unix, name.address().bytes()) {
                Ok(_) => return Ok(()),
                Err(libc::ECONNREFUSED) => {}
                // Its queue is full: TCP has one of its own, and knows how to wait.
                Err(error) => return Err(error),
            }
        }
        Err(libc::ECONNREFUSED)
    };
    let mut outcome = attempt(None);
    // Of several that share the port, any: one of all that there may be, then one of those below, as the lowest are taken first.
    let mut share = sys::random() as u8 % SHARES;
    while outcome == Err(libc::ECONNREFUSED) {
        outcome = attempt(Some(share));
        if share == 0 {
            break;
        }
        share = (sys::random() % u32::from(share)) as u8;
    }
    outcome?;
    if is_trusted(unix, from, to) {
        Ok(())
    } else {
        config::say(format_args!("{to}: whoever has its name on this host does not own the port: TCP"));
        // The other side sees the end of a connection on which nothing was said.
        Err(libc::ECONNREFUSED)
    }
}

/// Whether whoever listens under the abstract name is the one that TCP would have reached. Anybody may take a name, also
/// that of a port that belongs to somebody else; so it must be root, or our own user, or the owner of the TCP listener.
fn is_trusted(unix: c_int, from: SocketAddr, to: SocketAddr) -> bool {
    sys::option::<libc::ucred>(unix, libc::SOL_SOCKET, libc::SO_PEERCRED)
        .is_ok_and(|peer| peer.uid == 0 || peer.uid == sys::euid() || diag::owner(from, to) == Ok(peer.uid))
}

/// Puts the stream in the place of the TCP socket, with everything that was set there.
pub(crate) fn replace(fd: c_int, registered: Option<Registration>, unix: c_int) -> Outcome<()> {
    let flags = sys::fcntl(fd, libc::F_GETFD, 0)?;
    let status = sys::fcntl(fd, libc::F_GETFL, 0)?;
    let (notes, _) = stream::carry_options(fd, unix);
    sys::fcntl(unix, libc::F_SETFL, status & (libc::O_NONBLOCK | libc::O_ASYNC))?;
    // A child that is about to call exec may have the TCP socket still.
    if let Some(registration) = registered {
        registration.remove(fd);
    }
    let replaced = sys::dup3(unix, fd, if flags & libc::FD_CLOEXEC != 0 { libc::O_CLOEXEC } else { 0 });
    if let Some(registration) = registered {
        registration.restore(fd);
    }
    replaced?;
    stream::born(fd, notes);
    Ok(())
}
