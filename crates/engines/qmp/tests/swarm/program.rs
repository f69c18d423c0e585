//! The program of every host: it does what the plan says with its sockets, and checks what it is told.

use crate::plan::{End, Ending, LAST_CALL, Plan, Reading};
use core::time::Duration;
use pinnace_core::{BufferId, Time};
use pinnace_qmp::{Profile, socket};
use pinnace_sim::{Application, HostHandle, HostId};
use pinnace_testing::swarm::{content, mix};
use pinnace_xtp::{ContextId, Event, Failure, Refused, Xtp};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

type Host<'a> = HostHandle<'a, Xtp>;

/// A socket.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) flow: usize,
    pub(crate) is_initiator: bool,
    next_write: usize,
    /// By ticket: where its bytes end in the stream, and what was told of it.
    pub(crate) tickets: BTreeMap<u64, (u64, Option<bool>)>,
    /// Bytes that were written.
    pub(crate) written: u64,
    pub(crate) read: u64,
    pub(crate) has_read_all: bool,
    has_shut: bool,
    /// close() was called, and whether it was forced.
    pub(crate) is_closed: Option<bool>,
    /// It was, before everything had been read and without being told to.
    pub(crate) has_given_up: bool,
    is_reading_later: bool,
    pub(crate) told: Option<Result<(), Failure>>,
}

pub(crate) struct Program {
    plan: Rc<Plan>,
    me: usize,
    pub(crate) seats: BTreeMap<ContextId, Seat>,
    /// Those whose names have been given again.
    past: Vec<Seat>,
    buffers: BTreeSet<BufferId>,
    lives: usize,
    pub(crate) record: u64,
    wakes: Vec<(ContextId, usize)>,
}

const FLOW: u64 = 0;
const READ: u64 = 1;
const CLOSE: u64 = 2;
const LAST: u64 = 3;

impl Program {
    pub(crate) fn new(plan: Rc<Plan>, me: usize) -> Self {
        let (seats, past, buffers, wakes) = (BTreeMap::new(), Vec::new(), BTreeSet::new(), Vec::new());
        Self { plan, me, seats, past, buffers, lives: 0, record: 0, wakes }
    }

    pub(crate) fn all_seats(&self) -> impl Iterator<Item = &Seat> {
        self.seats.values().chain(&self.past)
    }

    /// All that it lent has come back.
    pub(crate) fn check_memory(&self) {
        assert!(self.buffers.is_empty(), "seed {}: buffers never came back: {:?}", self.plan.seed, self.buffers);
    }

