//! Messages as a stream of bytes.

use super::{Connection, ConnectionError};
use crate::carrier::{Carry, Received};
use crate::{Error, Message};
use std::io::{self, Read, Write};

/// The most bytes of one write, which are one message.
const MOST_WRITTEN: u64 = 256 << 10;

/// A connection as a stream of bytes ([`Connection::stream`]): what is written is sent at once, in messages of the method's;
/// what is read are the bytes of messages, one after the other.
///
/// What has been read of a message in part is kept here, so read through one stream at a time. Where bytes are missing it
/// cannot go on: reading is [`ConnectionError::Gap`] then, also at the end, and never a shorter stream.
#[derive(Debug)]
pub struct MessageStream<'a> {
    connection: &'a Connection,
    reader: MessageReader,
}

impl<'a> MessageStream<'a> {
    pub(super) fn new(connection: &'a Connection) -> Self {
        Self { connection, reader: MessageReader::default() }
    }
}

impl Read for MessageStream<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        Ok(self.reader.read(self.connection, into, || self.connection.recv())?)
    }
}

/// How far the bytes of a connection's messages have been read: the part of a [`MessageStream`] that may be kept beside the
/// connection.
#[doc(hidden)]
#[derive(Debug, Default)]
pub struct MessageReader {
    message: Option<Received>,
    at: usize,
    /// Messages that are missing where it cannot go on.
    gap: Option<u64>,
}

impl MessageReader {
    /// Reads what is there, at least a byte; 0 is the end. `recv` gives the next message of the connection.
    ///
    /// # Errors
    /// Those of `recv`; [`ConnectionError::Gap`] from where messages are missing on.
    pub fn read<E: From<Error>>(
        &mut self,
        connection: &Connection,
        into: &mut [u8],
        mut recv: impl FnMut() -> Result<Option<Received>, E>,
    ) -> Result<usize, E> {
        if into.is_empty() {
            return Ok(0);
        }
        loop {
            if let Some(message) = &self.message {
                let rest = &message[self.at..];
                let take = rest.len().min(into.len());
                into[..take].copy_from_slice(&rest[..take]);
                self.at += take;
                if self.at == message.len() {
                    self.message = None;
                }
                if take > 0 {
                    return Ok(take);
                }
                // An empty message is no bytes, and not the end.
                self.message = None;
            }
            if self.gap.is_none() {
                let received = recv()?;
                self.gap = gap_before(connection, received.as_ref());
                if self.gap.is_none() && received.is_none() {
                    return Ok(0);
                }
                (self.message, self.at) = (received, 0);
            }
            if let Some(messages) = self.gap {
                self.message = None;
                let method = connection.method();
                return Err(Error::from(ConnectionError::Gap { method, messages }).into());
            }
        }
    }
}

/// What is missing before a message, or the end.
fn gap_before(connection: &Connection, received: Option<&Received>) -> Option<u64> {
    match received {
        Some(received) if received.is_late() => Some(0),
        Some(received) => Some(received.missed()).filter(|missed| *missed > 0),
        None => Some(connection.carrier().missing_at_end()).filter(|missing| *missing > 0),
    }
}

impl Write for MessageStream<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let most = self.connection.largest().clamp(1, MOST_WRITTEN);
        let bytes = &bytes[..bytes.len().min(most as usize)];
        if !bytes.is_empty() {
            let sent = self.connection.send(Message::from_vec(bytes.to_vec()));
            drop(sent.map_err(|unsent| io::Error::from(unsent.error))?);
        }
        Ok(bytes.len())
    }

    /// Waits until everything has arrived.
    fn flush(&mut self) -> io::Result<()> {
        Ok(self.connection.flush()?)
    }
}
