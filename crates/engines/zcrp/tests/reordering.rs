//! How fast messages cross paths that do not keep the order, on the virtual clock.
#![allow(clippy::print_stdout, reason = "the figures are told to whoever runs the tests with --nocapture")]

mod common;

use common::World;
use pinnace_core::{ControllerKind, Time};
use pinnace_zcrp::Config;

/// Megabits a second of 16 messages of 1 MiB, and the units that left again of a hundred.
fn carried(network: &str, congestion: ControllerKind) -> (f64, f64) {
    let config = Config { congestion, window_units: 16_384, window_bytes: u64::MAX, ..Config::default() };
    let mut world = World::new(1, &config, network);
    for _ in 0..16 {
        world.send(1 << 20);
        world.post(1 << 20);
    }
    world.check_all_arrived(600);
    let counters = world.sender().counters();
    let rate = 128.0 * 1.048_576 / world.sim.now().since(Time::ZERO).as_secs_f64();
    let again = 100.0 * counters.units_resent as f64 / counters.units_sent as f64;
    println!("{network} {congestion}: {rate:.2} Mbit/s, {again:.1} % again, {} late", counters.units_late);
    (rate, again)
}

//= Z-10 test
#[test]
fn what_comes_late_is_not_taken_for_congestion() {
    for (reorder, cubic, bbr) in
        [("5%:5ms", 15.0, 16.0), ("30%:5ms", 13.0, 13.0), ("5%:50ms", 13.0, 16.0), ("30%:50ms", 3.0, 8.0)]
    {
        let network = format!("rate=20mbit,delay=20ms,reorder={reorder}");
        for (congestion, least) in [(ControllerKind::Cubic, cubic), (ControllerKind::Bbr, bbr)] {
            let (rate, _) = carried(&network, congestion);
            assert!(rate > least, "{network} {congestion}: {rate}");
        }
    }
}

/// Random loss is as loss was: told at once, and nothing taken back.
#[test]
fn loss_that_is_real_still_is() {
    for (loss, most) in [("2%", 5.0), ("5%", 3.0)] {
        let (rate, _) = carried(&format!("rate=20mbit,delay=20ms,loss={loss}"), ControllerKind::Cubic);
        assert!(rate < most, "{loss}: {rate}");
    }
}
