//! The listening end: a thread that accepts peers, and one for each of them.
//!
//! Always true: there are at most [`MOST_PEERS`] peers; memory for what they announce is taken from one budget, and never
//! more than a request may have; nobody has a share of it for long that others wait for, and sends nothing.

use super::{HANDSHAKE_TIMEOUT, INLINE_BYTES, LOOK_INTERVAL, MAGIC, SIZE_BYTES, VERSION, Zcrp};
use crate::Message;
use crate::lock::lock;
use crate::network::{as_connected, canonical};
use crate::rsr::address::reachable;
use crate::rsr::method::{Arrival, Incoming, Sink, Undelivered};
use crate::zcrp::{Channel, Options, Progress, Receiver};
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Peers at a time. Each has a thread, and a socket.
const MOST_PEERS: usize = 256;

/// How long the accepting thread rests when it gets no connection, because too many files are open, say.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How long a peer may have memory that others wait for, however little of its request comes.
const GRACE: Duration = Duration::from_secs(10);

/// Bytes a second that have to come from then on.
const SLOWEST: u64 = 64 << 10;

pub(super) fn listen(address: &str, sink: Sink, method: &Zcrp) -> io::Result<Listening> {
    listen_with(address, sink, method, GRACE)
}

fn listen_with(address: &str, sink: Sink, method: &Zcrp, grace: Duration) -> io::Result<Listening> {
    let listener = if address.is_empty() {
        TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)))
    } else {
        TcpListener::bind(address)
    }?;
    let bound = listener.local_addr()?;
    let shared = Arc::new(Shared {
        sink,
        options: method.options.clone(),
        most_request_bytes: method.most_request_bytes,
        grace,
        state: Mutex::default(),
        changed: Condvar::new(),
    });
    let accepting = shared.clone();
    let thread =
        std::thread::Builder::new().name("rsr-accept".to_owned()).spawn(move || accepting.accept(&listener))?;
    Ok(Listening { shared, bound, thread: Some(thread) })
}

pub(super) struct Listening {
    shared: Arc<Shared>,
    bound: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

impl Incoming for Listening {
    fn address(&self) -> String {
        reachable(self.bound).to_string()
    }

    fn close(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        let (agreeing, receivers) = {
            let mut state = self.shared.lock();
            state.stopped = true;
            (std::mem::take(&mut state.agreeing), std::mem::take(&mut state.receivers))
        };
        // Who has not said who he is may take his time.
        for control in agreeing.values() {
            let _ = control.shutdown(Shutdown::Both);
        }
        self.shared.changed.notify_all();
        // Each says goodbye for 40 ms: all at the same time.
        std::thread::scope(|scope| {
            for receiver in receivers.values() {
                let _ = std::thread::Builder::new().spawn_scoped(scope, || receiver.close());
            }
        });
        // The thread waits for a connection.
        if TcpStream::connect_timeout(&as_connected(self.bound), Duration::from_secs(1)).is_ok() {
            let _ = thread.join();
        }
        let mut state = self.shared.lock();
        while state.peers > 0 {
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.close();
    }
}

struct Shared {
    sink: Sink,
    options: Options,
    most_request_bytes: u32,
    grace: Duration,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    stopped: bool,
    peers: usize,
    /// Connections over which nothing has been agreed yet, by a number that is the peer's own.
    agreeing: BTreeMap<u64, TcpStream>,
    /// By the same number.
    receivers: BTreeMap<u64, Receiver>,
    next_peer: u64,
    /// Bytes of requests on their way in.
    coming: u64,
    /// Peers that wait for some to be there.
    waiting: usize,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        loop {
            let connection = listener.accept();
            let mut state = self.lock();
            if state.stopped {
                return;
            }
            let Ok((control, source)) = connection else {
                drop(state);
                std::thread::sleep(ACCEPT_PAUSE);
                continue;
            };
            if state.peers >= MOST_PEERS {
                drop(state);
                // Best effort: the peer learns it from the end of the connection, too.
                let _ = control.set_nonblocking(true).and_then(|()| (&control).write(&answer(1, 0, 0)));
                continue;
            }
            state.peers += 1;
            let number = state.next_peer;
            state.next_peer += 1;
            // Without another descriptor the end waits for the time-out.
            if let Ok(control) = control.try_clone() {
                state.agreeing.insert(number, control);
            }
            drop(state);
            let peer = Peer { shared: self.clone(), number };
            // If there is no thread for it, dropping the closure ends the connection and counts the peer off.
            let _ = std::thread::Builder::new().name("rsr-zcrp".to_owned()).spawn(move || peer.serve(control, source));
        }
    }
}

fn answer(status: u8, port: u16, most_bytes: u32) -> [u8; 12] {
    let mut answer = [0; 12];
    answer[..4].copy_from_slice(&MAGIC);
    answer[4..6].copy_from_slice(&[VERSION, status]);
    answer[6..8].copy_from_slice(&port.to_be_bytes());
    answer[8..].copy_from_slice(&most_bytes.to_be_bytes());
    answer
}

/// One that sends to us; counted until it is dropped.
struct Peer {
    shared: Arc<Shared>,
    number: u64,
}

impl Drop for Peer {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.peers -= 1;
        state.agreeing.remove(&self.number);
        let receiver = state.receivers.remove(&self.number);
        drop(state);
        drop(receiver);
        self.shared.changed.notify_all();
    }
}

