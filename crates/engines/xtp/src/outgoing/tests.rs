//! The sending half in virtual time: each rule by itself here, all of them together in [`property`].

mod delivery;
mod property;

use super::*;
use pinnace_core::BufferId;

pub(super) const MS: u64 = 1_000_000;

pub(super) fn at(nanos: u64) -> Time {
    Time::from_nanos(nanos)
}

pub(super) fn terms() -> Terms {
    Terms {
        max: 1_000,
        largest: 1_000,
        overhead: 40,
        is_held: false,
        no_flow: false,
        no_error: false,
        ask_every: 16,
        go_back_n: false,
    }
}

fn config() -> PathConfig {
    PathConfig { congestion: ControllerKind::Fixed { window: u64::MAX }, ..PathConfig::default() }
}

fn chunk(ticket: u64, len: u64) -> Chunk {
    Chunk { ticket, buffer: BufferId::new(ticket as u32), offset: 7, len, eom: true, btag: None }
}

fn stream(len: u64) -> Outgoing {
    let mut stream = Outgoing::new(100, &config());
    stream.queue(chunk(1, len));
    stream
}

/// Sends all that may leave now, as the machine wants it, and returns the cuts.
fn send(stream: &mut Outgoing, now: Time, terms: &Terms) -> Vec<Cut> {
    let mut cuts = Vec::new();
    while let Next::Cut(cut) = stream.next(now, terms) {
        stream.commit(now, &cut, if cut.asks { Asking::Status } else { Asking::No }, terms);
        cuts.push(cut);
    }
    cuts
}

fn ends(cuts: &[Cut]) -> Vec<(u64, u64)> {
    cuts.iter().map(|cut| (cut.low, cut.high())).collect()
}

fn heard(rseq: u64, echo: u32, spans: &[(u64, u64)]) -> Heard<'_> {
    Heard { rseq, alloc: 1 << 20, echo, spans, is_old: false, is_question: false }
}

//= X-7 test
#[test]
fn the_machine_asks_with_every_sixteenth_packet_and_the_last() {
    let mut stream = stream(40_000);
    let asks: Vec<_> = send(&mut stream, at(0), &terms()).iter().map(|cut| cut.asks).collect();
    let expected: Vec<_> = (1..=40).map(|packet| packet % 16 == 0 || packet == 40).collect();
    assert_eq!(asks, expected);
    assert_eq!(stream.sync(), 103);
    assert!(stream.is_ask_missing());
    assert!(!stream.on_status(at(1), &heard(32_000, 102, &[])).is_invalid && stream.is_ask_missing());
    stream.on_status(at(2), &heard(40_000, 103, &[]));
    assert!(!stream.is_ask_missing());
}

//= X-8 test
#[test]
fn alloc_holds_the_sender_and_its_last_packet_asks() {
    let mut stream = stream(100_000);
    let terms = Terms { ask_every: 0, ..terms() };
    let cuts = send(&mut stream, at(0), &terms);
    assert_eq!(cuts.last().map(|cut| (cut.high(), cut.len, cut.asks)), Some((65_536, 536, true)));
    assert_eq!(cuts.iter().filter(|cut| cut.asks).count(), 1);
    assert!(stream.waits_for_room(&terms) && !stream.has_to_send(&terms));
    // The first status replaces the allowance, downwards too; what is lost beyond it waits.
    let outcome = stream.on_status(at(1), &Heard { alloc: 30_000, ..heard(20_000, 101, &[]) });
    assert_eq!((outcome.acked, outcome.lost, outcome.opened), (20_000, 45_000, true));
    let cuts = send(&mut stream, at(2), &terms);
    assert_eq!((cuts.len(), cuts.last().map(|cut| (cut.high(), cut.asks))), (10, Some((30_000, true))));
    assert!(stream.waits_for_room(&terms));
    assert!(!stream.on_status(at(3), &Heard { alloc: 10, ..heard(30_000, 102, &[]) }).opened, "alloc never falls");
    assert!(stream.on_status(at(3), &Heard { alloc: 200_000, ..heard(30_000, 102, &[]) }).opened);
    assert_eq!(ends(&send(&mut stream, at(4), &terms)).last(), Some(&(99_536, 100_000)));
    assert!(!stream.waits_for_room(&Terms { no_flow: true, ..terms }));
}

