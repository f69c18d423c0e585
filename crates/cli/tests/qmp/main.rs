//! `pinnace qmp listen` and `send`, `pinnace perf` and `ping` with `--protocol qmp`, and `pinnace qbuf`: the real command.
#![allow(clippy::print_stderr, reason = "a test that is skipped says so")]

#[path = "../common/mod.rs"]
mod common;
mod ends;
mod ether;
mod failing;
mod measuring;
mod pools;
mod relay;

use common::Listening;
use std::sync::{Mutex, MutexGuard, PoisonError};

fn listen(more: &[&str]) -> Listening {
    Listening::start(&[&["qmp", "listen", "127.0.0.1:0"], more].concat())
}

/// Raw sockets need a right, and protocol 36 of an address has one owner at a time: so have the tests.
fn protocol_36() -> Option<MutexGuard<'static, ()>> {
    static OWNER: Mutex<()> = Mutex::new(());
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let rights = status.lines().find_map(|line| line.strip_prefix("CapEff:")).map(str::trim).expect("a line");
    if u64::from_str_radix(rights, 16).expect("hexadecimal") & 1 << 13 == 0 {
        eprintln!("left out: needs CAP_NET_RAW");
        return None;
    }
    Some(OWNER.lock().unwrap_or_else(PoisonError::into_inner))
}
