//! A train on its way into the kernel: its pieces gathered, or staged in one buffer, and its control messages.
//!
//! Always true: pointers are laid out anew for every send and used before anything they point to can change; no piece
//! crosses a datagram's end when datagrams are sent one by one.

use super::{self as sys, Control, Name, Refusal};
use crate::BufferTable;
use libc::c_int;
use pinnace_core::{Part, Train};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;
use std::os::fd::RawFd;
use std::sync::LazyLock;

/// The kernel takes so many pieces a message.
pub(crate) const MAX_PIECES: usize = 1024;
/// Room to stage the largest train.
const STAGING_BYTES: usize = 65_536;

/// The kernel lays datagrams one behind the other into pieces of 32 KiB. Behind one of so many bytes there is no room for
/// anything, so that the next begins with a page.
const FILLS_PIECES: usize = 65_505;
const PAGE_BYTES: usize = 4096;
/// Where a copy's target lies fewer bytes than this behind its source, as offsets in a page, it crawls: 64 KiB take 40 us instead
/// of 8 (measured on AMD, family 25).
const CRAWLS_BEHIND: usize = 32;
/// Whether the processor is one on which that is so. Asked once: in a virtual machine the host answers.
static MAY_CRAWL: LazyLock<bool> = LazyLock::new(is_amd);

/// The arrays that a send needs, kept from send to send.
pub(crate) struct Outgoing {
    pieces: Vec<libc::iovec>,
    staging: Box<[u8]>,
    /// First piece of each datagram, when they are sent one by one.
    starts: Vec<u32>,
    messages: Vec<libc::mmsghdr>,
    pub(crate) control: Control,
    /// How much of a train has left already, sent one by one, and which train it was.
    left: Option<(usize, u64)>,
    /// Bytes that were copied together.
    staged: u64,
}

// SAFETY: the pointers in `pieces` and `messages` are only used within the call that laid them out.
unsafe impl Send for Outgoing {}

fn is_amd() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        let vendor = std::arch::x86_64::__cpuid(0);
        [vendor.ebx, vendor.edx, vendor.ecx] == [*b"Auth", *b"enti", *b"cAMD"].map(u32::from_le_bytes)
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Whether the kernel's copy of a piece would crawl, where the first begins with a page.
fn crawls(pieces: &[libc::iovec]) -> bool {
    let mut at = 0_usize;
    pieces.iter().any(|piece| {
        let behind = at.wrapping_sub(piece.iov_base as usize) % PAGE_BYTES;
        at += piece.iov_len;
        piece.iov_len > PAGE_BYTES && (1..CRAWLS_BEHIND).contains(&behind)
    })
}

impl Outgoing {
    /// Never block, and no signal if the other end of an AF_UNIX socket is gone.
    pub(crate) const FLAGS: c_int = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;

    pub(crate) fn new() -> Self {
        Self {
            pieces: Vec::with_capacity(MAX_PIECES),
            staging: vec![0; STAGING_BYTES].into_boxed_slice(),
            starts: Vec::new(),
            messages: Vec::new(),
            control: Control::new(),
            left: None,
            staged: 0,
        }
    }

    /// Bytes that were copied together to be sent, since this was made.
    pub(crate) fn staged(&self) -> u64 {
        self.staged
    }

    /// Lays out the control messages of `train`.
    pub(crate) fn set_control(&mut self, segment: Option<u16>, tos: Option<(bool, u8)>, source: Option<IpAddr>) {
        self.control.clear();
        if let Some(segment) = segment {
            self.control.push(libc::SOL_UDP, sys::UDP_SEGMENT, &segment.to_ne_bytes());
        }
        if let Some((v6, bits)) = tos {
            let (level, kind) = if v6 { (libc::SOL_IPV6, libc::IPV6_TCLASS) } else { (libc::SOL_IP, libc::IP_TOS) };
            self.control.push(level, kind, &i32::from(bits).to_ne_bytes());
        }
        if let Some(ip) = source {
            sys::push_source(&mut self.control, ip);
        }
    }

    /// Lays out the whole train, copied together if `stage`. False if a part names memory that is gone, or if there are
    /// too many pieces for one message.
    pub(crate) fn gather(&mut self, train: &Train, memory: &BufferTable, stage: bool) -> bool {
        self.pieces.clear();
        if (stage || train.parts().len() > MAX_PIECES) && train.bytes() <= self.staging.len() {
            return self.stage(train, memory);
        }
        let inline = train.inline_bytes();
        let mut whole = true;
        self.pieces.extend(train.parts().iter().map(|part| {
            let (base, len) = piece(part, inline, memory);
            whole &= !base.is_null();
            libc::iovec { iov_base: base.cast(), iov_len: len }
        }));
        let is_full = train.segments() == 1 && (FILLS_PIECES..=self.staging.len()).contains(&train.bytes());
        if is_full && whole && *MAY_CRAWL && crawls(&self.pieces) {
            self.pieces.clear();
            return self.stage(train, memory);
        }
        whole && self.pieces.len() <= MAX_PIECES
    }

