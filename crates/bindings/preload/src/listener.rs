//! Listeners: an epoll descriptor with the application's number, and behind it a TCP and a Unix listener.
//!
//! Always true: the epoll instance holds both members, level triggered, and nobody ever waits on it with epoll_wait(), so
//! it is readable when one of the two is. The members have high numbers that the application does not know, the same
//! close-on-exec flag as the listener, and do not block; whether accept() blocks is the epoll descriptor's own flag. The
//! data of the registrations says which member is which, and /proc/self/fdinfo tells it to whoever inherits the
//! descriptors: so a listener survives exec.

//= Q-13

use crate::epoll::{self, Registration};
use crate::name::{Class, Family, Name};
use crate::sys::{self, End, Outcome};
use crate::table::{self, Members};
use crate::{carrier, config, internet, options, real};
use core::ffi::c_int;
use core::net::{IpAddr, SocketAddr};

const MARK: u64 = 0x504e_5150 << 32;
const UNIX: u64 = 1 << 31;
const CONTROL_MASK: u64 = (1 << 20) - 1;

/// The most sockets that share a port and each have a way for programs on this host.
pub(crate) const SHARES: u8 = 8;

/// Where the library's own descriptors begin: out of the application's way, below the limit, and without making the
/// kernel's table of descriptors large.
pub(crate) fn hidden_base() -> c_int {
    (sys::descriptor_limit() / 8 * 7).min(896) as c_int
}

/// listen(), and all that follows from it.
pub(crate) fn listen(fd: c_int, backlog: c_int) -> Outcome {
    if table::listener(fd).is_none() {
        // SAFETY: no pointers.
        if unsafe { real::listen(fd, backlog) } == 0 {
            // Without a listener on this host's shortcut it is a TCP listener like any other.
            let _ = adopt(fd, backlog);
            return Ok(0);
        }
        if sys::errno() != libc::ENOTSOCK {
            return Err(sys::errno());
        }
    }
    let members = find(fd).ok_or(libc::ENOTSOCK)?;
    sys::listen(members.tcp, backlog)?;
    if sys::poll_now(members.unix, libc::POLLRDHUP) & libc::POLLRDHUP != 0 {
        // Without it, it is a TCP listener.
        let _ = revive(fd, members, backlog);
        return Ok(0);
    }
    // Whoever has changed its user since does not become the owner of the name: the companion hands streams to its own alone.
    let owner = sys::option::<libc::ucred>(members.unix, libc::SOL_SOCKET, libc::SO_PEERCRED).map(|owner| owner.uid);
    if owner.is_err() || owner == Ok(sys::euid()) {
        // Nor is it more than that if a new one has found no name.
        let _ = sys::listen(members.unix, backlog);
    }
    Ok(0)
}

/// A TCP listener that was shut down listens again; a Unix socket never does, so a new one takes its place. What the old one
/// says to whoever waits is over in any case.
fn revive(fd: c_int, members: Members, backlog: c_int) -> Outcome {
    // Another process that has it may have taken it out before.
    let _ = sys::epoll_ctl(fd, libc::EPOLL_CTL_DEL, members.unix, 0, 0);
    let mut buffer = [0; 128];
    let name = sys::address(members.unix, End::Own, &mut buffer).ok().and_then(Name::parse).ok_or(libc::EINVAL)?;
    let Name::Listener { class, at, .. } = name else { return Err(libc::EINVAL) };
    // A port that the kernel chose is another one now.
    if name_of(members.tcp)? != (Name::Listener { class, at, share: None }) {
        return Err(libc::EADDRNOTAVAIL);
    }
    let on_exec = sys::fcntl(members.unix, libc::F_GETFD, 0)? & libc::FD_CLOEXEC != 0;
    let unix = sys::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 0)?;
    let replaced = sys::dup3(unix, members.unix, if on_exec { libc::O_CLOEXEC } else { 0 });
    sys::close(unix);
    replaced?;
    // As long as another process has the old one, its name is taken.
    let bound = match sys::bind(members.unix, name.address().bytes()) {
        Err(libc::EADDRINUSE) => bind_share(members.unix, class, at),
        other => other.map(|_| name),
    };
    bound?;
    sys::listen(members.unix, backlog)?;
    let data = MARK | members.control as u64 & CONTROL_MASK | UNIX;
    sys::epoll_ctl(fd, libc::EPOLL_CTL_ADD, members.unix, libc::EPOLLIN as u32, data)
}

