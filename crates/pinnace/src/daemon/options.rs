//! How a daemon is set up.

use pinnace_qbuf::PoolOptions;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// What clients can make the daemon keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Processes that are connected, or have been and still use the pool. A pool has at most 1,024 clients.
    pub clients: usize,
    /// Connections of one process.
    pub connections_per_process: usize,
    /// Addresses that one client listens at.
    pub listeners_per_client: usize,
    /// Channels of one client.
    pub channels_per_client: usize,
    /// Channels of all.
    pub channels: usize,
    /// Arrivals at one listener that it has not accepted.
    pub pending_per_listener: usize,
    /// Blocks of the pool that one client may have for itself, in percent of all; it gets no more. Who takes them all the same,
    /// past this library, is dropped, and they are taken from it. What is on its way to another does not count.
    pub blocks_per_client_percent: u8,
    /// Connections to other hosts over links that are the daemon's alone, of all clients, and addresses that they listen at
    /// there. Each costs two threads, or one.
    pub bridges: usize,
    /// How long a client may take to say who it is, and to sit down on a channel that it asked for.
    pub handshake: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            clients: 256,
            connections_per_process: 8,
            listeners_per_client: 256,
            channels_per_client: 4096,
            channels: 8192,
            pending_per_listener: 128,
            blocks_per_client_percent: 75,
            bridges: 64,
            handshake: Duration::from_secs(5),
        }
    }
}

/// How a daemon is set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaemonOptions {
    /// The path of its socket; by default [`default_path`](super::default_path).
    pub socket: Option<PathBuf>,
    /// The pool that it makes; not a guarded one, which is for processes that believe each other.
    pub pool: PoolOptions,
    /// The permissions of the socket. Others than the daemon's user and root need `group`.
    pub mode: u32,
    /// The number of a group whose members it serves as well; `mode` has to let them in.
    pub group: Option<u32>,
    /// Messages that can be on their way in one direction of a channel.
    pub channel_slots: u32,
    /// What clients can make it keep.
    pub limits: Limits,
}

impl Default for DaemonOptions {
    /// A pool of 64 MiB, for this user alone.
    fn default() -> Self {
        Self {
            socket: None,
            pool: PoolOptions { zones: 512, ..PoolOptions::default() },
            mode: 0o600,
            group: None,
            channel_slots: 1024,
            limits: Limits::default(),
        }
    }
}

impl DaemonOptions {
    pub(super) fn check(&self) -> io::Result<()> {
        let why = if self.mode & !0o777 != 0 || self.mode & 0o007 != 0 {
            "the mode of the socket may not let everybody in: use a group"
        } else if self.mode & 0o070 != 0 && self.group.is_none() {
            "the mode of the socket lets a group in, but no group was named"
        } else if self.pool.guarded {
            "the pool of a daemon cannot be guarded: a client that lies of who has what could make others fault"
        } else if !(1..=100).contains(&self.limits.blocks_per_client_percent) {
            "a client's share of the pool is 1 to 100 percent"
        } else if self.limits.clients == 0 || self.limits.clients > 500 {
            // Each may have two clients of the pool.
            "a daemon has 1 to 500 clients"
        } else {
            return Ok(());
        };
        Err(io::Error::new(io::ErrorKind::InvalidInput, why))
    }
}
