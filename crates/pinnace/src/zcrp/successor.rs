//! Who listens on a listener's port once that has become an endpoint.
//!
//! The endpoint's link is open to everybody until it knows its peer. Then the peer gets a link of its own on the same port, and the
//! one that hears everybody goes on to the next listener, with all that waits in it behind what is the peer's and with the other
//! candidates: they have been asked, and would not introduce themselves again.
//!
//! Always true: at any time one link at most hears those who are nobody's peer yet.

use super::listener::{is_idle, is_of_this_host};
use super::open_link::{CANDIDATES, Candidate};
use super::{Listener, Options};
use crate::Error;
use crate::lock::lock;
use pinnace_core::Address;
use pinnace_link::UdpLink;
use std::collections::VecDeque;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

/// The peers that have links of their own on a port. What hears everybody there may still hold datagrams of theirs, or copies: who
/// took one of them for an introduction would share the peer with the endpoint that has it, and each would get a part.
#[derive(Clone, Debug, Default)]
pub(super) struct Served(Arc<Mutex<OwnLinks>>);

type OwnLinks = Vec<(SocketAddr, Weak<()>)>;

/// A peer has a link of its own as long as this lives.
pub(super) type OwnLink = Arc<()>;

impl Served {
    fn add(&self, peer: SocketAddr) -> OwnLink {
        let own = OwnLink::default();
        let mut served = lock(&self.0);
        served.retain(|(_, own)| own.strong_count() > 0);
        served.push((peer, Arc::downgrade(&own)));
        own
    }

    pub(super) fn has(&self, peer: SocketAddr) -> bool {
        let served = lock(&self.0);
        served.iter().any(|(address, own)| *address == peer && own.strong_count() > 0)
    }
}

#[derive(Debug)]
struct Place {
    bound: SocketAddr,
    options: Options,
    served: Served,
    link: Mutex<Next>,
    changed: Condvar,
}

#[derive(Debug)]
enum Next {
    /// The link before hears everybody.
    Waits,
    /// It goes on here, with those who may be peers.
    Ready(Box<UdpLink>, VecDeque<Candidate>),
    /// The link before is closed, and no other is bound.
    Free,
    /// It was taken, or nobody wants it.
    Settled,
}

impl Place {
    fn link(&self) -> MutexGuard<'_, Next> {
        lock(&self.link)
    }

    /// Unless it is settled already.
    fn set(&self, next: Next) {
        let mut link = self.link();
        if matches!(*link, Next::Waits) {
            *link = next;
            self.changed.notify_all();
        }
    }
}

/// The place of a link that has a successor.
#[derive(Debug)]
pub(super) struct Predecessor {
    place: Arc<Place>,
    /// What keeps a descriptor free for the peer's own link.
    reserve: Option<UdpLink>,
}

/// What became of a link whose peer is known.
pub(super) enum Followed {
    /// It is the peer's own, and this is the one that hears everybody; and those who have introduced themselves to the first
    /// meanwhile.
    Yes(Box<UdpLink>, OwnLink, VecDeque<Candidate>),
    /// It still hears everybody: there is no descriptor for another one now.
    NotYet,
    /// It cannot be, or nobody wants it: the link is the peer's.
    No,
}

impl Predecessor {
    /// Keeps a descriptor for the peer's own link: as many others may be wanted before that is made as there are.
    pub(super) fn keep(&mut self, reserve: UdpLink) {
        self.reserve = Some(reserve);
    }

    /// Whether somebody has a link of its own already.
    pub(super) fn serves(&self, peer: SocketAddr) -> bool {
        self.place.served.has(peer)
    }

