//! `pinnace stream`, from source to sink.

mod common;

use common::{Listening, objects, pinnace, run, text, wait, wait_until, wait_until_interruptible};
use serde_json::Value;
use std::io::Write;
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// A receiver that writes into `folder`.
fn receiver(folder: &Path, more: &[&str]) -> Listening {
    let (frames, log) = (folder.join("frames"), folder.join("log.jsonl"));
    let mut args = vec!["--json", "stream", "recv", "--bind", "127.0.0.1:0"];
    args.extend(["--dir", frames.to_str().unwrap(), "--log", log.to_str().unwrap()]);
    Listening::start(&[&args[..], more].concat())
}

fn log(folder: &Path) -> Vec<Value> {
    objects(&std::fs::read_to_string(folder.join("log.jsonl")).expect("the log"))
}

/// The frames as they were written, by number.
fn frames(folder: &Path) -> Vec<Vec<u8>> {
    let mut files: Vec<_> =
        std::fs::read_dir(folder.join("frames")).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    files.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

#[test]
fn frames_arrive_as_they_were_and_each_has_a_line() {
    for over in ["vrp", "tcp"] {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("source");
        std::fs::create_dir(&source).unwrap();
        let sent: Vec<Vec<u8>> = (1..=6_u32).map(|n| (0..n * 20_000).map(|i| (i * n) as u8).collect()).collect();
        for (number, frame) in sent.iter().enumerate() {
            std::fs::write(source.join(format!("{number}")), frame).unwrap();
        }
        let receiver = receiver(folder.path(), &["--over", over]);
        let mut args =
            vec!["--json", "stream", "send", "--to", &receiver.address, "--source", source.to_str().unwrap()];
        args.extend(["--fps", "50", "--deadline", "30s", "--ahead", "16", "--over", over]);
        if over == "vrp" {
            args.extend(["--loss-rate", "10%", "--run", "2packets", "--critical", "0..1KiB"]);
        }
        let sender = run(&args);
        assert_eq!(sender.status.code(), Some(0), "{}", text(&sender.stderr));
        let (code, out, err) = receiver.finish();
        assert_eq!((code, &*err), (Some(0), ""));

        assert_eq!(frames(folder.path()), sent, "{over}: nothing is lost on loopback");
        let log = log(folder.path());
        assert_eq!(log.len(), sent.len());
        for (line, frame) in log.iter().zip(&sent) {
            assert_eq!((line["bytes"].as_u64(), line["bytes_lost"].as_u64()), (Some(frame.len() as u64), Some(0)));
            assert!(line["age_ms"].as_f64().is_some_and(|age| age > 0.0) && line["holes"] == Value::Array(vec![]));
        }
        let received = objects(&out).pop().expect("a summary");
        assert_eq!((&received["event"], &received["frames"]), (&"done".into(), &6.into()));
        assert_eq!((&received["frames_offered"], &received["frames_in_time"]), (&6.into(), &6.into()));
        assert_eq!((&received["deadline_ms"], &received["ending"]["frames_sent"]), (&30_000.0.into(), &6.into()));
        let sent = objects(&text(&sender.stdout)).pop().expect("a summary");
        assert_eq!((&sent["frames_acknowledged"], &sent["frames_left_out"]), (&6.into(), &0.into()));
    }
}

#[test]
fn standard_input_is_cut_into_frames_and_films_into_pictures() {
    let raw: Vec<u8> = (0..25_000_u32).map(|i| (i / 7) as u8).collect();
    let film = [&b"YUV4MPEG2 W10 H5 Cmono\nFRAME\n"[..], &[1; 50], b"FRAME\n", &[2; 50]].concat();
    for (input, more, expected) in [
        (&raw, &["--size", "10kB"][..], raw.chunks(10_000).map(<[u8]>::to_vec).collect::<Vec<_>>()),
        (&film, &[], vec![vec![1; 50], vec![2; 50]]),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let receiver = receiver(folder.path(), &[]);
        let args = ["stream", "send", "--to", &receiver.address, "--source", "-", "--fps", "100", "--ahead", "16"];
        let mut sender =
            pinnace(&[&args[..], more].concat()).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        sender.stdin.take().expect("piped").write_all(input).unwrap();
        assert_eq!(wait(&mut sender), Some(0));
        assert_eq!(receiver.finish().0, Some(0));
        assert_eq!(frames(folder.path()), expected);
    }
}

/// Nobody has opened the other end yet: to open this one takes until somebody does.
#[test]
fn a_named_pipe_is_waited_for_and_read_from_its_first_byte() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    if !Command::new("mkfifo").arg(&pipe).status().is_ok_and(|status| status.success()) {
        return pinnace_testing::skip::program("there is no `mkfifo`");
    }
    let receiver = receiver(folder.path(), &[]);
    let args = ["stream", "send", "--to", &receiver.address, "--source", pipe.to_str().unwrap()];
    let send = |more: &[&str]| {
        pinnace(&[&args[..], more].concat()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let mut sender = send(&[]);
    wait_until_interruptible(&sender);
    std::thread::sleep(Duration::from_millis(200));
    assert!(Command::new("kill").args(["-INT", &sender.id().to_string()]).status().unwrap().success());
    assert_eq!(wait(&mut sender), Some(130));
    receiver.finish();

    let folder = tempfile::tempdir().unwrap();
    let receiver = self::receiver(folder.path(), &[]);
    let args = ["stream", "send", "--to", &receiver.address, "--source", pipe.to_str().unwrap(), "--fps", "100"];
    let mut sender = pinnace(&args).args(["--ahead", "16"]).stdout(Stdio::null()).spawn().unwrap();
    std::fs::write(&pipe, b"YUV4MPEG2 W10 H5 Cmono\nFRAME\n01234567890123456789012345678901234567890123456789")
        .unwrap();
    assert_eq!(wait(&mut sender), Some(0));
    assert_eq!(receiver.finish().0, Some(0));
    assert_eq!(frames(folder.path()), [b"01234567890123456789012345678901234567890123456789"]);
    let again = run(&["stream", "send", "--to", "127.0.0.1:9", "--source", pipe.to_str().unwrap(), "--repeat"]);
    assert_eq!(again.status.code(), Some(2));
    assert!(text(&again.stderr).contains("pipe comes but once"), "{}", text(&again.stderr));
}

#[test]
fn who_sends_one_frame_and_falls_silent_gives_way_to_another() {
    let folder = tempfile::tempdir().unwrap();
    let receiver = receiver(folder.path(), &["--timeout", "60"]);
    let camera = ["stream", "send", "--to", &receiver.address, "--source", "camera:160x90"];
    let stranger = [&camera[..], &["--fps", "0.01"]].concat();
    let mut stranger = pinnace(&stranger).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("a frame has come", || folder.path().join("frames/frame-000000.bin").exists());
    stranger.kill().unwrap();
    stranger.wait().unwrap();
    // As long as that, and some more.
    std::thread::sleep(Duration::from_millis(1800));
    let sender = run(&[&camera[..], &["--fps", "30", "--count", "5"]].concat());
    assert_eq!(sender.status.code(), Some(0), "{}", text(&sender.stderr));
    let (code, out, _) = receiver.finish();
    let done = objects(&out).pop().expect("a result");
    assert_eq!((code, &done["frames"], &done["messages_dropped"]), (Some(0), &5.into(), &1.into()), "{out}");
}

#[test]
fn the_camera_is_the_same_every_time_and_a_count_ends_both_sides() {
    let mut films = Vec::new();
    for _ in 0..2 {
        let folder = tempfile::tempdir().unwrap();
        let receiver = receiver(folder.path(), &["--count", "3"]);
        let to = receiver.address.clone();
        let camera = ["--source", "camera:160x90", "--count", "3", "--fps", "30", "--ahead", "16"];
        let sender = run(&[&["stream", "send", "--to", &to][..], &camera].concat());
        assert_eq!(sender.status.code(), Some(0), "{}", text(&sender.stderr));
        assert!(text(&sender.stdout).contains("3 of 3 (100.0 %) frames over VRP"));
        assert_eq!(receiver.finish().0, Some(0));
        films.push(frames(folder.path()));
    }
    assert_eq!(films[0], films[1]);
    assert!(films[0].len() == 3 && films[0].iter().all(|frame| frame.len() == 160 * 90 * 3));
    assert_ne!(films[0][0], films[0][2]);
}

#[test]
fn nobody_there_is_said_in_one_line() {
    // Nobody reads here.
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let output = run(&["stream", "send", "--to", &address, "--timeout", "500ms"]);
    let error = text(&output.stderr);
    assert_eq!((output.status.code(), error.lines().count()), (Some(3), 1), "{error}");
    assert!(error.contains(&address) && error.contains("stream recv"), "{error}");
}

#[test]
fn a_sender_that_was_killed_is_missed_and_what_came_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let receiver = receiver(folder.path(), &["--timeout", "500ms"]);
    let mut sender = pinnace(&["stream", "send", "--to", &receiver.address, "--size", "10kB", "--fps", "100"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let log_file = folder.path().join("log.jsonl");
    wait_until("a frame arrives", || std::fs::metadata(&log_file).is_ok_and(|log| log.len() > 0));
    sender.kill().unwrap();
    sender.wait().unwrap();
    let (code, out, err) = receiver.finish();
    assert_eq!(code, Some(3), "{err}");
    assert!(err.contains("the sender was killed"), "{err}");
    let summary = objects(&out).into_iter().find(|line| line["event"] == "done").expect("a summary");
    assert_eq!(summary["frames"].as_u64(), Some(log(folder.path()).len() as u64));
}

/// In the same words as with VRP.
#[test]
fn over_tcp_a_peer_that_was_killed_is_missed_at_either_end() {
    for is_sender in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let mut receiver = receiver(folder.path(), &["--over", "tcp"]);
        let send = ["stream", "send", "--over", "tcp", "--to", &receiver.address, "--size", "10kB", "--fps", "100"];
        let mut sender = pinnace(&send).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let log_file = folder.path().join("log.jsonl");
        wait_until("a frame arrives", || std::fs::metadata(&log_file).is_ok_and(|log| log.len() > 0));
        let (code, err) = if is_sender {
            sender.kill().unwrap();
            sender.wait().unwrap();
            let (code, _, err) = receiver.finish();
            (code, err)
        } else {
            receiver.kill();
            let output = sender.wait_with_output().unwrap();
            (output.status.code(), text(&output.stderr))
        };
        let who = if is_sender { "the sender was killed" } else { "has stopped answering: it was ended" };
        assert_eq!(code, Some(3), "{err}");
        assert!(err.contains(who) && err.contains("or the network between is down"), "{err}");
        assert!(!err.contains("buffer") && !err.contains("os error"), "{err}");
    }
}

#[test]
fn an_interrupt_ends_both_sides_with_their_tables() {
    let folder = tempfile::tempdir().unwrap();
    let receiver = receiver(folder.path(), &[]);
    let sender = pinnace(&["--json", "stream", "send", "--to", &receiver.address, "--size", "10kB", "--fps", "100"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let log_file = folder.path().join("log.jsonl");
    wait_until("a frame arrives", || std::fs::metadata(&log_file).is_ok_and(|log| log.len() > 0));
    let kill = Command::new("kill").args(["-INT", &sender.id().to_string()]).status().unwrap();
    assert!(kill.success());
    let output = sender.wait_with_output().unwrap();
    assert_eq!((output.status.code(), &*text(&output.stderr)), (Some(130), "pinnace: interrupted\n"));
    let said = objects(&text(&output.stdout));
    assert_eq!((&said[0]["event"], &said[1]["event"], said.len()), (&"done".into(), &"error".into(), 2));
    let (code, out, _) = receiver.finish();
    assert_eq!(code, Some(0), "the sender has said that this was the end");
    assert_eq!(objects(&out).pop().expect("a summary")["event"], "done");
}

#[test]
fn a_sink_that_is_interrupted_tells_its_source_at_once() {
    for (over, fps) in [("vrp", "100"), ("vrp", "2"), ("tcp", "100")] {
        let folder = tempfile::tempdir().unwrap();
        let mut receiver = receiver(folder.path(), &["--over", over]);
        let args = ["stream", "send", "--to", &receiver.address, "--size", "10kB", "--fps", fps, "--over", over];
        let mut sender = pinnace(&args);
        if over == "vrp" {
            sender.args(["--timeout", "50s"]);
        }
        let mut sender = sender.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let log_file = folder.path().join("log.jsonl");
        wait_until("a frame arrives", || std::fs::metadata(&log_file).is_ok_and(|log| log.len() > 0));
        let begun = std::time::Instant::now();
        receiver.signal("-INT");
        assert_eq!(receiver.finish().0, Some(130));
        assert_eq!(wait(&mut sender), Some(3), "{over} {fps}");
        assert!(begun.elapsed() < Duration::from_secs(10), "{over} {fps}: {:?}", begun.elapsed());
        let error = text(&sender.wait_with_output().unwrap().stderr);
        assert!(error.lines().count() == 1 && error.contains("ended"), "{over} {fps}: {error}");
    }
}

#[test]
fn a_port_that_is_taken_is_reported_in_one_line() {
    for over in ["vrp", "tcp"] {
        let first = Listening::start(&["stream", "recv", "--bind", "127.0.0.1:0", "--over", over]);
        let output = run(&["stream", "recv", "--bind", &first.address, "--over", over]);
        let error = text(&output.stderr);
        assert_eq!((output.status.code(), error.lines().count()), (Some(1), 1), "{error}");
        assert!(error.contains(&first.address) && error.contains("choose another"), "{error}");
    }
}

#[test]
fn arguments_that_make_no_sense_are_refused() {
    let send = ["stream", "send", "--to", "127.0.0.1:9"];
    for (more, about) in [
        (&["--fps", "0"][..], "frames a second"),
        (&["--run", "8packets"], "--loss-rate"),
        (&["--loss-rate", "10"], "10%"),
        (&["--loss-rate", "10%", "--run", "8parcels"], "8packets"),
        (&["--loss-rate", "10%", "--critical", "5..5"], "empty"),
        (&["--deadline", "80ms", "--give-up", "20ms"], "--give-up"),
        (&["--over", "tcp", "--loss-rate", "10%"], "TCP knows no contract"),
        (&["--over", "carrier-pigeon"], "tcp-cubic"),
        (&["--congestion", "reno"], "bbr"),
        (&["--source", "camera:0x0"], "camera:1280x720"),
        (&["--source", "camera:16x9", "--size", "10kB"], "--size"),
        (&["--source", "-", "--repeat"], "--repeat"),
        (&["--size", "0"], "--size"),
        (&["--count", "0"], "--count"),
        (&["--duration", "0s"], "must be longer than 0"),
        (&["--deadline", "0s"], "must be longer than 0"),
    ] {
        let output = run(&[&send[..], more].concat());
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{more:?}: {error}");
        assert!(error.contains(about) && output.stdout.is_empty(), "{more:?}: {error}");
    }
    let output = run(&[&send[..], &["--source", "/no/such/file"]].concat());
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("/no/such/file"));
    for nothing in [["--count", "0"], ["--deadline", "0s"]] {
        let output = run(&[&["stream", "recv", "--bind", "127.0.0.1:0"][..], &nothing].concat());
        assert_eq!(output.status.code(), Some(2), "{nothing:?}");
    }
}

/// A service stands in the place of the options that say the same, and both at once are refused.
#[test]
fn a_service_says_what_the_options_say() {
    let folder = tempfile::tempdir().unwrap();
    let receiver = receiver(folder.path(), &[]);
    let uri = format!(
        "pinnace://{}?loss=10%&run=64KiB&critical=0..1KiB,4KiB..5KiB&size=50kB&rate=800mbit&burst=256KiB&deadline=2s&lifespan=10s&path=cluster",
        receiver.address
    );
    let sender = run(&["--json", "stream", "send", "--to", &uri, "--source", "camera", "--fps", "50", "--count", "5"]);
    assert_eq!(sender.status.code(), Some(0), "{}", text(&sender.stderr));
    let (code, out, err) = receiver.finish();
    assert_eq!((code, &*err), (Some(0), ""));
    let ended = objects(&out).pop().expect("a summary");
    assert_eq!((&ended["frames"], &ended["deadline_ms"]), (&5.into(), &2000.0.into()), "{ended}");
    let log = log(folder.path());
    assert!(log.len() == 5 && log.iter().all(|line| line["bytes"] == 50_000), "{log:?}");

    let send = ["stream", "send", "--to", "127.0.0.1:9", "--service"];
    for (words, more, about) in [
        ("loss=10%", &["--loss-rate", "5%"][..], "--loss-rate"),
        ("loss=10%", &["--loss-rate", "5%", "--run", "8packets"], "--run"),
        ("deadline=80ms", &["--deadline", "80ms"], "--deadline"),
        ("lifespan=80ms", &["--give-up", "80ms"], "--give-up"),
        ("rate=1mbit", &["--rate", "2mbit"], "--rate"),
        ("size=1MB", &["--size", "1MB"], "--size"),
        ("loss=10%", &["--over", "tcp"], "--over"),
        ("priority=3", &[], "priority=3 (VRP"),
        ("multicast=2", &[], "multicast=2 (a stream"),
        ("rate=1mbit burst=1KiB", &[], "leave at once"),
        ("deadline=80ms lifespan=20ms", &[], "--give-up"),
        ("los=10%", &[], "`los=10%`"),
    ] {
        let output = run(&[&send[..], &[words], more].concat());
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words} {more:?}: {error}");
        assert!(error.contains(about) && output.stdout.is_empty(), "{words} {more:?}: {error}");
    }
}

/// The sink takes the words that the source takes, as a URI or beside the address: it counts by them.
#[test]
fn a_sink_takes_the_service_of_its_source() {
    const WORDS: &str =
        "loss=10% run=64KiB critical=0..1KiB size=50kB rate=800mbit deadline=2s lifespan=10s path=cluster";
    let bind = format!("pinnace://127.0.0.1:0?{}", WORDS.replace(' ', "&"));
    for args in [&["--bind", &bind][..], &["--bind", "127.0.0.1:0", "--service", WORDS]] {
        let receiver = Listening::start(&[&["--json", "stream", "recv"][..], args].concat());
        // The source says nothing of a deadline: that is the sink's own.
        let to = ["--to", &receiver.address, "--size", "50kB", "--fps", "50", "--count", "4"];
        let sender = run(&[&["stream", "send"][..], &to].concat());
        assert_eq!(sender.status.code(), Some(0), "{}", text(&sender.stderr));
        let (code, out, err) = receiver.finish();
        assert_eq!((code, &*err), (Some(0), ""));
        let ended = objects(&out).pop().expect("a summary");
        assert_eq!((&ended["frames"], &ended["deadline_ms"]), (&4.into(), &2000.0.into()), "{ended}");
        assert_eq!((&ended["frames_in_time"], &ended["frames_as_agreed"]), (&4.into(), &4.into()), "{ended}");
    }
}

/// Frames that are not as the sink was told are counted, and said.
#[test]
fn a_sink_tells_of_frames_that_are_not_as_its_service_says() {
    let receiver = Listening::start(&["--json", "stream", "recv", "--bind", "pinnace://127.0.0.1:0?size=10kB"]);
    let to = ["--to", &receiver.address, "--size", "20kB", "--fps", "50", "--count", "3"];
    let sender = run(&[&["stream", "send"][..], &to].concat());
    assert_eq!(sender.status.code(), Some(0), "{}", text(&sender.stderr));
    let (code, out, err) = receiver.finish();
    assert_eq!(code, Some(0));
    assert_eq!(err.matches("not as the service says: it has 20000 bytes, not 10000").count(), 1, "{err}");
    let ended = objects(&out).pop().expect("a summary");
    assert_eq!((&ended["frames"], &ended["frames_as_agreed"]), (&3.into(), &0.into()), "{ended}");
}

#[test]
fn what_a_sink_cannot_meet_is_refused() {
    let recv = ["stream", "recv", "--bind", "127.0.0.1:0", "--service"];
    for (words, more, about) in [
        ("deadline=80ms", &["--deadline", "80ms"][..], "--deadline"),
        ("loss=10%", &["--over", "tcp"], "--over"),
        ("priority=3", &[], "pinnace stream recv cannot meet priority=3 (VRP"),
        ("multicast=2", &[], "multicast=2 (a stream"),
        ("los=10%", &[], "`los=10%`"),
        ("rate=1mbit burst=1KiB", &[], "leave at once"),
    ] {
        let output = run(&[&recv[..], &[words], more].concat());
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words} {more:?}: {error}");
        assert!(error.contains(about) && output.stdout.is_empty(), "{words} {more:?}: {error}");
    }
    for (bind, about) in [("pinnace://127.0.0.1?loss=5%", "port"), ("pinnace://127.0.0.1:0?los=5%", "los=5%")] {
        let output = run(&["stream", "recv", "--bind", bind]);
        let error = text(&output.stderr);
        assert!(output.status.code() == Some(2) && error.contains(about), "{bind}: {error}");
    }
    let twice = run(&["stream", "recv", "--bind", "pinnace://127.0.0.1:0?size=1KiB", "--service", "size=2KiB"]);
    assert!(twice.status.code() == Some(2) && text(&twice.stderr).contains("--service"));
}

/// A receiver has no room for them; nobody listens here, of which nothing is heard.
#[test]
fn frames_that_are_too_large_are_refused_before_anything_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let large = folder.path().join("large");
    std::fs::create_dir(&large).unwrap();
    std::fs::write(large.join("1"), b"small").unwrap();
    std::fs::File::create(large.join("2")).unwrap().set_len(256 << 20).unwrap();
    let film = folder.path().join("film");
    std::fs::write(&film, b"YUV4MPEG2 W20000 H20000 Cmono\nFRAME\n").unwrap();
    for (args, code) in [
        (&["--size", "256MiB"][..], 2),
        (&["--size", "257MiB", "--source", film.to_str().unwrap()], 2),
        (&["--service", "size=256MiB"], 2),
        (&["--source", "camera:20000x20000"], 2),
        (&["--source", large.to_str().unwrap()], 1),
        (&["--source", film.to_str().unwrap()], 1),
    ] {
        let output = run(&[&["stream", "send", "--to", "127.0.0.1:9"][..], args].concat());
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {error}");
        assert!(error.contains("255 MiB") && output.stdout.is_empty(), "{args:?}: {error}");
    }
}

