//! The asking side: HELLO, ANSWER, and the first message to the method's own socket.
//!
//! Always true: a connection is handed out only after the peer has been heard of on the method's own socket, so that another
//! method can be tried if nothing passes there. What says who it comes from goes ahead of all messages: over ZCRP and A1 by
//! the method's order, so that nobody waits for it, and otherwise because it is acknowledged first.

use super::natives::is_duplex;
use super::socket::{Heard, Socket};
use super::wire::{Answer, Control, Hello, Kind, MOST_SERVICE, MOST_TEXT, Status, VERSIONS};
use super::{class_number, host, method, number};
use crate::carrier::{
    A1, Carrier, Carry, Framed, Sending, Vrp, Ways, Xtp, Zcrp, at_most, is_piece, most_of, most_piece, programmed,
    qos_of,
};
use crate::endpoint::{Connection, ConnectionError, EndpointOptions, Parts, no_address};
use crate::network::{as_connected, canonical, random_seed, route, with_port};
use crate::service::{Method, Mode, Path, PathClass, Receivers, Selection, Service, choose};
use crate::zcrp::Progress;
use crate::{Error, Message, a1, qmp, vrp, xtp, zcrp};
use pinnace_link::{FaultOptions, UdpLink};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

/// The first wait for an answer; it doubles with every fourth.
const FIRST_WAIT: Duration = Duration::from_millis(250);
/// How often a HELLO is said.
const ATTEMPTS: u32 = 12;
/// How long the first message of a connection may take; the server has patience for twenty seconds. VRP asks seven times in
/// this: where a third of all is lost, five times would be too few for one connection in thirty.
const OPENING: Duration = Duration::from_secs(9);
/// How long A1 may take before that, which asks at once, and then after a quarter of a second, and after twice as long each
/// time (specs/a1.md): seven times in all, for an answer that may be lost as well as the question, and there are two of each.
pub(super) const ACCEPTING: Duration = Duration::from_secs(17);
/// Whoever finds a server busy asks again for so long, if nothing is said: as long as one that does not answer is asked.
const BUSY: Duration = Duration::from_secs(7);
/// Between two such questions is no more time.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Cookies that are answered with another before a server is taken for mad.
const MOST_COOKIES: u32 = 3;

/// What the server has answered.
pub(super) struct Agreed {
    method: Method,
    pub(super) to: SocketAddr,
    piece: u32,
    nonce: u64,
}

/// A service as it is told to a peer.
#[derive(Debug)]
pub(super) struct Told {
    /// In HELLO, where room is short.
    pub(super) hello: String,
    /// In OPEN: all of it, unless it is more than anybody reads.
    pub(super) open: String,
    /// The most bytes of a piece that the peer may choose.
    most_piece: u32,
}

impl Told {
    pub(super) fn of(service: &Service) -> Self {
        let (text, most_piece) = (service.to_string(), most_piece(service));
        if text.len() <= MOST_TEXT {
            return Self { hello: text.clone(), open: text, most_piece };
        }
        // Which ranges are critical is said by each frame's own header; a listener does not choose by it.
        let hello = service.without_critical().to_string();
        Self { open: if text.len() <= MOST_SERVICE { text } else { hello.clone() }, hello, most_piece }
    }
}

/// Connects to the first address of that name that it is reached at.
pub(crate) fn connect(
    name: &str,
    addresses: &[SocketAddr],
    service: &Service,
    options: &EndpointOptions,
) -> Result<Connection, Error> {
    let told = Told::of(service);
    if told.hello.len() > MOST_TEXT {
        return Err(ConnectionError::ServiceTooLong { bytes: told.hello.len(), most: MOST_TEXT }.into());
    }
    if service.receivers != Receivers::One {
        let why =
            "the service is one to several receivers, and this call has one peer: use connect_all, which names each";
        return Err(ConnectionError::Unsuited(why.to_owned()).into());
    }
    let deadline = options.connect_deadline();
    let mut each = Vec::new();
    for (at, to) in addresses.iter().copied().map(canonical).map(as_connected).enumerate() {
        // Those that are left have equal shares of the time: one that is silent takes nothing from the others.
        let share = crate::carrier::left(deadline).map(|left| left / (addresses.len() - at) as u32);
        match connect_to(to, &told, service, options, share.and_then(crate::network::deadline)) {
            Err(error) => each.push((to, error)),
            connected => return connected,
        }
    }
    Err(match each.len() {
        0 => no_address(name),
        1 => each.remove(0).1,
        _ => ConnectionError::NoneOf { name: name.to_owned(), each }.into(),
    })
}

