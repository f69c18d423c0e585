//! The link within a process.

mod support;

use pinnace_core::{Address, Ecn, ReceivePlan, Train};
use pinnace_link::{Link, MemoryLink, MemoryOptions, ReadBuffer, ReadOutcome, SendOutcome};
use support::{Memory, collect, receive_bytes, send_bytes, train_of};

fn readable(link: &dyn Link) -> bool {
    let mut poll = libc::pollfd { fd: link.descriptors().readable, events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid `pollfd`.
    unsafe { libc::poll(&raw mut poll, 1, 0) == 1 }
}

#[test]
fn trains_arrive_whole_and_in_place() {
    for (coalescing, reads) in [(true, 3), (false, 100)] {
        let options = MemoryOptions { coalescing, ..MemoryOptions::default() };
        let (mut a, b) = MemoryLink::pair(&options).unwrap();
        // As at run time: a stack of any links.
        let mut b: Box<dyn Link> = Box::new(b);
        let (source, target) = (Memory::pattern(99_500), Memory::zeros(99_500));
        let mut train = Train::new(a.train_limits());
        for (low, high) in [(0, 40_000), (40_000, 80_000), (80_000, 99_500)] {
            train_of(&mut train, source.id, low, high, 1000);
            assert_eq!(a.send(&train, &source.table).unwrap(), SendOutcome::Sent);
        }
        let arrival = collect(&mut b, &target, 99_500, 1000);
        assert_eq!((arrival.reads, arrival.datagrams, arrival.copied), (reads, 100, 0));
        assert!(source.bytes() == target.bytes());
        assert_eq!(b.counters().bytes_received, a.counters().bytes_sent);
    }
}

#[test]
fn an_end_is_readable_while_something_waits() {
    let (mut a, mut b) = MemoryLink::pair(&MemoryOptions::default()).unwrap();
    assert!(!readable(&a) && !readable(&b));
    for round in 0..3 {
        send_bytes(&mut a, Address::Peer, b"one", Ecn::Capable0);
        send_bytes(&mut a, Address::Peer, b"two", Ecn::NotCapable);
        assert!(readable(&b) && !readable(&a), "{round}");
        let (bytes, read) = receive_bytes(&mut b).unwrap();
        assert_eq!((&bytes[..], read.meta.ecn), (&b"one"[..], Ecn::Capable0));
        assert!(readable(&b));
        assert_eq!(receive_bytes(&mut b).unwrap().0, b"two");
        assert!(!readable(&b));
        let mut plan = ReceivePlan::new();
        plan.top_up(ReadBuffer::READ_BYTES);
        let outcome = b.receive(&plan, &Memory::zeros(1).table, &mut ReadBuffer::new()).unwrap();
        assert!(matches!(outcome, ReadOutcome::Empty));
    }
}

#[test]
fn what_does_not_fit_is_dropped_and_counted() {
    let options = MemoryOptions { receive_buffer: 10_000, max_datagram: 2000, ..MemoryOptions::default() };
    let (mut a, mut b) = MemoryLink::pair(&options).unwrap();
    for _ in 0..12 {
        assert_eq!(send_bytes(&mut a, Address::Peer, &[1; 1000], Ecn::NotCapable), SendOutcome::Sent);
    }
    for _ in 0..10 {
        assert!(receive_bytes(&mut b).is_some());
    }
    assert!(!readable(&b));
    assert_eq!(b.counters().receive_buffer_drops, 2);
    assert_eq!(send_bytes(&mut a, Address::Peer, &[1; 2001], Ecn::NotCapable), SendOutcome::TooLarge(Some(2000)));
    drop(b);
    assert_eq!(send_bytes(&mut a, Address::Peer, &[1], Ecn::NotCapable), SendOutcome::Unreachable);
}
