//! Programs on two hosts (network namespaces): QMP where both have the library, TCP otherwise. Needs root.

use crate::stage::{Server, client, installed, noise, printed, through};
use crate::streams::{everything_arrives, without_an_end};
use pinnace::qmp::{Listener, Options, Shutdown};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{self, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const NEAR: &str = "10.79.0.1";
pub(crate) const FAR: &str = "10.79.0.2";

/// Two network namespaces, joined.
pub(crate) struct Hosts {
    pub(crate) near: String,
    pub(crate) far: String,
}

impl Hosts {
    pub(crate) fn new() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            pinnace_testing::skip::host("only root makes network namespaces");
            return None;
        }
        installed("ip", "iproute2")?;
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let tag = format!("pr{}-{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let hosts = Self { near: format!("{tag}n"), far: format!("{tag}f") };
        let (near, far) = (&hosts.near, &hosts.far);
        for line in [
            format!("netns add {near}"),
            format!("netns add {far}"),
            format!("-n {near} link add v0 type veth peer name v0 netns {far}"),
            format!("-n {near} addr add {NEAR}/24 dev v0"),
            format!("-n {far} addr add {FAR}/24 dev v0"),
            format!("-n {near} link set v0 up"),
            format!("-n {far} link set v0 up"),
            format!("-n {near} link set lo up"),
            format!("-n {far} link set lo up"),
        ] {
            let done = Command::new("ip").args(line.split(' ')).stderr(Stdio::null()).status().expect("ip runs");
            if !done.success() {
                pinnace_testing::skip::host(format_args!("no network namespaces here (ip {line})"));
                return None;
            }
        }
        Some(hosts)
    }

    /// From now on neither gets what the other sends, and nobody is told.
    pub(crate) fn part(&self) {
        self.neighbours("replace", &["lladdr", "02:00:00:00:00:99", "nud", "permanent"]);
    }

    /// They are joined again.
    pub(crate) fn join(&self) {
        self.neighbours("delete", &[]);
    }

    fn neighbours(&self, what: &str, more: &[&str]) {
        for (name, other) in [(&self.near, FAR), (&self.far, NEAR)] {
            let mut command = Command::new("ip");
            command.args(["-n", name, "neigh", what, other, "dev", "v0"]).args(more);
            assert!(command.status().expect("ip runs").success(), "{command:?}");
        }
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for name in [&self.near, &self.far] {
            let _ = Command::new("ip").args(["netns", "delete", name]).stderr(Stdio::null()).status();
        }
    }
}

pub(crate) fn at(name: &str) -> [&str; 4] {
    ["ip", "netns", "exec", name]
}

#[test]
fn a_file_goes_to_another_host() {
    let (Some(nc), Some(hosts)) = (installed("nc", "netcat-openbsd"), Hosts::new()) else { return };
    let nc = nc.to_str().expect("UTF-8");
    let folder = tempfile::tempdir().expect("a folder");
    let sent = folder.path().join("sent");
    fs::write(&sent, noise(3 << 20)).expect("written");
    for (port, mix) in [(7001, (true, true)), (7002, (true, false)), (7003, (false, true)), (7004, (false, false))] {
        let number = port.to_string();
        let words = [nc, "-l", FAR, &number];
        let server = Server::start(through(mix.0, &at(&hosts.far), &words), folder.path(), port, mix.0);
        let mut sender = through(mix.1, &at(&hosts.near), &[nc, "-N", FAR, &number]);
        sender.stdin(fs::File::open(&sent).expect("a file"));
        let begun = Instant::now();
        let (_, said) = client(sender);
        let took = begun.elapsed();
        assert_eq!(
            said.contains(&format!("connected to {FAR}:{number} by QMP")),
            mix == (true, true),
            "{mix:?}: {said}"
        );
        assert_eq!(server.finish(), Some(0), "{mix:?}");
        let got = printed(folder.path(), port);
        assert!(got == fs::read(&sent).expect("readable"), "{mix:?}: {} bytes", got.len());
        assert!(took < Duration::from_secs(20), "{mix:?}: {took:?}");
    }
}

