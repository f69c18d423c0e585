//! Random schedules against a map of bytes: rule 3.3 computed byte by byte.

use super::*;
use crate::outgoing::flights::State;
use pinnace_core::BufferRange;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Op {
    Queue {
        len: u64,
        eom: bool,
        tagged: bool,
    },
    /// At most so many packets, of at most `max` bytes; one in `defer` asks with DREQ where the machine does not ask.
    Send {
        packets: usize,
        max: u32,
        defer: usize,
        is_held: bool,
    },
    Wait {
        nanos: u64,
    },
    Ask {
        is_expiry: bool,
    },
    Status(Forged),
    Shut,
}

/// A status, in parts of 1/1000 of what was sent.
#[derive(Clone, Debug)]
struct Forged {
    rseq: u64,
    spans: Vec<(u64, u64)>,
    /// How far behind the newest sync; negative: ahead of it.
    behind: i32,
    more: u64,
    is_old: bool,
    /// Speaks of so many bytes that were never sent.
    beyond: u64,
    /// Whether edges lie on multiples of this, as an honest receiver's do.
    grid: u64,
}

fn op() -> impl Strategy<Value = Op> {
    let spans = prop::collection::vec((0_u64..1000, 1_u64..200), 0..5);
    let rare = |value: u64| prop_oneof![19 => Just(0), 1 => Just(value)];
    let forged =
        (0_u64..1000, spans, prop_oneof![8 => Just(0), 4 => 0..5, 1 => -3..0], 0_u64..20_000, any::<u8>(), rare(3));
    let status =
        (forged, prop_oneof![Just(1_u64), Just(500)]).prop_map(|((rseq, spans, behind, more, old, beyond), grid)| {
            Op::Status(Forged { rseq: rseq * rseq / 1000, spans, behind, more, is_old: old < 20, beyond, grid })
        });
    prop_oneof![
        3 => (1_u64..4_000, any::<bool>(), any::<u8>()).prop_map(|(len, eom, tag)| Op::Queue { len, eom, tagged: tag < 50 }),
        6 => (1_usize..20, 100_u32..1_000, 2_usize..6, any::<u8>())
            .prop_map(|(packets, max, defer, held)| Op::Send { packets, max, defer, is_held: held < 50 }),
        2 => (0..3 * MS).prop_map(|nanos| Op::Wait { nanos }),
        1 => any::<bool>().prop_map(|is_expiry| Op::Ask { is_expiry }),
        6 => status,
        1 => rare(1).prop_map(|rare| if rare == 1 { Op::Shut } else { Op::Wait { nanos: MS } }),
    ]
}

#[derive(Clone, Copy, Debug)]
struct Byte {
    state: State,
    latest: u64,
    is_repeated: bool,
    /// Ends of the first packet that carried it.
    packet: (u64, u64),
}

/// What the application queued.
#[derive(Debug)]
struct Queued {
    low: u64,
    high: u64,
    eom: bool,
    tagged: bool,
}

/// The simple truth.
#[derive(Debug)]
struct Oracle {
    bytes: Vec<Byte>,
    chunks: Vec<Queued>,
    number: u64,
    acked: u64,
    alloc: u64,
    has_status: bool,
    /// The number at which the sync had each value, from the first on.
    asks: Vec<u64>,
    used: usize,
    newest_acked: u64,
    /// Packets with data since one of them asked.
    since_ask: u32,
    is_shut: bool,
    go_back_n: bool,
    done: usize,
    departures: Vec<(u64, u64)>,
}