/// Three packets leave, and again and again what of them is missing; in the given round these bytes arrive. The round in
/// which the path is doubted, and what it is taken to carry.
fn doubted_in(size: u32, arrives: Option<(u64, (u64, u64))>) -> Option<(u64, u32)> {
    let terms = Terms { max: size, largest: size, ask_every: 0, ..terms() };
    let mut stream = stream(u64::from(size) * 3);
    for round in 0..20 {
        let now = at(round * 100 * MS);
        assert!(!send(&mut stream, now, &terms).is_empty());
        stream.ask(now, Asking::Expiry);
        let spans: Vec<_> = arrives.filter(|(when, _)| round >= *when).map(|(_, span)| span).into_iter().collect();
        assert!(stream.on_status(now, &heard(0, stream.sync(), &spans)).lost > 0);
        if let Some(fits) = stream.take_doubt(now) {
            assert_eq!(stream.take_doubt(now), None, "it is told once");
            return Some((round, fits));
        }
    }
    None
}

#[test]
fn a_path_is_doubted_when_large_packets_alone_are_repeated_again_and_again() {
    // With 40 bytes of headers, 1,161 are one too many, and where those were, 509.
    let sizes = [508, 509, 1_160, 1_161];
    assert_eq!(sizes.map(|size| doubted_in(size, None)), [None, Some((5, 548)), Some((5, 548)), Some((5, 1_200))]);
    // What a large packet has brought begins the count anew, what a small one can have brought does not.
    for (span, round) in [((1_400, 2_800), 8), ((1_400, 2_561), 8), ((1_400, 2_560), 5), ((2_800, 2_801), 5)] {
        assert_eq!(doubted_in(1_400, Some((3, span))), Some((round, 1_200)), "{span:?}");
    }
    assert_eq!(doubted_in(1_000, Some((3, (1_000, 2_000)))), Some((8, 548)));
}

//= X-8 test
#[test]
fn a_crumb_below_alloc_waits_for_the_status_that_is_under_way() {
    let mut stream = stream(100_000);
    stream.on_status(at(0), &Heard { alloc: 2_100, ..heard(0, 100, &[]) });
    let asked = Terms { ask_every: 2, ..terms() };
    assert_eq!(ends(&send(&mut stream, at(1), &asked)), [(0, 1_000), (1_000, 2_000)]);
    assert!(!stream.waits_for_room(&asked), "a hundred bytes would fit");
    // The status has nothing new: now the crumb goes, and asks, so that the receiver knows that alloc is used up.
    stream.on_status(at(2), &Heard { alloc: 2_100, ..heard(2_000, 101, &[]) });
    let cuts = send(&mut stream, at(3), &asked);
    assert_eq!((ends(&cuts), cuts[0].asks), (vec![(2_000, 2_100)], true));
    // More than a crumb goes at once.
    stream.on_status(at(4), &Heard { alloc: 3_700, ..heard(2_100, 102, &[]) });
    assert_eq!(ends(&send(&mut stream, at(5), &asked)), [(2_100, 3_100), (3_100, 3_700)]);
}

//= X-8 test
#[test]
fn without_flow_control_alloc_does_not_count() {
    let mut stream = stream(100_000);
    send(&mut stream, at(0), &Terms { no_flow: true, ..terms() });
    assert_eq!(stream.sent(), 100_000);
}

//= X-13 test
#[test]
fn what_was_late_does_not_pass_for_its_repetition() {
    let mut stream = stream(40_000);
    // Packets 1 to 40; 16, 32 and 40 ask.
    send(&mut stream, at(0), &terms());
    // The packet at 2,000 is late: it is repeated, as transmission 41, and asks.
    let outcome = stream.on_status(at(1), &heard(2_000, 101, &[(3_000, 16_000)]));
    assert_eq!(outcome.lost, 1_000);
    assert_eq!(ends(&send(&mut stream, at(2), &terms())), [(2_000, 3_000)]);
    // Then it comes. The receiver has not heard of transmission 32, so what arrived was not transmission 41: nothing of
    // what left between them has been overtaken.
    let outcome = stream.on_status(at(3), &heard(20_000, 101, &[]));
    assert_eq!((outcome.acked, outcome.lost), (5_000, 0));
    // One that has heard of all that asked before the repetition may have heard it, too.
    let outcome = stream.on_status(at(4), &heard(20_000, 103, &[(30_000, 40_000)]));
    assert_eq!((outcome.acked, outcome.lost), (10_000, 10_000));
}