/// The name that a TCP listener's companion on this host has.
fn name_of(fd: c_int) -> Outcome<Name> {
    if sys::option::<c_int>(fd, libc::SOL_SOCKET, libc::SO_PROTOCOL)? != libc::IPPROTO_TCP {
        return Err(libc::EPROTONOSUPPORT);
    }
    let mut buffer = [0; 128];
    let (family, at) = internet::parse(sys::address(fd, End::Own, &mut buffer)?).ok_or(libc::EAFNOSUPPORT)?;
    let class = match (family, at.ip()) {
        (Family::V4, _) => Class::V4,
        (Family::V6, IpAddr::V4(_)) => Class::Mapped,
        (Family::V6, IpAddr::V6(ip)) => {
            let only: c_int = sys::option(fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY)?;
            if ip.is_unspecified() && only == 0 { Class::Dual } else { Class::V6 }
        }
    };
    Ok(Name::Listener { class, at, share: None })
}

/// Binds under the name, or where a port is shared under the first of its names that is free.
fn bind(unix: c_int, tcp: c_int, name: Name) -> Outcome<Name> {
    let Name::Listener { class, at, .. } = name else { return Err(libc::EINVAL) };
    let shared: c_int = sys::option(tcp, libc::SOL_SOCKET, libc::SO_REUSEPORT)?;
    if shared == 0 {
        return sys::bind(unix, name.address().bytes()).map(|_| name);
    }
    bind_share(unix, class, at)
}

fn bind_share(unix: c_int, class: Class, at: SocketAddr) -> Outcome<Name> {
    for share in 0..SHARES {
        let name = Name::Listener { class, at, share: Some(share) };
        match sys::bind(unix, name.address().bytes()) {
            Err(libc::EADDRINUSE) => {}
            other => return other.map(|_| name),
        }
    }
    Err(libc::EADDRINUSE)
}

/// Turns a listening TCP socket into a listener of both ways.
fn adopt(fd: c_int, backlog: c_int) -> Outcome {
    let name = name_of(fd)?;
    let Name::Listener { at, .. } = name else { return Err(libc::EINVAL) };
    if config::is_bypassed(at.port()) || internet::is_link_local(at.ip()) {
        return Err(libc::EADDRNOTAVAIL);
    }
    if options::is_tcp_only(fd) {
        return Err(libc::EOPNOTSUPP);
    }
    // To io_uring an epoll descriptor is no socket.
    if real::has_rings() {
        config::say(format_args!("{at}: TCP only, the program has io_uring (liburing)"));
        return Err(libc::EOPNOTSUPP);
    }
    let registered = epoll::registration(fd)?;
    let unix = sys::socket(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 0)?;
    let bound = bind(unix, fd, name).and_then(|name| sys::listen(unix, backlog).map(|_| name));
    let name = match bound {
        Ok(name) => name,
        Err(error) => {
            sys::close(unix);
            config::say(format_args!("{at}: TCP only, somebody has the name {name} (error {error})"));
            return Err(error);
        }
    };
    let made = hide(fd, registered, unix, &name);
    match made {
        Ok(_) => config::say(format_args!("listening on {at}: TCP, and {name} on this host")),
        Err(error) => config::say(format_args!("{at}: TCP only (error {error})")),
    }
    made
}

/// Moves both members out of the way, and puts an epoll descriptor in the place of the TCP listener.
fn hide(fd: c_int, registered: Option<Registration>, unix: c_int, name: &Name) -> Outcome {
    let &Name::Listener { class, at, .. } = name else { return Err(libc::EINVAL) };
    let flags = sys::fcntl(fd, libc::F_GETFD, 0)?;
    let status = sys::fcntl(fd, libc::F_GETFL, 0)?;
    let on_exec = flags & libc::FD_CLOEXEC != 0;
    let duplicate = if on_exec { libc::F_DUPFD_CLOEXEC } else { libc::F_DUPFD };
    let mut members = Members { tcp: 0, unix: 0, control: 0 };
    let hidden = sys::fcntl(unix, duplicate, hidden_base());
    sys::close(unix);
    members.unix = hidden?;
    let made = (|| {
        members.tcp = sys::fcntl(fd, duplicate, hidden_base())?;
        members.control = carrier::listen(class, at, name, on_exec).unwrap_or(0);
        let epoll = sys::epoll_create(if on_exec { libc::EPOLL_CLOEXEC } else { 0 })?;
        let made = fill(epoll, members).and_then(|()| {
            if status & libc::O_NONBLOCK != 0 {
                sys::fcntl(epoll, libc::F_SETFL, libc::O_NONBLOCK)?;
            }
            sys::fcntl(members.tcp, libc::F_SETFL, status | libc::O_NONBLOCK)?;
            if let Some(registration) = registered {
                registration.remove(fd);
            }
            let replaced = sys::dup3(epoll, fd, if on_exec { libc::O_CLOEXEC } else { 0 });
            if replaced.is_ok() {
                table::reset(fd);
                table::set_listener(fd, members);
            }
            if let Some(registration) = registered {
                let events = registration.events & !(libc::EPOLLEXCLUSIVE as u32);
                Registration { events, ..registration }.restore(fd);
            }
            replaced
        });
        sys::close(epoll);
        made
    })();
    if made.is_err() {
        members.all().for_each(sys::close);
    }
    made
}

