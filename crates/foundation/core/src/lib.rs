//! The sans-IO toolkit that every Pinnace engine is made of.
//!
//! Nothing here reads a clock, opens a socket, starts a thread or iterates a hash map: the driver passes time and
//! datagrams in and takes trains and events out. What the five engines share (intervals, timers, round-trip
//! estimation, pacing, congestion control, loss contracts, contexts) lives here once.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod seq;
mod time;

pub use seq::Seq32;
pub use time::Time;
