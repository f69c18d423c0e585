//! An endpoint of VRP [driven by hand](pinnace_testing::hand): a script is its peers, its clock and its memory.

use pinnace_core::{Address, BufferId, Time};
use pinnace_testing::hand::{Hand, Returned, Subject, Traffic};
pub use pinnace_testing::hand::{Memory, Sent};
use pinnace_vrp::{Config, Delivery, Event, FrameId, Incoming, Outgoing, Vrp};
use pinnace_wire::vrp::{Control, Header, Tag};

/// What always holds of VRP: each role says what it may say, nobody is sent more bytes than came from there, and what is
/// kept is counted and limited.
pub struct Endpoint;

impl Subject for Endpoint {
    type Engine = Vrp;

    fn returned(event: &Event) -> Returned {
        match event {
            Event::Sent { buffer, .. } => Returned::Lent(*buffer),
            Event::Released(buffer) => Returned::Storage(*buffer),
            _ => Returned::Nothing,
        }
    }

    fn on_sent(&mut self, engine: &Vrp, Sent { to, bytes, .. }: &Sent, Traffic { received, sent }: Traffic) {
        match engine {
            Vrp::Outgoing(_) => assert_eq!(*to, Address::Peer),
            Vrp::Incoming(_) => {
                check_answer(bytes);
                assert!(received > 0, "{to} has sent nothing");
                assert!(sent <= received, "{received} bytes came from {to}, {sent} went there");
            }
        }
    }

    fn on_event(&mut self, event: &Event) {
        if let Event::Received(delivery) = event {
            check_delivery(delivery);
        }
    }

    fn check(&self, engine: &Vrp, memory: &Memory) {
        let Vrp::Incoming(incoming) = engine else { return };
        let limits = &incoming.config().limits;
        assert!(incoming.frames() <= limits.frames, "{} frames are kept", incoming.frames());
        assert!(incoming.bytes() <= limits.bytes, "{} bytes are kept", incoming.bytes());
        assert!(memory.lent <= limits.bytes, "{} bytes of storage are in use", memory.lent);
        assert!(memory.lent <= incoming.bytes(), "storage of {} bytes is not counted", memory.lent);
    }
}

pinnace_testing::half! {
    /// An endpoint, its clock and its memory.
    pub struct Half(Endpoint);
}

impl Half {
    pub fn outgoing(config: Config) -> Self {
        Self(Hand::new(Vrp::outgoing(Outgoing::new(config, Time::ZERO)), Endpoint))
    }

    pub fn incoming(config: Config) -> Self {
        Self(Hand::new(Vrp::incoming(Incoming::new(config, Time::ZERO)), Endpoint))
    }

    /// The sending role, to look at.
    pub fn tx(&self) -> &Outgoing {
        match self.engine.engine() {
            Vrp::Outgoing(outgoing) => outgoing,
            Vrp::Incoming(_) => panic!("this is no sender"),
        }
    }

    /// The receiving role, to look at.
    pub fn rx(&self) -> &Incoming {
        match self.engine.engine() {
            Vrp::Incoming(incoming) => incoming,
            Vrp::Outgoing(_) => panic!("this is no receiver"),
        }
    }

    pub fn close(&mut self) {
        self.call(|engine, now| match engine {
            Vrp::Outgoing(outgoing) => outgoing.close(now),
            Vrp::Incoming(incoming) => incoming.close(now),
        });
    }

    /// The application is done with a frame.
    pub fn release(&mut self, id: FrameId, buffer: BufferId) {
        self.memory.end_lent(buffer);
        self.call(|engine, _| {
            if let Vrp::Incoming(incoming) = engine {
                incoming.release(id);
            }
        });
    }
}

/// What a receiver sends: small control packets with tags that only receivers send.
fn check_answer(bytes: &[u8]) {
    assert!(bytes.len() <= 1472, "an answer of {} bytes", bytes.len());
    let control = Control::parse(bytes).expect("an answer parses");
    assert!(!control.is_cut());
    for tag in control.tags() {
        assert!(
            matches!(
                tag,
                Tag::Pong(_)
                    | Tag::Ack(_)
                    | Tag::SingleAck(_)
                    | Tag::Nack(_)
                    | Tag::FrameOk(_)
                    | Tag::FrameRefused(_)
                    | Tag::MissingHeader(_)
                    | Tag::LossReport(_)
                    | Tag::EcnEcho(_)
            ),
            "a receiver does not say {tag:?}"
        );
    }
}

/// What a sender sends: data, or control packets with tags that only senders send.
pub fn check_request(bytes: &[u8]) {
    let head = bytes.first_chunk().expect("a packet has a header");
    let Header::Control { .. } = Header::parse(head) else { return };
    let control = Control::parse(bytes).expect("a control packet parses");
    assert!(!control.is_cut());
    for tag in control.tags() {
        assert!(
            matches!(
                tag,
                Tag::Ping(_)
                    | Tag::FrameCreate { .. }
                    | Tag::ConsLoss(_)
                    | Tag::LossRate(_)
                    | Tag::FrameClose(_)
                    | Tag::CriticalPacket(_)
                    | Tag::CriticalInterval { .. }
                    | Tag::Window(_)
                    | Tag::InlineData(_)
                    | Tag::LossRateFloor(_)
                    | Tag::LossRateNow { .. }
                    | Tag::Epoch(_)
            ),
            "a sender does not say {tag:?}"
        );
    }
}

/// The contract (V-R18), from what the delivery itself says.
fn check_delivery(delivery: &Delivery) {
    let Delivery { size, packet_bytes, loss, holes, contract, window, .. } = delivery;
    let packets = if *size == 0 { 0 } else { size.div_ceil(u32::from(*packet_bytes)) };
    assert_eq!((loss.packets, loss.is_complete), (packets, true));
    assert!(*window >= 1 && *window <= packets.max(1), "a window of {window} over {packets} packets");
    assert_eq!(*holes, loss.holes(u64::from(*size), *packet_bytes));
    let mut end = None;
    let (mut lost, mut longest) = (0, 0);
    for range in &loss.ranges {
        assert!(range.start < range.end && range.end <= packets && end.is_none_or(|end| end < range.start));
        end = Some(range.end);
        lost += range.end - range.start;
        longest = longest.max(range.end - range.start);
        assert!(!contract.critical.overlaps(u64::from(range.start)..u64::from(range.end)), "a critical packet is lost");
    }
    assert_eq!((loss.lost, loss.longest_run), (lost, longest));
    let is_limited = contract.run < u8::MAX;
    assert!(!is_limited || longest <= u32::from(contract.run), "{longest} packets lost in a row, with {contract:?}");
    let most = contract.max_lost(*window);
    // A window with the most losses begins where losses begin, or ends where they end.
    for range in &loss.ranges {
        for low in [range.start, range.end.saturating_sub(*window)] {
            let high = low.saturating_add(*window);
            let within: u32 =
                loss.ranges.iter().map(|range| range.end.min(high).saturating_sub(range.start.max(low))).sum();
            assert!(within <= most, "{within} of {window} packets lost, with {contract:?}");
        }
    }
}
