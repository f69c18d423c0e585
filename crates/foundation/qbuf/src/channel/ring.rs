//! One single-producer single-consumer ring of slots in memory that two processes share: positions, slots, sleep and wake.
//!
//! Always true:
//! - Each side trusts only its private copy of its own position. The other's position is read once at a look, checked against what
//!   it can be (it never moves back, nor further than the ring allows), and kept in a private shadow: a position that lies is
//!   [`Corrupt`], never an index outside the ring.
//! - A slot is written before the position that shows it is published (release), and read after that position was seen (acquire).
//! - A sleeper says so, then looks once more; a publisher publishes, then looks for a sleeper. Both put a sequentially consistent
//!   fence between the two, so one of them sees the other: no wake is lost, and nobody who is awake is woken.
//!
//! | line (128 bytes) | written by | what |
//! |---|---|---|
//! | `tail` | producer | position after the last slot published; counts up for ever, the index is its low bits |
//! | `head` | consumer | position of the first slot not yet taken |
//! | `reader` | consumer (the waker puts `ASLEEP` back to `AWAKE`) | is the consumer awake, asleep, gone |
//! | `writer` | producer (likewise) | is the producer awake, asleep, finished |
//!
//! Requirements B-13 (checked positions) and B-14 (cost per message does not depend on its size).

use super::sync::{AtomicU64, Ordering, fence};

/// 64-bit words in a slot.
pub(crate) const SLOT_WORDS: usize = 8;

/// A slot as it was copied out of the ring, or as it goes in.
pub(crate) type Words = [u64; SLOT_WORDS];

pub(crate) const AWAKE: u64 = 0;
pub(crate) const ASLEEP: u64 = 1;
pub(crate) const CLOSED: u64 = 2;

/// What the other side wrote cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Corrupt;

/// What the other side says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// It looks by itself.
    Awake,
    /// It said that it sleeps, and this call took the saying back: the caller must ring its bell.
    Wake,
    /// It has closed its end.
    Closed,
}

/// Two cache lines: processors fetch lines in pairs.
#[repr(C, align(128))]
pub(crate) struct Line<T>(pub(crate) T);

/// The words of a ring that are not slots.
#[repr(C)]
pub(crate) struct Control {
    pub(crate) tail: Line<AtomicU64>,
    pub(crate) head: Line<AtomicU64>,
    pub(crate) reader: Line<AtomicU64>,
    pub(crate) writer: Line<AtomicU64>,
}

/// One descriptor.
#[repr(C, align(64))]
pub(crate) struct Slot {
    pub(crate) words: [AtomicU64; SLOT_WORDS],
}

/// Where a ring lies. `slot` takes any position and reduces it to an index by its own, private, number of slots.
pub(crate) trait Ring {
    fn control(&self) -> &Control;
    fn slot(&self, position: u64) -> &Slot;
    /// Slots: a power of two.
    fn capacity(&self) -> u64;
}

/// Looks at a state word after a publication, and takes `ASLEEP` back.
#[inline]
fn peer_state(state: &AtomicU64) -> Result<Peer, Corrupt> {
    fence(Ordering::SeqCst);
    match state.load(Ordering::Relaxed) {
        AWAKE => Ok(Peer::Awake),
        other => not_awake(state, other),
    }
}

#[cold]
fn not_awake(state: &AtomicU64, seen: u64) -> Result<Peer, Corrupt> {
    match seen {
        // Only who takes the saying back rings: one sleep costs one ring at most. If the sleeper was faster it is awake; a side
        // that closed in between is met at the next look.
        ASLEEP => match state.compare_exchange(ASLEEP, AWAKE, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Ok(Peer::Wake),
            Err(CLOSED) => Ok(Peer::Closed),
            Err(AWAKE) => Ok(Peer::Awake),
            Err(_) => Err(Corrupt),
        },
        CLOSED => Ok(Peer::Closed),
        _ => Err(Corrupt),
    }
}

