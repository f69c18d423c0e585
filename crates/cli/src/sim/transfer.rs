//! The transfer itself: a sender, a receiver, an emulated network, and what came of it, whatever the protocol.
//!
//! Always true: a message counts as arrived only if the receiver reported it, and every byte that is not in one of its holes
//! is what was sent.

use super::Protocol;
use super::content::Content;
use super::subject::{self, Figures, Program};
use super::tally::{End, Side, Tally};
use super::timeline::{Line, Moment};
use crate::exit::Error;
use crate::interrupt;
use crate::vrp::ContractArgs;
use core::time::Duration;
use pinnace_core::{ControllerKind, Time};
use pinnace_sim::{Fate, HostConfig, HostCounters, HostId, NetworkConfig, Outcome, Simulation};
use std::cell::RefCell;
use std::rc::Rc;

pub(super) const SENDER: HostId = HostId::new(0);
pub(super) const RECEIVER: HostId = HostId::new(1);

/// The host of this end.
pub(super) const fn host(side: Side) -> HostId {
    match side {
        Side::Sender => SENDER,
        Side::Receiver => RECEIVER,
    }
}

/// What to do.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) protocol: Protocol,
    pub(crate) there: NetworkConfig,
    pub(crate) back: NetworkConfig,
    pub(crate) sizes: Vec<u32>,
    /// What may be lost of a message (VRP alone).
    pub(crate) contract: ContractArgs,
    /// Bytes of a datagram at most.
    pub(crate) datagram: usize,
    pub(crate) congestion: ControllerKind,
    /// Bytes in transit at most, where a bound was asked for.
    pub(crate) window: Option<u32>,
    pub(crate) seed: u64,
    pub(crate) until: Duration,
    /// Datagrams to remember.
    pub(crate) trace: usize,
}

impl Plan {
    /// Messages of these sizes over ZCRP with `bbr`, in datagrams that the network takes.
    pub(crate) fn new(there: NetworkConfig, back: NetworkConfig, sizes: Vec<u32>, seed: u64) -> Self {
        let mtu = there.mtu.map_or(1500, |mtu| mtu.min(1500)) as usize;
        Self {
            protocol: Protocol::Zcrp,
            datagram: mtu.saturating_sub(pinnace_sim::HEADER_BYTES),
            there,
            back,
            sizes,
            contract: ContractArgs::default(),
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
            return window.into();
        }
        let trip = (self.there.delay + self.back.delay).as_secs_f64();
        let full = self.there.rate.map_or(0, |rate| (rate as f64 / 8.0 * trip * 1.5) as u64);
        if full == 0 { 1 << 20 } else { full.max(65_536) }
    }

    /// The content of the messages.
    pub(super) fn content(&self) -> Content {
        Content::new(self.seed)
    }

    /// Bytes of all messages.
    pub(crate) fn bytes(&self) -> u64 {
        self.sizes.iter().map(|&size| u64::from(size)).sum()
    }
}

/// How a message ended at both ends; `None` if it did not.
#[derive(Clone, Debug)]
pub(crate) struct MessageEnd {
    pub(crate) size: u32,
    pub(crate) sent: Option<End>,
    pub(crate) received: Option<End>,
}

impl MessageEnd {
    /// Whether it is at the receiver as it was sent, but for what its contract let go.
    pub(crate) fn is_verified(&self) -> bool {
        self.received.as_ref().is_some_and(End::is_verified)
    }

    /// Whether it arrived so, and the sender knows.
    pub(crate) fn arrived(&self) -> bool {
        self.is_verified() && self.sent.as_ref().is_some_and(|end| end.result.is_ok())
    }

    /// Bytes that its contract let go.
    pub(crate) fn lost(&self) -> u64 {
        self.received.as_ref().and_then(|end| end.result.as_ref().ok()).map_or(0, |got| got.lost)
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
    pub(crate) figures: Figures,
    /// Of the sender's and the receiver's host.
    pub(crate) hosts: [HostCounters; 2],
    /// What became of datagrams, where anything did.
    pub(crate) fates: Vec<(Fate, u64)>,
    pub(crate) line: Line,
    pub(crate) trace: Vec<String>,
    pub(crate) digest: u64,
}

impl Transfer {
    /// Whether every message arrived.
    pub(crate) fn succeeded(&self) -> bool {
        self.messages.iter().all(MessageEnd::arrived)
    }

