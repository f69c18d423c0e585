//! Groups that a link joins and leaves while it works.
//!
//! A [`GroupsLink`] is a UDP link that hears everybody; its [`Memberships`] are a handle by which it is made a member of
//! groups, each with a port of its own. Every group has a socket, as in [`GroupLink`](super::GroupLink), so that any number
//! of programs of a machine are members.
//!
//! Always true: as long as there is no group, the link is its own socket and nothing else; what comes to the socket of a
//! group was sent to that group; what this host sends to a group comes back to the members on this host.

use super::readable::Readable;
use super::{MulticastOptions, UdpLink, UdpOptions};
use crate::{BufferTable, Descriptors, Link, LinkCounters, ReadBuffer, ReadOutcome, SendOutcome};
use pinnace_core::{Address, ReceivePlan, Train};
use std::io;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Groups that one link may be a member of.
const MOST_GROUPS: usize = 64;

/// What a link and its memberships share.
#[derive(Debug)]
struct Shared {
    own_fd: RawFd,
    udp: UdpOptions,
    multicast: MulticastOptions,
    /// When a socket is; made with the first group.
    readable: OnceLock<Readable>,
    /// `members` is not what the link reads.
    has_changed: AtomicBool,
    members: Mutex<Vec<Member>>,
}

/// A group, and how often it was joined.
#[derive(Debug)]
struct Member {
    group: SocketAddr,
    uses: usize,
    /// Its socket, until the link takes it.
    link: Option<Box<UdpLink>>,
}

impl Shared {
    fn members(&self) -> MutexGuard<'_, Vec<Member>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The descriptor that is readable when `fd` is, and when those before it are.
    fn watch(&self, fd: RawFd) -> io::Result<()> {
        let readable = match self.readable.get() {
            Some(readable) => readable,
            None => {
                let readable = Readable::new()?;
                readable.add(self.own_fd)?;
                self.readable.get_or_init(|| readable)
            }
        };
        readable.add(fd)
    }
}

/// Joins groups for a [`GroupsLink`], and leaves them. What is called here, the link knows with its next read.
#[derive(Debug)]
pub struct Memberships {
    shared: Arc<Shared>,
}

impl Memberships {
    /// Joins a group; one that was joined already, once more.
    ///
    /// # Errors
    /// If `group` is no group of the link's family, no interface leads there, or the link is a member of 64.
    pub fn join(&mut self, group: SocketAddr) -> io::Result<()> {
        let mut members = self.shared.members();
        if let Some(member) = members.iter_mut().find(|member| member.group == group) {
            member.uses += 1;
            return Ok(());
        }
        if members.len() >= MOST_GROUPS {
            return Err(io::Error::new(io::ErrorKind::QuotaExceeded, "the link is a member of 64 groups"));
        }
        if !group.ip().is_multicast() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut link = UdpLink::bind_shared(group, &self.shared.udp)?;
        link.join_multicast(group.ip(), &self.shared.multicast)?;
        self.shared.watch(link.descriptors().readable)?;
        members.push(Member { group, uses: 1, link: Some(Box::new(link)) });
        self.shared.has_changed.store(true, Ordering::Release);
        Ok(())
    }

    /// Leaves a group, if it was left as often as it was joined.
    pub fn leave(&mut self, group: SocketAddr) {
        let mut members = self.shared.members();
        if let Some(at) = members.iter().position(|member| member.group == group) {
            members[at].uses -= 1;
            if members[at].uses == 0 {
                members.remove(at);
                self.shared.has_changed.store(true, Ordering::Release);
            }
        }
    }
}

