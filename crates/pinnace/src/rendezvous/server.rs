//! The answering side: a thread that answers HELLOs, opens the methods' sockets, and shows whoever listens who has come.
//!
//! Always true: nothing is kept for an address that has not heard from us, save a nonce and an answer, of these no more than
//! half of the backlog, and of sockets no more than [`MOST_UNPROVEN`]; nothing is kept longer than [`PATIENCE`]; answers are
//! bounded in number and in length.

use super::cookie::Cookies;
use super::decision::{Refusal, decide, within};
use super::natives::{self, Agreed, Done, MOST_READS, Native};
use super::socket::{Asked, Socket};
use super::task::Task;
use super::wire::{Answer, Control, Hello, LARGE_PIECES, Status, VERSIONS, whole};
use super::{class, host, number};
use crate::Error;
use crate::carrier::{Carrier, Carry, Framed, piece_bytes};
use crate::daemon::{Client, Registration};
use crate::endpoint::{Connection, EndpointOptions, Parts};
use crate::lock::lock;
use crate::network::{host_of, share_of};
use crate::qmp::Stream;
use crate::service::{Method, Path, PathClass, Pattern, Service};
use pinnace_runtime::{Waiting, WakeFd, Wakers};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a client may take from the answer to its first message.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often the thread looks at what is too old, and whether a daemon has come.
const LOOK: Duration = Duration::from_millis(250);
/// Answers a second, and at once.
const MOST_ANSWERS: f64 = 2000.0;
/// Of a small backlog one host may have so many, instead of a quarter: of those that have repeated a cookie, and as many others.
const LEAST_SHARE: usize = 4;
/// Sockets of one connection each that are opened for addresses which may be forged: a cookie costs a round trip.
const MOST_UNPROVEN: usize = 16;
/// Sockets of methods that are there for many: one a method, local address and kind of network. One more takes the place of
/// one where nobody is expected.
const MOST_NATIVES: usize = 64;

/// What the thread and those who listen share.
pub(crate) struct Shared {
    inbox: Mutex<Inbox>,
    arrived: Condvar,
    thread: Arc<WakeFd>,
    /// Readable while somebody waits to be accepted.
    pub(crate) watch: WakeFd,
}

#[derive(Default)]
struct Inbox {
    /// What is accepted at most; `None`: nobody listens.
    limits: Option<Service>,
    waiting: VecDeque<Connection>,
    tasks: Wakers,
    is_over: bool,
}

