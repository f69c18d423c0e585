//! VRP for C: `include/vrp.h` is generated from [`abi`] (specs/vrp.md, section 7).
//!
//! [`registry`] knows which endpoints of this process are open; [`outgoing`] and [`incoming`] are what stands behind a
//! handle of each kind; [`ready`] joins the descriptors that an event loop sleeps on.
//!
//! Always true: a handle of an endpoint is a number, never an address, so that a stale one is an error (ECANCELED) and
//! nothing worse, in a child process as well; one handler of an endpoint runs at a time.

pub mod abi;
mod incoming;
mod outgoing;
mod ready;
mod registry;
