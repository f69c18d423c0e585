//! `pinnace a1 listen` and `send`, `pinnace perf` and `ping --protocol a1`, `pinnace demo a1`.

mod common;

use common::relay::Relay;
use common::{Listening, content, fed, line, objects, pinnace, run, text, wait};
use serde_json::Value;
use std::process::Stdio;
use std::time::{Duration, Instant};

fn listen(more: &[&str]) -> Listening {
    Listening::start(&[&["a1", "listen", "127.0.0.1:0"], more].concat())
}

#[test]
fn both_ends_print_the_same_lines() {
    for mode in ["reliable", "raw"] {
        for (size, more) in [(0, &[][..]), (1, &["--checksum"]), (1400, &[]), (300_000, &["--block", "1400"])] {
            let both: Vec<&str> = more.iter().copied().filter(|word| *word == "--checksum").collect();
            let listening = listen(&[&["--count", "3", "--mode", mode], &both[..]].concat());
            let to = listening.address.clone();
            let bytes = size.to_string();
            let send = ["a1", "send", "--to", &to, "--size", &bytes, "--count", "3", "--mode", mode, "-v"];
            let sent = run(&[&send, more].concat());
            let what = format!("{mode} {size}");
            assert_eq!(sent.status.code(), Some(0), "{what}: {}", text(&sent.stderr));
            let expected: String = (0..3).map(|number| line(&content(number, size))).collect();
            assert_eq!(text(&sent.stdout), expected, "{what}");
            let (code, out, err) = listening.finish();
            assert_eq!((code, &*err, out), (Some(0), "", expected), "{what}");
        }
    }
}

#[test]
fn files_and_standard_input_arrive_also_if_they_are_empty() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    let long = content(7, 3_000_000);
    for bytes in [&[][..], &long] {
        std::fs::write(path, bytes).unwrap();
        for is_piped in [false, true] {
            let listening = listen(&["--count", "1"]);
            let sent = if is_piped {
                fed(&["a1", "send", "-", &listening.address], bytes)
            } else {
                run(&["a1", "send", path, &listening.address])
            };
            assert_eq!(sent.status.code(), Some(0), "{}", text(&sent.stderr));
            let (code, out, _) = listening.finish();
            assert_eq!((code, out), (Some(0), line(bytes)));
        }
    }
}

#[test]
fn a_rate_is_kept() {
    let listening = listen(&["--count", "10"]);
    let begun = Instant::now();
    let rate = ["--rate", "4mbit", "--burst", "10kB", "--block", "1000", "--priority", "0"];
    let sent =
        run(&[&["a1", "send", "--to", &listening.address, "--size", "50kB", "--count", "10", "--json"], &rate[..]]
            .concat());
    assert_eq!(sent.status.code(), Some(0), "{}", text(&sent.stderr));
    let out = text(&sent.stdout);
    let done: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    assert_eq!((&done["event"], &done["messages"], &done["acknowledged"]), (&"done".into(), &10.into(), &true.into()));
    assert_eq!(done["bytes"], 500_000);
    let seconds = done["seconds"].as_f64().unwrap();
    // 490 kB at 500 kB a second, and nothing before its time.
    assert!((0.97..=begun.elapsed().as_secs_f64()).contains(&seconds), "{seconds}");
    assert_eq!(listening.finish().0, Some(0));
}

