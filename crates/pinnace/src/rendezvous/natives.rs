//! The methods' own sockets on the server's side, and how a connection on them begins.
//!
//! Always true: a connection counts as open when its first message has said who it is, and not before.

use super::wire::{Control, Kind, whole};
pub(super) use crate::carrier::MOST_READS;
use crate::carrier::{A1, Carrier, Carry, Framed, InVain, LEAST_LIFE, Vrp, Ways, Xtp, Zcrp, most_from_many, most_of};
use crate::endpoint::EndpointOptions;
use crate::network::{host_of, with_port};
use crate::service::{Direction, Method, Pattern, Receivers, Reliability, Service};
use crate::{Error, a1, qmp, vrp, xtp, zcrp};
use pinnace_core::{Address, ReceivePlan};
use pinnace_link::{BufferTable, Link, ReadBuffer, ReadOutcome, UdpLink};
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

/// What has come of a task.
pub(super) enum Done {
    /// Somebody has come to a method's socket, and has not said who it is.
    Come(Box<Carrier>, SocketAddr),
    /// A connection is open.
    Open(Box<(Carrier, Control, SocketAddr)>),
    /// Nothing.
    Failed,
}

/// A method's socket that is there for many.
pub(super) struct Native {
    pub(super) method: Method,
    /// Of which of our addresses.
    pub(super) at: SocketAddr,
    pub(super) is_ours: bool,
    pub(super) port: u16,
    /// Whether a task accepts from it.
    pub(super) is_watched: bool,
    /// When a client was sent there last.
    pub(super) used: Instant,
    listener: Listener,
}

#[derive(Clone)]
enum Listener {
    Xtp(Arc<xtp::Listener>),
    Qmp(Arc<qmp::Listener>),
}

/// Whether messages go both ways.
pub(crate) fn is_duplex(service: &Service) -> bool {
    service.direction == Direction::Duplex || service.pattern == Pattern::Transaction
}

impl Native {
    /// Opens one; XTP and QMP have such sockets.
    pub(super) fn open(
        method: Method,
        at: SocketAddr,
        is_ours: bool,
        options: &EndpointOptions,
    ) -> Result<Self, Error> {
        let failed = |error| Error::io(format!("cannot listen for {method} on {}", at.ip()), error);
        let (port, listener) = match method {
            Method::Xtp => {
                let endpoint = xtp::Endpoint::bind(at, &options.xtp(is_ours))?;
                let port = endpoint.local_addr().port();
                let block = endpoint.block(xtp::Service::Connection).patient(options.peer_timeout);
                let services = xtp::Services::NONE.with(xtp::Service::Connection).with(xtp::Service::IsoStream);
                (port, Listener::Xtp(Arc::new(endpoint.listen_on(port, services, block)?)))
            }
            Method::Qmp => {
                let listener = qmp::Listener::bind(at, &options.qmp(is_ours)).map_err(failed)?;
                (listener.local_addr().port(), Listener::Qmp(Arc::new(listener)))
            }
            _ => return Err(failed(io::ErrorKind::Unsupported.into())),
        };
        Ok(Self { method, at, is_ours, port, is_watched: false, used: Instant::now(), listener })
    }

    /// Waits for the next who comes.
    pub(super) fn accept(&self, longest: u64, timeout: Duration) -> impl Future<Output = Done> + Send + 'static {
        let listener = self.listener.clone();
        async move {
            let mut strangers = InVain::default();
            match listener {
                Listener::Xtp(listener) => loop {
                    match listener.accept_async().await {
                        Ok(xtp::Incoming::Connection(connection)) => {
                            let peer = connection.peer();
                            return Done::Come(Box::new(Carrier::Xtp(Xtp::new(connection, timeout))), peer);
                        }
                        // Not what a connection begins with.
                        Ok(_) => drop(strangers.pass().await),
                        Err(_) => return Done::Failed,
                    }
                },
                Listener::Qmp(listener) => match listener.accept_async().await {
                    Ok(stream) => {
                        let peer = stream.peer_addr();
                        Done::Come(Box::new(Carrier::Framed(Framed::new(stream, longest, timeout))), peer)
                    }
                    Err(_) => Done::Failed,
                },
            }
        }
    }
}

