//! The thread that serves an endpoint: it opens and accepts its streams, and carries their bytes to and from the application's
//! sockets.
//!
//! One thread for all streams of an endpoint: where many have little to say each, a thread a stream would do little else than
//! wake others. It sleeps on the endpoint's link and on an epoll descriptor of all the sockets at once.
//!
//! Always true: it does not wait for anybody alone; it counts as busy from the first command until the ends of its last streams
//! have been said often enough ([`Leaving`]).

use super::carried::{Carried, Kept, Turn};
use super::doubts::{Doubted, Doubts};
use super::endpoints::{Going, Place};
use super::inbox::{Command, Inbox, Listen, Open};
use super::leaving::Leaving;
use super::pair::{self, Family};
use super::watch::Watch;
use super::{Busy, Shared, spawn};
use pinnace::qmp::{Stream, StreamId, Woken};
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often it is looked whether the other host of silent streams is still there.
const LOOK: Duration = Duration::from_secs(1);
/// Ports below are root's: nobody else is believed to have one.
const FIRST_FREE_PORT: u16 = 1024;
/// Bytes for the network that are read at a time, of all streams.
const BUFFER: usize = 256 << 10;
/// Where less room is left in it, what is there leaves first.
const WORTH_READING: usize = 32 << 10;
/// A port that a stream has had is used again after so many others at least, and so many are kept.
const PORTS_BETWEEN: usize = 64;
const MOST_PORTS: usize = 256;
/// Events that are taken at a time.
const EVENTS: usize = 128;

/// What an event is about: the commands, or a listener, of which the numbers begin at the second, or else a stream's index.
const COMMANDS: u64 = u64::MAX;
const LISTENERS: u64 = 1 << 32;

/// A stream that has not been established yet.
struct Opening {
    stream: Stream,
    begun: Instant,
    /// The application's socket, and ours.
    pair: (OwnedFd, OwnedFd),
    port: UdpSocket,
    asked: Open,
}

/// See the [module](self).
pub(super) struct Pump {
    shared: Arc<Shared>,
    place: Place,
    inbox: Arc<Inbox>,
    epoll: OwnedFd,
    carried: Vec<Option<Carried>>,
    /// Indexes that are free, and those that will be after this round: events that were taken before may mean them still.
    free: Vec<usize>,
    freed: Vec<usize>,
    by_id: BTreeMap<StreamId, usize>,
    openings: Vec<Opening>,
    /// Ports of streams that have ended, for those that are opened later.
    ports: VecDeque<UdpSocket>,
    listeners: BTreeMap<u64, Listen>,
    next_listener: u64,
    doubts: Doubts,
    /// Streams that wait for an application to have room among its unaccepted ones, each in a thread.
    handovers: usize,
    /// Streams whose turn it is again.
    waiting: Vec<usize>,
    /// Streams whose turn it is at a time.
    dated: Vec<(Instant, usize)>,
    look_at: Instant,
    /// The peer has answered, so it may be wanted again.
    has_opened: bool,
    /// The companion is about to end.
    is_ending: bool,
    leaving: Option<Leaving>,
    going: Option<Going>,
    busy: Option<Busy>,
    /// What was read for the network, one stream's behind the other's, and whose it is.
    buffer: Vec<u8>,
    filled: usize,
    read: Vec<(usize, Range<usize>)>,
}

