//! What stands between an engine and its link on request: a capture, and faults on purpose (the links of a test lose,
//! double and reorder what they send).
//!
//! Always true: without options a link is what it was.

use crate::Error;
use pinnace_link::{Capture, CaptureOptions, Fault, FaultOptions, Link};
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// The link, behind a capture into a file if there is one and the ends are known, and with faults if there are options for
/// them.
pub(crate) fn wrapped(
    link: impl Link + 'static,
    ends: Option<CaptureOptions>,
    capture: Option<&Path>,
    fault: Option<&FaultOptions>,
) -> Result<Box<dyn Link>, Error> {
    let Some((path, ends)) = capture.zip(ends) else { return Ok(faulty(link, fault)) };
    let capture = File::create(path)
        .and_then(|file| Capture::new(link, BufWriter::new(file), ends))
        .map_err(|error| Error::io(format!("cannot write the capture {}", path.display()), error))?;
    Ok(faulty(capture, fault))
}

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
