//! Programs that listen, and a peer that is none of `pinnace run`: it speaks QMP from this very host.

use crate::common::relay::Relay;
use crate::common::wait_until;
use crate::hosts::compiled;
use crate::stage::{Server, client, installed, port, through};
use pinnace::qmp::{Endpoint, Options, Shutdown, Stream};
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The type of a packet that carries addresses, and where its destination's port is.
const FIRST: u8 = 2;
const PORT: usize = 44;
/// END, among the options: the byte and the bit.
const END: (usize, u8) = (9, 0x02);

/// A path from `near` to a port of this host that loses the first END of one side, and whatever the other side says from
/// then on: what it would ask again.
pub(crate) fn without_an_end(near: impl ToSocketAddrs, listener: u16, senders: bool) -> Relay {
    let mut is_over = false;
    Relay::at(near, &format!("127.0.0.1:{listener}"), move |is_senders, packet| {
        // NOCHECK leaves it out of the sum.
        if is_senders && packet.len() > PORT + 2 && packet[11] & 0x1f == FIRST {
            packet[PORT..PORT + 2].copy_from_slice(&listener.to_be_bytes());
        }
        if is_senders != senders {
            return !is_over;
        }
        let is_lost = !is_over && packet[END.0] & END.1 != 0;
        is_over |= is_lost;
        !is_lost
    })
}

/// Waits until the peer has acknowledged everything.
pub(crate) fn everything_arrives(stream: &Stream) {
    let begun = Instant::now();
    loop {
        match stream.try_flush() {
            Some(flushed) => return flushed.expect("all of it is acknowledged"),
            None => assert!(begun.elapsed() < Duration::from_secs(10), "nothing is acknowledged"),
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Everything until the end of a stream.
fn read_all(stream: &Stream) -> Vec<u8> {
    let (mut all, mut bytes) = (Vec::new(), [0; 4096]);
    stream.set_read_timeout(Some(Duration::from_secs(20)));
    loop {
        match stream.read(&mut bytes).expect("it ends well") {
            0 => return all,
            taken => all.extend(&bytes[..taken]),
        }
    }
}

/// Serves one stream, or as many as the third word says.
const SERVES: &str = r#"
#include <arpa/inet.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    static char bytes[5000] = "";
    int listener = socket(AF_INET, SOCK_STREAM, 0), count;
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(atoi(argv[2])) };
    if (argc < 4 || bind(listener, (struct sockaddr *)&at, sizeof at) || listen(listener, 512))
        return 1;
    for (int left = atoi(argv[3]); left > 0; left--) {
        int fd = accept(listener, NULL, NULL);
        if (fd < 0)
            return 2;
        if (argv[1][0] == 'l') {
            /* More than is on its way when it leaves. */
            char *much = calloc(1, 3 << 20);
            if (write(fd, much, 3 << 20) != 3 << 20)
                return 7;
        } else if (argv[1][0] == 'd') {
            /* Deaf: what comes meanwhile is for nobody. */
            if (shutdown(fd, SHUT_RD) || write(fd, bytes, 1) != 1)
                return 3;
            sleep(2);
            if (write(fd, bytes, 1000) != 1000)
                return 4;
        } else {
            if (write(fd, bytes, 5000) != 5000 || shutdown(fd, SHUT_WR))
                return 5;
            while ((count = read(fd, bytes, sizeof bytes)) > 0)
                ;
            if (count)
                return 6;
        }
        close(fd);
    }
    return 0;
}
"#;

/// Starts it at a free port, where there is a compiler.
fn serve(folder: &TempDir, how: &str, count: usize) -> Option<(Server, u16)> {
    let cc = installed("cc", "gcc libc6-dev")?;
    let program = compiled(&cc, folder.path(), SERVES);
    let port = port();
    Some((serve_at(port, folder, &program, how, count), port))
}

/// Starts it, and waits until it listens for other hosts.
fn serve_at(port: u16, folder: &TempDir, program: &str, how: &str, count: usize) -> Server {
    serve_before(&[], port, folder, program, how, count)
}

fn serve_before(before: &[&str], port: u16, folder: &TempDir, program: &str, how: &str, count: usize) -> Server {
    let words = [program, how, &port.to_string(), &count.to_string()];
    let server = Server::start(through(true, before, &words), folder.path(), port, true);
    wait_until("a listener for other hosts", || server.said().contains("QMP, for other hosts"));
    server
}

fn here(port: u16) -> SocketAddr {
    ([127, 0, 0, 1], port).into()
}

#[test]
fn streams_that_one_port_opens_at_the_same_moment_are_all_accepted() {
    let folder = tempfile::tempdir().expect("a folder");
    let many = 100;
    let Some((server, port)) = serve(&folder, "once", many) else { return };
    let endpoint = Endpoint::client(&Options::default()).expect("an endpoint");
    let streams: Vec<_> = (0..many).map(|_| endpoint.begin(here(port)).expect("a stream")).collect();
    // In which order they are accepted nobody says.
    streams.iter().for_each(|stream| stream.shutdown(Shutdown::Write).expect("it goes on"));
    for (number, stream) in streams.iter().enumerate() {
        assert_eq!(read_all(stream).len(), 5000, "stream {number}");
    }
    drop(streams);
    assert_eq!(server.finish(), Some(0));
}

/// Greets everybody, and says how many they are.
const GREETS: &str = r#"
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    int listener = socket(AF_INET, SOCK_STREAM, 0), count = 0, fd;
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(atoi(argv[2])) };
    if (argc < 4 || bind(listener, (struct sockaddr *)&at, sizeof at) || listen(listener, 512))
        return 1;
    while ((fd = accept(listener, NULL, NULL)) >= 0) {
        printf("greeted %d.\n", ++count);
        fflush(stdout);
        if (write(fd, "x", 1) != 1)
            perror("write");
    }
    return 2;
}
"#;

