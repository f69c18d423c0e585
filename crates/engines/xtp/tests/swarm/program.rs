//! The program of every host: it does what the plan says, and checks what it is told.

use crate::plan::{End, Ending, PORT, Plan, Reading};
use core::time::Duration;
use pinnace_core::{BufferId, Time};
use pinnace_sim::{Application, HostHandle, HostId};
use pinnace_testing::swarm::{content, mix};
use pinnace_xtp::{
    AddressSegment, Close, ContextId, ControlBlock, Event, Failure, Output, Refused, Service, Services, Xtp,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

type Host<'a> = HostHandle<'a, Xtp>;

/// One end of a context.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) flow: usize,
    pub(crate) is_initiator: bool,
    pending: VecDeque<(Output, u64)>,
    /// By ticket: where its bytes end in the stream, and what was told of it.
    pub(crate) tickets: BTreeMap<u64, (u64, Option<bool>)>,
    /// Bytes that the engine has taken.
    pub(crate) queued: u64,
    pub(crate) read: u64,
    reads: u64,
    ends: usize,
    hole_bytes: u64,
    pub(crate) has_read_all: bool,
    pub(crate) stopped: bool,
    pub(crate) gone: bool,
    has_begun: bool,
    has_finished: bool,
    is_reading_later: bool,
    pub(crate) closed: Option<(Result<(), Failure>, Time)>,
}

pub(crate) struct Program {
    plan: Rc<Plan>,
    me: usize,
    pub(crate) seats: BTreeMap<ContextId, Seat>,
    /// Those whose names have been given again.
    pub(crate) past: Vec<Seat>,
    lives: usize,
    buffers: BTreeSet<BufferId>,
    /// Flow and bytes.
    pub(crate) datagrams: Vec<usize>,
    pub(crate) record: u64,
    pub(crate) reads: u64,
    /// Whom to wake: a context, and its flow.
    wakes: Vec<(ContextId, usize)>,
}

const FLOW: u64 = 0;
const READ: u64 = 1;
const ABORT: u64 = 2;
const RELEASE: u64 = 3;
const LAST: u64 = 4;

fn tag(flow: usize, is_initiator: bool, low: u64) -> [u8; 8] {
    mix((flow as u64) << 33 ^ u64::from(is_initiator) << 32 ^ low ^ 0x7A6).to_le_bytes()
}

impl Program {
    pub(crate) fn new(plan: Rc<Plan>, me: usize) -> Self {
        Self {
            plan,
            me,
            seats: BTreeMap::new(),
            past: Vec::new(),
            lives: 0,
            buffers: BTreeSet::new(),
            datagrams: Vec::new(),
            record: 0,
            reads: 0,
            wakes: Vec::new(),
        }
    }

