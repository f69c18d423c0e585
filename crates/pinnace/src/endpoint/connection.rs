//! Connections: messages to a peer and back, by whatever method was chosen.

mod closing;
mod statistics;

use crate::lock::{Lock, Locked};
pub(super) use closing::LONGEST_LINGER;
pub use statistics::Statistics;

use super::ending::Ending;
use super::{ConnectionError, Delivery, MessageStream, PerMessage};
use crate::carrier::{Carrier, Carry, Received, ReceivedInto, Sending, Turn, dead};
use crate::counters::Shown;
use crate::network::deadline;
use crate::rendezvous::is_duplex;
use crate::service::{Choice, Method, Path, Pattern, Reliability, Selection, Service, choose};
use crate::{Error, Message, Unsent};
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What a connection is made of beside its carrier.
pub(crate) struct Parts {
    pub(crate) method: Method,
    pub(crate) service: Service,
    pub(crate) path: Path,
    pub(crate) peer: SocketAddr,
    pub(crate) selection: Selection,
    /// Bytes of the longest message that is received.
    pub(crate) longest: u64,
    /// This end has connected: it is the one that sends, where messages go one way.
    pub(crate) has_connected: bool,
}

/// Messages to a peer and back, by the method that was chosen for the service.
///
/// Calls may come from any thread; share it in an [`Arc`](std::sync::Arc). Dropping it closes it; what was queued has a
/// second to arrive.
#[derive(Debug)]
pub struct Connection {
    carrier: Arc<Carrier>,
    method: Method,
    path: Path,
    peer: SocketAddr,
    selection: Selection,
    service: Lock<Service>,
    /// Held from a request to its response.
    transacting: Turn<()>,
    /// Responses to requests for which nobody waits any more.
    owed: AtomicU64,
    is_closed: AtomicBool,
    ending: Arc<Ending>,
    /// What the peer sends has ended in order, and somebody here has received that.
    has_received_end: AtomicBool,
    /// Something may come.
    receives: bool,
    /// Both ways were ended at this end, and not in order.
    is_broken_off: AtomicBool,
    /// The same at the other end, as far as anybody here has received it.
    was_broken_off: AtomicBool,
    /// The peer has closed, and takes nothing any more.
    has_left: AtomicBool,
    /// Its process is dead, where this host sees that.
    has_died: AtomicBool,
    /// The most bytes of a message that the service has named.
    largest: AtomicU64,
    /// The most bytes of a message that is received.
    longest: u64,
    /// A longer one has come, or one for which there was no memory: for so many bytes.
    has_refused: AtomicBool,
    no_memory: AtomicU64,
    shown: Shown,
}

impl Connection {
    pub(crate) fn new(carrier: Carrier, parts: Parts) -> Self {
        let Parts { method, service, path, peer, selection, longest, has_connected } = parts;
        let receives = !has_connected || is_duplex(&service);
        let (transacting, owed, is_closed) = (Turn::new(()), AtomicU64::new(0), AtomicBool::new(false));
        let service_text = service.to_string();
        let shown = Shown::new(method.name(), &peers(&carrier, peer), &service_text);
        let (carrier, ending) = (Arc::new(carrier), Arc::new(Ending::new()));
        let largest = AtomicU64::new(largest_of(&service));
        let service = Lock::new(service);
        Self {
            carrier,
            method,
            path,
            peer,
            selection,
            service,
            transacting,
            owed,
            is_closed,
            ending,
            is_broken_off: AtomicBool::new(false),
            has_received_end: AtomicBool::new(false),
            receives,
            was_broken_off: AtomicBool::new(false),
            has_left: AtomicBool::new(false),
            has_died: AtomicBool::new(false),
            largest,
            longest,
            has_refused: AtomicBool::new(false),
            no_memory: AtomicU64::new(0),
            shown,
        }
    }