    /// Payload bytes of messages that arrived, without what their contracts let go.
    pub(crate) fn bytes_arrived(&self) -> u64 {
        let arrived = self.messages.iter().filter(|message| message.is_verified());
        arrived.map(|message| u64::from(message.size) - message.lost()).sum()
    }

    /// Payload bytes that contracts let go.
    pub(crate) fn bytes_lost(&self) -> u64 {
        self.messages.iter().map(MessageEnd::lost).sum()
    }

    /// Payload bits per second until the last message had arrived; `None` if it took no time.
    pub(crate) fn goodput(&self) -> Option<f64> {
        let verified = self.messages.iter().filter(|message| message.is_verified());
        let last = verified.filter_map(|message| message.received.as_ref()).map(|end| end.at).max()?;
        let seconds = last.since(Time::ZERO).as_secs_f64();
        (seconds > 0.0).then(|| self.bytes_arrived() as f64 * 8.0 / seconds)
    }

    /// When half of the messages had arrived; `None` if they have not.
    pub(crate) fn median_arrival(&self) -> Option<Duration> {
        let verified = self.messages.iter().filter(|message| message.is_verified());
        let mut times: Vec<Time> = verified.filter_map(|message| message.received.as_ref()).map(|end| end.at).collect();
        times.sort_unstable();
        times.get(self.messages.len().div_ceil(2).checked_sub(1)?).map(|at| at.since(Time::ZERO))
    }

    /// The goodput's share of the link's rate, 0 to 1.
    pub(crate) fn share(&self) -> Option<f64> {
        Some(self.goodput()? / self.plan.there.rate? as f64)
    }
}

/// Does it.
///
/// # Errors
/// If the command has to end before, or the protocol has no such messages.
pub(crate) fn run(plan: &Plan) -> Result<Transfer, Error> {
    match plan.protocol {
        Protocol::Zcrp => simulate::<subject::zcrp::Messages>(plan),
        Protocol::Vrp => simulate::<subject::vrp::Frames>(plan),
        Protocol::Xtp | Protocol::Qmp => simulate::<subject::xtp::Stream>(plan),
        Protocol::A1 => simulate::<subject::a1::Blocks>(plan),
    }
}

fn simulate<P: Program>(plan: &Plan) -> Result<Transfer, Error> {
    let tally = Rc::new(RefCell::new(Tally::new(plan.sizes.len())));
    let mut simulation: Simulation<P::Engine, P> = Simulation::new(plan.seed);
    for (host, (engine, program)) in [SENDER, RECEIVER].into_iter().zip(P::ends(plan, &tally)?) {
        // As the endpoints' sockets are.
        let is_connected = host == SENDER || P::IS_PEER_NAMED;
        simulation.add_host_with(engine, program, HostConfig { is_connected, ..HostConfig::default() });
    }
    simulation.link(SENDER, RECEIVER, &plan.there, &plan.back);
    simulation.trace_mut().set_formatter(P::describe);
    simulation.trace_mut().set_limit(plan.trace);

    let (outcome, line) = drive(&mut simulation, Time::ZERO + plan.until)?;
    let trace = simulation.trace();
    let fates = Fate::ALL.into_iter().map(|fate| (fate, trace.count(fate))).filter(|&(_, count)| count > 0);
    let transfer = Transfer {
        outcome,
        end: simulation.now().since(Time::ZERO),
        messages: Vec::new(),
        figures: P::figures(simulation.engine(SENDER), simulation.engine(RECEIVER)),
        hosts: [simulation.counters(SENDER), simulation.counters(RECEIVER)],
        fates: fates.collect(),
        line,
        trace: trace.events().map(ToString::to_string).collect(),
        digest: simulation.digest(),
        plan: plan.clone(),
    };
    let ends = tally.take().into_ends();
    let messages = plan.sizes.iter().zip(ends).map(|(&size, [sent, received])| MessageEnd { size, sent, received });
    Ok(Transfer { messages: messages.collect(), ..transfer })
}

/// Runs to the end in the steps of a time line.
fn drive<P: Program>(simulation: &mut Simulation<P::Engine, P>, deadline: Time) -> Result<(Outcome, Line), Error> {
    let mut line = Line::new();
    let mut before = Moment::default();
    loop {
        interrupt::check()?;
        let end = (Time::ZERO + line.next_end()).min(deadline);
        let outcome = simulation.run(end);
        let figures = P::figures(simulation.engine(SENDER), simulation.engine(RECEIVER));
        let now = Moment { bytes: figures.bytes_received, resent: figures.resent, lost: simulation.trace().lost() };
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