    fn end<'p>(plan: &'p Plan, seat: &Seat) -> &'p End {
        let flow = &plan.flows[seat.flow];
        if seat.is_initiator { &flow.initiator } else { &flow.responder }
    }

    fn note(&mut self, value: u64) {
        self.record = mix(self.record ^ value);
    }

    /// All that it lent has come back.
    pub(crate) fn check_memory(&self) {
        assert!(self.buffers.is_empty(), "seed {}: buffers never came back: {:?}", self.plan.seed, self.buffers);
    }

    fn wake(&mut self, host: &mut Host<'_>, after: Duration, what: u64, context: ContextId) {
        self.wakes.push((context, self.seats[&context].flow));
        host.wake_after(after, (self.wakes.len() as u64) << 8 | what);
    }

    fn sit(&mut self, flow: usize, is_initiator: bool, context: ContextId) {
        let mut pending = VecDeque::new();
        let end = if is_initiator { &self.plan.flows[flow].initiator } else { &self.plan.flows[flow].responder };
        let mut low = 0;
        for message in &end.messages {
            let high = low + message.size;
            let outputs = message.outputs.min(message.size).max(1);
            for index in 0..outputs {
                let from = low + message.size * index / outputs;
                let to = low + message.size * (index + 1) / outputs;
                let is_last = index + 1 == outputs;
                let output = Output {
                    eom: is_last,
                    btag: (message.btag && index == 0).then(|| tag(flow, is_initiator, low)),
                    asks: message.asks && is_last,
                    asks_when_delivered: message.asks_when_delivered && is_last,
                    ..Output::bytes(BufferId::new(0), to - from)
                };
                pending.push_back((output, from));
            }
            low = high;
        }
        let seat = Seat {
            flow,
            is_initiator,
            pending,
            tickets: BTreeMap::new(),
            queued: 0,
            read: 0,
            reads: 0,
            ends: 0,
            hole_bytes: 0,
            has_read_all: false,
            stopped: false,
            gone: false,
            has_begun: false,
            has_finished: false,
            is_reading_later: false,
            closed: None,
        };
        // A name may be given again when its context is forgotten.
        if let Some(before) = self.seats.insert(context, seat) {
            assert!(before.closed.is_some(), "seed {}: a context twice", self.plan.seed);
            self.past.push(before);
        }
    }

    pub(crate) fn all_seats(&self) -> impl Iterator<Item = &Seat> {
        self.seats.values().chain(&self.past)
    }

    fn service(&self, seat: &Seat) -> Service {
        self.plan.flows[seat.flow].block.service
    }

    /// Areas, dates, and the first outputs.
    fn begin(&mut self, now: Time, context: ContextId, host: &mut Host<'_>) {
        let seat = &self.seats[&context];
        let end = Self::end(&self.plan, seat).clone();
        let is_initiator = seat.is_initiator;
        if self.service(seat) == Service::BulkData {
            for _ in 0..2 {
                self.post(now, context, host);
            }
        }
        match end.ending {
            Ending::Abort(after) => self.wake(host, after, ABORT, context),
            Ending::Release(after) => self.wake(host, after, RELEASE, context),
            _ => {}
        }
        let is_stream = !self.service(&self.seats[&context]).is_one_message();
        if is_initiator && is_stream && end.messages.is_empty() {
            host.call(|engine| engine.connect(now, context)).ok();
        }
        self.push(now, context, host);
    }

    fn post(&mut self, now: Time, context: ContextId, host: &mut Host<'_>) {
        let seat = &self.seats[&context];
        let area = Self::end(&self.plan, seat).area;
        if seat.closed.is_some() || seat.gone {
            return;
        }
        let buffer = host.add_buffer(vec![0x5A; area as usize + 3]);
        if host.call(|engine| engine.post(now, context, buffer, 3, area)).is_ok() {
            self.buffers.insert(buffer);
        } else {
            host.take_buffer(buffer);
        }
    }

    /// Queues what can be queued, and ends the stream behind it.
    fn push(&mut self, now: Time, context: ContextId, host: &mut Host<'_>) {
        let plan = Rc::clone(&self.plan);
        let Some(seat) = self.seats.get_mut(&context) else { return };
        if seat.gone || seat.closed.is_some() || seat.has_finished {
            return;
        }
        let flow = &plan.flows[seat.flow];
        if !seat.is_initiator && flow.answers && !seat.has_read_all && !seat.has_begun {
            return;
        }
        seat.has_begun = true;
        while let Some(&(output, low)) = seat.pending.front() {
            let bytes = content(plan.seed, seat.flow, seat.is_initiator, low, output.len);
            let buffer = host.add_buffer([&[0xEE; 5], &bytes[..]].concat());
            let output = Output { buffer, offset: 5, ..output };
            match host.call(|engine| engine.send(now, context, output)) {
                Ok(ticket) => {
                    self.buffers.insert(buffer);
                    seat.queued += output.len;
                    let before = seat.tickets.insert(ticket, (low + output.len, None));
                    assert!(before.is_none(), "seed {}: a ticket twice", plan.seed);
                    seat.pending.pop_front();
                }
                Err(Refused::Full) => {
                    host.take_buffer(buffer);
                    assert!(
                        seat.tickets.values().any(|(_, told)| told.is_none()),
                        "seed {}: full of nothing",
                        plan.seed
                    );
                    return;
                }
                Err(why) => {
                    let expected = matches!(why, Refused::Closed | Refused::TooLarge { .. } | Refused::NoContext);
                    assert!(expected, "seed {}: {why}", plan.seed);
                    host.take_buffer(buffer);
                    seat.pending.clear();
                }
            }
        }
        let ending = Self::end(&plan, seat).ending;
        let how = match ending {
            Ending::Close(how) => how,
            Ending::AfterReading if seat.has_read_all => Close::Full,
            _ => return,
        };
        seat.has_finished = true;
        seat.gone |= how == Close::Forced;
        seat.stopped |= how == Close::Abbreviated && seat.is_initiator;
        host.call(|engine| engine.close(now, context, how)).ok();
    }

    fn read(&mut self, now: Time, context: ContextId, host: &mut Host<'_>) {
        let plan = Rc::clone(&self.plan);
        let Some(seat) = self.seats.get_mut(&context) else { return };
        let end = Self::end(&plan, seat);
        let is_over = seat.closed.is_some();
        if seat.gone || seat.stopped || end.reading == Reading::Never {
            return;
        }
        loop {
            let seat = self.seats.get_mut(&context).expect("it sits");
            let Some(readable) = host.engine().readable(context) else { return };
            let mut take = readable.message.unwrap_or(readable.len);
            let mut is_more = false;
            if let Reading::Slowly(most, _) = end.reading
                && !is_over
                && take > 0
            {
                if seat.is_reading_later {
                    return;
                }
                is_more = true;
                take = take.min(most);
            }
            if let Reading::StopsAt(at) = end.reading
                && seat.read + take >= at
            {
                seat.stopped = true;
                host.call(|engine| engine.stop_reading(now, context)).ok();
                return;
            }
            let is_message = readable.message == Some(take);
            if take == 0 && !is_message {
                if readable.is_end && readable.len == 0 {
                    self.read_all(now, context, host);
                }
                return;
            }
            let low = seat.read;
            check_read(&plan, seat, host, context, &readable, take);
            seat.read += take;
            seat.reads += 1;
            if is_message {
                check_message_end(&plan, seat);
            }
            self.reads += 1;
            self.note(low ^ take << 32);
            host.call(|engine| engine.consume(now, context, take));
            let seat = self.seats.get_mut(&context).expect("it sits");
            if readable.is_end && readable.len == take {
                self.read_all(now, context, host);
            } else if is_more && let Reading::Slowly(_, after) = end.reading {
                seat.is_reading_later = true;
                self.wake(host, after, READ, context);
                return;
            }
        }
    }

    fn read_all(&mut self, now: Time, context: ContextId, host: &mut Host<'_>) {
        let seat = self.seats.get_mut(&context).expect("it sits");
        if !core::mem::replace(&mut seat.has_read_all, true) {
            self.push(now, context, host);
        }
    }

    fn release(&mut self, now: Time, context: ContextId, host: &mut Host<'_>) {
        if let Some(seat) = self.seats.get_mut(&context) {
            seat.gone = true;
        }
        host.call(|engine| engine.release(now, context));
    }

    fn take(&mut self, buffer: BufferId, host: &mut Host<'_>) {
        assert!(self.buffers.remove(&buffer), "seed {}: {buffer:?} came back twice", self.plan.seed);
        host.take_buffer(buffer);
    }

    fn on_closed(&mut self, now: Time, context: ContextId, result: Result<(), Failure>, host: &mut Host<'_>) {
        let seed = self.plan.seed;
        let seat = self.seats.get_mut(&context).unwrap_or_else(|| panic!("seed {seed}: {context:?} closed unseen"));
        assert!(seat.closed.is_none(), "seed {seed}: {context:?} closed twice");
        seat.closed = Some((result, now));
        let untold = seat.tickets.values().filter(|(_, told)| told.is_none()).count();
        assert_eq!(untold, 0, "seed {seed}: {context:?} closed before its outputs were told of");
        if result.is_ok() {
            let all = seat.tickets.values().all(|(_, told)| *told == Some(true));
            assert!(all, "seed {seed}: {context:?} ended well, but not its outputs");
        }
        self.read(now, context, host);
        self.release(now, context, host);
    }

    fn on_datagram(&mut self, address: &AddressSegment, bytes: &[u8], btag: Option<[u8; 8]>) {
        let seed = self.plan.seed;
        let index = usize::from(address.source_port) - 1;
        let flow = &self.plan.flows[index];
        let message = &flow.initiator.messages[0];
        assert_eq!(flow.to, self.me, "seed {seed}: a datagram for somebody else");
        assert!(flow.block.service.is_datagram());
        assert_eq!(bytes.len() as u64, message.size, "seed {seed}: flow {index}");
        assert!(bytes == content(seed, index, true, 0, message.size), "seed {seed}: flow {index}");
        assert_eq!(btag, message.btag.then(|| tag(index, true, 0)), "seed {seed}: flow {index}");
        self.datagrams.push(index);
    }
}

