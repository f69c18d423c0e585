//! Listeners: who has come.

use super::{Connection, Inner};
use crate::Error;
use crate::network::deadline;
use crate::rendezvous::server::{Server, Shared};
use pinnace_runtime::Waiting;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

/// Accepts connections. When it is dropped, no more are accepted; those that were go on.
pub struct Listener {
    endpoint: Arc<Inner>,
}

impl Listener {
    pub(super) fn new(endpoint: &Arc<Inner>) -> Self {
        Self { endpoint: Arc::clone(endpoint) }
    }

    fn server(&self) -> &Server {
        self.endpoint.server.as_ref().expect("a listener is made of an endpoint that is bound")
    }

    fn shared(&self) -> &Shared {
        &self.server().shared
    }

    /// The address of the endpoint.
    pub fn local_addr(&self) -> SocketAddr {
        self.server().local
    }

    /// Waits for the next connection.
    ///
    /// # Errors
    /// None today.
    pub fn accept(&self) -> Result<Connection, Error> {
        self.shared().accept(None).ok_or(Error::Timeout)
    }

    /// Like [`Listener::accept`], for at most `timeout`; `None` if nobody has come.
    ///
    /// # Errors
    /// As [`Listener::accept`].
    pub fn accept_timeout(&self, timeout: Duration) -> Result<Option<Connection>, Error> {
        Ok(self.shared().accept(deadline(timeout)))
    }

    /// Like [`Listener::accept`], for tasks.
    ///
    /// # Errors
    /// As [`Listener::accept`].
    pub async fn accept_async(&self) -> Result<Connection, Error> {
        let mut waiting = Waiting::default();
        Ok(poll_fn(|context| self.shared().poll_accept(context, &mut waiting)).await)
    }

    /// A descriptor for event loops: readable while somebody waits to be accepted. Valid as long as the listener; not to be
    /// read from.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.shared().watch.as_fd()
    }
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listener").field("local", &self.local_addr()).finish_non_exhaustive()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.shared().stop();
    }
}

#[cfg(test)]
mod tests {
    use crate::service::Service;
    use crate::{Endpoint, connect};
    use std::time::Duration;

    #[test]
    fn whoever_has_all_the_time_there_is_waits_until_somebody_comes() {
        let listener = Endpoint::bind("127.0.0.1:0").unwrap().listen(&Service::new()).unwrap();
        let to = listener.local_addr().to_string();
        let coming = std::thread::spawn(move || connect(&to));
        assert!(listener.accept_timeout(Duration::MAX).unwrap().is_some());
        assert!(coming.join().unwrap().is_ok());
    }
}
