//! Random worlds: hosts, networks, records, messages, programs that read slowly, change their records, close or abort, and
//! hosts that die. Each run from one seed.
//!
//! What always holds: every message that is read is right, in order and read once; without retransmission it is right or
//! marked; every connection ends with one `Closed`, every message with one `Sent`, which says `delivered` only if it was;
//! memory goes back to nothing; nothing goes round in circles; the same seed gives the same trace. Where nothing stands in
//! the way, everything arrives. `PINNACE_SEEDS=n` runs that many seeds, `PINNACE_SEED=x` only that one.

#[path = "../support/mod.rs"]
mod support;

use core::time::Duration;
use pinnace_a1::{A1, Config, ConnectionId, Event, Qos};
use pinnace_core::{ControllerKind, Random, Time};
use pinnace_sim::{Coalesce, Exits, Fate, HostConfig, HostId, Node, Outcome, Packet, Path};
use pinnace_testing::swarm::{self, Swarm, Traced, pick};
use std::collections::BTreeMap;
use support::*;

/// The path that has [`Bursts`] beside its delay.
const BURSTS: &str = "delay=1ms";

/// Loses up to four datagrams in a row. A burst lasts while nobody sends, and OPEN, QOS and CLOSE leave nine times: without an
/// end, some bursts would lose them all, and with two of these, one each way, the last of them is answered.
#[derive(Debug, Default)]
struct Bursts {
    left: u64,
}

impl Node for Bursts {
    fn enter(&mut self, packet: Packet, random: &mut Random, exits: &mut Exits) {
        if self.left == 0 && random.chance(0.01) {
            self.left = 1 + random.below(4);
        }
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                exits.note(&packet, Fate::LostBurst);
            }
            None => exits.forward(packet),
        }
    }
}

/// What one end of a connection does.
#[derive(Clone, Debug)]
struct End {
    messages: Vec<usize>,
    /// It changes its record then.
    changes: Vec<(Duration, Qos)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// By the opener, when it has sent and received everything.
    Close,
    Abort(Duration),
    Release(Duration),
}

#[derive(Clone, Debug)]
struct Flow {
    from: usize,
    to: usize,
    opener: End,
    acceptor: End,
    ending: Ending,
}

#[derive(Debug)]
struct Plan {
    seed: u64,
    max: Qos,
    configs: Vec<Config>,
    stacks: Vec<HostConfig>,
    network: String,
    has_bursts: bool,
    flows: Vec<Flow>,
    /// Nobody reads anything there.
    deaf: Option<usize>,
    death: Option<(usize, Duration)>,
    freeze: Option<(usize, Duration, Duration)>,
}

