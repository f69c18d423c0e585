//! Streams that lie in pieces of storage, added as they come and taken by the application.

use super::*;
use pinnace_core::BufferRange;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Storage, and the stream that should be in it.
struct Shelf {
    incoming: Incoming,
    buffers: BTreeMap<u32, Vec<u8>>,
    next: u32,
    /// What the application has got.
    taken: Vec<u8>,
}

fn byte(offset: u64) -> u8 {
    (offset * 7 + offset / 256) as u8
}

impl Shelf {
    /// Of areas of so many bytes.
    fn new(bytes: u32) -> Self {
        Self::of(AreaBytes { most: bytes, least: bytes })
    }

    fn of(areas: AreaBytes) -> Self {
        let incoming = Incoming::new(Policy { areas, ..policy(Keeping::Selective) });
        Self { incoming, buffers: BTreeMap::new(), next: 0, taken: Vec::new() }
    }

    fn receive(&mut self, low: u64, len: u32, end: Option<u64>) -> Taken {
        while let Some(bytes) = self.incoming.needs_area(low + u64::from(len)) {
            let buffer = BufferId::new(self.next);
            self.next += 1;
            self.buffers.insert(buffer.index(), vec![0; bytes as usize]);
            self.incoming.post(buffer, 0, bytes);
        }
        let mut placed = Vec::new();
        let piece = Piece { low, len, eom: false, btag: None, end };
        let taken = self.incoming.on_data(&piece, &mut |range, to| placed.push((range, to)));
        for (range, to) in placed {
            let from = low + u64::from(range.start);
            let buffer = self.buffers.get_mut(&to.buffer.index()).expect("it is ours");
            for (at, place) in buffer[to.offset as usize..][..to.len as usize].iter_mut().enumerate() {
                *place = byte(from + at as u64);
            }
        }
        taken
    }

    fn bytes_of(&self, range: BufferRange) -> &[u8] {
        &self.buffers[&range.buffer.index()][range.offset as usize..][..range.len as usize]
    }

    fn take(&mut self) -> bool {
        let Some((range, _)) = self.incoming.take_area() else { return false };
        let bytes = self.bytes_of(range).to_vec();
        self.taken.extend(bytes);
        self.buffers.remove(&range.buffer.index());
        self.tidy();
        true
    }

    fn read(&mut self, most: u64) {
        let readable = self.incoming.readable();
        let mut left = most.min(readable.len);
        let used = left;
        for part in readable.parts {
            let len = left.min(u64::from(part.len)) as usize;
            if len > 0 {
                let bytes = self.bytes_of(part)[..len].to_vec();
                self.taken.extend(bytes);
            }
            left -= len as u64;
        }
        self.incoming.consume(used);
        self.tidy();
    }

    fn tidy(&mut self) {
        while let Some(buffer) = self.incoming.poll_filled() {
            assert!(self.buffers.remove(&buffer.index()).is_some());
        }
    }

    fn check(&self) {
        assert!(self.taken.iter().enumerate().all(|(at, found)| *found == byte(at as u64)));
        assert_eq!(self.taken.len() as u64, self.incoming.dseq());
    }
}

#[test]
fn alloc_does_not_wait_for_storage() {
    let mut shelf = Shelf::new(64);
    assert_eq!(shelf.incoming.alloc(), 1000);
    shelf.receive(0, 100, None);
    assert_eq!((shelf.incoming.alloc(), shelf.buffers.len()), (1000, 3), "two for the bytes, and one ahead");
}

#[test]
fn an_area_that_is_full_is_taken_whole_and_one_that_is_not_is_cut() {
    let mut shelf = Shelf::new(100);
    shelf.receive(0, 130, None);
    assert!(shelf.take());
    assert_eq!(shelf.taken.len(), 100);
    assert!(shelf.take() && !shelf.take());
    assert_eq!(shelf.taken.len(), 130);
    // What comes next lies at the beginning of the next area.
    shelf.receive(130, 70, None);
    let readable = shelf.incoming.readable();
    assert_eq!((readable.len, readable.parts[0].offset, readable.parts[0].len), (70, 0, 70));
    assert!(shelf.take());
    shelf.check();
}

