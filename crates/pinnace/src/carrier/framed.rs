//! A connection over a stream of bytes: QMP, or a channel of the daemon. A message is its length (8 bytes, little-endian)
//! and its bytes.
//!
//! Always true: what has been read of a message is kept while nobody waits for the rest; a length beyond the limit, or beyond
//! what there is memory for, ends the connection before any memory is had for it.

use super::sending::in_its_place;
use super::silence::Silence;
use super::turn::{Held, Turn};
use super::watch::Watch;
use super::writer::{HEAD_BYTES, MOST_COPIED, Writer, ended, gone};
use super::{Carry, Received, ReceivedInto, Sending, Special, place};
use crate::endpoint::ConnectionError;
use crate::qmp::{End, Shutdown, Stream, Way};
use crate::service::{Method, Service};
use crate::xtp::{self, SendOptions};
use crate::{Error, Message, Unsent, memory};
use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The last packet asks for a status, so that the sender learns soon that it is there.
const OPTIONS: SendOptions = SendOptions { sreq: true, ..SendOptions::BYTES };

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Framed {
    stream: Arc<Stream>,
    longest: u64,
    /// Of shared memory.
    writer: Arc<Writer>,
    reading: Turn<Reading>,
    /// As far as nobody receives.
    silence: Silence,
    watch: Watch,
}

/// What has been read of a message.
#[derive(Debug, Default)]
struct Reading {
    head: [u8; HEAD_BYTES],
    head_bytes: usize,
    body: Vec<u8>,
    body_bytes: usize,
    /// Messages that whoever received them had no room for.
    again: VecDeque<Received>,
}

impl Reading {
    /// Bytes of the body, once they are known.
    fn len(&self) -> Option<u64> {
        (self.head_bytes == HEAD_BYTES).then(|| u64::from_le_bytes(self.head))
    }

