//! A frame that was received.
//!
//! Always true: whoever has one sees no byte but those that were sent, and zeros in the holes; its storage counts against
//! the receiver's limits exactly as long as it is here.

use super::exchange::Arrival;
use super::frame::in_memory;
use super::receiver::End;
use super::{Loss, LossContract};
use crate::Message;
use pinnace_core::Address;
use pinnace_vrp::Delivery;
use std::fmt;
use std::net::{Ipv6Addr, SocketAddr};
use std::ops::{Deref, DerefMut, Range};
use std::sync::Weak;
use std::time::Duration;

/// A frame that was received within its contract: its bytes, and where some of them are missing.
///
/// It takes of the receiver's [`Limits::bytes`](super::Limits::bytes) until it is dropped, and its memory is used again
/// then; [`Received::into_vec`] takes the memory away instead.
pub struct Received {
    storage: Vec<u8>,
    holes: Vec<Range<usize>>,
    delivery: Delivery,
    /// `None` once it has been released.
    end: Option<Weak<End>>,
}

impl Received {
    pub(super) fn new((delivery, mut storage): Arrival, end: Weak<End>) -> Self {
        let holes = in_memory(&delivery.holes, storage.len());
        zero(&mut storage, &holes);
        Self { storage, holes, delivery, end: Some(end) }
    }

    /// An empty frame of this number, from nobody.
    #[cfg(test)]
    pub(crate) fn numbered(number: u16) -> Self {
        let delivery = Delivery {
            id: pinnace_vrp::FrameId(u64::from(number)),
            source: Address::Peer,
            number,
            buffer: pinnace_core::BufferId::new(0),
            size: 0,
            packet_bytes: 4,
            loss: Loss::default(),
            holes: Vec::new(),
            contract: LossContract::reliable(),
            window: 0,
            took: Duration::ZERO,
        };
        Self::new((delivery, Vec::new()), Weak::new())
    }

    /// What is missing, with permission: half-open ranges of bytes in rising order that do not touch. They read as zeros.
    pub fn holes(&self) -> &[Range<usize>] {
        &self.holes
    }

    /// What is missing, in packets: how many, which share, the longest run.
    pub fn loss(&self) -> &Loss {
        &self.delivery.loss
    }

    /// What could have been missing, in packets of [`Received::packet_bytes`].
    pub fn contract(&self) -> &LossContract {
        &self.delivery.contract
    }

    /// The window over which the contract's rate holds, in packets: the sender's `W`, or all packets if there are fewer.
    pub fn window(&self) -> u32 {
        self.delivery.window
    }

    /// `P`, bytes of every packet but the last.
    pub fn packet_bytes(&self) -> u16 {
        self.delivery.packet_bytes
    }

    /// Who sent it; `[::]:0` if the link has no internet addresses.
    pub fn source(&self) -> SocketAddr {
        match self.delivery.source {
            Address::Inet(source) => source,
            _ => (Ipv6Addr::UNSPECIFIED, 0).into(),
        }
    }

    /// Its number at the sender, which counts up modulo 32,768.
    pub fn number(&self) -> u16 {
        self.delivery.number
    }

    /// How long it took, from the frame's header to its delivery.
    pub fn took(&self) -> Duration {
        self.delivery.took
    }

    /// The bytes, as a vector of one's own; no copy.
    pub fn into_vec(mut self) -> Vec<u8> {
        let storage = std::mem::take(&mut self.storage);
        self.release(None);
        storage
    }

    /// The bytes, as a message to send on; no copy.
    pub fn into_message(self) -> Message {
        Message::from_vec(self.into_vec())
    }

    fn release(&mut self, storage: Option<Vec<u8>>) {
        // A receiver that is gone needs nothing back.
        if let Some(end) = self.end.take().and_then(|end| end.upgrade()) {
            end.release(self.delivery.id, storage);
        }
    }
}

impl Drop for Received {
    fn drop(&mut self) {
        let storage = std::mem::take(&mut self.storage);
        self.release(Some(storage));
    }
}

impl Deref for Received {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.storage
    }
}

/// The storage is the application's to work on until it is dropped.
impl DerefMut for Received {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.storage
    }
}

impl AsRef<[u8]> for Received {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for Received {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Received")
            .field("bytes", &self.storage.len())
            .field("holes", &self.holes)
            .field("source", &self.delivery.source)
            .field("number", &self.delivery.number)
            .finish_non_exhaustive()
    }
}

/// Storage may be memory that was used before: what was not received is somebody else's.
//= V-R18
fn zero(storage: &mut [u8], holes: &[Range<usize>]) {
    for hole in holes {
        storage[hole.clone()].fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_are_zero_whatever_the_memory_held_and_never_beyond_it() {
        //= V-R18 test
        let delivery = Delivery { size: 10, holes: vec![0..4, 8..12], ..Received::numbered(3).delivery.clone() };
        let received = Received::new((delivery, vec![0xEE; 10]), Weak::new());
        assert_eq!(&*received, [0, 0, 0, 0, 0xEE, 0xEE, 0xEE, 0xEE, 0, 0]);
        assert_eq!(received.holes(), [0..4, 8..10]);
        assert_eq!(received.source().port(), 0);
        assert_eq!(received.into_vec().len(), 10);
    }
}
