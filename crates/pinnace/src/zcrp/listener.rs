//! Waiting for a sender to introduce itself.
//!
//! A receiver has to know its peer before it can request anything. A sender with something to send announces it with an
//! idle datagram (Z-21); the first one to arrive makes the endpoint. Anybody can send one in anybody's name, so the peer is
//! who answers a request, see [`super::open_link`]; until then the endpoint hears others, too, its silence is no failure,
//! and nobody gets more than three times as many bytes as came from there. To the peer, too, which an answer may have been
//! forged of, the endpoint sends no more than that, and one unit in transit besides, until it has acknowledged one.

use super::open_link::{Candidate, OpenLink};
use super::options::Path;
use super::port::{self, Halves, Introduction, Port};
use super::successor::{Predecessor, Served, Successor, Unaccepted, succession};
use super::{Options, Receiver, Sender};
use crate::Error;
use crate::network::with_port;
use pinnace_core::{Address, ReceivePlan};
use pinnace_link::{BufferTable, Link, ReadBuffer, ReadOutcome, UdpLink};
use pinnace_wire::zcrp::{TRAILER_BYTES, Trailer};
use std::collections::VecDeque;
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::{Duration, Instant};

/// Reads that introduce nobody, before it is looked whether the time is over.
const STRANGERS_A_LOOK: usize = 64;

/// A bound socket that waits for its peer. One listener becomes one endpoint, and the `…_and_go_on` functions give the next one,
/// for those who serve several peers at once.
#[derive(Debug)]
pub struct Listener {
    link: UdpLink,
    /// Those who have introduced themselves already.
    candidates: VecDeque<Candidate>,
    options: Options,
    served: Served,
}

impl Listener {
    /// Binds to `address`; port 0 picks one.
    ///
    /// # Errors
    /// If the address does not resolve or cannot be bound: it may be taken.
    pub fn bind(address: impl ToSocketAddrs, options: &Options) -> Result<Self, Error> {
        let address = port::resolve(address)?;
        let link = UdpLink::bind(address, &options.udp(true)).map_err(|error| Error::listen(address, error))?;
        Ok(Self::on(link, VecDeque::new(), options.clone(), Served::default()))
    }

    pub(super) fn on(link: UdpLink, candidates: VecDeque<Candidate>, options: Options, served: Served) -> Self {
        Self { link, candidates, options, served }
    }

    /// The address it is bound to.
    ///
    /// # Errors
    /// If the system does not tell.
    pub fn local_addr(&self) -> Result<SocketAddr, Error> {
        self.link
            .local_address()
            .ok_or_else(|| Error::io("cannot tell the local address", std::io::ErrorKind::AddrNotAvailable.into()))
    }

    /// What the socket could not be given, with the command that would help.
    pub fn warnings(&self) -> Vec<String> {
        self.link.warnings()
    }

    /// Waits for a sender and becomes its receiver.
    ///
    /// # Errors
    /// If the socket fails.
    pub fn accept_receiver(self) -> Result<Receiver, Error> {
        Ok(Receiver::new(self.accept_port(Halves::Receiver, None, None)?))
    }

    /// Like [`Listener::accept_receiver`], and others may come to the same port meanwhile.
    ///
    /// # Errors
    /// As [`Listener::accept_and_go_on`].
    pub fn accept_receiver_and_go_on(self) -> Result<(Receiver, Successor), Unaccepted> {
        let (port, successor) = self.accept_followed(Halves::Receiver)?;
        Ok((Receiver::new(port), successor))
    }

    /// Waits for a peer that sends, and becomes its opposite: what it sends is received, and the other way round.
    ///
    /// # Errors
    /// If the socket fails.
    pub fn accept(self) -> Result<(Sender, Receiver), Error> {
        let port = self.accept_port(Halves::Both, None, None)?;
        Ok((Sender::new(port.clone()), Receiver::new(port)))
    }

