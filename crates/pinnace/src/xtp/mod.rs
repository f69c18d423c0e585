//! XTP: the programmable transport (specs/xtp.md).
//!
//! An [`Endpoint`] is one socket with any number of associations. Six services have two ends:
//!
//! | service | call | what it is |
//! |---|---|---|
//! | Connection | [`Endpoint::connect`] | a reliable stream each way |
//! | Transaction | [`Endpoint::transact`] | a request and its response, in one round trip with set-up and close |
//! | UnackDgram | [`Endpoint::datagram`] | one message in one packet, and no answer |
//! | AckDgram | [`Endpoint::acked_datagram`] | one message in one packet, repeated until it is acknowledged |
//! | IsoStream | [`Endpoint::iso_stream`] | a stream of which nothing is repeated; holes are told |
//! | BulkData | [`Endpoint::bulk`] | a reliable stream into buffers that the receiving application has posted |
//!
//! And two go to all who have joined an IP multicast group, with the codec [`Codec::Xtp40`]:
//!
//! | service | call | what it is |
//! |---|---|---|
//! | Multicast | [`Endpoint::open_group`] | a stream to the receivers of a group; what any of them lacks is repeated |
//! | UnackMulticast | [`Endpoint::open_group_with`] | the same, of which nothing is repeated; holes are told |
//!
//! A [`ControlBlock`] programs a context: windows, rates, timers, priority, go-back-N, checksums and more. The first
//! message sets an association up as it goes; there is no handshake to wait for.
//!
//! ```
//! use pinnace::xtp::{Endpoint, Incoming, Options, Services};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = Endpoint::bind("127.0.0.1:0", &Options::default())?;
//! let listener = server.listen(Services::ALL)?;
//! let client = Endpoint::client_of(server.local_addr(), &Options::default())?;
//!
//! let connection = client.connect(server.local_addr())?;
//! let sending = connection.send(b"ahoy".to_vec())?;
//! let Incoming::Connection(accepted) = listener.accept()? else { panic!("nothing else was sent") };
//! assert_eq!(accepted.recv()?.as_deref(), Some(&b"ahoy"[..]));
//! sending.wait()?;
//!
//! connection.finish()?;
//! assert!(accepted.recv()?.is_none(), "the end of the stream");
//! accepted.finish()?;
//! connection.wait_closed()?;
//! # Ok(())
//! # }
//! ```
//!
//! What can be waited for by blocking can be awaited as a future. The thread that waits does the protocol's work; a
//! background thread does it while nobody waits.

mod backlog;
mod connection;
mod endpoint;
pub(crate) mod ether;
mod exchange;
mod groups;
mod lane;
mod listener;
mod options;
mod port;
pub(crate) mod qmp;
mod reading;
mod sending;
mod writing;

pub use crate::zcrp::{Profile, Progress};
pub use connection::Connection;
pub use endpoint::Endpoint;
pub use listener::{Datagram, Incoming, Listener, Transaction};
pub use options::{Carrier, Options};
pub use pinnace_wire::xtp::HostPair;
/// The option bits of packets, of which [`ControlBlock::mode_flags`] and [`ControlBlock::listen_flags`] have some.
pub use pinnace_xtp::Options as Flags;
pub use pinnace_xtp::{
    AddressSegment, Close, Codec, ControlBlock, Facts, Failure, KeepAlive, Limits, Patience, Refused, Service,
    Services, XtpCounters,
};
pub(crate) use reading::{Copied, Look};
pub use reading::{Filled, Received};
pub use sending::{SendOptions, Sending};
