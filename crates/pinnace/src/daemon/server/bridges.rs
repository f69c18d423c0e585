//! Links that need a right to use, for clients that have none: the daemon carries what goes through a channel to a stream of
//! QMP over protocol 36 or Ethernet, and back.
//!
//! Qbufs go straight from one to the other: the stream's bytes lie in the same pool. Each direction has a thread, which waits
//! until the other side takes what it brings, so that whoever is slow slows down his peer and nobody else.
//!
//! Anybody can send packets in the names of others, each of which begins a stream: of those who have not shown that they are
//! there few have a bridge at a time, and the others wait for a while.
//!
//! Always true: the loop never waits for a link; a bridge ends when either side does, in order if that ended in order.

use super::channels::Made;
use super::client::Stage;
use super::events::Source;
use super::requests::No;
use super::serving::{End, Listener, Serving};
use crate::Error;
use crate::daemon::protocol::{Reply, Via};
use crate::daemon::{Arrival, Refusal, socket};
use crate::lock::lock;
use crate::qmp::{Carrier, Endpoint, Full, Options, Qbuf, Shutdown, Stream};
use pinnace_qbuf::channel::{Channel, ChannelFds, Side};
use pinnace_qbuf::{ClientId, Pool};
use pinnace_xtp::Refused;
use rustix::event::EventfdFlags;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::{Duration, Instant};

/// The daemon itself, among the clients that have channels.
const OURSELVES: u64 = 0;
/// How often a thread looks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(250);
/// How long another host may take to answer; less than what a client has to sit down on its channel.
const CONNECTING: Duration = Duration::from_secs(4);
/// How long who does not read may keep what a client has sent that is gone.
const LINGER: Duration = Duration::from_secs(60);
/// Of how many bridges one may be for somebody who has not shown that he is there.
const DOUBTED: usize = 4;
/// The most who wait to show it, and for how long: who is there has shown it by then, also if many packets are lost.
const MOST_WAITING: usize = 256;
const LONGEST_DOUBT: Duration = Duration::from_secs(10);
/// Who finds the pool empty looks again so often.
const NO_MEMORY: Duration = Duration::from_millis(1);

/// What threads have for the loop.
#[derive(Debug)]
enum Word {
    /// Somebody has come to a listener.
    Arrived { listener: u64, stream: Box<Stream> },
    /// A listener could not begin, or cannot go on.
    Failed { listener: u64 },
}

#[derive(Debug)]
struct Queue {
    words: Mutex<Vec<Word>>,
    wake: OwnedFd,
}

impl Queue {
    fn push(&self, word: Word) {
        lock(&self.words).push(word);
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }
}

/// The threads' side of the loop.
#[derive(Debug)]
pub(super) struct Bridges {
    queue: Arc<Queue>,
    /// Each bridge has a clone.
    count: Arc<()>,
    /// Streams of bridges whose peers had not shown that they are there.
    doubted: Vec<Weak<Stream>>,
    /// Who waits for room among those, or to show it; since when, and at which listener.
    waiting: VecDeque<(Instant, u64, Stream)>,
}

impl Bridges {
    pub(super) fn new() -> io::Result<Self> {
        let wake = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let queue = Arc::new(Queue { words: Mutex::default(), wake });
        Ok(Self { queue, count: Arc::default(), doubted: Vec::new(), waiting: VecDeque::new() })
    }

    pub(super) fn wake(&self) -> BorrowedFd<'_> {
        self.queue.wake.as_fd()
    }

    /// What one bridge holds while it is there. `None`: there are as many as there may be.
    fn begin(&self, most: usize) -> Option<Arc<()>> {
        (Arc::strong_count(&self.count) <= most).then(|| Arc::clone(&self.count))
    }

    /// Whether a stream that has come may have one of so many bridges.
    fn admits(&mut self, stream: &Stream, most: usize) -> bool {
        if stream.is_proved() {
            return true;
        }
        self.doubted.retain(|other| other.upgrade().is_some_and(|other| !other.is_proved()));
        self.doubted.len() < (most / DOUBTED).max(1)
    }

    /// It has a bridge.
    fn admitted(&mut self, stream: &Arc<Stream>) {
        if !stream.is_proved() {
            self.doubted.push(Arc::downgrade(stream));
        }
    }

    /// Lets it wait. Where too many do, it is in the place of whoever has waited longest and has not shown that he is there.
    fn keep(&mut self, listener: u64, stream: Stream) {
        if self.waiting.len() >= MOST_WAITING {
            let oldest = self.waiting.iter().position(|(_, _, other)| !other.is_proved());
            self.waiting.remove(oldest.unwrap_or(0));
        }
        self.waiting.push_back((Instant::now(), listener, stream));
    }

    pub(super) fn is_waited_for(&self) -> bool {
        !self.waiting.is_empty()
    }
}

