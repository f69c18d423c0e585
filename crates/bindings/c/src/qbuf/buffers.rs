//! What a number of `qb_open` stands for.
//!
//! Always true: no lock is held while a thread sleeps, so that one may wait for a message while another sends. That the program
//! at the other end is gone is found out also if nobody waits: by who writes, and where somebody may poll by a thread.

use super::{claim, claim_to_pass, give, rendezvous};
use crate::descriptors::Number;
use crate::errors::Errno;
use pinnace::qmp::WakeFd;
use pinnace_qbuf::channel::{Channel, ChannelError, Interest, Received, Rejected};
use pinnace_qbuf::{Pool, PoolOptions, Qbuf};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long a thread sleeps before it looks whether the process at the other end lives.
const LIFE_SIGN: Duration = Duration::from_millis(100);

/// How a number is opened.
#[derive(Clone, Debug)]
pub(super) struct How {
    pub(super) pool: PoolOptions,
    pub(super) slots: u32,
    pub(super) is_blocking: bool,
    pub(super) spin: Duration,
    /// How long to wait for the other end.
    pub(super) timeout: Option<Duration>,
}

/// A pool, and one end of a channel in it, if it has a name.
#[derive(Debug)]
pub(crate) struct Buffers {
    number: Number,
    pool: Pool,
    channel: Option<Arc<End>>,
    is_blocking: bool,
    spin: Duration,
}

#[derive(Debug)]
struct End {
    channel: Mutex<Channel>,
    /// C has closed it. Set and read with the lock, so that nobody falls asleep behind it.
    is_closed: AtomicBool,
    /// Readable when the channel says so: a duplicate, to sleep on without the lock.
    bell: OwnedFd,
    /// Hangs up when the program at the other end is gone, also by exec, by which its process lives on. Closed behind the channel.
    line: OwnedFd,
}

impl End {
    fn lock(&self) -> MutexGuard<'_, Channel> {
        self.channel.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The channel, unless C has closed it meanwhile.
    fn lock_open(&self) -> Result<MutexGuard<'_, Channel>, Errno> {
        let channel = self.lock();
        if self.is_closed.load(Ordering::Relaxed) { Err(Errno(libc::ECANCELED)) } else { Ok(channel) }
    }

    /// Says to the other end that nothing more comes, and wakes who waits here: each of them has the channel, and while one
    /// has it, it is not dropped.
    fn close(&self) {
        let mut channel = self.lock();
        self.is_closed.store(true, Ordering::Relaxed);
        channel.finish();
        channel.wake();
    }

    /// Looks now and then whether the program at the other end is there. True: it is gone, and the channel is closed.
    fn misses_the_dead(&self, pool: &Pool) -> bool {
        let is_gone = self.lock().miss_the_gone(|| self.has_hung_up());
        if is_gone {
            // What a process has that lives stays its own.
            pool.sweep();
        }
        is_gone
    }

    fn has_hung_up(&self) -> bool {
        let mut line = [PollFd::new(&self.line, PollFlags::empty())];
        poll(&mut line, Some(&Timespec::default())).is_ok_and(|ended| ended > 0)
    }

    /// Looks in a thread of its own, until it is dropped, so that who polls is woken.
    fn watch(self: &Arc<Self>, pool: &Pool) -> io::Result<()> {
        let (end, pool) = (Arc::downgrade(self), pool.clone());
        let look = move || {
            while end.upgrade().is_some_and(|end| !end.misses_the_dead(&pool)) {
                thread::sleep(LIFE_SIGN);
            }
        };
        thread::Builder::new().name("pinnace-life".into()).spawn(look).map(drop)
    }
}

impl Buffers {
    /// A pool of one's own.
    pub(super) fn private(how: &How) -> Result<Self, Errno> {
        let pool = Pool::create(&how.pool).map_err(|error| Errno::from(&error))?;
        // Never readable: nothing comes here.
        let number = Number::of(WakeFd::new().map_err(|error| Errno::from(&error))?)?;
        Ok(Self { number, pool, channel: None, is_blocking: how.is_blocking, spin: how.spin })
    }

    /// The pool of that name, and a channel to whoever else opens it.
    pub(super) fn named(name: &[u8], how: &How) -> Result<Self, Errno> {
        let deadline = how.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let (pool, channel, line) = rendezvous::meet(name, &how.pool, how.slots, deadline)?;
        let bell = channel.readable_fd().try_clone_to_owned().map_err(|error| Errno::from(&error))?;
        let number = Number::of(&bell)?;
        let buffers = Self {
            number,
            pool,
            channel: Some(Arc::new(End {
                channel: Mutex::new(channel),
                is_closed: AtomicBool::new(false),
                bell,
                line,
            })),
            is_blocking: how.is_blocking,
            spin: how.spin,
        };
        if !how.is_blocking {
            buffers.arm(Interest::Readable)?;
            buffers.end()?.watch(&buffers.pool).map_err(|error| Errno::from(&error))?;
        }
        Ok(buffers)
    }

