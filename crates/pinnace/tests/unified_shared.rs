//! The one interface between two processes of a host: shared memory by itself, and what is left when a peer is killed.

#![allow(clippy::print_stdout)] // The other end is a process that says so.

#[path = "unified/full.rs"]
#[allow(dead_code, reason = "shared with the tests of the other methods")]
mod full;

use pinnace::daemon::{Daemon, DaemonOptions};
use pinnace::service::{Method, Selection, Service};
use pinnace::{Connection, ConnectionError, Endpoint, EndpointOptions, Error};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// In the environment of a process that is the other end: where to connect, by which method, and whether only to send.
const PEER: &str = "PINNACE_TEST_PEER";
const LONG: Duration = Duration::from_secs(20);

/// The other end: sends a message, returns what comes, and lives until its input ends.
fn be_the_peer(word: &str) {
    let (address, method) = word.split_once(' ').unwrap();
    let (method, service) = match method.strip_prefix("one-way ") {
        Some(method) => (method, Service::new()),
        None => (method, "direction=duplex".parse().unwrap()),
    };
    let options = options(method.parse().ok());
    let connection = Endpoint::client_with(&options).connect(address, &service).unwrap();
    connection.send(b"here".to_vec()).unwrap().wait().unwrap();
    println!("method {}", connection.method());
    std::io::stdout().flush().unwrap();
    // Who only sends has an error at once.
    if let Ok(Some(message)) = connection.recv_timeout(LONG) {
        drop(connection.send(message.into_message()).unwrap());
        connection.flush().unwrap();
    }
    let _ = std::io::stdin().read(&mut [0]);
}

fn options(forced: Option<Method>) -> EndpointOptions {
    let selection = Selection { forced, ..Selection::default() };
    EndpointOptions { selection, peer_timeout: Duration::from_secs(3), ..EndpointOptions::default() }
}

/// A process that is the other end.
struct Peer(Child);

impl Peer {
    fn start(address: &str, method: &str, daemon: &str) -> (Self, String) {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "processes", "--nocapture"]);
        command.env(PEER, format!("{address} {method}")).env("PINNACE_DAEMON", daemon);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = lines.map_while(Result::ok).find_map(|line| line.split_once("method ").map(|(_, it)| it.to_owned()));
        (Self(child), line.unwrap())
    }
}

