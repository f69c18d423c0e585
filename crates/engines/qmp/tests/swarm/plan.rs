//! Everything that a seed decides.

use core::time::Duration;
use pinnace_core::{ControllerKind, Random};
use pinnace_qmp::socket::Linger;
use pinnace_qmp::{Medium, Profile};
use pinnace_sim::{HostConfig, NetworkConfig};
use pinnace_testing::swarm::{self, micros, pick};
use pinnace_xtp::Config;

/// When all programs close whatever is left.
pub(crate) const LAST_CALL: Duration = Duration::from_secs(100);

/// How a program reads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Reading {
    AtOnce,
    /// At most so many bytes each time.
    Slowly(u64, Duration),
    /// Nothing after so many bytes.
    Sleeps(u64),
}

/// How a program ends its socket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Ending {
    /// shutdown(SHUT_WR) behind the last write; close() when the other stream has been read to its end.
    Shutdown,
    /// The same when the other stream has ended.
    ShutdownLast,
    /// close(), after a time.
    Close(Linger, Duration),
    /// Not before the last call.
    Never,
}

/// One end of an association.
#[derive(Clone, Debug)]
pub(crate) struct End {
    pub(crate) writes: Vec<u64>,
    pub(crate) reading: Reading,
    pub(crate) ending: Ending,
}

impl End {
    pub(crate) fn bytes(&self) -> u64 {
        self.writes.iter().sum()
    }

    fn random(random: &mut Random, most: u64, is_calm: bool) -> Self {
        let writes = (0..random.below(8)).map(|_| match random.below(4) {
            0 => 1,
            1 => 1 + random.below(100),
            2 => 1 + random.below(5000),
            _ => 1 + random.below(most),
        });
        let writes = writes.collect();
        let reading = match random.below(if is_calm { 3 } else { 4 }) {
            0 | 1 => Reading::AtOnce,
            2 => Reading::Slowly(2000 + random.below(50_000), micros(random, 20_000)),
            _ => Reading::Sleeps(random.below(30_000)),
        };
        let ending = match random.below(if is_calm { 3 } else { 7 }) {
            0 | 1 => Ending::Shutdown,
            2 => Ending::ShutdownLast,
            3 | 4 => Ending::Close(Linger::Background, micros(random, 500_000)),
            5 => Ending::Close(Linger::Zero, micros(random, 500_000)),
            _ => Ending::Never,
        };
        Self { writes, reading, ending }
    }
}

/// An association to be. Its number says on which port the responder listens.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) at: Duration,
    pub(crate) profile: Profile,
    pub(crate) listens: Profile,
    /// Whether somebody listens there.
    pub(crate) is_listened: bool,
    pub(crate) initiator: End,
    pub(crate) responder: End,
    is_calm: bool,
}

#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) configs: Vec<Config>,
    pub(crate) hosts: Vec<HostConfig>,
    pub(crate) there: NetworkConfig,
    pub(crate) back: NetworkConfig,
    pub(crate) flows: Vec<Flow>,
    /// Who dies when, and when it starts again.
    pub(crate) death: Option<(usize, Duration, Option<Duration>)>,
    /// Whose process stops when, and for how long.
    pub(crate) freeze: Option<(usize, Duration, Duration)>,
    is_tame: bool,
}

fn network(random: &mut Random, is_tame: bool) -> NetworkConfig {
    if is_tame {
        return NetworkConfig {
            delay: micros(random, 5000),
            loss: pick(random, &[0.0, 0.0, 0.001, 0.01]),
            reorder: pick(random, &[0.0, 0.0, 0.05]),
            duplicate: pick(random, &[0.0, 0.0, 0.05]),
            ..NetworkConfig::default()
        };
    }
    // What the link's CRC finds is lost; QMP has no other.
    let mut network = swarm::network(random, 20_000, &[0.001, 0.01, 0.05, 0.2, 0.5], &[0.001, 0.03]);
    if random.chance(0.2) {
        network.rate = Some(pick(random, &[10_000_000, 100_000_000, 1_000_000_000]));
    }
    if random.chance(0.15) {
        network.partitions.push(swarm::outage(random, &[50, 900, 5000, 30_000, 90_000]));
    }
    network
}

