//! Why a pool refuses.

use std::fmt;
use std::io;

/// Why a pool, or a qbuf of it, was refused.
#[derive(Debug)]
#[non_exhaustive]
pub enum PoolError {
    /// The file is no pool: its first bytes are others.
    NotAPool,
    /// The pool was made by another version of this library (B-9).
    Version(u32),
    /// The sizes in the pool do not fit together, or not its file.
    Geometry,
    /// The file could be made smaller while it is in use.
    NotSealed,
    /// The pool has as many clients as it can have.
    Full,
    /// No block, or not the first block of a qbuf, lies there.
    NotInPool,
    /// Somebody else has the qbuf, or nobody: it was passed on or freed.
    NotOwner,
    /// This process has its share of the pool.
    Share,
    /// The pool belongs to the process that this one was forked from.
    Forked,
    /// The system refused.
    Io(io::Error),
}

impl fmt::Display for PoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAPool => f.write_str("not a buffer pool"),
            Self::Version(version) => {
                write!(f, "the buffer pool has version {version}, this library version {}", crate::layout::VERSION)
            }
            Self::Geometry => f.write_str("the sizes of the buffer pool contradict each other"),
            Self::NotSealed => f.write_str("the memory of the buffer pool is not sealed against shrinking"),
            Self::Full => f.write_str("the buffer pool has no room for another client"),
            Self::NotInPool => f.write_str("no buffer of the pool starts at this place"),
            Self::NotOwner => f.write_str("the buffer belongs to somebody else, or to nobody"),
            Self::Share => f.write_str("this process has its share of the buffer pool: free or send some first"),
            Self::Forked => f.write_str("the buffer pool belongs to the parent process: attach to it anew"),
            Self::Io(error) => write!(f, "the memory of the buffer pool: {error}"),
        }
    }
}

impl std::error::Error for PoolError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for PoolError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<rustix::io::Errno> for PoolError {
    fn from(error: rustix::io::Errno) -> Self {
        Self::Io(error.into())
    }
}
