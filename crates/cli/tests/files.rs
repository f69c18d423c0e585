//! `pinnace send` and `recv`.

mod common;

use common::{Listening, objects, pinnace, run, short_of_descriptors, text, wait, wait_until};
use rustix::process::geteuid;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::net::UdpSocket;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

fn receiver(dir: &Path, more: &[&str]) -> Listening {
    let mut args = vec!["recv", "--bind", "127.0.0.1:0", "--timeout", "2", "--dir", dir.to_str().unwrap()];
    args.extend(more);
    Listening::start(&args)
}

/// Bytes that are not alike anywhere.
fn content(bytes: usize) -> Vec<u8> {
    let mut content = vec![0; bytes];
    blake3::Hasher::new().finalize_xof().fill(&mut content);
    content
}

/// Every file and folder below, with permissions, time and content.
fn listing(top: &Path) -> Vec<(PathBuf, u32, i64, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in walkdir::WalkDir::new(top).sort_by_file_name() {
        let entry = entry.unwrap();
        let metadata = entry.metadata().unwrap();
        let content = if metadata.is_file() { fs::read(entry.path()).unwrap() } else { Vec::new() };
        let path = entry.path().strip_prefix(top).unwrap().to_owned();
        found.push((path, metadata.permissions().mode() & 0o777, metadata.mtime(), content));
    }
    found
}

#[test]
fn a_folder_arrives_as_it_is() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let top = from.path().join("top");
    fs::create_dir_all(top.join("deep/er")).unwrap();
    fs::create_dir_all(top.join("empty folder")).unwrap();
    fs::write(top.join("empty"), b"").unwrap();
    fs::write(top.join("-rf"), b"not an option").unwrap();
    fs::write(top.join("new\nline"), b"1").unwrap();
    fs::write(top.join(OsStr::from_bytes(b"not UTF-8 \xff\xfe")), b"2").unwrap();
    fs::write(top.join("deep/er/large"), content(300_000)).unwrap();
    fs::set_permissions(top.join("-rf"), fs::Permissions::from_mode(0o751)).unwrap();
    fs::set_permissions(top.join("deep"), fs::Permissions::from_mode(0o700)).unwrap();
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    fs::File::open(top.join("empty")).unwrap().set_modified(old).unwrap();
    fs::File::open(top.join("deep")).unwrap().set_modified(old).unwrap();

    let receiving = receiver(to.path(), &["--once"]);
    let sent = run(&["send", top.to_str().unwrap(), &receiving.address, "--chunk", "64KiB"]);
    assert_eq!(sent.status.code(), Some(0), "{}", text(&sent.stderr));
    let (code, out, err) = receiving.finish();
    assert_eq!((code, &*err), (Some(0), ""));
    assert!(out.contains("received top/empty 0 bytes") && out.contains("5 files"), "{out}");
    assert_eq!(listing(&to.path().join("top")), listing(&top));
    assert_eq!(fs::read_dir(to.path()).unwrap().count(), 1, "nothing else is left");
    // The hash is the one that b3sum prints.
    let hash = blake3::hash(&content(300_000)).to_hex();
    assert!(text(&sent.stdout).contains(&format!("sent top/deep/er/large 300000 bytes BLAKE3 {hash}")));
}

#[test]
fn senders_come_one_after_the_other_and_links_are_left_out() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::create_dir(from.path().join("a")).unwrap();
    fs::write(from.path().join("a/b"), b"one").unwrap();
    fs::write(from.path().join("c"), b"two").unwrap();
    symlink("/etc/passwd", from.path().join("a/link")).unwrap();
    let mut receiving = receiver(to.path(), &["--json"]);
    for name in ["a", "c"] {
        let sent = run(&["send", from.path().join(name).to_str().unwrap(), "--to", &receiving.address]);
        assert_eq!(sent.status.code(), Some(0), "{}", text(&sent.stderr));
        assert_eq!(text(&sent.stderr).contains("symbolic link"), name == "a");
    }
    receiving.signal("-INT");
    let (code, out, _) = receiving.finish();
    assert_eq!(code, Some(130));
    let lines = objects(&out);
    let events: Vec<&str> = lines.iter().map(|line| line["event"].as_str().unwrap()).collect();
    assert_eq!(events, ["listening", "file", "done", "file", "done", "error"]);
    assert_eq!((&lines[1]["path"], &lines[1]["bytes"]), (&"a/b".into(), &3.into()));
    assert!(!to.path().join("a/link").exists());
}

