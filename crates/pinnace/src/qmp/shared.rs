//! A stream to a process of the same host: bytes and qbufs over a channel of shared memory (specs/qbuf.md, B-14).
//!
//! Always true: a stream that was closed in order ends with an empty message, so what ends without one was reset; nobody
//! who waits holds the lock that others need.
//= B-14

use super::sleeper::Sleeper;
use super::{Qbuf, Standing, Way};
use crate::Idle;
use crate::copies::Copies;
use crate::lock::lock;
use crate::network::deadline;
use pinnace_qbuf::Pool;
use pinnace_qbuf::channel::{Channel, ChannelError, Finished, Interest, Received, Rejected};
use pinnace_qmp::State;
use pinnace_qmp::socket;
use pinnace_runtime::{Waiting, WakeFd};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::task::Poll;
use std::time::{Duration, Instant};

/// How often a sleeper looks whether the other process lives.
const LIFE_SIGN: Duration = Duration::from_millis(100);
/// Who shares the doorbell with somebody who watches it sleeps so long at most, and so long at first while it rings for him.
const SLICE: Duration = Duration::from_millis(1);
const NAP: Duration = Duration::from_micros(50);
/// Who waits for blocks of the pool looks so often: nobody rings when one is freed.
const NO_MEMORY: Duration = Duration::from_millis(1);
/// Who waits for a time while another thread reads looks so often whether it is done.
const TURN: Duration = Duration::from_millis(1);
/// The most bytes that one write copies into one qbuf.
const MOST_COPIED: usize = 64 << 10;

/// What is half read.
#[derive(Debug, Default)]
struct Reading {
    message: Option<Received>,
    /// Bytes of it that were taken.
    at: usize,
    end: Option<End>,
}

/// Whoever asks how the peer has ended waits so long for a thread that is reading: it finds that out now.
const FOUND_OUT: Duration = Duration::from_millis(250);

/// How the peer's stream has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    InOrder,
    Reset,
    /// Its process is dead, which nobody has said.
    Died,
}

impl Reading {
    fn left(&self) -> usize {
        self.message.as_ref().map_or(0, |message| message.len() - self.at)
    }

    fn take(&mut self, into: &mut [u8]) -> usize {
        let taken = self.peek(into);
        self.at += taken;
        if self.left() == 0 {
            self.message = None;
        }
        taken
    }

    fn peek(&self, into: &mut [u8]) -> usize {
        let Some(message) = &self.message else { return 0 };
        let bytes = &message[self.at..];
        let len = bytes.len().min(into.len());
        into[..len].copy_from_slice(&bytes[..len]);
        len
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Shared {
    /// Somebody sleeps on the doorbell, so that it must ring whenever nothing was found.
    is_watched: AtomicBool,
    /// The application reads no more.
    is_shut: AtomicBool,
    channel: Mutex<Channel>,
    reading: Mutex<Reading>,
    /// The doorbell, to sleep on without the lock.
    bell: OwnedFd,
    pool: Pool,
    idle: Idle,
    pub(super) local: SocketAddr,
    pub(super) peer: SocketAddr,
    /// Nothing more is written; and the end is in the channel.
    is_ending: AtomicBool,
    is_finished: AtomicBool,
    /// The pool had no room for what was to be written, and somebody looks until it has.
    is_short: AtomicBool,
    /// For tasks that read, and those that write.
    sleepers: [Arc<Sleeper>; 2],
    begin: Instant,
    /// When it was last asked whether the other process lives, in milliseconds after `begin`.
    life_sign: AtomicU64,
    pub(super) copies: Copies,
    /// What carries it in the end.
    pub(super) way: Way,
}

fn reset() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, "the peer ended the connection in the middle, or died")
}

fn of_reset(end: Option<End>) -> Option<socket::Errno> {
    matches!(end, Some(End::Reset | End::Died)).then_some(socket::Errno::Reset)
}

/// Whether something has come that there is no memory for.
fn is_out_of_memory(fetched: &io::Result<bool>) -> bool {
    fetched.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::OutOfMemory)
}

