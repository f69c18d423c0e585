//! What some clients do, and what the others feel of it.

use super::*;
use crate::Endpoint;
use crate::a1::{self, Full};
use crate::carrier::{most_of, qos_of};
use crate::network::random_seed;
use crate::rendezvous::client::{self, Agreed as Told};
use crate::rendezvous::wire::Kind;
use crate::service::{Direction, Selection};
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// How a word of the rendezvous begins that goes over a method: the first is OPEN.
const OPEN: &[u8] = b"PNCEctl";

/// Agrees on this method with whoever listens at `to`; returns the name of the attempt as well.
fn ask(to: SocketAddr, method: Method) -> (u64, Result<Told, Error>) {
    let (nonce, path) = (random_seed(), Path::of_class(PathClass::Cluster));
    (nonce, client::ask(to, nonce, &client::Told::of(&Service::new()), &path, &[method], None, None))
}

/// Comes to A1, and falls silent when it has said the first message: what it gets is not even read.
fn say_and_fall_silent(agreed: &Told, first: Vec<u8>) -> a1::Socket {
    let options = EndpointOptions { worker: false, ..EndpointOptions::default() };
    let service = Service::new();
    let socket = a1::Socket::client_of(agreed.to, most_of(&service), &options.a1(true, false)).unwrap();
    let connection = socket.connect_timeout(agreed.to, qos_of(&service), Duration::from_secs(5)).unwrap();
    connection.send(first, Full::Report).unwrap();
    // One turn, in which it leaves, and may be acknowledged; nobody reads what comes of it.
    let _ = connection.flush_timeout(Duration::ZERO);
    thread::sleep(Duration::from_millis(100));
    std::mem::forget(connection);
    socket
}

/// How long the next one waits for an answer.
fn waits(to: SocketAddr) -> Duration {
    let begin = Instant::now();
    // Also that nobody listens is an answer.
    drop(ask(to, Method::Xtp));
    begin.elapsed()
}

#[test]
fn a_client_that_says_nonsense_and_falls_silent_holds_up_nobody() {
    let server = Endpoint::bind("127.0.0.1:0").unwrap();
    let listener = server.listen(&Service::new()).unwrap();
    let agreed = ask(listener.local_addr(), Method::A1).1.unwrap();
    let socket = say_and_fall_silent(&agreed, b"no OPEN".to_vec());
    let waited = waits(listener.local_addr());
    assert!(waited < Duration::from_secs(2), "{waited:?}");
    socket.abort();
}

#[test]
fn a_client_that_nobody_wants_any_more_and_that_falls_silent_holds_up_nobody() {
    let server = Endpoint::bind("127.0.0.1:0").unwrap();
    let listener = server.listen(&Service::new()).unwrap();
    let to = listener.local_addr();
    let (nonce, agreed) = ask(to, Method::A1);
    drop(listener);
    let open = Control { service: Service::new().to_string(), ..Control::new(Kind::Open, nonce) };
    let socket = say_and_fall_silent(&agreed.unwrap(), open.encode());
    let waited = waits(to);
    assert!(waited < Duration::from_secs(2), "{waited:?}");
    socket.abort();
}

#[test]
fn a_task_that_runs_where_it_is_woken_may_drop_the_endpoint() {
    const LONG: Duration = Duration::from_secs(20);
    let endpoint = Endpoint::bind("127.0.0.1:0").unwrap();
    let listener = endpoint.listen(&Service::new()).unwrap();
    let to = listener.local_addr().to_string();
    let (told, tells) = std::sync::mpsc::channel();
    crate::inline::run(async move {
        let accepted = listener.accept_async().await;
        drop((listener, endpoint));
        told.send(accepted).unwrap();
    });
    let client = Endpoint::client().connect(&to, &Service::new()).unwrap();
    let server = tells.recv_timeout(LONG).expect("the thread does not wait for itself").unwrap();
    drop(client.send(b"ahoy".to_vec()).unwrap());
    assert_eq!(&*server.recv_timeout(LONG).unwrap().unwrap(), b"ahoy");
}

#[test]
fn sockets_of_methods_where_nobody_is_expected_make_room_for_others() {
    let mut serving = Serving::bind("127.0.0.1:0".parse().unwrap(), &EndpointOptions::default()).unwrap();
    let at = |host: u8| SocketAddr::from(([127, 0, 0, host], 0));
    let busy = serving.native(Method::Xtp, at(1), true).unwrap();
    serving.watch_native(busy, Instant::now() + PATIENCE);
    for host in 2..=MOST_NATIVES as u8 + 5 {
        let index = serving.native(Method::Qmp, at(host), true).unwrap();
        assert_eq!(serving.natives[index].at, at(host));
    }
    assert_eq!(serving.natives.len(), MOST_NATIVES);
    assert_eq!((serving.natives[busy].at, serving.native(Method::Xtp, at(1), true).unwrap()), (at(1), busy));
    // Those that were used last are here still.
    assert!(serving.natives.iter().any(|native| native.at == at(MOST_NATIVES as u8)));
    assert!(!serving.natives.iter().any(|native| native.at == at(2)));
}

