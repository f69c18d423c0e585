//! Everything that a seed decides.

use core::time::Duration;
use pinnace_core::{ControllerKind, Random};
use pinnace_sim::{HostConfig, NetworkConfig};
use pinnace_testing::swarm::{self, millis, pick};
use pinnace_xtp::{Close, Codec, Config, ControlBlock, Limits, Options, Service};

/// Where every host listens.
pub(crate) const PORT: u16 = 7;
/// When all programs let go of whatever is left.
pub(crate) const LAST_CALL: Duration = Duration::from_secs(60);

/// A message of a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message {
    pub(crate) size: u64,
    pub(crate) btag: bool,
    /// In so many outputs.
    pub(crate) outputs: u64,
    pub(crate) asks: bool,
    pub(crate) asks_when_delivered: bool,
}

/// How an end of a context ends it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Ending {
    /// When everything is queued.
    Close(Close),
    /// When the other stream has been read to its end.
    AfterReading,
    /// Forced, after a time.
    Abort(Duration),
    /// The program forgets the context, after a time.
    Release(Duration),
    /// Not before the last call.
    Never,
}

/// How an end of a context reads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Reading {
    AtOnce,
    /// At most so many bytes each time.
    Slowly(u64, Duration),
    /// Nothing more after so many bytes, and it says so.
    StopsAt(u64),
    /// Nothing, without saying so.
    Never,
}

/// One end of a context.
#[derive(Clone, Debug)]
pub(crate) struct End {
    pub(crate) messages: Vec<Message>,
    pub(crate) ending: Ending,
    pub(crate) reading: Reading,
    /// Bytes of each area that it posts (BulkData).
    pub(crate) area: u64,
}

impl End {
    pub(crate) fn bytes(&self) -> u64 {
        self.messages.iter().map(|message| message.size).sum()
    }
}

/// An association to be.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) at: Duration,
    pub(crate) block: ControlBlock,
    pub(crate) initiator: End,
    pub(crate) responder: End,
    /// The responder waits for the end of the other stream before it sends.
    pub(crate) answers: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Death {
    Kill,
    PowerOff,
    ShutDown,
}

#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) configs: Vec<Config>,
    pub(crate) listens: Vec<ControlBlock>,
    pub(crate) hosts: Vec<HostConfig>,
    pub(crate) there: NetworkConfig,
    pub(crate) back: NetworkConfig,
    pub(crate) flows: Vec<Flow>,
    /// Who dies when and how, and when it starts again.
    pub(crate) death: Option<(usize, Duration, Death, Option<Duration>)>,
    pub(crate) freeze: Option<(usize, Duration, Duration)>,
}

fn network(random: &mut Random, is_tame: bool) -> NetworkConfig {
    if is_tame {
        return NetworkConfig {
            delay: millis(random, 40),
            loss: pick(random, &[0.0, 0.0, 0.001, 0.01, 0.019]),
            jitter: millis(random, 3),
            duplicate: pick(random, &[0.0, 0.0, 0.05]),
            reorder: pick(random, &[0.0, 0.0, 0.1]),
            ..NetworkConfig::default()
        };
    }
    let mut network = swarm::network(random, 40_000, &[0.001, 0.01, 0.05, 0.2, 0.5], &[0.001, 0.03]);
    if random.chance(0.2) {
        network.rate = Some(pick(random, &[1_000_000, 10_000_000, 100_000_000]));
        network.ecn = random.chance(0.3).then_some(0.5);
    }
    if random.chance(0.1) {
        network.mtu = Some(pick(random, &[576, 1500, 9000]));
    }
    if random.chance(0.1) {
        network.partitions.push(swarm::outage(random, &[50, 900, 4_000, 20_000]));
    }
    network
}