/// Whether a host that has taken so many places may have one more where `taken` of `most` are: the last quarter is for those
/// that have less than a quarter.
fn has_place(taken: usize, of_host: usize, most: usize) -> bool {
    taken < most && (taken < most - most / 4 || of_host < (most / 4).max(LEAST_SHARE))
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inbox> {
        lock(&self.inbox)
    }

    /// Somebody listens from now on; false: somebody does already.
    pub(crate) fn listen(&self, limits: Service) -> bool {
        let mut inbox = self.lock();
        let is_free = inbox.limits.is_none();
        if is_free {
            inbox.limits = Some(limits);
        }
        is_free
    }

    /// Nobody does any more.
    pub(crate) fn stop(&self) {
        let mut inbox = self.lock();
        inbox.limits = None;
        let waiting = std::mem::take(&mut inbox.waiting);
        // Before somebody else listens, to whom somebody may come.
        self.watch.clear();
        drop(inbox);
        // Nobody has promised them anything, and their peers may keep whoever stops waiting.
        waiting.into_iter().for_each(Connection::give_up);
    }

    fn pop(&self, inbox: &mut Inbox) -> Option<Connection> {
        let connection = inbox.waiting.pop_front();
        if inbox.waiting.is_empty() {
            self.watch.clear();
        }
        connection
    }

    /// Waits for the next who comes; `None`: the deadline has passed.
    pub(crate) fn accept(&self, deadline: Option<Instant>) -> Option<Connection> {
        let mut inbox = self.lock();
        loop {
            if let Some(connection) = self.pop(&mut inbox) {
                return Some(connection);
            }
            inbox = match deadline {
                None => self.arrived.wait(inbox).unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let left = deadline.checked_duration_since(Instant::now())?;
                    self.arrived.wait_timeout(inbox, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// The same, for tasks: as long as `waiting` is there, it is woken.
    pub(crate) fn poll_accept(&self, context: &mut Context<'_>, waiting: &mut Waiting) -> Poll<Connection> {
        let mut inbox = self.lock();
        if let Some(connection) = self.pop(&mut inbox) {
            return Poll::Ready(connection);
        }
        let old = inbox.tasks.add(waiting, context.waker());
        drop(inbox);
        drop(old);
        Poll::Pending
    }

    fn push(&self, connection: Connection) {
        let mut inbox = self.lock();
        if inbox.limits.is_none() {
            drop(inbox);
            connection.give_up();
            return;
        }
        inbox.waiting.push_back(connection);
        let tasks = std::mem::take(&mut inbox.tasks);
        drop(inbox);
        self.watch.signal();
        self.arrived.notify_one();
        tasks.wake();
    }
}

/// The thread, for whoever owns it.
pub(crate) struct Server {
    pub(crate) shared: Arc<Shared>,
    pub(crate) local: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub(crate) fn start(address: SocketAddr, options: &EndpointOptions) -> Result<Self, Error> {
        let failed = |error| Error::listen(address, error);
        let serving = Serving::bind(address, options).map_err(failed)?;
        let (shared, local) = (Arc::clone(&serving.shared), serving.local);
        let thread = std::thread::Builder::new().name("pinnace-rendezvous".into()).spawn(move || serving.run());
        Ok(Self { shared, local, thread: Some(thread.map_err(failed)?) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.lock().is_over = true;
        self.shared.thread.signal();
        // A task that the thread has woken may run there, and drop the endpoint: the thread ends behind it.
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
        self.shared.stop();
    }
}

/// A client that was told where to come.
struct Expected {
    client: SocketAddr,
    service: Service,
    path: Path,
    method: Method,
    expires: Instant,
    answer: Vec<u8>,
    native: Option<usize>,
    /// It has repeated a cookie.
    is_proven: bool,
}

/// What the thread has.
struct Serving {
    shared: Arc<Shared>,
    socket: Socket,
    local: SocketAddr,
    options: EndpointOptions,
    cookies: Cookies,
    /// Answers that may leave, and when they were counted.
    allowance: (f64, Instant),
    natives: Vec<Native>,
    tasks: Vec<Task>,
    /// By nonce.
    expected: BTreeMap<u64, Expected>,
    registration: Option<Registration>,
    host: u128,
}

impl Serving {
    fn bind(address: SocketAddr, options: &EndpointOptions) -> io::Result<Self> {
        let socket = Socket::bind(address, options.next_fault().as_ref())?;
        let local = socket.local_addr().ok_or(io::ErrorKind::AddrNotAvailable)?;
        let shared = Shared {
            inbox: Mutex::default(),
            arrived: Condvar::new(),
            thread: Arc::new(WakeFd::new()?),
            watch: WakeFd::new()?,
        };
        Ok(Self {
            shared: Arc::new(shared),
            socket,
            local,
            // Somebody has to have room to be set up.
            options: EndpointOptions { backlog: options.backlog.max(1), ..options.clone() },
            cookies: Cookies::new(),
            allowance: (MOST_ANSWERS, Instant::now()),
            natives: Vec::new(),
            tasks: Vec::new(),
            expected: BTreeMap::new(),
            registration: None,
            host: host::identity(),
        })
    }

    fn run(mut self) {
        while !self.shared.lock().is_over {
            let readable = self.sleep();
            self.shared.thread.clear();
            if self.read().is_err() {
                // The socket is gone; whoever listens finds nobody, and nothing else can be done.
                std::thread::sleep(LOOK);
            }
            self.take_from_daemon();
            self.progress(&readable);
            self.forget();
        }
    }

    /// Sleeps until something happens. Returns what became readable.
    fn sleep(&self) -> Vec<RawFd> {
        let daemon = self.registration.as_ref().map_or(-1, |it| it.readable_fd().as_raw_fd());
        let fixed = [self.shared.thread.as_fd().as_raw_fd(), self.socket.descriptor(), daemon];
        let tasks = self.tasks.iter().map(|task| task.descriptor).filter(|descriptor| *descriptor >= 0);
        let entry = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let mut entries: Vec<_> = fixed.into_iter().chain(tasks).map(entry).collect();
        let is_busy = !self.expected.is_empty() || !self.tasks.is_empty();
        let timeout = if is_busy { LOOK.as_millis() as i32 } else { -1 };
        // SAFETY: live entries, as many as the count says.
        unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, timeout) };
        entries.iter().filter(|entry| entry.revents != 0).map(|entry| entry.fd).collect()
    }

    fn read(&mut self) -> io::Result<()> {
        for _ in 0..MOST_READS {
            let asked = self.socket.receive()?;
            if asked.is_empty() {
                break;
            }
            for asked in asked {
                // What is malformed is not answered.
                if let Ok(hello) = Hello::parse(&asked.bytes)
                    && let Some(answer) = self.answer(&hello, &asked)
                    && self.may_answer()
                {
                    self.socket.answer(&answer, asked.from, asked.at)?;
                }
            }
        }
        Ok(())
    }

    fn may_answer(&mut self) -> bool {
        let (left, then) = self.allowance;
        let now = Instant::now();
        let left = (left + now.duration_since(then).as_secs_f64() * MOST_ANSWERS).min(MOST_ANSWERS);
        self.allowance = (left - f64::from(u8::from(left >= 1.0)), now);
        left >= 1.0
    }

    fn answer(&mut self, hello: &Hello, asked: &Asked) -> Option<Vec<u8>> {
        if let Some(expected) = self.expected.get(&hello.nonce) {
            // Its answer was lost; or it is somebody else's, who is lucky, or lies.
            return (expected.client == asked.from).then(|| expected.answer.clone());
        }
        Some(match self.agree(hello, asked) {
            Ok(answer) => answer.encode(),
            Err((status, why)) => Answer::refusal(hello, status, &why).encode(),
        })
    }

    fn agree(&mut self, hello: &Hello, asked: &Asked) -> Result<Answer, Refusal> {
        let (low, high) = hello.versions;
        if high < VERSIONS.0 || low > VERSIONS.1 {
            let (least, most) = VERSIONS;
            return Err((Status::Version, format!("this end speaks versions {least} to {most}, you {low} to {high}")));
        }
        let inbox = self.shared.lock();
        let limits = inbox.limits.clone().ok_or((Status::NobodyListens, String::new()))?;
        let host = share_of(asked.from);
        let accepted = inbox.waiting.iter().filter(|connection| share_of(connection.peer_addr()) == host).count();
        let waiting = inbox.waiting.len() + self.expected.len();
        drop(inbox);
        if waiting >= self.options.backlog {
            return Err((Status::Busy, format!("{waiting} connections wait to be accepted")));
        }
        let service: Service = hello
            .service
            .parse()
            .map_err(|error| (Status::Unknown, format!("the service is not understood: {error}")))?;
        let longest = self.options.longest_message;
        let mut method = decide(&service, &hello.methods, &limits, longest, |method| self.has(method, hello))?;
        if method == Method::SharedMemory
            && let Err(error) = self.register()
        {
            // The daemon has no room for another listener, or is another user's: what the network has is left.
            let others = |method| method != Method::SharedMemory && self.has(method, hello);
            method = decide(&service, &hello.methods, &limits, longest, others)
                .map_err(|(status, why)| (status, format!("{why}; {}: {error}", Method::SharedMemory)))?;
        }
        let has_own_socket = matches!(method, Method::Zcrp | Method::Vrp | Method::A1);
        let (unproven, of_host) = self.count(host);
        let share = (self.options.backlog / 4).max(LEAST_SHARE);
        let is_crowd = has_own_socket && unproven >= MOST_UNPROVEN || waiting * 2 >= self.options.backlog;
        let must_prove = is_crowd || of_host.0 >= share;
        let now = Instant::now();
        let is_proven = self.cookies.knows(hello.cookie, asked.from, hello.nonce, now);
        if must_prove && !is_proven {
            let cookie = self.cookies.make(asked.from, hello.nonce, now);
            return Ok(Answer { cookie, ..Answer::refusal(hello, Status::Again, "") });
        }
        if is_proven && of_host.1 >= share {
            return Err((Status::Busy, format!("{} connections of this host are being set up", of_host.1)));
        }
        // Who has repeated no cookie may be somebody else, and takes no place of this host's.
        let of_host = accepted + of_host.1;
        if !has_place(waiting, of_host, self.options.backlog) {
            return Err((Status::Busy, format!("{of_host} connections of this host wait to be accepted")));
        }
        self.open(hello, asked, method, service, is_proven)
            .map_err(|error| (Status::NoMethod, format!("{method}: {error}")))
    }

    /// How many that have a socket of their own have repeated no cookie; and how many of this client's host have not, and have.
    fn count(&self, host: IpAddr) -> (usize, (usize, usize)) {
        let (mut unproven, mut of_host) = (0, (0, 0));
        for expected in self.expected.values() {
            let has_own_socket = expected.native.is_none() && expected.method != Method::SharedMemory;
            let is_same = share_of(expected.client) == host;
            unproven += usize::from(has_own_socket && !expected.is_proven);
            of_host.0 += usize::from(is_same && !expected.is_proven);
            of_host.1 += usize::from(is_same && expected.is_proven);
        }
        (unproven, of_host)
    }

    /// Whether a method can be offered to this client.
    fn has(&self, method: Method, hello: &Hello) -> bool {
        let is_built = match method {
            Method::SharedMemory => {
                hello.host != 0
                    && hello.host == self.host
                    && self.options.qmp(true).worker
                    && Client::current().is_some()
            }
            _ => true,
        };
        is_built && self.options.selection.allows(method)
    }

    /// Opens what the client will come to.
    fn open(
        &mut self,
        hello: &Hello,
        asked: &Asked,
        method: Method,
        service: Service,
        is_proven: bool,
    ) -> Result<Answer, Error> {
        let local = if self.local.ip().is_unspecified() { asked.local() } else { None };
        let at = host_of(local.unwrap_or(self.local));
        let mut path = Path::toward(asked.from).unwrap_or_else(|_| {
            Path::of_class(if asked.from.ip().is_loopback() { PathClass::Host } else { PathClass::Internet })
        });
        // A client's word that nobody else uses the network is not enough.
        let limits = self.shared.lock().limits.as_ref().and_then(|limits| limits.path);
        if path.class == PathClass::Internet
            && class(hello.class) == PathClass::Cluster
            && limits.is_some_and(|class| class != PathClass::Internet)
        {
            path.class = PathClass::Cluster;
        }
        let is_ours = path.class != PathClass::Internet;
        let expires = Instant::now() + PATIENCE;
        let is_in_place = service.in_place && hello.versions.1 >= LARGE_PIECES;
        let piece = piece_bytes(service.largest_bytes().min(self.options.longest_message), is_in_place);
        let agreed = Agreed { client: asked.from, nonce: hello.nonce, piece, service: service.clone(), is_ours };
        let mut native = None;
        let port = match method {
            Method::SharedMemory => {
                self.register()?;
                self.local.port()
            }
            Method::Zcrp => {
                let (port, descriptor, future) = natives::zcrp(at, agreed, &self.options)?;
                self.tasks.push(Task::new(&self.shared.thread, expires, future).reading(descriptor));
                port
            }
            Method::Vrp => {
                let (port, future) = natives::vrp(at, agreed, &self.options)?;
                self.tasks.push(Task::new(&self.shared.thread, expires, future));
                port
            }
            Method::A1 => {
                let (port, future) = natives::a1(at, &agreed, &self.options)?;
                self.tasks.push(Task::new(&self.shared.thread, expires, future));
                port
            }
            Method::Xtp | Method::Qmp => {
                let index = self.native(method, at, is_ours)?;
                self.watch_native(index, expires);
                native = Some(index);
                self.natives[index].port
            }
        };
        let answer = Answer {
            version: hello.versions.1.min(VERSIONS.1),
            status: Status::Accepted,
            method: number(method),
            nonce: hello.nonce,
            cookie: 0,
            port,
            piece: if method == Method::Zcrp { piece } else { 0 },
            text: String::new(),
        };
        let said = answer.encode();
        let client = asked.from;
        let expected = Expected { client, service, path, method, expires, answer: said, native, is_proven };
        self.expected.insert(hello.nonce, expected);
        Ok(answer)
    }

    /// The socket of a method that is there for many.
    fn native(&mut self, method: Method, at: SocketAddr, is_ours: bool) -> Result<usize, Error> {
        let is_it = |native: &Native| (native.method, native.at, native.is_ours) == (method, at, is_ours);
        let now = Instant::now();
        if let Some(index) = self.natives.iter().position(is_it) {
            self.natives[index].used = now;
            return Ok(index);
        }
        let mut place = None;
        if self.natives.len() >= MOST_NATIVES {
            let full = || Error::io("too many sockets of methods", io::ErrorKind::QuotaExceeded.into());
            place = Some(self.idle_native().ok_or_else(full)?);
        }
        let native = Native::open(method, at, is_ours, &self.options)?;
        let Some(index) = place else {
            self.natives.push(native);
            return Ok(self.natives.len() - 1);
        };
        let old = std::mem::replace(&mut self.natives[index], native);
        // Those who were accepted keep the socket. Where nobody is left, it still has a second for its last words.
        let closing = std::thread::Builder::new().name("pinnace-closing".into());
        let _ = closing.spawn(move || drop(old));
        Ok(index)
    }

    /// Where nobody is expected, and nothing waits: of these, the one that was used least of late.
    fn idle_native(&self) -> Option<usize> {
        let is_used = |index| {
            self.expected.values().any(|expected| expected.native == Some(index))
                || self.tasks.iter().any(|task| task.accepts == Some(index))
        };
        (0..self.natives.len()).filter(|index| !is_used(*index)).min_by_key(|index| self.natives[*index].used)
    }

    /// Somebody is expected there.
    fn watch_native(&mut self, at: usize, expires: Instant) {
        if let Some(task) = self.tasks.iter_mut().find(|task| task.accepts == Some(at)) {
            task.expires = task.expires.max(expires);
            return;
        }
        let future = self.natives[at].accept(self.options.longest_to_come(), self.options.peer_timeout);
        self.natives[at].is_watched = true;
        self.tasks.push(Task::new(&self.shared.thread, expires, future).accepting(at));
    }

    /// The daemon sends us those who come through shared memory.
    fn register(&mut self) -> Result<(), Error> {
        if self.registration.is_none() {
            let failed = |error| Error::io("cannot listen through the daemon", error);
            let client = Client::current().ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
            self.registration = Some(client.listen(self.local).map_err(failed)?);
        }
        Ok(())
    }

    fn take_from_daemon(&mut self) {
        while let Some(registration) = &self.registration {
            match registration.try_accept() {
                Ok(None) => break,
                Ok(Some(arrival)) => {
                    let peer = arrival.peer;
                    let (longest, timeout) = (self.options.longest_to_come(), self.options.peer_timeout);
                    if let Ok(stream) = Stream::over_channel(arrival, &self.options.qmp(true)) {
                        self.begin(Carrier::Framed(Framed::new(stream, longest, timeout)), peer);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::NotConnected => self.registration = None,
                Err(_) => break,
            }
        }
    }

    /// Somebody has come, and will say who it is.
    fn begin(&mut self, carrier: Carrier, peer: SocketAddr) {
        let (host, most) = (share_of(peer), self.options.backlog.saturating_mul(2));
        let of_host = self.tasks.iter().filter(|task| task.from == Some(host)).count();
        if !has_place(self.tasks.len(), of_host, most) {
            // What it has said may be acknowledged already, so it must not end in order.
            carrier.abort(Instant::now());
            return;
        }
        let expires = Instant::now() + PATIENCE / 2;
        let task = Task::new(&self.shared.thread, expires, natives::introduce(carrier, peer));
        self.tasks.push(task.introducing(host));
    }

    fn progress(&mut self, readable: &[RawFd]) {
        let mut at = 0;
        while let Some(task) = self.tasks.get_mut(at) {
            let is_readable = readable.contains(&task.descriptor);
            let Some(done) = task.poll(is_readable) else {
                at += 1;
                continue;
            };
            let task = self.tasks.swap_remove(at);
            if let Some(native) = task.accepts {
                self.natives[native].is_watched = false;
            }
            match done {
                Done::Come(carrier, peer) => {
                    // Anybody can say that he comes from anywhere: who is not expected takes nobody's place.
                    if self.expected.values().any(|expected| host_of(expected.client) == host_of(peer)) {
                        self.begin(*carrier, peer);
                    } else {
                        carrier.abort(Instant::now());
                    }
                    if let Some(native) = task.accepts {
                        self.watch_native(native, task.expires);
                    }
                }
                Done::Open(opened) => {
                    let (carrier, control, peer) = *opened;
                    self.finish(carrier, &control, peer);
                    // Other tasks may have gone with it, and those behind them have moved.
                    at = 0;
                }
                Done::Failed => {}
            }
        }
    }

    /// Shows a connection to whoever listens, if it was expected.
    fn finish(&mut self, mut carrier: Carrier, control: &Control, peer: SocketAddr) {
        let nonce = control.nonce;
        let is_it = |expected: &Expected| {
            let is_host = expected.method == Method::SharedMemory || host_of(expected.client) == host_of(peer);
            // By another one it would leave the socket of what was agreed on behind.
            is_host && expected.method == carrier.method()
        };
        if !self.expected.get(&nonce).is_some_and(is_it) {
            // It must not end in order: that takes time, and others wait for this thread.
            carrier.abort(Instant::now());
            return;
        }
        let Some(Expected { service, path, method, native, .. }) = self.expected.remove(&nonce) else { return };
        if let Some(native) = native
            && !self.expected.values().any(|other| other.native == Some(native))
        {
            // Who accepts where nobody is expected is only in the way of those who are here.
            self.tasks.retain(|task| task.accepts != Some(native));
            self.natives[native].is_watched = false;
        }
        let service = whole(&control.service, &service).unwrap_or(service);
        // Another may listen by now than the one it was agreed on with.
        let limits = self.shared.lock().limits.clone();
        let is_within = |limits: &Service| within(&service, limits, self.options.longest_message).is_ok();
        let Some(limits) = limits.filter(is_within) else {
            carrier.abort(Instant::now());
            return;
        };
        if natives::is_duplex(&service) && service.kept_rate().is_some() {
            // The way back is held to it as well. What the sockets of all were made with knows nothing of it.
            let _ = carrier.set_service(&service);
        }
        let (selection, longest) = (self.options.selection.clone(), self.longest(&service, &limits));
        carrier.limit(longest);
        let parts = Parts { method, service, path, peer, selection, longest, has_connected: false };
        self.shared.push(Connection::new(carrier, parts));
    }

    /// Bytes of the longest message that is received of whoever asked for `service`: also who said nothing of sizes keeps to
    /// the listener's limit.
    fn longest(&self, service: &Service, limits: &Service) -> u64 {
        let has_limit = limits.says_sizes() && service.pattern != Pattern::Stream;
        let limit = if has_limit { limits.largest_bytes() } else { u64::MAX };
        limit.min(self.options.longest_message)
    }

    /// Gives up what is too old.
    fn forget(&mut self) {
        let now = Instant::now();
        self.expected.retain(|_, expected| expected.expires > now);
        self.tasks.retain(|task| task.expires > now);
        for (at, native) in self.natives.iter_mut().enumerate() {
            native.is_watched = self.tasks.iter().any(|task| task.accepts == Some(at));
        }
    }
}

#[cfg(test)]
mod tests;
