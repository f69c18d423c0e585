//! The simulator under two toy engines: one that shows what the network does, one that moves buffers reliably.

mod bulk;
mod checksums;
mod faults;
mod network;
mod probe;
mod storage;
mod transfers;
