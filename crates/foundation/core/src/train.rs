//! A train: datagrams of one size, and perhaps a short last one, that leave together for one destination.
//!
//! It maps one to one to `sendmsg` with `UDP_SEGMENT` and an iovec, to an Ethernet or AF_XDP descriptor list, to a
//! shared-memory ring entry, and to a copy in the simulator. Its parts are header bytes that the engine wrote and ranges
//! of application memory that it only names.
//!
//! Always true: every datagram but the last has exactly [`Train::segment_size`] bytes; a train is never empty when it is
//! sent. A train that is dropped is a burst of losses, so a protocol that bounds bursts bounds its trains.

use crate::{Address, BufferRange, Ecn};

/// What a link can carry in one train.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrainLimits {
    /// Bytes in all, where there is more than one datagram.
    pub bytes: usize,
    /// Datagrams.
    pub segments: usize,
    /// Parts (the kernel takes 1,024 iovecs).
    pub parts: usize,
}

impl TrainLimits {
    /// One datagram at a time.
    pub const SINGLE: Self = Self { bytes: 65_535, segments: 1, parts: 1024 };
    /// What Linux takes in one `UDP_SEGMENT` call: above 65,493 bytes it silently sends single packets.
    pub const GSO: Self = Self { bytes: 65_493, segments: 64, parts: 1024 };

    /// Datagrams of so many bytes in a full train.
    pub fn datagrams(&self, bytes: usize) -> usize {
        self.segments.min(self.bytes / bytes.max(1)).max(1)
    }

    /// Whether it is better to wait for a fuller train while the application is still queueing
    /// ([`Engine::handle_hold`](crate::Engine::handle_hold)): until as much is `queued` as is `under_way`, which keeps the peer
    /// busy meanwhile, up to a full train of datagrams with `payload` bytes each and `headers` beside them, which do not count
    /// in the former. A peer that keeps up would only wait for more, and whoever waited for less would be slowed down by small
    /// trains, and so never have more.
    ///
    /// ```
    /// use pinnace_core::TrainLimits;
    /// assert!(!TrainLimits::GSO.is_worth_waiting(100, 0, 1000, 8), "nothing is under way");
    /// assert!(TrainLimits::GSO.is_worth_waiting(1_000, 2_000, 1000, 8));
    /// assert!(!TrainLimits::GSO.is_worth_waiting(64_000, 1_000_000, 1000, 8), "a full train");
    /// ```
    pub fn is_worth_waiting(&self, queued: u64, under_way: u64, payload: usize, headers: usize) -> bool {
        queued < under_way.min((self.datagrams(payload + headers) * payload) as u64)
    }
}

/// Of larger datagrams a train has too few for their number to matter.
const LARGEST_EVEN: u32 = 16_384;
/// So many datagrams more cost less than one more train.
const DATAGRAMS_A_TRAIN: u32 = 16;

/// Bytes of the pieces, of at most `most` bytes, into which equal messages of `size` bytes are cut so that they leave in the
/// fewest trains. A train has datagrams of one length, so that the shorter last piece of a message ends it; with a whole part
/// of the message, if one is not much smaller than `most`, it goes on with the next message.
///
/// ```
/// use pinnace_core::even_piece;
/// assert_eq!(even_piece(16 << 10, 8940), 8192, "two equal ones, not one of 8,940 bytes and one of 7,444");
/// assert_eq!(even_piece(4096, 1440), 1024, "four, not three");
/// assert_eq!(even_piece(1 << 20, 1440), 1440, "trains are full anyway");
/// assert_eq!(even_piece(u32::MAX, 1), 1);
/// ```
pub fn even_piece(size: u32, most: u32) -> u32 {
    let least = size.div_ceil(most.max(1));
    if least < 2 || most > LARGEST_EVEN {
        return most;
    }
    let mut counts = least..=least.saturating_add((least / 2).min(DATAGRAMS_A_TRAIN));
    counts.find(|&pieces| size.is_multiple_of(pieces)).map_or(most, |pieces| size / pieces)
}

