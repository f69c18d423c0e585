//! Why a daemon does not do what it was asked for.

use std::{fmt, io};

/// Why a daemon refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
#[non_exhaustive]
pub enum Refusal {
    /// It speaks another version of the protocol.
    Version = 1,
    /// It serves other users.
    User = 2,
    /// It is in another network namespace: addresses mean other things there.
    Namespace = 3,
    /// One of its limits is reached.
    Limit = 4,
    /// Somebody listens there already.
    InUse = 5,
    /// A port below 1024 needs a privilege (`CAP_NET_BIND_SERVICE`).
    Privileged = 6,
    /// No address of this host, or port 0.
    NotLocal = 7,
    /// Who listens there has not accepted those who came before.
    Busy = 8,
    /// Something that the client has not the right to say, or not yet.
    OutOfTurn = 9,
    /// The system had no descriptors or no memory left.
    System = 10,
    /// It may not use that link itself, or has none.
    NoLink = 11,
    /// Nobody listens on the other host.
    Nobody = 12,
    /// The other host does not answer.
    Silence = 13,
}

impl Refusal {
    pub(super) fn from_bits(bits: u32) -> Option<Self> {
        Some(match bits {
            1 => Self::Version,
            2 => Self::User,
            3 => Self::Namespace,
            4 => Self::Limit,
            5 => Self::InUse,
            6 => Self::Privileged,
            7 => Self::NotLocal,
            8 => Self::Busy,
            9 => Self::OutOfTurn,
            10 => Self::System,
            11 => Self::NoLink,
            12 => Self::Nobody,
            13 => Self::Silence,
            _ => return None,
        })
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Version => "the daemon speaks another version",
            Self::User => "the daemon serves other users",
            Self::Namespace => "the daemon is in another network namespace",
            Self::Limit => "the daemon's limit is reached",
            Self::InUse => "somebody listens at this address already",
            Self::Privileged => "a port this low needs CAP_NET_BIND_SERVICE",
            Self::NotLocal => "this is no address of this host that one can listen at",
            Self::Busy => "whoever listens there does not accept",
            Self::OutOfTurn => "the daemon was asked out of turn",
            Self::System => "the daemon has no descriptors or no memory left",
            Self::NoLink => "the daemon cannot use this link: it may need CAP_NET_RAW",
            Self::Nobody => "nobody listens there",
            Self::Silence => "the other host does not answer",
        })
    }
}

impl std::error::Error for Refusal {}

impl From<Refusal> for io::Error {
    fn from(refusal: Refusal) -> Self {
        let kind = match refusal {
            Refusal::Version => io::ErrorKind::Unsupported,
            Refusal::User | Refusal::Namespace | Refusal::Privileged => io::ErrorKind::PermissionDenied,
            Refusal::Limit => io::ErrorKind::QuotaExceeded,
            Refusal::InUse => io::ErrorKind::AddrInUse,
            Refusal::NotLocal => io::ErrorKind::AddrNotAvailable,
            Refusal::Busy | Refusal::Nobody => io::ErrorKind::ConnectionRefused,
            Refusal::NoLink => io::ErrorKind::Unsupported,
            Refusal::Silence => io::ErrorKind::TimedOut,
            Refusal::OutOfTurn => io::ErrorKind::InvalidInput,
            Refusal::System => io::ErrorKind::OutOfMemory,
        };
        Self::new(kind, refusal)
    }
}
