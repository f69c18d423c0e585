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
        self.parts.clear();
        self.inline.clear();
    }

    /// Sends with these ECN bits.
    pub fn set_ecn(&mut self, ecn: Ecn) {
        self.ecn = ecn;
    }

    /// Sends from this local address (the one the peer wrote to).
    pub fn set_source(&mut self, source: Option<Address>) {
        self.source = source;
    }

    /// Whether a further datagram of `len` bytes may be added (its parts counted as three at most).
    pub fn has_room(&self, len: usize) -> bool {
        !self.tail
            && len <= self.segment_size
            && (self.segments == 0
                || (self.segments < self.limits.segments
                    && self.bytes + len <= self.limits.bytes
                    && self.parts.len() + 3 <= self.limits.parts))
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