#[test]
fn files_that_exist_are_kept_unless_told_otherwise() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(from.path().join("name"), b"mine").unwrap();
    let file = from.path().join("name").to_str().unwrap().to_owned();
    // Another size, and another content of the same size.
    for theirs in [&b"theirs, longer"[..], b"them"] {
        fs::write(to.path().join("name"), theirs).unwrap();
        let receiving = receiver(to.path(), &["--once"]);
        let sent = run(&["send", &file, &receiving.address]);
        assert_eq!(sent.status.code(), Some(1));
        assert!(text(&sent.stderr).contains("--overwrite"), "{}", text(&sent.stderr));
        assert_eq!(receiving.finish().0, Some(1));
        assert_eq!(fs::read(to.path().join("name")).unwrap(), theirs);
        let receiving = receiver(to.path(), &["--once", "--overwrite"]);
        assert_eq!(run(&["send", &file, &receiving.address]).status.code(), Some(0));
        assert_eq!(receiving.finish().0, Some(0));
        assert_eq!(fs::read(to.path().join("name")).unwrap(), b"mine");
    }
    // What is there already is verified, and that is all.
    let receiving = receiver(to.path(), &["--once"]);
    let sent = run(&["send", &file, &receiving.address]);
    assert!(text(&sent.stdout).starts_with("already there name"));
    assert_eq!(receiving.finish().0, Some(0));
}

const LARGE: usize = 48 << 20;

/// Chunks written down as whole.
fn chunks_kept(dir: &Path) -> u64 {
    let Ok(folder) = fs::read_dir(dir.join(".pinnace-partial")) else { return 0 };
    let state = folder.filter_map(Result::ok).find(|entry| entry.file_name().as_bytes().ends_with(b".state"));
    state.and_then(|entry| entry.metadata().ok()).map_or(0, |metadata| metadata.len() / 36)
}

/// What has arrived of the one file.
fn partial(dir: &Path) -> PathBuf {
    let mut folder = fs::read_dir(dir.join(".pinnace-partial")).unwrap().map(|entry| entry.unwrap().path());
    folder.find(|path| path.extension().is_none()).unwrap()
}

fn resumes(dir: &Path, file: &str) {
    let kept = chunks_kept(dir);
    assert!(kept > 0 && !dir.join("large").exists());
    let receiving = receiver(dir, &["--once", "--json"]);
    let sent = run(&["send", file, &receiving.address, "--chunk", "256KiB"]);
    assert_eq!(sent.status.code(), Some(0), "{}", text(&sent.stderr));
    let (code, out, err) = receiving.finish();
    assert_eq!(code, Some(0), "{err}");
    let done: serde_json::Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    let resumed = done["bytes_resumed"].as_u64().unwrap();
    assert!(resumed >= kept * (256 << 10) && resumed < LARGE as u64, "{resumed} of {kept} chunks");
    assert_eq!(fs::read(dir.join("large")).unwrap(), content(LARGE));
    assert!(!dir.join(".pinnace-partial").exists());
}

/// A transfer slow enough to be caught in the middle.
fn slow_send(file: &str, address: &str) -> std::process::Child {
    let args =
        ["send", file, address, "--chunk", "256KiB", "--timeout", "1", "--profile", "internet", "--rate", "40mbit"];
    pinnace(&args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn a_killed_receiver_is_reported_and_the_transfer_resumed() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = from.path().join("large");
    fs::write(&file, content(LARGE)).unwrap();
    let mut receiving = receiver(to.path(), &[]);
    let mut sender = slow_send(file.to_str().unwrap(), &receiving.address);
    wait_until("some chunks have arrived", || chunks_kept(to.path()) >= 8);
    receiving.kill();
    assert_eq!(wait(&mut sender), Some(3));
    // What was damaged meanwhile is found out.
    let partial = partial(to.path());
    let damaged = fs::OpenOptions::new().write(true).open(partial).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&damaged, b"damage", (LARGE - 6) as u64).unwrap();
    resumes(to.path(), file.to_str().unwrap());
}

