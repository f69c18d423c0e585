//! One source and several receivers: who they are, and what has become of each.

use super::connection::LONGEST_LINGER;
use super::{Connection, ConnectionError, Endpoint, elsewhere, no_address, resolve, target};
use crate::Error;
use crate::a1::Failure;
use crate::carrier::{Carrier, Cast};
use crate::network::{as_connected, canonical};
use crate::rendezvous::many;
use crate::service::{Place, Receivers, Service, check_address};
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

/// What is known of a receiver of a connection to several.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReceiverStatus {
    /// The address of its endpoint.
    pub address: SocketAddr,
    /// Whether it is there, or why not.
    pub state: ReceiverState,
    /// Whether it gets the messages from the service's multicast group, and not one by one.
    pub in_group: bool,
    /// Messages that were left out for it, because it had no room for them
    /// ([`SlowSink::Degrade`](crate::a1::SlowSink::Degrade)).
    pub skipped: u64,
    /// From the source to it and back, once that has been measured.
    pub round_trip: Option<Duration>,
}

impl ReceiverStatus {
    /// Whether it gets what is sent.
    pub fn is_connected(&self) -> bool {
        self.state == ReceiverState::Connected
    }
}

/// What has become of a receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReceiverState {
    /// It is there.
    Connected,
    /// It has closed its connection.
    Left,
    /// It has held up the others for too long, and was cut off
    /// ([`EndpointOptions::slow_receiver`](super::EndpointOptions::slow_receiver)).
    TooSlow,
    /// It was lost.
    Lost(Failure),
}

impl fmt::Display for ReceiverState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connected => f.write_str("is there"),
            Self::Left => f.write_str("has closed"),
            Self::TooSlow => f.write_str("was too slow, and cut off"),
            Self::Lost(failure) => write!(f, "is lost: {failure}"),
        }
    }
}

impl Endpoint {
    /// Connects to several receivers at once: what this connection sends goes to all of them. Each is an ordinary
    /// [`Listener`](super::Listener) that accepts an ordinary connection to receive from, by A1. Messages go one way.
    ///
    /// The service says how many there are (`multicast=3`), and then so many have to be named; or through which IP multicast
    /// group they may get the messages (`multicast=239.1.2.3:7000`), where those that cannot join it get them one by one,
    /// as all do without a group. One that says nothing is taken to mean those that are named.
    ///
    /// Either all of them accept, or the error says who does not (of a name with several addresses the first of IPv4 is
    /// asked). A message is [delivered](super::Delivery) when all that are there then have it: a receiver that dies, or is
    /// too slow ([`EndpointOptions::slow_receiver`](super::EndpointOptions::slow_receiver)), is cut off, and
    /// [`Connection::receivers`] says so.
    ///
    /// ```
    /// use pinnace::{Endpoint, Service};
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let ships = [Endpoint::bind("127.0.0.1:0")?, Endpoint::bind("127.0.0.1:0")?];
    /// let listeners = [ships[0].listen(&Service::new())?, ships[1].listen(&Service::new())?];
    /// let addresses = listeners.iter().map(|listener| listener.local_addr().to_string()).collect::<Vec<_>>();
    ///
    /// let source = Endpoint::client().connect_all(&addresses, &"multicast=2 size=4KiB".parse()?)?;
    /// let delivery = source.send(b"ahoy, all".to_vec())?;
    /// for listener in &listeners {
    ///     assert_eq!(listener.accept()?.recv()?.as_deref(), Some(&b"ahoy, all"[..]));
    /// }
    /// delivery.wait()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Connection`]: [`ConnectionError::Unsuited`] if there are not as many as the service says, or one is named
    /// twice; otherwise as [`Endpoint::connect`].
    pub fn connect_all(&self, peers: &[impl AsRef<str>], service: &Service) -> Result<Connection, Error> {
        let (addresses, service) = targets(peers, service)?;
        match (service.receivers, addresses.len()) {
            (_, 0) => Err(unsuited("nobody is named who would receive".to_owned())),
            (Receivers::One, 1) => self.connect(peers[0].as_ref(), &service),
            (Receivers::One, count) => {
                let service = service.receivers(Receivers::Many(u32::try_from(count).unwrap_or(u32::MAX)));
                many::connect_all(&addresses, &service, &self.inner.options)
            }
            (Receivers::Many(said), count) if said as usize != count => {
                let named = if count == 1 { "one is".to_owned() } else { format!("{count} are") };
                Err(unsuited(format!("the service says multicast={said}, and {named} named: each receiver has to be")))
            }
            _ => many::connect_all(&addresses, &service, &self.inner.options),
        }
    }

