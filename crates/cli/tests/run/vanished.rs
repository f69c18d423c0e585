//! Peers whose hosts vanish without a word, and what keep-alive and the user time-out do about it. Needs root.
#![allow(clippy::print_stdout, reason = "says how long it took")]

use crate::common::text;
use crate::hosts::{Hosts, at, compiled};
use crate::stage::{Server, client, installed, through};
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

/// Two ends, of which each says how its connection ended and after how many milliseconds. Options are set on the listener and
/// before connect(), or on the connections; `keep`: keep-alive, 1 s and two probes; `user`: 1500 ms for what was written.
const VANISHES: &str = r#"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
static int keeps;
static void set(int fd)
{
    int one = 1, two = 2, user = 1500;
    if (keeps ? setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one) ||
                setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &one, sizeof one) ||
                setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &one, sizeof one) ||
                setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &two, sizeof two)
              : setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user, sizeof user))
        exit(9);
}
static int get(int fd, int level, int name)
{
    int value = -1;
    socklen_t len = sizeof value;
    return getsockopt(fd, level, name, &value, &len) ? -1 : value;
}
static long now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}
int main(int argc, char **argv)
{
    char byte = 'x';
    if (argc < 5)
        return 1;
    int serves = argv[1][0] == 's', early = argv[3][0] == 'e', fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    keeps = argv[2][0] == 'k';
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(atoi(argv[4])) };
    inet_pton(AF_INET, "10.79.0.2", &at.sin_addr);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (early)
        set(fd);
    if (serves) {
        if (bind(fd, (struct sockaddr *)&at, sizeof at) || listen(fd, 4) || (fd = accept(fd, NULL, NULL)) < 0)
            return 1;
    } else if (connect(fd, (struct sockaddr *)&at, sizeof at)) {
        return 2;
    }
    if (!early)
        set(fd);
    if (keeps ? get(fd, SOL_SOCKET, SO_KEEPALIVE) != 1 || get(fd, IPPROTO_TCP, TCP_KEEPIDLE) != 1 ||
                get(fd, IPPROTO_TCP, TCP_KEEPINTVL) != 1 || get(fd, IPPROTO_TCP, TCP_KEEPCNT) != 2
              : get(fd, IPPROTO_TCP, TCP_USER_TIMEOUT) != 1500)
        return 3;
    if (write(fd, &byte, 1) != 1 || read(fd, &byte, 1) != 1)
        return 4;
    /* Longer than it may be silent, as long as the peer is there. */
    sleep(keeps ? 4 : 0);
    puts("ready");
    fflush(stdout);
    /* Whoever starts this cuts the line meanwhile. */
    sleep(1);
    if (!keeps && write(fd, &byte, 1) != 1)
        return 5;
    long begun = now();
    struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
    if (poll(&poll_fd, 1, 30000) != 1)
        return 6;
    /* Either of the two says it, and to TCP the error is over then. */
    int error = !early ? get(fd, SOL_SOCKET, SO_ERROR) : read(fd, &byte, 1) < 0 ? errno : 0;
    printf("%s %d %ld\n", error == ETIMEDOUT ? "timed out" : strerror(error), !!(poll_fd.revents & POLLHUP), now() - begun);
    return 0;
}
"#;

/// How long the connections of both ends lasted, in milliseconds.
fn ends_of(hosts: &Hosts, folder: &std::path::Path, program: &str, preloaded: bool, words: [&str; 3]) -> [u64; 2] {
    let [what, when, number] = words;
    let port = number.parse().expect("a port");
    let server = through(preloaded, &at(&hosts.far), &[program, "server", what, when, number]);
    let mut server = Server::start(server, folder, port, preloaded);
    let mut client = through(preloaded, &at(&hosts.near), &[program, "client", what, when, number]);
    let mut client = client.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    let mut printed = BufReader::new(client.stdout.take().expect("piped"));
    let mut line = String::new();
    printed.read_line(&mut line).expect("readable");
    assert_eq!(line, "ready\n", "{words:?}: {}", server.said());
    hosts.part();
    line.clear();
    printed.read_line(&mut line).expect("readable");
    let mut said = Vec::new();
    client.stderr.take().expect("piped").read_to_end(&mut said).expect("readable");
    assert!(client.wait().expect("waited").success());
    assert_eq!(text(&said).contains("by QMP"), preloaded);
    crate::common::wait_until("both have noticed", || server.said().contains("timed out") || server.has_ended());
    let other = server.said();
    hosts.join();
    [line.as_str(), other.lines().find(|line| line.contains(" 1 ")).unwrap_or(&other)].map(|line| {
        let time = line.trim().strip_prefix("timed out 1 ").and_then(|time| time.parse().ok());
        time.unwrap_or_else(|| panic!("{words:?}, {preloaded}: {line:?}"))
    })
}

#[test]
fn a_host_that_vanishes_is_noticed_when_the_program_said() {
    let (Some(cc), Some(hosts)) = (installed("cc", "gcc libc6-dev"), Hosts::new()) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let program = compiled(&cc, folder.path(), VANISHES);
    for (round, (what, when, preloaded)) in [
        ("keep", "early", false),
        ("keep", "early", true),
        ("keep", "late", false),
        ("keep", "late", true),
        ("user", "early", false),
        ("user", "early", true),
        ("user", "late", true),
    ]
    .into_iter()
    .enumerate()
    {
        let port = (7801 + round).to_string();
        let took = ends_of(&hosts, folder.path(), &program, preloaded, [what, when, &port]);
        println!("{what}, {when}, {preloaded}: {took:?} ms");
        // A second of it passed before, and a probe may have been answered shortly before that.
        let (least, most) = if what == "keep" { (500, 6000) } else { (1000, 6000) };
        assert!(took.iter().all(|took| (least..most).contains(took)), "{what}, {when}, {preloaded}: {took:?} ms");
    }
}

/// The server kills what brings its stream, without a word to the other host; the client goes on writing, and says how long that
/// went well, in seconds.
const GOES_ON: &str = r#"
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    char byte = 'x';
    int fd = socket(AF_INET, SOCK_STREAM, 0), tenths;
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(7821) };
    (void)argv;
    inet_pton(AF_INET, "10.79.0.2", &at.sin_addr);
    if (argc > 1) {
        struct ucred peer;
        socklen_t len = sizeof peer;
        if (bind(fd, (struct sockaddr *)&at, sizeof at) || listen(fd, 4) || (fd = accept(fd, NULL, NULL)) < 0)
            return 1;
        return read(fd, &byte, 1) != 1 || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) || kill(peer.pid, SIGKILL);
    }
    signal(SIGPIPE, SIG_IGN);
    if (connect(fd, (struct sockaddr *)&at, sizeof at))
        return 2;
    for (tenths = 0; tenths < 200 && write(fd, &byte, 1) == 1; tenths++)
        usleep(100000);
    printf("%d\n", tenths / 10);
    return 0;
}
"#;

#[test]
fn a_companion_that_is_killed_is_missed_soon_by_who_writes() {
    let (Some(cc), Some(hosts)) = (installed("cc", "gcc libc6-dev"), Hosts::new()) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let program = &*compiled(&cc, folder.path(), GOES_ON);
    let server = Server::start(through(true, &at(&hosts.far), &[program, "server"]), folder.path(), 7821, true);
    let (out, said) = client(through(true, &at(&hosts.near), &[program]));
    assert!(said.contains("by QMP"), "{said}");
    assert_eq!(server.finish(), Some(0));
    assert!(out.trim().parse::<u32>().expect("a number") < 15, "{out}");
}