impl Plan {
    fn new(seed: u64) -> Self {
        let mut random = Random::from_seed(seed);
        let random = &mut random;
        let max = Qos {
            has_checksum: random.chance(0.3),
            has_retransmission: random.chance(0.75),
            block_size: pick(random, &[1, 37, 100, 1000, 1440, 8000, 65_475]),
            largest_sent: 20_000,
            largest_received: 20_000,
            outstanding: pick(random, &[1, 2, 7, 16]),
            ..reliable()
        };
        let count = 2 + random.below(3) as usize;
        let network = [
            "delay=5ms",
            "",
            "delay=5ms,loss=3%",
            "delay=2ms,jitter=3ms,duplicate=3%,reorder=3%",
            "delay=20ms,rate=5mbit",
            BURSTS,
            "delay=5ms,loss=10%",
            "delay=5ms,train-loss=3%",
        ];
        let mut network = pick(random, &network).to_owned();
        let has_bursts = network == BURSTS;
        if max.has_checksum && random.chance(0.3) {
            // Damaged datagrams are dropped by the host, or (one bit in three hundred) seen by the engine.
            network += if network.is_empty() { "corrupt=2%" } else { ",corrupt=2%" };
        }
        let configs = (0..count as u64).map(|host| Config {
            congestion: pick(
                random,
                &[
                    ControllerKind::Fixed { window: 1 << 20 },
                    ControllerKind::Fixed { window: 5000 },
                    ControllerKind::Cubic,
                    ControllerKind::Bbr,
                ],
            ),
            validates: random.chance(0.8),
            link_average: if random.chance(0.2) { 2_000_000 } else { 0 },
            // Longer than an OPEN is repeated: bursts of losses last while nobody sends.
            silence: Duration::from_secs(200),
            idle: pick(random, &[Duration::from_secs(30), Duration::from_secs(1)]),
            ..config(max, seed * 100 + host)
        });
        let configs: Vec<_> = configs.collect();
        let stacks = (0..count)
            .map(|_| HostConfig {
                coalesce: pick(random, &[Coalesce::Never, Coalesce::Trains, Coalesce::Flow]),
                reads_per_batch: pick(random, &[1, 4, 64]),
                read_delay: pick(random, &[Duration::ZERO, Duration::from_micros(100)]),
                ..if random.chance(0.3) { HostConfig::plain() } else { HostConfig::default() }
            })
            .collect();
        let is_calm = random.chance(0.6);
        let flows = (0..1 + random.below(5))
            .map(|_| {
                let from = random.below(count as u64) as usize;
                let to = (from + 1 + random.below(count as u64 - 1) as usize) % count;
                let ending = match random.below(10) {
                    8 if !is_calm => Ending::Abort(Duration::from_millis(random.below(500))),
                    9 if !is_calm => Ending::Release(Duration::from_millis(random.below(500))),
                    _ => Ending::Close,
                };
                let opener = End::new(random, max);
                let acceptor = End::new(random, max);
                Flow { from, to, opener, acceptor, ending }
            })
            .collect();
        let any = |random: &mut Random| random.below(count as u64) as usize;
        let death = (!is_calm && random.chance(0.3)).then(|| (any(random), Duration::from_millis(random.below(300))));
        let deaf = (!is_calm && random.chance(0.2)).then(|| any(random));
        let freeze = random.chance(0.2).then(|| {
            let at = Duration::from_millis(random.below(100));
            (any(random), at, Duration::from_millis(random.below(400)))
        });
        Self { seed, max, configs, stacks, network, has_bursts, flows, deaf, death, freeze }
    }

    fn is_calm(&self, flow: &Flow) -> bool {
        let touches = |host: usize| host == flow.from || host == flow.to;
        flow.ending == Ending::Close
            && !self.network.contains("icmp=no")
            && !self.deaf.is_some_and(touches)
            && self.death.is_none_or(|(host, _)| !touches(host))
    }
}

impl End {
    fn new(random: &mut Random, max: Qos) -> Self {
        let most = (max.block_size as u64 * 65_535).min(20_000);
        let most = if max.block_size == 1 { 300 } else { most };
        let messages = (0..random.below(25)).map(|_| match random.below(4) {
            0 => random.below(3) as usize,
            1 => (u64::from(max.block_size) * random.below(3)).min(most) as usize,
            _ => random.below(most + 1) as usize,
        });
        let messages = messages.collect();
        let changes = (0..random.below(3))
            .map(|_| {
                let record = Qos {
                    outstanding: 1 + random.below(max.outstanding.into()) as u32,
                    send_average: pick(random, &[0, 500_000, 3_000_000]),
                    send_burst: pick(random, &[1, 10_000]),
                    ..max
                };
                (Duration::from_millis(random.below(300)), record)
            })
            .collect();
        Self { messages, changes }
    }

    /// Message `index` of an end of a flow.
    fn message(&self, tag: u8, index: usize) -> Vec<u8> {
        pattern(self.messages[index], tag.wrapping_add(index as u8))
    }

    fn all(&self, tag: u8) -> Vec<Vec<u8>> {
        (0..self.messages.len()).map(|index| self.message(tag, index)).collect()
    }
}

/// Tags tell the messages of both ends, and of different flows, apart.
fn tag(flow: usize, is_opener: bool) -> u8 {
    (flow * 64 + usize::from(is_opener) * 29) as u8
}

fn host(index: usize) -> HostId {
    HostId::new(index as u32)
}