    /// Gives the peer a link of its own in the place of `link`, if it can have one.
    pub(super) fn is_known(&mut self, link: &mut UdpLink, peer: SocketAddr) -> Followed {
        if !matches!(*self.place.link(), Next::Waits) {
            return Followed::No;
        }
        self.reserve = None;
        match link.connect_beside(peer, &self.place.options.udp(false)) {
            Ok(mut own) => {
                let mut strays: VecDeque<Candidate> = VecDeque::new();
                let at = own.local_address();
                own.take_strays(|from, bytes| {
                    let is_new = strays.iter().all(|stray| stray.address != Address::Inet(from));
                    if is_idle(bytes) && is_new && !self.serves(from) && strays.len() < CANDIDATES {
                        strays.push_back(Candidate::strayed(from, at, bytes.len()));
                    }
                });
                let everybody = Box::new(std::mem::replace(link, own));
                Followed::Yes(everybody, self.place.served.add(peer), strays)
            }
            Err(error) if is_of_this_host(&error) => Followed::NotYet,
            Err(_) => Followed::No,
        }
    }

    /// The link still hears everybody, and has no peer: it goes on with those who may be another's.
    pub(super) fn goes_on(self, link: UdpLink, candidates: VecDeque<Candidate>) {
        // Dropped behind the link, if that is not wanted.
        self.place.set(Next::Ready(Box::new(link), candidates));
    }

    /// The link, which is a peer's, will be closed, and another takes its place if it has not gone on.
    pub(super) fn ends(self, link: UdpLink) {
        if matches!(*self.place.link(), Next::Waits)
            && let Ok(again) = link.bind_again(self.place.bound, &self.place.options.udp(true))
        {
            self.place.set(Next::Ready(Box::new(again), VecDeque::new()));
        }
        // Before this says that the port is free.
        drop(link);
    }
}

/// The link is closed.
impl Drop for Predecessor {
    fn drop(&mut self) {
        self.place.set(Next::Free);
    }
}

/// The listener after one that became an endpoint by [`Listener::accept_and_go_on`], on the same port. Dropped, it leaves the port
/// to the endpoint alone.
#[derive(Debug)]
pub struct Successor(Arc<Place>);

pub(super) fn succession(bound: SocketAddr, options: Options, served: Served) -> (Predecessor, Successor) {
    let place = Arc::new(Place { bound, options, served, link: Mutex::new(Next::Waits), changed: Condvar::new() });
    (Predecessor { place: place.clone(), reserve: None }, Successor(place))
}

impl Successor {
    /// Waits until the endpoint before is certain of its peer, or has ended. On systems on which a port has one socket only, it
    /// is the end that is waited for.
    ///
    /// # Errors
    /// If the endpoint before has ended, and the address cannot be bound again.
    pub fn wait(self) -> Result<Listener, Error> {
        let waits = |next: &mut Next| matches!(next, Next::Waits);
        let mut next = self.0.changed.wait_while(self.0.link(), waits).unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *next, Next::Settled) {
            Next::Ready(link, candidates) => {
                Ok(Listener::on(*link, candidates, self.0.options.clone(), self.0.served.clone()))
            }
            Next::Waits | Next::Free | Next::Settled => Listener::bind(self.0.bound, &self.0.options),
        }
    }
}

/// Why a listener has not become an endpoint: [`Listener::accept_and_go_on`].
#[derive(Debug)]
pub struct Unaccepted {
    /// What happened.
    pub error: Error,
    /// The listener, with those who have come, unless it was lost: it can go on where the reason passes, such as that the system has no
    /// descriptors left.
    pub listener: Option<Box<Listener>>,
}

impl From<Error> for Unaccepted {
    fn from(error: Error) -> Self {
        Self { error, listener: None }
    }
}

impl fmt::Display for Unaccepted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for Unaccepted {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&self.error)
    }
}

impl From<Unaccepted> for Error {
    fn from(unaccepted: Unaccepted) -> Self {
        unaccepted.error
    }
}

impl Drop for Successor {
    fn drop(&mut self) {
        *self.0.link() = Next::Settled;
    }
}

#[cfg(test)]
mod tests {
    use crate::Message;
    use crate::zcrp::{Listener, Options, Sender};
    use pinnace_wire::zcrp::encode_idle;
    use std::net::UdpSocket;
    use std::time::{Duration, Instant};

