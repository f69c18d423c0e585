//! One engine with one context, and its peer, which speaks packets made by hand. What an application does with the context is
//! added by those who use it.

use super::{Got, Half, Packet};
use core::time::Duration;
use pinnace_core::Address;
use pinnace_wire::xtp::Kind;
use pinnace_xtp::{Codec, ContextId, Event, Failure, Options};

pub const PEER: Address = Address::Node(9);
pub const PORT: u16 = 7;
/// The key of a peer that begins, and of one that answers.
pub const KEY: u64 = 0x77;
pub const XKEY: u64 = 0x55;

pub const SREQ: Options = Options::SREQ;
pub const DREQ: Options = Options::DREQ;
pub const WCLOSE: Options = Options::WCLOSE;
pub const RCLOSE: Options = Options::RCLOSE;
pub const END: Options = Options::END;
pub const EOM: Options = Options::EOM;
pub const NONE: Options = Options::NONE;

pub fn all(options: &[Options]) -> Options {
    options.iter().fold(NONE, |all, one| all | *one)
}

pub fn bytes(low: u64, len: u64) -> Vec<u8> {
    (low..low + len).map(|at| (at % 251) as u8).collect()
}

pub fn only(packets: Vec<Got>) -> Got {
    assert_eq!(packets.len(), 1, "{packets:?}");
    packets.into_iter().next().expect("one")
}

/// See the [module](self).
pub struct Scene {
    pub half: Half,
    pub codec: Codec,
    /// Options of all packets of the peer.
    pub options: Options,
    /// Looks at what leaves.
    pub look: fn(&[u8], &Got),
    /// The number of the first byte of both streams.
    pub start: u64,
    /// The context's key, once it is known.
    pub its_key: u64,
    pub context: Option<ContextId>,
    pub is_listening: bool,
}

impl Scene {
    /// An engine that listens; numbers begin shortly before they wrap.
    pub fn of_listening(half: Half) -> Self {
        let codec = half.xtp().config().codec;
        let start = if codec == Codec::Xtp40 { u64::MAX - 99 } else { u64::from(u32::MAX) - 99 };
        let look = |_: &[u8], _: &Got| {};
        Self { half, codec, options: NONE, look, start, its_key: 0, context: None, is_listening: true }
    }

    /// An engine that has opened a context.
    pub fn of_opened(half: Half, context: ContextId) -> Self {
        let facts = half.xtp().facts(context).expect("it is there");
        let (start, its_key) = (facts.start, facts.my_key);
        Self { start, its_key, context: Some(context), is_listening: false, ..Self::of_listening(half) }
    }

    /// The peer's FIRST, with so many bytes; returns the answer.
    pub fn accept(&mut self, options: Options, n: u64) -> Got {
        let first = self.first(options, n);
        let answer = only(self.feed(&first));
        self.learn();
        answer
    }

    /// Takes the context and its key from what was told.
    pub fn learn(&mut self) {
        for event in &self.half.events {
            if let Event::Accepted { context, .. } = event {
                self.context = Some(*context);
                self.its_key = self.half.xtp().facts(*context).map_or(self.its_key, |facts| facts.my_key);
            }
        }
    }

    pub fn context(&self) -> ContextId {
        self.context.expect("there is a context")
    }

    /// The number of an offset.
    pub fn n(&self, offset: u64) -> u64 {
        let number = self.start.wrapping_add(offset);
        if self.codec == Codec::Xtp40 { number } else { number & 0xffff_ffff }
    }

    /// And back.
    pub fn at(&self, number: u64) -> u64 {
        let offset = number.wrapping_sub(self.start);
        if self.codec == Codec::Xtp40 { offset } else { offset & 0xffff_ffff }
    }

    fn packet(&self, kind: Kind) -> Packet {
        let mut packet = Packet::new(self.codec, kind).with(self.options);
        (packet.key, packet.rtn) = if self.its_key == 0 { (KEY, false) } else { (self.its_key, true) };
        packet.seq = self.n(0);
        packet
    }

    pub fn first(&self, options: Options, n: u64) -> Packet {
        let mut packet = self.packet(Kind::First).with(options);
        (packet.key, packet.rtn) = (KEY, false);
        packet.data = bytes(0, n);
        packet
    }

