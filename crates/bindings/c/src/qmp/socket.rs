//! A socket: what its calls do in which state.
//!
//! Always true: while the socket is watched (it does not block, or was polled), its descriptor is readable whenever a read
//! would not wait, and what the conversation has to announce was not seen yet; a call that finds nothing makes it unreadable
//! until something happens. While it is not watched the descriptor is readable always, so that nobody sleeps on what nobody
//! signals.

use super::conversation::{Conversation, Wait};
use super::errors::errno;
use super::names;
use super::options::*;
use super::settings::{Settings, link_of};
use crate::descriptors::{self, Descriptor, Number};
use crate::errors::Errno;
use crate::kept::lock;
use libc::{c_int, c_short};
use pinnace::qmp::{Endpoint, Listener, Pool, Shutdown, State, Stream, WakeFd};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What a socket is now.
#[derive(Clone, Debug)]
enum Role {
    /// Nothing yet; bound, perhaps.
    Fresh(Option<Box<Bound>>),
    /// It waits for others.
    Listening(Arc<Listener>),
    /// It is connected, or connects.
    Talking(Arc<Conversation>),
}

/// What a socket is bound to.
#[derive(Clone, Debug)]
pub(super) enum Bound {
    /// Where, as well: sockets may share an endpoint that has no port, or another's.
    Endpoint(Endpoint, SocketAddr),
    /// An address on a link that the daemon may use, and this process may not.
    Daemon(SocketAddr),
}

impl Bound {
    /// At this port of an endpoint; 0: at its own.
    fn at(endpoint: Endpoint, port: u16) -> Self {
        let mut address = endpoint.local_addr();
        if port != 0 {
            address.set_port(port);
        }
        Self::Endpoint(endpoint, address)
    }
}

/// See `qmp_socket`.
#[derive(Debug)]
pub(crate) struct Socket {
    number: Number,
    domain: c_int,
    wake: Arc<WakeFd>,
    role: Mutex<Role>,
    settings: Mutex<Settings>,
    is_blocking: AtomicBool,
    is_watched: AtomicBool,
    /// Threads that sleep in qmp_poll, beside the descriptor: whoever makes that unreadable wakes them.
    sleepers: Mutex<Vec<Arc<WakeFd>>>,
    sleeping: AtomicUsize,
}

impl Socket {
    /// A socket of AF_INET or AF_INET6.
    pub(super) fn new(domain: c_int, is_blocking: bool) -> Result<Self, Errno> {
        Self::with(domain, is_blocking, Role::Fresh(None), Settings::default())
    }

    fn with(domain: c_int, is_blocking: bool, role: Role, settings: Settings) -> Result<Self, Errno> {
        let wake = WakeFd::new().map_err(|error| errno(&error))?;
        wake.signal();
        let number = Number::of(&wake)?;
        let socket = Self {
            number,
            domain,
            wake: Arc::new(wake),
            role: Mutex::new(role),
            settings: Mutex::new(settings),
            is_blocking: AtomicBool::new(is_blocking),
            is_watched: AtomicBool::new(false),
            sleepers: Mutex::default(),
            sleeping: AtomicUsize::new(0),
        };
        if !is_blocking {
            socket.watch()?;
        }
        Ok(socket)
    }

    pub(crate) fn number(&self) -> &Number {
        &self.number
    }

    pub(super) fn wake(&self) -> &Arc<WakeFd> {
        &self.wake
    }

    pub(super) fn is_blocking(&self) -> bool {
        self.is_blocking.load(Ordering::Relaxed)
    }

    pub(super) fn set_blocking(&self, is_blocking: bool) -> Result<(), Errno> {
        self.is_blocking.store(is_blocking, Ordering::Relaxed);
        if is_blocking { Ok(()) } else { self.watch() }
    }

    /// How a call with or without MSG_DONTWAIT waits.
    pub(crate) fn wait(&self, dontwait: bool) -> Wait {
        if dontwait || !self.is_blocking() { Wait::No } else { Wait::Block }
    }

