//! What always holds, over random runs: two engines with a random network between them, and one engine among peers that
//! say anything.

use crate::duet::{Duet, Way};
use crate::half::Packet;
use crate::scene::*;
use core::time::Duration;
use pinnace_core::{ControllerKind, Random};
use pinnace_qmp::Profile;
use pinnace_qmp::socket::{self, Linger};
use pinnace_testing::swarm::pick;
use pinnace_wire::xtp::Kind;
use pinnace_xtp::{Codec, Config, Options};

fn profile(random: &mut Random) -> Profile {
    Profile {
        status_every: 1 + random.below(40) as u32,
        window: pick(random, &[3000, 20_000, 65_536, 262_144]),
        queue: pick(random, &[5000, 100_000, 1 << 20]),
        maxdata: pick(random, &[100, 500, 1400]),
        go_back_n: random.chance(0.2),
    }
}

fn way(random: &mut Random) -> Way {
    Way {
        loss: pick(random, &[0.0, 0.01, 0.1, 0.3]),
        delay: pick(random, &[10, 500, 10_000]),
        jitter: pick(random, &[0, 0, 100, 5000]),
        duplicate: pick(random, &[0.0, 0.0, 0.1]),
    }
}

fn writes(random: &mut Random, maxdata: u64) -> Vec<u64> {
    let most = maxdata * 60;
    (0..random.below(12)).map(|_| 1 + random.below(pick(&mut random.clone(), &[10, 2000, most]))).collect()
}

/// Of any N consecutive packets of data one asks; so do the ends of writes and streams, and what uses up the window;
/// nobody sends beyond the window; buffers come back with the acknowledgement of their last packet, neither earlier nor
/// later; every packet has what the profile says; and every byte is read. The watch in [`Duet`] says so at each packet.
//= Q-2 test
//= Q-7 test
//= Q-8 test
//= Q-10 test
//= Q-11 test
#[test]
fn two_that_speak_over_a_bad_network() {
    let (mut repeated, mut asking, mut packets, mut gaps) = (0, 0, 0, 0);
    for seed in 0..200 {
        let mut random = Random::from_seed(seed ^ 0x0051_4D50);
        let profiles = [profile(&mut random), profile(&mut random)];
        let ways = [way(&mut random), way(&mut random)];
        let maxdata = u64::from(profiles[0].maxdata.min(profiles[1].maxdata));
        let writes = [writes(&mut random, maxdata), writes(&mut random, maxdata)];
        let congestion = match random.below(3) {
            0 => ControllerKind::Fixed { window: 20_000 + random.below(1 << 20) },
            1 => ControllerKind::Cubic,
            _ => ControllerKind::Bbr,
        };
        let config = Config { congestion, validates: random.chance(0.5), ..Config::default() };
        // Whatever goes wrong, it is told which run it was.
        let result = std::panic::catch_unwind(|| {
            let mut duet = Duet::new(seed, profiles, ways, writes.clone(), &config);
            duet.run(Duration::from_secs(600));
            duet.check_whole();
            duet.ends.map(|end| (end.repeated, end.asking, end.packets, end.gaps_told))
        });
        let Ok(ends) = result else { panic!("seed {seed}: {profiles:?} {ways:?} {writes:?} {config:?}") };
        for end in ends {
            (repeated, asking, packets, gaps) = (repeated + end.0, asking + end.1, packets + end.2, gaps + end.3);
        }
    }
    assert!(packets > 5000 && repeated > 500 && gaps > 200, "{packets} {repeated} {gaps}");
    assert!(asking < packets, "not every packet asks");
}

