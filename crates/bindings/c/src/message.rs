//! What stands behind a `struct zcrp_msg`.
//!
//! The struct that C sees is the head of a [`Block`], which is counted: C has one count, the transport has one while the
//! message is under way, and so has every thread inside a call. So a message that is freed too early is there until the
//! last of them is done (Z-17, Z-18).
//!
//! Always true: `base` and `capacity` are what was allocated, whatever C writes into the public members; at most one
//! transfer of a message is under way; the result of the last one stays until the next begins.

use crate::abi::zcrp_msg;
use crate::errors::Errno;
use crate::process::{self, Process};
use pinnace::zcrp::{Receiving, Sending};
use pinnace::{Error, Message};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::cell::UnsafeCell;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Room behind the message for the trailer of a unit.
const TRAILER_ROOM: u32 = 28;
/// What buffers are aligned to: a cache line.
const ALIGNMENT: usize = 64;

#[repr(C)]
pub(crate) struct Block {
    /// First, so that its address is the block's.
    head: UnsafeCell<zcrp_msg>,
    base: NonNull<u8>,
    layout: Layout,
    capacity: u32,
    state: Mutex<State>,
}

// SAFETY: `head` is written only with `state` locked (and by C, which must not while the message is under way); `base` is
// used only by whoever has the message: C, or the transport while it is under way.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

enum State {
    Idle,
    UnderWay(Arc<Transfer>),
    Ended(Result<(), Errno>),
}

/// A message on its way, out or in.
pub(crate) enum Direction {
    Out(Sending),
    In(Receiving),
}

struct Transfer {
    /// None only while it is dropped.
    direction: Option<Direction>,
    /// Whose it is: a child process has inherited the memory, but neither the threads nor the conversation.
    process: &'static Process,
}

impl Transfer {
    fn is_ours(&self) -> bool {
        std::ptr::eq(self.process, process::current())
    }

    /// How it ended; bytes, if it was a receive.
    fn outcome(&self, result: Result<u32, Error>) -> Result<Option<u32>, Errno> {
        Ok(Some(result?).filter(|_| matches!(self.direction, Some(Direction::In(_)))))
    }

    fn probe(&self) -> Option<Result<Option<u32>, Errno>> {
        if !self.is_ours() {
            return Some(Err(Errno(libc::ECANCELED)));
        }
        let result = match self.direction.as_ref()? {
            Direction::Out(sending) => sending.probe(),
            Direction::In(receiving) => receiving.probe(),
        };
        result.map(|result| self.outcome(result))
    }

    fn wait(&self) -> Result<Option<u32>, Errno> {
        match &self.direction {
            Some(Direction::Out(sending)) if self.is_ours() => self.outcome(sending.wait_ended()),
            Some(Direction::In(receiving)) if self.is_ours() => self.outcome(receiving.wait_ended()),
            _ => Err(Errno(libc::ECANCELED)),
        }
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        if !self.is_ours() {
            // Its locks may be held by threads that this process does not have.
            std::mem::forget(self.direction.take());
        }
    }
}

impl Block {
    /// A message with room for `capacity` bytes. None if there is no memory.
    pub(crate) fn allocate(capacity: u32) -> Option<*mut zcrp_msg> {
        let buffer_size = capacity.saturating_add(TRAILER_ROOM);
        let layout = Layout::from_size_align(buffer_size as usize, ALIGNMENT).ok()?;
        // SAFETY: the layout has at least `TRAILER_ROOM` bytes.
        let base = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        let head = zcrp_msg {
            buffer: base.as_ptr(),
            number: 0,
            message_size: capacity,
            buffer_size,
            private_: [std::ptr::null_mut(); 4],
        };
        let state = Mutex::new(State::Idle);
        let block = Arc::into_raw(Arc::new(Self { head: UnsafeCell::new(head), base, layout, capacity, state }));
        let message = block.cast_mut().cast::<zcrp_msg>();
        // SAFETY: just made, and nobody else knows it.
        unsafe { (*message).private_[0] = message.cast() };
        Some(message)
    }

