//! A1 over links that lose, double, reorder and corrupt.

use pinnace::a1::{Connection, Full, Options, Qos, Socket, Status, raw, reliable};
use pinnace::link::{Fault, FaultOptions, UdpLink, UdpOptions};
use pinnace::{ControllerKind, Error, Idle};
use std::io::Read;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

fn options() -> Options {
    let congestion = Some(ControllerKind::Fixed { window: 1 << 20 });
    Options { congestion, idle: Idle::Block, ..Options::default() }
}

fn socket(seed: u64, faults: &FaultOptions, qos: Qos) -> (Socket, SocketAddr) {
    let link = UdpLink::bind(([127, 0, 0, 1], 0).into(), &UdpOptions::default()).unwrap();
    let local = link.local_address().unwrap();
    let link = Fault::new(link, FaultOptions { seed, ..faults.clone() });
    (Socket::over(Box::new(link), local, None, qos, &options()).unwrap(), local)
}

/// Two sockets at each other's mercy, and that of `faults`.
fn pair(faults: &FaultOptions, qos: Qos) -> (Socket, Socket, Connection, Connection) {
    let ((server, to), (client, _)) = (socket(1, faults, qos), socket(2, faults, qos));
    server.listen(4).unwrap();
    let here = client.connect_timeout(to, qos, LONG).unwrap();
    let there = server.accept_timeout(LONG).unwrap().expect("somebody comes");
    (server, client, here, there)
}

fn pattern(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|at| (at.wrapping_mul(31) ^ (at >> 9) ^ seed) as u8).collect()
}

//= A-7, A-18 test
#[test]
fn sixty_four_megabytes_arrive_over_a_bad_path() {
    const MESSAGES: usize = 64;
    const BYTES: usize = 1 << 20;
    let faults =
        FaultOptions { loss: 0.01, duplication: 0.01, reordering: 0.01, corruption: 0.001, ..FaultOptions::default() };
    let qos = Qos { has_checksum: true, block_size: 8000, ..reliable() };
    let (server, client, here, there) = pair(&faults, qos);
    let sending = thread::spawn(move || {
        for number in 0..MESSAGES {
            here.send_timeout(pattern(BYTES, number), LONG).unwrap();
        }
        here.flush_timeout(LONG).unwrap();
        here.close(LONG).unwrap();
    });
    for number in 0..MESSAGES {
        let received = there.recv_timeout(LONG).unwrap().expect("not closed");
        assert!(*received == pattern(BYTES, number), "message {number}");
    }
    assert!(there.recv_timeout(LONG).unwrap().is_none());
    sending.join().unwrap();
    let (sent, received) = (client.counters(), server.counters());
    assert!(sent.blocks_repeated > 50 && received.nacks_sent > 0, "{sent:?} {received:?}");
    // A machine that is busy loses more than the path does.
    let dropped = server.link_counters().receive_buffer_drops;
    assert!(sent.blocks_repeated * 5 < sent.blocks_sent + 10 * dropped, "{dropped} {sent:?}");
    assert!(received.checksums_wrong > 0, "{received:?}");
}

