//! `pinnace cast` and `pinnace tune`: streams to several sinks, and what happens to them.

mod common;

use common::relay::Relay;
use common::{Listening, objects, pinnace, run, text, wait, wait_for_size};
use serde_json::Value;
use std::io::Write;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A WAV file of so many milliseconds: 8 kHz, stereo, 32,000 bytes a second.
fn wav(folder: &Path, millis: u32) -> PathBuf {
    let spec =
        hound::WavSpec { channels: 2, sample_rate: 8000, bits_per_sample: 16, sample_format: hound::SampleFormat::Int };
    let path = folder.join(format!("{millis}.wav"));
    let mut writer = hound::WavWriter::create(&path, spec).expect("a file");
    (0..millis * 16).for_each(|n| writer.write_sample((n.wrapping_mul(40_503) >> 3) as i16).expect("written"));
    writer.finalize().expect("written");
    path
}

/// A sink that writes into `out`.
fn tune(out: &Path, more: &[&str]) -> Listening {
    Listening::start(&[&["tune", "127.0.0.1:0", "--idle", "block", "-o", out.to_str().unwrap()], more].concat())
}

fn cast(file: &Path, to: &[&str], more: &[&str]) -> Child {
    let mut args = vec!["cast", file.to_str().unwrap()];
    to.iter().for_each(|to| args.extend(["--to", to]));
    pinnace(&[&args, more].concat()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs")
}

fn end(child: Child) -> (Option<i32>, String, String) {
    let output = child.wait_with_output().expect("it ends");
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn signal(child: &Child, signal: &str) {
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().expect("kill runs").success());
}

fn same(one: &Path, other: &Path) -> bool {
    std::fs::read(one).expect("readable") == std::fs::read(other).expect("readable")
}

#[test]
fn nothing_goes_back_and_neither_end_says_otherwise() {
    use pinnace::a1;
    let folder = tempfile::tempdir().unwrap();
    let sink = tune(&folder.path().join("out"), &[]);
    let source = a1::Socket::client(a1::reliable(), &a1::Options::default()).expect("a socket");
    let qos = a1::Qos { largest_sent: 1024, largest_received: 0, ..a1::reliable() };
    drop(source.connect(&*sink.address, qos).expect("who takes nothing can send to it"));

    let most = a1::Qos { largest_sent: 0, largest_received: u32::MAX, outstanding: 1, ..a1::reliable() };
    let socket = a1::Socket::bind_with("127.0.0.1:0", most, &a1::Options::default()).expect("a socket");
    socket.listen(1).expect("it listens");
    let mut child = cast(&wav(folder.path(), 100), &[&socket.local_addr().to_string()], &[]);
    let come = socket.accept_timeout(Duration::from_secs(20)).expect("it listens").expect("somebody comes");
    assert_eq!(come.peer_qos().expect("it is there").largest_received, 0);
    child.kill().expect("killed");
    child.wait().expect("waited");
}

#[test]
fn several_sinks_get_it_byte_for_byte_at_its_own_pace() {
    let folder = tempfile::tempdir().unwrap();
    let song = wav(folder.path(), 1000);
    let outs: Vec<PathBuf> = (0..3).map(|n| folder.path().join(format!("out{n}"))).collect();
    let sinks: Vec<Listening> = outs.iter().map(|out| tune(out, &[])).collect();
    let to: Vec<&str> = sinks.iter().map(|sink| sink.address.as_str()).collect();
    let begun = Instant::now();
    let (code, out, err) = end(cast(&song, &to, &[]));
    assert_eq!(code, Some(0), "{err}");
    // The last of 50 blocks of 20 ms is due after 980 ms.
    assert!(begun.elapsed() >= Duration::from_millis(980), "{:?}", begun.elapsed());
    assert!(out.contains("50 blocks") && out.contains("to 3 sinks"), "{out}");
    for (sink, out) in sinks.into_iter().zip(&outs) {
        let (code, said, err) = sink.finish();
        assert_eq!(code, Some(0), "{err}");
        assert!(said.starts_with("stream 32044 bytes "), "{said}");
        assert!(same(out, &song), "{err}");
    }
}

#[test]
fn sinks_of_both_families_on_this_host_are_reached() {
    if UdpSocket::bind("[::1]:0").is_err() {
        pinnace_testing::skip::host("there is no IPv6 here");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let song = wav(folder.path(), 100);
    let outs = ["4", "6"].map(|name| folder.path().join(name));
    let six = ["tune", "[::1]:0", "--idle", "block", "-o", outs[1].to_str().unwrap()];
    let sinks = [tune(&outs[0], &[]), Listening::start(&six)];
    let (code, _, err) = end(cast(&song, &[&sinks[0].address, &sinks[1].address], &[]));
    assert_eq!(code, Some(0), "{err}");
    for (sink, out) in sinks.into_iter().zip(&outs) {
        assert_eq!(sink.finish().0, Some(0), "{err}");
        assert!(same(out, &song), "{err}");
    }
}

#[test]
fn large_pieces_in_small_blocks_fit_into_the_window() {
    let folder = tempfile::tempdir().unwrap();
    // A window of 1,024 messages of a megabyte, which sinks could send, would have too many blocks.
    let song = wav(folder.path(), 200);
    for mode in ["reliable", "raw"] {
        let out = folder.path().join(mode);
        let sink = tune(&out, &["--mode", mode]);
        let more = ["--mode", mode, "--block", "256", "--buffer", "3600s"];
        let (code, _, err) = end(cast(&song, &[&sink.address], &more));
        assert_eq!(code, Some(0), "{mode}: {err}");
        let (code, _, err) = sink.finish();
        assert_eq!(code, Some(0), "{mode}: {err}");
        assert!(same(&out, &song), "{mode}: {err}");
    }
}

#[test]
fn without_repetitions_what_comes_is_in_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let song = wav(folder.path(), 600);
    let out = folder.path().join("out");
    let sink = tune(&out, &["--mode", "raw", "--json"]);
    let (code, _, err) = end(cast(&song, &[&sink.address], &["--mode", "raw", "--block", "256"]));
    assert_eq!(code, Some(0), "{err}");
    let (code, said, err) = sink.finish();
    assert_eq!(code, Some(0), "{err}");
    let done: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
    assert_eq!((&done["event"], &done["bytes"]), (&"done".into(), &19_244.into()));
    // On loopback nothing is lost but on a busy machine: then it is told, and zero.
    assert!(done["blocks_lost"] != 0 || same(&out, &song), "{done}");
    assert_eq!(std::fs::metadata(&out).unwrap().len(), 19_244);
}

/// Stands before a sink, at another address with the same port, and loses every `n`th datagram.
fn lossy(sink: &str, n: u64) -> Relay {
    let (port, mut count) = (sink.rsplit(':').next().unwrap(), 0);
    Relay::at(format!("127.0.0.2:{port}"), sink, move |_, _| {
        count += 1;
        count % n != 0
    })
}

#[test]
fn a_lossy_path_loses_nothing_with_repetitions_and_tells_what_without() {
    let folder = tempfile::tempdir().unwrap();
    let song = wav(folder.path(), 1000);
    for mode in ["reliable", "raw"] {
        let out = folder.path().join(mode);
        let sink = tune(&out, &["--mode", mode, "--json"]);
        let path = lossy(&sink.address, 7);
        let (code, _, err) = end(cast(&song, &[&path.address.to_string()], &["--mode", mode, "--block", "400"]));
        assert_eq!(code, Some(0), "{mode}: {err}");
        let (code, said, err) = sink.finish();
        assert_eq!(code, Some(0), "{mode}: {err}");
        let lines = objects(&said);
        let done = lines.last().unwrap();
        if mode == "reliable" {
            assert!(same(&out, &song), "{err}");
            assert_eq!(done["blocks_lost"], 0, "{done}");
            continue;
        }
        let lost: u64 =
            lines.iter().filter(|line| line["event"] == "lost").map(|line| line["blocks_lost"].as_u64().unwrap()).sum();
        assert!(lost > 0 && done["blocks_lost"] == lost, "{done}");
        // Zeros where something is missing, and everything else where it belongs.
        let (copy, original) = (std::fs::read(&out).unwrap(), std::fs::read(&song).unwrap());
        let holes: Vec<[usize; 2]> = serde_json::from_value(done["holes"].clone()).unwrap();
        assert!(copy.len() <= original.len() && !holes.is_empty(), "{done}");
        // If the first header was lost, it was tuned in late.
        let missed = done["bytes_missed"].as_u64().unwrap() as usize;
        for (at, byte) in copy.iter().enumerate() {
            let is_hole = holes.iter().any(|[from, to]| (*from..*to).contains(&at));
            let place = if at < 44 { at } else { at + missed };
            assert_eq!(*byte, if is_hole { 0 } else { original[place] }, "{at}: {done}");
        }
    }
}

/// A sink that is here does not wait for one whose port is closed, and not for long for one that says nothing.
#[test]
fn who_is_here_does_not_wait_for_who_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let song = wav(folder.path(), 300);
    for is_closed in [true, false] {
        let out = folder.path().join(is_closed.to_string());
        let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
        let absent = silent.local_addr().unwrap().to_string();
        let silent = (!is_closed).then_some(silent);
        let sink = tune(&out, &[]);
        let begun = Instant::now();
        let (code, _, err) = end(cast(&song, &[&sink.address, &absent], &[]));
        assert!(begun.elapsed() < Duration::from_millis(2800), "{:?}: {err}", begun.elapsed());
        assert_eq!(code, Some(3), "{err}");
        assert_eq!(err.contains(&format!("{absent}: its UDP port is closed")), is_closed, "{err}");
        assert!(!err.contains("does UDP reach it"), "{err}");
        drop(silent);
        assert_eq!(sink.finish().0, Some(0));
        assert!(same(&out, &song));
    }
}

