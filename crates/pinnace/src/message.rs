//! Messages: buffers that move into the transport and come back.
//!
//! A message owns its memory, or has been promised it. While it is under way the transport has it, so nobody can touch the
//! bytes by mistake; the wait returns it. A message has a capacity (the room it owns) and a length (the bytes that count),
//! and can be used again for anything that fits.

use memmap2::{Mmap, MmapMut, MmapOptions};
use std::any::Any;
use std::fs::File;
use std::ops::{Deref, DerefMut};
use std::{fmt, io};

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

    /// Room for `capacity` bytes in pages that cost nothing before they are written to: for buffers of which most may never
    /// be used. [`Message::into_vec`] copies from it.
    pub(crate) fn untouched(capacity: usize) -> Self {
        match MmapOptions::new().len(capacity).map_anon() {
            Ok(map) => Self { len: 0, memory: Memory::MapMut(map) },
            // The system has no more maps for this process.
            Err(_) => Self::with_capacity(capacity),
        }
    }

    /// `len` bytes of a file from `offset` on, to send straight from the page cache.
    ///
    /// # Errors
    /// If the file cannot be mapped. If somebody makes the file shorter while it is mapped, reading it kills the process
    /// (SIGBUS): that is how mapped files are.
    pub fn map_file(file: &File, offset: u64, len: usize) -> io::Result<Self> {
        if len == 0 {
            return Ok(Self::with_capacity(0));
        }
        // SAFETY: the map is read as plain bytes; what others write to the file meanwhile is sent as it is found.
        let map = unsafe { MmapOptions::new().offset(offset).len(len).map(file)? };
        Ok(Self { len, memory: Memory::Map(map) })
    }

    /// `len` bytes of a file from `offset` on, to receive straight into the page cache. The file must be that long, and
    /// open for reading and writing.
    ///
    /// # Errors
    /// If the file cannot be mapped.
    pub fn map_file_mut(file: &File, offset: u64, len: usize) -> io::Result<Self> {
        if len == 0 {
            return Ok(Self::with_capacity(0));
        }
        // SAFETY: the map is used as plain bytes; what others write to the file meanwhile is no worse than lost data.
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
    /// # Safety
    /// The memory must be valid for reading and writing, from any thread, until `owner` is dropped, and nobody else may
    /// use it before the message is dropped.
    pub unsafe fn from_owner(owner: impl Any + Send + Sync, base: *mut u8, capacity: usize) -> Self {
        Self { len: capacity, memory: Memory::Raw { base, capacity, _owner: Some(Box::new(owner)) } }
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
        !matches!(self.memory, Memory::Map(_))
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
        }
    }
}

impl DerefMut for Message {
    /// # Panics
    /// If the memory is read-only ([`Message::map_file`]).
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.memory {
            Memory::Heap(bytes) => &mut bytes[..self.len],
            Memory::Map(_) => panic!("a message mapped for sending is read-only; see Message::is_writable"),
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
        let source = Message::map_file(&file, 4096, 100).unwrap();
        assert_eq!((source.len(), source[99], source.is_writable()), (100, 7, false));
        let mut target = Message::map_file_mut(&file, 0, 4096).unwrap();
        assert_eq!((target.len(), target.capacity()), (0, 4096));
        target.set_len(2);
        target.copy_from_slice(&[1, 2]);
        target.flush().unwrap();
        assert_eq!(Message::map_file(&file, 0, 3).unwrap().into_vec(), [1, 2, 7]);
        assert!(Message::map_file(&file, 0, 0).unwrap().is_empty());
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
        let owner = std::sync::Arc::new([5u8; 8]);
        let base = owner.as_ptr().cast_mut();
        // SAFETY: the memory belongs to `owner`, which is only read, and only while the message reads too.
        let message = unsafe { Message::from_owner(owner.clone(), base, 8) };
        assert_eq!((&*message, std::sync::Arc::strong_count(&owner)), (&[5u8; 8][..], 2));
        drop(message);
        assert_eq!(std::sync::Arc::strong_count(&owner), 1);
    }

    #[test]
    #[should_panic(expected = "room for 4 bytes")]
    fn a_message_is_not_longer_than_its_room() {
        Message::with_capacity(4).set_len(5);
    }
}
