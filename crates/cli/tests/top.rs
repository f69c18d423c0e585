//! `pinnace top`: what real processes do is seen, and what is dead is not. Also the manual pages, and words of a service for
//! `perf` and `ping`.

mod common;

use common::{Listening, objects, pinnace, run, text, wait_until};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Stdio};

/// What is seen of the processes that keep their files in this folder.
fn seen(folder: &str, options: &[&str]) -> Vec<Value> {
    let args = [&["top", "--once", "--json", "--every", "200ms"], options].concat();
    let output = pinnace(&args).env("PINNACE_COUNTERS", folder).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    objects(&text(&output.stdout))
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn connections_are_seen_with_their_service_and_rates_and_vanish_when_killed() {
    for method in ["vrp", "zcrp", "xtp", "qmp", "a1"] {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("counters");
        let place = place.to_str().unwrap();
        let mut listener = pinnace(&["listen", "127.0.0.1:0", "--no-input"]);
        let listening = Listening::of(listener.env("PINNACE_COUNTERS", place).stdout(Stdio::null()));
        let uri = format!("pinnace://{}?loss=5%&run=64KiB&size=10KB", listening.address);
        let mut sender = pinnace(&["connect", &uri, "--method", method]);
        sender.env("PINNACE_COUNTERS", place).stdin(std::fs::File::open("/dev/zero").unwrap());
        let errors = folder.path().join("errors");
        sender.stdout(Stdio::null()).stderr(std::fs::File::create(&errors).unwrap());
        let mut sender = Killed(sender.spawn().unwrap());
        let pid = u64::from(sender.0.id());
        let mut rows = Vec::new();
        wait_until(method, || {
            let said = || std::fs::read_to_string(&errors).unwrap();
            assert!(sender.0.try_wait().unwrap().is_none(), "{method}: it has ended: {}", said());
            rows = seen(place, &[]);
            let of = |row: &&Value| row["kind"] == "connection" && row["protocol"] == method;
            let rate = |what: &str| rows.iter().filter(of).any(|row| row[what].as_f64().unwrap() > 0.0);
            rate("bytes_sent_per_second") && rate("bytes_received_per_second")
        });
        let row = rows.iter().find(|row| row["pid"] == pid && row["kind"] == "connection").unwrap();
        assert_eq!((&row["program"], &row["state"]), (&"pinnace".into(), &"open".into()), "{row}");
        assert_eq!(row["service"], "loss=5% run=64KiB size=10kB direction=duplex", "{row}");
        assert!(row["peer"].as_str().unwrap().starts_with("127.0.0.1:"), "{row}");
        assert!(row["messages_sent"].as_u64().unwrap() * 10_000 == row["bytes_sent"].as_u64().unwrap(), "{row}");
        let mut table = pinnace(&["top", "--once", "--every", "100ms"]);
        let table = text(&table.env("PINNACE_COUNTERS", place).output().unwrap().stdout);
        assert!(table.contains("loss=5% run=64KiB") && table.contains(&pid.to_string()), "{table}");
        assert!(seen(place, &["--pid", "1"]).is_empty());
        sender.0.kill().unwrap();
        sender.0.wait().unwrap();
        assert!(seen(place, &[]).iter().all(|row| row["pid"] != pid), "{method}: the dead are not shown");
        assert!(!std::path::Path::new(place).join(pid.to_string()).exists(), "and swept");
    }
}

#[test]
fn a_process_may_hide_and_a_table_without_rows_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().to_str().unwrap();
    let mut listener = pinnace(&["listen", "127.0.0.1:0"]);
    let _listening = Listening::of(listener.env("PINNACE_COUNTERS", "off").stdout(Stdio::null()));
    let table = pinnace(&["top", "--once", "--every", "50ms"]).env("PINNACE_COUNTERS", place).output().unwrap();
    assert!(text(&table.stdout).contains("nobody uses Pinnace here now"));
    let off = pinnace(&["top", "--once"]).env("PINNACE_COUNTERS", "off").output().unwrap();
    assert_eq!((off.status.code(), text(&off.stderr).lines().count()), (Some(1), 1));
    for wrong in [&["top", "--every", "never"][..], &["top", "--every", "1ms"], &["top", "--sort", "colour"]] {
        assert_eq!(run(wrong).status.code(), Some(2), "{wrong:?}");
    }
}