impl Peer {
    #[allow(clippy::needless_pass_by_value, reason = "the connection ends with the thread")]
    fn serve(self, control: TcpStream, source: SocketAddr) {
        // What goes wrong ends the connection; the peer sees that.
        let Ok(channel) = self.agree(&control) else { return };
        if let Ok(receiver) = channel.open_receiver(channel.config(&self.shared.options)) {
            if self.enter(&receiver) {
                let source = canonical(source).to_string();
                while self.take(&receiver, &control, &source).is_some() {}
            }
            receiver.close();
        }
        channel.shutdown();
    }

    /// Agrees on the ports.
    fn agree(&self, mut control: &TcpStream) -> Result<Channel, crate::Error> {
        let mut agreed = || -> io::Result<_> {
            control.set_read_timeout(Some(HANDSHAKE_TIMEOUT))?;
            control.set_write_timeout(Some(HANDSHAKE_TIMEOUT))?;
            let mut hello = [0; 8];
            control.read_exact(&mut hello)?;
            let [m0, m1, m2, m3, version, _, p0, p1] = hello;
            if [m0, m1, m2, m3] != MAGIC || version != VERSION {
                return Err(io::ErrorKind::InvalidData.into());
            }
            let socket = super::socket_beside(control)?;
            let sockets = super::join(&socket, control, u16::from_be_bytes([p0, p1]))?;
            control.write_all(&answer(0, socket.local_addr()?.port(), self.shared.most_request_bytes))?;
            control.set_nonblocking(true)?;
            Ok(sockets)
        };
        let [incoming, outgoing] = agreed().map_err(|error| crate::Error::io("cannot agree with a peer", error))?;
        Channel::from_sockets(incoming, outgoing, &self.shared.options)
    }

    /// Makes the receiver known, for the end; false if that has come.
    fn enter(&self, receiver: &Receiver) -> bool {
        let mut state = self.shared.lock();
        state.agreeing.remove(&self.number);
        if !state.stopped {
            state.receivers.insert(self.number, receiver.clone());
        }
        !state.stopped
    }

    /// Takes one request in; `None` if there are no more.
    fn take(&self, receiver: &Receiver, control: &TcpStream, source: &str) -> Option<()> {
        let head = self.receive(receiver, control, SIZE_BYTES + INLINE_BYTES, None)?;
        let (size, inline) = head.split_first_chunk::<SIZE_BYTES>()?;
        let size = u32::from_be_bytes(*size);
        // Until it is in the queue: whoever waits for that has the memory.
        let mut share = None;
        let data: Box<dyn AsRef<[u8]> + Send + Sync> = if size as usize <= INLINE_BYTES {
            if inline.len() != size as usize {
                return None;
            }
            Box::new(Bytes { message: head, skip: SIZE_BYTES })
        } else {
            if !inline.is_empty() || size > self.shared.most_request_bytes {
                return None;
            }
            let held = share.insert(self.share(u64::from(size))?);
            let message = self.receive(receiver, control, size as usize, Some(held))?;
            if message.len() != size as usize {
                return None;
            }
            Box::new(Bytes { message, skip: 0 })
        };
        let arrival = Arrival { data, holes: Vec::new(), source: source.to_owned() };
        let delivered = self.shared.sink.deliver(arrival, Duration::MAX);
        drop(share);
        match delivered {
            Ok(()) => Some(()),
            Err(Undelivered::Closed | Undelivered::Full) => None,
        }
    }

