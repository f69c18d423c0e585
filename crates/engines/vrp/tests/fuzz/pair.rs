//! Both roles against each other, over a path as bad as the script wants it: whatever is delivered keeps its contract
//! (V-R18), and both ends agree on what was lost.

use super::half::{Half, Sent, check_request};
use super::outgoing::content;
use super::script::{STEPS, config, packet_bytes, size, terms, time, window};
use core::time::Duration;
use pinnace_core::{Address, Ecn, Random, Time};
use pinnace_testing::script::Script;
use pinnace_vrp::{Delivery, Event, Failure, FrameSpec, LossSummary, Refused, Terms, Vrp};
use std::collections::{BTreeMap, BTreeSet};

const SENDER: Address = Address::Node(1);
/// Datagrams that may travel in all; then the path is cut.
const MANY: usize = 60_000;
/// Packets of one frame at most.
const PACKETS: u64 = 600;
/// The same, where every packet may take seconds.
const FEW_PACKETS: u64 = 60;

/// What the path does.
#[derive(Clone, Copy)]
struct Weather {
    /// Of 256 datagrams, so many are lost on the way there, and on the way back.
    loss: [u8; 2],
    /// A loss takes so many datagrams behind it, too.
    burst: u8,
    /// Of 256 datagrams, so many are doubled.
    doubles: u8,
    /// Of 256 datagrams, so many come later, by up to `late`.
    reordered: u8,
    late: Duration,
    delay: Duration,
    /// Of 256 datagrams, so many are marked by a congested router.
    marks: u8,
}

impl Weather {
    const FAIR: Self = Self {
        loss: [0; 2],
        burst: 0,
        doubles: 0,
        reordered: 0,
        late: Duration::ZERO,
        delay: Duration::from_millis(5),
        marks: 0,
    };
}

/// On its way: to the receiver or back, its train, its bytes and its mark.
struct Flying {
    there: bool,
    train: usize,
    bytes: Vec<u8>,
    ecn: Ecn,
}

struct Post {
    spec: FrameSpec,
    terms: Terms,
    packet_bytes: u16,
    window: u16,
    has_deadline: bool,
    result: Option<Result<Option<LossSummary>, Failure>>,
    delivery: Option<Delivery>,
}

struct Pair {
    sender: Half,
    receiver: Half,
    flying: BTreeMap<(Time, usize), Flying>,
    sent: usize,
    dice: Random,
    weather: Weather,
    /// Datagrams that the running burst of losses still takes.
    burst: [u8; 2],
    was_fair: bool,
    posts: BTreeMap<u64, Post>,
    sizes: BTreeSet<u64>,
}

impl Pair {
    fn now(&self) -> Time {
        self.sender.now
    }

    /// Puts what was sent on its way, and looks at what was reported.
    fn collect(&mut self) {
        for sent in self.sender.take_sent() {
            check_request(&sent.bytes);
            self.launch(true, sent);
        }
        for sent in self.receiver.take_sent() {
            assert_eq!(sent.to, SENDER);
            self.launch(false, sent);
        }
        for event in core::mem::take(&mut self.sender.events) {
            if let Event::Sent { ticket, result, .. } = event {
                let post = self.posts.get_mut(&ticket).expect("a ticket that was given");
                let loss = result.map(|sent| {
                    assert_eq!((sent.size, sent.packet_bytes), (post.spec.size, post.packet_bytes));
                    sent.loss
                });
                assert!(post.result.replace(loss).is_none(), "send {ticket} ended twice");
            }
        }
        for event in core::mem::take(&mut self.receiver.events) {
            if let Event::Received(delivery) = event {
                self.deliver(delivery);
            }
        }
    }

    fn deliver(&mut self, delivery: Delivery) {
        let found = self.posts.iter_mut().find(|(_, post)| post.spec.size == u64::from(delivery.size));
        let (ticket, post) = found.expect("only what was sent is delivered");
        let bytes = self.receiver.memory.bytes(delivery.buffer).expect("the storage is there");
        assert_eq!(bytes.len() as u64, post.spec.size, "the frame has its full size");
        let mut next = 0;
        for hole in delivery.holes.iter().chain(core::iter::once(&(post.spec.size..post.spec.size))) {
            let is_right = (next..hole.start as usize).all(|at| bytes[at] == content(*ticket, at));
            assert!(is_right, "send {ticket} was altered outside of its holes {:?}", delivery.holes);
            next = hole.end as usize;
        }
        // The contract itself was checked against the delivery; here, that it is the sender's.
        let contract = post.terms.contract(post.spec.size, post.packet_bytes).expect("the terms were accepted");
        assert_eq!((&delivery.contract, delivery.packet_bytes), (&contract, post.packet_bytes));
        assert_eq!(delivery.window, u32::from(post.window).min(delivery.loss.packets.max(1)));
        assert_eq!(delivery.source, SENDER);
        let (id, buffer) = (delivery.id, delivery.buffer);
        assert!(post.delivery.replace(delivery).is_none(), "send {ticket} was delivered twice");
        self.receiver.release(id, buffer);
    }