/// A UDP link that joins groups while it works. See the module [`GroupLink`](super::GroupLink) for one that has a group from
/// the beginning.
///
/// ```
/// use pinnace_link::{GroupsLink, Link, MulticastOptions, UdpLink, UdpOptions};
/// # fn main() -> std::io::Result<()> {
/// let (udp, multicast) = (UdpOptions::default(), MulticastOptions::default());
/// let own = UdpLink::bind("127.0.0.1:0".parse().unwrap(), &udp)?;
/// let (link, mut memberships) = GroupsLink::new(own, &udp, &multicast)?;
/// assert!(memberships.join("10.1.2.3:4000".parse().unwrap()).is_err(), "that is no group");
/// assert_eq!(link.counters().reads, 0);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct GroupsLink {
    own: UdpLink,
    groups: Vec<(SocketAddr, UdpLink)>,
    /// What groups that were left have seen.
    past: LinkCounters,
    /// Whose turn it is to be read first; `groups.len()` is the link's own socket.
    turn: usize,
    shared: Arc<Shared>,
}

impl GroupsLink {
    /// A link that can join groups, and sends to groups as `multicast` says.
    ///
    /// # Errors
    /// If there is no such interface, or if the descriptor is the caller's.
    pub fn new(mut own: UdpLink, udp: &UdpOptions, multicast: &MulticastOptions) -> io::Result<(Self, Memberships)> {
        if *multicast != MulticastOptions::default() {
            own.send_multicast(std::net::Ipv4Addr::UNSPECIFIED.into(), multicast)?;
        }
        let shared = Arc::new(Shared {
            own_fd: own.descriptors().readable,
            udp: udp.clone(),
            multicast: *multicast,
            readable: OnceLock::new(),
            has_changed: AtomicBool::new(false),
            members: Mutex::default(),
        });
        let memberships = Memberships { shared: Arc::clone(&shared) };
        Ok((Self { own, groups: Vec::new(), past: LinkCounters::default(), turn: 0, shared }, memberships))
    }

    /// The link's own socket.
    pub fn own(&self) -> &UdpLink {
        &self.own
    }

    /// Takes over what its memberships have become.
    #[cold]
    fn follow(&mut self) {
        let mut members = self.shared.members();
        // Of a group that was left and joined again since, the socket is a new one.
        let is_over = |group: SocketAddr| members.iter().all(|member| member.group != group || member.link.is_some());
        for (_, left) in self.groups.extract_if(.., |(group, _)| is_over(*group)) {
            self.past.add_reads(&left.counters());
        }
        for member in members.iter_mut() {
            self.groups.extend(member.link.take().map(|link| (member.group, *link)));
        }
    }
}

impl Link for GroupsLink {
    forward_sizes!(own);

    fn send(&mut self, train: &Train, memory: &BufferTable) -> io::Result<SendOutcome> {
        self.own.send(train, memory)
    }

    fn receive(&mut self, plan: &ReceivePlan, memory: &BufferTable, pool: &mut ReadBuffer) -> io::Result<ReadOutcome> {
        if self.shared.has_changed.load(Ordering::Relaxed) && self.shared.has_changed.swap(false, Ordering::Acquire) {
            self.follow();
        }
        if self.groups.is_empty() {
            return self.own.receive(plan, memory, pool);
        }
        let sockets = self.groups.len() + 1;
        for _ in 0..sockets {
            self.turn = (self.turn + 1) % sockets;
            let outcome = match self.groups.get_mut(self.turn) {
                Some((group, link)) => match link.receive(plan, memory, pool)? {
                    ReadOutcome::Received(mut read) => {
                        read.meta.destination = Some(Address::Inet(*group));
                        ReadOutcome::Received(read)
                    }
                    outcome => outcome,
                },
                None => self.own.receive(plan, memory, pool)?,
            };
            if !matches!(outcome, ReadOutcome::Empty) {
                return Ok(outcome);
            }
        }
        if let Some(readable) = self.shared.readable.get() {
            readable.settle();
        }
        Ok(ReadOutcome::Empty)
    }

    /// The readable one changes with the first group: who sleeps on the other then hears of groups with what comes next.
    fn descriptors(&self) -> Descriptors {
        let own = self.own.descriptors();
        self.shared.readable.get().map_or(own, |all| Descriptors::new(all.as_raw_fd(), own.writable))
    }

    fn counters(&self) -> LinkCounters {
        let mut sum = self.own.counters();
        sum.add_reads(&self.past);
        for (_, link) in &self.groups {
            sum.add_reads(&link.counters());
        }
        sum
    }
}
