//! XTP over links that lose, double, reorder and corrupt.

use pinnace::link::{Fault, FaultOptions, Link, UdpLink, UdpOptions};
use pinnace::xtp::{Codec, Connection, Endpoint, Flags, Listener, Options, Service, Services};
use pinnace::{ControllerKind, Idle};
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

/// Two endpoints at each other's mercy, and that of `faults`.
fn pair(options: &Options, faults: &FaultOptions, datagram: usize) -> (Endpoint, Listener, Endpoint, SocketAddr) {
    let open = |seed| {
        let link = UdpLink::bind(([127, 0, 0, 1], 0).into(), &UdpOptions::default()).unwrap();
        let local = link.local_address().unwrap();
        let link = Fault::new(link, FaultOptions { seed, ..faults.clone() });
        let endpoint = Endpoint::over(Box::new(link) as Box<dyn Link>, local, None, options).unwrap();
        (endpoint, local)
    };
    let ((server, to), (client, _)) = (open(1), open(2));
    let mut block = server.block(Service::Connection);
    block.maxdata = datagram as u32;
    let listener = server.listen_on(to.port(), Services::ALL, block).unwrap();
    (server, listener, client, to)
}

fn options(codec: Codec) -> Options {
    let congestion = Some(ControllerKind::Fixed { window: 1 << 20 });
    Options { codec, congestion, idle: Idle::Block, ..Options::default() }
}

fn accepted(listener: &Listener) -> Connection {
    let incoming = listener.accept_timeout(LONG).unwrap().expect("somebody comes");
    incoming.into_connection().expect("a stream")
}

fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|at| (at.wrapping_mul(31) ^ (at >> 9) ^ seed) as u8).collect()
}

//= X-13 test
#[test]
fn sixty_four_megabytes_arrive_over_a_bad_path() {
    const MESSAGES: usize = 64;
    const BYTES: usize = 1 << 20;
    for codec in [Codec::Xtp40, Codec::Xtp36] {
        let faults = FaultOptions {
            loss: 0.01,
            duplication: 0.01,
            reordering: 0.01,
            corruption: 0.001,
            ..FaultOptions::default()
        };
        let (server, listener, client, to) = pair(&options(codec), &faults, 8000);
        let mut block = client.block(Service::Connection);
        block.maxdata = 8000;
        let connection = client.connect_with(to, block).unwrap();
        let sending = thread::spawn(move || {
            let mut under_way = Vec::new();
            for number in 0..MESSAGES {
                under_way.push(connection.send(pattern(BYTES, number)).unwrap());
            }
            connection.finish().unwrap();
            for sending in under_way {
                assert_eq!(sending.wait().unwrap().len(), BYTES);
            }
            connection.wait_closed_timeout(LONG).unwrap();
        });
        let taken = accepted(&listener);
        let mut buffer = Vec::new();
        for number in 0..MESSAGES {
            assert_eq!(taken.recv_into(&mut buffer).unwrap(), Some(BYTES));
            assert!(buffer == pattern(BYTES, number), "message {number}");
        }
        assert!(taken.recv_timeout(LONG).unwrap().is_none());
        taken.finish().unwrap();
        sending.join().unwrap();
        let (sent, received) = (client.counters(), server.counters());
        assert!(sent.data_packets_resent > 50, "{sent:?}");
        // One in a hundred is lost and another is late; a machine that is busy loses more than the path does.
        let dropped = server.link_counters().receive_buffer_drops;
        assert!(sent.data_packets_resent * 20 < sent.data_packets_sent + 40 * dropped, "{dropped} {sent:?}");
        assert!(received.checksums_wrong > 0 && received.gaps_seen > 0, "{received:?}");
    }
}