/// A socket at this address that asks.
fn asking(from: &str, server: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind((from, 0)).unwrap();
    socket.connect(server).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    socket
}

/// Says HELLO; what is answered.
fn say(socket: &UdpSocket, method: Method, nonce: u64, cookie: u64) -> Answer {
    let methods = vec![number(method)];
    say_all(socket, &Hello { versions: VERSIONS, class: 1, nonce, cookie, host: 0, methods, service: String::new() })
}

fn say_all(socket: &UdpSocket, hello: &Hello) -> Answer {
    let mut bytes = [0; 2048];
    socket.send(&hello.encode().unwrap()).unwrap();
    let len = socket.recv(&mut bytes).unwrap();
    let answer = Answer::parse(&bytes[..len]).unwrap();
    assert_eq!(answer.nonce, hello.nonce);
    answer
}

#[test]
fn a_client_of_the_first_version_gets_pieces_that_it_takes() {
    let server = Endpoint::bind("127.0.0.1:0").unwrap();
    let listener = server.listen(&Service::new()).unwrap();
    let socket = asking("127.0.0.1", listener.local_addr());
    for (nonce, versions, piece) in [(1, (1, 1), 8 << 20), (2, (1, 2), (20 << 20) + 1), (3, (2, 9), (20 << 20) + 1)] {
        let (methods, service) = (vec![number(Method::Zcrp)], "size=20MiB in-place=yes".to_owned());
        let answer = say_all(&socket, &Hello { versions, class: 1, nonce, cookie: 0, host: 0, methods, service });
        let said = (answer.status, answer.piece, answer.version);
        assert_eq!(said, (Status::Accepted, piece, versions.1.min(2)), "{versions:?}");
    }
    let (methods, versions) = (vec![number(Method::Zcrp)], (3, 4));
    let hello = Hello { versions, class: 1, nonce: 4, cookie: 0, host: 0, methods, service: String::new() };
    assert_eq!(say_all(&socket, &hello).status, Status::Version);
}

/// The same, and with the cookie that it is asked for.
fn say_and_prove(socket: &UdpSocket, nonce: u64) -> Answer {
    let answer = say(socket, Method::Xtp, nonce, 0);
    if answer.status == Status::Again { say(socket, Method::Xtp, nonce, answer.cookie) } else { answer }
}

#[test]
fn one_host_leaves_room_in_the_backlog_for_others() {
    let options = EndpointOptions { backlog: 64, ..EndpointOptions::default() };
    let server = Endpoint::bind_with("127.0.0.1:0", &options).unwrap();
    let listener = server.listen(&Service::new()).unwrap();
    let many = asking("127.0.0.1", listener.local_addr());
    // Who has repeated no cookie may be somebody else, so as many of those that have are let in.
    let let_in = (1..=200).filter(|nonce| say_and_prove(&many, *nonce).status == Status::Accepted).count();
    assert_eq!(let_in, 32);
    assert_eq!(say_and_prove(&many, 300).status, Status::Busy);
    assert_eq!(say_and_prove(&asking("127.0.0.2", listener.local_addr()), 301).status, Status::Accepted);
}

#[test]
fn one_host_whose_connections_nobody_accepts_leaves_room_for_others() {
    const BACKLOG: usize = 16;
    let options = EndpointOptions { backlog: BACKLOG, ..EndpointOptions::default() };
    let server = Endpoint::bind_with("127.0.0.1:0", &options).unwrap();
    let listener = server.listen(&Service::new()).unwrap();
    let to = listener.local_addr();
    let _waiting: Vec<_> = (0..BACKLOG / 4 * 3).map(|_| crate::connect(&to.to_string()).unwrap()).collect();
    assert_eq!(say_and_prove(&asking("127.0.0.1", to), 1).status, Status::Busy);
    let other = asking("127.0.0.2", to);
    let let_in = (2..20).filter(|nonce| say_and_prove(&other, *nonce).status == Status::Accepted).count();
    assert_eq!(let_in, BACKLOG / 4);
    // Who is accepted makes room.
    assert!(listener.accept_timeout(Duration::from_secs(10)).unwrap().is_some());
    assert_eq!(say_and_prove(&other, 20).status, Status::Busy, "it has its quarter");
    assert_eq!(say_and_prove(&asking("127.0.0.3", to), 21).status, Status::Accepted);
}