    fn launch(&mut self, there: bool, Sent { train, bytes, ecn, .. }: Sent) {
        self.sent += 1;
        let Weather { loss, burst, doubles, reordered, late, delay, marks } = self.weather;
        let mut chance = |share: u8| (self.dice.next_u32() as u8) < share;
        let way = usize::from(!there);
        if self.burst[way] > 0 {
            self.burst[way] -= 1;
            return;
        }
        if self.sent > MANY || chance(loss[way]) {
            self.burst[way] = burst;
            return;
        }
        let copies = 1 + usize::from(chance(doubles));
        let is_marked = ecn != Ecn::NotCapable && chance(marks);
        let ecn = if is_marked { Ecn::Congested } else { ecn };
        for copy in 0..copies {
            let extra = if copy > 0 || chance(reordered) { late } else { Duration::ZERO };
            let at = self.sender.now + delay + extra;
            self.flying.insert((at, self.sent * 2 + copy), Flying { there, train, bytes: bytes.clone(), ecn });
        }
    }

    /// Goes on to `end`.
    fn run(&mut self, end: Time) {
        self.collect();
        loop {
            let arrival = self.flying.first_key_value().map(|((at, _), _)| *at);
            let next = [arrival, self.sender.next_timer(), self.receiver.next_timer()].into_iter().flatten().min();
            let Some(next) = next.filter(|next| *next <= end) else { break };
            self.sender.advance_to(next);
            self.receiver.advance_to(next);
            self.arrive();
            self.collect();
        }
        self.sender.advance_to(end);
        self.receiver.advance_to(end);
        self.collect();
    }

    /// What comes now: datagrams of one train that kept their order come in one read.
    fn arrive(&mut self) {
        while let Some(first) = self.flying.first_entry().filter(|entry| entry.key().0 <= self.sender.now) {
            let Flying { there, train, bytes, ecn } = first.remove();
            let mut read = vec![bytes];
            while let Some(next) = self.flying.first_entry() {
                let flying = next.get();
                let fits = next.key().0 <= self.sender.now
                    && (flying.there, flying.train, flying.ecn) == (there, train, ecn)
                    && flying.bytes.len() <= read[0].len()
                    && read[read.len() - 1].len() == read[0].len()
                    && (read.len() + 1) * read[0].len() <= 65_535;
                if !fits {
                    break;
                }
                read.push(next.remove().bytes);
            }
            if there {
                self.receiver.read(SENDER, ecn, &read);
            } else {
                self.sender.read(Address::Peer, ecn, &read);
            }
        }
    }

    fn send(&mut self, script: &mut Script<'_>) {
        let flags = script.byte();
        let mut spec = FrameSpec::new(pinnace_core::BufferId::new(0), 0);
        if flags & 1 != 0 {
            spec.packet_bytes = Some(packet_bytes(script));
        }
        if flags & 2 != 0 {
            spec.window = Some(window(script));
        }
        let config = self.sender.tx().config();
        let packet_bytes = spec.packet_bytes.unwrap_or(config.packet_bytes);
        let window = spec.window.unwrap_or(config.window);
        // Every frame has a size of its own, so that it is known again at the other end.
        // A packet of less than 6 bytes does not pay for its ACK, so in a window of 1 it goes twice, 2 s apart.
        let packets = if packet_bytes < 6 { FEW_PACKETS } else { PACKETS };
        let most = (packets * u64::from(packet_bytes)).min(100_000);
        spec.size = (u64::from(size(script)) * 2).min(most);
        while !self.sizes.insert(spec.size) {
            spec.size += 1;
        }
        let terms = terms(script, spec.size);
        spec.terms = Some(terms.clone());
        if flags & 12 == 12 {
            spec.repeat_until = Some(self.now() + Duration::from_millis(u64::from(script.byte())));
        }
        if flags & 48 == 48 {
            spec.give_up_at = Some(self.now() + Duration::from_millis(u64::from(script.byte()) * 4));
        }
        let ticket = self.posts.last_key_value().map_or(0, |(last, _)| last + 1);
        let bytes: Vec<u8> = (0..spec.size as usize).map(|at| content(ticket, at)).collect();
        spec.buffer = self.sender.memory.add(bytes);
        let has_deadline = spec.give_up_at.is_some() || spec.repeat_until.is_some();
        let post = Post { spec: spec.clone(), terms, packet_bytes, window, has_deadline, result: None, delivery: None };
        let buffer = spec.buffer;
        // It is known before anything can be said about it.
        let given = self.sender.call(|engine, now| match engine {
            Vrp::Outgoing(outgoing) => outgoing.send(now, spec),
            Vrp::Incoming(_) => Err(Refused::Closed),
        });
        match given {
            Ok(given) => {
                assert_eq!(given, ticket, "tickets count up from 0");
                self.posts.insert(ticket, post);
            }
            Err(_) => drop(self.sender.memory.end(buffer)),
        }
        self.collect();
    }