    /// The block of a message, with a count of its own.
    ///
    /// # Safety
    /// `message` is null, or points to a `zcrp_msg` (of any origin) whose members can be read.
    pub(crate) unsafe fn of(message: *mut zcrp_msg) -> Result<Arc<Self>, Errno> {
        // SAFETY: the caller's promise. Only the struct that the library made points to itself; a copy, or one that C has
        // made and cleared, does not.
        if message.is_null() || unsafe { (*message).private_[0] } != message.cast() {
            return Err(Errno(libc::EINVAL));
        }
        let block = message.cast_const().cast::<Self>();
        // SAFETY: `allocate` made it with `Arc::into_raw`, and C's count is only given up by `free`, which unmarks it.
        unsafe {
            Arc::increment_strong_count(block);
            Ok(Arc::from_raw(block))
        }
    }

    /// Gives up C's count.
    ///
    /// # Safety
    /// As [`Block::of`], and the message is not used any more.
    pub(crate) unsafe fn free(message: *mut zcrp_msg) -> Result<(), Errno> {
        // SAFETY: the caller's promise.
        let block = unsafe { Self::of(message)? };
        let mut state = block.lock();
        // SAFETY: `state` is locked.
        unsafe { (*block.head.get()).private_[0] = std::ptr::null_mut() };
        // Dropped outside the lock: nobody waits for the transfer any more, and it goes on.
        let transfer = std::mem::replace(&mut *state, State::Idle);
        drop(state);
        drop(transfer);
        // SAFETY: C's count, which `Arc::into_raw` left; the mark went with it, so it is given up once.
        unsafe { Arc::decrement_strong_count(Arc::as_ptr(&block)) };
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a transfer of `size` bytes.
    //= Z-17
    pub(crate) fn begin(
        self: &Arc<Self>,
        process: &'static Process,
        size: u32,
        start: impl FnOnce(Message) -> Result<(u64, Direction), Errno>,
    ) -> Result<(), Errno> {
        if size > self.capacity {
            return Err(Errno(libc::EMSGSIZE));
        }
        let mut state = self.lock();
        if let State::UnderWay(transfer) = &*state {
            let transfer = transfer.clone();
            let result = transfer.probe().ok_or(Errno(libc::EBUSY))?;
            self.settle(&mut state, &transfer, result);
        }
        // SAFETY: the block is `base`'s owner and lives as long as the message; C must not use a message under way, and
        // another transfer does not begin before this one has ended.
        let message = unsafe { Message::from_owner(self.clone(), self.base.as_ptr(), size as usize) };
        let (number, direction) = start(message)?;
        // SAFETY: `state` is locked. Numbers are 32 bits on the wire, too.
        unsafe { (*self.head.get()).number = number as u32 };
        *state = State::UnderWay(Arc::new(Transfer { direction: Some(direction), process }));
        Ok(())
    }

    /// Notes how a transfer ended, if it is still this message's.
    fn settle(&self, state: &mut State, transfer: &Arc<Transfer>, result: Result<Option<u32>, Errno>) {
        let current = matches!(state, State::UnderWay(current) if Arc::ptr_eq(current, transfer));
        if current {
            if let Ok(Some(size)) = result {
                // SAFETY: `state` is locked.
                unsafe { (*self.head.get()).message_size = size };
            }
            *state = State::Ended(result.map(|_| ()));
        }
    }

    /// Waits for the end of what is under way, and says how it, or what was under way last, ended.
    pub(crate) fn wait(&self) -> Result<(), Errno> {
        let transfer = match &*self.lock() {
            State::Idle => return Err(Errno(libc::EINVAL)),
            State::Ended(result) => return *result,
            State::UnderWay(transfer) => transfer.clone(),
        };
        let result = transfer.wait();
        self.settle(&mut self.lock(), &transfer, result);
        result.map(|_| ())
    }

    /// Whether what was under way has ended, well or not.
    pub(crate) fn probe(&self) -> Result<bool, Errno> {
        let transfer = match &*self.lock() {
            State::Idle => return Err(Errno(libc::EINVAL)),
            State::Ended(_) => return Ok(true),
            State::UnderWay(transfer) => transfer.clone(),
        };
        let Some(result) = transfer.probe() else { return Ok(false) };
        self.settle(&mut self.lock(), &transfer, result);
        Ok(true)
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and nobody has the block any more.
        unsafe { dealloc(self.base.as_ptr(), self.layout) };
    }
}
