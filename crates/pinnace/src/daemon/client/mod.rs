//! The using side: a process, and the daemon that it uses.

mod connection;
mod current;
mod registration;

use super::path::Places;
use super::protocol::{Reply, Request, Via};
use super::statistics::Statistics;
use super::{Refusal, socket};
use crate::qmp::Carrier;
use connection::Connection;
use pinnace_qbuf::channel::{Channel, Side};
use pinnace_qbuf::{Pool, PoolError};
pub use registration::Registration;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// A channel to another process, and who sits at its ends.
#[derive(Debug)]
pub struct Arrival {
    /// The channel.
    pub channel: Channel,
    /// The address of the other end: where one connected to, or an address of this host and a port number that no other
    /// channel of the daemon has.
    pub peer: SocketAddr,
    /// The address of this end.
    pub local: SocketAddr,
}

/// This process, as a client of a daemon.
///
/// Calls may come from any thread. A client belongs to the process that opened it: a child made by `fork` gets an error from
/// it, and [`Client::current`] gives it one of its own.
///
/// When it is dropped its registrations go on, and so do its channels.
#[derive(Debug)]
pub struct Client {
    connection: Connection,
    pool: Pool,
    /// The second client of the pool, for connections of this process with itself: a passage needs two.
    second: OnceLock<Pool>,
    path: PathBuf,
}

impl Client {
    /// The client of this process: of the daemon that the environment names (`PINNACE_DAEMON`, or `off`), or else of the one
    /// that this user or root runs at the usual place. `None`: there is none, or it does not want this process.
    ///
    /// It is made once, and kept. When the daemon has died a new one is looked for, once a second at most; what still holds the
    /// old client goes on with its channels and the old pool.
    pub fn current() -> Option<Arc<Self>> {
        current::current()
    }

