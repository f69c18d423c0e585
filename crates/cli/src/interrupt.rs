//! Ctrl-C (SIGINT, SIGTERM, SIGHUP): the first asks the command to end in good order, the second ends it at once. Whoever
//! starts it with `nohup` means it to outlive the terminal. And the signal that would end it where a call can say why.

use crate::exit::{Error, Exit};
use crate::output;
use crate::run::is_ignored;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Once};
use std::time::Duration;

static REQUESTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// How often whoever waits should look whether it was interrupted.
pub(crate) const LOOK: Duration = Duration::from_millis(100);

/// How long a command that ends early may take to tell its peers so: several times, as nobody answers.
pub(crate) const FAREWELL: Duration = Duration::from_millis(200);

/// Installs the handler; from now on whoever waits must call [`check`] every [`LOOK`].
pub(crate) fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // Not so SIGINT: shells have what a script starts in the background ignore it, and whoever sends it means it.
        let signals = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| *signal != SIGHUP || !is_ignored(SIGHUP));
        for signal in signals {
            // Without a handler it ends the process all the same, only less tidily.
            let _ = flag::register_conditional_shutdown(signal, Exit::Interrupted as i32, Arc::clone(&REQUESTED))
                .and_then(|_| flag::register(signal, Arc::clone(&REQUESTED)));
        }
    });
}

/// Lets a call that makes a file larger than `ulimit -f` allows fail, and not end the process (SIGXFSZ), so that the peer is
/// told. A handler, as what is ignored would be ignored by the commands of `run` and `wan` as well.
pub(crate) fn outlive_large_files() {
    // Without it nothing else changes.
    let _ = flag::register(SIGXFSZ, Arc::default());
}

/// Whether the command has to end: the user wants it, or its results cannot be written, or nobody reads them and there is
/// nothing else to it.
pub(crate) fn requested() -> bool {
    REQUESTED.load(Ordering::SeqCst) || output::check().is_err() || output::is_abandoned()
}

/// Fails if the command has to end.
pub(crate) fn check() -> Result<(), Error> {
    output::check()?;
    if REQUESTED.load(Ordering::SeqCst) {
        Err(Error::interrupted())
    } else if output::is_abandoned() {
        Err(Error::unread())
    } else {
        Ok(())
    }
}
