//! The receiving half against scripts, against an oracle, and the faults of the paper's Appendix C.

mod appendix_c;
mod areas;
mod marks;
mod oracle;
mod placing;
mod window;

use super::*;

const RING: BufferId = BufferId::new(7);

fn policy(keeping: Keeping) -> Policy {
    Policy {
        rwindow: 1000,
        most_rwindow: 0,
        keeping,
        is_reserved: false,
        areas: AreaBytes::default(),
        max_spans: 8,
        max_boundaries: 8,
        maxdata: 100,
        is_one_message: false,
    }
}

/// A stream with a ring of 1,000 bytes.
fn stream(keeping: Keeping) -> Incoming {
    let mut incoming = Incoming::new(policy(keeping));
    incoming.set_ring(RING, 1000);
    incoming
}

fn piece(range: Range<u64>) -> Piece {
    Piece { low: range.start, len: (range.end - range.start) as u32, eom: false, btag: None, end: None }
}

fn message(range: Range<u64>) -> Piece {
    Piece { eom: true, ..piece(range) }
}

fn last(range: Range<u64>) -> Piece {
    Piece { end: Some(range.end), ..piece(range) }
}

fn tagged(range: Range<u64>, tag: u8) -> Piece {
    Piece { btag: Some([tag; 8]), ..piece(range) }
}

/// Just one range.
fn one(range: Range<u64>) -> Vec<Range<u64>> {
    vec![range; 1]
}

impl Incoming {
    /// Takes a piece; returns what became of it, and the stretches of it that were new.
    fn data(&mut self, piece: &Piece) -> (Taken, Vec<Range<u64>>) {
        let mut new: Vec<Range<u64>> = Vec::new();
        let taken = self.on_data(piece, &mut |bytes, range| {
            assert_eq!(bytes.len(), range.len as usize);
            let (low, high) = (piece.low + u64::from(bytes.start), piece.low + u64::from(bytes.end));
            match new.last_mut() {
                Some(last) if last.end == low => last.end = high,
                _ => new.push(low..high),
            }
        });
        (taken, new)
    }

    fn fate(&mut self, piece: &Piece) -> Fate {
        self.data(piece).0.fate
    }

    fn spans_now(&self) -> Vec<Range<u64>> {
        self.spans().collect()
    }
}

#[test]
fn an_idle_stream_is_small() {
    assert!(size_of::<Incoming>() <= 250, "{}", size_of::<Incoming>());
}

//= X-14 test
#[test]
fn a_gap_is_reported_once() {
    for keeping in [Keeping::Selective, Keeping::GoBackN] {
        let mut incoming = stream(keeping);
        assert!(!incoming.data(&piece(0..100)).0.is_gap);
        assert!(incoming.data(&piece(200..300)).0.is_gap, "starts above hseq");
        assert!(!incoming.data(&piece(300..400)).0.is_gap, "the same gap");
        assert!(incoming.data(&piece(500..600)).0.is_gap, "another one");
        assert!(!incoming.data(&piece(200..300)).0.is_gap);
        assert!(!incoming.data(&piece(2000..2100)).0.is_gap, "beyond alloc");
    }
    let mut incoming = stream(Keeping::NoError);
    assert!(!incoming.data(&piece(200..300)).0.is_gap, "gaps are not reported");
}

//= X-13 test
#[test]
fn go_back_n_keeps_nothing_beyond_a_gap() {
    let mut incoming = stream(Keeping::GoBackN);
    assert_eq!(incoming.fate(&piece(0..100)), Fate::New);
    let (taken, new) = incoming.data(&piece(200..300));
    assert_eq!((taken.fate, new.len(), incoming.rseq(), incoming.hseq()), (Fate::Dropped, 0, 100, 300));
    assert!(incoming.spans_now().is_empty());
    assert_eq!(incoming.data(&piece(50..250)).1, one(100..250));
    assert_eq!(incoming.data(&piece(200..300)).1, one(250..300));
}