    fn end<'p>(plan: &'p Plan, seat: &Seat) -> &'p End {
        let flow = &plan.flows[seat.flow];
        if seat.is_initiator { &flow.initiator } else { &flow.responder }
    }

    fn note(&mut self, value: u64) {
        self.record = mix(self.record ^ value);
    }

    fn wake(&mut self, host: &mut Host<'_>, after: Duration, what: u64, context: ContextId) {
        self.wakes.push((context, self.seats[&context].flow));
        host.wake_after(after, (self.wakes.len() as u64) << 8 | what);
    }

    fn sit(&mut self, now: Time, flow: usize, is_initiator: bool, context: ContextId, host: &mut Host<'_>) {
        let seat = Seat {
            flow,
            is_initiator,
            next_write: 0,
            tickets: BTreeMap::new(),
            written: 0,
            read: 0,
            has_read_all: false,
            has_shut: false,
            is_closed: None,
            has_given_up: false,
            is_reading_later: false,
            told: None,
        };
        let ending = Self::end(&self.plan, &seat).ending;
        if let Some(before) = self.seats.insert(context, seat) {
            assert!(before.told.is_some(), "seed {}: a context twice", self.plan.seed);
            self.past.push(before);
        }
        if let Ending::Close(_, after) = ending {
            self.wake(host, after, CLOSE, context);
        }
        self.write(now, context, host);
    }

    /// Writes what there is room for, and ends the stream behind it.
    fn write(&mut self, now: Time, context: ContextId, host: &mut Host<'_>) {
        let plan = Rc::clone(&self.plan);
        let Some(seat) = self.seats.get_mut(&context) else { return };
        if seat.is_closed.is_some() || seat.told.is_some() || seat.has_shut {
            return;
        }
        let end = Self::end(&plan, seat);
        while let Some(n) = end.writes.get(seat.next_write).copied() {
            let bytes = content(plan.seed, seat.flow, seat.is_initiator, seat.written, n);
            let buffer = host.add_buffer([&[0xEE; 5], &bytes[..]].concat());
            match host.call(|engine| socket::write(engine, now, context, buffer, 5, n)) {
                Ok(ticket) => {
                    self.buffers.insert(buffer);
                    seat.written += n;
                    seat.next_write += 1;
                    assert_eq!(seat.tickets.insert(ticket, (seat.written, None)), None);
                }
                Err(why) => {
                    host.take_buffer(buffer);
                    let waits = seat.tickets.values().any(|(_, told)| told.is_none());
                    assert!(why == Refused::Closed || (why == Refused::Full && waits), "seed {}: {why}", plan.seed);
                    return;
                }
            }
        }
        let ends = match end.ending {
            Ending::Shutdown => true,
            Ending::ShutdownLast => seat.has_read_all,
            _ => false,
        };
        if ends {
            seat.has_shut = true;
            host.call(|engine| socket::shut_write(engine, now, context)).ok();
            self.close_if_over(now, context, host);
        }
    }

    fn read(&mut self, now: Time, context: ContextId, host: &mut Host<'_>) {
        let plan = Rc::clone(&self.plan);
        loop {
            let Some(seat) = self.seats.get_mut(&context).filter(|seat| seat.is_closed.is_none()) else { return };
            let Some(readable) = host.engine().readable(context) else { return };
            assert_eq!((readable.message, readable.btag), (None, None), "seed {}", plan.seed);
            let mut take = readable.len;
            match Self::end(&plan, seat).reading {
                Reading::Slowly(..) if seat.is_reading_later => return,
                Reading::Slowly(most, _) => take = take.min(most),
                Reading::Sleeps(at) if seat.read >= at => return,
                _ => {}
            }
            if take > 0 {
                let parts = readable.parts.iter().filter(|part| part.len > 0);
                let bytes = parts.flat_map(|part| {
                    let at = part.offset as usize;
                    host.buffer(part.buffer)[at..at + part.len as usize].to_vec()
                });
                let bytes: Vec<u8> = bytes.take(take as usize).collect();
                let right = content(plan.seed, seat.flow, !seat.is_initiator, seat.read, take);
                assert!(bytes == right, "seed {}: flow {}: wrong bytes from {} on", plan.seed, seat.flow, seat.read);
                seat.read += take;
                host.call(|engine| engine.consume(now, context, take));
                self.note(take);
            }
            let seat = self.seats.get_mut(&context).expect("it sits");
            if readable.is_end && take == readable.len {
                seat.has_read_all = true;
                self.write(now, context, host);
                self.close_if_over(now, context, host);
                return;
            }
            if take == 0 {
                return;
            }
            if let Reading::Slowly(_, after) = Self::end(&plan, seat).reading {
                seat.is_reading_later = true;
                self.wake(host, after, READ, context);
                return;
            }
        }
    }

    /// Both streams are done with: the descriptor is closed.
    fn close_if_over(&mut self, now: Time, context: ContextId, host: &mut Host<'_>) {
        let seat = &self.seats[&context];
        if seat.has_shut && seat.has_read_all {
            self.close(now, context, socket::Linger::Background, host);
        }
    }

    fn close(&mut self, now: Time, context: ContextId, linger: socket::Linger, host: &mut Host<'_>) {
        let Some(seat) = self.seats.get_mut(&context).filter(|seat| seat.is_closed.is_none()) else { return };
        let is_unread = host.engine().readable(context).is_some_and(|readable| readable.len > 0);
        let result = host.call(|engine| socket::close(engine, now, context, linger));
        let is_forced = result.unwrap_or(false);
        assert_eq!(is_forced, result.is_ok() && (is_unread || linger == socket::Linger::Zero));
        seat.is_closed = Some(is_forced);
        // Whoever was told of an error has not given up by itself, if it has read what had come before; that all has arrived is
        // no reason to leave it unread.
        seat.has_given_up = !seat.has_read_all && (is_unread || !matches!(seat.told, Some(Err(_))));
    }

    fn take(&mut self, buffer: BufferId, host: &mut Host<'_>) {
        assert!(self.buffers.remove(&buffer), "seed {}: {buffer:?} came back twice", self.plan.seed);
        host.take_buffer(buffer);
    }

    fn on_closed(&mut self, now: Time, context: ContextId, result: Result<(), Failure>, host: &mut Host<'_>) {
        let seed = self.plan.seed;
        let seat = self.seats.get_mut(&context).unwrap_or_else(|| panic!("seed {seed}: {context:?} closed unseen"));
        assert_eq!(seat.told.replace(result), None, "seed {seed}: {context:?} closed twice");
        let delivered =
            seat.tickets.values().all(|(_, told)| told.is_some() && (result.is_err() || *told == Some(true)));
        assert!(delivered, "seed {seed}: flow {}: {result:?}, but {:?}", seat.flow, seat.tickets);
        // What has come can still be read; a slow reader goes on, and then closes.
        self.read(now, context, host);
        if !self.seats[&context].is_reading_later {
            self.close(now, context, socket::Linger::Background, host);
        }
    }
}

