//! Reading what a request carries, and knowing what of it was lost.
//!
//! Always true: a value of which a byte lies in a hole is never passed off as received; a read that finds too few bytes
//! takes none, any other read goes on behind its value, lost or not; no read takes more memory than the payload has.

use super::number::{Number, for_every_number};
use super::{ByteOrder, Startpoint};
use std::fmt;
use std::ops::Range;

/// Why a value cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// The payload ends before the value does. The position stays.
    Truncated,
    /// A byte of the value was lost. The position is behind it.
    Lost,
    /// The bytes are no such value: no UTF-8, no truth value, no startpoint. The position is behind them.
    Invalid,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Truncated => "the payload ends before the value",
            Self::Lost => "the value was lost on its way",
            Self::Invalid => "the bytes are no value of this kind",
        })
    }
}

impl std::error::Error for ReadError {}

/// Values of which some may be missing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lossy<T> {
    /// All of them. What was lost is there, and means nothing.
    pub values: T,
    /// Which of them (not of their bytes) were lost: ranges of indices, ascending, disjoint, not empty.
    pub holes: Vec<Range<usize>>,
}

/// Reads a payload, value by value, in the order in which they were put.
///
/// ```
/// use pinnace::rsr::{ByteOrder, ReadError, Reader};
/// let payload = [0, 1, 0, 2, 0, 0, 0, 2, 7, 8, 9, 10];
/// let mut reader = Reader::new(&payload, &[3..4, 9..10], ByteOrder::Big);
/// assert_eq!(reader.get_u16(), Ok(1));
/// assert_eq!(reader.get_u16(), Err(ReadError::Lost));
/// let array = reader.get_u16_array_lossy()?;
/// assert_eq!((array.values[1], array.holes), (0x090A, vec![0..1]));
/// # Ok::<(), ReadError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    payload: &'a [u8],
    holes: &'a [Range<usize>],
    order: ByteOrder,
    position: usize,
}

impl<'a> Reader<'a> {
    /// Reads a payload with holes (ascending ranges of its bytes), whose numbers are in this order.
    pub fn new(payload: &'a [u8], holes: &'a [Range<usize>], order: ByteOrder) -> Self {
        Self { payload, holes, order, position: 0 }
    }

    /// Bytes before the next value.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Goes on at byte `position`, or at the end if that is before it.
    pub fn seek(&mut self, position: usize) {
        self.position = position.min(self.payload.len());
    }

    /// Bytes that were not read yet.
    pub fn remaining(&self) -> usize {
        self.payload.len() - self.position
    }

    /// The holes of these bytes of the payload, counted from their start.
    fn holes_in(&self, range: Range<usize>) -> Vec<Range<usize>> {
        let first = self.holes.partition_point(|hole| hole.end <= range.start);
        let touching = self.holes[first..].iter().take_while(|hole| hole.start < range.end);
        touching
            .map(|hole| hole.start.saturating_sub(range.start)..hole.end.min(range.end).saturating_sub(range.start))
            .filter(|hole| !hole.is_empty())
            .collect()
    }

    fn is_lost(&self, range: Range<usize>) -> bool {
        let first = self.holes.partition_point(|hole| hole.end <= range.start);
        !range.is_empty() && self.holes[first..].first().is_some_and(|hole| hole.start < range.end)
    }

    /// Takes bytes, and says where they were.
    fn take(&mut self, bytes: usize) -> Result<(&'a [u8], Range<usize>), ReadError> {
        let end = self.position.checked_add(bytes).filter(|&end| end <= self.payload.len());
        let range = self.position..end.ok_or(ReadError::Truncated)?;
        self.position = range.end;
        Ok((&self.payload[range.clone()], range))
    }

    fn get<N: Number>(&mut self) -> Result<N, ReadError> {
        self.get_lossy()?.ok_or(ReadError::Lost)
    }

    fn get_lossy<N: Number>(&mut self) -> Result<Option<N>, ReadError> {
        let (bytes, range) = self.take(N::BYTES)?;
        Ok((!self.is_lost(range)).then(|| N::get(self.order, bytes)))
    }

    /// Takes an array's length, and its bytes.
    fn take_array(&mut self, item_bytes: usize) -> Result<(&'a [u8], Range<usize>), ReadError> {
        let before = self.position;
        let count: u32 = self.get()?;
        let bytes = (count as usize).checked_mul(item_bytes).ok_or(ReadError::Truncated);
        let taken = bytes.and_then(|bytes| self.take(bytes));
        if taken.is_err() {
            self.position = before;
        }
        taken
    }

