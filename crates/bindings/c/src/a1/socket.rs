//! What stands behind a number: nothing yet, a bound socket, or a connection that was accepted.
//!
//! Always true: once somebody has asked for the descriptor, it is readable whenever accepting or receiving would not wait, and
//! when there is room again for what a call could not send; a call that finds nothing makes it unreadable until something
//! happens.

use super::buffers::Buffers;
use super::receiving::{self, Inbox, Message, Taken};
use super::records;
use crate::errors::Errno;
use crate::kept::{Kept, Numbers, Place, Table, lock};
use libc::c_int;
use pinnace::a1::{Connection, Full, Options, Qos, Refused, Sink, Socket as Bound, Status};
use pinnace::qmp::WakeFd;
use pinnace::{Error, a1};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// How long a sink that was removed has for what is queued, and the exit of the process for everything.
const LINGER: Duration = Duration::from_secs(5);

/// How often room is announced, at most: whoever receives for a while must not miss it, and who has given up sending must not
/// be woken for ever.
const ROOM: u32 = 1000;

/// Numbers are above all descriptors.
const FIRST: usize = 1 << 24;
static NUMBERS: Numbers = Numbers::new(1);

/// Sockets by their numbers, and their connections.
type Ended = (BTreeMap<usize, Arc<Socket>>, Vec<Connection>);

/// All of a process.
#[derive(Debug, Default)]
pub(super) struct Sockets {
    table: Table<Arc<Socket>>,
    pub(super) buffers: Buffers,
    /// What was there at the exit: to drop it would take time, and to forget it looks like a leak.
    ended: OnceLock<Ended>,
}

impl Kept for Sockets {
    const AT_EXIT: fn(&'static Self) = Self::end;

    fn place() -> &'static Place<Self> {
        static PLACE: Place<Sockets> = Place::new();
        &PLACE
    }
}

impl Sockets {
    pub(super) fn find(&self, number: c_int) -> Result<Arc<Socket>, Errno> {
        usize::try_from(number).ok().and_then(|number| self.table.find(number)).ok_or(Errno(libc::EBADF))
    }

    /// Takes one in; its number.
    pub(super) fn insert(&self, socket: Socket) -> Result<c_int, Errno> {
        let number = NUMBERS.give(c_int::MAX as usize - FIRST).ok_or(Errno(libc::EMFILE))? + FIRST;
        self.table.insert(number, Arc::new(socket));
        Ok(number as c_int)
    }

    /// Takes one out, which nobody finds any more.
    pub(super) fn remove(&self, number: c_int) -> Result<Arc<Socket>, Errno> {
        usize::try_from(number).ok().and_then(|number| self.table.remove(number)).ok_or(Errno(libc::EBADF))
    }

    /// All are closed at once, and have one time together.
    //= A-18
    fn end(&self) {
        let until = Instant::now() + LINGER;
        let all = self.table.take_all();
        let lines: Vec<Connection> =
            all.values().flat_map(|socket| socket.lines().into_iter().chain(socket.leaving())).collect();
        for line in &lines {
            // One that has ended needs no end.
            let _ = line.begin_close(LINGER);
        }
        for line in &lines {
            // As above.
            let _ = line.wait_closed(until.saturating_duration_since(Instant::now()));
        }
        let _ = self.ended.set((all, lines));
    }
}

/// What a socket is, once it is something: bound, with what its sinks send, and those that were removed but not ended; or
/// accepted.
#[derive(Debug)]
enum Role {
    Bound(Box<Bound>, Inbox, Mutex<Vec<Sink>>),
    Accepted(Connection),
}

/// See `a1_socket`.
#[derive(Debug, Default)]
pub(super) struct Socket {
    role: OnceLock<Role>,
    /// What the link carries, for whoever binds it: bytes a second and at once.
    link: Mutex<(u64, u32)>,
    /// What C polls, once it has asked.
    wake: OnceLock<Arc<WakeFd>>,
    /// Held while the descriptor is tied to what there is.
    tying: Mutex<()>,
    /// How often that there is room again is still to be announced; 0: nobody lacks any.
    room_left: AtomicU32,
}

impl Socket {
    fn accepted(connection: Connection) -> Self {
        Self { role: OnceLock::from(Role::Accepted(connection)), ..Self::default() }
    }

