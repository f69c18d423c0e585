//! `pinnace xtp send` and `listen` with a multicast group.

mod common;

use common::{Listening, content, line, objects, pinnace, run, text, wait};
use pinnace::link::{MulticastOptions, probe_multicast};
use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// A group of its own for every test of every run; none where the loopback interface has no groups.
fn group(number: u8) -> Option<String> {
    let over_loopback = MulticastOptions { interface: Ipv4Addr::LOCALHOST, ..MulticastOptions::default() };
    if let Err(error) = probe_multicast(&over_loopback) {
        pinnace_testing::skip::host(format_args!("this machine has no multicast on its loopback interface ({error})"));
        return None;
    }
    let id = std::process::id();
    Some(format!("239.75.{number}.{}:{}", id % 251, 20_000 + id % 20_000))
}

fn listen(group: &str, more: &[&str]) -> Listening {
    Listening::start(&[&["xtp", "listen", group, "--interface", "127.0.0.1"], more].concat())
}

fn send<'a>(group: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["xtp", "send", "--to", group, "--interface", "127.0.0.1"], more].concat()
}

#[test]
fn every_listener_gets_what_is_sent_to_the_group() {
    let Some(group) = group(1) else { return };
    let listeners = [(); 3].map(|()| listen(&group, &["--count", "3"]));
    assert!(listeners.iter().all(|listener| listener.address == group));
    let sent = run(&send(&group, &["--size", "1MB", "--count", "3", "-v"]));
    assert_eq!(sent.status.code(), Some(0), "{}", text(&sent.stderr));
    let expected: String = (0..3).map(|number| line(&content(number, 1_000_000))).collect();
    assert_eq!(text(&sent.stdout), expected);
    for listener in listeners {
        assert_eq!(listener.finish(), (Some(0), expected.clone(), String::new()));
    }
}

#[test]
fn a_listener_that_is_killed_does_not_hold_up_the_others() {
    let Some(group) = group(2) else { return };
    let stays = listen(&group, &["--count", "200"]);
    let args = ["xtp", "listen", &group, "--interface", "127.0.0.1", "--json"];
    let mut dies = pinnace(&args).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(dies.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().contains("listening"));
    // For four seconds.
    let args = send(&group, &["--size", "100kB", "--count", "200", "--rate", "40mbit"]);
    let mut sender = pinnace(&args).stdout(Stdio::null()).spawn().unwrap();
    assert!(lines.next().unwrap().unwrap().contains("message"));
    dies.kill().unwrap();
    dies.wait().unwrap();
    assert_eq!(wait(&mut sender), Some(0));
    let (code, out, err) = stays.finish();
    assert_eq!((code, &*err, out.lines().count()), (Some(0), "", 200));
    assert!(out.ends_with(&line(&content(199, 100_000))));
}

#[test]
fn what_is_not_repeated_is_sent_without_an_answer() {
    let Some(group) = group(3) else { return };
    let args = ["--service", "iso-stream", "--size", "100kB", "--rate", "50mbit", "--json"];
    // Whether anybody is there or not.
    let alone = run(&send(&group, &args));
    assert_eq!(alone.status.code(), Some(0), "{}", text(&alone.stderr));
    let listener = listen(&group, &["--count", "1", "--service", "iso-stream", "--json"]);
    let sent = run(&send(&group, &args));
    assert_eq!(sent.status.code(), Some(0), "{}", text(&sent.stderr));
    let done = objects(&text(&sent.stdout)).pop().unwrap();
    assert_eq!((&done["service"], &done["acknowledged"]), (&"unack-multicast".into(), &false.into()));
    let (code, out, err) = listener.finish();
    assert_eq!((code, &*err), (Some(0), ""));
    let message = objects(&out).pop().unwrap();
    // A busy machine may lose some.
    assert_eq!((&message["service"], &message["bytes"]), (&"unack-multicast".into(), &100_000.into()));
    assert!(message["holes"].is_array());
}

#[test]
fn a_group_in_which_nobody_answers_is_told_apart_from_a_host() {
    let Some(group) = group(4) else { return };
    let nobody = run(&send(&group, &["--size", "10", "--timeout", "1"]));
    let error = text(&nobody.stderr);
    assert_eq!(nobody.status.code(), Some(3), "{error}");
    assert!(error.contains(&format!("nobody in the group {group}")) && error.contains("--interface"), "{error}");
}

#[test]
fn what_a_group_cannot_have_is_refused_with_the_reason() {
    let refused = |args: &[&str], why: &str| {
        let output = run(args);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
        assert!(error.contains(why), "{args:?}: {error}");
    };
    let (group, size) = ("239.1.2.3:7001", ["--size", "1", "--to"]);
    let with = |more: &[&'static str]| [&["xtp", "send"], &size[..], &[group], more].concat();
    refused(&with(&["--service", "transaction"]), "connection and iso-stream");
    refused(&with(&["--codec", "xtp36"]), "--codec xtp40");
    refused(&with(&["--link", "ip36"]), "--link udp");
    refused(&with(&["--interface", "192.0.2.254"]), "no interface of this host");
    refused(&["xtp", "listen", group, "--service", "ack-dgram"], "connection and iso-stream");
    refused(&["xtp", "listen", "239.1.2.3:0"], "a group has a port");
    refused(&["xtp", "listen", "[ff02::5]:7"], "IPv4 address");
    refused(&["xtp", "listen", "127.0.0.1:0", "--interface", "127.0.0.1"], "--interface is for groups");
}

/// Nobody answers: the rate is that of the packets that left, and the end is waited for no longer than it takes to say it.
#[test]
fn what_nobody_acknowledges_takes_as_long_as_to_send_it() {
    let Some(group) = group(5) else { return };
    let listeners = [(); 2].map(|()| listen(&group, &["--count", "1", "--service", "iso-stream", "--json"]));
    let begun = Instant::now();
    let args = ["--service", "iso-stream", "--size", "100kB", "--timeout", "60", "--json"];
    let sent = run(&send(&group, &args));
    let took = begun.elapsed();
    assert_eq!(sent.status.code(), Some(0), "{}", text(&sent.stderr));
    let seconds = objects(&text(&sent.stdout)).pop().unwrap()["seconds"].as_f64().unwrap();
    assert!(seconds < 5.0 && took < Duration::from_secs(10), "{seconds} s, of {took:?}");
    for listener in listeners {
        assert_eq!(listener.finish().0, Some(0));
    }
}