    /// Begins to send a message (its first [`Message::len`] bytes, which are not copied unless they are few). Waits while
    /// the method's queue is full. What is returned says when it has arrived; dropped, the message goes on.
    ///
    /// # Errors
    /// [`Unsent`] gives the message back, with the reason: [`ConnectionError::MessageTooLong`] if it has more bytes than the
    /// service has named as [`largest`](Service::largest); [`ConnectionError::BrokenOff`] once it is known that the peer has
    /// broken off, and [`ConnectionError::Left`] that it has closed in order and takes nothing any more.
    pub fn send(&self, message: impl Into<Message>) -> Result<Delivery, Unsent> {
        self.begin(message.into(), None, None)
    }

    /// As [`Connection::send`], with what differs for this message from the service.
    ///
    /// # Errors
    /// As [`Connection::send`]; also [`ConnectionError::Cannot`] if the method cannot do for one message what is asked.
    pub fn send_with(&self, message: impl Into<Message>, special: &PerMessage) -> Result<Delivery, Unsent> {
        self.begin(message.into(), Some(special), None)
    }

    /// As [`Connection::send`], waiting for room for at most `timeout`.
    ///
    /// ```
    /// use pinnace::{Endpoint, Error, service::Service};
    /// use std::time::Duration;
    /// let endpoint = Endpoint::bind("127.0.0.1:0")?;
    /// let listener = endpoint.listen(&Service::new())?;
    /// let connection = Endpoint::client().connect(&listener.local_addr().to_string(), &Service::new())?;
    /// // Nobody receives.
    /// let unsent = loop {
    ///     if let Err(unsent) = connection.send_timeout(vec![0; 1 << 20], Duration::from_millis(100)) {
    ///         break unsent;
    ///     }
    /// };
    /// assert!(matches!(unsent.error, Error::Timeout));
    /// assert_eq!(unsent.message.expect("it comes back").len(), 1 << 20);
    /// # Ok::<(), pinnace::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Connection::send`], and [`Error::Timeout`]: nothing was sent then.
    pub fn send_timeout(&self, message: impl Into<Message>, timeout: Duration) -> Result<Delivery, Unsent> {
        self.begin(message.into(), None, deadline(timeout))
    }

    /// As [`Connection::send_timeout`], with what differs for this message from the service.
    ///
    /// # Errors
    /// As [`Connection::send_timeout`] and [`Connection::send_with`].
    pub fn send_with_timeout(
        &self,
        message: impl Into<Message>,
        special: &PerMessage,
        timeout: Duration,
    ) -> Result<Delivery, Unsent> {
        self.begin(message.into(), Some(special), deadline(timeout))
    }

    fn begin(
        &self,
        message: Message,
        special: Option<&PerMessage>,
        deadline: Option<Instant>,
    ) -> Result<Delivery, Unsent> {
        let (bytes, message) = (message.len(), self.may_send(message, special));
        let special = special.map(PerMessage::special);
        self.begun(bytes, message.and_then(|message| self.carrier.send(message, special, deadline)))
    }

    /// As [`Connection::send`], but does not wait: without room in the method's queue it fails at once. How much that is
    /// differs: so many bytes, or messages, whose arrival is not known yet, or as much shared memory as the peer has not read.
    ///
    /// ```
    /// use pinnace::{Endpoint, service::Service};
    /// let endpoint = Endpoint::bind("127.0.0.1:0")?;
    /// let listener = endpoint.listen(&Service::new())?;
    /// let connection = Endpoint::client().connect(&listener.local_addr().to_string(), &Service::new())?;
    /// let mut queued = 0;
    /// let full = loop {
    ///     match connection.try_send(vec![0; 1 << 20]) {
    ///         Ok(_) => queued += 1,
    ///         Err(unsent) => break unsent,
    ///     }
    /// };
    /// assert!(queued > 0 && full.error.would_block() && full.message.is_some());
    /// # Ok::<(), pinnace::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Connection::send`]; [`ConnectionError::Full`] if it would have to wait ([`Error::would_block`]).
    pub fn try_send(&self, message: impl Into<Message>) -> Result<Delivery, Unsent> {
        self.try_begin(message.into(), None)
    }

    /// As [`Connection::try_send`], with what differs for this message from the service.
    ///
    /// # Errors
    /// As [`Connection::try_send`] and [`Connection::send_with`].
    pub fn try_send_with(&self, message: impl Into<Message>, special: &PerMessage) -> Result<Delivery, Unsent> {
        self.try_begin(message.into(), Some(special))
    }

