//! Who owns the TCP listener that an address leads to: asked of the kernel (sock_diag).

use crate::sys::{self, Outcome};
use core::mem::{offset_of, size_of};
use core::net::{IpAddr, SocketAddr};

const NETLINK_SOCK_DIAG: i32 = 4;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const TCP_LISTEN: u8 = 10;

/// `struct inet_diag_sockid`
#[repr(C)]
#[derive(Clone, Copy)]
struct SocketId {
    source_port: [u8; 2],
    destination_port: [u8; 2],
    source: [u8; 16],
    destination: [u8; 16],
    interface: u32,
    cookie: [u32; 2],
}

/// `struct nlmsghdr`, `struct inet_diag_req_v2`
#[repr(C)]
struct Request {
    len: u32,
    kind: u16,
    flags: u16,
    sequence: u32,
    pid: u32,
    family: u8,
    protocol: u8,
    extensions: u8,
    pad: u8,
    states: u32,
    id: SocketId,
}

/// `struct nlmsghdr`, `struct inet_diag_msg`
#[repr(C)]
struct Answer {
    header: [u8; 16],
    family: u8,
    state: u8,
    timer: u8,
    retransmissions: u8,
    id: SocketId,
    expires: u32,
    receive_queue: u32,
    send_queue: u32,
    uid: u32,
    inode: u32,
}

fn octets(ip: IpAddr) -> [u8; 16] {
    let mut octets = [0; 16];
    match ip {
        IpAddr::V4(ip) => octets[..4].copy_from_slice(&ip.octets()),
        IpAddr::V6(ip) => octets = ip.octets(),
    }
    octets
}

/// The user whose TCP listener a connection from `from` to `to` would reach.
pub(crate) fn owner(from: SocketAddr, to: SocketAddr) -> Outcome<libc::uid_t> {
    let request = Request {
        len: size_of::<Request>() as u32,
        kind: SOCK_DIAG_BY_FAMILY,
        flags: libc::NLM_F_REQUEST as u16,
        sequence: 1,
        pid: 0,
        family: if to.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 } as u8,
        protocol: libc::IPPROTO_TCP as u8,
        extensions: 0,
        pad: 0,
        states: u32::MAX,
        id: SocketId {
            source_port: to.port().to_be_bytes(),
            destination_port: from.port().to_be_bytes(),
            source: octets(to.ip()),
            destination: octets(from.ip()),
            interface: 0,
            cookie: [u32::MAX; 2],
        },
    };
    // SAFETY: the structure has no padding, and its bytes live as long as it.
    let bytes = unsafe { core::slice::from_raw_parts((&raw const request).cast::<u8>(), size_of::<Request>()) };
    let fd = sys::socket(libc::AF_NETLINK, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, NETLINK_SOCK_DIAG)?;
    let mut answer = [0; 512];
    let received = sys::send(fd, bytes).and_then(|_| sys::recv(fd, &mut answer));
    sys::close(fd);
    let answer = &answer[..received?];
    let kind = answer.get(4..6).ok_or(libc::EPROTO)?;
    if kind != SOCK_DIAG_BY_FAMILY.to_ne_bytes() || answer.get(offset_of!(Answer, state)) != Some(&TCP_LISTEN) {
        return Err(libc::ENOENT);
    }
    let uid = answer.get(offset_of!(Answer, uid)..).and_then(|bytes| bytes.first_chunk()).ok_or(libc::EPROTO)?;
    Ok(u32::from_ne_bytes(*uid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_of_a_listener_is_known() {
        let anybody = SocketAddr::new([127, 0, 0, 1].into(), 40000);
        for bound in ["127.0.0.1:0", "0.0.0.0:0", "[::]:0"] {
            let listener = std::net::TcpListener::bind(bound).expect("a listener");
            let port = listener.local_addr().expect("an address").port();
            let to = SocketAddr::new([127, 0, 0, 1].into(), port);
            assert_eq!(owner(anybody, to), Ok(sys::euid()), "{bound}");
            drop(listener);
            assert!(owner(anybody, to).is_err(), "{bound}: nobody listens any more");
        }
    }
}