fn world(plan: &Plan) -> World {
    let mut world = World::new(plan.seed);
    for (index, config) in plan.configs.iter().enumerate() {
        let flows: Vec<_> = plan.flows.iter().cloned().enumerate().collect();
        let mine: Vec<_> = flows.iter().filter(|(_, flow)| flow.from == index).cloned().collect();
        let base = plan.max;
        let is_deaf = plan.deaf == Some(index);
        let expected: BTreeMap<usize, usize> =
            mine.iter().map(|(at, flow)| (*at, flow.acceptor.messages.len())).collect();
        let of_connection = std::rc::Rc::new(std::cell::RefCell::new(BTreeMap::<ConnectionId, usize>::new()));
        let noted = of_connection.clone();
        let started = mine.clone();
        let program = Program::new(
            move |_, core, host| {
                listen(host);
                core.is_deaf = is_deaf;
                for (at, flow) in &started {
                    // The priority is a mark: the acceptor sees it in the record of the opener.
                    let qos = Qos { priority: 128 + *at as u8, ..base };
                    let now = host.now();
                    let id = core.open(now, host, HostId::new(flow.to as u32), qos);
                    noted.borrow_mut().insert(id, *at);
                    core.put(now, host, id, flow.opener.all(tag(*at, true)));
                    match flow.ending {
                        Ending::Abort(after) | Ending::Release(after) => host.wake_after(after, 1000 + *at as u64),
                        Ending::Close => {}
                    }
                    for (number, (after, _)) in flow.opener.changes.iter().enumerate() {
                        host.wake_after(*after, (*at * 4 + number) as u64);
                    }
                }
            },
            {
                let of_connection = of_connection.clone();
                let is_raw = !base.has_retransmission;
                move |now, event, core, host| match event {
                    Event::Accepted { connection, qos, .. } => {
                        let at = usize::from(qos.priority - 128);
                        let flow = &flows[at].1;
                        of_connection.borrow_mut().insert(*connection, at);
                        core.put(now, host, *connection, flow.acceptor.all(tag(at, false)));
                        for (_, record) in &flow.acceptor.changes {
                            host.call(|engine| engine.set_qos(now, *connection, *record)).ok();
                        }
                    }
                    Event::Connected { connection }
                    | Event::Readable { connection }
                    | Event::Sent { connection, .. } => {
                        let Some(at) = of_connection.borrow().get(connection).copied() else { return };
                        let (Some(expected), seen) = (expected.get(&at), &core.seen[connection]) else { return };
                        let is_through = seen.messages.len() >= *expected || is_raw;
                        if seen.connected_at.is_some() && is_through && seen.closed.is_none() {
                            core.close(now, host, *connection, Duration::from_secs(60));
                        }
                    }
                    _ => {}
                }
            },
        )
        .waking(move |now, token, core, host| {
            let (at, is_end) = if token >= 1000 { (token as usize - 1000, true) } else { (token as usize / 4, false) };
            let found = of_connection.borrow().iter().find(|(_, flow)| **flow == at).map(|(id, _)| *id);
            let Some(id) = found else { return };
            let flow = &mine.iter().find(|(flow, _)| *flow == at).expect("one of mine").1;
            if is_end {
                match flow.ending {
                    Ending::Abort(_) => drop(host.call(|engine| engine.abort(now, id))),
                    _ => host.call(|engine| engine.release(now, id)),
                }
            } else {
                let record = Qos { priority: 128 + at as u8, ..flow.opener.changes[token as usize % 4].1 };
                host.call(|engine| engine.set_qos(now, id, record)).ok();
            }
            let _ = core;
        });
        world.add_host_with(A1::new(config.clone(), Time::ZERO), program, plan.stacks[index]);
        let network = plan.network.parse().expect("a network");
        for other in 0..index {
            world.link(host(index), host(other), &network, &network);
            for (from, to) in [(index, other), (other, index)].into_iter().filter(|_| plan.has_bursts) {
                let path = Path::new().node(Bursts::default()).then(Path::from_config(&network));
                world.set_route(host(from), host(to), path);
            }
        }
    }
    if let Some((index, at)) = plan.death {
        world.schedule(Time::ZERO + at, move |world| world.power_off(host(index)));
    }
    if let Some((index, at, time)) = plan.freeze {
        world.schedule(Time::ZERO + at, move |world| world.freeze(host(index), time));
    }
    world
}

/// Whether `read` is what was sent, in order: all of it up to somewhere, or, raw, some of it.
fn is_right(read: &[Vec<u8>], sent: &[Vec<u8>], is_reliable: bool) -> bool {
    if is_reliable {
        return sent.starts_with(read);
    }
    let mut rest = sent.iter();
    read.iter().all(|message| rest.any(|other| other == message))
}

