//! QMP for C: `include/qmp.h` (specs/qmp.md, Q-12): the calls of BSD sockets.
//!
//! [`abi`] is what C calls, and what the header is made from; [`socket`] is a socket, [`conversation`] what a connected one
//! has besides; [`settings`] are its options, [`names`] what systems call differently; [`polling`] is `qmp_poll`; [`vectors`] are the buffers of a message.
//!
//! Always true: results are as BSD's: -1 and `errno`; no lock of a socket is held while a call waits.
//= Q-1, Q-12

pub mod abi;
mod conversation;
mod errors;
mod names;
pub mod options;
mod polling;
mod settings;
mod socket;
mod vectors;

pub(crate) use conversation::{Conversation, Lack};
pub(crate) use socket::Socket;