    pub fn data(&self, options: Options, low: u64, n: u64) -> Packet {
        let mut packet = self.packet(Kind::Data).with(options);
        (packet.seq, packet.data) = (self.n(low), bytes(low, n));
        packet
    }

    /// A status of a peer that has sent nothing itself: one that asks is a CNTL.
    pub fn status(&self, options: Options, rseq: u64, alloc: u64, echo: u32) -> Packet {
        let is_cntl = self.is_listening || self.codec == Codec::Xtp36 || options.intersects(SREQ | DREQ);
        let kind = if is_cntl { Kind::Cntl } else { Kind::Tcntl };
        let mut packet = self.packet(kind).with(options);
        (packet.rseq, packet.alloc, packet.echo) = (self.n(rseq), self.n(alloc), echo);
        packet.xkey = if self.is_listening { 0 } else { XKEY };
        packet
    }

    /// A status with what has come beyond a gap.
    pub fn gaps(&self, rseq: u64, spans: &[(u64, u64)], echo: u32) -> Packet {
        let mut packet = self.status(NONE, rseq, rseq.wrapping_add(1_000_000), echo);
        packet.spans = spans.iter().map(|(low, high)| (self.n(*low), self.n(*high))).collect();
        if self.codec == Codec::Xtp40 {
            packet.kind = Kind::Ecntl;
        }
        packet
    }

    pub fn diag(&self, rtn: bool, key: u64, code: u32, value: u32) -> Packet {
        let mut packet = self.packet(Kind::Diag);
        (packet.rtn, packet.key, packet.code, packet.value) = (rtn, key, code, value);
        packet
    }

    /// What has left since the last look.
    pub fn take(&mut self) -> Vec<Got> {
        let sent = self.half.take_sent();
        let parsed = sent.iter().map(|sent| {
            let got = Got::parse(self.codec, &sent.bytes);
            (self.look)(&sent.bytes, &got);
            got
        });
        parsed.collect()
    }

    /// The peer says so; returns what leaves then.
    pub fn feed(&mut self, packet: &Packet) -> Vec<Got> {
        self.feed_bytes(&packet.bytes())
    }

    pub fn feed_bytes(&mut self, bytes: &[u8]) -> Vec<Got> {
        self.half.feed(PEER, bytes);
        self.take()
    }

    /// Time passes; returns what leaves meanwhile.
    pub fn wait(&mut self, millis: u64) -> Vec<Got> {
        self.half.advance(Duration::from_millis(millis));
        self.take()
    }

    /// Nothing leaves for so long, and then something does, at once or a tick of the wheel later.
    pub fn due(&mut self, millis: u64) -> Vec<Got> {
        assert_eq!(self.wait(millis - 6), [], "too early");
        for _ in 0..9 {
            let sent = self.wait(1);
            if !sent.is_empty() {
                return sent;
            }
        }
        panic!("nothing leaves after {millis} ms");
    }

    /// Where in its stream begins what the application sends next.
    pub fn next(&self) -> u64 {
        let facts = self.half.xtp().facts(self.context()).expect("it is there");
        self.at(facts.sent) + facts.queued
    }

    /// What the application can read, and where in the stream it begins.
    pub fn unread(&self) -> (u64, Vec<u8>) {
        let context = self.context();
        let readable = self.half.xtp().readable(context).expect("it is there");
        let low = self.at(self.half.xtp().facts(context).expect("it is there").dseq);
        (low, readable.parts.iter().flat_map(|part| self.half.memory.payload(*part).to_vec()).collect())
    }

    /// How the context has ended.
    pub fn closed(&self) -> Option<Result<(), Failure>> {
        let mut ends = self.half.events.iter().filter_map(|event| match event {
            Event::Closed { result, .. } => Some(*result),
            _ => None,
        });
        let end = ends.next();
        assert_eq!(ends.next(), None, "closed twice");
        end
    }

    /// What was told of outputs.
    pub fn outputs(&self) -> Vec<bool> {
        let told = self.half.events.iter().filter_map(|event| match event {
            Event::Sent { delivered, .. } => Some(*delivered),
            _ => None,
        });
        told.collect()
    }
}
