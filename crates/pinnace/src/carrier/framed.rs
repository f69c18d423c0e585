//! A connection over a stream of bytes: QMP, or a channel of the daemon. A message is its length (8 bytes, little-endian)
//! and its bytes.
//!
//! Always true: what has been read of a message is kept while nobody waits for the rest; a length beyond the limit ends the
//! connection before any memory is had for it.

use super::turn::{Held, Turn};
use super::{Carry, Received, ReceivedInto, Sending, Special, left};
use crate::endpoint::ConnectionError;
use crate::qmp::{Shutdown, Stream, Way};
use crate::service::{Method, Service};
use crate::xtp::SendOptions;
use crate::{Error, Message, Unsent};
use pinnace_runtime::WakeFd;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

const HEAD_BYTES: usize = 8;
/// A message up to here is copied behind its length: that is cheaper than two pieces.
const MOST_COPIED: usize = 4 << 10;
/// The last packet asks for a status, so that the sender learns soon that it is there.
const OPTIONS: SendOptions = SendOptions { sreq: true, ..SendOptions::BYTES };

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Framed {
    stream: Stream,
    longest: u64,
    /// Held while the parts of a message are queued, which belong together.
    sending: Mutex<()>,
    reading: Turn<Reading>,
    watch: OnceLock<Arc<WakeFd>>,
}

/// What has been read of a message.
#[derive(Debug, Default)]
struct Reading {
    head: [u8; HEAD_BYTES],
    head_bytes: usize,
    body: Vec<u8>,
    body_bytes: usize,
}

impl Reading {
    /// Bytes of the body, once they are known.
    fn len(&self) -> Option<u64> {
        (self.head_bytes == HEAD_BYTES).then(|| u64::from_le_bytes(self.head))
    }

    /// The message has come whole, and the next begins.
    fn finish(&mut self) -> Vec<u8> {
        (self.head_bytes, self.body_bytes) = (0, 0);
        std::mem::take(&mut self.body)
    }
}

impl Framed {
    pub(crate) fn new(stream: Stream, longest: u64) -> Self {
        Self {
            stream,
            longest,
            sending: Mutex::new(()),
            reading: Turn::new(Reading::default()),
            watch: OnceLock::new(),
        }
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
            // Nothing that follows can be understood.
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

    fn take(&self, deadline: Option<Instant>) -> Result<Held<'_, Reading>, Error> {
        self.reading.take(deadline).ok_or(Error::Timeout)
    }

    /// Copies a message into shared memory.
    fn write(&self, message: &[u8]) -> io::Result<()> {
        let head = (message.len() as u64).to_le_bytes();
        let _turn = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        if message.len() <= MOST_COPIED {
            let mut both = [0; HEAD_BYTES + MOST_COPIED];
            both[..HEAD_BYTES].copy_from_slice(&head);
            both[HEAD_BYTES..HEAD_BYTES + message.len()].copy_from_slice(message);
            return write_all(&self.stream, &both[..HEAD_BYTES + message.len()]);
        }
        write_all(&self.stream, &head)?;
        write_all(&self.stream, message)
    }
}

fn write_all(stream: &Stream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let taken = stream.write(bytes)?;
        bytes = bytes.get(taken..).unwrap_or_default();
    }
    Ok(())
}

impl Carry for Framed {
    fn send(&self, message: Message, _: Option<&Special>) -> Result<Sending, Unsent> {
        let Some(connection) = self.stream.association() else {
            return match self.write(&message) {
                Ok(()) => Ok(Sending::Done(message)),
                Err(error) => Err(Unsent::new(message, self.error(error))),
            };
        };
        let head = (message.len() as u64).to_le_bytes();
        if message.len() <= MOST_COPIED {
            let mut both = Vec::with_capacity(HEAD_BYTES + message.len());
            both.extend_from_slice(&head);
            both.extend_from_slice(&message);
            // One call, so nothing comes in between.
            let _turn = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
            return match connection.send_with(both, &OPTIONS) {
                Ok(sending) => Ok(Sending::Xtp(sending, Some(message))),
                Err(unsent) => Err(Unsent::new(message, unsent.error)),
            };
        }
        let _turn = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        match connection.send_with(head.to_vec(), &SendOptions::BYTES) {
            Ok(head) => drop(head),
            Err(unsent) => return Err(Unsent::new(message, unsent.error)),
        }
        Ok(Sending::Xtp(connection.send_with(message, &OPTIONS)?, None))
    }