    fn try_begin(&self, message: Message, special: Option<&PerMessage>) -> Result<Delivery, Unsent> {
        let (bytes, message) = (message.len(), self.may_send(message, special));
        let sent = message.and_then(|message| self.carrier.try_send(message, special.map(PerMessage::special)));
        self.begun(bytes, sent).map_err(|unsent| match unsent.error.would_block() {
            true => Unsent::new(unsent.message, ConnectionError::Full { method: self.method }),
            false => unsent,
        })
    }

    /// As [`Connection::send`], for tasks: the future waits for room, and gives what is to be awaited for the message to
    /// arrive. If it is dropped before, nothing was sent. Of two that wait at the same time either may be the first.
    ///
    /// # Errors
    /// As [`Connection::send`].
    pub async fn send_async(&self, message: impl Into<Message>) -> Result<Delivery, Unsent> {
        self.begin_async(message.into(), None).await
    }

    /// As [`Connection::send_with`], for tasks.
    ///
    /// # Errors
    /// As [`Connection::send_with`].
    pub async fn send_with_async(&self, message: impl Into<Message>, special: &PerMessage) -> Result<Delivery, Unsent> {
        self.begin_async(message.into(), Some(special)).await
    }

    async fn begin_async(&self, message: Message, special: Option<&PerMessage>) -> Result<Delivery, Unsent> {
        let bytes = message.len();
        let message = self.may_send(message, special)?;
        self.begun(bytes, self.carrier.send_async(message, special.map(PerMessage::special)).await)
    }

    /// Why a message of so many bytes cannot be sent, as far as that is known without it: for whoever has to copy it first.
    #[doc(hidden)]
    pub fn check_send(&self, bytes: u64) -> Result<(), Error> {
        self.check_begin(bytes)?;
        self.carrier.check_length(bytes).map_err(|error| self.explained(error))
    }

    fn check_begin(&self, bytes: u64) -> Result<(), ConnectionError> {
        if self.is_closed.load(Ordering::Relaxed) {
            return Err(ConnectionError::Closed);
        }
        self.check_known()?;
        let most = self.largest();
        if bytes > most { Err(ConnectionError::MessageTooLong { bytes, most }) } else { Ok(()) }
    }

    /// The message, if it can be sent so.
    fn may_send(&self, message: Message, special: Option<&PerMessage>) -> Result<Message, Unsent> {
        if let Err(error) = self.check_begin(message.len() as u64) {
            return Err(Unsent::new(message, error));
        }
        let check = |special: &PerMessage| {
            special.check(self.method, || self.current().priority, || self.carrier.repeats_nothing())
        };
        match special.map_or(Ok(()), check) {
            Ok(()) => Ok(message),
            Err(what) => Err(Unsent::new(message, ConnectionError::Cannot { method: self.method, what })),
        }
    }

    /// An error if it is known already that the peer takes nothing any more.
    #[inline]
    fn check_known(&self) -> Result<(), ConnectionError> {
        let method = self.method;
        if self.was_broken_off.load(Ordering::Relaxed) {
            return Err(ConnectionError::BrokenOff { method });
        }
        if self.has_died.load(Ordering::Relaxed) {
            return Err(dead());
        }
        if self.has_left.load(Ordering::Relaxed) { Err(ConnectionError::Left { method }) } else { Ok(()) }
    }

    pub(crate) fn carrier(&self) -> &Carrier {
        &self.carrier
    }

    #[inline]
    fn begun(&self, bytes: usize, sent: Result<Sending, Unsent>) -> Result<Delivery, Unsent> {
        let sending = match sent {
            Ok(sending) => sending,
            Err(unsent) => return Err(Unsent { error: self.explained(unsent.error), ..unsent }),
        };
        self.shown.count_sent(bytes);
        Ok(Delivery::new(sending, &self.carrier))
    }

