//! The asking side, where there are several receivers: each is asked as one alone would be, and is then a sink of one A1
//! socket.
//!
//! Always true: the source is handed out only when all that were named have accepted, or none; all of them are told the same
//! nonce.
//= A-15

use super::client::{ACCEPTING, Told, ask, wanted};
use super::wire::{Control, Kind, MOST_TEXT};
use crate::a1::{self, Qos, Sink, Socket};
use crate::carrier::{Carrier, Cast, at_most, qos_to_many};
use crate::endpoint::{Connection, ConnectionError, EndpointOptions, Parts};
use crate::lock::Lock;
use crate::network::{host_of, random_seed, route};
use crate::service::{Method, Path, PathClass, Receivers, Service};
use crate::{Error, service};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

/// Receivers that are asked at the same time.
const AT_ONCE: usize = 32;

/// What whoever is invited is told.
#[derive(Debug)]
pub(crate) struct Invitation {
    terms: Lock<Arc<Terms>>,
    nonce: u64,
    options: EndpointOptions,
}

/// What changes with the service.
#[derive(Debug)]
pub(crate) struct Terms {
    service: Service,
    told: Told,
    qos: Qos,
}

impl Terms {
    fn of(service: &Service) -> Arc<Self> {
        Arc::new(Self { service: service.clone(), told: Told::of(service), qos: qos_to_many(service) })
    }
}

impl Invitation {
    fn terms(&self) -> Arc<Terms> {
        Arc::clone(&self.terms.lock())
    }

    /// Who is invited from now on is told of this service. Returns what the others were told.
    pub(crate) fn change(&self, service: &Service) -> Arc<Terms> {
        std::mem::replace(&mut *self.terms.lock(), Terms::of(service))
    }

    /// The change is none.
    pub(crate) fn change_back(&self, old: Arc<Terms>) {
        *self.terms.lock() = old;
    }

    /// By which the receivers know the connection.
    pub(crate) fn nonce(&self) -> u64 {
        self.nonce
    }

    /// The record of each.
    pub(crate) fn qos(&self) -> Qos {
        self.terms().qos
    }

    /// The first message.
    pub(crate) fn open(&self) -> Control {
        Control { service: self.terms().told.open.clone(), ..Control::new(Kind::Open, self.nonce) }
    }
}

/// Connects to all of them.
pub(crate) fn connect_all(
    peers: &[SocketAddr],
    service: &Service,
    options: &EndpointOptions,
) -> Result<Connection, Error> {
    let terms = Terms::of(service);
    let bytes = terms.told.hello.len();
    if bytes > MOST_TEXT {
        return Err(ConnectionError::ServiceTooLong { bytes, most: MOST_TEXT }.into());
    }
    let names = || peers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let path = Path::of_receivers(service, peers)
        .map_err(|error| Error::io(format!("cannot reach all of {}", names()), error))?;
    let unmet = |unmet: Box<service::Unmet>| ConnectionError::Unmet { peer: names(), unmet: *unmet };
    let methods = wanted(service, &path, &options.selection).map_err(unmet)?;
    let method = methods.into_iter().find(|method| *method == Method::A1).ok_or_else(|| {
        ConnectionError::Unsuited("no method but a1 has several receivers, and it was not chosen".to_owned())
    })?;
    let Some(&first) = peers.first() else {
        return Err(ConnectionError::Unsuited("nobody is named who would receive".to_owned()).into());
    };
    let invitation = Invitation { terms: Lock::new(terms), nonce: random_seed(), options: options.clone() };
    let cast = Cast::new(socket(peers, service, &path, options)?, invitation);
    invite_all(&cast, peers, options.connect_deadline())?;
    let (selection, longest, service) = (options.selection.clone(), options.longest(service), service.clone());
    let parts = Parts { method, service, path, peer: first, selection, longest, has_connected: true };
    Ok(Connection::new(Carrier::Cast(Box::new(cast)), parts))
}

/// The source's socket: on the address that all are reached from, or on all addresses.
fn socket(peers: &[SocketAddr], service: &Service, path: &Path, options: &EndpointOptions) -> Result<Socket, Error> {
    let most = Qos { priority: 0, send_average: 0, send_burst: 0, ..qos_to_many(service) };
    let mut locals: Vec<_> = peers.iter().filter_map(|peer| route(*peer).ok()).collect();
    locals.dedup();
    let any = || (Ipv4Addr::UNSPECIFIED, 0).into();
    let local = if let [one] = locals[..] { one } else { any() };
    let settings = a1::Options {
        group: group(service, path, local.ip())?,
        slow_sink: options.slow_receiver,
        ..options.a1(path.class != PathClass::Internet, matches!(service.receivers, Receivers::Group(_)))
    };
    if locals.len() > 1 && !locals.iter().all(SocketAddr::is_ipv4) {
        return Socket::client(most, &settings);
    }
    Socket::bind_with(local, most, &settings)
}

