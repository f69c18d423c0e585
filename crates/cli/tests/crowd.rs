//! More connections at a time than a listener serves: the others wait, and nobody is lost.

mod common;

use common::{Listening, line, run, short_of_descriptors, text, wait_until};
use pinnace::{Message, a1, qmp, xtp, zcrp};
use std::process::Stdio;
use std::time::Duration;

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

#[test]
fn a_crowd_that_takes_all_descriptors_is_served_in_turn() {
    let args = ["zcrp", "listen", "127.0.0.1:0", "--size", "1000", "--ahead", "1", "--json", "--timeout", "2"];
    // For itself, and for some of those who come.
    let mut listening = Listening::of(short_of_descriptors(24, &args).stdout(Stdio::piped()));
    // Each has to wait for those before it, of whom some seconds pass until they are known to be silent.
    let options = zcrp::Options { peer_timeout: Duration::from_secs(60), ..zcrp::Options::default() };
    let crowd: Vec<_> = (0..6)
        .map(|_| {
            let sender = zcrp::Sender::connect(&*listening.address, &options).expect("a socket");
            (sender.send(Message::from_vec(b"ahoy".to_vec())).expect("queued"), sender)
        })
        .collect();
    let said = listening.next_line();
    assert!(said.contains("nobody else is served") && said.contains("`ulimit -n`"), "{said}");
    let begun = listening.ticks();
    std::thread::sleep(Duration::from_secs(1));
    let worked = listening.ticks() - begun;
    assert!(worked < 30, "{worked} hundredths of a second of work in one");
    // Who is idle makes room, as where all places are taken, though it is there still.
    let (sendings, senders): (Vec<_>, Vec<_>) = crowd.into_iter().unzip();
    for sending in sendings {
        sending.wait().expect("it arrives");
    }
    let sent = run(&["zcrp", "send", "--to", &listening.address, "--size", "10"]);
    assert_eq!(sent.status.code(), Some(0), "{}", text(&sent.stderr));
    drop(senders);
    listening.signal("-INT");
    let (code, out, err) = listening.finish();
    assert_eq!((code, out.matches("\"event\":\"message\"").count()), (Some(130), 7), "{err}");
    assert_eq!(err.matches("nobody else").count(), 0, "it is said once: {err}");
}
