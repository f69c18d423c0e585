//! Streams over a path that loses, against a receiver that keeps to the rules: everything arrives, and then nothing is
//! under way.

use super::*;
use pinnace_core::{IntervalSet, Random};

/// The other end: keeps what arrives, or, in go-back-N, only what arrives in order.
#[derive(Default)]
struct Receiver {
    rseq: u64,
    beyond: IntervalSet,
    newest_sync: u32,
}

impl Receiver {
    fn take(&mut self, cut: &Cut, go_back_n: bool) {
        if cut.low <= self.rseq {
            self.rseq = self.rseq.max(cut.high());
        } else if !go_back_n {
            self.beyond.insert(cut.low..cut.high());
        }
        self.rseq = self.beyond.first_missing_from(self.rseq);
        self.beyond.pop_front_below(self.rseq);
    }

    fn answer(&self, stream: &mut Outgoing, now: u64, window: u64) -> Outcome {
        let spans: Vec<_> = self.beyond.iter().map(|span| (span.start, span.end)).take(70).collect();
        let (rseq, alloc) = (self.rseq, self.rseq + window);
        stream.on_status(
            at(now),
            &Heard { rseq, alloc, echo: self.newest_sync, spans: &spans, is_old: false, is_question: false },
        )
    }
}

struct Totals {
    packets: u64,
    expiries: u64,
}

fn deliver(congestion: ControllerKind, loss: f64, go_back_n: bool, seed: u64) -> Totals {
    const BYTES: u64 = 300_000;
    const WINDOW: u64 = 100_000;
    let mut random = Random::from_seed(seed);
    let mut stream = Outgoing::new(0, &PathConfig { congestion, ..PathConfig::default() });
    for ticket in 0..BYTES / 3_000 {
        stream.queue(chunk(ticket, 3_000));
    }
    stream.shut();
    let terms = Terms { go_back_n, ..terms() };
    let (mut receiver, mut totals, mut now) = (Receiver::default(), Totals { packets: 0, expiries: 0 }, 0);
    while stream.acked() < BYTES {
        assert!(totals.packets < 20_000, "it does not end: {} of {BYTES} at {now}", stream.acked());
        // What leaves in a round trip, in the order of its departure.
        let mut asked = false;
        for _ in 0..200 {
            match stream.next(at(now), &terms) {
                Next::Cut(cut) => {
                    let asking = if cut.asks { Asking::Status } else { Asking::No };
                    let sync = stream.commit(at(now), &cut, asking, &terms);
                    totals.packets += 1;
                    if !random.chance(loss) {
                        receiver.take(&cut, go_back_n);
                        receiver.newest_sync = sync;
                        asked |= cut.asks;
                    }
                }
                Next::At(then) => {
                    assert!(then > at(now));
                    now = then.as_nanos();
                }
                Next::Nothing => break,
            }
        }
        now += 10 * MS;
        if asked && !random.chance(loss) {
            let outcome = receiver.answer(&mut stream, now, WINDOW);
            assert!(!outcome.is_invalid);
        } else {
            // WTIMER.
            now += stream.timeout().as_nanos() as u64;
            totals.expiries += 1;
            receiver.newest_sync = stream.ask(at(now), Asking::Expiry);
            assert!(receiver.answer(&mut stream, now + 10 * MS, WINDOW).echoes_expiry);
            now += 10 * MS;
        }
    }
    assert_eq!((stream.in_flight(), stream.lost(), stream.is_ask_missing()), (0, 0, false));
    assert_eq!((0..100).filter_map(|_| stream.poll_done()).count() as u64, BYTES / 3_000);
    assert_eq!(stream.next(at(now), &terms), Next::Nothing);
    totals
}

//= X-11 test
//= X-13 test
//= X-23 test
#[test]
fn everything_arrives_whatever_is_lost() {
    let window = 50_000;
    for congestion in [ControllerKind::Fixed { window }, ControllerKind::Cubic, ControllerKind::Bbr] {
        for go_back_n in [false, true] {
            for (loss, seed) in [(0.0, 1), (0.01, 2), (0.1, 3), (0.3, 4), (0.5, 5)] {
                deliver(congestion, loss, go_back_n, seed);
            }
        }
    }
}

//= X-13 test
#[test]
fn selective_repetition_sends_what_was_lost_and_go_back_n_much_more() {
    let fixed = ControllerKind::Fixed { window: 50_000 };
    let clean = deliver(fixed, 0.0, false, 1);
    assert_eq!((clean.packets, clean.expiries), (300, 0));
    let selective = deliver(fixed, 0.05, false, 7).packets;
    let go_back = deliver(fixed, 0.05, true, 7).packets;
    assert!(selective < 340, "{selective} packets for 300");
    assert!(go_back > selective + 60, "{go_back} packets against {selective}");
}
