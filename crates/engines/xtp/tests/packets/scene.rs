//! An engine that listens, and one that has opened a context.

use crate::half::{Got, Half, Packet};
use core::time::Duration;
use pinnace_core::{Address, ControllerKind};
use pinnace_wire::xtp::Kind;
use pinnace_xtp::{Close, Codec, Config, ContextId, ControlBlock, Event, Failure, Options, Output, Service, Services};

pub(crate) const CODECS: [Codec; 2] = [Codec::Xtp40, Codec::Xtp36];
pub(crate) const PEER: Address = Address::Node(9);
pub(crate) const PORT: u16 = 7;
/// The key of a peer that begins, and of one that answers.
pub(crate) const KEY: u64 = 0x77;
pub(crate) const XKEY: u64 = 0x55;

pub(crate) const SREQ: Options = Options::SREQ;
pub(crate) const DREQ: Options = Options::DREQ;
pub(crate) const WCLOSE: Options = Options::WCLOSE;
pub(crate) const RCLOSE: Options = Options::RCLOSE;
pub(crate) const END: Options = Options::END;
pub(crate) const EOM: Options = Options::EOM;
pub(crate) const NONE: Options = Options::NONE;

pub(crate) fn all(options: &[Options]) -> Options {
    options.iter().fold(NONE, |all, one| all | *one)
}

pub(crate) fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) fn config(codec: Codec) -> Config {
    Config {
        codec,
        seed: 5,
        congestion: ControllerKind::Fixed { window: 1 << 24 },
        validates: false,
        ..Config::default()
    }
}

pub(crate) fn block(service: Service) -> ControlBlock {
    let mut block = ControlBlock::new(service);
    block.address_segment.destination_port = PORT;
    block.listen_flags = NONE;
    block
}

pub(crate) fn bytes(low: u64, len: u64) -> Vec<u8> {
    (low..low + len).map(|at| (at % 251) as u8).collect()
}

/// The kind of a status without spans from a responder whose key has not been used.
pub(crate) fn tcntl(codec: Codec) -> Kind {
    if codec == Codec::Xtp40 { Kind::Tcntl } else { Kind::Cntl }
}

/// One engine with one context, and its peer.
pub(crate) struct Scene {
    pub(crate) half: Half,
    pub(crate) codec: Codec,
    /// The number of the first byte of both streams.
    pub(crate) start: u64,
    /// The context's key, once it is known.
    pub(crate) its_key: u64,
    pub(crate) context: Option<ContextId>,
    is_listening: bool,
}

impl Scene {
    /// An engine that listens for everything.
    pub(crate) fn listening(codec: Codec, block: ControlBlock) -> Self {
        Self::listening_for(config(codec), block, Services::ALL)
    }

    pub(crate) fn listening_for(config: Config, block: ControlBlock, services: Services) -> Self {
        let codec = config.codec;
        let mut half = Half::new(config);
        half.call(|engine, _| engine.listen(block, services)).expect("the port is free");
        let start = if codec == Codec::Xtp40 { u64::MAX - 99 } else { u64::from(u32::MAX) - 99 };
        Self { half, codec, start, its_key: 0, context: None, is_listening: true }
    }

    /// An engine that has opened a context, and sent nothing.
    pub(crate) fn opened(codec: Codec, block: ControlBlock) -> Self {
        Self::opened_with(config(codec), block)
    }

    pub(crate) fn opened_with(config: Config, block: ControlBlock) -> Self {
        let codec = config.codec;
        let mut half = Half::new(config);
        let context = half.call(|engine, now| engine.open(now, PEER, block)).expect("room");
        let facts = half.xtp().facts(context).expect("it is there");
        let (start, its_key) = (facts.start, facts.my_key);
        Self { half, codec, start, its_key, context: Some(context), is_listening: false }
    }

    /// A context that listened, and has taken a FIRST with so many bytes, and been answered with its key.
    pub(crate) fn accepted(codec: Codec, block: ControlBlock, options: Options, n: u64) -> Self {
        let mut scene = Self::listening(codec, block);
        scene.accept(options, n);
        scene
    }

    pub(crate) fn accept(&mut self, options: Options, n: u64) -> Got {
        let first = self.first(options, n);
        let mut answers = self.feed(&first);
        assert_eq!(answers.len(), 1, "{answers:?}");
        self.learn();
        answers.remove(0)
    }

    /// A context that has sent a message of so many bytes, and been answered by a peer that has got it.
    pub(crate) fn connected(codec: Codec, block: ControlBlock, n: u64) -> Self {
        let mut scene = Self::opened(codec, block);
        let sent = scene.send(n);
        let echo = sent.last().expect("something leaves").sync;
        let status = scene.status(NONE, n, n + 1_000_000, echo);
        assert_eq!(scene.feed(&status), []);
        scene
    }

    /// Takes the context and its key from what was told.
    pub(crate) fn learn(&mut self) {
        for event in &self.half.events {
            if let Event::Accepted { context, .. } = event {
                self.context = Some(*context);
                self.its_key = self.half.xtp().facts(*context).map_or(self.its_key, |facts| facts.my_key);
            }
        }
    }

    pub(crate) fn context(&self) -> ContextId {
        self.context.expect("there is a context")
    }

    /// The number of an offset.
    pub(crate) fn n(&self, offset: u64) -> u64 {
        let number = self.start.wrapping_add(offset);
        if self.codec == Codec::Xtp40 { number } else { number & 0xffff_ffff }
    }

