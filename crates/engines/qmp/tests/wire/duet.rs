//! Two engines with a network between them that loses, delays, reorders and repeats, and a watch that looks at everything
//! which leaves and arrives, and knows what specs/qmp.md says of it.

use crate::half::{Got, Half};
use crate::scene::{self, PORT, SREQ, WCLOSE};
use core::net::SocketAddr;
use core::time::Duration;
use pinnace_core::{Address, Random, Time};
use pinnace_qmp::{Medium, Profile, socket};
use pinnace_wire::xtp::Kind;
use pinnace_xtp::{Codec, Config, ContextId, Event, Failure};
use std::collections::BTreeMap;

const ADDRESSES: [Address; 2] = [Address::Node(1), Address::Node(2)];

/// What one end does, and what it is owed.
pub(crate) struct End {
    pub(crate) half: Half,
    pub(crate) context: Option<ContextId>,
    profile: Profile,
    start: u64,
    /// Bytes of the writes to come.
    writes: Vec<u64>,
    /// By ticket: where the write ends, and whether its buffer has come back.
    tickets: BTreeMap<u64, (u64, bool)>,
    queued: u64,
    has_shut: bool,
    pub(crate) read: u64,
    has_read_all: bool,
    pub(crate) closed: Option<Result<(), Failure>>,
    /// One past the last byte that has left.
    sent: u64,
    /// The edge that it knows, and whether a status has told it.
    alloc: u64,
    is_told: bool,
    /// The highest rseq that was told to it.
    acked: u64,
    /// Packets of data since one had SREQ.
    since: u32,
    /// DATA and FIRST that left, and those that asked.
    pub(crate) packets: u64,
    pub(crate) asking: u64,
    pub(crate) repeated: u64,
    /// Statuses that left.
    pub(crate) gaps_told: u64,
}

impl End {
    fn new(profile: Profile, seed: u64, writes: Vec<u64>, config: Config) -> Self {
        Self {
            half: Half::new(Config { seed, ..profile.config(Medium::Internet, config) }),
            context: None,
            profile,
            start: 0,
            writes,
            tickets: BTreeMap::new(),
            queued: 0,
            has_shut: false,
            read: 0,
            has_read_all: false,
            closed: None,
            sent: 0,
            alloc: 65_536,
            is_told: false,
            acked: 0,
            since: 0,
            packets: 0,
            asking: 0,
            repeated: 0,
            gaps_told: 0,
        }
    }

    fn at(&self, number: u64) -> u64 {
        number.wrapping_sub(self.start)
    }

    fn learn(&mut self, context: ContextId) {
        self.context = Some(context);
        self.start = self.half.xtp().facts(context).expect("it is there").start;
    }

    /// A packet of this end leaves.
    fn watch(&mut self, got: &Got) {
        if got.kind == Kind::Ecntl {
            self.gaps_told += 1;
        }
        let Some(data) = &got.data else { return };
        //= Q-8 test
        self.packets += 1;
        self.asking += u64::from(got.has(SREQ));
        self.since = if got.has(SREQ) { 0 } else { self.since + 1 };
        assert!(self.since < self.profile.status_every, "{} packets without SREQ", self.since);
        assert!(!got.has(WCLOSE) || got.has(SREQ), "WCLOSE asks");
        let (low, high) = (self.at(got.seq), self.at(got.seq) + data.len() as u64);
        //= Q-7 test
        assert!(high <= self.alloc, "{low}..{high} is beyond {}", self.alloc);
        assert!(high != self.alloc || data.is_empty() || got.has(SREQ), "the packet that uses up the window asks");
        if high > self.sent {
            let ends = self.tickets.values().any(|(end, _)| (low + 1..=high).contains(end));
            assert!(!ends || got.has(SREQ), "the last packet of a write asks");
            assert!(low <= self.sent, "a hole in what has left");
            self.sent = high;
        } else if high > low {
            self.repeated += 1;
        }
        assert_eq!(*data, scene::bytes(low, high - low), "{low}..{high}");
    }

