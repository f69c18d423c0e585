//! Messages one after the other in a stream over XTP, or over QMP, whose streams have no messages: there one ends with its
//! last byte.

use super::{Common, Figures, Program, list};
use crate::exit::Error;
use crate::sim::Protocol;
use crate::sim::tally::{Failed, Got, Shared, Side};
use crate::sim::transfer::{Plan, RECEIVER};
use pinnace_core::{ControllerKind, Time};
use pinnace_qmp::{Medium, Profile, socket};
use pinnace_sim::{Application, HostHandle};
use pinnace_wire::xtp::{Body, Codec, Head, INITIAL_ALLOC, Status};
use pinnace_xtp::{Config, ContextId, ControlBlock, Event, Failure, Output, Refused, Service, Services, Xtp};
use std::collections::BTreeMap;

pub(in crate::sim) struct Stream {
    common: Common,
    block: ControlBlock,
    context: Option<ContextId>,
    /// The message that is sent or read, and how much of it has been.
    message: usize,
    at: u64,
    is_altered: bool,
    /// The message that ends with each ticket, if one does.
    tickets: BTreeMap<u64, Option<usize>>,
}

const PORT: u16 = 7;
/// Bytes that are queued at a time.
const PIECE: u64 = 256 << 10;
/// How far windows grow and how much is queued, as the library has it on the Internet.
const MOST_WINDOW: u32 = 4 << 20;
/// Bytes of a datagram beside the user's: header, padding and a tag; and a header alone, which is all that QMP has.
const OVERHEAD: usize = QMP_OVERHEAD + 8 + 7 + 8;
const QMP_OVERHEAD: usize = 32;

impl Stream {
    fn size(&self) -> Option<u64> {
        self.common.plan.sizes.get(self.message).copied().map(u64::from)
    }

    fn ended(&mut self, now: Time, number: usize) {
        let is_altered = core::mem::take(&mut self.is_altered);
        self.common.end(now, number, Ok(Got { lost: 0, is_altered }));
    }

    /// Empty messages are no bytes of a stream: they have ended when those before them have been sent, or read.
    fn skip_empty(&mut self, now: Time) {
        while self.size() == Some(0) {
            self.ended(now, self.message);
            self.message += 1;
        }
    }

    fn write(&mut self, now: Time, host: &mut HostHandle<'_, Xtp>) {
        let Some(context) = self.context else { return };
        loop {
            self.skip_empty(now);
            let Some(size) = self.size() else { return };
            let Plan { protocol, .. } = self.common.plan;
            let len = (size - self.at).min(PIECE);
            let is_end = self.at + len == size;
            let content = self.common.plan.content();
            let buffer = host.add_buffer(content.piece(self.message, self.at as usize, len as usize));
            let sent = host.call(|engine| match protocol {
                Protocol::Qmp => socket::write(engine, now, context, buffer, 0, len),
                _ => engine.send(now, context, Output { eom: is_end, ..Output::bytes(buffer, len) }),
            });
            match sent {
                Ok(ticket) => {
                    self.tickets.insert(ticket, is_end.then_some(self.message));
                    self.at = if is_end { 0 } else { self.at + len };
                    self.message += usize::from(is_end);
                }
                Err(refused) => {
                    host.take_buffer(buffer);
                    // That it is closed another event tells, with the reason.
                    if !matches!(refused, Refused::Full | Refused::Closed | Refused::NoContext) {
                        self.common.fail(now, &Failed::new(false, refused));
                    }
                    return;
                }
            }
        }
    }

    fn read(&mut self, now: Time, context: ContextId, host: &mut HostHandle<'_, Xtp>) {
        while let Some(readable) = host.engine().readable(context).filter(|readable| readable.len > 0) {
            for part in readable.parts {
                let (low, len) = (part.offset as usize, part.len as usize);
                self.take(now, &host.buffer(part.buffer)[low..low + len]);
            }
            host.call(|engine| engine.consume(now, context, readable.len));
        }
    }

    /// Compares what comes next.
    fn take(&mut self, now: Time, mut bytes: &[u8]) {
        let content = self.common.plan.content();
        while !bytes.is_empty() {
            self.skip_empty(now);
            let Some(size) = self.size() else { return };
            let (first, rest) = bytes.split_at(bytes.len().min((size - self.at) as usize));
            self.is_altered |= !content.is_at(self.message, self.at as usize, first);
            self.at += first.len() as u64;
            if self.at == size {
                self.ended(now, self.message);
                (self.message, self.at) = (self.message + 1, 0);
            }
            bytes = rest;
        }
        self.skip_empty(now);
    }

    fn closed(&self, now: Time, failure: Failure) {
        let is_gone = matches!(failure, Failure::Unanswered | Failure::Abandoned | Failure::Swallowed);
        self.common.closed(now, &Failed::new(is_gone, failure), failure == Failure::Unanswered);
    }
}

