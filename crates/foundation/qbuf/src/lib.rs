//! QBUF: buffers that change owners (specs/qbuf.md).
//!
//! A [`Pool`] is one region of shared memory. Processes take buffers from it, fill them, and pass their *ownership* on,
//! to their own transport or to another process: a message of any size changes hands for the price of a word.
//!
//! Always true: what another process writes into the region is checked before use, and at worst loses buffers; a process
//! that dies at any instruction leaks nothing after the next [`Pool::sweep`]; nobody waits for anybody.
//!
//! The models of the allocators and of the sweep, in which every interleaving is tried:
//! `RUSTFLAGS="--cfg loom" cargo test --release -p pinnace-qbuf --lib --target-dir target/loom`.
#![warn(missing_docs)]
// Models are of the control structure alone: they map no memory, and ask no kernel.
#![cfg_attr(loom, allow(dead_code, unused_imports))]

pub mod channel;
mod counters;
#[cfg(all(test, not(loom)))]
mod crash_tests;
mod deferred;
#[cfg(not(loom))]
mod error;
#[cfg(not(loom))]
mod host;
#[cfg(not(loom))]
mod kernel;
mod layout;
mod locked;
mod lockfree;
#[cfg(not(loom))]
mod map;
#[cfg(all(test, loom))]
mod models;
#[cfg(not(loom))]
mod named;
mod owner;
#[cfg(not(loom))]
mod pool;
#[cfg(not(loom))]
mod qbuf;
mod recovery;
#[cfg(not(loom))]
mod share;
#[cfg(not(loom))]
mod stats;
mod sync;
#[cfg(test)]
mod world;
#[cfg(not(loom))]
mod wrap;
mod zone;

#[cfg(not(loom))]
pub use error::PoolError;
pub use layout::{BLOCKS, Variant};
pub use owner::{ClientId, MAX_CLIENTS, Passed, Role, Transit};
#[cfg(not(loom))]
pub use pool::{Holding, Owner, Pool, PoolOptions};
#[cfg(not(loom))]
pub use qbuf::Qbuf;
pub use recovery::Swept;
#[cfg(not(loom))]
pub use stats::Stats;
#[cfg(not(loom))]
pub use wrap::{Handle, Wrapped};