#[test]
fn a_sink_that_is_killed_does_not_stop_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let song = wav(folder.path(), 4000);
    let (out, part) = (folder.path().join("out"), folder.path().join("part"));
    let (sink, mut dies) = (tune(&out, &[]), tune(&part, &[]));
    let casting = cast(&song, &[&sink.address, &dies.address], &["--timeout", "1"]);
    wait_for_size(&part, 8000);
    dies.kill();
    let (code, _, err) = end(casting);
    assert_eq!(code, Some(3), "{err}");
    assert!(err.contains("is gone") && err.contains("1 of 2 sinks did not get the end"), "{err}");
    let (code, _, err) = sink.finish();
    assert_eq!(code, Some(0), "{err}");
    assert!(same(&out, &song), "{err}");
}

#[test]
fn a_sink_that_stands_still_is_dropped_and_the_others_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let song = wav(folder.path(), 4000);
    let (out, part) = (folder.path().join("out"), folder.path().join("part"));
    let (sink, mut slow) = (tune(&out, &[]), tune(&part, &[]));
    let more = ["--slow-sink", "drop", "--patience", "300ms", "--buffer", "200ms", "--timeout", "30"];
    let casting = cast(&song, &[&sink.address, &slow.address], &more);
    wait_for_size(&part, 8000);
    slow.signal("-STOP");
    let (code, _, err) = end(casting);
    slow.signal("-CONT");
    assert_eq!(code, Some(3), "{err}");
    assert!(err.contains("too slow, and was dropped"), "{err}");
    let (code, _, err) = sink.finish();
    assert_eq!(code, Some(0), "{err}");
    assert!(same(&out, &song), "{err}");
}

