//! An engine that listens, or one that connects, and its peer.

use crate::half::{Got, Half, Packet};
use core::time::Duration;
use pinnace_core::{Address, ControllerKind};
use pinnace_qmp::socket::{self, Errno, Linger};
use pinnace_qmp::{Medium, Profile, State};
use pinnace_testing::hand::Sent;
use pinnace_wire::checksum::internet;
use pinnace_wire::xtp::{Kind, Service};
use pinnace_xtp::{Codec, Config, ContextId, ControlBlock, Event, Failure, Options, Patience};

pub(crate) const PEER: Address = Address::Node(9);
pub(crate) const PORT: u16 = 7;
/// The key of a peer that begins, and of one that answers.
pub(crate) const KEY: u64 = 0x77;
pub(crate) const XKEY: u64 = 0x55;

pub(crate) const SREQ: Options = Options::SREQ;
pub(crate) const WCLOSE: Options = Options::WCLOSE;
pub(crate) const RCLOSE: Options = Options::RCLOSE;
pub(crate) const END: Options = Options::END;
pub(crate) const EOM: Options = Options::EOM;
pub(crate) const NONE: Options = Options::NONE;

pub(crate) fn all(options: &[Options]) -> Options {
    options.iter().fold(NONE, |all, one| all | *one)
}

/// What may differ from packet to packet.
pub(crate) const MAY: Options = SREQ.with(RCLOSE).with(WCLOSE).with(END);

/// What holds for every packet that QMP sends.
//= Q-2 test
//= Q-5 test
pub(crate) fn check(bytes: &[u8], got: &Got) {
    assert_eq!(got.options.without(MAY), Options::NOCHECK | Options::FASTNAK, "{got:?}");
    assert_eq!(internet(&bytes[..32]), 0, "the check is the header's alone: {got:?}");
    assert_eq!((got.sort, got.btag), (0, None));
    assert_ne!(got.key, 0);
    let is_first = got.kind == Kind::First;
    assert!(!(is_first && got.rtn), "a FIRST has a key of its own");
    assert_eq!(got.address.is_some(), is_first, "only FIRST carries addresses");
    match got.kind {
        Kind::First => {
            assert_eq!(got.service, Some(Service::Stream as u8), "service 4");
            assert!(got.has(SREQ) && !got.has(END));
        }
        Kind::Data => assert!(got.len() > 0 && !got.has(END)),
        Kind::Tcntl => assert_eq!(got.traffic.map(|traffic| traffic.service), Some(4)),
        Kind::Diag => assert_eq!(got.marks(), NONE),
        Kind::Cntl | Kind::Ecntl => {}
        Kind::Jcntl => panic!("QMP joins nothing"),
    }
    assert!(!got.has(SREQ | END), "an answer never asks");
}

/// What has left since the last look, checked.
pub(crate) fn take(half: &mut Half) -> Vec<(Vec<u8>, Got)> {
    let parsed = half.take_sent().into_iter().map(|Sent { bytes, .. }| {
        let got = Got::parse(Codec::Xtp40, &bytes);
        check(&bytes, &got);
        (bytes, got)
    });
    parsed.collect()
}

pub(crate) fn base() -> Config {
    let congestion = ControllerKind::Fixed { window: 1 << 24 };
    Config { seed: 5, congestion, validates: false, ..Config::default() }
}

pub(crate) fn bytes(low: u64, len: u64) -> Vec<u8> {
    (low..low + len).map(|at| (at % 251) as u8).collect()
}

pub(crate) fn only(packets: Vec<Got>) -> Got {
    assert_eq!(packets.len(), 1, "{packets:?}");
    packets.into_iter().next().expect("one")
}

/// One engine with one context, and its peer.
pub(crate) struct Scene {
    pub(crate) half: Half,
    /// The number of the first byte of both streams.
    pub(crate) start: u64,
    /// The context's key, once it is known.
    pub(crate) its_key: u64,
    pub(crate) context: Option<ContextId>,
    is_listening: bool,
}

impl Scene {
    pub(crate) fn listening(profile: &Profile) -> Self {
        Self::listening_with(Medium::Internet, profile.block(PORT))
    }

    pub(crate) fn listening_with(medium: Medium, block: ControlBlock) -> Self {
        let mut half = Half::new(Profile::default().config(medium, base()));
        half.call(|engine, _| socket::listen(engine, block)).expect("the port is free");
        // Shortly before numbers wrap.
        Self { half, start: u64::MAX - 99, its_key: 0, context: None, is_listening: true }
    }

    /// A socket that has called connect(), and the FIRST that left.
    pub(crate) fn connecting(profile: &Profile) -> (Self, Got) {
        Self::connecting_with(Medium::Internet, block_to(profile))
    }

    pub(crate) fn connecting_with(medium: Medium, block: ControlBlock) -> (Self, Got) {
        let mut half = Half::new(Profile::default().config(medium, base()));
        let context = half.call(|engine, now| socket::connect(engine, now, PEER, block)).expect("room");
        let facts = half.xtp().facts(context).expect("it is there");
        let (start, its_key) = (facts.start, facts.my_key);
        let mut scene = Self { half, start, its_key, context: Some(context), is_listening: false };
        let first = only(scene.take());
        (scene, first)
    }

    /// A socket that has connected to a peer that takes a million bytes.
    pub(crate) fn connected(profile: &Profile) -> Self {
        let (mut scene, first) = Self::connecting(profile);
        let status = scene.status(NONE, 0, 1_000_000, first.sync);
        assert_eq!(scene.feed(&status), []);
        scene
    }

