//! Thousands of random transfers over random networks, with kills, closes and forgeries, each from one seed.
//!
//! The property: every message arrives whole and intact, or both ends that live are told; none twice, none beyond its
//! buffer, and nothing goes round in circles. `PINNACE_SEEDS=n` runs that many seeds, `PINNACE_SEED=x` only that one.
#![allow(clippy::print_stdout, reason = "a seed that is run alone says what it finds")]

mod common;

use common::content;
use core::time::Duration;
use pinnace_core::{BufferId, ControllerKind, Engine, Random, Time};
use pinnace_sim::nodes::{Adversary, AdversaryConfig};
use pinnace_sim::{HostConfig, HostId, Inbox, NetworkConfig, Outcome, Path, QueueSize, Simulation};
use pinnace_testing::swarm::{self, Swarm, Traced, millis, pick};
use pinnace_wire::zcrp::{ControlWriter, encode_idle};
use pinnace_zcrp::{Config, Event, Failure, Receiver, Sender, UnitSize, Zcrp};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

const SENDER: HostId = HostId::new(0);
const RECEIVER: HostId = HostId::new(1);
const GUARD: usize = 64;

type World = Simulation<Zcrp>;

/// What somebody does to a transfer.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mischief {
    Nothing,
    /// A third party injects; a connected socket shows none of it.
    Stranger,
    /// Random bytes and old datagrams, as if from the peer.
    GarbageAndReplays,
    /// Datagrams with flipped bits that every checksum let through. They may lie, but not hang or crash anybody.
    Lies,
}

/// How a transfer may end before all is done.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Kill(HostId),
    PowerOff(HostId),
    Close(HostId),
}

/// Everything that a seed decides.
#[derive(Debug)]
struct Plan {
    seed: u64,
    sender: Config,
    receiver: Config,
    there: NetworkConfig,
    back: NetworkConfig,
    hosts: [HostConfig; 2],
    mischief: Mischief,
    end: Option<(Duration, End)>,
    freeze: Option<(Duration, HostId, Duration)>,
    block: Option<(Duration, HostId, Duration)>,
    /// When, and how many bytes.
    sends: Vec<(Duration, u32)>,
    posts: Vec<(Duration, u32)>,
    hold: bool,
}

fn network(random: &mut Random) -> NetworkConfig {
    let mut network = swarm::network(random, 40_000, &[0.001, 0.01, 0.05, 0.3], &[0.01, 0.1]);
    if random.chance(0.3) {
        network.rate = Some(pick(random, &[2_000_000, 20_000_000, 1_000_000_000]));
        network.queue = pick(random, &[QueueSize::Bdp(1.0), QueueSize::Bytes(10_000), QueueSize::Unlimited]);
    }
    if random.chance(0.1) {
        network.partitions.push(swarm::outage(random, &[50, 900, 5_000, 14_000]));
    }
    network
}

