//! Random pieces against an oracle that keeps a set of bytes, and real memory behind the places.
//!
//! The stream has a true cut into messages; most pieces keep to it, some lie. What the plan covers is overwritten with
//! rubbish after every step, so a slot over a byte that has arrived shows.

use super::*;
use pinnace_core::{ReceivePlan, Slot};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// Where the stream is when the test begins: windows only count behind the 65,536 bytes that are always allowed.
const START: u64 = 65_700;

#[derive(Clone, Debug)]
enum Step {
    /// From so many bytes behind (or before) one of dseq, rseq, hseq on.
    Data {
        from: u8,
        ahead: i64,
        len: u32,
        lie: u8,
        ends: bool,
    },
    End {
        ahead: i64,
    },
    Consume {
        share: u64,
    },
    Message,
    Alloc,
    /// Posts an area, or takes the ring and sets another.
    Memory {
        bytes: u64,
    },
    /// Widens the window, and lends a larger ring that takes over.
    Larger {
        more: u32,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let data = (0..4u8, -25..60i64, 0..50u32, 0..64u8, prop::bool::weighted(0.02));
    prop_oneof![
        10 => data.prop_map(|(from, ahead, len, lie, ends)| Step::Data { from, ahead, len, lie, ends }),
        // What comes next, most of the time.
        6 => (1..50u32).prop_map(|len| Step::Data { from: 1, ahead: 0, len, lie: 9, ends: false }),
        1 => (-2..90i64).prop_map(|ahead| Step::End { ahead }),
        3 => (0..=4u64).prop_map(|share| Step::Consume { share }),
        3 => Just(Step::Message),
        1 => Just(Step::Alloc),
        1 => (1..90u64).prop_map(|bytes| Step::Memory { bytes }),
        1 => (1..90u32).prop_map(|more| Step::Larger { more }),
    ]
}

fn value(offset: u64) -> u8 {
    (offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// Memory as the oracle sees it.
enum Place {
    Ring {
        buffer: u32,
        base: u64,
        bytes: u64,
        /// What takes over: from which byte on, and how large it is.
        next: Option<(u64, u64)>,
    },
    /// First byte of the stream, one past the last; buffer `i` begins with 3 bytes that are nobody's.
    Areas(Vec<Range<u64>>),
}

struct Oracle {
    policy: Policy,
    /// Bytes that came, bytes that will not come.
    have: BTreeSet<u64>,
    lost: BTreeSet<u64>,
    dseq: u64,
    hseq: u64,
    seen: u64,
    end: Option<u64>,
    told: u64,
    ends: BTreeSet<u64>,
    tags: BTreeMap<u64, [u8; 8]>,
    is_ended: bool,
    place: Place,
}

impl Oracle {
    fn rseq(&self) -> u64 {
        (self.dseq..).find(|byte| !self.have.contains(byte) && !self.lost.contains(byte)).unwrap()
    }

    fn runs(bytes: impl Iterator<Item = u64>) -> Vec<Range<u64>> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        for byte in bytes {
            match runs.last_mut() {
                Some(run) if run.end == byte => run.end += 1,
                _ => runs.push(byte..byte + 1),
            }
        }
        runs
    }

    fn spans(&self) -> Vec<Range<u64>> {
        Self::runs(self.have.range(self.rseq()..).copied())
    }

    fn holes(&self) -> Vec<Range<u64>> {
        Self::runs(self.lost.range(self.dseq..).copied())
    }

    fn memory_end(&self) -> u64 {
        match &self.place {
            Place::Ring { next: Some((from, bytes)), .. } => from + bytes,
            Place::Ring { bytes, .. } => self.dseq + bytes,
            Place::Areas(areas) => areas.last().unwrap().end,
        }
    }

    fn alloc_now(&self) -> u64 {
        if self.policy.is_reserved {
            self.memory_end()
        } else {
            self.memory_end().min(self.dseq + u64::from(self.policy.rwindow))
        }
    }

    fn limit(&self) -> u64 {
        if self.policy.is_reserved { self.memory_end() } else { self.memory_end().min(self.alloc_now().max(self.told)) }
    }

    /// Where a byte belongs.
    fn at(&self, byte: u64) -> (u32, u64) {
        match &self.place {
            Place::Ring { buffer, next: Some((from, _)), .. } if byte >= *from => (buffer + 1, byte - from),
            Place::Ring { buffer, base, bytes, .. } => (*buffer, (base + byte) % bytes),
            Place::Areas(areas) => {
                let index = areas.iter().position(|area| area.contains(&byte)).expect("in memory");
                (100 + index as u32, 3 + byte - areas[index].start)
            }
        }
    }

    fn no_error(&self) -> bool {
        self.policy.keeping == Keeping::NoError
    }

    /// Bytes up to `high` are lost, as far as there is memory.
    fn advance(&mut self) {
        let high = self.seen.min(self.limit());
        if self.no_error() && high > self.hseq {
            let mut lost = self.lost.clone();
            lost.extend(self.hseq..high);
            if self.is_bounded(&lost) {
                self.lost = lost;
                self.hseq = high;
            }
        }
    }

    fn is_bounded(&self, lost: &BTreeSet<u64>) -> bool {
        Self::runs(lost.range(self.dseq..).copied()).len() <= self.policy.max_spans
    }

    fn is_wrong_end(&self, end: u64) -> bool {
        end < self.hseq || (self.no_error() && end < self.seen) || self.end.is_some_and(|known| known != end)
    }

    fn lies(&self, piece: &Piece) -> bool {
        let high = piece.low + u64::from(piece.len);
        let bytes = piece.low..high;
        if self.end.is_some_and(|end| high > end)
            || piece.end.is_some_and(|end| self.is_wrong_end(end))
            || bytes.clone().skip(1).any(|byte| self.ends.contains(&byte))
        {
            return true;
        }
        if bytes.is_empty() || self.no_error() {
            return false;
        }
        let is_in = |byte: u64| byte < self.dseq || self.have.contains(&byte);
        (piece.eom && high > self.dseq && is_in(high - 1) && !self.ends.contains(&high))
            || (piece.btag.is_some()
                && piece.low >= self.dseq
                && is_in(piece.low)
                && !self.tags.contains_key(&piece.low))
    }

    /// What becomes of a piece, and its new bytes.
    fn data(&mut self, piece: &Piece) -> (Fate, Vec<u64>) {
        let high = piece.low + u64::from(piece.len);
        if self.lies(piece) {
            return (Fate::Contradiction, Vec::new());
        }
        let (fate, new) = self.take(piece, high);
        if let Some(end) = piece.end {
            self.end = Some(end);
            self.seen = self.seen.max(end);
        }
        if piece.len > 0 && (matches!(fate, Fate::Beyond | Fate::Dropped) || high > self.limit()) {
            self.seen = self.seen.max(high);
        }
        self.advance();
        (fate, new)
    }

    fn take(&mut self, piece: &Piece, high: u64) -> (Fate, Vec<u64>) {
        let (rseq, limit) = (self.rseq(), self.limit());
        let mut ends = self.ends.clone();
        if piece.eom && high <= limit {
            ends.insert(high);
        }
        if piece.btag.is_some() && piece.low > self.dseq {
            ends.insert(piece.low);
        }
        let is_blocked = ends.len() > self.ends.len()
            && ends.len() > self.policy.max_boundaries
            && (piece.low > rseq || self.ends.first().is_some_and(|end| *end <= rseq));
        if piece.len == 0 {
            let is_new_end = piece.eom && !self.ends.contains(&high) && !(high == self.dseq && self.is_ended);
            let is_new_tag = !piece.eom && piece.btag.is_some() && !self.tags.contains_key(&high);
            if high < rseq || !(is_new_end || is_new_tag) {
                return (Fate::Duplicate, Vec::new());
            }
            if high > rseq || is_blocked {
                return (Fate::Dropped, Vec::new());
            }
            self.mark(piece, piece.eom, high);
            return (Fate::New, Vec::new());
        }
        let missing: Vec<u64> = (piece.low.max(rseq)..high).filter(|byte| !self.have.contains(byte)).collect();
        let new: Vec<u64> = missing.iter().copied().filter(|byte| *byte < limit).collect();
        if missing.is_empty() {
            return (Fate::Duplicate, Vec::new());
        }
        if new.is_empty() {
            return (Fate::Beyond, Vec::new());
        }
        let mut have = self.have.clone();
        have.extend(&new);
        let spans = Self::runs(have.range(rseq + 1..).copied()).len();
        let mut lost = self.lost.clone();
        let is_beyond_gap = piece.low > rseq;
        let fits = match self.policy.keeping {
            Keeping::Selective => spans <= self.policy.max_spans,
            Keeping::GoBackN => false,
            Keeping::NoError => {
                lost.extend(rseq..piece.low);
                self.is_bounded(&lost)
            }
        };
        if is_beyond_gap && !fits {
            if !self.no_error() {
                self.hseq = self.hseq.max(high.min(limit));
            }
            return (Fate::Dropped, Vec::new());
        }
        if is_blocked {
            if !self.no_error() {
                self.hseq = self.hseq.max(high.min(limit));
            }
            return (Fate::Dropped, Vec::new());
        }
        self.have = have;
        self.lost = lost;
        self.hseq = self.hseq.max(high.min(limit));
        self.mark(piece, piece.eom && high <= limit, high);
        (Fate::New, new)
    }

    fn mark(&mut self, piece: &Piece, eom: bool, high: u64) {
        if eom {
            self.ends.insert(high);
        }
        if let Some(tag) = piece.btag.filter(|_| piece.low >= self.dseq) {
            self.tags.entry(piece.low).or_insert(tag);
            if piece.low > self.dseq {
                self.ends.insert(piece.low);
            }
        }
    }

    fn consume(&mut self, bytes: u64) {
        self.dseq += bytes;
        let ended = self.ends.contains(&self.dseq);
        let (dseq, rseq) = (self.dseq, self.rseq());
        self.ends.retain(|end| *end > dseq);
        if bytes > 0 || ended {
            self.is_ended = ended;
            self.tags.retain(|at, _| *at > dseq || (*at == dseq && (bytes > 0 || rseq > dseq)));
        }
        self.advance();
    }
}

struct World {
    incoming: Incoming,
    oracle: Oracle,
    memory: BTreeMap<u32, Vec<u8>>,
    placed: BTreeSet<u64>,
    given_back: u32,
    /// Lengths of the true messages, over and over.
    lengths: Vec<u64>,
}

impl World {
    fn new(policy: Policy, bytes: u64, base: u64, lengths: Vec<u64>) -> Self {
        let mut incoming = Incoming::new(policy);
        let mut memory = BTreeMap::new();
        let place = if policy.is_reserved {
            let start = BufferId::new(100);
            incoming.post(start, 3, START);
            incoming.post(BufferId::new(101), 3, bytes);
            memory.insert(100, vec![0; START as usize + 3]);
            memory.insert(101, vec![0; bytes as usize + 3]);
            Place::Areas(vec![0..START, START..START + bytes])
        } else {
            incoming.set_ring(BufferId::new(0), START);
            Place::Ring { buffer: RING.index(), base, bytes, next: None }
        };
        while incoming.dseq() < START {
            let low = incoming.dseq();
            incoming.data(&piece(low..START.min(low + 20)));
            incoming.consume(incoming.readable().len);
        }
        assert_eq!(incoming.dseq(), START);
        if !policy.is_reserved {
            incoming.take_ring().unwrap();
            incoming.set_ring_at(RING, bytes, base);
            memory.insert(RING.index(), vec![0; bytes as usize]);
        }
        let oracle = Oracle {
            policy,
            have: BTreeSet::new(),
            lost: BTreeSet::new(),
            dseq: START,
            hseq: START,
            seen: 0,
            end: None,
            told: 0,
            ends: BTreeSet::new(),
            tags: BTreeMap::new(),
            is_ended: false,
            place,
        };
        let given_back = u32::from(policy.is_reserved && incoming.poll_filled() == Some(BufferId::new(100)));
        Self { incoming, oracle, memory, placed: BTreeSet::new(), given_back, lengths }
    }

    /// The true message that byte `byte` is in, and whether it has a tag.
    fn truth(&self, byte: u64) -> (Range<u64>, bool) {
        let turn: u64 = self.lengths.iter().sum();
        let mut low = START + (byte - START) / turn * turn;
        for (index, len) in self.lengths.iter().enumerate() {
            if byte < low + len {
                return (low..low + len, index % 3 == 1);
            }
            low += len;
        }
        (low..low, false)
    }

    fn piece(&self, from: u8, ahead: i64, len: u32, lie: u8, ends: bool) -> Piece {
        let anchor = [self.incoming.dseq(), self.incoming.rseq(), self.incoming.hseq(), self.incoming.rseq()];
        let low = anchor[usize::from(from)].saturating_add_signed(ahead).max(START);
        let (message, has_tag) = self.truth(low);
        let high = (low + u64::from(len)).min(if lie == 0 { u64::MAX } else { message.end });
        let high = high.min(self.incoming.end().unwrap_or(u64::MAX)).max(low);
        Piece {
            low,
            len: (high - low) as u32,
            eom: (high == message.end && high > low) ^ (lie == 1),
            btag: ((low == message.start && high > low && has_tag) ^ (lie == 2)).then_some([value(low); 8]),
            end: ends.then_some(high + u64::from(lie == 3)),
        }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Data { from, ahead, len, lie, ends } => self.data(&self.piece(from, ahead, len, lie, ends)),
            Step::End { ahead } => {
                let end = self.incoming.hseq().saturating_add_signed(ahead);
                let taken = self.incoming.on_end(end);
                let is_wrong = self.oracle.is_wrong_end(end);
                assert_eq!(taken.fate == Fate::Contradiction, is_wrong);
                if !is_wrong {
                    self.oracle.end = Some(end);
                    self.oracle.seen = self.oracle.seen.max(end);
                    self.oracle.advance();
                }
            }
            Step::Consume { share } => self.consume(self.incoming.readable().len * share / 4),
            Step::Message => {
                if let Some(len) = self.incoming.readable().message {
                    self.consume(len);
                }
            }
            Step::Alloc => {
                self.oracle.told = self.oracle.told.max(self.oracle.alloc_now());
                assert_eq!(self.incoming.alloc(), self.oracle.told);
                assert!(!self.incoming.is_status_due());
            }
            Step::Memory { bytes } => self.change_memory(bytes),
            Step::Larger { more } => self.enlarge(more),
        }
        self.check();
        self.plan();
        self.check();
    }

    fn data(&mut self, piece: &Piece) {
        let hseq = self.oracle.hseq;
        let was_complete = self.oracle.end == Some(self.oracle.rseq());
        let mut new = Vec::new();
        let taken = self.incoming.on_data(piece, &mut |bytes, range| {
            assert_eq!(bytes.len(), range.len as usize);
            for i in 0..range.len {
                let byte = piece.low + u64::from(bytes.start + i);
                assert!(self.placed.insert(byte), "placed twice: {byte}");
                assert_eq!((range.buffer.index(), range.offset + u64::from(i)), self.oracle.at(byte));
                self.memory.get_mut(&range.buffer.index()).unwrap()[(range.offset + u64::from(i)) as usize] =
                    value(byte);
                new.push(byte);
            }
        });
        let (fate, expected) = self.oracle.data(piece);
        assert_eq!((taken.fate, new), (fate, expected), "{piece:?}");
        assert_eq!(taken.completed, !was_complete && self.oracle.end == Some(self.oracle.rseq()));
        let is_gap = piece.low > hseq && piece.len > 0 && matches!(fate, Fate::New | Fate::Dropped);
        assert_eq!(taken.is_gap, is_gap && !self.oracle.no_error());
    }

    fn consume(&mut self, bytes: u64) {
        let readable = self.incoming.readable();
        let mut low = self.incoming.dseq();
        for part in readable.parts.iter().filter(|part| part.len > 0) {
            let memory = &self.memory[&part.buffer.index()];
            for byte in low..low + u64::from(part.len) {
                let is_right = memory[(part.offset + byte - low) as usize] == value(byte);
                assert!(is_right || self.oracle.lost.contains(&byte), "damaged: {byte}");
            }
            low += u64::from(part.len);
        }
        let was_complete = self.incoming.is_complete();
        let due = self.incoming.consume(bytes);
        self.oracle.consume(bytes);
        assert_eq!(due, self.incoming.is_status_due() || (!was_complete && self.incoming.is_complete()));
        self.give_back();
        let dseq = self.oracle.dseq;
        let outgrown = self.incoming.take_outgrown().map(|buffer| buffer.index());
        match &mut self.oracle.place {
            Place::Ring { buffer, base, bytes, next } if next.is_some_and(|(from, _)| from <= dseq) => {
                assert_eq!(outgrown, Some(*buffer));
                let (from, larger) = next.take().unwrap();
                (*buffer, *base, *bytes) = (*buffer + 1, larger - from % larger, larger);
            }
            _ => assert_eq!(outgrown, None),
        }
    }

    fn enlarge(&mut self, more: u32) {
        let (dseq, hseq) = (self.oracle.dseq, self.oracle.hseq);
        let outgrown = self.incoming.has_outgrown_ring();
        let Place::Ring { buffer, base, bytes, next } = &mut self.oracle.place else {
            assert!(!outgrown);
            return;
        };
        if self.oracle.policy.keeping == Keeping::NoError {
            return;
        }
        let end = dseq + *bytes - (*base + dseq) % *bytes;
        assert_eq!(outgrown, next.is_none() && hseq <= end);
        if !outgrown {
            return;
        }
        let larger = *bytes as u32 + more;
        *next = Some((end, larger.into()));
        assert_eq!(self.incoming.lent_bytes(), *bytes);
        self.memory.insert(*buffer + 1, vec![0; larger as usize]);
        self.incoming.set_larger_ring(BufferId::new(*buffer + 1), larger);
        assert_eq!(self.incoming.lent_bytes(), *bytes + u64::from(larger));
        self.oracle.policy.rwindow += more;
        self.incoming.widen(self.oracle.policy.rwindow);
    }

    fn give_back(&mut self) {
        while let Some(buffer) = self.incoming.poll_filled() {
            assert_eq!(buffer.index(), 100 + self.given_back);
            let Place::Areas(areas) = &self.oracle.place else { panic!("a ring is not given back") };
            let area = &areas[self.given_back as usize];
            assert!(area.end <= self.oracle.dseq || self.oracle.end == Some(self.oracle.dseq));
            self.given_back += 1;
        }
    }

    fn change_memory(&mut self, bytes: u64) {
        if let Place::Areas(areas) = &mut self.oracle.place {
            let index = 100 + areas.len() as u32;
            let low = areas.last().unwrap().end;
            areas.push(low..low + bytes);
            self.memory.insert(index, vec![0; bytes as usize + 3]);
            self.incoming.post(BufferId::new(index), 3, bytes);
            self.oracle.advance();
            self.give_back();
            return;
        }
        let is_empty = self.oracle.dseq == self.oracle.rseq() && self.oracle.spans().is_empty();
        let ring = self.incoming.take_ring();
        assert_eq!(ring.is_some(), is_empty);
        if let Some(ring) = ring {
            let Place::Ring { buffer, next, .. } = &self.oracle.place else { panic!("there was a ring") };
            assert_eq!(ring.index(), *buffer);
            let second = self.incoming.take_ring().map(|ring| ring.index());
            assert_eq!(second, next.map(|_| buffer + 1));
            assert_eq!(self.incoming.take_ring(), None);
            self.incoming.set_ring(RING, bytes);
            self.memory.insert(RING.index(), vec![0; bytes as usize]);
            let base = bytes - self.oracle.dseq % bytes;
            self.oracle.place = Place::Ring { buffer: RING.index(), base, bytes, next: None };
            self.oracle.advance();
        }
    }

    /// Writes rubbish where the plan says that bytes are missing.
    fn plan(&mut self) {
        let mut plan = ReceivePlan::new();
        plan.reset(4);
        self.incoming.plan(&mut plan, 32, 8);
        let mut covered = BTreeSet::new();
        for slot in plan.slots() {
            let Slot::Payload(range) = slot else { continue };
            for at in range.offset..range.end() {
                assert!(covered.insert((range.buffer, at)), "covered twice");
                self.memory.get_mut(&range.buffer.index()).unwrap()[at as usize] ^= 0x5a;
            }
        }
    }

    fn check(&self) {
        let (incoming, oracle) = (&self.incoming, &self.oracle);
        let rseq = oracle.rseq();
        assert_eq!((incoming.dseq(), incoming.rseq(), incoming.hseq()), (oracle.dseq, rseq, oracle.hseq));
        assert_eq!(incoming.spans_now(), oracle.spans());
        assert_eq!((incoming.end(), incoming.is_complete()), (oracle.end, oracle.end == Some(rseq)));
        assert!(incoming.spans.range_count() <= oracle.policy.max_spans);
        assert!(incoming.marks.ends() <= oracle.policy.max_boundaries + 2);
        assert!(!incoming.needs_ring());
        let readable = incoming.readable();
        let mut high = rseq;
        if let Place::Areas(areas) = &oracle.place {
            // Two areas at a time.
            let first = areas.iter().position(|area| area.end > oracle.dseq).unwrap_or(areas.len());
            high = high.min(areas.get(first + 1).or(areas.last()).unwrap().end);
        }
        assert_eq!(readable.len, high - oracle.dseq);
        assert_eq!(readable.parts.iter().map(|part| u64::from(part.len)).sum::<u64>(), readable.len);
        let mut byte = oracle.dseq;
        for part in readable.parts.iter().filter(|part| part.len > 0) {
            assert_eq!((part.buffer.index(), part.offset), oracle.at(byte));
            byte += u64::from(part.len);
        }
        let first = oracle.ends.first().copied();
        assert_eq!(readable.message, first.filter(|end| *end <= high).map(|end| end - oracle.dseq));
        let is_of_the_next = first == Some(oracle.dseq) && rseq > oracle.dseq;
        assert_eq!(readable.btag, oracle.tags.get(&oracle.dseq).copied().filter(|_| !is_of_the_next));
        assert_eq!(readable.is_end, oracle.end == Some(high));
        let holes: Vec<_> = incoming.holes().map(|hole| hole.start + oracle.dseq..hole.end + oracle.dseq).collect();
        let expected = oracle.holes();
        let expected = expected.into_iter().filter(|hole| hole.start < high).map(|hole| hole.start..hole.end.min(high));
        assert_eq!(holes, expected.collect::<Vec<_>>());
        // Every byte that came and was not consumed lies where it belongs, whatever was written elsewhere.
        for byte in oracle.have.range(oracle.dseq..) {
            let (buffer, at) = oracle.at(*byte);
            assert_eq!(self.memory[&buffer][at as usize], value(*byte), "byte {byte}");
        }
    }
}

fn run(policy: Policy, bytes: u64, base: u64, lengths: Vec<u64>, steps: &[Step]) {
    let mut world = World::new(policy, bytes, base % bytes, lengths);
    world.check();
    for step in steps {
        world.step(step);
    }
}

fn keepings() -> impl Strategy<Value = Keeping> {
    prop_oneof![Just(Keeping::Selective), Just(Keeping::GoBackN), Just(Keeping::NoError)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    //= X-16 test
    //= X-4 test
    //= X-8 test
    #[test]
    fn pieces_in_any_order_give_what_a_set_of_bytes_gives(
        keeping in keepings(),
        is_reserved in prop::bool::weighted(0.3),
        (rwindow, bytes, base) in (20..150u32, 20..150u64, 0..1000u64),
        (max_spans, max_boundaries) in (1..7usize, 1..7usize),
        lengths in prop::collection::vec(1..60u64, 1..6),
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let policy = Policy {
            rwindow,
            most_rwindow: 0,
            keeping,
            is_reserved,
            areas: AreaBytes::default(),
            max_spans,
            max_boundaries,
            maxdata: 30,
            is_one_message: false,
        };
        run(policy, bytes, base, lengths, &steps);
    }

    /// A sender that repeats what is missing brings everything, whatever is lost: nothing is ever blocked for good.
    //= X-17 test
    #[test]
    fn everything_arrives_in_its_messages(
        keeping in prop_oneof![Just(Keeping::Selective), Just(Keeping::GoBackN)],
        (bytes, max_spans, max_boundaries) in (20..100u64, 0..4usize, 1..4usize),
        lengths in prop::collection::vec(1..30u64, 1..6),
        picks in prop::collection::vec((0..4u8, 0..50i64, 1..40u32), 1..200),
    ) {
        let policy = Policy { rwindow: 80, max_spans, max_boundaries, maxdata: 30, ..policy(keeping) };
        let mut world = World::new(policy, bytes, 5, lengths);
        let mut at = START;
        for (turn, (from, ahead, len)) in picks.iter().cycle().take(2000).enumerate() {
            // Every fourth packet is the one that is missed most.
            let piece = if turn % 4 == 0 { world.piece(1, 0, *len, 9, false) } else { world.piece(*from, *ahead, *len, 9, false) };
            world.incoming.data(&piece);
            if turn % 5 != 0 {
                continue;
            }
            let readable = world.incoming.readable();
            let (message, has_tag) = world.truth(at);
            prop_assert_eq!(readable.btag, (readable.len > 0 && at == message.start && has_tag).then_some([value(at); 8]));
            match readable.message {
                Some(len) => {
                    prop_assert_eq!(at + len, message.end);
                    world.incoming.consume(len);
                    at += len;
                }
                // A message that is longer than the ring is taken in parts.
                None => {
                    prop_assert!(at + readable.len < message.end);
                    at += readable.len;
                    world.incoming.consume(readable.len);
                }
            }
        }
        prop_assert!(at > START + 200, "only {} bytes", at - START);
    }
}