#[test]
fn messages_that_were_too_old_to_leave_do_not_count_as_sent() {
    // At this rate the burst leaves at once, and nothing else in time.
    for (sizes, code, whole) in [("300000", 1, 0), ("20000", 0, 1)] {
        let mut listening = listen(&["--mode", "raw"]);
        let send = ["--json", "a1", "send", "--to", &listening.address, "--mode", "raw", "--deadline", "150ms"];
        let more = ["--rate", "400kbit", "--burst", "20kB", "--block", "10000", "--count", "2", "--size", sizes];
        let sent = run(&[&send[..], &more].concat());
        let err = text(&sent.stderr);
        assert_eq!(sent.status.code(), Some(code), "{sizes}: {err}");
        assert_eq!(err.contains("--deadline"), code == 1, "{err}");
        let lines = objects(&text(&sent.stdout));
        let (messages, [done, ended @ ..]) = lines.split_at(2) else { panic!("{lines:?}") };
        assert!(ended.len() == code as usize && ended.iter().all(|line| line["exit"] == code), "{lines:?}");
        for (number, line) in messages.iter().enumerate() {
            let stale = number >= whole;
            assert_eq!((&line["message"], &line["stale"]), (&number.into(), &stale.into()), "{line}");
            assert_eq!((&line["whole"], &line["bytes"]), (&(!stale).into(), &sizes.parse::<u64>().unwrap().into()));
        }
        assert_eq!((&done["messages"], &done["messages_stale"]), (&whole.into(), &(2 - whole).into()), "{done}");
        // The burst, and what the rate lets leave within the deadline.
        let (bytes, blocks) = (done["bytes"].as_u64().unwrap(), done["blocks_sent"].as_u64().unwrap());
        assert!((20_000..=30_000).contains(&bytes) && bytes == blocks * 10_000, "{done}");
        listening.signal("-INT");
        assert_eq!(listening.finish().0, Some(130));
    }
}

#[test]
fn json_tells_what_people_read() {
    let listening = listen(&["--count", "1", "--json"]);
    let sent = run(&["a1", "send", "--to", &listening.address, "--size", "5000", "--json"]);
    assert_eq!(sent.status.code(), Some(0), "{}", text(&sent.stderr));
    let (received, sent) = (objects(&listening.finish().1), objects(&text(&sent.stdout)));
    assert_eq!((received.len(), sent.len()), (2, 2));
    assert_eq!(received[0]["event"], "listening");
    for field in ["event", "message", "bytes", "sha256", "whole", "lost"] {
        assert_eq!(received[1][field], sent[0][field], "{field}");
    }
    assert!(received[1]["peer"].as_str().unwrap().starts_with("127.0.0.1:"));
}

#[test]
fn mistakes_have_their_codes() {
    for wrong in [
        &["a1"][..],
        &["a1", "send", "f"],
        &["a1", "listen"],
        &["a1", "listen", "127.0.0.1"],
        &["a1", "send", "--size", "1", "--to", "127.0.0.1:1", "--mode", "lossy"],
        &["a1", "send", "--size", "1", "--to", "127.0.0.1:1", "--burst", "1kB"],
        &["a1", "send", "--size", "1", "--to", "127.0.0.1:1", "--block", "65476"],
        &["a1", "send", "--size", "1", "--to", "127.0.0.1:1", "--deadline", "1ms"],
        &["a1", "send", "--size", "1", "--to", "127.0.0.1:1", "--priority", "256"],
        &["a1", "send", "-", "127.0.0.1:1", "--count", "2"],
        &["perf", "--protocol", "zcrp", "--mode", "raw"],
        &["perf", "--protocol", "a1", "--block", "0"],
    ] {
        assert_eq!(run(wrong).status.code(), Some(2), "{wrong:?}");
    }
    let output = run(&["a1", "send", "/no/such/file", "127.0.0.1:1"]);
    assert_eq!(output.status.code(), Some(1));
    // A port that is taken, and one that nobody has.
    let listening = listen(&[]);
    let output = run(&["a1", "listen", &listening.address]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("another program has the port"), "{}", text(&output.stderr));
    let begun = Instant::now();
    let output = run(&["a1", "send", "--size", "1", "--to", "127.0.0.1:9", "--timeout", "2"]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    assert!(begun.elapsed() < Duration::from_secs(20));
    // Ends that differ.
    for differs in [&["--mode", "raw"][..], &["--checksum"], &["--size", "65MiB"]] {
        let size = if differs[0] == "--size" { &[][..] } else { &["--size", "1"] };
        let send = ["a1", "send", "--to", &listening.address];
        let output = run(&[&send, size, differs].concat());
        assert_eq!(output.status.code(), Some(1), "{differs:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains("refuses"), "{}", text(&output.stderr));
    }
}

#[test]
fn a_listener_that_is_killed_is_noticed_and_ctrl_c_ends_both() {
    let mut listening = listen(&[]);
    let send = ["a1", "send", "--size", "1MB", "--count", "1000", "--rate", "8mbit", "--timeout", "1", "--to"];
    let sending = |to: &str| {
        let args = [&send[..], &[to]].concat();
        pinnace(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs")
    };
    let mut sender = sending(&listening.address);
    // A message has come, and there are more.
    listening.next_bytes(1);
    listening.kill();
    assert_eq!(wait(&mut sender), Some(3));

    let mut listening = listen(&[]);
    let mut sender = sending(&listening.address);
    listening.next_bytes(1);
    let id = sender.id().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &id]).status().expect("kill runs").success());
    assert_eq!(wait(&mut sender), Some(130));
    listening.signal("-INT");
    assert_eq!(listening.finish().0, Some(130));
}