/// Which checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChecksumKind {
    /// The Internet checksum (RFC 1071): 2 bytes, big endian.
    Internet,
    /// CXOR: 4 bytes, big endian, the XOR of the words first.
    Cxor,
}

impl ChecksumKind {
    /// Bytes of the field.
    pub const fn width(self) -> usize {
        match self {
            Self::Internet => 2,
            Self::Cxor => 4,
        }
    }
}

/// Where a checksum is written, in every datagram of the train.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChecksumAt {
    /// So many bytes from the first.
    Head(usize),
    /// So many bytes before the end.
    Tail(usize),
}

/// A checksum over a stretch of every datagram, which whoever sends the train fills in because an engine does not see
/// payload.
///
/// The engine writes zeros where it belongs; the field may lie in the stretch, and never in application memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checksum {
    /// Which.
    pub kind: ChecksumKind,
    /// Bytes at the beginning that are not summed.
    pub skip_head: usize,
    /// Bytes at the end that are not summed.
    pub skip_tail: usize,
    /// Where it is written.
    pub at: ChecksumAt,
}

impl Checksum {
    /// Offset of the field in a datagram of `len` bytes, if it has room for one.
    fn field(&self, len: usize) -> Option<usize> {
        match self.at {
            ChecksumAt::Head(at) => Some(at),
            ChecksumAt::Tail(back) => len.checked_sub(back),
        }
    }
}

/// Sums bytes piece by piece. Implemented where both this crate and the checksums are known.
pub trait Summing {
    /// Starts over, for this checksum.
    fn start(&mut self, kind: ChecksumKind);

    /// Goes on with `bytes`. Pieces may have any length.
    fn add(&mut self, bytes: &[u8]);

    /// The checksum of all bytes since [`Summing::start`]; the Internet checksum in the low 16 bits.
    fn finish(&mut self) -> u32;
}

/// A piece of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Bytes of the train's own store: headers and trailers.
    Inline {
        /// Where in [`Train::inline_bytes`].
        at: u32,
        /// Bytes.
        len: u32,
    },
    /// Application memory.
    Payload(BufferRange),
}

/// Datagrams of one size, and a short tail, for one destination.
///
/// ```
/// use pinnace_core::{Address, BufferId, BufferRange, Train, TrainLimits};
/// let mut train = Train::new(TrainLimits::GSO);
/// train.begin(Address::Peer, 1028);
/// train.payload(BufferRange::new(BufferId::new(0), 0, 1000));
/// train.inline(&[0; 28]);
/// train.end_segment();
/// assert_eq!((train.segments(), train.bytes(), train.segment_size()), (1, 1028, 1028));
/// assert!(train.has_room(1028) && !train.has_room(1029));
/// ```
#[derive(Debug)]
pub struct Train {
    limits: TrainLimits,
    destination: Address,
    source: Option<Address>,
    ecn: Ecn,
    segment_size: usize,
    segments: usize,
    bytes: usize,
    open: usize,
    tail: bool,
    checksum: Option<Checksum>,
    is_awaited: bool,
    parts: Vec<Part>,
    inline: Vec<u8>,
}

impl Train {
    /// An empty train within `limits`.
    pub fn new(limits: TrainLimits) -> Self {
        Self {
            limits,
            destination: Address::Peer,
            source: None,
            ecn: Ecn::NotCapable,
            segment_size: 0,
            segments: 0,
            bytes: 0,
            open: 0,
            tail: false,
            checksum: None,
            is_awaited: false,
            parts: Vec::new(),
            inline: Vec::new(),
        }
    }

    /// Empties the train for reuse, under new limits.
    pub fn reset(&mut self, limits: TrainLimits) {
        self.limits = limits;
        self.source = None;
        self.ecn = Ecn::NotCapable;
        self.begin(Address::Peer, 0);
    }

