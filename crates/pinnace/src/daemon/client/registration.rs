//! Listening: who comes.

use super::Arrival;
use crate::daemon::protocol::{BYTES, Reply, Request};
use crate::daemon::socket::{self, Received};
use crate::network::deadline;
use pinnace_qbuf::Pool;
use pinnace_qbuf::channel::{Channel, Side};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::Shutdown;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// That this process listens at an address. Dropping it ends that; who has come and was not accepted finds the channel closed.
#[derive(Debug)]
pub struct Registration {
    socket: OwnedFd,
    pool: Pool,
    address: SocketAddr,
    /// Whose it is.
    pid: u32,
}

impl Registration {
    pub(super) fn new(socket: OwnedFd, pool: Pool, address: SocketAddr) -> Self {
        Self { socket, pool, address, pid: std::process::id() }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Who has come, if somebody has. Never waits.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotConnected`] if the daemon is gone: nobody will come any more; what is wrong with one arrival
    /// otherwise, as that this process has no descriptor left for it: who has come finds the channel closed, and the next may
    /// be well.
    pub fn try_accept(&self) -> io::Result<Option<Arrival>> {
        if self.pid != std::process::id() {
            let why = "this registration belongs to the process that this one was forked from";
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        let mut message = [0; BYTES];
        let (received, fds) = socket::receive_fds(self.socket.as_fd(), &mut message)?;
        let len = match received {
            Received::Bytes(len) | Received::Incomplete(len) => len,
            Received::Nothing => return Ok(None),
            Received::Unwanted => return Err(socket::no_descriptors()),
            Received::Closed => return Err(io::Error::new(io::ErrorKind::NotConnected, "the daemon is gone")),
        };
        let Ok(Reply::Channel { local, peer }) = Reply::parse(&message[..len]) else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the daemon said what is no arrival"));
        };
        let attached = socket::channel(fds).and_then(|fds| Ok(Channel::attach(&self.pool, fds, Side::B)?));
        match attached {
            Ok(channel) => Ok(Some(Arrival { channel, peer, local })),
            Err(error) => {
                // He who came is told, and does not wait for an answer.
                let _ = socket::send_now(self.socket.as_fd(), &Request::Decline(peer).encode());
                Err(error)
            }
        }
    }

    /// What comes first on the socket, within `timeout`.
    pub(super) fn first_word(&self, timeout: Duration) -> io::Result<(Reply, Vec<OwnedFd>)> {
        let deadline = Instant::now() + timeout;
        let mut message = [0; BYTES];
        loop {
            let (received, fds) = socket::receive_fds(self.socket.as_fd(), &mut message)?;
            match received {
                Received::Bytes(len) => match Reply::parse(&message[..len]) {
                    Ok(reply) => return Ok((reply, fds)),
                    Err(_) => return Err(io::ErrorKind::InvalidData.into()),
                },
                Received::Unwanted | Received::Incomplete(_) => return Err(socket::no_descriptors()),
                Received::Closed => return Err(io::Error::new(io::ErrorKind::NotConnected, "the daemon is gone")),
                Received::Nothing => {}
            }
            if !self.wait(Some(deadline.saturating_duration_since(Instant::now())))? {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
    }

    /// Waits for something to come; false: it was not there within that time.
    fn wait(&self, timeout: Option<Duration>) -> io::Result<bool> {
        if timeout == Some(Duration::ZERO) {
            return Ok(false);
        }
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        match poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// Who comes within `timeout`.
    ///
    /// # Errors
    /// As [`try_accept`](Self::try_accept).
    pub fn accept_timeout(&self, timeout: Duration) -> io::Result<Option<Arrival>> {
        let deadline = deadline(timeout);
        loop {
            if let Some(arrival) = self.try_accept()? {
                return Ok(Some(arrival));
            }
            if !self.wait(deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())))? {
                return Ok(None);
            }
        }
    }

    /// What is readable when somebody has come, or the daemon is gone: [`try_accept`](Self::try_accept) does not wait then.
    pub fn readable_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Registration {
    /// Ends it for everybody who has it.
    pub(crate) fn end(&self) {
        // Children may have the socket, too; but what they have is not theirs to close.
        if self.pid == std::process::id() {
            let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
        }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.end();
    }
}