    pub(crate) fn number(&self) -> &Number {
        &self.number
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    /// C has closed it; the rest is done when nobody uses it any more.
    pub(super) fn close(&self) {
        if let Some(end) = &self.channel {
            end.close();
        }
    }

    pub(super) fn free(&self, pointer: NonNull<u8>) -> Result<(), Errno> {
        claim(&self.pool, pointer).map(drop)
    }

    fn end(&self) -> Result<&Arc<End>, Errno> {
        self.channel.as_ref().ok_or(Errno(libc::ENOTCONN))
    }

    /// Passes `len` bytes at `pointer` to the other end.
    //= B-6, B-14
    pub(super) fn write(&self, pointer: NonNull<u8>, len: usize) -> Result<(), Errno> {
        let end = self.end()?;
        let mut qbuf = claim_to_pass(&self.pool, pointer, len)?;
        end.misses_the_dead(&self.pool);
        loop {
            match end.lock_open()?.try_send(qbuf) {
                Ok(()) => return Ok(()),
                Err(Rejected::Full(back)) => qbuf = back,
                // It is freed.
                Err(Rejected::Closed(_)) => return Err(Errno(libc::EPIPE)),
                Err(Rejected::Foreign(back)) => {
                    give(back);
                    return Err(Errno(libc::EINVAL));
                }
            }
            let waited = if self.is_blocking { self.wait(end, Interest::Writable) } else { Err(Errno(libc::EAGAIN)) };
            match waited {
                Ok(()) => {}
                // It is freed, as all that the pool's number had is.
                Err(Errno(libc::ECANCELED)) => return waited,
                Err(error) => {
                    give(qbuf);
                    return Err(error);
                }
            }
        }
    }

    /// The next that the other end has passed; `None` at its end.
    //= B-6, B-7
    pub(super) fn read(&self) -> Result<Option<Qbuf>, Errno> {
        let end = self.end()?;
        loop {
            let received = end.lock_open()?.try_recv();
            match received {
                Ok(Some(Received::Qbuf(qbuf))) => return Ok(Some(qbuf)),
                Ok(Some(Received::Inline(bytes))) => {
                    // Another library sent it; here everything is in buffers.
                    let mut qbuf = self.pool.alloc(bytes.len().max(1)).ok_or(Errno(libc::ENOMEM))?;
                    qbuf.set_len(bytes.len());
                    qbuf.copy_from_slice(&bytes);
                    return Ok(Some(qbuf));
                }
                Ok(None) if !self.is_blocking => {
                    if !self.arm(Interest::Readable)? {
                        return Err(Errno(libc::EAGAIN));
                    }
                }
                Ok(None) => self.wait(end, Interest::Readable)?,
                Err(ChannelError::Closed) => return Ok(None),
                Err(error) => return Err(Errno::from(&io::Error::from(error))).or_else(of_corrupt),
            }
        }
    }

    /// Whether it is ready already; if not, the descriptor becomes readable when it is.
    fn arm(&self, interest: Interest) -> Result<bool, Errno> {
        self.end()?.lock().arm(interest).map_err(|error| Errno::from(&io::Error::from(error))).or_else(of_corrupt)
    }

    /// Waits until it may be ready, or the process at the other end is gone.
    fn wait(&self, end: &End, interest: Interest) -> Result<(), Errno> {
        let begin = Instant::now();
        while begin.elapsed() < self.spin {
            let now = Some(Instant::now());
            let ready = match interest {
                Interest::Writable => end.lock_open()?.wait_writable(Duration::ZERO, now),
                _ => end.lock_open()?.wait_readable(Duration::ZERO, now),
            };
            if ready.unwrap_or(true) {
                return Ok(());
            }
        }
        let (is_ready, sleeper) = {
            let mut channel = end.lock_open()?;
            (channel.arm(interest), channel.begin_sleep())
        };
        if is_ready.map_err(|error| Errno::from(&io::Error::from(error))).or_else(of_corrupt)? {
            return Ok(());
        }
        let rest = Timespec::try_from(LIFE_SIGN).ok();
        let heard = poll(&mut [PollFd::new(&end.bell.as_fd(), PollFlags::IN)], rest.as_ref());
        if sleeper.has_company() {
            // It rings until they have heard it, too.
            thread::yield_now();
        }
        drop(sleeper);
        if matches!(heard, Ok(0)) {
            end.misses_the_dead(&self.pool);
        }
        Ok(())
    }
}

/// A peer that wrote what cannot be has lost its connection.
fn of_corrupt<T>(error: Errno) -> Result<T, Errno> {
    Err(if error.0 == libc::EIO { Errno(libc::ECONNABORTED) } else { error })
}
