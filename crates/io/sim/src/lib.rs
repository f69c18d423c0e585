//! A virtual clock and emulated networks for Pinnace engines.
//!
//! A [`Simulation`] drives engines exactly as the runtime does, under the drain rule and with payload landing in planned
//! memory, but its clock jumps from one event to the next and its network is a chain of [nodes](Node) that lose, delay,
//! reorder and forge as told. Hours pass in a second, and a failure comes back with its seed.
//!
//! Always true: all randomness follows from one seed, so the same seed gives the same datagrams with the same fates at
//! the same times ([`Simulation::digest`]); nothing reads a clock; a run ends even if the engines deadlock
//! ([`Outcome::Quiet`]) or go round in circles ([`Outcome::Livelock`]).
//!
//! ```
//! use core::time::Duration;
//! use pinnace_core::{Address, Engine, Placed, PollAt, ReceivePlan, RxMeta, Time, Train};
//! use pinnace_sim::{NetworkConfig, HostId, Outcome, Simulation};
//!
//! /// Sends one datagram when told to, and reports what comes.
//! #[derive(Default)]
//! struct Shout { pending: Option<u8>, heard: Option<u8> }
//!
//! impl Engine for Shout {
//!     type Event = u8;
//!     fn handle_datagrams(&mut self, _: Time, _: &RxMeta, rx: &mut Placed<'_>) {
//!         while let Some(datagram) = rx.next_segment() {
//!             self.heard = rx.head::<1>(&datagram).map(|[byte]| byte);
//!         }
//!     }
//!     fn handle_timeout(&mut self, _: Time) {}
//!     fn plan_receive(&self, _: &mut ReceivePlan) {}
//!     fn poll_transmit(&mut self, _: Time, train: &mut Train) -> bool {
//!         let Some(byte) = self.pending.take() else { return false };
//!         train.begin(Address::Peer, 1);
//!         train.inline(&[byte]);
//!         train.end_segment();
//!         true
//!     }
//!     fn poll_at(&self) -> PollAt { PollAt::Ingress }
//!     fn poll_event(&mut self) -> Option<u8> { self.heard.take() }
//! }
//!
//! let network: NetworkConfig = "delay=30ms".parse()?;
//! let mut simulation = Simulation::pair(7, [Shout::default(), Shout::default()], &network);
//! simulation.call(HostId::new(0), |engine| engine.pending = Some(42));
//! assert_eq!(simulation.run_until_quiet(Time::MAX), Outcome::Quiet);
//! let arrival = Time::ZERO + Duration::from_millis(30);
//! assert_eq!(simulation.application(HostId::new(1)).events, [(arrival, 42)]);
//! # Ok::<(), pinnace_sim::ConfigError>(())
//! ```
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod application;
mod config;
mod host;
mod memory;
mod network;
pub mod nodes;
mod packet;
mod simulation;
mod sums;
mod timeline;
mod trace;

pub use application::{Application, HostHandle, Inbox, OnEvent, on_event};
pub use config::{ConfigError, NetworkConfig, QueueSize};
pub use host::{Coalesce, HostConfig, HostCounters, HostId};
pub use network::{Exits, Node, NodeId, Path};
pub use packet::{Fate, HEADER_BYTES, Packet, Position, RouteId};
pub use simulation::{Outcome, Simulation};
pub use sums::Sums;
pub use timeline::Timeline;
pub use trace::{Direction, Formatter, Trace, TraceEvent};
