//! What a connection does for its two ends: messages of all sizes, both ways, over networks good and bad.
mod support;

use support::*;

const SIZES: [usize; 14] = [0, 1, 2, 999, 1000, 1001, 0, 0, 1999, 2000, 65_536, 100_000, 1_048_576, 7];

/// The same messages both ways, then both ends close.
fn exchange(seed: u64, qos: pinnace_a1::Qos, network: &str, takes: bool) -> World {
    let (up, down) = (patterns(&SIZES), patterns(&SIZES[3..]));
    let mut server = Program::listening(down.clone(), None);
    server.core.takes = !takes;
    // Whoever closes ends both directions.
    let client = closing_after(qos, up.clone(), down.len()).with(|core| core.takes = takes);
    let mut world = world(seed, qos, network, server, client);
    quiet(&mut world);
    let (there, here) = (seen(&world, SERVER), seen(&world, CLIENT));
    assert!(there.messages == up, "{network}: {:?}", there.messages.iter().map(Vec::len).collect::<Vec<_>>());
    assert!(here.messages == down, "{network}: {:?}", here.messages.iter().map(Vec::len).collect::<Vec<_>>());
    assert_eq!((&there.closed, &here.closed), (&Some(Ok(())), &Some(Ok(()))), "{network}");
    assert_eq!((here.delivered(), there.delivered()), (up.len(), down.len()));
    clean(&world);
    world
}

/// A client that sends, and closes when it has received so many messages.
fn closing_after(qos: pinnace_a1::Qos, messages: Vec<Vec<u8>>, count: usize) -> Program {
    Program::new(
        move |now, core, host| {
            let id = core.open(now, host, SERVER, qos);
            core.put(now, host, id, messages);
        },
        move |now, event, core, host| {
            let pinnace_a1::Event::Readable { connection } = event else { return };
            if core.seen[connection].messages.len() == count && core.seen[connection].closed.is_none() {
                core.close(now, host, *connection, LINGER);
            }
        },
    )
}

//= A-5, A-6, A-7, A-18, A-20 test
#[test]
fn messages_of_all_sizes_arrive_both_ways() {
    for takes in [false, true] {
        exchange(1, reliable(), "delay=5ms", takes);
        exchange(2, reliable(), "", takes);
    }
}