#[test]
fn iperf3_between_hosts() {
    let (Some(iperf), Some(hosts)) = (installed("iperf3", "iperf3"), Hosts::new()) else { return };
    let iperf = iperf.to_str().expect("UTF-8");
    let folder = tempfile::tempdir().expect("a folder");
    for (port, more) in [(7101, "-P1"), (7102, "-P4"), (7103, "-R")] {
        let number = port.to_string();
        let words = [iperf, "-s", "-1", "-p", &number];
        let server = Server::start(through(true, &at(&hosts.far), &words), folder.path(), port, true);
        // More than all sockets on the way have room for: what the server counts at the end has to have come.
        let words = [iperf, "-c", FAR, "-p", &number, "-n", "64M", "--json", more];
        let (out, said) = client(through(true, &at(&hosts.near), &words));
        assert!(said.contains("by QMP"), "{said}");
        let report: serde_json::Value = serde_json::from_str(&out).expect("JSON");
        let bytes = |which: &str| report["end"][which]["bytes"].as_u64().unwrap_or(0);
        assert!(bytes("sum_sent") >= 64 << 20 && bytes("sum_received") > 0, "{more}: {out}");
        assert_eq!(server.finish(), Some(0));
    }
}

#[test]
fn redis_between_hosts() {
    let (Some(server), Some(bench), Some(hosts)) =
        (installed("redis-server", "redis-server"), installed("redis-benchmark", "redis-tools"), Hosts::new())
    else {
        return;
    };
    let (redis, bench) = (server.to_str().expect("UTF-8"), bench.to_str().expect("UTF-8"));
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().to_str().expect("UTF-8");
    let words = [redis, "--port", "7201", "--save", "", "--dir", place, "--protected-mode", "no"];
    let server = Server::start(through(true, &at(&hosts.far), &words), folder.path(), 7201, true);
    for preloaded in [true, false] {
        let words = [bench, "-h", FAR, "-p", "7201", "-c", "20", "-n", "2000", "-t", "set,get", "--csv"];
        let (out, said) = client(through(preloaded, &at(&hosts.near), &words));
        assert_eq!(said.contains("by QMP"), preloaded, "{said}");
        assert_eq!(out.lines().filter(|line| line.contains("SET") || line.contains("GET")).count(), 2, "{out}");
    }
    assert!(server.said().contains("QMP, for other hosts"));
}

/// One end reads less than was sent and closes; the other is to find its connection reset, not ended.
const RESETS: &str = r#"
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    (void)argv;
    char bytes[8];
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(7301) };
    inet_pton(AF_INET, "10.79.0.2", &at.sin_addr);
    if (argc > 1) {
        if (bind(fd, (struct sockaddr *)&at, sizeof at) || listen(fd, 4))
            return 1;
        int taken = accept(fd, NULL, NULL);
        if (recv(taken, bytes, 6, MSG_WAITALL) != 6 || write(taken, "ok", 2) != 2)
            return 2;
        /* The seventh is never read. */
        if (recv(taken, bytes, 1, MSG_PEEK) != 1)
            return 3;
        return close(taken);
    }
    if (connect(fd, (struct sockaddr *)&at, sizeof at) || write(fd, "hello", 6) != 6 || read(fd, bytes, 2) != 2)
        return 4;
    if (write(fd, "x", 1) != 1)
        return 5;
    puts(read(fd, bytes, 1) == -1 && errno == ECONNRESET ? "reset" : "ended");
    return 0;
}
"#;

/// Compiles a program, fortified: the calls that compilers make of read() and recv() are looked at as well.
pub(crate) fn compiled(cc: &Path, folder: &Path, text: &str) -> String {
    let (source, program) = (folder.join("program.c"), folder.join("program"));
    fs::write(&source, text).expect("written");
    let compiled = Command::new(cc).args(["-O2", "-D_FORTIFY_SOURCE=2", "-o"]).arg(&program).arg(&source).output();
    assert!(compiled.expect("it runs").status.success());
    program.to_str().expect("UTF-8").to_owned()
}

/// The process that brings a stream is killed in the middle of it, or not.
const CUT_OFF: &str = r#"
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    char bytes[1000] = "";
    if (argc < 3)
        return 1;
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(atoi(argv[2])) };
    inet_pton(AF_INET, "10.79.0.2", &at.sin_addr);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (argv[1][0] == 's') {
        if (bind(fd, (struct sockaddr *)&at, sizeof at) || listen(fd, 4))
            return 1;
        int taken = accept(fd, NULL, NULL);
        return write(taken, bytes, 1000) != 1000 || read(taken, bytes, 1) < 0;
    }
    if (connect(fd, (struct sockaddr *)&at, sizeof at) || recv(fd, bytes, 1000, MSG_WAITALL) != 1000)
        return 2;
    if (argv[1][0] == 'k') {
        struct ucred peer;
        socklen_t len = sizeof peer;
        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) || kill(peer.pid, SIGKILL))
            return 3;
    } else if (write(fd, "x", 1) != 1) {
        return 4;
    }
    puts(read(fd, bytes, 1) == 0 ? "ended" : errno == ECONNRESET ? "reset" : "failed");
    return 0;
}
"#;

