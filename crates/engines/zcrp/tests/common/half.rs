//! One engine [driven by hand](pinnace_testing::hand): a test, or a fuzzer, is its peer, its clock and its memory.
#![allow(dead_code, unreachable_pub, reason = "every test file uses its own part")]

#[path = "oracle.rs"]
mod oracle;

use core::time::Duration;
pub use oracle::Endpoint;
use pinnace_core::{Address, BufferId, Ecn, Time, TrainLimits};
use pinnace_testing::hand::{Hand, STALE};
use pinnace_wire::zcrp::{Control, TRAILER_BYTES, Trailer, Unit};
use pinnace_zcrp::{Config, Receiver, ReceiverCounters, Refused, Sender, Zcrp};

pinnace_testing::half! {
    /// An engine, its clock and its memory.
    pub struct Half(Endpoint);
}

impl Half {
    pub fn new(engine: Zcrp) -> Self {
        Self(Hand::new(engine, Endpoint::default()))
    }

    pub fn sender(config: &Config) -> Self {
        Self::new(Zcrp::new(Some(Sender::new(config.clone(), Time::ZERO)), None)).limited(config)
    }

    pub fn receiver(config: &Config) -> Self {
        Self::new(Zcrp::new(None, Some(Receiver::new(config.clone())))).limited(config)
    }

    fn limited(mut self, config: &Config) -> Self {
        self.subject.is_limited = config.limit_amplification;
        self
    }

    /// One datagram a train, one a read.
    pub fn plain(mut self) -> Self {
        self.limits = TrainLimits::SINGLE;
        self.coalesce = 1;
        self
    }

    /// What the buffer of a message holds; they are named in the order in which they were given.
    pub fn buffer(&self, message: usize) -> &[u8] {
        self.memory.bytes(BufferId::new(message as u32)).expect("it is kept")
    }

    /// Queues a message without looking at what the engine does about it.
    pub fn try_send(&mut self, data: &[u8]) -> Result<u64, Refused> {
        let buffer = self.memory.add(data.to_vec());
        // It is known before anything can be said about it.
        let next = self.tx().next_number();
        let kept = self.tx().check_room(1);
        if kept.is_ok() {
            self.subject.on_queued(next, buffer, data);
        }
        let given = self.0.call(|e, now| e.sender_mut().expect("a sender").send(now, buffer, data.len() as u32));
        assert_eq!(given, kept.map(|()| next), "numbers are in call order");
        if given.is_err() {
            self.memory.forget(buffer);
        }
        given
    }

    pub fn send(&mut self, data: &[u8]) -> u64 {
        self.try_send(data).expect("the sender takes a message")
    }

    pub fn try_post(&mut self, capacity: usize) -> Result<u64, Refused> {
        let buffer = self.memory.add(vec![STALE; capacity]);
        let next = self.rx().next_number();
        let kept = self.rx().check_room(1);
        if kept.is_ok() {
            self.subject.on_posted(next, capacity);
        }
        let given = self.0.call(|e, now| e.receiver_mut().expect("a receiver").post(now, buffer, capacity as u32));
        assert_eq!(given, kept.map(|()| next), "numbers are in call order");
        if given.is_err() {
            self.memory.forget(buffer);
        }
        given
    }

    pub fn post(&mut self, capacity: usize) -> u64 {
        self.try_post(capacity).expect("the receiver takes a buffer")
    }

    /// A call of the application, and what follows from it.
    pub fn call<R>(&mut self, call: impl FnOnce(&mut Zcrp) -> R) -> R {
        self.0.call(|engine, _| call(engine))
    }

    /// One read: equal datagrams, the last may be shorter.
    pub fn read(&mut self, datagrams: &[Vec<u8>]) {
        self.0.read(Address::Peer, Ecn::NotCapable, datagrams);
    }

    /// One datagram.
    pub fn feed(&mut self, datagram: &[u8]) {
        self.read(&[datagram.to_vec()]);
    }

    pub fn millis(&mut self, millis: u64) {
        self.advance(Duration::from_millis(millis));
    }

    /// Every datagram sent since the last look.
    pub fn take(&mut self) -> Vec<Vec<u8>> {
        self.take_sent().into_iter().map(|sent| sent.bytes).collect()
    }

    /// The units among them, with their data.
    pub fn take_units(&mut self) -> Vec<(Unit, Vec<u8>)> {
        self.take().iter().filter_map(|datagram| parse_unit(datagram)).collect()
    }

    /// The block acknowledgements among them.
    pub fn take_acks(&mut self) -> Vec<Vec<(u32, u32, bool)>> {
        self.take().iter().filter_map(|datagram| parse_ack(datagram)).collect()
    }

