//! What this kernel offers, found out once per process by trying.
//!
//! Some paths refuse what the kernel offers; that is found out by each link for itself (see `linux.rs`).

use crate::sys::{self, Control};
use std::net::{Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::OnceLock;

/// Segmentation offload of this kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offload {
    /// Datagrams that one send may be cut into; 1 without `UDP_SEGMENT`.
    pub segments: usize,
    /// Whether reads can bring several datagrams (`UDP_GRO`).
    pub coalescing: bool,
}

impl Offload {
    /// None at all.
    pub const NONE: Self = Self { segments: 1, coalescing: false };

    /// What this kernel offers. The first call tries it out, on a socket of its own.
    pub fn of_this_kernel() -> Self {
        static FOUND: OnceLock<Offload> = OnceLock::new();
        *FOUND.get_or_init(probe)
    }
}

fn probe() -> Offload {
    let Ok(socket) = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).or_else(|_| UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)))
    else {
        return Offload::NONE;
    };
    let fd = socket.as_raw_fd();
    let coalescing = sys::set_option(fd, libc::SOL_UDP, sys::UDP_GRO, 1).is_ok();
    // Setting the option says whether the kernel knows it; sending says how many it takes.
    if sys::set_option(fd, libc::SOL_UDP, sys::UDP_SEGMENT, 0).is_err() {
        return Offload { segments: 1, coalescing };
    }
    let to_itself = socket.local_addr().and_then(|own| socket.connect(own));
    let segments = match to_itself {
        Ok(()) if accepts(fd, 128) => 128,
        _ => 64,
    };
    Offload { segments, coalescing }
}

/// Whether a send of `segments` datagrams of one byte is taken.
fn accepts(fd: RawFd, segments: usize) -> bool {
    let bytes = [0u8; 128];
    let mut control = Control::new();
    control.push(libc::SOL_UDP, sys::UDP_SEGMENT, &1u16.to_ne_bytes());
    let mut piece = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: segments.min(bytes.len()) };
    let mut header = sys::header();
    header.msg_iov = &raw mut piece;
    header.msg_iovlen = 1;
    control.attach(&mut header);
    // SAFETY: everything that the header points to lives on this frame; the kernel only reads it.
    let sent = unsafe { libc::sendmsg(fd, &raw const header, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) };
    sent == segments as isize
}
