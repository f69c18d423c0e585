//! Links that this process may not use and a daemon may: the daemon carries for it, through shared memory.
//!
//! Always true: what a process may do by itself it does by itself; without a daemon, or one that may, the error is its own.

use super::arrivals::Arrivals;
use super::{Carrier, Options, Stream, Way};
use crate::daemon::{Arrival, Client};
use crate::lock::lock;
use pinnace_runtime::{Waiting, WakeFd, Wakers};
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

/// The daemon that may help out where `error` is what came of using a link.
pub(super) fn helper(carrier: &Carrier, error: &io::Error) -> Option<Arc<Client>> {
    let is_raw = matches!(carrier, Carrier::Ip36 | Carrier::Ether);
    if is_raw && error.kind() == io::ErrorKind::PermissionDenied { Client::current() } else { None }
}

/// What the daemon has come to; the error of this process if the daemon may no more than it.
fn helped<T>(result: io::Result<T>, own: io::Error) -> io::Result<T> {
    result.map_err(|error| if error.kind() == io::ErrorKind::Unsupported { own } else { error })
}

/// What carries what goes through a channel: the link of the daemon's behind it, if that was asked for.
pub(super) fn way(options: &Options) -> Way {
    match options.carrier {
        Carrier::Udp | Carrier::SharedMemory => Way::SharedMemory,
        Carrier::Ip36 => Way::Ip36,
        Carrier::Ether => Way::Ether,
    }
}

/// A stream by way of the daemon, where this process has come to `error`. Waits for the answer.
pub(super) fn connect(to: SocketAddr, options: &Options, error: io::Error) -> io::Result<Stream> {
    let Some(client) = helper(&options.carrier, &error) else { return Err(error) };
    let arrival = helped(client.connect_via(&options.carrier, to), error)?;
    Stream::over_channel(arrival, options)
}

/// A listener whose arrivals the daemon brings.
#[derive(Debug)]
pub(super) struct Carried {
    arrivals: Arrivals,
    bell: Arc<Bell>,
    pub(super) local: SocketAddr,
}

/// Wakes who waits for arrivals.
#[derive(Debug, Default)]
struct Bell {
    tasks: Mutex<Wakers>,
    rings: Condvar,
}

impl Bell {
    fn ring(&self) {
        let tasks = std::mem::take(&mut *lock(&self.tasks));
        self.rings.notify_all();
        tasks.wake();
    }
}

impl Carried {
    /// Listens by way of the daemon, where this process has come to `error`.
    pub(super) fn listen(local: SocketAddr, options: &Options, error: io::Error) -> io::Result<Self> {
        let Some(client) = helper(&options.carrier, &error) else { return Err(error) };
        let registration = helped(client.listen_via(&options.carrier, local), error)?;
        let bell = Arc::new(Bell::default());
        let theirs = Arc::clone(&bell);
        let arrivals = Arrivals::carried(registration, &options.carrier, move || theirs.ring())?;
        Ok(Self { arrivals, bell, local })
    }

    pub(super) fn accept(&self, deadline: Option<Instant>) -> Option<Arrival> {
        let mut waiting = lock(&self.bell.tasks);
        loop {
            if let Some(arrival) = self.arrivals.pop() {
                return Some(arrival);
            }
            let left = deadline.map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return None;
            }
            let woken = self.bell.rings.wait_timeout(waiting, left);
            waiting = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    pub(super) async fn accept_async(&self) -> Arrival {
        let mut waiting = Waiting::default();
        poll_fn(|context| {
            let mut tasks = lock(&self.bell.tasks);
            if let Some(arrival) = self.arrivals.pop() {
                return Poll::Ready(arrival);
            }
            let old = tasks.add(&mut waiting, context.waker());
            drop(tasks);
            drop(old);
            Poll::Pending
        })
        .await
    }

    pub(super) fn watch(&self, watch: &Arc<WakeFd>) {
        self.arrivals.watch(watch);
    }

    pub(super) fn has_arrivals(&self) -> bool {
        !self.arrivals.is_empty()
    }
}
