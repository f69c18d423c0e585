//! One outgoing endpoint [driven by hand](pinnace_testing::hand): the test is its receiver, its clock and its memory.
//!
//! On the way it is checked that it sends to its peer only, that it expects no payload, and that once a timer has been
//! handled the next one is in the future.

#![allow(unreachable_pub, reason = "every file of this test uses its own part")]

use core::time::Duration;
use pinnace_core::{Address, ControllerKind, Ecn, PathEvent, Time};
pub use pinnace_testing::hand::Sent as Left;
use pinnace_testing::hand::{Hand, Returned, Subject, Traffic};
use pinnace_vrp::{Config, Event, Failure, FrameSpec, Outgoing, Refused, Sent, Vrp};
use pinnace_wire::vrp::{Control, ControlWriter, Header, Tag};

/// A data packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Data {
    pub frame: u16,
    pub packet: u32,
    pub bytes: Vec<u8>,
}

/// What always holds of a sender.
pub struct Endpoint;

impl Subject for Endpoint {
    type Engine = Vrp;

    const TIMERS_MOVE_ON: bool = true;

    fn returned(event: &Event) -> Returned {
        match event {
            Event::Sent { buffer, .. } => Returned::Lent(*buffer),
            _ => Returned::Nothing,
        }
    }

    fn on_sent(&mut self, _: &Vrp, sent: &Left, _: Traffic) {
        assert_eq!(sent.to, Address::Peer);
    }
}

pinnace_testing::half! {
    /// A sender, its clock and its memory.
    pub struct Half(Endpoint);
}

/// P = 100, no congestion control: the paper's sender.
pub fn config() -> Config {
    Config { packet_bytes: 100, congestion: ControllerKind::Fixed { window: u64::MAX }, seed: 7, ..Config::default() }
}

pub const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// What frame `ticket` holds.
pub fn content(ticket: u64, size: usize) -> Vec<u8> {
    (0..size).map(|at| ((at as u64 * 7 + ticket * 13) % 251) as u8 + 1).collect()
}

