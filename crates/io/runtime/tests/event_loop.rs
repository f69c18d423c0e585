//! An event loop of the application's own reads the link; the worker only sends.

mod common;

use common::*;
use pinnace_link::Link;
use pinnace_runtime::{EndpointConfig, Idle, WaitError, WakeFd};
use std::time::{Duration, Instant};

/// Whether the link of an endpoint has something to read, within so many milliseconds.
fn readable(endpoint: &ToyEndpoint, timeout: i32) -> bool {
    let fd = endpoint.with_link(|link| link.descriptors().readable);
    let mut entry = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry, which lives through the call.
    unsafe { libc::poll(&raw mut entry, 1, timeout) == 1 }
}

#[test]
fn what_arrives_is_left_to_the_loop_and_timers_to_the_worker() {
    let (client, server) = endpoints(EndpointConfig::default());
    server.set_worker_reads(false).unwrap();
    for number in 0..20 {
        send(&client, number);
        assert!(readable(&server, 20_000));
        std::thread::sleep(Duration::from_millis(2));
        assert!(readable(&server, 0), "the worker has read it");
        assert!(server.progress().unwrap());
        assert!(server.inspect(|_, _, inbox| inbox.received.remove(&number)));
        acked(&client, number).unwrap();
        while server.progress().unwrap() {}
    }
    // What is not acknowledged is repeated, although nobody is inside.
    client.set_worker_reads(false).unwrap();
    send(&client, 100);
    eventually("a timer of the worker fires", || client.inspect(|engine, _, _| engine.resent >= 3));
    while server.progress().unwrap() {}
    assert!(readable(&client, 20_000));
    assert!(!client.inspect(|_, _, inbox| inbox.acked.contains(&100)));
    assert!(client.progress().unwrap());
    assert!(client.inspect(|_, _, inbox| inbox.acked.contains(&100)));
}

#[test]
fn a_thread_that_waits_reads_for_itself() {
    let (client, server) = endpoints(EndpointConfig::default());
    client.set_worker_reads(false).unwrap();
    server.set_worker_reads(false).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..500 {
                receive(&server, number).unwrap();
            }
            acked(&server, 1000).unwrap();
        });
        for number in 0..500 {
            send(&client, number);
            acked(&client, number).unwrap();
        }
        // Lets the server's thread go.
        send(&server, 1000);
        receive(&client, 1000).unwrap();
    });
    let resent = client.inspect(|engine, _, _| engine.resent);
    assert!(resent < 50, "{resent} of 500 came too late");
}

#[test]
fn a_turn_beside_a_sleeping_driver_tells_it() {
    let (client, server) = endpoints(alone(Idle::Block));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| receive(&client, 7).unwrap());
        send(&server, 7);
        // Whoever reads it: the thread that waits finds out.
        while !waiting.is_finished() {
            client.progress().unwrap();
        }
    });
}

#[test]
fn the_worker_reads_again_when_it_is_told() {
    let (client, server) = endpoints(EndpointConfig::default());
    for number in 0..200 {
        server.set_worker_reads(false).unwrap();
        send(&client, number);
        server.set_worker_reads(true).unwrap();
        eventually("the worker reads", || server.inspect(|_, _, inbox| inbox.received.remove(&number)));
    }
    let resent = client.inspect(|engine, _, _| engine.resent);
    assert!(resent < 20, "{resent} of 200 came too late");
}

fn soon() -> Option<Instant> {
    Some(Instant::now() + Duration::from_secs(20))
}

#[test]
fn a_thread_serves_another_descriptor_beside_the_link() {
    for idle in [Idle::Block, Idle::ADAPTIVE] {
        let (client, server) = endpoints(alone(idle));
        let beside = WakeFd::new().unwrap();
        let wait = |deadline| {
            let ready = |inbox: &mut Inbox| inbox.received.pop_first();
            server.wait_beside(beside.as_fd(), ready, deadline)
        };
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(20));
                beside.signal();
                std::thread::sleep(Duration::from_millis(20));
                send(&client, 7);
            });
            assert!(matches!(wait(soon()), Ok(None)), "asleep on the link, it looks beside");
            beside.clear();
            assert!(matches!(wait(soon()), Ok(Some(7))), "and on the link meanwhile");
            other.join().unwrap();
        });
        assert!(matches!(wait(Some(Instant::now())), Err(WaitError::Timeout)), "nothing is left");
        beside.signal();
        assert!(matches!(wait(soon()), Ok(None)), "what is there ends it at once");
    }
}

#[test]
fn a_thread_that_follows_another_sees_its_descriptor_as_well() {
    let (client, server) = endpoints(alone(Idle::Block));
    let beside = WakeFd::new().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| receive(&server, 8).unwrap());
        eventually("it drives", || server.counters().application_drives > 0);
        beside.signal();
        assert!(matches!(server.wait_beside(beside.as_fd(), |_| None::<()>, soon()), Ok(None)));
        send(&client, 8);
    });
}
