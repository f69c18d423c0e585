//! Everything that a seed decides.

use crate::{RECEIVER, sender};
use core::ops::Range;
use core::time::Duration;
use pinnace_core::{ControllerKind, Random};
use pinnace_sim::{HostConfig, HostId, NetworkConfig, QueueSize};
use pinnace_testing::swarm::{self, millis, pick};
use pinnace_vrp::{Config, Limits, Terms};

/// A frame to be sent.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) sender: usize,
    pub(crate) at: Duration,
    pub(crate) size: u32,
    pub(crate) terms: Terms,
    pub(crate) packet_bytes: Option<u16>,
    pub(crate) window: Option<u16>,
    pub(crate) repeat_for: Option<Duration>,
    pub(crate) give_up_after: Option<Duration>,
}

/// How an endpoint ends before all is done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum End {
    Kill(HostId),
    PowerOff(HostId),
    Close(HostId),
}

#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) senders: Vec<Config>,
    pub(crate) receiver: Config,
    pub(crate) there: NetworkConfig,
    pub(crate) back: NetworkConfig,
    /// Of the receiver and of the senders.
    pub(crate) hosts: [HostConfig; 2],
    pub(crate) frames: Vec<Frame>,
    pub(crate) end: Option<(Duration, End)>,
    pub(crate) freeze: Option<(Duration, HostId, Duration)>,
    pub(crate) icmp: bool,
    /// How often the application takes what has come.
    pub(crate) takes_every: Duration,
}

fn network(random: &mut Random) -> NetworkConfig {
    let mut network = swarm::network(random, 40_000, &[0.001, 0.01, 0.05, 0.2, 0.5], &[0.01, 0.1]);
    if random.chance(0.3) {
        let (rate, bytes) = pick(random, &[(2_000_000, 400_000), (20_000_000, 4_000_000), (1_000_000_000, 50_000_000)]);
        network.rate = Some(rate);
        // A queue of more than a second or two would outlive frames and what is remembered of them.
        network.queue = pick(random, &[QueueSize::Bdp(1.0), QueueSize::Bytes(10_000), QueueSize::Bytes(bytes)]);
        network.ecn = random.chance(0.3).then_some(0.5);
    }
    if random.chance(0.1) {
        network.partitions.push(swarm::outage(random, &[50, 900, 4_000, 9_000]));
    }
    network
}

fn critical(random: &mut Random, size: u32) -> Vec<Range<u64>> {
    let size = u64::from(size);
    match random.below(6) {
        0 => vec![0..size.min(1000)],
        1 => (0..random.below(6))
            .map(|_| {
                let low = random.below(size + 1);
                low..(low + random.below(3000)).min(size)
            })
            .collect(),
        2 => vec![size.saturating_sub(500)..size],
        3 if random.chance(0.2) => vec![0..size],
        _ => Vec::new(),
    }
}

impl Frame {
    fn random(random: &mut Random, senders: usize, packet: u16, spread: u64) -> Self {
        let packet_bytes = random.chance(0.2).then(|| pick(random, &[1, 7, 100, 512, 1400, 9000]));
        let packet = u64::from(packet_bytes.unwrap_or(packet));
        let packets = pick(random, &[0, 1, 3, 15, 16, 17, 60, 200]);
        let size = (packet * packets).saturating_sub(random.below(packet.max(1))).min(300_000) as u32;
        let size = if random.chance(0.1) { random.below(300) as u32 } else { size };
        let rate = pick(random, &[None, Some(0), Some(26), Some(64), Some(128), Some(255)]);
        let terms = Terms {
            rate,
            run_bytes: pick(random, &[None, Some(0), Some(packet), Some(3 * packet), Some(4000), Some(u64::MAX)]),
            critical: critical(random, size),
            floor: rate.filter(|_| random.chance(0.2)).map(|rate| rate / pick(random, &[1, 2, 255])),
        };
        let late = random.chance(0.2);
        Self {
            sender: random.below(senders as u64) as usize,
            at: millis(random, spread),
            size,
            terms,
            packet_bytes,
            window: random.chance(0.3).then(|| pick(random, &[1, 2, 6, 16, 100, 1024])),
            repeat_for: late.then(|| millis(random, 300)),
            give_up_after: (late && random.chance(0.3)).then(|| Duration::from_millis(300) + millis(random, 2000)),
        }
    }
}