    /// A packet arrives at this end.
    fn hear(&mut self, got: &Got) {
        // What overtakes the FIRST is for nobody.
        if self.context.is_some() && matches!(got.kind, Kind::Cntl | Kind::Ecntl | Kind::Tcntl) {
            let (rseq, alloc) = (self.at(got.rseq), self.at(got.alloc));
            self.alloc = if self.is_told { self.alloc.max(alloc) } else { alloc };
            self.is_told = true;
            self.acked = self.acked.max(rseq);
        }
    }

    /// What has happened, and what the application makes of it.
    fn act(&mut self, random: &mut Random) {
        for event in core::mem::take(&mut self.half.events) {
            match event {
                Event::Accepted { context, .. } => self.learn(context),
                //= Q-10 test
                Event::Sent { ticket, delivered, .. } => {
                    let (end, is_back) = self.tickets.get_mut(&ticket).expect("its own");
                    assert!(!core::mem::replace(is_back, true), "a buffer came back twice");
                    assert!(!delivered || *end <= self.acked, "back before the last packet was acknowledged");
                }
                Event::Closed { result, .. } => {
                    assert_eq!(self.closed.replace(result), None, "closed twice");
                    assert!(self.tickets.values().all(|(_, is_back)| *is_back), "closed before every buffer was back");
                }
                _ => {}
            }
        }
        let late = self.tickets.values().find(|(end, is_back)| *end <= self.acked && !is_back);
        assert_eq!(late, None, "acknowledged up to {}, and not back", self.acked);
        let Some(context) = self.context else { return };
        if self.closed.is_none() && self.half.xtp().facts(context).is_some() {
            self.write(context, random);
        }
        self.take_in(context, random);
    }

    fn write(&mut self, context: ContextId, random: &mut Random) {
        // Some at once: they wait in one queue, and are cut into full packets.
        let count = random.below(self.writes.len() as u64 + 1) as usize;
        let mut low = self.queued;
        let mut batch = Vec::new();
        for n in self.writes.iter().rev().take(count) {
            batch.push((self.half.memory.add(scene::bytes(low, *n)), *n));
            low += n;
        }
        let shuts = count == self.writes.len() && !self.has_shut;
        let now = self.half.now;
        let tickets = self.half.engine.call(|engine| {
            let write = |(buffer, n): &(_, u64)| socket::write(engine, now, context, *buffer, 0, *n).ok();
            let tickets: Vec<_> = batch.iter().map_while(write).collect();
            if shuts && tickets.len() == count {
                socket::shut_write(engine, now, context).expect("open");
            }
            tickets
        });
        // Full: what is acknowledged makes room.
        for (buffer, _) in batch.split_off(tickets.len()) {
            self.half.memory.end(buffer);
        }
        self.has_shut |= shuts && tickets.len() == count;
        for (ticket, (_, n)) in tickets.into_iter().zip(batch) {
            self.queued += n;
            self.tickets.insert(ticket, (self.queued, false));
            self.writes.pop();
        }
        self.half.drain();
    }

    fn take_in(&mut self, context: ContextId, random: &mut Random) {
        let Some(readable) = self.half.xtp().readable(context) else { return };
        assert_eq!((readable.message, readable.btag), (None, None));
        let take = if random.chance(0.5) { readable.len } else { random.below(readable.len + 1) };
        let bytes = readable.parts.iter().flat_map(|part| self.half.memory.payload(*part).to_vec());
        let bytes: Vec<u8> = bytes.take(take as usize).collect();
        assert!(bytes == scene::bytes(self.read, take), "wrong bytes from {} on", self.read);
        self.read += take;
        self.has_read_all |= readable.is_end && take == readable.len;
        if take > 0 {
            self.half.call(|engine, now| engine.consume(now, context, take));
        }
    }
}