#[test]
fn a_killed_sender_is_reported_and_the_transfer_resumed() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = from.path().join("large");
    fs::write(&file, content(LARGE)).unwrap();
    let receiving = receiver(to.path(), &["--once"]);
    let mut sender = slow_send(file.to_str().unwrap(), &receiving.address);
    wait_until("some chunks have arrived", || chunks_kept(to.path()) >= 8);
    sender.kill().unwrap();
    sender.wait().unwrap();
    let (code, _, err) = receiving.finish();
    assert_eq!(code, Some(3), "{err}");
    assert!(err.contains("has not answered") && err.lines().count() == 1, "{err}");
    resumes(to.path(), file.to_str().unwrap());
}

/// A receiver as somebody who may not write where permissions forbid it: root may everywhere. `None`: this host cannot.
fn receiver_of_a_user(to: &Path, more: &[&str]) -> Option<Listening> {
    let dir = to.to_str().unwrap();
    let mut command = pinnace(&["recv", "--bind", "127.0.0.1:0", "--timeout", "2", "--once", "--dir", dir]);
    command.args(more).stdout(Stdio::piped());
    if geteuid().is_root() {
        let owner = Command::new("chown").args(["-R", "65534", dir]).status();
        assert!(owner.is_ok_and(|status| status.success()));
        let mut may = pinnace(&["--version"]);
        if let Err(error) = may.uid(65_534).stdout(Stdio::null()).status() {
            pinnace_testing::skip::host(format_args!("another user cannot run the program here ({error})"));
            return None;
        }
        command.uid(65_534);
    }
    Some(Listening::of(&mut command))
}

#[test]
fn a_partial_file_of_any_permissions_is_resumed() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = from.path().join("large");
    fs::write(&file, content(LARGE)).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o444)).unwrap();
    let Some(mut receiving) = receiver_of_a_user(to.path(), &[]) else { return };
    let mut sender = slow_send(file.to_str().unwrap(), &receiving.address);
    wait_until("some chunks have arrived", || chunks_kept(to.path()) >= 8);
    receiving.kill();
    assert_eq!(wait(&mut sender), Some(3));
    // As if it had been killed a moment before the file got its name.
    for entry in fs::read_dir(to.path().join(".pinnace-partial")).unwrap() {
        fs::set_permissions(entry.unwrap().path(), fs::Permissions::from_mode(0o000)).unwrap();
    }
    let receiving = receiver_of_a_user(to.path(), &[]).unwrap();
    let sent = run(&["send", file.to_str().unwrap(), &receiving.address, "--chunk", "256KiB", "--json"]);
    assert_eq!(sent.status.code(), Some(0), "{}{}", text(&sent.stdout), text(&sent.stderr));
    assert_eq!(receiving.finish().0, Some(0));
    let done = objects(&text(&sent.stdout)).pop().unwrap();
    assert!(done["bytes_resumed"].as_u64().unwrap() >= 8 * (256 << 10), "{done}");
    assert_eq!(fs::metadata(to.path().join("large")).unwrap().permissions().mode() & 0o777, 0o444);
}

#[test]
fn an_interrupted_end_tells_the_other() {
    let from = tempfile::tempdir().unwrap();
    let file = from.path().join("large");
    fs::write(&file, content(LARGE)).unwrap();
    for interrupted in ["sender", "receiver"] {
        let to = tempfile::tempdir().unwrap();
        let mut receiving = receiver(to.path(), &["--once"]);
        let mut sender = slow_send(file.to_str().unwrap(), &receiving.address);
        wait_until("some chunks have arrived", || chunks_kept(to.path()) >= 8);
        if interrupted == "receiver" {
            receiving.signal("-INT");
        } else {
            assert!(Command::new("kill").args(["-INT", &sender.id().to_string()]).status().unwrap().success());
        }
        let (sent, (received, _, err)) = (wait(&mut sender), receiving.finish());
        let expected = if interrupted == "receiver" { (Some(3), Some(130)) } else { (Some(130), Some(3)) };
        assert_eq!((sent, received), expected, "{interrupted}: {err}");
        assert!(chunks_kept(to.path()) > 0);
    }
}