//= X-13 test
#[test]
fn what_was_overtaken_is_repeated_and_nothing_else() {
    let mut stream = stream(10_000);
    send(&mut stream, at(0), &terms());
    // Unasked, after the gap at 2,000: its echo names nothing new.
    let outcome = stream.on_status(at(1), &heard(2_000, 100, &[(3_000, 4_000)]));
    assert_eq!((outcome.acked, outcome.lost), (3_000, 1_000));
    assert_eq!(ends(&send(&mut stream, at(2), &terms())), [(2_000, 3_000)]);
    // The answer to the ask: it left before the repetition did.
    let outcome = stream.on_status(at(3), &heard(2_000, 101, &[(3_000, 9_000)]));
    assert_eq!((outcome.acked, outcome.lost), (5_000, 0), "the last packet is not older than the one that asked");
    let outcome = stream.on_status(at(4), &heard(2_000, 102, &[(3_000, 9_000)]));
    assert_eq!(outcome.lost, 1_000, "the last packet was overtaken by the repetition that asked");
    assert_eq!(stream.in_flight(), 1_040, "the repetition is the one that asked");
    assert_eq!(ends(&send(&mut stream, at(5), &terms())), [(9_000, 10_000)]);
    // An older echo only raises rseq.
    let outcome = stream.on_status(at(6), &heard(2_500, 101, &[(9_000, 10_000)]));
    assert_eq!((outcome.acked, outcome.lost, stream.acked()), (500, 0, 2_500));
    stream.on_status(at(7), &heard(10_000, 103, &[]));
    assert_eq!((stream.in_flight(), stream.acked(), stream.poll_done().map(|done| done.ticket)), (0, 10_000, Some(1)));
}

/// Twenty packets, each of which asks. The first seems lost, is repeated 40 ms after it left, and has come 5 ms later: no
/// answer to the repetition could be here.
#[test]
fn what_was_late_is_known_and_the_next_loss_is_told_later_and_repeated_at_once() {
    let mut stream = stream(20_000);
    let terms = Terms { ask_every: 1, ..terms() };
    send(&mut stream, at(0), &terms);
    assert_eq!(stream.on_status(at(40 * MS), &heard(0, 102, &[(1_000, 2_000)])).lost, 1_000);
    assert_eq!(ends(&send(&mut stream, at(40 * MS), &terms)), [(0, 1_000)]);
    let patience =
        |stream: &mut Outgoing, at| stream.active.as_deref_mut().map(|active| active.path.order.patience(at));
    assert_eq!(patience(&mut stream, at(44 * MS)), Some(Duration::ZERO));
    assert_eq!(stream.on_status(at(45 * MS), &heard(3_000, 103, &[])).acked, 2_000);
    assert_eq!(patience(&mut stream, at(45 * MS)), Some(Duration::from_micros(6_250)), "a quarter more");
    assert_eq!(stream.on_status(at(50 * MS), &heard(3_000, 105, &[(4_000, 5_000)])).lost, 1_000);
    assert_eq!(ends(&send(&mut stream, at(50 * MS), &terms)), [(3_000, 4_000)]);
}

//= X-13 test
#[test]
fn go_back_n_repeats_all_from_the_first_loss_on() {
    let mut stream = stream(10_000);
    let terms = Terms { go_back_n: true, ..terms() };
    send(&mut stream, at(0), &terms);
    let outcome = stream.on_status(at(1), &heard(2_000, 100, &[(3_000, 4_000)]));
    assert_eq!((outcome.lost, stream.in_flight()), (8_000, 0));
    assert_eq!(send(&mut stream, at(2), &terms).len(), 8);
    assert_eq!(stream.in_flight(), 8 * 1_040);
    let outcome = stream.on_status(at(3), &heard(2_000, 101, &[]));
    assert_eq!(outcome.lost, 0, "the ask left before them");
}