    /// And back.
    pub(crate) fn at(&self, number: u64) -> u64 {
        let offset = number.wrapping_sub(self.start);
        if self.codec == Codec::Xtp40 { offset } else { offset & 0xffff_ffff }
    }

    fn packet(&self, kind: Kind) -> Packet {
        let mut packet = Packet::new(self.codec, kind);
        (packet.key, packet.rtn) = match (self.its_key, self.is_listening) {
            (0, _) => (KEY, false),
            (key, _) => (key, true),
        };
        packet.seq = self.n(0);
        packet
    }

    pub(crate) fn first(&self, options: Options, n: u64) -> Packet {
        let mut packet = self.packet(Kind::First).with(options);
        (packet.key, packet.rtn) = (KEY, false);
        packet.data = bytes(0, n);
        packet
    }

    pub(crate) fn data(&self, options: Options, low: u64, n: u64) -> Packet {
        let mut packet = self.packet(Kind::Data).with(options);
        (packet.seq, packet.data) = (self.n(low), bytes(low, n));
        packet
    }

    /// A status of a peer that has sent nothing itself: one that asks is a CNTL.
    pub(crate) fn status(&self, options: Options, rseq: u64, alloc: u64, echo: u32) -> Packet {
        let is_cntl = self.is_listening || self.codec == Codec::Xtp36 || options.intersects(SREQ | DREQ);
        let kind = if is_cntl { Kind::Cntl } else { Kind::Tcntl };
        let mut packet = self.packet(kind).with(options);
        (packet.rseq, packet.alloc, packet.echo) = (self.n(rseq), self.n(alloc), echo);
        packet.xkey = if self.is_listening { 0 } else { XKEY };
        packet
    }

    /// A status with what has come beyond a gap.
    pub(crate) fn gaps(&self, rseq: u64, spans: &[(u64, u64)], echo: u32) -> Packet {
        let mut packet = self.status(NONE, rseq, rseq.wrapping_add(1_000_000), echo);
        packet.spans = spans.iter().map(|(low, high)| (self.n(*low), self.n(*high))).collect();
        if self.codec == Codec::Xtp40 {
            packet.kind = Kind::Ecntl;
        }
        packet
    }

    pub(crate) fn diag(&self, rtn: bool, key: u64, code: u32, value: u32) -> Packet {
        let mut packet = self.packet(Kind::Diag);
        (packet.rtn, packet.key, packet.code, packet.value) = (rtn, key, code, value);
        packet
    }

    /// The peer says so; returns what leaves then.
    pub(crate) fn feed(&mut self, packet: &Packet) -> Vec<Got> {
        self.half.feed(PEER, &packet.bytes());
        self.half.take()
    }

    /// Time passes; returns what leaves meanwhile.
    pub(crate) fn wait(&mut self, millis: u64) -> Vec<Got> {
        self.half.advance(Duration::from_millis(millis));
        self.half.take()
    }

    /// Nothing leaves for so long, and then something does, at once or a tick of the wheel later.
    pub(crate) fn due(&mut self, millis: u64) -> Vec<Got> {
        assert_eq!(self.wait(millis - 6), [], "too early");
        for _ in 0..9 {
            let sent = self.wait(1);
            if !sent.is_empty() {
                return sent;
            }
        }
        panic!("nothing leaves after {millis} ms");
    }

    /// A message; returns what leaves.
    pub(crate) fn send(&mut self, n: u64) -> Vec<Got> {
        self.output(n, |output| Output { eom: true, ..output })
    }

    pub(crate) fn output(&mut self, n: u64, change: impl FnOnce(Output) -> Output) -> Vec<Got> {
        let facts = self.half.xtp().facts(self.context()).expect("it is there");
        let low = self.at(facts.sent) + facts.queued;
        let buffer = self.half.memory.add(bytes(low, n));
        let (context, output) = (self.context(), change(Output::bytes(buffer, n)));
        self.half.call(|engine, now| engine.send(now, context, output)).expect("taken");
        self.half.take()
    }

    pub(crate) fn close(&mut self, how: Close) -> Vec<Got> {
        let context = self.context();
        self.half.call(|engine, now| engine.close(now, context, how)).expect("open");
        self.half.take()
    }

    /// The application takes so many bytes, which are right.
    pub(crate) fn consume(&mut self, n: u64) -> Vec<Got> {
        let context = self.context();
        let readable = self.half.xtp().readable(context).expect("it is there");
        assert!(readable.len >= n, "{readable:?}");
        let low = self.at(self.half.xtp().facts(context).expect("it is there").dseq);
        let read: Vec<u8> = readable.parts.iter().flat_map(|part| self.half.memory.payload(*part).to_vec()).collect();
        assert_eq!(read[..n as usize], bytes(low, n));
        self.half.call(|engine, now| engine.consume(now, context, n));
        self.half.take()
    }

    /// How the context has ended.
    pub(crate) fn closed(&self) -> Option<Result<(), Failure>> {
        let mut ends = self.half.events.iter().filter_map(|event| match event {
            Event::Closed { result, .. } => Some(*result),
            _ => None,
        });
        let end = ends.next();
        assert_eq!(ends.next(), None, "closed twice");
        end
    }

    /// What was told of outputs.
    pub(crate) fn outputs(&self) -> Vec<bool> {
        let told = self.half.events.iter().filter_map(|event| match event {
            Event::Sent { delivered, .. } => Some(*delivered),
            _ => None,
        });
        told.collect()
    }
}
