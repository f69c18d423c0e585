//! Bytes that are copied into a stream, for those who want their memory back at once, and descriptors to wait on.
//!
//! Always true: what was copied is in memory that the endpoint uses again and again; a watch is signalled after every
//! change, and once when it is set.

use super::exchange::Exchange;
use super::port::{Call, End, deadline};
use super::sending;
use super::{Connection, Refused};
use crate::Error;
use crate::attempts::{Attempts, Unqueued};
use pinnace_runtime::WakeFd;
use pinnace_xtp::Xtp;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// The most bytes that one write takes: they are copied.
const MOST_WRITTEN: usize = 256 << 10;

impl Connection {
    /// Copies bytes into the stream, and waits for room; [`Connection::send_bytes`] does not copy. Takes at most 262,144 of
    /// them, and returns how many.
    ///
    /// # Errors
    /// [`Error::ContextFailed`] or [`Error::ContextRefused`] if the stream has ended.
    pub fn write(&self, bytes: &[u8]) -> Result<usize, Error> {
        self.write_attempts(bytes, Attempts::Until(None))
    }

    /// Like [`Connection::write`], for at most `timeout`.
    ///
    /// # Errors
    /// As [`Connection::write`], and [`Error::Timeout`].
    pub fn write_timeout(&self, bytes: &[u8], timeout: Duration) -> Result<usize, Error> {
        self.write_attempts(bytes, Attempts::Until(deadline(timeout)))
    }

    fn write_attempts(&self, bytes: &[u8], attempts: Attempts<'_>) -> Result<usize, Error> {
        attempts.queue(&self.about(), (), |()| self.copy_in(bytes), |state, ended| self.has_room(state, ended))
    }

    /// Like [`Connection::write`], for tasks.
    ///
    /// # Errors
    /// As [`Connection::write`].
    pub async fn write_async(&self, bytes: &[u8]) -> Result<usize, Error> {
        Attempts::Until(None)
            .queue_async(&self.about(), (), |()| self.copy_in(bytes), |state, ended| self.has_room(state, ended))
            .await
    }

    /// Like [`Connection::write`], but does not wait: `None` if there is no room now.
    ///
    /// # Errors
    /// As [`Connection::write`].
    pub fn try_write(&self, bytes: &[u8]) -> Result<Option<usize>, Error> {
        match self.write_attempts(bytes, Attempts::AtOnce) {
            Err(Error::ContextRefused(Refused::Full)) => Ok(None),
            written => Ok(Some(written?)),
        }
    }

    fn copy_in(&self, bytes: &[u8]) -> Result<Result<usize, Unqueued<()>>, Error> {
        if bytes.is_empty() {
            return Ok(Ok(0));
        }
        Ok(self.end.port.call(|mut call| self.queue_copy(&mut call, bytes))?)
    }

    fn queue_copy(&self, call: &mut Call<'_>, bytes: &[u8]) -> Result<usize, Unqueued<()>> {
        let bytes = &bytes[..bytes.len().min(MOST_WRITTEN)];
        let copied = sending::copy(call, self.place, self.id, bytes, self.asks_after_writes)?;
        self.copies.count_written(copied);
        Ok(copied)
    }

    /// Copies as much of each as there is room for into streams of `end`, in one call: what they have to say leaves together.
    pub(super) fn write_each(end: &Arc<End>, writes: &[(&Self, &[u8])]) -> Result<Vec<Result<usize, Error>>, Error> {
        Ok(end.port.call(|mut call| {
            let mut write = |(this, bytes): &(&Self, &[u8])| {
                if !Arc::ptr_eq(&this.end, end) {
                    let why = "it is a stream of another endpoint";
                    return Err(Error::io("cannot write", io::Error::new(io::ErrorKind::InvalidInput, why)));
                }
                match this.queue_copy(&mut call, bytes) {
                    Err(Unqueued { full_at: None, error, .. }) => Err(error),
                    copied => Ok(copied.unwrap_or(0)),
                }
            };
            writes.iter().map(&mut write).collect()
        })?)
    }

    pub(super) fn has_room(&self, state: &mut Exchange, ended: u64) -> Option<()> {
        state.association(self.place).is_none_or(|association| association.has_room_since(ended)).then_some(())
    }

