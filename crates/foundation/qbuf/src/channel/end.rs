//! One process's end of a channel.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Instant;

use super::region::{MAX_SLOTS, MappedRing, Region};
use super::ring::{Consumer, Corrupt, Found, Peer, Producer};
use super::slot::{self, INLINE_MAX, Inline, Message};
use super::wait::Armed;
use super::window::Window;
use super::{ChannelError, ChannelFds, ChannelOptions, Rejected, Side, doorbell};
use crate::{ClientId, Pool, PoolError, Qbuf, Transit};

/// A message that arrived.
#[derive(Debug)]
pub enum Received {
    /// A short one, which travelled in its descriptor.
    Inline(Inline),
    /// One in a buffer, which is ours from now on.
    Qbuf(Qbuf),
}

impl core::ops::Deref for Received {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Inline(bytes) => bytes,
            Self::Qbuf(qbuf) => qbuf,
        }
    }
}

/// Why the other side of a channel sends nothing more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finished {
    /// It has finished, or closed its end.
    ByItself,
    /// Its process is dead, and its end was closed in its name.
    Dead,
}

/// How a direction of a channel stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Open,
    Closed,
    Corrupt,
}

/// An end of a channel. Dropping it closes both directions; what it had sent stays readable for the other side.
#[derive(Debug)]
pub struct Channel {
    pub(super) pool: Pool,
    pub(super) region: Arc<Region>,
    pub(super) out: Producer<MappedRing>,
    pub(super) window: Window,
    pub(super) incoming: Consumer<MappedRing>,
    pub(super) side: Side,
    /// Passages of what we send; `None` until it is known who sits on the other side.
    pub(super) outward: Option<Transit>,
    pub(super) sending: State,
    pub(super) receiving: State,
    pub(super) armed: Armed,
    /// Threads that sleep on our bell.
    pub(super) asleep: Arc<AtomicUsize>,
    /// When it was last asked whether the other process lives.
    pub(super) life_sign: Instant,
    pub(super) doorbells: [OwnedFd; 2],
}

impl Channel {
    /// Makes a channel. It sits on neither side: duplicate the descriptors and attach, or give them to the processes that will.
    ///
    /// # Errors
    ///
    /// What the system says: no memory, no descriptors.
    pub fn create(_pool: &Pool, options: &ChannelOptions) -> std::io::Result<ChannelFds> {
        let slots = options.slots.clamp(2, MAX_SLOTS).next_power_of_two();
        Ok(ChannelFds {
            region: Region::create(slots, options.number, options.clients)?,
            doorbells: [doorbell::create()?, doorbell::create()?],
        })
    }

    /// Sits down on a side of a channel, as the client of the pool that this process is. A side can be taken once.
    ///
    /// # Errors
    ///
    /// [`ChannelError::Refused`] if the descriptors are not those of a channel, or the side is not free;
    /// [`ChannelError::Io`] if its memory cannot be mapped.
    pub fn attach(pool: &Pool, fds: ChannelFds, side: Side) -> Result<Channel, ChannelError> {
        let region = Region::map(fds.region.as_fd())?;
        if !region.claim(side, pool.client()) {
            return Err(ChannelError::Refused("somebody else sits on this side"));
        }
        let mut channel = Channel {
            pool: pool.clone(),
            out: Producer::new(MappedRing::new(&region, side)),
            window: Window::new(region.slots(), pool),
            incoming: Consumer::new(MappedRing::new(&region, side.other())),
            region,
            side,
            outward: None,
            sending: State::Open,
            receiving: State::Open,
            armed: Armed::default(),
            asleep: Arc::default(),
            life_sign: Instant::now(),
            doorbells: fds.doorbells,
        };
        channel.find_peer();
        // It may wait for somebody to sit down before it can send.
        channel.ring_peer();
        Ok(channel)
    }

    /// The side that this end is.
    pub fn side(&self) -> Side {
        self.side
    }

    /// Slots a ring: how many messages can be on their way in one direction.
    pub fn slots(&self) -> u32 {
        self.region.slots()
    }

