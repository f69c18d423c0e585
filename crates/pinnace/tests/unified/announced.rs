//! Frames of VRP whose headers go ahead, because the service says how long messages are and how soon they follow each other.

use super::body::{LONG, Pair, pair_with, pattern, under};
use pinnace::link::FaultOptions;
use pinnace::service::Method;
use pinnace::{Connection, EndpointOptions};
use std::time::Duration;

/// What the service says; others come as well.
const SIZE: usize = 100_000;

/// Lengths in turn: the announced one several times, shorter and longer ones, and so small ones that nobody announces them.
fn len_of(number: usize) -> usize {
    match number % 12 {
        3 => 10,
        6 => SIZE + 1,
        7 => SIZE - 1,
        10 => 0,
        _ => SIZE,
    }
}

const MESSAGES: usize = 120;

fn send_all(connection: &Connection, seed: u8) {
    for number in 0..MESSAGES {
        let delivery = connection.send(pattern(len_of(number), seed.wrapping_add(number as u8))).unwrap();
        match number {
            // Nobody follows the announcement in time.
            50 => std::thread::sleep(Duration::from_millis(2300)),
            // Nothing is under way.
            _ if number % 5 == 0 => drop(delivery.wait().unwrap()),
            _ => {}
        }
    }
    connection.close(LONG).unwrap();
}

fn expect_all(connection: &Connection, seed: u8) {
    for number in 0..MESSAGES {
        let received = connection.recv_timeout(LONG).unwrap().unwrap();
        let expected = pattern(len_of(number), seed.wrapping_add(number as u8));
        assert!(received.is_whole() && *received == *expected, "message {number}: {} bytes", received.len());
        assert_eq!((received.missed(), received.is_late()), (0, false), "message {number}");
    }
    assert!(connection.recv_timeout(LONG).unwrap().is_none() && !connection.is_end_missing());
}

/// Whatever comes instead of what was announced, nothing is waited for, or missing.
fn nothing_is_missed(service: &str, options: &EndpointOptions) {
    let service = service.parse().unwrap();
    let Pair { client, server, _endpoint } = pair_with(Method::Vrp, &service, options);
    std::thread::scope(|scope| {
        scope.spawn(|| send_all(&client, 1));
        scope.spawn(|| send_all(&server, 2));
        scope.spawn(|| expect_all(&client, 2));
        expect_all(&server, 1);
    });
}

#[test]
fn who_sends_something_else_than_was_announced_leaves_no_gap() {
    nothing_is_missed("direction=duplex size=100kB largest=1MB rate=100mbit", &EndpointOptions::default());
}

#[test]
fn nor_over_a_path_that_loses() {
    let fault =
        FaultOptions { loss: 0.05, duplication: 0.02, reordering: 0.02, reordering_distance: 5, ..Default::default() };
    nothing_is_missed("direction=duplex size=100kB largest=1MB rate=100mbit", &under(fault));
}
