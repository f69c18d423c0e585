//! The method `pinnace`: each request is a message of the one interface, over whichever protocol meets its service.
//!
//! The address is an [`Endpoint`]'s, `host:port`, and a way's options are the service as text: `loss=5% path=cluster`. A
//! buffer's contract counts where the protocol that was chosen knows contracts (VRP); others lose nothing, or, if the service is
//! best effort, whatever the path loses.
//!
//! Always true: there are at most [`MOST_PEERS`] connections, each with a thread that receives; a way whose peer has said
//! the end is not used again.

use super::Cause;
use super::address::reachable;
use super::method::{Arrival, Incoming, Method, Outgoing, Parcel, Pending, Sent, Sink};
use crate::endpoint::{Delivery, Listener, PerMessage};
use crate::lock::lock;
use crate::service::{self, Direction, Service};
use crate::{Connection, Endpoint, EndpointOptions, Error, Received};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Connections at a time.
const MOST_PEERS: usize = 256;
/// Bytes of the longest request, with its header.
const LONGEST: u64 = 64 << 20;
/// Requests that are still taken when the endpoint is closed, at least, of those who go on sending; and for how long.
const MOST_BEHIND: usize = 64;
const LONGEST_BEHIND: Duration = Duration::from_secs(1);
/// How often a thread looks whether the endpoint is closed.
const LOOK: Duration = Duration::from_millis(100);

/// The method `pinnace`: any of the library's protocols, chosen for a service when a way is opened.
///
/// ```
/// use pinnace::rsr::{Buffer, Context, Endpoint, Unified};
/// use std::sync::Arc;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let method = Unified { service: "size=64KiB prefer=throughput".parse()?, ..Unified::default() };
/// let context = Context::with_methods(vec![Arc::new(method)]);
/// let (tell, told) = std::sync::mpsc::channel();
/// let endpoint = Endpoint::builder()
///     .context(&context)
///     .handler(1, move |request| drop(tell.send(request.reader().get_u32())))
///     .listen("pinnace", "127.0.0.1:0")
///     .open()?;
/// context.send(endpoint.startpoint(), 1, Buffer::new().put_u32(7))?;
/// assert_eq!(told.recv()?, Ok(7));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Unified {
    /// Settings of both ends: which protocols may be chosen, and the longest request.
    pub options: EndpointOptions,
    /// What requests need. An endpoint tells it to those who connect, in its startpoints.
    pub service: Service,
}

impl Default for Unified {
    /// Requests of at most 64 MiB, none of which is lost.
    fn default() -> Self {
        let options = EndpointOptions { longest_message: LONGEST, ..EndpointOptions::default() };
        Self { options, service: Service::new().largest(LONGEST) }
    }
}

impl Method for Unified {
    fn name(&self) -> &str {
        "pinnace"
    }

    fn connect(&self, address: &str, options: &str) -> Result<Arc<dyn Outgoing>, Cause> {
        let service: Service = if options.is_empty() { self.service.clone() } else { options.parse()? };
        // The way back tells that the endpoint has gone.
        let service = service.direction(Direction::Duplex);
        let connection = Endpoint::client_with(&self.options).connect(address, &service)?;
        Ok(Arc::new(Open { connection, is_broken: Arc::default() }))
    }

    fn listen(&self, address: &str, sink: Sink) -> Result<Box<dyn Incoming>, Cause> {
        let bind = |address: &str| Endpoint::bind_with(address, &self.options);
        let endpoint = if address.is_empty() {
            bind(&format!("[{}]:0", Ipv6Addr::UNSPECIFIED))
                .or_else(|_| bind(&format!("{}:0", Ipv4Addr::UNSPECIFIED)))?
        } else {
            bind(address)?
        };
        let limits = self.service.path_class().map_or(Service::new(), |class| Service::new().path(class));
        let listener = endpoint.listen(&limits)?;
        let bound = listener.local_addr();
        let shared = Arc::new(Shared { sink, is_over: AtomicBool::new(false), peers: AtomicUsize::new(0) });
        let accepting = Arc::clone(&shared);
        let thread =
            std::thread::Builder::new().name("rsr-accept".to_owned()).spawn(move || accepting.accept(&listener))?;
        let address = reachable(bound).to_string();
        Ok(Box::new(Listening { shared, address, options: self.service.to_string(), thread: Some(thread) }))
    }
}

struct Open {
    connection: Connection,
    is_broken: Arc<AtomicBool>,
}

impl Outgoing for Open {
    fn send(&self, parcel: Parcel) -> Result<Box<dyn Pending>, Cause> {
        let special = match self.connection.method() {
            service::Method::Vrp => PerMessage::new().contract(parcel.contract().vrp()),
            _ => PerMessage::new(),
        };
        let sent = self.connection.send_with(parcel.message(), &special);
        let delivery = sent.inspect_err(|_| self.is_broken.store(true, Ordering::Relaxed)).map_err(Error::from)?;
        Ok(Box::new(UnderWay { delivery, is_broken: Arc::clone(&self.is_broken) }))
    }

    fn is_usable(&self) -> bool {
        // Nothing comes this way but the end.
        let ends = || !matches!(self.connection.recv_timeout(Duration::ZERO), Err(Error::Timeout) | Ok(Some(_)));
        !self.is_broken.load(Ordering::Relaxed) && !ends()
    }
}

struct UnderWay {
    delivery: Delivery,
    is_broken: Arc<AtomicBool>,
}

