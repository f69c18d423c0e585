//! Who may use the daemon: users and namespaces, as the kernel names them.
//!
//! Always true: nothing here is taken from what a client says.

use crate::daemon::{Refusal, socket};
use std::fs;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

/// What the daemon admits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Admission {
    /// The daemon's own user.
    uid: u32,
    /// Members of this group as well.
    group: Option<u32>,
    /// The daemon's network namespace.
    namespace: Namespace,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Namespace {
    /// As sockets name it.
    Cookie(u64),
    /// As processes do, on systems whose sockets do not: an inode.
    Inode(u64),
}

/// A process that was admitted.
#[derive(Debug)]
pub(super) struct Process {
    /// 0: of a pid namespace that we do not see.
    pub(super) pid: u32,
    pub(super) uid: u32,
    /// Readable when it is dead.
    pub(super) alive: OwnedFd,
}

impl Admission {
    pub(super) fn new(listening: BorrowedFd<'_>, group: Option<u32>) -> io::Result<Self> {
        let namespace = match socket::network_namespace(listening) {
            Ok(cookie) => Namespace::Cookie(cookie),
            Err(_) => Namespace::Inode(inode("self", "net")?),
        };
        Ok(Self { uid: rustix::process::geteuid().as_raw(), group, namespace })
    }

    /// Looks at who has connected.
    pub(super) fn check(&self, client: BorrowedFd<'_>) -> Result<Process, Refusal> {
        let peer = socket::peer(client).map_err(|_| Refusal::System)?;
        let (pid, uid) = (peer.pid, peer.uid);
        let is_member = || self.group.is_some_and(|group| peer.gid == group || is_in_group(pid, group));
        if uid != self.uid && uid != 0 && !is_member() {
            return Err(Refusal::User);
        }
        let alive = socket::peer_process(client, pid).map_err(|_| Refusal::System)?;
        let namespace = match self.namespace {
            // Of the socket that connected; the process may since have gone elsewhere, its addresses have not.
            Namespace::Cookie(_) => socket::network_namespace(client).map(Namespace::Cookie),
            Namespace::Inode(_) => inode(&pid.to_string(), "net").map(Namespace::Inode),
        };
        if namespace.ok() != Some(self.namespace) {
            return Err(Refusal::Namespace);
        }
        Ok(Process { pid, uid, alive })
    }
}

/// The inode of a namespace of a process: the number in `net:[4026531840]`.
fn inode(pid: &str, kind: &str) -> io::Result<u64> {
    let link = fs::read_link(format!("/proc/{pid}/ns/{kind}"))?;
    let number = link.to_str().and_then(|text| text.strip_prefix(kind)?.strip_prefix(":[")?.strip_suffix(']'));
    number.and_then(|number| number.parse().ok()).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// A line of what the system says of a process.
fn status_line(pid: u32, name: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim().to_owned()))
}

fn is_in_group(pid: u32, group: u32) -> bool {
    status_line(pid, "Groups").is_some_and(|groups| groups.split_ascii_whitespace().any(|one| one.parse() == Ok(group)))
}

/// Whether a process may bind to a port below 1024: it has the capability, and in our user namespace. What cannot be seen
/// is taken for no.
pub(super) fn may_bind_low_ports(pid: u32) -> bool {
    /// The bit of CAP_NET_BIND_SERVICE.
    const BIND_SERVICE: u32 = 10;
    let is_ours = || inode(&pid.to_string(), "user").ok().is_some_and(|user| inode("self", "user").ok() == Some(user));
    let capabilities = status_line(pid, "CapEff").and_then(|mask| u64::from_str_radix(&mask, 16).ok());
    capabilities.is_some_and(|mask| mask >> BIND_SERVICE & 1 == 1) && is_ours()
}