/// Chunks are 16 MiB, and four of them are queued: more than anybody waits for at this rate.
#[test]
fn an_interrupted_sender_tells_the_other_behind_one_chunk_and_not_behind_all() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = from.path().join("large");
    fs::File::create(&file).unwrap().set_len(200 << 20).unwrap();
    let receiving = receiver(to.path(), &["--once"]);
    let mut sender = pinnace(&["send", file.to_str().unwrap(), &receiving.address, "--rate", "100mbit"]);
    let mut sender = sender.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("a chunk has arrived", || chunks_kept(to.path()) >= 1);
    assert!(Command::new("kill").args(["-INT", &sender.id().to_string()]).status().unwrap().success());
    assert_eq!(wait(&mut sender), Some(130));
    let (code, _, err) = receiving.finish();
    assert_eq!(code, Some(3), "{err}");
    assert!(err.contains("was interrupted"), "{err}");
}

#[test]
fn a_rate_is_not_exceeded() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = from.path().join("file");
    fs::write(&file, content(1_000_000)).unwrap();
    let receiving = receiver(to.path(), &["--overwrite"]);
    // Slower than loopback by far, and so slow that a large unit would take longer than the receiver waits.
    for (rate, size, least) in [("8mbit", 1_000_000, 0.9), ("80kbit", 30_000, 2.5)] {
        fs::write(&file, content(size)).unwrap();
        let begun = Instant::now();
        let sent = run(&["send", file.to_str().unwrap(), &receiving.address, "--rate", rate]);
        assert_eq!(sent.status.code(), Some(0), "{}", text(&sent.stderr));
        assert!(begun.elapsed().as_secs_f64() > least, "{rate}: {:?}", begun.elapsed());
        assert_eq!(fs::read(to.path().join("file")).unwrap(), content(size));
    }
    let refused = run(&["send", file.to_str().unwrap(), &receiving.address, "--rate", "fast"]);
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stderr));
}

#[test]
fn nobody_there_and_nothing_to_send_are_reported() {
    let from = tempfile::tempdir().unwrap();
    let missing = from.path().join("missing");
    let sent = run(&["send", missing.to_str().unwrap(), "127.0.0.1:9"]);
    assert_eq!(sent.status.code(), Some(1));
    assert!(text(&sent.stderr).contains("missing"));
    fs::write(&missing, b"now").unwrap();
    let sent = run(&["send", missing.to_str().unwrap(), "127.0.0.1:9", "--timeout", "0.5"]);
    assert_eq!(sent.status.code(), Some(3));
    assert!(text(&sent.stderr).contains("pinnace recv"));
    assert_eq!(run(&["send", "/dev/null", "127.0.0.1:9"]).status.code(), Some(1));
    // Its size is 0, and its content would be lost in silence.
    let sent = run(&["send", "/proc/version", "127.0.0.1:9", "--timeout", "0.5"]);
    assert_eq!(sent.status.code(), Some(1));
    assert!(text(&sent.stderr).contains("/proc/version has content"), "{}", text(&sent.stderr));
    let sent = run(&["send", missing.to_str().unwrap(), "", "127.0.0.1:9"]);
    assert_eq!(sent.status.code(), Some(2));
    assert!(text(&sent.stderr).contains("an empty name"), "{}", text(&sent.stderr));
}

/// Nobody is asked for: what cannot be read is found before the receiver is.
#[test]
fn what_cannot_be_read_is_refused_before_anything_is_sent() {
    let from = tempfile::tempdir().unwrap();
    let top = from.path().join("top");
    fs::create_dir(&top).unwrap();
    fs::write(top.join("a"), b"readable").unwrap();
    for name in [from.path(), &top] {
        fs::set_permissions(name, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let secret = top.join("secret");
    for make in [|path: &Path| fs::write(path, b"x").unwrap(), |path: &Path| fs::create_dir(path).unwrap()] {
        make(&secret);
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o000)).unwrap();
        let mut command = pinnace(&["send", top.to_str().unwrap(), "127.0.0.1:9", "--timeout", "0.3"]);
        if geteuid().is_root() {
            // Root reads everything.
            command.uid(65_534);
        }
        let sent = match command.output() {
            Ok(sent) => sent,
            Err(error) => {
                return pinnace_testing::skip::host(format_args!("another user cannot run the program here ({error})"));
            }
        };
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o700)).unwrap();
        let error = text(&sent.stderr);
        assert_eq!(sent.status.code(), Some(1), "{error}");
        assert!(error.contains("top/secret: Permission denied"), "{error}");
        assert!(error.contains("check the owner and the permissions"), "{error}");
        // The second time it is a folder.
        let _ = fs::remove_file(&secret);
    }
}

