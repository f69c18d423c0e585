//! XTP for C: `include/xtp.h` (specs/xtp.md, section 5).
//!
//! [`types`] are the paper's structures; [`block`] and [`address`] translate them, [`socket`] is the descriptor of a context,
//! [`machine`] an engine on it, [`context`] joins these with the application's structure, and [`registry`] knows all
//! contexts of the process and their dates. [`abi`] is what C calls.
//!
//! Always true: the library has no thread here and nothing happens but in calls; the received bytes of a stream are in the
//! application's memory only.
//= X-4

pub mod abi;
pub(crate) mod address;
mod block;
mod context;
mod machine;
mod registry;
mod socket;
pub mod types;
