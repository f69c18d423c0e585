//! The transfer itself: a sender, a receiver, an emulated network, and what came of it.
//!
//! Always true: a message counts as arrived only if the receiver reported it and every byte of its buffer is what the
//! sender's was.

use super::timeline::{Line, Moment};
use crate::exit::Error;
use crate::interrupt;
use core::time::Duration;
use pinnace_core::{BufferId, ControllerKind, Random, Time};
use pinnace_sim::{
    Application, Fate, HostConfig, HostCounters, HostHandle, HostId, NetworkConfig, Outcome, Simulation,
};
use pinnace_wire::zcrp::{Control, TRAILER_BYTES, Trailer};
use pinnace_zcrp::{Config, Event, Failure, Receiver, ReceiverCounters, Sender, SenderCounters, UnitSize, Zcrp};

const SENDER: HostId = HostId::new(0);
const RECEIVER: HostId = HostId::new(1);

/// What to do.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) there: NetworkConfig,
    pub(crate) back: NetworkConfig,
    pub(crate) sizes: Vec<u32>,
    /// Bytes of a unit datagram at most.
    pub(crate) unit: usize,
    pub(crate) congestion: ControllerKind,
    /// Bytes in transit at most, where a bound was asked for.
    pub(crate) window: Option<u64>,
    pub(crate) seed: u64,
    pub(crate) until: Duration,
    /// Datagrams to remember.
    pub(crate) trace: usize,
}

impl Plan {
    /// Messages of these sizes with `bbr`, in units that the network takes.
    pub(crate) fn new(there: NetworkConfig, back: NetworkConfig, sizes: Vec<u32>, seed: u64) -> Self {
        let mtu = there.mtu.map_or(1500, |mtu| mtu.min(1500)) as usize;
        Self {
            unit: mtu.saturating_sub(pinnace_sim::HEADER_BYTES),
            there,
            back,
            sizes,
            congestion: ControllerKind::Bbr,
            window: None,
            seed,
            until: Duration::from_secs(600),
            trace: 0,
        }
    }

    /// What fills the path and half of a queue of the same length; a mebibyte where the path says nothing.
    pub(crate) fn fixed_window(&self) -> u64 {
        if let Some(window) = self.window {
            return window;
        }
        let trip = (self.there.delay + self.back.delay).as_secs_f64();
        let full = self.there.rate.map_or(0, |rate| (rate as f64 / 8.0 * trip * 1.5) as u64);
        if full == 0 { 1 << 20 } else { full.max(65_536) }
    }

    fn config(&self) -> Config {
        let base = Config { unit_size: UnitSize::UpTo(self.unit), seed: self.seed, ..Config::default() };
        match self.congestion {
            ControllerKind::Fixed { window } => base.for_cluster(window),
            // As the library does on the Internet: the controller bounds the bytes.
            congestion => {
                Config { window_units: 16_384, window_bytes: self.window.unwrap_or(u64::MAX), congestion, ..base }
            }
        }
    }
}

/// How a message ended at both ends; `None` if it did not.
#[derive(Clone, Debug)]
pub(crate) struct MessageEnd {
    pub(crate) size: u32,
    pub(crate) sent: Option<(Time, Result<(), Failure>)>,
    pub(crate) received: Option<(Time, Result<u32, Failure>)>,
    /// Every byte of the receiver's buffer is what was sent.
    pub(crate) verified: bool,
}

impl MessageEnd {
    /// Whether it arrived whole, and the sender knows.
    pub(crate) fn arrived(&self) -> bool {
        self.verified && matches!(self.sent, Some((_, Ok(()))))
    }
}

/// What came of a transfer.
#[derive(Debug)]
pub(crate) struct Transfer {
    pub(crate) plan: Plan,
    pub(crate) outcome: Outcome,
    /// When the last message had ended at both ends, or the run stopped.
    pub(crate) end: Duration,
    pub(crate) messages: Vec<MessageEnd>,
    pub(crate) sender: SenderCounters,
    pub(crate) receiver: ReceiverCounters,
    /// Of the sender's and the receiver's host.
    pub(crate) hosts: [HostCounters; 2],
    /// What became of datagrams, where anything did.
    pub(crate) fates: Vec<(Fate, u64)>,
    pub(crate) line: Line,
    pub(crate) round_trip: Option<Duration>,
    pub(crate) trace: Vec<String>,
    pub(crate) digest: u64,
}