    fn recv(&self, deadline: Option<Instant>) -> Result<Option<Received>, Error> {
        let mut reading = self.take(deadline)?;
        let read = |into: &mut [u8]| self.stream.read_until(into, deadline);
        let Some(len) = self.head(&mut reading, read)? else { return Ok(None) };
        let Reading { body, body_bytes, .. } = &mut *reading;
        if body.is_empty() {
            *body = vec![0; len as usize];
        }
        self.fill(body, body_bytes, read)?;
        Ok(Some(Received::bytes(reading.finish(), Vec::new())))
    }

    async fn recv_async(&self) -> Result<Option<Received>, Error> {
        let mut reading = self.reading.take_async().await;
        loop {
            let Reading { head, head_bytes, body, body_bytes } = &mut *reading;
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
                    if let Some(len) = reading.len() {
                        if len > self.longest {
                            return Err(Error::MessageTooLong(self.longest));
                        }
                        reading.body = vec![0; len as usize];
                    }
                }
                Some(_) if bytes == 0 && reading.body_bytes < reading.body.len() => return Err(self.unfinished()),
                Some(_) => reading.body_bytes += bytes,
            }
            if reading.len().is_some() && reading.body_bytes == reading.body.len() {
                return Ok(Some(Received::bytes(reading.finish(), Vec::new())));
            }
        }
    }

    fn recv_into(&self, buffer: &mut [u8], deadline: Option<Instant>) -> Result<Option<ReceivedInto>, Error> {
        let mut reading = self.take(deadline)?;
        let read = |into: &mut [u8]| self.stream.read_until(into, deadline);
        let Some(len) = self.head(&mut reading, read)? else { return Ok(None) };
        let len = len as usize;
        let Some(into) = buffer.get_mut(..len) else { return Err(Error::MessageTooLong(buffer.len() as u64)) };
        let mut at = reading.body_bytes;
        into[..at].copy_from_slice(&reading.body[..at]);
        let result = self.fill(into, &mut at, read);
        if let Err(error) = result {
            // The rest is for whoever asks next.
            reading.body.resize(len, 0);
            reading.body[..at].copy_from_slice(&into[..at]);
            reading.body_bytes = at;
            return Err(error);
        }
        reading.finish();
        Ok(Some(ReceivedInto { len, holes: Vec::new() }))
    }

    fn put_back(&self, received: Received) {
        if let Some(mut reading) = self.reading.take(None) {
            let body = received.into_vec();
            let (head, body_bytes) = ((body.len() as u64).to_le_bytes(), body.len());
            *reading = Reading { head, head_bytes: HEAD_BYTES, body, body_bytes };
        }
    }

    fn flush(&self, deadline: Option<Instant>) -> Result<(), Error> {
        match (self.stream.association(), left(deadline)) {
            (Some(connection), Some(left)) => connection.flush_timeout(left),
            (Some(connection), None) => connection.flush(),
            (None, _) => Ok(()),
        }
    }

    async fn flush_async(&self) -> Result<(), Error> {
        match self.stream.association() {
            Some(connection) => connection.flush_async().await,
            None => Ok(()),
        }
    }

    fn set_service(&self, service: &Service) -> Result<(), String> {
        let Some(connection) = self.stream.association() else { return Ok(()) };
        let block = connection.block().map_err(|error| error.to_string())?;
        connection.set_block(super::xtp::programmed(block, service)).map_err(|error| error.to_string())
    }

    fn descriptor(&self) -> Result<BorrowedFd<'_>, Error> {
        if self.watch.get().is_none() {
            let watch = self.stream.watch().map_err(|error| self.error(error))?;
            let _ = self.watch.set(watch);
        }
        self.watch.get().map(|watch| watch.as_fd()).ok_or(Error::Timeout)
    }

    fn clear(&self) {
        if let Some(watch) = self.watch.get() {
            watch.clear();
        }
    }

    fn close(&self, deadline: Option<Instant>) -> Result<(), Error> {
        self.stream.shutdown(Shutdown::Write).map_err(|error| self.error(error))?;
        self.flush(deadline)
    }
}
