//! How fast messages cross paths that do not keep the order, on the virtual clock.
mod support;

use core::time::Duration;
use pinnace_a1::Config;
use pinnace_core::{ControllerKind, Time};
use support::*;

/// Megabits a second of 24 messages of 1 MB.
fn carried(network: &str, congestion: ControllerKind) -> f64 {
    let qos = reliable();
    let configs = [0, 1].map(|seed| Config { congestion, ..config(qos, seed) });
    let client = Program::opening(qos, patterns(&[1_000_000; 24]), None);
    let mut world = world_of(configs, network, Program::listening(Vec::new(), None), client);
    world.run_for(Duration::from_secs(30));
    let there = seen(&world, SERVER);
    let took = there.times.last().map_or(Duration::MAX, |at| at.since(Time::ZERO));
    there.messages.len() as f64 * 8.0 / took.as_secs_f64()
}

/// Where what came late was taken for lost, CUBIC carried 1 to 1.7 Mbit/s of these 20.
//= A-7 test
#[test]
fn a_path_that_does_not_keep_the_order_is_used() {
    for (reorder, cubic, bbr) in [("5%:5ms", 13.0, 15.0), ("30%:5ms", 10.0, 10.0), ("30%:50ms", 0.3, 8.0)] {
        for (congestion, least) in [(ControllerKind::Cubic, cubic), (ControllerKind::Bbr, bbr)] {
            let rate = carried(&format!("rate=20mbit,delay=20ms,reorder={reorder}"), congestion);
            assert!(rate > least, "{reorder} {congestion}: {rate}");
        }
    }
}
