//! The way to other hosts: asked of the companion, the process that `pinnace run` leaves beside the command.

use crate::connect::Refusal;
use crate::name::{Class, Family};
use crate::sys::Outcome;
use core::ffi::c_int;
use core::net::SocketAddr;

/// Asks for a stream to an address of another host.
pub(crate) fn connect(_fd: c_int, _family: Family, _bound: SocketAddr, _to: SocketAddr) -> Result<(), Refusal> {
    Err(Refusal::Tcp)
}

/// Asks for the connections of other hosts to a listener. Answers with the descriptor that is to live as long as it.
pub(crate) fn listen(_class: Class, _at: SocketAddr, _on_exec: bool) -> Outcome {
    Err(libc::ENOSYS)
}
