//! An engine that listens, or one that connects, and its peer.

use crate::half::{Got, Half};
use pinnace_core::ControllerKind;
use pinnace_qmp::socket::{self, Errno, Linger};
use pinnace_qmp::{Medium, Profile, State};
use pinnace_testing::hand::Sent;
use pinnace_wire::checksum::internet;
use pinnace_wire::xtp::{Kind, Service};
use pinnace_xtp::{Codec, Config, ControlBlock, Options, Patience};

pub(crate) use crate::half::scene::*;

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
        // Without data it asks, or closes, before anything was heard.
        Kind::Data => assert!((got.len() > 0 || got.has(SREQ)) && !got.has(END)),
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

impl Scene {
    pub(crate) fn listening(profile: &Profile) -> Self {
        Self::listening_with(Medium::Internet, profile.block(PORT))
    }

    pub(crate) fn listening_with(medium: Medium, block: ControlBlock) -> Self {
        let mut half = Half::new(Profile::default().config(medium, base()));
        half.call(|engine, _| socket::listen(engine, block)).expect("the port is free");
        Self { options: Profile::OPTIONS, look: check, ..Self::of_listening(half) }
    }

    /// A socket that has called connect(), and the FIRST that left.
    pub(crate) fn connecting(profile: &Profile) -> (Self, Got) {
        Self::connecting_with(Medium::Internet, block_to(profile))
    }

    pub(crate) fn connecting_with(medium: Medium, block: ControlBlock) -> (Self, Got) {
        let mut half = Half::new(Profile::default().config(medium, base()));
        let context = half.call(|engine, now| socket::connect(engine, now, PEER, block)).expect("room");
        let mut scene = Self { options: Profile::OPTIONS, look: check, ..Self::of_opened(half, context) };
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
        scene.accept(SREQ, 0);
        let status = scene.status(NONE, 0, 1_000_000, scene.sync());
        assert_eq!(scene.feed(&status), []);
        scene
    }

    pub(crate) fn state(&self) -> State {
        self.context.map_or(State::Quiescent, |context| State::of(self.half.xtp(), context))
    }

    /// The newest sync that the engine has used.
    pub(crate) fn sync(&self) -> u32 {
        self.half.xtp().facts(self.context()).expect("there").sync
    }

    /// A write of so many bytes; returns what leaves.
    pub(crate) fn write(&mut self, n: u64) -> Vec<Got> {
        let written = bytes(self.next(), n);
        let buffer = self.half.memory.add([&[0xee; 3], &written[..]].concat());
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
        let (low, read) = self.unread();
        assert!(read == bytes(low, read.len() as u64), "wrong bytes from {low} on");
        let readable = self.half.xtp().readable(self.context()).expect("it is there");
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

    /// What the socket says of it.
    pub(crate) fn errno(&self) -> Option<Errno> {
        self.closed().and_then(Result::err).map(Errno::of)
    }
}

pub(crate) fn block_to(profile: &Profile) -> ControlBlock {
    profile.block_to(([192, 0, 2, 1], PORT).into())
}
