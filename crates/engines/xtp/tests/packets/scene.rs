//! An engine that listens, and one that has opened a context.

use crate::half::{Got, Half};
use core::time::Duration;
use pinnace_core::ControllerKind;
use pinnace_wire::xtp::Kind;
use pinnace_xtp::{Close, Codec, Config, ControlBlock, Options, Output, Service, Services};

pub(crate) use crate::half::scene::*;

pub(crate) const CODECS: [Codec; 2] = [Codec::Xtp40, Codec::Xtp36];

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

/// The kind of a status without spans from a responder whose key has not been used.
pub(crate) fn tcntl(codec: Codec) -> Kind {
    if codec == Codec::Xtp40 { Kind::Tcntl } else { Kind::Cntl }
}

impl Scene {
    /// An engine that listens for everything.
    pub(crate) fn listening(codec: Codec, block: ControlBlock) -> Self {
        Self::listening_for(config(codec), block, Services::ALL)
    }

    pub(crate) fn listening_for(config: Config, block: ControlBlock, services: Services) -> Self {
        let mut half = Half::new(config);
        half.call(|engine, _| engine.listen(block, services)).expect("the port is free");
        Self::of_listening(half)
    }

    /// An engine that has opened a context, and sent nothing.
    pub(crate) fn opened(codec: Codec, block: ControlBlock) -> Self {
        Self::opened_with(config(codec), block)
    }

    pub(crate) fn opened_with(config: Config, block: ControlBlock) -> Self {
        let mut half = Half::new(config);
        let context = half.call(|engine, now| engine.open(now, PEER, block)).expect("room");
        Self::of_opened(half, context)
    }

    /// A context that listened, and has taken a FIRST with so many bytes, and been answered with its key.
    pub(crate) fn accepted(codec: Codec, block: ControlBlock, options: Options, n: u64) -> Self {
        let mut scene = Self::listening(codec, block);
        scene.accept(options, n);
        scene
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

    /// A message; returns what leaves.
    pub(crate) fn send(&mut self, n: u64) -> Vec<Got> {
        self.output(n, |output| Output { eom: true, ..output })
    }

    pub(crate) fn output(&mut self, n: u64, change: impl FnOnce(Output) -> Output) -> Vec<Got> {
        let low = self.next();
        let buffer = self.half.memory.add(bytes(low, n));
        let (context, output) = (self.context(), change(Output::bytes(buffer, n)));
        self.half.call(|engine, now| engine.send(now, context, output)).expect("taken");
        self.take()
    }

    pub(crate) fn close(&mut self, how: Close) -> Vec<Got> {
        let context = self.context();
        self.half.call(|engine, now| engine.close(now, context, how)).expect("open");
        self.take()
    }

    /// The application takes so many bytes, which are right.
    pub(crate) fn consume(&mut self, n: u64) -> Vec<Got> {
        let (low, read) = self.unread();
        assert_eq!(read.get(..n as usize), Some(&*bytes(low, n)));
        let context = self.context();
        self.half.call(|engine, now| engine.consume(now, context, n));
        self.take()
    }
}
