//! Frames over VRP, each with the contract: all are queued at the beginning, and the engine lets them take turns.
//!
//! Nobody tells the receiver of a frame that its sender gave up: such a frame counts as ended with its sender.

use super::{Common, Figures, Program};
use crate::exit::Error;
use crate::sim::tally::{Failed, Got, Shared, Side};
use crate::sim::transfer::Plan;
use pinnace_core::Time;
use pinnace_sim::{Application, HostHandle};
use pinnace_vrp::{Config, Delivery, Event, Failure, FrameSpec, Incoming, Outgoing, Refused, Terms, Vrp};
use pinnace_wire::vrp::{Control, HEADER_BYTES, Header, Tag};
use std::collections::BTreeMap;

pub(in crate::sim) struct Frames {
    common: Common,
    terms: Vec<Terms>,
    next: usize,
    /// The frame of each ticket.
    tickets: BTreeMap<u64, usize>,
}

/// Bytes of a datagram that are not the frame's.
const OVERHEAD: usize = HEADER_BYTES;

impl Frames {
    /// `W`, as the library chooses it: a quarter of a frame, where its rate holds over a window, all of it where nothing may
    /// be lost.
    fn window(plan: &Plan, size: u32) -> u16 {
        let packet = (plan.datagram - OVERHEAD) as u32;
        let packets = size.div_ceil(packet);
        let wanted = match (plan.window, plan.contract.loss_rate) {
            (Some(bytes), _) => bytes.div_ceil(packet),
            (None, Some(_)) => packets / 4,
            (None, None) => packets,
        };
        wanted.clamp(64, 16_384).next_power_of_two() as u16
    }

    fn fill(&mut self, now: Time, host: &mut HostHandle<'_, Vrp>) {
        let plan = &self.common.plan;
        while let Some(&size) = plan.sizes.get(self.next) {
            let buffer = host.add_buffer(plan.content().message(self.next, size));
            let frame = FrameSpec {
                terms: Some(self.terms[self.next].clone()),
                window: Some(Self::window(plan, size)),
                ..FrameSpec::new(buffer, size.into())
            };
            match host.call(|engine| engine.as_outgoing().map(|out| out.send(now, frame))) {
                Some(Ok(ticket)) => {
                    self.tickets.insert(ticket, self.next);
                }
                Some(Err(Refused::TooMany)) => {
                    host.take_buffer(buffer);
                    return;
                }
                Some(Err(refused)) => self.failed(now, self.next, &Failed::new(false, refused)),
                None => return,
            }
            self.next += 1;
        }
    }

    fn failed(&self, now: Time, number: usize, failed: &Failed) {
        self.common.end(now, number, Err(failed.clone()));
        let mut tally = self.common.tally.borrow_mut();
        if !tally.has_ended(Side::Receiver, number) {
            tally.never_told(1);
        }
    }

    /// Frame numbers do not tell which message it is, its bytes do.
    fn delivered(&self, now: Time, delivery: &Delivery, bytes: &[u8]) {
        let Plan { sizes, .. } = &self.common.plan;
        let content = self.common.plan.content();
        let is_it = |number| content.is_but_for(number, bytes, &delivery.holes);
        let (known, any) = {
            let tally = self.common.tally.borrow();
            (tally.find(sizes, delivery.size, is_it), tally.find(sizes, delivery.size, |_| true))
        };
        let lost = delivery.holes.iter().map(|hole| hole.end - hole.start).sum();
        if let Some(number) = known.or(any) {
            self.common.end(now, number, Ok(Got { lost, is_altered: known.is_none() }));
        }
    }
}

impl Application<Vrp> for Frames {
    fn on_start(&mut self, now: Time, host: &mut HostHandle<'_, Vrp>) {
        if self.common.side == Side::Sender {
            self.fill(now, host);
        }
    }

    fn on_event(&mut self, now: Time, event: Event, host: &mut HostHandle<'_, Vrp>) {
        match event {
            Event::Sent { ticket, buffer, result } => {
                host.take_buffer(buffer);
                if let Some(number) = self.tickets.remove(&ticket) {
                    match result {
                        Ok(_) => self.common.end(now, number, Ok(Got::default())),
                        Err(why) => self.failed(
                            now,
                            number,
                            &Failed::new(matches!(why, Failure::PeerGone | Failure::Swallowed), why),
                        ),
                    }
                }
                self.fill(now, host);
            }
            Event::Received(delivery) => {
                let bytes = host.take_buffer(delivery.buffer);
                self.delivered(now, &delivery, &bytes[..(delivery.size as usize).min(bytes.len())]);
                host.call(|engine| engine.as_incoming().into_iter().for_each(|half| half.release(delivery.id)));
            }
            Event::Released(buffer) => drop(host.take_buffer(buffer)),
            Event::Opened(_) | Event::OutgoingClosed | Event::IncomingClosed => {}
        }
    }

