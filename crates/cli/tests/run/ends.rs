//! How connections between hosts end, when an end is not the usual one. Needs root, and python3 for the programs.

use crate::common::wait_until;
use crate::hosts::{Hosts, at};
use crate::stage::{Server, client, installed, printed, through};
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// What both programs begin with; the server listens at `port`.
const COMMON: &str = "
import os, socket, sys, time
port, folder = int(sys.argv[1]), sys.argv[2]
def listening():
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(('10.79.0.2', port))
    s.listen(200)
    return s
def connected():
    return socket.create_connection(('10.79.0.2', port), 20)
";

/// Two programs on two hosts, of which the client has run to its end.
struct Ran {
    server: Server,
    /// What the client printed.
    out: String,
    /// What was said beside that.
    said: String,
    folder: TempDir,
    hosts: Hosts,
}

fn run(port: u16, server: &str, asks: &str) -> Option<Ran> {
    let (hosts, python) = (Hosts::new()?, installed("python3", "python3")?);
    let folder = tempfile::tempdir().expect("a folder");
    let python = python.to_str().expect("UTF-8");
    let number = port.to_string();
    let [server, asks] = [server, asks].map(|text| format!("{COMMON}{text}"));
    let shared = folder.path().to_str().expect("UTF-8");
    let words = [python, "-u", "-c", &server, &number, shared];
    let server = Server::start(through(true, &at(&hosts.far), &words), folder.path(), port, true);
    wait_until("a listener for other hosts", || server.said().contains("QMP, for other hosts"));
    let (out, said) = client(through(true, &at(&hosts.near), &[python, "-u", "-c", &asks, &number, shared]));
    assert!(said.contains("by QMP"), "{said}");
    Some(Ran { server, out, said, folder, hosts })
}

#[test]
fn who_only_reads_no_more_is_found_to_have_closed() {
    let server = "
s = listening()
c, _ = s.accept()
c.shutdown(socket.SHUT_RD)
time.sleep(1)
c.send(b'k')
c.close()
";
    let asks = "
# Before it is accepted: however late it goes on, it is not told sooner.
begun = time.time()
s = connected()
try:
    while time.time() - begun < 15:
        s.send(b'x' * 100)
        time.sleep(0.02)
    print('nobody told it')
except ConnectionError:
    print('told' if time.time() - begun > 0.9 else 'too early')
";
    let Some(ran) = run(7951, server, asks) else { return };
    assert_eq!(ran.out, "told\n", "{}", ran.said);
}

#[test]
fn last_words_arrive_although_the_peer_goes_on_speaking() {
    // What it has not read makes a reset of its end, as with TCP: but what it wrote before has left by then.
    let server = "
s = listening()
for number in range(200):
    c, _ = s.accept()
    c.recv(10)
    time.sleep(0.002)
    c.send(b'these are the last words')
    c.close()
";
    let asks = "
import threading
def speak(s):
    try:
        while True:
            s.send(b'x' * 10)
            time.sleep(0.0002)
    except OSError:
        pass
heard = 0
for number in range(200):
    s = connected()
    s.settimeout(10)
    speaking = threading.Thread(target=speak, args=[s])
    speaking.start()
    got = b''
    try:
        while part := s.recv(100):
            got += part
    except ConnectionError:
        pass
    heard += got == b'these are the last words'
    speaking.join()
    s.close()
print(heard)
";
    let Some(ran) = run(7958, server, asks) else { return };
    assert_eq!(ran.out, "200\n", "{}", ran.said);
}

#[test]
fn who_closes_without_having_read_resets_also_if_the_peer_writes_no_more() {
    let server = "
s = listening()
for number in range(5):
    c, _ = s.accept()
    time.sleep(0.3)
    c.close()
";
    let asks = "
for number in range(5):
    s = connected()
    s.settimeout(10)
    s.send(b'never read')
    s.shutdown(socket.SHUT_WR)
    try:
        print(s.recv(10))
    except ConnectionResetError:
        print('reset')
";
    let Some(ran) = run(7959, server, asks) else { return };
    assert_eq!(ran.out, "reset\n".repeat(5), "{}", ran.said);
}

#[test]
fn what_is_behind_an_urgent_byte_does_not_wait_for_more() {
    let server = "
s = listening()
for number in range(20):
    c, _ = s.accept()
    c.settimeout(10)
    got = b''
    while len(got) < 6:
        got += c.recv(100)
    print(got == b'abcdef' and 'whole' or got)
    c.send(b'k')
";
    let asks = "
for number in range(20):
    s = connected()
    time.sleep(0.02)
    s.send(b'ab')
    s.send(b'cd', socket.MSG_OOB)
    s.send(b'ef')
    assert s.recv(1) == b'k'
";
    let Some(ran) = run(7952, server, asks) else { return };
    assert_eq!(ran.server.finish(), Some(0));
    assert_eq!(String::from_utf8_lossy(&printed(ran.folder.path(), 7952)), "whole\n".repeat(20));
}

