//! The six faults of the paper's Appendix C ("Spans update"), each of which must not come back.

use super::*;

/// `seq == rseq` is tested where `seq > rseq` holds, so what fills the first gap never joins the first span.
//= X-16 test
#[test]
fn fault_1_dead_merge_test() {
    let mut incoming = stream(Keeping::Selective);
    incoming.data(&piece(0..100));
    incoming.data(&piece(200..300));
    incoming.data(&piece(400..500));
    incoming.data(&piece(100..200));
    assert_eq!(incoming.rseq(), 300, "rseq passes the span that the gap separated from it");
    assert_eq!(incoming.spans_now(), one(400..500));
}

/// The last branch sets rseq to the end of whatever old packet comes.
//= X-16 test
#[test]
fn fault_2_rseq_moved_backwards_by_old_data() {
    let mut incoming = stream(Keeping::Selective);
    incoming.data(&piece(0..300));
    for old in [piece(0..100), piece(100..200), piece(0..300), piece(299..300)] {
        assert_eq!(incoming.data(&old), (Taken::only(Fate::Duplicate), Vec::new()));
        assert_eq!((incoming.rseq(), incoming.hseq()), (300, 300));
    }
    incoming.consume(250);
    assert_eq!(incoming.fate(&piece(0..100)), Fate::Duplicate, "consumed long ago");
    assert_eq!((incoming.dseq(), incoming.rseq()), (250, 300));
}

/// The search ends before the last span, so that what touches it there is not noted.
//= X-16 test
#[test]
fn fault_3_last_span_lost() {
    let mut incoming = stream(Keeping::Selective);
    incoming.data(&piece(100..200));
    incoming.data(&piece(300..400));
    assert_eq!(incoming.data(&piece(400..500)).1, one(400..500));
    assert_eq!(incoming.spans_now(), [100..200, 300..500], "appended to the last one");
    assert_eq!(incoming.data(&piece(250..300)).1, one(250..300));
    assert_eq!(incoming.spans_now(), [100..200, 250..500], "put before the last one");
    incoming.data(&piece(200..250));
    incoming.data(&piece(0..100));
    assert_eq!((incoming.rseq(), incoming.spans_now().len()), (500, 0));
}

/// hseq is only raised by what starts above it.
//= X-16 test
#[test]
fn fault_4_hseq_not_raised() {
    let mut incoming = stream(Keeping::Selective);
    incoming.data(&piece(0..100));
    assert_eq!(incoming.hseq(), 100, "in order");
    incoming.data(&piece(200..300));
    incoming.data(&piece(300..350));
    assert_eq!(incoming.hseq(), 350, "at hseq exactly");
    incoming.data(&piece(320..400));
    assert_eq!(incoming.hseq(), 400, "over hseq");
    incoming.data(&piece(100..200));
    assert_eq!((incoming.rseq(), incoming.hseq()), (400, 400), "a repetition lowers nothing");
}

/// Numbers are compared as they are. Here they become offsets first, which do not wrap.
//= X-16 test
#[test]
fn fault_5_plain_comparison() {
    use crate::space::Space;
    use pinnace_wire::xtp::Codec;
    for (codec, start) in [(Codec::Xtp36, u64::from(u32::MAX) - 149), (Codec::Xtp40, u64::MAX - 149)] {
        let space = Space::new(codec, start);
        let mut incoming = stream(Keeping::Selective);
        // Numbers start - 150, start - 50 (the wrap is in it), 50 and 150.
        for (low, rseq) in [(0, 100), (200, 100), (100, 300), (300, 400), (100, 400)] {
            let number = space.number(low);
            let low = space.offset(number, incoming.rseq()).unwrap();
            incoming.data(&piece(low..low + 100));
            assert_eq!(incoming.rseq(), rseq, "{codec:?}");
        }
        assert!(space.number(400) < space.number(0), "it has wrapped");
        assert_eq!((incoming.hseq(), incoming.spans_now().len()), (400, 0));
    }
}

/// What overlaps a span, or several, is taken for something else or is lost.
//= X-16 test
#[test]
fn fault_6_overlaps() {
    let mut incoming = stream(Keeping::Selective);
    incoming.data(&piece(100..200));
    incoming.data(&piece(300..400));
    incoming.data(&piece(500..600));
    assert_eq!(incoming.data(&piece(150..250)).1, one(200..250), "over its end");
    assert_eq!(incoming.data(&piece(280..350)).1, one(280..300), "over its start");
    assert_eq!(incoming.data(&piece(220..550)).1, [250..280, 400..500], "over three");
    assert_eq!(incoming.spans_now(), one(100..600));
    assert_eq!(incoming.data(&piece(50..650)).1, [50..100, 600..650], "around it");
    assert_eq!(incoming.data(&piece(0..60)).1, one(0..50), "over rseq and a span");
    assert_eq!((incoming.rseq(), incoming.hseq()), (650, 650));
    assert_eq!(incoming.data(&piece(600..700)).1, one(650..700), "partly old");
    assert_eq!(incoming.rseq(), 700);
}