    /// The pool that qbufs of this channel live in.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Passes a qbuf to the other side, which sees it at once.
    ///
    /// # Errors
    ///
    /// [`Rejected`], which gives the qbuf back. That the other side closes at the same instant can go unnoticed once: the qbuf then
    /// returns to the pool unread, and the next call says so.
    //= B-6
    //= B-14
    #[inline]
    pub fn try_send(&mut self, qbuf: Qbuf) -> Result<(), Rejected> {
        self.try_queue(qbuf)?;
        self.publish();
        Ok(())
    }

    /// Like [`Channel::try_send`], but the other side sees it only after the next [`Channel::publish`], or whatever else is
    /// sent: a burst of messages is shown, and its reader woken, once.
    ///
    /// # Errors
    ///
    /// As [`Channel::try_send`]. A full ring publishes what was queued.
    #[inline]
    pub fn try_queue(&mut self, qbuf: Qbuf) -> Result<(), Rejected> {
        match self.admit_blocks() {
            Ok(_) if !Arc::ptr_eq(&qbuf.pool().0, &self.pool.0) => Err(Rejected::Foreign(qbuf)),
            Ok(transit) => {
                self.pass(qbuf, transit);
                Ok(())
            }
            Err(ChannelError::Full) => Err(Rejected::Full(qbuf)),
            Err(_) => Err(Rejected::Closed(qbuf)),
        }
    }

    /// Sends bytes: up to [`INLINE_MAX`] of them in the descriptor, more in a qbuf that they are copied into. Returns how many were
    /// sent in this message: all, or as many as the pool's longest qbuf has room for.
    ///
    /// # Errors
    ///
    /// [`ChannelError::Full`], [`ChannelError::Closed`], [`ChannelError::Corrupt`], or [`ChannelError::NoMemory`]: nothing was sent.
    pub fn try_send_bytes(&mut self, bytes: &[u8]) -> Result<usize, ChannelError> {
        if bytes.len() <= INLINE_MAX {
            self.admit()?;
            let (words, used) = slot::inline(bytes);
            self.out.write(&words[..used]);
            self.publish();
            return Ok(bytes.len());
        }
        let transit = self.admit_blocks()?;
        let bytes = &bytes[..bytes.len().min(self.pool.max_len())];
        let Some(mut qbuf) = self.pool.alloc(bytes.len()) else {
            self.publish();
            return Err(ChannelError::NoMemory);
        };
        qbuf.copy_from_slice(bytes);
        self.pass(qbuf, transit);
        self.publish();
        Ok(bytes.len())
    }

    #[inline]
    fn pass(&mut self, qbuf: Qbuf, transit: Transit) {
        self.window.note(self.out.tail(), qbuf.blocks());
        self.out.write(&slot::blocks(self.pool.pass_to(qbuf, transit)));
    }

    /// Shows the other side what was queued, and wakes it if it sleeps.
    #[inline]
    pub fn publish(&mut self) {
        if self.out.unpublished() {
            match self.out.publish() {
                Ok(Peer::Awake) => {}
                Ok(Peer::Wake) => self.ring_peer(),
                Ok(Peer::Closed) => self.reader_is_gone(),
                Err(Corrupt) => self.fail(),
            }
        }
    }

    /// Takes the next message; `None`: there is none now.
    ///
    /// # Errors
    ///
    /// [`ChannelError::Closed`] after the last message of a side that has finished, closed, or died.
    /// [`ChannelError::Corrupt`] if the other side wrote what cannot be, now or before: the channel is closed in both directions.
    /// [`ChannelError::NoMemory`] if this process has its share of the pool: the message waits until it has freed some.
    //= B-6
    //= B-13
    #[inline]
    pub fn try_recv(&mut self) -> Result<Option<Received>, ChannelError> {
        let words = match self.incoming.front() {
            Ok(Found::Slot(words)) if self.receiving == State::Open => words,
            Ok(Found::Empty) if self.receiving == State::Open => return Ok(None),
            other => return self.nothing_more(other),
        };
        let message = match slot::parse(&words) {
            Ok(Message::Inline(bytes)) => Received::Inline(bytes),
            Ok(Message::Blocks(passed)) => {
                // Ours before the slot is given back: whoever sweeps sees the block in the ring or sees that it is ours.
                match self.inward().map(|transit| self.pool.take(passed, transit)) {
                    Some(Ok(qbuf)) => Received::Qbuf(qbuf),
                    Some(Err(PoolError::Share)) => return Err(ChannelError::NoMemory),
                    _ => return self.corrupted(),
                }
            }
            Err(Corrupt) => return self.corrupted(),
        };
        match self.incoming.advance() {
            Ok(Peer::Wake) => self.ring_peer(),
            Ok(_) => {}
            Err(Corrupt) => self.fail(),
        }
        Ok(Some(message))
    }

