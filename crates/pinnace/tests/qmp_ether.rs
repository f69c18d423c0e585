//! QMP over Ethernet and over IP protocol 36, between two network namespaces with a veth between them.

#![cfg(target_os = "linux")]

#[path = "support/apart.rs"]
mod apart;

use apart::{HERE, THERE, apart};
use pinnace::qmp::{Carrier, Endpoint, EtherAddress, Listener, Options, Pool, PoolOptions, Shutdown, Stream, Way};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

fn ether() -> Options {
    Options { carrier: Carrier::Ether, ..Options::default() }
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at / 251 + at) as u8).collect()
}

fn serve_echo(options: &Options, tell: &mpsc::Sender<SocketAddr>) {
    let listener = Listener::bind((THERE, 700), options).unwrap();
    tell.send(listener.local_addr()).unwrap();
    for _ in 0..2 {
        let stream = listener.accept().unwrap();
        assert_eq!(stream.peer_addr().ip().to_string(), HERE);
        let mut all = Vec::new();
        (&stream).read_to_end(&mut all).unwrap();
        (&stream).write_all(&all).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        stream.flush().unwrap();
    }
}

fn echo(options: &Options, to: SocketAddr, len: usize, way: Way) {
    let stream = Stream::connect(to, options).unwrap();
    assert_eq!((stream.way(), stream.peer_addr()), (way, to));
    let sent = pattern(len);
    thread::scope(|scope| {
        scope.spawn(|| {
            (&stream).write_all(&sent).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
        });
        let mut back = Vec::new();
        (&stream).read_to_end(&mut back).unwrap();
        assert!(back == sent);
    });
}

#[test]
fn streams_cross_ethernet() {
    for mtu in [1500, 9000] {
        apart(
            mtu,
            |tell| serve_echo(&ether(), &tell),
            |to| {
                echo(&ether(), to, 3_000_000, Way::Ether);
                echo(&ether(), to, 1, Way::Ether);
            },
        );
    }
}

#[test]
fn streams_cross_protocol_36() {
    let options = Options { carrier: Carrier::Ip36, ..Options::default() };
    let there = options.clone();
    apart(
        1500,
        move |tell| serve_echo(&there, &tell),
        |to| {
            echo(&options, to, 3_000_000, Way::Ip36);
            echo(&options, to, 100, Way::Ip36);
        },
    );
}

#[test]
fn a_station_may_be_named_by_its_link_address() {
    apart(
        1500,
        |tell: mpsc::Sender<()>| {
            let listener = Listener::bind((THERE, 700), &ether()).unwrap();
            tell.send(()).unwrap();
            let stream = listener.accept().unwrap();
            let mut bytes = [0; 4];
            (&stream).read_exact(&mut bytes).unwrap();
            (&stream).write_all(&bytes).unwrap();
            let _ = stream.read(&mut bytes);
        },
        |()| {
            let endpoint =
                Endpoint::on_interface("va", (HERE.parse::<std::net::IpAddr>().unwrap(), 0).into(), &ether()).unwrap();
            let station: EtherAddress = "02:00:00:00:00:0b%va".parse().unwrap();
            let stream = endpoint.connect_station(&station, 700).unwrap();
            (&stream).write_all(b"ahoy").unwrap();
            let mut bytes = [0; 4];
            (&stream).read_exact(&mut bytes).unwrap();
            assert_eq!(&bytes, b"ahoy");
            let nobody = endpoint.connect_station(&station, 701).unwrap_err();
            assert_eq!(nobody.kind(), ErrorKind::ConnectionRefused);
        },
    );
}

//= Q-1 test
#[test]
fn tcp_beside_it_is_not_disturbed() {
    apart(
        1500,
        |tell| {
            let listener = TcpListener::bind((THERE, 700)).unwrap();
            let serving = thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let mut all = Vec::new();
                stream.read_to_end(&mut all).unwrap();
                all
            });
            serve_echo(&ether(), &tell);
            assert!(serving.join().unwrap() == pattern(5_000_000));
        },
        |to: SocketAddr| {
            let mut tcp = TcpStream::connect(to).unwrap();
            let sending = thread::spawn(move || tcp.write_all(&pattern(5_000_000)).unwrap());
            echo(&ether(), to, 2_000_000, Way::Ether);
            echo(&ether(), to, 2_000_000, Way::Ether);
            sending.join().unwrap();
        },
    );
}

//= B-11 test
#[test]
fn qbufs_go_into_frames_and_come_out_of_them() {
    fn with_pool() -> Options {
        let pool = Pool::create(&PoolOptions { zones: 64, ..PoolOptions::default() }).unwrap();
        Options { pool: Some(pool), ..ether() }
    }
    apart(
        9000,
        move |tell| {
            let listener = Listener::bind((THERE, 700), &with_pool()).unwrap();
            tell.send(listener.local_addr()).unwrap();
            let stream = listener.accept().unwrap();
            let mut all = Vec::new();
            while let Some(qbuf) = stream.recv_qbuf().unwrap() {
                all.extend_from_slice(&qbuf);
            }
            assert!(all == pattern(2_000_000));
            let counters = stream.endpoint().unwrap().counters();
            assert!(counters.bytes_in_place > 1_900_000, "{counters:?}");
        },
        |to: SocketAddr| {
            let options = with_pool();
            let stream = Stream::connect(to, &options).unwrap();
            for piece in pattern(2_000_000).chunks(100_000) {
                let mut qbuf = loop {
                    match stream.alloc(piece.len()) {
                        Ok(qbuf) => break qbuf,
                        Err(_) => thread::sleep(Duration::from_millis(1)),
                    }
                };
                qbuf.copy_from_slice(piece);
                stream.send_qbuf(qbuf).unwrap();
            }
            stream.shutdown(Shutdown::Write).unwrap();
            stream.flush().unwrap();
        },
    );
}
