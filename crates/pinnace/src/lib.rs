//! Pinnace moves messages between programs, puts each in its final place without copying it in user space, and reports
//! exactly what was lost.
//!
//! This crate is the public library. Of the five protocols, [`qmp`] gives a cluster the streams of sockets, [`zcrp`] puts
//! reliable messages into buffers that the receiver has named, [`vrp`] delivers messages that may lose something, within a
//! contract, [`xtp`] has six services, from a datagram to a transaction and a stream, each programmable, and [`a1`] carries
//! messages under qualities of service, to one peer or to many.
//!
//! ```
//! use pinnace::{Message, zcrp};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let listener = zcrp::Listener::bind("127.0.0.1:0", &zcrp::Options::default())?;
//! let sender = zcrp::Sender::connect(listener.local_addr()?, &zcrp::Options::default())?;
//! let sending = sender.send(Message::from_vec(b"ahoy".to_vec()))?;
//! let receiver = listener.accept_receiver()?;
//! let message = receiver.post(Message::with_capacity(1024))?.wait()?;
//! assert_eq!(&*message, b"ahoy");
//! sending.wait()?;
//! # Ok(())
//! # }
//! ```
#![warn(missing_docs)]

pub mod a1;
mod attempts;
mod carrier;
mod copies;
pub mod counters;
pub mod daemon;
mod endpoint;
mod error;
mod fault;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
#[cfg(test)]
mod inline;
mod lock;
mod memory;
mod message;
mod network;
mod places;
pub mod qmp;
mod rendezvous;
pub mod rsr;
pub mod service;
pub mod vrp;
pub mod xtp;
pub mod zcrp;

pub use carrier::{Delivered, Received, ReceivedInto};
pub use endpoint::{
    BindAddress, Connection, ConnectionError, Delivery, Endpoint, EndpointOptions, Listener, MessageReader,
    MessageStream, PerMessage, ReceiverState, ReceiverStatus, Statistics, connect,
};
pub use error::{Error, Unsent};
pub use fault::incomplete_capture;
use fault::{faulty, wrapped};
pub use message::Message;
pub use network::resolve_peer;
pub use pinnace_core::{ControllerKind, UnknownController};
pub use pinnace_link as link;
pub use pinnace_runtime::{EndpointError, Idle};
pub use service::Service;

/// The pages whose programs have to run.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../docs/src/tutorial.md")]
    pub struct Tutorial;
    #[doc = include_str!("../../../README.md")]
    pub struct Readme;
}
