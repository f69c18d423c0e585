//! A receiver whose senders are the test: exact datagrams in, exact answers out (specs/vrp.md, sections 1, 4 and 5).

mod answers;
mod contract;
mod crowding;
mod early;
mod half;
mod headers;
mod random;