/// Somebody who has not said who it is. It may take itself for connected already, so it must not end in order.
struct Stranger(Option<Carrier>);

impl Drop for Stranger {
    fn drop(&mut self) {
        if let Some(carrier) = self.0.take() {
            carrier.abort(Instant::now());
        }
    }
}

/// Waits until whoever has come says who it is. Until then nobody's long messages are collected.
pub(super) fn introduce(carrier: Carrier, peer: SocketAddr) -> impl Future<Output = Done> + Send + 'static {
    let mut stranger = Stranger(Some(carrier));
    async move {
        let most = Control::MOST_BYTES as u64;
        let first = match &stranger.0 {
            Some(Carrier::Xtp(carrier)) => carrier.recv_within_async(most).await,
            Some(Carrier::Framed(carrier)) => carrier.recv_within_async(most).await,
            Some(carrier) => carrier.recv_async().await,
            None => Ok(None),
        };
        let Ok(Some(first)) = first else { return Done::Failed };
        let opened = Control::parse(&first, None).ok().filter(|control| control.kind == Kind::Open);
        let Some(control) = opened else { return Done::Failed };
        let Some(carrier) = stranger.0.take() else { return Done::Failed };
        Done::Open(Box::new((carrier, control, peer)))
    }
}

/// What is agreed on with a client before it comes.
pub(super) struct Agreed {
    pub(super) client: SocketAddr,
    pub(super) nonce: u64,
    pub(super) piece: u32,
    pub(super) service: Service,
    pub(super) is_ours: bool,
}

/// A socket for one connection over ZCRP: its port, its descriptor, and what waits on it.
pub(super) fn zcrp(
    at: SocketAddr,
    agreed: Agreed,
    options: &EndpointOptions,
) -> Result<(u16, RawFd, impl Future<Output = Done> + Send + 'static), Error> {
    let settings = options.zcrp(agreed.is_ours);
    let failed = |error| Error::io(format!("cannot listen for zcrp on {}", at.ip()), error);
    let link = UdpLink::bind(at, &settings.udp(true)).map_err(failed)?;
    let port = link.local_address().ok_or_else(|| failed(io::ErrorKind::AddrNotAvailable.into()))?.port();
    let (descriptor, longest) = (link.descriptors().readable, options.longest_message);
    let future = async move {
        match open_zcrp(link, &agreed, &settings, longest).await {
            Ok((carrier, control, peer)) => Done::Open(Box::new((carrier, control, peer))),
            Err(_) => Done::Failed,
        }
    };
    Ok((port, descriptor, future))
}

async fn open_zcrp(
    mut link: UdpLink,
    agreed: &Agreed,
    settings: &zcrp::Options,
    longest: u64,
) -> Result<(Carrier, Control, SocketAddr), Error> {
    let failed = |error| Error::io("cannot read the socket", error);
    let (peer, bytes) = poll_fn(|_| match introduced(&mut link, agreed.client) {
        Ok(Some(found)) => Poll::Ready(Ok(found)),
        Ok(None) => Poll::Pending,
        Err(error) => Poll::Ready(Err(failed(error))),
    })
    .await?;
    link.connect_to(peer).map_err(failed)?;
    let halves = zcrp::connected(link, peer, settings, Some(bytes))?;
    let carrier = Zcrp::new(halves, agreed.nonce, agreed.piece, longest, settings.peer_timeout);
    carrier.invite()?;
    let control = carrier.opened().await?;
    Ok((Carrier::Zcrp(carrier), control, peer))
}