fn options(via: Via, pool: &Pool) -> Options {
    let carrier = match via {
        Via::Ip36 => Carrier::Ip36,
        Via::Ether => Carrier::Ether,
    };
    Options { carrier, pool: Some(pool.clone()), same_host: false, ..Options::default() }
}

/// A link's error, in the words of the protocol.
fn refusal(error: &io::Error) -> Refusal {
    let own = error.get_ref().and_then(|error| error.downcast_ref());
    if let Some(Error::ContextRefused(Refused::Port)) = own {
        // Somebody listens there, or has until now.
        return Refusal::InUse;
    }
    match error.kind() {
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset => Refusal::Nobody,
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => Refusal::Silence,
        io::ErrorKind::AddrInUse => Refusal::InUse,
        io::ErrorKind::AddrNotAvailable => Refusal::NotLocal,
        _ => Refusal::NoLink,
    }
}

impl Serving {
    pub(super) fn connect_via(&mut self, number: u64, via: Via, to: SocketAddr, id: ClientId) -> Result<(), No> {
        self.require(number, Stage::Attached)?;
        let client = self.clients.get(&number).ok_or(End::Left)?;
        if !client.attached.contains(&id) {
            return Err(Refusal::OutOfTurn.into());
        }
        if self.channels.len() >= self.limits.channels || client.channels.len() >= self.limits.channels_per_client {
            return Err(Refusal::Limit.into());
        }
        let count = self.bridges.begin(self.limits.bridges).ok_or(Refusal::Limit)?;
        let (ours, theirs) = socket::pair().map_err(|_| Refusal::System)?;
        let (made, channel) = self.make_with_us([(number, id), (OURSELVES, self.pool.client())], Side::B)?;
        if let Some(client) = self.clients.get_mut(&number) {
            client.channels.insert(made.number);
        }
        let options = options(via, &self.pool);
        // If there is no thread, the client finds the socket closed, and the channel too.
        let _ = thread::Builder::new().name("pinnace-bridge".into()).spawn(move || {
            let _count = count;
            connect(&ours, channel, &made.fds, to, &options);
        });
        Ok(self.reply(number, &Reply::Listening, &[theirs.as_fd()])?)
    }

    pub(super) fn listen_via(&mut self, number: u64, via: Via, address: SocketAddr) -> Result<(), No> {
        self.require(number, Stage::Attached)?;
        if address.port() == 0 {
            return Err(Refusal::NotLocal.into());
        }
        self.check_may_listen(number, address)?;
        let count = self.bridges.begin(self.limits.bridges).ok_or(Refusal::Limit)?;
        let (ours, theirs) = socket::pair().map_err(|_| Refusal::System)?;
        let telling = ours.try_clone().map_err(|_| Refusal::System)?;
        let listener = self.number();
        self.events.add(&ours, Source::Listener(listener)).map_err(|_| Refusal::System)?;
        let taking = Arc::new(());
        let is_wanted = Arc::downgrade(&taking);
        let found = Listener { client: number, address, socket: ours, pending: Vec::new(), _taking: Some(taking) };
        self.listeners.insert(listener, found);
        if let Some(client) = self.clients.get_mut(&number) {
            client.listeners.insert(listener);
        }
        let (options, queue) = (options(via, &self.pool), Arc::clone(&self.bridges.queue));
        let spawned = thread::Builder::new().name("pinnace-bridges".into()).spawn(move || {
            let _count = count;
            take(telling, &is_wanted, listener, address, &options, &queue);
        });
        if spawned.is_err() {
            self.unlisten(listener);
            return Err(Refusal::System.into());
        }
        Ok(self.reply(number, &Reply::Listening, &[theirs.as_fd()])?)
    }

    /// A channel that the daemon itself has a side of.
    fn make_with_us(&mut self, ends: [(u64, ClientId); 2], side: Side) -> Result<(Made, Channel), Refusal> {
        let made = self.channels.make(&self.pool, ends).map_err(|_| Refusal::System)?;
        let fds = made.fds.try_clone().ok();
        match fds.and_then(|fds| Channel::attach(&self.pool, fds, side).ok()) {
            Some(channel) => Ok((made, channel)),
            None => {
                self.channels.forget(made.number);
                Err(Refusal::System)
            }
        }
    }