    fn receive(
        &self,
        receiver: &Receiver,
        control: &TcpStream,
        capacity: usize,
        share: Option<&Share<'_>>,
    ) -> Option<Message> {
        let come_before = receiver.counters().bytes_received;
        let mut receiving = receiver.post(Message::try_with_capacity(capacity).ok()?).ok()?;
        let mut gone = false;
        loop {
            // The peer goes when what it sent is acknowledged, so that is here.
            let patience = if gone { Duration::ZERO } else { LOOK_INTERVAL };
            match receiving.wait_timeout(patience) {
                Progress::Ended(result) => return result.ok(),
                Progress::UnderWay(_) if gone => return None,
                Progress::UnderWay(same) => receiving = same,
            }
            let come = || receiver.counters().bytes_received - come_before;
            gone = super::has_gone(control)
                || self.shared.lock().stopped
                || share.is_some_and(|share| share.is_wanted() && share.is_idle(come()));
        }
    }

    /// A share of the budget; waits for it. `None` if the end has come.
    fn share(&self, bytes: u64) -> Option<Share<'_>> {
        let budget = u64::from(self.shared.most_request_bytes) * 2;
        let mut state = self.shared.lock();
        state.waiting += 1;
        while !state.stopped && state.coming + bytes > budget {
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.waiting -= 1;
        if state.stopped {
            return None;
        }
        state.coming += bytes;
        Some(Share { shared: &self.shared, bytes, since: Instant::now() })
    }
}

struct Share<'a> {
    shared: &'a Shared,
    bytes: u64,
    since: Instant,
}

impl Share<'_> {
    fn is_wanted(&self) -> bool {
        self.shared.lock().waiting > 0
    }

    /// Whether less has come than the slowest peer may send.
    fn is_idle(&self, come: u64) -> bool {
        let beyond = self.since.elapsed().saturating_sub(self.shared.grace);
        !beyond.is_zero() && come < beyond.as_secs().saturating_mul(SLOWEST).max(1)
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        self.shared.lock().coming -= self.bytes;
        self.shared.changed.notify_all();
    }
}

struct Bytes {
    message: Message,
    skip: usize,
}

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        &self.message[self.skip..]
    }
}

#[cfg(test)]
mod tests {
    use super::super::client;
    use super::*;
    use crate::rsr::method::{Contract, Parcel, Pending};
    use crate::rsr::queue::Queue;

    const MOST: u32 = 100_000;

    /// Says that a request of `MOST` bytes comes, and no more. It stays open as long as what is returned lives.
    fn announce(address: &str) -> impl Sized {
        let (control, port, _, socket) = client::agree(address, HANDSHAKE_TIMEOUT).unwrap();
        let [incoming, outgoing] = super::super::join(&socket, &control, port).unwrap();
        let options = Options::default();
        let channel = Channel::from_sockets(incoming, outgoing, &options).unwrap();
        let sender = channel.open_sender(channel.config(&options)).unwrap();
        let head = sender.send(Message::from_vec(MOST.to_be_bytes().to_vec())).unwrap();
        assert!(matches!(head.wait_timeout(Duration::from_secs(20)), Progress::Ended(Ok(_))));
        (control, channel, sender)
    }

    #[test]
    fn memory_that_was_announced_and_is_not_used_is_there_for_others() {
        let method = Zcrp { most_request_bytes: MOST, ..Zcrp::default() };
        let queue = Arc::new(Queue::default());
        let sink = Sink::new(Arc::clone(&queue), "zcrp");
        let mut listening = listen_with("127.0.0.1:0", sink, &method, Duration::from_secs(1)).unwrap();
        let address = listening.bound.to_string();
        // Twice `MOST` is all that there is.
        let silent = [announce(&address), announce(&address)];
        while listening.shared.lock().coming < 2 * u64::from(MOST) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let way = client::connect(&address, &method.options).unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let request = Arc::new(vec![7; MOST as usize]);
            let sent = way.send(Parcel::new(request, Contract::default())).map(Pending::wait);
            let _ = tell.send(sent.is_ok_and(|arrived| arrived.is_ok()));
        });
        assert_eq!(told.recv_timeout(Duration::from_secs(20)), Ok(true), "it waits for those who send nothing");
        assert_eq!(queue.pop().unwrap().arrival.data.as_ref().as_ref().len(), MOST as usize);
        drop(silent);
        listening.close();
    }
}
