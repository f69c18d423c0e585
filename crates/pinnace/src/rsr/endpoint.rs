//! Endpoints: tables of handlers, and the threads that run them.
//!
//! Always true: a request runs at most one handler, at most once; one handler of an endpoint runs at a time, unless more
//! threads were asked for; whatever arrives, and whatever a handler does, the endpoint goes on.

use super::context::Context;
use super::error::{Attempt, Error, Obstacle};
use super::header::{Header, Unusable};
use super::method::{Incoming, Sink};
use super::queue::{Delivery, Queue};
use super::startpoint::{Startpoint, Way};
use super::{ByteOrder, Cause, Reader, random_id};
use crate::lock::lock;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

type Handler = Arc<dyn Fn(Request) + Send + Sync>;

/// A request that has arrived: what a handler is given.
pub struct Request {
    delivery: Delivery,
    header: Header,
    payload: Range<usize>,
    holes: Vec<Range<usize>>,
}

impl Request {
    /// The handler that was asked for.
    pub fn handler(&self) -> u16 {
        self.header.handler
    }

    /// Who sent it, as the method writes it. Methods do not vouch for it.
    pub fn source(&self) -> &str {
        &self.delivery.arrival.source
    }

    /// The method that brought it.
    pub fn method(&self) -> &str {
        &self.delivery.method
    }

    /// The bytes. Those in [`Request::holes`] mean nothing.
    pub fn payload(&self) -> &[u8] {
        &(*self.delivery.arrival.data).as_ref()[self.payload.clone()]
    }

    /// Bytes of the payload that were lost: ascending, disjoint, not empty.
    pub fn holes(&self) -> &[Range<usize>] {
        &self.holes
    }

    /// The order of the payload's numbers; the reader converts them.
    pub fn order(&self) -> ByteOrder {
        self.header.order
    }

    /// Reads the values, from the first on.
    pub fn reader(&self) -> Reader<'_> {
        Reader::new(self.payload(), &self.holes, self.header.order)
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (handler, method, source) = (self.handler(), self.method(), self.source());
        let (bytes, holes) = (self.payload.len(), &self.holes);
        write!(f, "Request {{ handler {handler}, {bytes} bytes by {method} from {source}, holes {holes:?} }}")
    }
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What an endpoint has seen.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            /// The counter of this name.
            pub fn value(&self, name: &str) -> Option<u64> {
                match name {
                    $(stringify!($name) => Some(self.$name),)*
                    _ => None,
                }
            }
        }

        #[derive(Debug, Default)]
        struct Counts {
            $($name: AtomicU64,)*
        }

        impl Counts {
            fn snapshot(&self) -> Counters {
                Counters { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }
    };
}

counters! {
    /// Requests for which a handler was begun.
    requests,
    /// Bytes of their payloads.
    payload_bytes,
    /// Requests among them with holes.
    requests_with_holes,
    /// Bytes in those holes.
    lost_bytes,
    /// Handlers that have panicked.
    handler_panics,
    /// Requests dropped because there is no such handler.
    unknown_handlers,
    /// Frames dropped because they are no request, or a part of the header was lost.
    malformed_headers,
    /// Requests dropped because of a flag that is not known here.
    unsupported_flags,
    /// Requests dropped because another endpoint was meant, which was here before, or is elsewhere.
    other_endpoints,
}

fn count(counter: &AtomicU64, by: usize) {
    counter.fetch_add(by as u64, Ordering::Relaxed);
}

#[derive(Default)]
struct Shared {
    id: u64,
    queue: Arc<Queue>,
    handlers: Mutex<BTreeMap<u16, Handler>>,
    counts: Counts,
}

impl Shared {
    fn run(&self) {
        while let Some(delivery) = self.queue.pop() {
            self.handle(delivery);
        }
    }

    fn handle(&self, delivery: Delivery) {
        let Some(request) = self.accept(delivery) else { return };
        let handler = lock(&self.handlers).get(&request.handler()).cloned();
        let Some(handler) = handler else { return count(&self.counts.unknown_handlers, 1) };
        count(&self.counts.requests, 1);
        count(&self.counts.payload_bytes, request.payload.len());
        if !request.holes.is_empty() {
            count(&self.counts.requests_with_holes, 1);
            count(&self.counts.lost_bytes, request.holes.iter().map(ExactSizeIterator::len).sum());
        }
        // A handler that breaks its own state finds it broken the next time; ours it cannot reach.
        let outcome = catch_unwind(AssertUnwindSafe(|| handler(request)));
        if let Err(panic) = outcome {
            count(&self.counts.handler_panics, 1);
            // What was thrown may panic, too, when it is dropped.
            let _ = catch_unwind(AssertUnwindSafe(|| drop(panic)));
        }
    }

    fn accept(&self, delivery: Delivery) -> Option<Request> {
        let frame = (*delivery.arrival.data).as_ref();
        let (header, length) = match Header::parse(frame) {
            Ok(parsed) => parsed,
            Err(unusable) => {
                count(
                    match unusable {
                        Unusable::Malformed => &self.counts.malformed_headers,
                        Unusable::Unsupported => &self.counts.unsupported_flags,
                    },
                    1,
                );
                return None;
            }
        };
        let holes = &delivery.arrival.holes;
        if holes.first().is_some_and(|hole| hole.start < length) {
            count(&self.counts.malformed_headers, 1);
            return None;
        }
        if header.endpoint.is_some_and(|id| id != self.id) {
            count(&self.counts.other_endpoints, 1);
            return None;
        }
        let holes = holes.iter().map(|hole| hole.start - length..hole.end - length).collect();
        Some(Request { payload: length..frame.len(), header, holes, delivery })
    }
}