impl Plan {
    fn from_seed(seed: u64) -> Self {
        let mut random = Random::from_seed(seed ^ 0x05A1_D0C5);
        let random = &mut random;
        let unit = pick(random, &[29, 60, 200, 576, 1472, 1472, 1472, 8972, 65_507]);
        let congestion = match random.below(4) {
            0 => ControllerKind::Fixed { window: u64::MAX },
            1 => ControllerKind::Fixed { window: 1 + random.below(30_000) },
            2 => ControllerKind::Bbr,
            _ => ControllerKind::Cubic,
        };
        let common = Config {
            unit_size: if random.chance(0.3) { UnitSize::UpTo(unit) } else { UnitSize::Fixed(unit) },
            congestion,
            rate: seed.is_multiple_of(7).then_some(50 * unit as u64),
            window_units: pick(random, &[1, 3, 64, 64, 1000]),
            ack_units: pick(random, &[1, 2, 16]),
            ack_bytes: pick(random, &[0, 0, 10_000]),
            control_bytes: pick(random, &[16, 64, 512, 512]),
            peer_timeout: Duration::from_secs(pick(random, &[3, 10])),
            timeout_floor: Duration::from_millis(pick(random, &[6, 20])),
            max_messages: 64,
            ..Config::default()
        };
        let mut sender = Config { seed: random.next_u64(), ..common.clone() };
        let receiver = Config { limit_amplification: random.chance(0.2), ..common };
        // One of them has chosen the address of the other.
        sender.limit_amplification = !receiver.limit_amplification && seed.is_multiple_of(5);
        let (there, back) = (network(random), network(random));
        let hosts = [swarm::host(random), swarm::host(random)];
        let mischief = match random.below(8) {
            0 => Mischief::Stranger,
            1 => Mischief::GarbageAndReplays,
            2 => Mischief::Lies,
            _ => Mischief::Nothing,
        };
        let somebody = pick(random, &[SENDER, RECEIVER]);
        let end = pick(random, &[None, None, Some(End::Kill(somebody)), Some(End::Close(somebody))]);
        let end = if random.chance(0.1) { Some(End::PowerOff(somebody)) } else { end };
        let end = end.map(|end| (millis(random, pick(&mut random.clone(), &[20, 200, 2000])), end));
        let fault = |random: &mut Random, share| {
            let (at, time) = (millis(random, 400), millis(random, 700));
            let host = pick(random, &[SENDER, RECEIVER]);
            random.chance(share).then_some((at, host, time))
        };
        let (freeze, block) = (fault(random, 0.1), fault(random, 0.1));
        // So many units in all that a seed takes a few milliseconds.
        let fragment = unit as u64 - 28;
        let mut left = 120 + random.below(120);
        let (mut sends, mut posts) = (Vec::new(), Vec::new());
        let spread = pick(random, &[0, 0, 5, 500]);
        for _ in 0..1 + random.below(pick(&mut random.clone(), &[3, 30])) {
            let most = 1 + random.below(200);
            let units = random.below(left.min(most) + 1);
            left = left.saturating_sub(units + 1);
            let size = (units * fragment).saturating_sub(random.below(fragment + 1)).min(400_000) as u32;
            sends.push((millis(random, spread), size));
            let room = match random.below(10) {
                0 => size.saturating_sub(1 + random.below(u64::from(size / 2 + 1)) as u32),
                1..4 => size + random.below(3000) as u32,
                _ => size,
            };
            posts.push((millis(random, spread), room));
            if left == 0 {
                break;
            }
        }
        if random.chance(0.1) {
            sends.truncate(sends.len() / 2);
        }
        if random.chance(0.1) {
            posts.truncate(posts.len() / 2);
        }
        sends.sort_by_key(|&(time, _)| time);
        posts.sort_by_key(|&(time, _)| time);
        let hold = random.chance(0.1);
        Self { seed, sender, receiver, there, back, hosts, mischief, end, freeze, block, sends, posts, hold }
    }

    /// Bursts and blackouts may well last longer than the peer is waited for; then both ends are told, no more.
    fn is_calm(&self) -> bool {
        self.end.is_none()
            && self.sender.peer_timeout >= Duration::from_secs(10)
            && [&self.there, &self.back].iter().all(|network| {
                let (low, high) = network.partitions.first().copied().unwrap_or_default();
                let random = network.loss + network.train_loss + network.corrupt;
                high - low < Duration::from_secs(1)
                    && network.burst_loss.is_none()
                    && random < 0.2
                    && swarm::tells(network)
            })
    }
}

/// What the application did: sizes and buffers, by message number.
#[derive(Default)]
struct Calls {
    sent: Vec<u32>,
    posted: Vec<(BufferId, u32)>,
}

