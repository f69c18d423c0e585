//! Packets of somebody who never answers: anybody can send them in anybody's name, and they are not whom a listener that counts
//! has waited for.

mod common;

use common::{Listening, content, line, pinnace, run, text, wait_until};
use pinnace_wire::vrp::{ControlWriter, Tag};
use pinnace_wire::zcrp::{Unit, encode_idle};
use std::net::UdpSocket;
use std::process::Stdio;
use std::time::Duration;

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

#[test]
fn a_stranger_who_claims_all_memory_of_vrp_keeps_it_for_a_moment() {
    let listening = Listening::start(&["vrp", "listen", "127.0.0.1:0", "--memory", "1536KiB", "--count", "1"]);
    let mut header = [0; 64];
    let mut writer = ControlWriter::new(&mut header, 7);
    assert!(writer.push(&Tag::FrameCreate { frame: 7, size: 1 << 20, packet_bytes: 1000 }));
    assert!(writer.push(&Tag::Epoch(1)));
    writer.pad_to(64);
    let (len, stranger) = (writer.finish(), socket());
    stranger.send_to(&header[..len], &listening.address).expect("sent");
    let send = ["vrp", "send", "--to", &listening.address, "--size", "1MiB"];
    let refused = run(&send);
    assert_eq!(refused.status.code(), Some(1), "there is no room: {}", text(&refused.stderr));
    std::thread::sleep(Duration::from_millis(1100));
    let served = run(&send);
    assert_eq!(served.status.code(), Some(0), "{}", text(&served.stderr));
    assert_eq!(listening.finish().0, Some(0));
}

/// What ZCRP asks a stranger for who introduces himself, he begins, and says nothing more.
fn begin_for_ever(to: &str) -> UdpSocket {
    let stranger = socket();
    stranger.set_read_timeout(Some(Duration::from_secs(10))).expect("set");
    stranger.send_to(&encode_idle(0), to).expect("sent");
    let mut datagram = [0; 1000];
    stranger.recv(&mut datagram).expect("he is asked for something");
    let unit = Unit { message: 0, unit: 0, sequence: 7, next: None, length: 1, is_last: false, refused: false };
    stranger.send_to(&[&[0], &unit.encode()[..]].concat(), to).expect("sent");
    stranger
}

/// All places of a listener of ZCRP's are taken by senders who have begun a message that never ends.
fn places_are_taken(listen: &[&str], send: &[&str]) {
    let listening = Listening::start(&[listen, &["--timeout", "600"]].concat());
    let strangers: Vec<UdpSocket> = (0..16).map(|_| begin_for_ever(&listening.address)).collect();
    let served = run(&[send, &[&listening.address]].concat());
    assert_eq!(served.status.code(), Some(0), "{listen:?}: {}", text(&served.stderr));
    drop(strangers);
}

#[test]
fn strangers_who_begin_a_message_keep_no_place_of_zcrp_from_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, dir) = (folder.path().join("file"), folder.path().join("in"));
    std::fs::write(&file, content(0, 1000)).expect("written");
    let (file, dir) = (file.to_str().expect("UTF-8"), dir.to_str().expect("UTF-8"));
    places_are_taken(&["zcrp", "listen", "127.0.0.1:0"], &["zcrp", "send", "--size", "5", "--to"]);
    places_are_taken(&["recv", "--bind", "127.0.0.1:0", "--dir", dir], &["send", file]);
}

#[test]
fn a_stranger_is_not_the_one_that_recv_has_waited_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, dir) = (folder.path().join("file"), folder.path().join("in"));
    std::fs::write(&file, content(0, 1000)).expect("written");
    let dir_name = dir.to_str().expect("UTF-8");
    let recv = ["recv", "--bind", "127.0.0.1:0", "--dir", dir_name, "--once", "--timeout", "2"];
    let mut listening = Listening::start(&recv);
    let stranger = begin_for_ever(&listening.address);
    let said = listening.next_line();
    assert!(said.contains("listening on"), "{said}");
    let served = run(&["send", file.to_str().expect("UTF-8"), &listening.address]);
    assert_eq!(served.status.code(), Some(0), "{}", text(&served.stderr));
    assert_eq!(listening.finish().0, Some(0));
    assert_eq!(std::fs::read(dir.join("file")).expect("received"), content(0, 1000));
    drop(stranger);
}
