//! Messages: buffers that move into the transport and come back.
//!
//! A message to be sent may lie in several places ([`Message::gather`]).
//!
//! A message owns its memory, or has been promised it. While it is under way the transport has it, so nobody can touch the
//! bytes by mistake; the wait returns it. A message has a capacity (the room it owns) and a length (the bytes that count),
//! and can be used again for anything that fits.

use crate::{Error, memory};
use memmap2::{Mmap, MmapMut, MmapOptions};
use pinnace_core::BufferId;
use pinnace_link::BufferTable;
use std::any::Any;
use std::collections::TryReserveError;
use std::fs::File;
use std::ops::{Deref, DerefMut, Range};
use std::sync::{Arc, OnceLock};
use std::{fmt, io};

/// Parts that are smaller than this on average are put together by a copy: to name each to the system would cost more.
const WORTH_NAMING: usize = 512;
/// So are more than this: a packet can have parts of several messages, and the system takes 1,024 of them.
const MOST_NAMED: usize = 256;

/// A buffer of at most 4,294,967,295 bytes for sending and receiving.
///
/// ```
/// use pinnace::Message;
/// let mut message = Message::with_capacity(16);
/// assert_eq!((message.len(), message.capacity()), (0, 16));
/// message.set_len(4);
/// message.copy_from_slice(b"ahoy");
/// assert_eq!(message.into_vec(), b"ahoy");
/// ```
pub struct Message {
    memory: Memory,
    len: usize,
}

enum Memory {
    Heap(Vec<u8>),
    Map(Mmap),
    MapMut(MmapMut),
    Raw { base: *mut u8, capacity: usize, _owner: Option<Box<dyn Any + Send + Sync>> },
    Gathered(Box<Gathered>),
}

/// Bytes that lie in several places.
struct Gathered {
    /// Base and length of each.
    parts: Vec<(*mut u8, usize)>,
    capacity: usize,
    /// All of them in one place, once somebody has wanted that.
    whole: OnceLock<Vec<u8>>,
    _owner: Box<dyn Any + Send + Sync>,
}

impl Gathered {
    /// Bytes that lie there, and whether a copy of them costs less than to name the parts.
    fn of(owner: impl Any + Send + Sync, mut parts: Vec<(*mut u8, usize)>) -> (Self, bool) {
        parts.retain(|(_, len)| *len > 0);
        let capacity = parts.iter().map(|(_, len)| len).sum();
        let are_small = parts.len() > 1 && capacity < parts.len() * WORTH_NAMING;
        let is_copied = parts.is_empty() || are_small || parts.len() > MOST_NAMED;
        (Self { parts, capacity, whole: OnceLock::new(), _owner: Box::new(owner) }, is_copied)
    }

    /// All of it in one place.
    fn whole(&self) -> &[u8] {
        if let [(base, len)] = self.parts[..] {
            // SAFETY: `Message::from_parts`'s caller promised the memory for as long as the owner lives.
            return unsafe { std::slice::from_raw_parts(base, len) };
        }
        self.whole.get_or_init(|| self.copied())
    }

    fn copied(&self) -> Vec<u8> {
        self.copied_into(Vec::with_capacity(self.capacity))
    }

    fn copied_into(&self, mut whole: Vec<u8>) -> Vec<u8> {
        for &(base, len) in &self.parts {
            // SAFETY: as above.
            whole.extend_from_slice(unsafe { std::slice::from_raw_parts(base, len) });
        }
        whole
    }

    /// The parts of `[range)`.
    fn within(&self, range: Range<usize>) -> impl Iterator<Item = (*mut u8, usize)> + '_ {
        let mut end = 0;
        self.parts.iter().filter_map(move |&(base, len)| {
            let low = end;
            end += len;
            let (from, to) = (range.start.max(low), range.end.min(end));
            // SAFETY: the offset is less than the length of the part.
            (from < to).then(|| (unsafe { base.add(from - low) }, to - from))
        })
    }
}