fn block(random: &mut Random, service: Service, codec: Codec, is_tame: bool) -> ControlBlock {
    let mut block = ControlBlock::new(service);
    block.rbufsize = pick(random, &[1, 100, 5000, 20_000, 65_536, 262_144, 262_144]);
    block.rwindow = pick(random, &[1, 100, 5000, 20_000, 65_536, 262_144, 262_144]);
    block.wbufsize = pick(random, &[1, 3000, 100_000, 1 << 20, 1 << 20]);
    block.maxdata = pick(random, &[1, 10, 100, 536, 1400, 1400, 1400, 8000]);
    block.retry_count = pick(random, &[2, 6, 6, 12]);
    block.sreq_every = pick(random, &[0, 1, 3, 16, 16, 100]);
    block.go_back_n = random.chance(0.2);
    block.holds_back = random.chance(0.2);
    block.ctimer = pick(random, &[1, 5, 20, 60].map(Duration::from_secs));
    block.ctimeout = pick(random, &[1, 3, 10].map(Duration::from_secs));
    block.wtimer = pick(random, &[50, 250, 250, 1000].map(Duration::from_millis));
    if random.chance(0.15) {
        block.output_rate = pick(random, &[20_000, 200_000, 5_000_000]);
        block.output_burst = pick(random, &[0, 1, 3000, 20_000]);
    }
    if random.chance(0.1) {
        block.input_rate = pick(random, &[20_000, 200_000, 5_000_000]);
        block.input_burst = pick(random, &[0, 1, 3000, 20_000]);
    }
    if random.chance(0.2) {
        block.mode_flags = block.mode_flags | Options::NOCHECK;
    }
    if random.chance(0.1) {
        block.mode_flags = block.mode_flags | Options::NOFLOW;
    }
    if random.chance(0.2) {
        block.mode_flags = block.mode_flags | Options::SORT;
        block.sort_value = random.below(if codec == Codec::Xtp40 { 65_536 } else { 1 << 32 }) as u32;
    }
    if random.chance(0.3) {
        block.listen_flags = Options::NONE;
    }
    if is_tame {
        block.rbufsize = block.rbufsize.max(5000);
        block.rwindow = block.rwindow.max(5000);
        block.maxdata = block.maxdata.max(100);
        block.retry_count = block.retry_count.max(6);
        block.wtimer = block.wtimer.min(Duration::from_millis(250));
        block.ctimer = block.ctimer.max(Duration::from_secs(5));
        (block.output_rate, block.input_rate) = (0, 0);
    }
    block.address_segment.destination_port = PORT;
    block
}

impl Message {
    fn random(random: &mut Random, most: u64) -> Self {
        let size = match random.below(8) {
            0 => 1,
            1 => 1 + random.below(20),
            2..=5 => 1 + random.below(most.min(5000)),
            _ => 1 + random.below(most),
        };
        Self {
            size,
            btag: random.chance(0.2),
            outputs: if random.chance(0.3) { 1 + random.below(5) } else { 1 },
            asks: random.chance(0.1),
            asks_when_delivered: random.chance(0.05),
        }
    }
}

impl End {
    fn random(random: &mut Random, service: Service, most: u64, is_calm: bool) -> Self {
        let messages = if service.is_one_message() {
            let mut message = Message::random(random, most);
            if random.chance(0.1) {
                message.size = 0;
            }
            message.btag &= message.size > 0;
            message.outputs = if service.is_datagram() || message.size == 0 { 1 } else { message.outputs };
            vec![message]
        } else {
            (0..random.below(5)).map(|_| Message::random(random, most)).collect()
        };
        let ending = match random.below(if is_calm { 4 } else { 9 }) {
            0 | 1 => Ending::Close(Close::Full),
            2 | 3 => Ending::AfterReading,
            4 => Ending::Close(Close::Abbreviated),
            5 => Ending::Close(Close::Forced),
            6 => Ending::Abort(millis(random, 500)),
            7 => Ending::Release(millis(random, 500)),
            _ => Ending::Never,
        };
        let reading = match random.below(if is_calm { 4 } else { 7 }) {
            0..=2 => Reading::AtOnce,
            3 => Reading::Slowly(1000 + random.below(20_000), millis(random, 20) + Duration::from_micros(100)),
            4 => Reading::StopsAt(random.below(20_000)),
            5 => Reading::Never,
            _ => Reading::Slowly(1 + random.below(50), Duration::from_millis(5)),
        };
        Self { messages, ending, reading, area: 1 + random.below(30_000) }
    }
}