#[test]
fn of_those_who_may_not_be_there_few_are_handed_over_at_a_time() {
    let Some(cc) = installed("cc", "gcc libc6-dev") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let (program, port) = (compiled(&cc, folder.path(), GREETS), port());
    let server = serve_at(port, &folder, &program, "all", 0);
    let greeted = |count: usize| server.said().contains(&format!("greeted {count}."));
    // What is said to them gets lost at first, so they can show nothing.
    let is_lost = Arc::new(AtomicBool::new(true));
    let lost = Arc::clone(&is_lost);
    let relay = Relay::at("127.0.0.1:0", &format!("127.0.0.1:{port}"), move |is_senders, packet| {
        if is_senders && packet.len() > PORT + 2 && packet[11] & 0x1f == FIRST {
            packet[PORT..PORT + 2].copy_from_slice(&port.to_be_bytes());
        }
        is_senders || !lost.load(Ordering::SeqCst)
    });
    let endpoint = Endpoint::client(&Options::default()).expect("an endpoint");
    let many: Vec<_> = (0..150).map(|_| endpoint.begin(relay.address).expect("a stream")).collect();
    wait_until("the first of them", || greeted(64));
    thread::sleep(Duration::from_millis(500));
    assert!(!greeted(65), "{}", server.said());
    // Whoever answers waits for none of them.
    let mut answering = Vec::new();
    let soonest = pinnace_testing::least_of(5, || {
        let begun = Instant::now();
        let stream = Stream::connect(here(port), &Options::default()).expect("a stream");
        stream.set_read_timeout(Some(Duration::from_secs(5)));
        assert_eq!(stream.read(&mut [0; 8]).expect("a greeting"), 1);
        answering.push(stream);
        begun.elapsed().as_secs_f64()
    });
    assert!(soonest < 2.0, "{soonest} s");
    assert!(!greeted(70), "{}", server.said());
    // When they are heard of they are let in, all of them.
    is_lost.store(false, Ordering::SeqCst);
    for stream in &many {
        stream.set_read_timeout(Some(Duration::from_secs(20)));
        assert_eq!(stream.read(&mut [0; 8]).expect("a greeting"), 1);
    }
    assert!(greeted(155));
}