    /// Says that nothing more will be sent; the other side reads what was sent, and then [`ChannelError::Closed`].
    pub fn finish(&mut self) {
        if self.sending == State::Open {
            self.sending = State::Closed;
            self.region.say_finished(self.side);
            self.out.finish();
            self.ring_peer();
        }
    }

    /// Why the other side sends nothing more; `None`: it may. What it had sent may still be there.
    pub fn finished(&self) -> Option<Finished> {
        match self.incoming.writer_closed() {
            Ok(false) => None,
            Ok(true) if !self.region.has_finished(self.side.other()) => Some(Finished::Dead),
            _ => Some(Finished::ByItself),
        }
    }

    /// Whether the last message that has come, and was not taken, is an empty one.
    pub fn ends_empty(&mut self) -> bool {
        let last = self.incoming.last().ok().flatten();
        last.is_some_and(|words| matches!(slot::parse(&words), Ok(Message::Inline(bytes)) if bytes.is_empty()))
    }

    /// Whether the process on the other side lives; true while nobody has sat down there. Costs system calls: ask now and then.
    //= B-12
    pub fn peer_is_alive(&mut self) -> bool {
        match self.find_peer() {
            Some(transit) => self.pool.is_alive(transit.to),
            None => true,
        }
    }

    /// For whoever never waits: looks at most every 100 ms whether the process on the other side lives, and closes what the dead
    /// will not, as waiting does. What it had sent can still be received; then, and to who sends, it is
    /// [`ChannelError::Closed`]. True: it was closed now, and [`Channel::readable_fd`] is readable.
    //= B-12
    pub fn miss_the_dead(&mut self) -> bool {
        self.miss_the_gone(|| false)
    }

    /// The same, where something else says that the other side is gone although its process lives, in which another program may
    /// run by now. Asked no more often than that.
    //= B-12
    pub fn miss_the_gone(&mut self, is_gone: impl FnOnce() -> bool) -> bool {
        let now = Instant::now();
        if now < self.life_sign + super::wait::LIFE_SIGN {
            return false;
        }
        self.life_sign = now;
        // Closed once: also if nobody has received the rest.
        let is_closed = self.sending != State::Open
            && (self.receiving != State::Open || self.incoming.writer_closed() != Ok(false));
        if is_closed || (self.peer_is_alive() && !is_gone()) {
            return false;
        }
        self.peer_is_dead();
        doorbell::ring(self.bell());
        true
    }

    /// Whether the other side may still read what is sent, or sit down to do so: it has not closed, and its process lives. Costs
    /// system calls, as [`Channel::peer_is_alive`].
    pub fn is_read(&mut self) -> bool {
        self.out.reader_closed() == Ok(false) && self.peer_is_alive()
    }

    /// The client of the pool on the other side, once it is known.
    pub fn peer(&mut self) -> Option<ClientId> {
        self.find_peer().map(|transit| transit.to)
    }

    /// What comes out of the ring when there is no slot, or none for us.
    #[cold]
    fn nothing_more(&mut self, found: Result<Found, Corrupt>) -> Result<Option<Received>, ChannelError> {
        match (self.receiving, found) {
            (State::Corrupt, _) => Err(ChannelError::Corrupt),
            (_, Err(Corrupt)) => self.corrupted(),
            _ => {
                self.receiving = State::Closed;
                Err(ChannelError::Closed)
            }
        }
    }

    #[cold]
    fn corrupted(&mut self) -> Result<Option<Received>, ChannelError> {
        self.fail();
        Err(ChannelError::Corrupt)
    }

