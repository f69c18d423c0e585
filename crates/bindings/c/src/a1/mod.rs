//! A1 for C: `include/a1.h` (specs/a1.md, section 3).
//!
//! [`abi`] is what C calls, and what the header is made from; [`socket`] is what stands behind a number; [`receiving`] is how
//! messages come from one peer, or from several; [`buffers`] are those that are received without a copy; [`records`] are
//! records of quality of service and addresses as C has them.
//!
//! Always true: a number is given once and is like no descriptor's, so that one that was closed, or is taken for a
//! descriptor, is an error and nothing worse; no lock is held while a thread waits.
//= A-14, A-17

pub mod abi;
mod buffers;
mod receiving;
mod records;
mod socket;
