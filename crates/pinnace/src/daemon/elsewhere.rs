//! Elsewhere than on Linux nobody serves, and nobody is a client.
//!
//! Always true: there are no values of these types; programs are written as on Linux, find no daemon, and are told why when they
//! ask for one ([`io::ErrorKind::Unsupported`]).

use super::{DaemonOptions, Statistics};
use crate::qmp::Carrier;
use pinnace_qbuf::Pool;
use pinnace_qbuf::channel::Channel;
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

fn no_daemon<T>() -> io::Result<T> {
    let why = "the daemon is had only on Linux, as shared memory is: use UDP, which works within the host, too";
    Err(io::Error::new(io::ErrorKind::Unsupported, why))
}

/// A channel to another process, and who sits at its ends. Nobody makes one here.
#[derive(Debug)]
pub struct Arrival {
    /// The channel.
    pub channel: Channel,
    /// The address of the other end.
    pub peer: SocketAddr,
    /// The address of this end.
    pub local: SocketAddr,
}

/// This process, as a client of a daemon: on Linux only.
#[derive(Debug)]
pub enum Client {}

impl Client {
    /// The client of this process: there is none.
    pub fn current() -> Option<Arc<Self>> {
        None
    }

    /// A client of the daemon that serves at a path.
    ///
    /// # Errors
    /// Always.
    pub fn open(_: impl AsRef<Path>) -> io::Result<Self> {
        no_daemon()
    }

    /// The pool that all clients of the daemon share.
    pub fn pool(&self) -> &Pool {
        match *self {}
    }

    /// Where the daemon serves.
    pub fn path(&self) -> &Path {
        match *self {}
    }

    /// Whether the daemon still serves.
    pub fn is_alive(&self) -> bool {
        match *self {}
    }

    /// Listens at an address of this host.
    ///
    /// # Errors
    /// Always.
    pub fn listen(&self, _: SocketAddr) -> io::Result<Registration> {
        match *self {}
    }

    /// Connects to who listens at an address of this host.
    ///
    /// # Errors
    /// Always.
    pub fn connect(&self, _: SocketAddr) -> io::Result<Option<Arrival>> {
        match *self {}
    }

    /// Connects to another host over a link that needs a right to use.
    ///
    /// # Errors
    /// Always.
    pub fn connect_via(&self, _: &Carrier, _: SocketAddr) -> io::Result<Arrival> {
        match *self {}
    }

    /// Listens at an address of this host on such a link.
    ///
    /// # Errors
    /// Always.
    pub fn listen_via(&self, _: &Carrier, _: SocketAddr) -> io::Result<Registration> {
        match *self {}
    }
}

/// That this process listens at an address: on Linux only.
#[derive(Debug)]
pub enum Registration {}

impl Registration {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        match *self {}
    }

    /// Who has come, if somebody has.
    ///
    /// # Errors
    /// Always.
    pub fn try_accept(&self) -> io::Result<Option<Arrival>> {
        match *self {}
    }

    /// Who comes within the time.
    ///
    /// # Errors
    /// Always.
    pub fn accept_timeout(&self, _: Duration) -> io::Result<Option<Arrival>> {
        match *self {}
    }

    /// What is readable when somebody has come.
    pub fn readable_fd(&self) -> BorrowedFd<'_> {
        match *self {}
    }

    /// Ends it for everybody who has it.
    pub(crate) fn end(&self) {
        match *self {}
    }
}

/// A daemon: on Linux only.
#[derive(Debug)]
pub enum Daemon {}

impl Daemon {
    /// Makes the pool and the socket.
    ///
    /// # Errors
    /// Always.
    pub fn bind(_: &DaemonOptions) -> io::Result<Self> {
        no_daemon()
    }

    /// Serves.
    ///
    /// # Errors
    /// Always.
    pub fn run(&self) -> io::Result<()> {
        match *self {}
    }

    /// Ends [`run`](Self::run).
    pub fn stop(&self) {
        match *self {}
    }

    /// Where it serves.
    pub fn path(&self) -> &Path {
        match *self {}
    }

    /// The pool that it shares.
    pub fn pool(&self) -> &Pool {
        match *self {}
    }
}

/// Asks the daemon that serves at a path for its figures.
///
/// # Errors
/// Always.
pub fn statistics(_: impl AsRef<Path>) -> io::Result<Statistics> {
    no_daemon()
}