// SAFETY: heap memory and maps may move between threads; of raw memory `from_raw`'s caller promised it.
unsafe impl Send for Message {}
// SAFETY: shared access only reads.
unsafe impl Sync for Message {}

impl Message {
    /// A message of these bytes.
    pub fn from_vec(bytes: Vec<u8>) -> Self {
        Self { len: bytes.len(), memory: Memory::Heap(bytes) }
    }

    /// An empty message with room for `capacity` bytes, all zero.
    pub fn with_capacity(capacity: usize) -> Self {
        Self { len: 0, memory: Memory::Heap(vec![0; capacity]) }
    }

    /// The same, or an error if there is no memory for it.
    pub(crate) fn try_with_capacity(capacity: usize) -> Result<Self, Error> {
        Ok(Self { len: 0, memory: Memory::Heap(memory::zeroed(capacity as u64)?) })
    }

    /// Room for `capacity` bytes in pages that cost nothing before they are written to: for buffers of which most may never
    /// be used. [`Message::into_vec`] copies from it.
    pub(crate) fn untouched(capacity: usize) -> Self {
        Self::mapped(capacity).unwrap_or_else(|_| Self::with_capacity(capacity))
    }

    /// The same, or an error if there is no memory for it.
    pub(crate) fn mapped(capacity: usize) -> Result<Self, Error> {
        match MmapOptions::new().len(capacity).map_anon() {
            Ok(map) => Ok(Self { len: 0, memory: Memory::MapMut(map) }),
            // The system has no more maps for this process.
            Err(_) => Self::try_with_capacity(capacity),
        }
    }

    /// `len` bytes of a file from `offset` on, to send straight from the page cache.
    ///
    /// # Safety
    /// While the message is there, nobody may write to these bytes of the file, in this process or another, if any code
    /// looks at them: they would change under its eyes. To send them and not to look is safe: the system reads them, and
    /// what others write meanwhile is sent as it is found.
    ///
    /// # Errors
    /// If the file cannot be mapped. If somebody makes the file shorter while it is mapped, reading it kills the process
    /// (SIGBUS): that is how mapped files are. The system refuses to send what is cut off, and the endpoint that should fails
    /// with all that is under way: files that others write to are better read.
    pub unsafe fn map_file(file: &File, offset: u64, len: usize) -> io::Result<Self> {
        if len == 0 {
            return Ok(Self::with_capacity(0));
        }
        // SAFETY: the caller's promise.
        let map = unsafe { MmapOptions::new().offset(offset).len(len).map(file)? };
        Ok(Self { len, memory: Memory::Map(map) })
    }

    /// `len` bytes of a file from `offset` on, to receive straight into the page cache. The file must be that long, and
    /// open for reading and writing.
    ///
    /// # Safety
    /// As for [`Message::map_file`]; and nobody may read these bytes either while any code here writes to them.
    ///
    /// # Errors
    /// If the file cannot be mapped.
    pub unsafe fn map_file_mut(file: &File, offset: u64, len: usize) -> io::Result<Self> {
        if len == 0 {
            return Ok(Self::with_capacity(0));
        }
        // SAFETY: the caller's promise.
        let map = unsafe { MmapOptions::new().offset(offset).len(len).map_mut(file)? };
        Ok(Self { len: 0, memory: Memory::MapMut(map) })
    }

    /// `capacity` bytes of the caller's memory at `base`, all of which count.
    ///
    /// # Safety
    /// The memory must be valid for reading and writing, from any thread, until the message is dropped, and nobody else
    /// may use it meanwhile.
    pub unsafe fn from_raw(base: *mut u8, capacity: usize) -> Self {
        Self { len: capacity, memory: Memory::Raw { base, capacity, _owner: None } }
    }

