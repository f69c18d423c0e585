//! Remote service requests: run a handler in another process, with typed arguments (specs/vrp.md, section 8).
//!
//! An [`Endpoint`] owns a table of handlers. A [`Startpoint`] refers to an endpoint and lists the methods by which it can
//! be reached, in order; it can be copied, written as text, and put into a [`Buffer`]. A buffer is filled with values, and
//! read with a [`Reader`] on machines of either byte order. [`send_rsr`] runs a handler:
//!
//! ```
//! use pinnace::rsr::{Buffer, Endpoint, Startpoint, send_rsr};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! const SQUARE: u16 = 1;
//! const RESULT: u16 = 2;
//!
//! // One process has a handler, that answers where it is asked to.
//! let server = Endpoint::builder()
//!     .handler(SQUARE, |request| {
//!         let mut reader = request.reader();
//!         if let (Ok(reply_to), Ok(number)) = (reader.get_startpoint(), reader.get_i32()) {
//!             let _ = send_rsr(&reply_to, RESULT, Buffer::new().put_i32(number * number));
//!         }
//!     })
//!     .open()?;
//! let address = server.startpoint().to_string();
//!
//! // Another knows its address.
//! let (tell, told) = std::sync::mpsc::channel();
//! let client = Endpoint::builder()
//!     .handler(RESULT, move |request| {
//!         let _ = tell.send(request.reader().get_i32());
//!     })
//!     .open()?;
//! let server: Startpoint = address.parse()?;
//! send_rsr(&server, SQUARE, Buffer::new().put_startpoint(client.startpoint()).put_i32(7))?;
//! assert_eq!(told.recv()?, Ok(49));
//! # Ok(())
//! # }
//! ```
//!
//! Each request is one frame of its method. Where the method can lose a part of a frame, a buffer may allow it
//! ([`Buffer::allow_loss`]), but for what is put within [`Buffer::critical`], lengths, startpoints and the header; the
//! handler is told the holes, and reads no value of which a byte is missing as if it were there.
//!
//! A request runs its handler at most once, on a thread of the library. Methods are chosen by themselves, or by
//! [`Startpoint::via`]; programs can bring their own ([`Method`]). Nobody is authenticated: open an endpoint only to a
//! network that you trust.

mod address;
mod buffer;
mod context;
mod endpoint;
mod error;
pub(crate) mod header;
mod local;
mod method;
mod number;
mod queue;
mod reader;
mod startpoint;
mod unified;
mod vrp;
mod zcrp;

pub use buffer::Buffer;
pub use context::{Context, Delivered, Sending};
pub use endpoint::{Builder, Counters, Endpoint, Request};
pub use error::{Attempt, Cause, Error, Obstacle};
pub use local::Local;
pub use method::{Arrival, Contract, Incoming, Method, Outgoing, Parcel, Pending, Sent, Sink, Undelivered};
pub use number::ByteOrder;
pub use reader::{Lossy, ReadError, Reader};
pub use startpoint::{MOST_WAYS, Startpoint, Way};
pub use unified::Unified;
pub use vrp::Vrp;
pub use zcrp::Zcrp;

/// Runs a handler of an endpoint, by the methods of [`Context::of_process`]. See [`Context::send`].
///
/// # Errors
/// As [`Context::send`].
pub fn send_rsr(startpoint: &Startpoint, handler: u16, buffer: &mut Buffer) -> Result<Delivered, Error> {
    Context::of_process().send(startpoint, handler, buffer)
}

/// A number that no other has.
fn random_id() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static COUNT: AtomicU64 = AtomicU64::new(0);
    // Without the system's randomness: different within the process, and most likely from those of others.
    let seed = crate::network::random_seed();
    pinnace_core::mix64(seed.wrapping_add(COUNT.fetch_add(1, Ordering::Relaxed)))
}
