//! Programs that nobody here wrote, on one host: with the library at both ends, at one, and at none.

use crate::common::wait_for_size;
use crate::stage::{Server, client, installed, noise, port, printed, through};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Server, client.
const MIXES: [(bool, bool); 4] = [(true, true), (true, false), (false, true), (false, false)];

/// Whether a client's words fit its mix.
fn check_way(said: &str, port: u16, mix: (bool, bool)) {
    let here = format!("connected to 127.0.0.1:{port} on this host");
    assert_eq!(said.contains(&here), mix == (true, true), "{mix:?}: {said}");
}

#[test]
fn netcat() {
    let Some(nc) = installed("nc", "netcat-openbsd") else { return };
    let nc = nc.to_str().expect("UTF-8");
    let folder = tempfile::tempdir().expect("a folder");
    let sent = folder.path().join("sent");
    fs::write(&sent, noise(5 << 20)).expect("written");
    for mix in MIXES {
        let port = port();
        let number = port.to_string();
        let server = Server::start(through(mix.0, &[], &[nc, "-l", "127.0.0.1", &number]), folder.path(), port, mix.0);
        let mut sender = through(mix.1, &[], &[nc, "-N", "127.0.0.1", &number]);
        sender.stdin(fs::File::open(&sent).expect("a file"));
        let (_, said) = client(sender);
        check_way(&said, port, mix);
        assert_eq!(server.finish(), Some(0), "{mix:?}");
        let got = printed(folder.path(), port);
        assert!(got == fs::read(&sent).expect("readable"), "{mix:?}: {} bytes", got.len());
    }
}

#[test]
fn iperf3() {
    let Some(iperf) = installed("iperf3", "iperf3") else { return };
    let iperf = iperf.to_str().expect("UTF-8");
    let folder = tempfile::tempdir().expect("a folder");
    for mix in MIXES {
        for more in [&["-P", "2"][..], &["-R"], &["--bidir"], &["-Z"]] {
            let port = port();
            let number = port.to_string();
            let words = [iperf, "-s", "-1", "-p", &number];
            let server = Server::start(through(mix.0, &[], &words), folder.path(), port, mix.0);
            let mut words = vec![iperf, "-c", "127.0.0.1", "-p", &number, "-n", "8M", "--json"];
            words.extend(more);
            let (out, said) = client(through(mix.1, &[], &words));
            check_way(&said, port, mix);
            let report: serde_json::Value = serde_json::from_str(&out).expect("JSON");
            let bytes = |which: &str| report["end"][which]["bytes"].as_u64().unwrap_or(0);
            // Both directions end when the first has sent it all.
            let sent = bytes("sum_sent").max(bytes("sum_sent_bidir_reverse"));
            assert!(sent >= 8 << 20 && bytes("sum_received") > 0, "{mix:?} {more:?}: {out}");
            assert_eq!(server.finish(), Some(0));
        }
    }
}

#[test]
fn redis() {
    let (Some(server), Some(bench), Some(cli)) = (
        installed("redis-server", "redis-server"),
        installed("redis-benchmark", "redis-tools"),
        installed("redis-cli", "redis-tools"),
    ) else {
        return;
    };
    let (redis, bench, cli) =
        (server.to_str().expect("UTF-8"), bench.to_str().expect("UTF-8"), cli.to_str().expect("UTF-8"));
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().to_str().expect("UTF-8");
    for mix in MIXES {
        let port = port();
        let number = port.to_string();
        let words = [redis, "--port", &number, "--save", "", "--dir", place, "--bind", "127.0.0.1"];
        let _server = Server::start(through(mix.0, &[], &words), folder.path(), port, mix.0);
        for pipeline in ["1", "16"] {
            let words = [bench, "-p", &number, "-c", "50", "-n", "5000", "-P", pipeline, "-t", "set,get", "--csv"];
            let (out, said) = client(through(mix.1, &[], &words));
            check_way(&said, port, mix);
            assert_eq!(out.lines().filter(|line| line.contains("SET") || line.contains("GET")).count(), 2, "{out}");
        }
        client(through(mix.1, &[], &[cli, "-p", &number, "set", "key", "value"]));
        let (out, _) = client(through(mix.1, &[], &[cli, "-p", &number, "get", "key"]));
        assert_eq!(out.trim(), "value");
    }
}

fn nginx_configuration(folder: &Path, port: u16) -> PathBuf {
    let place = folder.display();
    let user = if rustix::process::geteuid().is_root() { "user root;" } else { "" };
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("{name}_temp_path {place}/{name};"))
        .join(" ");
    let text = format!(
        "daemon off; worker_processes 2; {user} pid {place}/nginx.pid; error_log {place}/error.log;\n\
         events {{ worker_connections 256; }}\n\
         http {{ access_log off; sendfile on; tcp_nopush on; {temporary}\n\
         server {{ listen 127.0.0.1:{port}; root {place}; }} }}\n"
    );
    let path = folder.join("nginx.conf");
    fs::write(&path, text).expect("written");
    path
}

