//! Two hosts on the simulator, and a program for each that reads everything and does what a script says.
#![allow(dead_code, reason = "not every test uses all of it")]

pub(crate) mod group;

use pinnace_core::{ControllerKind, Time};
use pinnace_sim::{Application, HostHandle, HostId};
use pinnace_xtp::{Codec, Config, ContextId, ControlBlock, Event, Failure, Output, Service, Xtp};
use std::collections::BTreeMap;

pub(crate) const PORT: u16 = 7;

/// What a program has seen of a context.
#[derive(Debug, Default, Clone)]
pub(crate) struct Seen {
    pub(crate) accepted: bool,
    pub(crate) connected: bool,
    pub(crate) bytes: Vec<u8>,
    /// Where messages ended.
    pub(crate) ends: Vec<usize>,
    pub(crate) tags: Vec<(usize, [u8; 8])>,
    pub(crate) holes: Vec<(u64, u64)>,
    pub(crate) is_end: bool,
    pub(crate) closed: Option<Result<(), Failure>>,
    pub(crate) closed_at: Option<Time>,
    pub(crate) sent: Vec<(u64, bool)>,
}

type Start = Box<dyn FnOnce(Time, &mut HostHandle<'_, Xtp>)>;
type Script = Box<dyn FnMut(Time, &Event, &mut BTreeMap<ContextId, Seen>, &mut HostHandle<'_, Xtp>)>;

type Wake = Box<dyn FnMut(Time, u64, &mut HostHandle<'_, Xtp>)>;

/// A program: reads all, notes all, and calls its script after each event.
pub(crate) struct Program {
    pub(crate) seen: BTreeMap<ContextId, Seen>,
    pub(crate) datagrams: Vec<(Service, Vec<u8>)>,
    start: Option<Start>,
    script: Script,
    /// What it does when it is woken, with the token.
    pub(crate) wake: Option<Wake>,
    /// Contexts are forgotten when they have closed.
    pub(crate) releases: bool,
    /// Reads nothing.
    pub(crate) is_deaf: bool,
    /// Never says that it has taken a datagram.
    pub(crate) keeps_datagrams: bool,
}

impl Program {
    pub(crate) fn new(
        start: impl FnOnce(Time, &mut HostHandle<'_, Xtp>) + 'static,
        script: impl FnMut(Time, &Event, &mut BTreeMap<ContextId, Seen>, &mut HostHandle<'_, Xtp>) + 'static,
    ) -> Self {
        Self {
            seen: BTreeMap::new(),
            datagrams: Vec::new(),
            start: Some(Box::new(start)),
            script: Box::new(script),
            wake: None,
            releases: true,
            is_deaf: false,
            keeps_datagrams: false,
        }
    }

    /// The only context that was seen.
    pub(crate) fn only(&self) -> &Seen {
        assert_eq!(self.seen.len(), 1, "{:?}", self.seen.keys());
        self.seen.values().next().expect("one")
    }

    fn read(seen: &mut Seen, now: Time, context: ContextId, host: &mut HostHandle<'_, Xtp>) {
        loop {
            let Some(readable) = host.engine().readable(context) else { return };
            seen.is_end = readable.is_end;
            let take = readable.message.unwrap_or(readable.len);
            if take == 0 && readable.message.is_none() {
                return;
            }
            for (offset, len) in host.engine().holes(context, take) {
                seen.holes.push((seen.bytes.len() as u64 + offset, len));
            }
            if let Some(tag) = readable.btag {
                seen.tags.push((seen.bytes.len(), tag));
            }
            let mut left = take as usize;
            for part in readable.parts {
                let len = left.min(part.len as usize);
                let at = part.offset as usize;
                seen.bytes.extend_from_slice(&host.buffer(part.buffer)[at..at + len]);
                left -= len;
            }
            if readable.message.is_some() {
                seen.ends.push(seen.bytes.len());
            }
            host.call(|engine| engine.consume(now, context, take));
        }
    }
}

impl Application<Xtp> for Program {
    fn on_start(&mut self, now: Time, host: &mut HostHandle<'_, Xtp>) {
        if let Some(start) = self.start.take() {
            start(now, host);
        }
    }

    fn on_wake(&mut self, now: Time, token: u64, host: &mut HostHandle<'_, Xtp>) {
        if let Some(wake) = &mut self.wake {
            wake(now, token, host);
        }
    }

    fn on_event(&mut self, now: Time, event: Event, host: &mut HostHandle<'_, Xtp>) {
        match &event {
            Event::Accepted { context, .. } => self.seen.entry(*context).or_default().accepted = true,
            Event::Connected { context } => self.seen.entry(*context).or_default().connected = true,
            Event::Readable { context } if !self.is_deaf => {
                Self::read(self.seen.entry(*context).or_default(), now, *context, host);
            }
            Event::Sent { context, ticket, buffer, delivered } => {
                host.take_buffer(*buffer);
                self.seen.entry(*context).or_default().sent.push((*ticket, *delivered));
            }
            Event::Datagram { service, buffer, len, .. } => {
                let bytes = buffer.map(|buffer| host.take_buffer(buffer)).unwrap_or_default();
                self.datagrams.push((*service, bytes[..*len as usize].to_vec()));
                let len = *len;
                if !self.keeps_datagrams {
                    host.call(|engine| engine.release_datagrams(1, len));
                }
            }
            Event::Released { buffer } => {
                host.take_buffer(*buffer);
            }
            Event::Closed { context, result } => {
                let seen = self.seen.entry(*context).or_default();
                assert_eq!(seen.closed, None, "told twice");
                seen.closed = Some(*result);
                seen.closed_at = Some(now);
            }
            _ => {}
        }
        (self.script)(now, &event, &mut self.seen, host);
        if self.releases
            && let Event::Closed { context, .. } = event
        {
            host.call(|engine| engine.release(now, context));
        }
    }
}

pub(crate) fn block(service: Service) -> ControlBlock {
    let mut block = ControlBlock::new(service);
    block.address_segment.destination_port = PORT;
    block.address_segment.source_port = 9;
    block
}

pub(crate) fn config(codec: Codec, seed: u64) -> Config {
    Config { codec, seed, congestion: ControllerKind::Fixed { window: 1 << 20 }, ..Config::default() }
}

/// Opens a context and sends one message.
pub(crate) fn send(
    now: Time,
    host: &mut HostHandle<'_, Xtp>,
    to: HostId,
    block: ControlBlock,
    message: &[u8],
) -> ContextId {
    let buffer = host.add_buffer(message.to_vec());
    let len = message.len() as u64;
    host.call(|engine| {
        let context = engine.open(now, to.address(), block).expect("room");
        engine.send(now, context, Output::message(buffer, len)).expect("taken");
        context
    })
}

pub(crate) fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|at| (at as u8).wrapping_mul(31).wrapping_add((at >> 8) as u8).wrapping_add(seed)).collect()
}