//= A-21, A-17 test
#[test]
fn what_is_lost_of_raw_messages_is_told() {
    const MESSAGES: usize = 400;
    const BLOCK: usize = 1000;
    let faults = FaultOptions { loss: 0.1, reordering: 0.02, ..FaultOptions::default() };
    let qos = Qos { block_size: BLOCK as u32, largest_sent: 10_000, largest_received: 10_000, ..raw() };
    let (_server, _client, here, there) = pair(&faults, qos);
    let sending = thread::spawn(move || {
        for number in 0..MESSAGES {
            here.send_timeout(pattern(5 * BLOCK, number), LONG).unwrap();
        }
        here.flush_timeout(LONG).unwrap();
        here.close(LONG).unwrap();
    });
    let sent: Vec<_> = (0..MESSAGES).map(|number| pattern(5 * BLOCK, number)).collect();
    let (mut whole, mut blocks, mut gaps) = (0, 0, 0);
    while let Some(part) = there.recv_timeout(LONG).unwrap() {
        let is_whole = part.status.contains(Status::START) && part.status.contains(Status::END);
        assert!(part.len().is_multiple_of(BLOCK) && (!part.is_empty()));
        assert_eq!(is_whole, part.len() == 5 * BLOCK);
        // A part is of one message, whose blocks follow each other.
        let is_of = |sent: &Vec<u8>| (0..5).any(|at| sent[at * BLOCK..].starts_with(&part));
        assert!(sent.iter().any(is_of), "{} bytes, {:?}", part.len(), part.status);
        whole += usize::from(is_whole);
        blocks += part.len() / BLOCK;
        gaps += usize::from(part.status.contains(Status::LOST));
    }
    sending.join().unwrap();
    let lost = there.facts().unwrap().lost as usize;
    assert!((1000..2000).contains(&blocks) && whole > 100 && gaps > 50, "{blocks} {whole} {gaps}");
    assert!(lost + blocks <= 5 * MESSAGES && lost > 50, "{lost} {blocks}");
}

//= A-6 test
#[test]
fn a_stream_without_retransmission_does_not_hide_what_is_lost() {
    let faults = FaultOptions { loss: 0.3, ..FaultOptions::default() };
    let (_server, _client, here, there) = pair(&faults, Qos { block_size: 1000, ..raw() });
    for number in 0..50 {
        here.send_timeout(pattern(2000, number), LONG).unwrap();
    }
    let sending = thread::spawn(move || here.close(LONG));
    let error = there.stream().read_to_end(&mut Vec::new()).unwrap_err();
    assert!(error.to_string().contains("lost"), "{error}");
    drop(there);
    sending.join().unwrap().unwrap();
}

//= A-15 test
#[test]
fn sinks_on_bad_paths_get_everything() {
    const MESSAGES: usize = 60;
    let qos = Qos { block_size: 4000, outstanding: 4, ..reliable() };
    let bad = |loss| FaultOptions { loss, reordering: 0.01, ..FaultOptions::default() };
    let (source, _) = socket(9, &FaultOptions::default(), qos);
    let listeners: Vec<_> = [0.0, 0.02, 0.1].iter().map(|loss| socket(3, &bad(*loss), qos)).collect();
    for (listener, to) in &listeners {
        listener.listen(1).unwrap();
        source.add_sink_timeout(to, qos, LONG).unwrap();
    }
    thread::scope(|scope| {
        for (listener, _) in &listeners {
            scope.spawn(move || {
                let there = listener.accept_timeout(LONG).unwrap().expect("somebody comes");
                for number in 0..MESSAGES {
                    let received = there.recv_timeout(LONG).unwrap().expect("not closed");
                    assert!(*received == pattern(100_000, number), "message {number}");
                }
                assert!(there.recv_timeout(LONG).unwrap().is_none());
            });
        }
        for number in 0..MESSAGES {
            source.send_timeout(pattern(100_000, number), LONG).unwrap();
        }
        source.flush_timeout(LONG).unwrap();
        source.close(LONG).unwrap();
    });
    assert_eq!(source.undelivered(), 0);
}

#[test]
fn nothing_comes_through_and_the_caller_gets_to_know() {
    let deaf = FaultOptions { loss: 1.0, ..FaultOptions::default() };
    let ((server, to), (client, _)) = (socket(1, &deaf, reliable()), socket(2, &deaf, reliable()));
    server.listen(1).unwrap();
    let late = client.connect_timeout(to, reliable(), Duration::from_millis(300)).unwrap_err();
    assert!(matches!(late, Error::Timeout), "{late}");
    assert!(client.send(vec![1], Full::Block).is_err());
    client.wait_quiet(LONG).unwrap();
    assert_eq!(client.connections(), 0);
}
