//! Checksums that a host fills in because its engine does not see payload.

use core::time::Duration;
use pinnace_core::{
    Address, BufferId, BufferRange, Checksum, ChecksumAt, ChecksumKind, Engine, Placed, PollAt, ReceivePlan, RxMeta,
    Time, Train,
};
use pinnace_sim::{HostId, Inbox, Simulation};
use pinnace_wire::checksum::{Cxor, Internet, cxor, internet};

const A: HostId = HostId::new(0);
const B: HostId = HostId::new(1);
const HEADER: [u8; 8] = [0xC5, 1, 0, 0, 0, 0, 7, 8];
const INTERNET: Checksum =
    Checksum { kind: ChecksumKind::Internet, skip_head: 0, skip_tail: 0, at: ChecksumAt::Head(2) };
const CXOR: Checksum = Checksum { kind: ChecksumKind::Cxor, skip_head: 8, skip_tail: 4, at: ChecksumAt::Tail(4) };

/// Sends datagrams of a header, two ranges of a buffer and a trailer; reports what comes, and its checksum.
#[derive(Debug, Default)]
struct Summed {
    buffer: Option<BufferId>,
    to_send: Vec<Checksum>,
    seen: Vec<(Vec<u8>, u32)>,
    /// Receives into the buffer, where odd slots tear the datagrams.
    torn: bool,
}

impl Engine for Summed {
    type Event = (Vec<u8>, u32);

    fn handle_datagrams(&mut self, _: Time, _: &RxMeta, rx: &mut Placed<'_>) {
        while let Some(segment) = rx.next_segment() {
            let (mut sum, mut cxor) = (Internet::new(), Cxor::new());
            rx.pieces(&segment, 0..segment.len).for_each(|piece| sum.add(piece));
            rx.pieces(&segment, 8..segment.len - 4).for_each(|piece| cxor.add(piece));
            let is_internet = rx.head::<8>(&segment).is_some_and(|head| head[2..4] != [0; 2]);
            let value = if is_internet { u32::from(sum.finish()) } else { cxor.finish() };
            let mut scratch = Vec::new();
            self.seen.push((rx.whole(&segment, &mut scratch).to_vec(), value));
        }
    }

    fn handle_timeout(&mut self, _: Time) {}

    fn plan_receive(&self, plan: &mut ReceivePlan) {
        if let Some(buffer) = self.buffer.filter(|_| self.torn) {
            for low in [0, 13, 26] {
                plan.payload(BufferRange::new(buffer, low, 13));
                plan.pooled(3);
            }
        }
    }

    fn poll_transmit(&mut self, _: Time, train: &mut Train) -> bool {
        let (Some(checksum), Some(buffer)) = (self.to_send.pop(), self.buffer) else { return false };
        train.begin(Address::Peer, 64);
        train.set_checksum(Some(checksum));
        for lens in [(31, 21), (1, 51), (20, 5)] {
            train.inline(&HEADER);
            train.payload(BufferRange::new(buffer, 1, lens.0));
            train.payload(BufferRange::new(buffer, 77, lens.1));
            train.zeros(4);
            train.end_segment();
        }
        true
    }

    fn poll_at(&self) -> PollAt {
        PollAt::Ingress
    }

    fn poll_event(&mut self) -> Option<Self::Event> {
        self.seen.pop()
    }
}

#[test]
fn every_datagram_leaves_with_its_checksum_once_the_link_takes_the_train() {
    for (checksum, blocked, torn) in
        [(INTERNET, false, false), (INTERNET, true, true), (CXOR, false, true), (CXOR, true, false)]
    {
        let network = "delay=1ms".parse().unwrap();
        let mut simulation: Simulation<Summed, Inbox<_>> =
            Simulation::pair(1, [Summed::default(), Summed { torn, ..Summed::default() }], &network);
        for host in [A, B] {
            let buffer = simulation.add_buffer(host, (0..=255).map(|i: u8| i.wrapping_mul(31)).collect());
            simulation.call(host, |engine| engine.buffer = Some(buffer));
        }
        if blocked {
            simulation.block_link(A, Duration::from_millis(5));
        }
        simulation.call(A, |engine| engine.to_send.push(checksum));
        simulation.run_until_quiet(Time::MAX);
        assert_eq!(simulation.counters(A).sends_blocked, u64::from(blocked));
        let events = &simulation.application(B).events;
        assert_eq!(events.len(), 3);
        let mut lens: Vec<usize> = events.iter().map(|(_, (bytes, _))| bytes.len()).collect();
        lens.sort_unstable();
        assert_eq!(lens, [37, 64, 64]);
        for (_, (bytes, value)) in events {
            match checksum.kind {
                ChecksumKind::Internet => {
                    assert_ne!(bytes[2..4], [0; 2], "filled in");
                    assert_eq!((internet(bytes), *value), (0, 0), "over itself it is nothing");
                }
                ChecksumKind::Cxor => {
                    let (rest, trailer) = bytes.split_at(bytes.len() - 4);
                    assert_eq!(bytes[..8], HEADER);
                    assert_ne!(trailer, [0; 4], "filled in");
                    assert_eq!((trailer, *value), (&cxor(&rest[8..]).to_be_bytes()[..], cxor(&rest[8..])));
                }
            }
        }
    }
}