#[test]
fn a_listener_that_takes_the_offer_and_does_not_answer_it_is_reported() {
    let from = tempfile::tempdir().unwrap();
    let file = from.path().join("name");
    fs::write(&file, b"content").unwrap();
    let listening = Listening::start(&["zcrp", "listen", "127.0.0.1:0"]);
    let send = ["send", file.to_str().unwrap(), &listening.address, "--timeout", "1"];
    let mut sender = pinnace(&send).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let begun = Instant::now();
    assert_eq!(wait(&mut sender), Some(3));
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    let error = text(&sender.wait_with_output().unwrap().stderr);
    assert!(error.contains("offer") && error.contains("pinnace recv"), "{error}");
}

#[test]
fn a_folder_that_cannot_be_written_and_a_second_receiver_are_refused() {
    let to = tempfile::tempdir().unwrap();
    let _first = receiver(to.path(), &[]);
    let dir = to.path().to_str().unwrap();
    let second = run(&["recv", "--bind", "127.0.0.1:0", "--dir", dir]);
    assert_eq!(second.status.code(), Some(1));
    assert!(text(&second.stderr).contains("another `pinnace recv`"));
    fs::write(to.path().join("file"), b"").unwrap();
    let file = to.path().join("file");
    let onto = run(&["recv", "--bind", "127.0.0.1:0", "--dir", file.to_str().unwrap()]);
    assert_eq!(onto.status.code(), Some(1));
    assert!(text(&onto.stderr).contains("file: it is a file; choose another folder"), "{}", text(&onto.stderr));
}

#[test]
fn no_folder_is_made_where_the_port_is_taken() {
    let to = tempfile::tempdir().unwrap();
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let dir = to.path().join("xx/yy");
    let refused = run(&["recv", "--bind", &taken.local_addr().unwrap().to_string(), "--dir", dir.to_str().unwrap()]);
    let error = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{error}");
    assert!(error.contains("another program has the port"), "{error}");
    assert_eq!(fs::read_dir(to.path()).unwrap().count(), 0);
}

/// What a file transfer can do of a service it does; of what it cannot it says which word, and why, and sends nothing.
#[test]
fn a_service_is_met_or_refused() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = from.path().join("cargo");
    fs::write(&file, content(200_000)).unwrap();
    let file = file.to_str().unwrap();
    let receiving = receiver(to.path(), &["--service", "path=cluster"]);
    let at = &receiving.address;
    for (args, said) in [
        (vec![file.to_owned(), format!("pinnace://{at}?path=cluster&in-place=yes&loss=5%")], "sent cargo"),
        (vec![file.to_owned(), at.clone(), "--service".to_owned(), "path=internet".to_owned()], "already there cargo"),
    ] {
        let args: Vec<&str> = ["send"].into_iter().chain(args.iter().map(String::as_str)).collect();
        let sent = run(&args);
        assert_eq!(sent.status.code(), Some(0), "{args:?}: {}", text(&sent.stderr));
        assert!(text(&sent.stdout).contains(said), "{args:?}: {}", text(&sent.stdout));
    }
    let uri = |words: &str| format!("pinnace://{at}?{words}");
    for (args, whys) in [
        (vec![uri("rate=100mbit&burst=64KiB")], &["rate=100mbit (", "burst=64KiB (", "promises no rate"][..]),
        (vec![at.clone(), "--service".to_owned(), "priority=3".to_owned()], &["priority=3", "priorities"]),
        (vec![uri("lifespan=1s")], &["lifespan=1s", "nothing of it is dropped"]),
        (vec![uri("multicast=3")], &["multicast=3", "one receiver"]),
        (vec![uri("path=cluster"), "--profile".to_owned(), "internet".to_owned()], &["--profile", "path=cluster"]),
        (vec![uri("path=cluster"), "--service".to_owned(), "prefer=throughput".to_owned()], &["--service"]),
        (vec![uri("los=5%")], &["`los=5%`", "loss=5%"]),
    ] {
        let args: Vec<&str> = ["send", file].into_iter().chain(args.iter().map(String::as_str)).collect();
        let refused = run(&args);
        let error = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{args:?}: {error}");
        assert!(whys.iter().all(|why| error.contains(why)) && refused.stdout.is_empty(), "{args:?}: {error}");
    }
    let refused = run(&["recv", "--bind", "127.0.0.1:0", "--service", "deadline=1s"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("deadline=1s (a file is of use"), "{}", text(&refused.stderr));
}

