//! A connection to several receivers, over A1: every message goes to all of them.
//!
//! Each receiver is a sink of one A1 socket. Always true: all of them know the connection by the same nonce, so that what it
//! says itself is one message to all, which those whom it does not concern leave out; one that dies, or holds up the others
//! for too long, is cut off, and the others do not notice; what a receiver sends (that it waits, of which nobody has to know,
//! and that it has ended, which the protocol says, too) is dropped where it comes in, and always finds room.
//= A-15

use super::a1::ANSWERS;
use super::a1::check_length;
use super::{Carry, Received, ReceivedInto, Sending, Special, at_most, most_of, qos_of};
use crate::a1::{Failure, Full, Qos, Refused, Sink, Socket};
use crate::attempts::Attempts;
use crate::endpoint::{ConnectionError, ReceiverState, ReceiverStatus};
use crate::lock::{Lock, Locked, lock};
use crate::rendezvous::{Control, Invitation, Kind};
use crate::service::{Method, Service};
use crate::{Error, Message, Unsent};
use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// The longest message that a receiver says, in bytes: that it waits, or has ended.
const LONGEST_BACK: u32 = 1024;
/// How long the end may take, behind what was said of the end.
const FAREWELL: Duration = Duration::from_millis(200);
/// How long OPEN may take.
const OPENING: Duration = Duration::from_secs(5);

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Cast {
    socket: Socket,
    invitation: Invitation,
    receivers: Lock<Vec<Receiver>>,
    /// Held while somebody is invited.
    inviting: Mutex<()>,
    /// Nothing more is sent.
    is_over: AtomicBool,
    /// The end is behind what was sent.
    is_end_said: AtomicBool,
}

#[derive(Clone, Debug)]
struct Receiver {
    /// Of its endpoint.
    address: SocketAddr,
    sink: Sink,
}

/// The record of each sink.
pub(crate) fn qos_to_many(service: &Service) -> Qos {
    // Nobody reads what comes back.
    Qos { largest_received: LONGEST_BACK, ..qos_of(service) }
}

/// The most that a receiver agrees to.
pub(crate) fn most_from_many(service: &Service) -> Qos {
    Qos { largest_sent: LONGEST_BACK, ..most_of(service) }
}

/// That nothing comes this way, and why.
fn one_way() -> Error {
    let what = "receive where it sends to many: a multicast goes one way, from its source to its receivers".to_owned();
    ConnectionError::Cannot { method: Method::A1, what }.into()
}

impl Cast {
    /// Nobody is there yet.
    pub(crate) fn new(socket: Socket, invitation: Invitation) -> Self {
        Self {
            socket,
            invitation,
            receivers: Lock::default(),
            inviting: Mutex::new(()),
            is_over: AtomicBool::new(false),
            is_end_said: AtomicBool::new(false),
        }
    }

    pub(crate) fn socket(&self) -> &Socket {
        &self.socket
    }

    pub(crate) fn invitation(&self) -> &Invitation {
        &self.invitation
    }

