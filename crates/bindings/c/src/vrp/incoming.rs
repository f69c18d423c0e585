//! Incoming endpoints: frames arrive, and their handler runs.
//!
//! Who reads the socket: a thread of the library's waits for frames, and runs the handler, until an event loop asks for the
//! descriptor; from then on the loop's calls read, and run the handler. While a handler runs the receiver's background
//! thread reads in either case, so a slow one does not stop acknowledgements.
//!
//! Always true: whoever runs a handler has the *turn*, and one thread has it at a time; a frame that its sender knows to
//! have arrived is handled, also when the endpoint is closed (but not when the process exits).

use super::abi::{vrp_handler_t, vrp_in_buffer};
use super::ready::Ready;
use crate::errors::Errno;
use crate::kept::lock;
use libc::{c_int, c_void};
use pinnace::vrp::{Options, Received, Receiver};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle, ThreadId};

/// What stands behind a `vrp_incoming_t`.
#[derive(Debug)]
pub(super) struct Incoming {
    receiver: Receiver,
    handler: vrp_handler_t,
    source: AtomicPtr<c_void>,
    /// What an event loop sleeps on, once it has asked.
    ready: Mutex<Option<Ready>>,
    /// An event loop reads, and runs the handler.
    by_caller: AtomicBool,
    closed: AtomicBool,
    /// No handler is to begin any more.
    halted: AtomicBool,
    /// The thread that runs the handler as long as no event loop does.
    thread: Mutex<Option<JoinHandle<()>>>,
    turn: Mutex<Option<ThreadId>>,
    turn_over: Condvar,
}

/// The right to run handlers.
struct Turn<'a>(&'a Incoming);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *lock(&self.0.turn) = None;
        self.0.turn_over.notify_one();
    }
}

impl Incoming {
    /// Listens at a port of every address of this host; 0 picks one.
    pub(super) fn new(port: u16, handler: vrp_handler_t) -> Result<Arc<Self>, Errno> {
        let incoming = Arc::new(Self {
            receiver: Receiver::bind_all(port, &Options::default())?,
            handler,
            source: AtomicPtr::default(),
            ready: Mutex::default(),
            by_caller: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            halted: AtomicBool::new(false),
            thread: Mutex::default(),
            turn: Mutex::default(),
            turn_over: Condvar::new(),
        });
        let myself = Arc::clone(&incoming);
        let started = thread::Builder::new().name("vrp-handler".to_owned()).spawn(move || myself.receive());
        *lock(&incoming.thread) = Some(started.map_err(|error| Errno(error.raw_os_error().unwrap_or(libc::EAGAIN)))?);
        Ok(incoming)
    }

    pub(super) fn port(&self) -> u16 {
        self.receiver.local_addr().port()
    }

    pub(super) fn set_source(&self, source: *mut c_void) {
        self.source.store(source, Ordering::Release);
    }

    /// Hands reading and handling over to an event loop; what it is to sleep on. Returns when the library's thread runs no
    /// handler any more, unless that is where the call comes from.
    pub(super) fn descriptor(&self) -> Result<c_int, Errno> {
        let mut ready = lock(&self.ready);
        if let Some(ready) = &*ready {
            return Ok(ready.descriptor());
        }
        let socket = self.receiver.read_by_caller()?;
        // The library's thread, which may be in a handler, has it until it ends.
        self.receiver.read_in_background()?;
        let joined = Ready::new([socket, self.receiver.readiness_fd()?])?;
        let descriptor = joined.descriptor();
        *ready = Some(joined);
        drop(ready);
        self.by_caller.store(true, Ordering::SeqCst);
        self.receiver.notify();
        self.join();
        Ok(descriptor)
    }

    /// What an event loop does when the descriptor is readable.
    pub(super) fn progress(&self) -> Result<(), Errno> {
        self.receiver.progress()?;
        if self.by_caller.load(Ordering::SeqCst)
            && let Some(turn) = self.turn(false)
        {
            // Not those that come meanwhile: the loop has other things to do, and the descriptor stays readable.
            self.handle(&turn, self.receiver.waiting());
        }
        Ok(())
    }

    /// Refuses what is not complete, handles what is, and returns when no handler runs, unless that is where the call comes
    /// from. `wait`: or returns at once, and no handler begins any more.
    pub(super) fn close(&self, wait: bool) {
        self.closed.store(true, Ordering::SeqCst);
        self.halted.store(!wait, Ordering::SeqCst);
        self.receiver.close();
        if wait {
            self.join();
            // If the turn is this thread's, what is left is handled when the handler returns.
            if let Some(turn) = self.turn(true) {
                self.handle(&turn, 0);
            }
        }
    }

    /// The library's thread.
    fn receive(&self) {
        let mine = || !self.by_caller.load(Ordering::SeqCst) && !self.halted.load(Ordering::SeqCst);
        // Until the endpoint is closed, and nothing left; or has failed.
        while let Ok(Some(frame)) = self.receiver.recv_while(mine) {
            let turn = self.turn(true);
            self.run(frame);
            drop(turn);
        }
        if self.by_caller.load(Ordering::SeqCst) {
            self.give_back();
        }
    }

    fn join(&self) {
        let mut thread = lock(&self.thread);
        if thread.as_ref().is_some_and(|thread| thread.thread().id() != thread::current().id())
            && let Some(other) = thread.take()
        {
            drop(thread);
            // It does not panic but in C's code, which cannot.
            let _ = other.join();
        }
    }

    /// Handles so many frames; if the endpoint is closed, all there are.
    fn handle(&self, _: &Turn<'_>, most: usize) {
        let mut handled = 0;
        while (handled < most || self.closed.load(Ordering::SeqCst)) && !self.halted.load(Ordering::SeqCst) {
            let Some(frame) = self.receiver.take() else { return };
            handled += 1;
            // If the receiver has failed nobody has to be answered any more.
            let _ = self.receiver.read_in_background();
            self.run(frame);
            self.give_back();
        }
    }

    /// The reading is the event loop's again.
    fn give_back(&self) {
        // To say good-bye, a closed one drives by itself.
        if !self.closed.load(Ordering::SeqCst) {
            let _ = self.receiver.read_by_caller();
        }
    }

    fn run(&self, mut frame: Received) {
        let packet = usize::from(frame.packet_bytes()).max(1);
        let starts: Vec<_> = frame.holes().iter().flat_map(|hole| hole.clone().step_by(packet)).collect();
        let (data, size) = (frame.as_mut_ptr(), frame.len());
        let mut lost: Vec<*mut c_void> = starts.iter().map(|start| data.wrapping_add(*start).cast()).collect();
        let mut buffer = vrp_in_buffer {
            data: data.cast(),
            size,
            source: self.source.load(Ordering::Acquire),
            loss_num: c_int::try_from(lost.len()).unwrap_or(c_int::MAX),
            lost: if lost.is_empty() { std::ptr::null_mut() } else { lost.as_mut_ptr() },
            loss_granularity: packet,
        };
        // SAFETY: C promises such a function; what it is given lives, and is its own, until it returns.
        unsafe { (self.handler)(&raw mut buffer) };
    }

    /// The right to run handlers; `None` if this thread does already, or, unless told to wait, another one.
    fn turn(&self, wait: bool) -> Option<Turn<'_>> {
        let me = thread::current().id();
        let mut turn = lock(&self.turn);
        while let Some(whose) = *turn {
            if whose == me || !wait {
                return None;
            }
            turn = self.turn_over.wait(turn).unwrap_or_else(PoisonError::into_inner);
        }
        *turn = Some(me);
        Some(Turn(self))
    }
}
