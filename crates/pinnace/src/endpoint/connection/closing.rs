//! The end of a connection: in order, or not.

use super::Connection;
use crate::carrier::{Carry, within};
use crate::endpoint::ending::Unwaited;
use crate::endpoint::{ConnectionError, departed};
use crate::network::deadline;
use crate::{Error, a1};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

/// How long the end of a connection waits for what was sent.
const LINGER: Duration = Duration::from_secs(1);
/// How long a connection that is broken off tries to say so.
const FAREWELL: Duration = Duration::from_millis(200);
/// No end lasts longer: beyond all that clocks tell there is none.
pub(in crate::endpoint) const LONGEST_LINGER: Duration = Duration::from_secs(1 << 30);

impl Connection {
    /// Ends what is sent: waits at most `linger` for it to arrive, and tells the peer, whose next
    /// [`recv`](Connection::recv) behind the last message is `None`. What the peer sends can still be received.
    ///
    /// Without the time for that it fails with [`Error::Timeout`], and the end follows what was sent as long as the connection
    /// is there; to close again is to wait again. So `close(Duration::ZERO)` ends what is sent and waits for nothing.
    ///
    /// # Errors
    /// If not everything has arrived, or nobody knows.
    pub fn close(&self, linger: Duration) -> Result<(), Error> {
        let _unwaited = Unwaited(&self.ending, &self.carrier);
        self.end(linger)
    }

    /// Waits for the end of what is sent.
    fn end(&self, linger: Duration) -> Result<(), Error> {
        self.stop_sending();
        let deadline = deadline(linger);
        let Some(_turn) = self.ending.turn.take(deadline) else { return Err(Error::Timeout) };
        match self.ending.result(self.method) {
            Some(known) => known,
            None => self.ended(self.carrier.close(deadline).map_err(|error| self.carrier.explained(error))),
        }
    }

    fn stop_sending(&self) {
        if !self.is_closed.swap(true, Ordering::Relaxed) {
            self.shown.close();
        }
    }

    /// What the end has come to.
    fn ended(&self, ended: Result<(), Error>) -> Result<(), Error> {
        match &ended {
            Ok(()) => self.ending.has_ended.store(true, Ordering::Relaxed),
            Err(Error::Timeout) => {}
            Err(error) => {
                self.note(error);
                self.ending.has_failed_so(error);
            }
        }
        ended
    }

    /// Ends the connection at once, in both directions, and not in order: what has not arrived is given up, and the peer,
    /// who could not know otherwise that something is missing, gets an error behind what has come
    /// ([`ConnectionError::BrokenOff`], [`ConnectionError::Lost`], or that of the method). May take a fifth of a second to tell
    /// it, and over a slow path two seconds. A connection that is dropped while its thread panics ends so.
    ///
    /// ```
    /// use pinnace::{Endpoint, service::Service};
    /// let endpoint = Endpoint::bind("127.0.0.1:0")?;
    /// let listener = endpoint.listen(&Service::new())?;
    /// let sender = Endpoint::client().connect(&listener.local_addr().to_string(), &Service::new())?;
    /// let receiver = listener.accept()?;
    /// sender.send(b"the first of many".to_vec())?;
    /// sender.flush()?;
    /// sender.abort();
    /// assert!(receiver.recv()?.is_some());
    /// assert!(receiver.recv().is_err(), "and not `None`");
    /// # Ok::<(), pinnace::Error>(())
    /// ```
    pub fn abort(&self) {
        self.abort_until(Instant::now() + FAREWELL);
    }

    /// As [`abort`](Self::abort), and waits for nothing: whoever calls has others to serve.
    pub(crate) fn give_up(self) {
        self.abort_until(Instant::now());
    }

    pub(super) fn abort_until(&self, deadline: Instant) {
        self.is_closed.store(true, Ordering::Relaxed);
        // Also while somebody waits for what he sent to arrive; but not where all has, both ways.
        let has_sent_all = self.ending.has_ended.load(Ordering::Relaxed);
        if !has_sent_all {
            self.ending.fails(ConnectionError::Closed.into());
        }
        let has_received_all = !self.receives || self.has_received_end.load(Ordering::Relaxed);
        let is_over = self.is_broken_off.load(Ordering::Relaxed) || (has_sent_all && has_received_all);
        if !is_over {
            self.is_broken_off.store(true, Ordering::Relaxed);
            self.shown.close();
            // Whoever has broken off itself need not hear of it.
            let is_known = self.was_broken_off.load(Ordering::Relaxed);
            self.carrier.abort(if is_known { Instant::now() } else { deadline });
        }
    }

    /// Like [`Connection::close`], for tasks.
    ///
    /// # Errors
    /// As [`Connection::close`].
    pub async fn close_async(&self, linger: Duration) -> Result<(), Error> {
        let _unwaited = Unwaited(&self.ending, &self.carrier);
        self.stop_sending();
        let until = Instant::now() + linger.min(LONGEST_LINGER);
        let Some(_turn) = within(until, self.ending.turn.take_async()).await else { return Err(Error::Timeout) };
        if let Some(known) = self.ending.result(self.method) {
            return known;
        }
        let flushed = within(until, self.carrier.flush_async()).await.unwrap_or(Err(Error::Timeout));
        let closed = if is_undelivered(&flushed) {
            // What is lost makes it no end in order, of which the peer is told when the connection goes.
            flushed
        } else {
            match within(until, self.carrier.close_async()).await.unwrap_or(Err(Error::Timeout)) {
                // The peer has closed, and needs to know nothing more.
                Err(Error::CallRefused(a1::Refused::NoConnection)) => flushed,
                told => flushed.and(told),
            }
        };
        self.ended(closed.map_err(|error| self.carrier.explained(error)))
    }
}

fn is_undelivered(flushed: &Result<(), Error>) -> bool {
    let is_it = |why: &ConnectionError| matches!(why, ConnectionError::Undelivered { .. });
    matches!(flushed, Err(Error::Connection(why)) if is_it(why))
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Nobody receives any more what is under way to whoever has broken off.
        if thread::panicking() || self.was_broken_off.load(Ordering::Relaxed) || self.end(LINGER).is_err() {
            self.abort();
        }
        self.carrier.leave();
        departed::keep(Arc::clone(&self.carrier));
    }
}
