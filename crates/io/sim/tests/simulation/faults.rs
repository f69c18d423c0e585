//! Hosts that die, freeze, or go mad.

use crate::bulk::{Event, UNIT};
use crate::probe::{Probe, Seen};
use crate::transfers::{A, B, DEADLINE, Transfer};
use core::time::Duration;
use pinnace_core::{Address, PathEvent, Time};
use pinnace_sim::{Fate, HostConfig, Inbox, NetworkConfig, Outcome, Simulation, on_event};

fn ms(millis: u64) -> Time {
    Time::ZERO + Duration::from_millis(millis)
}

fn pair(network: &str) -> Simulation<Probe> {
    Simulation::pair(1, [Probe::default(), Probe::default()], &network.parse().unwrap())
}

#[test]
fn a_deadlock_is_noticed() {
    // The receiver has no timer and the sender is gone: nothing will ever happen.
    let mut transfer = Transfer::new(1, "delay=10ms", 100 * UNIT, HostConfig::default());
    transfer.simulation.schedule(ms(15), |simulation| simulation.power_off(A));
    assert_eq!(transfer.simulation.run(DEADLINE), Outcome::Quiet);
    assert!(!transfer.arrived() && transfer.simulation.now() < ms(100));
}

#[test]
fn a_dead_receiver_is_noticed() {
    let mut transfer = Transfer::new(1, "delay=10ms", 100 * UNIT, HostConfig::default());
    transfer.simulation.schedule(ms(15), |simulation| simulation.power_off(B));
    assert_eq!(transfer.simulation.run(DEADLINE), Outcome::Done);
    assert_eq!(transfer.simulation.application(A).end.map(|end| end.1), Some(Event::GaveUp));
    assert!(transfer.simulation.trace().count(Fate::HostDown) > 32);
}

#[test]
fn a_killed_process_answers_with_unreachable_and_may_come_back() {
    let mut simulation = pair("delay=10ms");
    simulation.kill(B);
    simulation.call(A, |probe| probe.send(B.address(), 10, 1));
    simulation.run_until_quiet(Time::MAX);
    assert_eq!(simulation.application(A).events, [(ms(20), Seen::Path(PathEvent::Unreachable))]);
    simulation.restart(B, Probe { echo: true, ..Probe::default() });
    simulation.call(A, |probe| probe.send(B.address(), 10, 1));
    simulation.run_until_quiet(Time::MAX);
    assert_eq!((simulation.application(A).events.len(), simulation.application(B).events.len()), (3, 2));
}

#[test]
fn a_frozen_host_wakes_to_everything_at_once() {
    let mut simulation = pair("delay=10ms");
    simulation.freeze(B, Duration::from_secs(1));
    for at in 0..5 {
        simulation.schedule(ms(at * 100), |simulation| simulation.call(A, |probe| probe.send(B.address(), 10, 2)));
    }
    assert_eq!(simulation.run_until(ms(999), |s| !s.application(B).events.is_empty()), Outcome::DeadlineReached);
    simulation.run_until_quiet(Time::MAX);
    let events = &simulation.application(B).events;
    assert!(events.len() == 15 && events.iter().all(|(time, _)| *time == ms(1000)), "{events:?}");
}

#[test]
fn a_full_receive_buffer_loses() {
    let mut simulation: Simulation<Probe> = Simulation::new(1);
    let config = HostConfig { receive_buffer: 1000, ..HostConfig::default() };
    for _ in 0..2 {
        simulation.add_host_with(Probe::default(), Inbox::default(), config);
    }
    simulation.link(A, B, &NetworkConfig::default(), &NetworkConfig::default());
    simulation.freeze(B, Duration::from_secs(1));
    simulation.call(A, |probe| probe.send(B.address(), 300, 5));
    simulation.run_until_quiet(Time::MAX);
    assert_eq!((simulation.counters(B).datagrams_received, simulation.counters(B).receive_buffer_drops), (3, 2));
    assert_eq!(simulation.trace().count(Fate::ReceiveBufferFull), 2);
}

#[test]
fn a_blocked_link_holds_a_train_and_loses_none() {
    let mut transfer = Transfer::new(1, "delay=10ms", 100 * UNIT, HostConfig::default());
    transfer.simulation.schedule(ms(15), |simulation| simulation.block_link(A, Duration::from_millis(50)));
    assert_eq!(transfer.simulation.run(DEADLINE), Outcome::Done);
    assert!(transfer.arrived());
    // The second window waited from 20 until 65 ms; each of the three left takes 20 ms.
    assert_eq!(transfer.simulation.application(A).end.map(|end| end.0), Some(ms(65 + 60)));
    assert_eq!((transfer.simulation.counters(A).sends_blocked, transfer.simulation.engine(A).retransmitted), (1, 0));
}