fn check_read(
    plan: &Plan,
    seat: &mut Seat,
    host: &Host<'_>,
    context: ContextId,
    readable: &pinnace_xtp::Readable,
    take: u64,
) {
    let (seed, flow) = (plan.seed, seat.flow);
    let is_lossy = plan.flows[flow].block.service == Service::IsoStream;
    let mut bytes = Vec::new();
    for part in readable.parts {
        let at = part.offset as usize;
        if part.len > 0 {
            bytes.extend_from_slice(&host.buffer(part.buffer)[at..at + part.len as usize]);
        }
    }
    assert_eq!(bytes.len() as u64, readable.len, "seed {seed}");
    bytes.truncate(take as usize);
    let mut expected = content(seed, flow, !seat.is_initiator, seat.read, take);
    for (at, len) in host.engine().holes(context, take) {
        assert!(is_lossy, "seed {seed}: a hole in a stream that has none");
        assert!(len > 0 && at + len <= take, "seed {seed}: a hole outside");
        seat.hole_bytes += len;
        bytes[at as usize..(at + len) as usize].fill(0);
        expected[at as usize..(at + len) as usize].fill(0);
    }
    assert!(bytes == expected, "seed {seed}: flow {flow}: wrong bytes between {} and {}", seat.read, seat.read + take);
    let other = if seat.is_initiator { &plan.flows[flow].responder } else { &plan.flows[flow].initiator };
    let mut low = 0;
    let tagged = other.messages.iter().find(|message| {
        let here = low == seat.read && message.btag;
        low += message.size;
        here
    });
    let told = readable.btag;
    let wanted = tagged.map(|_| tag(flow, !seat.is_initiator, seat.read));
    assert!(told == wanted || (is_lossy && told.is_none()), "seed {seed}: flow {flow}: tag {told:?}, not {wanted:?}");
    // A message that has been seen whole ends where it was to end, and none is passed over.
    let mut high = 0;
    let next = other.messages.iter().map(|message| {
        high += message.size;
        high
    });
    let next = next.skip(seat.ends).find(|end| !is_lossy || *end > seat.read).unwrap_or(u64::MAX);
    let reached = seat.read + take;
    assert!(reached <= next || is_lossy, "seed {seed}: flow {flow}: {reached} lies beyond the message's end {next}");
    let told = readable.message.map(|message| seat.read + message);
    if !is_lossy && let Some(told) = told {
        assert_eq!(told, next, "seed {seed}: flow {flow}: a message ends elsewhere");
    }
    if !is_lossy && reached == next {
        assert_eq!(readable.message, Some(take), "seed {seed}: flow {flow}: a message's end at {next} is not told");
    }
}