    /// Does what threads have for the loop.
    pub(super) fn hear_bridges(&mut self) {
        let _ = rustix::io::read(self.bridges.wake(), &mut [0u8; 8]);
        let words = std::mem::take(&mut *lock(&self.bridges.queue.words));
        for word in words {
            match word {
                Word::Failed { listener } => self.unlisten(listener),
                // Who cannot be taken finds the stream reset.
                Word::Arrived { listener, stream } => {
                    stream.set_linger(Some(Duration::ZERO));
                    if self.bridges.admits(&stream, self.limits.bridges) {
                        let _ = self.bridge(listener, *stream);
                    } else {
                        self.bridges.keep(listener, *stream);
                    }
                }
            }
        }
    }

    /// Looks after those who wait.
    pub(super) fn look_at_bridges(&mut self) {
        for (since, listener, stream) in std::mem::take(&mut self.bridges.waiting) {
            if self.bridges.admits(&stream, self.limits.bridges) {
                let _ = self.bridge(listener, stream);
            } else if since.elapsed() < LONGEST_DOUBT && self.listeners.contains_key(&listener) {
                self.bridges.waiting.push_back((since, listener, stream));
            }
        }
    }

    fn bridge(&mut self, listener: u64, stream: Stream) -> Result<(), Refusal> {
        let found = self.listeners.get(&listener).ok_or(Refusal::Nobody)?;
        let (host, count) = (found.client, self.bridges.begin(self.limits.bridges).ok_or(Refusal::Limit)?);
        let client = self.clients.get(&host).ok_or(Refusal::Nobody)?;
        let id = *client.attached.first().ok_or(Refusal::Nobody)?;
        if self.channels.len() >= self.limits.channels || client.channels.len() >= self.limits.channels_per_client {
            return Err(Refusal::Limit);
        }
        self.check_pending(listener)?;
        let (made, channel) = self.make_with_us([(OURSELVES, self.pool.client()), (host, id)], Side::A)?;
        let (local, peer) = (stream.local_addr(), stream.peer_addr());
        if !self.hand_to_listener(listener, &made, local, peer)? {
            return Err(Refusal::Nobody);
        }
        if let Some(client) = self.clients.get_mut(&host) {
            client.channels.insert(made.number);
        }
        self.counters.connected += 1;
        stream.set_linger(None);
        let stream = Arc::new(stream);
        self.bridges.admitted(&stream);
        let spawned = thread::Builder::new().name("pinnace-bridge".into()).spawn(move || {
            let _count = count;
            carry(channel, &stream, LINGER);
        });
        spawned.map(drop).map_err(|_| Refusal::System)
    }
}

/// Connects, and tells who waits at `socket`.
fn connect(socket: &OwnedFd, channel: Channel, fds: &ChannelFds, to: SocketAddr, options: &Options) {
    // By the link itself: what a daemon has no right to, no other one does for it.
    let connected = Endpoint::client_of(to, options).and_then(|endpoint| {
        let stream = endpoint.begin(to)?;
        stream.wait_established(Some(CONNECTING))?;
        Ok(stream)
    });
    match connected {
        Ok(stream) => {
            let reply = Reply::Channel { local: stream.local_addr(), peer: stream.peer_addr() };
            if socket::send(socket.as_fd(), &reply.encode(), &socket::of_channel(fds)).is_ok() {
                carry(channel, &stream, LINGER);
            }
        }
        // The channel closes on our side; the other never was anybody's.
        Err(error) => {
            let _ = socket::send(socket.as_fd(), &Reply::Refused(refusal(&error)).encode(), &[]);
        }
    }
}

/// Takes who comes, for as long as somebody wants them.
fn take(socket: OwnedFd, is_wanted: &Weak<()>, listener: u64, address: SocketAddr, options: &Options, queue: &Queue) {
    let listening = Endpoint::bind(address, options).and_then(|endpoint| endpoint.listen(address.port()));
    let word = match &listening {
        Ok(_) => Reply::Attached,
        Err(error) => Reply::Refused(refusal(error)),
    };
    let _ = socket::send(socket.as_fd(), &word.encode(), &[]);
    // Ours would keep the client from finding it closed.
    drop(socket);
    if let Ok(listening) = listening {
        while is_wanted.strong_count() > 0 {
            match listening.accept_timeout(LOOK) {
                Ok(Some(stream)) => queue.push(Word::Arrived { listener, stream: Box::new(stream) }),
                Ok(None) => {}
                Err(_) => break,
            }
        }
    }
    queue.push(Word::Failed { listener });
}

