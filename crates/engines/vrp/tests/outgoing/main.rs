//! An outgoing endpoint whose receiver is the test: exact datagrams in, exact datagrams out (specs/vrp.md, section 3).

mod answers;
mod bad_input;
mod data;
mod ends;
mod half;
mod header;
mod path;
mod service;
