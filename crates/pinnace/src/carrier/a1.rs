//! A connection over A1: messages under a record of quality of service that both ends derive from the service.
//!
//! Always true: what is not whole of a message without retransmission is not delivered; what the connection says itself is
//! told to no application.

use super::again::Again;
use super::alarm::{Alarm, within};
use super::in_vain::InVain;
use super::received::Position;
use super::silence::Silence;
use super::watch::Watch;
use super::{Awaited, Carry, Received, ReceivedInto, Sending, Special, at_most, place};
use crate::a1::{Connection, Full, Qos, Refused, Socket, Status, WINDOW_LIMIT, raw, reliable};
use crate::attempts::Attempts;
use crate::endpoint::ConnectionError;
use crate::lock::lock;
use crate::rendezvous::{Control, Kind};
use crate::service::{Checksum, Method, Pattern, Reliability, Service};
use crate::{Error, Message, Unsent};
use pinnace_runtime::WakeFd;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

/// The shortest message of a connection that says nothing of sizes, in bytes.
const LEAST: u64 = 1 << 20;
/// The longest message of a stream, where no message is meant, in bytes.
const LARGEST_WRITE: u64 = 16 << 20;
/// Messages under way, at most.
const OUTSTANDING: u32 = 64;
/// How long the end may take, behind what was said of the end.
const FAREWELL: Duration = Duration::from_millis(200);

/// How long an answer to OPEN is waited for, in milliseconds, where the protocol repeats nothing; then OPEN is said again.
pub(super) const ANSWERS: [u64; 4] = [50, 100, 200, 400];

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct A1 {
    connection: Connection,
    /// Open as long as its connection.
    socket: Socket,
    nonce: u64,
    has_ended: AtomicBool,
    /// Something was lost behind the last message that came.
    is_end_missing: AtomicBool,
    /// The end of ours has been reached, behind which nothing is sent.
    is_over: AtomicBool,
    /// The end is behind what was sent.
    is_end_said: AtomicBool,
    /// The peer is the source of a multicast, to which nothing is sent.
    is_of_many: bool,
    again: Again,
    silence: Silence,
    /// Makes the descriptor readable when it is time to look again.
    alarm: Mutex<Option<Alarm>>,
    watch: Watch,
}

/// Makes event loops look.
struct Look(Arc<WakeFd>);

impl Wake for Look {
    fn wake(self: Arc<Self>) {
        self.0.signal();
    }
}

/// The record of a service.
pub(crate) fn qos_of(service: &Service) -> Qos {
    let base = if service.reliability == Reliability::BestEffort { raw() } else { reliable() };
    let largest = service.largest_bytes().max(LEAST);
    // Of a stream it is no message that is so large.
    let largest = if service.pattern == Pattern::Stream { largest.min(LARGEST_WRITE) } else { largest };
    let largest = u32::try_from(largest).unwrap_or(u32::MAX);
    let mut qos = Qos {
        has_checksum: service.checksum == Checksum::Internet,
        priority: service.priority.unwrap_or(base.priority),
        largest_sent: largest,
        largest_received: largest,
        outstanding: outstanding(largest),
        ..base
    };
    if let Some((rate, burst)) = service.kept_rate() {
        qos.send_average = (rate / 8).max(1);
        qos.send_burst = u32::try_from(burst).unwrap_or(u32::MAX).max(1);
    }
    if let (false, Some(lifespan)) = (qos.has_retransmission, service.lifespan) {
        qos.deadline = u32::try_from(lifespan.as_micros()).unwrap_or(u32::MAX);
    }
    qos
}

/// What a connection says to a message of so many bytes that is longer than was agreed.
pub(super) fn check_length(connection: &Connection, bytes: u64) -> Result<(), Error> {
    // So few need no look behind the lock.
    let most = if bytes > LEAST { connection.qos().ok().map(|qos| qos.largest_sent.into()) } else { None };
    match most {
        Some(most) if bytes > most => Err(Error::CallRefused(Refused::TooLarge { most })),
        _ => Ok(()),
    }
}

/// How many messages of this size may be under way: the window has less than 2^20 blocks, of which one message has at most
/// 65,535, and is taken to have one a kibibyte.
fn outstanding(largest: u32) -> u32 {
    let blocks = largest.div_ceil(1024).clamp(1, 65_535);
    ((WINDOW_LIMIT - 1) / blocks).clamp(1, OUTSTANDING)
}

