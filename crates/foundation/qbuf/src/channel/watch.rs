//! Watching over a channel that others use: what is on its way in it, and closing it for a side that died.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use super::region::{MappedRing, Region};
use super::ring::{CLOSED, Corrupt, Ring, read};
use super::slot::{self, Message};
use super::sync::Ordering;
use super::{ChannelError, ChannelFds, Side, doorbell};
use crate::{ClientId, Passed};

/// What `from` has published and the other side has not yet taken: which blocks, by the word of slots that `from` may have
/// scribbled on. A block of a dead sender that its word says is on its way, and that is not among these, was never
/// sent. Meant for a sender that is dead; of a living one the answer is out of date at once.
///
/// # Errors
///
/// [`ChannelError::Refused`] if `region` is none, [`ChannelError::Corrupt`] if its positions cannot be, [`ChannelError::Io`].
//= B-12
//= B-13
pub fn in_flight(region: BorrowedFd<'_>, from: Side) -> Result<impl Iterator<Item = Passed>, ChannelError> {
    flying(&Region::map(region)?, from)
}

fn flying(region: &Arc<Region>, from: Side) -> Result<std::vec::IntoIter<Passed>, ChannelError> {
    let ring = MappedRing::new(region, from);
    // The head first: it never passes the tail, so a tail that is read later is no smaller.
    let head = ring.control().head.0.load(Ordering::Acquire);
    let tail = ring.control().tail.0.load(Ordering::Acquire);
    if tail.checked_sub(head).is_none_or(|slots| slots > ring.capacity()) {
        return Err(Corrupt.into());
    }
    let found: Vec<_> = (head..tail)
        .filter_map(|position| match slot::parse(&read(ring.slot(position))) {
            Ok(Message::Blocks(passed)) => Some(passed),
            _ => None,
        })
        .collect();
    Ok(found.into_iter())
}

/// A hold on a channel by who sits on neither side: the daemon, which made it and sees processes die.
#[derive(Debug)]
pub struct Watch {
    region: Arc<Region>,
    doorbells: [OwnedFd; 2],
}

impl Watch {
    /// Takes hold of a channel.
    ///
    /// # Errors
    ///
    /// As [`Channel::attach`](super::Channel::attach).
    pub fn new(fds: ChannelFds) -> Result<Self, ChannelError> {
        Ok(Self { region: Region::map(fds.region.as_fd())?, doorbells: fds.doorbells })
    }

    /// Closes both directions in the name of a side whose process is dead, and wakes the other, which still reads what was sent to
    /// it.
    //= B-12
    pub fn abandon(&self, side: Side) {
        self.region.abandon(side);
        doorbell::ring(self.doorbells[side.other().index()].as_fd());
    }

    /// The client of the pool that sits on a side, or will; `None`: not known.
    pub fn client(&self, side: Side) -> Option<ClientId> {
        self.region.client(side)
    }

    /// Somebody has attached to this side, and perhaps left again.
    pub fn is_claimed(&self, side: Side) -> bool {
        self.region.is_claimed(side)
    }

    /// Whether both sides have closed both directions, or were closed in their name: nothing will pass any more.
    pub fn is_over(&self) -> bool {
        [Side::A, Side::B].into_iter().all(|side| {
            let control = self.region.control(side);
            [&control.writer, &control.reader].into_iter().all(|state| state.0.load(Ordering::Acquire) == CLOSED)
        })
    }

    /// The number that the channel was made with.
    pub fn number(&self) -> u32 {
        self.region.number()
    }

    /// As [`in_flight`].
    ///
    /// # Errors
    ///
    /// [`ChannelError::Corrupt`] if the positions cannot be.
    pub fn in_flight(&self, from: Side) -> Result<impl Iterator<Item = Passed>, ChannelError> {
        flying(&self.region, from)
    }
}
