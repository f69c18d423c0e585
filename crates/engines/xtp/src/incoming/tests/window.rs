//! What may be sent, and when that is told (3.6).

use super::*;

//= X-8 test
#[test]
fn alloc_is_what_was_consumed_and_the_window_and_never_falls() {
    let mut incoming = Incoming::new(policy(Keeping::Selective));
    assert!(incoming.needs_ring());
    assert_eq!(incoming.alloc(), 1000, "there will be a ring");
    incoming.set_ring(RING, 500);
    assert_eq!(incoming.alloc(), 1000, "what was told stays true");
    assert_eq!(incoming.fate(&piece(500..600)), Fate::Beyond, "but there is no place");
    incoming.data(&piece(0..400));
    incoming.consume(300);
    assert_eq!(incoming.alloc(), 1000);
    incoming.data(&piece(400..700));
    incoming.consume(400);
    assert_eq!(incoming.alloc(), 1200, "not beyond the ring");
}

//= X-8 test
#[test]
fn bytes_beyond_alloc_are_dropped() {
    let mut incoming = Incoming::new(policy(Keeping::Selective));
    incoming.set_ring(RING, 1 << 20);
    // Before the first status 65,536 bytes are allowed, whatever the window is.
    assert_eq!(incoming.data(&piece(65_500..65_600)).1, one(65_500..65_536));
    assert_eq!(incoming.fate(&message(65_536..65_600)), Fate::Beyond);
    assert_eq!(incoming.hseq(), 65_536);
    incoming.data(&piece(0..65_500));
    incoming.consume(65_536);
    assert_eq!(incoming.alloc(), 66_536);
    let (taken, new) = incoming.data(&message(66_500..66_600));
    assert_eq!((taken.fate, new), (Fate::New, one(66_500..66_536)));
    incoming.data(&piece(65_536..66_500));
    assert_eq!(incoming.readable().message, None, "the last byte did not fit, so the message goes on");
    incoming.consume(1000);
    assert_eq!(incoming.data(&message(66_500..66_600)).1, one(66_536..66_600));
    assert_eq!(incoming.readable().message, Some(64));
}

#[test]
fn a_window_that_was_closed_is_reported_when_it_opens() {
    let mut incoming = stream(Keeping::Selective);
    assert_eq!(incoming.alloc(), 1000);
    incoming.data(&piece(0..999));
    assert!(!incoming.consume(500), "alloc has not been reached");
    assert_eq!(incoming.alloc(), 1500);
    incoming.data(&piece(999..1500));
    assert!(!incoming.consume(199), "less than two packets");
    assert!(incoming.consume(1), "two packets");
    assert!(incoming.consume(1), "until it is told");
    assert_eq!(incoming.alloc(), 1701);
    assert!(!incoming.consume(1));

    let mut incoming = stream(Keeping::Selective);
    incoming.data(&piece(0..900));
    incoming.consume(900);
    incoming.alloc();
    incoming.data(&piece(900..1900));
    incoming.consume(900);
    incoming.alloc();
    assert!(!incoming.is_status_due(), "not reached");
    incoming.data(&last(1900..2000));
    assert!(!incoming.consume(1100 - 900), "nothing more is to come");
}

#[test]
fn all_consumed_opens_the_window_for_less() {
    let mut incoming = Incoming::new(Policy { maxdata: 0, rwindow: 1000, ..policy(Keeping::Selective) });
    incoming.set_ring(RING, 1000);
    incoming.alloc();
    incoming.data(&piece(0..1000));
    assert!(!incoming.consume(499));
    assert!(incoming.consume(1), "half the window");
    incoming.alloc();
    incoming.data(&piece(1000..1500));
    incoming.consume(900);
    incoming.alloc();
    incoming.data(&piece(1500..2400));
    incoming.consume(990);
    incoming.alloc();
    assert!(!incoming.is_status_due());
    assert!(!incoming.consume(10), "2,390 were told, and 2,390 is not 2,400");
    incoming.data(&piece(2400..3390));
    assert!(incoming.consume(990));
}

#[test]
fn a_window_is_2_to_the_30_at_most() {
    let mut incoming = Incoming::new(Policy { rwindow: u32::MAX, ..policy(Keeping::Selective) });
    incoming.set_ring(RING, u64::MAX);
    assert_eq!(incoming.alloc(), 1 << 30);
    let mut reserved = Incoming::new(Policy { is_reserved: true, ..policy(Keeping::Selective) });
    reserved.post(RING, 0, u64::MAX);
    assert_eq!(reserved.alloc(), 1 << 30);
    reserved.post(RING, 0, u64::MAX);
    assert_eq!(reserved.fate(&Piece { low: u64::MAX - 5, ..piece(0..5) }), Fate::New, "no number overflows");
}

//= X-8 test
#[test]
fn a_window_grows_with_an_application_that_keeps_up() {
    let mut incoming = Incoming::new(Policy { most_rwindow: 3000, ..policy(Keeping::Selective) });
    incoming.set_ring(RING, 1000);
    incoming.data(&piece(0..900));
    assert!(!incoming.is_outgrown(), "nothing was consumed");
    incoming.consume(249);
    assert!(!incoming.is_outgrown(), "less than a quarter of a window");
    incoming.consume(651);
    assert!(incoming.is_outgrown());
    incoming.data(&piece(900..1600));
    incoming.consume(400);
    assert!(!incoming.is_outgrown(), "300 bytes wait");
    assert!(incoming.has_outgrown_ring());
    incoming.data(&piece(1700..2100));
    incoming.consume(300);
    assert!(incoming.is_outgrown());
    assert!(!incoming.has_outgrown_ring(), "bytes lie beyond its end");
    incoming.data(&piece(1600..1700));
    incoming.consume(500);
    assert_eq!((incoming.has_outgrown_ring(), incoming.wider()), (true, 2000));
    incoming.set_larger_ring(BufferId::new(8), 2000);
    incoming.widen(2000);
    assert_eq!(incoming.alloc(), 4100);
    assert_eq!(incoming.data(&piece(2900..4100)).1, one(2900..4100), "both rings");
    incoming.data(&piece(2100..2900));
    assert_eq!((incoming.readable().len, incoming.take_outgrown()), (2000, None));
    incoming.consume(900);
    assert_eq!(incoming.take_outgrown(), Some(RING));
    assert!(!incoming.is_outgrown(), "1,100 bytes wait");
    incoming.consume(1100);
    assert_eq!((incoming.is_outgrown(), incoming.wider()), (true, 3000));
    incoming.widen(3000);
    incoming.data(&piece(4100..5000));
    incoming.consume(900);
    assert!(!incoming.is_outgrown(), "as large as it may be");
}

#[test]
fn a_larger_ring_that_was_filled_and_emptied_at_once_begins_again() {
    let mut incoming = Incoming::new(Policy { rwindow: 2000, ..policy(Keeping::Selective) });
    incoming.set_ring_at(RING, 1000, 999);
    incoming.set_larger_ring(BufferId::new(8), 1500);
    incoming.data(&piece(0..1501));
    incoming.consume(1501);
    assert_eq!((incoming.take_outgrown(), incoming.has_outgrown_ring()), (Some(RING), true));
    assert_eq!(incoming.lent_bytes(), 1500);
    incoming.data(&piece(1501..1601));
    assert_eq!(incoming.readable().parts[0], BufferRange::new(BufferId::new(8), 0, 100));
}