/// Stands before a listener, at the same port of another address, and passes on to it only what is short.
fn short_ones_to(listener: &str) -> Relay {
    let port = listener.rsplit(':').next().unwrap();
    Relay::at(format!("127.0.0.2:{port}"), listener, |is_senders, packet| !is_senders || packet.len() < 500)
}

/// The first connections have blocks that the path loses in silence; the last one's get through, and it alone counts.
#[test]
fn smaller_blocks_get_through_where_larger_ones_are_lost() {
    for most in [1_200, 600] {
        let listening = listen(&["--count", "2"]);
        let port = listening.address.rsplit(':').next().unwrap();
        let relay = Relay::at(format!("127.0.0.2:{port}"), &listening.address, move |_, packet| packet.len() <= most);
        let sent = run(&["a1", "send", "--to", &relay.address.to_string(), "--size", "200000", "--count", "2"]);
        let err = text(&sent.stderr);
        assert_eq!(sent.status.code(), Some(0), "{err}");
        assert_eq!(err.matches("loses all blocks of").count(), if most == 1_200 { 1 } else { 2 }, "{err}");
        let (code, out, err) = listening.finish();
        assert_eq!((code, out.lines().count()), (Some(0), 2), "{out}{err}");
    }
    // A size that was asked for stays as it is.
    let listening = listen(&["--count", "1"]);
    let port = listening.address.rsplit(':').next().unwrap();
    let relay = Relay::at(format!("127.0.0.2:{port}"), &listening.address, |_, packet| packet.len() <= 1_200);
    let sent = run(&["a1", "send", "--to", &relay.address.to_string(), "--size", "200000", "--block", "1400"]);
    assert_eq!(sent.status.code(), Some(3));
    assert!(text(&sent.stderr).contains("--block 1168"), "{}", text(&sent.stderr));
    let (code, _, err) = listening.finish();
    assert!(code == Some(3) && err.contains("ended the connection in the middle"), "{err}");
}

#[test]
fn messages_that_are_lost_whole_at_the_end_are_told_of() {
    for json in [false, true] {
        let listening =
            listen(&[&["--mode", "raw", "--count", "1"][..], if json { &["--json"] } else { &[] }].concat());
        let relay = short_ones_to(&listening.address);
        let to = relay.address.to_string();
        let sent = run(&["a1", "send", "--mode", "raw", "--to", &to, "--size", "1000", "--count", "3"]);
        assert_eq!(sent.status.code(), Some(0), "{}", text(&sent.stderr));
        let (code, out, err) = listening.finish();
        assert_eq!(code, Some(3), "{err}");
        assert!(err.contains("has closed the connection, and something was lost"), "{err}");
        assert!(err.contains("after 0 messages") && !err.contains("broke"), "{err}");
        if json {
            let lines = objects(&out);
            let events: Vec<&str> = lines.iter().map(|line| line["event"].as_str().unwrap()).collect();
            assert_eq!(events, ["listening", "lost", "error"], "{out}");
        } else {
            assert_eq!(out, "lost\n");
        }
    }
}