impl Application<Xtp> for Program {
    fn on_start(&mut self, now: Time, host: &mut Host<'_>) {
        self.lives += 1;
        self.past.clear();
        self.seats.clear();
        self.buffers.clear();
        let plan = Rc::clone(&self.plan);
        for (index, flow) in plan.flows.iter().enumerate() {
            if flow.to == self.me && flow.is_listened {
                let block = flow.listens.block(Plan::port(index));
                host.call(|engine| socket::listen(engine, block)).expect("the port is free");
            }
            if flow.from == self.me && self.lives == 1 {
                host.wake_at(now + flow.at, (index as u64) << 8 | FLOW);
            }
        }
        host.wake_at(Time::ZERO + LAST_CALL, LAST);
    }

    fn on_wake(&mut self, now: Time, token: u64, host: &mut Host<'_>) {
        let (index, what) = ((token >> 8) as usize, token & 0xff);
        if what == FLOW {
            let flow = &self.plan.flows[index];
            let to = HostId::new(flow.to as u32).address();
            let profile: Profile = flow.profile;
            let mut block = profile.block_to(([192, 0, 2, 1], Plan::port(index)).into());
            block.address_segment.source_port = index as u16 + 1;
            let context = host.call(|engine| socket::connect(engine, now, to, block)).expect("room");
            self.sit(now, index, true, context, host);
            return;
        }
        if what == LAST {
            let all: Vec<_> = self.seats.keys().copied().collect();
            for context in all {
                self.close(now, context, socket::Linger::Background, host);
            }
            return;
        }
        let (context, flow) = self.wakes[index - 1];
        let Some(seat) = self.seats.get_mut(&context).filter(|seat| seat.flow == flow) else { return };
        if what == READ {
            seat.is_reading_later = false;
            let is_told = seat.told.is_some();
            self.read(now, context, host);
            if is_told && !self.seats[&context].is_reading_later {
                self.close(now, context, socket::Linger::Background, host);
            }
        } else if let Ending::Close(linger, _) = Self::end(&self.plan, seat).ending {
            self.close(now, context, linger, host);
        }
    }

    fn on_event(&mut self, now: Time, event: Event, host: &mut Host<'_>) {
        let seed = self.plan.seed;
        self.note(now.as_nanos());
        match event {
            Event::Accepted { context, address, .. } => {
                let index = usize::from(address.source_port) - 1;
                assert_eq!((address.destination_port, self.plan.flows[index].to), (Plan::port(index), self.me));
                self.sit(now, index, false, context, host);
            }
            Event::Readable { context } => self.read(now, context, host),
            Event::Sent { context, ticket, buffer, delivered } => {
                self.take(buffer, host);
                self.note(ticket ^ u64::from(delivered));
                let seat = self.seats.get_mut(&context).unwrap_or_else(|| panic!("seed {seed}: sent for nobody"));
                let told = seat.tickets.get_mut(&ticket).unwrap_or_else(|| panic!("seed {seed}: ticket {ticket}"));
                assert_eq!(told.1.replace(delivered), None, "seed {seed}: ticket {ticket} told of twice");
                self.write(now, context, host);
            }
            Event::Released { buffer } => {
                host.take_buffer(buffer);
            }
            Event::Closed { context, result } => self.on_closed(now, context, result, host),
            Event::Connected { .. } | Event::Shown { .. } => {}
            event => panic!("seed {seed}: QMP has no {event:?}"),
        }
    }
}
