//! What it costs that the receiver cannot see the sender's congestion window: ACKs that come too late, too many, or not at all.
#![allow(clippy::print_stdout, reason = "the figures are told to whoever runs the tests with --nocapture")]
mod support;

use core::time::Duration;
use pinnace_a1::{Config, Event, Qos};
use pinnace_core::ControllerKind;
use pinnace_wire::a1::Kind;
use support::*;

const SEED: u64 = 5;

/// How long each of some messages took, that leave `pause` apart, the first when the connection is made; and the receiver's
/// ACKs.
fn carry(kind: ControllerKind, network: &str, size: usize, count: u64, pause: Duration) -> (Vec<Duration>, u64) {
    let qos = Qos { largest_sent: 32 << 20, largest_received: 32 << 20, outstanding: 4, ..reliable() };
    let mut configs = [0, 1].map(|end| Config { congestion: kind, ..config(qos, SEED + end) });
    // Only the sender asks whether the other end is there, by which it sees that nothing has been heard.
    configs[0].idle = Duration::ZERO;
    let client = Program::new(
        move |now, core, host| {
            core.open(now, host, SERVER, qos);
        },
        move |_, event, _, host| {
            if let Event::Connected { .. } = event {
                host.wake_after(Duration::ZERO, 0);
            }
        },
    )
    .waking(move |now, token, core, host| {
        let id = core.id();
        core.put(now, host, id, vec![pattern(size, token as u8)]);
        if token + 1 < count {
            host.wake_after(pause, token + 1);
        }
    });
    let mut world = world_of(configs, network, Program::listening(vec![], None), client);
    world.run_for(pause * count as u32 + Duration::from_secs(2));
    let start = seen(&world, CLIENT).connected_at.expect("connected");
    let times =
        seen(&world, SERVER).times.iter().zip(0_u32..).map(|(at, turn)| at.since(start + pause * turn)).collect();
    assert_eq!(seen(&world, SERVER).messages.len() as u64, count);
    (times, world.engine(SERVER).counters().acks_sent)
}

/// A long message begins with ten blocks, none of which is its last. Twice: in the end the sender has forgotten the path.
#[test]
fn who_has_little_under_way_does_not_wait_for_the_receivers_timer() {
    for (kind, most) in [(ControllerKind::Cubic, 105), (ControllerKind::Bbr, 100)] {
        let (times, acks) = carry(kind, "delay=10ms", 256 << 10, 2, Duration::from_secs(40));
        println!("seed {SEED}, {kind}: 256 kB took {times:?}, {acks} ACKs");
        assert!(times.iter().all(|took| *took < Duration::from_millis(most)), "{kind}: {times:?}");
    }
}

/// The window never grows, to what would make an ACK due.
#[test]
fn a_small_congestion_window_does_not_cost_ten_milliseconds_in_each_round() {
    let small = ControllerKind::Fixed { window: 8 * 1032 };
    let (times, acks) = carry(small, "delay=10ms", 256 << 10, 1, Duration::ZERO);
    println!("seed {SEED}, 8 blocks under way: 256 kB took {times:?}, {acks} ACKs");
    assert!(times[0] < Duration::from_millis(810), "33 rounds of 20 ms, and a quarter of that: {times:?}");
}

/// One ACK in 16 blocks, or in the 10 ms after which one is due anyhow; what the beginning adds is no more than 32.
#[test]
fn a_steady_stream_is_acknowledged_no_more_often() {
    let blocks = (10_u64 << 20).div_ceil(1000);
    let wide = ControllerKind::Fixed { window: 500 * 1032 };
    for (rate, delay, steady) in
        [("100mbit", "10ms", blocks / 16), ("1gbit", "500us", blocks / 16), ("10mbit", "10ms", 875)]
    {
        let network = format!("delay={delay},rate={rate},queue=none");
        let (times, acks) = carry(wide, &network, 10 << 20, 1, Duration::from_secs(9));
        println!("seed {SEED}, {network}: {blocks} blocks took {times:?}, {acks} ACKs");
        assert!(acks <= steady + 32, "{network}: {acks}");
    }
}

/// The sender does not know that all but the first have come, and has more under way, it thinks, than it may. The receiver has
/// no more to acknowledge, and asks.
//= A-7 test
#[test]
fn lost_acks_do_not_hold_back_what_is_asked_for() {
    let configs = [0, 1].map(|end| Config { congestion: ControllerKind::Cubic, ..config(reliable(), SEED + end) });
    let client = Program::opening(reliable(), patterns(&[50_000]), Some(LINGER));
    let mut world = world_of(configs, "delay=5ms", Program::listening(vec![], None), client);
    let mut is_first = true;
    tap(&mut world, CLIENT, SERVER, move |sight| sight.kind() == Kind::Data && core::mem::take(&mut is_first));
    tap(&mut world, SERVER, CLIENT, |sight| sight.kind() == Kind::Ack && sight.at < millis(60));
    quiet(&mut world);
    assert_eq!(seen(&world, CLIENT).closed, Some(Ok(())));
    assert_eq!(seen(&world, SERVER).messages, patterns(&[50_000]));
    assert!(seen(&world, SERVER).times[0] < millis(500), "{:?}", seen(&world, SERVER).times);
    clean(&world);
}

//= A-7 test
//= A-8 test
#[test]
fn a_path_whose_round_trips_are_all_alike_has_no_timeouts() {
    let qos = Qos { block_size: 1440, outstanding: 1, ..reliable() };
    let configs = [1, 2].map(|seed| Config { congestion: ControllerKind::Cubic, ..config(qos, seed) });
    let client = Program::opening(qos, vec![pattern(30_000, 7); 40], None);
    let mut world = world_of(configs, "rate=100mbit,delay=20ms", Program::listening(Vec::new(), None), client);
    world.run_for(Duration::from_secs(10));
    assert_eq!(seen(&world, SERVER).messages.len(), 40);
    let counters = world.engine(CLIENT).counters();
    assert_eq!((counters.timeouts, counters.blocks_repeated), (0, 0), "nothing was lost");
}