    /// Starts a train of datagrams of `segment_size` bytes for `destination`. What it held before is gone.
    pub fn begin(&mut self, destination: Address, segment_size: usize) {
        self.destination = destination;
        self.segment_size = segment_size;
        self.segments = 0;
        self.bytes = 0;
        self.open = 0;
        self.tail = false;
        self.checksum = None;
        self.is_awaited = false;
        self.parts.clear();
        self.inline.clear();
    }

    /// Makes it a train of one datagram, which is these bytes, from a local address if that matters.
    ///
    /// ```
    /// use pinnace_core::{Address, Train, TrainLimits};
    /// let mut train = Train::new(TrainLimits::SINGLE);
    /// train.single(Address::Node(1), None, b"ahoy");
    /// assert_eq!((train.segments(), train.inline_bytes()), (1, &b"ahoy"[..]));
    /// ```
    ///
    /// # Panics
    /// As [`Train::end_segment`].
    pub fn single(&mut self, destination: Address, source: Option<Address>, bytes: &[u8]) {
        self.begin(destination, bytes.len());
        self.set_source(source);
        self.inline(bytes);
        self.end_segment();
    }

    /// Sends with these ECN bits.
    pub fn set_ecn(&mut self, ecn: Ecn) {
        self.ecn = ecn;
    }

    /// Sends from this local address (the one the peer wrote to).
    pub fn set_source(&mut self, source: Option<Address>) {
        self.source = source;
    }

    /// Asks whoever sends the train to fill this checksum in, in every datagram. [`Train::begin`] forgets it.
    pub fn set_checksum(&mut self, checksum: Option<Checksum>) {
        self.checksum = checksum;
    }

    /// Asks whoever sends the train to say when it has left ([`Engine::handle_left`](crate::Engine::handle_left)).
    /// [`Train::begin`] forgets it.
    pub fn await_leaving(&mut self) {
        self.is_awaited = true;
    }

    /// Whether the engine asks when it has left.
    pub fn is_awaited(&self) -> bool {
        self.is_awaited
    }

    /// The checksum that still has to be filled in.
    pub fn checksum(&self) -> Option<Checksum> {
        self.checksum
    }