#[test]
fn too_large_for_the_own_link_is_reported_at_once() {
    let mut simulation: Simulation<Probe> = Simulation::new(1);
    let config = HostConfig { max_datagram: 1472, ..HostConfig::default() };
    for _ in 0..2 {
        simulation.add_host_with(Probe::default(), Inbox::default(), config);
    }
    simulation.link(A, B, &NetworkConfig::default(), &NetworkConfig::default());
    simulation.call(A, |probe| probe.send(B.address(), 1473, 2));
    simulation.run_until_quiet(Time::MAX);
    let told = PathEvent::TooLarge { to: B.address(), fits: Some(1472) };
    assert_eq!(simulation.application(A).events, [(Time::ZERO, Seen::Path(told))]);
    assert_eq!(simulation.trace().seen(), 0);
}

#[test]
fn an_application_that_never_polls_gets_it_later() {
    let mut simulation = pair("");
    simulation.ignore_events(B, true);
    simulation.call(A, |probe| probe.send(B.address(), 10, 1));
    assert_eq!(simulation.run_until_quiet(Time::MAX), Outcome::Quiet);
    assert!(simulation.application(B).events.is_empty() && simulation.counters(B).events == 2);
    simulation.ignore_events(B, false);
    simulation.run_until_quiet(Time::MAX);
    assert_eq!(simulation.application(B).events.len(), 2);
}

#[test]
fn engines_that_go_round_in_circles_are_stopped() {
    let mut simulation = pair("");
    simulation.call(A, |probe| probe.restless = true);
    assert_eq!(simulation.run(DEADLINE), Outcome::Livelock(Some(A)));

    let mut simulation = pair("");
    simulation.set_event_limit(10_000);
    for host in [A, B] {
        simulation.call(host, |probe| probe.echo = true);
    }
    simulation.call(B, |probe| probe.send(A.address(), 10, 1));
    assert!(matches!(simulation.run_until_quiet(DEADLINE), Outcome::Livelock(_)));

    let mut simulation = pair("");
    simulation.remove_route(B, A);
    simulation.call(B, |probe| probe.endless = true);
    assert_eq!(simulation.run_until_quiet(DEADLINE), Outcome::Livelock(Some(B)));
}

#[test]
fn sockets_can_be_connected_and_moved() {
    let mut simulation = pair("");
    let address = Address::Inet("192.0.2.7:9".parse().unwrap());
    simulation.add_address(B, address);
    simulation.connect(A, B);
    simulation.call(A, |probe| probe.send(Address::Peer, 10, 1));
    simulation.inject(Address::Node(77), B, b"forged");
    simulation.call(B, |probe| probe.send(A.address(), 10, 1));
    simulation.run_until_quiet(Time::MAX);
    let sources = |host| -> Vec<Address> {
        let events = simulation.application(host).events.iter();
        events.filter_map(|(_, s)| if let Seen::Datagram { source, .. } = s { Some(*source) } else { None }).collect()
    };
    assert_eq!(sources(B), [Address::Peer, Address::Node(77)]);
    assert_eq!(sources(A), [Address::Peer]);
}

#[test]
fn applications_can_be_closures() {
    use std::cell::Cell;
    use std::rc::Rc;
    let heard = Rc::new(Cell::new(0));
    let mut simulation = Simulation::new(1);
    for _ in 0..2 {
        let heard = Rc::clone(&heard);
        simulation.add_host(
            Probe::default(),
            on_event::<Probe, _>(move |_, event, host| {
                if let Seen::Datagram { source, bytes, .. } = event {
                    heard.set(heard.get() + 1);
                    if heard.get() < 10 {
                        host.call(|probe| probe.send(source, bytes.len(), 1));
                    }
                }
            }),
        );
    }
    simulation.link(A, B, &"delay=1ms".parse().unwrap(), &"delay=2ms".parse().unwrap());
    simulation.call(A, |probe| probe.send(B.address(), 10, 1));
    assert_eq!(simulation.run_until_quiet(Time::MAX), Outcome::Quiet);
    assert_eq!((heard.get(), simulation.now()), (10, ms(15)));
}

#[test]
fn a_blocked_engine_takes_further_input() {
    let mut simulation = pair("");
    simulation.block_link(A, Duration::from_millis(50));
    for at in 0..3 {
        simulation.schedule(ms(at), |simulation| simulation.call(A, |probe| probe.send(B.address(), 10, 2)));
        simulation.inject(Address::Node(77), A, b"meanwhile");
    }
    simulation.run_until_quiet(Time::MAX);
    let times: Vec<Time> = simulation.application(B).events.iter().map(|event| event.0).collect();
    assert_eq!(times, [ms(50); 9]);
    assert_eq!((simulation.counters(A).sends_blocked, simulation.counters(A).trains_sent), (1, 3));
}

#[test]
fn a_blocked_engine_is_not_asked_again_and_again() {
    let mut simulation = pair("");
    simulation.block_link(A, Duration::from_millis(50));
    simulation.call(A, |probe| {
        probe.send(B.address(), 10, 1);
        probe.restless = true;
    });
    assert_eq!(simulation.run_until_quiet(ms(49)), Outcome::DeadlineReached);
    assert_eq!(simulation.counters(A).timeouts, 0);
}