    /// From now on the descriptor tells what happens.
    pub(super) fn watch(&self) -> Result<(), Errno> {
        if self.is_watched.load(Ordering::Relaxed) {
            return Ok(());
        }
        let role = lock(&self.role);
        if !self.is_watched.swap(true, Ordering::Relaxed) {
            self.watch_role(&role)?;
        }
        Ok(())
    }

    fn watch_role(&self, role: &Role) -> Result<(), Errno> {
        if !self.is_watched.load(Ordering::Relaxed) {
            return Ok(());
        }
        let watched = match role {
            Role::Fresh(_) => Ok(()),
            Role::Listening(listener) => listener.watch_on(Arc::clone(&self.wake)),
            Role::Talking(conversation) => conversation.stream.watch_on(Arc::clone(&self.wake)),
        };
        watched.map_err(|error| errno(&error))
    }

    fn role(&self) -> Role {
        lock(&self.role).clone()
    }

    /// The process ends, and nobody lingers any more. `is_held`: threads wait on it, so it is not closed by being let go of: what
    /// it has sent ends here. Returns what is to arrive then.
    pub(crate) fn end_at_exit(&self, is_held: bool) -> Option<Arc<Conversation>> {
        // Who connects in another thread has sent nothing.
        let role = self.role.try_lock().ok()?.clone();
        let Role::Talking(conversation) = role else { return None };
        let is_reset = lock(&self.settings).linger == Some(Duration::ZERO);
        if !is_reset {
            conversation.stream.set_linger(None);
        }
        if !is_held {
            return None;
        }
        if is_reset {
            conversation.stream.abort();
        } else {
            // It fails if the connection is over, and nothing is left to be said.
            let _ = conversation.stream.shutdown(Shutdown::Write);
        }
        Some(conversation)
    }

    fn become_(&self, role: &mut Role, new: Role) -> Result<(), Errno> {
        self.watch_role(&new)?;
        *role = new;
        Ok(())
    }

    /// The conversation, if there is one.
    pub(crate) fn conversation(&self) -> Result<Arc<Conversation>, Errno> {
        match &*lock(&self.role) {
            Role::Talking(conversation) => Ok(Arc::clone(conversation)),
            _ => Err(Errno(libc::ENOTCONN)),
        }
    }

    /// Where its buffers are.
    pub(crate) fn pool(&self) -> Option<Pool> {
        match self.role() {
            Role::Talking(conversation) => conversation.stream.pool().cloned(),
            _ => lock(&self.settings).options.pool.clone(),
        }
    }

    /// Whether a call that sends waits, and how long.
    pub(crate) fn send_wait(&self) -> (bool, Option<Duration>) {
        (self.is_blocking(), lock(&self.settings).send_timeout)
    }

    fn is_readable(&self) -> bool {
        match self.role() {
            Role::Fresh(_) => true,
            Role::Listening(listener) => listener.has_arrivals(),
            Role::Talking(conversation) => conversation.is_readable(),
        }
    }

    /// A call has found nothing, or taken the last: the descriptor is unreadable until something happens.
    pub(crate) fn settle(&self) {
        if !self.is_watched.load(Ordering::Relaxed) {
            return;
        }
        self.clear(None);
        self.unsettle();
    }

    /// Makes the descriptor unreadable, whatever there is; everybody who sleeps on it looks again, but `not` this one.
    pub(super) fn clear(&self, not: Option<&Arc<WakeFd>>) {
        self.wake.clear();
        // Whoever goes to sleep counts first, and looks then.
        if self.sleeping.load(Ordering::SeqCst) > 0 {
            let sleepers = lock(&self.sleepers);
            sleepers.iter().filter(|it| not.is_none_or(|not| !Arc::ptr_eq(it, not))).for_each(|it| it.signal());
        }
    }

    /// Makes the descriptor readable again, if there is something to read, or to announce: what was made unreadable may have
    /// said either.
    pub(super) fn unsettle(&self) {
        if self.is_readable() || self.conversation().is_ok_and(|conversation| conversation.announces()) {
            self.wake.signal();
        }
    }

