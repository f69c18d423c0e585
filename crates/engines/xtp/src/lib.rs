//! XTP, the Xpress Transport Protocol, as a pure state machine (specs/xtp.md).
//!
//! [`Xtp`] is one [`Engine`](pinnace_core::Engine) on one socket, with any number of contexts: opened by the application
//! ([`Xtp::open`]), or accepted from others by a listener ([`Xtp::listen`]). A context is programmed by its
//! [`ControlBlock`]: the service, the options, timers, windows and rates. Nothing here touches a byte of payload, a clock
//! or a socket.
//!
//! Always true: every context ends with one [`Event::Closed`], every output comes back with one [`Event::Sent`]; what a
//! peer can make grow is bounded by [`Limits`]; a peer whose address has not been proved is sent at most three times what
//! came from there.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod accept;
mod api;
mod block;
mod config;
mod context;
mod counters;
mod diag;
mod ended;
mod engine;
mod event;
mod farewell;
mod incoming;
mod multicast;
mod names;
mod outgoing;
mod patience;
mod receive;
mod shared;
mod space;
mod timers;
mod transmit;
mod validation;

pub use block::{ControlBlock, Service, Services};
pub use config::{Config, Limits};
pub use counters::XtpCounters;
pub use engine::Xtp;
pub use event::{Event, Failure, Refused};
pub use incoming::Readable;
pub use names::{Close, ContextId, Facts, ListenerId, Output};
pub use patience::{KeepAlive, Patience};
pub use pinnace_wire::xtp::{AddressSegment, Codec, HostPair, Options};
