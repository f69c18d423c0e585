//! Messages as a stream of bytes.

use super::Connection;
use crate::Message;
use crate::carrier::Received;
use std::io::{self, Read, Write};

/// The most bytes of one write, which are one message.
const MOST_WRITTEN: usize = 256 << 10;

/// A connection as a stream of bytes ([`Connection::stream`]): what is written is sent at once, in messages of the method's;
/// what is read are the bytes of messages, one after the other.
///
/// What has been read of a message in part is kept here, so read through one stream at a time.
#[derive(Debug)]
pub struct MessageStream<'a> {
    connection: &'a Connection,
    message: Option<Received>,
    at: usize,
}

impl<'a> MessageStream<'a> {
    pub(super) fn new(connection: &'a Connection) -> Self {
        Self { connection, message: None, at: 0 }
    }
}

impl Read for MessageStream<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
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
            match self.connection.recv()? {
                None => return Ok(0),
                Some(message) => (self.message, self.at) = (Some(message), 0),
            }
        }
    }
}

impl Write for MessageStream<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let bytes = &bytes[..bytes.len().min(MOST_WRITTEN)];
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
