//! `pinnace qmp listen` and `send`, `pinnace perf` and `ping` with `--protocol qmp`, and `pinnace qbuf`: the real command.

#[path = "../common/mod.rs"]
mod common;
mod ends;
mod ether;
mod failing;
mod measuring;
mod pools;
mod relay;

use common::Listening;

fn listen(more: &[&str]) -> Listening {
    Listening::start(&[&["qmp", "listen", "127.0.0.1:0"], more].concat())
}
