//! A1, a transport with qualities of service, as a pure state machine (specs/a1.md).
//!
//! [`A1`] is one [`Engine`](pinnace_core::Engine) on one socket, with any number of connections: opened by the application
//! ([`A1::open`]), or accepted from others ([`A1::listen`]). A connection carries messages both ways, each direction under
//! the record of quality of service that both ends have agreed on. A set of sinks ([`A1::cast`]) gets the same messages,
//! over individual connections or through a multicast group. Nothing here touches a byte of payload, a clock or a socket.
//!
//! Always true: every connection ends with one [`Event::Closed`], every message comes back with one [`Event::Sent`] or
//! [`Event::Cast`]; what a peer can make grow is bounded by [`Limits`] and by the agreed windows; of a peer whose address
//! has not been proved nothing is kept, and it is sent no more than came from there.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod api;
mod cast;
mod config;
mod connection;
mod cookie;
mod counters;
mod engine;
mod event;
mod incoming;
mod names;
mod numbers;
mod outgoing;
mod qos;
mod receive;
mod setup;
mod shared;
mod timers;
mod transmit;

pub use config::{Config, Limits};
pub use counters::A1Counters;
pub use engine::A1;
pub use event::{Event, Failure, Refused};
pub use names::{CastId, ConnectionId, Facts, Output, Readable, SlowSink, Status};
pub use pinnace_wire::a1::{Address, CloseCode, Group, MAX_BLOCK_BYTES, Qos, RejectCode};