/// The most that the answering side agrees to: what the service says, and any rate.
pub(crate) fn most_of(service: &Service) -> Qos {
    Qos { priority: 0, send_average: 0, send_burst: 0, ..qos_of(service) }
}

impl A1 {
    /// `timeout`: how long the peer may be silent.
    pub(crate) fn new(socket: Socket, connection: Connection, nonce: u64, timeout: Duration) -> Self {
        Self {
            connection,
            socket,
            nonce,
            has_ended: AtomicBool::new(false),
            is_end_missing: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            is_end_said: AtomicBool::new(false),
            is_of_many: false,
            again: Again::default(),
            silence: Silence::new(timeout),
            alarm: Mutex::default(),
            watch: Watch::default(),
        }
    }

    /// Of the receiving kind: the peer sends to others, too, and reads nothing.
    pub(crate) fn of_many(mut self) -> Self {
        self.is_of_many = true;
        self
    }

    /// Whether nothing is repeated, and nobody acknowledges OPEN but its receiver.
    fn is_raw(&self) -> bool {
        self.connection.qos().is_ok_and(|qos| !qos.has_retransmission)
    }

    /// OPEN has come: tells who has said it, if nothing else does.
    pub(crate) fn answer(&self) {
        if self.is_raw() {
            let _ = self.say_that_it_waits();
        }
    }

    /// Says OPEN; again until there is an answer, a few times, if nothing else repeats it.
    pub(crate) fn open(&self, open: &Control, deadline: Option<Instant>) -> Result<(), Error> {
        self.connection.send(open.encode(), Full::Report).map_err(|unsent| unsent.error)?;
        if self.is_raw() {
            self.await_answer(open, deadline);
        }
        Ok(())
    }

    fn await_answer(&self, open: &Control, deadline: Option<Instant>) {
        for wait in ANSWERS {
            match self.connection.recv_timeout(at_most(Duration::from_millis(wait), deadline)) {
                Err(Error::Timeout) => drop(self.connection.send(open.encode(), Full::Report)),
                // Whoever receives finds out.
                Err(_) => return,
                Ok(received) => {
                    if let Some(Some(message)) = self.sort(received) {
                        self.again.put_back(message);
                    }
                    return;
                }
            }
        }
    }

    /// The message, if it may be sent.
    fn may_send(&self, message: Message) -> Result<Message, Unsent> {
        if !self.is_of_many {
            return Ok(message);
        }
        let what = "send back to a source with several receivers: a multicast goes one way".to_owned();
        Err(Unsent::new(message, ConnectionError::Cannot { method: Method::A1, what }))
    }

    /// Nothing more is queued; whoever waits for room waits in vain.
    fn stop_sending(&self) {
        if !self.is_over.swap(true, Ordering::SeqCst) {
            self.connection.look_again();
        }
    }

    /// Says the end behind all that was sent, once. A window that is full waits no longer than whoever closes.
    fn say_end(&self, deadline: Option<Instant>) -> Result<(), Error> {
        if self.is_end_said.load(Ordering::SeqCst) {
            return Ok(());
        }
        let end = self.control(Kind::End);
        self.connection.send_until(end, false, Attempts::Until(deadline))?;
        self.is_end_said.store(true, Ordering::SeqCst);
        Ok(())
    }

    /// If the peer does not acknowledge this, the connection is given up.
    pub(super) fn say_that_it_waits(&self) -> Result<(), Error> {
        self.connection.send(self.control(Kind::Alive), Full::Report).map_err(|unsent| unsent.error)
    }

    fn control(&self, kind: Kind) -> Message {
        Message::from_vec(Control::new(kind, self.nonce).encode())
    }

    /// Nobody waits any more who would find out whether a silent peer is there, but an event loop may.
    fn set_alarm(&self, at: Instant) {
        let Some(watch) = self.watch.get() else { return };
        let mut alarm = lock(&self.alarm);
        if alarm.as_ref().map(Alarm::at) != Some(at) {
            *alarm = Some(Alarm::set(at, &Waker::from(Arc::new(Look(Arc::clone(watch))))));
        }
    }