    /// What has gone wrong, by whatever method, in the light of what the peer has said.
    #[cold]
    fn explained(&self, error: Error) -> Error {
        let error = if self.is_closed.load(Ordering::Relaxed) && error.is_of_end() {
            ConnectionError::Closed.into()
        } else {
            self.carrier.explained(error)
        };
        self.note(&error);
        error
    }

    /// Waits for the next message; `None` when the peer has closed, and everything was received. The waiting thread does
    /// the method's work.
    ///
    /// # Errors
    /// If the connection has failed; [`Error::MessageTooLong`] if a message is longer than
    /// [`EndpointOptions::longest_message`](super::EndpointOptions::longest_message), [`Error::NoMemory`] if there is no memory
    /// for it. Then nothing is received behind it, by whatever method, and the connection is broken off, so that the peer knows
    /// ([`ConnectionError::BrokenOff`]).
    pub fn recv(&self) -> Result<Option<Received>, Error> {
        self.counted(self.carrier.recv(None))
    }

    /// Like [`Connection::recv`], for at most `timeout`.
    ///
    /// # Errors
    /// As [`Connection::recv`], and [`Error::Timeout`].
    pub fn recv_timeout(&self, timeout: Duration) -> Result<Option<Received>, Error> {
        self.counted(self.carrier.recv(deadline(timeout)))
    }

    /// Whether something was lost behind the last message that was received, where the peer has ended what it sends
    /// ([`Connection::recv`] has returned `None`): over VRP in order, of messages that were given up or refused, and of best effort
    /// over XTP and A1, which repeat nothing, as far as the receiver can know. [`Received::missed`] says so of what lies before a
    /// message.
    pub fn is_end_missing(&self) -> bool {
        self.carrier.is_end_missing()
    }

    /// Like [`Connection::recv`], for tasks.
    ///
    /// # Errors
    /// As [`Connection::recv`].
    pub async fn recv_async(&self) -> Result<Option<Received>, Error> {
        self.counted(self.carrier.recv_async().await)
    }

    /// What was received, once it is counted.
    #[inline]
    fn counted(&self, received: Result<Option<Received>, Error>) -> Result<Option<Received>, Error> {
        match &received {
            Ok(Some(message)) => {
                self.check_length(message.len() as u64)?;
                self.shown.count_received(message.len(), message.bytes_lost());
                self.pay();
            }
            Ok(None) => self.check_end()?,
            Err(error) => self.check_failure(error)?,
        }
        received
    }

    /// Whether so long a message is received, and no longer one has come before.
    #[inline]
    fn check_length(&self, bytes: u64) -> Result<(), Error> {
        if bytes > self.longest || self.has_refused.load(Ordering::Relaxed) { Err(self.refuse()) } else { Ok(()) }
    }

    /// A message that is too long for this end, or for its memory, is the last: who has sent it learns of that by the end, and so
    /// would not of one that was left out. It is not waited for: a task may have asked.
    #[cold]
    fn refuse(&self) -> Error {
        if !self.has_refused.swap(true, Ordering::Relaxed) {
            self.abort_until(Instant::now());
        }
        match self.no_memory.load(Ordering::Relaxed) {
            0 => Error::MessageTooLong(self.longest),
            bytes => Error::NoMemory(bytes),
        }
    }

    /// What no message has come for.
    #[cold]
    fn check_failure(&self, error: &Error) -> Result<(), Error> {
        // Memory of the caller's may be too short as well, which is no reason to refuse anything.
        let is_too_long = match error {
            Error::NoMemory(bytes) => {
                self.no_memory.store(*bytes, Ordering::Relaxed);
                true
            }
            Error::MessageTooLong(most) => *most >= self.longest || self.waiting_bytes() > Some(self.longest),
            _ => false,
        };
        if is_too_long || self.has_refused.load(Ordering::Relaxed) {
            return Err(self.refuse());
        }
        if self.is_broken_off.load(Ordering::Relaxed) && !matches!(error, Error::Timeout) {
            return Err(ConnectionError::Closed.into());
        }
        self.note(error);
        Ok(())
    }

