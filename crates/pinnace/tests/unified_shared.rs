//! The one interface between two processes of a host: shared memory by itself, and what is left when a peer is killed.

#![allow(clippy::print_stdout)] // The other end is a process that says so.

#[path = "unified/full.rs"]
#[allow(dead_code, reason = "shared with the tests of the other methods")]
mod full;

use pinnace::daemon::{Daemon, DaemonOptions};
use pinnace::service::{Method, Selection, Service};
use pinnace::{Connection, Endpoint, EndpointOptions, Error};
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