/// Connects to one address.
fn connect_to(
    to: SocketAddr,
    told: &Told,
    service: &Service,
    options: &EndpointOptions,
    deadline: Option<Instant>,
) -> Result<Connection, Error> {
    let path = Path::of_service(service, Some(to)).map_err(|error| Error::io(format!("cannot reach {to}"), error))?;
    let mut selection = options.selection.clone();
    let mut tried: Vec<(Method, String)> = Vec::new();
    loop {
        let methods = match wanted(service, &path, &selection) {
            Ok(methods) => methods,
            Err(unmet) if tried.is_empty() => {
                return Err(ConnectionError::Unmet { peer: to.to_string(), unmet: *unmet }.into());
            }
            Err(_) => return Err(ConnectionError::Unreached { peer: to.to_string(), tried }.into()),
        };
        let fault = options.next_fault();
        let agreed = match ask(to, random_seed(), told, &path, &methods, fault.as_ref(), deadline) {
            Err(Error::Connection(error))
                if !tried.is_empty()
                    && matches!(*error, ConnectionError::Refused { .. } | ConnectionError::NoAnswer { .. }) =>
            {
                return Err(ConnectionError::Unreached { peer: to.to_string(), tried }.into());
            }
            result => result?,
        };
        let method = agreed.method;
        match open(&agreed, to, &told.open, service, &path, options, deadline) {
            Ok(carrier) => {
                let selection = options.selection.clone();
                let longest = options.longest(service);
                let (service, peer) = (service.clone(), agreed.to);
                let parts = Parts { method, service, path, peer, selection, longest, has_connected: true };
                return Ok(Connection::new(carrier, parts));
            }
            Err(error) => {
                let why = match error {
                    Error::Timeout => "it does not answer the first message in time".to_owned(),
                    error => error.to_string(),
                };
                tried.push((method, why));
                selection.excluded.push(method);
            }
        }
    }
}

/// The methods that fit and may be taken, the cheapest first.
pub(super) fn wanted(
    service: &Service,
    path: &Path,
    selection: &Selection,
) -> Result<Vec<Method>, Box<crate::service::Unmet>> {
    let choice = choose(service, path, selection).map_err(Box::new)?;
    // The others are ordered by their cost.
    let others = choice.others.iter().filter(|offer| offer.fits && selection.allows(offer.method));
    Ok(std::iter::once(choice.offer.method).chain(others.map(|offer| offer.method)).collect())
}