fn timed_out() -> io::Error {
    io::ErrorKind::WouldBlock.into()
}

impl Shared {
    pub(super) fn new(
        channel: Channel,
        (local, peer): (SocketAddr, SocketAddr),
        idle: Idle,
        way: Way,
    ) -> io::Result<Self> {
        let bell = channel.readable_fd().try_clone_to_owned()?;
        let pool = channel.pool().clone();
        let reading = Mutex::default();
        let channel = Mutex::new(channel);
        let (is_ending, is_finished) = (AtomicBool::new(false), AtomicBool::new(false));
        let (is_watched, is_shut, is_short) = (AtomicBool::new(false), AtomicBool::new(false), AtomicBool::new(false));
        let (begin, life_sign) = (Instant::now(), AtomicU64::new(0));
        Ok(Self {
            is_watched,
            is_shut,
            channel,
            reading,
            bell,
            pool,
            idle,
            local,
            peer,
            is_ending,
            is_finished,
            is_short,
            sleepers: Default::default(),
            begin,
            life_sign,
            copies: Copies::default(),
            way,
        })
    }

    pub(super) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Waits as the idle setting says until `look` finds something. `None`: the time is over.
    fn wait<R>(
        &self,
        interest: Interest,
        deadline: Option<Instant>,
        mut look: impl FnMut(&mut Channel) -> Result<Option<R>, ChannelError>,
    ) -> Result<Option<R>, ChannelError> {
        if let Some(found) = look(&mut lock(&self.channel))? {
            return Ok(Some(found));
        }
        let begin = Instant::now();
        let is_over = |now: Instant| deadline.is_some_and(|deadline| now >= deadline);
        let spin = match self.idle {
            Idle::Spin => Duration::MAX,
            Idle::Adaptive { spin } => spin,
            Idle::Block => Duration::from_micros(10),
        };
        let mut naps = 0;
        loop {
            let now = Instant::now();
            if interest == Interest::Readable && self.is_shut() {
                return Ok(None);
            }
            let is_watched = self.is_watched.load(Ordering::Relaxed);
            // Who sleeps on the doorbell elsewhere is to hear it when nothing is found here.
            let is_spinning = now - begin < spin && !(is_watched && is_over(now));
            let mut channel = lock(&self.channel);
            if self.is_life_sign_due(now) && !channel.peer_is_alive() {
                // Closes what the dead will not, and rings for those who sleep on it.
                channel.miss_the_dead();
                if let Some(found) = look(&mut channel)? {
                    return Ok(Some(found));
                }
                return Err(ChannelError::Closed);
            }
            let is_ready = !is_spinning && self.arm(&mut channel, interest)?;
            for _ in 0..16 {
                if let Some(found) = look(&mut channel)? {
                    return Ok(Some(found));
                }
                std::hint::spin_loop();
            }
            let sleeper = (!is_spinning && !is_ready).then(|| channel.begin_sleep());
            let is_rung = sleeper.is_some() && is_watched && channel.is_rung();
            drop(channel);
            if is_over(now) {
                return Ok(None);
            }
            if is_spinning {
                if now - begin > Duration::from_micros(20) {
                    std::thread::yield_now();
                }
            } else if let Some(sleeper) = sleeper {
                // Somebody else may silence the doorbell.
                let most = now + if is_watched { SLICE } else { LIFE_SIGN };
                let until = deadline.map_or(most, |deadline| deadline.min(most));
                if is_rung {
                    // It rings for who watches it, and until he has heard it. Mostly he does at once.
                    naps += 1;
                    std::thread::sleep((NAP * naps).min(SLICE).min(until.saturating_duration_since(now)));
                } else {
                    naps = 0;
                    sleep_on(self.bell.as_fd(), until.saturating_duration_since(now))?;
                }
                if sleeper.has_company() {
                    // It rings until they have heard it, too.
                    std::thread::yield_now();
                }
            }
        }
    }

    /// Says to the other side that this one sleeps. The doorbell is silenced before, unless somebody watches it: that would be all
    /// that he hears.
    fn arm(&self, channel: &mut Channel, interest: Interest) -> Result<bool, ChannelError> {
        if self.is_watched.load(Ordering::Relaxed) { channel.arm_beside(interest) } else { channel.arm(interest) }
    }

