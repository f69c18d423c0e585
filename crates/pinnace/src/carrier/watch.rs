//! A descriptor that tells of what has come, from when somebody asks for it.

use crate::Error;
use crate::lock::Lock;
use pinnace_runtime::WakeFd;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, OnceLock};

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Watch {
    watch: OnceLock<Arc<WakeFd>>,
    /// Held by whoever makes it: what is watched would tell only the last of several.
    begins: Lock<()>,
}

impl Watch {
    pub(super) fn get(&self) -> Option<&Arc<WakeFd>> {
        self.watch.get()
    }

    /// As [`Carry::descriptor`](super::Carry::descriptor); `begin`: what watches, the first time.
    pub(super) fn descriptor(
        &self,
        begin: impl FnOnce() -> Result<Arc<WakeFd>, Error>,
    ) -> Result<BorrowedFd<'_>, Error> {
        if self.get().is_none() {
            let _begins = self.begins.lock();
            if self.get().is_none() {
                let _ = self.watch.set(begin()?);
            }
        }
        self.get().map(|watch| watch.as_fd()).ok_or(Error::Timeout)
    }

    pub(super) fn signal(&self) {
        if let Some(watch) = self.get() {
            watch.signal();
        }
    }

    pub(super) fn clear(&self) {
        if let Some(watch) = self.get() {
            watch.clear();
        }
    }
}