/// A listener is closed, and made anew at its port, while a stream that came to it goes on.
const ANEW: &str = r#"
#include <arpa/inet.h>
#include <stdio.h>
#include <unistd.h>
static struct sockaddr_in at = { .sin_family = AF_INET };
static int listening(void)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    return bind(fd, (struct sockaddr *)&at, sizeof at) || listen(fd, 4) ? -1 : fd;
}
int main(int argc, char **argv)
{
    char byte = 'x';
    (void)argv;
    at.sin_port = htons(7501);
    inet_pton(AF_INET, "10.79.0.2", &at.sin_addr);
    int fds[3];
    for (int round = 0; round < 3; round++) {
        if (argc > 1) {
            int listener = listening();
            if (listener < 0 || (round > 0 && write(fds[round - 1], &byte, 1) != 1))
                return 1;
            fds[round] = accept(listener, NULL, NULL);
            close(listener);
        } else {
            fds[round] = socket(AF_INET, SOCK_STREAM, 0);
            if ((round > 0 && read(fds[round - 1], &byte, 1) != 1) || connect(fds[round], (struct sockaddr *)&at, sizeof at))
                return 2;
        }
    }
    /* All of them are there. */
    for (int round = 0; round < 3; round++)
        if (write(fds[round], &byte, 1) != 1 || read(fds[round], &byte, 1) != 1)
            return 3;
    return 0;
}
"#;

#[test]
fn a_listener_that_is_made_anew_has_its_port_again() {
    let (Some(cc), Some(hosts)) = (installed("cc", "gcc libc6-dev"), Hosts::new()) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let program = &*compiled(&cc, folder.path(), ANEW);
    let server = Server::start(through(true, &at(&hosts.far), &[program, "server"]), folder.path(), 7501, true);
    let (_, said) = client(through(true, &at(&hosts.near), &[program]));
    assert_eq!(said.matches("connected to 10.79.0.2:7501 by QMP").count(), 3, "{said}\n{}", server.said());
    assert_eq!(server.finish(), Some(0));
}

#[test]
fn what_dies_in_the_middle_of_a_stream_does_not_end_it() {
    let (Some(cc), Some(hosts)) = (installed("cc", "gcc libc6-dev"), Hosts::new()) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let program = compiled(&cc, folder.path(), CUT_OFF);
    for (port, how, expected) in [(7401, "killed", "reset\n"), (7402, "left", "ended\n")] {
        let number = port.to_string();
        let words = [&*program, "server", &number];
        let _server = Server::start(through(true, &at(&hosts.far), &words), folder.path(), port, true);
        let (out, said) = client(through(true, &at(&hosts.near), &[&program, how, &number]));
        assert_eq!(out, expected, "{how}: {said}");
        assert!(said.contains("by QMP"), "{said}");
    }
}

#[test]
fn a_reset_is_a_reset_on_the_other_host() {
    let (Some(cc), Some(hosts)) = (installed("cc", "gcc libc6-dev"), Hosts::new()) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let program = &*compiled(&cc, folder.path(), RESETS);
    for mix in [(true, true), (true, false), (false, true)] {
        let server = Server::start(through(mix.0, &at(&hosts.far), &[program, "server"]), folder.path(), 7301, mix.0);
        let (out, said) = client(through(mix.1, &at(&hosts.near), &[program]));
        assert_eq!(out, "reset\n", "{mix:?}: {said}");
        assert_eq!(said.contains("by QMP"), mix == (true, true), "{mix:?}: {said}");
        assert_eq!(server.finish(), Some(0));
    }
}

/// Listens at one port, for each family alone, IPv6 first, and says which listener a client came to.
const BY_FAMILY: &str = r#"
#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
static int listener(int family)
{
    int one = 1, fd = socket(family, SOCK_STREAM, 0);
    struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons(7701) };
    struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons(7701) };
    int is_v4 = family == AF_INET;
    if (!is_v4 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one))
        return -1;
    if (bind(fd, is_v4 ? (void *)&v4 : (void *)&v6, is_v4 ? sizeof v4 : sizeof v6) || listen(fd, 5))
        return -1;
    return fd;
}
int main(int count, char **words)
{
    (void)words;
    if (count < 2) {
        char byte;
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(7701) };
        inet_pton(AF_INET, "10.79.0.2", &at.sin_addr);
        if (connect(fd, (struct sockaddr *)&at, sizeof at) || read(fd, &byte, 1) != 1)
            return 1;
        printf("%c\n", byte);
        return 0;
    }
    struct pollfd both[2] = { { .fd = listener(AF_INET6), .events = POLLIN }, { .fd = listener(AF_INET), .events = POLLIN } };
    if (both[0].fd < 0 || both[1].fd < 0 || poll(both, 2, 20000) <= 0)
        return 1;
    int fd = accept(both[both[0].revents ? 0 : 1].fd, 0, 0);
    return write(fd, both[0].revents ? "6" : "4", 1) != 1;
}
"#;

