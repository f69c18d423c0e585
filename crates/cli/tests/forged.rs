//! Packets of somebody who never answers: anybody can send them in anybody's name, and they are not whom a listener that counts
//! has waited for.

mod common;

use common::{Listening, content, line, pinnace, run, text, wait_until};
use std::net::UdpSocket;
use std::process::Stdio;

fn socket() -> UdpSocket {
    // An address of their own, so that nobody else takes the port in between.
    UdpSocket::bind("127.0.0.36:0").expect("a socket")
}

/// The first words of a sender, and where it sends them.
fn first_words(protocol: &str, how: &[&str]) -> (Vec<u8>, String) {
    let nobody = socket();
    let to = nobody.local_addr().expect("bound").to_string();
    let send = [&[protocol, "send", "--to", &to, "--size", "1MiB"], how].concat();
    let mut sender = pinnace(&send).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the command runs");
    let mut first = vec![0; 65_536];
    let (len, _) = nobody.recv_from(&mut first).expect("it says something");
    sender.kill().expect("killed");
    sender.wait().expect("waited");
    first.truncate(len);
    (first, to)
}

/// Says the first words of a sender to a listener that counts to one, and nothing more. Then somebody comes who answers.
fn forged(protocol: &str, how: &[&str]) {
    let ((first, to), throw_away) = (first_words(protocol, how), socket());
    let mut listening = Listening::start(&[protocol, "listen", &to, "--count", "1", "--timeout", "0.5"]);
    throw_away.send_to(&first, &to).expect("sent");
    let (said, name) = (listening.next_line(), throw_away.local_addr().expect("bound").to_string());
    assert!(said.contains("broke") && said.contains(&name), "{protocol} {how:?}: {said}");
    let served = run(&[&[protocol, "send", "--to", &to, "--size", "5"], how].concat());
    assert_eq!(served.status.code(), Some(0), "{protocol} {how:?}: {}", text(&served.stderr));
    let (code, out, err) = listening.finish();
    assert_eq!((code, &*out, &*err), (Some(0), &*line(&content(0, 5)), ""), "{protocol} {how:?}");
}

/// One after the other, as they share an address.
#[test]
fn a_first_from_nobody_is_not_counted() {
    forged("qmp", &[]);
    for service in ["connection", "iso-stream", "bulk-data"] {
        forged("xtp", &["--service", service]);
    }
}

/// More than a listener serves at a time (256).
const CROWD: usize = 300;

/// First words in so many names keep all threads of a listener at work, for as long as it waits for them. Somebody comes who is
/// there.
fn crowded(protocol: &str, how: &[&str]) {
    let (first, to) = first_words(protocol, how);
    let listening = Listening::start(&[protocol, "listen", &to, "--count", "1", "--timeout", "600"]);
    let crowd: Vec<UdpSocket> = std::iter::repeat_with(socket).take(CROWD).collect();
    for stranger in &crowd {
        stranger.send_to(&first, &to).expect("sent");
    }
    wait_until("all that may be are at work", || listening.threads() >= 256);
    let served = run(&[&[protocol, "send", "--to", &to, "--size", "5"], how].concat());
    assert_eq!(served.status.code(), Some(0), "{protocol} {how:?}: {}", text(&served.stderr));
    let (code, out, _) = listening.finish();
    assert!(code == Some(0) && out.ends_with(&line(&content(0, 5))), "{protocol} {how:?}: {out}");
}

#[test]
fn strangers_who_are_not_there_keep_nobody_waiting() {
    crowded("qmp", &[]);
    for service in ["connection", "iso-stream", "bulk-data"] {
        crowded("xtp", &["--maxdata", "100", "--service", service]);
    }
}
