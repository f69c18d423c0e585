//! Waiting: spin, yield, and then sleep on the doorbell.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::end::State;
use super::{Channel, ChannelError, doorbell};

/// How long one sleep lasts at most before the waiter looks whether the other process lives.
pub(super) const LIFE_SIGN: Duration = Duration::from_millis(100);

/// Looks between two readings of the clock.
const LOOKS: u32 = 64;

/// What one waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// A message, or the end of them.
    Readable,
    /// Room for a message, or that none will ever be taken.
    Writable,
    /// Either.
    Both,
}

impl Interest {
    fn readable(self) -> bool {
        self != Self::Writable
    }

    fn writable(self) -> bool {
        self != Self::Readable
    }
}

/// What this side has said that it sleeps for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Armed {
    readable: bool,
    writable: bool,
}

/// A thread that sleeps on [`Channel::readable_fd`], for as long as this lives. There is one bell for all: who silenced it before
/// the others have heard it would leave them asleep.
#[derive(Debug)]
pub struct Sleeper(Arc<AtomicUsize>);

impl Sleeper {
    /// Whether others sleep there as well, or have yet to wake up.
    pub fn has_company(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 1
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Channel {
    /// Waits until [`Channel::try_recv`] has something to say: a message, or that none will come. Spins for `spin` (the second
    /// half of it yielding), and then sleeps until `deadline` (`None`: as long as it takes). False: the deadline passed.
    ///
    /// # Errors
    ///
    /// [`ChannelError::Corrupt`]; [`ChannelError::Io`] if the system refuses to wait.
    pub fn wait_readable(&mut self, spin: Duration, deadline: Option<Instant>) -> Result<bool, ChannelError> {
        self.wait(Interest::Readable, spin, deadline)
    }

    /// Waits until [`Channel::try_send`] has room, or will never have. As [`Channel::wait_readable`].
    ///
    /// # Errors
    ///
    /// As [`Channel::wait_readable`].
    pub fn wait_writable(&mut self, spin: Duration, deadline: Option<Instant>) -> Result<bool, ChannelError> {
        self.wait(Interest::Writable, spin, deadline)
    }

    /// What becomes readable (for poll, epoll) when the other side rings: after [`Channel::arm`], when what was asked for may have
    /// come. There is one for both interests.
    pub fn readable_fd(&self) -> BorrowedFd<'_> {
        self.bell()
    }

    /// Makes [`Channel::readable_fd`] readable, as the other side does: for who shares the channel with threads that sleep there,
    /// and has something to tell them.
    pub fn wake(&self) {
        doorbell::ring(self.bell());
    }

    /// Silences [`Channel::readable_fd`] and says to the other side that this one sleeps, so that it rings. True: do not
    /// sleep, it is ready already. An interest stays armed until it was ready; two threads may each wait for one, each with a
    /// [`Sleeper`]. A bell that rings for sleepers who have not woken up yet goes on ringing.
    ///
    /// # Errors
    ///
    /// [`ChannelError::Corrupt`].
    pub fn arm(&mut self, interest: Interest) -> Result<bool, ChannelError> {
        if self.asleep.load(Ordering::Relaxed) == 0 || !doorbell::rings(self.bell()) {
            doorbell::silence(self.bell());
        }
        self.go_to_sleep(interest)
    }

    /// As [`Channel::arm`], and leaves the bell as it is: for who shares it with somebody who watches it, who alone can know when he
    /// has heard it.
    ///
    /// # Errors
    ///
    /// [`ChannelError::Corrupt`].
    pub fn arm_beside(&mut self, interest: Interest) -> Result<bool, ChannelError> {
        self.go_to_sleep(interest)
    }

    /// Whether [`Channel::readable_fd`] is readable.
    pub fn is_rung(&self) -> bool {
        doorbell::rings(self.bell())
    }

    /// Says that this thread sleeps on the bell from now on. For who shares the channel with other threads behind a lock: after
    /// [`Channel::arm`] and before he gives up the lock.
    ///
    /// ```
    /// use pinnace_qbuf::channel::{Channel, ChannelOptions, Interest, Side};
    /// use pinnace_qbuf::{Pool, PoolOptions};
    /// use std::sync::Mutex;
    /// # let pool = Pool::create(&PoolOptions::default())?;
    /// # let fds = Channel::create(&pool, &ChannelOptions::default())?;
    /// let shared = Mutex::new(Channel::attach(&pool, fds, Side::A)?);
    /// let mut channel = shared.lock().unwrap();
    /// if !channel.arm(Interest::Readable)? {
    ///     let sleeper = channel.begin_sleep();
    ///     drop(channel);
    ///     // ... poll a duplicate of `readable_fd` ...
    ///     drop(sleeper);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn begin_sleep(&self) -> Sleeper {
        self.asleep.fetch_add(1, Ordering::Relaxed);
        Sleeper(Arc::clone(&self.asleep))
    }

