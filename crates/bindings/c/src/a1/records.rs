//! Records of quality of service, and addresses of 64 bits, as C has them.
//= A-11, A-14

use super::abi::a1_qos;
use crate::errors::Errno;
use libc::sockaddr_in6;
use pinnace::a1::{Address, Qos, map_host, to_address, to_socket};
use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6};

const CHECKSUM: u16 = 1;
const RETRANSMISSION: u16 = 2;

/// The record of C's that this is.
pub(super) fn of_c(record: &a1_qos) -> Result<Qos, Errno> {
    // What means nothing today may mean something tomorrow.
    if record.options & !(CHECKSUM | RETRANSMISSION) != 0 || record.reserved != 0 {
        return Err(Errno(libc::EINVAL));
    }
    Ok(Qos {
        has_checksum: record.options & CHECKSUM != 0,
        has_retransmission: record.options & RETRANSMISSION != 0,
        priority: record.priority,
        block_size: record.block_size,
        send_average: record.send_average,
        send_burst: record.send_burst,
        receive_average: record.receive_average,
        receive_burst: record.receive_burst,
        largest_sent: record.largest_sent,
        largest_received: record.largest_received,
        outstanding: record.outstanding,
        deadline: record.deadline_us,
    })
}

/// The record, for C.
pub(super) fn to_c(qos: &Qos) -> a1_qos {
    let bit = |is_set: bool, bit: u16| if is_set { bit } else { 0 };
    a1_qos {
        options: bit(qos.has_checksum, CHECKSUM) | bit(qos.has_retransmission, RETRANSMISSION),
        priority: qos.priority,
        reserved: 0,
        block_size: qos.block_size,
        send_average: qos.send_average,
        send_burst: qos.send_burst,
        receive_average: qos.receive_average,
        receive_burst: qos.receive_burst,
        largest_sent: qos.largest_sent,
        largest_received: qos.largest_received,
        outstanding: qos.outstanding,
        deadline_us: qos.deadline,
    }
}

fn split(address: u64) -> Address {
    Address { host: (address >> 32) as u32, port: address as u32 }
}

/// A socket's address in 64 bits; its host is 0 if it has none.
pub(super) fn joined(address: SocketAddr) -> u64 {
    let Address { host, port } = to_address(SocketAddr::new(address.ip().to_canonical(), address.port()));
    u64::from(host) << 32 | u64::from(port)
}

/// Where to bind: `None` is any host.
pub(super) fn local(address: u64) -> Result<(Option<SocketAddr>, u16), Errno> {
    let address = split(address);
    let port = u16::try_from(address.port).map_err(|_| Errno(libc::EINVAL))?;
    if address.host == 0 {
        return Ok((None, port));
    }
    to_socket(address).map(|to| (Some(to), port)).map_err(|_| Errno(libc::EADDRNOTAVAIL))
}

/// Where a sink is.
pub(super) fn remote(address: u64) -> Result<SocketAddr, Errno> {
    let address = split(address);
    if address.host == 0 || !(1..=u32::from(u16::MAX)).contains(&address.port) {
        return Err(Errno(libc::EINVAL));
    }
    to_socket(address).map_err(|_| Errno(libc::EHOSTUNREACH))
}

/// Lets a host stand for an IPv6 host.
pub(super) fn map(host: u32, to: &sockaddr_in6) -> Result<(), Errno> {
    if i32::from(to.sin6_family) != libc::AF_INET6 {
        return Err(Errno(libc::EAFNOSUPPORT));
    }
    let ip = Ipv6Addr::from(to.sin6_addr.s6_addr);
    Ok(map_host(host, SocketAddrV6::new(ip, 0, 0, to.sin6_scope_id))?)
}