    /// Has room for the body, once its length is known and within the limit.
    fn make_room(&mut self, longest: u64) -> Result<(), Error> {
        match self.len() {
            // Nothing that follows can be understood.
            Some(len) if len > longest => Err(Error::MessageTooLong(longest)),
            Some(len) => {
                if self.body.is_empty() {
                    self.body = memory::zeroed(len)?;
                }
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// The message has come whole, and the next begins.
    fn finish(&mut self) -> Vec<u8> {
        (self.head_bytes, self.body_bytes) = (0, 0);
        std::mem::take(&mut self.body)
    }
}

impl Framed {
    /// `timeout`: how long the peer may be silent.
    pub(crate) fn new(stream: Stream, longest: u64, timeout: Duration) -> Self {
        let stream = Arc::new(stream);
        let writer = Writer::new(Arc::clone(&stream));
        let (reading, silence) = (Turn::new(Reading::default()), Silence::new(timeout));
        Self { stream, longest, writer, reading, silence, watch: Watch::default() }
    }

    /// Messages of no more than `longest` bytes each are received from now on.
    pub(super) fn limit(&mut self, longest: u64) {
        self.longest = longest;
    }

    pub(crate) fn method(&self) -> Method {
        match self.stream.way() {
            Way::SharedMemory => Method::SharedMemory,
            Way::Udp | Way::Ip36 | Way::Ether => Method::Qmp,
        }
    }

    fn error(&self, error: io::Error) -> Error {
        // What was made of an error of ours is that error again.
        match error.downcast::<Error>() {
            Ok(error) => error,
            Err(error) if self.stream.association().is_none() => gone(&self.stream, error),
            Err(error) => ConnectionError::Lost { method: self.method(), source: error }.into(),
        }
    }

    fn unfinished(&self) -> Error {
        ConnectionError::Unfinished { method: self.method() }.into()
    }

    /// Whether the length of the next message is known, or the stream has ended. `read` gives what has come.
    fn head(
        &self,
        reading: &mut Reading,
        mut read: impl FnMut(&mut [u8]) -> io::Result<Option<usize>>,
    ) -> Result<Option<u64>, Error> {
        while reading.head_bytes < HEAD_BYTES {
            let bytes = read(&mut reading.head[reading.head_bytes..]).map_err(|error| self.error(error))?;
            match bytes.ok_or(Error::Timeout)? {
                0 if reading.head_bytes == 0 => return Ok(None),
                0 => return Err(self.unfinished()),
                bytes => reading.head_bytes += bytes,
            }
        }
        let len = u64::from_le_bytes(reading.head);
        if len > self.longest {
            return Err(Error::MessageTooLong(self.longest));
        }
        Ok(Some(len))
    }

    /// Fills `body` from `at` on.
    fn fill(
        &self,
        body: &mut [u8],
        at: &mut usize,
        mut read: impl FnMut(&mut [u8]) -> io::Result<Option<usize>>,
    ) -> Result<(), Error> {
        while *at < body.len() {
            let bytes = read(&mut body[*at..]).map_err(|error| self.error(error))?;
            match bytes.ok_or(Error::Timeout)? {
                0 => return Err(self.unfinished()),
                bytes => *at += bytes,
            }
        }
        Ok(())
    }

    /// As [`Carry::recv_async`], for a message of at most `most` bytes.
    pub(crate) async fn recv_within_async(&self, most: u64) -> Result<Option<Received>, Error> {
        let mut reading = self.reading.take_async().await;
        self.come_async(&mut reading, most).await
    }

    /// The next message, for a task, if it has at most `most` bytes.
    async fn come_async(&self, reading: &mut Reading, most: u64) -> Result<Option<Received>, Error> {
        if let Some(again) = reading.again.pop_front() {
            return Ok(Some(again));
        }
        let most = self.longest.min(most);
        loop {
            reading.make_room(most)?;
            let Reading { head, head_bytes, body, body_bytes, .. } = reading;
            // One read at a time: what it has brought is kept if the task is dropped.
            let into = match *head_bytes == HEAD_BYTES {
                true => &mut body[*body_bytes..],
                false => &mut head[*head_bytes..],
            };
            let read = if into.is_empty() { Ok(0) } else { self.stream.read_async(into).await };
            let bytes = read.map_err(|error| self.error(error))?;
            match reading.len() {
                None if bytes == 0 && reading.head_bytes == 0 => return Ok(None),
                None => {
                    reading.head_bytes += bytes;
                    if bytes == 0 {
                        return Err(self.unfinished());
                    }
                    reading.make_room(most)?;
                }
                Some(_) if bytes == 0 && reading.body_bytes < reading.body.len() => return Err(self.unfinished()),
                Some(_) => reading.body_bytes += bytes,
            }
            if reading.len().is_some() && reading.body_bytes == reading.body.len() {
                return Ok(Some(Received::bytes(reading.finish(), Vec::new())));
            }
        }
    }

    fn take(&self, deadline: Option<Instant>) -> Result<Held<'_, Reading>, Error> {
        self.reading.take(deadline).ok_or(Error::Timeout)
    }
}

/// A message with its length before it, if that is cheaper.
fn copied(message: &Message) -> Option<Message> {
    if message.len() > MOST_COPIED {
        return None;
    }
    let mut both = Vec::with_capacity(HEAD_BYTES + message.len());
    both.extend_from_slice(&head_of(message));
    both.extend_from_slice(message);
    Some(Message::from_vec(both))
}

fn head_of(message: &[u8]) -> [u8; HEAD_BYTES] {
    (message.len() as u64).to_le_bytes()
}

impl Carry for Framed {
    fn send(&self, message: Message, _: Option<&Special>, deadline: Option<Instant>) -> Result<Sending, Unsent> {
        let Some(connection) = self.stream.association() else { return self.writer.send(message, deadline) };
        match copied(&message) {
            Some(both) => in_its_place(message, connection.send_behind(&[], both, &OPTIONS, deadline)),
            None => Ok(Sending::Xtp(connection.send_behind(&head_of(&message), message, &OPTIONS, deadline)?, None)),
        }
    }

    fn try_send(&self, message: Message, _: Option<&Special>) -> Result<Sending, Unsent> {
        let Some(connection) = self.stream.association() else { return self.writer.try_send(message) };
        match copied(&message) {
            Some(both) => in_its_place(message, connection.try_send(both, &OPTIONS)),
            None => Ok(Sending::Xtp(connection.try_send_behind(&head_of(&message), message, &OPTIONS)?, None)),
        }
    }

    async fn send_async(&self, message: Message, _: Option<&Special>) -> Result<Sending, Unsent> {
        let Some(connection) = self.stream.association() else { return self.writer.send_async(message).await };
        match copied(&message) {
            Some(both) => in_its_place(message, connection.send_async(both, &OPTIONS).await),
            None => {
                let head = head_of(&message);
                Ok(Sending::Xtp(connection.send_behind_async(&head, message, &OPTIONS).await?, None))
            }
        }
    }

    fn recv(&self, deadline: Option<Instant>) -> Result<Option<Received>, Error> {
        let mut reading = self.take(deadline)?;
        if let Some(again) = reading.again.pop_front() {
            return Ok(Some(again));
        }
        let read = |into: &mut [u8]| self.stream.read_until(into, deadline);
        if self.head(&mut reading, read)?.is_none() {
            return Ok(None);
        }
        reading.make_room(self.longest)?;
        let Reading { body, body_bytes, .. } = &mut *reading;
        self.fill(body, body_bytes, read)?;
        Ok(Some(Received::bytes(reading.finish(), Vec::new())))
    }

    async fn recv_async(&self) -> Result<Option<Received>, Error> {
        self.recv_within_async(u64::MAX).await
    }

    async fn recv_into_async(&self, buffer: &mut [u8]) -> Result<Option<ReceivedInto>, Error> {
        let mut reading = self.reading.take_async().await;
        let received = self.come_async(&mut reading, u64::MAX).await?;
        place(received, buffer, |received| reading.again.push_front(received))
    }

    fn recv_into(&self, buffer: &mut [u8], deadline: Option<Instant>) -> Result<Option<ReceivedInto>, Error> {
        let mut reading = self.take(deadline)?;
        if let Some(again) = reading.again.pop_front() {
            return place(Some(again), buffer, |received| reading.again.push_front(received));
        }
        let read = |into: &mut [u8]| self.stream.read_until(into, deadline);
        let Some(len) = self.head(&mut reading, read)? else { return Ok(None) };
        let len = len as usize;
        let Some(into) = buffer.get_mut(..len) else { return Err(Error::MessageTooLong(buffer.len() as u64)) };
        let mut at = reading.body_bytes;
        into[..at].copy_from_slice(&reading.body[..at]);
        let result = self.fill(into, &mut at, read);
        if let Err(error) = result {
            // The rest is for whoever asks next.
            let more = len.saturating_sub(reading.body.len());
            memory::make_room(&mut reading.body, more)?;
            reading.body.resize(len, 0);
            reading.body[..at].copy_from_slice(&into[..at]);
            reading.body_bytes = at;
            return Err(error);
        }
        reading.finish();
        Ok(Some(ReceivedInto::whole(len)))
    }

    fn flush(&self, deadline: Option<Instant>) -> Result<(), Error> {
        match self.stream.association() {
            Some(connection) => connection.flush_until(deadline),
            None => self.writer.flush(deadline),
        }
    }

    async fn flush_async(&self) -> Result<(), Error> {
        match self.stream.association() {
            Some(connection) => connection.flush_async().await,
            None => {
                self.writer.flush_async().await;
                Ok(())
            }
        }
    }

    fn set_service(&self, service: &Service) -> Result<(), String> {
        let Some(connection) = self.stream.association() else { return Ok(()) };
        let block = connection.block().map_err(|error| error.to_string())?;
        connection.set_block(super::xtp::programmed(block, service)).map_err(|error| error.to_string())
    }

    fn has_heard_end(&self) -> bool {
        self.stream.association().is_some_and(xtp::Connection::is_all_there)
    }

    fn waiting_bytes(&self) -> Option<u64> {
        let reading = self.reading.take(Some(Instant::now()))?;
        reading.again.front().map(|received| received.len() as u64).or_else(|| reading.len())
    }

    /// A peer on this host that is gone is noticed by the channel itself.
    fn round_trip(&self) -> Option<Duration> {
        self.stream.facts().ok()?.round_trip
    }

    fn check(&self) -> Result<(), Error> {
        if let Some(connection) = self.stream.association() {
            return super::xtp::check(connection, &self.silence);
        }
        match self.stream.peer_end() {
            // What it sends has ended, and not what it receives.
            None | Some(End::InOrder) if self.stream.is_read() => Ok(()),
            // It has gone since.
            None => Err(ended(self.stream.peer_end().unwrap_or(End::Reset))),
            Some(end) => Err(ended(end)),
        }
    }

    fn descriptor(&self) -> Result<BorrowedFd<'_>, Error> {
        self.watch.descriptor(|| self.stream.watch().map_err(|error| self.error(error)))
    }

    fn clear(&self) {
        self.watch.clear();
    }

    fn close(&self, deadline: Option<Instant>) -> Result<(), Error> {
        if self.stream.association().is_none() {
            self.writer.stop();
            return self.writer.finish(deadline);
        }
        self.stream.shutdown(Shutdown::Write).map_err(|error| self.error(error))?;
        self.flush(deadline)?;
        self.stream.association().map_or(Ok(()), super::xtp::check_farewell)
    }

    async fn close_async(&self) -> Result<(), Error> {
        loop {
            match self.close(Some(Instant::now())) {
                Err(Error::Timeout) => self.flush_async().await?,
                told => return told,
            }
            // In shared memory the end takes room of its own, behind what was written.
            self.stream.writable().await;
        }
    }

    fn abort(&self, _: Instant) {
        self.writer.give_up();
        self.stream.abort();
    }
}

impl Drop for Framed {
    fn drop(&mut self) {
        self.writer.give_up();
    }
}