impl Pending for UnderWay {
    fn wait(self: Box<Self>) -> Result<Sent, Cause> {
        let Self { delivery, is_broken } = *self;
        let delivered =
            delivery.wait().inspect_err(|_| is_broken.store(true, Ordering::Relaxed)).map_err(Error::from)?;
        Ok(Sent { lost: delivered.holes().iter().map(|hole| hole.start as u64..hole.end as u64).collect() })
    }
}

/// What the threads of an endpoint share.
struct Shared {
    sink: Sink,
    is_over: AtomicBool,
    peers: AtomicUsize,
}

impl Shared {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    fn accept(self: &Arc<Self>, listener: &Listener) {
        let threads: Mutex<Vec<JoinHandle<()>>> = Mutex::default();
        let threads = || lock(&threads);
        while !self.is_over() {
            let Ok(accepted) = listener.accept_timeout(LOOK) else { break };
            threads().retain(|thread| !thread.is_finished());
            let Some(connection) = accepted else { continue };
            if self.peers.fetch_add(1, Ordering::AcqRel) >= MOST_PEERS {
                self.peers.fetch_sub(1, Ordering::AcqRel);
                // It must not end in order: that takes time, and others wait for this thread.
                connection.give_up();
                continue;
            }
            let peer = Peer { shared: Arc::clone(self) };
            // If there is no thread for it, dropping the closure ends the connection and counts the peer off.
            let thread = std::thread::Builder::new().name("rsr-pinnace".to_owned());
            if let Ok(thread) = thread.spawn(move || peer.serve(connection)) {
                threads().push(thread);
            }
        }
        // All say goodbye at the same time. A panic there would be ours, and has been printed.
        std::mem::take(&mut *threads()).into_iter().for_each(|thread| drop(thread.join()));
    }
}

/// One that sends to us; counted until it is dropped.
struct Peer {
    shared: Arc<Shared>,
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.shared.peers.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Peer {
    fn serve(&self, connection: Connection) {
        let source = connection.peer_addr().to_string();
        let (mut over_since, mut behind) = (None, 0);
        loop {
            // What has come before the end is taken. Where that is cannot be told of whoever sends without a pause.
            let is_over = self.shared.is_over();
            if is_over {
                let since = *over_since.get_or_insert_with(Instant::now);
                if behind >= MOST_BEHIND && since.elapsed() >= LONGEST_BEHIND {
                    // Some of it is not taken, so this is no end in order.
                    connection.give_up();
                    return;
                }
                behind += 1;
            }
            match connection.recv_timeout(if is_over { Duration::ZERO } else { LOOK }) {
                Ok(Some(received)) => {
                    if self.shared.sink.deliver(arrival(received, &source), Duration::MAX).is_err() {
                        return;
                    }
                }
                Err(Error::Timeout) if !is_over => {}
                Ok(None) | Err(_) => return,
            }
        }
    }
}

fn arrival(received: Received, source: &str) -> Arrival {
    Arrival { holes: received.holes().to_vec(), source: source.to_owned(), data: Box::new(received) }
}

struct Listening {
    shared: Arc<Shared>,
    address: String,
    options: String,
    thread: Option<JoinHandle<()>>,
}

impl Incoming for Listening {
    fn address(&self) -> String {
        self.address.clone()
    }

    fn options(&self) -> String {
        self.options.clone()
    }

    fn close(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        self.shared.is_over.store(true, Ordering::Release);
        let _ = thread.join();
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ConnectionError, rsr};

    #[test]
    fn whoever_goes_on_sending_does_not_keep_an_endpoint_from_closing() {
        // Much is under way over this one.
        let selection = service::Selection { forced: Some(service::Method::Xtp), ..service::Selection::default() };
        let method =
            Unified { options: EndpointOptions { selection, ..Unified::default().options }, ..Unified::default() };
        let context = rsr::Context::with_methods(vec![Arc::new(method)]);
        // Slower than whoever sends, so that there is always another request.
        let handler = |_| std::thread::sleep(Duration::from_millis(1));
        let builder = rsr::Endpoint::builder().context(&context).handler(1, handler);
        let mut endpoint = builder.listen("pinnace", "127.0.0.1:0").open().unwrap();
        let (to, sending) = (endpoint.startpoint().clone(), context.clone());
        let sender = std::thread::spawn(move || {
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_secs(30) && sending.begin(&to, 1, &mut rsr::Buffer::new()).is_ok() {}
        });
        std::thread::sleep(Duration::from_millis(200));
        let begin = Instant::now();
        endpoint.close();
        assert!(begin.elapsed() < Duration::from_secs(15), "{:?}", begin.elapsed());
        sender.join().unwrap();
    }

    #[test]
    fn who_finds_no_place_is_turned_away_and_not_said_goodbye_to() {
        let listener = Endpoint::bind("127.0.0.1:0").unwrap().listen(&Service::new()).unwrap();
        let to = listener.local_addr().to_string();
        let sink = Sink::new(Arc::default(), "pinnace");
        let shared = Arc::new(Shared { sink, is_over: AtomicBool::new(false), peers: AtomicUsize::new(MOST_PEERS) });
        let accepting = Arc::clone(&shared);
        let thread = std::thread::spawn(move || accepting.accept(&listener));
        let client = Endpoint::client().connect(&to, &"direction=duplex".parse().unwrap()).unwrap();
        let end = client.recv_timeout(Duration::from_secs(20));
        let is_turned_away =
            matches!(&end, Err(Error::Connection(error)) if matches!(**error, ConnectionError::BrokenOff { .. }));
        assert!(is_turned_away, "{end:?}");
        shared.is_over.store(true, Ordering::Release);
        thread.join().unwrap();
    }
}
