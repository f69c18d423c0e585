//! The daemon: what owns the pool of a host, and brings its processes together (specs/qbuf.md, B-12 to B-14).
//!
//! A [`Daemon`] serves a Unix socket. Each process that uses it is a [`Client`]: it shares the daemon's pool, says at which
//! addresses it listens, and gets a [`Channel`](pinnace_qbuf::channel::Channel) to whoever listens at an address of this
//! host. From then on the daemon is not in between: messages pass by ownership from process to process. It watches over
//! them, and when one dies it takes back what that one had, and tells those who talked with it.
//!
//! ```
//! use pinnace::daemon::{Client, Daemon, DaemonOptions};
//! use std::sync::Arc;
//! use std::time::Duration;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let socket = directory.path().join("daemon.sock");
//! let options = DaemonOptions { socket: Some(socket.clone()), ..DaemonOptions::default() };
//! let daemon = Arc::new(Daemon::bind(&options)?);
//! let serving = std::thread::spawn({
//!     let daemon = Arc::clone(&daemon);
//!     move || daemon.run()
//! });
//!
//! let client = Client::open(&socket)?; // programs use `Client::current`
//! let address = "127.0.0.1:7001".parse()?;
//! let registration = client.listen(address)?;
//! let mut here = client.connect(address)?.expect("somebody listens there");
//! let mut there = registration.accept_timeout(Duration::from_secs(5))?.expect("somebody has come");
//! assert_eq!((here.peer, there.peer), (address, here.local));
//! here.channel.try_send_bytes(b"ahoy")?;
//! assert_eq!(&there.channel.try_recv()?.expect("it is there")[..], b"ahoy");
//!
//! daemon.stop();
//! serving.join().expect("it did not panic")?;
//! # Ok(())
//! # }
//! ```
//!
//! # Who trusts whom
//!
//! Whoever shares the pool can read and write all of it: clients of a daemon trust each other's data. They do not trust each
//! other with anything else: what one writes into shared memory, or says to the daemon, cannot crash, hang or exhaust another.
//!
//! # Where
//!
//! On Linux: elsewhere shared memory cannot be trusted (no file there is sealed), nobody is found by [`Client::current`], and what
//! asks for a daemon is told [`std::io::ErrorKind::Unsupported`]. Connections within the host are UDP's there.
#![cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "what a daemon says of itself, nobody says elsewhere"))]

#[cfg(target_os = "linux")]
mod client;
#[cfg(not(target_os = "linux"))]
mod elsewhere;
mod options;
mod path;
#[cfg(target_os = "linux")]
pub(crate) mod protocol;
mod refusal;
#[cfg(target_os = "linux")]
mod server;
#[cfg(target_os = "linux")]
pub(crate) mod socket;
mod statistics;

#[cfg(target_os = "linux")]
pub use client::{Arrival, Client, Registration, statistics};
#[cfg(not(target_os = "linux"))]
pub use elsewhere::{Arrival, Client, Daemon, Registration, statistics};
pub use options::{DaemonOptions, Limits};
pub use path::{ENVIRONMENT, default_path};
pub use refusal::Refusal;
#[cfg(target_os = "linux")]
pub use server::Daemon;
pub use statistics::{ClientStatistics, Statistics, Totals};