    /// As [`Message::from_raw`], of memory that lives as long as `owner`: the message drops it at its own end.
    ///
    /// Of a message that was sent that is when it has arrived, in whichever thread finds that out, and with the lock of the
    /// connection held: dropping it must not wait, nor call anything of this library. One that has more to do hands it to a
    /// thread of its own, through a channel, say.
    ///
    /// # Safety
    /// The memory must be valid for reading and writing, from any thread, until `owner` is dropped, and nobody else may
    /// use it before the message is dropped.
    pub unsafe fn from_owner(owner: impl Any + Send + Sync, base: *mut u8, capacity: usize) -> Self {
        Self { len: capacity, memory: Memory::Raw { base, capacity, _owner: Some(Box::new(owner)) } }
    }

    /// One message of the bytes of several, to be sent from where they lie: nothing is copied, unless the parts are small
    /// (fewer than 512 bytes on average) or many (more than 256), when a copy costs less. A method that needs them in one place, and whoever looks at
    /// them, makes one copy then; [`Message::parts`] does not. The message is read-only.
    ///
    /// ```
    /// use pinnace::Message;
    /// let (head, body) = (Message::from_vec(vec![1; 1000]), Message::from_vec(vec![2; 3000]));
    /// let message = Message::gather(vec![head, body]);
    /// assert_eq!(message.parts().map(<[u8]>::len).collect::<Vec<_>>(), [1000, 3000]);
    /// ```
    pub fn gather(mut messages: Vec<Self>) -> Self {
        if messages.len() == 1 {
            return messages.remove(0);
        }
        let parts: Vec<_> = messages.iter_mut().flat_map(|message| message.raw_parts(0..message.len)).collect();
        // SAFETY: the memory is the messages', which become the owner and are not touched any more: what they own does not
        // move with them.
        unsafe { Self::from_parts(messages, parts) }
    }

    /// As [`Message::from_owner`], of bytes in several places: base and length of each. They are to be sent, so they are only
    /// read. Small and many parts are copied here, as by [`Message::gather`], and `owner` is dropped.
    ///
    /// # Safety
    /// The memory must be valid for reading, from any thread, until `owner` is dropped, and nobody may change it before
    /// the message is dropped.
    pub unsafe fn from_parts(owner: impl Any + Send + Sync, parts: Vec<(*mut u8, usize)>) -> Self {
        match Gathered::of(owner, parts) {
            (gathered, true) => Self::from_vec(gathered.copied()),
            (gathered, false) => Self::gathered(gathered),
        }
    }

    /// As [`Message::from_parts`], where somebody else says how large it is, and there may be no memory for a copy.
    ///
    /// # Errors
    /// [`TryReserveError`].
    ///
    /// # Safety
    /// As [`Message::from_parts`].
    #[doc(hidden)]
    pub unsafe fn try_from_parts(
        owner: impl Any + Send + Sync,
        parts: Vec<(*mut u8, usize)>,
    ) -> Result<Self, TryReserveError> {
        let (gathered, is_copied) = Gathered::of(owner, parts);
        if !is_copied {
            return Ok(Self::gathered(gathered));
        }
        let mut whole = Vec::new();
        whole.try_reserve_exact(gathered.capacity)?;
        Ok(Self::from_vec(gathered.copied_into(whole)))
    }

    fn gathered(gathered: Gathered) -> Self {
        Self { len: gathered.capacity, memory: Memory::Gathered(Box::new(gathered)) }
    }

    /// The bytes that count, in order, as they lie: one slice, but for [`Message::gather`].
    pub fn parts(&self) -> impl Iterator<Item = &[u8]> {
        let (gathered, one) = match &self.memory {
            Memory::Gathered(gathered) => (Some(gathered.within(0..self.len)), None),
            _ => (None, Some(&self[..])),
        };
        // SAFETY: `from_parts`'s caller promised the memory for as long as the message lives.
        let slice = |(base, len): (*mut u8, usize)| unsafe { std::slice::from_raw_parts(base.cast_const(), len) };
        gathered.into_iter().flatten().map(slice).chain(one)
    }

    /// Base and length of each part of `range`, which lies within the capacity.
    fn raw_parts(&mut self, range: Range<usize>) -> Vec<(*mut u8, usize)> {
        match &self.memory {
            Memory::Gathered(gathered) => gathered.within(range).collect(),
            // SAFETY: the range lies within the memory.
            _ => vec![(unsafe { self.base().add(range.start) }, range.len())],
        }
    }