#[test]
fn a_sender_that_starts_anew_goes_on_in_the_same_output() {
    let folder = tempfile::tempdir().unwrap();
    let song = wav(folder.path(), 3000);
    let out = folder.path().join("out");
    let sink = tune(&out, &["--timeout", "3"]);
    let mut first = cast(&song, &[&sink.address], &[]);
    wait_for_size(&out, 8000);
    first.kill().unwrap();
    first.wait().unwrap();
    let (code, _, err) = end(cast(&song, &[&sink.address], &[]));
    assert_eq!(code, Some(0), "{err}");
    let (code, _, err) = sink.finish();
    assert_eq!(code, Some(0), "{err}");
    let (copy, original) = (std::fs::read(&out).unwrap(), std::fs::read(&song).unwrap());
    // The header once, some of the samples, and then all of them.
    assert_eq!(copy[..44], original[..44]);
    assert!(copy.len() > original.len() && copy.ends_with(&original[44..]), "{} {err}", copy.len());
    assert!(original.starts_with(&copy[..copy.len() - (original.len() - 44)]), "{err}");
}

#[test]
fn who_tunes_in_late_gets_the_header_and_what_follows() {
    let folder = tempfile::tempdir().unwrap();
    let song = wav(folder.path(), 6000);
    let (early, late) = (folder.path().join("early"), folder.path().join("late"));
    let sink = tune(&early, &[]);
    let free = pinnace_testing::ports::nobody().to_string();
    let casting = cast(&song, &[&sink.address, &free], &["--timeout", "1"]);
    wait_for_size(&early, 32_000);
    let second = Listening::start(&["tune", &free, "-o", late.to_str().unwrap(), "--json"]);
    let (code, _, err) = end(casting);
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(sink.finish().0, Some(0));
    let (code, said, err) = second.finish();
    assert_eq!(code, Some(0), "{err}");
    let done: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
    let missed = done["bytes_missed"].as_u64().unwrap() as usize;
    assert!(missed > 0 && done["blocks_lost"] == 0, "{done}");
    let (copy, original) = (std::fs::read(&late).unwrap(), std::fs::read(&song).unwrap());
    assert_eq!(copy[..44], original[..44]);
    assert_eq!(copy[44..], original[44 + missed..]);
    assert!(same(&early, &song));
}