#[test]
fn a_status_of_what_was_never_sent_is_ignored() {
    let mut stream = stream(100_000);
    send(&mut stream, at(0), &terms());
    let sent = stream.sent();
    let beyond = [(10, sent + 1)];
    let forged = [
        heard(sent + 1, 101, &[]),
        heard(0, 101, &beyond),
        heard(0, 101, &[(10, 10)]),
        heard(0, 101, &[(20, 10)]),
        heard(1_000, stream.sync() + 1, &[]),
    ];
    for heard in forged {
        assert_eq!(stream.on_status(at(1), &heard), Outcome { is_invalid: true, ..Outcome::default() });
    }
    assert_eq!((stream.acked(), stream.lost()), (0, 0));
    assert!(stream.waits_for_room(&terms()));
}

//= X-10 test
#[test]
fn a_status_in_a_packet_with_an_older_sync_only_raises() {
    let mut stream = stream(10_000);
    send(&mut stream, at(0), &terms());
    let old = Heard { is_old: true, ..heard(2_000, 101, &[(5_000, 6_000)]) };
    let outcome = stream.on_status(at(1), &old);
    assert_eq!((outcome.acked, outcome.lost, outcome.echoes_expiry), (2_000, 0, false));
    assert!(stream.is_ask_missing() && stream.round_trip().is_none());
}

//= X-17 test
#[test]
fn a_packet_has_bytes_of_one_message_and_its_repetition_is_cut_no_coarser() {
    let mut stream = Outgoing::new(0, &config());
    let tag = Some(*b"a tag...");
    stream.queue(Chunk { eom: false, btag: tag, ..chunk(1, 600) });
    stream.queue(chunk(2, 900));
    stream.queue(Chunk { eom: false, ..chunk(3, 100) });
    stream.queue(Chunk { btag: tag, ..chunk(4, 100) });
    stream.shut();
    let cuts = send(&mut stream, at(0), &terms());
    assert_eq!(ends(&cuts), [(0, 1_000), (1_000, 1_500), (1_500, 1_600), (1_600, 1_700)]);
    let marks = |cuts: &[Cut]| -> Vec<_> { cuts.iter().map(|cut| (cut.eom, cut.btag.is_some(), cut.ends)).collect() };
    let (no, yes) = (false, true);
    assert_eq!(marks(&cuts), [(no, yes, no), (yes, no, no), (no, no, no), (yes, yes, yes)]);
    let parts: Vec<_> = stream.parts(0, 1_000).map(|part| (part.buffer.index(), part.offset, part.len)).collect();
    assert_eq!(parts, [(1, 7, 600), (2, 7, 400)]);

    stream.ask(at(1), Asking::Expiry);
    stream.on_status(at(2), &heard(0, stream.sync(), &[]));
    let cuts = send(&mut stream, at(3), &Terms { max: 400, ..terms() });
    let expected = [(0, 400), (400, 800), (800, 1_000), (1_000, 1_400), (1_400, 1_500), (1_500, 1_600), (1_600, 1_700)];
    assert_eq!(ends(&cuts), expected);
    let first = (no, yes, no);
    let none = (no, no, no);
    assert_eq!(marks(&cuts), [first, none, none, none, (yes, no, no), none, (yes, yes, yes)]);
}

//= X-17 test
#[test]
fn a_packet_gathers_many_small_pieces_of_a_message_and_is_repeated_as_it_was() {
    let mut stream = Outgoing::new(0, &config());
    let pieces = 2 * MOST_PIECES as u64 + 1;
    for ticket in 1..=pieces {
        stream.queue(Chunk { eom: ticket == pieces, ..chunk(ticket, 10) });
    }
    let most = 10 * MOST_PIECES as u64;
    let expected = [(0, most), (most, 2 * most), (2 * most, 2 * most + 10)];
    let cuts = send(&mut stream, at(0), &terms());
    assert_eq!(ends(&cuts), expected);
    assert_eq!(cuts.iter().map(|cut| cut.eom).collect::<Vec<_>>(), [false, false, true]);
    let parts = |stream: &Outgoing| -> Vec<_> {
        stream.parts(most - 5, 20).map(|part| (part.buffer.index(), part.offset, part.len)).collect()
    };
    let last = MOST_PIECES as u32;
    let across = [(last, 12, 5), (last + 1, 7, 10), (last + 2, 7, 5)];
    assert_eq!(parts(&stream), across);

    // What is no longer held is not named; what is left is repeated with the same cuts.
    stream.ask(at(1), Asking::Expiry);
    stream.on_status(at(2), &heard(most, stream.sync(), &[]));
    assert_eq!(ends(&send(&mut stream, at(3), &terms())), expected[1..]);
    while stream.poll_done().is_some() {}
    assert!(parts(&stream).is_empty());
    assert_eq!(stream.parts(most, 20).map(|part| part.len).sum::<u32>(), 20);
}