impl Flow {
    fn random(
        random: &mut Random,
        listens: &[ControlBlock],
        codec: Codec,
        spread: u64,
        index: usize,
        is_tame: bool,
    ) -> Self {
        let hosts = listens.len();
        let from = random.below(hosts as u64) as usize;
        let to = (from + 1 + random.below(hosts as u64 - 1) as usize) % hosts;
        let listen = &listens[to];
        let service = pick(random, &Service::OF_THE_PAPER);
        let mut block = block(random, service, codec, is_tame);
        block.address_segment.source_port = index as u16 + 1;
        let is_calm = random.chance(0.5);
        // Small packets and large messages take too many packets.
        let maxdata = u64::from(block.maxdata.min(listen.maxdata));
        // Going back over a large window at every loss has no end.
        let packets = if block.go_back_n || listen.go_back_n { 30 } else { 300 };
        let most = (maxdata * packets).min(150_000);
        let most = if block.rwindow.min(block.rbufsize) < 1000 { most.min(2000) } else { most };
        let most = if service.is_datagram() { u64::from(block.maxdata).min(300) } else { most };
        let mut initiator = End::random(random, service, most, is_calm);
        let mut responder = End::random(random, service, most.min(20_000), is_calm);
        let answers = service == Service::Transaction || random.chance(0.5);
        if service == Service::Transaction && is_calm {
            (initiator.ending, responder.ending) = (Ending::Never, Ending::Never);
        }
        // Somebody has to begin.
        if initiator.ending == Ending::AfterReading && (answers || responder.ending == Ending::AfterReading) {
            initiator.ending = Ending::Close(Close::Full);
        }
        Self { from, to, at: millis(random, spread), block, initiator, responder, answers }
    }
}

impl Plan {
    pub(crate) fn from_seed(seed: u64) -> Self {
        let mut random = Random::from_seed(seed ^ 0x7A55_0C1A);
        let random = &mut random;
        let count = 2 + random.below(pick(&mut random.clone(), &[1, 1, 5])) as usize;
        let codec = pick(random, &[Codec::Xtp40, Codec::Xtp36]);
        let is_tame = random.chance(0.3);
        let congestion = match random.below(4) {
            0 => ControllerKind::Fixed { window: u64::MAX },
            1 => ControllerKind::Fixed { window: 1 + random.below(30_000) },
            2 => ControllerKind::Cubic,
            _ => ControllerKind::Bbr,
        };
        let limits = match random.below(6) {
            0 => Limits { spans: 2, boundaries: 3, half_open: 3, ..Limits::default() },
            1 => Limits { contexts: 5, bytes: 300_000, diags_per_second: 2, ..Limits::default() },
            _ => Limits::default(),
        };
        let datagram_bytes = pick(random, &[1472, 1472, 1472, 548, 8972, 300]);
        let mut configs: Vec<_> = (0..count)
            .map(|_| Config {
                codec,
                congestion,
                datagram_bytes,
                most_window: 1 << 20,
                validates: random.chance(0.7),
                limits: limits.clone(),
                seed: random.next_u64(),
                ..Config::default()
            })
            .collect();
        // One for all: whoever asks nobody for a proof gives none either, and could not be sent anything.
        let validates = configs[0].validates;
        configs.iter_mut().for_each(|config| config.validates = validates);
        let listens: Vec<_> = (0..count)
            .map(|_| {
                let mut block = block(random, Service::Connection, codec, is_tame);
                block.address_segment.source_port = 0;
                block
            })
            .collect();
        let (there, back) = (network(random, is_tame), network(random, is_tame));
        let hosts = (0..count).map(|_| {
            let host = swarm::host(random);
            if is_tame { HostConfig { receive_buffer: 4 << 20, ..host } } else { host }
        });
        let hosts = hosts.collect();
        let spread = pick(random, &[0, 5, 200, 2000]);
        let flows = 1 + random.below(10) as usize;
        let flows = (0..flows).map(|index| Flow::random(random, &listens, codec, spread, index, is_tame)).collect();
        let death = random.chance(if is_tame { 0.0 } else { 0.25 }).then(|| {
            let how = pick(random, &[Death::Kill, Death::PowerOff, Death::ShutDown]);
            let again = random.chance(0.5).then(|| millis(random, 1000));
            let at = millis(random, pick(&mut random.clone(), &[20, 200, 2000]));
            (random.below(count as u64) as usize, at, how, again)
        });
        let freeze =
            random.chance(0.1).then(|| (random.below(count as u64) as usize, millis(random, 300), millis(random, 700)));
        Self { seed, configs, listens, hosts, there, back, flows, death, freeze }
    }