#[test]
fn several_senders_are_served_at_once_and_one_that_was_killed_is_followed() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = |name: &str, bytes| {
        let path = from.path().join(name);
        fs::write(&path, content(bytes)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (large, small) = (file("large", LARGE), file("small", 100_000));
    let mut receiving = receiver(to.path(), &["--json"]);
    let mut slow = slow_send(&large, &receiving.address);
    wait_until("some chunks have arrived", || chunks_kept(to.path()) >= 8);
    // It cannot end by itself now.
    assert!(Command::new("kill").args(["-STOP", &slow.id().to_string()]).status().unwrap().success());
    let send = || run(&["send", &small, &receiving.address]);
    let others = std::thread::scope(|scope| [(); 3].map(|()| scope.spawn(send)).map(|other| other.join().unwrap()));
    for sent in others {
        // All three send the same file: one after the other.
        assert_eq!(sent.status.code(), Some(0), "{}", text(&sent.stderr));
    }
    slow.kill().unwrap();
    slow.wait().unwrap();
    let kept = chunks_kept(to.path());
    let sent = run(&["send", &large, &receiving.address, "--chunk", "256KiB"]);
    assert_eq!(sent.status.code(), Some(0), "{}", text(&sent.stderr));
    receiving.signal("-INT");
    let (code, out, err) = receiving.finish();
    assert_eq!(code, Some(130), "{err}");
    assert!(err.contains("has not answered"), "{err}");
    let lines = objects(&out);
    let done: Vec<_> = lines.iter().filter(|line| line["event"] == "done").collect();
    assert_eq!(done.len(), 4, "{out}");
    let mut senders: Vec<u64> = done.iter().map(|line| line["sender"].as_u64().unwrap()).collect();
    senders.sort_unstable();
    assert_eq!(senders, [2, 3, 4, 5]);
    assert!(done[3]["bytes_resumed"].as_u64().unwrap() >= kept * (256 << 10), "{out}");
    assert_eq!(fs::read(to.path().join("large")).unwrap(), content(LARGE));
    assert_eq!(fs::read(to.path().join("small")).unwrap(), content(100_000));
}

#[test]
fn senders_for_whom_there_are_no_descriptors_are_served_when_there_are_some_again() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let dir = to.path().to_str().unwrap();
    let mut receiving = Listening::of(
        short_of_descriptors(26, &["recv", "--bind", "127.0.0.1:0", "--dir", dir, "--json"]).stdout(Stdio::piped()),
    );
    let senders: Vec<_> = (0..12)
        .map(|number| {
            let path = from.path().join(number.to_string());
            fs::write(&path, content(4 << 20)).unwrap();
            let args = ["send", path.to_str().unwrap(), &receiving.address, "--unit", "1200", "--profile", "internet"];
            pinnace(&args).args(["--timeout", "30"]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    for sender in senders {
        let sent = sender.wait_with_output().unwrap();
        assert_eq!(sent.status.code(), Some(0), "{}", text(&sent.stderr));
    }
    receiving.signal("-INT");
    let (code, out, err) = receiving.finish();
    assert_eq!((code, out.matches("\"event\":\"done\"").count()), (Some(130), 12), "{err}");
    assert_eq!(err.matches("`ulimit -n`").count(), 1, "{err}");
    assert_eq!(fs::read_dir(dir).unwrap().count(), 12);
}

#[test]
fn who_waits_for_another_sender_of_the_same_file_is_named_once() {
    let from = tempfile::tempdir().unwrap();
    let file = from.path().join("large");
    fs::write(&file, content(LARGE)).unwrap();
    for json in [false, true] {
        let to = tempfile::tempdir().unwrap();
        let mut receiving = receiver(to.path(), if json { &["--json"] } else { &[] });
        let mut slow = slow_send(file.to_str().unwrap(), &receiving.address);
        wait_until("some chunks have arrived", || chunks_kept(to.path()) >= 8);
        assert!(Command::new("kill").args(["-STOP", &slow.id().to_string()]).status().unwrap().success());
        let sent = run(&["send", file.to_str().unwrap(), &receiving.address, "--chunk", "256KiB"]);
        assert_eq!(sent.status.code(), Some(0), "{}", text(&sent.stderr));
        slow.kill().unwrap();
        slow.wait().unwrap();
        receiving.signal("-INT");
        let (code, out, err) = receiving.finish();
        assert_eq!(code, Some(130), "{err}");
        if json {
            let lines = out.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
            let waits: Vec<_> = lines.filter(|line| line["event"] == "waiting").collect();
            assert_eq!(waits.len(), 1, "{out}");
            let said = ["sender", "path", "held_by"].map(|key| &waits[0][key]);
            assert_eq!(said, [&serde_json::json!(2), &serde_json::json!("large"), &serde_json::json!(1)], "{out}");
            let addresses = ["peer", "held_by_peer"].map(|key| waits[0][key].as_str().unwrap().to_owned());
            assert!(addresses.iter().all(|address| address.starts_with("127.0.0.1:")), "{out}");
            assert_ne!(addresses[0], addresses[1]);
        } else {
            let waits: Vec<_> = err.lines().filter(|line| line.contains("waits")).collect();
            assert_eq!(waits.len(), 1, "{err}");
            assert!(waits[0].starts_with("pinnace: sender 2 (127.0.0.1:"), "{err}");
            assert!(waits[0].contains("sender 1 (127.0.0.1:") && waits[0].contains(" large"), "{err}");
        }
    }
}

#[test]
fn the_bars_of_several_senders_say_whose_they_are() {
    if Command::new("script").arg("--version").output().is_err() {
        pinnace_testing::skip::program("there is no `script`, which lends a terminal");
        return;
    }
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let command = format!(
        "stty cols 80; exec timeout --foreground 60 {} recv --bind 127.0.0.1:0 --dir {}",
        env!("CARGO_BIN_EXE_pinnace"),
        to.path().display()
    );
    // What the terminal shows comes where `Listening` looks for it.
    let mut terminal = Command::new("sh");
    terminal.args(["-c", "exec script -qec \"$0\" /dev/null >&2", &command]);
    let mut receiving = Listening::of(terminal.env("TERM", "xterm").stdin(Stdio::null()).stdout(Stdio::null()));
    let mut senders = ["one", "two"].map(|name| {
        let file = from.path().join(name);
        fs::write(&file, content(LARGE)).unwrap();
        slow_send(file.to_str().unwrap(), &receiving.address)
    });
    let address = receiving.address.clone();
    let names = |shown: &str| -> BTreeSet<String> {
        let bars = shown.split(['\r', '\n']).filter(|line| line.contains(" left"));
        let named =
            bars.flat_map(str::split_whitespace).filter_map(|word| word.find("127.0.0.1:").map(|at| &word[at..]));
        named.filter(|name| *name != address).map(str::to_owned).collect()
    };
    let shown = receiving.shown_until(|shown| names(shown).len() == 2);
    receiving.signal("-TERM");
    receiving.end();
    for sender in &mut senders {
        sender.kill().unwrap();
        sender.wait().unwrap();
    }
    assert_eq!(names(&shown).len(), 2, "{shown:?}");
}

#[test]
fn a_file_that_cannot_be_mapped_is_named_with_the_reason() {
    // Its size is that of a page, whatever is in it.
    let file = "/sys/kernel/uevent_seqnum";
    if !fs::metadata(file).is_ok_and(|found| found.len() > 0) {
        return pinnace_testing::skip::host(format_args!("there is no {file}"));
    }
    let to = tempfile::tempdir().unwrap();
    let receiving = receiver(to.path(), &["--once"]);
    let sent = run(&["send", file, &receiving.address]);
    assert_eq!(sent.status.code(), Some(1));
    assert!(text(&sent.stderr).contains("uevent_seqnum: its file system does not"), "{}", text(&sent.stderr));
    assert_eq!(receiving.finish().0, Some(1));
}

#[test]
fn a_file_that_is_cut_off_while_it_arrives_is_named() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = from.path().join("large");
    fs::write(&file, content(LARGE)).unwrap();
    let receiving = receiver(to.path(), &["--once"]);
    let mut sender = slow_send(file.to_str().unwrap(), &receiving.address);
    wait_until("some chunks have arrived", || chunks_kept(to.path()) >= 8);
    fs::OpenOptions::new().write(true).open(partial(to.path())).unwrap().set_len(1000).unwrap();
    let (code, _, err) = receiving.finish();
    assert_eq!(code, Some(1), "{err}");
    assert!(err.contains("what had arrived of large in .pinnace-partial became shorter"), "{err}");
    wait(&mut sender);
    assert!(!to.path().join("large").exists());
}

#[test]
fn a_limit_to_the_size_of_files_is_an_error_that_both_ends_hear_of() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = from.path().join("large");
    fs::write(&file, content(300_000)).unwrap();
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -f 100 && exec \"$@\"", "sh", env!("CARGO_BIN_EXE_pinnace"), "recv", "--once"]);
    limited.args(["--bind", "127.0.0.1:0", "--dir", to.path().to_str().unwrap()]);
    let receiving = Listening::of(limited.stdout(Stdio::piped()));
    let sent = run(&["send", file.to_str().unwrap(), &receiving.address]);
    let (code, _, err) = receiving.finish();
    assert_eq!((code, sent.status.code()), (Some(1), Some(1)), "{err}{}", text(&sent.stderr));
    for error in [err, text(&sent.stderr)] {
        assert!(error.contains("large: File too large") && error.contains("`ulimit -f`"), "{error}");
    }
}