/// How an endpoint is set up. See [`Endpoint::builder`].
pub struct Builder {
    context: Option<Context>,
    handlers: BTreeMap<u16, Handler>,
    listen: Vec<(String, String)>,
    threads: usize,
}

impl Builder {
    /// What runs when this handler is asked for. A panic in it is caught and counted.
    #[must_use]
    pub fn handler(mut self, id: u16, handler: impl Fn(Request) + Send + Sync + 'static) -> Self {
        self.handlers.insert(id, Arc::new(handler));
        self
    }

    /// Listens by this method, at this address (or wherever it likes: `""`). Called again, by another method as well;
    /// startpoints list them in the order of the calls. Not called at all, by every method of the context.
    #[must_use]
    pub fn listen(mut self, method: &str, address: &str) -> Self {
        self.listen.push((method.to_owned(), address.to_owned()));
        self
    }

    /// So many handlers may run at a time: one, by default.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads.max(1);
        self
    }

    /// Uses the methods of this context.
    #[must_use]
    pub fn context(mut self, context: &Context) -> Self {
        self.context = Some(context.clone());
        self
    }

    /// Opens the endpoint.
    ///
    /// # Errors
    /// [`Error::Listen`] if a method is not there or cannot listen, or the system has no thread left.
    pub fn open(self) -> Result<Endpoint, Error> {
        let context = self.context.unwrap_or_else(Context::of_process);
        let every = || context.methods().iter().map(|method| (method.name().to_owned(), String::new())).collect();
        let listen: Vec<_> = if self.listen.is_empty() { every() } else { self.listen };
        let shared = Arc::new(Shared { id: random_id(), handlers: Mutex::new(self.handlers), ..Shared::default() });
        let startpoint = Startpoint::new(vec![Way::new("none", "", "")?], None)?;
        // Whatever fails from here on, dropping it stops the threads.
        let mut endpoint = Endpoint { shared, startpoint, incoming: Vec::new(), threads: Vec::new() };
        let mut ways = Vec::new();
        for (name, address) in listen {
            let failed = |obstacle| Error::Listen(Attempt { method: name.clone(), address: address.clone(), obstacle });
            let method = context.method(&name).ok_or_else(|| failed(Obstacle::Unsupported))?;
            let sink = Sink::new(endpoint.shared.queue.clone(), &name);
            let incoming = method.listen(&address, sink).map_err(|cause| failed(Obstacle::Failed(cause)))?;
            ways.push(Way::new(&name, &incoming.address(), &incoming.options())?);
            endpoint.incoming.push(incoming);
        }
        endpoint.startpoint = Startpoint::new(ways, Some(endpoint.shared.id))?;
        for _ in 0..self.threads {
            let shared = endpoint.shared.clone();
            let thread = std::thread::Builder::new().name("rsr-handlers".to_owned()).spawn(move || shared.run());
            let failed = |error: io::Error| {
                let obstacle = Obstacle::Failed(Cause::from(error));
                Error::Listen(Attempt { method: "threads".to_owned(), address: String::new(), obstacle })
            };
            endpoint.threads.push(thread.map_err(failed)?);
        }
        Ok(endpoint)
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("listen", &self.listen).finish_non_exhaustive()
    }
}

/// A table of handlers that others can reach. Dropping it closes it.
pub struct Endpoint {
    shared: Arc<Shared>,
    startpoint: Startpoint,
    incoming: Vec<Box<dyn Incoming>>,
    threads: Vec<JoinHandle<()>>,
}

impl Endpoint {
    /// Begins to set one up.
    ///
    /// ```
    /// use pinnace::rsr::{self, Buffer, Endpoint};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// const GREET: u16 = 1;
    /// let (tell, told) = std::sync::mpsc::channel();
    /// let endpoint = Endpoint::builder()
    ///     .handler(GREET, move |request| {
    ///         if let Ok(name) = request.reader().get_str() {
    ///             let _ = tell.send(format!("ahoy, {name}"));
    ///         }
    ///     })
    ///     .listen("zcrp", "127.0.0.1:0")
    ///     .open()?;
    /// rsr::send_rsr(endpoint.startpoint(), GREET, Buffer::new().put_str("captain"))?;
    /// assert_eq!(told.recv()?, "ahoy, captain");
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder() -> Builder {
        Builder { context: None, handlers: BTreeMap::new(), listen: Vec::new(), threads: 1 }
    }

    /// The reference to give to others.
    pub fn startpoint(&self) -> &Startpoint {
        &self.startpoint
    }

    /// From now on this runs when the handler `id` is asked for.
    pub fn set_handler(&self, id: u16, handler: impl Fn(Request) + Send + Sync + 'static) {
        let old = lock(&self.shared.handlers).insert(id, Arc::new(handler));
        // Dropped when nothing is locked: it is not our code.
        drop(old);
    }

    /// What it has seen.
    pub fn counters(&self) -> Counters {
        self.shared.counts.snapshot()
    }

    /// Takes no more requests, and returns when those that were taken are handled. Called by one of its own handlers, it
    /// returns at once; what was taken and has no room to wait is dropped then.
    pub fn close(&mut self) {
        let own = std::thread::current().id();
        if self.threads.iter().any(|thread| thread.thread().id() == own) {
            // Whoever waits for room would wait for this very thread.
            self.shared.queue.close();
        }
        // What has arrived comes into the queue before it is closed.
        self.incoming.iter_mut().for_each(|incoming| incoming.close());
        self.incoming.clear();
        self.shared.queue.close();
        for thread in self.threads.drain(..).filter(|thread| thread.thread().id() != own) {
            let _ = thread.join();
        }
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.close();
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint {{ {} }}", self.startpoint)
    }
}