    /// The bytes from `at` on that lie side by side.
    pub(crate) fn rest_of_part(&self, mut at: usize) -> &[u8] {
        for part in self.parts() {
            match part.get(at..).filter(|rest| !rest.is_empty()) {
                Some(rest) => return rest,
                None => at -= part.len(),
            }
        }
        &[]
    }

    /// Messages of these ranges of the bytes that count; each keeps the whole alive, and so does what is returned. To be
    /// sent: while they are shared, nobody writes to them.
    pub(crate) fn share(mut self, ranges: impl Iterator<Item = Range<usize>>) -> (Arc<Self>, Vec<Self>) {
        let parts: Vec<_> = ranges.map(|range| self.raw_parts(range)).collect();
        let whole = Arc::new(self);
        // SAFETY: the memory is the message's, which lives as long as the owner, and is only read while it is shared.
        let share = |parts| unsafe { Self::from_parts(Arc::clone(&whole), parts) };
        let shares = parts.into_iter().map(share).collect();
        (whole, shares)
    }

    /// Gives the bytes that count a name in the table of a transport that is to send them.
    ///
    /// # Safety
    /// The message must be kept, untouched, until the name is removed from the table.
    pub(crate) unsafe fn lend(&mut self, memory: &mut BufferTable) -> BufferId {
        let parts = self.raw_parts(0..self.len);
        // SAFETY: the memory is the message's, valid and unmoved while nobody touches it, as the caller promises.
        let lent = parts.iter().map(|&(base, len)| (unsafe { memory.insert(base, len) }, len));
        match lent.collect::<Vec<_>>()[..] {
            [(buffer, _)] => buffer,
            ref parts => memory.join(parts.iter().copied()),
        }
    }

    /// Bytes that count.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no bytes count.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes there is room for.
    pub fn capacity(&self) -> usize {
        match &self.memory {
            Memory::Heap(bytes) => bytes.len(),
            Memory::Map(map) => map.len(),
            Memory::MapMut(map) => map.len(),
            Memory::Raw { capacity, .. } => *capacity,
            Memory::Gathered(gathered) => gathered.capacity,
        }
    }

    /// Makes the first `len` bytes count.
    ///
    /// # Panics
    /// If there is no room for so many.
    pub fn set_len(&mut self, len: usize) {
        assert!(len <= self.capacity(), "a message with room for {} bytes cannot have {len}", self.capacity());
        self.len = len;
    }

    /// The bytes that count, as a vector: the message's own if it was made from one, or with a capacity; else a copy.
    pub fn into_vec(self) -> Vec<u8> {
        match self.memory {
            Memory::Heap(mut bytes) => {
                bytes.truncate(self.len);
                bytes
            }
            _ => self.to_vec(),
        }
    }

    /// Whether the memory can be received into.
    pub fn is_writable(&self) -> bool {
        !matches!(self.memory, Memory::Map(_) | Memory::Gathered(_))
    }

    /// Writes what was received to the file that the message maps; does nothing for other memory.
    ///
    /// # Errors
    /// If the system cannot write it.
    pub fn flush(&self) -> io::Result<()> {
        match &self.memory {
            Memory::MapMut(map) => map.flush(),
            _ => Ok(()),
        }
    }

    /// Where the memory begins. For transports: valid and unmoved until the message is dropped or changed.
    pub(crate) fn base(&mut self) -> *mut u8 {
        match &mut self.memory {
            Memory::Heap(bytes) => bytes.as_mut_ptr(),
            Memory::Map(map) => map.as_ptr().cast_mut(),
            Memory::MapMut(map) => map.as_mut_ptr(),
            Memory::Raw { base, .. } => *base,
            Memory::Gathered(gathered) => gathered.whole().as_ptr().cast_mut(),
        }
    }
}