#[test]
fn a_file_system_that_does_not_say_how_much_is_free_is_no_full_one() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = from.path().join("name");
    fs::write(&file, content(300_000)).unwrap();
    let dir = to.path().to_str().unwrap();
    // Files in memory, without a limit; they go with the mount namespace.
    let mount = "mount -t ramfs none \"$0\" || exit 77";
    let isolated = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", &format!("{mount}; {script}"), dir, env!("CARGO_BIN_EXE_pinnace")]);
        command
    };
    if !isolated("exit 0").output().is_ok_and(|tried| tried.status.success()) {
        return pinnace_testing::skip::host("needs mount namespaces and ramfs");
    }
    let receive = "exec \"$1\" recv --once --bind 127.0.0.1:0 --dir \"$0\"";
    let receiving = Listening::of(isolated(receive).stdout(Stdio::piped()));
    let sent = run(&["send", file.to_str().unwrap(), &receiving.address]);
    let (code, _, err) = receiving.finish();
    assert_eq!((code, sent.status.code()), (Some(0), Some(0)), "{err}{}", text(&sent.stderr));
}

#[test]
fn a_read_only_folder_takes_files_that_were_added_and_stays_read_only() {
    let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (top, arrived) = (from.path().join("top"), to.path().join("top"));
    let modes = |mode: u32| {
        for folder in ["top/in", "top"].map(|name| from.path().join(name)) {
            fs::set_permissions(folder, fs::Permissions::from_mode(mode)).unwrap();
        }
    };
    let all = || ["top", "top/in"].map(|name| fs::metadata(to.path().join(name)).unwrap().permissions().mode() & 0o777);
    fs::create_dir_all(top.join("in")).unwrap();
    fs::write(top.join("in/first"), b"1").unwrap();
    for added in ["in/first", "in/second", "third"] {
        modes(0o755);
        fs::write(top.join(added), added).unwrap();
        modes(0o555);
        let Some(receiving) = receiver_of_a_user(to.path(), &["--overwrite"]) else { break };
        let sent = run(&["send", top.to_str().unwrap(), &receiving.address]);
        let (code, _, err) = receiving.finish();
        assert_eq!((code, sent.status.code()), (Some(0), Some(0)), "{added}: {err}{}", text(&sent.stderr));
        assert_eq!(fs::read(arrived.join(added)).unwrap(), added.as_bytes());
        assert_eq!(all(), [0o555; 2]);
    }
    // What ends early leaves the permissions as they were.
    modes(0o755);
    fs::write(top.join("in/fourth"), content(LARGE)).unwrap();
    modes(0o555);
    if let Some(receiving) = receiver_of_a_user(to.path(), &[]) {
        let mut sender = slow_send(top.to_str().unwrap(), &receiving.address);
        wait_until("some chunks have arrived", || chunks_kept(to.path()) >= 8);
        sender.kill().unwrap();
        sender.wait().unwrap();
        assert_eq!(receiving.finish().0, Some(3));
        assert_eq!(all(), [0o555; 2]);
    }
    // So that they can be removed.
    modes(0o755);
    for folder in ["top/in", "top"].map(|name| to.path().join(name)) {
        let _ = fs::set_permissions(folder, fs::Permissions::from_mode(0o755));
    }
}