    /// Of whoever has broken off nobody knows whether the peer's end was reached in order.
    #[cold]
    fn check_end(&self) -> Result<(), Error> {
        if self.has_refused.load(Ordering::Relaxed) {
            return Err(self.refuse());
        }
        if self.is_broken_off.load(Ordering::Relaxed) {
            return Err(ConnectionError::Closed.into());
        }
        self.has_received_end.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Nobody receives what is sent to whoever has broken off, and methods without a state of the connection's own (VRP,
    /// ZCRP) would find that out only by not being answered.
    #[cold]
    fn note(&self, error: &Error) {
        let Error::Connection(error) = error else { return };
        match **error {
            ConnectionError::BrokenOff { .. } => self.was_broken_off.store(true, Ordering::Relaxed),
            ConnectionError::Left { .. } => self.has_left.store(true, Ordering::Relaxed),
            // Shared memory would take one message more.
            ConnectionError::Lost { method: Method::SharedMemory, ref source }
                if source.kind() == io::ErrorKind::TimedOut =>
            {
                self.has_died.store(true, Ordering::Relaxed);
            }
            _ => {}
        }
    }

    /// Something has come: if a response is owed, that is it.
    #[inline]
    fn pay(&self) {
        if self.owed.load(Ordering::Relaxed) > 0 {
            let less = |owed: u64| owed.checked_sub(1);
            let _ = self.owed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        }
    }

    /// Like [`Connection::recv`], into memory of the caller's.
    ///
    /// # Errors
    /// As [`Connection::recv`]; [`Error::MessageTooLong`] if the message is longer than the memory.
    pub fn recv_into(&self, buffer: &mut [u8]) -> Result<Option<ReceivedInto>, Error> {
        self.recv_into_until(buffer, None)
    }

    /// Like [`Connection::recv_into`], for at most `timeout`.
    ///
    /// # Errors
    /// As [`Connection::recv_into`], and [`Error::Timeout`].
    pub fn recv_into_timeout(&self, buffer: &mut [u8], timeout: Duration) -> Result<Option<ReceivedInto>, Error> {
        self.recv_into_until(buffer, deadline(timeout))
    }

    fn recv_into_until(&self, buffer: &mut [u8], deadline: Option<Instant>) -> Result<Option<ReceivedInto>, Error> {
        let received = self.carrier.recv_into(buffer, deadline);
        self.counted_into(received)
    }

    /// Like [`Connection::recv_into`], for tasks.
    ///
    /// # Errors
    /// As [`Connection::recv_into`].
    pub async fn recv_into_async(&self, buffer: &mut [u8]) -> Result<Option<ReceivedInto>, Error> {
        let received = self.carrier.recv_into_async(buffer).await;
        self.counted_into(received)
    }

    fn counted_into(&self, received: Result<Option<ReceivedInto>, Error>) -> Result<Option<ReceivedInto>, Error> {
        match &received {
            Ok(Some(ReceivedInto { len, holes, .. })) => {
                self.check_length(*len as u64)?;
                self.shown.count_received(*len, holes.iter().map(ExactSizeIterator::len).sum());
                self.pay();
            }
            Ok(None) => self.check_end()?,
            Err(error) => self.check_failure(error)?,
        }
        received
    }

    /// Whether a message has come that was longer than this end takes, so that nothing more does.
    #[doc(hidden)]
    pub fn has_refused(&self) -> bool {
        self.has_refused.load(Ordering::Relaxed)
    }

    /// How many bytes the message has that was too long for [`Connection::recv_into`], as far as is known.
    #[doc(hidden)]
    pub fn waiting_bytes(&self) -> Option<u64> {
        self.carrier.waiting_bytes()
    }

    /// Sends a request, and waits for the next message, which is the response. One request is under way at a time: others
    /// wait for their turn. The other end receives requests, and sends responses, as messages.
    ///
    /// # Errors
    /// As [`Connection::send`] and [`Connection::recv`]; [`Error::NoResponse`] if the peer has closed instead;
    /// [`ConnectionError::Cannot`] if the service has one direction.
    pub fn transact(&self, request: impl Into<Message>) -> Result<Received, Error> {
        let _turn = self.transacting.take(None);
        while self.responses_owed()? > 0 {
            self.recv()?.ok_or(Error::NoResponse)?;
        }
        drop(self.send(request)?);
        self.owe_response();
        self.recv()?.ok_or(Error::NoResponse)
    }

    /// How many responses come before that to the next request, because whoever asked for them has given up. Where they may
    /// be lost that is an error.
    #[doc(hidden)]
    pub fn responses_owed(&self) -> Result<u64, Error> {
        let owed = self.owed.load(Ordering::Relaxed);
        self.check_owed(owed).map(|()| owed)
    }

    /// Whether it is sure that so many come.
    #[doc(hidden)]
    pub fn check_owed(&self, owed: u64) -> Result<(), Error> {
        // Before a request is sent that nobody can answer.
        self.carrier.check_receives()?;
        if owed > 0 && self.current().reliability != Reliability::Full {
            let what = "tell the response from one to an earlier request that nobody waited for, and that may be lost: \
                connect anew, or say which request a response belongs to";
            return Err(ConnectionError::Cannot { method: self.method, what: what.to_owned() }.into());
        }
        Ok(())
    }

    /// A request was sent: the next message that is received is its response.
    #[doc(hidden)]
    pub fn owe_response(&self) {
        self.owed.fetch_add(1, Ordering::Relaxed);
    }

    /// Like [`Connection::transact`], for tasks. If the future is dropped, the response that comes all the same is not taken
    /// for that to a later request.
    ///
    /// # Errors
    /// As [`Connection::transact`].
    pub async fn transact_async(&self, request: impl Into<Message>) -> Result<Received, Error> {
        let request = request.into();
        let _turn = self.transacting.take_async().await;
        while self.responses_owed()? > 0 {
            self.recv_async().await?.ok_or(Error::NoResponse)?;
        }
        drop(self.send_async(request).await?);
        self.owe_response();
        self.recv_async().await?.ok_or(Error::NoResponse)
    }

    /// The messages as one stream of bytes to read and write, in which where one ends says nothing.
    ///
    /// # Errors
    /// [`ConnectionError::Unsuited`] if the service may lose something, or does not keep the order.
    pub fn stream(&self) -> Result<MessageStream<'_>, Error> {
        let service = self.service();
        if service.reliability != Reliability::Full || !service.order {
            let why = "a stream loses nothing and keeps the order, and the service allows otherwise: receive messages";
            return Err(ConnectionError::Unsuited(why.to_owned()).into());
        }
        Ok(MessageStream::new(self))
    }