    /// A client of the daemon that serves at `path`, whoever runs it.
    ///
    /// # Errors
    /// If nobody serves there ([`io::ErrorKind::NotFound`], [`io::ErrorKind::ConnectionRefused`]), or the daemon refuses: the
    /// source of the error is then a [`Refusal`](super::Refusal).
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        Self::of(Connection::open(path.as_ref())?, path.as_ref())
    }

    /// One of the daemons that the environment leads to. Of several that cannot be had, the error is of one that does not
    /// answer, if there is one: to look for that again takes time.
    fn find(places: &Places) -> io::Result<Self> {
        let paths = match places {
            Places::Off => return Err(io::ErrorKind::NotFound.into()),
            Places::Named(path) => return Self::open(path),
            Places::Usual(paths) => paths,
        };
        let mut failure = io::Error::from(io::ErrorKind::NotFound);
        for path in paths {
            let client = Connection::open(path).and_then(|connection| {
                connection.check_user()?;
                Self::of(connection, path)
            });
            match client {
                Ok(client) => return Ok(client),
                Err(error) if failure.kind() != io::ErrorKind::TimedOut => failure = error,
                Err(_) => {}
            }
        }
        Err(failure)
    }

    fn of(connection: Connection, path: &Path) -> io::Result<Self> {
        let pool = Pool::attach(connection.greet()?).map_err(of_pool)?;
        // No daemon makes one, because of which a client could make others fault: so a client has written that it is.
        if pool.options().guarded {
            let why = "somebody has changed what the pool of the daemon is";
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        let client = Self { connection, pool, second: OnceLock::new(), path: path.to_owned() };
        client.attach(&client.pool)?;
        Ok(client)
    }

    /// Tells the daemon which client of the pool this process is.
    fn attach(&self, pool: &Pool) -> io::Result<()> {
        match self.connection.ask(&Request::Attach(pool.client()))? {
            (Reply::Attached, _) => Ok(()),
            (other, _) => Err(unexpected(&other)),
        }
    }

    /// The pool that all clients of the daemon share.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Where the daemon serves.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the daemon was given up because it did not answer.
    fn has_timed_out(&self) -> bool {
        self.connection.has_timed_out()
    }

    /// Whether the daemon still serves. Asks the kernel.
    pub fn is_alive(&self) -> bool {
        self.connection.is_alive()
    }

    /// Listens at an address of this host: who connects to it through this daemon arrives. The port must be given, and the
    /// address is matched as a socket's is: the unspecified one stands for all of its family, `::` for those of IPv4 as well.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrInUse`] if a client of the daemon listens there, [`io::ErrorKind::AddrNotAvailable`] if it is no
    /// address of this host, [`io::ErrorKind::PermissionDenied`] for a port below 1024 without the right,
    /// [`io::ErrorKind::QuotaExceeded`], or if the daemon is gone.
    pub fn listen(&self, address: SocketAddr) -> io::Result<Registration> {
        self.register(&Request::Listen(address), address)
    }

    /// Asks for something that is answered with a socket on which more comes.
    fn register(&self, request: &Request, address: SocketAddr) -> io::Result<Registration> {
        match self.connection.ask(request)? {
            (Reply::Listening, mut fds) => {
                let socket = fds.pop().ok_or_else(socket::no_descriptors)?;
                Ok(Registration::new(socket, self.pool.clone(), address))
            }
            (other, _) => Err(unexpected(&other)),
        }
    }

    /// Connects to who listens at an address of this host. `None`: nobody does, through this daemon.
    ///
    /// What is sent before the other side has accepted waits for it. The channel's pool is [`Channel::pool`]: for a process
    /// that connects to itself it is another attachment than [`Client::pool`].
    ///
    /// # Errors
    /// [`io::ErrorKind::ConnectionRefused`] if too many wait to be accepted there, [`io::ErrorKind::QuotaExceeded`], or if the
    /// daemon is gone.
    pub fn connect(&self, to: SocketAddr) -> io::Result<Option<Arrival>> {
        match self.connect_as(to, &self.pool)? {
            (Reply::Yourself, _) => self.arrive(to, self.second()?),
            answer => self.take(answer, &self.pool),
        }
    }

    /// Connects to another host over a link that needs a right to use (protocol 36, Ethernet): the daemon, which has it, carries
    /// what goes through the channel. A stream that ends in order ends with an empty message.
    ///
    /// # Errors
    /// [`io::ErrorKind::ConnectionRefused`] if nobody listens there, [`io::ErrorKind::TimedOut`] if nobody answers,
    /// [`io::ErrorKind::Unsupported`] if the daemon may not use that link, [`io::ErrorKind::InvalidInput`] for a carrier that
    /// needs no daemon, [`io::ErrorKind::QuotaExceeded`].
    pub fn connect_via(&self, carrier: &Carrier, to: SocketAddr) -> io::Result<Arrival> {
        let request = Request::ConnectVia { via: via(carrier)?, to, client: self.pool.client() };
        let waiting = self.register(&request, to)?;
        let (reply, fds) = waiting.first_word(CARRIER_PATIENCE)?;
        self.take((reply, fds), &self.pool)?.ok_or_else(|| Refusal::Nobody.into())
    }

    /// Listens at an address of this host on such a link; see [`connect_via`](Self::connect_via).
    ///
    /// # Errors
    /// As [`listen`](Self::listen), and as [`connect_via`](Self::connect_via).
    pub fn listen_via(&self, carrier: &Carrier, address: SocketAddr) -> io::Result<Registration> {
        let registration = self.register(&Request::ListenVia { via: via(carrier)?, address }, address)?;
        match registration.first_word(CARRIER_PATIENCE)? {
            (Reply::Attached, _) => Ok(registration),
            (other, _) => Err(unexpected(&other)),
        }
    }

    fn arrive(&self, to: SocketAddr, pool: &Pool) -> io::Result<Option<Arrival>> {
        let answer = self.connect_as(to, pool)?;
        self.take(answer, pool)
    }

    fn connect_as(&self, to: SocketAddr, pool: &Pool) -> io::Result<(Reply, Vec<OwnedFd>)> {
        self.connection.ask(&Request::Connect { to, client: pool.client() })
    }

    fn take(&self, (reply, fds): (Reply, Vec<OwnedFd>), pool: &Pool) -> io::Result<Option<Arrival>> {
        match reply {
            Reply::Channel { local, peer } => {
                let channel = Channel::attach(pool, socket::channel(fds)?, Side::A)?;
                Ok(Some(Arrival { channel, peer, local }))
            }
            Reply::Nobody => Ok(None),
            other => Err(unexpected(&other)),
        }
    }

    fn second(&self) -> io::Result<&Pool> {
        if let Some(pool) = self.second.get() {
            return Ok(pool);
        }
        // Only one of several threads tells the daemon of its own.
        let mut result = Ok(());
        let lock = self.connection.second_attachment();
        if self.second.get().is_none() {
            let pool = self.pool.attach_beside().map_err(of_pool)?;
            result = self.attach(&pool).map(|()| drop(self.second.set(pool)));
        }
        drop(lock);
        result?;
        self.second.get().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

/// How long the daemon may take over another host.
const CARRIER_PATIENCE: Duration = Duration::from_secs(10);

fn via(carrier: &Carrier) -> io::Result<Via> {
    match carrier {
        Carrier::Ip36 => Ok(Via::Ip36),
        Carrier::Ether => Ok(Via::Ether),
        Carrier::Udp | Carrier::SharedMemory => {
            Err(io::Error::new(io::ErrorKind::InvalidInput, "this carrier needs no daemon that carries for it"))
        }
    }
}

fn of_pool(error: PoolError) -> io::Error {
    match error {
        PoolError::Io(error) => error,
        error => io::Error::other(error),
    }
}

/// The daemon is trusted, but not to be free of errors.
fn unexpected(reply: &Reply) -> io::Error {
    match reply {
        Reply::Refused(refusal) => (*refusal).into(),
        _ => io::Error::new(io::ErrorKind::InvalidData, "the daemon answered something else than it was asked"),
    }
}

/// Asks the daemon that serves at `path` for its figures, without becoming a client of its pool.
///
/// # Errors
/// As [`Client::open`].
pub fn statistics(path: impl AsRef<Path>) -> io::Result<Statistics> {
    let connection = Connection::open(path.as_ref())?;
    // Of no use, and closed.
    drop(connection.greet()?);
    let mut statistics = Statistics::default();
    match connection.ask(&Request::Totals)? {
        (Reply::Totals(totals), _) => statistics.totals = totals,
        (other, _) => return Err(unexpected(&other)),
    }
    let mut from = 0;
    loop {
        match connection.ask(&Request::Client(from))? {
            // Numbers rise, or we would go round in circles.
            (Reply::Client(client), _) if client.number >= from => {
                from = client.number.saturating_add(1);
                statistics.clients.push(client);
            }
            (Reply::NoClient, _) => return Ok(statistics),
            (other, _) => return Err(unexpected(&other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{SocketAddrUnix, SocketFlags};

    #[test]
    fn one_of_several_daemons_that_does_not_answer_is_not_passed_over_in_silence() {
        let directory = tempfile::tempdir().unwrap();
        let [silent, nobody] = ["silent.sock", "nobody.sock"].map(|name| directory.path().join(name));
        let listening = socket::new(SocketFlags::empty()).unwrap();
        rustix::net::bind(&listening, &SocketAddrUnix::new(&silent).unwrap()).unwrap();
        rustix::net::listen(&listening, 1).unwrap();
        for paths in [[silent.clone(), nobody.clone()], [nobody, silent]] {
            let error = Client::find(&Places::Usual(paths.to_vec())).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{paths:?}: {error}");
        }
    }
}