/// A direction of the network.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    pub(crate) loss: f64,
    pub(crate) delay: u64,
    /// Microseconds; more than the time between packets reorders.
    pub(crate) jitter: u64,
    pub(crate) duplicate: f64,
}

pub(crate) struct Duet {
    /// Who connects, and who listens.
    pub(crate) ends: [End; 2],
    ways: [Way; 2],
    random: Random,
    now: Time,
    /// By the time of arrival, and the order of departure: for whom, and what.
    under_way: BTreeMap<(Time, u64), (usize, Vec<u8>)>,
    departures: u64,
}

impl Duet {
    pub(crate) fn new(
        seed: u64,
        profiles: [Profile; 2],
        ways: [Way; 2],
        writes: [Vec<u64>; 2],
        config: &Config,
    ) -> Self {
        let [client, server] = writes;
        let mut ends =
            [End::new(profiles[0], seed, client, config.clone()), End::new(profiles[1], !seed, server, config.clone())];
        let block = profiles[1].block(PORT);
        ends[1].half.call(|engine, _| socket::listen(engine, block)).expect("the port is free");
        let block = profiles[0].block_to(SocketAddr::from(([192, 0, 2, 1], PORT)));
        let context = ends[0].half.call(|engine, now| socket::connect(engine, now, ADDRESSES[1], block)).expect("room");
        ends[0].learn(context);
        let random = Random::from_seed(seed);
        Self { ends, ways, random, now: Time::ZERO, under_way: BTreeMap::new(), departures: 0 }
    }

    /// Everything that has left goes on its way, or not.
    fn carry(&mut self) {
        for from in 0..2 {
            let way = self.ways[from];
            for (bytes, got) in scene::take(&mut self.ends[from].half) {
                self.ends[from].watch(&got);
                let copies = u64::from(!self.random.chance(way.loss)) + u64::from(self.random.chance(way.duplicate));
                for _ in 0..copies {
                    let time = Duration::from_micros(way.delay + self.random.below(way.jitter + 1));
                    self.departures += 1;
                    self.under_way.insert((self.now + time, self.departures), (1 - from, bytes.clone()));
                }
            }
        }
    }

    fn act(&mut self) {
        for end in &mut self.ends {
            end.act(&mut self.random);
        }
        self.carry();
    }

    /// Until both have closed and read everything, or for so long.
    pub(crate) fn run(&mut self, most: Duration) {
        self.carry();
        let until = Time::ZERO + most;
        // Applications look in now and then, too.
        let mut look = Time::ZERO;
        while !self.ends.iter().all(|end| end.closed.is_some() && (end.has_read_all || end.closed != Some(Ok(())))) {
            let arrival = self.under_way.first_key_value().map(|((time, _), _)| *time);
            let timers = self.ends.iter().filter_map(|end| end.half.next_timer());
            let next = timers.chain(arrival).chain([look]).min().unwrap_or(until);
            if next > until {
                return;
            }
            self.now = self.now.max(next);
            for end in &mut self.ends {
                end.half.advance_to(self.now);
            }
            self.carry();
            while let Some(entry) = self.under_way.first_entry().filter(|entry| entry.key().0 <= self.now) {
                let (to, bytes) = entry.remove();
                self.ends[to].hear(&Got::parse(Codec::Xtp40, &bytes));
                self.ends[to].half.feed(ADDRESSES[1 - to], &bytes);
                self.carry();
                self.act();
            }
            if look <= self.now {
                look = self.now + Duration::from_millis(5);
                self.act();
            }
        }
    }

    /// Both streams were read to their ends, and everybody knows.
    pub(crate) fn check_whole(&self) {
        for (index, end) in self.ends.iter().enumerate() {
            assert_eq!(end.closed, Some(Ok(())), "end {index}");
            let other = &self.ends[1 - index];
            assert_eq!((end.read, end.writes.len()), (other.queued, 0), "end {index}");
            assert!(end.has_read_all && end.half.xtp().facts(end.context.expect("there")).is_some());
        }
    }
}
