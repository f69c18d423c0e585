//! The single-threaded driver against a link that does as it is told.

use pinnace_core::{
    Address, BufferId, BufferRange, Checksum, ChecksumAt, ChecksumKind, Ecn, Engine, PathEvent, Placed, PollAt,
    ReceivePlan, RxMeta, Summing, Time, Train, TrainLimits,
};
use pinnace_link::{
    BufferTable, Descriptors, Link, LinkCounters, ReadBuffer, ReadOutcome, Received, SendOutcome, Sums,
};
use pinnace_runtime::{Driver, DriverConfig, EventSink};
use std::collections::VecDeque;
use std::io;
use std::time::Duration;

/// Datagrams of a number and four bytes, which belong at four times the number in a buffer.
#[derive(Default)]
struct Tiles {
    into: Option<BufferId>,
    expects: u32,
    copied: u32,
    numbers: VecDeque<u8>,
    sends: VecDeque<BufferRange>,
    path_events: Vec<PathEvent>,
    timer: Option<Time>,
    /// Sends a tile with a trailer behind it, for this checksum.
    checksum: Option<Checksum>,
    /// Asks when its trains leave.
    asks: bool,
    left: Vec<Time>,
    /// When it was given what had come.
    handled: Vec<Time>,
    log: Vec<&'static str>,
}

impl Engine for Tiles {
    type Event = u8;

    fn handle_datagrams(&mut self, now: Time, _: &RxMeta, rx: &mut Placed<'_>) {
        self.log.push("datagrams");
        self.handled.push(now);
        while let Some(segment) = rx.next_segment() {
            let Some([number]) = rx.tail::<1>(&segment) else { continue };
            if let Some(into) = self.into {
                self.copied += rx.settle(&segment, 0..4, BufferRange::new(into, u64::from(number) * 4, 4));
            }
            self.numbers.push_back(number);
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        self.log.push("timeout");
        if self.timer.is_some_and(|at| at <= now) {
            self.timer = None;
        }
    }

    fn handle_path_event(&mut self, _: Time, event: PathEvent) {
        self.path_events.push(event);
    }

    fn plan_receive(&self, plan: &mut ReceivePlan) {
        if let Some(into) = self.into {
            for tile in self.expects..self.expects + 3 {
                plan.payload(BufferRange::new(into, u64::from(tile) * 4, 4));
                plan.pooled(1);
            }
        }
    }

    fn poll_transmit(&mut self, _: Time, train: &mut Train) -> bool {
        let Some(range) = self.sends.pop_front() else { return false };
        let trailer = if self.checksum.is_some() { 4 } else { 0 };
        train.begin(Address::Peer, range.len as usize + trailer);
        train.set_checksum(self.checksum);
        if self.asks {
            train.await_leaving();
        }
        train.payload(range);
        train.zeros(trailer);
        train.end_segment();
        true
    }

    fn handle_left(&mut self, now: Time) {
        self.left.push(now);
    }

    fn poll_at(&self) -> PollAt {
        if self.numbers.is_empty() { PollAt::at(self.timer) } else { PollAt::Now }
    }

    fn poll_event(&mut self) -> Option<u8> {
        self.numbers.pop_front()
    }
}

#[derive(Default)]
struct Script {
    reads: VecDeque<Option<(Vec<u8>, usize, bool)>>,
    sends: VecDeque<SendOutcome>,
    sent: Vec<Vec<u8>>,
    /// How many had been sent at each read.
    sent_at_reads: Vec<usize>,
    may_fragment: bool,
    /// A call to send takes so long.
    takes: Duration,
}

impl Link for Script {
    fn train_limits(&self) -> TrainLimits {
        TrainLimits::GSO
    }

    fn max_datagram(&self) -> usize {
        1472
    }

    fn datagrams_per_read(&self) -> usize {
        64
    }

    fn send(&mut self, train: &Train, memory: &BufferTable) -> io::Result<SendOutcome> {
        std::thread::sleep(self.takes);
        let outcome = self.sends.pop_front().unwrap_or(SendOutcome::Sent);
        if outcome == SendOutcome::Sent {
            train.for_each_datagram(|range| memory.bytes(range), |datagram| self.sent.push(datagram.to_vec()));
        }
        Ok(outcome)
    }

