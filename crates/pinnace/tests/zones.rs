//! Addresses of one link alone (`fe80::b%3`): what says of which link is never lost. Between two network namespaces with two
//! veths between them, whose far ends have the same address. Without the privilege for that, the tests say so and pass.

#![cfg(target_os = "linux")]

#[path = "support/namespace.rs"]
mod namespace;

use namespace::{ip, namespace};
use pinnace::service::{Method, Path, PathClass, Selection, Service};
use pinnace::{Connection, Endpoint, EndpointOptions, a1, qmp, xtp};
use std::io::Write;
use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(20);
const HERE: &str = "fe80::a";
const THERE: &str = "fe80::b";
const METHODS: [Method; 5] = [Method::Zcrp, Method::Vrp, Method::Xtp, Method::Qmp, Method::A1];

/// An interface here, and its address.
fn up(interface: &str, address: &str) -> bool {
    ip(&format!("link set {interface} addrgenmode none"))
        && ip(&format!("addr add {address}/64 dev {interface} nodad"))
        && ip(&format!("link set {interface} up"))
}

/// That address, of that interface of this thread's namespace.
fn at(address: &str, interface: &str) -> SocketAddr {
    let name = std::ffi::CString::new(interface).unwrap();
    // SAFETY: a name that ends with a 0.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    assert_ne!(index, 0, "there is no {interface}");
    SocketAddrV6::new(address.parse::<Ipv6Addr>().unwrap(), 0, 0, index).into()
}

fn scope(address: SocketAddr) -> u32 {
    let SocketAddr::V6(address) = address else { panic!("{address} is one of IPv6") };
    address.scope_id()
}

/// Runs `server` and `client` in two namespaces, whose interfaces have other numbers here than there. What the server tells is a
/// port, on `wb` there.
fn apart(server: impl FnOnce(mpsc::Sender<u16>) + Send + 'static, client: impl FnOnce(&dyn Fn() -> SocketAddr)) {
    if !namespace() {
        return;
    }
    // SAFETY: no arguments.
    let here = unsafe { libc::syscall(libc::SYS_gettid) };
    let (up_there, is_up) = mpsc::channel();
    let (tell, told) = mpsc::channel();
    let there = thread::spawn(move || {
        let link =
            |far, near, index| ip(&format!("link add {far} index {index} type veth peer name {near} netns {here}"));
        let made = namespace() && link("vb", "va", 71) && link("wb", "wa", 72) && up("vb", THERE) && up("wb", THERE);
        up_there.send(made).unwrap();
        if made {
            server(tell);
        }
    });
    assert!(is_up.recv().unwrap(), "a veth can be made where namespaces can");
    assert!(up("va", HERE) && up("wa", HERE));
    client(&|| {
        let mut to = at(THERE, "wa");
        to.set_port(told.recv_timeout(LONG).unwrap());
        to
    });
    there.join().unwrap();
}

fn forced(method: Method) -> Endpoint {
    let selection = Selection { forced: Some(method), ..Selection::default() };
    Endpoint::client_with(&EndpointOptions { selection, ..EndpointOptions::default() })
}

fn echo(server: &Connection) {
    let asked = server.recv_timeout(LONG).unwrap().expect("a message, not the end");
    server.send(asked.to_vec()).unwrap().wait().unwrap();
}

#[test]
fn every_method_reaches_an_address_of_one_link() {
    let serve = |tell: mpsc::Sender<u16>| {
        for bound in [at(THERE, "wb"), "[::]:0".parse().unwrap()] {
            let endpoint = Endpoint::bind(bound).unwrap();
            let listener = endpoint.listen(&Service::new().path(PathClass::Cluster)).unwrap();
            assert_eq!(scope(listener.local_addr()), scope(bound));
            for method in METHODS {
                tell.send(listener.local_addr().port()).unwrap();
                let server = listener.accept_timeout(LONG).unwrap().expect("somebody has come");
                let peer = server.peer_addr();
                assert_eq!((server.method(), peer.ip()), (method, HERE.parse().unwrap()));
                assert_eq!(scope(peer), scope(at(THERE, "wb")), "{method}");
                echo(&server);
                assert!(server.recv_timeout(LONG).unwrap().is_none(), "{method}: the end");
            }
        }
    };
    apart(serve, |next| {
        for method in METHODS.into_iter().chain(METHODS) {
            let to = next();
            let service: Service = "direction=duplex path=cluster".parse().unwrap();
            let client = forced(method).connect(&to.to_string(), &service).unwrap();
            let peer = client.peer_addr();
            assert_eq!((client.method(), peer.ip(), scope(peer)), (method, to.ip(), scope(to)));
            let message: Vec<u8> = (0..100_000).map(|at: u32| (at / 7) as u8).collect();
            client.send(message.clone()).unwrap().wait().unwrap();
            assert_eq!(client.recv_timeout(LONG).unwrap().expect("a message").as_ref(), message, "{method}");
            client.close(LONG).unwrap();
        }
    });
}

#[test]
fn several_receivers_are_on_one_link() {
    let serve = |tell: mpsc::Sender<u16>| {
        let bound = [at(THERE, "wb"), "[::]:0".parse().unwrap(), at(THERE, "wb")];
        let all = bound.map(|bound| Endpoint::bind(bound).unwrap());
        let listeners = all.each_ref().map(|endpoint| endpoint.listen(&Service::new()).unwrap());
        listeners.iter().for_each(|listener| tell.send(listener.local_addr().port()).unwrap());
        for listener in &listeners {
            let server = listener.accept_timeout(LONG).unwrap().expect("somebody has come");
            assert_eq!(server.recv_timeout(LONG).unwrap().as_deref(), Some(&b"ahoy"[..]));
        }
    };
    apart(serve, |next| {
        let all @ [first, second, third] = [next(), next(), next()];
        let named = [first.to_string(), second.to_string()];
        let source = Endpoint::client().connect_all(&named, &"multicast=2".parse().unwrap()).unwrap();
        source.add_receiver(&third.to_string()).unwrap();
        source.send(b"ahoy".to_vec()).unwrap().wait().unwrap();
        assert_eq!(source.receivers().iter().map(|it| it.address).collect::<Vec<_>>(), all);
        source.remove_receiver(third, LONG).unwrap();
        source.close(LONG).unwrap();
    });
}