    /// Whether it is time to look if the other process lives: counted over all waits, for those who only ever wait shortly.
    fn is_life_sign_due(&self, now: Instant) -> bool {
        let (now, last) = ((now - self.begin).as_millis() as u64, self.life_sign.load(Ordering::Relaxed));
        let is_due = now >= last + LIFE_SIGN.as_millis() as u64;
        if is_due {
            self.life_sign.store(now, Ordering::Relaxed);
        }
        is_due
    }

    /// Makes sure that something is half read, or has ended. False: the time is over.
    fn fetch(&self, reading: &mut Reading, deadline: Option<Instant>) -> io::Result<bool> {
        if reading.message.is_some() || reading.end.is_some() || self.is_shut() {
            return Ok(true);
        }
        let found = match self.wait(Interest::Readable, deadline, |channel| channel.try_recv()) {
            Ok(None) => return Ok(self.is_shut()),
            Ok(Some(message)) => Ok(message),
            Err(ChannelError::Closed) => Err(without_its_end(lock(&self.channel).finished())),
            Err(ChannelError::Corrupt) => Err(End::Reset),
            Err(error) => return Err(error.into()),
        };
        match found {
            Ok(message) if !message.is_empty() => (reading.message, reading.at) = (Some(message), 0),
            Ok(_) => reading.end = Some(End::InOrder),
            Err(end) => reading.end = Some(end),
        }
        Ok(true)
    }

    /// What a read finds where no byte is.
    fn end(reading: &Reading) -> io::Result<()> {
        of_reset(reading.end).map_or(Ok(()), |_| Err(reset()))
    }

    /// Whether there are bytes to read, or else the end; waits for either.
    fn has_bytes(&self, reading: &mut Reading, deadline: Option<Instant>) -> io::Result<bool> {
        if self.is_shut() {
            return Ok(false);
        }
        if !self.fetch(reading, deadline)? {
            return Err(timed_out());
        }
        if self.is_shut() {
            return Ok(false);
        }
        if reading.message.is_none() {
            return Self::end(reading).map(|()| false);
        }
        Ok(true)
    }

    pub(super) fn read(&self, into: &mut [u8], deadline: Option<Instant>) -> io::Result<usize> {
        let mut reading = self.reading(deadline)?;
        if into.is_empty() || !self.has_bytes(&mut reading, deadline)? {
            return Ok(0);
        }
        // What has come besides costs nothing to take along.
        let mut taken = reading.take(into);
        // What cannot be fetched says why at the next call, which has nothing in its hands.
        while taken < into.len()
            && self.fetch(&mut reading, Some(Instant::now())).unwrap_or(false)
            && reading.message.is_some()
        {
            taken += reading.take(&mut into[taken..]);
        }
        self.copies.count_read(taken);
        Ok(taken)
    }

    pub(super) fn peek(&self, into: &mut [u8], deadline: Option<Instant>) -> io::Result<usize> {
        let mut reading = self.reading(deadline)?;
        if into.is_empty() || !self.has_bytes(&mut reading, deadline)? {
            return Ok(0);
        }
        Ok(reading.peek(into))
    }

    /// What the reader would find at once, and whether it would find any: bytes of the next message, so that what waits stays
    /// in its bounds, and how the peer has ended, if nothing is before that. What there is no memory for is there.
    fn seen(&self) -> (usize, bool, Option<End>) {
        // Whoever waits for bytes has the lock, and there are none.
        let Ok(mut reading) = self.reading(Some(Instant::now())) else { return (0, self.is_shut(), None) };
        let is_short = is_out_of_memory(&self.fetch(&mut reading, Some(Instant::now())));
        if self.is_shut() {
            return (0, true, reading.end);
        }
        if is_short {
            return (1, true, None);
        }
        (reading.left(), reading.message.is_some() || reading.end.is_some(), reading.end)
    }

    pub(super) fn readable_bytes(&self) -> usize {
        self.seen().0
    }

