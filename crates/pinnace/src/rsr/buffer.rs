//! Typed buffers: what a request carries, value by value.
//!
//! Values stand one behind the other, without types, names or padding: the reader asks in the order of the writer. Numbers
//! are written in the order of the writer's machine, which the request's header tells, so equal machines convert nothing.
//! Arrays, bytes and strings begin with their length, a u32.
//!
//! Always true: the first [`HEADER_BYTES`] bytes are room for the header, and critical; lengths are critical, so a reader
//! never loses its place, whatever the contract lets go.

use super::header::{HEADER_BYTES, Header};
use super::method::{Contract, Parcel};
use super::number::{Number, for_every_number};
use super::{ByteOrder, Startpoint};
use pinnace_core::IntervalSet;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// No more critical ranges travel with one request: beyond, the closest become one. Every range takes room in the one
/// datagram that tells a method's receiver of them.
const MOST_CRITICAL_RANGES: usize = 64;

/// A message holds so many bytes.
const MOST_BYTES: usize = u32::MAX as usize;

/// What a request carries. Nothing of it may be lost, unless [`Buffer::allow_loss`] says otherwise.
///
/// ```
/// use pinnace::rsr::{Buffer, Reader};
/// let mut buffer = Buffer::new();
/// buffer.put_str("a picture").put_u16(640).put_u16_array(&[1, 2, 3]);
/// let mut reader = buffer.reader();
/// assert_eq!(reader.get_str()?, "a picture");
/// assert_eq!(reader.get_u16()?, 640);
/// assert_eq!(reader.get_u16_array()?, [1, 2, 3]);
/// assert!(reader.get_u8().is_err(), "there is no more");
/// # Ok::<(), pinnace::rsr::ReadError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Buffer {
    /// The header's room, and the payload. Shared with a request under way; a change copies it then.
    bytes: Arc<Vec<u8>>,
    order: ByteOrder,
    /// Of the bytes, header included.
    critical: IntervalSet,
    loss_percent: f64,
    run_bytes: u64,
    overflow: bool,
}

impl Default for Buffer {
    fn default() -> Self {
        Self::new()
    }
}

impl Buffer {
    /// An empty buffer in this machine's byte order.
    pub fn new() -> Self {
        Self::with_order(ByteOrder::NATIVE)
    }

    /// An empty buffer whose numbers are written in this order.
    pub fn with_order(order: ByteOrder) -> Self {
        let mut critical = IntervalSet::default();
        critical.insert(0..HEADER_BYTES as u64);
        Self {
            bytes: Arc::new(vec![0; HEADER_BYTES]),
            order,
            critical,
            loss_percent: 0.0,
            run_bytes: 0,
            overflow: false,
        }
    }

    /// Forgets what was put, and what was critical of it. The contract stays.
    pub fn clear(&mut self) {
        match Arc::get_mut(&mut self.bytes) {
            Some(bytes) => bytes.truncate(HEADER_BYTES),
            None => self.bytes = Arc::new(vec![0; HEADER_BYTES]),
        }
        self.critical.clear();
        self.critical.insert(0..HEADER_BYTES as u64);
        self.overflow = false;
    }

    /// Bytes that were put.
    pub fn len(&self) -> usize {
        self.bytes.len() - HEADER_BYTES
    }

    /// Whether nothing was put.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes that were put.
    pub fn payload(&self) -> &[u8] {
        &self.bytes[HEADER_BYTES..]
    }