//= X-15 test
#[test]
fn without_error_control_gaps_become_holes_and_late_bytes_are_dropped() {
    let mut incoming = stream(Keeping::NoError);
    assert_eq!(incoming.fate(&piece(100..200)), Fate::New);
    assert_eq!((incoming.rseq(), incoming.hseq()), (200, 200));
    assert_eq!(incoming.fate(&piece(0..100)), Fate::Duplicate, "late");
    assert_eq!(incoming.data(&piece(150..250)).1, one(200..250));
    assert_eq!(incoming.fate(&piece(300..400)), Fate::New);
    assert_eq!(incoming.readable().len, 400);
    assert_eq!(incoming.holes().collect::<Vec<_>>(), [0..100, 250..300]);
    incoming.consume(260);
    assert_eq!(incoming.holes().collect::<Vec<_>>(), one(0..40));
    assert!(incoming.spans_now().is_empty());
    let taken = incoming.on_end(500);
    assert!(taken.completed && incoming.is_complete(), "what was lost at the end is a hole");
    assert_eq!(incoming.holes().collect::<Vec<_>>(), [0..40, 140..240]);
}

//= X-15 test
#[test]
fn without_error_control_a_sender_that_outran_the_ring_is_caught_up_with() {
    let mut incoming = stream(Keeping::NoError);
    assert_eq!(incoming.fate(&piece(0..500)), Fate::New);
    assert_eq!(incoming.data(&piece(900..1100)).1, one(900..1000));
    assert_eq!(incoming.fate(&piece(2400..2500)), Fate::Beyond);
    assert_eq!(incoming.on_end(2000).fate, Fate::Contradiction, "what is beyond was sent all the same");
    assert_eq!(incoming.fate(&piece(999..1001)), Fate::Beyond, "its only new byte has no place");
    let mut holes = Vec::new();
    while incoming.dseq() < 2500 {
        let (dseq, len) = (incoming.dseq(), incoming.readable().len);
        assert!(len > 0);
        holes.extend(incoming.holes().map(|hole| hole.start + dseq..hole.end + dseq));
        incoming.consume(len);
    }
    assert_eq!(holes, [500..900, 1000..2000, 2000..2500]);
    assert_eq!(incoming.fate(&piece(2500..2600)), Fate::New, "in step again");
    assert_eq!(incoming.fate(&piece(1 << 40..(1 << 40) + 1)), Fate::Beyond, "nobody believes that");
    assert_eq!(incoming.on_end(1 << 40).fate, Fate::Beyond);
    assert_eq!((incoming.rseq(), incoming.end()), (2600, None));
}

//= X-15 test
#[test]
fn without_error_control_what_an_ask_says_was_sent_and_has_not_come_is_a_hole() {
    let mut incoming = stream(Keeping::NoError);
    assert_eq!(incoming.fate(&piece(0..500)), Fate::New);
    assert_eq!(incoming.on_sent(500).fate, Fate::Duplicate);
    let edge = incoming.alloc();
    assert_eq!(edge, 1000);
    assert_eq!(incoming.on_sent(edge + 200).fate, Fate::New, "all that the sender may send is lost, and more");
    assert_eq!((incoming.rseq(), incoming.readable().len), (1000, 1000));
    assert_eq!(incoming.holes().collect::<Vec<_>>(), one(500..1000));
    incoming.consume(1000);
    assert_eq!((incoming.rseq(), incoming.alloc()), (1200, 2000), "so that it may go on");
    let mut incoming = stream(Keeping::Selective);
    assert_eq!(incoming.on_sent(500).fate, Fate::Duplicate, "what is missing is repeated");
    assert_eq!(incoming.rseq(), 0);
}

