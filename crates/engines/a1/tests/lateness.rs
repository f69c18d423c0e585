//! What becomes of a rate when its timers fire late.
mod half;

use core::time::Duration;
use half::Half;
use half::liar::Liar;
use pinnace_a1::{Address as Name, Config, Event, Output, Qos};
use pinnace_core::{Address, ControllerKind, Random, Time};
use pinnace_wire::a1::Kind;

const PEER: Address = Address::Node(1);
const PORT: u32 = 7;
const BLOCK: u32 = 1000;
const AVERAGE: u64 = 1_000_000;
/// What a block takes at that rate.
const TURN: Duration = Duration::from_millis(1);

/// A connection from somebody who reads everything, whose rate and burst are these, and a message of `bytes` to him.
fn sending(average: u64, burst: u32, bytes: u32) -> (Half, Liar) {
    let qos = Qos {
        has_retransmission: true,
        block_size: BLOCK,
        send_average: average,
        send_burst: burst,
        largest_sent: bytes,
        largest_received: bytes,
        outstanding: 4,
        ..Qos::default()
    };
    let mut half = Half::new(Config {
        max_qos: qos,
        local: Name { host: 0, port: PORT },
        congestion: ControllerKind::Fixed { window: 1 << 30 },
        ..Config::default()
    });
    half.call(|engine, _| engine.listen(1, false)).expect("nobody listens");
    let mut liar = Liar::new(PEER, 3, qos);
    liar.connect(&mut half, PORT);
    half.feed(PEER, &liar.lie(Kind::Sync).bytes());
    let mut events = half.events.iter();
    let id = events.find_map(|it| if let Event::Accepted { connection, .. } = it { Some(*connection) } else { None });
    let buffer = half.memory.add(vec![1; bytes as usize]);
    half.call(|engine, now| engine.send(now, id.expect("a connection"), Output::new(buffer, bytes.into())))
        .expect("room");
    (half, liar)
}

/// When blocks leave under `burst`, if every timer fires so much too late.
fn departures(burst: u32, late: Duration) -> Vec<Time> {
    let (mut half, _) = sending(AVERAGE, burst, 100 * BLOCK);
    let mut left = Vec::new();
    loop {
        left.extend(half.take().iter().filter(|got| got.kind() == Kind::Data).map(|_| half.now));
        if left.len() >= 100 {
            return left;
        }
        half.now = half.next_timer().expect("blocks wait") + late;
        let now = half.now;
        half.engine.handle_timeout(now);
        half.drain();
    }
}

/// No two blocks are closer than a burst of one block lets them be, so what such a burst loses to a late timer is lost: the
/// average is as exact as the timers are. Larger bursts make up for it.
//= A-11 test
#[test]
fn a_burst_of_two_blocks_makes_up_for_late_timers_and_one_of_a_single_block_cannot() {
    for late in [Duration::ZERO, TURN / 100, TURN / 2] {
        let left = departures(BLOCK, late);
        assert!(left.windows(2).all(|pair| pair[1].since(pair[0]) >= TURN), "never more than the burst");
        let took = left[99].since(left[0]);
        assert!((TURN * 99..=(TURN + late) * 99).contains(&took), "{took:?}");
        let left = departures(2 * BLOCK, late);
        assert!(left.windows(3).all(|three| three[2].since(three[0]) >= TURN), "never more than the burst");
        let took = left[99].since(left[0]);
        assert!((TURN * 98..=TURN * 98 + late).contains(&took), "{took:?}");
    }
}

/// So whoever drives is told when it must not be late.
//= A-11 test
#[test]
fn a_driver_is_told_when_a_late_timer_costs_some_of_the_rate() {
    let late = Duration::from_micros(100);
    // A tenth of a block is earned meanwhile.
    for (burst, bears) in
        [(BLOCK, false), (BLOCK + BLOCK / 10 - 1, false), (BLOCK + BLOCK / 10, true), (64 << 10, true)]
    {
        let (half, _) = sending(AVERAGE, burst, 100 * BLOCK);
        assert_eq!(half.engine.bears(late), bears, "a burst of {burst}");
        assert!(half.engine.bears(Duration::ZERO));
    }
    assert!(sending(0, 0, 100 * BLOCK).0.engine.bears(late), "there is no rate");
    let (half, _) = sending(AVERAGE, BLOCK, BLOCK);
    assert!(half.engine.bears(late), "nothing waits");
}

/// Between the clock and the network anything may come: a driver that is interrupted there, and at other times wakes up late, so
/// that the bucket is full.
//= A-11 test
#[test]
fn the_burst_is_not_exceeded_where_trains_leave_not_how_late_they_may() {
    for (average, burst) in [(1_250_000, 16 << 10), (12_500_000, 64 << 10), (125_000_000, 64 << 10), (AVERAGE, BLOCK)] {
        for seed in 0..20 {
            let mut random = Random::from_seed(seed);
            let mut micros = |most| Duration::from_micros(random.below(most));
            let (mut half, _) = sending(average, burst, 400 * BLOCK);
            let mut left: Vec<(Time, usize)> = Vec::new();
            while left.len() < 400 {
                let blocks = half.take_sent().into_iter().filter(|it| it.bytes.len() > BLOCK as usize);
                left.extend(blocks.map(|it| (it.at, it.bytes.len() - 32)));
                half.lateness = micros(300);
                // Sometimes so late that all credit is there again, which a full bucket lets pass.
                let pause = if micros(4).is_zero() { micros(100_000) } else { micros(50) };
                let now =
                    half.next_timer().expect("blocks wait").max(left.last().map_or(Time::ZERO, |it| it.0)) + pause;
                half.now = now;
                half.engine.handle_timeout(now);
                half.drain();
            }
            let (mut level, mut last) = (0.0_f64, left[0].0);
            for (at, bytes) in left {
                level = (level - at.since(last).as_secs_f64() * average as f64).max(0.0) + bytes as f64;
                assert!(level <= f64::from(burst) + 0.5, "{average} bytes a second, seed {seed}: a burst of {level}");
                last = at;
            }
        }
    }
}