    fn receive(&mut self, plan: &ReceivePlan, memory: &BufferTable, pool: &mut ReadBuffer) -> io::Result<ReadOutcome> {
        assert!(plan.bytes() >= ReadBuffer::READ_BYTES);
        self.sent_at_reads.push(self.sent.len());
        let Some(read) = self.reads.pop_front() else { return Ok(ReadOutcome::Empty) };
        let Some((bytes, segment, truncated)) = read else { return Ok(ReadOutcome::Unreachable) };
        pool.lay_out(plan, memory, |_, _| ());
        // SAFETY: it has just been laid out, in memory that is borrowed, and that whoever lent it promised not to look at.
        let bytes = unsafe { pool.scatter(&bytes) };
        let meta = RxMeta { source: Address::Peer, destination: None, ecn: Ecn::NotCapable };
        Ok(ReadOutcome::Received(Received { bytes, segment, meta, truncated }))
    }

    fn allow_fragmentation(&mut self) -> bool {
        self.may_fragment
    }

    fn descriptors(&self) -> Descriptors {
        Descriptors::new(-1, -1)
    }

    fn counters(&self) -> LinkCounters {
        LinkCounters::default()
    }
}

#[derive(Default)]
struct Numbers(Vec<u8>);

impl EventSink<u8> for Numbers {
    fn handle_event(&mut self, number: u8, _: &mut BufferTable) {
        self.0.push(number);
    }
}

fn driver(script: Script) -> Driver<Tiles, Script> {
    Driver::new(Tiles::default(), script, DriverConfig::default())
}

/// Tiles of these numbers, filled with them.
fn tiles(numbers: &[u8]) -> Vec<u8> {
    numbers.iter().flat_map(|n| [*n; 5]).collect()
}

#[test]
fn payload_lands_in_place_or_is_moved_there() {
    let mut memory = [0u8; 40];
    // As expected; then in another order than expected.
    let reads = VecDeque::from([Some((tiles(&[0, 1, 2]), 5, false)), Some((tiles(&[5, 3, 4]), 5, false))]);
    let mut driver = driver(Script { reads, ..Script::default() });
    // SAFETY: `memory` outlives the driver's use of it and is looked at only after `remove`.
    let into = unsafe { driver.memory().insert(memory.as_mut_ptr(), memory.len()) };
    let mut sink = Numbers::default();
    driver.call(None, |engine, _, _| engine.into = Some(into));
    driver.drain(&mut sink).unwrap();
    let progress = driver.progress(&mut sink).unwrap();
    assert_eq!((progress.reads, progress.events), (1, 3));
    assert_eq!((driver.engine().copied, driver.counters().bytes_moved), (0, 0));
    driver.call(None, |engine, _, _| engine.expects = 3);
    driver.drain(&mut sink).unwrap();
    assert_eq!(driver.progress(&mut sink).unwrap().reads, 1);
    assert_eq!((driver.engine().copied, driver.counters().bytes_moved), (12, 12));
    assert_eq!(sink.0, [0, 1, 2, 5, 3, 4]);
    driver.memory().remove(into);
    assert_eq!(memory[..24].chunks(4).map(|tile| tile[3]).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn a_truncated_datagram_is_cut_from_the_read_and_counted() {
    let reads = VecDeque::from([
        Some((tiles(&[1, 2, 3])[..13].to_vec(), 5, true)),
        Some((tiles(&[7]), 5, true)),
        Some((Vec::new(), 0, false)),
        None,
        Some((tiles(&[9]), 5, false)),
    ]);
    let mut driver = driver(Script { reads, ..Script::default() });
    let mut sink = Numbers::default();
    while driver.progress(&mut sink).unwrap().worked() {}
    assert_eq!(sink.0, [1, 2, 9]);
    assert_eq!((driver.counters().datagrams_truncated, driver.counters().datagrams_empty), (2, 1));
    assert_eq!(driver.engine().path_events, [PathEvent::Unreachable]);
}

#[test]
fn batches_grow_while_reads_bring_something_and_shrink_after() {
    let reads = (0..20).map(|number| Some((tiles(&[number]), 5, false))).collect();
    let mut driver = driver(Script { reads, ..Script::default() });
    let mut sink = Numbers::default();
    let reads: Vec<_> = (0..8).map(|_| driver.progress(&mut sink).unwrap().reads).collect();
    assert_eq!(reads, [1, 2, 4, 4, 4, 4, 1, 0]);
    assert_eq!(sink.0, (0..20).collect::<Vec<u8>>());
}

#[test]
fn what_was_held_back_leaves_before_anything_is_read() {
    let mut driver = driver(Script::default());
    let buffer = driver.memory().allocate_copy(&[7; 4]).unwrap();
    let mut sink = Numbers::default();
    for released in [false, true] {
        driver.call(None, |engine, _, _| engine.sends.push_back(BufferRange::new(buffer, 0, 4)));
        if released {
            driver.release();
        }
        assert_eq!(driver.progress(&mut sink).unwrap().trains, 1);
    }
    driver.progress(&mut sink).unwrap();
    assert_eq!(driver.link().sent_at_reads, [0, 2, 2]);
}

#[test]
fn a_batch_of_trains_has_at_least_one() {
    let config = DriverConfig { trains_per_batch: 0, ..DriverConfig::default() };
    let mut driver = Driver::new(Tiles::default(), Script::default(), config);
    let buffer = driver.memory().allocate_copy(&[7; 4]).unwrap();
    driver.call(None, |engine, _, _| engine.sends.push_back(BufferRange::new(buffer, 0, 4)));
    let mut sink = Numbers::default();
    for _ in 0..3 {
        driver.progress(&mut sink).unwrap();
    }
    assert_eq!(driver.link().sent, [[7; 4]]);
}

#[test]
fn another_long_train_is_expected_soon_after_one() {
    let (long, short) = (tiles(&[1; 4000]), tiles(&[2]));
    let reads = [&long, &short, &long].map(|bytes| Some((bytes.clone(), 5, false))).into();
    let config = DriverConfig { reads_per_batch: 1, ..DriverConfig::default() };
    let mut driver = Driver::new(Tiles::default(), Script { reads, ..Script::default() }, config);
    let mut sink = Numbers::default();
    assert!(!driver.expects_train());
    for expects in [true, false, true] {
        assert_eq!(driver.progress(&mut sink).unwrap().reads, 1);
        assert_eq!(driver.expects_train(), expects);
    }
    std::thread::sleep(Duration::from_millis(1));
    assert_eq!(driver.progress(&mut sink).unwrap().reads, 0);
    assert!(!driver.expects_train(), "long ago");
}

#[test]
fn a_timer_fires_only_after_what_has_arrived_was_read() {
    let reads = (0..3).map(|number| Some((tiles(&[number]), 5, false))).collect();
    let mut driver = driver(Script { reads, ..Script::default() });
    let mut sink = Numbers::default();
    driver.call(None, |engine, _, now| engine.timer = Some(now + Duration::from_micros(1)));
    driver.drain(&mut sink).unwrap();
    std::thread::sleep(Duration::from_millis(1));
    let progress = driver.progress(&mut sink).unwrap();
    assert_eq!(progress.reads, 3);
    assert_eq!(driver.engine().log, ["datagrams", "datagrams", "datagrams", "timeout"]);
    assert_eq!((driver.counters().timers_fired, progress.next), (1, PollAt::Ingress));
}

/// A timer is set, and for 1.2 s nobody drives: when it fires by the engine's clock, and what passes there until then.
fn stopped(driver: &mut Driver<Tiles, Script>, due_in: Duration) -> Duration {
    let mut sink = Numbers::default();
    let mut set_at = Time::ZERO;
    driver.call(None, |engine, _, now| {
        set_at = now;
        engine.timer = Some(now + due_in);
    });
    driver.drain(&mut sink).unwrap();
    std::thread::sleep(Duration::from_millis(1200));
    driver.progress(&mut sink).unwrap();
    driver.last_now().since(set_at)
}

#[test]
fn time_for_which_the_process_was_stopped_does_not_count() {
    //= Z-19 test
    let mut driver = driver(Script::default());
    let due_in = Duration::from_millis(10);
    assert_eq!(stopped(&mut driver, due_in), due_in, "the clock stood when the timer was due");
    assert_eq!(driver.counters().timers_fired, 1);
    // Who comes as seldom as this all the time is only slow.
    assert!(stopped(&mut driver, due_in) > Duration::from_secs(1));
    assert_eq!(driver.counters().timers_fired, 2);
}

#[test]
fn who_has_nothing_to_do_is_not_stopped() {
    let mut driver = driver(Script::default());
    assert!(stopped(&mut driver, Duration::from_secs(1000)) > Duration::from_secs(1));
    assert_eq!(driver.counters().timers_fired, 0);
}

#[test]
fn a_held_train_leaves_first_unless_its_memory_has_changed_hands() {
    let (mut first, mut second) = (*b"first", *b"other");
    let mut driver = driver(Script::default());
    let mut sink = Numbers::default();
    // SAFETY: both arrays outlive the driver's use of them and are only read.
    let (a, b) =
        unsafe { (driver.memory().insert(first.as_mut_ptr(), 5), driver.memory().insert(second.as_mut_ptr(), 5)) };
    let send = |driver: &mut Driver<Tiles, Script>, sink: &mut Numbers, buffers: &[BufferId]| {
        driver.call(None, |engine, _, _| {
            engine.sends.extend(buffers.iter().map(|buffer| BufferRange::new(*buffer, 0, 5)));
        });
        driver.drain(sink).unwrap()
    };
    driver.link_mut().sends.extend([SendOutcome::Blocked, SendOutcome::Blocked]);
    assert!(send(&mut driver, &mut sink, &[a, b]).blocked);
    assert!(driver.progress(&mut sink).unwrap().blocked);
    assert!(driver.is_blocked());
    let progress = driver.progress(&mut sink).unwrap();
    assert_eq!((progress.trains, progress.blocked), (2, false));
    assert_eq!(driver.link().sent, [b"first", b"other"]);

    driver.link_mut().sends.push_back(SendOutcome::Blocked);
    assert!(send(&mut driver, &mut sink, &[a, b]).blocked);
    driver.memory().remove(a);
    // SAFETY: as above.
    let again = unsafe { driver.memory().insert(second.as_mut_ptr(), 5) };
    assert_eq!(again, a, "the name is in use again");
    driver.progress(&mut sink).unwrap();
    assert_eq!(driver.link().sent[2..], [b"other"]);
    assert_eq!((driver.counters().trains_held, driver.counters().trains_discarded), (2, 1));
}

#[test]
fn who_asks_is_told_when_a_train_has_left_and_not_when_it_was_made() {
    let mut driver = driver(Script::default());
    let mut sink = Numbers::default();
    let mut memory = *b"train";
    // SAFETY: the array outlives the driver's use of it and is only read.
    let buffer = unsafe { driver.memory().insert(memory.as_mut_ptr(), 5) };
    let mut send = |outcome, asks| {
        driver.link_mut().sends.push_back(outcome);
        driver.call(None, |engine, _, _| {
            engine.asks = asks;
            engine.sends.push_back(BufferRange::new(buffer, 0, 5));
        });
        driver.drain(&mut sink).unwrap();
        let made = driver.last_now();
        let told = driver.engine().left.len();
        driver.progress(&mut sink).unwrap();
        (told, driver.engine().left.iter().filter(|at| **at > made).count())
    };
    assert_eq!(send(SendOutcome::Sent, false), (0, 0));
    assert_eq!(send(SendOutcome::TooLarge(None), true), (0, 0), "it was dropped");
    assert_eq!(send(SendOutcome::Sent, true), (1, 1));
    assert_eq!(send(SendOutcome::Blocked, true), (1, 1), "only with the next turn");
}

#[test]
fn a_checksum_is_filled_in_once_and_survives_a_full_link() {
    let mut memory = *b"bytes";
    for (kind, trailer) in [(ChecksumKind::Internet, 2), (ChecksumKind::Cxor, 4)] {
        let mut driver = driver(Script::default());
        let mut sink = Numbers::default();
        // SAFETY: `memory` outlives the driver's use of it and is only read.
        let buffer = unsafe { driver.memory().insert(memory.as_mut_ptr(), 5) };
        driver.link_mut().sends.extend([SendOutcome::Blocked, SendOutcome::Blocked, SendOutcome::TooLarge(None)]);
        driver.link_mut().may_fragment = true;
        driver.call(None, |engine, _, _| {
            // The field itself is summed too, as zeros: twice filled in, it would be another.
            let at = ChecksumAt::Tail(trailer);
            engine.checksum = Some(Checksum { kind, skip_head: 0, skip_tail: 0, at });
            engine.sends.push_back(BufferRange::new(buffer, 0, 5));
        });
        assert!(driver.drain(&mut sink).unwrap().blocked);
        while driver.link().sent.is_empty() {
            driver.progress(&mut sink).unwrap();
        }
        let mut sums = Sums::default();
        sums.start(kind);
        sums.add(b"bytes\0\0\0\0");
        let value = sums.finish().to_be_bytes();
        assert_ne!(value, [0; 4]);
        let sent = &driver.link().sent[0];
        assert_eq!((&sent[..5], sent.len()), (&b"bytes"[..], 9));
        assert_eq!(sent[9 - trailer..], value[4 - trailer..]);
    }
}

#[test]
fn a_timer_that_is_due_does_not_keep_a_blocked_driver_awake() {
    let mut memory = *b"bytes";
    let mut driver = driver(Script::default());
    let mut sink = Numbers::default();
    // SAFETY: `memory` outlives the driver's use of it.
    let buffer = unsafe { driver.memory().insert(memory.as_mut_ptr(), 5) };
    driver.link_mut().sends.extend([SendOutcome::Blocked, SendOutcome::Blocked]);
    driver.call(None, |engine, _, now| {
        engine.sends.push_back(BufferRange::new(buffer, 0, 5));
        engine.timer = Some(now);
    });
    assert!(driver.drain(&mut sink).unwrap().blocked);
    // Not for ever either: other timers may be behind it.
    let PollAt::Time(at) = driver.next() else { panic!("{:?}", driver.next()) };
    let wait = at.since(driver.last_now());
    assert!(Duration::from_millis(50) <= wait && wait <= Duration::from_secs(1), "{wait:?}");
    assert_eq!(driver.progress(&mut sink).unwrap().next, PollAt::Ingress);
    assert_eq!(driver.engine().log, ["timeout"]);
}

#[test]
fn what_a_read_brings_is_handled_no_earlier_than_it_was_read() {
    // Of a turn that has sent first, and was interrupted: what the answer took would be no time at all.
    let mut memory = *b"bytes";
    let takes = Duration::from_millis(20);
    let reads = VecDeque::from([Some((tiles(&[1]), 5, false)), Some((tiles(&[2]), 5, false))]);
    let mut driver = driver(Script { reads, takes, ..Script::default() });
    let mut sink = Numbers::default();
    // SAFETY: `memory` outlives the driver's use of it.
    let buffer = unsafe { driver.memory().insert(memory.as_mut_ptr(), 5) };
    driver.call(Some(true), |engine, _, _| engine.sends.push_back(BufferRange::new(buffer, 0, 5)));
    driver.release();
    let began = driver.read_clock();
    driver.progress(&mut sink).unwrap();
    assert!(driver.engine().handled[0].since(began) >= takes, "{:?} {began:?}", driver.engine().handled);
}

#[test]
fn a_train_that_is_too_large_is_sent_again_if_the_link_may_fragment() {
    for may_fragment in [false, true] {
        let mut memory = *b"bytes";
        let sends = VecDeque::from([SendOutcome::TooLarge(Some(4)), SendOutcome::Sent]);
        let mut driver = driver(Script { sends, may_fragment, ..Script::default() });
        // SAFETY: `memory` outlives the driver's use of it.
        let buffer = unsafe { driver.memory().insert(memory.as_mut_ptr(), 5) };
        driver.call(None, |engine, _, _| engine.sends.push_back(BufferRange::new(buffer, 0, 5)));
        driver.drain(&mut Numbers::default()).unwrap();
        assert_eq!(driver.engine().path_events, [PathEvent::TooLarge { to: Address::Peer, fits: Some(4) }]);
        assert_eq!(driver.link().sent.len(), usize::from(may_fragment));
        assert_eq!(driver.counters().trains_discarded, u64::from(!may_fragment));
    }
}

#[test]
fn a_turn_sends_a_bounded_number_of_trains_and_says_that_there_is_more() {
    let mut memory = *b"bytes";
    let mut driver = driver(Script::default());
    let mut sink = Numbers::default();
    // SAFETY: `memory` outlives the driver's use of it.
    let buffer = unsafe { driver.memory().insert(memory.as_mut_ptr(), 5) };
    driver.link_mut().sends.push_back(SendOutcome::Blocked);
    driver.call(None, |engine, _, _| engine.sends.extend([BufferRange::new(buffer, 0, 5); 40]));
    driver.drain(&mut sink).unwrap();
    let turns: Vec<_> = (0..3).map(|_| driver.progress(&mut sink).unwrap()).collect();
    assert_eq!(turns.iter().map(|turn| turn.trains).collect::<Vec<_>>(), [16, 16, 8]);
    assert_eq!(turns.iter().map(|turn| turn.next).collect::<Vec<_>>(), [PollAt::Now, PollAt::Now, PollAt::Ingress]);
}
