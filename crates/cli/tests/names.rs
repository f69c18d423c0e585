//! Names of several addresses, and addresses that are a port alone.
#![allow(clippy::print_stderr, reason = "a test that is left out says so")]

mod common;

use common::{Listening, PATIENCE, pinnace, run, text};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::process::{Command, Output};
use std::time::Instant;

/// Runs `pinnace` where the name `both` has an address of IPv6, where nobody listens, and one of IPv4; `None`: not here.
fn where_both_has_two(args: &[&str]) -> Option<Output> {
    let folder = tempfile::tempdir().unwrap();
    let hosts = folder.path().join("hosts");
    std::fs::write(&hosts, "127.0.0.1 localhost\n::1 both\n127.0.0.1 both\n").unwrap();
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", "mount --bind \"$0\" /etc/hosts || exit 77; exec \"$@\""]);
    command.arg(hosts).arg(env!("CARGO_BIN_EXE_pinnace")).args(args).env("NO_COLOR", "1");
    match command.output() {
        Ok(output) if output.status.code() != Some(77) && !text(&output.stderr).contains("unshare failed") => {
            Some(output)
        }
        _ => {
            pinnace_testing::skip::host("this user may not make a namespace of mounts");
            None
        }
    }
}

fn sent_to_both(to: &str, args: &[&str]) -> bool {
    let port = to.parse::<SocketAddr>().unwrap().port();
    let both = format!("both:{port}");
    let Some(sent) = where_both_has_two(&[args, &["--to", &both]].concat()) else { return false };
    assert_eq!(sent.status.code(), Some(0), "{args:?}: {}", text(&sent.stderr));
    true
}

#[test]
fn the_address_of_a_name_is_one_that_answers() {
    for protocol in ["zcrp", "vrp", "xtp", "qmp", "a1"] {
        let listening = Listening::start(&[protocol, "listen", "127.0.0.1:0", "--count", "1"]);
        if !sent_to_both(&listening.address, &[protocol, "send", "--size", "1000"]) {
            return;
        }
        let (code, out, err) = listening.finish();
        assert_eq!(code, Some(0), "{protocol}: {err}");
        assert!(out.starts_with("message 1000 bytes"), "{protocol}: {out}");
    }
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_str().unwrap();
    let receiving = Listening::start(&["recv", "--bind", "127.0.0.1:0", "--once", "--dir", dir]);
    assert!(sent_to_both(&receiving.address, &["send", "Cargo.toml"]));
    assert_eq!(receiving.finish().0, Some(0));
}

#[test]
fn a_name_whose_addresses_are_all_closed_is_said_as_it_was_given() {
    let taken = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    drop(taken);
    let both = format!("both:{port}");
    let begun = Instant::now();
    let Some(sent) = where_both_has_two(&["send", "Cargo.toml", &both]) else { return };
    assert_eq!(sent.status.code(), Some(3), "{}", text(&sent.stderr));
    assert!(text(&sent.stderr).contains(&both) && begun.elapsed() < PATIENCE);
}

#[test]
fn whoever_listens_may_say_a_port_alone() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().to_str().unwrap();
    for args in [
        &["recv", "--bind", "0", "--dir", dir, "--json"][..],
        &["stream", "recv", "--bind", ":0", "--json"],
        &["zcrp", "listen", "0", "--json"],
        &["vrp", "listen", "--bind", "0", "--json"],
        &["xtp", "listen", "0", "--json"],
        &["qmp", "listen", "0", "--json"],
        &["a1", "listen", "0", "--json"],
        &["tune", "0", "--json"],
        &["ping", "--listen", "0", "--json"],
    ] {
        let listening = Listening::start(args);
        assert!(listening.address.starts_with("0.0.0.0:"), "{args:?}: {}", listening.address);
    }
    for (args, why) in [
        (&["recv", "--bind", "70000"][..], "70000 is no port"),
        (&["zcrp", "listen", "host"], "or a port alone"),
        (&["zcrp", "send", "--size", "1", "--to", "4747"], "no host"),
        (&["ping", "--to", "127.0.0.1"], "no port"),
    ] {
        let output = pinnace(args).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(text(&output.stderr).contains(why), "{args:?}: {}", text(&output.stderr));
    }
}

/// The advice hangs on the words of the library, which every protocol has to use.
#[test]
fn an_address_that_cannot_be_sent_to_is_said_to_be_a_broadcast_address_or_to_lack_its_interface() {
    for (to, why) in [("255.255.255.255:9", "broadcast addresses cannot be used"), ("[fe80::1]:9", "[fe80::1%eth0]")] {
        for args in [
            &["send", "/etc/passwd", to][..],
            &["zcrp", "send", "/etc/passwd", to],
            &["vrp", "send", "/etc/passwd", to],
            &["xtp", "send", "/etc/passwd", to],
            &["qmp", "send", "/etc/passwd", to],
            &["a1", "send", "/etc/passwd", to],
            &["stream", "send", "--to", to],
            &["connect", to],
        ] {
            let output = run(&[args, &["--timeout", "1"]].concat());
            let error = text(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{args:?}: {error}");
            assert!(error.contains(why) && error.lines().count() == 1, "{args:?}: {error}");
        }
    }
}

/// The advice hangs on the words of the library, which every protocol has to use.
#[test]
fn an_address_of_another_host_is_named_as_the_reason() {
    let to = tempfile::tempdir().unwrap();
    let dir = to.path().to_str().unwrap();
    // Of the networks for examples (RFC 5737): nobody has it.
    let at = "203.0.113.1:4747";
    for args in [
        &["recv", "--bind", at, "--dir", dir][..],
        &["zcrp", "listen", at],
        &["vrp", "listen", at],
        &["xtp", "listen", at],
        &["qmp", "listen", at],
        &["a1", "listen", at],
        &["listen", at],
    ] {
        let output = run(args);
        let error = text(&output.stderr);
        assert_ne!(output.status.code(), Some(0), "{args:?}: {error}");
        assert!(error.contains("no interface of this host has that address"), "{args:?}: {error}");
    }
}