#[test]
fn a_network_of_ipv6_is_as_one_host() {
    let share = |address: &str| share_of(address.parse().unwrap()).to_string();
    assert_eq!([share("[2001:db8:1:2:3:4:5:6]:7"), share("[2001:db8:1:2::9]:8")], ["2001:db8:1:2::"; 2]);
    assert_eq!([share("[::ffff:192.0.2.1]:7"), share("192.0.2.2:7")], ["192.0.2.1", "192.0.2.2"]);
}

/// Agrees on `service` over QMP, says OPEN, and whatever follows.
fn come_over_qmp(to: SocketAddr, service: &Service, behind: &[u8], between: impl FnOnce()) -> Stream {
    let (nonce, path) = (random_seed(), Path::of_class(PathClass::Cluster));
    let told = client::Told::of(service);
    let agreed = client::ask(to, nonce, &told, &path, &[Method::Qmp], None, None).unwrap();
    between();
    let stream = Stream::begin(agreed.to, &EndpointOptions::default().qmp(true)).unwrap();
    let open = Control { service: service.to_string(), ..Control::new(Kind::Open, nonce) }.encode();
    let bytes = [&(open.len() as u64).to_le_bytes(), &open[..], behind].concat();
    assert_eq!(stream.write(&bytes).unwrap(), bytes.len());
    stream
}

#[test]
fn no_memory_is_had_for_what_is_longer_than_the_listener_takes() {
    let server = Endpoint::bind("127.0.0.1:0").unwrap();
    let listener = server.listen(&"largest=10kB path=cluster".parse().unwrap()).unwrap();
    // Its length alone.
    let _stream = come_over_qmp(listener.local_addr(), &Service::new(), &(1_u64 << 29).to_le_bytes(), || ());
    let connection = listener.accept_timeout(Duration::from_secs(10)).unwrap().unwrap();
    let error = connection.recv_timeout(Duration::from_secs(10)).unwrap_err();
    assert!(matches!(error, Error::MessageTooLong(10_000)), "{error}");
}

#[test]
fn what_was_agreed_on_with_another_listener_is_looked_at_again() {
    let service = "rate=8mbit burst=64KiB".parse().unwrap();
    for (limits, is_let_in) in [("rate=1mbit burst=64KiB", false), ("rate=9mbit burst=64KiB", true)] {
        let server = Endpoint::bind("127.0.0.1:0").unwrap();
        let mut listener = Some(server.listen(&Service::new()).unwrap());
        let _stream = come_over_qmp(server.local_addr().unwrap(), &service, &[], || {
            drop(listener.take());
            listener = Some(server.listen(&limits.parse().unwrap()).unwrap());
        });
        let patience = Duration::from_millis(if is_let_in { 10_000 } else { 500 });
        assert_eq!(listener.unwrap().accept_timeout(patience).unwrap().is_some(), is_let_in, "{limits}");
    }
}

#[test]
fn whoever_finds_it_busy_asks_again() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = server.local_addr().unwrap();
    let answers = thread::spawn(move || {
        for status in [Status::Busy, Status::Busy, Status::Accepted] {
            let mut bytes = [0; 2048];
            let (len, from) = server.recv_from(&mut bytes).unwrap();
            let hello = Hello::parse(&bytes[..len]).unwrap();
            let answer = Answer { method: number(Method::Xtp), port: 9, ..Answer::refusal(&hello, status, "") };
            server.send_to(&answer.encode(), from).unwrap();
        }
    });
    let path = Path::of_class(PathClass::Cluster);
    let until = Some(Instant::now() + Duration::from_secs(10));
    let agreed = client::ask(to, 5, &client::Told::of(&Service::new()), &path, &[Method::Xtp], None, until).unwrap();
    assert_eq!(agreed.to.port(), 9);
    answers.join().unwrap();
}