/// Every message has a gap and is told as what it is; that is no failure, and none counts for more than one.
#[test]
fn messages_with_gaps_have_come() {
    let listening = listen(&["--mode", "raw", "--count", "3", "--json"]);
    let port = listening.address.rsplit(':').next().unwrap();
    const DATA: u8 = 4;
    // The middle one of three blocks.
    let relay = Relay::at(format!("127.0.0.2:{port}"), &listening.address, |is_senders, packet| {
        !is_senders || packet[0] != DATA || u16::from_be_bytes([packet[16], packet[17]]) != 1
    });
    let to = relay.address.to_string();
    let send = ["a1", "send", "--mode", "raw", "--block", "1000", "--size", "3000", "--count", "3", "--to", &to];
    let sent = run(&send);
    assert_eq!(sent.status.code(), Some(0), "{}", text(&sent.stderr));
    let (code, out, err) = listening.finish();
    assert_eq!((code, &*err), (Some(0), ""), "{out}");
    let lines: Vec<Value> = out.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect();
    let numbers: Vec<u64> = lines.iter().map(|line| line["message"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [0, 0, 1, 1, 2, 2], "{out}");
    let lost: Vec<bool> = lines.iter().map(|line| line["lost"].as_bool().unwrap()).collect();
    assert_eq!(lost, [false, true, false, true, false, true], "{out}");
    assert!(lines.iter().all(|line| line["bytes"] == 1000 && line["whole"] == false), "{out}");
}

/// A source that has waited long enough for room says good-bye behind what has left, which was acknowledged.
#[test]
fn a_message_without_its_end_is_none_where_everything_is_repeated_and_told_of_where_it_is_not() {
    use pinnace::a1::{Full, Qos, Socket, raw, reliable};
    for (mode, record) in [("reliable", reliable()), ("raw", raw())] {
        let listening = listen(&["--mode", mode, "--count", "1"]);
        let to: std::net::SocketAddr = listening.address.parse().unwrap();
        let slow = Qos { block_size: 1000, send_average: 20_000, send_burst: 3000, ..record };
        let socket = Socket::connected(to, slow, &Default::default()).unwrap();
        let connection = socket.connect(to, slow).unwrap();
        connection.send(vec![7; 100_000], Full::Block).unwrap();
        let closed = connection.close(Duration::from_millis(300));
        let (code, out, err) = listening.finish();
        if mode == "reliable" {
            assert!(closed.is_err(), "a part has not left");
            assert_eq!(code, Some(3), "{out}{err}");
            assert!(err.contains("in the middle of a message, after 0 messages"), "{err}");
        } else {
            assert_eq!((code, &*err), (Some(0), ""), "{out}");
            assert!(out.starts_with("part ") && out.ends_with("\nlost\n"), "{out}");
        }
    }
}

const CLOSE_REPLY: u8 = 10;

/// A long path to a listener, which `passes` is asked for each packet.
fn long_path_to(listener: &str, mut passes: impl FnMut(bool, &[u8]) -> bool + Send + 'static) -> Relay {
    let port = listener.rsplit(':').next().unwrap();
    Relay::at(format!("127.0.0.2:{port}"), listener, move |is_senders, packet| {
        std::thread::sleep(Duration::from_millis(25));
        passes(is_senders, packet)
    })
}

#[test]
fn a_listener_that_is_done_answers_whoever_has_not_heard_so() {
    let listening = listen(&["--count", "1"]);
    let mut replies = 0;
    let relay = long_path_to(&listening.address, move |is_senders, packet| {
        replies += u32::from(!is_senders && packet[0] == CLOSE_REPLY);
        is_senders || packet[0] != CLOSE_REPLY || replies > 2
    });
    let sent = run(&["a1", "send", "--size", "1000", "--to", &relay.address.to_string()]);
    assert_eq!(sent.status.code(), Some(0), "{}", text(&sent.stderr));
    assert_eq!(listening.finish(), (Some(0), line(&content(0, 1000)), String::new()));
}

#[test]
fn a_sender_whose_listener_closes_answers_until_that_has_heard_so() {
    use pinnace::a1::{Socket, reliable};
    let server = Socket::bind("127.0.0.1:0", reliable()).unwrap();
    server.listen(1).unwrap();
    let mut replies = 0;
    let relay = long_path_to(&server.local_addr().to_string(), move |is_senders, packet| {
        replies += u32::from(is_senders && packet[0] == CLOSE_REPLY);
        !is_senders || packet[0] != CLOSE_REPLY || replies > 2
    });
    let to = relay.address.to_string();
    let sending = std::thread::spawn(move || run(&["a1", "send", "--size", "1000", "--to", &to]));
    let connection = server.accept().unwrap();
    assert_eq!(connection.recv().unwrap().as_deref(), Some(&content(0, 1000)[..]));
    let begun = Instant::now();
    connection.close(Duration::from_secs(15)).unwrap();
    assert!(begun.elapsed() < Duration::from_secs(10), "answered, and not given up: {:?}", begun.elapsed());
    assert!(connection.facts().is_ok_and(|facts| !facts.is_unanswered));
    let sent = sending.join().unwrap();
    assert_eq!(sent.status.code(), Some(0), "{}", text(&sent.stderr));
}

#[test]
fn a_sender_whose_farewell_is_not_answered_says_so_and_does_not_hang() {
    // On a short path CLOSE has been repeated as often as may be before the time is over.
    for (is_long, timeout) in [(true, "1"), (false, "30")] {
        let mut listening = listen(&[]);
        let passes = |_: bool, packet: &[u8]| packet[0] != CLOSE_REPLY;
        let relay = if is_long {
            long_path_to(&listening.address, passes)
        } else {
            let port = listening.address.rsplit(':').next().unwrap();
            Relay::at(format!("127.0.0.2:{port}"), &listening.address, move |is_senders, packet| {
                passes(is_senders, packet)
            })
        };
        let begun = Instant::now();
        let to = relay.address.to_string();
        let sent = run(&["a1", "send", "--size", "1000", "--to", &to, "--timeout", timeout]);
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
        let err = text(&sent.stderr);
        assert_eq!(sent.status.code(), Some(3), "{err}");
        assert!(err.contains("everything was acknowledged") && err.contains("farewell"), "{err}");
        listening.signal("-INT");
        assert_eq!(listening.finish().1, line(&content(0, 1000)));
    }
}

#[test]
fn who_takes_nothing_can_send_and_blocks_can_have_any_size() {
    use pinnace::a1::{Full, Options, Qos, Socket, reliable};
    let listening = listen(&["--count", "2"]);
    let socket = Socket::client(reliable(), &Options::default()).unwrap();
    let connection = socket.connect(&*listening.address, Qos { largest_received: 0, ..reliable() }).unwrap();
    connection.send(b"ahoy".to_vec(), Full::Block).unwrap();
    connection.close(Duration::from_secs(5)).unwrap();
    let sent = run(&["a1", "send", "--to", &listening.address, "--block", "1", "--size", "1"]);
    assert_eq!(sent.status.code(), Some(0), "{}", text(&sent.stderr));
    assert_eq!(listening.finish(), (Some(0), line(b"ahoy") + &line(&content(0, 1)), String::new()));
}

#[test]
fn perf_and_ping_measure_it() {
    for mode in ["reliable", "raw"] {
        let more = ["--mode", mode, "--size", "16KiB", "--block", "9kB", "--window", "160kB", "--rounds", "1"];
        let output = run(&[
            &["--json", "perf", "--protocol", "a1", "--against", "udp", "--seconds", "0.05"],
            &more[..],
        ]
        .concat());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let out = text(&output.stdout);
        let lines: Vec<Value> = out.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let own = lines.iter().find(|line| line["transport"] == "a1").expect("a line");
        assert!(own["gbit_s"].as_f64().is_some_and(|rate| rate > 0.0), "{own}");
        assert_eq!((&own["a1"]["mode"], &own["a1"]["block"]), (&mode.into(), &9000.into()));
    }
    let output = run(&["--json", "ping", "--protocol", "a1", "--sizes", "100", "--count", "20", "--rounds", "1"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("\"transport\":\"a1\""));
}

/// The legends are pale grounds with larger dots than the points have.
fn legends_hide_no_point(svg: &roxmltree::Document<'_>) {
    let number = |node: &roxmltree::Node<'_, '_>, name| node.attribute(name).and_then(|text| text.parse::<f64>().ok());
    let is_ground = |node: &roxmltree::Node<'_, '_>| node.has_tag_name("rect") && number(node, "opacity") == Some(0.85);
    let grounds: Vec<[f64; 4]> = svg
        .descendants()
        .filter(is_ground)
        .map(|node| ["x", "y", "width", "height"].map(|name| number(&node, name).expect("a number")))
        .collect();
    assert_eq!(grounds.len(), 3);
    let circles: Vec<[f64; 3]> = svg
        .descendants()
        .filter(|node| node.has_tag_name("circle"))
        .map(|node| ["cx", "cy", "r"].map(|name| number(&node, name).expect("a number")))
        .collect();
    let is_behind = |[x, y, _]: &[f64; 3]| {
        grounds
            .iter()
            .any(|[left, top, width, height]| (*left..=left + width).contains(x) && (*top..=top + height).contains(y))
    };
    let (points, keys): (Vec<_>, Vec<_>) = circles.iter().partition(|[_, _, radius]| *radius < 3.0);
    assert!(points.len() > 100 && !points.into_iter().any(is_behind), "a legend lies over points");
    assert!(keys.len() == 9 && keys.into_iter().all(is_behind), "a dot for each sink");
}

#[test]
fn the_demo_shows_a_song_that_is_whole_at_three_sinks() {
    let folder = tempfile::tempdir().unwrap();
    let (temporary, out) = (folder.path().join("temporary"), folder.path().join("out"));
    std::fs::create_dir(&temporary).unwrap();
    let begin = Instant::now();
    let output = pinnace(&["--json", "demo", "a1", "--quick", "--out", out.to_str().unwrap()])
        .env("TMPDIR", &temporary)
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(begin.elapsed() < Duration::from_secs(60), "a minute is promised, even on a busy machine");
    assert_eq!(common::json::check("demo a1", &text(&output.stdout)), ["done"]);
    let report: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    assert_eq!(report["whole"], true, "{report}");
    let turns = report["turns"].as_array().expect("a list");
    assert_eq!(turns.len(), 3);
    assert!(turns.iter().all(|turn| turn["sinks"].as_array().is_some_and(|sinks| sinks.len() == 3)), "{report}");
    assert!(turns[1]["bulk_bits_per_second"].as_f64().unwrap() > 1e6, "{report}");
    let svg = std::fs::read_to_string(out.join("pinnace-demo-a1.svg")).expect("the figure");
    legends_hide_no_point(&roxmltree::Document::parse(&svg).expect("XML"));
    assert!(out.join("pinnace-demo-a1.png").exists());
    assert!(std::fs::read_dir(&temporary).unwrap().next().is_none(), "temporary files are gone");
}