fn fill(epoll: c_int, members: Members) -> Outcome<()> {
    let data = MARK | members.control as u64 & CONTROL_MASK;
    sys::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, members.tcp, libc::EPOLLIN as u32, data)?;
    sys::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, members.unix, libc::EPOLLIN as u32, data | UNIX)?;
    Ok(())
}

/// The members of a descriptor that is a listener, remembered or asked of the kernel.
pub(crate) fn find(fd: c_int) -> Option<Members> {
    table::listener(fd).or_else(|| learn(fd))
}

/// Asks the kernel whether a descriptor is a listener of ours: inherited, or received.
pub(crate) fn learn(fd: c_int) -> Option<Members> {
    let mut members = Members { tcp: 0, unix: 0, control: 0 };
    epoll::each(fd, |target, registration| {
        let data = registration.data;
        if data & !(UNIX | CONTROL_MASK) == MARK {
            if data & UNIX != 0 {
                members.unix = target;
            } else {
                members.tcp = target;
            }
            members.control = (data & CONTROL_MASK) as c_int;
        }
        true
    });
    // The numbers are those of the process that made the listener; are they still the same sockets here?
    let mut buffer = [0; 128];
    let name = sys::address(members.unix, End::Own, &mut buffer).ok().and_then(Name::parse)?;
    let Name::Listener { at, .. } = name else { return None };
    let Ok(Name::Listener { at: other, .. }) = name_of(members.tcp) else { return None };
    if members.tcp == 0 || members.unix == 0 || at != other {
        return None;
    }
    if members.control > 0 && sys::fcntl(members.control, libc::F_GETFD, 0).is_err() {
        members.control = 0;
    }
    table::set_listener(fd, members);
    Some(members)
}

/// Closes the members of a listener that was closed, if no other descriptor of this process needs them. Those that are
/// closed already are not remembered as members any more.
pub(crate) fn release(members: Members) {
    if table::is_borrowed() {
        // The parent goes on with its descriptors and with this table; exec closes what no descriptor of the child keeps.
        follow_on_exec(members);
        return;
    }
    if table::listeners().any(|(_, other)| other.unix == members.unix) {
        // What was closed may have been the only one that exec does not close.
        follow_on_exec(members);
        return;
    }
    for fd in members.all().filter(|&fd| table::is_member(fd)) {
        table::reset(fd);
        sys::close(fd);
    }
}

/// Gives the members the close-on-exec flag that their listeners have: they are kept if any of those is kept.
pub(crate) fn follow_on_exec(members: Members) {
    let is_kept = |fd: c_int| sys::fcntl(fd, libc::F_GETFD, 0).is_ok_and(|flags| flags & libc::FD_CLOEXEC == 0);
    let kept = if table::is_borrowed() {
        // What the table says is the parent's.
        let mut kept = false;
        let asked = epoll::every(|fd, target| {
            if target == epoll::INSTANCE && is_kept(fd) {
                epoll::each(fd, |target, registration| {
                    kept |= target == members.unix && registration.data & !(UNIX | CONTROL_MASK) == MARK;
                    !kept
                });
            }
        });
        kept || asked.is_err()
    } else {
        table::listeners().filter(|(_, other)| other.unix == members.unix).any(|(fd, _)| is_kept(fd))
    };
    for fd in members.all() {
        let _ = sys::fcntl(fd, libc::F_SETFD, if kept { 0 } else { libc::FD_CLOEXEC });
    }
}

/// The application wants a number that a member has: the member moves.
pub(crate) fn make_room(fd: c_int) {
    let Some((listener, members)) = table::listeners().find(|(_, members)| members.all().any(|member| member == fd))
    else {
        return;
    };
    let Ok(flags) = sys::fcntl(fd, libc::F_GETFD, 0) else { return };
    let duplicate = if flags & libc::FD_CLOEXEC != 0 { libc::F_DUPFD_CLOEXEC } else { libc::F_DUPFD };
    let Ok(moved) = sys::fcntl(fd, duplicate, hidden_base()) else { return };
    let place = |old: c_int| if old == fd { moved } else { old };
    let new = Members { tcp: place(members.tcp), unix: place(members.unix), control: place(members.control) };
    for member in [members.tcp, members.unix] {
        let _ = sys::epoll_ctl(listener, libc::EPOLL_CTL_DEL, member, 0, 0);
    }
    let _ = fill(listener, new);
    table::reset(fd);
    let mut place = 0;
    while let Some((fd, _)) = table::listeners().find(|&(fd, other)| fd >= place && other == members) {
        table::set_listener(fd, new);
        place = fd + 1;
    }
}