    /// Reads what was put, as a handler would with nothing lost.
    pub fn reader(&self) -> super::Reader<'_> {
        super::Reader::new(self.payload(), &[], self.order)
    }

    /// Lets the method lose up to `percent` of what is not critical (0 to 100; what is outside counts as the nearest),
    /// and no more than `run_bytes` of it in a row. Whether it does depends on the method: some lose nothing.
    pub fn allow_loss(&mut self, percent: f64, run_bytes: u64) -> &mut Self {
        self.loss_percent = if percent.is_nan() { 0.0 } else { percent.clamp(0.0, 100.0) };
        self.run_bytes = run_bytes;
        self
    }

    /// Nothing that `fill` puts may be lost.
    ///
    /// ```
    /// let mut buffer = pinnace::rsr::Buffer::new();
    /// buffer.allow_loss(10.0, 4096).critical(|buffer| {
    ///     buffer.put_u32(640).put_u32(480);
    /// });
    /// buffer.put_bytes(&[0; 640 * 480]);
    /// assert_eq!(buffer.critical_ranges(), [0..12], "with the length of the bytes");
    /// ```
    pub fn critical(&mut self, fill: impl FnOnce(&mut Self)) -> &mut Self {
        let before = self.len();
        fill(self);
        self.mark_critical(before..self.len())
    }

    /// None of these bytes of the payload may be lost; those beyond it do not count.
    pub fn mark_critical(&mut self, range: Range<usize>) -> &mut Self {
        let end = range.end.min(self.len());
        if range.start < end {
            self.critical.insert((range.start + HEADER_BYTES) as u64..(end + HEADER_BYTES) as u64);
        }
        self
    }

    /// The bytes of the payload that may not be lost, ascending.
    pub fn critical_ranges(&self) -> Vec<Range<usize>> {
        let payload = |range: Range<u64>| {
            let place = |at: u64| (at as usize).saturating_sub(HEADER_BYTES);
            place(range.start)..place(range.end)
        };
        self.critical.iter().map(payload).filter(|range| !range.is_empty()).collect()
    }

    /// Puts bytes as they are, without their length: the reader must know it ([`Reader::get_raw`](super::Reader::get_raw)).
    pub fn put_raw(&mut self, bytes: &[u8]) -> &mut Self {
        if let Some(target) = self.room(bytes.len()) {
            target.extend_from_slice(bytes);
        }
        self
    }

    /// Puts bytes.
    pub fn put_bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.put_u8_array(bytes)
    }

    /// Puts text.
    pub fn put_str(&mut self, text: &str) -> &mut Self {
        self.put_bytes(text.as_bytes())
    }

    /// Puts 1 or 0.
    pub fn put_bool(&mut self, value: bool) -> &mut Self {
        self.put_u8(u8::from(value))
    }

    /// Puts a reference to an endpoint, so that the handler can answer, or ask somebody else. It is critical.
    pub fn put_startpoint(&mut self, startpoint: &Startpoint) -> &mut Self {
        self.critical(|buffer| {
            buffer.put_bytes(&startpoint.to_bytes());
        })
    }

    /// Makes room for `bytes` more, if a request can have so many: putting them then does not end the program for want of memory.
    ///
    /// # Errors
    /// [`io::ErrorKind::OutOfMemory`]; nothing has changed.
    pub fn try_reserve(&mut self, bytes: usize) -> io::Result<()> {
        let before = self.bytes.len();
        if self.overflow || before.checked_add(bytes).is_none_or(|len| len > MOST_BYTES) {
            return Ok(());
        }
        if let Some(own) = Arc::get_mut(&mut self.bytes) {
            return Ok(own.try_reserve(bytes)?);
        }
        let mut own = Vec::new();
        own.try_reserve_exact(before + bytes)?;
        own.extend_from_slice(&self.bytes);
        self.bytes = Arc::new(own);
        Ok(())
    }

    fn room(&mut self, bytes: usize) -> Option<&mut Vec<u8>> {
        if self.bytes.len().checked_add(bytes).is_none_or(|len| len > MOST_BYTES) {
            self.overflow = true;
        }
        (!self.overflow).then(|| Arc::make_mut(&mut self.bytes))
    }

    fn put<N: Number>(&mut self, value: N) -> &mut Self {
        let order = self.order;
        if let Some(target) = self.room(N::BYTES) {
            value.put(order, target);
        }
        self
    }

    fn put_array<N: Number>(&mut self, values: &[N]) -> &mut Self {
        let (order, before) = (self.order, self.len());
        let bytes = values.len().saturating_mul(N::BYTES).saturating_add(u32::BYTES);
        if let Some(target) = self.room(bytes) {
            target.reserve(bytes);
            // There is room for it, so the count is no larger than a u32.
            (values.len() as u32).put(order, target);
            values.iter().for_each(|value| value.put(order, target));
            self.mark_critical(before..before + u32::BYTES);
        }
        self
    }

    /// The frame that carries the buffer to a handler; none if more was put than a message holds.
    pub(super) fn parcel(&mut self, handler: u16, endpoint: Option<u64>) -> Option<Parcel> {
        if self.overflow {
            return None;
        }
        let header = Header { handler, order: self.order, endpoint };
        header.write(Arc::make_mut(&mut self.bytes).first_chunk_mut()?);
        let critical = coalesced(&self.critical);
        let contract = Contract { loss_percent: self.loss_percent, run_bytes: self.run_bytes, critical };
        Some(Parcel::new(self.bytes.clone(), contract))
    }
}