fn check_message_end(plan: &Plan, seat: &mut Seat) {
    let flow = &plan.flows[seat.flow];
    let other = if seat.is_initiator { &flow.responder } else { &flow.initiator };
    let mut high = 0;
    let found = other.messages.iter().any(|message| {
        high += message.size;
        high == seat.read
    });
    assert!(found, "seed {}: flow {}: no message ends at {}", plan.seed, seat.flow, seat.read);
    seat.ends += 1;
}

impl Application<Xtp> for Program {
    fn on_start(&mut self, now: Time, host: &mut Host<'_>) {
        self.lives += 1;
        self.seats.clear();
        self.buffers.clear();
        let listens = self.plan.listens[self.me].clone();
        host.call(|engine| engine.listen(listens, Services::ALL)).expect("the port is free");
        if self.lives == 1 {
            let plan = Rc::clone(&self.plan);
            for (index, flow) in plan.flows.iter().enumerate().filter(|(_, flow)| flow.from == self.me) {
                host.wake_at(now + flow.at, (index as u64) << 8 | FLOW);
            }
        }
        host.wake_at(Time::ZERO + crate::plan::LAST_CALL, LAST);
    }

    fn on_wake(&mut self, now: Time, token: u64, host: &mut Host<'_>) {
        let (index, what) = ((token >> 8) as usize, token & 0xff);
        if what == FLOW {
            let flow = &self.plan.flows[index];
            let to = HostId::new(flow.to as u32).address();
            let block: ControlBlock = flow.block.clone();
            match host.call(|engine| engine.open(now, to, block)) {
                Ok(context) => {
                    self.sit(index, true, context);
                    self.begin(now, context, host);
                }
                Err(why) => assert!(matches!(why, Refused::TooManyContexts | Refused::ShutDown), "{why}"),
            }
            return;
        }
        if what == LAST {
            let left: Vec<_> = self.seats.iter().filter(|(_, seat)| !seat.gone).map(|(context, _)| *context).collect();
            for context in left {
                self.release(now, context, host);
            }
            return;
        }
        let (context, flow) = self.wakes[index - 1];
        let Some(seat) = self.seats.get_mut(&context).filter(|seat| seat.flow == flow) else { return };
        match what {
            READ => {
                seat.is_reading_later = false;
                self.read(now, context, host);
            }
            ABORT if !seat.gone => {
                seat.gone = true;
                host.call(|engine| engine.close(now, context, Close::Forced)).ok();
            }
            RELEASE if !seat.gone => self.release(now, context, host),
            _ => {}
        }
    }

