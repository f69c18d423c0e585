//! Messages over a reliable connection of A1: whenever there is room, the next is queued.

use super::{Common, Figures, Program, list};
use crate::exit::Error;
use crate::sim::tally::{Failed, Got, Shared, Side};
use crate::sim::transfer::{Plan, RECEIVER};
use pinnace_a1::{A1, Address, Config, ConnectionId, Event, Failure, Output, Qos, Refused, Status};
use pinnace_core::{Time, even_piece};
use pinnace_sim::{Application, HostHandle};
use pinnace_wire::a1::{Body, HEADER_BYTES, Head, MAX_BLOCK_BYTES};
use std::collections::BTreeMap;

pub(in crate::sim) struct Blocks {
    common: Common,
    qos: Qos,
    connection: Option<ConnectionId>,
    /// The message that is sent or read, and how much of it has been.
    message: usize,
    at: usize,
    is_altered: bool,
    tickets: BTreeMap<u64, usize>,
}

const PORT: u32 = 7;
/// Messages under way at most, as the bare command has it.
const OUTSTANDING: u32 = 16;
/// The most bytes that are outstanding, where messages are long: a window has fewer than 2^20 blocks.
const MOST_BYTES: u64 = 512 << 20;

impl Blocks {
    fn write(&mut self, now: Time, host: &mut HostHandle<'_, A1>) {
        let Some(connection) = self.connection else { return };
        let plan = &self.common.plan;
        while let Some(&size) = plan.sizes.get(self.message) {
            let buffer = host.add_buffer(plan.content().message(self.message, size));
            match host.call(|engine| engine.send(now, connection, Output::new(buffer, size.into()))) {
                Ok(ticket) => {
                    self.tickets.insert(ticket, self.message);
                }
                Err(refused) => {
                    host.take_buffer(buffer);
                    if !matches!(refused, Refused::Full | Refused::NotConnected | Refused::NoConnection) {
                        self.common.fail(now, &Failed::new(false, refused));
                    }
                    return;
                }
            }
            self.message += 1;
        }
    }

    fn read(&mut self, now: Time, connection: ConnectionId, host: &mut HostHandle<'_, A1>) {
        while let Some(part) = host.engine().readable(connection) {
            let content = self.common.plan.content();
            if let Some(range) = part.range {
                let low = range.offset as usize;
                let bytes = &host.buffer(range.buffer)[low..low + range.len as usize];
                self.is_altered |= !content.is_at(self.message, self.at, bytes);
                self.at += bytes.len();
            }
            if part.status.contains(Status::END) {
                let is_whole = self.common.plan.sizes.get(self.message).is_some_and(|&size| size as usize == self.at);
                let is_altered = core::mem::take(&mut self.is_altered) || !is_whole;
                self.common.end(now, self.message, Ok(Got { lost: 0, is_altered }));
                (self.message, self.at) = (self.message + 1, 0);
            }
            host.call(|engine| engine.consume(now, connection, part.len()));
        }
    }

    fn closed(&self, now: Time, failure: &Failure) {
        let is_gone = matches!(failure, Failure::TimedOut | Failure::Abandoned | Failure::Swallowed);
        self.common.closed(now, &Failed::new(is_gone, failure), *failure == Failure::TimedOut);
    }
}

impl Application<A1> for Blocks {
    fn on_start(&mut self, now: Time, host: &mut HostHandle<'_, A1>) {
        let qos = self.qos;
        if self.common.side == Side::Receiver {
            let listening = host.call(|engine| engine.listen(1, false));
            debug_assert!(listening.is_ok(), "nobody else listens: {listening:?}");
            return;
        }
        let name = Address { host: RECEIVER.index(), port: PORT };
        let opened = host.call(|engine| engine.open(now, RECEIVER.address(), name, qos));
        debug_assert!(opened.is_ok(), "there is room for one: {opened:?}");
        self.connection = opened.ok();
    }