    /// One at a time invites.
    pub(crate) fn invites(&self) -> MutexGuard<'_, ()> {
        lock(&self.inviting)
    }

    fn lock(&self) -> Locked<'_, Vec<Receiver>> {
        self.receivers.lock()
    }

    /// Whoever waits for room waits in vain.
    fn stop_sending(&self) {
        if !self.is_over.swap(true, Ordering::SeqCst) {
            self.socket.look_again();
        }
    }

    /// Where somebody lives.
    pub(crate) fn living(&self) -> BTreeSet<SocketAddr> {
        self.lock().iter().filter(|it| it.sink.result().is_none()).map(|it| it.address).collect()
    }

    /// Those who have accepted are told who this is; messages that are sent from now on are for them, too.
    pub(crate) fn open(&self, new: Vec<(SocketAddr, Sink)>, deadline: Option<Instant>) -> Result<(), Error> {
        let patience = at_most(OPENING, deadline);
        let until = Instant::now() + patience;
        let sent = self.socket.send_timeout(self.invitation.open().encode(), patience);
        let told = match sent.map_err(|unsent| unsent.error) {
            Ok(()) if self.invitation.qos().has_retransmission => has_all_arrived(&new, until),
            Ok(()) => {
                self.await_answers(&new, deadline);
                has_all_arrived(&new, Instant::now())
            }
            Err(error) => Err((new.first().map(|(address, _)| *address), error)),
        };
        if let Err((address, error)) = told {
            new.iter().for_each(|(_, sink)| self.forget(sink, Duration::ZERO));
            let (peer, tried) = (address.map(|it| it.to_string()), vec![(Method::A1, error.to_string())]);
            return Err(ConnectionError::Unreached { peer: peer.unwrap_or_default(), tried }.into());
        }
        let mut receivers = self.lock();
        // Who comes again takes the place of who is gone.
        let come: BTreeSet<_> = new.iter().map(|(address, _)| *address).collect();
        receivers.retain(|it| !come.contains(&it.address));
        for (address, sink) in new {
            // Also while nothing is sent: whoever has no room to say that it waits does not find out that we are gone. One
            // that has died meanwhile says nothing.
            let _ = sink.discard_incoming();
            receivers.push(Receiver { address, sink });
        }
        Ok(())
    }

    /// Without retransmission nobody acknowledges OPEN but the receivers themselves: it is said again until they do, a few
    /// times.
    fn await_answers(&self, new: &[(SocketAddr, Sink)], deadline: Option<Instant>) {
        let mut silent: Vec<&Sink> = new.iter().map(|(_, sink)| sink).collect();
        for wait in ANSWERS {
            let until = Instant::now() + at_most(Duration::from_millis(wait), deadline);
            let wait = || until.saturating_duration_since(Instant::now());
            silent.retain(|sink| matches!(sink.recv_timeout(wait()), Err(Error::Timeout)));
            if silent.is_empty() {
                return;
            }
            let _ = self.socket.send(self.invitation.open().encode(), Full::Report);
        }
    }

    /// What a sink has got is all that it gets.
    pub(crate) fn forget(&self, sink: &Sink, linger: Duration) {
        // One that has died is none of the socket's.
        let _ = self.socket.remove_sink(sink, linger);
    }

    /// One of them gets what is queued within `linger`, and nothing after that. Waits for it.
    pub(crate) fn remove(&self, address: SocketAddr, linger: Duration) -> Result<(), Error> {
        let removed = {
            let mut receivers = self.lock();
            let at = receivers.iter().position(|it| it.address == address);
            at.map(|at| receivers.remove(at))
        };
        let Some(Receiver { sink, .. }) = removed else {
            let what = format!("remove {address}: it is no receiver of this connection");
            return Err(ConnectionError::Cannot { method: Method::A1, what }.into());
        };
        if sink.result().is_some() {
            return Ok(());
        }
        // Behind linger the protocol ends the connection as if all had been sent, and who is removed would take what it has
        // for all: it is told that this is no end in order.
        self.forget(&sink, linger.saturating_add(FAREWELL * 2));
        let closed = sink.wait_closed(linger.saturating_add(FAREWELL));
        if closed.is_err() {
            sink.abort();
        }
        closed
    }

    /// Who is there, and who is gone, in the order in which they came.
    pub(crate) fn receivers(&self) -> Vec<ReceiverStatus> {
        let of = |Receiver { address, sink }: &Receiver| {
            let state = match sink.result() {
                None => ReceiverState::Connected,
                Some(Ok(())) => ReceiverState::Left,
                Some(Err(Failure::TooSlow)) => ReceiverState::TooSlow,
                Some(Err(failure)) => ReceiverState::Lost(failure),
            };
            let facts = sink.facts().ok();
            ReceiverStatus {
                address: *address,
                state,
                in_group: facts.as_ref().is_some_and(|facts| facts.has_joined),
                skipped: facts.as_ref().map_or(0, |facts| facts.skipped),
                round_trip: facts.and_then(|facts| facts.round_trip),
            }
        };
        self.lock().iter().map(of).collect()
    }

    /// That nobody is left, and what has become of them.
    fn deserted(&self) -> Error {
        let all: Vec<_> = self.receivers().iter().map(|it| format!("{} {}", it.address, it.state)).collect();
        let why = format!("no receiver is left: {}", all.join("; "));
        let source = io::Error::new(io::ErrorKind::NotConnected, why);
        ConnectionError::Lost { method: Method::A1, source }.into()
    }

    fn end(&self) -> Message {
        Message::from_vec(Control::new(Kind::End, self.invitation.nonce()).encode())
    }

    /// What has come of the end: who is gone needs to know nothing more; whether it has had everything is another question.
    fn told(&self, told: Result<(), Error>) -> Result<(), Error> {
        match told {
            Err(Error::CallRefused(Refused::NotConnected)) if self.socket.undelivered() == 0 => Ok(()),
            Err(Error::CallRefused(Refused::NotConnected)) => Err(self.deserted()),
            told => told,
        }
    }

    fn sent(&self, sent: Result<crate::a1::Sending, Unsent>) -> Result<Sending, Unsent> {
        match sent {
            Ok(sending) => Ok(Sending::A1(sending)),
            Err(Unsent { message, error: Error::CallRefused(Refused::NotConnected) }) => {
                Err(Unsent::new(message, self.deserted()))
            }
            Err(unsent) => Err(unsent),
        }
    }
}

