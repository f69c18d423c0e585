//! An outgoing endpoint whose receiver is the test: exact datagrams in, exact datagrams out (specs/vrp.md, section 3).
#![allow(clippy::single_range_in_vec_init, reason = "a list of one range is meant")]

mod answers;
mod bad_input;
mod data;
mod ends;
mod half;
mod header;
mod path;
mod service;
mod trains;
mod turns;