    pub(super) fn is_readable(&self) -> bool {
        self.seen().1
    }

    /// Why the connection has ended, if the peer has gone without closing in order.
    pub(super) fn failure(&self) -> Option<socket::Errno> {
        of_reset(self.seen().2)
    }

    /// As the paper draws it.
    pub(super) fn state(&self) -> State {
        self.state_after(self.seen().2)
    }

    /// All that poll() tells of, at one moment.
    pub(super) fn standing(&self) -> Standing {
        let is_writable = self.is_writable();
        let (readable_bytes, is_readable, end) = self.seen();
        let is_at_end = readable_bytes == 0 && is_readable;
        let has_peer_ended = end.is_some() || is_at_end || self.has_end_waiting();
        let (state, failure) = (self.state_after(end), of_reset(end));
        Standing { readable_bytes, is_at_end, has_peer_ended, is_writable, state, failure }
    }

    pub(super) fn is_writable(&self) -> bool {
        let mut channel = lock(&self.channel);
        self.arm(&mut channel, Interest::Writable).unwrap_or(true) && !self.is_short.load(Ordering::Acquire)
    }

    /// Whether the peer has not closed, and lives.
    pub(super) fn is_read(&self) -> bool {
        lock(&self.channel).is_read()
    }

    /// Whether the end of what the peer sends waits in the channel, perhaps behind bytes. Asks the system nothing.
    fn has_end_waiting(&self) -> bool {
        let mut channel = lock(&self.channel);
        channel.ends_empty() || channel.finished().is_some()
    }

    /// How the peer has ended what it sends, also if that was not read yet; `None`: it has not, as far as is known.
    pub(super) fn peer_end(&self) -> Option<End> {
        let finished = {
            let mut channel = lock(&self.channel);
            let finished = channel.finished();
            if finished.is_none() && channel.peer_is_alive() {
                return None;
            }
            if channel.ends_empty() {
                return Some(End::InOrder);
            }
            finished
        };
        // What was taken out of the channel may have been the end.
        let was_read = self.reading(Some(Instant::now() + FOUND_OUT)).ok().and_then(|reading| reading.end);
        Some(was_read.unwrap_or_else(|| without_its_end(finished)))
    }

    pub(super) fn recv_qbuf(&self, deadline: Option<Instant>) -> io::Result<Option<Qbuf>> {
        let mut reading = self.reading(deadline)?;
        if !self.fetch(&mut reading, deadline)? {
            return Err(timed_out());
        }
        if self.is_shut() {
            return Ok(None);
        }
        let at = std::mem::take(&mut reading.at);
        match reading.message.take() {
            None => Self::end(&reading).map(|()| None),
            Some(Received::Qbuf(mut qbuf)) => {
                if at > 0 {
                    // Some of its bytes were read the ordinary way.
                    let len = qbuf.len();
                    qbuf.copy_within(at.., 0);
                    qbuf.set_len(len - at);
                    self.copies.count_read(len - at);
                }
                Ok(Some(qbuf))
            }
            Some(Received::Inline(bytes)) => match self.pool.alloc(bytes.len() - at) {
                Some(mut qbuf) => {
                    qbuf.copy_from_slice(&bytes[at..]);
                    self.copies.count_read(qbuf.len());
                    Ok(Some(qbuf))
                }
                None => {
                    (reading.message, reading.at) = (Some(Received::Inline(bytes)), at);
                    Err(io::Error::new(io::ErrorKind::OutOfMemory, "no qbuf for what has arrived: free some"))
                }
            },
        }
    }

    fn check_open(&self) -> io::Result<()> {
        let shut = || io::Error::new(io::ErrorKind::BrokenPipe, "the stream was closed for writing");
        if self.is_ending.load(Ordering::Relaxed) { Err(shut()) } else { Ok(()) }
    }