/// What an end was told: everything once.
fn told(world: &World, host: HostId, seed: u64) -> BTreeMap<u64, Result<u32, Failure>> {
    let mut told = BTreeMap::new();
    for (_, event) in &world.application(host).events {
        let (number, result) = match *event {
            Event::Sent { number, result, .. } => (number, result.map(|()| 0)),
            Event::Received { number, result, .. } => (number, result),
            Event::SenderClosed(_) | Event::ReceiverClosed(_) => continue,
        };
        assert!(told.insert(number, result).is_none(), "seed {seed}: message {number} ended twice at {host}");
    }
    told
}

fn is_alive(plan: &Plan, world: &World, host: HostId) -> bool {
    let dead = [Some(End::Kill(host)), Some(End::PowerOff(host))];
    !plan.end.is_some_and(|(at, end)| dead.contains(&Some(end)) && Time::ZERO + at <= world.now())
}

fn schedule(plan: &Plan, world: &mut World, calls: &Rc<RefCell<Calls>>) {
    let at = |time: Duration| Time::ZERO + time;
    let dies = |host| match plan.end {
        Some((at, End::Kill(dead) | End::PowerOff(dead))) if dead == host => at,
        _ => Duration::MAX,
    };
    let seed = plan.seed;
    for &(time, size) in plan.sends.iter().filter(|(time, _)| *time < dies(SENDER)) {
        let calls = Rc::clone(calls);
        world.schedule(at(time), move |world| {
            let number = calls.borrow().sent.len() as u64;
            let buffer = world.add_buffer(SENDER, content(seed, number, size));
            let now = world.now();
            let sender = |engine: &mut Zcrp| engine.sender_mut().unwrap().send(now, buffer, size);
            if world.call(SENDER, sender) == Ok(number) {
                calls.borrow_mut().sent.push(size);
            }
        });
    }
    for &(time, capacity) in plan.posts.iter().filter(|(time, _)| *time < dies(RECEIVER)) {
        let calls = Rc::clone(calls);
        world.schedule(at(time), move |world| {
            let number = calls.borrow().posted.len() as u64;
            let buffer = world.add_buffer(RECEIVER, vec![0xA5; capacity as usize + GUARD]);
            let now = world.now();
            let post = |engine: &mut Zcrp| engine.receiver_mut().unwrap().post(now, buffer, capacity);
            if world.call(RECEIVER, post) == Ok(number) {
                calls.borrow_mut().posted.push((buffer, capacity));
            }
        });
    }
    if plan.hold {
        world.call(SENDER, |engine| engine.handle_hold(true));
        world.call(RECEIVER, |engine| engine.handle_hold(true));
        let release = plan.sends.iter().chain(&plan.posts).map(|call| call.0).max().unwrap_or_default();
        for host in [SENDER, RECEIVER].into_iter().filter(|&host| release < dies(host)) {
            world.schedule(at(release), move |world| world.call(host, |engine| engine.handle_hold(false)));
        }
    }
    if let Some((time, end)) = plan.end {
        world.schedule(at(time), move |world| {
            let now = world.now();
            match end {
                End::Kill(host) => world.kill(host),
                End::PowerOff(host) => world.power_off(host),
                End::Close(SENDER) => world.call(SENDER, |engine| engine.sender_mut().unwrap().close()),
                End::Close(_) => world.call(RECEIVER, |engine| engine.receiver_mut().unwrap().close(now)),
            }
        });
    }
    if let Some((time, host, span)) = plan.freeze {
        world.schedule(at(time), move |world| world.freeze(host, span));
    }
    if let Some((time, host, span)) = plan.block {
        world.schedule(at(time), move |world| world.block_link(host, span));
    }
}