/// The group that carries the messages, if the service names one and this host can send to it.
fn group(service: &Service, path: &Path, local: IpAddr) -> Result<Option<a1::Group>, Error> {
    match service.receivers {
        Receivers::Group(SocketAddr::V4(group)) if path.multicast && can_send(local) => a1::group(group).map(Some),
        _ => Ok(None),
    }
}

fn can_send(local: IpAddr) -> bool {
    let IpAddr::V4(interface) = local else { return false };
    pinnace_link::probe_multicast(&pinnace_link::MulticastOptions { interface, ..Default::default() }).is_ok()
}

/// Another receiver, from now on.
pub(crate) fn add(cast: &Cast, peer: SocketAddr) -> Result<(), Error> {
    let Invitation { options, .. } = cast.invitation();
    let terms = cast.invitation().terms();
    let path = Path::of_service(&terms.service, Some(peer))
        .map_err(|error| Error::io(format!("cannot reach {peer}"), error))?;
    wanted(&terms.service, &path, &options.selection)
        .map_err(|unmet| ConnectionError::Unmet { peer: peer.to_string(), unmet: *unmet })?;
    let ours = host_of(cast.socket().local_addr());
    if let Ok(local) = route(peer)
        && !ours.ip().is_unspecified()
        && local != ours
    {
        let (ours, local) = (ours.ip(), local.ip());
        let why =
            format!("the receivers are reached from {ours}, and {peer} from {local}: connect to all of them anew");
        return Err(ConnectionError::Unsuited(why).into());
    }
    invite_all(cast, &[peer], options.connect_deadline())
}

/// All of them accept, or none is a receiver.
fn invite_all(cast: &Cast, peers: &[SocketAddr], deadline: Option<Instant>) -> Result<(), Error> {
    let _turn = cast.invites();
    let mut named = cast.living();
    for peer in peers {
        if !named.insert(*peer) {
            return Err(ConnectionError::Unsuited(format!("{peer} is named twice: it would be one receiver")).into());
        }
    }
    let mut sinks: Vec<(SocketAddr, Sink)> = Vec::with_capacity(peers.len());
    let mut failure = None;
    for some in peers.chunks(AT_ONCE) {
        let asked = std::thread::scope(|scope| {
            let begin = |peer: &SocketAddr| {
                let peer = *peer;
                std::thread::Builder::new()
                    .name("pinnace-invite".into())
                    .spawn_scoped(scope, move || invite(cast, peer, deadline))
            };
            let threads: Vec<_> = some.iter().map(begin).collect();
            let join = |thread: std::io::Result<std::thread::ScopedJoinHandle<'_, _>>| match thread {
                Ok(thread) => thread.join().unwrap_or(Err(Error::Timeout)),
                Err(error) => Err(Error::io("cannot start a thread", error)),
            };
            threads.into_iter().map(join).collect::<Vec<_>>()
        });
        for (peer, asked) in some.iter().zip(asked) {
            match asked {
                Ok(sink) => sinks.push((*peer, sink)),
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        if let Some(error) = failure.take() {
            sinks.iter().for_each(|(_, sink)| cast.forget(sink, std::time::Duration::ZERO));
            return Err(error);
        }
    }
    cast.open(sinks, deadline)
}

/// Asks one of them, and connects to where it says.
fn invite(cast: &Cast, peer: SocketAddr, deadline: Option<Instant>) -> Result<Sink, Error> {
    let Invitation { nonce, options, .. } = cast.invitation();
    let terms = cast.invitation().terms();
    let path = Path::of_service(&terms.service, Some(peer))
        .map_err(|error| Error::io(format!("cannot reach {peer}"), error))?;
    let agreed = ask(peer, *nonce, &terms.told, &path, &[Method::A1], options.next_fault().as_ref(), deadline)?;
    let unreached = |error: Error| {
        let tried = vec![(Method::A1, error.to_string())];
        Error::from(ConnectionError::Unreached { peer: peer.to_string(), tried })
    };
    let sink = cast.socket().add_sink_timeout(agreed.to, terms.qos, at_most(ACCEPTING, deadline)).map_err(unreached)?;
    // Who had not accepted yet was none of those whose service changed.
    let qos = cast.invitation().qos();
    if qos != terms.qos {
        sink.set_qos(qos).map_err(unreached)?;
    }
    Ok(sink)
}