#[test]
fn what_comes_for_a_program_that_reads_no_more_is_dropped() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some((server, port)) = serve(&folder, "deaf", 1) else { return };
    let stream = Stream::connect(here(port), &Options::default()).expect("a stream");
    assert_eq!(stream.read(&mut [0; 8]).expect("a byte"), 1);
    for _ in 0..3 {
        assert_eq!(stream.write(&[7; 100]).expect("room"), 100);
        everything_arrives(&stream);
    }
    assert_eq!(read_all(&stream).len(), 1000);
    drop(stream);
    assert_eq!(server.finish(), Some(0));
}

#[test]
fn a_server_that_has_gone_has_said_its_end_more_than_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some((server, port)) = serve(&folder, "once", 1) else { return };
    let relay = without_an_end("127.0.0.1:0", port, false);
    let stream = Stream::connect(relay.address, &Options::default()).expect("a stream");
    assert_eq!(read_all(&stream).len(), 5000);
    assert_eq!(stream.write(&[7; 3000]).expect("room"), 3000);
    stream.shutdown(Shutdown::Write).expect("it goes on");
    everything_arrives(&stream);
    assert!(relay.lost.load(Ordering::Relaxed) > 0);
    assert_eq!(server.finish(), Some(0));
}

#[test]
fn a_server_that_is_started_anew_at_once_has_its_port_again() {
    let Some(cc) = installed("cc", "gcc libc6-dev") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let program = compiled(&cc, folder.path(), SERVES);
    let port = port();
    for _ in 0..10 {
        let server = serve_at(port, &folder, &program, "once", 1);
        let stream = Stream::connect(here(port), &Options::default()).expect("a stream");
        assert_eq!(read_all(&stream).len(), 5000);
        // So the last word is the server's.
        stream.shutdown(Shutdown::Write).expect("it goes on");
        assert_eq!(server.finish(), Some(0));
    }
}

/// Says how many milliseconds listen() takes where another program has the UDP port.
const LISTENS: &str = r#"
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
static long now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}
int main(int argc, char **argv)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0), other = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(atoi(argv[argc - 1])) };
    /* The companion is there, too, once it has answered. */
    if (listen(other, 1) || bind(fd, (struct sockaddr *)&at, sizeof at))
        return 1;
    long begun = now();
    if (listen(fd, 1))
        return 2;
    printf("%ld\n", now() - begun);
    return 0;
}
"#;

#[test]
fn whoever_has_the_udp_port_keeps_nobody_waiting() {
    let Some(cc) = installed("cc", "gcc libc6-dev") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let program = compiled(&cc, folder.path(), LISTENS);
    let (taken, port) = loop {
        let port = port();
        if let Ok(taken) = UdpSocket::bind(("0.0.0.0", port)) {
            break (taken, port.to_string());
        }
    };
    // On a busy machine one may be unlucky.
    let listens = || {
        let (out, said) = client(through(true, &[], &[&program, &port]));
        assert!(said.contains(&format!("no QMP at 0.0.0.0:{port}: ")), "{said}");
        out.trim().parse::<u64>().expect("a number")
    };
    let least = (0..3).map(|_| listens()).min();
    drop(taken);
    assert!(least < Some(200), "{least:?} ms");
}

#[test]
fn what_the_first_process_of_a_container_has_said_arrives() {
    if !rustix::process::geteuid().is_root() {
        return pinnace_testing::skip::host("only root makes process namespaces");
    }
    let (Some(cc), Some(unshare)) = (installed("cc", "gcc libc6-dev"), installed("unshare", "util-linux")) else {
        return;
    };
    let unshare = [unshare.to_str().expect("UTF-8"), "--pid", "--fork", "--kill-child"];
    if !Command::new(unshare[0]).args(&unshare[1..]).arg("true").status().is_ok_and(|status| status.success()) {
        return pinnace_testing::skip::host("no process namespaces here");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = compiled(&cc, folder.path(), SERVES);
    let port = port();
    let server = serve_before(&unshare, port, &folder, &program, "leaves", 1);
    let stream = Stream::connect(here(port), &Options::default()).expect("a stream");
    // The command ends meanwhile, and most of its bytes are with the companion.
    thread::sleep(Duration::from_secs(1));
    assert_eq!(read_all(&stream).len(), 3 << 20);
    drop(stream);
    assert_eq!(server.finish(), Some(0));
}