/// Waits until each of them has acknowledged all that is queued for it now, however the others are.
fn has_all_arrived(new: &[(SocketAddr, Sink)], until: Instant) -> Result<(), (Option<SocketAddr>, Error)> {
    let queued = |sink: &Sink| sink.facts().map(|facts| facts.sent + facts.queued).unwrap_or_default();
    let queued: Vec<u64> = new.iter().map(|(_, sink)| queued(sink)).collect();
    for ((address, sink), queued) in new.iter().zip(queued) {
        loop {
            let error = match sink.result() {
                Some(Ok(())) => Error::CallRefused(Refused::NoConnection),
                Some(Err(failure)) => Error::ConnectionFailed(failure),
                None => match sink.facts() {
                    Ok(facts) if facts.acked >= queued || !facts.qos.has_retransmission => break,
                    Ok(_) if until <= Instant::now() => Error::Timeout,
                    Ok(_) => {
                        let left = until.saturating_duration_since(Instant::now());
                        let Err(error) = sink.wait_for_change(left) else { continue };
                        error
                    }
                    Err(error) => error,
                },
            };
            return Err((Some(*address), error));
        }
    }
    Ok(())
}

impl Carry for Cast {
    fn send(&self, message: Message, _: Option<&Special>, deadline: Option<Instant>) -> Result<Sending, Unsent> {
        self.sent(self.socket.send_attempting(message, Attempts::Unless(deadline, &self.is_over)))
    }

    fn try_send(&self, message: Message, _: Option<&Special>) -> Result<Sending, Unsent> {
        self.sent(self.socket.send_attempting(message, Attempts::AtOnceUnless(&self.is_over)))
    }

    async fn send_async(&self, message: Message, _: Option<&Special>) -> Result<Sending, Unsent> {
        self.sent(self.socket.send_attempting_async(message, Attempts::Unless(None, &self.is_over)).await)
    }

    fn check_length(&self, bytes: u64) -> Result<(), Error> {
        // All of them have been offered the same.
        let first = self.lock().first().map(|receiver| receiver.sink.clone());
        first.map_or(Ok(()), |sink| check_length(sink.connection(), bytes))
    }

    fn check_receives(&self) -> Result<(), Error> {
        Err(one_way())
    }

    fn recv(&self, _: Option<Instant>) -> Result<Option<Received>, Error> {
        Err(one_way())
    }

    async fn recv_async(&self) -> Result<Option<Received>, Error> {
        Err(one_way())
    }

    fn recv_into(&self, _: &mut [u8], _: Option<Instant>) -> Result<Option<ReceivedInto>, Error> {
        Err(one_way())
    }

    async fn recv_into_async(&self, _: &mut [u8]) -> Result<Option<ReceivedInto>, Error> {
        Err(one_way())
    }

    fn flush(&self, deadline: Option<Instant>) -> Result<(), Error> {
        self.socket.flush_until(deadline)
    }

    async fn flush_async(&self) -> Result<(), Error> {
        self.socket.flush_async().await
    }

    fn set_service(&self, service: &Service) -> Result<(), String> {
        // Before: who is invited meanwhile is none of those that are told, or has the new one.
        let old = self.invitation.change(service);
        self.socket.set_qos(qos_to_many(service)).map_err(|error| {
            self.invitation.change_back(old);
            error.to_string()
        })
    }

    /// Receivers come and go: [`Cast::receivers`] says what has become of them.
    fn round_trip(&self) -> Option<Duration> {
        self.receivers().into_iter().filter_map(|receiver| receiver.round_trip).max()
    }

