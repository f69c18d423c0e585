//! More connections at a time than a listener serves: the others wait, and nobody is lost.

mod common;

use common::{Listening, line, wait_until};
use pinnace::{a1, qmp, xtp};

/// More than a listener serves at a time (256).
const CROWD: usize = 300;
/// Those that serve, and some others.
const THREADS: usize = 264;

/// Listens, lets a crowd in, and looks how many threads there are before the crowd says something and leaves.
fn crowd<C>(protocol: &str, enter: impl Fn(&str) -> C, leave: impl Fn(C)) {
    let listening = Listening::start(&[protocol, "listen", "127.0.0.1:0", "--count", &CROWD.to_string()]);
    let crowd: Vec<C> = (0..CROWD).map(|_| enter(&listening.address)).collect();
    wait_until("all that may be are at work", || listening.threads() >= 256);
    assert!(listening.threads() <= THREADS, "{protocol}: {} threads", listening.threads());
    crowd.into_iter().for_each(leave);
    let (code, out, err) = listening.finish();
    assert_eq!((code, &*err), (Some(0), ""), "{protocol}");
    assert_eq!(out, line(b"ahoy").repeat(CROWD), "{protocol}");
}

#[test]
fn a_crowd_of_qmp_is_served_in_turn() {
    let endpoint = qmp::Endpoint::client(&qmp::Options::default()).expect("a socket");
    crowd(
        "qmp",
        |to| endpoint.connect(to).expect("it is accepted"),
        |stream| {
            assert_eq!(stream.write(b"ahoy").expect("written"), 4);
            stream.shutdown(qmp::Shutdown::Write).expect("ended");
        },
    );
}

#[test]
fn a_crowd_of_xtp_is_served_in_turn() {
    let endpoint = xtp::Endpoint::client(&xtp::Options::default()).expect("a socket");
    crowd(
        "xtp",
        |to| {
            let connection = endpoint.connect(to).expect("it begins");
            connection.establish().expect("it is accepted");
            connection
        },
        |connection| {
            drop(connection.send(b"ahoy".to_vec()).expect("queued"));
            connection.finish().expect("ended");
        },
    );
}

#[test]
fn a_crowd_of_a1_is_served_in_turn() {
    let socket = a1::Socket::client(a1::reliable(), &a1::Options::default()).expect("a socket");
    let qos = a1::Qos { largest_sent: 4, ..a1::reliable() };
    crowd(
        "a1",
        |to| socket.connect(to, qos).expect("it is accepted"),
        |connection| {
            connection.send(b"ahoy".to_vec(), a1::Full::Block).expect("queued");
            drop(connection);
        },
    );
}