    /// What is sent from now on is sent with this service. The method stays, and so does what was agreed on with the peer:
    /// direction and order, and how long a message it takes.
    ///
    /// # Errors
    /// [`ConnectionError::Cannot`] if the method does not meet the service on this path, and why; or if it says anew what
    /// cannot be changed. Then nothing has changed.
    pub fn set_service(&self, service: &Service) -> Result<(), Error> {
        let cannot = |what: String| Error::from(ConnectionError::Cannot { method: self.method, what });
        let mut current = self.current();
        for (is_kept, what) in [
            (current.direction == service.direction, "direction"),
            (current.order == service.order, "order"),
            (current.receivers == service.receivers, "receivers"),
            (current.pattern == service.pattern, "pattern"),
        ] {
            if !is_kept {
                return Err(cannot(format!("change the {what} of a connection: connect anew")));
            }
        }
        let offer = self.method.probe(service, &self.path);
        if !offer.fits {
            return Err(cannot(format!("meet this service: {}", offer.why.join(", and "))));
        }
        if self.carrier.repeats_nothing() && !offer.mode.repeats_nothing() {
            return Err(cannot(
                "change to this service: it repeats nothing, so connect anew for what must arrive, or for what has no rate on the Internet"
                    .to_owned(),
            ));
        }
        self.carrier.set_service(service).map_err(|why| cannot(format!("change to this service: {why}")))?;
        self.shown.describe(self.method.name(), &peers(&self.carrier, self.peer), &service.to_string());
        self.largest.store(largest_of(service), Ordering::Relaxed);
        *current = service.clone();
        Ok(())
    }

    /// Bytes of the largest message that may be sent.
    pub(super) fn largest(&self) -> u64 {
        self.largest.load(Ordering::Relaxed)
    }