    fn check(&self) -> Result<(), Error> {
        let has_somebody = self.receivers().iter().any(ReceiverStatus::is_connected);
        if has_somebody { Ok(()) } else { Err(self.deserted()) }
    }

    fn descriptor(&self) -> Result<BorrowedFd<'_>, Error> {
        Err(one_way())
    }

    fn clear(&self) {}

    fn close(&self, deadline: Option<Instant>) -> Result<(), Error> {
        self.stop_sending();
        let flushed = self.flush(deadline);
        let told = match self.is_end_said.load(Ordering::SeqCst) {
            true => Ok(()),
            false => self.socket.send_until(self.end(), false, Attempts::Until(deadline)).map(drop),
        };
        self.is_end_said.fetch_or(told.is_ok(), Ordering::SeqCst);
        self.told(told.map_err(|unsent| unsent.error).and_then(|()| self.flush(deadline))).and(flushed)
    }

    fn abort(&self, _: Instant) {
        for sink in self.socket.sinks() {
            sink.abort();
        }
    }

    async fn close_async(&self) -> Result<(), Error> {
        self.stop_sending();
        // With a window that is full there is no room for the end yet.
        if !self.is_end_said.load(Ordering::SeqCst) {
            let said = self.socket.send_async(self.end()).await;
            self.told(said.map_err(|unsent| unsent.error))?;
            self.is_end_said.store(true, Ordering::SeqCst);
        }
        self.told(self.flush_async().await)
    }
}

impl Drop for Cast {
    fn drop(&mut self) {
        let _ = self.socket.close_sinks(FAREWELL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::carrier::Carrier;
    use crate::{ConnectionError, Endpoint, EndpointOptions};

    const LONG: Duration = Duration::from_secs(10);

    /// However far a call to send had come when the end was reached: behind it nothing is queued.
    #[test]
    fn nothing_is_queued_behind_the_end() {
        let ships = [0; 2].map(|_| Endpoint::bind("127.0.0.1:0").unwrap());
        let listeners = ships.each_ref().map(|ship| ship.listen(&Service::new()).unwrap());
        let addresses = listeners.each_ref().map(|listener| listener.local_addr().to_string());
        let source = Endpoint::client().connect_all(&addresses, &Service::new()).unwrap();
        let Carrier::Cast(cast) = source.carrier() else { panic!("it is of several") };
        cast.stop_sending();
        let message = || Message::from_vec(vec![7]);
        let sends = [
            cast.send(message(), None, None),
            cast.try_send(message(), None),
            pollster::block_on(cast.send_async(message(), None)),
        ];
        for sent in sends {
            let error = sent.map(drop).unwrap_err().error;
            assert!(
                matches!(&error, Error::Connection(error) if matches!(**error, ConnectionError::Closed)),
                "{error}"
            );
        }
    }

    /// In a few minutes in which a source sends nothing, its receivers say more often that they wait than their windows
    /// have room for.
    //= A-15 test
    #[test]
    fn a_source_that_sends_nothing_has_room_for_what_its_receivers_say() {
        for service in ["size=1KiB", "size=1KiB loss=any"] {
            let options = EndpointOptions::default();
            let ships = [0; 2].map(|_| Endpoint::bind_with("127.0.0.1:0", &options).unwrap());
            let listeners = ships.each_ref().map(|ship| ship.listen(&Service::new()).unwrap());
            let addresses = listeners.each_ref().map(|listener| listener.local_addr().to_string());
            let source = Endpoint::client().connect_all(&addresses, &service.parse().unwrap()).unwrap();
            let there = listeners.each_ref().map(|listener| listener.accept_timeout(LONG).unwrap().unwrap());
            for connection in &there {
                let Carrier::A1(receiver) = connection.carrier() else { panic!("a receiver is of A1") };
                for number in 0..300 {
                    let begun = Instant::now();
                    while let Err(error) = receiver.say_that_it_waits() {
                        assert!(begun.elapsed() < LONG, "{service}: number {number}: {error}");
                        std::thread::sleep(Duration::from_millis(1));
                    }
                }
            }
            let delivery = source.send(b"ahoy".to_vec()).unwrap();
            for connection in &there {
                assert_eq!(connection.recv_timeout(LONG).unwrap().as_deref(), Some(&b"ahoy"[..]));
            }
            drop(delivery);
        }
    }
}