impl Application<Xtp> for Stream {
    fn on_start(&mut self, now: Time, host: &mut HostHandle<'_, Xtp>) {
        let (block, protocol) = (self.block.clone(), self.common.plan.protocol);
        if self.common.side == Side::Receiver {
            self.skip_empty(now);
            let listening = host.call(|engine| match protocol {
                Protocol::Qmp => socket::listen(engine, block),
                _ => engine.listen(block, Services::ALL),
            });
            debug_assert!(listening.is_ok(), "nobody else listens: {listening:?}");
            return;
        }
        let opened = host.call(|engine| match protocol {
            Protocol::Qmp => socket::connect(engine, now, RECEIVER.address(), block),
            _ => engine.open(now, RECEIVER.address(), block),
        });
        debug_assert!(opened.is_ok(), "there is room for one: {opened:?}");
        self.context = opened.ok();
        self.write(now, host);
    }

    fn on_event(&mut self, now: Time, event: Event, host: &mut HostHandle<'_, Xtp>) {
        match event {
            Event::Readable { context } if self.common.side == Side::Receiver => self.read(now, context, host),
            Event::Sent { ticket, buffer, delivered, .. } => {
                host.take_buffer(buffer);
                if let Some(Some(number)) = self.tickets.remove(&ticket).filter(|_| delivered) {
                    self.ended(now, number);
                }
                self.write(now, host);
            }
            Event::Closed { result: Err(failure), .. } => self.closed(now, failure),
            _ => {}
        }
    }

    fn is_done(&self) -> bool {
        self.common.is_done()
    }
}

/// How the library sets up an endpoint, and its contexts.
fn set_up(plan: &Plan, seed: u64) -> (Config, ControlBlock) {
    let fixed = match (plan.congestion, plan.window) {
        (_, Some(window)) => Some(window),
        (ControllerKind::Fixed { window }, None) => Some(u32::try_from(window).unwrap_or(u32::MAX)),
        _ => None,
    };
    let config = Config {
        datagram_bytes: plan.datagram,
        congestion: plan.congestion,
        most_window: if fixed.is_some() { 0 } else { MOST_WINDOW },
        seed,
        ..Config::default()
    };
    let mut block = ControlBlock::new(Service::Connection);
    block.maxdata = plan.datagram.saturating_sub(OVERHEAD).max(1) as u32;
    block.address_segment.destination_port = PORT;
    (block.rwindow, block.wbufsize) = match fixed {
        Some(window) => (window.clamp(1, 1 << 30), window.max(MOST_WINDOW)),
        None => (block.rwindow, MOST_WINDOW),
    };
    block.rbufsize = block.rwindow.max(INITIAL_ALLOC);
    if plan.protocol != Protocol::Qmp {
        return (config, block);
    }
    let profile = Profile {
        window: block.rwindow,
        queue: block.wbufsize,
        maxdata: plan.datagram.saturating_sub(QMP_OVERHEAD).max(1) as u32,
        ..Profile::default()
    };
    (profile.config(Medium::Internet, config), profile.block(PORT))
}

impl Program for Stream {
    type Engine = Xtp;

    fn ends(plan: &Plan, tally: &Shared) -> Result<[(Xtp, Self); 2], Error> {
        Ok(Common::pair(plan, tally).map(|common| {
            let (config, block) = set_up(plan, common.seed());
            let program =
                Self { common, block, context: None, message: 0, at: 0, is_altered: false, tickets: BTreeMap::new() };
            (Xtp::new(config, Time::ZERO), program)
        }))
    }

    fn figures(sender: &Xtp, receiver: &Xtp) -> Figures {
        let (sent, got) = (sender.counters(), receiver.counters());
        Figures {
            sent: sent.data_packets_sent,
            resent: sent.data_packets_resent,
            timeouts: sent.timeouts,
            bytes_received: got.bytes_received,
            in_place: got.bytes_in_place,
            copied: got.bytes_copied,
            bytes_copied: got.bytes_copied,
            round_trip: sender.round_trip(),
            sender: sent.iter().collect(),
            receiver: got.iter().collect(),
        }
    }

    fn describe(datagram: &[u8]) -> String {
        let head = Head::parse(Codec::Xtp40, datagram, datagram.len(), false);
        let Some((head, Ok(body))) = head.ok().map(|head| (head, Body::parse(&head, datagram))) else {
            return "malformed".to_owned();
        };
        let (kind, seq, asks) =
            (format!("{:?}", head.header.kind).to_uppercase(), head.header.seq, head.header.options);
        let body = match body {
            Body::Data { data, .. } | Body::First { data, .. } => format!("seq {seq}, {} bytes", data.len()),
            Body::Status(Status { rseq, alloc, spans, .. })
            | Body::Join { status: Status { rseq, alloc, spans, .. }, .. } => {
                format!("rseq {rseq} alloc {alloc}{}", list(spans.iter()))
            }
            Body::Diag { code, value, .. } => format!("{code}, {value}"),
        };
        format!("{kind} {body} ({asks:?})")
    }
}
