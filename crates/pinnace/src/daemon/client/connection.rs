//! The socket to the daemon: one question, one answer.
//!
//! Always true: questions of several threads do not mix; a daemon that does not answer in time is taken for dead, for what came
//! later would answer another question.

use crate::daemon::Refusal;
use crate::daemon::protocol::{BYTES, Malformed, Reply, Request};
use crate::daemon::socket::{self, Received};
use crate::lock::lock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{Shutdown, SocketAddrUnix, SocketFlags};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// How long the daemon may take for an answer, which costs it microseconds.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(super) struct Connection {
    socket: OwnedFd,
    asking: Mutex<()>,
    attaching: Mutex<()>,
    is_dead: AtomicBool,
    has_timed_out: AtomicBool,
    /// Whose it is.
    pid: u32,
}

impl Connection {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let socket = socket::new(SocketFlags::empty())?;
        set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
        // A connection waits for room in the listener's queue as long as this.
        set_socket_timeout(&socket, Timeout::Send, Some(PATIENCE))?;
        rustix::net::connect(&socket, &SocketAddrUnix::new(path)?).map_err(|error| match error {
            Errno::AGAIN => silent(),
            error => error.into(),
        })?;
        let (asking, attaching) = (Mutex::new(()), Mutex::new(()));
        let (is_dead, has_timed_out) = (AtomicBool::new(false), AtomicBool::new(false));
        Ok(Self { socket, asking, attaching, is_dead, has_timed_out, pid: std::process::id() })
    }

    /// Whether the daemon is this user's or root's: somebody else's could read what we send, in the name of the system.
    pub(super) fn check_user(&self) -> io::Result<()> {
        let uid = socket::peer(self.socket.as_fd())?.uid;
        if uid == 0 || uid == rustix::process::geteuid().as_raw() {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("the daemon belongs to user {uid}")))
    }

    /// Gets the pool.
    pub(super) fn greet(&self) -> io::Result<OwnedFd> {
        match self.ask(&Request::Hello)? {
            (Reply::Welcome, mut fds) => fds.pop().ok_or_else(socket::no_descriptors),
            (other, _) => Err(super::unexpected(&other)),
        }
    }

    /// Held by who attaches a second time.
    pub(super) fn second_attachment(&self) -> MutexGuard<'_, ()> {
        lock(&self.attaching)
    }

    /// Asks, and waits for the answer.
    pub(super) fn ask(&self, request: &Request) -> io::Result<(Reply, Vec<OwnedFd>)> {
        if self.pid != std::process::id() {
            let why = "this client belongs to the process that this one was forked from";
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        let asking = lock(&self.asking);
        if self.is_dead.load(Ordering::Relaxed) {
            return Err(gone());
        }
        let answer = self.ask_locked(request);
        if let Err(error) = &answer {
            self.has_timed_out.store(error.kind() == io::ErrorKind::TimedOut, Ordering::Relaxed);
            self.is_dead.store(true, Ordering::Relaxed);
        }
        drop(asking);
        answer
    }

    fn ask_locked(&self, request: &Request) -> io::Result<(Reply, Vec<OwnedFd>)> {
        // Who was refused finds the answer there, and cannot send.
        let sent = socket::send(self.socket.as_fd(), &request.encode(), &[]);
        let mut message = [0; BYTES];
        let (received, fds) = socket::receive_fds(self.socket.as_fd(), &mut message)?;
        match received {
            Received::Bytes(len) => match Reply::parse(&message[..len]) {
                Ok(reply) => Ok((reply, fds)),
                Err(Malformed::Version(_)) => Err(Refusal::Version.into()),
                Err(Malformed::Garbage) => Err(io::Error::new(io::ErrorKind::InvalidData, "this is no daemon of ours")),
            },
            Received::Unwanted | Received::Incomplete(_) => Err(socket::no_descriptors()),
            Received::Closed => Err(sent.err().unwrap_or_else(gone)),
            Received::Nothing => Err(silent()),
        }
    }

    /// Whether it died of silence.
    pub(super) fn has_timed_out(&self) -> bool {
        self.has_timed_out.load(Ordering::Relaxed)
    }

    /// Whether the daemon has not hung up.
    pub(super) fn is_alive(&self) -> bool {
        let mut fds = [PollFd::new(&self.socket, PollFlags::RDHUP)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        !self.is_dead.load(Ordering::Relaxed) && matches!(poll(&mut fds, Some(&now)), Ok(0))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Children may have the socket, too; but what they have is not theirs to close.
        if self.pid == std::process::id() {
            let _ = socket::send_now(self.socket.as_fd(), &Request::Bye.encode());
            let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
        }
    }
}

fn silent() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the daemon does not answer")
}

fn gone() -> io::Error {
    io::Error::new(io::ErrorKind::NotConnected, "the daemon is gone")
}
