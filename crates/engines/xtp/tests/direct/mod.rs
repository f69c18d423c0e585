//! Two engines that hand each other their datagrams directly: no network, and hardly any cost beside the engines'.
#![allow(dead_code, reason = "not every user needs all of it")]

use core::time::Duration;
use pinnace_core::{
    Address, BufferId, BufferRange, ControllerKind, Ecn, Engine, Move, Placed, PollAt, RxMeta, Slot, Storage, Time,
    Train, TrainLimits,
};
use pinnace_sim::Sums;
use pinnace_xtp::{Config, ContextId, ControlBlock, Event, Options, Output, Service, Services, Xtp};

/// Storage that keeps nothing: only names are looked at.
#[derive(Debug, Default)]
struct Nowhere(u32);

impl Storage for Nowhere {
    fn allocate(&mut self, _: u64, _: &[(u64, Vec<u8>)]) -> Option<BufferId> {
        self.0 += 1;
        Some(BufferId::new(self.0))
    }

    fn release(&mut self, _: BufferId) {}
}

const CLIENT: Address = Address::Node(1);
const SERVER: Address = Address::Node(2);
static PAYLOAD: [u8; 65_536] = [7; 65_536];

/// A client and a server.
pub(crate) struct Pair {
    pub(crate) client: Xtp,
    pub(crate) server: Xtp,
    pub(crate) now: Time,
    pub(crate) accepted: Vec<ContextId>,
    pub(crate) opened: Vec<ContextId>,
    pub(crate) packets: u64,
    pub(crate) trains: u64,
    /// What the contexts of both ends are set up with.
    flags: Options,
    train: Train,
    storage: Nowhere,
    moves: Vec<Move>,
    sums: Sums,
    flat: Vec<u8>,
}

impl Pair {
    /// A server that listens, with room for so many contexts.
    pub(crate) fn new(contexts: usize) -> Self {
        Self::with(contexts, ControlBlock::default().mode_flags)
    }

    /// The same, with these options in every packet.
    pub(crate) fn with(contexts: usize, flags: Options) -> Self {
        let mut limits = Config::default().limits;
        limits.contexts = contexts;
        limits.half_open = contexts;
        let config = |seed| Config {
            seed,
            limits: limits.clone(),
            congestion: ControllerKind::Fixed { window: 1 << 20 },
            ..Config::default()
        };
        let mut server = Xtp::new(config(2), Time::ZERO);
        let mut block = ControlBlock { mode_flags: flags, ..ControlBlock::default() };
        block.address_segment.destination_port = 7;
        server.listen(block, Services::ALL).expect("free");
        Self {
            client: Xtp::new(config(1), Time::ZERO),
            server,
            now: Time::ZERO,
            accepted: Vec::new(),
            opened: Vec::new(),
            packets: 0,
            trains: 0,
            flags,
            train: Train::new(TrainLimits::GSO),
            storage: Nowhere::default(),
            moves: Vec::new(),
            sums: Sums::default(),
            flat: Vec::new(),
        }
    }

    /// Opens contexts, each with a message of ten bytes, which is read.
    pub(crate) fn open(&mut self, count: usize, service: Service) {
        for _ in 0..count {
            let mut block = ControlBlock { mode_flags: self.flags, ..ControlBlock::new(service) };
            block.address_segment.destination_port = 7;
            let context = self.client.open(self.now, SERVER, block).expect("room");
            self.opened.push(context);
            self.send(context, 10);
        }
    }

    /// A message from the client, and all that follows.
    pub(crate) fn send(&mut self, context: ContextId, bytes: u64) {
        self.client.send(self.now, context, Output::message(BufferId::new(0), bytes)).expect("room");
        self.exchange();
    }

    /// Carries datagrams until nothing more comes.
    pub(crate) fn exchange(&mut self) {
        while self.carry(true) | self.carry(false) {
            self.report();
        }
        self.report();
    }

    fn carry(&mut self, from_client: bool) -> bool {
        let Self { client, server, train, storage, moves, sums, flat, .. } = self;

        let (from, to, source) = if from_client { (client, server, CLIENT) } else { (server, client, SERVER) };
        train.reset(TrainLimits::GSO);
        if !from.poll_transmit(self.now, train) {
            return false;
        }
        let payload = |range: BufferRange| &PAYLOAD[..range.len as usize];
        train.fill_checksum(payload, sums);
        flat.clear();
        train.for_each_datagram(payload, |datagram| flat.extend_from_slice(datagram));
        self.packets += train.segments() as u64;
        self.trains += 1;
        let slots = [Slot::Pooled(flat.len() as u32)];
        let pieces = [&flat[..]];
        let mut placed = Placed::new(&slots, &pieces, flat.len(), train.segment_size(), moves).with_storage(storage);
        let meta = RxMeta { source, destination: None, ecn: Ecn::NotCapable };
        to.handle_datagrams(self.now, &meta, &mut placed);
        moves.clear();
        true
    }

    fn report(&mut self) {
        let now = self.now;
        while let Some(event) = self.server.poll_event() {
            match event {
                Event::Accepted { context, .. } => self.accepted.push(context),
                Event::Readable { context } => {
                    let bytes = self.server.readable(context).map_or(0, |readable| readable.len);
                    self.server.consume(now, context, bytes);
                }
                _ => {}
            }
        }
        while self.client.poll_event().is_some() {}
    }

    /// Lets time pass.
    pub(crate) fn wait(&mut self, time: Duration) {
        let until = self.now + time;
        loop {
            let next = [self.client.poll_at(), self.server.poll_at()].into_iter().fold(PollAt::Ingress, PollAt::min);
            match next {
                PollAt::Now => {}
                PollAt::Time(at) if at <= until => self.now = self.now.max(at),
                _ => break,
            }
            self.client.handle_timeout(self.now);
            self.server.handle_timeout(self.now);
            self.exchange();
        }
        self.now = until;
    }
}
