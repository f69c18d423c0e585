//! ZCRP, the zero copying reliable protocol, as a pure state machine (specs/zcrp.md).
//!
//! Simplex, message oriented, receiver initiated: nothing of a message travels before the receiver has named a buffer for
//! it, and every unit announces the unit that follows, so that the next payload is received straight into its final place.
//!
//! [`Sender`] and [`Receiver`] are the two halves. [`Zcrp`] is the [`Engine`](pinnace_core::Engine): one half, or both on
//! one duplex channel (Z-1). Nothing here touches a byte of payload, a clock or a socket.
//!
//! Always true: a message that completes is whole, or its end is reported as a [`Failure`] (Z-20); what the peer can make
//! grow is bounded by [`Config`] and by what the application has queued itself. Who introduced itself is not flooded before it
//! has shown that it receives what is sent to it ([`Config::limit_amplification`]).
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod config;
mod counters;
mod engine;
mod event;
mod liveness;
mod path;
mod receiver;
mod sender;
#[cfg(test)]
mod tests;

pub use config::{Config, UnitSize};
pub use counters::{ReceiverCounters, SenderCounters};
pub use engine::Zcrp;
pub use event::{Event, Failure, Refused};
pub use receiver::Receiver;
pub use sender::Sender;
