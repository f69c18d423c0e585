//! Without retransmission: what arrives is delivered in order, gaps are told, and what is too old never leaves.
mod support;

use core::time::Duration;
use pinnace_a1::{Config, Event, Qos, Status};
use pinnace_core::{ControllerKind, Time};
use support::*;

/// A stream of messages of one size, told apart by their first bytes.
fn numbered(count: u32, size: usize) -> Vec<Vec<u8>> {
    (0..count)
        .map(|number| {
            let mut message = pattern(size, number as u8);
            message[..4].copy_from_slice(&number.to_be_bytes());
            message
        })
        .collect()
}

//= A-21 test
#[test]
fn gaps_are_marked_and_every_block_is_counted() {
    for seed in 0..10 {
        for network in ["delay=5ms,loss=5%", "delay=5ms,burst-loss=2%:30%", "delay=5ms,reorder=5%:2ms,duplicate=5%"] {
            let messages = numbered(300, 2500);
            let client = Program::opening(raw(), messages.clone(), Some(LINGER));
            let mut world = world(seed, raw(), network, Program::listening(vec![], None), client);
            quiet(&mut world);
            let (there, here) = (seen(&world, SERVER), seen(&world, CLIENT));
            assert_eq!((&there.closed, &here.closed), (&Some(Ok(())), &Some(Ok(()))), "{seed} {network}");
            assert_eq!(here.delivered(), 300, "all of them have left");
            let counters = world.engine(SERVER).counters();
            assert_eq!(world.engine(CLIENT).counters().blocks_sent, 900);
            assert_eq!(world.engine(CLIENT).counters().blocks_repeated, 0, "nothing is repeated");
            let blocks: u64 = there.parts.iter().map(|(len, _)| u64::from(len.div_ceil(1000))).sum();
            assert_eq!(blocks + counters.blocks_lost, 900, "{seed} {network}: {counters:?}");
            assert!(counters.blocks_lost > 0);
            // Bit 8 stands before what follows a gap, and nowhere else: whole messages that start right behind another
            // one have no gap.
            let (mut gaps, mut is_open) = (0, false);
            for (len, status) in &there.parts {
                assert!(*len > 0);
                let starts = status.contains(Status::START);
                if is_open || !starts {
                    assert!(status.contains(Status::LOST), "{seed} {network}: a message goes on or has no start");
                }
                gaps += u64::from(status.contains(Status::LOST));
                is_open = !status.contains(Status::END);
            }
            assert!(gaps > 0 && gaps <= counters.blocks_lost);
            for message in &there.messages {
                let number = u32::from_be_bytes(message[..4].try_into().expect("four bytes"));
                assert!(*message == messages[number as usize], "{seed} {network}: {number}");
            }
            assert!(there.messages.len() > 150 && there.torn > 0, "{} {}", there.messages.len(), there.torn);
            clean(&world);
        }
    }
}

//= A-21, A-22 test
#[test]
fn messages_that_are_lost_whole_leave_the_bit_behind() {
    // Messages of one block: every loss is a whole message.
    let messages = numbered(400, 500);
    let client = Program::opening(raw(), messages.clone(), Some(LINGER));
    let mut world = world(3, raw(), "delay=5ms,loss=10%", Program::listening(vec![], None), client);
    quiet(&mut world);
    let there = seen(&world, SERVER);
    let mut next = 0;
    for (message, (_, status)) in there.messages.iter().zip(&there.parts) {
        let number = u32::from_be_bytes(message[..4].try_into().expect("four bytes"));
        assert_eq!(status.contains(Status::LOST), number > next, "message {number} after {next}");
        assert!(status.contains(Status::START | Status::END) && number >= next);
        next = number + 1;
    }
    assert!(there.messages.len() < 390 && there.messages.len() == there.parts.len());
    assert_eq!(there.messages.len() as u64 + world.engine(SERVER).counters().blocks_lost, 400);
}