    /// The opposite of [`Channel::arm`], for who looks by itself again: the other side does not ring for nothing.
    pub fn disarm(&mut self) {
        if self.armed.readable {
            self.incoming.wake_up();
        }
        if self.armed.writable {
            self.out.wake_up();
        }
        self.armed = Armed::default();
    }

    fn go_to_sleep(&mut self, interest: Interest) -> Result<bool, ChannelError> {
        self.publish();
        let mut ready = false;
        let mut other = false;
        if interest.readable() || self.armed.readable {
            let now = self.receiving != State::Open || self.incoming.fall_asleep().or_else(|_| self.lied())?;
            self.armed.readable = !now;
            *if interest.readable() { &mut ready } else { &mut other } |= now;
        }
        if interest.writable() || self.armed.writable {
            // Whoever sits down on the other side rings, so that its being unknown is waited for in the same way.
            let (window, pool) = (&mut self.window, &self.pool);
            let room = self.out.fall_asleep(|head| window.look(head, pool)).or_else(|_| self.lied())?;
            let now = self.sending != State::Open || (room && self.writable()?);
            self.armed.writable = !now;
            *if interest.writable() { &mut ready } else { &mut other } |= now;
        }
        if other {
            // Somebody else waits on the same bell for the other interest, and we may have just silenced it.
            doorbell::ring(self.bell());
        }
        Ok(ready)
    }

    pub(super) fn lied<T>(&mut self) -> Result<T, ChannelError> {
        self.fail();
        Err(ChannelError::Corrupt)
    }

    /// Whether `try_recv` would say something.
    #[inline]
    fn readable(&mut self) -> Result<bool, ChannelError> {
        if self.receiving != State::Open {
            return Ok(true);
        }
        match (self.incoming.available(), self.incoming.writer_closed()) {
            (Ok(slots), Ok(closed)) => Ok(slots > 0 || closed),
            _ => self.lied(),
        }
    }

    /// Whether `try_send` would not say `Full`.
    #[inline]
    fn writable(&mut self) -> Result<bool, ChannelError> {
        if self.sending != State::Open {
            return Ok(true);
        }
        match (self.out.room(), self.out.reader_closed()) {
            (Ok(room), Ok(gone)) => Ok(gone || (room > 0 && self.find_peer().is_some() && self.has_window()?)),
            _ => self.lied(),
        }
    }

    #[inline]
    fn ready(&mut self, interest: Interest) -> Result<bool, ChannelError> {
        Ok((interest.readable() && self.readable()?) || (interest.writable() && self.writable()?))
    }

    #[inline]
    fn wait(&mut self, interest: Interest, spin: Duration, deadline: Option<Instant>) -> Result<bool, ChannelError> {
        self.publish();
        for _ in 0..LOOKS {
            if self.ready(interest)? {
                return Ok(true);
            }
        }
        self.wait_long(interest, spin, deadline)
    }

    fn wait_long(
        &mut self,
        interest: Interest,
        spin: Duration,
        deadline: Option<Instant>,
    ) -> Result<bool, ChannelError> {
        let start = Instant::now();
        let passed = |now: Instant| deadline.is_some_and(|deadline| now >= deadline);
        if passed(start) {
            // Who only looks does not disarm what others wait for.
            return Ok(false);
        }
        let mut now = start;
        while now - start < spin && !passed(now) {
            for look in 0..LOOKS {
                if self.ready(interest)? {
                    return Ok(true);
                }
                if look % 16 == 15 {
                    core::hint::spin_loop();
                }
            }
            if (now - start) * 2 > spin {
                std::thread::yield_now();
            }
            now = Instant::now();
        }
        loop {
            if self.go_to_sleep(interest)? {
                return Ok(true);
            }
            if passed(now) {
                self.disarm();
                return Ok(false);
            }
            // Counted over all calls: who waits with short deadlines learns it, too.
            let life_sign = self.life_sign + LIFE_SIGN;
            let until = deadline.map_or(life_sign, |deadline| deadline.min(life_sign));
            doorbell::poll(self.doorbells[self.side.index()].as_fd(), until.saturating_duration_since(now))?;
            self.disarm();
            if self.ready(interest)? {
                return Ok(true);
            }
            now = Instant::now();
            if now >= life_sign {
                self.life_sign = now;
                if !self.peer_is_alive() {
                    self.peer_is_dead();
                }
            }
            doorbell::silence(self.bell());
        }
    }
}
