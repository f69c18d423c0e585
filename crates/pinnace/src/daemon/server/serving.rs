//! The loop: who comes, who goes, and who has had enough.

use super::address::Registry;
use super::admission::{Admission, Process};
use super::bridges::Bridges;
use super::census::Census;
use super::channels::Channels;
use super::client::{Client, Stage};
use super::events::{Events, Source};
use crate::daemon::protocol::{BYTES, Malformed, Reply, Request};
use crate::daemon::socket::{self, Received};
use crate::daemon::{DaemonOptions, Limits, Refusal};
use pinnace_qbuf::{ClientId, Pool};
use rustix::io::Errno;
use rustix::net::SocketFlags;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Connections taken, and messages of one client read, before others have their turn.
const AT_ONCE: usize = 16;
/// How often the daemon looks after what does not announce itself; with large pools, whose looks cost more, more rarely.
const LOOK: Duration = Duration::from_millis(250);

/// Why a client is no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It said so.
    Left,
    /// It hung up, without a word.
    HungUp,
    /// Its process is dead.
    Died,
    /// It said what it should not, did not read, had too much, or took too long.
    Misbehaved,
}

/// An address that a client listens at.
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) client: u64,
    pub(super) address: SocketAddr,
    /// On which it is told of arrivals.
    pub(super) socket: OwnedFd,
    /// Channels that it has been told of, and may not have accepted, and who is at their other ends.
    pub(super) pending: Vec<(u32, SocketAddr)>,
    /// Dropped with it: who takes streams for it from another link ends then.
    pub(super) _taking: Option<Arc<()>>,
}

/// What has happened so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counters {
    pub(super) connected: u64,
    pub(super) refused: u64,
    pub(super) dropped: u64,
    pub(super) died: u64,
}

#[derive(Debug)]
pub(super) struct Serving {
    listening: OwnedFd,
    stop: OwnedFd,
    pub(super) events: Events,
    pub(super) pool: Pool,
    admission: Admission,
    pub(super) limits: Limits,
    pub(super) clients: BTreeMap<u64, Client>,
    pub(super) listeners: BTreeMap<u64, Listener>,
    pub(super) registry: Registry,
    pub(super) channels: Channels,
    pub(super) bridges: Bridges,
    pub(super) counters: Counters,
    pub(super) census: Census,
    pub(super) begun: Instant,
    /// Clients of the pool that nobody has said he is, and since when.
    strangers: BTreeMap<ClientId, Instant>,
    /// What the next client or listener is called.
    next: u64,
    /// Given up for a moment when there are no descriptors left, to take who waits and turn him away.
    spare: Option<OwnedFd>,
    next_look: Instant,
    /// The last sweep found another at work.
    is_sweep_due: bool,
    /// The last look found nobody, and nothing has happened since.
    is_idle: bool,
}

impl Serving {
    pub(super) fn new(
        listening: OwnedFd,
        stop: OwnedFd,
        pool: Pool,
        admission: Admission,
        options: &DaemonOptions,
    ) -> io::Result<Self> {
        let events = Events::new()?;
        events.add(&listening, Source::Listening)?;
        events.add(&stop, Source::Stop)?;
        let bridges = Bridges::new()?;
        events.add(bridges.wake(), Source::Bridges)?;
        Ok(Self {
            listening,
            spare: stop.try_clone().ok(),
            stop,
            events,
            bridges,
            census: Census::new(),
            pool,
            admission,
            limits: options.limits.clone(),
            clients: BTreeMap::new(),
            listeners: BTreeMap::new(),
            registry: Registry::default(),
            channels: Channels::new(options.channel_slots),
            counters: Counters::default(),
            begun: Instant::now(),
            strangers: BTreeMap::new(),
            next: 1,
            next_look: Instant::now(),
            is_sweep_due: false,
            is_idle: true,
        })
    }

    pub(super) fn run(&mut self) -> io::Result<()> {
        loop {
            let timeout = (!self.is_idle).then(|| self.next_look.saturating_duration_since(Instant::now()));
            for source in self.events.wait(timeout)? {
                self.is_idle = false;
                match source {
                    Source::Listening => self.accept(),
                    Source::Stop => {
                        let _ = rustix::io::read(&self.stop, &mut [0u8; 8]);
                        return Ok(());
                    }
                    Source::Bridges => self.hear_bridges(),
                    Source::Client(number) => self.hear(number),
                    Source::Process(number) => self.end(number, End::Died),
                    Source::Listener(number) => self.hear_listener(number),
                }
            }
            if Instant::now() >= self.next_look {
                self.look();
                let cost = Duration::from_micros(self.pool.options().zones.into()) * pinnace_qbuf::BLOCKS as u32;
                self.next_look = Instant::now() + LOOK.max(cost);
                let has_nobody = self.clients.is_empty() && self.strangers.is_empty() && !self.bridges.is_waited_for();
                self.is_idle = has_nobody && !self.is_sweep_due;
            }
        }
    }

