//! What others see of a process: its rows while they live, whole, and nothing that is made up.

use pinnace::counters::{Entry, Kind, Process, parse, processes, read};
use pinnace::service::{Method, Selection, Service};
use pinnace::{Connection, Endpoint, EndpointOptions};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A directory for this process's file alone, named before the first row is made.
fn directory() -> PathBuf {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| pinnace::counters::directory().expect("it is not switched off")).clone()
}

fn ours() -> Option<Process> {
    let path = directory().join(std::process::id().to_string());
    assert!(processes().iter().any(|process| process.pid == std::process::id()));
    read(&path).unwrap()
}

fn pair(method: Method, service: &str) -> (Connection, Connection, Endpoint) {
    let endpoint = Endpoint::bind("127.0.0.1:0").unwrap();
    let listener = endpoint.listen(&Service::new()).unwrap();
    let selection = Selection { forced: Some(method), ..Selection::default() };
    let client = Endpoint::client_with(&EndpointOptions { selection, ..EndpointOptions::default() });
    let client = client.connect(&listener.local_addr().to_string(), &service.parse().unwrap()).unwrap();
    (client, listener.accept().unwrap(), endpoint)
}

/// The row of a connection: services tell those of the tests apart.
fn row_of(service: &str, peer: &str) -> Option<Entry> {
    let rows = ours().map(|process| process.rows).unwrap_or_default();
    rows.into_iter().find(|row| row.kind == Kind::Connection && row.service == service && row.peer == peer)
}

#[test]
fn connections_by_every_method_are_seen_while_they_live() {
    for (number, method) in [Method::Zcrp, Method::Vrp, Method::Xtp, Method::Qmp, Method::A1].into_iter().enumerate() {
        let service = format!("size={} direction=duplex", 1000 + number);
        let (client, server, _endpoint) = pair(method, &service);
        let service = client.service().to_string();
        for _ in 0..10 {
            client.send(vec![7; 1000]).unwrap().wait().unwrap();
            assert_eq!(server.recv().unwrap().unwrap().len(), 1000);
        }
        let peer = client.peer_addr().to_string();
        let seen = row_of(&service, &peer).expect("it is shown");
        assert_eq!((&*seen.protocol, seen.is_closing), (method.name(), false));
        assert_eq!((seen.numbers.messages_sent, seen.numbers.bytes_sent), (10, 10_000), "{method}");
        let answering = row_of(&service, &server.peer_addr().to_string()).expect("it is shown");
        assert_eq!((answering.numbers.messages_received, answering.numbers.bytes_received), (10, 10_000), "{method}");
        // The socket's row is written by whoever drives, when time has passed.
        let begun = Instant::now();
        loop {
            let rows = ours().unwrap().rows;
            let is_seen = |row: &&Entry| row.kind == Kind::Socket && row.protocol == method.name();
            if rows.iter().filter(is_seen).any(|row| {
                let is_measured = (1..10_000_000_000).contains(&row.numbers.round_trip_ns);
                row.numbers.bytes_sent >= 10_000
                    && is_measured
                    && row.local.starts_with(|c: char| c == '[' || c.is_ascii_digit())
            }) {
                break;
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "{method}: {rows:?}");
            client.send(vec![7; 1000]).unwrap().wait().unwrap();
            assert_eq!(server.recv().unwrap().unwrap().len(), 1000);
            std::thread::sleep(Duration::from_millis(20));
        }
        drop((client, server));
        assert!(row_of(&service, &peer).is_none(), "{method}: it is gone");
    }
}

#[test]
fn a_service_that_changes_is_seen_to() {
    let (client, _server, _endpoint) = pair(Method::Vrp, "loss=5% run=4KiB size=4321");
    let peer = client.peer_addr().to_string();
    client.set_service(&"loss=20% run=8KiB size=4321".parse().unwrap()).unwrap();
    assert!(row_of("loss=20% run=8KiB size=4321", &peer).is_some());
}

#[test]
fn what_is_no_counters_file_is_an_error_and_what_is_half_of_one_is_half() {
    let (_client, _server, _endpoint) = pair(Method::Zcrp, "size=77");
    let bytes = std::fs::read(directory().join(std::process::id().to_string())).unwrap();
    let whole = parse(&bytes).unwrap();
    assert!(!whole.rows.is_empty());
    for len in (0..bytes.len()).step_by(97) {
        if let Ok(part) = parse(&bytes[..len]) {
            assert!(len >= 512 && part.rows.len() <= whole.rows.len() && part.pid == whole.pid, "{len}");
        }
    }
    // Every word on its own, and many at a time, as they should not be.
    let mut noise = 1u64;
    for at in (0..2048).step_by(8) {
        let mut wrong = bytes.clone();
        for value in [0, 1, 0x00ff_00ff_00ff_00ff, u64::MAX] {
            wrong[at..at + 8].copy_from_slice(&value.to_ne_bytes());
            let _ = parse(&wrong);
        }
        for byte in &mut wrong[8..] {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = (noise >> 56) as u8;
        }
        if let Ok(process) = parse(&wrong) {
            let texts = process.rows.iter().flat_map(|row| [&row.protocol, &row.local, &row.peer, &row.service]);
            assert!(texts.chain([&process.name]).all(|text| !text.chars().any(char::is_control) && text.len() <= 1296));
        }
    }
    assert!(parse(b"").is_err() && parse(&[0; 512]).is_err() && parse(&[0xff; 200_000]).is_err());
}

#[test]
fn a_file_that_somebody_else_leaves_is_swept() {
    let (_client, _server, _endpoint) = pair(Method::Zcrp, "size=78");
    let stale = directory().join("4194303999");
    std::fs::write(&stale, b"dead").unwrap();
    assert!(processes().iter().all(|process| u64::from(process.pid) != 4_194_303_999));
    assert!(!stale.exists());
    let kept = directory().join("notes.txt");
    std::fs::write(&kept, b"mine").unwrap();
    processes();
    assert!(kept.exists());
    std::fs::remove_file(kept).unwrap();
}

#[test]
fn readers_see_rows_whole_while_they_change() {
    use pinnace::counters::Numbers;
    let (client, server, _endpoint) = pair(Method::Vrp, "loss=5% run=4KiB size=79");
    let peer = client.peer_addr().to_string();
    let texts = ["loss=5% run=4KiB size=79", "loss=9% run=40KiB size=79 deadline=50ms rate=5mbit"];
    let texts = texts.map(|text| text.parse::<Service>().unwrap());
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                for service in &texts {
                    client.set_service(service).unwrap();
                }
            }
        });
        let mut seen = 0;
        for _ in 0..300 {
            let rows = ours().unwrap().rows;
            let row = rows
                .iter()
                .find(|row| row.kind == Kind::Connection && row.peer == peer && row.numbers == Numbers::default());
            if let Some(row) = row {
                assert!(texts.iter().any(|text| text.to_string() == row.service), "{row:?}");
                seen += 1;
            }
        }
        is_over.store(true, Ordering::Relaxed);
        assert!(seen > 10, "{seen}");
    });
    drop(server);
}