    fn is_done(&self) -> bool {
        self.common.is_done()
    }
}

impl Program for Frames {
    type Engine = Vrp;

    fn ends(plan: &Plan, tally: &Shared) -> Result<[(Vrp, Self); 2], Error> {
        if plan.datagram <= OVERHEAD {
            return Err(Error::usage(format!("--datagram: VRP's headers alone take {OVERHEAD} bytes")));
        }
        let config = |seed| Config {
            packet_bytes: (plan.datagram - OVERHEAD).min(65_501) as u16,
            control_bytes: Config::default().control_bytes.min(plan.datagram),
            congestion: plan.congestion,
            seed,
            ..Config::default()
        };
        let terms = plan.sizes.iter().map(|&size| Ok(plan.contract.contract(size.into())?.into_terms()));
        let terms = terms.collect::<Result<Vec<_>, Error>>()?;
        let [first, second] = Common::pair(plan, tally).map(|common| Self {
            common,
            terms: terms.clone(),
            next: 0,
            tickets: BTreeMap::new(),
        });
        let most = plan.sizes.iter().max().copied().unwrap_or(0);
        let mut receiving = config(second.common.seed());
        receiving.limits.bytes = receiving.limits.bytes.max(4 * u64::from(most));
        Ok([
            (Vrp::outgoing(Outgoing::new(config(first.common.seed()), Time::ZERO)), first),
            (Vrp::incoming(Incoming::new(receiving, Time::ZERO)), second),
        ])
    }

    fn figures(sender: &Vrp, receiver: &Vrp) -> Figures {
        let (sent, round_trip) = match sender {
            Vrp::Outgoing(half) => (half.counters(), half.round_trip()),
            Vrp::Incoming(_) => Default::default(),
        };
        let got = match receiver {
            Vrp::Incoming(half) => half.counters(),
            Vrp::Outgoing(_) => Default::default(),
        };
        Figures {
            sent: sent.packets_sent,
            resent: sent.packets_resent,
            timeouts: sent.packets_timed_out,
            bytes_received: got.bytes_received,
            in_place: got.packets_in_place,
            copied: got.packets_copied,
            bytes_copied: got.bytes_copied,
            round_trip,
            sender: sent.iter().collect(),
            receiver: got.iter().collect(),
        }
    }

    fn describe(datagram: &[u8]) -> String {
        let Some(head) = datagram.first_chunk::<HEADER_BYTES>() else { return "malformed".to_owned() };
        match (Header::parse(head), Control::parse(datagram)) {
            (Header::Data { frame, packet }, _) => format!("frame {frame} packet {packet}"),
            (Header::Control { frame }, Ok(control)) => {
                let mut tags: Vec<String> = control.tags().take(MOST_TAGS + 1).map(describe_tag).collect();
                if tags.len() > MOST_TAGS {
                    tags[MOST_TAGS] = "...".to_owned();
                }
                format!("frame {frame}: {}", tags.join(", "))
            }
            (Header::Control { .. }, Err(_)) => "malformed".to_owned(),
        }
    }
}

/// Tags of a control packet that are named.
const MOST_TAGS: usize = 4;

fn describe_tag(tag: Tag<'_>) -> String {
    match tag {
        Tag::Ack(packet) => format!("ack up to {packet}"),
        Tag::SingleAck(packet) => format!("ack {packet}"),
        Tag::Nack(packet) => format!("nack {packet}"),
        Tag::FrameCreate { size, .. } => format!("create, {size} bytes"),
        Tag::FrameOk(_) => "ok".to_owned(),
        Tag::FrameRefused(_) => "refused".to_owned(),
        Tag::FrameClose(_) => "close".to_owned(),
        Tag::Ping(_) => "ping".to_owned(),
        Tag::Pong(_) => "pong".to_owned(),
        other => format!("{other:?}").split([' ', '(', '{']).next().unwrap_or_default().to_lowercase(),
    }
}