impl Transfer {
    /// Whether every message arrived whole.
    pub(crate) fn succeeded(&self) -> bool {
        self.messages.iter().all(MessageEnd::arrived)
    }

    /// Payload bytes of messages that arrived whole.
    pub(crate) fn bytes_arrived(&self) -> u64 {
        self.messages.iter().filter(|message| message.verified).map(|message| u64::from(message.size)).sum()
    }

    /// Payload bits per second until the last message had arrived; `None` if it took no time.
    pub(crate) fn goodput(&self) -> Option<f64> {
        let last = self.messages.iter().filter(|m| m.verified).filter_map(|m| m.received).map(|(at, _)| at).max()?;
        let seconds = last.since(Time::ZERO).as_secs_f64();
        (seconds > 0.0).then(|| self.bytes_arrived() as f64 * 8.0 / seconds)
    }

    /// The goodput's share of the link's rate, 0 to 1.
    pub(crate) fn share(&self) -> Option<f64> {
        Some(self.goodput()? / self.plan.there.rate? as f64)
    }
}

/// Keeps how every message ended at its host.
#[derive(Debug)]
struct Tally {
    ends: Vec<Option<(Time, Result<u32, Failure>)>>,
    missing: usize,
}

impl Tally {
    fn new(messages: usize) -> Self {
        Self { ends: vec![None; messages], missing: messages }
    }
}

impl Application<Zcrp> for Tally {
    fn on_event(&mut self, now: Time, event: Event, _: &mut HostHandle<'_, Zcrp>) {
        let (number, result) = match event {
            Event::Sent { number, result, .. } => (number, result.map(|()| 0)),
            Event::Received { number, result, .. } => (number, result),
            Event::SenderClosed(_) | Event::ReceiverClosed(_) => return,
        };
        if let Some(end @ None) = usize::try_from(number).ok().and_then(|number| self.ends.get_mut(number)) {
            *end = Some((now, result));
            self.missing -= 1;
        }
    }

    fn is_done(&self) -> bool {
        self.missing == 0
    }
}

/// The content of message `number`: other bytes in every message and for every seed.
fn content(seed: u64, number: usize, size: u32) -> Vec<u8> {
    let mut random = Random::from_seed(seed.rotate_left(32) ^ number as u64);
    let mut bytes = Vec::with_capacity(size as usize + 8);
    while bytes.len() < size as usize {
        bytes.extend_from_slice(&random.next_u64().to_le_bytes());
    }
    bytes.truncate(size as usize);
    bytes
}

/// Does it.
///
/// # Errors
/// If the command has to end before.
pub(crate) fn run(plan: &Plan) -> Result<Transfer, Error> {
    let config = plan.config();
    let mut simulation: Simulation<Zcrp, Tally> = Simulation::new(plan.seed);
    let sender = Zcrp::new(Some(Sender::new(config.clone(), Time::ZERO)), None);
    let receiver = Zcrp::new(None, Some(Receiver::new(config)));
    // As the endpoints' sockets are.
    let host = HostConfig { is_connected: true, ..HostConfig::default() };
    for engine in [sender, receiver] {
        simulation.add_host_with(engine, Tally::new(plan.sizes.len()), host);
    }
    simulation.link(SENDER, RECEIVER, &plan.there, &plan.back);
    simulation.trace_mut().set_formatter(describe);
    simulation.trace_mut().set_limit(plan.trace);

    let mut buffers: Vec<(BufferId, BufferId)> = Vec::with_capacity(plan.sizes.len());
    for (number, &size) in plan.sizes.iter().enumerate() {
        let from = simulation.add_buffer(SENDER, content(plan.seed, number, size));
        let into = simulation.add_buffer(RECEIVER, vec![0; size as usize]);
        buffers.push((from, into));
    }
    // In one call each, so that neither end answers before everything is queued. A refusal shows as a message that never
    // ended.
    simulation.call(RECEIVER, |engine| {
        if let Some(half) = engine.receiver_mut() {
            for (&(_, into), &size) in buffers.iter().zip(&plan.sizes) {
                let _ = half.post(Time::ZERO, into, size);
            }
        }
    });
    simulation.call(SENDER, |engine| {
        if let Some(half) = engine.sender_mut() {
            for (&(from, _), &size) in buffers.iter().zip(&plan.sizes) {
                let _ = half.send(Time::ZERO, from, size);
            }
        }
    });

    let (outcome, line) = drive(&mut simulation, Time::ZERO + plan.until)?;
    let messages = plan.sizes.iter().enumerate().map(|(number, &size)| {
        let received = simulation.application(RECEIVER).ends[number];
        let (from, into) = buffers[number];
        let same = || simulation.buffer(SENDER, from) == simulation.buffer(RECEIVER, into);
        MessageEnd {
            size,
            sent: simulation.application(SENDER).ends[number].map(|(at, result)| (at, result.map(drop))),
            received,
            verified: matches!(received, Some((_, Ok(bytes))) if bytes == size) && same(),
        }
    });
    let trace = simulation.trace();
    let fates = Fate::ALL.into_iter().map(|fate| (fate, trace.count(fate))).filter(|&(_, count)| count > 0);
    let sender = simulation.engine(SENDER).sender();
    Ok(Transfer {
        outcome,
        end: simulation.now().since(Time::ZERO),
        messages: messages.collect(),
        sender: sender.map(Sender::counters).unwrap_or_default(),
        receiver: simulation.engine(RECEIVER).receiver().map(Receiver::counters).unwrap_or_default(),
        hosts: [simulation.counters(SENDER), simulation.counters(RECEIVER)],
        fates: fates.collect(),
        line,
        round_trip: sender.and_then(Sender::round_trip),
        trace: trace.events().map(ToString::to_string).collect(),
        digest: simulation.digest(),
        plan: plan.clone(),
    })
}