    /// A descriptor that becomes readable when something has happened to this connection: it was established, there is
    /// something to read, room to write, or it has ended. Clear it first, then look what it was. The endpoint's background
    /// thread works from now on.
    ///
    /// # Errors
    /// If the system has no descriptors left.
    pub fn watch(&self) -> Result<Arc<WakeFd>, Error> {
        let watch = WakeFd::new().map_err(|error| Error::io("cannot watch a connection", error))?;
        let watch = Arc::new(watch);
        self.watch_on(Arc::clone(&watch))?;
        Ok(watch)
    }

    /// Like [`Connection::watch`], with a descriptor that is there already: it is signalled from now on, and now.
    ///
    /// # Errors
    /// If the background thread cannot be started.
    pub fn watch_on(&self, watch: Arc<WakeFd>) -> Result<(), Error> {
        watch.signal();
        self.end.port.inspect(|_, _, state| {
            if let Some(association) = state.association(self.place) {
                association.watch = Some(watch);
            }
        });
        self.end.port.readiness_fd()?;
        Ok(())
    }

    /// Bytes that can be read now without waiting.
    pub fn readable_bytes(&self) -> usize {
        let partial = self.partial().len();
        self.end.port.inspect(|engine, _, _| partial + engine.readable(self.id).map_or(0, |it| it.len as usize))
    }

    /// Whether the peer's stream has ended, or the association, so that a read would not wait.
    pub fn is_at_end(&self) -> bool {
        self.end.port.inspect(|engine, _, state| {
            engine.readable(self.id).is_none_or(|readable| readable.len == 0 && readable.is_end)
                || state.association(self.place).is_none_or(|association| association.closed.is_some())
        })
    }

    /// Whether a write would find room, or an error, now.
    pub fn is_writable(&self) -> bool {
        self.end.port.inspect(|engine, _, state| {
            let is_over = state.association(self.place).is_none_or(|association| association.closed.is_some());
            is_over || engine.queue_room(self.id) >= self.enough_room(engine)
        })
    }

    /// Room in the queue that is worth waking a writer for, in bytes.
    pub(super) fn enough_room(&self, engine: &Xtp) -> u64 {
        engine.block(self.id).map_or(0, |block| u64::from(block.wbufsize / sending::CRUMB))
    }

    /// Why the association has ended, if it has, and not well.
    pub fn failure(&self) -> Option<super::Failure> {
        self.end.port.inspect(|_, _, state| state.association(self.place)?.failure())
    }

    /// How the association has ended, if it has.
    pub(crate) fn outcome(&self) -> Option<Result<(), super::Failure>> {
        self.end.port.inspect(|_, _, state| state.association(self.place)?.closed)
    }

    /// The bytes of the message that is the next to be read, if it has come whole, beside what was read of it.
    pub(crate) fn waiting_bytes(&self) -> Option<u64> {
        self.end.port.inspect(|engine, _, _| engine.readable(self.id)?.message)
    }

    /// Whether all that the peer sends has come, with its end; it may not have been read.
    pub(crate) fn is_all_there(&self) -> bool {
        self.end.port.inspect(|engine, _, _| engine.readable(self.id).is_some_and(|readable| readable.is_end))
    }

    /// Ends it as the end of the last descriptor of a socket does: with what is unread, or without lingering, the peer
    /// finds its connection reset.
    pub(crate) fn close_socket(&self, linger: pinnace_qmp::socket::Linger) {
        let partial = self.partial().len();
        let linger = if partial > 0 { pinnace_qmp::socket::Linger::Zero } else { linger };
        let _ = self.end.port.call(|Call { now, engine, .. }| pinnace_qmp::socket::close(engine, now, self.id, linger));
    }
}

impl io::Write for &Connection {
    /// Copies the bytes; [`Connection::send_bytes`] does not.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(Connection::write(self, bytes)?)
    }

    /// Waits until everything has arrived.
    fn flush(&mut self) -> io::Result<()> {
        Ok(Connection::flush(self)?)
    }
}

impl io::Write for Connection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(Connection::write(self, bytes)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(Connection::flush(self)?)
    }
}
