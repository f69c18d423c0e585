//! A client, as the daemon sees it.

use super::admission::Process;
use pinnace_qbuf::ClientId;
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::time::Instant;

/// How far a client has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// It has connected.
    New,
    /// It speaks our version: it has the pool's descriptor.
    Greeted,
    /// We know which client of the pool it is.
    Attached,
    /// Its socket is closed, but its process lives and may still use the pool.
    Left,
}

#[derive(Debug)]
pub(super) struct Client {
    pub(super) process: Process,
    /// There until it has left.
    pub(super) socket: Option<OwnedFd>,
    pub(super) stage: Stage,
    pub(super) since: Instant,
    /// Which clients of the pool it is: two if it talks with itself.
    pub(super) attached: Vec<ClientId>,
    pub(super) listeners: BTreeSet<u64>,
    pub(super) channels: BTreeSet<u32>,
    /// It had too many blocks when we last looked.
    pub(super) is_over: bool,
}

/// Clients of the pool that a process may be.
pub(super) const MOST_ATTACHED: usize = 2;

impl Client {
    pub(super) fn new(process: Process, socket: OwnedFd) -> Self {
        Self {
            process,
            socket: Some(socket),
            stage: Stage::New,
            since: Instant::now(),
            attached: Vec::new(),
            listeners: BTreeSet::new(),
            channels: BTreeSet::new(),
            is_over: false,
        }
    }
}