    /// Whether the responder's time-wait is longer than the initiator may repeat a FIRST.
    pub(crate) fn remembers(&self, flow: &Flow) -> bool {
        let (asks, waits) = (&flow.block, &self.listens[flow.to]);
        let series = (0..=asks.retry_count).map(|expiry| asks.wtimer * (1 << expiry.min(4))).sum::<Duration>();
        let time_wait = (waits.wtimer * 32 * waits.retry_count).min(Duration::from_secs(30));
        time_wait > series + Duration::from_secs(1)
    }

    /// Whether nothing happens on the way that could keep `flow` from its end.
    pub(crate) fn is_calm(&self, flow: &Flow) -> bool {
        let gentle = |network: &&NetworkConfig| {
            network.loss < 0.02
                && network.train_loss == 0.0
                && network.corrupt < 0.02
                && network.burst_loss.is_none()
                && swarm::tells(network)
                && network.partitions.is_empty()
                && network.rate.is_none_or(|rate| rate > 5_000_000)
                && network.mtu.is_none_or(|mtu| mtu as usize >= self.configs[0].datagram_bytes + 28)
        };
        let is_kind = |end: &End| {
            matches!(end.ending, Ending::Close(Close::Full) | Ending::AfterReading)
                && matches!(end.reading, Reading::AtOnce | Reading::Slowly(..))
        };
        let blocks = [&flow.block, &self.listens[flow.to]];
        let is_transaction = flow.block.service == Service::Transaction;
        let reads = |end: &End| {
            let is_fast = match end.reading {
                Reading::AtOnce => true,
                Reading::Slowly(bytes, _) => bytes >= 1000,
                _ => false,
            };
            is_fast && (end.area >= 5000 || flow.block.service != Service::BulkData)
        };
        [&self.there, &self.back].iter().all(gentle)
            && self.death.is_none()
            && self.freeze.is_none()
            && if is_transaction {
                [&flow.initiator, &flow.responder].iter().all(|end| end.ending == Ending::Never)
            } else {
                is_kind(&flow.initiator) && is_kind(&flow.responder)
            }
            && reads(&flow.initiator)
            && reads(&flow.responder)
            && blocks.iter().all(|block| block.retry_count >= 6 && block.ctimer > LAST_CALL / 60)
            // Too much for what there is of windows, receive buffers or rates.
            && blocks.iter().all(|block| {
                block.rwindow.min(block.rbufsize) >= 5000 && block.maxdata >= 100 && block.output_rate == 0
                    && block.input_rate == 0 && block.wtimer <= Duration::from_millis(250)
            })
            && self.configs[0].limits.contexts > 1000
            && self.configs[0].limits.spans > 1000
            && match self.configs[0].congestion {
                ControllerKind::Fixed { window } => (10_000..u64::MAX).contains(&window),
                _ => true,
            }
            && self.hosts.iter().all(|host| host.receive_buffer >= 4 << 20)
    }
}