macro_rules! put_methods {
    ($($number:ident $put:ident $put_array:ident $get:ident $get_lossy:ident $get_array:ident $get_array_lossy:ident;)*) => {
        impl Buffer {
            $(
                #[doc = concat!("Puts a ", stringify!($number), ".")]
                pub fn $put(&mut self, value: $number) -> &mut Self {
                    self.put(value)
                }

                #[doc = concat!("Puts an array of ", stringify!($number), ". Its length is critical.")]
                pub fn $put_array(&mut self, values: &[$number]) -> &mut Self {
                    self.put_array(values)
                }
            )*
        }
    };
}
for_every_number!(put_methods);

/// The ranges, of which the closest were joined until there are few enough.
fn coalesced(critical: &IntervalSet) -> Vec<Range<u64>> {
    let ranges: Vec<_> = critical.iter().collect();
    let surplus = ranges.len().saturating_sub(MOST_CRITICAL_RANGES);
    if surplus == 0 {
        return ranges;
    }
    let gap = |pair: &[Range<u64>]| pair[1].start - pair[0].end;
    let mut gaps: Vec<_> = ranges.windows(2).enumerate().map(|(index, pair)| (gap(pair), index)).collect();
    gaps.sort_unstable();
    let filled = gaps[..surplus].iter().map(|&(_, index)| ranges[index].end..ranges[index + 1].start);
    let mut joined = critical.clone();
    joined.extend(filled);
    joined.iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_leaves_what_is_under_way_as_it_is() {
        let mut buffer = Buffer::with_order(ByteOrder::Big);
        buffer.put_u16(1);
        let parcel = buffer.parcel(5, None).unwrap();
        buffer.put_u16(2);
        assert_eq!(parcel.bytes()[HEADER_BYTES..], [0, 1]);
        assert_eq!(buffer.payload(), [0, 1, 0, 2]);
        buffer.clear();
        assert_eq!((parcel.bytes().len(), buffer.len()), (HEADER_BYTES + 2, 0));
    }

    #[test]
    fn the_header_and_lengths_are_critical() {
        let mut buffer = Buffer::new();
        buffer.allow_loss(200.0, 9).put_u32(1).put_u64_array(&[1, 2]).critical(|buffer| {
            buffer.put_u8(1).critical(|buffer| {
                buffer.put_u8(2);
            });
        });
        let contract = buffer.parcel(5, Some(1)).unwrap().contract().clone();
        assert_eq!(contract.critical, [0..20, 24..28, 44..46]);
        assert_eq!((contract.loss_percent, contract.run_bytes), (100.0, 9));
        assert_eq!(buffer.critical_ranges(), [4..8, 24..26]);
    }

    #[test]
    fn many_critical_ranges_become_few_and_lose_nothing() {
        let mut buffer = Buffer::new();
        for index in 0..1000u32 {
            buffer.put_raw(&vec![0; 1 + (index as usize * 7) % 13]).critical(|buffer| {
                buffer.put_u32(index);
            });
        }
        let contract = buffer.parcel(5, None).unwrap().contract().clone();
        assert_eq!(contract.critical.len(), MOST_CRITICAL_RANGES);
        let joined: IntervalSet = contract.critical.into_iter().collect();
        assert!(buffer.critical.iter().all(|range| joined.covers(range)));
    }
}