/// Says that this side sleeps; the fence stands between this and the caller's last look.
fn say_asleep(state: &AtomicU64) {
    // A failure means that this end was closed in our name (by who watches over the channel), or that the word was scribbled on:
    // the look that follows finds out, or the sleep is bounded by who sleeps.
    let _ = state.compare_exchange(AWAKE, ASLEEP, Ordering::AcqRel, Ordering::Acquire);
    fence(Ordering::SeqCst);
}

fn say_awake(state: &AtomicU64) {
    let _ = state.compare_exchange(ASLEEP, AWAKE, Ordering::AcqRel, Ordering::Acquire);
}

/// The writing end.
#[derive(Debug)]
pub(crate) struct Producer<R> {
    ring: R,
    /// Position after the last slot written; private truth.
    tail: u64,
    /// What of it the consumer may see.
    published: u64,
    /// The consumer's position when it was last read; never beyond `tail`, never more than the capacity behind it.
    head: u64,
}

impl<R: Ring> Producer<R> {
    pub(crate) fn new(ring: R) -> Self {
        Self { ring, tail: 0, published: 0, head: 0 }
    }

    /// Free slots, as last seen; reads the consumer's position only when none was left.
    #[inline]
    pub(crate) fn room(&mut self) -> Result<u64, Corrupt> {
        let room = self.ring.capacity() - (self.tail - self.head);
        if room > 0 { Ok(room) } else { self.look() }
    }

    /// Reads the consumer's position and checks it.
    //= B-13
    pub(crate) fn look(&mut self) -> Result<u64, Corrupt> {
        let head = self.ring.control().head.0.load(Ordering::Acquire);
        if head < self.head || head > self.published {
            return Err(Corrupt);
        }
        self.head = head;
        Ok(self.ring.capacity() - (self.tail - head))
    }

    /// Writes a slot; the consumer sees it after [`Producer::publish`]. Only after [`Producer::room`] said that there is room.
    #[inline]
    pub(crate) fn write(&mut self, words: &[u64]) {
        debug_assert!(self.tail - self.head < self.ring.capacity());
        let slot = self.ring.slot(self.tail);
        for (cell, word) in slot.words.iter().zip(words) {
            cell.store(*word, Ordering::Relaxed);
        }
        self.tail += 1;
    }

    /// Shows what was written.
    #[inline]
    pub(crate) fn publish(&mut self) -> Result<Peer, Corrupt> {
        self.published = self.tail;
        self.ring.control().tail.0.store(self.tail, Ordering::Release);
        peer_state(&self.ring.control().reader.0)
    }

    pub(crate) fn unpublished(&self) -> bool {
        self.published != self.tail
    }

    /// The consumer's position when it was last read.
    pub(crate) fn head(&self) -> u64 {
        self.head
    }

    /// Position of the slot that is written next.
    pub(crate) fn tail(&self) -> u64 {
        self.tail
    }

    /// Says that this side waits for room: a slot, and whatever `has_room` asks of the consumer's position. True: there is some
    /// already, do not sleep (and the saying is taken back).
    pub(crate) fn fall_asleep(&mut self, has_room: impl FnOnce(u64) -> bool) -> Result<bool, Corrupt> {
        say_asleep(&self.ring.control().writer.0);
        let ready = self.look()? > 0 && has_room(self.head) || self.reader_closed()?;
        if ready {
            self.wake_up();
        }
        Ok(ready)
    }

    pub(crate) fn wake_up(&self) {
        say_awake(&self.ring.control().writer.0);
    }

    /// The consumer is gone.
    pub(crate) fn reader_closed(&self) -> Result<bool, Corrupt> {
        closed(self.ring.control().reader.0.load(Ordering::Acquire))
    }