//= A-11 test
#[test]
fn what_is_too_old_never_leaves() {
    // 100 kB/s carry a tenth of what is sent; blocks wait for 50 ms at most.
    let qos = Qos {
        send_average: 100_000,
        send_burst: 2000,
        deadline: 50_000,
        outstanding: 2000,
        largest_sent: 10_000,
        largest_received: 10_000,
        ..raw()
    };
    let client = Program::new(
        move |now, core, host| {
            core.open(now, host, SERVER, qos);
        },
        |_, event, _, host| {
            if let Event::Connected { .. } = event {
                host.wake_after(Duration::ZERO, 0);
            }
        },
    )
    .waking(|now, token, core, host| {
        let id = core.id();
        let mut message = pattern(1000, 0);
        message[..4].copy_from_slice(&(token as u32).to_be_bytes());
        core.put(now, host, id, vec![message]);
        if token < 1000 {
            host.wake_after(Duration::from_millis(1), token + 1);
        } else {
            core.close(now, host, id, LINGER);
        }
    });
    let mut world = world(1, qos, "delay=10ms", Program::listening(vec![], None), client);
    quiet(&mut world);
    let (there, here) = (seen(&world, SERVER), seen(&world, CLIENT));
    let counters = world.engine(CLIENT).counters();
    assert_eq!(
        here.sent.len(),
        1001,
        "{:?} {:?} {:?} {:?}",
        world.application(CLIENT).core.refused,
        here.closed,
        here.closed_at,
        counters
    );
    assert_eq!(here.delivered(), there.messages.len(), "what left arrived: the rest came back as not delivered");
    assert_eq!(counters.blocks_stale as usize + here.delivered(), 1001);
    assert!((95..=115).contains(&there.messages.len()), "{}", there.messages.len());
    for (message, at) in there.messages.iter().zip(&there.times) {
        let number = u32::from_be_bytes(message[..4].try_into().expect("four bytes"));
        // Connected after 20 or 40 ms (the cookie), one a millisecond, 10 ms on their way.
        let age = at.since(millis(40 + u64::from(number)));
        assert!(age <= Duration::from_millis(62), "message {number} is {age:?} old");
    }
    // The receiver sees how much is missing, though no block was lost on the way.
    assert!(there.parts.iter().any(|(_, status)| status.contains(Status::LOST)));
    assert_eq!(world.engine(SERVER).counters().blocks_lost, counters.blocks_stale);
    clean(&world);
}

#[test]
fn a_reliable_connection_drops_nothing_however_old() {
    let qos = Qos { send_average: 100_000, send_burst: 2000, deadline: 1000, ..reliable() };
    let client = Program::opening(qos, patterns(&[20_000, 10_000]), Some(LINGER));
    let mut world = world(1, qos, "delay=10ms", Program::listening(vec![], None), client);
    quiet(&mut world);
    assert!(seen(&world, SERVER).messages == patterns(&[20_000, 10_000]));
    assert_eq!(world.engine(CLIENT).counters().blocks_stale, 0);
}

//= A-9, A-21 test
#[test]
fn a_raw_receiver_that_does_not_read_closes_the_window_too() {
    let qos = Qos { largest_sent: 10_000, largest_received: 10_000, outstanding: 2, ..raw() };
    let client = Program::opening(qos, numbered(100, 1000), None);
    let server = Program::listening(vec![], None).with(|core| core.is_deaf = true);
    let mut world = world(1, qos, "delay=5ms,loss=5%", server, client);
    world.run_for(Duration::from_secs(5));
    assert_eq!(world.engine(CLIENT).counters().blocks_sent, 20, "the window");
    let now = world.now();
    world.with_application(SERVER, |program, host| {
        program.core.is_deaf = false;
        let id = program.core.id();
        program.core.read(now, id, host);
    });
    world.run_for(Duration::from_secs(5));
    assert_eq!(world.engine(CLIENT).counters().blocks_sent, 100);
    let lost = world.engine(SERVER).counters().blocks_lost;
    assert_eq!(seen(&world, SERVER).messages.len() as u64 + lost, 100);
}

#[test]
fn every_controller_carries_raw_blocks_at_their_rate() {
    for kind in [ControllerKind::Cubic, ControllerKind::Bbr] {
        let qos = Qos { send_average: 2_000_000, send_burst: 4000, ..raw() };
        let configs = [0, 1].map(|end| Config { congestion: kind, ..config(qos, 40 + end) });
        let client = Program::opening(qos, numbered(2000, 1000), Some(LINGER * 4));
        let mut world = world_of(configs, "delay=10ms,rate=20mbit", Program::listening(vec![], None), client);
        quiet(&mut world);
        assert_eq!(seen(&world, SERVER).messages.len(), 2000, "{kind:?}");
        assert_eq!(seen(&world, CLIENT).closed, Some(Ok(())), "{kind:?}");
        let took = seen(&world, SERVER).closed_at.expect("closed").since(Time::ZERO);
        assert!(took < Duration::from_millis(1150), "{kind:?}: {took:?}");
    }
}
