//! VRP: loss as a contract (specs/vrp.md).
//!
//! A message is a *frame*. Its sender says in a [`Contract`] how much of it may be lost, how much in a row, and which bytes
//! not at all; the receiver decides, packet by packet, which losses that allows, has the rest repeated, and delivers the
//! frame as soon as it is within its contract: in place, with zeros where something is missing, and with the exact list of
//! the holes. The sender is told what was lost, too.
//!
//! ```
//! use pinnace::{Message, vrp};
//! use std::time::Duration;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let receiver = vrp::Receiver::bind("127.0.0.1:0", &vrp::Options::default())?;
//! let sender = vrp::Sender::connect(receiver.local_addr(), &vrp::Options::default())?;
//!
//! // A tenth may be lost, at most 4 kB in a row, and nothing of the header.
//! let contract = vrp::Contract::new().loss_percent(10.0).run_bytes(4000).critical(0..64);
//! let picture = Message::from_vec(vec![7; 100_000]);
//! let sending = sender.send(vrp::Frame::new(picture).with_contract(contract).give_up_after(Duration::from_secs(2)))?;
//!
//! let frame = receiver.recv()?;
//! assert_eq!((frame.len(), frame[0]), (100_000, 7));
//! for hole in frame.holes() {
//!     println!("{} bytes at {} are missing", hole.len(), hole.start);
//! }
//! let sent = sending.wait()?;
//! assert_eq!(sent.message.len(), 100_000, "the buffer comes back");
//! # Ok(())
//! # }
//! ```
//!
//! One [`Receiver`] takes frames from any number of [`Sender`]s; a sender sends any number of frames side by side, a small
//! one overtakes a large one, and calls may come from any thread. What can be waited for by blocking can be awaited as a
//! future. The thread that waits does the protocol's work; a background thread does it while nobody waits.
//!
//! # Packets and windows
//!
//! A frame travels in packets of `P` bytes, and losses are counted in packets: a contract's run of bytes is that many whole
//! packets, its rate is rounded to whole packets of the frame's *history window* of `W` packets (all of the frame, if it
//! has fewer), and a critical byte makes its whole packet critical. `W` is also the most packets of a frame that are
//! unacknowledged at a time. Both are chosen for every frame unless [`Options`] or [`Frame`] fix them:
//!
//! - `P` is what the path carries, and less where the contract would become too coarse for that;
//! - `W` is at least 64, a power of two, and grows with the product of the path's rate and its round trip. A larger `W` keeps a
//!   long path full, and makes the contract's rate coarser: a tenth of any 1,024 packets is kept as well by losing none
//!   of the first 922 and all that follow (if the contract's run allows that). Fix `W`, or bound the run, if it matters
//!   where the losses lie.

mod contract;
mod exchange;
mod frame;
mod options;
mod packets;
mod port;
mod received;
mod receiver;
mod sender;
mod sending;

pub use crate::zcrp::{Profile, Progress};
pub use contract::Contract;
pub(crate) use exchange::Losses;
pub use frame::{Frame, Outline, Report, Sent};
pub use options::Options;
pub(crate) use packets::{largest as largest_packet, packet_bytes as packet_bytes_of};
pub use pinnace_core::LossContract;
pub use pinnace_vrp::{Failure, IncomingCounters, Limits, LossSummary as Loss, OutgoingCounters, Refused};
pub use port::over;
pub use received::Received;
pub use receiver::Receiver;
pub use sender::Sender;
pub use sending::Sending;
