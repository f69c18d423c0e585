//! Who comes to a listener through shared memory, or over a link of the daemon's: a thread takes them from the daemon and
//! shows them to whoever accepts.
//!
//! Always true: the thread ends with its listener; what nobody accepted is closed then, and its sender told.

use super::{Carrier, Options};
use crate::daemon::{Arrival, Client, Registration};
use crate::lock::lock;
use pinnace_runtime::WakeFd;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// How often the thread looks whether its listener is still there, or a daemon has come.
const LOOK: Duration = Duration::from_millis(200);
/// Arrivals that wait to be accepted; the daemon has more, and a limit of its own.
const MOST: usize = 128;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Arrivals {
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The link of the daemon's that they come over, if they do.
    link: Option<Carrier>,
    /// That the daemon shows us who comes.
    registration: Mutex<Option<Arc<Registration>>>,
    waiting: Mutex<VecDeque<Arrival>>,
    watch: Mutex<Option<Arc<WakeFd>>>,
    is_over: AtomicBool,
}

impl Arrivals {
    /// Begins to take those who come to `address`. `notify` is called after each. `None`: there is no daemon, or this
    /// listener is not for shared memory.
    pub(super) fn begin(
        address: SocketAddr,
        options: &Options,
        notify: impl Fn() + Send + 'static,
    ) -> io::Result<Option<Self>> {
        if !options.takes_shared_memory() {
            return Ok(None);
        }
        let Some(client) = Client::current() else { return Ok(None) };
        let registration = match client.listen(address) {
            Ok(registration) => Some(Arc::new(registration)),
            // A listener before this one is about to go: the address is ours.
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => None,
            Err(_) => return Ok(None),
        };
        let state = State { registration: Mutex::new(registration), ..State::default() };
        Self::of(state, address, notify).map(Some)
    }

    /// Takes those who come over a link of the daemon's.
    pub(super) fn carried(
        registration: Registration,
        link: &Carrier,
        notify: impl Fn() + Send + 'static,
    ) -> io::Result<Self> {
        let address = registration.address();
        let registration = Mutex::new(Some(Arc::new(registration)));
        Self::of(State { link: Some(link.clone()), registration, ..State::default() }, address, notify)
    }

    fn of(state: State, address: SocketAddr, notify: impl Fn() + Send + 'static) -> io::Result<Self> {
        let state = Arc::new(state);
        let theirs = Arc::clone(&state);
        thread::Builder::new().name("pinnace-arrivals".into()).spawn(move || theirs.take(address, &notify))?;
        Ok(Self { state })
    }

    pub(super) fn pop(&self) -> Option<Arrival> {
        lock(&self.state.waiting).pop_front()
    }

    pub(super) fn is_empty(&self) -> bool {
        lock(&self.state.waiting).is_empty()
    }

    /// `watch` is signalled from now on when somebody comes, and at once if somebody has.
    pub(super) fn watch(&self, watch: &Arc<WakeFd>) {
        *lock(&self.state.watch) = Some(Arc::clone(watch));
        if !self.is_empty() {
            watch.signal();
        }
    }
}

impl Drop for Arrivals {
    fn drop(&mut self) {
        self.state.is_over.store(true, Ordering::Relaxed);
        // At once, so that who comes now is refused, and a new listener is known.
        if let Some(registration) = lock(&self.state.registration).take() {
            registration.end();
        }
        lock(&self.state.waiting).clear();
    }
}

impl State {
    fn take(&self, address: SocketAddr, notify: &dyn Fn()) {
        while !self.is_over.load(Ordering::Relaxed) {
            let known = lock(&self.registration).clone();
            let Some(known) = known else {
                // The daemon has gone; another may come.
                thread::sleep(LOOK);
                self.register(address);
                continue;
            };
            if lock(&self.waiting).len() >= MOST {
                thread::sleep(LOOK / 20);
                continue;
            }
            match known.accept_timeout(LOOK) {
                Ok(None) => {}
                Ok(Some(arrival)) => {
                    // Under the lock of the queue, so that nothing comes in behind its end.
                    let mut waiting = lock(&self.waiting);
                    if self.is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    waiting.push_back(arrival);
                    drop(waiting);
                    if let Some(watch) = &*lock(&self.watch) {
                        watch.signal();
                    }
                    notify();
                }
                Err(error) if error.kind() == io::ErrorKind::NotConnected => *lock(&self.registration) = None,
                // One arrival was no good, or the system is short of descriptors.
                Err(_) => thread::sleep(LOOK / 20),
            }
        }
    }

    fn register(&self, address: SocketAddr) {
        let listen = |client: Arc<Client>| match &self.link {
            Some(link) => client.listen_via(link, address).ok(),
            None => client.listen(address).ok(),
        };
        let registration = Client::current().and_then(listen);
        let mut place = lock(&self.registration);
        // Whoever ends this looks into its place behind that.
        if !self.is_over.load(Ordering::Relaxed) {
            *place = registration.map(Arc::new);
        }
    }
}