    /// Both ends agree.
    fn check(&self) {
        for (ticket, Post { spec, packet_bytes, has_deadline, result, delivery, .. }) in &self.posts {
            let result = result.as_ref().unwrap_or_else(|| panic!("send {ticket} never ended"));
            if self.was_fair && self.sent < MANY && !has_deadline {
                let delivery = delivery.as_ref().unwrap_or_else(|| panic!("a path without faults lost send {ticket}"));
                assert!(result.is_ok() && delivery.loss.lost == 0, "send {ticket}: {result:?}, {:?}", delivery.loss);
            }
            let Ok(told) = result else { continue };
            let delivery =
                delivery.as_ref().unwrap_or_else(|| panic!("send {ticket} ended well and was not delivered"));
            let Some(told) = told else {
                // Only who received next to nothing may be silent.
                assert!(spec.size == 0 || *packet_bytes < 64, "the receiver does not say what send {ticket} lost");
                continue;
            };
            let had = &delivery.loss;
            assert_eq!((told.packets, told.lost), (had.packets, had.lost), "loss of send {ticket}");
            if told.is_complete {
                assert_eq!(told, had, "loss of send {ticket}");
            } else {
                assert!(told.ranges.len() < had.ranges.len() && had.ranges.starts_with(&told.ranges), "send {ticket}");
            }
        }
    }
}

fn weather(script: &mut Script<'_>) -> Weather {
    let kinds = script.byte();
    let mut part = |bit: u8| if kinds & bit != 0 { script.byte() } else { 0 };
    Weather {
        loss: [part(1), part(2) / 2],
        burst: part(4) % 40,
        doubles: part(8),
        reordered: part(16),
        late: Duration::from_micros(u64::from(part(24)) * 100),
        delay: Duration::from_micros(1 + u64::from(part(32)) * 200),
        marks: part(64),
    }
}

/// The target.
pub fn pair(bytes: &[u8]) {
    let mut script = Script::new(bytes);
    let mut config = config(&mut script);
    config.max_frames = 200;
    let dice = Random::from_seed(u64::from(script.long()));
    let mut pair = Pair {
        sender: Half::outgoing(config.clone()),
        receiver: Half::incoming(config),
        flying: BTreeMap::new(),
        sent: 0,
        dice,
        weather: Weather::FAIR,
        burst: [0; 2],
        was_fair: true,
        posts: BTreeMap::new(),
        sizes: BTreeSet::new(),
    };
    for _ in 0..STEPS.min(60) {
        if script.is_over() {
            break;
        }
        match script.byte() % 8 {
            step @ 0..=1 => {
                let end = pair.now() + time(&mut script, step);
                pair.run(end);
            }
            2..=3 => {
                pair.weather = weather(&mut script);
                pair.was_fair = false;
            }
            _ => pair.send(&mut script),
        }
    }
    // The weather gets fair; every send ends, well or badly.
    let end = pair.now() + Duration::from_millis(u64::from(script.byte()) * 20);
    pair.run(end);
    pair.weather = Weather::FAIR;
    pair.run(end + Duration::from_secs(600));
    pair.check();
    pair.sender.close();
    pair.collect();
    pair.run(end + Duration::from_secs(700));
    let (frames, lent) = (pair.receiver.rx().frames(), pair.receiver.memory.lent);
    assert_eq!((frames, lent), (0, 0), "what is closed or silent is forgotten");
}