impl Deref for Message {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.memory {
            Memory::Heap(bytes) => &bytes[..self.len],
            Memory::Map(map) => &map[..self.len],
            Memory::MapMut(map) => &map[..self.len],
            // SAFETY: `from_raw`'s caller promised the memory, and `len` is at most its capacity.
            Memory::Raw { base, .. } => unsafe { std::slice::from_raw_parts(*base, self.len) },
            Memory::Gathered(gathered) => &gathered.whole()[..self.len],
        }
    }
}

impl DerefMut for Message {
    /// # Panics
    /// If the memory is read-only ([`Message::map_file`], [`Message::gather`]).
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.memory {
            Memory::Heap(bytes) => &mut bytes[..self.len],
            Memory::Map(_) | Memory::Gathered(_) => {
                panic!("a message mapped or gathered for sending is read-only; see Message::is_writable")
            }
            Memory::MapMut(map) => &mut map[..self.len],
            // SAFETY: as above, and the message is borrowed exclusively.
            Memory::Raw { base, .. } => unsafe { std::slice::from_raw_parts_mut(*base, self.len) },
        }
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Message {{ {} of {} bytes }}", self.len, self.capacity())
    }
}

impl From<Vec<u8>> for Message {
    fn from(bytes: Vec<u8>) -> Self {
        Self::from_vec(bytes)
    }
}

impl From<String> for Message {
    fn from(text: String) -> Self {
        Self::from_vec(text.into_bytes())
    }
}

/// A copy.
impl From<&[u8]> for Message {
    fn from(bytes: &[u8]) -> Self {
        Self::from_vec(bytes.to_vec())
    }
}

/// A copy.
impl<const N: usize> From<&[u8; N]> for Message {
    fn from(bytes: &[u8; N]) -> Self {
        Self::from(bytes.as_slice())
    }
}