    /// Like [`Listener::accept`], and others may come to the same port meanwhile.
    ///
    /// # Errors
    /// If the socket fails, or if the system has no descriptors left: then [`Unaccepted`] gives the listener back, with the reason.
    ///
    /// ```
    /// use pinnace::{Message, zcrp::{self, Listener, Options}};
    /// # fn main() -> Result<(), pinnace::Error> {
    /// let options = Options::default();
    /// let mut listener = Listener::bind("127.0.0.1:0", &options)?;
    /// let address = listener.local_addr()?;
    /// let mut both = Vec::new();
    /// for words in ["ahoy", "and me"] {
    ///     let (sender, other) = zcrp::connect(address, &options)?;
    ///     let sending = sender.send(Message::from_vec(words.into()))?;
    ///     let ((answers, receiver), successor) = listener.accept_and_go_on()?;
    ///     let arrived = receiver.post(Message::with_capacity(100))?.wait()?;
    ///     assert_eq!(&*arrived, words.as_bytes());
    ///     sending.wait()?;
    ///     both.push((sender, other, answers, receiver));
    ///     // The one before is still connected.
    ///     listener = successor.wait()?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn accept_and_go_on(self) -> Result<((Sender, Receiver), Successor), Unaccepted> {
        let (port, successor) = self.accept_followed(Halves::Both)?;
        Ok(((Sender::new(port.clone()), Receiver::new(port)), successor))
    }

    /// Like [`Listener::accept`], for at most `timeout`.
    ///
    /// # Errors
    /// [`Error::Timeout`] if nobody came; otherwise if the socket fails.
    pub fn accept_timeout(self, timeout: Duration) -> Result<(Sender, Receiver), Error> {
        let port = self.accept_port(Halves::Both, port::deadline(timeout), None)?;
        Ok((Sender::new(port.clone()), Receiver::new(port)))
    }

    fn accept_followed(self, halves: Halves) -> Result<(Port, Successor), Unaccepted> {
        let (predecessor, successor) = succession(self.local_addr()?, self.options.clone(), self.served.clone());
        match self.accept_port(halves, None, Some(predecessor)) {
            Ok(port) => Ok((port, successor)),
            // There is no endpoint to wait for: what was its link is here, or lost.
            Err(error) => Err(Unaccepted { error, listener: successor.wait().ok().map(Box::new) }),
        }
    }

    fn accept_port(
        mut self,
        halves: Halves,
        deadline: Option<Instant>,
        mut succession: Option<Predecessor>,
    ) -> Result<Port, Error> {
        let (peer, introduction, probe) = match self.find_peer(deadline) {
            Ok(found) => found,
            Err(error) => {
                if let Some(succession) = succession {
                    succession.goes_on(self.link, self.candidates);
                }
                return Err(error);
            }
        };
        let path = Path::of_udp(&probe);
        let local = self.link.local_address().zip(probe.local_address());
        let local = local
            .map(|(bound, routed)| with_port(if bound.ip().is_unspecified() { routed } else { bound }, bound.port()));
        if let Some(succession) = &mut succession {
            succession.keep(probe);
        }
        let link = OpenLink::new(self.link, self.candidates, halves == Halves::Both).followed(succession);
        port::accepted(link, local.zip(Some(peer)), &path, &self.options, halves, introduction)
    }

    /// The first one who can be reached, and a link to it.
    fn find_peer(&mut self, deadline: Option<Instant>) -> Result<(SocketAddr, Introduction, UdpLink), Error> {
        loop {
            let (peer, introduction) = match self.candidates.front() {
                Some(Candidate { address: Address::Inet(peer), .. }) => (*peer, Introduction { bytes: TRAILER_BYTES }),
                _ => {
                    let (peer, candidate, introduction) = self.wait_for_peer(deadline)?;
                    self.candidates = VecDeque::from([candidate]);
                    (peer, introduction)
                }
            };
            // What a link that hears everybody cannot tell: how the first one is reached, and from which address. One that
            // cannot be reached is not the peer: anybody can name such an address.
            match UdpLink::connect(None, peer, &self.options.udp(false)) {
                Ok(probe) => return Ok((peer, introduction, probe)),
                Err(error) if is_of_this_host(&error) => {
                    return Err(Error::io(format!("cannot answer {peer}"), error));
                }
                Err(_) if deadline.is_some_and(|deadline| deadline <= Instant::now()) => return Err(Error::Timeout),
                Err(_) => drop(self.candidates.pop_front()),
            }
        }
    }

    fn wait_for_peer(&mut self, deadline: Option<Instant>) -> Result<(SocketAddr, Candidate, Introduction), Error> {
        let failed = |error| Error::io("cannot read the socket", error);
        let mut reads = ReadBuffer::new();
        let memory = BufferTable::new();
        let mut plan = ReceivePlan::new();
        plan.reset(1);
        plan.top_up(ReadBuffer::READ_BYTES);
        loop {
            let mut is_empty = false;
            for _ in 0..STRANGERS_A_LOOK {
                match self.link.receive(&plan, &memory, &mut reads).map_err(failed)? {
                    ReadOutcome::Received(received) => {
                        // Others may have come with it in one read, such as a request of its own: they come again.
                        let idle = is_idle(&reads.pooled(received.segment.min(received.bytes)));
                        if let (true, Address::Inet(peer)) = (idle && !received.truncated, received.meta.source)
                            && !self.served.has(peer)
                        {
                            return Ok((peer, Candidate::of(&received), Introduction { bytes: received.bytes }));
                        }
                    }
                    ReadOutcome::Unreachable => {}
                    ReadOutcome::Empty => {
                        is_empty = true;
                        break;
                    }
                }
            }
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return Err(Error::Timeout);
            }
            if is_empty {
                sleep(&self.link, deadline);
            }
        }
    }
}

/// Whether it is this host that has no sockets left, and not the address that is none.
pub(super) fn is_of_this_host(error: &std::io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::ENOBUFS))
}

//= Z-21
/// Whether a datagram introduces a sender.
pub(crate) fn is_idle(datagram: &[u8]) -> bool {
    let tail: Result<&[u8; TRAILER_BYTES], _> = datagram.try_into();
    tail.is_ok_and(|tail| matches!(Trailer::parse(tail, TRAILER_BYTES), Ok(Trailer::Idle { .. })))
}

/// Sleeps until the link is readable or the deadline has come; may return early.
fn sleep(link: &UdpLink, deadline: Option<Instant>) {
    let timeout = deadline.map_or(-1, |deadline| {
        let left = deadline.saturating_duration_since(Instant::now());
        i32::try_from(left.as_millis().saturating_add(1)).unwrap_or(i32::MAX)
    });
    let mut entry = libc::pollfd { fd: link.descriptors().readable, events: libc::POLLIN, revents: 0 };
    // SAFETY: one live entry, and the count says so.
    unsafe { libc::poll(&raw mut entry, 1, timeout) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinnace_wire::zcrp::encode_idle;
    use std::net::UdpSocket;

    #[test]
    fn a_deadline_counts_while_others_send_what_introduces_nobody() {
        let listener = Listener::bind("127.0.0.1:0", &Options::default()).unwrap();
        let to = listener.local_addr().unwrap();
        let others = UdpSocket::bind("127.0.0.1:0").unwrap();
        for _ in 0..100 {
            others.send_to(&[0], to).unwrap();
        }
        others.send_to(&encode_idle(0), to).unwrap();
        assert!(matches!(listener.accept_timeout(Duration::ZERO), Err(Error::Timeout)));
    }
}