/// Others have rows meanwhile.
#[test]
fn a_process_that_is_asked_for_and_not_seen_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("counters");
    let mut listener = pinnace(&["listen", "127.0.0.1:0"]);
    let _listening = Listening::of(listener.env("PINNACE_COUNTERS", &place).stdout(Stdio::null()));
    let top = |pid: &str, more: &[&str]| {
        let args = [&["top", "--once", "--every", "50ms", "--pid", pid], more].concat();
        let output = pinnace(&args).env("PINNACE_COUNTERS", &place).output().unwrap();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    // No process has such a number, and one that is no number of a process is one that nobody has.
    for pid in ["99999999", "4294967295", "0"] {
        let said = format!("there is no process {pid}");
        let (code, out, err) = top(pid, &[]);
        assert_eq!((code, &*out, err.lines().count()), (Some(1), "", 1), "{err}");
        assert!(err.contains(&said), "{err}");
        let (code, out, _) = top(pid, &["--json"]);
        let error = objects(&out).pop().expect("an object");
        assert_eq!((code, &error["event"]), (Some(1), &"error".into()), "{out}");
        assert!(error["error"].as_str().unwrap().contains(&said), "{out}");
    }
    // This one keeps no file there.
    let pid = std::process::id().to_string();
    let said = format!("process {pid} does not use Pinnace now");
    let (code, out, err) = top(&pid, &[]);
    assert!(code == Some(0) && out.contains(&said) && err.is_empty(), "{out}{err}");
    let (code, out, err) = top(&pid, &["--json"]);
    assert!(code == Some(0) && out.is_empty() && err.contains(&said), "{out}{err}");
}

/// One that has nobody to talk with any more, and ends while it is looked at.
#[test]
fn a_process_without_connections_is_named_and_so_is_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("counters");
    let mut listener = pinnace(&["listen", "127.0.0.1:0", "--keep", "--no-input"]);
    let mut listening = Listening::of(listener.env("PINNACE_COUNTERS", &place).stdout(Stdio::null()));
    // Behind the first connection there is a file.
    assert_eq!(run(&["connect", &listening.address]).status.code(), Some(0));
    let pid = listening.id().to_string();
    let mut top = pinnace(&["top", "--every", "50ms", "--pid", &pid]);
    let mut top = Killed(top.env("PINNACE_COUNTERS", &place).stdout(Stdio::piped()).spawn().unwrap());
    let mut said = BufReader::new(top.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    let alone = format!("process {pid} has no connections now");
    assert!(said.any(|line| line.contains(&alone)));
    listening.kill();
    let over = format!("process {pid} has ended");
    assert!(said.any(|line| line.contains(&over)));
}

#[test]
fn it_ends_when_nobody_reads_it() {
    for options in [&[][..], &["--json"]] {
        let folder = tempfile::tempdir().unwrap();
        let mut top = pinnace(&[&["top", "--every", "600s"], options].concat());
        top.env("PINNACE_COUNTERS", folder.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut top = Killed(top.spawn().unwrap());
        drop(top.0.stdout.take());
        wait_until("it has ended", || top.0.try_wait().unwrap().is_some());
        let mut error = String::new();
        std::io::Read::read_to_string(&mut top.0.stderr.take().unwrap(), &mut error).unwrap();
        assert_eq!((top.0.wait().unwrap().code(), &*error), (Some(0), ""), "{options:?}");
    }
}

/// However it ends.
#[test]
fn the_terminal_is_as_it_was_when_it_has_ended() {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use rustix::termios::{LocalModes, tcgetattr};
    let folder = tempfile::tempdir().unwrap();
    for (key, code) in [(None, 130), (Some(b"q"), 0), (Some(b"\x03"), 130), (Some(b"\x1b"), 0)] {
        let near = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&near).and_then(|()| unlockpt(&near)).unwrap();
        let name = ptsname(&near, Vec::new()).unwrap().into_string().unwrap();
        // A terminal of its own, as Ctrl-C is for those whose it is.
        let script = "exec \"$@\" < \"$0\" > \"$0\"";
        let mut top = std::process::Command::new("setsid");
        top.args(["sh", "-c", script, &name, env!("CARGO_BIN_EXE_pinnace"), "top"]);
        let far = std::fs::File::options().read(true).write(true).open(&name).unwrap();
        let modes = || tcgetattr(&far).unwrap();
        let before = modes();
        let mut top = Killed(
            top.env("PINNACE_COUNTERS", folder.path()).stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap(),
        );
        let (mut screen, mut near) = (std::fs::File::from(near.try_clone().unwrap()), std::fs::File::from(near));
        std::thread::spawn(move || std::io::copy(&mut screen, &mut std::io::sink()));
        wait_until("keys are read one by one", || !modes().local_modes.contains(LocalModes::ICANON));
        match key {
            Some(key) => std::io::Write::write_all(&mut near, key).unwrap(),
            None => {
                let pid = rustix::process::Pid::from_child(&top.0);
                rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
            }
        }
        wait_until("it has ended", || top.0.try_wait().unwrap().is_some());
        assert_eq!(top.0.wait().unwrap().code(), Some(code), "{key:?}");
        let after = modes();
        let both = [&before, &after].map(|modes| (modes.local_modes, modes.input_modes, modes.control_modes));
        assert_eq!(both[0], both[1], "{key:?}");
    }
}