    /// What is for the application of what has come; the outer `None`: nothing.
    fn sort(&self, received: Option<crate::a1::Received>) -> Option<Option<Received>> {
        let Some(received) = received else { return Some(None) };
        let is_whole = received.status.contains(Status::START) && received.status.contains(Status::END);
        if received.status.contains(Status::LOST) || !is_whole {
            self.is_end_missing.store(true, Ordering::Relaxed);
        }
        if !is_whole {
            return None;
        }
        if Control::may_be(&received.data, self.nonce)
            && let Ok(control) = Control::parse(&received.data, Some(self.nonce))
        {
            if control.kind != Kind::End {
                return None;
            }
            self.has_ended.store(true, Ordering::Relaxed);
            return Some(None);
        }
        // There is a gap; how many messages it has swallowed is not known.
        let missed = u64::from(self.is_end_missing.swap(false, Ordering::Relaxed));
        Some(Some(Received::bytes(received.data, Vec::new()).at(Position { missed, is_late: false })))
    }
}

impl Carry for A1 {
    fn send(&self, message: Message, _: Option<&Special>, deadline: Option<Instant>) -> Result<Sending, Unsent> {
        let message = self.may_send(message)?;
        Ok(Sending::A1(self.connection.send_attempting(message, Attempts::Unless(deadline, &self.is_over))?))
    }

    fn try_send(&self, message: Message, _: Option<&Special>) -> Result<Sending, Unsent> {
        let message = self.may_send(message)?;
        Ok(Sending::A1(self.connection.send_attempting(message, Attempts::AtOnceUnless(&self.is_over))?))
    }

    async fn send_async(&self, message: Message, _: Option<&Special>) -> Result<Sending, Unsent> {
        let message = self.may_send(message)?;
        Ok(Sending::A1(self.connection.send_attempting_async(message, Attempts::Unless(None, &self.is_over)).await?))
    }

    fn check_length(&self, bytes: u64) -> Result<(), Error> {
        check_length(&self.connection, bytes)
    }

    fn recv(&self, deadline: Option<Instant>) -> Result<Option<Received>, Error> {
        let mut in_vain = InVain::default();
        loop {
            // What another has put back meanwhile, too.
            if let Some(received) = self.again.take() {
                return Ok(Some(received));
            }
            if self.has_ended.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let wait = at_most(self.silence.interval(), deadline);
            let received = match self.connection.recv_timeout(wait) {
                Err(Error::Timeout) => {
                    let now = Instant::now();
                    if self.silence.is_due(now, wait) {
                        self.connection.ask();
                    }
                    if deadline.is_some_and(|deadline| deadline <= now) {
                        self.set_alarm(self.silence.asks_at(now, wait));
                        return Err(Error::Timeout);
                    }
                    continue;
                }
                received => received?,
            };
            self.silence.end();
            if let Some(sorted) = self.sort(received) {
                return Ok(sorted);
            }
            if in_vain.is_over(deadline) {
                self.watch.signal();
                return Err(Error::Timeout);
            }
        }
    }

    async fn recv_async(&self) -> Result<Option<Received>, Error> {
        let mut in_vain = InVain::default();
        loop {
            if let Some(received) = self.again.take() {
                return Ok(Some(received));
            }
            if self.has_ended.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let asks = self.silence.asks_at(Instant::now(), Duration::ZERO);
            match within(asks, self.connection.recv_async()).await {
                None => {
                    if self.silence.is_due(Instant::now(), Duration::ZERO) {
                        self.connection.ask();
                    }
                }
                Some(received) => {
                    self.silence.end();
                    if let Some(sorted) = self.sort(received?) {
                        return Ok(sorted);
                    }
                    in_vain.pass().await;
                }
            }
        }
    }

    fn recv_into(&self, buffer: &mut [u8], deadline: Option<Instant>) -> Result<Option<ReceivedInto>, Error> {
        place(self.recv(deadline)?, buffer, |received| self.again.put_back(received))
    }

    async fn recv_into_async(&self, buffer: &mut [u8]) -> Result<Option<ReceivedInto>, Error> {
        place(self.recv_async().await?, buffer, |received| self.again.put_back(received))
    }

    fn flush(&self, deadline: Option<Instant>) -> Result<(), Error> {
        self.connection.flush_until(deadline)
    }

    async fn flush_async(&self) -> Result<(), Error> {
        self.connection.flush_async().await
    }