    fn on_event(&mut self, now: Time, event: Event, host: &mut Host<'_>) {
        let seed = self.plan.seed;
        self.note(now.as_nanos());
        match event {
            Event::Accepted { context, address, service, .. } => {
                let index = usize::from(address.source_port) - 1;
                assert_eq!(address.destination_port, PORT);
                assert_eq!(self.plan.flows[index].to, self.me, "seed {seed}: a context for somebody else");
                assert_eq!(service, self.plan.flows[index].block.service, "seed {seed}");
                self.sit(index, false, context);
                self.begin(now, context, host);
            }
            Event::Readable { context } => self.read(now, context, host),
            Event::Sent { context, ticket, buffer, delivered } => {
                self.take(buffer, host);
                self.note(ticket ^ u64::from(delivered));
                let seat = self.seats.get_mut(&context).unwrap_or_else(|| panic!("seed {seed}: sent for nobody"));
                let told = seat.tickets.get_mut(&ticket).unwrap_or_else(|| panic!("seed {seed}: ticket {ticket}"));
                assert_eq!(told.1.replace(delivered), None, "seed {seed}: ticket {ticket} told of twice");
                self.push(now, context, host);
            }
            Event::Datagram { address, buffer, len, btag, context, service, .. } => {
                let bytes = buffer.map(|buffer| host.take_buffer(buffer)).unwrap_or_default();
                self.on_datagram(&address, &bytes[..len as usize], btag);
                assert!(service.is_datagram());
                host.call(|engine| engine.release_datagrams(1, len));
                if let Some(context) = context {
                    host.call(|engine| engine.delivered(now, context));
                }
            }
            Event::Filled { context, buffer } => {
                self.take(buffer, host);
                self.post(now, context, host);
            }
            Event::Released { buffer } => {
                host.take_buffer(buffer);
            }
            Event::Closed { context, result } => self.on_closed(now, context, result, host),
            Event::Connected { .. } | Event::Shown { .. } | Event::ShutDown => {}
        }
    }
}
