//! A connected socket, or one that connects.
//!
//! Always true: an error of the association is told once, by whichever call comes first; from then on the stream has ended.
//! What no read shows, that it is established and that there is room again, is announced until a call has seen it, or so often
//! that nobody can want to know.

use super::errors::{errno, of_failure};
use super::names;
use super::socket::Bound;
use crate::errors::Errno;
use libc::c_short;
use pinnace::qmp::{Full, Qbuf, Shutdown, State, Stream};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

/// How a call waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// As long as the time-outs of the socket say.
    Block,
    /// Not at all.
    No,
}

/// What there was no room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lack {
    /// Bytes that are copied, as many as there is room for.
    Copy,
    /// A buffer of so many bytes.
    Buffer(usize),
}

/// How often room is announced, at most: whoever receives for a while must not miss it, and who has given up sending must not
/// be woken for ever.
const ROOM: u32 = 1000;

/// The same for a connection that is established: SO_ERROR says the same before and after.
const ESTABLISHED: u32 = 16;

/// A stream, and what the application has been told of it.
#[derive(Debug)]
pub(crate) struct Conversation {
    pub(super) stream: Stream,
    /// connect() has not said yet that it is established.
    is_connecting: AtomicBool,
    is_established: AtomicBool,
    shut_write: AtomicBool,
    shut_read: AtomicBool,
    /// The failure has been told.
    is_told: AtomicBool,
    /// Bytes of the buffer that there was no room for, or 0: it was to be copied.
    lacked: AtomicUsize,
    /// How often that there is room again is still to be announced; 0: nobody lacks any.
    room_left: AtomicU32,
    /// How often that it is established is still to be announced.
    established_left: AtomicU32,
    /// What the socket was bound to.
    pub(super) bound: Option<Box<Bound>>,
}

impl Conversation {
    /// One that was accepted.
    pub(super) fn accepted(stream: Stream) -> Self {
        Self::new(stream, true, None)
    }

    /// One whose FIRST is on its way.
    pub(super) fn connecting(stream: Stream, bound: Option<Box<Bound>>) -> Self {
        Self::new(stream, false, bound)
    }

    fn new(stream: Stream, is_established: bool, bound: Option<Box<Bound>>) -> Self {
        Self {
            stream,
            is_connecting: AtomicBool::new(!is_established),
            is_established: AtomicBool::new(is_established),
            shut_write: AtomicBool::new(false),
            shut_read: AtomicBool::new(false),
            is_told: AtomicBool::new(false),
            lacked: AtomicUsize::new(0),
            room_left: AtomicU32::new(0),
            established_left: AtomicU32::new(if is_established { 0 } else { ESTABLISHED }),
            bound,
        }
    }

    /// Whether the peer has answered. A failure is not told by this.
    pub(super) fn established(&self) -> Option<Result<(), Errno>> {
        if self.is_established.load(Ordering::Relaxed) {
            return Some(Ok(()));
        }
        let result = self.stream.established()?;
        if result.is_ok() {
            self.is_established.store(true, Ordering::Relaxed);
        }
        Some(result.map_err(|error| errno(&error)))
    }

    /// Whether connect() is still to say that it is established; from now on it is not.
    pub(super) fn end_connecting(&self) -> bool {
        self.established_left.store(0, Ordering::Relaxed);
        self.is_connecting.swap(false, Ordering::Relaxed)
    }

    pub(super) fn is_connecting(&self) -> bool {
        self.is_connecting.load(Ordering::Relaxed)
    }

    /// A call that does not wait has found no room: the descriptor is to say when there is some.
    pub(crate) fn lacks_room(&self, lack: Lack) {
        self.lacked.store(if let Lack::Buffer(len) = lack { len } else { 0 }, Ordering::Relaxed);
        self.room_left.store(ROOM, Ordering::Relaxed);
    }

    /// A call has found room.
    pub(crate) fn had_room(&self) {
        self.room_left.store(0, Ordering::Relaxed);
    }