    /// The requests among them.
    pub fn take_requests(&mut self) -> Vec<Vec<(u32, u32)>> {
        self.take().iter().filter_map(|datagram| parse_request(datagram)).collect()
    }

    pub fn tx(&self) -> &Sender {
        self.engine.engine().sender().expect("a sender")
    }

    pub fn rx(&self) -> &Receiver {
        self.engine.engine().receiver().expect("a receiver")
    }
}

pub fn parse_unit(datagram: &[u8]) -> Option<(Unit, Vec<u8>)> {
    let tail = datagram.last_chunk::<TRAILER_BYTES>()?;
    match Trailer::parse(tail, datagram.len()) {
        Ok(Trailer::Unit(unit)) => Some((unit, datagram[..unit.length as usize].to_vec())),
        _ => None,
    }
}

pub fn is_idle(datagram: &[u8]) -> bool {
    let tail = datagram.last_chunk::<TRAILER_BYTES>();
    tail.is_some_and(|tail| matches!(Trailer::parse(tail, datagram.len()), Ok(Trailer::Idle { .. })))
}

pub fn parse_ack(datagram: &[u8]) -> Option<Vec<(u32, u32, bool)>> {
    match Control::parse(datagram) {
        Ok(Control::Acknowledgement(block)) => Some(block.intervals().collect()),
        _ => None,
    }
}

pub fn parse_request(datagram: &[u8]) -> Option<Vec<(u32, u32)>> {
    match Control::parse(datagram) {
        Ok(Control::Request(pairs)) => Some(pairs.iter().collect()),
        _ => None,
    }
}

pub fn is_flow(datagram: &[u8]) -> bool {
    matches!(Control::parse(datagram), Ok(Control::Flow { .. }))
}

/// A control datagram: words, then type and zeros.
pub fn control(kind: u8, words: &[u32]) -> Vec<u8> {
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
    bytes.extend_from_slice(&[kind, 0, 0, 0]);
    bytes
}

/// A request for these (message, buffer size) pairs.
pub fn request(pairs: &[(u32, u32)]) -> Vec<u8> {
    let mut words = vec![pairs.len() as u32];
    words.extend(pairs.iter().flat_map(|&(number, capacity)| [number, capacity]));
    control(0x83, &words)
}

/// `[numbers[0], numbers[1])` were received (or lost), the next interval the opposite, and so on.
pub fn ack(positive: bool, numbers: &[u32]) -> Vec<u8> {
    let mut words = vec![numbers.len() as u32 - 1];
    words.extend_from_slice(numbers);
    control(if positive { 0x81 } else { 0x82 }, &words)
}

/// A flow hint.
pub fn flow() -> Vec<u8> {
    control(0x84, &[1, 1023, 65_536])
}

/// A unit as it travels.
pub fn unit(unit: &Unit, data: &[u8], padding: usize) -> Vec<u8> {
    let mut bytes = data.to_vec();
    bytes.resize(data.len() + padding, 0);
    bytes.extend_from_slice(&unit.encode());
    bytes
}

/// Unit `number` of `message`, transmission `sequence`, that announces the unit behind it unless it is the last.
pub fn plain_unit(message: u32, number: u32, sequence: u32, data: &[u8], is_last: bool) -> Vec<u8> {
    let next = (!is_last).then_some((message, number.wrapping_add(1)));
    let length = data.len() as u32;
    unit(&Unit { message, unit: number, sequence, next, length, is_last, refused: false }, data, 0)
}

pub fn bytes(size: usize) -> Vec<u8> {
    (0..size).map(|i| (i % 251) as u8 + 1).collect()
}

/// A receiver that has requested a buffer for each of `capacities`.
pub fn posted(config: &Config, capacities: &[usize]) -> Half {
    let mut half = Half::receiver(config);
    for &capacity in capacities {
        half.post(capacity);
    }
    half.take();
    half
}

/// Unit `number` of a message of `size` bytes in units of 100.
pub fn piece(message: u32, number: u32, sequence: u32, size: usize) -> Vec<u8> {
    let data = bytes(size);
    let (low, high) = (number as usize * 100, (number as usize * 100 + 100).min(size));
    plain_unit(message, number, sequence, &data[low..high], high == size)
}

/// What must change nothing and get no acknowledgement, and the counter that tells.
pub fn dropped(half: &mut Half, datagram: &[u8], counter: impl Fn(&ReceiverCounters) -> u64) {
    let before = counter(&half.rx().counters());
    half.feed(datagram);
    half.millis(40);
    assert_eq!(counter(&half.rx().counters()), before + 1);
    assert!(half.take_acks().is_empty(), "what is dropped is not acknowledged");
    assert!(half.take_events().is_empty());
}
