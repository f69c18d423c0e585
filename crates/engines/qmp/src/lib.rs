//! QMP: XTP stripped down for clusters, behind BSD sockets (specs/qmp.md).
//!
//! QMP is no protocol machine of its own: it is a way to use [`Xtp`]. A [`Profile`] says how the engine and its control
//! blocks are set up, the functions of [`socket`] do what a socket's calls mean, and [`State`] names what the paper's
//! figure 1 draws.
//!
//! Always true of what a profile sets up: every packet has NOCHECK and FASTNAK, no packet has EOM, BTAG, DREQ, NOERR,
//! NOFLOW, MULTI or SORT, every FIRST asks for service 4.
//!
//! ```
//! use pinnace_core::{Address, Time};
//! use pinnace_qmp::{Medium, Profile, State, socket};
//! use pinnace_xtp::{Config, Xtp};
//!
//! let profile = Profile::default();
//! let mut engine = Xtp::new(profile.config(Medium::Internet, Config::default()), Time::ZERO);
//! let to = Address::Inet("192.0.2.1:7".parse().unwrap());
//! let context = socket::connect(&mut engine, Time::ZERO, to, profile.block_to("192.0.2.1:7".parse().unwrap()))?;
//! assert_eq!(State::of(&engine, context), State::Active);
//! # Ok::<(), pinnace_xtp::Refused>(())
//! ```
//!
//! [`Xtp`]: pinnace_xtp::Xtp
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod profile;
pub mod socket;
mod state;

pub use profile::{Medium, Profile};
pub use state::State;