/// A packet that nobody would send, or somebody might.
fn packet(random: &mut Random, scene: &Scene) -> Packet {
    let kinds = [Kind::First, Kind::Data, Kind::Data, Kind::Cntl, Kind::Ecntl, Kind::Tcntl, Kind::Diag];
    let mut packet = Packet::new(Codec::Xtp40, pick(random, &kinds));
    let near = |random: &mut Random| scene.start.wrapping_add(random.below(4000)).wrapping_sub(random.below(200));
    let nobodys = 1 + random.below(1 << 40);
    packet.key = pick(random, &[KEY, XKEY, scene.its_key.max(1), nobodys]);
    packet.rtn = packet.kind != Kind::First && random.chance(0.5);
    packet.options =
        Options::from_bits((random.next_u64() as u16) & (random.next_u64() as u16) & 0x7fff).expect("defined");
    if !random.chance(0.1) {
        // These would end it, or go to a group.
        packet.options = packet.options.without(END | Options::MULTI);
    }
    packet.options = packet.options.without(Options::SORT);
    if packet.options.contains(Options::BTAG) {
        packet.btag = Some(*b"whatever");
    }
    packet.sync = 1000 + random.below(50) as u32;
    packet.seq = near(random);
    packet.data = bytes(scene.at(packet.seq) % 251, random.below(300));
    packet.service = pick(random, &[4, 4, 4, 1, 2, 3, 5, 6, 9]);
    let facts = scene.context.and_then(|context| scene.half.xtp().facts(context));
    packet.echo = facts.as_ref().map_or(0, |facts| facts.sync.wrapping_sub(random.below(4) as u32));
    packet.rseq = facts.as_ref().map_or(0, |facts| facts.acked.wrapping_add(random.below(500)));
    packet.alloc = near(random).wrapping_add(random.below(100_000));
    packet.xkey = XKEY;
    if packet.kind == Kind::Ecntl {
        packet.spans = vec![(packet.rseq.wrapping_add(100), packet.rseq.wrapping_add(200))];
    }
    if packet.kind == Kind::Diag {
        (packet.code, packet.value) = (random.below(10) as u32, random.below(15) as u32);
        if !random.chance(0.1) {
            (packet.rtn, packet.code) = (true, 3);
        }
    }
    packet
}

/// Whatever comes, and whatever the application does: what leaves is QMP (the scene looks at every packet).
//= Q-2 test
#[test]
fn nothing_makes_it_send_what_qmp_does_not_have() {
    let mut kinds = std::collections::BTreeMap::new();
    for seed in 0..300 {
        let mut random = Random::from_seed(seed ^ 0x5150_4D51);
        let profile = profile(&mut random);
        let mut scene = match random.below(4) {
            0 => Scene::listening(&profile),
            1 => Scene::connecting(&profile).0,
            2 => Scene::connected(&profile),
            _ => Scene::accepted(&profile),
        };
        let mut is_closed = false;
        for _ in 0..60 {
            let context = scene.context.filter(|_| !is_closed);
            let sent = match (random.below(12), context) {
                (0 | 1, Some(context)) => {
                    let n = 1 + random.below(3000);
                    let facts = scene.half.xtp().facts(context).expect("there");
                    let low = scene.at(facts.sent).wrapping_add(facts.queued) % 251;
                    let buffer = scene.half.memory.add(bytes(low, n));
                    let written = scene.half.call(|engine, now| socket::write(engine, now, context, buffer, 0, n));
                    if written.is_err() {
                        scene.half.memory.end(buffer);
                    }
                    scene.take()
                }
                (2, Some(context)) => {
                    let len = scene.half.xtp().readable(context).map_or(0, |readable| readable.len);
                    scene.half.call(|engine, now| engine.consume(now, context, random.below(len + 1)));
                    scene.take()
                }
                (3, Some(context)) if random.chance(0.2) => {
                    scene.half.call(|engine, now| socket::shut_write(engine, now, context)).ok();
                    scene.take()
                }
                (4, Some(context)) if random.chance(0.05) => {
                    is_closed = true;
                    let linger = if random.chance(0.5) { Linger::Zero } else { Linger::Background };
                    scene.half.call(|engine, now| socket::close(engine, now, context, linger)).ok();
                    scene.take()
                }
                (5, _) => scene.wait(pick(&mut random, &[1, 10, 300, 5000])),
                _ => {
                    let packet = packet(&mut random, &scene);
                    let sent = scene.feed(&packet);
                    if scene.context.is_none() {
                        scene.learn();
                    }
                    sent
                }
            };
            for got in sent {
                *kinds.entry(format!("{:?}", got.kind)).or_insert(0) += 1;
            }
        }
        scene.wait(100_000);
    }
    let kinds: Vec<_> = kinds.into_iter().collect();
    assert!(kinds.len() == 6 && kinds.iter().all(|(_, count)| *count > 100), "{kinds:?}");
}