impl Peer {
    /// It says nothing any more, and nobody is told. A signal only begins that: threads that wait for a processor go on for
    /// a while.
    fn freeze(&self) {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
        let tasks = format!("/proc/{}/task", self.0.id());
        let is_stopped = |task: std::fs::DirEntry| {
            // `number (name) state`: a thread that has gone has none.
            let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('T'))
        };
        while !std::fs::read_dir(&tasks).unwrap().flatten().all(is_stopped) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn accepted(endpoint: &Endpoint, method: &str, daemon: &str) -> (Connection, Peer, String) {
    let listener = endpoint.listen(&Service::new()).unwrap();
    let (peer, said) = Peer::start(&listener.local_addr().to_string(), method, daemon);
    let connection = listener.accept_timeout(LONG).unwrap().expect("somebody has come");
    assert_eq!(&*connection.recv_timeout(LONG).unwrap().unwrap(), b"here");
    (connection, peer, said)
}

#[test]
fn processes() {
    if let Ok(word) = std::env::var(PEER) {
        return be_the_peer(&word);
    }
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("daemon.sock");
    // SAFETY: this is the only test of the program, and nothing else runs yet.
    unsafe { std::env::set_var("PINNACE_DAEMON", &socket) };
    let daemon =
        Arc::new(Daemon::bind(&DaemonOptions { socket: Some(socket.clone()), ..DaemonOptions::default() }).unwrap());
    let serving = std::thread::spawn({
        let daemon = Arc::clone(&daemon);
        move || daemon.run()
    });
    let daemon_path = socket.to_str().unwrap();
    let endpoint = Endpoint::bind_with("127.0.0.1:0", &options(None)).unwrap();

    // By itself: both have the daemon.
    let (connection, peer, said) = accepted(&endpoint, "any", daemon_path);
    assert_eq!((said.as_str(), connection.method()), ("shared-memory", Method::SharedMemory));
    for len in [0, 1, 5000, 20_000_000] {
        if len == 20_000_000 {
            let bytes: Vec<u8> = (0..len).map(|at| (at / 251) as u8).collect();
            std::thread::scope(|scope| {
                scope.spawn(|| connection.send(bytes.clone()).unwrap().wait().unwrap());
                assert!(*connection.recv_timeout(LONG).unwrap().unwrap() == bytes);
            });
        }
    }
    drop(peer);
    ends(&connection, "shared-memory");
    drop(connection);

    // Within a process as well.
    let listener = endpoint.listen(&Service::new()).unwrap();
    let client = Endpoint::client_with(&options(Some(Method::SharedMemory)))
        .connect(&listener.local_addr().to_string(), &"direction=duplex".parse().unwrap())
        .unwrap();
    let server = listener.accept_timeout(LONG).unwrap().expect("somebody has come");
    for len in [20_000_000, 1 << 20, 5000, 100] {
        full::full(&client, &server, len);
    }
    drop((client, server));
    full::is_closed_here(|| {
        let client = Endpoint::client_with(&options(Some(Method::SharedMemory)))
            .connect(&listener.local_addr().to_string(), &"direction=duplex".parse().unwrap())
            .unwrap();
        (client, listener.accept_timeout(LONG).unwrap().expect("somebody has come"), ())
    });
    drop(listener);
    who_is_gone_is_told_as_over_other_methods(&endpoint);
    an_end_without_room_is_told_by_a_task(&endpoint);
    for looks_first in [false, true] {
        let (connection, peer, _) = accepted(&endpoint, "any", daemon_path);
        drop(peer);
        is_killed(&connection, looks_first);
    }

    // A process without the daemon gets another method.
    let (connection, peer, said) = accepted(&endpoint, "any", "off");
    assert_ne!(said, "shared-memory");
    drop((connection, peer));

    // Whatever the method, the death of a peer ends every wait; also if it is still there, and silent.
    type Check = fn(&Connection, &str);
    let checks: [(bool, Check); 8] = [
        (true, ends),
        (false, ends),
        (false, ends_sending),
        (false, ends_for_tasks),
        (true, ends_for_whoever_looks_often),
        (false, ends_for_whoever_looks_often),
        (true, ends_for_event_loops),
        (false, ends_for_event_loops),
    ];
    std::thread::scope(|scope| {
        for method in ["xtp", "qmp", "zcrp", "vrp", "a1"] {
            for (is_killed, check) in checks {
                let (connection, peer, said) = accepted(&endpoint, method, daemon_path);
                assert_eq!(said, method);
                let peer = (!is_killed).then_some(peer);
                peer.iter().for_each(Peer::freeze);
                scope.spawn(move || {
                    check(&connection, method);
                    drop(peer);
                });
            }
        }
        // So does that of one that only sends; while it is there, it may have nothing to send for as long as it likes.
        for is_killed in [true, false] {
            let (connection, peer, said) = accepted(&endpoint, "one-way vrp", daemon_path);
            assert_eq!((said.as_str(), connection.service()), ("vrp", Service::new()));
            scope.spawn(move || {
                let idle = connection.recv_timeout(Duration::from_secs(5));
                assert!(matches!(idle, Err(Error::Timeout)), "{idle:?}");
                let peer = (!is_killed).then_some(peer);
                peer.iter().for_each(Peer::freeze);
                ends(&connection, "vrp, one way");
            });
        }
    });
    drop(endpoint);
    daemon.stop();
    serving.join().unwrap().unwrap();
}

/// Everything that a sender can call, whose error says what has become of the peer.
fn senders(connection: &Connection) -> [(&'static str, Option<Error>); 3] {
    [
        ("send", connection.send(vec![1; 10]).err().map(|unsent| unsent.error)),
        ("try_send", connection.try_send(vec![1; 10]).err().map(|unsent| unsent.error)),
        ("check", connection.check().err()),
    ]
}

/// Waits until a sender is told.
fn told(connection: &Connection, call: impl Fn(&Connection) -> Option<Error>) -> Error {
    let begin = Instant::now();
    loop {
        if let Some(error) = call(connection) {
            return error;
        }
        assert!(begin.elapsed() < FOUND_OUT, "nobody tells the sender");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn is(error: &Error, expected: fn(&ConnectionError) -> bool) -> bool {
    matches!(error, Error::Connection(error) if expected(error))
}

fn who_is_gone_is_told_as_over_other_methods(endpoint: &Endpoint) {
    let listener = endpoint.listen(&Service::new()).unwrap();
    let pair = || {
        let client = Endpoint::client_with(&options(Some(Method::SharedMemory)))
            .connect(&listener.local_addr().to_string(), &"direction=duplex".parse().unwrap())
            .unwrap();
        (client, listener.accept_timeout(LONG).unwrap().expect("somebody has come"))
    };
    let calls: [fn(&Connection) -> Option<Error>; 2] =
        [|it| it.send(vec![1; 10]).err().map(|unsent| unsent.error), |it| it.check().err()];
    for (call, is_received) in calls.into_iter().flat_map(|call| [(call, false), (call, true)]) {
        // It has closed in order.
        let (client, server) = pair();
        drop(server.send(b"all".to_vec()).unwrap());
        server.close(LONG).unwrap();
        let receive = || {
            assert_eq!(&*client.recv_timeout(LONG).unwrap().unwrap(), b"all");
            assert!(client.recv_timeout(LONG).unwrap().is_none());
        };
        if is_received {
            receive();
        }
        client.check().expect("it receives still");
        drop(server);
        let error = told(&client, call);
        assert!(is(&error, |it| matches!(it, ConnectionError::Left { .. })), "{is_received}: {error}");
        for (name, error) in senders(&client) {
            let error = error.expect(name);
            assert!(is(&error, |it| matches!(it, ConnectionError::Left { .. })), "{name}, {is_received}: {error}");
        }
        if !is_received {
            receive();
        }

        // It has broken off, and is there, or not.
        for is_there in [true, false] {
            let (client, server) = pair();
            drop(server.send(b"not all".to_vec()).unwrap());
            server.abort();
            let _server = is_there.then_some(server);
            let receive = || {
                assert_eq!(&*client.recv_timeout(LONG).unwrap().unwrap(), b"not all");
                let error = client.recv_timeout(LONG).unwrap_err();
                assert!(is(&error, |it| matches!(it, ConnectionError::BrokenOff { .. })), "{error}");
            };
            if is_received {
                receive();
            }
            let error = told(&client, call);
            assert!(is(&error, |it| matches!(it, ConnectionError::BrokenOff { .. })), "{is_received}: {error}");
            for (name, error) in senders(&client) {
                let error = error.expect(name);
                assert!(is(&error, |it| matches!(it, ConnectionError::BrokenOff { .. })), "{name}: {error}");
            }
            if !is_received {
                receive();
            }
        }
    }

    // Another thread ends this end.
    for closes in [false, true] {
        let (client, server) = pair();
        let last = {
            // Longer than there is room for.
            let mut last = None;
            while let Ok(delivery) = client.try_send(vec![1; 8 << 20]) {
                last = Some(delivery);
            }
            last.unwrap()
        };
        let error = std::thread::scope(|scope| {
            let waiting = scope.spawn(move || last.wait());
            std::thread::sleep(Duration::from_millis(50));
            assert!(!waiting.is_finished(), "it waits");
            if closes {
                let _ = client.close(Duration::ZERO);
                drop(client);
            } else {
                client.abort();
            }
            waiting.join().unwrap().unwrap_err().error
        });
        assert!(is(&error, |it| matches!(it, ConnectionError::Closed)), "{closes}: {error}");
        drop(server);
    }
}

/// What was sent leaves no room for the end.
fn an_end_without_room_is_told_by_a_task(endpoint: &Endpoint) {
    let listener = endpoint.listen(&Service::new()).unwrap();
    for is_received in [false, true] {
        let client = Endpoint::client_with(&options(Some(Method::SharedMemory)))
            .connect(&listener.local_addr().to_string(), &Service::new())
            .unwrap();
        let server = listener.accept_timeout(LONG).unwrap().expect("somebody has come");
        let (sent, _last) = full::fill(&client, 100);
        let linger = if is_received { LONG } else { Duration::from_millis(300) };
        std::thread::scope(|scope| {
            let closing = scope.spawn(|| pollster::block_on(client.close_async(linger)));
            if !is_received {
                let closed = closing.join().unwrap();
                assert!(matches!(closed, Err(Error::Timeout)), "nobody has made room: {closed:?}");
                return;
            }
            for _ in 0..sent {
                server.recv_timeout(LONG).unwrap().expect("a message, not the end");
            }
            assert!(server.recv_timeout(LONG).unwrap().is_none());
            closing.join().unwrap().unwrap();
        });
    }
}

/// Its process was killed: nobody has closed or broken off.
fn is_killed(connection: &Connection, looks_first: bool) {
    let is_absence = |error: Error, name: &str| {
        let text = error.to_string();
        assert_eq!(std::io::Error::from(error).kind(), std::io::ErrorKind::TimedOut, "{name}: {text}");
    };
    if looks_first {
        is_absence(told(connection, |it| it.check().err()), "check");
    }
    for _ in 0..2 {
        is_absence(connection.recv_timeout(LONG).unwrap_err(), "recv");
        for (name, error) in senders(connection) {
            is_absence(error.expect(name), name);
        }
    }
}

/// How long it may take to find out that a peer is gone: twice `EndpointOptions::peer_timeout` for who only looks, and the
/// machine's other work.
const FOUND_OUT: Duration = Duration::from_secs(9);

/// A wait for a peer that is gone ends with an error.
fn ends(connection: &Connection, method: &str) {
    let begin = Instant::now();
    let result = connection.recv_timeout(Duration::from_secs(25));
    let took = begin.elapsed();
    assert!(result.is_err() && !matches!(result, Err(Error::Timeout)), "{method}: {result:?} after {took:?}");
    assert!(took < FOUND_OUT, "{method}: {took:?}");
    goes_on_so(connection, method);
}

/// As long as what is known already takes on a machine that does much else; to find it out anew would take longer.
const SOON: Duration = Duration::from_secs(3);

/// And so does whatever is called afterwards.
fn goes_on_so(connection: &Connection, method: &str) {
    type Call = fn(&Connection) -> Result<(), Error>;
    let mut calls: Vec<(&str, Call)> = vec![
        ("recv", |it| it.recv_timeout(FOUND_OUT).map(drop)),
        ("recv_async", |it| pollster::block_on(it.recv_async()).map(drop)),
        ("check", |it| it.check()),
    ];
    if connection.service() != Service::new() {
        calls.extend([
            ("send", (|it| it.send(vec![1; 1000]).map(drop).map_err(|unsent| unsent.error)) as Call),
            ("try_send", |it| it.try_send(vec![1; 1000]).map(drop).map_err(|unsent| unsent.error)),
            ("send_async", |it| {
                pollster::block_on(it.send_async(vec![1; 1000])).map(drop).map_err(|unsent| unsent.error)
            }),
        ]);
    }
    for _ in 0..2 {
        for (name, call) in &calls {
            let begin = Instant::now();
            let told = call(connection);
            let took = begin.elapsed();
            assert!(told.is_err() && !matches!(told, Err(Error::Timeout)), "{method} {name}: {told:?} after {took:?}");
            assert!(took < SOON, "{method} {name}: {took:?}");
        }
    }
}

/// So do many short ones.
fn ends_for_whoever_looks_often(connection: &Connection, method: &str) {
    let begin = Instant::now();
    let end = loop {
        match connection.recv_timeout(Duration::from_millis(100)) {
            Err(Error::Timeout) if begin.elapsed() < FOUND_OUT => {}
            end => break end,
        }
    };
    assert!(end.is_err() && !matches!(end, Err(Error::Timeout)), "{method}: {end:?}");
}

/// So does that of an event loop, which looks only when the descriptor says so.
fn ends_for_event_loops(connection: &Connection, method: &str) {
    let (begin, descriptor) = (Instant::now(), connection.descriptor().unwrap());
    let end = loop {
        connection.clear();
        match connection.recv_timeout(Duration::ZERO) {
            Err(Error::Timeout) => {}
            end => break end,
        }
        let left = FOUND_OUT.saturating_sub(begin.elapsed());
        let left = Timespec::try_from(left).unwrap();
        assert!(
            poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&left)).unwrap() > 0,
            "{method}: nobody says so"
        );
    };
    assert!(end.is_err(), "{method}: {end:?}");
}

/// So does a task's.
fn ends_for_tasks(connection: &Connection, method: &str) {
    let begin = Instant::now();
    let result = pollster::block_on(connection.recv_async());
    let took = begin.elapsed();
    assert!(result.is_err() && took < FOUND_OUT, "{method}: {result:?} after {took:?}");
}

/// So does the wait for what was sent.
fn ends_sending(connection: &Connection, method: &str) {
    let begin = Instant::now();
    let result = connection.send(vec![1; 100_000]).unwrap().wait();
    let took = begin.elapsed();
    assert!(result.is_err() && took < FOUND_OUT, "{method}: {result:?} after {took:?}");
}
