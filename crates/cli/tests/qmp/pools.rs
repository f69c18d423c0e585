//! `pinnace qbuf stat`, on pools of this process.

use crate::common::{objects, run, text, wait_until};
use pinnace_qbuf::{Pool, PoolOptions, Variant};
use serde_json::Value;

fn stat(pid: &str) -> Vec<Value> {
    let output = run(&["qbuf", "stat", "--json", "--pid", pid]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    objects(&text(&output.stdout))
}

#[test]
fn pools_are_found_and_counted_by_owner() {
    let locked = PoolOptions { zones: 5, block_bytes: 8192, variant: Variant::Locked, ..PoolOptions::default() };
    let free = PoolOptions { zones: 7, variant: Variant::LockFree, ..PoolOptions::default() };
    let (locked, free) = (Pool::create(&locked).unwrap(), Pool::create(&free).unwrap());
    let (one, three) = (locked.alloc(1).unwrap(), locked.alloc(3 * 8192).unwrap());
    let pid = std::process::id().to_string();
    let pools = stat(&pid);
    let of = |zones: u64| pools.iter().find(|pool| pool["zones"] == zones).expect("it is there");
    let of_locked = of(5);
    for (field, value) in [
        ("block_bytes", 8192),
        ("blocks", 160),
        ("free_blocks", 156),
        ("user_blocks", 4),
        ("engine_blocks", 0),
        ("transit_blocks", 0),
        ("deferred_blocks", 0),
        ("attached_clients", 1),
    ] {
        assert_eq!(of_locked[field], value, "{field}: {of_locked}");
    }
    assert_eq!(of_locked["variant"], "locked");
    let owners = of_locked["owners"].as_array().unwrap();
    assert_eq!((owners.len(), &owners[0]["user_blocks"], &owners[0]["alive"]), (1, &4.into(), &true.into()));
    assert_eq!(of_locked["processes"][0]["pid"].to_string(), pid);
    assert_eq!((&of(7)["variant"], &of(7)["free_blocks"]), (&"lock-free".into(), &(7 * 32).into()));
    // For people.
    let output = text(&run(&["qbuf", "stat", "--pid", &pid]).stdout);
    assert!(
        output.contains("locked, 5 zones of 32 blocks of 8 KiB") && output.contains("free 156, user 4"),
        "{output}"
    );
    // The command has left, and taken nothing.
    drop((one, three));
    assert_eq!((locked.stats().free_blocks, locked.stats().clients), (160, 1));
    drop(free);
}

#[test]
fn where_no_pool_is_that_is_said() {
    let mut sleeping = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let pid = sleeping.id().to_string();
    let output = run(&["qbuf", "stat", "--pid", &pid]);
    sleeping.kill().unwrap();
    sleeping.wait().unwrap();
    let error = text(&output.stderr);
    assert_eq!((output.status.code(), error.lines().count()), (Some(1), 1), "{error}");
    assert!(error.contains("no buffer pool"), "{error}");
    let output = run(&["qbuf", "stat", "--pid", "4194304"]);
    let error = text(&output.stderr);
    assert_eq!((output.status.code(), error.lines().count()), (Some(1), 1), "{error}");
    assert!(error.contains("no process 4194304"), "{error}");
}

#[test]
fn a_daemon_is_asked_for_its_figures() {
    use pinnace::daemon::{Client, Daemon, DaemonOptions};
    use std::sync::Arc;
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("daemon.sock");
    let daemon =
        Arc::new(Daemon::bind(&DaemonOptions { socket: Some(socket.clone()), ..DaemonOptions::default() }).unwrap());
    let serving = std::thread::spawn({
        let daemon = Arc::clone(&daemon);
        move || daemon.run()
    });
    let client = Client::open(&socket).unwrap();
    let qbuf = client.pool().alloc(10_000).unwrap();
    // It counts its pool from time to time.
    wait_until("the daemon counts", || {
        let output = run(&["qbuf", "stat", "--json", "--daemon", socket.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let line: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&line["event"], &line["blocks"]), (&"daemon".into(), &16_384.into()), "{line}");
        let clients = line["clients"].as_array().unwrap();
        line["user_blocks"] == 3 && clients.iter().any(|client| client["held_blocks"] == 3)
    });
    // For people.
    let output = text(&run(&["qbuf", "stat", "--daemon", socket.to_str().unwrap()]).stdout);
    assert!(output.contains("blocks 16384: free 16381, user 3, ") && output.contains("; 512 zones, "), "{output}");
    drop((qbuf, client));
    daemon.stop();
    serving.join().unwrap().unwrap();
    drop(daemon);
    // It has left nothing behind.
    refused(socket.to_str().unwrap(), 3, "start `pinnace daemon --socket");
}

/// Asks a daemon that does not answer, and sees that it is said why, in both ways.
fn refused(socket: &str, exit: i32, part: &str) {
    let output = run(&["qbuf", "stat", "--daemon", socket]);
    let error = text(&output.stderr);
    assert_eq!((output.status.code(), error.lines().count()), (Some(exit), 1), "{error}");
    assert!(error.starts_with("pinnace: ") && error.contains(socket) && error.contains(part), "{error}");
    let output = run(&["qbuf", "stat", "--json", "--daemon", socket]);
    let said = text(&output.stdout);
    assert_eq!((output.status.code(), said.lines().count()), (Some(exit), 1), "{said}");
    let object: Value = serde_json::from_str(&said).expect("an object");
    assert!(object["exit"] == exit && object["error"].as_str().is_some_and(|why| why.contains(part)), "{object}");
}

#[test]
fn where_no_daemon_answers_that_is_said() {
    use std::os::unix::net::{UnixDatagram, UnixListener};
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    refused(&path("absent"), 3, "start `pinnace daemon --socket");
    refused(&path(&"long".repeat(50)), 2, "too long");
    std::fs::write(path("file"), "a file").unwrap();
    for other in [path("file"), path("")] {
        refused(&other, 2, "is no socket");
    }
    // A killed one leaves its socket behind.
    drop(daemon_socket(&path("left")));
    refused(&path("left"), 3, "start `pinnace daemon --socket");
    // Sockets of other programs.
    let _streams = UnixListener::bind(path("streams")).unwrap();
    let _datagrams = UnixDatagram::bind(path("datagrams")).unwrap();
    for other in ["streams", "datagrams"] {
        refused(&path(other), 2, "another program");
    }
    // One that does not answer.
    let _silent = daemon_socket(&path("silent"));
    refused(&path("silent"), 3, "does not answer");
}

#[test]
fn without_the_right_that_is_said() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("daemon.sock");
    let _daemon = daemon_socket(socket.to_str().unwrap());
    let everybody = |mode| std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(folder.path(), everybody(0o755)).unwrap();
    std::fs::set_permissions(&socket, everybody(0o600)).unwrap();
    let pool = Pool::create(&PoolOptions::default()).unwrap();
    let mine = std::process::id().to_string();
    let program = folder.path().join("pinnace");
    std::fs::copy(env!("CARGO_BIN_EXE_pinnace"), &program).unwrap();
    for (args, part) in [
        (["--daemon", socket.to_str().unwrap()], "as the user that runs it, or as root"),
        (["--pid", &mine], "as its user, or as root"),
    ] {
        // Somebody else, which only root can become.
        let mut nobody = std::process::Command::new("setpriv");
        nobody.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(&program).args(["qbuf", "stat"]);
        let output = match nobody.args(args).output() {
            Ok(output) if !text(&output.stderr).starts_with("setpriv") => output,
            _ => return pinnace_testing::skip::host("needs root, to become somebody else, and setpriv (util-linux)"),
        };
        let error = text(&output.stderr);
        assert_eq!((output.status.code(), error.lines().count()), (Some(1), 1), "{error}");
        assert!(error.contains(part), "{error}");
    }
    drop(pool);
}

/// A socket as a daemon's, at which nobody answers.
fn daemon_socket(path: &str) -> std::os::fd::OwnedFd {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, listen, socket};
    let made = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
    bind(&made, &SocketAddrUnix::new(path).unwrap()).unwrap();
    listen(&made, 4).unwrap();
    made
}
