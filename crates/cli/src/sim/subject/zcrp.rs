//! Messages over ZCRP: all are posted and queued at the beginning.

use super::{Common, Figures, Program};
use crate::exit::Error;
use crate::sim::tally::{Failed, Got, Shared, Side};
use crate::sim::transfer::Plan;
use pinnace_core::{BufferId, ControllerKind, Time};
use pinnace_sim::{Application, HostHandle};
use pinnace_wire::zcrp::{Control, TRAILER_BYTES, Trailer};
use pinnace_zcrp::{Config, Event, Failure, Receiver, Sender, UnitSize, Zcrp};

pub(in crate::sim) struct Messages {
    common: Common,
    buffers: Vec<BufferId>,
}

fn config(plan: &Plan) -> Config {
    let base = Config { unit_size: UnitSize::UpTo(plan.datagram), seed: plan.seed, ..Config::default() };
    match plan.congestion {
        ControllerKind::Fixed { window } => base.for_cluster(window),
        // As the library does on the Internet: the controller bounds the bytes.
        congestion => {
            let window_bytes = plan.window.map_or(u64::MAX, u64::from);
            Config { window_units: 16_384, window_bytes, congestion, ..base }
        }
    }
}

fn failed(failure: Failure) -> Failed {
    Failed::new(matches!(failure, Failure::PeerGone | Failure::Swallowed), failure)
}

impl Application<Zcrp> for Messages {
    // In one call each, so that neither end answers before everything is queued. A refusal shows as a message that never
    // ended.
    fn on_start(&mut self, _: Time, host: &mut HostHandle<'_, Zcrp>) {
        let Common { plan, side, .. } = &self.common;
        let memory = |(number, &size): (usize, &u32)| match side {
            Side::Sender => plan.content().message(number, size),
            Side::Receiver => vec![0; size as usize],
        };
        self.buffers = plan.sizes.iter().enumerate().map(|sized| host.add_buffer(memory(sized))).collect();
        host.call(|engine| {
            for (&buffer, &size) in self.buffers.iter().zip(&plan.sizes) {
                match side {
                    Side::Sender => drop(engine.sender_mut().map(|half| half.send(Time::ZERO, buffer, size))),
                    Side::Receiver => drop(engine.receiver_mut().map(|half| half.post(Time::ZERO, buffer, size))),
                }
            }
        });
    }

    fn on_event(&mut self, now: Time, event: Event, host: &mut HostHandle<'_, Zcrp>) {
        let (number, result) = match event {
            Event::Sent { number, result, .. } => (number, result.map(|()| Got::default())),
            Event::Received { number, result, .. } => {
                let plan = &self.common.plan;
                let at = number as usize;
                let is_right =
                    |bytes| plan.sizes[at] == bytes && plan.content().is_at(at, 0, host.buffer(self.buffers[at]));
                (number, result.map(|bytes| Got { lost: 0, is_altered: !is_right(bytes) }))
            }
            Event::SenderClosed(_) | Event::ReceiverClosed(_) => return,
        };
        self.common.end(now, number as usize, result.map_err(failed));
    }

    fn is_done(&self) -> bool {
        self.common.is_done()
    }
}

impl Program for Messages {
    type Engine = Zcrp;

    const IS_PEER_NAMED: bool = true;

    fn ends(plan: &Plan, tally: &Shared) -> Result<[(Zcrp, Self); 2], Error> {
        let config = config(plan);
        let sender = Zcrp::new(Some(Sender::new(config.clone(), Time::ZERO)), None);
        let receiver = Zcrp::new(None, Some(Receiver::new(config)));
        let [first, second] = Common::pair(plan, tally).map(|common| Self { common, buffers: Vec::new() });
        Ok([(sender, first), (receiver, second)])
    }

    fn figures(sender: &Zcrp, receiver: &Zcrp) -> Figures {
        let (half, round_trip) = (sender.sender().map(Sender::counters), sender.sender().and_then(Sender::round_trip));
        let (sent, got) = (half.unwrap_or_default(), receiver.receiver().map(Receiver::counters).unwrap_or_default());
        Figures {
            sent: sent.units_sent,
            resent: sent.units_resent,
            timeouts: sent.timeouts,
            bytes_received: got.bytes_received,
            in_place: got.units_in_place,
            copied: got.units_copied,
            bytes_copied: got.bytes_copied,
            round_trip,
            sender: sent.iter().collect(),
            receiver: got.iter().collect(),
        }
    }

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
            Some(Ok(Trailer::Control)) | None => control(datagram),
        }
    }
}

fn control(datagram: &[u8]) -> String {
    match Control::parse(datagram) {
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
    }
}