#[test]
fn sockets_that_outlive_their_streams_keep_their_ports() {
    // What is unread makes resets of the ends; the client holds its sockets all the same.
    let server = "
s = listening()
taken = []
for number in range(100):
    c, _ = s.accept()
    c.recv(1, socket.MSG_PEEK)
    taken.append(c)
for c in taken:
    c.close()
for number in range(100):
    c, _ = s.accept()
    c.recv(1)
    c.send(b'k')
    taken.append(c)
print('all')
";
    let asks = "
old = [connected() for number in range(100)]
for s in old:
    s.send(b'a')
for s in old:
    try:
        assert s.recv(1) == b''
    except ConnectionError:
        pass
ports = {s.getsockname()[1] for s in old}
new = []
for s in old:
    new.append(connected())
    assert new[-1].getsockname()[1] not in ports
    new[-1].send(b'a')
    assert new[-1].recv(1) == b'k'
";
    let Some(ran) = run(7953, server, asks) else { return };
    assert_eq!(ran.said.matches("connected to 10.79.0.2:7953 by QMP").count(), 200, "{}", ran.said);
    assert_eq!(ran.server.finish(), Some(0));
}

#[test]
fn a_port_whose_last_stream_was_reset_is_free_at_once() {
    let server = "
s = listening()
c, _ = s.accept()
c.recv(1)
c.send(b'k')
c.recv(1, socket.MSG_PEEK)
s.close()
time.sleep(0.1)
c.close()
time.sleep(1)
s = listening()
open(folder + '/listens-again', 'w').close()
c, _ = s.accept()
c.send(b'again')
";
    let asks = "
s = connected()
s.send(b'a')
s.recv(1)
s.send(b'never read')
try:
    print(s.recv(5) or 'ended')
except ConnectionError:
    print('reset')
for _ in range(200):
    if os.path.exists(folder + '/listens-again'):
        break
    time.sleep(0.1)
time.sleep(1)
print(connected().recv(5).decode())
";
    let Some(ran) = run(7954, server, asks) else { return };
    assert_eq!(ran.out, "reset\nagain\n", "{}\n{}", ran.said, ran.server.said());
    assert_eq!(ran.said.matches("connected to 10.79.0.2:7954 by QMP").count(), 2, "{}", ran.said);
    assert_eq!(ran.server.finish(), Some(0));
    is_left_soon(&ran.hosts.far);
}

/// With its programs goes what carried their streams.
fn is_left_soon(host: &str) {
    let begun = Instant::now();
    let is_left = || {
        let pids = Command::new("ip").args(["netns", "pids", host]).output().expect("ip runs").stdout;
        pids.is_empty()
    };
    while !is_left() {
        assert!(begun.elapsed() < Duration::from_secs(5), "the companion is still there");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn who_writes_to_the_last_who_has_gone_is_told_and_left() {
    let server = "
import os
s = listening()
for number in range(3):
    c, _ = s.accept()
    c.close()
s.close()
time.sleep(0.5)
os._exit(0)
";
    let asks = "
for number in range(3):
    s = connected()
    assert s.recv(1) == b''
    told = False
    for number in range(100):
        time.sleep(0.05)
        try:
            s.send(b'x')
        except ConnectionError:
            told = True
            break
    print(told)
";
    let Some(ran) = run(7956, server, asks) else { return };
    assert_eq!(ran.out, "True\n".repeat(3), "{}", ran.said);
    is_left_soon(&ran.hosts.near);
    is_left_soon(&ran.hosts.far);
}

#[test]
fn one_connection_after_the_other_costs_few_packets() {
    let server = "
s = listening()
for number in range(200):
    c, _ = s.accept()
    c.send(c.recv(1))
    c.recv(1)
    c.close()
";
    let asks = "
def sent():
    return int(open('/sys/class/net/v0/statistics/tx_packets').read())
before = sent()
for number in range(200):
    s = connected()
    s.send(b'a')
    assert s.recv(1) == b'a'
    s.close()
print((sent() - before) // 200)
";
    let Some(ran) = run(7957, server, asks) else { return };
    assert_eq!(ran.server.finish(), Some(0));
    let each: u64 = ran.out.trim().parse().expect("a number");
    assert!(each < 20, "{each} packets each");
}

#[test]
fn the_last_bytes_reach_a_slow_reader() {
    let server = "
s = listening()
c, _ = s.accept()
s.close()
c.sendall(bytes(3 << 20))
";
    // Nothing is left to be carried, but for what is queued, and nothing gets through for a while.
    let asks = "
s = connected()
s.shutdown(socket.SHUT_WR)
time.sleep(13)
count = 0
while True:
    got = s.recv(1 << 16)
    if not got:
        break
    count += len(got)
print(count)
";
    let Some(ran) = run(7955, server, asks) else { return };
    assert_eq!(ran.out, format!("{}\n", 3 << 20), "{}", ran.said);
    assert_eq!(ran.server.finish(), Some(0));
}