impl Pump {
    /// Starts it. It does what the inbox says from now on.
    pub(super) fn start(shared: &Arc<Shared>, place: Place, inbox: &Arc<Inbox>) -> io::Result<()> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &inbox.wake, EventData::new_u64(COMMANDS), EventFlags::IN)?;
        let pump = Self {
            shared: Arc::clone(shared),
            place,
            inbox: Arc::clone(inbox),
            epoll,
            carried: Vec::new(),
            free: Vec::new(),
            freed: Vec::new(),
            by_id: BTreeMap::new(),
            openings: Vec::new(),
            ports: VecDeque::new(),
            listeners: BTreeMap::new(),
            next_listener: LISTENERS,
            doubts: Doubts::default(),
            handovers: 0,
            waiting: Vec::new(),
            dated: Vec::new(),
            look_at: Instant::now() + LOOK,
            has_opened: false,
            is_ending: false,
            leaving: None,
            going: None,
            busy: Some(Busy::always(shared)),
            buffer: vec![0; BUFFER],
            filled: 0,
            read: Vec::new(),
        };
        spawn("pump", move || pump.run())
    }

    fn run(mut self) {
        let mut told = Vec::new();
        loop {
            let timeout = self.next().map(|next| next.saturating_duration_since(Instant::now()));
            let woken = match self.inbox.endpoint.wait_any(&self.epoll, timeout, &mut told) {
                Ok(woken) => woken,
                Err(error) => {
                    self.shared.say(format_args!("the socket for {} has failed: {error}", self.place));
                    return self.break_off();
                }
            };
            if woken == Woken::Sockets {
                self.accept();
                told.drain(..).for_each(|id| self.on_stream(id));
            }
            self.take_events();
            for index in std::mem::take(&mut self.waiting) {
                if let Some(Some(carried)) = self.carried.get_mut(index) {
                    carried.has_its_turn();
                    self.carry(index);
                }
            }
            self.admit();
            // Before it is looked whether somebody is left.
            self.send();
            let is_over = self.keep_dates();
            self.send();
            self.free.append(&mut self.freed);
            if is_over {
                return;
            }
        }
    }

    /// When there is something to do, if nothing happens.
    fn next(&self) -> Option<Instant> {
        let now = Instant::now();
        if !self.waiting.is_empty() {
            return Some(now);
        }
        let openings = self.openings.iter().map(|opening| opening.begun + opening.asked.patience);
        let dated = self.dated.iter().map(|(at, _)| *at);
        let look = (!self.by_id.is_empty() || self.doubts.waits()).then_some(self.look_at);
        let leaving =
            if self.is_wanted() { None } else { Some(self.leaving.as_ref().and_then(Leaving::next).unwrap_or(now)) };
        openings.chain(dated).chain(look).chain(leaving).min()
    }

    fn take_events(&mut self) {
        let mut events = [MaybeUninit::<Event>::uninit(); EVENTS];
        let Ok((events, _)) = epoll::wait(&self.epoll, &mut events, Some(&Timespec::default())) else { return };
        for event in events {
            // A copy: the structure is packed.
            let Event { flags, data } = *event;
            match (data.u64(), flags) {
                (COMMANDS, _) => self.inbox.take().into_iter().for_each(|command| self.obey(command)),
                // Nothing is said on its control: the end of that is the listener's.
                (listener @ LISTENERS.., _) => drop(self.listeners.remove(&listener)),
                (index, flags) => {
                    if let Some(Some(carried)) = self.carried.get_mut(index as usize) {
                        carried.on_event(flags);
                        self.carry(index as usize);
                    }
                }
            }
        }
    }

    fn obey(&mut self, command: Command) {
        self.leaving = None;
        self.going = None;
        if self.busy.is_none() {
            self.busy = Some(Busy::always(&self.shared));
        }
        match command {
            Command::Open(asked) => self.open(asked),
            Command::Listen(listen) => {
                let token = self.next_listener;
                self.next_listener += 1;
                let data = EventData::new_u64(token);
                if epoll::add(&self.epoll, &*listen.control, data, EventFlags::IN).is_ok() {
                    self.listeners.insert(token, listen);
                    // Who has come before.
                    self.accept();
                }
            }
            Command::End(_) => self.is_ending = true,
            Command::Carry(carried) => {
                self.handovers -= 1;
                if let Some(carried) = carried {
                    self.add(*carried);
                }
            }
        }
    }

    fn open(&mut self, asked: Open) {
        let begun = self.make_pair(&asked).and_then(|(port, pair)| {
            let number = port.local_addr()?.port();
            Ok((self.inbox.endpoint.begin_from(asked.to, number)?, port, pair))
        });
        match begun {
            Ok((stream, port, pair)) => {
                self.openings.push(Opening { stream, begun: Instant::now(), pair, port, asked });
            }
            Err(error) => self.shared.refuse(&asked, &error),
        }
    }

    /// A pair of sockets, and the port that its name says. The streams of this endpoint have one UDP port, and programs tell their
    /// peers apart by theirs: each stream says one that nobody else has.
    fn make_pair(&mut self, asked: &Open) -> io::Result<(UdpSocket, (OwnedFd, OwnedFd))> {
        let pair_at = |port: &UdpSocket| {
            let local = SocketAddr::new(self.inbox.endpoint.local_addr().ip(), port.local_addr()?.port());
            pair::make(asked.family, (local, asked.to), true)
        };
        if self.ports.len() > PORTS_BETWEEN
            && let Some(port) = self.ports.pop_front()
        {
            match pair_at(&port) {
                Ok(pair) => return Ok((port, pair)),
                // The stream has ended, and the application has its socket still.
                Err(_) => self.ports.push_back(port),
            }
        }
        let any = if asked.to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let port = UdpSocket::bind(SocketAddr::new(any, 0))?;
        let pair = pair_at(&port)?;
        Ok((port, pair))
    }

    /// Something has happened to a stream.
    fn on_stream(&mut self, id: StreamId) {
        if let Some(index) = self.by_id.get(&id) {
            let stream = self.carried[*index].as_ref().map(Carried::stream);
            self.doubts.look_at(id, stream.is_none_or(Stream::is_proved));
            self.carry(*index);
        } else if self.doubts.has(id) {
            self.doubts.look_again(id);
        } else if let Some(at) = self.openings.iter().position(|opening| opening.stream.id() == Some(id)) {
            self.look_at_opening(at);
        }
    }

    fn look_at_opening(&mut self, at: usize) {
        let opening = &self.openings[at];
        let waited = opening.begun.elapsed();
        let result = match opening.stream.established() {
            Some(result) => result,
            None if waited >= opening.asked.patience => Err(io::ErrorKind::TimedOut.into()),
            None => return,
        };
        let Opening { stream, begun, pair, port, asked } = self.openings.swap_remove(at);
        // If it cannot be given, nothing is to be delivered any more.
        stream.set_linger(Some(Duration::ZERO));
        match result {
            Ok(()) => {
                self.has_opened = true;
                self.shared.peers.speaks(asked.to, waited);
                if let Ok(carried) = self.give(stream, pair, port, asked) {
                    self.add(carried);
                }
            }
            Err(error) => {
                if error.kind() == io::ErrorKind::TimedOut {
                    // This host may have another address by now: the next one that is opened has an endpoint of its own.
                    self.shared.endpoints.forget(&self.place, &self.inbox);
                    self.has_opened = false;
                }
                self.shared.peers.is_silent(asked.to, error.kind() == io::ErrorKind::ConnectionRefused, begun);
                self.shared.refuse(&asked, &error);
            }
        }
    }

    /// Gives a stream to whoever asked for it.
    fn give(
        &self,
        stream: Stream,
        (application, own): (OwnedFd, OwnedFd),
        port: UdpSocket,
        asked: Open,
    ) -> io::Result<Carried> {
        let Open { control, to, busy, .. } = asked;
        let stream = Arc::new(stream);
        let named = self.shared.streams.name(&application, &stream)?;
        control.give(&application)?;
        stream.set_linger(None);
        self.shared.say(format_args!("QMP to {to}"));
        let watch = Watch::new(to, &stream);
        let kept = Kept { named, port: Some(port), busy };
        Ok(Carried::new(stream, own, Some(watch), kept))
    }

    fn accept(&mut self) {
        let mut accepted = Vec::new();
        for listen in self.listeners.values() {
            while listen.listener.has_arrivals()
                && let Ok(Some(stream)) = listen.listener.try_accept()
            {
                accepted.push((stream, listen.family, listen.name.clone()));
            }
        }
        for (stream, family, name) in accepted {
            match stream.id().filter(|_| !stream.is_proved() && self.doubts.is_full()) {
                Some(id) => self.doubts.keep(id, Doubted { stream, family, name }),
                None => self.take_over(stream, family, name),
            }
        }
    }

    /// Hands over those of whom nobody knew whether they were there, as far as there is room for such, or they have shown it.
    fn admit(&mut self) {
        if self.listeners.is_empty() {
            self.doubts.give_up();
        }
        while let Some(Doubted { stream, family, name }) = self.doubts.next() {
            self.take_over(stream, family, name);
        }
    }

    fn take_over(&mut self, stream: Stream, family: Family, name: String) {
        // Dropped it is closed, and the peer sees the end of it.
        let Some(busy) = Busy::new(&self.shared) else { return };
        // Dropped it is reset.
        stream.set_linger(Some(Duration::ZERO));
        if let Some(id) = stream.id().filter(|_| !stream.is_proved()) {
            self.doubts.hand_over(id);
        }
        if let Ok(Some(carried)) = self.hand_over(stream, family, name, busy) {
            self.add(carried);
        }
    }

    /// Hands a stream over to the application. `None`: somebody waits until it has room.
    fn hand_over(&mut self, stream: Stream, family: Family, name: String, busy: Busy) -> io::Result<Option<Carried>> {
        let (local, peer, said) = (stream.local_addr(), stream.peer_addr(), stream.said_peer_addr());
        // Whoever says a port of its own has it alone; behind an address that several share it may not.
        let is_believed = said != peer && said.port() >= FIRST_FREE_PORT;
        let alone = is_believed.then(|| pair::make(family, (local, said), true).ok()).flatten();
        let (application, own) = alone.map_or_else(|| pair::make(family, (local, peer), false), Ok)?;
        let stream = Arc::new(stream);
        let named = self.shared.streams.name(&application, &stream)?;
        let carried = Carried::new(Arc::clone(&stream), own, None, Kept { named, port: None, busy });
        match pair::hand_over(&name, &application, false) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let inbox = Arc::clone(&self.inbox);
                spawn("hand-over", move || {
                    let handed = pair::hand_over(&name, &application, true);
                    let carried = handed.is_ok().then(|| {
                        stream.set_linger(None);
                        Box::new(carried)
                    });
                    inbox.tell(Command::Carry(carried));
                })?;
                self.handovers += 1;
                return Ok(None);
            }
            Err(error) => return Err(error),
        }
        stream.set_linger(None);
        Ok(Some(carried))
    }

    /// Carries a stream from now on.
    fn add(&mut self, carried: Carried) {
        let Some(id) = carried.stream().id() else { return };
        let index = self.free.pop().unwrap_or_else(|| {
            self.carried.push(None);
            self.carried.len() - 1
        });
        let added = epoll::add(&self.epoll, carried.own(), EventData::new_u64(index as u64), carried.events());
        self.by_id.insert(id, index);
        let carried = self.carried[index].insert(carried);
        match added {
            // What has happened before.
            Ok(()) => self.carry(index),
            // No descriptor, no memory: both ends find a reset.
            Err(_) => {
                carried.give_up();
                self.remove(index);
            }
        }
    }

    fn carry(&mut self, index: usize) {
        let is_pending = self.carried.get(index).and_then(Option::as_ref).is_some_and(Carried::is_pending);
        // What it said before leaves before its end.
        if is_pending || BUFFER - self.filled < WORTH_READING {
            self.send();
        }
        let Some(Some(carried)) = self.carried.get_mut(index) else { return };
        match carried.carry(&mut self.buffer[self.filled..]) {
            Turn::Goes { read, is_next, until } => {
                if carried.has_other_events() {
                    // What has happened before is told again. Fails only if there was nothing to modify.
                    let data = EventData::new_u64(index as u64);
                    let _ = epoll::modify(&self.epoll, carried.own(), data, carried.events());
                }
                if read > 0 {
                    self.read.push((index, self.filled..self.filled + read));
                    self.filled += read;
                }
                if is_next {
                    self.waiting.push(index);
                }
                self.dated.extend(until.map(|at| (at, index)));
            }
            Turn::Over => self.remove(index),
        }
    }

    /// Sends what was read for the network.
    fn send(&mut self) {
        let read = std::mem::take(&mut self.read);
        self.filled = 0;
        let streams = read.iter().filter_map(|(index, range)| {
            let carried = self.carried.get(*index)?.as_ref()?;
            Some((carried.stream(), &self.buffer[range.clone()]))
        });
        let writes: Vec<(&Stream, &[u8])> = streams.collect();
        debug_assert_eq!(writes.len(), read.len(), "nothing is removed meanwhile");
        // If the endpoint is of no use any more, waiting for it says so.
        let sent = self.inbox.endpoint.write_each(&writes).unwrap_or_default();
        for ((index, range), sent) in read.iter().zip(sent) {
            let Some(carried) = self.carried[*index].as_mut() else { continue };
            if carried.on_sent(&self.buffer[range.clone()], sent).is_err() {
                self.remove(*index);
            }
        }
    }

    fn remove(&mut self, index: usize) {
        if let Some(mut carried) = self.carried[index].take() {
            self.ports.extend(carried.take_port().filter(|_| self.ports.len() < MOST_PORTS));
            if let Some(id) = carried.stream().id() {
                self.by_id.remove(&id);
                self.doubts.look_at(id, true);
            }
            self.freed.push(index);
        }
    }

    /// Does what is due. True: that was all.
    fn keep_dates(&mut self) -> bool {
        let now = Instant::now();
        let (due, later) = std::mem::take(&mut self.dated).into_iter().partition(|(at, _)| *at <= now);
        self.dated = later;
        let due: Vec<(Instant, usize)> = due;
        due.into_iter().for_each(|(_, index)| self.carry(index));
        for at in (0..self.openings.len()).rev() {
            if self.openings[at].begun + self.openings[at].asked.patience <= now {
                self.look_at_opening(at);
            }
        }
        if self.look_at <= now {
            self.look_at = now + LOOK;
            self.send();
            if self.handovers == 0 {
                self.doubts.look(&self.by_id);
            }
            for index in 0..self.carried.len() {
                if self.carried[index].as_mut().is_some_and(Carried::look_for_peer) {
                    self.remove(index);
                }
            }
        }
        !self.is_wanted() && self.leave(now)
    }

    fn is_wanted(&self) -> bool {
        let is_alone = self.by_id.is_empty() && self.openings.is_empty() && self.listeners.is_empty();
        !is_alone || self.handovers > 0
    }

    /// Nobody is left here. True: it is over.
    fn leave(&mut self, now: Instant) -> bool {
        let leaving = self.leaving.take().unwrap_or_else(|| {
            // Whoever starts the program anew waits for its port, and for nobody else.
            if let Place::At(at, _) = self.place {
                self.going = Going::say(at).ok();
            }
            Leaving::begin(now)
        });
        let leaving = leaving.go_on(&self.inbox.endpoint, self.has_opened && !self.is_ending, now);
        if !leaving.is_busy() {
            self.busy = None;
        } else if self.busy.is_none() {
            self.busy = Some(Busy::always(&self.shared));
        }
        self.leaving = Some(leaving);
        matches!(leaving, Leaving::Over) && self.shared.endpoints.retire(&self.place, &self.inbox)
    }

    /// The endpoint is of no use any more, and neither are its streams.
    fn break_off(&mut self) {
        self.shared.endpoints.forget(&self.place, &self.inbox);
        self.carried.iter_mut().flatten().for_each(Carried::break_off);
        for opening in std::mem::take(&mut self.openings) {
            self.shared.refuse(&opening.asked, &io::ErrorKind::NotConnected.into());
        }
        // What it is told from now on is dropped, and whoever asked takes TCP.
    }
}

impl Drop for Pump {
    /// Also if it has panicked.
    fn drop(&mut self) {
        self.shared.endpoints.forget(&self.place, &self.inbox);
    }
}