/// One packet leaves. Returns its sync.
fn commit(stream: &mut Outgoing, now: u64, asking: Asking) -> u32 {
    let terms = Terms { ask_every: 1, ..terms() };
    let Next::Cut(cut) = stream.next(at(now), &terms) else { panic!("nothing to send") };
    stream.commit(at(now), &cut, asking, &terms)
}

//= X-12 test
#[test]
fn only_an_ask_that_was_sent_once_measures_the_round_trip() {
    let ms = Duration::from_millis;
    let mut stream = stream(3_000);
    assert_eq!(stream.timeout(), ms(250));
    let sync = commit(&mut stream, 0, Asking::Deferred);
    assert!(!stream.is_ask_missing(), "a DREQ may not be due yet");
    stream.on_status(at(50 * MS), &heard(1_000, sync, &[]));
    assert_eq!(stream.timeout(), ms(250), "nor does it measure");
    commit(&mut stream, 50 * MS, Asking::Status);
    let sync = stream.ask_again(at(60 * MS), Asking::Expiry);
    let outcome = stream.on_status(at(90 * MS), &heard(1_000, sync, &[]));
    assert_eq!((outcome.lost, outcome.echoes_expiry, stream.timeout()), (1_000, true, ms(250)));
    let sync = commit(&mut stream, 100 * MS, Asking::Status);
    stream.on_status(at(120 * MS), &heard(2_000, sync, &[]));
    assert_eq!(stream.timeout(), ms(250), "a repetition is not a sample");
    let sync = commit(&mut stream, 200 * MS, Asking::Status);
    stream.on_status(at(220 * MS), &heard(3_000, sync, &[]));
    assert_eq!((stream.round_trip(), stream.timeout()), (Some(ms(20)), ms(60)));
    stream.on_status(at(290 * MS), &heard(3_000, sync, &[]));
    assert_eq!(stream.timeout(), ms(60), "an answer measures once");
    for step in 0..100 {
        let sync = stream.ask(at(300 * MS + step * MS), Asking::Status);
        stream.on_status(at(300 * MS + step * MS), &heard(3_000, sync, &[]));
    }
    assert_eq!(stream.timeout(), ms(10), "the floor");
}

//= X-12 test
#[test]
fn a_question_of_an_expiry_measures_the_round_trip_and_what_is_repeated_for_it_does_not() {
    let ms = Duration::from_millis;
    let mut stream = stream(1_000);
    send(&mut stream, at(0), &terms());
    let first = stream.ask(at(250 * MS), Asking::Expiry);
    let second = stream.ask(at(750 * MS), Asking::Expiry);
    stream.on_status(at(850 * MS), &heard(0, first, &[]));
    assert_eq!(stream.round_trip(), Some(ms(600)), "each has an answer of its own");
    stream.on_status(at(1_350 * MS), &heard(0, second, &[]));
    assert_eq!(stream.round_trip(), Some(ms(600)));

    let mut stream = Outgoing::new(0, &config());
    let sync = stream.ask_again(at(250 * MS), Asking::Expiry);
    assert!(stream.on_status(at(260 * MS), &heard(0, sync, &[])).echoes_expiry);
    assert_eq!(stream.round_trip(), None);
}