    fn bound(&self) -> Result<&Bound, Errno> {
        match self.role.get() {
            Some(Role::Bound(bound, ..)) => Ok(bound),
            _ => Err(Errno(libc::EINVAL)),
        }
    }

    /// The connections that it has: its sinks', or itself.
    fn lines(&self) -> Vec<Connection> {
        match self.role.get() {
            None => Vec::new(),
            Some(Role::Bound(bound, ..)) => bound.sinks().iter().map(|sink| sink.connection().clone()).collect(),
            Some(Role::Accepted(connection)) => vec![connection.clone()],
        }
    }

    /// Those of sinks that were removed.
    fn leaving(&self) -> Vec<Connection> {
        let Some(Role::Bound(_, _, leaving)) = self.role.get() else { return Vec::new() };
        lock(leaving).iter().map(|sink| sink.connection().clone()).collect()
    }

    //= A-11
    pub(super) fn set_link(&self, average: u64, burst: u32) -> Result<(), Errno> {
        if self.role.get().is_some() {
            return Err(Errno(libc::EINVAL));
        }
        *lock(&self.link) = (average, burst);
        Ok(())
    }

    //= A-12
    pub(super) fn bind(&self, address: u64, max: Qos) -> Result<(), Errno> {
        if self.role.get().is_some() {
            return Err(Errno(libc::EINVAL));
        }
        // `close` has its own linger, and has waited when the last handle is dropped.
        let (link_average, link_burst) = *lock(&self.link);
        let link_burst = link_burst.into();
        let options = Options { linger: Duration::ZERO, link_average, link_burst, ..Options::default() };
        let bind = |to: SocketAddr| Bound::bind_with(to, max, &options);
        let bound = match records::local(address)? {
            (Some(address), _) => bind(address),
            // Both families, as far as the system has them.
            (None, port) => bind((Ipv6Addr::UNSPECIFIED, port).into()).or_else(|error| match Errno::from(&error).0 {
                libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL => bind((Ipv4Addr::UNSPECIFIED, port).into()),
                _ => Err(error),
            }),
        };
        let _tying = lock(&self.tying);
        let role = Role::Bound(Box::new(bound?), Inbox::default(), Mutex::default());
        // Another thread may have been faster.
        self.role.set(role).map_err(|_| Errno(libc::EINVAL))?;
        self.tie()
    }

    /// The address of this end.
    pub(super) fn name(&self) -> Result<u64, Errno> {
        match self.role.get() {
            None => Err(Errno(libc::EINVAL)),
            Some(Role::Bound(bound, ..)) => Ok(records::joined(bound.local_addr())),
            Some(Role::Accepted(connection)) => Ok(records::joined(connection.local_addr())),
        }
    }

    pub(super) fn listen(&self, backlog: c_int) -> Result<(), Errno> {
        Ok(self.bound()?.listen(usize::try_from(backlog).unwrap_or(0))?)
    }

    /// The next that has come, and its address.
    pub(super) fn accept(&self, waits: bool) -> Result<(Self, u64), Errno> {
        let bound = self.bound()?;
        let connection = if waits { bound.accept()? } else { self.try_accept(bound)? };
        self.settle();
        let peer = records::joined(connection.peer_addr());
        Ok((Self::accepted(connection), peer))
    }

    fn try_accept(&self, bound: &Bound) -> Result<Connection, Errno> {
        if let Some(connection) = bound.try_accept()? {
            return Ok(connection);
        }
        let Some(wake) = self.wake.get() else { return Err(Errno(libc::EAGAIN)) };
        wake.clear();
        let found = bound.try_accept();
        // What can be received is still there, and room is.
        if self.is_receivable() || self.announces_room() {
            wake.signal();
        }
        found?.ok_or(Errno(libc::EAGAIN))
    }

    /// One more destination. Returns its status.
    //= A-12, A-15
    pub(super) fn add_sink(&self, address: u64, initial: Qos) -> Result<Status, Errno> {
        let bound = self.bound()?;
        let to = records::remote(address)?;
        if let Some(known) = bound.sinks().iter().find(|sink| sink.peer_addr() == to) {
            if known.result().is_none() {
                return Err(Errno(libc::EEXIST));
            }
            // One that has died makes room for the new one.
            let _ = bound.remove_sink(known, Duration::ZERO);
        }
        let sink = bound.add_sink(to, initial)?;
        let _tying = lock(&self.tying);
        if let Some(wake) = self.wake.get() {
            sink.watch_on(Arc::clone(wake))?;
        }
        Ok(sink.status())
    }