#[test]
fn what_a_receiver_refuses_is_said_and_is_no_success() {
    use pinnace::vrp;
    let folder = tempfile::tempdir().unwrap();
    for (number, bytes) in [10_000, 200_000, 10_000].into_iter().enumerate() {
        std::fs::write(folder.path().join(format!("{number}")), vec![7; bytes]).unwrap();
    }
    let mut options = vrp::Options::default();
    options.limits.bytes = 100_000;
    let send = |more: &[&str]| {
        let receiver = vrp::Receiver::bind("127.0.0.1:0", &options).unwrap();
        let to = receiver.local_addr().to_string();
        let output = run(&[&["stream", "send", "--fps", "20", "--to", &to][..], more].concat());
        let error = text(&output.stderr);
        assert_eq!((output.status.code(), error.lines().count()), (Some(1), 1), "{more:?}: {error}");
        assert!(error.contains(&format!("{to} has refused 1 frame")), "{more:?}: {error}");
        (text(&output.stdout), error)
    };
    // It refuses all of them: that is known after the first.
    let (out, error) = send(&["--size", "200kB", "--count", "40"]);
    assert!(out.contains("given up      1\n") && !out.contains("nothing is missing"), "{out}");
    assert!(error.contains("frame 0 of 200000 bytes"), "{error}");
    // Those before and behind it arrive.
    let (out, error) = send(&["--source", folder.path().to_str().unwrap(), "--json"]);
    let said = objects(&out);
    let events: Vec<_> = said.iter().map(|object| object["event"].as_str().unwrap()).collect();
    assert_eq!(events, ["done", "error"], "{out}");
    assert_eq!((&said[0]["frames_given_up"], &said[0]["frames_acknowledged"]), (&1.into(), &2.into()), "{out}");
    assert!(error.contains("frame 1 of 200000 bytes"), "{error}");
}

#[test]
fn a_frame_that_was_given_up_does_not_count_as_whole() {
    let folder = tempfile::tempdir().unwrap();
    let receiver = receiver(folder.path(), &[]);
    // Nothing of 5 MB arrives in time at such a rate.
    let late = ["--size", "5MB", "--count", "1", "--give-up", "50ms", "--rate", "1mbit"];
    let sender = run(&[&["stream", "send", "--to", &receiver.address][..], &late].concat());
    let out = text(&sender.stdout);
    assert_eq!(sender.status.code(), Some(0), "{}", text(&sender.stderr));
    assert!(out.contains("given up      1") && out.contains("holes         none in the frames that arrived"), "{out}");
    assert_eq!(receiver.finish().0, Some(0));
}
