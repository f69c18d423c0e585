//! Checksums: the Internet checksum (RFC 1071), CXOR of XTP (specs/xtp.md, section 6) and, to compare with, the Fletcher
//! checksum of ISO TP4.
//!
//! Each comes as a function over one block and, where packets are gathered from or scattered to several areas, as a value
//! that takes the areas one after the other, also of odd lengths. Always true: how a block is split does not matter.
//!
//! ```
//! use pinnace_wire::checksum::{Cxor, Internet, cxor, internet};
//!
//! let mut sum = Internet::new();
//! sum.add(b"Xpress ");
//! sum.add(b"Transport");
//! assert_eq!(sum.finish(), internet(b"Xpress Transport"));
//!
//! let mut sum = Cxor::new();
//! sum.add(b"Xpress ");
//! sum.add(b"Transport");
//! assert_eq!(sum.finish(), cxor(b"Xpress Transport"));
//! ```

mod cxor;
mod fletcher;
mod internet;
pub mod paper;
mod wide;

pub use cxor::{Cxor, cxor, cxor_catenate, cxor_copy, cxor_update};
pub use fletcher::fletcher;
pub use internet::{Internet, internet, internet_copy};

#[cfg(test)]
mod tests;
