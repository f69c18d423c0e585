//! How the command ends: an exit code that scripts can rely on, and one line for people.

use rustix::io::Errno;
use std::fmt;
use std::io;

/// Exit codes, documented in `pinnace --help`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// Everything was done and, where there is something to verify, verified.
    Done = 0,
    /// It failed.
    Failed = 1,
    /// The arguments do not make sense (clap uses the same code).
    Usage = 2,
    /// The peer is gone, or did not answer in time.
    PeerGone = 3,
    /// What arrived is not what was sent, or a peer asked for something unsafe.
    NotVerified = 4,
    /// Ctrl-C, or another signal that asks to end.
    Interrupted = 130,
    /// Nobody reads standard output any more: as after SIGPIPE, and as quietly.
    Unread = 141,
}

/// Whether the system has no descriptors left, for this program (`EMFILE`) or for all (`ENFILE`).
pub(crate) fn lacks_descriptors(error: &io::Error) -> bool {
    [Errno::MFILE, Errno::NFILE].iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// What happened, to whom, and what to do: one plain line, and the exit code.
#[derive(Debug)]
pub(crate) struct Error {
    pub(crate) exit: Exit,
    pub(crate) message: String,
}

impl Error {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        // Names of files may contain anything; an error is one line all the same.
        Self { exit, message: message.into().replace(['\n', '\r'], " ") }
    }

    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::new(Exit::Failed, message)
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    pub(crate) fn peer_gone(message: impl Into<String>) -> Self {
        Self::new(Exit::PeerGone, message)
    }

    pub(crate) fn not_verified(message: impl Into<String>) -> Self {
        Self::new(Exit::NotVerified, message)
    }

    pub(crate) fn interrupted() -> Self {
        Self::new(Exit::Interrupted, "interrupted")
    }

    pub(crate) fn unread() -> Self {
        Self::new(Exit::Unread, "nobody reads standard output any more")
    }

    /// What keeps standard output from being written, where all that comes goes there.
    pub(crate) fn output(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::unread(),
            _ => Self::io("cannot write to standard output", error),
        }
    }

    /// Whether the command ends because somebody wants it to, who need not be told why.
    pub(crate) fn is_wanted(&self) -> bool {
        matches!(self.exit, Exit::Interrupted | Exit::Unread)
    }

    /// What was tried, and what the system said.
    pub(crate) fn io(action: impl fmt::Display, error: &io::Error) -> Self {
        let action = action.to_string();
        Self::failed(format!("{action}: {error}{}", advice(&action, error)))
    }
}

/// What may help against `error`, of which it is said what was tried.
pub(crate) fn advice(said: &str, error: &io::Error) -> &'static str {
    // What the library says where it binds a port.
    let is_listening = said.starts_with("cannot listen on");
    match error.kind() {
        io::ErrorKind::AddrInUse => "; another program has the port: choose another one, or end that program",
        io::ErrorKind::StorageFull => "; free some space and run the command again",
        io::ErrorKind::AddrNotAvailable if is_listening => {
            "; no interface of this host has that address: `ip address` shows those that there are, and 0.0.0.0 or [::] \
             means all of them"
        }
        io::ErrorKind::PermissionDenied if is_listening => {
            "; ports below 1024 need root: choose another one, or run the command with sudo"
        }
        io::ErrorKind::PermissionDenied => "; check the owner and the permissions",
        _ if error.raw_os_error() == Some(Errno::MFILE.raw_os_error()) => {
            "; start this program with a higher `ulimit -n`"
        }
        _ if lacks_descriptors(error) => "; end programs that have many files open, or raise `sysctl fs.file-max`",
        _ => "",
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

impl From<pinnace::Error> for Error {
    fn from(error: pinnace::Error) -> Self {
        match &error {
            pinnace::Error::Io { action, source } => Self::io(action, source),
            _ => Self::failed(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_help_depends_on_what_was_tried() {
        let advice = |action: &str, errno: Errno| Error::io(action, &errno.into()).message;
        let low = advice("cannot listen on 127.0.0.1:80", Errno::ACCESS);
        assert!(low.contains("below 1024") && !low.contains("owner"), "{low}");
        assert!(advice("cannot read notes", Errno::ACCESS).contains("owner"));
        assert!(advice("cannot listen on 203.0.113.1:80", Errno::ADDRNOTAVAIL).contains("no interface"));
        assert!(advice("cannot listen on 127.0.0.1:80", Errno::ADDRINUSE).contains("another program"));
    }
}
