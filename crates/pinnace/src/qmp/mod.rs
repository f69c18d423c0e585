//! QMP: the Quick Message Protocol, a reliable stream of bytes for clusters (specs/qmp.md).
//!
//! It looks like the sockets of the standard library: a [`Listener`] accepts, a [`Stream`] connects, reads and writes.
//! Below is XTP 4.0 without checksums of its own: where the link's CRC suffices, and order is kept.
//!
//! ```
//! use pinnace::qmp::{Listener, Options, Stream};
//! use std::io::{Read, Write};
//! # fn main() -> std::io::Result<()> {
//! let listener = Listener::bind("127.0.0.1:0", &Options::default())?;
//! let mut client = Stream::connect(listener.local_addr(), &Options::default())?;
//! client.write_all(b"ahoy")?;
//! let mut server = listener.accept()?;
//! let mut bytes = [0; 4];
//! server.read_exact(&mut bytes)?;
//! assert_eq!(&bytes, b"ahoy");
//! # Ok(())
//! # }
//! ```
//!
//! What can be waited for by blocking can be awaited as a future, and every socket has a descriptor for event loops.

mod arrivals;
mod carried;
mod endpoint;
mod lingering;
mod listener;
mod options;
mod owned;
mod qbufs;
mod shared;
#[cfg(test)]
mod shared_tests;
mod sleeper;
mod standing;
mod stream;

pub use crate::copies::Copied;
pub use crate::xtp::{KeepAlive, Patience};
pub use endpoint::{Endpoint, Woken};
pub use lingering::{Progress, settle};
pub use listener::Listener;
pub use options::{Carrier, Options};
pub use pinnace_link::{EtherAddress, EtherAddressError};
pub use pinnace_qbuf::{Pool, PoolOptions, Qbuf};
pub use pinnace_qmp::State;
pub use pinnace_runtime::WakeFd;
pub use qbufs::Full;
pub(crate) use shared::End;
pub use standing::Standing;
pub use stream::{Shown, Shutdown, Stream, StreamId, Way};