#[test]
fn the_native_interfaces_name_both_ends_of_a_link() {
    let serve = |tell: mpsc::Sender<u16>| {
        let near = scope(at(THERE, "wb"));
        let both = |bound: SocketAddr, local: SocketAddr, peer: SocketAddr| {
            assert_eq!((local.ip(), scope(local)), (THERE.parse().unwrap(), near), "bound to {bound}");
            assert_eq!((peer.ip(), scope(peer)), (HERE.parse().unwrap(), near), "bound to {bound}");
        };
        for bound in [at(THERE, "wb"), "[::]:0".parse().unwrap()] {
            let listener = qmp::Listener::bind(bound, &qmp::Options::default()).unwrap();
            assert_eq!(scope(listener.local_addr()), scope(bound));
            tell.send(listener.local_addr().port()).unwrap();
            let stream = listener.accept().unwrap();
            both(bound, stream.local_addr(), stream.peer_addr());
            stream.set_read_timeout(Some(LONG));
            assert_eq!(stream.read(&mut [0; 8]).unwrap(), 4);

            let endpoint = xtp::Endpoint::bind(bound, &xtp::Options::default()).unwrap();
            let listener = endpoint.listen(xtp::Services::ALL).unwrap();
            assert_eq!(scope(listener.local_addr()), scope(bound));
            tell.send(listener.local_addr().port()).unwrap();
            let connection = listener.accept_timeout(LONG).unwrap().unwrap().into_connection().unwrap();
            assert_eq!(scope(connection.peer()), near);

            let socket = a1::Socket::bind_with(bound, a1::reliable(), &a1::Options::default()).unwrap();
            socket.listen(1).unwrap();
            tell.send(socket.local_addr().port()).unwrap();
            assert_eq!(scope(socket.accept().unwrap().peer_addr()), near);
        }
    };
    apart(serve, |next| {
        for _ in 0..2 {
            let to = next();
            let path = Path::toward(to).unwrap();
            assert!(path.multicast, "a neighbour");
            let stream = qmp::Stream::connect(to, &qmp::Options::default()).unwrap();
            assert_eq!((stream.peer_addr(), scope(stream.local_addr())), (to, scope(to)));
            (&stream).write_all(b"ahoy").unwrap();

            let to = next();
            let endpoint = xtp::Endpoint::client_of(to, &xtp::Options::default()).unwrap();
            endpoint.connect(to).unwrap().establish().unwrap();

            let to = next();
            let socket = a1::Socket::client_of(to, a1::reliable(), &a1::Options::default()).unwrap();
            assert_eq!(scope(socket.local_addr()), scope(to));
            let connection = socket.connect(to, a1::reliable()).unwrap();
            assert_eq!(connection.peer_addr(), to);
        }
    });
}

/// Port 7001 of that address: over protocol 36 no system picks one.
fn port_at(address: &str, interface: &str) -> SocketAddr {
    let mut at = at(address, interface);
    at.set_port(7001);
    at
}

#[test]
fn protocol_36_has_an_owner_for_each_link_that_an_address_is_of() {
    let options = || xtp::Options { carrier: xtp::Carrier::Ip36, ..xtp::Options::default() };
    let serve = move |tell: mpsc::Sender<u16>| {
        let bound = port_at(THERE, "wb");
        let _other = xtp::Endpoint::bind(port_at(THERE, "vb"), &options()).unwrap();
        let endpoint = xtp::Endpoint::bind(bound, &options()).unwrap();
        let listener = endpoint.listen(xtp::Services::ALL).unwrap();
        tell.send(bound.port()).unwrap();
        let connection = listener.accept_timeout(LONG).unwrap().unwrap().into_connection().unwrap();
        assert_eq!((connection.peer().ip(), scope(connection.peer())), (HERE.parse().unwrap(), scope(bound)));
    };
    apart(serve, |next| {
        let to = next();
        let endpoint = xtp::Endpoint::client_of(to, &options()).unwrap();
        endpoint.connect(to).unwrap().establish().unwrap();
    });
}

#[test]
fn a_stream_over_protocol_36_reaches_an_address_of_one_link() {
    let options = || qmp::Options { carrier: qmp::Carrier::Ip36, ..qmp::Options::default() };
    let serve = move |tell: mpsc::Sender<u16>| {
        let bound = port_at(THERE, "wb");
        let listener = qmp::Listener::bind(bound, &options()).unwrap();
        tell.send(bound.port()).unwrap();
        let stream = listener.accept().unwrap();
        assert_eq!((stream.way(), scope(stream.peer_addr())), (qmp::Way::Ip36, scope(bound)));
        stream.set_read_timeout(Some(LONG));
        assert_eq!(stream.read(&mut [0; 8]).unwrap(), 4);
    };
    apart(serve, |next| {
        let to = next();
        let stream = qmp::Stream::connect(to, &options()).unwrap();
        assert_eq!((stream.peer_addr(), scope(stream.local_addr())), (to, scope(to)));
        (&stream).write_all(b"ahoy").unwrap();
    });
}
