//! A stream of bytes on top of messages (A-6).
//!
//! Always true: bytes are read in the order in which they were written, whatever messages they came in; a stream never
//! passes over a gap in silence.
//= A-6

use super::{Connection, Full, Status};
use crate::Error;
use std::io;

/// The most bytes of one message: they are copied.
const MOST_WRITTEN: u64 = 256 << 10;

/// A connection as a stream of bytes each way. Every write is a message (and at least a block of the window): who writes a
/// few bytes at a time does so through a [`std::io::BufWriter`].
///
/// ```
/// use pinnace::a1::{Socket, reliable};
/// use std::io::{Read, Write};
/// use std::time::Duration;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = Socket::bind("127.0.0.1:0", reliable())?;
/// server.listen(1)?;
/// let client = Socket::bind("127.0.0.1:0", reliable())?;
/// let connection = client.connect(server.local_addr(), reliable())?;
/// let reading = std::thread::spawn(move || -> std::io::Result<String> {
///     let mut text = String::new();
///     server.accept()?.stream().read_to_string(&mut text)?;
///     Ok(text)
/// });
/// write!(connection.stream(), "ahoy, {}", "ahoy")?;
/// connection.close(Duration::from_secs(5))?;
/// assert_eq!(reading.join().expect("no panic")?, "ahoy, ahoy");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Stream {
    connection: Connection,
}

impl Stream {
    pub(super) fn new(connection: Connection) -> Self {
        Self { connection }
    }

    /// The connection under it.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Reads bytes; waits for the first. 0: the peer has closed the connection.
    ///
    /// # Errors
    /// As [`Connection::recv`]; [`Error::Io`] ([`io::ErrorKind::InvalidData`]) if bytes were lost before these
    /// (without retransmission).
    pub fn read(&self, into: &mut [u8]) -> Result<usize, Error> {
        if into.is_empty() {
            return Ok(0);
        }
        loop {
            if let Some(len) = self.found(self.connection.read(into)?)? {
                return Ok(len);
            }
        }
    }

    /// Like [`Stream::read`], for tasks.
    ///
    /// # Errors
    /// As [`Stream::read`].
    pub async fn read_async(&self, into: &mut [u8]) -> Result<usize, Error> {
        if into.is_empty() {
            return Ok(0);
        }
        loop {
            if let Some(len) = self.found(self.connection.read_async(into).await?)? {
                return Ok(len);
            }
        }
    }

    /// `None`: an empty message, which is no end of a stream.
    fn found(&self, (len, status): (usize, Status)) -> Result<Option<usize>, Error> {
        let is_end = status.contains(Status::PEER_CLOSED);
        let is_lost = status.contains(Status::LOST) || (is_end && self.connection.status().contains(Status::LOST));
        if is_lost {
            let error = io::Error::new(io::ErrorKind::InvalidData, "bytes were lost on their way");
            return Err(Error::io("cannot read the stream", error));
        }
        Ok((len > 0 || is_end).then_some(len))
    }

    /// Writes bytes, as one message of at most 262,144; returns how many. Waits for room.
    ///
    /// # Errors
    /// As [`Connection::send`].
    pub fn write(&self, bytes: &[u8]) -> Result<usize, Error> {
        let piece = self.piece(bytes)?;
        if !piece.is_empty() {
            self.connection.send_copy(piece, Full::Block)?;
        }
        Ok(piece.len())
    }

    /// Like [`Stream::write`], for tasks.
    ///
    /// # Errors
    /// As [`Connection::send`].
    pub async fn write_async(&self, bytes: &[u8]) -> Result<usize, Error> {
        let piece = self.piece(bytes)?;
        if !piece.is_empty() {
            self.connection.send_copy_async(piece).await?;
        }
        Ok(piece.len())
    }

    /// As much as goes into one message.
    fn piece<'a>(&self, bytes: &'a [u8]) -> Result<&'a [u8], Error> {
        let facts = self.connection.facts()?;
        let most = u64::from(facts.qos.largest_sent).min(u64::from(facts.block_bytes) * 65_535).min(MOST_WRITTEN);
        Ok(&bytes[..bytes.len().min(most.max(1) as usize)])
    }
}

impl io::Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        Ok(Self::read(self, into)?)
    }
}

impl io::Read for &Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        Ok(Stream::read(self, into)?)
    }
}

impl io::Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(Self::write(self, bytes)?)
    }

    /// Waits until everything has arrived.
    fn flush(&mut self) -> io::Result<()> {
        Ok(self.connection.flush()?)
    }
}

impl io::Write for &Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(Stream::write(self, bytes)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(self.connection.flush()?)
    }
}
