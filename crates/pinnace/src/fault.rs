//! Faults on purpose: the links of a test lose, double and reorder what they send.
//!
//! Always true: without options a link is what it was.

use pinnace_link::{Fault, FaultOptions, Link};
use std::sync::atomic::{AtomicU64, Ordering};

/// The link, with faults if there are options for them.
pub(crate) fn faulty(link: impl Link + 'static, options: Option<&FaultOptions>) -> Box<dyn Link> {
    match options {
        None => Box::new(link),
        Some(options) => Box::new(Fault::new(link, options.clone())),
    }
}

/// The same faults for another link: if all links drew the same random numbers, both ends would lose the same things, and
/// whoever tries again would fail again.
pub(crate) fn another(options: &FaultOptions) -> FaultOptions {
    static LINKS: AtomicU64 = AtomicU64::new(0);
    let seed = options.seed.wrapping_add(pinnace_core::mix64(LINKS.fetch_add(1, Ordering::Relaxed)));
    FaultOptions { seed, ..options.clone() }
}
