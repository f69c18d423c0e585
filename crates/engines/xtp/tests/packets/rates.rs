//! Rates and bursts (specs/xtp.md, 3.12).

use crate::half::Got;
use crate::scene::{CODECS, NONE, Scene, block};
use core::time::Duration;
use pinnace_core::{Random, Time};
use pinnace_xtp::{Codec, ControlBlock, Service};

/// A stream at a rate, whose peer answers nothing from now on.
fn unanswered(codec: Codec, output_rate: u32, output_burst: u32) -> Scene {
    let limited = ControlBlock { output_rate, output_burst, retry_count: 10_000, ..block(Service::Connection) };
    let mut scene = Scene::connected(codec, limited, 10);
    scene.wait(100);
    scene
}

//= X-19 test
#[test]
fn no_interval_sees_more_than_burst_and_rate() {
    for codec in CODECS {
        for (rate, burst, peer) in
            [(100_000, 5000, None), (0, 0, Some((50_000, 3000))), (100_000, 9000, Some((50_000, 3000)))]
        {
            let limited = ControlBlock { output_rate: rate, output_burst: burst, ..block(Service::Connection) };
            let mut scene = Scene::opened(codec, limited);
            let first = scene.send(10);
            let mut status = scene.status(NONE, 10, 1_000_000, first[0].sync);
            if let Some((inrate, inburst)) = peer {
                (status.traffic.inrate, status.traffic.inburst) = (inrate, inburst);
                (status.clock.rate, status.clock.burst) = (inrate, inburst);
            }
            scene.wait(1000);
            scene.half.take();
            scene.feed(&status);
            let (rate, burst) =
                peer.map_or((u64::from(rate), u64::from(burst)), |(rate, burst)| (rate.into(), burst.into()));
            let mut left: Vec<(u64, u64)> = Vec::new();
            let mut sent = scene.send(60_000);
            for _ in 0..3000 {
                let at = scene.half.now.as_nanos();
                left.extend(sent.iter().map(|packet| (at, packet.len() as u64)));
                sent = scene.wait(1);
            }
            let total: u64 = left.iter().map(|(_, n)| n).sum();
            assert!(total >= 60_000, "{total}");
            for (from, (begun, _)) in left.iter().enumerate() {
                let mut bytes = 0;
                for (at, n) in &left[from..] {
                    bytes += n;
                    let allowed = burst.max(1400) + (at - begun) * rate / 1_000_000_000 + 1;
                    assert!(bytes <= allowed, "{codec:?}: {bytes} bytes in {} ns, not {allowed}", at - begun);
                }
            }
        }
    }
}

/// Between the clock and the network anything may come: a driver that is interrupted there, and at other times wakes up late, so
/// that the bucket is full.
//= X-19 test
#[test]
fn the_burst_is_not_exceeded_where_trains_leave_not_how_late_they_may() {
    const BYTES: u64 = 400_000;
    for (codec, rate, burst) in CODECS
        .into_iter()
        .flat_map(|codec| [(codec, 12_500_000, 16 << 10), (codec, 125_000_000, 64 << 10), (codec, 1_250_000, 1400)])
    {
        for seed in 0..10 {
            let mut random = Random::from_seed(seed);
            let mut micros = |most| Duration::from_micros(random.below(most));
            let mut scene = unanswered(codec, rate, burst);
            let mut left: Vec<(Time, u32)> = Vec::new();
            let buffer = scene.half.memory.add(vec![1; BYTES as usize]);
            let (context, output) = (scene.context(), pinnace_xtp::Output::bytes(buffer, BYTES));
            scene.half.lateness = micros(300);
            scene.half.call(|engine, now| engine.send(now, context, output)).expect("taken");
            loop {
                let packets = scene.half.take_sent().into_iter();
                let data = packets.map(|sent| (sent.at, Got::parse(codec, &sent.bytes).len() as u32));
                left.extend(data.filter(|(_, bytes)| *bytes > 0));
                if left.iter().map(|(_, bytes)| u64::from(*bytes)).sum::<u64>() >= BYTES {
                    break;
                }
                scene.half.lateness = micros(300);
                // Sometimes so late that all credit is there again, which a full bucket lets pass.
                let pause = if micros(4).is_zero() { micros(10_000) } else { micros(50) };
                let newest = left.last().map_or(Time::ZERO, |(at, _)| *at);
                scene.half.now = scene.half.next_timer().expect("data wait").max(newest) + pause;
                let now = scene.half.now;
                scene.half.engine.handle_timeout(now);
                scene.half.drain();
            }
            let (mut level, mut last) = (0.0_f64, left[0].0);
            for (at, bytes) in left {
                level = (level - at.since(last).as_secs_f64() * f64::from(rate)).max(0.0) + f64::from(bytes);
                assert!(
                    level <= f64::from(burst) + 0.5,
                    "{codec:?}, {rate} bytes a second, seed {seed}: a burst of {level}"
                );
                last = at;
            }
        }
    }
}

/// A driver that wakes up when it is told to.
//= X-19 test
#[test]
fn a_burst_of_one_packet_does_not_miss_its_rate() {
    const BYTES: u64 = 400_000;
    for codec in CODECS {
        for (rate, burst) in [(12_500_000, 1400), (12_500_000, 16 << 10), (125_000_000, 1400)] {
            let mut scene = unanswered(codec, rate, burst);
            let buffer = scene.half.memory.add(vec![1; BYTES as usize]);
            let (context, output) = (scene.context(), pinnace_xtp::Output::bytes(buffer, BYTES));
            let begun = scene.half.now;
            scene.half.call(|engine, now| engine.send(now, context, output)).expect("taken");
            let mut left = 0;
            loop {
                let packets = scene.half.take_sent().into_iter();
                left += packets.map(|sent| Got::parse(codec, &sent.bytes).len() as u64).sum::<u64>();
                if left == BYTES {
                    break;
                }
                assert!(!scene.half.engine.bears(Duration::from_millis(2)), "it must not oversleep");
                scene.half.now = scene.half.next_timer().expect("data wait");
                let now = scene.half.now;
                scene.half.engine.handle_timeout(now);
                scene.half.drain();
            }
            let took = scene.half.now.since(begun).as_secs_f64();
            let reached = (BYTES - u64::from(burst)) as f64 / took / f64::from(rate);
            assert!(reached > 0.99, "{codec:?}, burst {burst}: {reached} of {rate} bytes a second");
        }
    }
}

//= X-19 test
#[test]
fn packets_leave_room_in_the_burst_for_what_is_earned_while_they_wait() {
    for (burst, longest) in [(32 << 10, 4096), (2000, 1400)] {
        let limited =
            ControlBlock { output_rate: 1_000_000, output_burst: burst, maxdata: 60_000, ..block(Service::Connection) };
        let config = pinnace_xtp::Config { datagram_bytes: 65_507, ..crate::scene::config(CODECS[0]) };
        let mut scene = Scene::opened_with(config, limited);
        let sent = scene.send(30_000);
        assert_eq!(sent.iter().map(Got::len).max(), Some(longest));
    }
}