#[test]
fn a_cookie_is_asked_for_when_many_come_who_may_be_forged() {
    let server = Endpoint::bind("127.0.0.1:0").unwrap();
    let listener = server.listen(&Service::new()).unwrap();
    let socket = asking("127.0.0.1", listener.local_addr());
    let ask = |method, nonce, cookie| say(&socket, method, nonce, cookie);
    let methods = [Method::Zcrp, Method::Vrp, Method::A1];
    for (nonce, method) in (1..=MOST_UNPROVEN as u64).zip(methods.into_iter().cycle()) {
        let answer = ask(method, nonce, 0);
        assert_eq!((answer.status, answer.cookie), (Status::Accepted, 0));
        assert_eq!(ask(method, nonce, 0), answer, "whose answer was lost gets the same");
    }
    for (nonce, method) in (100..).zip(methods) {
        let again = ask(method, nonce, 0);
        assert_eq!(again.status, Status::Again);
        assert_eq!(ask(method, nonce, again.cookie ^ 1).status, Status::Again);
        assert_eq!(ask(method, nonce, again.cookie).status, Status::Accepted);
    }
    assert_eq!(ask(Method::Xtp, 200, 0).status, Status::Accepted, "one socket is there for all");
}

/// Passes on what a client says to a listener, and to the method's socket that it names, from another address to the same
/// ports; but nothing comes back after OPEN has passed, until `is_open`.
fn gate(listener: SocketAddr, is_open: Arc<AtomicBool>) -> SocketAddr {
    let pair = |to: SocketAddr| {
        let [front, back] = [[127, 0, 0, 2], [127, 0, 0, 1]].map(|host| {
            let port = if host[3] == 2 { to.port() } else { 0 };
            let socket = UdpSocket::bind((Ipv4Addr::from(host), port)).unwrap();
            socket.set_nonblocking(true).unwrap();
            socket
        });
        back.connect(to).unwrap();
        (front, back, None)
    };
    let mut pairs = vec![pair(listener)];
    let at = pairs[0].0.local_addr().unwrap();
    thread::spawn(move || {
        let mut has_passed = false;
        let mut bytes = [0; 65_536];
        // Until all tests have ended.
        loop {
            let mut method = None;
            for (front, back, client) in &mut pairs {
                while let Ok((len, from)) = front.recv_from(&mut bytes) {
                    *client = Some(from);
                    has_passed |= bytes[..len].windows(OPEN.len()).any(|part| part == OPEN);
                    let _ = back.send(&bytes[..len]);
                }
                while !has_passed || is_open.load(Ordering::SeqCst) {
                    let (Ok(len), Some(client)) = (back.recv(&mut bytes), &client) else { break };
                    method = method.or(Answer::parse(&bytes[..len]).ok().map(|answer| answer.port));
                    front.send_to(&bytes[..len], *client).unwrap();
                }
            }
            // A word that is said again names the same port.
            let has_pair = |port| pairs.iter().any(|(front, ..)| front.local_addr().unwrap().port() == port);
            let new = method.filter(|port| !has_pair(*port));
            pairs.extend(new.map(|port| pair((listener.ip(), port).into())));
            thread::sleep(Duration::from_micros(100));
        }
    });
    at
}

#[test]
fn whoever_connects_in_order_does_not_wait_until_the_introduction_is_acknowledged() {
    let service = Service::new().path(PathClass::Cluster).direction(Direction::Duplex);
    for method in [Method::Zcrp, Method::A1] {
        let server = Endpoint::bind("127.0.0.1:0").unwrap();
        let listener = server.listen(&service).unwrap();
        let is_open = Arc::new(AtomicBool::new(false));
        let to = gate(listener.local_addr(), is_open.clone());
        let serving = thread::spawn(move || {
            let connection = listener.accept().unwrap();
            let message = connection.recv().unwrap().unwrap().into_message();
            drop(connection.send(message).unwrap());
            connection.close(Duration::from_secs(10)).unwrap();
        });
        let selection = Selection { forced: Some(method), ..Selection::default() };
        let connect_timeout = Some(Duration::from_secs(5));
        let options = EndpointOptions { selection, connect_timeout, ..EndpointOptions::default() };
        let connection = Endpoint::client_with(&options).connect(&to.to_string(), &service).unwrap();
        drop(connection.send("behind OPEN").unwrap());
        is_open.store(true, Ordering::SeqCst);
        let answer = connection.recv_timeout(Duration::from_secs(10)).unwrap().unwrap();
        assert_eq!(answer.as_ref(), b"behind OPEN", "{method}");
        connection.close(Duration::from_secs(10)).unwrap();
        serving.join().unwrap();
    }
}

#[test]
fn a_backlog_of_any_size_lets_somebody_in() {
    for backlog in [0, 1, usize::MAX] {
        let server = Endpoint::bind_with("127.0.0.1:0", &EndpointOptions { backlog, ..EndpointOptions::default() });
        let listener = server.unwrap().listen(&Service::new()).unwrap();
        let _client = crate::connect(&listener.local_addr().to_string()).unwrap();
        assert!(listener.accept_timeout(Duration::from_secs(10)).unwrap().is_some(), "{backlog}");
    }
}