#[test]
fn a_change_of_quality_is_shown_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let song = wav(folder.path(), 2000);
    let out = folder.path().join("out");
    let sink = tune(&out, &["--json", "--every", "100ms"]);
    let (code, _, err) = end(cast(&song, &[&sink.address], &["--change", "800ms:rate=8mbit,priority=3"]));
    assert_eq!(code, Some(0), "{err}");
    let (code, said, err) = sink.finish();
    assert_eq!(code, Some(0), "{err}");
    let lines = objects(&said);
    let priorities: Vec<u64> = lines
        .iter()
        .filter(|line| line["event"] == "qos")
        .map(|line| line["qos"]["priority"].as_u64().unwrap())
        .collect();
    assert_eq!(priorities, [16, 3], "{said}");
    let status = lines.iter().rev().find(|line| line["event"] == "status").expect("a line");
    assert_eq!((&status["qos"]["bits_per_second"], &status["qos_changes"]), (&8_000_000.into(), &1.into()));
    for field in ["bits_per_second", "jitter_ms", "jitter_p99_ms", "late_p99_ms", "blocks_lost", "window_blocks"] {
        assert!(status[field].is_number(), "{field}: {status}");
    }
    assert!(status["window_full"].is_null(), "a sink cannot know it: {status}");
    assert!(same(&out, &song));
}