/// The answer was lost, and something else names the ask: a question of the peer's, which is no answer, or what it says
/// unasked when an expiry has asked again.
//= X-12 test
#[test]
fn only_an_answer_measures_the_round_trip() {
    let ms = Duration::from_millis;
    let mut stream = stream(3_000);
    let sync = commit(&mut stream, 0, Asking::Status);
    let outcome = stream.on_status(at(200 * MS), &Heard { is_question: true, ..heard(1_000, sync, &[]) });
    assert_eq!((outcome.acked, stream.round_trip()), (1_000, None), "it acknowledges all the same");

    let sync = commit(&mut stream, 200 * MS, Asking::Status);
    let expiry = stream.ask(at(450 * MS), Asking::Expiry);
    assert_eq!(stream.on_status(at(460 * MS), &heard(2_000, sync, &[])).acked, 1_000);
    assert_eq!(stream.round_trip(), None);
    stream.on_status(at(470 * MS), &heard(2_000, expiry, &[]));
    assert_eq!(stream.round_trip(), Some(ms(20)));
}

//= X-11 test
#[test]
fn a_series_of_expiries_ends_with_the_echo_of_one_of_them() {
    let mut stream = stream(2_000);
    send(&mut stream, at(0), &terms());
    let first = stream.ask(at(250 * MS), Asking::Expiry);
    let second = stream.ask(at(750 * MS), Asking::Expiry);
    assert!(!stream.on_status(at(760 * MS), &heard(0, first - 1, &[])).echoes_expiry);
    assert!(stream.on_status(at(770 * MS), &heard(0, first, &[])).echoes_expiry);
    assert!(stream.is_ask_missing());
    assert!(!stream.on_status(at(780 * MS), &heard(0, second, &[])).echoes_expiry, "it has ended before");
    assert!(!stream.is_ask_missing());
}

//= X-10 test
#[test]
fn the_first_packet_is_repeated_as_it_was_whatever_is_under_way() {
    let mut stream = Outgoing::new(9, &PathConfig::default());
    assert_eq!(stream.first(), None);
    stream.queue(chunk(1, 100_000));
    let small = Terms { max: 900, ..terms() };
    let Next::Cut(first) = stream.next(at(0), &small) else { panic!("nothing to send") };
    stream.commit(at(0), &first, Asking::Status, &small);
    send(&mut stream, at(0), &terms());
    let in_flight = stream.in_flight();
    assert_eq!(stream.next(at(250 * MS), &terms()), Next::Nothing, "the window is full");
    let again = stream.first().expect("nothing was heard");
    assert_eq!((again.low, again.len, again.asks, again.is_repetition), (0, 900, true, true));
    let sync = stream.commit(at(250 * MS), &again, Asking::Status, &terms());
    assert_eq!(stream.in_flight(), in_flight);
    let outcome = stream.on_status(at(260 * MS), &heard(900, sync, &[]));
    assert!(outcome.echoes_expiry && outcome.lost > 0, "what was overtaken by it is lost");
    assert_eq!((stream.round_trip(), stream.first()), (None, None));
}

//= X-20 test
#[test]
fn what_was_never_sent_is_dropped_when_nobody_wants_it() {
    let mut stream = stream(70_000);
    stream.queue(chunk(2, 10));
    send(&mut stream, at(0), &terms());
    stream.cut_off();
    assert_eq!((stream.end(), stream.queued()), (Some(65_536), 65_536));
    let sync = stream.ask(at(1), Asking::Status);
    stream.on_status(at(2), &heard(65_000, sync, &[]));
    let cuts = send(&mut stream, at(3), &terms());
    assert_eq!((ends(&cuts), cuts[0].eom, cuts[0].ends), (vec![(65_000, 65_536)], false, true));
    assert_eq!(stream.poll_done(), None);
    stream.on_status(at(4), &heard(65_536, stream.sync(), &[]));
    assert_eq!([stream.poll_done(), stream.poll_done()].map(|done| done.map(|done| done.ticket)), [Some(1), Some(2)]);
}

#[test]
fn an_abandoned_stream_repeats_nothing() {
    let mut stream = stream(5_000);
    send(&mut stream, at(0), &terms());
    stream.on_status(at(1), &heard(0, 100, &[(4_000, 5_000)]));
    assert_eq!(stream.lost(), 4_000);
    stream.cut_off();
    stream.abandon();
    assert_eq!((stream.lost(), stream.in_flight(), stream.next(at(2), &terms())), (0, 0, Next::Nothing));
    assert!(!stream.on_status(at(3), &heard(1_000, 101, &[(2_000, 3_000)])).is_invalid);
    assert_eq!(stream.drain().map(|done| done.ticket).collect::<Vec<_>>(), [1]);
}