    /// A socket that has accepted a FIRST without data; the peer takes a million bytes.
    pub(crate) fn accepted(profile: &Profile) -> Self {
        let mut scene = Self::listening(profile);
        scene.accept(0);
        let status = scene.status(NONE, 0, 1_000_000, scene.sync());
        assert_eq!(scene.feed(&status), []);
        scene
    }

    /// The peer's FIRST, with so many bytes; returns the answer.
    pub(crate) fn accept(&mut self, n: u64) -> Got {
        let first = self.first(SREQ, n);
        let answer = only(self.feed(&first));
        self.learn();
        answer
    }

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

    pub(crate) fn state(&self) -> State {
        self.context.map_or(State::Quiescent, |context| State::of(self.half.xtp(), context))
    }

    /// The newest sync that the engine has used.
    pub(crate) fn sync(&self) -> u32 {
        self.half.xtp().facts(self.context()).expect("there").sync
    }

    /// The number of an offset.
    pub(crate) fn n(&self, offset: u64) -> u64 {
        self.start.wrapping_add(offset)
    }

    /// And back.
    pub(crate) fn at(&self, number: u64) -> u64 {
        number.wrapping_sub(self.start)
    }

    fn packet(&self, kind: Kind) -> Packet {
        let mut packet = Packet::new(Codec::Xtp40, kind).with(Profile::OPTIONS);
        (packet.key, packet.rtn) = if self.its_key == 0 { (KEY, false) } else { (self.its_key, true) };
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
        let kind = if self.is_listening || options.contains(SREQ) { Kind::Cntl } else { Kind::Tcntl };
        let mut packet = self.packet(kind).with(options);
        (packet.rseq, packet.alloc, packet.echo) = (self.n(rseq), self.n(alloc), echo);
        packet.xkey = if self.is_listening { 0 } else { XKEY };
        packet
    }

    /// A status with what has come beyond a gap.
    pub(crate) fn gaps(&self, rseq: u64, spans: &[(u64, u64)], echo: u32) -> Packet {
        let mut packet = self.status(NONE, rseq, 1_000_000, echo);
        packet.spans = spans.iter().map(|(low, high)| (self.n(*low), self.n(*high))).collect();
        packet.kind = Kind::Ecntl;
        packet
    }

    pub(crate) fn diag(&self, rtn: bool, key: u64, code: u32, value: u32) -> Packet {
        let mut packet = self.packet(Kind::Diag);
        (packet.rtn, packet.key, packet.code, packet.value) = (rtn, key, code, value);
        packet
    }

    pub(crate) fn take(&mut self) -> Vec<Got> {
        take(&mut self.half).into_iter().map(|(_, got)| got).collect()
    }

    /// The peer says so; returns what leaves then.
    pub(crate) fn feed(&mut self, packet: &Packet) -> Vec<Got> {
        self.feed_bytes(&packet.bytes())
    }

    pub(crate) fn feed_bytes(&mut self, bytes: &[u8]) -> Vec<Got> {
        self.half.feed(PEER, bytes);
        self.take()
    }

    /// Time passes; returns what leaves meanwhile.
    pub(crate) fn wait(&mut self, millis: u64) -> Vec<Got> {
        self.half.advance(Duration::from_millis(millis));
        self.take()
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

    /// A write of so many bytes; returns what leaves.
    pub(crate) fn write(&mut self, n: u64) -> Vec<Got> {
        let facts = self.half.xtp().facts(self.context()).expect("it is there");
        let low = self.at(facts.sent) + facts.queued;
        let buffer = self.half.memory.add([&[0xee; 3], &bytes(low, n)[..]].concat());
        let context = self.context();
        self.half.call(|engine, now| socket::write(engine, now, context, buffer, 3, n)).expect("taken");
        self.take()
    }

    pub(crate) fn set_patience(&mut self, patience: Patience) {
        let context = self.context();
        self.half.call(|engine, now| engine.set_patience(now, context, patience)).expect("open");
    }

    pub(crate) fn shut_write(&mut self) -> Vec<Got> {
        let context = self.context();
        self.half.call(|engine, now| socket::shut_write(engine, now, context)).expect("open");
        self.take()
    }

    /// close(): what leaves, and whether it was forced.
    pub(crate) fn close(&mut self, linger: Linger) -> (Vec<Got>, bool) {
        let context = self.context();
        let is_forced = self.half.call(|engine, now| socket::close(engine, now, context, linger)).expect("open");
        (self.take(), is_forced)
    }

    /// What can be read, which is right.
    pub(crate) fn readable(&self) -> u64 {
        let context = self.context();
        let readable = self.half.xtp().readable(context).expect("it is there");
        let low = self.at(self.half.xtp().facts(context).expect("it is there").dseq);
        let read: Vec<u8> = readable.parts.iter().flat_map(|part| self.half.memory.payload(*part).to_vec()).collect();
        assert!(read == bytes(low, readable.len), "wrong bytes from {low} on");
        assert_eq!((readable.message, readable.btag), (None, None), "a stream is bytes and nothing else");
        readable.len
    }

    /// The application takes so many bytes, which are right.
    pub(crate) fn consume(&mut self, n: u64) -> Vec<Got> {
        assert!(self.readable() >= n);
        let context = self.context();
        self.half.call(|engine, now| engine.consume(now, context, n));
        self.take()
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

    /// What the socket says of it.
    pub(crate) fn errno(&self) -> Option<Errno> {
        self.closed().and_then(Result::err).map(Errno::of)
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

pub(crate) fn block_to(profile: &Profile) -> ControlBlock {
    profile.block_to(([192, 0, 2, 1], PORT).into())
}
