//! The one interface for C: declare the service, get the transport. `include/pinnace.h` is generated from [`types`],
//! [`abi`], [`receivers`], [`connections`], [`sending`] and [`receiving`], in this order.
//!
//! [`handles`] knows what C calls by a handle; [`line`] is what stands behind a connection, [`completion`] tells C when memory
//! that was sent from is free again, and [`report`] explains choices.
//!
//! Always true: a handle is a number that is given once, so one that was closed is an error (EBADF) and nothing worse; memory
//! of C's is not touched any more once its completion was told; C's callbacks run on a thread of their own, with no lock of
//! the library's held; who waits on what another thread closes is told (ECANCELED) soon.

pub mod abi;
mod completion;
pub mod connections;
mod handles;
mod line;
pub mod receivers;
pub mod receiving;
mod report;
pub mod sending;
pub mod types;
mod waiting;