impl Plan {
    pub(crate) fn from_seed(seed: u64) -> Self {
        let mut random = Random::from_seed(seed ^ 0x10C5_5CA7);
        let random = &mut random;
        let packet = pick(random, &[20, 200, 512, 1466, 1466, 1466, 8000, 60_000]);
        let congestion = match random.below(4) {
            0 => ControllerKind::Fixed { window: u64::MAX },
            1 => ControllerKind::Fixed { window: 1 + random.below(30_000) },
            2 => ControllerKind::Cubic,
            _ => ControllerKind::Bbr,
        };
        let common = Config {
            packet_bytes: packet,
            window: pick(random, &[1, 6, 64, 64, 64, 512]),
            congestion,
            rate: random.chance(0.1).then(|| 100_000 + random.below(10_000_000)),
            life_timeout: Duration::from_secs(pick(random, &[2, 5, 5])),
            ecn: random.chance(0.5),
            ..Config::default()
        };
        let senders = 1 + random.below(pick(&mut random.clone(), &[1, 1, 4])) as usize;
        let limits = match random.below(6) {
            0 => Limits { frames: 3, bytes: 500_000, early_packets: 4, early_bytes: 8000, ..Limits::default() },
            1 => Limits { early_packets: 0, sources: 1 + random.below(3) as usize, ..Limits::default() },
            _ => Limits::default(),
        };
        let receiver = Config { limits, ..common.clone() };
        let senders: Vec<_> = (0..senders).map(|_| Config { seed: random.next_u64(), ..common.clone() }).collect();
        let (there, back) = (network(random), network(random));
        let hosts = [swarm::host(random), swarm::host(random)];
        let spread = pick(random, &[0, 5, 200, 2000]);
        let count = 1 + random.below(24);
        let frames = (0..count).map(|_| Frame::random(random, senders.len(), packet, spread)).collect();
        let somebody = if random.chance(0.5) { RECEIVER } else { sender(random.below(senders.len() as u64) as usize) };
        let ends =
            [None, None, None, Some(End::Kill(somebody)), Some(End::PowerOff(somebody)), Some(End::Close(somebody))];
        let end = pick(random, &ends).map(|end| (millis(random, pick(&mut random.clone(), &[20, 200, 2000])), end));
        let freeze = random.chance(0.1).then(|| (millis(random, 300), somebody, millis(random, 700)));
        let icmp = random.chance(0.1);
        let takes_every = Duration::from_millis(pick(random, &[20, 500, 3000]));
        Self { seed, senders, receiver, there, back, hosts, frames, end, freeze, icmp, takes_every }
    }

    /// When `host` dies, if it does.
    pub(crate) fn dies(&self, host: HostId) -> Option<Duration> {
        match self.end {
            Some((at, End::Kill(dead) | End::PowerOff(dead))) if dead == host => Some(at),
            _ => None,
        }
    }

    pub(crate) fn is_alive(&self, host: HostId) -> bool {
        self.dies(host).is_none()
    }

    /// Whether nothing happens that could keep a frame from being delivered.
    pub(crate) fn is_calm(&self) -> bool {
        let networks = [&self.there, &self.back];
        let gentle = |network: &&NetworkConfig| {
            network.loss < 0.1
                && network.train_loss < 0.1
                && network.corrupt < 0.05
                && network.burst_loss.is_none()
                && swarm::tells(network)
                && network.partitions.is_empty()
                && network.rate.is_none_or(|rate| rate > 10_000_000)
                && network.queue_bytes().is_none_or(|bytes| bytes > 65_535)
        };
        let limits = &self.receiver.limits;
        // The paper's window knows no congestion: with frames side by side it may drown the receiver's socket for ever.
        let drowns = self.receiver.congestion == ControllerKind::Fixed { window: u64::MAX }
            && self.hosts[0].receive_buffer < 4 << 20;
        self.end.is_none()
            && !drowns
            && networks.iter().all(gentle)
            && limits.frames > 100
            && limits.sources > self.senders.len()
            && self.freeze.is_none()
            && self.receiver.life_timeout >= Duration::from_secs(5)
    }
}
