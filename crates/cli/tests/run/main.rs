//! `pinnace run`: what it does with a command, and programs that nobody here wrote.
//!
//! Where a program is not installed its test says so and passes.
//!
//= Q-13 test

#[path = "../common/mod.rs"]
mod common;

mod command;
mod ends;
mod hosts;
mod many;
mod programs;
mod stage;
mod streams;
mod vanished;