impl Oracle {
    fn sent(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn queued(&self) -> u64 {
        self.chunks.last().map_or(0, |chunk| chunk.high)
    }

    fn first_lost(&self) -> Option<u64> {
        (self.acked..self.sent()).find(|at| self.bytes[*at as usize].state == State::Lost)
    }

    fn next(&self) -> Option<u64> {
        self.first_lost().or_else(|| (self.sent() < self.queued()).then_some(self.sent()))
    }

    fn ack(&mut self, low: u64, high: u64, before: u64) -> u64 {
        let mut acked = 0;
        for byte in &mut self.bytes[low as usize..high as usize] {
            if byte.state != State::Acked {
                acked += 1;
                byte.state = State::Acked;
                if !byte.is_repeated || byte.latest < before {
                    self.newest_acked = self.newest_acked.max(byte.latest);
                }
            }
        }
        acked
    }

    fn on_status(&mut self, heard: &Heard<'_>, echo: usize) -> Outcome {
        let mut outcome = Outcome::default();
        let unsent =
            heard.rseq > self.sent() || heard.spans.iter().any(|span| span.0 >= span.1 || span.1 > self.sent());
        // Whoever has heard nothing echoes 0.
        let is_asked = echo < self.asks.len();
        if unsent || !(is_asked || heard.echo == 0) {
            return Outcome { is_invalid: true, ..outcome };
        }
        self.alloc = if self.has_status { self.alloc.max(heard.alloc) } else { heard.alloc };
        self.has_status = true;
        let is_used = !heard.is_old && is_asked && echo >= self.used;
        // What is repeated behind an ask that is not answered has not arrived again: the original was late.
        let before = if is_used { self.asks.get(echo + 1).copied().unwrap_or(u64::MAX) } else { 0 };
        // Below `acked` a go-back-N sender knows no state any more.
        if heard.rseq > self.acked {
            outcome.acked = self.ack(self.acked, heard.rseq, before);
            self.acked = heard.rseq;
        }
        if !is_used {
            return outcome;
        }
        self.used = echo;
        for &(low, high) in heard.spans {
            let low = low.max(self.acked);
            if low < high {
                outcome.acked += self.ack(low, high, before);
            }
        }
        let overtaken = self.asks[echo].max(self.newest_acked);
        let is_lost = |byte: &Byte| byte.state == State::UnderWay && byte.latest < overtaken;
        let first = self.bytes.iter().position(is_lost);
        for byte in &mut self.bytes[first.unwrap_or(0)..] {
            if is_lost(byte) || (self.go_back_n && first.is_some() && byte.state != State::Lost) {
                byte.state = State::Lost;
                outcome.lost += 1;
            }
        }
        outcome
    }

    /// A packet leaves: everything that is said of packets.
    fn on_cut(&mut self, cut: &Cut, terms: &Terms, now: u64, window_is_full: bool) -> Result<(), TestCaseError> {
        let (low, high) = (cut.low, cut.high());
        prop_assert!(low < high && cut.len <= terms.max);
        prop_assert!(high <= self.alloc, "beyond alloc");
        prop_assert_eq!(Some(low), self.next(), "losses first, the oldest first");
        prop_assert_eq!(cut.is_repetition, low < self.sent());
        let inside = |at: u64| low < at && at < high;
        for chunk in &self.chunks {
            let has_two = (chunk.eom && inside(chunk.high)) || (chunk.tagged && inside(chunk.low));
            prop_assert!(!has_two, "two messages");
        }
        let eom = self.chunks.iter().any(|chunk| chunk.eom && chunk.high == high);
        let tagged = self.chunks.iter().any(|chunk| chunk.tagged && chunk.low == low);
        let ends = self.is_shut && high == self.queued();
        prop_assert_eq!((cut.eom, cut.btag.is_some(), cut.ends), (eom, tagged, ends));
        self.number += 1;
        let state = State::UnderWay;
        if cut.is_repetition {
            for byte in &mut self.bytes[low as usize..high as usize] {
                prop_assert!(byte.packet.0 <= low && high <= byte.packet.1, "coarser than the original");
                prop_assert_eq!(byte.state, State::Lost);
                (byte.state, byte.latest, byte.is_repeated) = (state, self.number, true);
            }
        } else {
            let packet = (low, high);
            self.bytes.resize(high as usize, Byte { state, latest: self.number, is_repeated: false, packet });
        }
        self.since_ask += 1;
        let is_last = match self.next() {
            Some(next) => next >= self.alloc,
            None => !terms.is_held,
        };
        let wants = ends || is_last || self.since_ask >= terms.ask_every || window_is_full;
        prop_assert_eq!(cut.asks, wants, "asking");
        self.departures.push((now, u64::from(cut.len)));
        Ok(())
    }

    fn on_ask(&mut self, asking: Asking, number: u64) {
        if asking != Asking::No {
            self.asks.push(number);
        }
    }

    /// Where the bytes `[low, high)` lie, one by one.
    fn places(&self, low: u64, high: u64) -> Vec<(u32, u64)> {
        let place = |at: u64| {
            let index = self.chunks.iter().position(|chunk| chunk.low <= at && at < chunk.high).expect("it was queued");
            (index as u32, 1_000 + at - self.chunks[index].low)
        };
        (low..high).map(place).collect()
    }

    fn compare(&mut self, stream: &mut Outgoing) -> Result<(), TestCaseError> {
        prop_assert_eq!((stream.acked(), stream.sent()), (self.acked, self.sent()));
        if let Some(active) = stream.active.as_deref() {
            let mut at = self.acked;
            for (low, high, state) in active.flights.states() {
                prop_assert_eq!(low, at, "a gap between runs");
                prop_assert!(low < high);
                for byte in &self.bytes[low as usize..high as usize] {
                    prop_assert_eq!(byte.state, state);
                }
                at = high;
            }
            prop_assert_eq!(at, self.sent());
            prop_assert_eq!(active.flights.bytes(), active.flights.bytes_counted());
        }
        let lost = self.bytes[self.acked as usize..].iter().filter(|byte| byte.state == State::Lost).count();
        prop_assert_eq!(stream.lost(), lost as u64);
        while let Some(done) = stream.poll_done() {
            prop_assert_eq!(done.ticket, self.done as u64);
            self.done += 1;
        }
        prop_assert_eq!(self.done, self.chunks.iter().filter(|chunk| chunk.high <= self.acked).count());
        Ok(())
    }

    /// In no interval more leaves than burst and rate allow.
    fn check_rate(&self, rate: u64, burst: u64) -> Result<(), TestCaseError> {
        for first in 0..self.departures.len() {
            let (mut total, mut largest) = (0, 0);
            for (at, len) in &self.departures[first..] {
                total += len;
                largest = largest.max(*len);
                let elapsed = u128::from(at - self.departures[first].0);
                let allowed = u128::from(burst.max(largest)) * 1_000_000_000 + u128::from(rate) * elapsed;
                prop_assert!(u128::from(total) * 1_000_000_000 <= allowed);
            }
        }
        Ok(())
    }
}

fn run(
    ops: &[Op],
    go_back_n: bool,
    congestion: ControllerKind,
    (rate, burst): (u64, u64),
) -> Result<(), TestCaseError> {
    const START: u32 = u32::MAX - 3;
    let config = PathConfig { congestion, rate, burst, ..PathConfig::default() };
    let mut stream = Outgoing::new(START, &config);
    let mut oracle = Oracle {
        bytes: Vec::new(),
        chunks: Vec::new(),
        number: 0,
        acked: 0,
        alloc: 65_536,
        has_status: false,
        asks: vec![0],
        used: 0,
        newest_acked: 0,
        since_ask: 0,
        is_shut: false,
        go_back_n,
        done: 0,
        departures: Vec::new(),
    };
    let mut now = 0;
    for op in ops {
        now += 1_000;
        match *op {
            Op::Queue { len, eom, tagged } if !oracle.is_shut => {
                let (low, index) = (oracle.queued(), oracle.chunks.len());
                oracle.chunks.push(Queued { low, high: low + len, eom, tagged });
                let btag = tagged.then_some([3; 8]);
                let buffer = BufferId::new(index as u32);
                stream.queue(Chunk { ticket: index as u64, buffer, offset: 1_000, len, eom, btag });
            }
            Op::Queue { .. } => {}
            Op::Shut => {
                oracle.is_shut = true;
                stream.shut();
            }
            Op::Wait { nanos } => now += nanos,
            Op::Ask { is_expiry } => {
                let asking = if is_expiry { Asking::Expiry } else { Asking::Status };
                let sync = stream.ask(at(now), asking);
                oracle.on_ask(asking, oracle.number + 1);
                prop_assert_eq!(sync, START.wrapping_add(oracle.asks.len() as u32 - 1));
            }
            Op::Send { packets, max, defer, is_held } => {
                let terms = Terms { max, go_back_n, is_held, ..terms() };
                for packet in 0..packets {
                    let cut = match stream.next(at(now), &terms) {
                        Next::Cut(cut) => cut,
                        Next::At(then) => {
                            prop_assert!(then > at(now));
                            now = then.as_nanos();
                            match stream.next(at(now), &terms) {
                                Next::Cut(cut) => cut,
                                next => return Err(TestCaseError::fail(format!("{next:?} at the time it gave"))),
                            }
                        }
                        Next::Nothing => {
                            let blocked = stream.in_flight() > 0
                                && matches!(congestion, ControllerKind::Fixed { window } if window < u64::MAX);
                            let is_free = oracle.next().is_some_and(|next| next < oracle.alloc);
                            // A crumb waits for the status that is on its way.
                            let is_crumb = stream.is_ask_missing()
                                && oracle.next().is_some_and(|next| oracle.alloc < next + u64::from(max / 2));
                            prop_assert!(!is_free || blocked || is_crumb || congestion == ControllerKind::Cubic);
                            prop_assert_eq!(stream.has_to_send(&terms), is_free);
                            break;
                        }
                    };
                    let in_flight = stream.in_flight();
                    let window = stream.active.as_deref().map_or(u64::MAX, |active| active.path.congestion.window());
                    let wire = u64::from(cut.len + terms.overhead);
                    prop_assert!(in_flight == 0 || in_flight + wire <= window, "the congestion window");
                    let full = u64::from(terms.max + terms.overhead);
                    let window_is_full = window < u64::MAX && in_flight + wire + full > window;
                    let parts: Vec<BufferRange> = stream.parts(cut.low, cut.len).collect();
                    prop_assert!(parts.len() <= MOST_PIECES);
                    let places: Vec<_> = parts
                        .iter()
                        .flat_map(|part| (part.offset..part.end()).map(|offset| (part.buffer.index(), offset)))
                        .collect();
                    prop_assert_eq!(places, oracle.places(cut.low, cut.high()));
                    oracle.on_cut(&cut, &terms, now, window_is_full)?;
                    let asking = match cut.asks {
                        true => Asking::Status,
                        false if packet % defer == 0 => Asking::Deferred,
                        false => Asking::No,
                    };
                    let sync = stream.commit(at(now), &cut, asking, &terms);
                    oracle.on_ask(asking, oracle.number);
                    if asking == Asking::Status {
                        oracle.since_ask = 0;
                    }
                    prop_assert_eq!(sync, START.wrapping_add(oracle.asks.len() as u32 - 1));
                    prop_assert_eq!(stream.in_flight(), in_flight + wire);
                }
            }
            Op::Status(ref forged) => {
                let sent = oracle.sent();
                let edge = |part: u64| (part * sent / 1000) / forged.grid * forged.grid;
                let mut spans: Vec<_> = forged
                    .spans
                    .iter()
                    .map(|(low, len)| (edge(*low), edge((low + len).min(1000)) + forged.beyond))
                    .filter(|(low, high)| low < high || forged.beyond > 0)
                    .collect();
                spans.sort_unstable();
                let rseq = edge(forged.rseq) + if forged.spans.is_empty() { forged.beyond } else { 0 };
                let index = (oracle.asks.len() as i64 - 1) - i64::from(forged.behind);
                if index < 0 {
                    continue;
                }
                let echo = START.wrapping_add(index as u32);
                let alloc = oracle.acked + forged.more;
                let heard =
                    Heard { rseq, alloc, echo, spans: &spans, is_old: forged.is_old, is_question: forged.is_old };
                let expected = oracle.on_status(&heard, index as usize);
                let outcome = stream.on_status(at(now), &heard);
                prop_assert_eq!(
                    (outcome.acked, outcome.lost, outcome.is_invalid),
                    (expected.acked, expected.lost, expected.is_invalid)
                );
            }
        }
        oracle.compare(&mut stream)?;
        let missing = stream.is_ask_missing();
        prop_assert!(!missing || oracle.used + 1 < oracle.asks.len());
    }
    if rate > 0 {
        oracle.check_rate(rate, burst)?;
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    //= X-13 test
    //= X-17 test
    //= X-19 test
    #[test]
    fn every_byte_is_in_the_state_that_the_rules_give_it(
        ops in prop::collection::vec(op(), 1..80),
        go_back_n in any::<bool>(),
        congestion in prop_oneof![
            2 => Just(ControllerKind::Fixed { window: u64::MAX }),
            1 => Just(ControllerKind::Fixed { window: 6_000 }),
            1 => Just(ControllerKind::Cubic),
        ],
        limit in prop_oneof![Just((0, 0)), (100_000_u64..50_000_000, 500_u64..10_000)],
    ) {
        run(&ops, go_back_n, congestion, limit)?;
    }
}