    #[test]
    fn who_never_answers_has_no_successor_beside_it() {
        //= Z-21 test
        let listener = Listener::bind("127.0.0.1:0", &Options::default()).unwrap();
        let address = listener.local_addr().unwrap();
        let nobody = UdpSocket::bind("127.0.0.1:0").unwrap();
        nobody.send_to(&encode_idle(0), address).unwrap();
        let (endpoint, successor) = listener.accept_and_go_on().unwrap();
        let waiting = std::thread::spawn(|| successor.wait().unwrap().local_addr().unwrap());
        std::thread::sleep(Duration::from_millis(50));
        assert!(!waiting.is_finished());
        drop(endpoint);
        assert_eq!(waiting.join().unwrap(), address);
    }

    #[test]
    fn a_port_that_nobody_wants_is_closed_to_others() {
        let options = Options::default();
        // Dropped after the peer is known, and before.
        for is_late in [true, false] {
            let listener = Listener::bind("127.0.0.1:0", &options).unwrap();
            let address = listener.local_addr().unwrap();
            let sender = Sender::connect(address, &options).unwrap();
            let sending = sender.send(Message::from_vec(vec![7; 10])).unwrap();
            let (receiver, successor) = listener.accept_receiver_and_go_on().unwrap();
            let mut successor = Some(successor).filter(|_| is_late);
            receiver.post(Message::with_capacity(10)).unwrap().wait().unwrap();
            sending.wait().unwrap();
            drop(successor.take());
            let other = UdpSocket::bind("127.0.0.1:0").unwrap();
            other.connect(address).unwrap();
            other.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            other.send(&encode_idle(0)).unwrap();
            let error = other.recv(&mut [0; 100]).unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused, "late: {is_late}");
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn those_who_were_asked_together_are_served_one_after_the_other() {
        //= Z-21 test
        let options = Options::default();
        let mut listener = Listener::bind("127.0.0.1:0", &options).unwrap();
        let address = listener.local_addr().unwrap();
        let nobody = UdpSocket::bind("127.0.0.1:0").unwrap();
        nobody.send_to(&encode_idle(0), address).unwrap();
        let sending: Vec<_> = (1..=5)
            .map(|size| {
                let sender = Sender::connect(address, &options).unwrap();
                (sender.send(Message::from_vec(vec![7; size])).unwrap(), sender)
            })
            .collect();
        std::thread::sleep(Duration::from_millis(50));
        let begun = Instant::now();
        let mut served = Vec::new();
        for _ in 0..5 {
            let (receiver, successor) = listener.accept_receiver_and_go_on().unwrap();
            let arrived = receiver.post(Message::with_capacity(100)).unwrap().wait().unwrap();
            served.push((arrived.len(), receiver));
            listener = successor.wait().unwrap();
        }
        for (sending, _sender) in sending {
            sending.wait().unwrap();
        }
        served.sort_by_key(|(size, _)| *size);
        assert_eq!(served.iter().map(|(size, _)| *size).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
        // Who has not been heard introduces itself again after a second.
        assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_port_is_not_shared_with_others() {
        for bind in ["127.0.0.1:0", "0.0.0.0:0", "[::]:0"] {
            let options = Options::default();
            let mut listener = Listener::bind(bind, &options).unwrap();
            let bound = listener.local_addr().unwrap();
            let mut served = Vec::new();
            for _ in 0..3 {
                let sender = Sender::connect(("127.0.0.1", bound.port()), &options).unwrap();
                let sending = sender.send(Message::from_vec(vec![7; 100_000])).unwrap();
                let (receiver, successor) = listener.accept_receiver_and_go_on().unwrap();
                assert_eq!(receiver.post(Message::with_capacity(100_000)).unwrap().wait().unwrap().len(), 100_000);
                sending.wait().unwrap();
                served.push((sender, receiver));
                listener = successor.wait().unwrap();
                assert_eq!(listener.local_addr().unwrap(), bound);
                assert!(UdpSocket::bind(bound).is_err());
            }
            // Those before go on.
            for (sender, receiver) in &served {
                let sending = sender.send(Message::from_vec(vec![8; 10])).unwrap();
                assert_eq!(&*receiver.post(Message::with_capacity(10)).unwrap().wait().unwrap(), [8; 10]);
                sending.wait().unwrap();
            }
        }
    }
}