    pub(super) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn accept(&mut self) {
        for _ in 0..AT_ONCE {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            match rustix::net::accept_with(&self.listening, flags) {
                Ok(socket) => self.admit(socket),
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS) => {
                    self.spare = None;
                    if let Ok(socket) = rustix::net::accept_with(&self.listening, flags) {
                        self.refuse(&socket, Refusal::System);
                    }
                    self.spare = self.stop.try_clone().ok();
                    return;
                }
                Err(_) => return,
            }
        }
    }

    fn refuse(&mut self, socket: &OwnedFd, refusal: Refusal) {
        self.counters.refused += 1;
        let _ = socket::send(socket.as_fd(), &Reply::Refused(refusal).encode(), &[]);
    }

    fn admit(&mut self, socket: OwnedFd) {
        let process = match self.admission.check(socket.as_fd()).and_then(|process| self.has_room_for(process)) {
            Ok(process) => process,
            Err(refusal) => return self.refuse(&socket, refusal),
        };
        let number = self.number();
        let watched = self
            .events
            .add(&socket, Source::Client(number))
            .and_then(|()| self.events.add(&process.alive, Source::Process(number)));
        match watched {
            Ok(()) => drop(self.clients.insert(number, Client::new(process, socket))),
            Err(_) => self.refuse(&socket, Refusal::System),
        }
    }

    fn has_room_for(&mut self, process: Process) -> Result<Process, Refusal> {
        if self.is_full_for(&process) {
            self.bury();
        }
        if self.is_full_for(&process) { Err(Refusal::Limit) } else { Ok(process) }
    }

    fn is_full_for(&self, process: &Process) -> bool {
        // Processes that we cannot tell apart share what one may have.
        let same = self.clients.values().filter(|client| client.process.pid == process.pid).count();
        self.clients.len() >= self.limits.clients || same >= self.limits.connections_per_process
    }

    /// Forgets those who had left, and by now have given back what they had.
    fn bury(&mut self) {
        let pool = &self.pool;
        let has_gone = |client: &Client| client.attached.iter().all(|&id| pool.client_at(id.slot()) != Some(id));
        let left = self.clients.iter().filter(|(_, client)| client.stage == Stage::Left && has_gone(client));
        let gone: Vec<_> = left.map(|(&number, _)| number).collect();
        for number in gone {
            if let Some(client) = self.clients.get_mut(&number) {
                client.attached.clear();
            }
            self.end(number, End::Left);
        }
    }

    /// Reads what a client says.
    fn hear(&mut self, number: u64) {
        let mut message = [0; BYTES];
        for _ in 0..AT_ONCE {
            let Some(socket) = self.clients.get(&number).and_then(|client| client.socket.as_ref()) else { return };
            let end = match socket::receive(socket.as_fd(), &mut message) {
                Ok(Received::Bytes(len)) => match Request::parse(&message[..len]) {
                    Ok(request) => match self.handle(number, request) {
                        Ok(()) => continue,
                        Err(end) => end,
                    },
                    Err(Malformed::Version(_)) => {
                        let _ = self.reply(number, &Reply::Refused(Refusal::Version), &[]);
                        End::Misbehaved
                    }
                    Err(Malformed::Garbage) => End::Misbehaved,
                },
                Ok(Received::Nothing) => return,
                Ok(Received::Unwanted | Received::Incomplete(_)) => End::Misbehaved,
                Ok(Received::Closed) | Err(_) => End::HungUp,
            };
            return self.end(number, end);
        }
    }

    /// Answers a client, who must read it some time.
    pub(super) fn reply(&self, number: u64, reply: &Reply, fds: &[std::os::fd::BorrowedFd<'_>]) -> Result<(), End> {
        let client = self.clients.get(&number).ok_or(End::Left)?;
        let socket = client.socket.as_ref().ok_or(End::Left)?;
        socket::send(socket.as_fd(), &reply.encode(), fds).map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => End::Left,
            _ => End::Misbehaved,
        })
    }

    /// A listener says at most what it declines, and hangs up in the end.
    fn hear_listener(&mut self, number: u64) {
        let Some(listener) = self.listeners.get(&number) else { return };
        let client = listener.client;
        let mut message = [0; BYTES];
        match socket::receive(listener.socket.as_fd(), &mut message) {
            Ok(Received::Nothing) => {}
            Ok(Received::Closed) | Err(_) => self.unlisten(number),
            Ok(Received::Bytes(len)) => match Request::parse(&message[..len]) {
                Ok(Request::Decline(peer)) => self.decline(number, peer),
                _ => self.end(client, End::Misbehaved),
            },
            Ok(Received::Unwanted | Received::Incomplete(_)) => self.end(client, End::Misbehaved),
        }
    }

    /// A listener could not take what it was told of.
    fn decline(&mut self, number: u64, peer: SocketAddr) {
        let Some(listener) = self.listeners.get_mut(&number) else { return };
        if let Some(index) = listener.pending.iter().position(|(_, at)| *at == peer) {
            let (channel, _) = listener.pending.swap_remove(index);
            self.channels.abandon_arrival(&self.pool, channel);
        }
    }

    /// Nobody listens any more; who has come and was not accepted is told.
    pub(super) fn unlisten(&mut self, number: u64) {
        let Some(listener) = self.listeners.remove(&number) else { return };
        self.registry.remove(listener.address, number);
        if let Some(client) = self.clients.get_mut(&listener.client) {
            client.listeners.remove(&number);
        }
        // First, so that what was sent to it and not received is out of reach.
        drop(listener.socket);
        for (channel, _) in listener.pending {
            self.channels.abandon_arrival(&self.pool, channel);
        }
    }

    //= B-12
    /// A client is no more, or no more than a user of the pool.
    pub(super) fn end(&mut self, number: u64, end: End) {
        let Some(client) = self.clients.get_mut(&number) else { return };
        match end {
            // What it has in the pool is its own until it gives that back, or dies.
            End::Left if !client.attached.is_empty() => {
                client.socket = None;
                client.stage = Stage::Left;
                return;
            }
            // The same: its process may live, and have it in its memory. But those it talked with wait in vain.
            End::HungUp if !client.attached.is_empty() => {
                client.socket = None;
                client.stage = Stage::Left;
                return self.hang_up(number);
            }
            End::Left | End::HungUp => {}
            End::Died => self.counters.died += 1,
            End::Misbehaved => self.counters.dropped += 1,
        }
        self.hang_up(number);
        let Some(client) = self.clients.remove(&number) else { return };
        for id in client.attached {
            let swept = match self.pool.client_at(id.slot()) == Some(id) {
                true => self.pool.drop_client(id),
                false => self.pool.sweep(),
            };
            self.is_sweep_due |= swept.busy;
        }
    }

    /// Ends what a client has with others.
    fn hang_up(&mut self, number: u64) {
        let Some(client) = self.clients.get_mut(&number) else { return };
        let (listeners, channels) = (std::mem::take(&mut client.listeners), std::mem::take(&mut client.channels));
        for listener in listeners {
            self.unlisten(listener);
        }
        for channel in channels {
            self.channels.abandon(&self.pool, channel, number, true);
        }
    }

    /// Looks after what does not announce itself.
    fn look(&mut self) {
        if self.is_sweep_due {
            self.is_sweep_due = self.pool.sweep().busy;
        }
        for over in self.channels.look(&self.pool, self.limits.handshake) {
            for client in over.clients {
                if let Some(client) = self.clients.get_mut(&client) {
                    client.channels.remove(&over.number);
                }
            }
        }
        self.census.take(&self.pool);
        let blocks = u64::from(self.pool.options().zones) * pinnace_qbuf::BLOCKS as u64;
        let most = blocks * u64::from(self.limits.blocks_per_client_percent) / 100;
        let mut ended = Vec::new();
        for (&number, client) in &mut self.clients {
            let held: u64 = client.attached.iter().map(|&id| self.census.of(id).held).sum();
            let was_over = std::mem::replace(&mut client.is_over, held > most);
            let is_late = client.stage < Stage::Attached && client.since.elapsed() > self.limits.handshake;
            if client.is_over && was_over || is_late {
                ended.push(number);
            }
        }
        for number in ended {
            self.end(number, End::Misbehaved);
        }
        self.bury();
        self.look_for_strangers();
        self.look_at_bridges();
    }

    /// Whoever was given the pool says which client of it he is, or is taken out: nobody would count what he has.
    fn look_for_strangers(&mut self) {
        let known: BTreeSet<_> = self.clients.values().flat_map(|client| &client.attached).copied().collect();
        let slots = 0..pinnace_qbuf::MAX_CLIENTS as u16;
        let present: BTreeSet<_> = slots
            .filter_map(|slot| self.pool.client_at(slot))
            .filter(|id| *id != self.pool.client() && !known.contains(id))
            .collect();
        self.strangers.retain(|id, _| present.contains(id));
        for id in present {
            self.strangers.entry(id).or_insert_with(Instant::now);
        }
        // Twice what a handshake may take: who is late with it is dropped first, and may have been in the middle.
        let patience = self.limits.handshake.saturating_mul(2);
        let late = self.strangers.iter().filter(|(_, since)| since.elapsed() > patience);
        let late: Vec<_> = late.map(|(id, _)| *id).collect();
        // All at once: who writes names into slots of others can make a thousand of them.
        self.is_sweep_due |= self.pool.drop_clients(&late).busy;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::Daemon;

    #[test]
    fn a_handshake_may_take_all_the_time_there_is() {
        let directory = tempfile::tempdir().unwrap();
        let limits = Limits { handshake: Duration::MAX, ..Limits::default() };
        let socket = Some(directory.path().join("daemon.sock"));
        let daemon = Daemon::bind(&DaemonOptions { socket, limits, ..DaemonOptions::default() }).unwrap();
        // Somebody has the pool, and has not said who he is.
        let stranger = Pool::attach(daemon.pool().fd().try_clone_to_owned().unwrap()).unwrap();
        daemon.serving.lock().unwrap().look();
        assert_eq!(daemon.pool().client_at(stranger.client().slot()), Some(stranger.client()));
    }
}
