//! How what a connection sends ends.
//!
//! Always true: the end is told once, behind what was sent; what has gone wrong with it is told to whoever closes, as long as
//! somebody does.

use super::ConnectionError;
use crate::Error;
use crate::carrier::{Carrier, Carry, Turn};
use crate::lock::lock;
use crate::service::Method;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// How often it is looked whether a connection is still there whose end nobody waits for.
const LOOK: Duration = Duration::from_millis(20);

/// How what is sent ends, of which a thread may take care.
#[derive(Debug)]
pub(super) struct Ending {
    /// Had by whoever waits for the end: of what is lost, one is told.
    pub(super) turn: Turn<()>,
    /// The end was told, and nothing is left to be given up.
    pub(super) has_ended: AtomicBool,
    /// The end cannot be told in order any more: something is lost.
    has_failed: AtomicBool,
    /// Why, until somebody has been told.
    failure: Mutex<Option<Error>>,
    /// What kind of reason that was.
    kind: Mutex<io::ErrorKind>,
    /// A thread takes care of it.
    is_seen_to: AtomicBool,
}

impl Ending {
    pub(super) fn new() -> Self {
        let no = || AtomicBool::new(false);
        let (has_ended, has_failed, is_seen_to) = (no(), no(), no());
        let (failure, kind) = (Mutex::default(), Mutex::new(io::ErrorKind::Other));
        Self { turn: Turn::new(()), has_ended, has_failed, failure, kind, is_seen_to }
    }

    /// Whether it has come to something.
    fn is_known(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed) || self.has_failed.load(Ordering::Relaxed)
    }

    /// What is known already.
    pub(super) fn result(&self, method: Method) -> Option<Result<(), Error>> {
        if self.has_ended.load(Ordering::Relaxed) {
            return Some(Ok(()));
        }
        self.has_failed.load(Ordering::Relaxed).then(|| {
            let failure = lock(&self.failure).take();
            let kind = *lock(&self.kind);
            let source = || io::Error::new(kind, "not everything that was sent has arrived");
            Err(failure.unwrap_or_else(|| ConnectionError::Lost { method, source: source() }.into()))
        })
    }

    /// The end cannot be told in order any more; whoever closes is told why.
    pub(super) fn fails(&self, error: Error) {
        let kind = error.kind();
        lock(&self.failure).get_or_insert(error);
        self.has_failed_by(kind);
    }

    /// The same, of which somebody has been told.
    pub(super) fn has_failed_so(&self, error: &Error) {
        self.has_failed_by(error.kind());
    }

    fn has_failed_by(&self, kind: io::ErrorKind) {
        *lock(&self.kind) = kind;
        self.has_failed.store(true, Ordering::Relaxed);
    }

    /// Takes care that the end is told behind what was sent, as long as the connection is there.
    pub(super) fn see_to(self: &Arc<Self>, carrier: &Arc<Carrier>) {
        if self.is_known() || self.is_seen_to.swap(true, Ordering::Relaxed) {
            return;
        }
        let (ending, carrier) = (Arc::clone(self), Arc::downgrade(carrier));
        // Without a thread the end is told by whoever closes again, or drops the connection.
        let _ = thread::Builder::new().name("pinnace-end".into()).spawn(move || {
            loop {
                let Some(_turn) = ending.turn.take(None) else { return };
                let Some(carrier) = carrier.upgrade() else { return };
                if ending.is_known() {
                    return;
                }
                match carrier.close(Some(Instant::now() + LOOK)) {
                    Ok(()) => ending.has_ended.store(true, Ordering::Relaxed),
                    Err(Error::Timeout) => {}
                    Err(error) => ending.fails(carrier.explained(error)),
                }
            }
        });
    }
}

/// Whoever closes waits no longer, or has been given up: the end that is not told yet is told all the same.
pub(super) struct Unwaited<'a>(pub(super) &'a Arc<Ending>, pub(super) &'a Arc<Carrier>);

impl Drop for Unwaited<'_> {
    fn drop(&mut self) {
        self.0.see_to(self.1);
        // The peer says its end, too.
        self.1.hand_over();
    }
}