/// A control packet of the receiver about `frame`.
pub fn answer(frame: u16, tags: &[Tag<'_>]) -> Vec<u8> {
    let mut bytes = vec![0; 1472];
    let mut writer = ControlWriter::new(&mut bytes, frame);
    for tag in tags {
        assert!(writer.push(tag), "a packet full of tags");
    }
    let len = writer.finish();
    bytes.truncate(len);
    bytes
}

/// As [`answer`], with a LOSS_REPORT behind the tags.
pub fn answer_and_report(frame: u16, tags: &[Tag<'_>], reports: &[&[(u32, u32)]]) -> Vec<u8> {
    let mut bytes = vec![0; 1472];
    let mut writer = ControlWriter::new(&mut bytes, frame);
    for tag in tags {
        assert!(writer.push(tag));
    }
    for report in reports {
        assert!(writer.push_report(report));
    }
    let len = writer.finish();
    bytes.truncate(len);
    bytes
}

/// The tags of a control packet.
pub fn tags(datagram: &[u8]) -> Vec<Tag<'_>> {
    Control::parse(datagram).expect("a control packet").tags().collect()
}

pub fn is_control(datagram: &[u8]) -> bool {
    datagram[0] & 0x80 != 0
}

/// The frame number in a packet's header.
pub fn number(datagram: &[u8]) -> u16 {
    match Header::parse(datagram.first_chunk().expect("a header")) {
        Header::Control { frame } | Header::Data { frame, .. } => frame,
    }
}

pub fn is_header(datagram: &[u8]) -> bool {
    is_control(datagram) && tags(datagram).iter().any(|tag| matches!(tag, Tag::FrameCreate { .. }))
}

pub fn data(datagram: &[u8]) -> Option<Data> {
    match Header::parse(datagram.first_chunk().expect("a header")) {
        Header::Data { frame, packet } => Some(Data { frame, packet, bytes: datagram[6..].to_vec() }),
        Header::Control { .. } => None,
    }
}

/// The frames that control packets close.
pub fn closes(datagrams: &[Vec<u8>]) -> Vec<u16> {
    let of = |tag: &Tag<'_>| if let Tag::FrameClose(frame) = tag { Some(*frame) } else { None };
    datagrams.iter().filter(|d| is_control(d)).flat_map(|d| tags(d).iter().filter_map(of).collect::<Vec<_>>()).collect()
}

impl Half {
    pub fn new(config: &Config) -> Self {
        Self(Hand::new(Vrp::outgoing(Outgoing::new(config.clone(), Time::ZERO)), Endpoint))
    }

    /// An endpoint whose path has been measured: 100 ms, so that the time-out is 300 ms.
    pub fn open(config: &Config) -> Self {
        Self::open_after(config, ms(100))
    }

    /// An endpoint whose PING was answered after `round_trip`.
    pub fn open_after(config: &Config, round_trip: Duration) -> Self {
        let mut half = Self::new(config);
        half.call(|outgoing, now| outgoing.open(now));
        let ping = half.take().remove(0);
        half.advance(round_trip);
        half.pong(&ping);
        assert_eq!(half.take_events(), [Event::Opened(Ok(round_trip))]);
        half
    }

    /// Answers a PING.
    pub fn pong(&mut self, ping: &[u8]) {
        let [Tag::Ping(stamp)] = tags(ping)[..] else { panic!("{ping:?} is no PING") };
        self.feed(&answer(0, &[Tag::Pong(stamp)]));
    }

    pub fn tx(&self) -> &Outgoing {
        match self.engine.engine() {
            Vrp::Outgoing(outgoing) => outgoing,
            Vrp::Incoming(_) => panic!("this is no sender"),
        }
    }

    /// A call of the application, and what follows from it.
    pub fn call<R>(&mut self, call: impl FnOnce(&mut Outgoing, Time) -> R) -> R {
        self.0.call(|engine, now| call(engine.as_outgoing().expect("a sender"), now))
    }

    /// Sends `size` bytes on terms of their own, if there are any.
    pub fn try_send(&mut self, size: usize, with: impl FnOnce(&mut FrameSpec)) -> Result<u64, Refused> {
        let content = content(self.memory.count() as u64, size);
        let buffer = self.memory.add(content);
        let mut spec = FrameSpec::new(buffer, size as u64);
        with(&mut spec);
        let result = self.call(|outgoing, now| outgoing.send(now, spec));
        if result.is_err() {
            self.memory.forget(buffer);
        }
        result
    }

    pub fn send(&mut self, size: usize) -> u64 {
        self.try_send(size, |_| ()).expect("the sender takes a frame")
    }

    /// Queues `count` frames of `size` bytes in one call.
    pub fn queue(&mut self, count: usize, size: usize) {
        let specs: Vec<_> = (0..count)
            .map(|_| {
                let content = content(self.memory.count() as u64, size);
                FrameSpec::new(self.memory.add(content), size as u64)
            })
            .collect();
        self.call(|outgoing, now| {
            for spec in specs {
                outgoing.send(now, spec).expect("the sender takes a frame");
            }
        });
    }

    /// Sends a frame; returns its number, what left, and forgets that it did.
    pub fn begin(&mut self, size: usize, with: impl FnOnce(&mut FrameSpec)) -> (u16, Vec<Vec<u8>>) {
        self.take();
        self.try_send(size, with).expect("the sender takes a frame");
        let left = self.take();
        let header = left.iter().find(|datagram| is_header(datagram)).expect("a header");
        (number(header), left)
    }

    pub fn close(&mut self) {
        self.call(|outgoing, now| outgoing.close(now));
    }

    /// One read: equal datagrams, the last may be shorter.
    pub fn read(&mut self, datagrams: &[Vec<u8>]) {
        self.0.read(Address::Peer, Ecn::NotCapable, datagrams);
        assert_eq!(self.memory.allocations, 0, "a sender stores nothing that comes");
    }

    /// One datagram.
    pub fn feed(&mut self, datagram: &[u8]) {
        self.read(&[datagram.to_vec()]);
    }

    /// A control packet about `frame`.
    pub fn say(&mut self, frame: u16, tags: &[Tag<'_>]) {
        self.feed(&answer(frame, tags));
    }

    pub fn unreachable(&mut self) {
        let now = self.now;
        self.engine.handle_path_event(now, PathEvent::Unreachable);
        self.drain();
    }

    /// When the next timer runs out.
    pub fn next_at(&self) -> Option<Time> {
        self.next_timer()
    }

    /// What has left since the last look.
    pub fn take(&mut self) -> Vec<Vec<u8>> {
        self.take_left().into_iter().map(|left| left.bytes).collect()
    }

    /// The same, with when and how it left.
    pub fn take_left(&mut self) -> Vec<Left> {
        self.take_sent()
    }

    /// The frame headers among it.
    pub fn take_headers(&mut self) -> Vec<Vec<u8>> {
        self.take().into_iter().filter(|datagram| is_header(datagram)).collect()
    }

    /// The data packets among it.
    pub fn take_data(&mut self) -> Vec<Data> {
        self.take().iter().filter_map(|datagram| data(datagram)).collect()
    }

    /// The numbers of the data packets among it.
    pub fn take_packets(&mut self) -> Vec<u32> {
        self.take_data().into_iter().map(|data| data.packet).collect()
    }

    /// How sends have ended since the last look, in the order in which they did.
    pub fn take_results(&mut self) -> Vec<(u64, Result<Sent, Failure>)> {
        let result = |event| if let Event::Sent { ticket, result, .. } = event { Some((ticket, result)) } else { None };
        self.take_events().into_iter().filter_map(result).collect()
    }

    /// The same, without what was sent.
    pub fn take_ends(&mut self) -> Vec<(u64, Result<(), Failure>)> {
        self.take_results().into_iter().map(|(ticket, result)| (ticket, result.map(|_| ()))).collect()
    }
}

/// The numbers `range` of control tags.
pub fn single_acks(packets: impl IntoIterator<Item = u32>) -> Vec<Tag<'static>> {
    packets.into_iter().map(Tag::SingleAck).collect()
}
