//! A1: a transport with qualities of service (specs/a1.md).
//!
//! A [`Socket`] is bound to an address, with the most that any of its connections may have. A [`Connection`] carries
//! messages of up to 4 GB both ways, each direction under a record of quality of service ([`Qos`]) that both ends have agreed
//! on: rates and bursts, priority, checksum, the largest message, how many may be outstanding, and whether what is lost is
//! sent again ([`reliable`]) or told ([`raw`]). [`Connection::set_qos`] changes it while messages flow.
//!
//! ```
//! use pinnace::a1::{Full, Qos, Socket, reliable};
//! # fn main() -> Result<(), pinnace::Error> {
//! let server = Socket::bind("127.0.0.1:0", reliable())?;
//! server.listen(16)?;
//! let client = Socket::bind("127.0.0.1:0", reliable())?;
//! let paced = Qos { send_average: 10_000_000, send_burst: 100_000, ..reliable() }; // 10 MB a second, 100 kB at once
//! let connection = client.connect(server.local_addr(), paced)?;
//! connection.send(b"ahoy".to_vec(), Full::Block)?;
//!
//! let accepted = server.accept()?;
//! assert_eq!(accepted.recv()?.as_deref(), Some(&b"ahoy"[..]));
//! assert_eq!(accepted.peer_qos()?.send_average, 10_000_000);
//! accepted.send(b"aye".to_vec(), Full::Block)?;
//! assert_eq!(connection.recv()?.as_deref(), Some(&b"aye"[..]));
//! # Ok(())
//! # }
//! ```
//!
//! [`Socket::add_sink`] adds destinations of the socket's own messages ([`Socket::send`]): the same for all of them, over
//! individual connections or through an IP multicast group ([`Socket::set_group`]) where they can join. What happens to one
//! that holds up the others is said by [`SlowSink`].
//!
//! A full window is the application's to know (A-22): [`Full`] says whether a call waits for room or reports. The thread
//! that waits does the protocol's work, and so does the thread that sends; a background thread does it while nobody waits.
//= A-1, A-2, A-3, A-22

mod casting;
mod connection;
mod exchange;
mod groups;
mod hosts;
mod node;
mod options;
mod port;
mod reading;
mod sending;
mod socket;
mod stream;

pub use crate::zcrp::{Profile, Progress};
pub use casting::Sink;
pub use connection::{Connection, Recycler};
pub use groups::group;
pub use hosts::{map_host, to_address, to_socket};
pub use options::{Options, raw, reliable, smaller_block};
pub use pinnace_a1::{
    A1Counters, Address, Facts, Failure, Group, Limits, MAX_BLOCK_BYTES, Qos, Refused, RejectCode, SlowSink, Status,
};
pub use pinnace_wire::a1::WINDOW_LIMIT;
pub use reading::Received;
pub use sending::{Full, Sending};
pub use socket::Socket;
pub use stream::Stream;