    pub(super) fn write(self: &Arc<Self>, bytes: &[u8], deadline: Option<Instant>) -> io::Result<usize> {
        self.check_open()?;
        if bytes.is_empty() {
            return Ok(0);
        }
        let mut bytes = &bytes[..bytes.len().min(MOST_COPIED)];
        loop {
            let mut is_short = false;
            let sent = self.wait(Interest::Writable, deadline, |channel| match channel.try_send_bytes(bytes) {
                Err(ChannelError::Full) => Ok(None),
                Err(ChannelError::NoMemory) => {
                    is_short = true;
                    Ok(Some(0))
                }
                result => result.map(Some),
            });
            match sent.map_err(broken)? {
                None => return Err(timed_out()),
                // There may be room, but not in one piece.
                Some(_) if is_short && bytes.len() > self.pool.options().block_bytes => {
                    bytes = &bytes[..bytes.len() / 2];
                }
                Some(_) if is_short => self.wait_for_memory(deadline)?,
                Some(sent) => {
                    self.copies.count_written(sent);
                    return Ok(sent);
                }
            }
        }
    }

    fn wait_for_memory(self: &Arc<Self>, deadline: Option<Instant>) -> io::Result<()> {
        let now = Instant::now();
        if deadline.is_some_and(|deadline| now >= deadline) {
            // He comes again when we say that he can write.
            self.look_for_memory()?;
            return Err(timed_out());
        }
        std::thread::sleep(deadline.map_or(NO_MEMORY, |deadline| NO_MEMORY.min(deadline - now)));
        if !lock(&self.channel).peer_is_alive() {
            return Err(broken(ChannelError::Closed));
        }
        Ok(())
    }

    /// Looks until the pool has room for something, and then rings the doorbell; until then nothing can be written.
    fn look_for_memory(self: &Arc<Self>) -> io::Result<()> {
        if self.is_short.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let this = Arc::downgrade(self);
        let looking = std::thread::Builder::new().name("pinnace-memory".into()).spawn(move || {
            while let Some(this) = this.upgrade() {
                if this.pool.alloc(1).is_some() || !lock(&this.channel).peer_is_alive() {
                    this.is_short.store(false, Ordering::Release);
                    return this.ring();
                }
                drop(this);
                std::thread::sleep(NO_MEMORY);
            }
        });
        if looking.is_err() {
            self.is_short.store(false, Ordering::Relaxed);
        }
        looking.map(drop)
    }

    /// Wakes whoever sleeps on our doorbell: he looks again.
    fn ring(&self) {
        if let Ok(bell) = self.bell.try_clone() {
            WakeFd::from(bell).signal();
        }
    }

