//! An engine that allocates storage while it handles a read.

use core::time::Duration;
use pinnace_sim::{HostId, Inbox, Simulation};
use pinnace_testing::scrolls::{DATAGRAM, Event, STORAGE, Scrolls, datagram};

const A: HostId = HostId::new(0);
const B: HostId = HostId::new(1);

/// One read of these datagrams by host B.
fn read(simulation: &mut Simulation<Scrolls>, datagrams: &[[u8; DATAGRAM]]) {
    let before = simulation.counters(B).reads;
    simulation.call(A, |engine| engine.to_send.extend(datagrams));
    simulation.run_for(Duration::from_millis(1));
    assert_eq!(simulation.counters(B).reads, before + 1);
}

fn pair() -> Simulation<Scrolls> {
    Simulation::<Scrolls, Inbox<Event>>::pair(1, Default::default(), &"".parse().unwrap())
}

fn events(simulation: &Simulation<Scrolls>) -> Vec<Event> {
    simulation.application(B).events.iter().map(|(_, event)| *event).collect()
}

#[test]
fn storage_holds_what_came_early_with_and_after_the_header_and_no_zeros() {
    let mut simulation = pair();
    read(&mut simulation, &[datagram(b'D', 1, b'b')]);
    read(&mut simulation, &[datagram(b'H', 4, 0), datagram(b'D', 0, b'a'), datagram(b'D', 3, b'd')]);
    let moved = simulation.counters(B).bytes_moved;
    read(&mut simulation, &[datagram(b'D', 2, b'c')]);
    assert_eq!((moved, simulation.counters(B).bytes_moved), (12, 12));
    let [Event::Complete(buffer)] = events(&simulation)[..] else { panic!("one message") };
    let message = simulation.take_buffer(B, buffer);
    assert_eq!((message.len(), &message[..24]), (STORAGE, &b"aaaaaabbbbbbccccccdddddd"[..]));
    assert!(message[24..].iter().all(|byte| *byte != 0));
    assert_eq!(simulation.counters(B).bad_ranges, 0);
}

#[test]
fn storage_released_in_the_read_that_lands_in_it_goes_without_harm() {
    let mut simulation = pair();
    read(&mut simulation, &[datagram(b'H', 3, 0), datagram(b'D', 2, b'z')]);
    let old = simulation.engine(B).into.unwrap();
    read(
        &mut simulation,
        &[
            datagram(b'D', 0, b'x'),
            datagram(b'D', 2, b'y'),
            datagram(b'X', 0, 0),
            datagram(b'H', 2, 0),
            datagram(b'D', 1, b'b'),
        ],
    );
    read(&mut simulation, &[datagram(b'D', 0, b'a')]);
    let [Event::Complete(new)] = events(&simulation)[..] else { panic!("one message") };
    assert_ne!(new, old);
    assert!(simulation.buffer(B, old).is_empty());
    assert_eq!(simulation.buffer(B, new)[..12], *b"aaaaaabbbbbb");
    assert_eq!(simulation.counters(B).bad_ranges, 0);
}

#[test]
fn storage_of_a_message_that_dies_can_be_taken() {
    let mut simulation = pair();
    read(&mut simulation, &[datagram(b'H', 3, 0)]);
    simulation.call(B, |engine| engine.mortal = true);
    simulation.run_for(Duration::from_millis(1));
    let [Event::Died(buffer)] = events(&simulation)[..] else { panic!("one death") };
    assert_eq!(simulation.take_buffer(B, buffer).len(), STORAGE);
    assert!(simulation.buffer(B, buffer).is_empty());
    assert_eq!(simulation.engine(B).refused, 0);
}
