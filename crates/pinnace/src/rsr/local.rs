//! The method `local`: within one process, by reference. Loses nothing and copies nothing.
//!
//! An address is a random number, so a startpoint that has travelled to another process finds nothing there, and the next
//! method is taken.

use super::Cause;
use super::method::{Arrival, Incoming, Method, Outgoing, Parcel, Pending, Sent, Sink};
use super::random_id;
use crate::lock::lock;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

/// How long a sender waits for an endpoint that has too much to do. Not for ever: it may be its own.
const PATIENCE: Duration = Duration::from_secs(5);

/// The method `local`.
#[derive(Clone, Debug, Default)]
pub struct Local {
    endpoints: Arc<Mutex<BTreeMap<String, Sink>>>,
}

impl Local {
    /// The one that all of the process shares.
    pub fn of_process() -> Self {
        static SHARED: OnceLock<Local> = OnceLock::new();
        SHARED.get_or_init(Self::default).clone()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Sink>> {
        lock(&self.endpoints)
    }
}

impl Method for Local {
    fn name(&self) -> &str {
        "local"
    }

    fn connect(&self, address: &str, _options: &str) -> Result<Arc<dyn Outgoing>, Cause> {
        let gone = || io::Error::new(io::ErrorKind::ConnectionRefused, "no such endpoint in this process");
        let sink = self.lock().get(address).cloned().ok_or_else(gone)?;
        Ok(Arc::new(Open { sink }))
    }

    fn listen(&self, address: &str, sink: Sink) -> Result<Box<dyn Incoming>, Cause> {
        let address = if address.is_empty() { format!("{:016x}", random_id()) } else { address.to_owned() };
        let mut endpoints = self.lock();
        if endpoints.contains_key(&address) {
            return Err(io::Error::from(io::ErrorKind::AddrInUse).into());
        }
        endpoints.insert(address.clone(), sink);
        Ok(Box::new(Listening { method: self.clone(), address: Some(address) }))
    }
}

struct Open {
    sink: Sink,
}

impl Outgoing for Open {
    fn send(&self, parcel: Parcel) -> Result<Box<dyn Pending>, Cause> {
        let arrival =
            Arrival { data: Box::new(Bytes(parcel)), holes: Vec::new(), source: std::process::id().to_string() };
        self.sink.deliver(arrival, PATIENCE)?;
        Ok(Box::new(Delivered))
    }

    fn is_usable(&self) -> bool {
        !self.sink.is_closed()
    }
}

struct Bytes(Parcel);

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes()
    }
}

struct Delivered;

impl Pending for Delivered {
    fn wait(self: Box<Self>) -> Result<Sent, Cause> {
        Ok(Sent::default())
    }
}

struct Listening {
    method: Local,
    address: Option<String>,
}

impl Incoming for Listening {
    fn address(&self) -> String {
        self.address.clone().unwrap_or_default()
    }

    fn close(&mut self) {
        if let Some(address) = self.address.take() {
            self.method.lock().remove(&address);
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.close();
    }
}
