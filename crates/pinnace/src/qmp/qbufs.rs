//! Buffers that change owners (specs/qbuf.md, B-6): what is sent is given away, what is received is got.
//!
//! Always true: a qbuf that was sent is the transport's until its last packet has been acknowledged, and is free then; one
//! that was received is the application's.

use super::stream::{Inner, deadline, none_yet, would_block};
use super::{Copied, Pool, Qbuf, Stream};
use std::io;
use std::time::{Duration, Instant};

/// Why a qbuf was not sent; it is still the caller's.
#[derive(Debug)]
pub struct Full(pub Qbuf);

impl Stream {
    /// The pool that it was set up with ([`Options::pool`](super::Options::pool)); over shared memory, the one that is shared.
    pub fn pool(&self) -> Option<&Pool> {
        match self.inner() {
            Inner::Engine(_, endpoint) => endpoint.pool(),
            Inner::Shared(shared) => Some(shared.pool()),
        }
    }

    /// A qbuf of `len` bytes to be filled and sent.
    ///
    /// # Errors
    /// If the pool is empty, `len` is more than a zone, or there is no pool.
    pub fn alloc(&self, len: usize) -> io::Result<Qbuf> {
        let pool = self.the_pool()?;
        pool.alloc(len).ok_or_else(|| {
            let why = format!("no qbuf of {len} bytes is free (at most {} are contiguous)", pool.max_len());
            io::Error::new(io::ErrorKind::OutOfMemory, why)
        })
    }

    fn the_pool(&self) -> io::Result<&Pool> {
        let why = "this stream has no pool: set Options::pool";
        self.pool().ok_or_else(|| io::Error::new(io::ErrorKind::Unsupported, why))
    }

    /// Sends the bytes of a qbuf, which are not copied, and gives it away: it is free again when they have been
    /// acknowledged. Waits for room in the queue.
    ///
    /// ```
    /// use pinnace::qmp::{Listener, Options, Pool, PoolOptions, Stream};
    /// # fn main() -> std::io::Result<()> {
    /// let options = Options { pool: Some(Pool::create(&PoolOptions::default())?), ..Options::default() };
    /// let listener = Listener::bind("127.0.0.1:0", &options)?;
    /// let client = Stream::connect(listener.local_addr(), &options)?;
    /// let mut qbuf = client.alloc(4)?;
    /// qbuf.copy_from_slice(b"ahoy");
    /// client.send_qbuf(qbuf)?;
    /// let server = listener.accept()?;
    /// assert_eq!(&*server.recv_qbuf()?.expect("not the end"), b"ahoy");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Stream::write`]; also if it is empty.
    //= B-6, Q-10
    pub fn send_qbuf(&self, qbuf: Qbuf) -> io::Result<()> {
        self.send_qbuf_timeout(qbuf, self.write_timeout())?.map_err(|Full(_)| io::ErrorKind::WouldBlock.into())
    }

    /// Like [`Stream::send_qbuf`], but waits for room at most `timeout` (`None`: for ever), whatever
    /// [`Stream::set_write_timeout`] says.
    ///
    /// # Errors
    /// The outer: as [`Stream::write`]. The inner gives the qbuf back: there was no room in this time.
    pub fn send_qbuf_timeout(&self, mut qbuf: Qbuf, timeout: Option<Duration>) -> io::Result<Result<(), Full>> {
        let deadline = timeout.and_then(deadline);
        let connection = match self.inner() {
            Inner::Engine(connection, _) => connection,
            Inner::Shared(shared) => return Ok(shared.send_qbuf(qbuf, deadline)?.map_err(Full)),
        };
        loop {
            let (back, ended) = match connection.pass_in(qbuf)? {
                Ok(()) => return Ok(Ok(())),
                Err(full) => full,
            };
            if !connection.wait_for_room(ended, deadline)? {
                return Ok(Err(Full(back)));
            }
            qbuf = back;
        }
    }

    /// Whether [`Stream::try_send_qbuf`] would take a qbuf of so many bytes now, or say that the stream has ended.
    pub fn has_room_for(&self, bytes: usize) -> bool {
        match self.inner() {
            Inner::Engine(connection, _) => connection.has_room_for(bytes),
            Inner::Shared(shared) => shared.is_writable(),
        }
    }

    /// Like [`Stream::send_qbuf`], but does not wait.
    ///
    /// # Errors
    /// The outer: as [`Stream::write`]. The inner gives the qbuf back: there is no room now.
    pub fn try_send_qbuf(&self, qbuf: Qbuf) -> io::Result<Result<(), Full>> {
        Ok(match self.inner() {
            Inner::Engine(connection, _) => connection.pass_in(qbuf)?.map_err(|(qbuf, _)| Full(qbuf)),
            Inner::Shared(shared) => shared.send_qbuf(qbuf, Some(Instant::now()))?.map_err(Full),
        })
    }

    /// The next bytes of the stream, in the qbuf that they arrived in; as a copy if others have come behind missing ones, or if
    /// the pool was empty when they came. Waits for the first; `None` at the end of the stream. Where one qbuf ends and the next
    /// begins says nothing.
    ///
    /// # Errors
    /// As [`Stream::read`]; also if the pool is empty, or there is none.
    //= B-7
    pub fn recv_qbuf(&self) -> io::Result<Option<Qbuf>> {
        let timeout = self.read_timeout();
        match self.inner() {
            Inner::Engine(connection, _) => would_block(connection.take_qbuf(self.the_pool()?, timeout)),
            Inner::Shared(shared) => shared.recv_qbuf(timeout.and_then(deadline)),
        }
    }

    /// Like [`Stream::recv_qbuf`], but does not wait: the outer `None` says that nothing is there.
    ///
    /// # Errors
    /// As [`Stream::recv_qbuf`].
    pub fn try_recv_qbuf(&self) -> io::Result<Option<Option<Qbuf>>> {
        none_yet(match self.inner() {
            Inner::Engine(connection, _) => would_block(connection.take_qbuf(self.the_pool()?, Some(Duration::ZERO))),
            Inner::Shared(shared) => shared.recv_qbuf(Some(Instant::now())),
        })
    }

    /// What was copied so far between the application's memory and the transport's: all that was written and read, and nothing
    /// of what went in qbufs, but for the exceptions of [`Stream::recv_qbuf`].
    ///
    /// ```
    /// use pinnace::qmp::{Copied, Listener, Options, Stream};
    /// # fn main() -> std::io::Result<()> {
    /// let listener = Listener::bind("127.0.0.1:0", &Options::default())?;
    /// let client = Stream::connect(listener.local_addr(), &Options::default())?;
    /// client.write(b"ahoy")?;
    /// assert_eq!(client.copied(), Copied { written: 4, read: 0 });
    /// # Ok(())
    /// # }
    /// ```
    pub fn copied(&self) -> Copied {
        match self.inner() {
            Inner::Engine(connection, _) => connection.copies.so_far(),
            Inner::Shared(shared) => shared.copies.so_far(),
        }
    }
}
