//! What the companion says on standard error, in a thread: whoever does not read it keeps no stream from going on.
//!
//! Always true: what is said leaves in its order; of what nobody reads no more is kept than [`MOST`] lines.

use super::spawn;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// Lines that wait to be read.
const MOST: usize = 1024;
/// How long the end waits for them.
const PATIENCE: Duration = Duration::from_millis(200);
const LOOK: Duration = Duration::from_millis(1);

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Talk {
    lines: SyncSender<String>,
    unsaid: Arc<AtomicUsize>,
}

impl Talk {
    pub(super) fn begin() -> io::Result<Self> {
        let (lines, said) = sync_channel::<String>(MOST);
        let unsaid = Arc::new(AtomicUsize::new(0));
        let left = Arc::clone(&unsaid);
        spawn("talk", move || {
            for line in said {
                // In one piece, beside what others say.
                let _ = io::stderr().write_all(line.as_bytes());
                left.fetch_sub(1, Ordering::SeqCst);
            }
        })?;
        Ok(Self { lines, unsaid })
    }

    pub(super) fn say(&self, mut line: String) {
        line.push('\n');
        self.unsaid.fetch_add(1, Ordering::SeqCst);
        if self.lines.try_send(line).is_err() {
            self.unsaid.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Waits a moment until everything has been said.
    pub(super) fn end(&self) {
        let end = Instant::now() + PATIENCE;
        while self.unsaid.load(Ordering::SeqCst) > 0 && Instant::now() < end {
            thread::sleep(LOOK);
        }
    }
}