#[test]
fn an_empty_message_is_a_packet_of_its_own_and_done_when_settled() {
    let mut stream = Outgoing::new(0, &config());
    stream.queue(Chunk { btag: Some([1; 8]), ..chunk(1, 0) });
    stream.shut();
    assert!(stream.has_to_send(&terms()) && stream.first().is_none());
    let cuts = send(&mut stream, at(0), &terms());
    assert_eq!(cuts.len(), 1);
    assert_eq!((cuts[0].len, cuts[0].eom, cuts[0].ends, cuts[0].btag), (0, true, true, Some([1; 8])));
    assert_eq!(stream.first().map(|cut| (cut.len, cut.eom, cut.ends)), Some((0, true, true)));
    assert_eq!(stream.poll_done(), None);
    stream.settle(at(1));
    assert!(stream.poll_done().is_some());
}

//= X-15 test
#[test]
fn without_error_control_nothing_is_repeated_and_little_remembered() {
    let mut stream = stream(50_000_000);
    let terms = Terms { no_error: true, no_flow: true, ask_every: 0, ..terms() };
    for step in 0..50_000 {
        let Next::Cut(cut) = stream.next(at(step), &terms) else { panic!("nothing to send") };
        stream.commit(at(step), &cut, Asking::No, &terms);
    }
    assert_eq!(stream.poll_done().map(|done| done.ticket), Some(1), "nobody will ask for it again");
    let records = stream.active.as_deref().map(|active| active.flights.records());
    assert!(records.is_some_and(|(runs, order)| runs <= 1024 && order <= 1024), "{records:?}");
    let sync = stream.ask(at(60_000), Asking::Status);
    let outcome = stream.on_status(at(70_000), &heard(49_990_000, sync, &[]));
    assert_eq!((outcome.lost, stream.in_flight(), stream.acked()), (10_000, 0, 49_990_000));
    assert!(!stream.has_to_send(&terms));
}

//= X-15 test
#[test]
fn without_error_control_only_the_first_is_kept_for_repetition() {
    let terms = Terms { no_error: true, no_flow: true, ..terms() };
    let mut iso = stream(3_000);
    send(&mut iso, at(0), &terms);
    assert_eq!((iso.poll_done(), iso.first().map(|cut| cut.len)), (None, Some(1_000)));
    iso.on_status(at(1), &heard(1_000, 100, &[]));
    assert!(iso.poll_done().is_some() && iso.first().is_none());

    let mut datagram = stream(500);
    datagram.shut();
    let Next::Cut(cut) = datagram.next(at(0), &terms) else { panic!("nothing to send") };
    datagram.commit(at(0), &cut, Asking::No, &terms);
    assert!(datagram.poll_done().is_some(), "nobody is asked");
}

//= X-13 test
#[test]
fn spans_of_single_bytes_do_not_blow_the_records_up() {
    let mut stream = stream(60_000);
    send(&mut stream, at(0), &terms());
    for low in 0..29_000 {
        stream.on_status(at(1), &heard(0, 100, &[(2 * low + 1, 2 * low + 2)]));
        send(&mut stream, at(2), &terms());
    }
    let records = stream.active.as_deref().map(|active| active.flights.records());
    assert!(records.is_some_and(|(runs, _)| runs < 2_000), "{records:?}");
}

//= X-23 test
#[test]
fn the_congestion_window_holds_and_the_packet_that_uses_it_up_asks() {
    let window = ControllerKind::Fixed { window: 5_000 };
    let mut stream = Outgoing::new(0, &PathConfig { congestion: window, ..config() });
    stream.queue(chunk(1, 60_000));
    let cuts = send(&mut stream, at(0), &terms());
    assert_eq!((cuts.len(), stream.in_flight()), (4, 4_160));
    assert_eq!(cuts.iter().map(|cut| cut.asks).collect::<Vec<_>>(), [false, false, false, true]);
    assert!(stream.has_to_send(&terms()), "alloc has room");
    stream.on_status(at(1), &heard(1_000, 0, &[]));
    assert_eq!(send(&mut stream, at(2), &terms()).len(), 1);
}

