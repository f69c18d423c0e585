//! ZCRP: reliable messages into buffers that the receiver has named (specs/zcrp.md).
//!
//! The receiver posts buffers, the sender queues messages, and the n-th message goes into the n-th buffer, in place. Many
//! of both may be under way; each is waited for by itself, in any order, by blocking ([`Sending::wait`]) or as a future.
//! The thread that waits does the protocol's work; a background thread does it while nobody waits.
//!
//! [`Sender`] and [`Listener::accept_receiver`] are one-way, as in the paper; [`connect`] and [`Listener::accept`] are
//! two instances in opposite directions on one socket (Z-1).

mod burst;
mod channel;
mod exchange;
mod listener;
mod open_link;
mod options;
mod port;
mod receiver;
mod sender;
mod successor;

pub use burst::Burst;
pub use channel::Channel;
pub use listener::Listener;
pub(crate) use listener::is_idle;
pub use options::{Options, Profile};
pub use pinnace_zcrp::{Config, Failure, ReceiverCounters, Refused, SenderCounters, UnitSize};
pub(crate) use port::connected;
pub use port::{connect, over};
pub use receiver::Receiver;
pub use sender::{Receiving, Sender, Sending};
pub use successor::{Successor, Unaccepted};

/// What a bounded wait found.
#[derive(Debug)]
pub enum Progress<P, R> {
    /// It has ended.
    Ended(R),
    /// It is still under way.
    UnderWay(P),
}