#[test]
fn what_lies_beside_the_files_is_harmless() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    std::fs::write(at("1"), [0xff; 300_000]).unwrap();
    std::fs::write(at("2"), b"").unwrap();
    std::fs::create_dir(at("3")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", at("4")).unwrap();
    pipe(&at("5"));
    assert!(seen(folder.path().to_str().unwrap(), &[]).is_empty());
    assert!(!at("1").exists() && at("3").exists(), "what has a process's name and no process is swept");
    // In a folder that others may enter nothing is removed, and nothing is written.
    let open = folder.path().join("open");
    std::fs::create_dir(&open).unwrap();
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::write(open.join("7"), b"not ours").unwrap();
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&open, &link).unwrap();
    for place in [&open, &link] {
        let mut listener = pinnace(&["listen", "127.0.0.1:0"]);
        let listening = Listening::of(listener.env("PINNACE_COUNTERS", place).stdout(Stdio::null()));
        let connected = pinnace(&["connect", &listening.address]).env("PINNACE_COUNTERS", place).output().unwrap();
        assert_eq!(connected.status.code(), Some(0));
        assert!(seen(place.to_str().unwrap(), &[]).is_empty());
        assert_eq!(std::fs::read_dir(&open).unwrap().count(), 1);
    }
}

/// A pipe with nobody at its other end: to open it for reading would wait.
fn pipe(path: &std::path::Path) {
    let made = std::process::Command::new("mkfifo").arg(path).status();
    assert!(made.is_ok_and(|status| status.success()));
}

#[test]
fn every_command_has_a_manual_page() {
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man1");
    let output = run(&["man", pages.to_str().unwrap(), "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let done: Value = serde_json::from_slice(&output.stdout).unwrap();
    let names: Vec<_> = std::fs::read_dir(&pages).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(done["pages"], names.len());
    for name in ["pinnace", "pinnace-listen", "pinnace-connect", "pinnace-top", "pinnace-perf", "pinnace-zcrp-send"] {
        let page = std::fs::read_to_string(pages.join(format!("{name}.1"))).unwrap_or_else(|_| panic!("{name}"));
        assert!(
            page.contains(".TH") && page.contains(".SH SYNOPSIS") && page.contains(&name.replace('-', "\\-")),
            "{name}"
        );
    }
    assert!(!pages.join("pinnace-perf-worker.1").exists(), "what is hidden has none");
    for shell in ["bash", "zsh", "fish"] {
        let script = text(&run(&["completion", shell]).stdout);
        assert!(["listen", "connect", "top"].iter().all(|command| script.contains(command)), "{shell}");
        let is_hidden = |command: &&str| script.contains(&command.replace('-', "__")) || script.contains(command);
        assert_eq!(["perf-worker", "run-companion"].iter().find(|it| is_hidden(it)), None, "{shell}");
    }
}

#[test]
fn words_of_a_service_are_measured_over_the_one_interface() {
    let lines = |args: &[&str]| -> Vec<Value> {
        let output = run(args);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", text(&output.stderr));
        objects(&text(&output.stdout))
    };
    let perf = ["perf", "--rounds", "1", "--bytes", "2MiB", "--json", "--against", "service-xtp"];
    let measured = lines(&[&perf[..], &["--service", "size=64KiB in-place=yes"]].concat());
    let own = measured.iter().find(|line| line["transport"] == "service").unwrap();
    assert_eq!((&own["method"], &own["size"]), (&"zcrp".into(), &65_536.into()), "{own}");
    assert!(own["gbit_s"].as_f64().unwrap() > 0.0, "{own}");
    let ping = ["ping", "--rounds", "1", "--count", "20", "--sizes", "100", "--json"];
    let pinged = lines(&[&ping[..], &["--service", "loss=5% run=4KiB", "--against", "service-vrp"]].concat());
    let of = |name: &str| pinged.iter().find(|line| line["transport"] == name).unwrap();
    assert_eq!(of("service-vrp")["method"], "vrp");
    assert!(of("service")["p50_us"].as_f64().unwrap() > 0.0);
    for (args, says) in [
        (&["perf", "--protocol", "vrp", "--service", "loss=5%"][..], "only `service` takes words"),
        (&["ping", "--protocol", "xtp", "--service", "loss=5%"], "only `service` takes words"),
        (&["perf", "--service", "los=5%"], "did you mean `loss=5%`"),
        (&["perf", "--protocol", "service-tcp"], "there are shared-memory, zcrp"),
        (&["perf", "--service", "pinnace://h:1"], "give the words alone"),
    ] {
        let output = run(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(text(&output.stderr).contains(says), "{args:?}: {}", text(&output.stderr));
    }
}
