//! A1, a transport with qualities of service, as a pure state machine (specs/a1.md).
//!
//! A connection has two halves: `outgoing` sends one direction, `incoming` receives the other. Nothing here touches a byte
//! of payload, a clock or a socket.
#![forbid(unsafe_code)]
#![warn(missing_docs)]
// Until the engine uses its halves.
#![allow(dead_code, unused_imports)]

mod incoming;
mod outgoing;