/// Whether a sender of this host has introduced itself: from where, and with how many bytes. What is left to read after a few
/// reads keeps the socket readable, so the task has its turn again behind the others.
fn introduced(link: &mut UdpLink, from: SocketAddr) -> io::Result<Option<(SocketAddr, usize)>> {
    let mut reads = ReadBuffer::new();
    let mut plan = ReceivePlan::new();
    plan.reset(1);
    plan.top_up(ReadBuffer::READ_BYTES);
    for _ in 0..MOST_READS {
        match link.receive(&plan, &BufferTable::new(), &mut reads)? {
            ReadOutcome::Empty => break,
            ReadOutcome::Unreachable => {}
            ReadOutcome::Received(received) => {
                let is_idle = !received.truncated && zcrp::is_idle(&reads.pooled(received.bytes));
                if let (true, Address::Inet(peer)) = (is_idle, received.meta.source)
                    && host_of(peer) == host_of(from)
                {
                    return Ok(Some((peer, received.bytes)));
                }
            }
        }
    }
    Ok(None)
}

/// The same over VRP.
pub(super) fn vrp(
    at: SocketAddr,
    agreed: Agreed,
    options: &EndpointOptions,
) -> Result<(u16, impl Future<Output = Done> + Send + 'static), Error> {
    let mut settings = options.vrp(agreed.is_ours, &agreed.service);
    let timeout = settings.life_timeout;
    if !is_duplex(&agreed.service) {
        // There is no way back to ask by.
        settings.life_timeout = timeout.max(LEAST_LIFE);
    }
    let receiver = vrp::Receiver::bind(at, &settings)?;
    let port = receiver.local_addr().port();
    let future = async move {
        match open_vrp(receiver, &agreed, &settings, timeout).await {
            Ok((carrier, control, peer)) => Done::Open(Box::new((carrier, control, peer))),
            Err(_) => Done::Failed,
        }
    };
    Ok((port, future))
}

async fn open_vrp(
    receiver: vrp::Receiver,
    agreed: &Agreed,
    settings: &vrp::Options,
    timeout: Duration,
) -> Result<(Carrier, Control, SocketAddr), Error> {
    let mut strangers = InVain::default();
    let (control, peer, number) = loop {
        let frame = receiver.recv_async().await?;
        if let Ok(control) = Control::parse(&frame, Some(agreed.nonce))
            && control.kind == Kind::Open
        {
            break (control, frame.source(), frame.number());
        }
        // Its memory is free before others have their turn.
        drop(frame);
        strangers.pass().await;
    };
    let mut ways = Ways::default();
    if is_duplex(&agreed.service) && control.port != 0 {
        let to = with_port(peer, control.port);
        match vrp::Sender::connect(to, settings) {
            Ok(out) => (ways.to, ways.out) = (Some(to), Some(out)),
            Err(error) => {
                // The way to the client has what that from it had.
                drop(receiver);
                return Err(turned_away(to, agreed, settings).await.err().unwrap_or(error));
            }
        }
    }
    ways.back = Some(receiver);
    let is_answered = ways.out.is_some();
    // With what is critical, if HELLO had no room for that.
    let service = whole(&control.service, &agreed.service).unwrap_or(agreed.service.clone());
    let signs = Duration::from_millis(control.piece.into());
    let carrier = Vrp::new(ways, agreed.nonce, &service, Some((peer, number)), timeout);
    let carrier = if signs.is_zero() { carrier } else { carrier.with_signs_of_life(signs, timeout) };
    if is_answered {
        // Its frames come behind this one, or the client would not know whose they are.
        carrier.answer(&Control::new(Kind::Open, agreed.nonce)).await?;
    }
    Ok((Carrier::Vrp(carrier), control, peer))
}

/// Says to a client that takes itself for connected that it is not: without that it would find out when it gives up what it
/// sends.
async fn turned_away(to: SocketAddr, agreed: &Agreed, settings: &vrp::Options) -> Result<(), Error> {
    let ways = Ways { to: Some(to), out: Some(vrp::Sender::connect(to, settings)?), back: None };
    let carrier = Vrp::new(ways, agreed.nonce, &agreed.service, None, settings.life_timeout);
    carrier.answer(&Control::new(Kind::Abort, agreed.nonce)).await
}