fn profile(random: &mut Random, is_tame: bool) -> Profile {
    Profile {
        status_every: 1 + random.below(40) as u32,
        window: if is_tame { 65_536 } else { pick(random, &[1000, 10_000, 65_536, 262_144]) },
        queue: pick(random, &[1, 5000, 100_000, 1 << 20]),
        maxdata: pick(random, &[100, 1400, 1400, 1468, 8968]),
        go_back_n: random.chance(0.2),
    }
}

impl Plan {
    pub(crate) fn from_seed(seed: u64) -> Self {
        let mut random = Random::from_seed(seed ^ 0x0051_4D50_5357_4152);
        let random = &mut random;
        let count = 2 + random.below(2) as usize;
        let is_tame = random.chance(0.4);
        let congestion = match random.below(4) {
            0 => ControllerKind::Fixed { window: 100_000 },
            1 => ControllerKind::Fixed { window: 1 + random.below(1 << 20) },
            2 => ControllerKind::Cubic,
            _ => ControllerKind::Bbr,
        };
        let medium = if random.chance(0.3) { Medium::Ethernet } else { Medium::Internet };
        let datagram_bytes = pick(random, &[1472, 1500, 9000, 548]);
        let configs = (0..count).map(|_| {
            let base = Config {
                congestion: if is_tame { ControllerKind::Fixed { window: 100_000 } } else { congestion },
                datagram_bytes,
                validates: random.chance(0.5),
                seed: random.next_u64(),
                ..Config::default()
            };
            Profile::default().config(medium, base)
        });
        let mut configs: Vec<_> = configs.collect();
        // One for all: whoever asks nobody for a proof gives none either, and could not be sent anything.
        let validates = configs[0].validates;
        configs.iter_mut().for_each(|config| config.validates = validates);
        let (there, back) = (network(random, is_tame), network(random, is_tame));
        let hosts = (0..count).map(|_| {
            let host = swarm::host(random);
            // Loss comes from full receive buffers.
            if is_tame { HostConfig { receive_buffer: 4 << 20, ..host } } else { host }
        });
        let hosts = hosts.collect();
        let spread = pick(random, &[0, 5_000, 200_000]);
        let flows = (0..1 + random.below(6)).map(|_| {
            let from = random.below(count as u64) as usize;
            let to = (from + 1 + random.below(count as u64 - 1) as usize) % count;
            let (profile, listens) = (profile(random, is_tame), profile(random, is_tame));
            let is_calm = random.chance(0.6);
            let packets = if profile.go_back_n || listens.go_back_n { 20 } else { 150 };
            let most = u64::from(profile.maxdata.min(listens.maxdata)).min(1400) * packets;
            let most = if profile.window.min(listens.window) < 5000 { most.min(10_000) } else { most };
            let mut initiator = End::random(random, most, is_calm);
            let responder = End::random(random, most, is_calm);
            // Somebody has to begin.
            if initiator.ending == Ending::ShutdownLast && responder.ending == Ending::ShutdownLast {
                initiator.ending = Ending::Shutdown;
            }
            let is_listened = random.chance(0.95);
            Flow { from, to, at: micros(random, spread), profile, listens, is_listened, initiator, responder, is_calm }
        });
        let flows = flows.collect();
        let death = random.chance(if is_tame { 0.0 } else { 0.2 }).then(|| {
            let again = random.chance(0.5).then(|| micros(random, 1_000_000));
            let most = pick(random, &[20_000, 300_000]);
            (random.below(count as u64) as usize, micros(random, most), again)
        });
        let freeze = random.chance(0.2).then(|| {
            let time = pick(random, &[300, 3000, 40_000].map(Duration::from_millis));
            (random.below(count as u64) as usize, micros(random, 300_000), time)
        });
        Self { seed, configs, hosts, there, back, flows, death, freeze, is_tame }
    }

    pub(crate) const fn port(flow: usize) -> u16 {
        100 + flow as u16
    }

    /// Whether nothing happens on the way that could keep `flow` from its end. That a process stops for a while does not.
    pub(crate) fn is_calm(&self, flow: &Flow) -> bool {
        let has_time = self.freeze.is_none_or(|(.., time)| time < Duration::from_secs(5));
        swarm::tells(&self.there)
            && swarm::tells(&self.back)
            && self.is_tame
            && flow.is_calm
            && flow.is_listened
            && has_time
    }
}