//= X-23 test
#[test]
fn losses_shrink_the_window_of_cubic_and_it_paces() {
    let mut stream = Outgoing::new(0, &PathConfig::default());
    stream.queue(chunk(1, 900_000));
    let mut now = 0;
    let mut windows = Vec::new();
    let mut is_paced = false;
    while stream.acked() < 40_000 {
        now += 10 * MS;
        while let next @ (Next::Cut(_) | Next::At(_)) = stream.next(at(now), &terms()) {
            match next {
                Next::Cut(cut) => {
                    stream.commit(at(now), &cut, if cut.asks { Asking::Status } else { Asking::No }, &terms());
                }
                Next::At(then) => {
                    assert!(then > at(now));
                    is_paced = true;
                    now = then.as_nanos();
                }
                Next::Nothing => {}
            }
        }
        now += 10 * MS;
        let echo = stream.sync();
        stream.on_status(at(now), &heard(stream.sent(), echo, &[]));
        windows.push(stream.active.as_deref().map_or(0, |active| active.path.congestion.window()));
    }
    assert!(is_paced && windows.is_sorted() && windows.len() > 1, "{windows:?}");
    now += 10 * MS;
    let cuts = send(&mut stream, at(now), &terms());
    let last = cuts.last().map_or(0, Cut::high);
    let acked = stream.acked();
    let span = [(last - 1, last)];
    assert!(stream.on_status(at(now + 20 * MS), &heard(acked, stream.sync(), &span)).lost > 0);
    let window = stream.active.as_deref().map_or(0, |active| active.path.congestion.window());
    assert!(window < windows[windows.len() - 1], "{window} after {windows:?}");
}

#[test]
fn held_packets_do_not_ask_and_are_asked_for_later() {
    let mut stream = stream(2_000);
    let held = Terms { is_held: true, ..terms() };
    assert!(send(&mut stream, at(0), &held).iter().all(|cut| !cut.asks));
    assert!(!stream.is_ask_owed(&held) && stream.is_ask_owed(&terms()));
    stream.ask(at(1), Asking::Deferred);
    assert!(!stream.is_ask_owed(&terms()));
}

//= X-19 test
#[test]
fn the_rate_counts_user_bytes_and_repetitions() {
    let mut stream = Outgoing::new(0, &PathConfig { rate: 1_000_000, burst: 2_000, ..config() });
    stream.queue(chunk(1, 10_000));
    assert_eq!(send(&mut stream, at(0), &terms()).len(), 2);
    assert_eq!(stream.next(at(0), &terms()), Next::At(at(MS)));
    let sync = stream.ask(at(0), Asking::Status);
    stream.on_status(at(0), &heard(0, sync, &[]));
    assert_eq!(stream.next(at(0), &terms()), Next::At(at(MS)), "a repetition waits, too");
    assert_eq!(ends(&send(&mut stream, at(MS), &terms())), [(0, 1_000)]);
    stream.set_rate(at(MS), 0, 0, (0, 0));
    assert_eq!(send(&mut stream, at(MS), &terms()).len(), 9);
}

//= X-24 test
#[test]
fn an_idle_stream_is_small() {
    let heap = |stream: &Outgoing| {
        stream.chunks.heap_bytes() + stream.asks.heap_bytes() + if stream.active.is_some() { 10_000 } else { 0 }
    };
    let mut stream = Outgoing::new(0, &PathConfig::default());
    assert!(size_of::<Outgoing>() + heap(&stream) < 350, "{} bytes", size_of::<Outgoing>());
    stream.queue(chunk(1, 5_000));
    send(&mut stream, at(0), &terms());
    stream.rest();
    assert!(stream.active.is_some(), "bytes are under way");
    stream.on_status(at(10 * MS), &heard(5_000, stream.sync(), &[]));
    assert!(stream.poll_done().is_some());
    stream.rest();
    assert!(size_of::<Outgoing>() + heap(&stream) < 350);
    assert_eq!(stream.round_trip(), Some(Duration::from_millis(10)), "it remembers the round trip");
    stream.queue(chunk(2, 5_000));
    assert_eq!(ends(&send(&mut stream, at(20 * MS), &terms())).last(), Some(&(9_000, 10_000)));
    stream.on_status(at(30 * MS), &heard(6_000, stream.sync(), &[(7_000, 10_000)]));
    assert_eq!(ends(&send(&mut stream, at(40 * MS), &terms())), [(6_000, 7_000)]);
}