    pub(super) fn remove_sink(&self, address: u64) -> Result<(), Errno> {
        let Some(Role::Bound(bound, _, leaving)) = self.role.get() else { return Err(Errno(libc::EINVAL)) };
        let removed = match bound.remove_sink_at(records::remote(address)?, LINGER) {
            Err(Error::CallRefused(Refused::NoConnection)) => return Err(Errno(libc::ENOENT)),
            removed => removed?,
        };
        let mut leaving = lock(leaving);
        leaving.retain(|sink| sink.result().is_none());
        leaving.push(removed);
        Ok(())
    }

    //= A-15, A-16
    pub(super) fn send(&self, bytes: &[u8], waits: bool) -> Result<(), Errno> {
        let full = if waits { Full::Block } else { Full::Report };
        let sent = self.send_now(bytes, full);
        match sent {
            Ok(()) => self.room_left.store(0, Ordering::Relaxed),
            Err(Errno(libc::EAGAIN)) => {
                self.room_left.store(ROOM, Ordering::Relaxed);
                // Who has room by now has said so, perhaps to somebody who receives.
                if let Some(wake) = self.wake.get()
                    && self.has_room()
                {
                    wake.signal();
                }
            }
            Err(_) => {}
        }
        sent
    }

    fn send_now(&self, bytes: &[u8], full: Full) -> Result<(), Errno> {
        match self.role.get() {
            None => Err(Errno(libc::ENOTCONN)),
            Some(Role::Accepted(connection)) => Ok(connection.send_copy(bytes, full)?),
            Some(Role::Bound(bound, ..)) => match bound.send_copy(bytes, full) {
                Err(Error::CallRefused(Refused::NotConnected | Refused::NoConnection)) => {
                    // All that there were have ended, or there is none.
                    let ended = bound.sinks().iter().find_map(|sink| sink.result());
                    Err(match ended {
                        Some(Err(failure)) => Errno::from(Error::ConnectionFailed(failure)),
                        Some(Ok(())) => Errno(libc::EPIPE),
                        None => Errno(libc::ENOTCONN),
                    })
                }
                sent => Ok(sent?),
            },
        }
    }

    pub(super) fn receive(&self, into: &mut [u8], waits: bool) -> Result<Taken, Errno> {
        self.receiving(waits, |role, waits| match role {
            Role::Accepted(connection) => receiving::read(connection, into, waits),
            Role::Bound(bound, inbox, _) => inbox.read(bound, into, waits),
        })
    }

    /// A whole message (without retransmission: or what is there of one); `None`: the peer has closed.
    //= A-19
    pub(super) fn take(&self, waits: bool) -> Result<Option<Message>, Errno> {
        self.receiving(waits, |role, waits| match role {
            Role::Accepted(connection) => receiving::take(connection, waits),
            Role::Bound(bound, inbox, _) => inbox.take(bound, waits),
        })
    }

    /// Receives somehow; the descriptor says afterwards what is left.
    fn receiving<R>(&self, waits: bool, mut receive: impl FnMut(&Role, bool) -> Result<R, Errno>) -> Result<R, Errno> {
        let role = self.role.get().ok_or(Errno(libc::ENOTCONN))?;
        let again = Errno(libc::EAGAIN);
        let found = receive(role, waits);
        match self.wake.get() {
            Some(wake) if matches!(found, Err(error) if error == again) => {
                wake.clear();
                let found = receive(role, false);
                if found.is_ok() {
                    self.settle();
                } else if self.has_arrivals() || self.announces_room() {
                    wake.signal();
                }
                found
            }
            _ => {
                self.settle();
                found
            }
        }
    }

    fn is_receivable(&self) -> bool {
        match self.role.get() {
            None => false,
            Some(Role::Accepted(connection)) => receiving::is_receivable(connection),
            Some(Role::Bound(bound, inbox, _)) => inbox.is_receivable(bound),
        }
    }

    fn has_arrivals(&self) -> bool {
        self.bound().is_ok_and(Bound::has_arrivals)
    }