//= X-15 test
#[test]
fn what_is_lost_of_a_stream_without_errors_is_told_and_reads_as_zeros() {
    let faults = FaultOptions { loss: 0.1, ..FaultOptions::default() };
    for codec in [Codec::Xtp40, Codec::Xtp36] {
        let (_server, listener, client, to) = pair(&options(codec), &faults, 1000);
        let mut block = client.block(Service::IsoStream);
        block.maxdata = 1000;
        let stream = client.connect_with(to, block).unwrap();
        // No byte of it is zero.
        let sent: Vec<u8> = (0..2_000_000u32).map(|at| (at % 251) as u8 + 1).collect();
        for piece in sent.chunks(50_000) {
            drop(stream.send_bytes(piece.to_vec()).unwrap());
        }
        stream.finish().unwrap();
        let taken = accepted(&listener);
        let received = taken.recv_timeout(LONG).unwrap().expect("most of it comes");
        assert_eq!((received.data.len(), received.eom), (sent.len(), false));
        let mut expected = sent;
        let mut missing = 0;
        for hole in &received.holes {
            missing += hole.len();
            expected[hole.clone()].fill(0);
        }
        assert!(received.data == expected);
        assert!((50_000..600_000).contains(&missing), "{missing} bytes are missing");
        assert!(received.holes.windows(2).all(|two| two[0].end < two[1].start));
        taken.finish().unwrap();
        taken.wait_closed_timeout(LONG).unwrap();
    }
}

//= X-15 test
#[test]
fn who_answers_may_choose_a_stream_without_errors_and_its_holes_are_told() {
    let faults = FaultOptions { loss: 0.1, ..FaultOptions::default() };
    for codec in [Codec::Xtp40, Codec::Xtp36] {
        let (server, listener, client, to) = pair(&options(codec), &faults, 1000);
        drop(listener);
        let mut block = server.block(Service::Connection);
        (block.maxdata, block.mode_flags) = (1000, Flags::NOERR);
        let listener = server.listen_on(to.port(), Services::ALL, block).unwrap();
        let stream = client.connect(to).unwrap();
        stream.establish_timeout(LONG).unwrap();
        let taken = accepted(&listener);
        // No byte of it is zero.
        let sent: Vec<u8> = (0..2_000_000u32).map(|at| (at % 251) as u8 + 1).collect();
        let sending = sent.clone();
        let sender = thread::spawn(move || {
            for piece in sending.chunks(50_000) {
                drop(taken.send_bytes(piece.to_vec()).unwrap());
            }
            taken.finish().unwrap();
            taken
        });
        let received = stream.recv_timeout(LONG).unwrap().expect("most of it comes");
        assert_eq!((received.data.len(), received.eom), (sent.len(), false));
        let mut expected = sent;
        for hole in &received.holes {
            expected[hole.clone()].fill(0);
        }
        assert!(!received.holes.is_empty(), "{codec:?}: a tenth is lost");
        assert!(received.data == expected, "{codec:?}");
        stream.finish().unwrap();
        stream.wait_closed_timeout(LONG).unwrap();
        drop(sender.join().unwrap());
    }
}

#[test]
fn every_service_survives_losses() {
    let faults = FaultOptions { loss: 0.15, duplication: 0.05, reordering: 0.05, ..FaultOptions::default() };
    for codec in [Codec::Xtp40, Codec::Xtp36] {
        let (_server, listener, client, to) = pair(&options(codec), &faults, 1400);
        let serving = thread::spawn(move || {
            let (mut requests, mut datagrams) = (0, 0);
            while requests < 20 || datagrams < 20 {
                match listener.accept_timeout(LONG).unwrap().expect("somebody comes") {
                    pinnace::xtp::Incoming::Transaction(transaction) => {
                        requests += 1;
                        let request = transaction.request_timeout(LONG).unwrap();
                        drop(transaction.respond(request.data).unwrap());
                    }
                    pinnace::xtp::Incoming::Datagram(datagram) => {
                        assert_eq!(datagram.data, pattern(500, datagrams));
                        datagrams += 1;
                    }
                    pinnace::xtp::Incoming::Connection(other) => panic!("{other:?}"),
                }
            }
            listener
        });
        for number in 0..20 {
            let request = pattern(20_000, number);
            assert!(client.transact_timeout(to, request.clone(), LONG).unwrap().data == request);
            client.acked_datagram(to, pattern(500, number)).unwrap().wait().unwrap();
        }
        drop(serving.join().unwrap());
    }
}