#[test]
fn two_listeners_of_one_port_take_a_family_each() {
    let (Some(cc), Some(hosts)) = (installed("cc", "gcc libc6-dev"), Hosts::new()) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let program = &*compiled(&cc, folder.path(), BY_FAMILY);
    let server = Server::start(through(true, &at(&hosts.far), &[program, "server"]), folder.path(), 7701, true);
    let (out, said) = client(through(true, &at(&hosts.near), &[program]));
    assert!(said.contains("by QMP"), "{said}");
    assert_eq!((&*out, server.finish()), ("4\n", Some(0)), "{said}");
}

/// Writes until the peer, which reads nothing, makes no room for a second, and says how many bytes that took.
const UNREAD: &str = r#"
#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    static char bytes[65536];
    long taken = 0, count;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(7901) };
    (void)argv;
    inet_pton(AF_INET, "10.79.0.2", &at.sin_addr);
    if (argc > 1) {
        if (bind(fd, (struct sockaddr *)&at, sizeof at) || listen(fd, 4) || (fd = accept(fd, NULL, NULL)) < 0)
            return 1;
        struct pollfd gone = { .fd = fd, .events = 0 };
        return poll(&gone, 1, 60000) != 1;
    }
    if (connect(fd, (struct sockaddr *)&at, sizeof at))
        return 2;
    struct pollfd room = { .fd = fd, .events = POLLOUT };
    while (poll(&room, 1, 1000) == 1 && (count = send(fd, bytes, sizeof bytes, MSG_DONTWAIT)) > 0)
        taken += count;
    printf("%ld\n", taken);
    return 0;
}
"#;

#[test]
fn who_does_not_read_keeps_back_who_writes() {
    let (Some(cc), Some(hosts)) = (installed("cc", "gcc libc6-dev"), Hosts::new()) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let program = &*compiled(&cc, folder.path(), UNREAD);
    let _server = Server::start(through(true, &at(&hosts.far), &[program, "server"]), folder.path(), 7901, true);
    let (out, said) = client(through(true, &at(&hosts.near), &[program]));
    assert!(said.contains("by QMP"), "{said}");
    let taken: u64 = out.trim().parse().expect("a number");
    assert!((1 << 20..12 << 20).contains(&taken), "{taken} bytes");
}

/// Asks, and ends with the end of the answer.
const ASKS: &str = r#"
#include <arpa/inet.h>
#include <unistd.h>
int main(void)
{
    static char bytes[5000];
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(7601) };
    inet_pton(AF_INET, "10.79.0.2", &at.sin_addr);
    if (connect(fd, (struct sockaddr *)&at, sizeof at) || write(fd, bytes, 3000) != 3000 || shutdown(fd, SHUT_WR))
        return 1;
    return recv(fd, bytes, 5000, MSG_WAITALL) != 5000 || read(fd, bytes, 1) != 0;
}
"#;

#[test]
fn a_client_that_has_gone_has_said_its_end_more_than_once() {
    let (Some(cc), Some(hosts)) = (installed("cc", "gcc libc6-dev"), Hosts::new()) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let program = compiled(&cc, folder.path(), ASKS);
    let far = fs::File::open(Path::new("/run/netns").join(&hosts.far)).expect("a network namespace");
    thread::scope(|scope| {
        // What this thread binds is on the other host.
        scope.spawn(|| {
            move_into_link_name_space(far.as_fd(), Some(LinkNameSpaceType::Network)).expect("a network namespace");
            let listener = Listener::bind("0.0.0.0:0", &Options::default()).expect("a listener");
            let relay = without_an_end((FAR, 7601), listener.local_addr().port(), true);
            let asking = thread::spawn({
                let asking = through(true, &at(&hosts.near), &[&program]);
                || client(asking)
            });
            let stream = listener.accept().expect("a stream");
            let asked = std::iter::from_fn(|| stream.read(&mut [0; 4096]).ok().filter(|&taken| taken > 0));
            assert_eq!(asked.sum::<usize>(), 3000);
            assert_eq!(stream.write(&[0; 5000]).expect("room"), 5000);
            stream.shutdown(Shutdown::Write).expect("it goes on");
            everything_arrives(&stream);
            let (_, said) = asking.join().expect("it ends well");
            assert!(said.contains("by QMP"), "{said}");
            assert!(relay.lost.load(Ordering::Relaxed) > 0);
        });
    });
}
