//! What the fuzz targets do with their bytes. Shared by `fuzz/` and by the test that replays its corpora.
//!
//! Any bytes are a script: calls of the application, the passing of time, and datagrams of a peer that knows the protocol
//! and lies, or of an honest peer behind a bad path. What always holds is checked on the way.
#![allow(dead_code, unreachable_pub, unused_imports, reason = "every user uses its own part")]

mod codec;
mod half;
mod incoming;
mod outgoing;
mod pair;
mod script;

pub use codec::codec;
pub use incoming::incoming;
pub use outgoing::outgoing;
pub use pair::pair;