    /// Like [`Endpoint::connect_all`], for tasks: a thread does it for the task.
    ///
    /// # Errors
    /// As [`Endpoint::connect_all`].
    pub async fn connect_all_async(&self, peers: &[impl AsRef<str>], service: &Service) -> Result<Connection, Error> {
        let peers: Vec<String> = peers.iter().map(|peer| peer.as_ref().to_owned()).collect();
        let (this, service) = (self.clone(), service.clone());
        elsewhere(move || this.connect_all(&peers, &service)).await
    }
}

/// Where they are, and the service: of URIs that say one, all have to say the same.
fn targets(peers: &[impl AsRef<str>], service: &Service) -> Result<(Vec<SocketAddr>, Service), Error> {
    let (mut addresses, mut said) = (Vec::with_capacity(peers.len()), None);
    for peer in peers {
        let (authority, its) = target(peer.as_ref(), service)?;
        if its != *service && said.replace(its.clone()).is_some_and(|other| other != its) {
            return Err(unsuited("the URIs say different services: all receivers have the same".to_owned()));
        }
        addresses.push(first_address(&authority)?);
    }
    Ok((addresses, said.unwrap_or_else(|| service.clone())))
}

/// One of IPv4, if it has any: the others may have no other, and one socket reaches all of them.
fn first_address(authority: &str) -> Result<SocketAddr, Error> {
    let found = resolve(authority, authority)?;
    let address = found.iter().find(|address| address.is_ipv4()).or(found.first());
    address.copied().map(canonical).map(as_connected).ok_or_else(|| no_address(authority))
}

fn unsuited(why: String) -> Error {
    ConnectionError::Unsuited(why).into()
}

impl Connection {
    /// The receivers of a connection to several ([`Endpoint::connect_all`]), in the order in which they were added: who is
    /// there, and who is not any more. Of a connection with one peer there are none.
    pub fn receivers(&self) -> Vec<ReceiverStatus> {
        match self.carrier() {
            Carrier::Cast(cast) => cast.receivers(),
            _ => Vec::new(),
        }
    }

    fn cast(&self) -> Result<&Cast, Error> {
        match self.carrier() {
            Carrier::Cast(cast) => Ok(cast.as_ref()),
            _ => Err(unsuited("a connection with one peer gets no others: connect to all of them at once".to_owned())),
        }
    }

    /// Adds a receiver, `host:port`, to a connection to several; what is sent from then on goes to it, too. One that is gone
    /// may be added again. Waits until it has accepted; others may send meanwhile.
    ///
    /// ```
    /// use pinnace::{Endpoint, Service};
    /// use std::time::Duration;
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let ships = [Endpoint::bind("127.0.0.1:0")?, Endpoint::bind("127.0.0.1:0")?, Endpoint::bind("127.0.0.1:0")?];
    /// let listeners = ships.iter().map(|ship| ship.listen(&Service::new())).collect::<Result<Vec<_>, _>>()?;
    /// let addresses = listeners.iter().map(|listener| listener.local_addr().to_string()).collect::<Vec<_>>();
    /// let source = Endpoint::client().connect_all(&addresses[..2], &Service::new())?;
    /// source.add_receiver(&addresses[2])?;
    /// source.remove_receiver(listeners[0].local_addr(), Duration::from_secs(1))?;
    /// source.send(b"ahoy, both".to_vec())?.wait()?;
    /// assert_eq!(source.receivers().len(), 2);
    /// assert_eq!(listeners[2].accept()?.recv()?.as_deref(), Some(&b"ahoy, both"[..]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Endpoint::connect_all`]; [`ConnectionError::Unsuited`] if this connection has one peer.
    pub fn add_receiver(&self, peer: &str) -> Result<(), Error> {
        let cast = self.cast()?;
        check_address(peer, Place::There).map_err(ConnectionError::Malformed)?;
        many::add(cast, first_address(peer)?)
    }

    /// Removes a receiver: it gets what was sent, within `linger`, and then its connection ends. Waits for that.
    ///
    /// # Errors
    /// [`ConnectionError::Cannot`] if there is none at this address; or if it did not get everything, of which it has an error
    /// as well.
    pub fn remove_receiver(&self, address: SocketAddr, linger: Duration) -> Result<(), Error> {
        self.cast()?.remove(canonical(address), linger.min(LONGEST_LINGER))
    }
}