    /// Whether the descriptor is to be readable although no read finds anything: the signal that said so is gone.
    pub(super) fn announces(&self) -> bool {
        let take =
            |left: &AtomicU32| left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        let is_left = |left: &AtomicU32| left.load(Ordering::Relaxed) > 0;
        let has_room = || match self.lacked.load(Ordering::Relaxed) {
            0 => self.stream.is_writable(),
            len => self.stream.has_room_for(len),
        };
        let room = is_left(&self.room_left) && has_room() && take(&self.room_left).is_ok();
        let established =
            || is_left(&self.established_left) && self.established().is_some() && take(&self.established_left).is_ok();
        room || established()
    }

    /// Whether nothing that was written has still to arrive.
    pub(crate) fn has_arrived(&self) -> bool {
        self.stream.try_flush().is_some()
    }

    /// The failure that has not been told, which is told now.
    pub(super) fn take_failure(&self) -> Option<Errno> {
        let failure = self.stream.failure()?;
        (!self.is_told.swap(true, Ordering::Relaxed)).then(|| of_failure(failure))
    }

    /// An error of a call: what the association has failed with is told once, and then `again`.
    fn told(&self, error: Errno, again: Result<usize, Errno>) -> Result<usize, Errno> {
        // That there is no room, or no memory, says nothing of the association, also if that has failed.
        if self.stream.failure().map(of_failure) != Some(error) {
            return Err(error);
        }
        if self.is_told.swap(true, Ordering::Relaxed) { again } else { Err(error) }
    }

    /// A call has an error that it does not tell, because it has moved bytes before: if it is the association's, the next
    /// call tells it.
    pub(super) fn keep_for_later(&self, error: Errno) {
        if self.stream.failure().map(of_failure) == Some(error) {
            self.is_told.store(false, Ordering::Relaxed);
        }
    }

    /// Reads what there is, or looks at it.
    pub(super) fn receive(&self, into: &mut [u8], wait: Wait, peek: bool) -> Result<usize, Errno> {
        if self.shut_read.load(Ordering::Relaxed) {
            return Ok(0);
        }
        let result = match (wait, peek) {
            (Wait::Block, false) => self.stream.read(into).map(Some),
            (Wait::Block, true) => self.stream.peek(into).map(Some),
            (Wait::No, false) => self.stream.try_read(into),
            (Wait::No, true) => self.stream.try_peek(into),
        };
        match result {
            Ok(Some(taken)) => {
                self.established_left.store(0, Ordering::Relaxed);
                Ok(taken)
            }
            Ok(None) => Err(Errno(libc::EAGAIN)),
            Err(error) => self.told(errno(&error), Ok(0)),
        }
    }

    /// Queues all of `bytes` if it may wait, else what there is room for.
    pub(super) fn send(&self, bytes: &[u8], wait: Wait) -> Result<usize, Errno> {
        self.check_writing()?;
        let mut sent = 0;
        loop {
            let result = match wait {
                Wait::Block => self.stream.write(&bytes[sent..]).map(Some),
                Wait::No => self.stream.try_write(&bytes[sent..]),
            };
            let why = match result {
                Ok(Some(taken)) => {
                    sent += taken;
                    if sent == bytes.len() {
                        return Ok(sent);
                    }
                    continue;
                }
                Ok(None) => Errno(libc::EAGAIN),
                Err(error) => errno(&error),
            };
            // What was taken is under way; the error will be there next time.
            return if sent > 0 { Ok(sent) } else { self.told(why, Err(Errno(libc::EPIPE))) };
        }
    }

    /// Passes a buffer on, and waits for room; gives it back if there is none in this time.
    pub(crate) fn send_qbuf(&self, qbuf: Qbuf, timeout: Option<Duration>) -> Result<Result<(), Full>, Errno> {
        self.check_writing()?;
        self.stream.send_qbuf_timeout(qbuf, timeout).map_err(|error| self.told_of_sending(errno(&error)))
    }