    fn get_array<N: Number>(&mut self) -> Result<Vec<N>, ReadError> {
        let (bytes, range) = self.take_array(N::BYTES)?;
        if self.is_lost(range) {
            return Err(ReadError::Lost);
        }
        Ok(self.decoded(bytes))
    }

    fn get_array_lossy<N: Number>(&mut self) -> Result<Lossy<Vec<N>>, ReadError> {
        let (bytes, range) = self.take_array(N::BYTES)?;
        let mut holes: Vec<Range<usize>> = Vec::new();
        for hole in self.holes_in(range) {
            let items = hole.start / N::BYTES..hole.end.div_ceil(N::BYTES);
            match holes.last_mut() {
                // Two holes in one value, or in neighbours.
                Some(last) if items.start <= last.end => last.end = items.end,
                _ => holes.push(items),
            }
        }
        Ok(Lossy { values: self.decoded(bytes), holes })
    }

    fn decoded<N: Number>(&self, bytes: &[u8]) -> Vec<N> {
        bytes.chunks_exact(N::BYTES).map(|item| N::get(self.order, item)).collect()
    }

    /// The next `len` bytes, as [`Buffer::put_raw`](super::Buffer::put_raw) put them.
    ///
    /// # Errors
    /// If there are not so many, or one of them was lost.
    pub fn get_raw(&mut self, len: usize) -> Result<&'a [u8], ReadError> {
        let (bytes, range) = self.take(len)?;
        if self.is_lost(range) { Err(ReadError::Lost) } else { Ok(bytes) }
    }

    /// The next `len` bytes, and which of them were lost.
    ///
    /// # Errors
    /// If there are not so many.
    pub fn get_raw_lossy(&mut self, len: usize) -> Result<Lossy<&'a [u8]>, ReadError> {
        let (values, range) = self.take(len)?;
        Ok(Lossy { values, holes: self.holes_in(range) })
    }

    /// Bytes.
    ///
    /// # Errors
    /// If there are too few, or one was lost.
    pub fn get_bytes(&mut self) -> Result<&'a [u8], ReadError> {
        let (bytes, range) = self.take_array(1)?;
        if self.is_lost(range) { Err(ReadError::Lost) } else { Ok(bytes) }
    }

    /// Bytes, and which of them were lost.
    ///
    /// # Errors
    /// If there are too few.
    pub fn get_bytes_lossy(&mut self) -> Result<Lossy<&'a [u8]>, ReadError> {
        let (values, range) = self.take_array(1)?;
        Ok(Lossy { values, holes: self.holes_in(range) })
    }

    /// Text.
    ///
    /// # Errors
    /// If there is too little, a byte was lost, or it is no UTF-8.
    pub fn get_str(&mut self) -> Result<&'a str, ReadError> {
        std::str::from_utf8(self.get_bytes()?).map_err(|_| ReadError::Invalid)
    }

    /// A truth value.
    ///
    /// # Errors
    /// If there is none, it was lost, or it is neither 0 nor 1.
    pub fn get_bool(&mut self) -> Result<bool, ReadError> {
        match self.get_u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(ReadError::Invalid),
        }
    }

    /// A reference to an endpoint.
    ///
    /// # Errors
    /// If there is none, or it is not well-formed.
    pub fn get_startpoint(&mut self) -> Result<Startpoint, ReadError> {
        Startpoint::from_bytes(self.get_bytes()?).map_err(|_| ReadError::Invalid)
    }
}

macro_rules! get_methods {
    ($($number:ident $put:ident $put_array:ident $get:ident $get_lossy:ident $get_array:ident $get_array_lossy:ident;)*) => {
        impl Reader<'_> {
            $(
                #[doc = concat!("A ", stringify!($number), ".")]
                ///
                /// # Errors
                /// If there are too few bytes, or one was lost.
                pub fn $get(&mut self) -> Result<$number, ReadError> {
                    self.get()
                }

                #[doc = concat!("A ", stringify!($number), ", or nothing if a byte of it was lost.")]
                ///
                /// # Errors
                /// If there are too few bytes.
                pub fn $get_lossy(&mut self) -> Result<Option<$number>, ReadError> {
                    self.get_lossy()
                }

                #[doc = concat!("An array of ", stringify!($number), ".")]
                ///
                /// # Errors
                /// If there are too few bytes, or one was lost.
                pub fn $get_array(&mut self) -> Result<Vec<$number>, ReadError> {
                    self.get_array()
                }

                #[doc = concat!("An array of ", stringify!($number), ", and which of them were lost.")]
                ///
                /// # Errors
                /// If there are too few bytes.
                pub fn $get_array_lossy(&mut self) -> Result<Lossy<Vec<$number>>, ReadError> {
                    self.get_array_lossy()
                }
            )*
        }
    };
}
for_every_number!(get_methods);
