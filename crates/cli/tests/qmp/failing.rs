//! What goes wrong is said in one line, in time, and by the exit code.

use crate::common::{content, interrupted_in_the_middle, line, pinnace, run, text, wait};
use crate::listen;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::NamedTempFile;

#[test]
fn nobody_there_is_reported_in_time() {
    let begun = Instant::now();
    let closed = pinnace_testing::ports::nobody().to_string();
    // A closed port says so; an address that swallows everything does not.
    for (to, words) in [(&*closed, "qmp listen"), ("192.0.2.9:9", "192.0.2.9:9")] {
        let sent = run(&["qmp", "send", "--to", to, "--size", "1", "--timeout", "0.7"]);
        let error = text(&sent.stderr);
        assert_eq!(error.lines().count(), 1, "{error}");
        if to != closed && error.contains("Network is unreachable") {
            pinnace_testing::skip::host(format_args!("no route to {to}"));
            continue;
        }
        assert_eq!(sent.status.code(), Some(3), "{to}: {error}");
        assert!(error.contains(to) && error.contains(words), "{error}");
    }
    assert!(begun.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_listener_that_ends_in_the_middle_of_a_stream_has_not_received_it() {
    interrupted_in_the_middle(&["qmp"], listen(&[]));
}

/// A file of 4 GB of which nothing is on the disk: one connection that goes on for long. Each message has one of its own, and
/// whoever goes between two of them is missed by nobody.
fn large() -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    file.as_file().set_len(4_000_000_000).unwrap();
    file
}

#[test]
fn a_killed_peer_is_reported_in_time_at_either_end() {
    let large = large();
    let send = |to: &str| {
        let args = ["qmp", "send", large.path().to_str().unwrap(), to, "--timeout", "1"];
        pinnace(&args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    // The listener dies.
    let mut listening = listen(&[]);
    let mut sender = send(&listening.address);
    listening.wait_until_busy();
    let begun = Instant::now();
    listening.kill();
    assert_eq!(wait(&mut sender), Some(3));
    assert!(begun.elapsed() < Duration::from_secs(10));
    // The sender dies.
    let listening = listen(&["--count", "1000000", "--timeout", "1"]);
    let mut sender = send(&listening.address);
    listening.wait_until_busy();
    sender.kill().unwrap();
    sender.wait().unwrap();
    let begun = Instant::now();
    let (code, _, err) = listening.finish();
    assert_eq!(code, Some(3), "{err}");
    assert!(err.contains("broke") && begun.elapsed() < Duration::from_secs(10), "{err}");
}

#[test]
fn a_sender_that_pauses_is_not_gone() {
    use std::io::Write;
    let listening = listen(&["--count", "1", "--timeout", "0.5"]);
    let args = ["qmp", "send", "-", &*listening.address, "--timeout", "0.5"];
    let mut sender = pinnace(&args).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut stdin = sender.stdin.take().unwrap();
    stdin.write_all(b"ahoy, ").unwrap();
    std::thread::sleep(Duration::from_millis(2_000));
    stdin.write_all(b"sailor").unwrap();
    drop(stdin);
    assert_eq!(wait(&mut sender), Some(0));
    let (code, out, err) = listening.finish();
    assert_eq!((code, &*err, &*out), (Some(0), "", &*line(b"ahoy, sailor")));
}

#[test]
fn what_has_come_of_the_input_is_sent_before_there_is_more() {
    use pinnace::qmp::{Listener, Options};
    use std::io::Write;
    let listener = Listener::bind("127.0.0.1:0", &Options::default()).unwrap();
    let args = ["qmp", "send", "-", &listener.local_addr().to_string()];
    let mut sender = pinnace(&args).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut stdin = sender.stdin.take().unwrap();
    stdin.write_all(&[7; 1000]).unwrap();
    let stream = listener.accept_timeout(Duration::from_secs(10)).unwrap().expect("it comes");
    stream.set_read_timeout(Some(Duration::from_secs(10)));
    let mut came = 0;
    while came < 1000 {
        came += stream.read(&mut [0; 1000]).expect("all of it comes");
    }
    drop(stdin);
    assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0);
    drop(stream);
    assert_eq!(wait(&mut sender), Some(0));
}

#[test]
fn an_interrupt_ends_both_ends_with_130() {
    let mut listening = listen(&["--timeout", "50"]);
    let large = large();
    let args = ["qmp", "send", large.path().to_str().unwrap(), &*listening.address];
    let mut sender = pinnace(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    listening.wait_until_busy();
    let id = sender.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    assert_eq!(wait(&mut sender), Some(130));
    // The listener lives, and says that somebody went.
    let sent = run(&["qmp", "send", "--to", &listening.address, "--size", "5"]);
    assert_eq!(sent.status.code(), Some(0), "{}", text(&sent.stderr));
    // The reset may be lost where so much is on its way: it is said again, and no time-out of silence is waited for.
    let begun = Instant::now();
    let broke = listening.next_line();
    assert!(broke.contains("broke") && begun.elapsed() < Duration::from_secs(20), "{:?}: {broke}", begun.elapsed());
    listening.signal("-INT");
    let (code, out, err) = listening.finish();
    assert_eq!(code, Some(130), "{err}");
    assert!(out.ends_with(&line(&content(0, 5))), "{out}");
    assert_eq!(err, "pinnace: interrupted\n");
}

#[test]
fn a_port_that_is_taken_is_reported_in_one_line() {
    let first = listen(&[]);
    let output = run(&["qmp", "listen", &first.address]);
    let error = text(&output.stderr);
    assert_eq!((output.status.code(), error.lines().count()), (Some(1), 1), "{error}");
    assert!(error.contains(&*first.address) && error.contains("choose another"), "{error}");
}

#[test]
fn what_is_missing_is_named() {
    let sent = run(&["qmp", "send", "/no/such/file", "127.0.0.1:9"]);
    let error = text(&sent.stderr);
    assert_eq!((sent.status.code(), error.lines().count()), (Some(1), 1), "{error}");
    assert!(error.contains("/no/such/file"), "{error}");
    let listen = pinnace(&["qmp", "listen", "127.0.0.1:0", "--link", "shm"]).env("PINNACE_DAEMON", "off").output();
    let output = listen.expect("the command runs");
    let error = text(&output.stderr);
    assert_eq!((output.status.code(), error.lines().count()), (Some(1), 1), "{error}");
    assert!(error.contains("pinnace daemon"), "{error}");
    let output = run(&["qmp", "listen", "127.0.0.1:0", "--pcap", "/no/such/folder/x.pcap"]);
    let error = text(&output.stderr);
    assert_eq!((output.status.code(), error.lines().count()), (Some(1), 1), "{error}");
    assert!(error.contains("/no/such/folder/x.pcap"), "{error}");
}

#[test]
fn wrong_arguments_end_with_2_and_say_what_would_be_right() {
    for (args, part) in [
        (&["qmp"][..], "listen"),
        (&["qmp", "listen"], "[HOST:]PORT"),
        (&["qmp", "listen", "nowhere"], "HOST:PORT"),
        (&["qmp", "listen", "127.0.0.1:0", "--link", "ip36"], "give one"),
        (&["qmp", "listen", "127.0.0.1:0", "--link", "carrier-pigeon"], "ip36"),
        (&["qmp", "send"], "FILE"),
        (&["qmp", "send", "file"], "FILE HOST:PORT"),
        (&["qmp", "send", "file", "nowhere"], "HOST:PORT"),
        (&["qmp", "send", "a", "b", "c"], "c"),
        (&["qmp", "send", "-", "127.0.0.1:1", "--count", "2"], "only once"),
        (&["qmp", "send", "--size", "1", "--to", "127.0.0.1:1", "--window", "2GiB"], "1 GiB"),
        (&["qmp", "send", "--size", "1", "--to", "127.0.0.1:1", "--window", "0"], "1 GiB"),
        (&["qmp", "send", "--size", "1", "--to", "127.0.0.1:1", "--status-every", "0"], "1..="),
        (&["qmp", "send", "--size", "1", "--to", "127.0.0.1:1", "--timeout", "0"], "seconds"),
        (&["perf", "--no-qbuf"], "--protocol qmp"),
        (&["perf", "--link", "ip36"], "--protocol qmp"),
        (&["perf", "--protocol", "qmp", "--link", "ether"], "--path veth1500"),
        (&["perf", "--protocol", "qmp", "--link", "shm", "--path", "veth1500"], "one host"),
        (&["perf", "--protocol", "xtp", "--link", "shm"], "udp and ip36"),
        (&["perf", "--protocol", "xtp", "--status-every", "3"], "--protocol qmp"),
        (&["ping", "--link", "ip36"], "--protocol qmp"),
        (&["qbuf"], "stat"),
        (&["qbuf", "stat", "--pid", "0"], "1.."),
    ] {
        let output = run(args);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
        assert!(error.contains(part), "{args:?}: {error}");
    }
}

#[test]
fn help_and_completion_know_the_options() {
    let help = text(&run(&["qmp", "send", "--help"]).stdout);
    for word in ["--go-back-n", "--status-every", "--window", "--pcap", "capture", "ip36"] {
        assert!(help.contains(word), "{word}: {help}");
    }
    let script = text(&run(&["completion", "bash"]).stdout);
    for word in ["qmp", "qbuf", "--status-every", "--no-qbuf", "e-q3"] {
        assert!(script.contains(word), "{word}");
    }
}

/// A peer that has taken nothing of the stream, whatever comes; it answers with these options once the FIRST is answered.
fn unwilling_peer(options: u32) -> std::net::SocketAddr {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut packet = [0; 65_536];
        let mut begun: Option<([u8; 8], [u8; 8])> = None;
        while let Ok((_, from)) = socket.recv_from(&mut packet) {
            let part = |at: usize| -> [u8; 8] { packet[at..at + 8].try_into().unwrap() };
            let is_first = packet[11] & 31 == 2;
            let (key, start) = *begun.get_or_insert((part(0), part(24)));
            // A TCNTL with NOCHECK and FASTNAK: its check is not looked at.
            let options = 0x40_8000 | if is_first { 0 } else { options };
            let mut answer = (u64::from_be_bytes(key) | 1 << 63).to_be_bytes().to_vec();
            answer.extend_from_slice(&options.to_be_bytes()[1..]);
            answer.extend_from_slice(&[0x25, 0, 0, 0, 56, 0, 0, 0, 0, 0, 0, 0, 9]);
            answer.extend_from_slice(&start);
            answer.extend_from_slice(&start);
            answer.extend_from_slice(&u64::from_be_bytes(start).wrapping_add(65_536).to_be_bytes());
            answer.extend_from_slice(&packet[20..24]);
            answer.extend_from_slice(&[0; 4]);
            answer.extend_from_slice(&0x55_u64.to_be_bytes());
            answer.extend_from_slice(&[0, 24, 4, 1]);
            answer.extend_from_slice(&[0; 20]);
            socket.send_to(&answer, from).unwrap();
        }
    });
    address
}

//= Q-4 test
#[test]
fn a_peer_that_stops_reading_is_reported_at_once() {
    const RCLOSE: u32 = 0x1000;
    const WCLOSE: u32 = 0x800;
    const END: u32 = 0x200;
    for options in [RCLOSE, RCLOSE | WCLOSE, RCLOSE | WCLOSE | END] {
        let peer = unwilling_peer(options).to_string();
        let begun = Instant::now();
        let sent = run(&["qmp", "send", "--to", &peer, "--size", "1000"]);
        let error = text(&sent.stderr);
        assert_eq!(sent.status.code(), Some(3), "{options:x}: {error}");
        assert!(error.contains("stopped reading") || error.contains("in the middle"), "{options:x}: {error}");
        assert!(begun.elapsed() < Duration::from_secs(5), "{options:x}: it does not wait for its time-out");
    }
}