    /// The passage of a message that may be written now: there is room, and somebody to receive it.
    #[inline]
    fn admit(&mut self) -> Result<Transit, ChannelError> {
        match (self.sending, self.outward, self.out.room()) {
            (State::Open, Some(transit), Ok(1..)) => Ok(transit),
            (_, _, room) => self.not_admitted(room),
        }
    }

    #[cold]
    fn not_admitted(&mut self, room: Result<u64, Corrupt>) -> Result<Transit, ChannelError> {
        match self.sending {
            State::Open => {}
            State::Closed => return Err(ChannelError::Closed),
            State::Corrupt => return Err(ChannelError::Corrupt),
        }
        let Ok(room) = room else {
            self.fail();
            return Err(ChannelError::Corrupt);
        };
        self.publish();
        match self.out.reader_closed() {
            Ok(false) => {}
            Ok(true) => {
                self.reader_is_gone();
                return Err(ChannelError::Closed);
            }
            Err(Corrupt) => {
                self.fail();
                return Err(ChannelError::Corrupt);
            }
        }
        match self.find_peer() {
            Some(transit) if room > 0 => Ok(transit),
            _ => Err(ChannelError::Full),
        }
    }

    /// The same for a message in blocks of the pool, of which not too many may be on their way.
    #[inline]
    fn admit_blocks(&mut self) -> Result<Transit, ChannelError> {
        let transit = self.admit()?;
        if self.has_window()? { Ok(transit) } else { self.not_admitted(Ok(0)) }
    }

    #[inline]
    pub(super) fn has_window(&mut self) -> Result<bool, ChannelError> {
        if self.window.is_open() { Ok(true) } else { self.look_at_window() }
    }

    #[cold]
    fn look_at_window(&mut self) -> Result<bool, ChannelError> {
        self.out.look().or_else(|_| self.lied())?;
        Ok(self.window.look(self.out.head(), &self.pool))
    }

    /// The passage of what we send, if it is known by now to whom.
    pub(super) fn find_peer(&mut self) -> Option<Transit> {
        if self.outward.is_none() {
            self.outward = self.region.client(self.side.other()).map(|to| Transit {
                channel: self.region.number(),
                from: self.pool.client(),
                to,
            });
        }
        self.outward
    }

    /// The passage of what we receive.
    #[inline]
    fn inward(&mut self) -> Option<Transit> {
        let Transit { channel, from, to } = match self.outward {
            Some(transit) => transit,
            None => self.find_peer()?,
        };
        Some(Transit { channel, from: to, to: from })
    }

    #[cold]
    pub(super) fn ring_peer(&self) {
        doorbell::ring(self.doorbells[self.side.other().index()].as_fd());
    }

    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.doorbells[self.side.index()].as_fd()
    }

    /// The other side reads no more: what it has not read goes back to the pool.
    #[cold]
    pub(super) fn reader_is_gone(&mut self) {
        if self.sending == State::Open {
            self.sending = State::Closed;
            self.out.finish();
        }
        if let Some(transit) = self.find_peer() {
            self.pool.purge(transit);
        }
    }

    /// The other side is dead: what it had published can still be read.
    //= B-12
    #[cold]
    pub(super) fn peer_is_dead(&mut self) {
        self.region.abandon(self.side.other());
        self.reader_is_gone();
    }

    /// Closes both directions, because the other side lies.
    //= B-13
    #[cold]
    pub(super) fn fail(&mut self) {
        self.close();
        self.sending = State::Corrupt;
        self.receiving = State::Corrupt;
    }

    /// Closes both directions: what the other side has sent, and was not taken, goes back to the pool, and it is told that
    /// nobody reads any more.
    pub fn close(&mut self) {
        self.finish();
        self.region.say_finished(self.side);
        if self.receiving == State::Open {
            self.receiving = State::Closed;
        }
        self.incoming.close();
        // What the other side has passed to us and we shall not take; what it passes from now on it takes back itself.
        if let Some(transit) = self.inward() {
            self.pool.purge(transit);
        }
        if self.out.reader_closed() != Ok(false) {
            self.reader_is_gone();
        }
        self.ring_peer();
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.close();
    }
}