/// Agrees on a method, and where it is.
pub(super) fn ask(
    to: SocketAddr,
    nonce: u64,
    told: &Told,
    path: &Path,
    methods: &[Method],
    fault: Option<&FaultOptions>,
    deadline: Option<Instant>,
) -> Result<Agreed, Error> {
    let mut socket = Socket::connect(to, fault).map_err(|error| Error::io(format!("cannot ask {to}"), error))?;
    let mut hello = Hello {
        versions: VERSIONS,
        class: class_number(path.class),
        nonce,
        cookie: 0,
        host: if path.class == PathClass::Host { host::identity() } else { 0 },
        methods: methods.iter().map(|method| number(*method)).collect(),
        service: told.hello.clone(),
    };
    let refused = |why: String| ConnectionError::Refused { peer: to.to_string(), why };
    let busy_until = deadline.unwrap_or_else(|| Instant::now() + BUSY);
    let (mut cookies, mut pause) = (0, FIRST_WAIT);
    while cookies <= MOST_COOKIES {
        let answer = exchange(&mut socket, to, &hello, deadline)?;
        match answer.status {
            Status::Again => {
                hello.cookie = answer.cookie;
                cookies += 1;
            }
            // Those that are being set up there will be, or are given up, before long.
            Status::Busy if Instant::now() + pause < busy_until => {
                std::thread::sleep(pause);
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            Status::Accepted => {
                let chosen = method(answer.method).filter(|chosen| methods.contains(chosen));
                let method = chosen.ok_or_else(|| refused("it has chosen a method that was not offered".to_owned()))?;
                if method == Method::Zcrp && !is_piece(answer.piece, told.most_piece) {
                    return Err(refused(format!("it cuts messages into pieces of {} bytes", answer.piece)).into());
                }
                let to = with_port(to, answer.port);
                return Ok(Agreed { method, to, piece: answer.piece, nonce: hello.nonce });
            }
            status if answer.text.is_empty() => return Err(refused(status.to_string()).into()),
            status => return Err(refused(format!("{status}: {}", answer.text)).into()),
        }
    }
    Err(refused("it asks for one cookie after the other".to_owned()).into())
}

/// Says HELLO until there is an answer, or the deadline has passed.
fn exchange(socket: &mut Socket, to: SocketAddr, hello: &Hello, deadline: Option<Instant>) -> Result<Answer, Error> {
    let failed = |error| Error::io(format!("cannot ask {to}"), error);
    let bytes = hello.encode().ok_or_else(|| failed(io::ErrorKind::InvalidInput.into()))?;
    let mut unreachable = false;
    for attempt in 0..ATTEMPTS {
        // The peer's host may say that nothing is bound there. It may be about to be.
        unreachable |= !socket.say(&bytes).map_err(failed)?;
        let until = Instant::now() + at_most(FIRST_WAIT * 2u32.pow(attempt / 4), deadline);
        loop {
            match socket.hear(until).map_err(failed)? {
                Heard::Nothing => break,
                Heard::Unreachable => unreachable = true,
                Heard::Bytes(bytes) => {
                    // A cookie that was sent already comes of a HELLO before, or twice.
                    let is_old = |answer: &Answer| answer.status == Status::Again && answer.cookie == hello.cookie;
                    if let Ok(answer) = Answer::parse(&bytes)
                        && answer.nonce == hello.nonce
                        && !is_old(&answer)
                    {
                        return Ok(answer);
                    }
                }
            }
            // What is no answer holds up nobody for longer than silence does, however much of it comes.
            if until <= Instant::now() {
                break;
            }
        }
        if (unreachable && attempt > 0) || deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            break;
        }
    }
    let is_cut = deadline.is_some_and(|deadline| deadline <= Instant::now());
    let hint = if unreachable {
        "nothing is bound to that port; is it the port of a Pinnace endpoint, and does it run?"
    } else {
        "check the address, that an endpoint listens there (`pinnace listen`; a listener of zcrp, vrp, xtp, qmp or a1 alone \
         has no rendezvous), and that no firewall is between"
    };
    let cut = if is_cut { "not in the time that there was; " } else { "" };
    Err(ConnectionError::NoAnswer { peer: to.to_string(), hint: format!("{cut}{hint}") }.into())
}

/// Connects by the method, and says who we are.
fn open(
    agreed: &Agreed,
    server: SocketAddr,
    text: &str,
    service: &Service,
    path: &Path,
    options: &EndpointOptions,
    deadline: Option<Instant>,
) -> Result<Carrier, Error> {
    let &Agreed { method, to, piece, nonce } = agreed;
    let (is_ours, timeout) = (path.class != PathClass::Internet, options.peer_timeout);
    let mut control = Control { service: text.to_owned(), ..Control::new(Kind::Open, nonce) };
    let longest = options.longest(service);
    let carrier = match method {
        Method::Xtp => {
            let settings = xtp::Options { longest_message: longest, ..options.xtp(is_ours) };
            let endpoint = xtp::Endpoint::client_of(to, &settings)?;
            let kind = match method.probe(service, path).mode {
                Mode::Xtp(kind) if !kind.is_group() => kind,
                _ => xtp::Service::Connection,
            };
            let block = programmed(endpoint.block(kind).patient(options.peer_timeout), service);
            Carrier::Xtp(Xtp::new(endpoint.connect_with(to, block)?, timeout))
        }
        Method::Qmp => {
            let stream =
                qmp::Stream::begin(to, &options.qmp(is_ours)).map_err(|error| Error::io("cannot connect", error))?;
            Carrier::Framed(Framed::new(stream, longest, timeout))
        }
        Method::SharedMemory => {
            let shared = qmp::Options { carrier: qmp::Carrier::SharedMemory, ..options.qmp(true) };
            let stream = qmp::Stream::begin(server, &shared).map_err(|error| Error::io("cannot connect", error))?;
            Carrier::Framed(Framed::new(stream, longest, timeout))
        }
        Method::Zcrp => {
            if service.in_place && u64::from(piece) <= service.largest_bytes() {
                let what = "put messages of this length in place: the peer cuts them into smaller pieces".to_owned();
                return Err(ConnectionError::Cannot { method: agreed.method, what }.into());
            }
            let settings = options.zcrp(is_ours);
            let link = UdpLink::connect(None, to, &settings.udp(false))
                .map_err(|error| Error::io(format!("cannot open a socket to {to}"), error))?;
            let halves = zcrp::connected(link, to, &settings, None)?;
            Carrier::Zcrp(Zcrp::new(halves, nonce, piece, longest, timeout))
        }
        Method::Vrp => {
            let settings = options.vrp(is_ours, service);
            let mut ways = Ways { to: Some(to), out: Some(vrp::Sender::connect(to, &settings)?), back: None };
            if is_duplex(service) {
                let any: IpAddr =
                    if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
                let local = route(to).unwrap_or((any, 0).into());
                let back = vrp::Receiver::bind(local, &settings)?;
                control.port = back.local_addr().port();
                ways.back = Some(back);
            }
            control.piece = settings.keep_alive.map_or(0, |signs| signs.as_millis() as u32);
            Carrier::Vrp(Vrp::new(ways, nonce, service, None, timeout))
        }
        Method::A1 => {
            let qos = qos_of(service);
            // More than is asked for now: the service may change.
            let socket = a1::Socket::client_of(to, most_of(service), &options.a1(is_ours, false))?;
            let connection = socket.connect_timeout(to, qos, at_most(ACCEPTING, deadline))?;
            Carrier::A1(A1::new(socket, connection, nonce, timeout))
        }
    };
    let patience = at_most(OPENING, deadline);
    let until = Some(Instant::now() + patience);
    let opened = match &carrier {
        Carrier::Zcrp(carrier) => carrier.open(&control, Instant::now() + patience),
        // It has accepted, and OPEN is the first that it receives.
        Carrier::A1(carrier) => carrier.open(&control, deadline),
        Carrier::Vrp(carrier) => arrived(Sending::Vrp(carrier.open(&control)?), patience),
        // There may be no room for it, in the memory of the daemon.
        carrier => match carrier.send(Message::from_vec(control.encode()), None, until) {
            Ok(sending) => arrived(sending, at_most(patience, until)),
            Err(unsent) => Err(unsent.error),
        },
    };
    if let Err(Error::Timeout) = opened {
        // Not in order, for which it would be waited.
        carrier.abort(Instant::now());
    }
    opened.map(|()| carrier)
}

