//! How the command ends: an exit code that scripts can rely on, and one line for people.

use rustix::io::Errno;
use std::fmt;
use std::io;
use std::net::SocketAddr;

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
        // Names of files, and what peers say, may contain anything; an error is one line all the same, that no terminal obeys.
        Self { exit, message: message.into().replace(char::is_control, " ") }
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
        Self::failed(format!("{action}: {error}{}", advice(error)))
    }

    /// Why nobody can listen there, and what would help.
    pub(crate) fn listen(address: impl fmt::Display, error: &io::Error) -> Self {
        let advice = match error.kind() {
            // Where the library has found out itself that no interface has it, it has said so.
            io::ErrorKind::AddrNotAvailable if error.raw_os_error().is_some() => {
                "; no interface of this host has that address: `ip address` shows those that there are, and 0.0.0.0 or \
                 [::] means all of them"
            }
            io::ErrorKind::PermissionDenied => {
                "; ports below 1024 need root: choose another one, or run the command with sudo"
            }
            _ if lacks_interface(&address.to_string()) => LACKS_INTERFACE,
            _ => advice(error),
        };
        Self::failed(format!("cannot listen on {address}: {error}{advice}"))
    }

    /// Why nothing can be sent to `peer`, and what would help. `action` is what was tried, with it.
    fn reach(action: &str, peer: &str, error: &io::Error) -> Self {
        let advice = match error.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::ACCESS) => {
                "; broadcast addresses cannot be used, nor can what a route of this host prohibits: name one host, or a \
                 multicast group where there may be one"
            }
            Some(Errno::ADDRNOTAVAIL) if peer.starts_with('[') => {
                "; this host has no address to send from: IPv6 may be switched off here (`ip -6 address` shows what there is)"
            }
            Some(Errno::INVAL) if lacks_interface(peer) => LACKS_INTERFACE,
            _ => advice(error),
        };
        Self::failed(format!("{action}: {error}{advice}"))
    }
}

const LACKS_INTERFACE: &str = "; this address is another one on every network: say through which interface, as in [fe80::1%eth0]:4747 \
     (`ip link` shows those that there are)";

/// Whether an address means a host of one network, and does not say which network.
fn lacks_interface(address: &str) -> bool {
    let Ok(SocketAddr::V6(address)) = address.parse() else { return false };
    address.ip().is_unicast_link_local() && address.scope_id() == 0
}

/// What may help against `error`.
pub(crate) fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => "; another program has the port: choose another one, or end that program",
        io::ErrorKind::StorageFull => "; free some space and run the command again",
        io::ErrorKind::PermissionDenied => "; check the owner and the permissions",
        io::ErrorKind::FileTooLarge => "; raise `ulimit -f`, or choose a file system that takes files as large",
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

impl From<&pinnace::Error> for Error {
    fn from(error: &pinnace::Error) -> Self {
        match error {
            pinnace::Error::Io { action, source } => {
                // The advice hangs on the words of the library.
                let peer =
                    ["cannot open a socket to ", "cannot reach "].iter().find_map(|tried| action.strip_prefix(tried));
                peer.map_or_else(|| Self::io(action, source), |peer| Self::reach(action, peer, source))
            }
            pinnace::Error::Listen { address, source } => Self::listen(address, source),
            _ => Self::failed(error.to_string()),
        }
    }
}

impl From<pinnace::Error> for Error {
    fn from(error: pinnace::Error) -> Self {
        Self::from(&error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_terminal_obeys_what_a_name_or_a_peer_says() {
        let said = Error::failed("it says \x1b]0;owned\x07\x1b[2J\r\nall\tdelivered \u{9b}8m ü").message;
        assert_eq!(said, "it says  ]0;owned  [2J  all delivered  8m ü");
    }

    #[test]
    fn what_may_help_depends_on_what_was_tried() {
        let listening = |address: &str, errno: Errno| Error::listen(address, &errno.into()).message;
        let low = listening("127.0.0.1:80", Errno::ACCESS);
        assert!(low.starts_with("cannot listen on 127.0.0.1:80: "), "{low}");
        assert!(low.contains("below 1024") && !low.contains("owner"), "{low}");
        assert!(Error::io("cannot read notes", &Errno::ACCESS.into()).message.contains("owner"));
        assert!(listening("203.0.113.1:80", Errno::ADDRNOTAVAIL).contains("no interface"));
        assert!(listening("127.0.0.1:80", Errno::ADDRINUSE).contains("another program"));
    }

    #[test]
    fn who_cannot_be_reached_is_told_why() {
        let reaching = |peer: &str, errno: Errno| {
            let action = format!("cannot open a socket to {peer}");
            Error::from(pinnace::Error::Io { action, source: errno.into() }).message
        };
        let broadcast = reaching("192.0.2.255:7", Errno::ACCESS);
        assert!(broadcast.contains("broadcast") && !broadcast.contains("owner"), "{broadcast}");
        assert!(reaching("[2001:db8::1]:7", Errno::ADDRNOTAVAIL).contains("IPv6 may be switched off"));
        assert!(!reaching("192.0.2.1:7", Errno::ADDRNOTAVAIL).contains("IPv6"));
        assert!(reaching("[fe80::1]:7", Errno::INVAL).contains("[fe80::1%eth0]"));
        assert!(!reaching("[fe80::1%2]:7", Errno::INVAL).contains("eth0"));
        assert!(Error::listen("[fe80::1]:7", &Errno::INVAL.into()).message.contains("[fe80::1%eth0]"));
    }

    #[test]
    fn what_the_library_has_said_is_not_said_again() {
        let why = io::Error::new(io::ErrorKind::AddrNotAvailable, "no interface of this host has this address");
        let told = Error::listen("203.0.113.1", &why).message;
        assert_eq!(told.matches("no interface").count(), 1, "{told}");
    }
}