    /// A thread sleeps from now on.
    pub(super) fn add_sleeper(&self, sleeper: &Arc<WakeFd>) {
        lock(&self.sleepers).push(Arc::clone(sleeper));
        self.sleeping.fetch_add(1, Ordering::SeqCst);
    }

    pub(super) fn remove_sleeper(&self, sleeper: &Arc<WakeFd>) {
        let mut sleepers = lock(&self.sleepers);
        if let Some(at) = sleepers.iter().position(|it| Arc::ptr_eq(it, sleeper)) {
            sleepers.swap_remove(at);
            self.sleeping.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// What poll() says.
    pub(super) fn events(&self) -> c_short {
        match self.role() {
            // As Linux has it for TCP.
            Role::Fresh(_) => libc::POLLOUT | libc::POLLWRNORM | libc::POLLHUP,
            Role::Listening(listener) if listener.has_arrivals() => libc::POLLIN | libc::POLLRDNORM,
            Role::Listening(_) => 0,
            Role::Talking(conversation) => conversation.events(),
        }
    }

    /// The address as this socket's family has it.
    fn named(&self, address: SocketAddr) -> SocketAddr {
        match address.ip() {
            IpAddr::V4(ip) if self.domain == libc::AF_INET6 => {
                let ip = if ip.is_unspecified() { Ipv6Addr::UNSPECIFIED } else { ip.to_ipv6_mapped() };
                (ip, address.port()).into()
            }
            IpAddr::V6(_) if self.domain == libc::AF_INET => {
                let ip = match address.ip().to_canonical() {
                    IpAddr::V4(ip) => ip,
                    IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED,
                };
                (ip, address.port()).into()
            }
            _ => address,
        }
    }

    /// An address that C gave, which must be of this socket's family.
    fn meant(&self, address: SocketAddr) -> Result<SocketAddr, Errno> {
        if address.is_ipv4() != (self.domain == libc::AF_INET) {
            return Err(Errno(libc::EAFNOSUPPORT));
        }
        Ok(match (address, address.ip().to_canonical()) {
            (SocketAddr::V6(_), IpAddr::V4(ip)) => (ip, address.port()).into(),
            _ => address,
        })
    }

    pub(super) fn bind(&self, address: SocketAddr) -> Result<(), Errno> {
        let address = self.meant(address)?;
        let options = lock(&self.settings).options.clone();
        let mut role = lock(&self.role);
        match &*role {
            Role::Fresh(None) => {
                let bound = match Endpoint::bind(address, &options) {
                    Ok(endpoint) => Bound::at(endpoint, address.port()),
                    Err(error) if options.has_helper(&error) => Bound::Daemon(address),
                    Err(error) => return Err(errno(&error)),
                };
                *role = Role::Fresh(Some(Box::new(bound)));
                Ok(())
            }
            _ => Err(Errno(libc::EINVAL)),
        }
    }

    pub(super) fn listen(&self) -> Result<(), Errno> {
        let options = lock(&self.settings).options.clone();
        let mut role = lock(&self.role);
        let bound = match &*role {
            Role::Fresh(Some(bound)) => (**bound).clone(),
            // As TCP: a port that the system picks.
            Role::Fresh(None) => {
                let any: IpAddr = match self.domain {
                    libc::AF_INET => Ipv4Addr::UNSPECIFIED.into(),
                    _ => Ipv6Addr::UNSPECIFIED.into(),
                };
                Bound::at(Endpoint::bind((any, 0), &options).map_err(|error| errno(&error))?, 0)
            }
            Role::Listening(_) => return Ok(()),
            Role::Talking(_) => return Err(Errno(libc::EINVAL)),
        };
        let listener = match bound {
            Bound::Endpoint(endpoint, address) => endpoint.listen(address.port()),
            Bound::Daemon(address) => Listener::bind(address, &options),
        };
        let listener = listener.map_err(|error| errno(&error))?;
        if self.is_watched.load(Ordering::Relaxed) {
            self.wake.clear();
        }
        self.become_(&mut role, Role::Listening(Arc::new(listener)))
    }

    /// The next that has come, as a socket.
    pub(super) fn accept(&self, is_blocking: bool) -> Result<(Socket, SocketAddr), Errno> {
        let Role::Listening(listener) = self.role() else { return Err(Errno(libc::EINVAL)) };
        let settings = lock(&self.settings).clone();
        let stream = match (self.wait(false), settings.receive_timeout) {
            (Wait::No, _) => listener.try_accept(),
            (Wait::Block, None) => listener.accept().map(Some),
            (Wait::Block, Some(timeout)) => listener.accept_timeout(timeout),
        };
        if !listener.has_arrivals() {
            self.settle();
        }
        let stream = stream.map_err(|error| errno(&error))?.ok_or(Errno(libc::EAGAIN))?;
        settings.apply(&stream);
        let peer = self.named(stream.peer_addr());
        let role = Role::Talking(Arc::new(Conversation::accepted(stream)));
        Ok((Self::with(self.domain, is_blocking, role, settings)?, peer))
    }

    pub(super) fn connect(&self, to: SocketAddr) -> Result<(), Errno> {
        let mut to = self.meant(to)?;
        if to.ip().is_unspecified() {
            // As TCP: this host.
            to.set_ip(if to.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() });
        }
        if to.port() == 0 {
            return Err(Errno(libc::ECONNREFUSED));
        }
        let settings = lock(&self.settings).clone();
        let conversation = {
            let mut role = lock(&self.role);
            match &*role {
                Role::Listening(_) => return Err(Errno(libc::EISCONN)),
                Role::Talking(conversation) => {
                    let conversation = Arc::clone(conversation);
                    drop(role);
                    return self.connect_again(&conversation);
                }
                Role::Fresh(bound) => {
                    let stream = match bound.as_deref() {
                        Some(Bound::Endpoint(endpoint, address)) => endpoint.begin_from(to, address.port()),
                        Some(Bound::Daemon(_)) | None => Stream::begin(to, &settings.options),
                    };
                    let stream = stream.map_err(|error| errno(&error))?;
                    settings.apply(&stream);
                    let conversation = Arc::new(Conversation::connecting(stream, bound.clone()));
                    self.become_(&mut role, Role::Talking(Arc::clone(&conversation)))?;
                    conversation
                }
            }
        };
        match self.wait(false) {
            Wait::No => Err(Errno(libc::EINPROGRESS)),
            Wait::Block => {
                // Its own error says what happened; a time-out of ours leaves it under way.
                let _ = conversation.stream.wait_established(settings.send_timeout);
                self.connected(&conversation, libc::EINPROGRESS)
            }
        }
    }

    fn connect_again(&self, conversation: &Arc<Conversation>) -> Result<(), Errno> {
        if !conversation.is_connecting() {
            return Err(Errno(libc::EISCONN));
        }
        if self.wait(false) == Wait::Block {
            let timeout = lock(&self.settings).send_timeout;
            let _ = conversation.stream.wait_established(timeout);
        }
        self.connected(conversation, libc::EALREADY)
    }

    /// What connect() says now.
    fn connected(&self, conversation: &Arc<Conversation>, under_way: c_int) -> Result<(), Errno> {
        match conversation.established() {
            None => {
                self.settle();
                Err(Errno(under_way))
            }
            Some(Ok(())) => {
                conversation.end_connecting();
                Ok(())
            }
            Some(Err(error)) => {
                let told = conversation.take_failure();
                self.begin_anew(conversation);
                Err(told.unwrap_or(error))
            }
        }
    }

    /// After an attempt that has failed, and whose error is told, another may be made.
    fn begin_anew(&self, conversation: &Arc<Conversation>) {
        let mut role = lock(&self.role);
        if matches!(&*role, Role::Talking(now) if Arc::ptr_eq(now, conversation)) {
            *role = Role::Fresh(conversation.bound.clone());
        }
    }

    /// The error that is to be told (SO_ERROR).
    fn take_error(&self) -> c_int {
        let Role::Talking(conversation) = self.role() else { return 0 };
        if let Some(Ok(())) | None = conversation.established()
            && conversation.stream.failure().is_none()
        {
            self.settle();
            return 0;
        }
        let failure = conversation.take_failure();
        if conversation.is_connecting() {
            self.begin_anew(&conversation);
        }
        failure.map_or(0, |failure| failure.0)
    }

    pub(super) fn shut(&self, how: c_int) -> Result<(), Errno> {
        let how = match how {
            libc::SHUT_RD => Shutdown::Read,
            libc::SHUT_WR => Shutdown::Write,
            libc::SHUT_RDWR => Shutdown::Both,
            _ => return Err(Errno(libc::EINVAL)),
        };
        self.conversation()?.shut(how)?;
        // A change that whoever polls wants to know.
        if self.is_watched.load(Ordering::Relaxed) {
            self.wake.signal();
        }
        Ok(())
    }

    pub(super) fn local_addr(&self) -> SocketAddr {
        let address = match self.role() {
            Role::Fresh(None) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
            Role::Fresh(Some(bound)) => match *bound {
                Bound::Endpoint(_, address) | Bound::Daemon(address) => address,
            },
            Role::Listening(listener) => listener.local_addr(),
            Role::Talking(conversation) => conversation.stream.local_addr(),
        };
        self.named(address)
    }

    pub(super) fn peer_addr(&self) -> Result<SocketAddr, Errno> {
        let conversation = self.conversation()?;
        match conversation.established() {
            Some(Ok(())) => Ok(self.named(conversation.stream.peer_addr())),
            _ => Err(Errno(libc::ENOTCONN)),
        }
    }

    pub(super) fn readable_bytes(&self) -> Result<usize, Errno> {
        match self.role() {
            Role::Listening(_) => Err(Errno(libc::EINVAL)),
            Role::Talking(conversation) => Ok(conversation.stream.readable_bytes()),
            Role::Fresh(_) => Ok(0),
        }
    }

    pub(super) fn set_option(&self, level: c_int, name: c_int, value: &[u8]) -> Result<(), Errno> {
        let role = self.role();
        let mut settings = lock(&self.settings);
        settings.set(level, name, value, !matches!(role, Role::Fresh(None)))?;
        if let Role::Talking(conversation) = role {
            settings.apply(&conversation.stream);
        }
        Ok(())
    }

    pub(super) fn option(&self, level: c_int, name: c_int) -> Result<Vec<u8>, Errno> {
        let number = |value: c_int| Ok(value.to_ne_bytes().to_vec());
        match (level, name) {
            (libc::SOL_SOCKET, libc::SO_ERROR) => number(self.take_error()),
            (libc::SOL_SOCKET, libc::SO_ACCEPTCONN) => number(matches!(self.role(), Role::Listening(_)).into()),
            (libc::SOL_SOCKET, names::SO_DOMAIN) => number(self.domain),
            (SOL_QMP, QMP_STATE) => number(match self.role() {
                Role::Fresh(_) => QMP_QUIESCENT,
                Role::Listening(_) => QMP_LISTENING,
                Role::Talking(conversation) => match conversation.stream.state() {
                    State::Quiescent => QMP_QUIESCENT,
                    State::Listening => QMP_LISTENING,
                    State::Active => QMP_ACTIVE,
                    State::Inactive => QMP_INACTIVE,
                },
            }),
            (SOL_QMP, QMP_LINK) if self.conversation().is_ok() => number(link_of(&self.conversation()?.stream)),
            _ => lock(&self.settings).value(level, name),
        }
    }

    /// Makes it C's: its number.
    pub(super) fn publish(self) -> c_int {
        descriptors::current().insert(Descriptor::Socket(Arc::new(self)))
    }
}