/// Runs to the end in the steps of a time line.
fn drive(simulation: &mut Simulation<Zcrp, Tally>, deadline: Time) -> Result<(Outcome, Line), Error> {
    let mut line = Line::new();
    let mut before = Moment::default();
    loop {
        interrupt::check()?;
        let end = (Time::ZERO + line.next_end()).min(deadline);
        let outcome = simulation.run(end);
        let now = Moment {
            bytes: simulation.engine(RECEIVER).receiver().map_or(0, |half| half.counters().bytes_received),
            resent: simulation.engine(SENDER).sender().map_or(0, |half| half.counters().units_resent),
            lost: simulation.trace().lost(),
        };
        line.push(Moment {
            bytes: now.bytes - before.bytes,
            resent: now.resent - before.resent,
            lost: now.lost - before.lost,
        });
        before = now;
        if outcome != Outcome::DeadlineReached || end == deadline {
            return Ok((outcome, line));
        }
    }
}

/// What a datagram says, for the trace.
fn describe(datagram: &[u8]) -> String {
    let tail = datagram.last_chunk::<TRAILER_BYTES>().map(|tail| Trailer::parse(tail, datagram.len()));
    match tail {
        Some(Ok(Trailer::Unit(unit))) => {
            let refused = if unit.refused { ", too long" } else { "" };
            let last = if unit.is_last { ", last" } else { "" };
            let next = unit.next.map_or(String::new(), |(message, unit)| format!(", next {message}.{unit}"));
            format!("unit {}.{} seq {}{last}{refused}{next}", unit.message, unit.unit, unit.sequence)
        }
        Some(Ok(Trailer::Idle { message })) => format!("idle, next message {message}"),
        Some(Err(_)) => "malformed".to_owned(),
        Some(Ok(Trailer::Control)) | None => match Control::parse(datagram) {
            Ok(Control::Acknowledgement(block)) => {
                let mut text = "ack".to_owned();
                for (low, high, positive) in block.intervals().filter(|(low, high, _)| low != high).take(4) {
                    text += &format!(" {}{low}..{high}", if positive { "" } else { "not " });
                }
                text
            }
            Ok(Control::Request(pairs)) => {
                let mut numbers = pairs.iter().map(|(message, _)| message);
                match (numbers.next(), numbers.last()) {
                    (Some(first), Some(last)) => format!("request messages {first} to {last}"),
                    (Some(only), None) => format!("request message {only}"),
                    _ => "request".to_owned(),
                }
            }
            Ok(Control::Flow { highest, .. }) => format!("flow, up to message {highest}"),
            Err(_) => "malformed".to_owned(),
        },
    }
}
