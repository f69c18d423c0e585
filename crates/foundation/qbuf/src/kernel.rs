//! What the kernel knows about processes: who we are, and who is dead.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

use rustix::io::Errno;
use rustix::process::{Pid, getpid};

use crate::host::Process;
use crate::recovery::{Identity, Judge};

/// Asks the kernel, from the pid namespace of this process.
#[derive(Debug)]
pub(crate) struct Kernel {
    me: Identity,
    namespace: u64,
}

impl Kernel {
    pub(crate) fn new() -> io::Result<Self> {
        let pid = getpid().as_raw_nonzero().get().cast_unsigned();
        // Without /proc: pids alone, and nobody is taken for dead because of another's start time.
        let start = start_time("self").unwrap_or(0);
        let namespace = fs::metadata("/proc/self/ns/pid").map_or(0, |data| data.ino());
        Ok(Self { me: Identity::new(pid, start), namespace })
    }

    pub(crate) fn identity(&self) -> Identity {
        self.me
    }

    pub(crate) fn namespace(&self) -> u64 {
        self.namespace
    }
}

impl Judge for Kernel {
    //= B-12
    fn is_dead(&self, identity: Identity, namespace: u64) -> bool {
        if identity == self.me {
            return false;
        }
        // A number means another process there; only the daemon, which holds its socket, can know.
        if namespace != self.namespace {
            return false;
        }
        let Some(pid) = Pid::from_raw(identity.pid().cast_signed()) else { return true };
        let is_other = || {
            let start = start_time(&identity.pid().to_string());
            identity.start() != 0 && start.is_some_and(|start| Identity::new(identity.pid(), start) != identity)
        };
        match Process::open(pid) {
            // The descriptor comes before the start time: while it says alive, the number cannot have changed hands.
            Ok(process) => is_other() || process.has_ended(),
            Err(Errno::SRCH) => true,
            Err(_) => is_other(),
        }
    }
}

/// When a process started, in clock ticks since boot. `None`: no such process, or not for us to know.
fn start_time(pid: &str) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may hold anything; the start time is field 22, the name field 2.
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    //= B-12 test
    #[test]
    fn the_dead_are_told_from_the_living() {
        let kernel = Kernel::new().unwrap();
        assert!(!kernel.is_dead(kernel.identity(), kernel.namespace()));
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let start = start_time(&child.id().to_string()).unwrap();
        let identity = Identity::new(child.id(), start);
        assert!(!kernel.is_dead(identity, kernel.namespace()));
        assert!(kernel.is_dead(Identity::new(child.id(), start - 1), kernel.namespace()), "the number was given anew");
        child.kill().unwrap();
        // Not reaped yet: a zombie is dead.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while !kernel.is_dead(identity, kernel.namespace()) {
            assert!(std::time::Instant::now() < deadline, "a killed process stays alive");
            std::thread::yield_now();
        }
        assert!(!kernel.is_dead(identity, kernel.namespace() + 1), "a number of another namespace says nothing");
        child.wait().unwrap();
        assert!(kernel.is_dead(identity, kernel.namespace()));
        assert!(kernel.is_dead(Identity::new(0, 0), kernel.namespace()));
    }
}
