//! Who does the work of A1: the thread that calls, and one more for all connections of a socket.
//!
//! Threads are counted, so these tests are one after the other, in a process of their own.

use pinnace::a1::{Full, Options, Socket, reliable};
use pinnace::{Error, Idle};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(30);

/// Held by the test that counts.
static COUNTING: Mutex<()> = Mutex::new(());

fn socket(worker: bool) -> Socket {
    let options = Options { idle: Idle::Block, worker, ..Options::default() };
    Socket::bind_with("127.0.0.1:0", reliable(), &options).expect("a socket")
}

#[cfg(target_os = "linux")]
fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").expect("a list of threads").count()
}

//= A-1 test
#[cfg(target_os = "linux")]
#[test]
fn one_thread_serves_all_connections_of_a_socket() {
    let _counting = COUNTING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let server = socket(true);
    server.listen(64).expect("to listen");
    let client = socket(true);
    let mut connections = Vec::new();
    for number in 0..20_u8 {
        let connection = client.connect_timeout(server.local_addr(), reliable(), LONG).expect("a connection");
        let taken = server.accept_timeout(LONG).expect("no error").expect("a connection");
        connection.send(vec![number; 100], Full::Block).expect("room");
        connections.push((connection, taken));
    }
    let with_twenty = threads();
    for number in 0..180_u8 {
        let connection = client.connect_timeout(server.local_addr(), reliable(), LONG).expect("a connection");
        let taken = server.accept_timeout(LONG).expect("no error").expect("a connection");
        connection.send(vec![number; 100], Full::Block).expect("room");
        connections.push((connection, taken));
    }
    assert_eq!(threads(), with_twenty, "ten times as many connections, and no more threads");
    for (_, taken) in &connections {
        assert_eq!(taken.recv_timeout(LONG).expect("no error").expect("a message").len(), 100);
    }
}

//= A-2 test
#[test]
fn the_thread_that_sends_does_the_work_of_sending() {
    let _counting = COUNTING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    // Nobody but this thread works for either socket, once they are connected.
    let (server, client) = (socket(false), socket(false));
    server.listen(1).expect("to listen");
    let to = server.local_addr();
    let accepting = thread::spawn({
        let server = server.clone();
        move || server.accept_timeout(LONG).expect("no error").expect("a connection")
    });
    let connection = client.connect_timeout(to, reliable(), LONG).expect("a connection");
    let taken = accepting.join().expect("a connection");
    let before = client.link_counters().datagrams_sent;
    connection.send(b"at once".to_vec(), Full::Block).expect("room");
    assert!(client.link_counters().datagrams_sent > before, "it has left when the call returns");
    let received = taken.recv_timeout(LONG).expect("no error").expect("a message");
    assert_eq!(&*received, b"at once");
}

//= A-3 test
#[test]
fn who_waits_is_woken_by_what_arrives_and_by_the_end_of_its_time() {
    let _counting = COUNTING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let (server, client) = (socket(true), socket(true));
    server.listen(1).expect("to listen");
    let connection = client.connect_timeout(server.local_addr(), reliable(), LONG).expect("a connection");
    let taken = server.accept_timeout(LONG).expect("no error").expect("a connection");
    let begin = Instant::now();
    let nothing = taken.recv_timeout(Duration::from_millis(50));
    assert!(matches!(nothing, Err(Error::Timeout)), "{nothing:?}");
    assert!(begin.elapsed() >= Duration::from_millis(50));
    let waiting = thread::spawn(move || taken.recv_timeout(LONG).expect("no error").expect("a message").len());
    thread::sleep(Duration::from_millis(50));
    assert!(!waiting.is_finished());
    connection.send(vec![7; 1234], Full::Block).expect("room");
    assert_eq!(waiting.join().expect("a message"), 1234);
}