    fn on_event(&mut self, now: Time, event: Event, host: &mut HostHandle<'_, A1>) {
        match event {
            Event::Accepted { connection, .. } => host.call(|engine| engine.taken(connection)),
            Event::Connected { .. } | Event::Writable { .. } => self.write(now, host),
            Event::Readable { connection } => self.read(now, connection, host),
            Event::Sent { ticket, buffer, delivered, .. } => {
                host.take_buffer(buffer);
                if let Some(number) = self.tickets.remove(&ticket).filter(|_| delivered) {
                    self.common.end(now, number, Ok(Got::default()));
                }
                self.write(now, host);
            }
            Event::Released { buffer } => drop(host.take_buffer(buffer)),
            Event::Closed { result: Err(failure), .. } => self.closed(now, &failure),
            _ => {}
        }
    }

    fn is_done(&self) -> bool {
        self.common.is_done()
    }
}

/// The record of both ends: blocks that fill the path's datagrams, and as many messages outstanding as the bare command has.
fn record(plan: &Plan) -> Result<Qos, Error> {
    if plan.datagram <= HEADER_BYTES {
        return Err(Error::usage(format!("--datagram: A1's header alone takes {HEADER_BYTES} bytes")));
    }
    let most = ((plan.datagram - HEADER_BYTES) as u32).min(MAX_BLOCK_BYTES);
    // Where nothing may be sent not even empty messages may.
    let largest = plan.sizes.iter().copied().max().unwrap_or(0).max(1);
    let block_size = even_piece(largest, most);
    if largest.div_ceil(block_size) > u16::MAX.into() {
        let longest = crate::numbers::bytes(u64::from(u16::MAX) * u64::from(most));
        return Err(Error::usage(format!(
            "--size: a message of A1 has at most 65,535 blocks, which are {longest} in datagrams of {} bytes",
            plan.datagram
        )));
    }
    let bytes = plan.window.map_or(MOST_BYTES, u64::from);
    let outstanding = (bytes / u64::from(largest)).clamp(1, OUTSTANDING.into()) as u32;
    Ok(Qos { block_size, largest_sent: largest, largest_received: largest, outstanding, ..Config::default().max_qos })
}

impl Program for Blocks {
    type Engine = A1;

    fn ends(plan: &Plan, tally: &Shared) -> Result<[(A1, Self); 2], Error> {
        let qos = record(plan)?;
        Ok(Common::pair(plan, tally).map(|common| {
            let host = super::super::transfer::host(common.side).index();
            let config = Config {
                max_qos: qos,
                local: Address { host, port: PORT },
                congestion: plan.congestion,
                control_bytes: Config::default().control_bytes.min(plan.datagram),
                seed: common.seed(),
                ..Config::default()
            };
            let (connection, message, at, is_altered) = (None, 0, 0, false);
            let program = Self { common, qos, connection, message, at, is_altered, tickets: BTreeMap::new() };
            (A1::new(config, Time::ZERO), program)
        }))
    }

    fn figures(sender: &A1, receiver: &A1) -> Figures {
        let (sent, got) = (sender.counters(), receiver.counters());
        Figures {
            sent: sent.blocks_sent,
            resent: sent.blocks_repeated,
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
        let Ok(head) = Head::parse(datagram, datagram.len(), false) else { return "malformed".to_owned() };
        let again = if head.header.is_retransmitted { " again" } else { "" };
        let body = match Body::parse(&head, &datagram[HEADER_BYTES..]) {
            Ok(Body::Data(block)) => format!(", {}.{} of {}", block.message(), block.index(), block.count()),
            Ok(Body::Ack(ranges) | Body::Nack(ranges)) => list(ranges.iter()),
            Ok(_) => String::new(),
            Err(_) => return "malformed".to_owned(),
        };
        let kind = format!("{:?}", head.kind).to_uppercase();
        format!("{kind}{again} {} edge {}{body}", head.header.sequence, head.header.edge)
    }
}
