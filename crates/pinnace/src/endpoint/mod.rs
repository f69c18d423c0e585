//! Endpoints: where connections begin, whatever carries them.
//!
//! An [`Endpoint`] listens at a UDP port, or connects; what it needs it says as a [`Service`], and gets a [`Connection`] over
//! the cheapest method that meets it. How both ends agree is a page of the book: `docs/src/rendezvous.md`.

mod connection;
mod delivery;
mod departed;
mod ending;
mod error;
mod listener;
mod local;
mod options;
mod receivers;
mod stream;

use crate::lock::lock;
pub(crate) use connection::Parts;
pub use connection::{Connection, Statistics};
pub use delivery::{Delivery, PerMessage};
pub use error::ConnectionError;
pub use listener::Listener;
pub use local::BindAddress;
pub use options::EndpointOptions;
pub use receivers::{ReceiverState, ReceiverStatus};
pub use stream::{MessageReader, MessageStream};

use crate::Error;
use crate::rendezvous::{client, server::Server};
use crate::service::{Place, Service, Uri, check_address};
use std::future::poll_fn;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::thread;

/// Where connections begin. Clones are the same endpoint; calls may come from any thread.
///
/// ```
/// use pinnace::Endpoint;
/// use pinnace::service::Service;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = Endpoint::bind("127.0.0.1:0")?;
/// let listener = server.listen(&Service::new())?;
/// let connection = pinnace::connect(&format!("pinnace://{}?size=4KiB", listener.local_addr()))?;
/// let delivery = connection.send(b"ahoy".to_vec())?;
/// let accepted = listener.accept()?;
/// assert_eq!(accepted.recv()?.as_deref(), Some(&b"ahoy"[..]));
/// delivery.wait()?;
/// println!("by {}", connection.method());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Endpoint {
    inner: Arc<Inner>,
}

pub(super) struct Inner {
    options: EndpointOptions,
    pub(super) server: Option<Server>,
}

impl Endpoint {
    /// Binds to `address`, a UDP port; port 0 picks one.
    ///
    /// # Errors
    /// [`ConnectionError::Malformed`] if a text is no address, with what is possible; otherwise if it does not resolve or cannot
    /// be bound: it may be taken, or that of a group.
    pub fn bind(address: impl BindAddress) -> Result<Self, Error> {
        Self::bind_with(address, &EndpointOptions::default())
    }

    /// As [`Endpoint::bind`], with options.
    ///
    /// # Errors
    /// As [`Endpoint::bind`].
    pub fn bind_with(address: impl BindAddress, options: &EndpointOptions) -> Result<Self, Error> {
        let address = *address.addresses()?.first().ok_or_else(|| no_address("the address"))?;
        let ip = address.ip().to_canonical();
        if ip.is_multicast() || ip == Ipv4Addr::BROADCAST {
            // The system binds a socket there, to which nobody can connect.
            let why = "many hosts have it: listen at an address of this one";
            return Err(Error::listen(address, io::Error::new(io::ErrorKind::AddrNotAvailable, why)));
        }
        let server = Some(Server::start(address, options)?);
        Ok(Self { inner: Arc::new(Inner { options: options.clone(), server }) })
    }

    /// An endpoint that only connects. It has no socket, and no thread.
    pub fn client() -> Self {
        Self::client_with(&EndpointOptions::default())
    }

    /// As [`Endpoint::client`], with options.
    pub fn client_with(options: &EndpointOptions) -> Self {
        Self { inner: Arc::new(Inner { options: options.clone(), server: None }) }
    }

    /// The address it is bound to.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.inner.server.as_ref().map(|server| server.local)
    }

    /// Its settings.
    pub fn options(&self) -> &EndpointOptions {
        &self.inner.options
    }

    /// Listens. `most` is what is accepted at most: larger messages, higher rates and longer bursts than it says are refused;
    /// what it does not say is not limited. That the network is a cluster is believed of others if it says so, too.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrInUse`] if somebody listens on this endpoint already; [`io::ErrorKind::InvalidInput`] if it is
    /// one that only connects.
    pub fn listen(&self, most: &Service) -> Result<Listener, Error> {
        let failed = |kind: io::ErrorKind, why: &str| Err(Error::io("cannot listen", io::Error::new(kind, why)));
        let Some(server) = &self.inner.server else {
            return failed(io::ErrorKind::InvalidInput, "this endpoint is not bound: use Endpoint::bind");
        };
        if !server.shared.listen(most.clone()) {
            return failed(io::ErrorKind::AddrInUse, "somebody listens on this endpoint already");
        }
        Ok(Listener::new(&self.inner))
    }

    /// Connects to whoever listens at `peer`: `host:port`, or a URI (`pinnace://host:port?loss=5%`), whose words count where
    /// it has any, and `service` otherwise. Tries each address that a name resolves to, in order; of the
    /// [time that there is](EndpointOptions::connect_timeout) each has an equal share. The unspecified address is this host.
    ///
    /// # Errors
    /// [`Error::Connection`] says who did not answer, or what could not be met by which method; of a name with several
    /// addresses [`ConnectionError::NoneOf`] says it of each.
    pub fn connect(&self, peer: &str, service: &Service) -> Result<Connection, Error> {
        let (authority, service) = target(peer, service)?;
        let addresses = resolve(authority.as_str(), &authority)?;
        client::connect(&authority, &addresses, &service, &self.inner.options)
    }

    /// Like [`Endpoint::connect`], for tasks: a thread does it for the task.
    ///
    /// # Errors
    /// As [`Endpoint::connect`].
    pub async fn connect_async(&self, peer: &str, service: &Service) -> Result<Connection, Error> {
        let (this, peer, service) = (self.clone(), peer.to_owned(), service.clone());
        elsewhere(move || this.connect(&peer, &service)).await
    }
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint").field("local", &self.local_addr()).finish_non_exhaustive()
    }
}