/// Carries both ways, until both are over, or the client is gone and nothing more is taken for `linger`.
fn carry(channel: Channel, stream: &Stream, linger: Duration) {
    let (local, peer) = (stream.local_addr(), stream.peer_addr());
    let Ok(client) = Stream::over_channel(Arrival { channel, peer, local }, &Options::default()) else { return };
    for stream in [&client, stream] {
        stream.set_read_timeout(Some(LOOK));
    }
    let bridge = Bridge { client, linger, is_broken: AtomicBool::new(false) };
    thread::scope(|scope| {
        let other = thread::Builder::new().spawn_scoped(scope, || bridge.carry(stream, &bridge.client));
        if other.is_err() {
            bridge.is_broken.store(true, Ordering::Relaxed);
        }
        bridge.carry(&bridge.client, stream);
    });
    if bridge.is_broken() {
        // Whoever is left finds his end reset, too.
        for stream in [&bridge.client, stream] {
            stream.set_linger(Some(Duration::ZERO));
        }
    }
}

/// What both ways of a bridge know.
struct Bridge {
    client: Stream,
    linger: Duration,
    is_broken: AtomicBool,
}

impl Bridge {
    fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Relaxed)
    }

    /// Carries one way to its end.
    fn carry(&self, from: &Stream, to: &Stream) {
        while !self.is_broken() {
            match from.recv_qbuf() {
                Ok(Some(qbuf)) => {
                    if !self.pass(qbuf, to) {
                        break;
                    }
                }
                Ok(None) => {
                    if to.shutdown(Shutdown::Write).is_err() {
                        break;
                    }
                    return;
                }
                // There is nobody to bring anything to. How the other way ends is for that to say.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && !to.is_read() => return,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::OutOfMemory => thread::sleep(NO_MEMORY),
                Err(_) => break,
            }
        }
        self.is_broken.store(true, Ordering::Relaxed);
    }

    /// Waits until the other side takes it. False: it will not, or nobody waits for that any more.
    fn pass(&self, mut qbuf: Qbuf, to: &Stream) -> bool {
        let begin = Instant::now();
        while !self.is_broken() {
            match to.send_qbuf_timeout(qbuf, Some(LOOK)) {
                Ok(Ok(())) => return true,
                Ok(Err(_)) if begin.elapsed() >= self.linger && !self.client.is_read() => return false,
                Ok(Err(Full(back))) => qbuf = back,
                Err(_) => return false,
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qmp::Listener as QmpListener;
    use pinnace_qbuf::PoolOptions;
    use pinnace_qbuf::channel::{ChannelError, ChannelOptions};
    use std::net::UdpSocket;
    use std::sync::mpsc::{self, Receiver};

    const PATIENCE: Duration = Duration::from_secs(60);

    /// A client, who he is talking with over a bridge of such patience, and what says that the bridge is gone.
    fn bridge(linger: Duration) -> (Channel, Stream, Receiver<()>) {
        let pool = Pool::create(&PoolOptions { zones: 64, share_percent: 75, ..PoolOptions::default() }).unwrap();
        let there = Pool::attach(pool.fd().try_clone_to_owned().unwrap()).unwrap();
        let fds = Channel::create(&pool, &ChannelOptions::default()).unwrap();
        let ours = Channel::attach(&pool, fds.try_clone().unwrap(), Side::A).unwrap();
        let client = Channel::attach(&there, fds, Side::B).unwrap();
        let options = Options { carrier: Carrier::Udp, pool: Some(pool), same_host: false, ..Options::default() };
        let listener = QmpListener::bind("127.0.0.1:0", &options).unwrap();
        let stream = Stream::connect(listener.local_addr(), &options).unwrap();
        let remote = listener.accept().unwrap();
        remote.set_read_timeout(Some(PATIENCE));
        let (gone, is_gone) = mpsc::channel();
        thread::spawn(move || {
            carry(ours, &stream, linger);
            drop(stream);
            gone.send(())
        });
        (client, remote, is_gone)
    }

    /// Sends until nobody takes anything: the bridge waits. Says how much that was.
    fn fill(client: &mut Channel) -> usize {
        let (mut sent, mut last) = (0, Instant::now());
        while last.elapsed() < 2 * LOOK {
            match client.try_send_bytes(&[1; 50_000]) {
                Ok(len) => (sent, last) = (sent + len, Instant::now()),
                Err(ChannelError::Full | ChannelError::NoMemory) => thread::sleep(Duration::from_millis(1)),
                Err(error) => panic!("{error}"),
            }
        }
        sent
    }

    #[test]
    fn of_those_who_may_not_be_there_few_have_a_bridge() {
        let options = Options { same_host: false, ..Options::default() };
        // The first words of somebody who connects, which others say after him. They have an address of their own, so that nobody
        // else takes the port in between.
        let socket = || UdpSocket::bind("127.0.0.43:0").unwrap();
        let nobody = socket();
        let (at, mut first) = (nobody.local_addr().unwrap(), vec![0; 65_536]);
        let asking = Endpoint::client_of(at, &options).unwrap().begin(at).unwrap();
        let (len, _) = nobody.recv_from(&mut first).unwrap();
        drop((asking, nobody));
        let listener = QmpListener::bind(at, &options).unwrap();
        let strangers: Vec<_> = (0..5).map(|_| socket()).collect();
        for stranger in &strangers {
            stranger.send_to(&first[..len], at).unwrap();
        }
        let accept = |from: &dyn Fn(SocketAddr) -> bool| loop {
            let stream = listener.accept().unwrap();
            if from(stream.peer_addr()) {
                break stream;
            }
        };
        let is_stranger = |peer| strangers.iter().any(|stranger| stranger.local_addr().unwrap() == peer);
        let mut bridges = Bridges::new().unwrap();
        let mut crossing = Vec::new();
        for _ in 0..4 {
            let stream = Arc::new(accept(&is_stranger));
            assert!(bridges.admits(&stream, 16));
            bridges.admitted(&stream);
            crossing.push(stream);
        }
        let stranger = accept(&is_stranger);
        assert!(!bridges.admits(&stranger, 16));
        // Whoever has shown that he is there waits for none of them.
        let here = Stream::connect(at, &options).unwrap();
        here.write(b"ahoy").unwrap();
        let there = accept(&|peer| peer.port() == here.local_addr().port());
        while !there.is_proved() {
            thread::sleep(Duration::from_millis(1));
        }
        assert!(bridges.admits(&there, 16));
        bridges.admitted(&Arc::new(there));
        crossing.pop();
        assert!(bridges.admits(&stranger, 16));
    }

    #[test]
    fn a_bridge_is_gone_with_a_client_that_has_said_its_last_word() {
        let (mut client, remote, is_gone) = bridge(2 * LOOK);
        client.try_send_bytes(b"ahoy?").unwrap();
        client.try_send_bytes(b"").unwrap();
        client.finish();
        let mut bytes = [0; 8];
        assert_eq!((remote.read(&mut bytes).unwrap(), remote.read(&mut bytes).unwrap()), (5, 0));
        // As long as it is there it waits for an answer.
        assert!(is_gone.recv_timeout(2 * LOOK).is_err());
        drop(client);
        is_gone.recv_timeout(PATIENCE).expect("it is there for ever");
    }

    #[test]
    fn a_bridge_is_gone_with_a_client_whose_peer_does_not_read() {
        let (mut client, remote, is_gone) = bridge(2 * LOOK);
        fill(&mut client);
        remote.write(b"an answer").unwrap();
        assert!(client.wait_readable(Duration::ZERO, Some(Instant::now() + PATIENCE)).unwrap());
        drop(client);
        is_gone.recv_timeout(PATIENCE).expect("it is there for ever");
    }

    #[test]
    fn what_a_client_has_sent_before_it_went_arrives_however_slow_the_reader() {
        // He takes something much more often than that, also on a busy machine, and all of it later.
        let (linger, pause) = (8 * LOOK, 3 * LOOK / 2);
        let (mut client, remote, is_gone) = bridge(linger);
        let sent = fill(&mut client);
        client.try_send_bytes(b"").unwrap();
        client.finish();
        drop(client);
        let (mut got, mut bytes) = (0, vec![0; 200_000]);
        let (begun, mut lasted) = (Instant::now(), None);
        loop {
            match remote.read(&mut bytes).expect("the bridge gives nothing up") {
                0 => break,
                len => got += len,
            }
            if lasted.is_none() {
                thread::sleep(pause);
                lasted = is_gone.try_recv().ok().map(|()| begun.elapsed());
            }
        }
        assert_eq!(got, sent);
        let lasted = lasted.unwrap_or_else(|| {
            is_gone.recv_timeout(PATIENCE).expect("it is there for ever");
            begun.elapsed()
        });
        assert!(lasted > linger, "nothing waited: {lasted:?}");
    }
}
