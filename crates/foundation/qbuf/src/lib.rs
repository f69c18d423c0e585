//! QBUF: buffers that change owners (specs/qbuf.md).
//!
//! A [`Pool`] is one region of shared memory. Processes take buffers from it, fill them, and pass their *ownership* on,
//! to their own transport or to another process: a message of any size changes hands for the price of a word.
//!
//! Always true: what another process writes into the region is checked before use, and at worst loses buffers; a process
//! that dies at any instruction leaks nothing after the next [`Pool::sweep`]; nobody waits for anybody.
#![warn(missing_docs)]

mod layout;
mod owner;
mod sync;

pub use owner::{ClientId, MAX_CLIENTS, Passed, Role, Transit};