    /// Whether no connection's window is full. (The status itself would tell once what others are to be told.)
    fn has_room(&self) -> bool {
        let is_full = |line: Connection| line.facts().is_ok_and(|facts| facts.status.contains(Status::WINDOW_FULL));
        !self.lines().into_iter().any(is_full)
    }

    /// Whether the descriptor is to say that there is room again: the signal that said so is gone.
    fn announces_room(&self) -> bool {
        let take = |left: u32| left.checked_sub(1);
        self.room_left.load(Ordering::Relaxed) > 0
            && self.has_room()
            && self.room_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }

    /// Makes the descriptor say what is so now.
    fn settle(&self) {
        let Some(wake) = self.wake.get() else { return };
        wake.clear();
        if self.is_receivable() || self.has_arrivals() || self.announces_room() {
            wake.signal();
        }
    }

    /// Ties the descriptor, if there is one, to what there is.
    fn tie(&self) -> Result<(), Errno> {
        let Some(wake) = self.wake.get() else { return Ok(()) };
        if let Ok(bound) = self.bound() {
            bound.watch_on(Arc::clone(wake))?;
        }
        for line in self.lines() {
            line.watch_on(Arc::clone(wake))?;
        }
        self.settle();
        Ok(())
    }

    /// What C may poll.
    pub(super) fn descriptor(&self) -> Result<c_int, Errno> {
        let _tying = lock(&self.tying);
        if self.wake.get().is_none() {
            let wake = WakeFd::new().map_err(|error| Errno::from(&error))?;
            let _ = self.wake.set(Arc::new(wake));
            self.tie()?;
        }
        self.wake.get().map(|wake| wake.as_fd().as_raw_fd()).ok_or(Errno(libc::ENOMEM))
    }

    /// What is known beside data: of all sinks together.
    //= A-17
    pub(super) fn status(&self) -> Status {
        self.lines().iter().fold(Status::NONE, |status, line| status | line.status())
    }

    //= A-12
    pub(super) fn set_qos(&self, qos: Qos) -> Result<(), Errno> {
        match self.role.get() {
            Some(Role::Accepted(connection)) => Ok(connection.set_qos(qos)?),
            Some(Role::Bound(bound, ..)) if !bound.sinks().is_empty() => Ok(bound.set_qos(qos)?),
            _ => Err(Errno(libc::ENOTCONN)),
        }
    }

    /// The record in force; of a socket without sinks, its maximum.
    pub(super) fn qos(&self) -> Result<Qos, Errno> {
        match self.role.get() {
            None => Err(Errno(libc::EINVAL)),
            Some(Role::Accepted(connection)) => Ok(connection.qos()?),
            Some(Role::Bound(bound, ..)) => {
                let sinks = bound.sinks();
                let alive = sinks.iter().find(|sink| sink.result().is_none()).or(sinks.first());
                Ok(alive.and_then(|sink| sink.qos().ok()).unwrap_or_else(|| bound.max_qos()))
            }
        }
    }

    /// The round trip; of several sinks, the longest.
    //= A-8
    pub(super) fn round_trip(&self) -> Result<Duration, Errno> {
        let lines = self.lines();
        if lines.is_empty() {
            return Err(Errno(libc::ENOTCONN));
        }
        lines.iter().filter_map(Connection::round_trip).max().ok_or(Errno(libc::EAGAIN))
    }

    /// Ends it, and waits until what was queued has arrived.
    //= A-18
    pub(super) fn close(&self, linger: Duration) -> Result<(), Errno> {
        let closed = match self.role.get() {
            None => Ok(()),
            Some(Role::Bound(bound, _, leaving)) => {
                let until = Instant::now() + linger;
                let closed = bound.close(linger);
                let leaving = std::mem::take(&mut *lock(leaving));
                for sink in leaving {
                    // Nobody has asked how it ends.
                    let _ = sink.wait_closed(until.saturating_duration_since(Instant::now()));
                }
                closed
            }
            Some(Role::Accepted(connection)) => connection.close(linger),
        };
        closed.map_err(|error| match error {
            Error::Timeout | Error::ConnectionFailed(a1::Failure::LingerOver) => Errno(libc::ETIMEDOUT),
            error => error.into(),
        })
    }
}