    fn set_service(&self, service: &Service) -> Result<(), String> {
        self.connection.set_qos(qos_of(service)).map_err(|error| error.to_string())
    }

    fn repeats_nothing(&self) -> bool {
        self.is_raw()
    }

    fn waiting_bytes(&self) -> Option<u64> {
        self.again.first_bytes()
    }

    fn has_heard_end(&self) -> bool {
        let is_end = |message: &[u8]| {
            Control::may_be(message, self.nonce)
                && Control::parse(message, Some(self.nonce)).is_ok_and(|control| control.kind == Kind::End)
        };
        self.has_ended.load(Ordering::Relaxed) || self.connection.has_unread(is_end)
    }

    fn is_end_missing(&self) -> bool {
        self.is_end_missing.load(Ordering::Relaxed)
    }

    fn round_trip(&self) -> Option<Duration> {
        self.connection.round_trip()
    }

    fn check(&self) -> Result<(), Error> {
        match self.connection.result() {
            Some(Err(failure)) => return Err(Error::ConnectionFailed(failure)),
            Some(Ok(())) => return Err(Error::CallRefused(Refused::NoConnection)),
            None => {}
        }
        if self.silence.is_due(Instant::now(), Duration::ZERO) {
            self.connection.ask();
        }
        Ok(())
    }

    fn descriptor(&self) -> Result<BorrowedFd<'_>, Error> {
        self.watch.descriptor(|| self.connection.watch())
    }

    fn clear(&self) {
        self.watch.clear();
    }

    fn close(&self, deadline: Option<Instant>) -> Result<(), Error> {
        self.stop_sending();
        let flushed = self.flush(deadline);
        // The protocol has one end for both ways; this is the end of ours.
        match self.say_end(deadline).and_then(|()| self.flush(deadline)) {
            // The peer has closed, and needs to know nothing more.
            Err(Error::CallRefused(Refused::NoConnection)) => flushed,
            told => flushed.and(told),
        }
    }

    fn leave(&self) {
        let _ = self.connection.close(FAREWELL);
    }

    fn awaited(&self) -> Awaited {
        if self.socket.part(Duration::ZERO) { Awaited::Nothing } else { Awaited::End }
    }

    fn abort(&self, _: Instant) {
        self.is_over.store(true, Ordering::SeqCst);
        self.connection.abort();
    }

    async fn close_async(&self) -> Result<(), Error> {
        self.stop_sending();
        // With a window that is full there is no room for the end yet.
        if !self.is_end_said.load(Ordering::SeqCst) {
            self.connection.send_async(self.control(Kind::End)).await.map_err(|unsent| unsent.error)?;
            self.is_end_said.store(true, Ordering::SeqCst);
        }
        self.flush_async().await
    }
}

impl Drop for A1 {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::carrier::Carrier;
    use crate::service::Selection;
    use crate::{Endpoint, EndpointOptions};

    #[test]
    fn an_end_behind_what_nobody_has_received_explains_why_the_peer_is_gone() {
        for unread in [0, 1, 3] {
            let service = "direction=duplex".parse().unwrap();
            let listener = Endpoint::bind("127.0.0.1:0").unwrap().listen(&service).unwrap();
            let selection = Selection { forced: Some(Method::A1), ..Selection::default() };
            let client = Endpoint::client_with(&EndpointOptions { selection, ..EndpointOptions::default() });
            let client = client.connect(&listener.local_addr().to_string(), &service).unwrap();
            let server = listener.accept().unwrap();
            let after_silence = |carrier: &Carrier| {
                // What the engine says of a peer whose CLOSE was lost, and that is gone.
                carrier.explained(Error::ConnectionFailed(crate::a1::Failure::Abandoned)).to_string()
            };
            for len in 0..unread {
                drop(client.send(vec![7; len * 2000]).unwrap());
            }
            client.flush().unwrap();
            assert!(
                !after_silence(server.carrier()).contains("has closed"),
                "{unread}: it has said nothing of the kind"
            );
            client.close(Duration::from_secs(20)).unwrap();
            let told = after_silence(server.carrier());
            assert!(told.contains("has closed"), "{unread}: {told}");
            for len in 0..unread {
                assert_eq!(server.recv().unwrap().map(|it| it.len()), Some(len * 2000));
            }
            assert!(server.recv().unwrap().is_none());
        }
    }
}