/// A socket of A1 where no connection is open yet. Left alone it would give a peer that is silent time for its last words, and
/// the thread answers nobody meanwhile.
struct Unopened(Option<a1::Socket>);

impl Drop for Unopened {
    fn drop(&mut self) {
        if let Some(socket) = self.0.take() {
            socket.shut_down();
            socket.abort();
        }
    }
}

/// The same over A1.
pub(super) fn a1(
    at: SocketAddr,
    agreed: &Agreed,
    options: &EndpointOptions,
) -> Result<(u16, impl Future<Output = Done> + Send + use<>), Error> {
    let (receivers, is_raw) = (agreed.service.receivers, agreed.service.reliability == Reliability::BestEffort);
    let settings = options.a1(agreed.is_ours, matches!(receivers, Receivers::Group(_)));
    let most = if receivers == Receivers::One { most_of(&agreed.service) } else { most_from_many(&agreed.service) };
    let socket = a1::Socket::bind_with(at, most, &settings)?;
    socket.listen(1)?;
    let port = socket.local_addr().port();
    let &Agreed { client, nonce, .. } = agreed;
    let timeout = options.peer_timeout;
    let mut unopened = Unopened(Some(socket));
    let future = async move {
        let mut strangers = InVain::default();
        loop {
            let Some(socket) = &unopened.0 else { return Done::Failed };
            let Ok(connection) = socket.accept_async().await else { return Done::Failed };
            let peer = connection.peer_addr();
            if host_of(peer) != host_of(client) {
                // Somebody else may come to this port as well.
                connection.abort();
                strangers.pass().await;
                continue;
            }
            let control = loop {
                let Ok(Some(first)) = connection.recv_async().await else { return Done::Failed };
                match Control::parse(&first.data, Some(nonce)) {
                    Ok(control) => break control,
                    // What a source sent to the others before OPEN is not for us; and OPEN may be lost.
                    Err(_) if receivers != Receivers::One || is_raw => drop(strangers.pass().await),
                    Err(_) => return Done::Failed,
                }
            };
            socket.stop_listening();
            let Some(socket) = unopened.0.take() else { return Done::Failed };
            let carrier = A1::new(socket, connection, nonce, timeout);
            carrier.answer();
            let carrier = Carrier::A1(if receivers == Receivers::One { carrier } else { carrier.of_many() });
            return Done::Open(Box::new((carrier, control, peer)));
        }
    };
    Ok((port, future))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::carrier::qos_of;
    use pinnace_link::UdpOptions;
    use pinnace_wire::zcrp::encode_idle;
    use std::net::UdpSocket;
    use std::sync::mpsc;
    use std::thread;

    #[test]
    fn datagrams_that_introduce_nobody_do_not_hold_up_the_thread() {
        let mut link = UdpLink::bind("127.0.0.1:0".parse().unwrap(), &UdpOptions::default()).unwrap();
        let to = link.local_address().unwrap();
        let others = UdpSocket::bind("127.0.0.1:0").unwrap();
        for _ in 0..100 {
            others.send_to(&[0], to).unwrap();
        }
        others.send_to(&encode_idle(0), to).unwrap();
        let from = others.local_addr().unwrap();
        assert_eq!(introduced(&mut link, from).unwrap(), None, "others have their turn first");
        assert_eq!(introduced(&mut link, from).unwrap().map(|found| found.0), Some(from));
    }

    const NONCE: u64 = 7;

    /// What is agreed on with a client of this host.
    fn agreed(service: &str) -> Agreed {
        let client = "127.0.0.1:1".parse().unwrap();
        Agreed { client, nonce: NONCE, piece: 0, service: service.parse().unwrap(), is_ours: true }
    }

    /// How often it is looked, with others between, until a connection is open.
    fn looks(future: impl Future<Output = Done>) -> usize {
        let (mut future, mut looks) = (std::pin::pin!(future), 0);
        let done = pollster::block_on(poll_fn(|context| {
            looks += 1;
            future.as_mut().poll(context)
        }));
        assert!(matches!(done, Done::Open(_)));
        looks
    }

    #[test]
    fn frames_of_strangers_do_not_hold_up_the_thread() {
        let at = "127.0.0.1:0".parse().unwrap();
        let (port, future) = vrp(at, agreed(""), &EndpointOptions::default()).unwrap();
        let to = SocketAddr::new(at.ip(), port);
        let send = |messages: Vec<Vec<u8>>| {
            let sender = vrp::Sender::connect(to, &vrp::Options::default()).unwrap();
            let sent: Vec<_> = messages.into_iter().map(|message| sender.send(message).unwrap()).collect();
            sent.into_iter().for_each(|sending| drop(sending.wait().unwrap()));
        };
        send(vec![b"ahoy".to_vec(); 4 * MOST_READS]);
        send(vec![Control::new(Kind::Open, NONCE).encode()]);
        assert!(looks(future) >= 4);
    }

    #[test]
    fn messages_of_a1_before_the_first_do_not_hold_up_the_thread() {
        let at = "127.0.0.1:0".parse().unwrap();
        let (agreed, options) = (agreed("loss=any"), EndpointOptions::default());
        let (port, future) = a1(at, &agreed, &options).unwrap();
        let client = a1::Socket::bind_with(at, most_of(&agreed.service), &options.a1(true, false)).unwrap();
        let connection = client.connect(SocketAddr::new(at.ip(), port), qos_of(&agreed.service)).unwrap();
        for _ in 0..4 * MOST_READS {
            connection.send(b"ahoy".to_vec(), a1::Full::Block).unwrap();
        }
        connection.send(Control::new(Kind::Open, NONCE).encode(), a1::Full::Block).unwrap();
        connection.flush().unwrap();
        thread::sleep(Duration::from_millis(200));
        assert!(looks(future) >= 4);
    }

    #[test]
    fn whoever_nobody_waits_for_any_more_is_told_no_end_in_order() {
        for has_come in [false, true] {
            let options = xtp::Options::default();
            let server = xtp::Endpoint::bind("127.0.0.1:0", &options).unwrap();
            let listener = server.listen(xtp::Services::ALL).unwrap();
            let client = xtp::Endpoint::client_of(server.local_addr(), &options).unwrap();
            let connection = client.connect(server.local_addr()).unwrap();
            // It has been acknowledged.
            connection.send(Control::new(Kind::Open, NONCE).encode()).unwrap().wait().unwrap();
            if has_come {
                let come = listener.accept().unwrap().into_connection().unwrap();
                let (peer, carrier) = (come.peer(), Carrier::Xtp(Xtp::new(come, Duration::from_secs(10))));
                drop(introduce(carrier, peer));
            }
            drop(listener);
            let told = connection.recv_timeout(Duration::from_secs(10));
            assert!(matches!(told, Err(Error::ContextFailed(_))), "{has_come}: {told:?}");
        }
    }

    #[test]
    fn nothing_long_is_collected_of_whoever_has_not_said_who_it_is() {
        for service in [xtp::Service::Connection, xtp::Service::IsoStream] {
            let options = xtp::Options::default();
            let server = xtp::Endpoint::bind("127.0.0.1:0", &options).unwrap();
            let listener = server.listen(xtp::Services::ALL).unwrap();
            let client = xtp::Endpoint::client_of(server.local_addr(), &options).unwrap();
            let connection = client.connect_with(server.local_addr(), client.block(service)).unwrap();
            // A message that never ends.
            drop(connection.send_bytes(vec![0; 20_000]).unwrap());
            let come = listener.accept().unwrap().into_connection().unwrap();
            let (peer, carrier) = (come.peer(), Carrier::Xtp(Xtp::new(come, Duration::from_secs(10))));
            let (told, tells) = mpsc::channel();
            thread::spawn(move || told.send(matches!(pollster::block_on(introduce(carrier, peer)), Done::Failed)));
            assert_eq!(tells.recv_timeout(Duration::from_secs(10)), Ok(true), "{service:?}");
        }
    }
}