#[test]
fn spans_and_holes_are_bounded() {
    for keeping in [Keeping::Selective, Keeping::NoError] {
        let mut incoming = stream(keeping);
        for i in 0..8 {
            assert_eq!(incoming.fate(&piece(20 * i + 10..20 * i + 20)), Fate::New);
        }
        assert_eq!(incoming.fate(&piece(190..200)), Fate::Dropped);
        assert_eq!(incoming.fate(&piece(160..170)), Fate::New, "makes the last one longer");
        if keeping == Keeping::Selective {
            assert_eq!(incoming.fate(&piece(20..30)), Fate::New, "closes a gap");
            assert_eq!(incoming.fate(&piece(190..200)), Fate::New);
            assert_eq!(incoming.fate(&piece(0..10)), Fate::New, "what comes in order is always taken");
        } else {
            incoming.consume(20);
            assert_eq!(incoming.fate(&piece(190..200)), Fate::Duplicate, "dropped, so a hole as soon as there is room");
            assert_eq!((incoming.holes().count(), incoming.rseq()), (8, 200));
        }
    }
}

#[test]
fn the_end_is_complete_when_all_bytes_are_in() {
    let mut incoming = stream(Keeping::Selective);
    let taken = incoming.data(&last(100..200)).0;
    assert!(taken.fate == Fate::New && !taken.completed && taken.is_gap);
    assert!(!incoming.on_end(200).completed);
    let taken = incoming.data(&piece(0..100)).0;
    assert!(taken.completed && incoming.is_complete());
    let taken = incoming.data(&piece(0..100)).0;
    assert!(taken.fate == Fate::Duplicate && !taken.completed, "complete only once");
    assert!(incoming.readable().is_end && !incoming.needs_ring());

    // The repetition of a packet tells the end.
    let mut incoming = stream(Keeping::Selective);
    incoming.data(&piece(0..100));
    let taken = incoming.data(&last(0..100)).0;
    assert!(taken.fate == Fate::Duplicate && taken.completed);
    let mut empty = stream(Keeping::Selective);
    assert!(empty.on_end(0).completed && empty.readable().is_end);
}

#[test]
fn what_cannot_be_true_changes_nothing() {
    let mut incoming = stream(Keeping::Selective);
    incoming.data(&message(0..100));
    incoming.data(&piece(200..300));
    let contradictions = [
        piece(50..150),                                 // bytes of two messages
        message(200..300),                              // the message went on there
        message(0..50),                                 // so it did here
        tagged(250..300, 1),                            // no message began there
        last(200..250),                                 // bytes lie beyond
        Piece { end: Some(u64::MAX), ..piece(0..100) }, // far away, but no contradiction: see below
    ];
    for piece in &contradictions[..5] {
        let before = format!("{incoming:?}");
        let (taken, new) = incoming.data(piece);
        assert_eq!((taken, new.len()), (Taken::only(Fate::Contradiction), 0), "{piece:?}");
        assert_eq!(format!("{incoming:?}"), before);
    }
    assert_eq!(incoming.on_end(299), Taken::only(Fate::Contradiction));
    assert_eq!(incoming.on_end(300).fate, Fate::New);
    assert_eq!(incoming.on_end(400), Taken::only(Fate::Contradiction), "an end that moves");
    assert_eq!(incoming.fate(&contradictions[5]), Fate::Contradiction, "now it is one");
    assert_eq!(incoming.fate(&piece(300..301)), Fate::Contradiction, "a byte beyond the end");
    assert_eq!(incoming.fate(&Piece { low: u64::MAX, ..piece(0..2) }), Fate::Contradiction, "no such bytes");
    assert_eq!(incoming.on_end(300).fate, Fate::Duplicate);
}

#[test]
fn a_stream_in_order_needs_no_lists() {
    let mut incoming = Incoming::new(Policy { rwindow: 1 << 18, ..policy(Keeping::Selective) });
    incoming.set_ring(RING, 1 << 18);
    let mut placed = 0u64;
    for i in 0..10_000u64 {
        incoming.on_data(&piece(1400 * i..1400 * (i + 1)), &mut |_, range| placed += u64::from(range.len));
        if i % 64 == 63 {
            incoming.consume(64 * 1400);
        }
    }
    assert_eq!(placed, 14_000_000);
    assert_eq!(incoming.spans, IntervalSet::new());
    assert!(incoming.holes.is_none() && format!("{:?}", incoming.marks) == "Marks(None)");
}