    /// Passes a buffer on, or gives it back if there is no room.
    pub(crate) fn try_send_qbuf(&self, qbuf: Qbuf) -> Result<Result<(), Full>, Errno> {
        self.check_writing()?;
        self.stream.try_send_qbuf(qbuf).map_err(|error| self.told_of_sending(errno(&error)))
    }

    fn check_writing(&self) -> Result<(), Errno> {
        if self.shut_write.load(Ordering::Relaxed) { Err(Errno(libc::EPIPE)) } else { Ok(()) }
    }

    fn told_of_sending(&self, error: Errno) -> Errno {
        self.told(error, Err(Errno(libc::EPIPE))).err().unwrap_or(error)
    }

    /// The next buffer; `None` at the end of the stream.
    pub(crate) fn receive_qbuf(&self, wait: Wait) -> Result<Option<Qbuf>, Errno> {
        if self.shut_read.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let result = match wait {
            Wait::Block => self.stream.recv_qbuf(),
            Wait::No => match self.stream.try_recv_qbuf() {
                Ok(None) => return Err(Errno(libc::EAGAIN)),
                Ok(Some(found)) => Ok(found),
                Err(error) => Err(error),
            },
        };
        match result {
            Ok(found) => {
                self.established_left.store(0, Ordering::Relaxed);
                Ok(found)
            }
            Err(error) => self.told(errno(&error), Ok(0)).map(|_| None),
        }
    }

    pub(super) fn shut(&self, how: Shutdown) -> Result<(), Errno> {
        if self.stream.failure().is_some() {
            return Err(Errno(libc::ENOTCONN));
        }
        if how != Shutdown::Write {
            self.shut_read.store(true, Ordering::Relaxed);
        }
        if how != Shutdown::Read {
            // Nothing more is sent, whatever room there is.
            self.room_left.store(0, Ordering::Relaxed);
        }
        if how != Shutdown::Read && self.shut_write.swap(true, Ordering::Relaxed) && how == Shutdown::Write {
            return Ok(());
        }
        match self.stream.shutdown(how).map_err(|error| errno(&error)) {
            // Both streams have ended already.
            Err(Errno(libc::EPIPE)) => Ok(()),
            result => result,
        }
    }

    /// Whether a read would not wait, or an error is to be told.
    pub(crate) fn is_readable(&self) -> bool {
        self.stream.is_readable() || self.shut_read.load(Ordering::Relaxed)
    }

    /// What poll() says.
    pub(super) fn events(&self) -> c_short {
        match self.established() {
            None => return 0,
            Some(Err(_)) if !self.is_told.load(Ordering::Relaxed) => {
                return libc::POLLIN
                    | libc::POLLRDNORM
                    | libc::POLLOUT
                    | libc::POLLWRNORM
                    | libc::POLLERR
                    | libc::POLLHUP
                    | names::POLLRDHUP;
            }
            Some(_) => {}
        }
        let mut events = 0;
        let is_shut = |half: &AtomicBool| half.load(Ordering::Relaxed);
        // Together: who is told of the end of a connection is told in the same breath that it was a bad one.
        let now = self.stream.standing();
        let is_failed = now.failure.is_some() && !is_shut(&self.is_told);
        let has_ended = now.is_at_end || is_shut(&self.shut_read);
        let is_over = now.state == State::Quiescent || (has_ended && is_shut(&self.shut_write));
        if has_ended || is_failed || now.readable_bytes > 0 {
            events |= libc::POLLIN | libc::POLLRDNORM;
        }
        if has_ended || now.has_peer_ended {
            events |= names::POLLRDHUP;
        }
        if is_over || is_failed || is_shut(&self.shut_write) || now.is_writable {
            events |= libc::POLLOUT | libc::POLLWRNORM;
        }
        if is_over {
            events |= libc::POLLHUP;
        }
        if is_failed {
            events |= libc::POLLERR;
        }
        events
    }
}