    fn stage(&mut self, train: &Train, memory: &BufferTable) -> bool {
        let inline = train.inline_bytes();
        let mut at = 0;
        for part in train.parts() {
            let bytes = match *part {
                Part::Inline { at, len } => &inline[at as usize..][..len as usize],
                Part::Payload(range) => {
                    let bytes = memory.bytes(range);
                    if bytes.len() != range.len as usize {
                        return false;
                    }
                    bytes
                }
            };
            self.staging[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        }
        self.pieces.push(libc::iovec { iov_base: self.staging.as_mut_ptr().cast(), iov_len: at });
        self.staged += at as u64;
        true
    }

    /// A message of everything that was gathered.
    pub(crate) fn message(&mut self, name: Option<&mut Name>) -> libc::msghdr {
        let mut header = sys::header();
        if let Some(name) = name {
            name.attach(&mut header);
        }
        header.msg_iov = self.pieces.as_mut_ptr();
        header.msg_iovlen = self.pieces.len() as _;
        self.control.attach(&mut header);
        header
    }

    /// Lays out every datagram of the train as a message of its own. False if a part names memory that is gone.
    pub(crate) fn gather_singly(&mut self, train: &Train, memory: &BufferTable, mut name: Option<&mut Name>) -> bool {
        self.pieces.clear();
        self.starts.clear();
        let inline = train.inline_bytes();
        let mut room = 0;
        for part in train.parts() {
            if room == 0 {
                self.starts.push(self.pieces.len() as u32);
                room = train.segment_size();
            }
            let (base, len) = piece(part, inline, memory);
            if base.is_null() {
                return false;
            }
            self.pieces.push(libc::iovec { iov_base: base.cast(), iov_len: len });
            room = room.saturating_sub(len);
        }
        self.messages.clear();
        for (index, &low) in self.starts.iter().enumerate() {
            let high = self.starts.get(index + 1).map_or(self.pieces.len(), |&high| high as usize);
            let mut header = sys::header();
            if let Some(name) = name.as_deref_mut() {
                name.attach(&mut header);
            }
            header.msg_iov = self.pieces[low as usize..].as_mut_ptr();
            header.msg_iovlen = (high - low as usize) as _;
            self.control.attach(&mut header);
            self.messages.push(libc::mmsghdr { msg_hdr: header, msg_len: 0 });
        }
        true
    }

    /// Sends what [`Outgoing::gather_singly`] has just laid out, from message `done` on, and counts in `done` what left.
    /// Returns why it stopped before the end, if it did; the message that was refused is number `done`.
    ///
    /// # Safety
    /// The train, the memory and the name that were given to `gather_singly` must be there still, unmoved.
    pub(crate) unsafe fn send_singly(&mut self, fd: RawFd, done: &mut usize, calls: &mut u64) -> Option<Refusal> {
        while *done < self.messages.len() {
            *calls += 1;
            let messages = &mut self.messages[*done..];
            // SAFETY: the messages point to pieces and control messages in `self`, and to what the caller promised; the
            // kernel only reads it.
            let sent = unsafe { sys::send_messages(fd, messages, Self::FLAGS) };
            if sent > 0 {
                *done += sent as usize;
            } else if let Some(refusal) = Refusal::last() {
                return Some(refusal);
            }
        }
        None
    }

    /// How many datagrams of the train have left already: it may be offered again.
    pub(crate) fn resume(&mut self, train: &Train) -> usize {
        self.left.take().filter(|(_, which)| *which == fingerprint(train)).map_or(0, |(done, _)| done)
    }

    /// The train has left but for what is behind its first `done` datagrams, and will be offered again.
    pub(crate) fn interrupt(&mut self, train: &Train, done: usize) {
        self.left = (done > 0).then(|| (done, fingerprint(train)));
    }

    /// Whatever train is offered next begins anew.
    pub(crate) fn forget(&mut self) {
        self.left = None;
    }
}

/// Tells one train from another, for a train that is offered again.
fn fingerprint(train: &Train) -> u64 {
    let mut hasher = DefaultHasher::new();
    (train.segment_size(), train.bytes(), train.destination()).hash(&mut hasher);
    train.inline_bytes().hash(&mut hasher);
    for part in train.parts() {
        if let Part::Payload(range) = part {
            (range.buffer, range.offset, range.len).hash(&mut hasher);
        }
    }
    hasher.finish()
}

/// Where a part lies; null if its memory is gone.
fn piece(part: &Part, inline: &[u8], memory: &BufferTable) -> (*mut u8, usize) {
    match *part {
        Part::Inline { at, len } => (inline[at as usize..][..len as usize].as_ptr().cast_mut(), len as usize),
        Part::Payload(range) => (memory.resolve(range).unwrap_or(std::ptr::null_mut()), range.len as usize),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_crawls_a_little_behind_the_same_place_of_a_page() {
        let crawls = |header: usize, payload: usize, len| {
            let piece = |base: usize, len| libc::iovec { iov_base: base as *mut libc::c_void, iov_len: len };
            crawls(&[piece(0x7000, header), piece(payload, len)])
        };
        let places = [0x10_0000, 0x10_0010, 0x10_0ff0].map(|payload| crawls(6, payload, 65_501));
        assert_eq!(places, [true, false, true], "6 behind, 10 before, 22 behind");
        assert!(!crawls(6, 0x10_0000, 4096) && crawls(6, 0x10_0000, 4097), "short ones are not worth it");
        assert!(crawls(31, 0x10_0000, 65_000) && !crawls(32, 0x10_0000, 65_000) && !crawls(0, 0x10_0000, 65_000));
    }
}
