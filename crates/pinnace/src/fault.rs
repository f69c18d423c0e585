//! What stands between an engine and its link on request: a capture, and faults on purpose (the links of a test lose,
//! double and reorder what they send).
//!
//! Always true: without options a link is what it was.

use crate::Error;
use crate::lock::lock;
use pinnace_link::{Capture, CaptureOptions, Fault, FaultOptions, Link};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

/// Why a capture of this process is not whole: the first that failed.
static INCOMPLETE: OnceLock<(PathBuf, io::Error)> = OnceLock::new();

/// Why a capture that was asked for in options of this process is not whole: a disk was full, say. Trouble with the file
/// does not disturb what is captured, and the last packets are written when the last handle of their socket is gone.
///
/// ```
/// assert!(pinnace::incomplete_capture().is_none());
/// ```
pub fn incomplete_capture() -> Option<(&'static Path, &'static io::Error)> {
    INCOMPLETE.get().map(|(path, error)| (path.as_path(), error))
}

/// A file that is missed if it cannot be written: the link that it records does not say so.
#[derive(Debug)]
struct Missed {
    file: File,
    path: PathBuf,
}

impl Missed {
    fn note<T>(&self, result: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &result
            && error.kind() != io::ErrorKind::Interrupted
        {
            let error = error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error);
            let _ = INCOMPLETE.set((self.path.clone(), error));
        }
        result
    }
}

impl Write for Missed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes);
        self.note(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.file.flush();
        self.note(flushed)
    }
}

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
        .and_then(|file| Capture::new(link, BufWriter::new(Missed { file, path: path.to_owned() }), ends))
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
/// whoever tries again would fail again. The links of each seed are counted by themselves, so that what one endpoint or one
/// test meets does not depend on what else the process does.
pub(crate) fn another(options: &FaultOptions) -> FaultOptions {
    static LINKS: Mutex<BTreeMap<u64, u64>> = Mutex::new(BTreeMap::new());
    let mut links = lock(&LINKS);
    let count = links.entry(options.seed).or_default();
    let seed = options.seed.wrapping_add(pinnace_core::mix64(*count));
    *count += 1;
    FaultOptions { seed, ..options.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_links_of_a_seed_differ_and_are_the_same_whatever_others_do() {
        let of = |seed| another(&FaultOptions { seed, ..FaultOptions::default() }).seed;
        let first: Vec<u64> = (0..3).map(|_| of(1 << 40)).collect();
        assert!(first[0] != first[1] && first[1] != first[2] && first[0] != first[2], "{first:?}");
        let among: Vec<u64> = (0..3)
            .map(|_| {
                of(3 << 40);
                of(2 << 40) - (1 << 40)
            })
            .collect();
        assert_eq!(among, first);
    }
}