    /// The inner error gives the qbuf back: the time is over.
    pub(super) fn send_qbuf(&self, qbuf: Qbuf, deadline: Option<Instant>) -> io::Result<Result<(), Qbuf>> {
        self.check_open()?;
        if qbuf.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a stream carries no empty qbuf"));
        }
        let mut waiting = Some(qbuf);
        let mut foreign = None;
        let sent = self.wait(Interest::Writable, deadline, |channel| {
            let Some(qbuf) = waiting.take() else { return Ok(Some(())) };
            match channel.try_send(qbuf) {
                Ok(()) => Ok(Some(())),
                Err(Rejected::Full(qbuf)) => {
                    waiting = Some(qbuf);
                    Ok(None)
                }
                Err(Rejected::Foreign(qbuf)) => {
                    foreign = Some(qbuf);
                    Ok(Some(()))
                }
                Err(rejected) => Err(rejected.into()),
            }
        });
        if let Some(foreign) = foreign {
            return self.send_qbuf(self.copy_of(&foreign)?, deadline);
        }
        match sent.map_err(broken)? {
            Some(()) => Ok(Ok(())),
            None => waiting.map(Err).ok_or_else(timed_out),
        }
    }

    /// What the peer can see of a qbuf of another pool, which it does not know.
    fn copy_of(&self, qbuf: &Qbuf) -> io::Result<Qbuf> {
        let mut copy = self.pool.alloc(qbuf.len()).ok_or_else(|| {
            let why = "the shared pool has no room for a copy: allocate with Stream::alloc";
            io::Error::new(io::ErrorKind::OutOfMemory, why)
        })?;
        copy.copy_from_slice(qbuf);
        self.copies.count_written(copy.len());
        Ok(copy)
    }

    /// Closes the outgoing stream in order. False: not within the time, because the peer does not read.
    pub(super) fn finish(&self, deadline: Option<Instant>) -> bool {
        self.is_ending.store(true, Ordering::Relaxed);
        // Two may wait to do it, and one does: it is looked at with the channel in one's hands.
        let sent = self.wait(Interest::Writable, deadline, |channel| {
            if self.is_finished.load(Ordering::Relaxed) {
                return Ok(Some(()));
            }
            let sent = channel.try_send_bytes(&[]);
            if matches!(sent, Err(ChannelError::Full)) {
                return Ok(None);
            }
            self.is_finished.store(true, Ordering::Relaxed);
            channel.finish();
            sent.map(|_| Some(()))
        });
        let is_finished = !matches!(sent, Ok(None));
        if is_finished {
            // Also if there is nobody who could be told.
            self.is_finished.store(true, Ordering::Relaxed);
        }
        is_finished
    }

    /// Closes both directions, without the message that says that this is the end in order.
    pub(super) fn abort(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
        self.is_finished.store(true, Ordering::Relaxed);
        self.is_shut.store(true, Ordering::Relaxed);
        // Who writes is told as well.
        lock(&self.channel).close();
        self.ring();
    }

    /// The same without waiting: the end follows as soon as the peer makes room for it.
    pub(super) fn finish_soon(self: &Arc<Self>) {
        if !self.finish(Some(Instant::now())) {
            Arc::clone(self).finish_in_background();
        }
    }

    pub(super) fn shut_reading(&self) {
        self.is_shut.store(true, Ordering::Relaxed);
        self.ring();
    }

    fn is_shut(&self) -> bool {
        self.is_shut.load(Ordering::Relaxed)
    }

    /// What is half read. Whoever waits for more has it meanwhile: who must not wait is not kept waiting for that.
    fn reading(&self, deadline: Option<Instant>) -> io::Result<MutexGuard<'_, Reading>> {
        loop {
            let now = Instant::now();
            match (self.reading.try_lock(), deadline) {
                (Ok(reading), _) => return Ok(reading),
                (Err(TryLockError::Poisoned(poisoned)), _) => return Ok(poisoned.into_inner()),
                (Err(TryLockError::WouldBlock), None) => return Ok(lock(&self.reading)),
                (Err(TryLockError::WouldBlock), Some(deadline)) if deadline <= now => return Err(timed_out()),
                // A mutex cannot be waited for that long.
                (Err(TryLockError::WouldBlock), Some(deadline)) => {
                    std::thread::sleep(TURN.min(deadline - now));
                }
            }
        }
    }

    /// Whether something has come that was not read, also if the application reads no more. For whoever closes it.
    pub(super) fn is_unread(&self) -> bool {
        let reading = lock(&self.reading);
        if reading.message.is_some() || reading.end.is_some() {
            return reading.message.is_some();
        }
        match lock(&self.channel).try_recv() {
            Ok(found) => found.is_some_and(|message| !message.is_empty()),
            // It is there, and there is no memory for it.
            Err(error) => matches!(error, ChannelError::NoMemory),
        }
    }

    fn state_after(&self, has_ended: Option<End>) -> State {
        // With the channel in one's hands: the peer may have read an end that is only being noted here.
        let is_finished = {
            let _channel = lock(&self.channel);
            self.is_finished.load(Ordering::Relaxed)
        };
        match (has_ended, is_finished) {
            (Some(End::Reset | End::Died), _) | (Some(End::InOrder), true) => State::Quiescent,
            _ => State::Active,
        }
    }

    /// The doorbell as a watch.
    pub(super) fn watch(&self) -> io::Result<Arc<WakeFd>> {
        let watch = WakeFd::from(self.bell.try_clone()?);
        self.begin_watch();
        watch.signal();
        Ok(Arc::new(watch))
    }

    fn begin_watch(&self) {
        self.is_watched.store(true, Ordering::Relaxed);
        let _ = lock(&self.channel).arm(Interest::Both);
    }

    /// Passes what the doorbell says on to another watch, until the stream is gone.
    pub(super) fn watch_on(self: &Arc<Self>, watch: Arc<WakeFd>) -> io::Result<()> {
        let bell = WakeFd::from(self.bell.try_clone()?);
        self.begin_watch();
        watch.signal();
        let this = Arc::downgrade(self);
        std::thread::Builder::new().name("pinnace-bell".into()).spawn(move || {
            while this.strong_count() > 0 {
                if sleep_on(bell.as_fd(), LIFE_SIGN).is_ok_and(|rang| rang) {
                    bell.clear();
                    watch.signal();
                }
                // Without a daemon nobody else finds out that the other process has died, and rings.
                if let Some(this) = this.upgrade() {
                    lock(&this.channel).miss_the_dead();
                }
            }
        })?;
        Ok(())
    }

    /// Sleeps until it may be ready, or the time is over.
    fn sleep_until_ready(&self, interest: Interest, until: Instant) {
        let mut naps = 0;
        loop {
            let (is_armed, is_rung, sleeper) = {
                let mut channel = lock(&self.channel);
                let is_watched = self.is_watched.load(Ordering::Relaxed);
                let is_armed = self.arm(&mut channel, interest).unwrap_or(true);
                (is_armed, is_watched.then(|| channel.is_rung()), channel.begin_sleep())
            };
            // Looked at behind that, which silences the doorbell: who finds memory rings after he has said so.
            let is_short = interest == Interest::Writable && self.is_short.load(Ordering::Acquire);
            let left = until.saturating_duration_since(Instant::now());
            if (is_armed && !is_short) || left.is_zero() {
                return;
            }
            match is_rung {
                // It rings for who watches it, and until he has heard it.
                Some(true) => {
                    naps += 1;
                    std::thread::sleep((NAP * naps).min(SLICE).min(left));
                }
                Some(false) => {
                    naps = 0;
                    let _ = sleep_on(self.bell.as_fd(), SLICE.min(left));
                }
                None => {
                    let _ = sleep_on(self.bell.as_fd(), left);
                    return;
                }
            }
            drop(sleeper);
        }
    }

    /// Waits until something may have changed, as a future.
    pub(super) async fn ready(self: &Arc<Self>, interest: Interest) {
        let sleeper = &self.sleepers[usize::from(interest == Interest::Writable)];
        let (mut begun, mut waiting) = (false, Waiting::default());
        std::future::poll_fn(|context| {
            if std::mem::replace(&mut begun, true) {
                return Poll::Ready(());
            }
            let this = Arc::downgrade(self);
            let sleep = move || {
                let Some(this) = this.upgrade() else { return false };
                this.sleep_until_ready(interest, Instant::now() + LIFE_SIGN);
                true
            };
            if sleeper.wait(context, &mut waiting, sleep).is_err() {
                // Without a thread there is no clock either.
                context.waker().wake_by_ref();
            }
            Poll::Pending
        })
        .await;
    }

    /// Ends the stream in order as soon as the peer makes room for it, for as long as an endpoint would linger.
    pub(super) fn finish_in_background(self: Arc<Self>) {
        let lingering = super::lingering::Finishing::begin();
        let _ = std::thread::Builder::new().name("pinnace-linger".into()).spawn(move || {
            self.finish(deadline(super::lingering::LONGEST));
            drop(lingering);
        });
    }
}

/// How a stream has ended without the message that says so. Perhaps nobody has closed it yet in the name of the dead.
fn without_its_end(finished: Option<Finished>) -> End {
    if finished == Some(Finished::ByItself) { End::Reset } else { End::Died }
}

/// What a write finds.
fn broken(error: ChannelError) -> io::Error {
    match error {
        ChannelError::Closed => io::Error::new(io::ErrorKind::BrokenPipe, "the peer reads no more"),
        ChannelError::Corrupt => reset(),
        error => error.into(),
    }
}

/// Sleeps until `fd` is readable, or for `timeout`. Whether it is.
fn sleep_on(fd: BorrowedFd<'_>, timeout: Duration) -> io::Result<bool> {
    let timeout = Timespec::try_from(timeout).ok();
    match poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], timeout.as_ref()) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