/// Returns what decides whether two runs were the same, and how many flows had to succeed.
fn run(plan: &Plan) -> (u64, [u64; 1]) {
    let seed = plan.seed;
    let mut world = Traced::new(world(plan), describe);
    // Who does not read keeps the other end waiting; in the end everybody lets go.
    let outcome = world.run_until_quiet(Time::ZERO + Duration::from_secs(2000));
    if outcome == Outcome::DeadlineReached {
        let hosts: Vec<_> = world.hosts().collect();
        for host in hosts {
            let now = world.now();
            let ids: Vec<_> = world.application(host).core.seen.keys().copied().collect();
            world.with_host(host, |handle| {
                for id in ids {
                    handle.call(|engine| engine.release(now, id));
                }
            });
        }
        assert_eq!(world.run_until_quiet(Time::ZERO + Duration::from_secs(9000)), Outcome::Quiet, "seed {seed}");
    } else {
        assert_eq!(outcome, Outcome::Quiet, "seed {seed}");
    }
    let is_dead = |index: usize| plan.death.is_some_and(|(dead, _)| dead == index);
    for index in (0..plan.configs.len()).filter(|index| !is_dead(*index)) {
        let core = &world.application(host(index)).core;
        assert!(core.tickets.is_empty(), "seed {seed}: {:?}", core.tickets);
        assert!(core.seen.values().all(|seen| seen.closed.is_some()), "seed {seed}: {plan:?}");
        let engine = world.engine(host(index));
        assert_eq!((engine.connections(), engine.bytes()), (0, 0), "seed {seed}");
        assert_eq!(world.counters(host(index)).bad_ranges, 0, "seed {seed}");
    }
    let mut calm = 0;
    let is_reliable = plan.max.has_retransmission;
    for (at, flow) in plan.flows.iter().enumerate() {
        let (here, there) = (&world.application(host(flow.from)).core, &world.application(host(flow.to)).core);
        let (up, down) = (flow.opener.all(tag(at, true)), flow.acceptor.all(tag(at, false)));
        if !plan.is_calm(flow) {
            continue;
        }
        calm += 1;
        let is_whole = |seen: &&Seen, sent: &[Vec<u8>]| {
            let is_right = if is_reliable { seen.messages == sent } else { is_right(&seen.messages, sent, false) };
            is_right && seen.closed == Some(Ok(()))
        };
        let told = |core: &Core, accepted: bool| {
            let seats = core.seen.values().filter(|seen| seen.accepted == accepted);
            seats.map(|seen| (seen.messages.len(), seen.closed.clone(), seen.closed_at)).collect::<Vec<_>>()
        };
        let opener = here.seen.values().filter(|seen| !seen.accepted).find(|seen| is_whole(seen, &down));
        assert!(opener.is_some(), "seed {seed}: flow {at}: {:?} of {}: {plan:?}", told(here, false), down.len());
        let acceptor = there.seen.values().filter(|seen| seen.accepted).find(|seen| is_whole(seen, &up));
        assert!(acceptor.is_some(), "seed {seed}: flow {at}: {:?} of {}: {plan:?}", told(there, true), up.len());
    }
    // What anybody has read was sent to it, whatever happened.
    for index in 0..plan.configs.len() {
        for seen in world.application(host(index)).core.seen.values() {
            let is_known = plan.flows.iter().enumerate().any(|(at, flow)| {
                let (end, tagged) = if seen.accepted {
                    (&flow.opener, (flow.to == index).then(|| tag(at, true)))
                } else {
                    (&flow.acceptor, (flow.from == index).then(|| tag(at, false)))
                };
                tagged.is_some_and(|tag| is_right(&seen.messages, &end.all(tag), is_reliable))
            });
            assert!(is_known, "seed {seed}: {index} has read what nobody sent");
        }
    }
    (world.digest(), [calm])
}

//= A-6, A-7, A-20, A-21 test
#[test]
fn random_worlds_keep_the_promises() {
    let swarm = Swarm { package: "pinnace-a1", seeds: 150, twice_every: 10 };
    let Some((seeds, [calm])) = swarm.run(Plan::new, |plan| run(&plan)) else { return };
    assert!(calm > seeds, "{calm} of {seeds}");
}

#[test]
fn paths_that_shrink_in_mid_transfer_keep_the_promises() {
    swarm::shrinking(
        Plan::new,
        |plan, shrink| {
            let mut network = plan.network.parse().expect("a network");
            shrink(&mut network);
            plan.network = network.to_string();
        },
        |plan| run(&plan),
    );
}