fn build(plan: &Plan) -> World {
    let mut sender = Zcrp::new(Some(Sender::new(plan.sender.clone(), Time::ZERO)), None);
    let mut receiver = Zcrp::new(None, Some(Receiver::new(plan.receiver.clone())));
    // What introduced them.
    sender.credit(28, 1);
    receiver.credit(28, 1);
    let mut world = Simulation::new(plan.seed);
    for (engine, host) in [sender, receiver].into_iter().zip(plan.hosts) {
        world.add_host_with(engine, Inbox::default(), HostConfig { is_connected: true, ..host });
    }
    world.connect(SENDER, RECEIVER);
    for (from, to, network) in [(SENDER, RECEIVER, &plan.there), (RECEIVER, SENDER, &plan.back)] {
        let mut path = Path::from_config(network);
        let base = AdversaryConfig { rate: 300.0, high: Time::from_nanos(2_000_000_000), ..AdversaryConfig::default() };
        match plan.mischief {
            Mischief::Nothing => {}
            Mischief::Stranger => path = path.node(Adversary::new(base)),
            Mischief::GarbageAndReplays => {
                path = path.node(Adversary::new(AdversaryConfig { source: None, bit_flip: 0, ..base }));
            }
            Mischief::Lies => path = path.node(Adversary::new(AdversaryConfig { source: None, ..base })),
        }
        world.set_route(from, to, path);
    }
    world
}

/// One transfer. Returns the digest of all that happened.
fn run(plan: &Plan) -> u64 {
    let seed = plan.seed;
    let calls = Rc::new(RefCell::new(Calls::default()));
    let mut world = Traced::new(build(plan), swarm::hex);
    schedule(plan, &mut world, &calls);
    let (sends, posts) = (plan.sends.len(), plan.posts.len());
    let pairs = sends.min(posts);
    let enough = |world: &World| {
        let ended = |host| world.application(host).events.iter().filter(|(_, event)| is_end(event)).count();
        let started = world.now() > Time::from_nanos(500_000_000);
        started
            && (ended(SENDER) >= pairs || !is_alive(plan, world, SENDER))
            && (ended(RECEIVER) >= pairs || !is_alive(plan, world, RECEIVER))
    };
    let mut checked = 0;
    let outcome = world.run_until(Time::from_nanos(900_000_000_000), |world| {
        // Looking costs more than a step.
        checked += 1;
        u64::is_multiple_of(checked, 64) && enough(world)
    });
    assert!(!matches!(outcome, Outcome::Livelock(_)), "seed {seed}: {outcome:?} at {:?}: {plan:#?}", world.now());
    if plan.mischief == Mischief::Lies {
        return world.digest();
    }
    introduce(plan, &mut world, &calls.borrow(), outcome);
    if plan.is_calm() {
        // Two that live and have nothing to say do not miss each other.
        world.run_for(Duration::from_secs(25));
    }
    check(plan, &world, &calls.borrow());
    world.digest()
}

fn is_end(event: &Event) -> bool {
    matches!(event, Event::Sent { .. } | Event::Received { .. })
}

/// A message that has not begun waits without limit unless the peer has spoken of idleness (Z-21). An end that has
/// heard nothing of the kind hears it now; an end that had, and was not told, is a defect.
fn introduce(plan: &Plan, world: &mut World, calls: &Calls, outcome: Outcome) {
    let seed = plan.seed;
    let pairs = calls.sent.len().min(calls.posted.len()) as u64;
    let missing = |world: &World, host| {
        let told = told(world, host, seed);
        is_alive(plan, world, host) && (0..pairs).any(|number| !told.contains_key(&number))
    };
    let mut hint = [0; 16];
    let mut writer = ControlWriter::new(&mut hint);
    writer.push(u32::MAX);
    writer.push(0);
    let hint = writer.flow().to_vec();
    let mut waits = false;
    if swarm::only_seed().is_some() {
        println!("{outcome:?} at {:?}", world.now());
        println!("{:?}", world.engine(SENDER).sender().unwrap().counters());
        println!("{:?}", world.engine(RECEIVER).receiver().unwrap().counters());
        println!("sent {:?}", told(world, SENDER, seed));
        println!("received {:?}", told(world, RECEIVER, seed));
    }
    if missing(world, SENDER) {
        let seen = world.engine(SENDER).sender().unwrap().counters();
        assert_eq!(seen.flow_hints_received, 0, "seed {seed}: the sender waits for ever: {seen:?} {plan:#?}");
        world.inject(RECEIVER.address(), SENDER, &hint);
        waits = true;
    }
    if missing(world, RECEIVER) {
        let seen = world.engine(RECEIVER).receiver().unwrap().counters();
        assert_eq!(seen.idles_received, 0, "seed {seed}: the receiver waits for ever: {seen:?} {plan:#?}");
        world.inject(SENDER.address(), RECEIVER, &encode_idle(0));
        waits = true;
    }
    if waits {
        let outcome = world.run_for(Duration::from_secs(12));
        assert!(!matches!(outcome, Outcome::Livelock(_)), "seed {seed}: {outcome:?}");
    }
}