    /// Fills in the checksum that the engine asked for, if it did, and once: a train that is offered again keeps what was
    /// written. `payload` yields the bytes of application memory.
    ///
    /// ```
    /// # use pinnace_core::*;
    /// # struct Bytes(u32); // A toy: adds bytes up.
    /// # impl Summing for Bytes {
    /// #     fn start(&mut self, _: ChecksumKind) { self.0 = 0 }
    /// #     fn add(&mut self, bytes: &[u8]) { self.0 += bytes.iter().map(|b| u32::from(*b)).sum::<u32>() }
    /// #     fn finish(&mut self) -> u32 { self.0 }
    /// # }
    /// # let mut summing = Bytes(0);
    /// let memory = [1, 2, 3, 4];
    /// let mut train = Train::new(TrainLimits::GSO);
    /// train.begin(Address::Peer, 6);
    /// let at = ChecksumAt::Head(0);
    /// train.set_checksum(Some(Checksum { kind: ChecksumKind::Internet, skip_head: 0, skip_tail: 0, at }));
    /// train.inline(&[0, 0]);
    /// train.payload(BufferRange::new(BufferId::new(0), 0, 4));
    /// train.end_segment();
    /// train.fill_checksum(|range| &memory[range.offset as usize..range.end() as usize], &mut summing);
    /// assert_eq!((train.inline_bytes(), train.checksum()), (&[0, 10][..], None));
    /// ```
    #[inline]
    pub fn fill_checksum<'m>(&mut self, payload: impl Fn(BufferRange) -> &'m [u8], sum: &mut impl Summing) {
        if self.checksum.is_some() {
            self.fill(payload, sum);
        }
    }

    fn fill<'m>(&mut self, payload: impl Fn(BufferRange) -> &'m [u8], sum: &mut impl Summing) {
        let Some(checksum) = self.checksum.take() else { return };
        let width = checksum.kind.width();
        let mut parts = self.parts.iter();
        let mut left = self.bytes;
        while left > 0 {
            let len = self.segment_size.min(left);
            left -= len;
            let (low, high) = (checksum.skip_head, len.saturating_sub(checksum.skip_tail));
            let field = checksum.field(len);
            let mut place = None;
            let mut at = 0;
            sum.start(checksum.kind);
            // Parts never cross a boundary, so the datagram ends with one of them.
            while at < len {
                let Some(part) = parts.next() else { break };
                let (bytes, part_len) = match *part {
                    Part::Inline { at: low, len } => (&self.inline[low as usize..(low + len) as usize], len as usize),
                    Part::Payload(range) => (payload(range), range.len as usize),
                };
                let end = at + part_len;
                // Memory that is gone is a defect that whoever sends notices: nothing to sum.
                let stretch = low.clamp(at, end) - at..high.clamp(at, end) - at;
                if let Some(bytes) = bytes.get(stretch).filter(|bytes| !bytes.is_empty()) {
                    sum.add(bytes);
                }
                if let (Part::Inline { at: store, .. }, Some(field)) = (part, field)
                    && field >= at
                    && field + width <= end
                {
                    place = Some(*store as usize + field - at);
                }
                at = end;
            }
            let value = sum.finish().to_be_bytes();
            debug_assert!(place.is_some(), "{checksum:?} lies in no inline part of a datagram of {len} bytes");
            if let Some(place) = place {
                self.inline[place..place + width].copy_from_slice(&value[4 - width..]);
            }
        }
    }

    /// Whether a further datagram of `len` bytes, of three parts at most, may be added.
    pub fn has_room(&self, len: usize) -> bool {
        self.has_room_for(len, 3)
    }

    /// Whether a further datagram of `len` bytes and at most so many parts may be added.
    pub fn has_room_for(&self, len: usize, parts: usize) -> bool {
        !self.tail
            && len <= self.segment_size
            && (self.segments == 0
                || (self.segments < self.limits.segments
                    && self.bytes + len <= self.limits.bytes
                    && self.parts.len() + parts <= self.limits.parts))
    }

    /// Adds a range of application memory to the datagram being written.
    pub fn payload(&mut self, range: BufferRange) {
        if range.len > 0 {
            self.open += range.len as usize;
            self.parts.push(Part::Payload(range));
        }
    }

    /// Adds header or trailer bytes to the datagram being written.
    pub fn inline(&mut self, bytes: &[u8]) {
        let at = self.inline.len() as u32;
        self.inline.extend_from_slice(bytes);
        self.push_inline(at, bytes.len());
    }

    /// Adds `len` zero bytes (padding) to the datagram being written.
    pub fn zeros(&mut self, len: usize) {
        let at = self.inline.len() as u32;
        self.inline.resize(self.inline.len() + len, 0);
        self.push_inline(at, len);
    }

    fn push_inline(&mut self, at: u32, len: usize) {
        self.open += len;
        if let Some(Part::Inline { at: last, len: last_len }) = self.parts.last_mut()
            && *last + *last_len == at
            && self.open > len
        {
            *last_len += len as u32;
        } else if len > 0 {
            self.parts.push(Part::Inline { at, len: len as u32 });
        }
    }

    /// Adds a whole datagram: `payload`, then `trailer`. For the many of a bulk transfer.
    ///
    /// # Panics
    /// As [`Train::end_segment`].
    pub fn datagram(&mut self, payload: BufferRange, trailer: &[u8]) {
        let at = self.inline.len() as u32;
        self.inline.extend_from_slice(trailer);
        self.parts.extend([Part::Payload(payload), Part::Inline { at, len: trailer.len() as u32 }]);
        self.open += payload.len as usize + trailer.len();
        self.end_segment();
    }

    /// Ends the datagram being written. A short one ends the train.
    ///
    /// # Panics
    /// If the datagram is empty, larger than the segment size, or follows a short one: a defect of the engine.
    pub fn end_segment(&mut self) {
        assert!(
            self.open > 0 && self.open <= self.segment_size && !self.tail,
            "a datagram of {} bytes does not fit a train of {} bytes a datagram",
            self.open,
            self.segment_size
        );
        self.tail = self.open < self.segment_size;
        self.bytes += self.open;
        self.segments += 1;
        self.open = 0;
    }

    /// Where the train goes.
    pub fn destination(&self) -> Address {
        self.destination
    }

    /// The local address to send from, if it matters.
    pub fn source(&self) -> Option<Address> {
        self.source
    }

    /// The ECN bits to send with.
    pub fn ecn(&self) -> Ecn {
        self.ecn
    }

    /// Bytes of every datagram but the last.
    pub fn segment_size(&self) -> usize {
        self.segment_size
    }

    /// Datagrams.
    pub fn segments(&self) -> usize {
        self.segments
    }

    /// Bytes in all.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.segments == 0
    }

    /// The limits it was made under.
    pub fn limits(&self) -> TrainLimits {
        self.limits
    }

    /// The parts of all datagrams, in order; datagram boundaries fall between parts.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The store that [`Part::Inline`] points into.
    pub fn inline_bytes(&self) -> &[u8] {
        &self.inline
    }

    /// Puts what `pieces` says in the place of each range of application memory: a buffer may lie in several places. The
    /// datagrams stay as they are. `None` for a range that is one piece; the pieces together are as long as the range.
    ///
    /// ```
    /// use pinnace_core::{Address, BufferId, BufferRange, Part, Train, TrainLimits};
    /// let (whole, left, right) = (BufferId::new(0), BufferId::new(1), BufferId::new(2));
    /// let mut train = Train::new(TrainLimits::GSO);
    /// train.begin(Address::Peer, 10);
    /// train.payload(BufferRange::new(whole, 0, 10));
    /// train.end_segment();
    /// train.split_payload(|range| {
    ///     (range.buffer == whole).then(|| [BufferRange::new(left, 0, 4), BufferRange::new(right, 0, 6)])
    /// });
    /// assert_eq!(train.parts()[1], Part::Payload(BufferRange::new(right, 0, 6)));
    /// assert_eq!((train.segments(), train.bytes()), (1, 10));
    /// ```
    pub fn split_payload<I>(&mut self, mut pieces: impl FnMut(BufferRange) -> Option<I>)
    where
        I: IntoIterator<Item = BufferRange>,
    {
        let parts = core::mem::take(&mut self.parts);
        for part in parts {
            match part {
                Part::Payload(range) => match pieces(range) {
                    Some(pieces) => self.parts.extend(pieces.into_iter().map(Part::Payload)),
                    None => self.parts.push(part),
                },
                Part::Inline { .. } => self.parts.push(part),
            }
        }
    }

    /// Hands every datagram, copied together, to `each`; `payload` yields the bytes of application memory.
    ///
    /// For links that cannot gather, for the simulator, and for captures.
    pub fn for_each_datagram<'m>(&self, payload: impl Fn(BufferRange) -> &'m [u8], mut each: impl FnMut(&[u8])) {
        let mut datagram = Vec::with_capacity(self.segment_size);
        for part in &self.parts {
            match *part {
                Part::Inline { at, len } => {
                    datagram.extend_from_slice(&self.inline[at as usize..(at + len) as usize]);
                }
                Part::Payload(range) => datagram.extend_from_slice(payload(range)),
            }
            // Parts never cross a boundary, so a full datagram ends exactly here.
            if datagram.len() >= self.segment_size {
                each(&datagram);
                datagram.clear();
            }
        }
        if !datagram.is_empty() {
            each(&datagram);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BufferId;

    #[test]
    fn datagrams_come_out_as_they_went_in() {
        let memory: Vec<u8> = (0..100).collect();
        let mut train = Train::new(TrainLimits::GSO);
        train.begin(Address::Peer, 40);
        for low in [0u64, 36, 72] {
            let len = (100 - low).min(36) as u32;
            train.payload(BufferRange::new(BufferId::new(7), low, len));
            train.inline(&[0xAA; 4]);
            train.end_segment();
        }
        assert!(!train.has_room(40), "a short datagram ends the train");
        let mut seen = Vec::new();
        train.for_each_datagram(|r| &memory[r.offset as usize..r.end() as usize], |d| seen.push(d.to_vec()));
        assert_eq!(seen.iter().map(Vec::len).collect::<Vec<_>>(), [40, 40, 32]);
        assert_eq!(seen[1][..36], memory[36..72]);
        assert_eq!(seen[2][28..], [0xAA; 4]);
    }

    /// The bytes that it was given, so that a test sees exactly what was summed.
    #[derive(Default)]
    struct Summed {
        datagrams: Vec<Vec<u8>>,
        kinds: Vec<ChecksumKind>,
    }

    impl Summing for Summed {
        fn start(&mut self, kind: ChecksumKind) {
            self.kinds.push(kind);
            self.datagrams.push(Vec::new());
        }

        fn add(&mut self, bytes: &[u8]) {
            self.datagrams.last_mut().unwrap().extend_from_slice(bytes);
        }

        fn finish(&mut self) -> u32 {
            toy(self.datagrams.last().unwrap())
        }
    }

    /// A sum that sees every byte and its place.
    fn toy(bytes: &[u8]) -> u32 {
        bytes.iter().fold(1, |sum: u32, byte| sum.wrapping_mul(16_777_619) ^ u32::from(*byte))
    }

    /// Three datagrams of 40, 40 and 29 bytes: header, two pieces of application memory, trailer.
    fn summed_train(checksum: Checksum) -> (Train, Vec<u8>) {
        let memory: Vec<u8> = (0..200u8).map(|i| i.wrapping_mul(7)).collect();
        let mut train = Train::new(TrainLimits::GSO);
        train.begin(Address::Peer, 40);
        train.set_checksum(Some(checksum));
        for (i, lens) in [[13, 11], [1, 23], [7, 6]].into_iter().enumerate() {
            train.inline(&[0x10 + i as u8, 1]);
            train.zeros(4);
            train.inline(&[2, 3]);
            train.payload(BufferRange::new(BufferId::new(7), 60 * i as u64, lens[0]));
            train.payload(BufferRange::new(BufferId::new(7), 60 * i as u64 + 30, lens[1]));
            train.inline(&[4, 5, 6]);
            train.zeros(4);
            train.inline(&[8]);
            train.end_segment();
        }
        (train, memory)
    }

    fn datagrams(train: &Train, memory: &[u8]) -> Vec<Vec<u8>> {
        let mut seen = Vec::new();
        train.for_each_datagram(|r| &memory[r.offset as usize..r.end() as usize], |d| seen.push(d.to_vec()));
        seen
    }

    #[test]
    fn a_checksum_is_filled_in_every_datagram_and_once() {
        let (head, tail) = (ChecksumAt::Head(2), ChecksumAt::Tail(5));
        for (kind, at) in [(ChecksumKind::Internet, head), (ChecksumKind::Cxor, tail), (ChecksumKind::Cxor, head)] {
            for (skip_head, skip_tail) in [(0, 0), (8, 5), (9, 9), (0, 30), (22, 0), (39, 1), (100, 100)] {
                let checksum = Checksum { kind, skip_head, skip_tail, at };
                let (mut train, memory) = summed_train(checksum);
                let before = datagrams(&train, &memory);
                let mut sum = Summed::default();
                assert_eq!(train.checksum(), Some(checksum));
                train.fill_checksum(|r| &memory[r.offset as usize..r.end() as usize], &mut sum);
                let after = datagrams(&train, &memory);
                assert_eq!(after.iter().map(Vec::len).collect::<Vec<_>>(), [40, 40, 29]);
                assert_eq!(sum.kinds, [kind; 3]);
                for ((before, after), summed) in before.iter().zip(&after).zip(&sum.datagrams) {
                    let stretch = before.get(skip_head..before.len().saturating_sub(skip_tail)).unwrap_or_default();
                    assert_eq!(summed, stretch);
                    let mut expected = before.clone();
                    let field = if at == head { 2 } else { before.len() - 5 };
                    let value = toy(stretch).to_be_bytes();
                    let width = kind.width();
                    expected[field..field + width].copy_from_slice(&value[4 - width..]);
                    assert_eq!(*after, expected);
                }
                // Offered again, the train is what it was.
                train.fill_checksum(|_| panic!("summed twice"), &mut sum);
                assert_eq!(datagrams(&train, &memory), after);
                assert_eq!((sum.kinds.len(), train.checksum()), (3, None));
            }
        }
    }

    #[test]
    fn a_train_begins_without_a_checksum() {
        let checksum = Checksum { kind: ChecksumKind::Internet, skip_head: 0, skip_tail: 0, at: ChecksumAt::Head(2) };
        let (mut train, _) = summed_train(checksum);
        train.begin(Address::Peer, 10);
        assert_eq!(train.checksum(), None);
        train.set_checksum(Some(checksum));
        train.reset(TrainLimits::GSO);
        assert_eq!(train.checksum(), None);
        train.begin(Address::Peer, 4);
        train.zeros(4);
        train.end_segment();
        train.fill_checksum(|_| &[], &mut Summed::default());
        assert_eq!(train.inline_bytes(), [0; 4]);
    }

    #[test]
    fn memory_that_is_gone_is_not_summed() {
        let checksum = Checksum { kind: ChecksumKind::Cxor, skip_head: 0, skip_tail: 0, at: ChecksumAt::Head(2) };
        let (mut train, _) = summed_train(checksum);
        let mut sum = Summed::default();
        train.fill_checksum(|_| &[], &mut sum);
        assert_eq!(sum.datagrams.iter().map(Vec::len).collect::<Vec<_>>(), [16, 16, 16]);
    }

    #[test]
    fn a_whole_datagram_is_its_parts() {
        let build = |whole: bool| {
            let mut train = Train::new(TrainLimits::GSO);
            train.begin(Address::Peer, 40);
            for low in [0u64, 36] {
                let payload = BufferRange::new(BufferId::new(7), low, 36);
                if whole {
                    train.datagram(payload, &[0xAA; 4]);
                } else {
                    train.payload(payload);
                    train.inline(&[0xAA; 4]);
                    train.end_segment();
                }
            }
            (train.parts().to_vec(), train.inline_bytes().to_vec(), train.bytes(), train.segments())
        };
        assert_eq!(build(true), build(false));
    }

    #[test]
    fn adjacent_inline_parts_merge_within_a_datagram_only() {
        let mut train = Train::new(TrainLimits::GSO);
        train.begin(Address::Peer, 8);
        for _ in 0..2 {
            train.inline(&[1; 4]);
            train.zeros(4);
            train.end_segment();
        }
        assert_eq!(train.parts().len(), 2);
        assert_eq!(train.parts()[1], Part::Inline { at: 8, len: 8 });
    }

    #[test]
    #[should_panic(expected = "does not fit a train")]
    fn a_datagram_larger_than_the_segment_is_a_defect() {
        let mut train = Train::new(TrainLimits::GSO);
        train.begin(Address::Peer, 8);
        train.zeros(9);
        train.end_segment();
    }
}