/// Waits until a message has arrived.
fn arrived(sending: Sending, patience: Duration) -> Result<(), Error> {
    match sending.wait_timeout(patience) {
        Progress::Ended(sent) => sent.map(drop).map_err(Error::from),
        Progress::UnderWay(_) => Err(Error::Timeout),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinnace_core::{Address, Ecn, ReceivePlan, RxMeta, Train, TrainLimits};
    use pinnace_link::{BufferTable, Descriptors, Link, LinkCounters, ReadBuffer, ReadOutcome, Received, SendOutcome};
    use std::net::UdpSocket;
    use std::sync::mpsc;

    /// Somebody from whom there is always another datagram, and never an answer.
    struct Babbler;

    impl Link for Babbler {
        fn train_limits(&self) -> TrainLimits {
            TrainLimits::GSO
        }

        fn max_datagram(&self) -> usize {
            1472
        }

        fn datagrams_per_read(&self) -> usize {
            1
        }

        fn send(&mut self, _: &Train, _: &BufferTable) -> io::Result<SendOutcome> {
            Ok(SendOutcome::Sent)
        }

        fn receive(&mut self, _: &ReceivePlan, _: &BufferTable, _: &mut ReadBuffer) -> io::Result<ReadOutcome> {
            let meta = RxMeta { source: Address::Peer, destination: None, ecn: Ecn::NotCapable };
            Ok(ReadOutcome::Received(Received { bytes: 0, segment: 0, meta, truncated: false }))
        }

        fn descriptors(&self) -> Descriptors {
            Descriptors::new(-1, -1)
        }

        fn counters(&self) -> LinkCounters {
            LinkCounters::default()
        }
    }

    #[test]
    fn who_never_stops_talking_and_does_not_answer_is_given_up() {
        let (ended, ends) = mpsc::channel();
        std::thread::spawn(move || {
            let to = "127.0.0.1:9".parse().unwrap();
            let hello = Hello {
                versions: VERSIONS,
                class: 1,
                nonce: 5,
                cookie: 0,
                host: 0,
                methods: Vec::new(),
                service: String::new(),
            };
            let deadline = Some(Instant::now() + Duration::from_millis(100));
            ended.send(exchange(&mut Socket::over(Box::new(Babbler)), to, &hello, deadline).map(|_| ()))
        });
        let exchanged = ends.recv_timeout(Duration::from_secs(20)).expect("it listens for ever");
        let error = exchanged.unwrap_err().to_string();
        assert!(error.contains("not in the time that there was"), "{error}");
    }

    #[test]
    fn of_several_addresses_the_error_names_each() {
        let (silent, closed) =
            (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.2:0").unwrap().local_addr().unwrap());
        let silent = silent.local_addr().unwrap();
        let options = EndpointOptions { connect_timeout: Some(Duration::from_secs(2)), ..EndpointOptions::default() };
        let error = connect("ship:1", &[silent, closed, closed], &Service::new(), &options).unwrap_err();
        let said = error.to_string();
        assert!(said.starts_with("none of the 3 addresses of ship:1 is reached"), "{said}");
        assert!(said.contains(&format!("{silent} does not answer")), "{said}");
        assert_eq!(said.matches(&format!("{closed} does not answer")).count(), 2, "{said}");
        assert_eq!(said.matches("nothing is bound").count(), 1, "{said}");
        assert_eq!(io::Error::from(error).kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn a_silent_address_leaves_the_next_its_share_of_the_time() {
        let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
        let server = crate::Endpoint::bind("127.0.0.1:0").unwrap();
        let _listener = server.listen(&Service::new()).unwrap();
        let addresses = [silent.local_addr().unwrap(), server.local_addr().unwrap()];
        let options = EndpointOptions { connect_timeout: Some(Duration::from_secs(6)), ..EndpointOptions::default() };
        let begun = Instant::now();
        connect("ship:1", &addresses, &Service::new(), &options).unwrap();
        assert!(begun.elapsed() < Duration::from_secs(5), "it took {:?}", begun.elapsed());
    }

    #[test]
    fn the_unspecified_address_is_this_host() {
        for (bound, to) in [("0.0.0.0:0", "0.0.0.0"), ("[::]:0", "[::]"), ("127.0.0.1:0", "0.0.0.0")] {
            let server = crate::Endpoint::bind(bound).unwrap();
            let _listener = server.listen(&Service::new()).unwrap();
            let peer = format!("{to}:{}", server.local_addr().unwrap().port());
            crate::connect(&peer).unwrap();
            crate::Endpoint::client().connect_all(&[&peer], &"multicast=1".parse().unwrap()).unwrap();
        }
    }

    #[test]
    fn a_server_does_not_choose_how_much_memory_a_client_makes() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = server.local_addr().unwrap();
        let pieces = [0, 1, (64 << 10) - 1, (8 << 20) + 1, u32::MAX];
        let serving = std::thread::spawn(move || {
            for piece in pieces {
                let mut bytes = [0; 2048];
                let (len, from) = server.recv_from(&mut bytes).unwrap();
                let hello = Hello::parse(&bytes[..len]).unwrap();
                let refusal = Answer::refusal(&hello, Status::Accepted, "");
                let answer = Answer { method: number(Method::Zcrp), port: 9, piece, ..refusal };
                server.send_to(&answer.encode(), from).unwrap();
            }
        });
        for piece in pieces {
            let asked = ask(
                to,
                5,
                &Told::of(&Service::new()),
                &Path::of_class(PathClass::Cluster),
                &[Method::Zcrp],
                None,
                None,
            );
            let said = asked.err().map(|error| error.to_string()).unwrap_or_default();
            assert!(said.contains(&format!("pieces of {piece} bytes")), "{said}");
        }
        serving.join().unwrap();
    }

    #[test]
    fn answers_that_come_several_times_are_one() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = server.local_addr().unwrap();
        let serving = std::thread::spawn(move || {
            let mut bytes = [0; 2048];
            loop {
                let (len, from) = server.recv_from(&mut bytes).unwrap();
                let hello = Hello::parse(&bytes[..len]).unwrap();
                let (status, times) = if hello.cookie == 0 { (Status::Again, 9) } else { (Status::NobodyListens, 1) };
                let answer = Answer { cookie: 7, ..Answer::refusal(&hello, status, "") };
                for _ in 0..times {
                    server.send_to(&answer.encode(), from).unwrap();
                }
                if hello.cookie == 7 {
                    return;
                }
            }
        });
        let asked =
            ask(to, 5, &Told::of(&Service::new()), &Path::of_class(PathClass::Cluster), &[Method::Xtp], None, None);
        let error = asked.err().unwrap();
        assert!(error.to_string().contains("nobody listens"), "{error}");
        serving.join().unwrap();
    }
}
