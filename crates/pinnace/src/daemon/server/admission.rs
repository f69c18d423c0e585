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

/// What the system says of a process, all at one moment.
struct Status(String);

impl Status {
    fn read(pid: u32) -> Option<Self> {
        fs::read_to_string(format!("/proc/{pid}/status")).ok().map(Self)
    }

    fn line(&self, name: &str) -> Option<&str> {
        self.0.lines().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim()))
    }

    fn effective_uid(&self) -> Option<u32> {
        self.line("Uid")?.split_ascii_whitespace().nth(1)?.parse().ok()
    }
}

fn is_in_group(pid: u32, group: u32) -> bool {
    let is_in = |groups: &str| groups.split_ascii_whitespace().any(|one| one.parse() == Ok(group));
    Status::read(pid).is_some_and(|status| status.line("Groups").is_some_and(is_in))
}

/// Whether a process may bind to a port below 1024: it has the capability, in our user namespace, and as the user who has
/// connected. A program that is somebody else's by its set-user-ID bit does not lend its rights to whoever started it and has
/// kept the connection. What cannot be seen is taken for no.
pub(super) fn may_bind_low_ports(process: &Process) -> bool {
    /// The bit of CAP_NET_BIND_SERVICE.
    const BIND_SERVICE: u32 = 10;
    let Some(status) = Status::read(process.pid) else { return false };
    let user = |pid: &str| inode(pid, "user").ok();
    let is_ours = || user(&process.pid.to_string()).is_some_and(|theirs| user("self") == Some(theirs));
    let capabilities = status.line("CapEff").and_then(|mask| u64::from_str_radix(mask, 16).ok());
    capabilities.is_some_and(|mask| mask >> BIND_SERVICE & 1 == 1)
        && status.effective_uid() == Some(process.uid)
        && is_ours()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::thread::{CapabilitySet, capabilities};

    #[test]
    fn a_right_that_a_process_has_as_another_user_is_not_its_own() {
        let process = |uid| {
            let alive = fs::File::open("/dev/null").expect("it is there").into();
            Process { pid: std::process::id(), uid, alive }
        };
        let uid = rustix::process::geteuid().as_raw();
        let has_right = capabilities(None).expect("or none").effective.contains(CapabilitySet::NET_BIND_SERVICE);
        assert_eq!(may_bind_low_ports(&process(uid)), has_right);
        assert!(!may_bind_low_ports(&process(uid + 1)));
    }
}
