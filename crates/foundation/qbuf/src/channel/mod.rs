//! Channels: how a message passes between two processes by ownership alone (B-14).
//!
//! A channel is two rings of descriptors, one in each direction, in memory that both processes map, and a doorbell (an eventfd)
//! for each side. A message of up to [`INLINE_MAX`] bytes travels in its descriptor; of any longer one only the *owner* changes:
//! the sender writes into the block's word that it is on its way, and the receiver that it is his. Both cost the same for every
//! length.
//!
//! ```
//! use pinnace_qbuf::channel::{Channel, ChannelOptions, Received, Side};
//! use pinnace_qbuf::{Pool, PoolOptions};
//!
//! let pool = Pool::create(&PoolOptions::default())?;
//! let fds = Channel::create(&pool, &ChannelOptions::default())?;
//! let mut here = Channel::attach(&pool, fds.try_clone()?, Side::A)?;
//! let mut there = Channel::attach(&pool, fds, Side::B)?; // in another process, as a rule
//!
//! let mut qbuf = pool.alloc(100_000).expect("a fresh pool has room");
//! qbuf[..5].copy_from_slice(b"hello");
//! here.try_send(qbuf)?; // `qbuf` is gone: it belongs to the other side
//! match there.try_recv()? {
//!     Some(Received::Qbuf(found)) => assert_eq!(&found[..5], b"hello"),
//!     other => panic!("{other:?}"),
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What always holds
//!
//! - A message belongs to exactly one process at every instant, also when either is killed: before it is taken its block names
//!   sender, receiver and channel; whoever sweeps the pool finds it (B-12; see [`in_flight`]).
//! - Whatever the other side writes is checked before use (B-13). What cannot be closes this channel and nothing else:
//!   [`ChannelError::Corrupt`]. No call loops over anything that the other side can lengthen.
//! - No call but `wait_*` waits, and those look now and then whether the other process lives ([`Channel::peer_is_alive`]): an
//!   eventfd does not tell. An event loop that waits by itself asks from a timer, or relies on whoever holds a [`Watch`].
//! - Nobody is woken who has not said that it sleeps.
//! - What one direction has on its way is at most a quarter of what the pool has free, or a few blocks, and a message, if the pool
//!   is shared out ([`share_percent`](crate::PoolOptions::share_percent)): who does not read keeps his writer waiting
//!   ([`ChannelError::Full`]), and nobody else.
//!
//! # Fork
//!
//! A channel belongs to the process that attached to it. After `fork` only one of the two processes may go on using it, and that is
//! the parent: the rings have one producer and one consumer, with private positions. The child must not touch the channel, not
//! even drop it (dropping closes it in both): it calls `exec` or `_exit`, or forgets the value.
//!
//! # Waiting
//!
//! [`Channel::wait_readable`] spins, yields, and then sleeps. In an event loop: take messages until there is none, then
//! [`Channel::arm`]; if that says that nothing is ready, wait for [`Channel::readable_fd`] to become readable, and start over.
//! Threads that share an end behind a lock do the same, each with a [`Sleeper`].

#[cfg(not(loom))]
mod doorbell;
#[cfg(not(loom))]
mod end;
#[cfg(not(loom))]
mod error;
#[cfg(all(test, loom))]
mod models;
#[cfg(not(loom))]
mod region;
mod ring;
#[cfg(not(loom))]
mod slot;
mod sync;
#[cfg(not(loom))]
mod wait;
#[cfg(not(loom))]
mod watch;
#[cfg(not(loom))]
mod window;

#[cfg(not(loom))]
pub use {
    end::{Channel, Finished, Received},
    error::{ChannelError, Rejected},
    slot::{INLINE_MAX, Inline},
    wait::{Interest, Sleeper},
    watch::{Watch, in_flight},
};

use std::io;
use std::os::fd::OwnedFd;

use crate::ClientId;

/// One of the two ends of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The first.
    A,
    /// The second.
    B,
}

impl Side {
    /// The end opposite to this one.
    pub fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }

    pub(crate) fn index(self) -> usize {
        match self {
            Self::A => 0,
            Self::B => 1,
        }
    }
}

/// What a channel is made with.
#[derive(Clone, Debug)]
pub struct ChannelOptions {
    /// Slots a ring: how many messages can be on their way in one direction. Rounded up to a power of two, from 2 to 65,536.
    pub slots: u32,
    /// What distinguishes this channel from others of the same pool that live at the same time. Below 2^22.
    pub number: u32,
    /// Which clients of the pool will sit on side A and on side B, where that is known. If it is, only they can attach, and the
    /// other side can send qbufs before they have; if not, nothing can be sent before.
    pub clients: [Option<ClientId>; 2],
}

impl Default for ChannelOptions {
    /// 1,024 slots, number 0, clients not known.
    fn default() -> Self {
        Self { slots: 1024, number: 0, clients: [None, None] }
    }
}

/// What a channel is: the memory of its rings and the doorbells of both sides. Both sides get all of it.
#[derive(Debug)]
pub struct ChannelFds {
    /// A sealed memfd.
    pub region: OwnedFd,
    /// The eventfd that wakes side A, and the one that wakes side B.
    pub doorbells: [OwnedFd; 2],
}

impl ChannelFds {
    /// Duplicates the descriptors, for the other side.
    ///
    /// # Errors
    ///
    /// What the system says, in practice that there are no more descriptors.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self {
            region: self.region.try_clone()?,
            doorbells: [self.doorbells[0].try_clone()?, self.doorbells[1].try_clone()?],
        })
    }
}