    fn current(&self) -> Locked<'_, Service> {
        self.service.lock()
    }

    /// The service with which messages are sent.
    pub fn service(&self) -> Service {
        self.current().clone()
    }

    /// What carries it.
    pub fn method(&self) -> Method {
        self.method
    }

    /// What lies between the peers, as far as was known when it was made.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Why it is this method: its offer, and those of the others. `None` if the service, as it is now, would not be carried
    /// by it: on the accepting side the peer has chosen, by what it knew.
    pub fn explain(&self) -> Option<Choice> {
        let service = self.service();
        let free =
            choose(&service, &self.path, &self.selection).ok().filter(|choice| choice.offer.method == self.method);
        free.or_else(|| {
            let forced = Selection { forced: Some(self.method), ..Selection::default() };
            choose(&service, &self.path, &forced).ok()
        })
    }

    /// Where the peer's socket is, of the method that was chosen; of several receivers
    /// ([`Connection::receivers`]) the address of the first one's endpoint.
    pub fn peer_addr(&self) -> SocketAddr {
        self.peer
    }

    /// Waits until everything that was sent has arrived.
    ///
    /// # Errors
    /// If it does not.
    pub fn flush(&self) -> Result<(), Error> {
        self.carrier.flush(None).map_err(|error| self.explained(error))
    }

    /// Like [`Connection::flush`], waiting for at most `timeout`.
    ///
    /// # Errors
    /// As [`Connection::flush`], and [`Error::Timeout`].
    pub fn flush_timeout(&self, timeout: Duration) -> Result<(), Error> {
        self.carrier.flush(deadline(timeout)).map_err(|error| self.explained(error))
    }

    /// Like [`Connection::flush`], for tasks.
    ///
    /// # Errors
    /// As [`Connection::flush`].
    pub async fn flush_async(&self) -> Result<(), Error> {
        self.carrier.flush_async().await.map_err(|error| self.explained(error))
    }

    /// Whether the peer is there, as far as is known; one that has been silent for two seconds is asked, and a later call tells.
    /// Waits for nothing. For whoever neither sends nor receives for long, above all when the peer has ended what it sends:
    /// whoever sends or receives finds out by that.
    ///
    /// # Errors
    /// If the peer has gone or has broken off, or the connection is of no use any more.
    ///
    /// ```
    /// # use pinnace::{Endpoint, Service};
    /// # let listener = Endpoint::bind("127.0.0.1:0")?.listen(&Service::new())?;
    /// let to = listener.local_addr().to_string();
    /// let connection = Endpoint::client().connect(&to, &Service::new())?;
    /// let peer = listener.accept()?;
    /// connection.check()?;
    /// # drop(peer);
    /// # Ok::<(), pinnace::Error>(())
    /// ```
    pub fn check(&self) -> Result<(), Error> {
        self.check_known()?;
        self.carrier.check().map_err(|error| self.explained(error))
    }

    /// A descriptor for event loops: it becomes readable when something may have come. Then [`clear`](Self::clear) it, and
    /// take what is there with [`Connection::recv_timeout`] of no time until that is [`Error::Timeout`]. Valid as long as the
    /// connection; not to be read from.
    ///
    /// # Errors
    /// If the system has no descriptors left, or nothing comes this way.
    pub fn descriptor(&self) -> Result<BorrowedFd<'_>, Error> {
        self.carrier.descriptor()
    }

    /// Makes the descriptor unreadable until something comes.
    pub fn clear(&self) {
        self.carrier.clear();
    }
}

/// Of a stream it is no message that is so large.
fn largest_of(service: &Service) -> u64 {
    let most = if service.pattern == Pattern::Stream { None } else { service.largest };
    most.unwrap_or(u64::MAX)
}

/// Whom a connection is with, in few words.
fn peers(carrier: &Carrier, first: SocketAddr) -> String {
    match carrier {
        Carrier::Cast(cast) => match cast.receivers().len() {
            0 | 1 => first.to_string(),
            count => format!("{first} and {} more", count - 1),
        },
        _ => first.to_string(),
    }
}