    /// Says that nothing follows; what was published stays readable. The caller rings the other's bell.
    pub(crate) fn finish(&mut self) {
        self.ring.control().tail.0.store(self.tail, Ordering::Release);
        self.published = self.tail;
        self.ring.control().writer.0.store(CLOSED, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }
}

/// The reading end.
#[derive(Debug)]
pub(crate) struct Consumer<R> {
    ring: R,
    /// Position of the next slot; private truth.
    head: u64,
    /// The producer's position when it was last read; never behind `head`, never more than the capacity beyond it.
    tail: u64,
}

/// What a consumer found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The next slot's words.
    Slot(Words),
    /// Nothing yet.
    Empty,
    /// Nothing, and nothing will come.
    Finished,
}

impl<R: Ring> Consumer<R> {
    pub(crate) fn new(ring: R) -> Self {
        Self { ring, head: 0, tail: 0 }
    }

    /// Reads the producer's position and checks it; slots that can be read.
    //= B-13
    #[inline]
    fn look(&mut self) -> Result<u64, Corrupt> {
        let tail = self.ring.control().tail.0.load(Ordering::Acquire);
        if tail < self.tail || tail - self.head > self.ring.capacity() {
            return Err(Corrupt);
        }
        self.tail = tail;
        Ok(tail - self.head)
    }

    /// Slots that can be read, as last seen; looks anew when there are none.
    #[inline]
    pub(crate) fn available(&mut self) -> Result<u64, Corrupt> {
        let seen = self.tail - self.head;
        if seen > 0 { Ok(seen) } else { self.look() }
    }

    /// Copies the next slot out; it stays in the ring until [`Consumer::advance`].
    #[inline]
    pub(crate) fn front(&mut self) -> Result<Found, Corrupt> {
        if self.available()? == 0 {
            if !self.writer_closed()? {
                return Ok(Found::Empty);
            }
            // The tail was final before the producer said that it finished, so this look sees the last of it.
            if self.look()? == 0 {
                return Ok(Found::Finished);
            }
        }
        Ok(Found::Slot(read(self.ring.slot(self.head))))
    }

    /// Copies the last slot out that was published and not given back; `None`: there is none.
    pub(crate) fn last(&mut self) -> Result<Option<Words>, Corrupt> {
        Ok((self.look()? > 0).then(|| read(self.ring.slot(self.tail - 1))))
    }

    /// Gives the front slot back to the producer.
    #[inline]
    pub(crate) fn advance(&mut self) -> Result<Peer, Corrupt> {
        debug_assert!(self.head < self.tail);
        self.head += 1;
        self.ring.control().head.0.store(self.head, Ordering::Release);
        peer_state(&self.ring.control().writer.0)
    }

    /// Says that this side waits for a slot. True: there is one already, or none will come: do not sleep.
    pub(crate) fn fall_asleep(&mut self) -> Result<bool, Corrupt> {
        say_asleep(&self.ring.control().reader.0);
        let ready = self.look()? > 0 || self.writer_closed()?;
        if ready {
            self.wake_up();
        }
        Ok(ready)
    }

    pub(crate) fn wake_up(&self) {
        say_awake(&self.ring.control().reader.0);
    }

    /// The producer has finished; slots may be left.
    #[inline]
    pub(crate) fn writer_closed(&self) -> Result<bool, Corrupt> {
        closed(self.ring.control().writer.0.load(Ordering::Acquire))
    }

    /// Says that this side reads no more. Slots that are published after a producer's look that did not see this are found by
    /// the caller's [`Consumer::front`] after this call: what is in the ring belongs to somebody at every moment.
    pub(crate) fn close(&mut self) {
        self.ring.control().reader.0.store(CLOSED, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }
}

#[inline]
fn closed(state: u64) -> Result<bool, Corrupt> {
    match state {
        AWAKE | ASLEEP => Ok(false),
        CLOSED => Ok(true),
        _ => Err(Corrupt),
    }
}

/// Copies a slot out, each word once.
#[inline]
pub(crate) fn read(slot: &Slot) -> Words {
    let mut words = [0; SLOT_WORDS];
    for (word, cell) in words.iter_mut().zip(&slot.words) {
        *word = cell.load(Ordering::Relaxed);
    }
    words
}
