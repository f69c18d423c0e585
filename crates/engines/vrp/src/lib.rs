//! VRP, the variable reliability protocol, as a pure state machine (specs/vrp.md).
//!
//! An application says how much of a frame may be lost, how much in a row, and which bytes not at all. The sender cuts
//! the frame into packets; the receiver decides, while they come in, which losses the contract allows, asks for the rest,
//! and tells both ends what is missing.
//!
//! [`Outgoing`] sends frames to one destination, [`Incoming`] receives from any number of senders; [`Vrp`] is the
//! [`Engine`](pinnace_core::Engine) around one of them. Nothing here touches a byte of payload, a clock or a socket.
//!
//! Always true: a frame is delivered within its contract with every hole named, or its sender is told that it was not
//! ([`Failure`]); what a peer can make grow is bounded by [`Limits`].
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod config;
mod counters;
mod engine;
mod event;
mod incoming;
mod outgoing;
mod terms;

pub use config::{Config, Limits};
pub use counters::{IncomingCounters, OutgoingCounters};
pub use engine::Vrp;
pub use event::{Delivery, Event, Failure, FrameId, LossSummary, Refused, Sent};
pub use incoming::Incoming;
pub use outgoing::{Outgoing, Void};
pub use terms::{FrameSpec, Terms};
