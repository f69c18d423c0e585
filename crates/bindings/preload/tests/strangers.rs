//! What the library does not touch, and what it does not believe.
//!
//= Q-13 test

mod support;

use std::process::Stdio;
use support::{MIXES, Running, command, finish, program, run, serve};

fn alone(case: &str, preloaded: bool) {
    let Some(program) = program("strangers") else { return };
    let child = command(&program, preloaded).arg(case).stdin(Stdio::null()).stderr(Stdio::piped()).spawn();
    finish(Running(child.expect("it runs")), &format!("{case}, preloaded: {preloaded}"));
}

#[test]
fn other_sockets_are_left_alone() {
    alone("others", false);
    alone("others", true);
}

#[test]
fn a_listener_that_is_closed_by_a_system_call_leaves_its_port() {
    alone("unheard", false);
    alone("unheard", true);
}

#[test]
fn nobody_listens() {
    alone("refused", false);
    alone("refused", true);
}

#[test]
fn without_descriptors_it_is_tcp() {
    alone("poor", false);
    alone("poor", true);
}

#[test]
fn routes_and_keys_are_left_to_tcp() {
    alone("routes", false);
    alone("routes", true);
}

#[test]
fn names_that_lie_are_not_believed() {
    alone("liars", true);
}

#[test]
fn a_horde_of_those_who_are_not_believed_keeps_nobody_waiting() {
    alone("horde", true);
}

#[test]
fn a_name_beside_somebody_elses_port_is_not_trusted() {
    alone("squatters", true);
}

#[test]
fn the_last_descriptor_is_for_a_connection() {
    alone("crowded", false);
    alone("crowded", true);
}

#[test]
fn whoever_waits_for_a_socket_is_told() {
    alone("waiters", false);
    alone("waiters", true);
}

#[test]
fn to_be_waited_for_among_many_costs_nothing() {
    alone("many", false);
    alone("many", true);
}

#[test]
fn what_the_library_says_is_not_written_into_files() {
    let Some(program) = program("strangers") else { return };
    let output = command(&program, true).arg("words").env("PINNACE_VERBOSE", "1").output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("connected to"), "{said}");
}

fn beside_a_companion(case: &str) {
    let Some(program) = program("strangers") else { return };
    let name = format!("pinnace-test/{}-{case}", std::process::id());
    let child = command(&program, true).arg(case).env("PINNACE_COMPANION", name).stderr(Stdio::piped()).spawn();
    finish(Running(child.expect("it runs")), case);
}

#[test]
fn an_end_that_nobody_declares_is_a_reset() {
    beside_a_companion("ends");
}

#[test]
fn signals_do_not_keep_the_companion_from_being_asked() {
    beside_a_companion("interrupted");
}

#[test]
fn a_companion_that_hears_nobody_keeps_nobody_waiting() {
    beside_a_companion("deaf");
}

/// Runs a case whose way is not the one that its mix would take.
fn by_tcp(environment: &[(&str, &str)], client_only: bool) {
    let Some(program) = program("streams") else { return };
    let mut server = command(&program, true);
    server.env("PINNACE_EXPECT", "tcp").args(["names", "server"]);
    let mut client = command(&program, true);
    client.env("PINNACE_EXPECT", "tcp").args(["names", "client"]).envs(environment.iter().copied());
    if !client_only {
        server.envs(environment.iter().copied());
    }
    let (server, port) = serve(server);
    let client = client.arg(port).stderr(Stdio::piped()).spawn().expect("it runs");
    finish(Running(client), "client");
    finish(server, "server");
}

#[test]
fn bypassed_ports_are_left_to_tcp() {
    by_tcp(&[("PINNACE_BYPASS", "1-65535")], false);
    by_tcp(&[("PINNACE_BYPASS", "22, 1024-65535")], true);
}

#[test]
fn the_way_within_the_host_can_be_switched_off() {
    by_tcp(&[("PINNACE_SAME_HOST", "off")], true);
    let Some(program) = program("streams") else { return };
    run(&program, "names", MIXES[0], &[("PINNACE_SAME_HOST", "on")]);
}

#[test]
fn a_program_that_has_io_uring_listens_by_tcp() {
    let Some(program) = program("rings") else { return };
    for mix in MIXES {
        run(&program, "ring", mix, &[("PINNACE_EXPECT", "tcp")]);
    }
}