/// Connects to whoever listens at a URI (`pinnace://host:port?loss=5%&run=4KiB`), or at `host:port` with the default service.
///
/// # Errors
/// As [`Endpoint::connect`].
pub fn connect(peer: &str) -> Result<Connection, Error> {
    Endpoint::client().connect(peer, &Service::new())
}

/// `host:port`, and the service.
fn target(peer: &str, service: &Service) -> Result<(String, Service), Error> {
    if !Uri::is_meant(peer) {
        check_address(peer, Place::There).map_err(ConnectionError::Malformed)?;
        return Ok((peer.to_owned(), service.clone()));
    }
    let uri: Uri = peer.parse().map_err(ConnectionError::Malformed)?;
    let authority = uri.authority();
    check_address(&authority, Place::There).map_err(ConnectionError::Malformed)?;
    Ok((authority, if Uri::has_words(peer) { uri.service } else { service.clone() }))
}

pub(crate) fn no_address(name: &str) -> Error {
    Error::io(format!("cannot resolve {name}"), io::ErrorKind::AddrNotAvailable.into())
}

fn resolve(address: impl ToSocketAddrs, name: &str) -> Result<Vec<SocketAddr>, Error> {
    let unresolved = |error: io::Error| {
        // What the resolver says has a number only if the system has failed.
        let is_unknown = error.raw_os_error().is_none() && error.kind() != io::ErrorKind::InvalidInput;
        let error = if is_unknown { io::Error::new(io::ErrorKind::AddrNotAvailable, error) } else { error };
        Error::io(format!("cannot resolve {name}"), error)
    };
    Ok(address.to_socket_addrs().map_err(unresolved)?.collect())
}

/// Does what blocks in a thread of its own, while a task waits.
async fn elsewhere<T: Send + 'static>(work: impl FnOnce() -> Result<T, Error> + Send + 'static) -> Result<T, Error> {
    type Place<T> = Mutex<(Option<thread::Result<Result<T, Error>>>, Option<Waker>)>;
    let place: Arc<Place<T>> = Arc::new(Mutex::new((None, None)));
    let theirs = Arc::clone(&place);
    let thread = thread::Builder::new().name("pinnace-connect".into()).spawn(move || {
        // Whoever waits would wait for ever for a thread that has gone.
        let result = catch_unwind(AssertUnwindSafe(work));
        let mut place = lock(&theirs);
        place.0 = Some(result);
        let waker = place.1.take();
        // Not under the lock: it may run the task at once.
        drop(place);
        waker.into_iter().for_each(Waker::wake);
    });
    thread.map_err(|error| Error::io("cannot start a thread", error))?;
    poll_fn(|context| {
        let mut place = lock(&place);
        let result = place.0.take();
        let old = if result.is_none() { place.1.replace(context.waker().clone()) } else { None };
        drop(place);
        drop(old);
        match result {
            Some(Ok(result)) => Poll::Ready(result),
            Some(Err(panic)) => resume_unwind(panic),
            None => Poll::Pending,
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inline;
    use crate::vrp::Contract;
    use std::sync::mpsc;
    use std::time::Duration;

    #[test]
    fn the_words_of_a_uri_count_where_it_has_any() {
        let lossy = Service::new().contract(Contract::new().loss_percent(5.0));
        let service = |peer: &str| target(peer, &lossy).unwrap().1;
        assert_eq!(service("h:1"), lossy);
        assert_eq!(service("pinnace://h:1"), lossy);
        assert_eq!(service("pinnace://h:1?"), lossy);
        assert_eq!(service("pinnace://h:1?loss=10%").to_string(), "loss=10%");
        // Also where they say what would be so anyway.
        assert_eq!(service("pinnace://h:1?loss=0"), Service::new());
        assert_eq!(service("pinnace://h:1/?order=yes"), Service::new());
    }

    #[test]
    fn a_task_may_run_while_it_is_woken() {
        let (told, tells) = mpsc::channel();
        let work = || {
            thread::sleep(Duration::from_millis(50));
            Ok(7)
        };
        inline::run(async move { told.send(elsewhere(work).await.unwrap()).unwrap() });
        assert_eq!(tells.recv_timeout(Duration::from_secs(5)), Ok(7));
    }

    #[test]
    fn a_panic_elsewhere_is_one_of_whoever_waits() {
        let (told, tells) = mpsc::channel();
        thread::spawn(move || {
            let work = || -> Result<(), Error> { panic!("as this test wants it") };
            let result = catch_unwind(AssertUnwindSafe(|| pollster::block_on(elsewhere(work))));
            told.send(result.is_err())
        });
        assert_eq!(tells.recv_timeout(Duration::from_secs(5)), Ok(true));
    }
}