//= Z-20 test
fn check(plan: &Plan, world: &World, calls: &Calls) {
    let seed = plan.seed;
    let (sent, received) = (told(world, SENDER, seed), told(world, RECEIVER, seed));
    for (number, &(buffer, capacity)) in calls.posted.iter().enumerate() {
        let bytes = world.buffer(RECEIVER, buffer);
        let number = number as u64;
        assert_eq!(bytes[capacity as usize..], [0xA5; GUARD], "seed {seed}: message {number} overran its buffer");
        if let Some(Ok(size)) = received.get(&number) {
            assert_eq!(*size, calls.sent[number as usize], "seed {seed}: size of message {number}");
            let expected = content(seed, number, *size);
            assert!(bytes[..*size as usize] == expected, "seed {seed}: message {number} was altered");
        }
    }
    // A message that the sender believes delivered was received whole, unless nobody is left to say so.
    for number in sent.iter().filter(|(_, result)| result.is_ok()).map(|(number, _)| number) {
        let dead = !is_alive(plan, world, RECEIVER);
        let there = received.get(number);
        assert!(dead || matches!(there, Some(Ok(_))), "seed {seed}: {number} acknowledged, but {there:?}");
    }
    let pairs = calls.sent.len().min(calls.posted.len()) as u64;
    for (host, told) in [(SENDER, &sent), (RECEIVER, &received)] {
        for number in 0..pairs {
            let known = told.contains_key(&number) || !is_alive(plan, world, host);
            assert!(known, "seed {seed}: {host} was never told of message {number}: {plan:#?}");
        }
    }
    if plan.is_calm() {
        for number in 0..pairs {
            let fits = calls.sent[number as usize] <= calls.posted[number as usize].1;
            let expected = if fits { Ok(()) } else { Err(Failure::TooLong) };
            let ends = (sent[&number].map(|_| ()), received[&number].map(|_| ()));
            assert_eq!(ends, (expected, expected), "seed {seed}: message {number} on a good day: {plan:#?}");
        }
        for host in [SENDER, RECEIVER] {
            let closed = world.application(host).events.iter().find(|(_, event)| !is_end(event));
            assert!(closed.is_none(), "seed {seed}: {host} on a good day: {closed:?} {plan:#?}");
        }
    }
}

#[test]
fn every_message_arrives_whole_or_both_ends_are_told() {
    //= Z-2, Z-8, Z-14, Z-19, Z-20 test
    let swarm = Swarm { package: "pinnace-zcrp", seeds: 10_000, twice_every: 100 };
    swarm.run(Plan::from_seed, |plan| (run(&plan), []));
}

/// Units of 65,507 bytes through a queue of 10,000: they fit where nothing else waits. Asking whether they arrive was why they
/// did not.
#[test]
fn seeds_that_failed_once() {
    for seed in [6_200_771, 6_201_292] {
        run(&Plan::from_seed(seed));
    }
}

#[test]
fn paths_that_shrink_in_mid_transfer_keep_the_promises() {
    swarm::shrinking(
        Plan::from_seed,
        |plan, shrink| [&mut plan.there, &mut plan.back].into_iter().for_each(shrink),
        |plan| run(&plan),
    );
}