#[test]
fn an_area_with_something_behind_a_gap_is_not_cut() {
    let mut shelf = Shelf::new(100);
    shelf.receive(0, 50, None);
    shelf.receive(60, 50, None);
    assert!(!shelf.take());
    shelf.read(20);
    shelf.receive(50, 10, None);
    assert!(shelf.take() && shelf.take());
    assert_eq!(shelf.taken.len(), 110);
    shelf.check();
}

#[test]
fn the_end_of_the_stream_leaves_nothing_behind() {
    let mut shelf = Shelf::new(100);
    shelf.receive(0, 5, Some(5));
    assert!(shelf.take());
    assert!(shelf.incoming.is_complete() && shelf.incoming.readable().is_end);
    assert!(shelf.buffers.is_empty(), "{:?}", shelf.buffers.keys());
}

#[test]
fn an_idle_stream_gives_everything_back() {
    let mut shelf = Shelf::new(100);
    shelf.receive(0, 150, None);
    assert_eq!(shelf.incoming.take_ring(), None, "something is in it");
    shelf.read(150);
    while let Some(buffer) = shelf.incoming.take_ring() {
        shelf.buffers.remove(&buffer.index());
    }
    assert!(shelf.buffers.is_empty());
    shelf.receive(150, 10, None);
    shelf.read(10);
    shelf.check();
}

#[test]
fn who_takes_little_gets_small_areas_and_large_ones_again_when_they_fill() {
    let mut shelf = Shelf::of(AreaBytes { most: 1024, least: 64 });
    let mut at = 0;
    let mut receive = |shelf: &mut Shelf, len: u32| {
        shelf.receive(at, len, None);
        at += u64::from(len);
    };
    for _ in 0..50 {
        receive(&mut shelf, 15);
        assert!(shelf.take());
    }
    receive(&mut shelf, 15);
    let largest = |shelf: &Shelf| shelf.buffers.values().map(Vec::len).max();
    assert_eq!(largest(&shelf), Some(64));
    assert!(shelf.incoming.lent_bytes() <= 1024 + 64, "{}", shelf.incoming.lent_bytes());
    for _ in 0..100 {
        receive(&mut shelf, 3000);
        while shelf.take() {}
    }
    assert_eq!(largest(&shelf), Some(1024));
    shelf.check();
}

#[derive(Clone, Debug)]
enum Step {
    /// A packet from so far before or behind the first byte that is missing.
    Receive(i64, u32),
    Take,
    Read(u64),
    Rest,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (-40_i64..120, 1_u32..90).prop_map(|(at, len)| Step::Receive(at, len)),
        4 => (1_u32..90).prop_map(|len| Step::Receive(0, len)),
        3 => Just(Step::Take),
        2 => (0_u64..150).prop_map(Step::Read),
        1 => Just(Step::Rest),
    ]
}

proptest! {
    #[test]
    fn whatever_comes_and_goes_the_bytes_are_the_streams(most in 20_u32..200, least in 5_u32..200, steps in prop::collection::vec(step(), 1..80)) {
        let mut shelf = Shelf::of(AreaBytes { most, least: least.min(most) });
        for step in steps {
            match step {
                Step::Receive(at, len) => {
                    shelf.receive(shelf.incoming.rseq().saturating_add_signed(at), len, None);
                }
                Step::Take => {
                    shelf.take();
                }
                Step::Read(most) => shelf.read(most),
                Step::Rest => {
                    while let Some(buffer) = shelf.incoming.take_ring() {
                        shelf.buffers.remove(&buffer.index());
                    }
                }
            }
            shelf.check();
        }
        // Nothing that was received is lost.
        let gap: Vec<_> = (shelf.incoming.rseq()..shelf.incoming.hseq()).collect();
        if let (Some(low), Some(high)) = (gap.first(), gap.last()) {
            shelf.receive(*low, (high - low + 1) as u32, None);
        }
        let all = shelf.incoming.rseq();
        while shelf.incoming.dseq() < all {
            shelf.read(u64::MAX);
        }
        shelf.check();
    }
}