/// A copy.
impl From<&str> for Message {
    fn from(text: &str) -> Self {
        Self::from(text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_file_is_sent_from_and_received_into_its_pages() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 8192]).unwrap();
        // SAFETY: the file is this test's, and what is mapped writable and looked at is another page, until that map is done.
        let source = unsafe { Message::map_file(&file, 4096, 100) }.unwrap();
        assert_eq!((source.len(), source[99], source.is_writable()), (100, 7, false));
        // SAFETY: as above.
        let mut target = unsafe { Message::map_file_mut(&file, 0, 4096) }.unwrap();
        assert_eq!((target.len(), target.capacity()), (0, 4096));
        target.set_len(2);
        target.copy_from_slice(&[1, 2]);
        target.flush().unwrap();
        drop(target);
        // SAFETY: nothing else is mapped there any more.
        let (written, nothing) = unsafe { (Message::map_file(&file, 0, 3), Message::map_file(&file, 0, 0)) };
        assert_eq!(written.unwrap().into_vec(), [1, 2, 7]);
        assert!(nothing.unwrap().is_empty());
    }

    #[test]
    fn untouched_memory_is_zeros_and_can_be_received_into() {
        let mut message = Message::untouched(1 << 20);
        assert_eq!((message.len(), message.capacity(), message.is_writable()), (0, 1 << 20, true));
        message.set_len(1 << 20);
        assert!(message.iter().all(|&byte| byte == 0));
        message[5] = 7;
        message.set_len(6);
        assert_eq!(message.into_vec(), [0, 0, 0, 0, 0, 7]);
    }

    #[test]
    fn borrowed_memory_lives_as_long_as_the_message() {
        let owner = Arc::new([5u8; 8]);
        let base = owner.as_ptr().cast_mut();
        // SAFETY: the memory belongs to `owner`, which is only read, and only while the message reads too.
        let message = unsafe { Message::from_owner(owner.clone(), base, 8) };
        assert_eq!((&*message, Arc::strong_count(&owner)), (&[5u8; 8][..], 2));
        drop(message);
        assert_eq!(Arc::strong_count(&owner), 1);
    }

    /// 1,000 bytes, 2,000 bytes in two parts, none, and 3,000.
    fn gathered() -> (Vec<u8>, Message) {
        let all: Vec<u8> = (0..6000u32).map(|at| (at % 251) as u8).collect();
        let part = |range: Range<usize>| Message::from(&all[range]);
        let nested = Message::gather(vec![part(1000..1800), part(1800..3000)]);
        let message = Message::gather(vec![part(0..1000), nested, part(0..0), part(3000..6000)]);
        (all, message)
    }

    fn is_copied(message: &Message) -> bool {
        !matches!(&message.memory, Memory::Gathered(gathered) if gathered.whole.get().is_none())
    }

    #[test]
    fn parts_are_sent_from_where_they_lie() {
        let (all, mut message) = gathered();
        let lens = |message: &Message| message.parts().map(<[u8]>::len).collect::<Vec<_>>();
        assert_eq!((lens(&message), message.is_writable()), (vec![1000, 800, 1200, 3000], false));
        message.set_len(2500);
        assert_eq!(lens(&message), [1000, 800, 700]);
        assert_eq!((message.rest_of_part(999).len(), message.rest_of_part(1000).len()), (1, 800));
        assert_eq!((message.rest_of_part(2499), message.rest_of_part(2500)), (&all[2499..2500], &[][..]));
        let bases: Vec<_> = message.parts().map(<[u8]>::as_ptr).collect();
        let mut table = BufferTable::new();
        // SAFETY: the message outlives the table.
        let buffer = unsafe { message.lend(&mut table) };
        let pieces: Vec<_> = table.pieces(pinnace_core::BufferRange::new(buffer, 0, 2500)).unwrap().collect();
        let found: Vec<_> = pieces.iter().map(|piece| table.resolve(*piece).unwrap().cast_const()).collect();
        assert!(found == bases && !is_copied(&message), "no byte is copied");
        assert!(*message == all[..2500] && is_copied(&message), "who wants them side by side has a copy");
    }

    #[test]
    fn what_may_only_be_read_stays_so_when_it_is_all_there_is() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 5000]).unwrap();
        // SAFETY: the file is this test's, which writes nothing to it any more.
        let mapped = unsafe { Message::map_file(&file, 0, 5000) }.unwrap();
        let message = Message::gather(vec![Message::with_capacity(0), mapped]);
        assert_eq!((message.parts().count(), message.is_writable(), &*message), (1, false, &[7; 5000][..]));
        assert!(!is_copied(&message));
    }

    #[test]
    fn shares_of_a_gathered_message_are_gathered() {
        let (all, message) = gathered();
        let (whole, shares) = message.share([0..500, 500..3500, 3500..6000, 6000..6000].into_iter());
        let parts: Vec<_> = shares.iter().map(|share| share.parts().count()).collect();
        assert_eq!(parts, [1, 4, 1, 1]);
        assert!(!is_copied(&whole) && !is_copied(&shares[1]));
        assert!(*shares[0] == all[..500] && *shares[1] == all[500..3500] && shares[3].is_empty());
        drop(shares);
        assert!(Arc::try_unwrap(whole).is_ok_and(|whole| whole.into_vec() == all));
    }

    #[test]
    fn small_parts_are_put_together_at_once() {
        let owner = Arc::new([7u8; 100]);
        let base = owner.as_ptr().cast_mut();
        // SAFETY: the memory belongs to `owner`, which is only read.
        let message = unsafe { Message::from_parts(Arc::clone(&owner), vec![(base, 10), (base, 0), (base, 50)]) };
        assert_eq!((&*message, Arc::strong_count(&owner)), (&[7u8; 60][..], 1));
        assert!(Message::gather(Vec::new()).is_empty());
        let many = |count| Message::gather((0..count).map(|_| Message::from_vec(vec![1; 600])).collect());
        assert_eq!([many(256), many(257)].map(|message| is_copied(&message)), [false, true]);
    }

    #[test]
    #[should_panic(expected = "room for 4 bytes")]
    fn a_message_is_not_longer_than_its_room() {
        Message::with_capacity(4).set_len(5);
    }
}
