//! `pinnace qmp listen` and `send`, `pinnace perf` and `ping` with `--protocol qmp`, and `pinnace qbuf`: the real command.
#![allow(clippy::print_stderr, reason = "a test that is skipped says so")]

#[path = "../common/mod.rs"]
mod common;
mod ends;
mod failing;
mod measuring;
mod pools;
mod relay;

use common::{Listening, pinnace};
use sha2::{Digest, Sha256};
use std::io::Write;
use std::process::{Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

fn listen(more: &[&str]) -> Listening {
    Listening::start(&[&["qmp", "listen", "127.0.0.1:0"], more].concat())
}

/// What the sender sends over connection `number`.
fn content(number: u64, size: usize) -> Vec<u8> {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&1u64.to_le_bytes()).update(&number.to_le_bytes());
    let mut content = vec![0; size];
    hasher.finalize_xof().fill(&mut content);
    content
}

fn line(content: &[u8]) -> String {
    format!("message {} bytes {:x}\n", content.len(), Sha256::digest(content))
}

/// Runs with this on standard input.
fn fed(args: &[&str], input: &[u8]) -> Output {
    let mut child =
        pinnace(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    let mut stdin = child.stdin.take().expect("piped");
    let input = input.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().expect("it ends");
    let _ = writer.join().expect("no panic");
    output
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