#[test]
fn curl_and_nginx() {
    let (Some(nginx), Some(curl)) = (installed("nginx", "nginx-light"), installed("curl", "curl")) else { return };
    let (nginx, curl) = (nginx.to_str().expect("UTF-8"), curl.to_str().expect("UTF-8"));
    let folder = tempfile::tempdir().expect("a folder");
    let (file, got) = (folder.path().join("file"), folder.path().join("got"));
    fs::write(&file, noise(32 << 20)).expect("written");
    for mix in MIXES {
        let port = port();
        let configuration = nginx_configuration(folder.path(), port);
        let prefix = folder.path().to_str().expect("UTF-8");
        let error_log = folder.path().join("early.log");
        let words = [
            nginx,
            "-p",
            prefix,
            "-c",
            configuration.to_str().expect("UTF-8"),
            "-e",
            error_log.to_str().expect("UTF-8"),
        ];
        let _server = Server::start(through(mix.0, &[], &words), folder.path(), port, mix.0);
        let url = format!("http://127.0.0.1:{port}/file");
        let out = got.to_str().expect("UTF-8");
        for _ in 0..3 {
            let (_, said) = client(through(mix.1, &[], &[curl, "-sS", "--fail", "-o", out, &url]));
            check_way(&said, port, mix);
            assert!(fs::read(&got).expect("readable") == fs::read(&file).expect("readable"), "{mix:?}");
        }
        // Several requests on one connection.
        let many = format!("http://127.0.0.1:{port}/nginx.conf?[1-50]");
        let (out, _) = client(through(mix.1, &[], &[curl, "-sS", "--fail", &many]));
        assert_eq!(out.matches("worker_processes").count(), 50);
    }
}

/// The folder of the newest PostgreSQL's programs.
fn postgres() -> Option<PathBuf> {
    let mut all: Vec<PathBuf> = fs::read_dir("/usr/lib/postgresql")
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path().join("bin")))
        .filter(|folder| folder.join("postgres").is_file() && folder.join("pgbench").is_file())
        .collect();
    all.sort();
    all.pop()
}

#[test]
fn pgbench_and_postgresql() {
    let Some(programs) = postgres() else {
        pinnace_testing::skip::program("there is no PostgreSQL (Debian: postgresql, postgresql-contrib)");
        return;
    };
    let folder = tempfile::Builder::new().prefix("pinnace-pg").tempdir_in("/tmp").expect("a folder");
    let data = folder.path().join("data");
    // The server does not run as root.
    let is_root = rustix::process::geteuid().is_root();
    let before: &[&str] = if is_root { &["runuser", "-u", "postgres", "--"] } else { &[] };
    if is_root {
        let owned = Command::new("chown").arg("postgres").arg(folder.path()).status().expect("chown runs");
        assert!(owned.success());
        let reach = Command::new("runuser")
            .args(["-u", "postgres", "--", "test", "-x", env!("CARGO_BIN_EXE_pinnace")])
            .status()
            .expect("runuser runs");
        if !reach.success() {
            pinnace_testing::skip::host(format_args!(
                "the user postgres cannot reach {}",
                env!("CARGO_BIN_EXE_pinnace")
            ));
            return;
        }
    }
    let program = |name: &str| programs.join(name).to_str().expect("UTF-8").to_owned();
    let place = data.to_str().expect("UTF-8");
    let initdb = program("initdb");
    let words = [&*initdb, "-D", place, "-A", "trust", "-U", "postgres", "--no-sync"];
    let mut made = through(false, before, &words);
    assert!(made.stdout(Stdio::null()).stderr(Stdio::null()).status().expect("initdb runs").success());
    for mix in MIXES {
        let port = port();
        let number = port.to_string();
        let socket = folder.path().to_str().expect("UTF-8");
        let server = program("postgres");
        let words =
            [&*server, "-D", place, "-p", &number, "-k", socket, "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"];
        // SIGINT is its fast shutdown; SIGTERM waits for clients, and there are none any more.
        let logs = tempfile::tempdir().expect("a folder");
        let _server = Server::start(through(mix.0, before, &words), logs.path(), port, mix.0);
        let bench = program("pgbench");
        let at = ["-h", "127.0.0.1", "-p", &number, "-U", "postgres"];
        let run = |more: &[&str]| {
            let mut words = vec![&*bench];
            words.extend(at);
            words.extend(more);
            words.push("postgres");
            client(through(mix.1, &[], &words))
        };
        let isready = program("pg_isready");
        let mut ready = vec![&*isready];
        ready.extend(at);
        crate::common::wait_until("a server that is ready", || {
            through(false, &[], &ready).stdout(Stdio::null()).status().is_ok_and(|status| status.success())
        });
        let (_, said) = run(&["-i", "-q", "-s", "1"]);
        check_way(&said, port, mix);
        for more in [&["-c", "8", "-j", "2", "-t", "50"][..], &["-S", "-C", "-c", "4", "-t", "25", "-M", "prepared"]] {
            let (out, _) = run(more);
            let expected = if more[0] == "-c" { "400/400" } else { "100/100" };
            assert!(out.contains(expected), "{mix:?}: {out}");
        }
    }
}

#[test]
fn a_file_arrives_from_a_server_that_forks() {
    // What netcat receives, it has received when its client is gone.
    let Some(nc) = installed("nc", "netcat-openbsd") else { return };
    let nc = nc.to_str().expect("UTF-8");
    let folder = tempfile::tempdir().expect("a folder");
    let (port, got) = (port(), folder.path().join("got"));
    let number = port.to_string();
    let script = format!("{nc} -l 127.0.0.1 {number} > {}", got.display());
    let server = Server::start(through(true, &[], &["sh", "-c", &script]), folder.path(), port, true);
    let script = format!("head -c 3000000 /dev/zero | {nc} -N 127.0.0.1 {number}");
    client(through(true, &[], &["sh", "-c", &script]));
    wait_for_size(&got, 3_000_000);
    assert_eq!(server.finish(), Some(0));
}