#[test]
fn ctrl_c_ends_both_in_good_order() {
    let folder = tempfile::tempdir().unwrap();
    let song = wav(folder.path(), 300);
    let out = folder.path().join("out");
    let sink = tune(&out, &[]);
    let casting = cast(&song, &[&sink.address], &["--loop"]);
    // Round and round, the header once.
    let original = std::fs::read(&song).unwrap();
    wait_for_size(&out, 2 * original.len() as u64 + 9000);
    signal(&casting, "-INT");
    assert_eq!(end(casting).0, Some(130));
    let (code, said, err) = sink.finish();
    assert_eq!(code, Some(0), "the sender has said that it is over: {err}");
    assert!(said.starts_with("stream "), "{said}");
    let copy = std::fs::read(&out).unwrap();
    assert!(copy.len() > 2 * original.len() && copy.starts_with(&original), "{}", copy.len());
    assert_eq!(copy[original.len()..][..9000], original[44..][..9000]);

    let mut sink = tune(&out, &[]);
    sink.signal("-INT");
    assert_eq!(sink.finish().0, Some(130));
}

#[test]
fn bytes_go_through_at_a_rate_and_nothing_is_a_stream_too() {
    let folder = tempfile::tempdir().unwrap();
    for size in [0, 1, 40_000] {
        let bytes: Vec<u8> = (0..size).map(|n: u32| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let sink = pinnace(&["tune", "127.0.0.1:0", "-o", "-"]);
        let listening = { sink }.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
        let (address, listening) = address(listening);
        let mut casting = pinnace(&["cast", "-", "--rate", "800kbit", "--to", &address])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it runs");
        casting.stdin.take().expect("piped").write_all(&bytes).expect("written");
        assert_eq!(wait(&mut casting), Some(0), "{size}");
        let output = listening.wait_with_output().expect("it ends");
        assert_eq!((output.status.code(), output.stdout), (Some(0), bytes), "{size}");
    }
    let empty = folder.path().join("empty");
    std::fs::write(&empty, b"").unwrap();
    let out = folder.path().join("out");
    let sink = tune(&out, &[]);
    let (code, _, err) = end(cast(&empty, &[&sink.address], &["--rate", "1mbit"]));
    assert_eq!(code, Some(0), "{err}");
    let (code, said, _) = sink.finish();
    assert!(code == Some(0) && said.starts_with("stream 0 bytes e3b0c442"), "{said}");
}

/// Where it listens; standard error is read on, so that it never fills.
fn address(mut child: Child) -> (String, Child) {
    use std::io::{BufRead, BufReader, Read};
    let mut stderr = BufReader::new(child.stderr.take().expect("piped"));
    let mut line = String::new();
    while !line.contains(" on 127.") {
        line.clear();
        assert_ne!(stderr.read_line(&mut line).expect("readable"), 0);
    }
    std::thread::spawn(move || stderr.read_to_end(&mut Vec::new()));
    (line.split_whitespace().last().expect("a word").to_owned(), child)
}

#[test]
fn films_are_cast_picture_by_picture() {
    let folder = tempfile::tempdir().unwrap();
    let film = folder.path().join("film.y4m");
    let mut bytes = b"YUV4MPEG2 W64 H48 F50:1 Ip A1:1 C420jpeg\n".to_vec();
    for picture in 0..20u8 {
        bytes.extend_from_slice(b"FRAME\n");
        bytes.extend((0..64 * 48 * 3 / 2).map(|n: u32| (n as u8).wrapping_mul(picture)));
    }
    std::fs::write(&film, &bytes).unwrap();
    let out = folder.path().join("out");
    let sink = tune(&out, &[]);
    let (code, said, err) = end(cast(&film, &[&sink.address], &[]));
    assert!(code == Some(0) && said.contains("20 blocks"), "{said} {err}");
    let (code, _, err) = sink.finish();
    assert!(code == Some(0) && err.contains("64x48 pixels, 50.00 pictures a second"), "{err}");
    assert!(same(&out, &film));
}

#[test]
fn a_film_that_breaks_off_is_not_over() {
    let folder = tempfile::tempdir().unwrap();
    let (film, out) = (folder.path().join("film.y4m"), folder.path().join("out"));
    let mut bytes = b"YUV4MPEG2 W64 H48 F50:1 Ip A1:1 C420jpeg\n".to_vec();
    for picture in 0..20 {
        bytes.extend_from_slice(if picture == 10 { b"FROME\n" } else { b"FRAME\n" });
        bytes.extend([picture; 64 * 48 * 3 / 2]);
    }
    std::fs::write(&film, &bytes).unwrap();
    let sink = tune(&out, &["--wait", "3"]);
    let (code, _, err) = end(cast(&film, &[&sink.address], &[]));
    assert_eq!(code, Some(1), "{err}");
    let (code, _, err) = sink.finish();
    assert!(code == Some(3) && err.contains("before the end of the stream"), "{code:?} {err}");
}

#[test]
fn mistakes_have_their_codes() {
    let folder = tempfile::tempdir().unwrap();
    let song = wav(folder.path(), 100);
    let song = song.to_str().unwrap();
    for wrong in [
        &["cast"][..],
        &["cast", song],
        &["cast", song, "--to", "127.0.0.1"],
        &["cast", song, "--to", "127.0.0.1:1", "--group", "127.0.0.1:5"],
        &["cast", song, "--to", "127.0.0.1:1", "--slow-sink", "kill"],
        &["cast", song, "--to", "127.0.0.1:1", "--change", "5s"],
        &["cast", "/proc/self/exe", "--to", "127.0.0.1:1"],
        &["cast", "-", "--loop", "--rate", "1mbit", "--to", "127.0.0.1:1"],
        &["tune", "nowhere"],
        &["tune", "127.0.0.1:0", "-o", "-", "--json"],
    ] {
        assert_eq!(run(wrong).status.code(), Some(2), "{wrong:?}");
    }
    assert_eq!(run(&["cast", "/no/such/file", "--to", "127.0.0.1:1"]).status.code(), Some(1));
    assert_eq!(run(&["tune", "127.0.0.1:0", "-o", "/no/such/folder/file"]).status.code(), Some(1));
    assert_eq!(run(&["tune", "127.0.0.1:0", "--wait", "0.2"]).status.code(), Some(3));
    let nobody = run(&["cast", song, "--to", "127.0.0.1:9", "--timeout", "0.5"]);
    assert_eq!(nobody.status.code(), Some(3), "{}", text(&nobody.stderr));
    assert_eq!(text(&nobody.stderr).lines().count(), 1, "{}", text(&nobody.stderr));
    let sink = tune(&folder.path().join("out"), &[]);
    let taken = run(&["tune", &sink.address]);
    assert_eq!(taken.status.code(), Some(1));
    assert!(text(&taken.stderr).contains("another program has the port"), "{}", text(&taken.stderr));
    let differs = run(&["cast", song, "--to", &sink.address, "--mode", "raw"]);
    assert_eq!(differs.status.code(), Some(1), "{}", text(&differs.stderr));
    assert!(text(&differs.stderr).contains("needs the same --mode"), "{}", text(&differs.stderr));
}

/// Also when a sender was there, and had been for longer.
#[test]
fn who_gives_up_waiting_counts_from_what_came_last() {
    let folder = tempfile::tempdir().unwrap();
    let (song, out) = (wav(folder.path(), 500), folder.path().join("out"));
    let sink = tune(&out, &["--wait", "1"]);
    let mut source = cast(&song, &[&sink.address], &["--loop"]);
    // Two seconds of it.
    wait_for_size(&out, 64_000);
    source.kill().unwrap();
    source.wait().unwrap();
    let begun = Instant::now();
    let (code, _, err) = sink.finish();
    let took = begun.elapsed();
    assert_eq!(code, Some(3), "{err}");
    assert!((Duration::from_millis(900)..Duration::from_secs(4)).contains(&took), "{took:?}: {err}");
    let said = err.lines().last().and_then(|line| line.strip_prefix("pinnace: nothing came for "));
    let seconds: f64 = said.and_then(|said| said.split(' ').next()).and_then(|said| said.parse().ok()).expect(&err);
    assert!((1.0..=took.as_secs_f64() + 0.5).contains(&seconds), "{took:?}: {err}");
}
