//! Internet addresses: in and out of the C structures, and whether one is this host's own.

use crate::name::Family;
use crate::sys::{self, End};
use core::ffi::c_int;
use core::mem::size_of;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use libc::{sockaddr, sockaddr_in, sockaddr_in6, socklen_t};

/// Reads a socket address: the family of the structure, and the address, never IPv4-mapped.
pub(crate) fn parse(bytes: &[u8]) -> Option<(Family, SocketAddr)> {
    let family = c_int::from(u16::from_ne_bytes([*bytes.first()?, *bytes.get(1)?]));
    let port = u16::from_be_bytes([*bytes.get(2)?, *bytes.get(3)?]);
    match family {
        libc::AF_INET => {
            let octets: [u8; 4] = bytes.get(4..8)?.try_into().ok()?;
            // The kernel wants the whole structure; whatever is shorter it shall refuse itself.
            (bytes.len() >= size_of::<sockaddr_in>())
                .then(|| (Family::V4, SocketAddr::new(Ipv4Addr::from(octets).into(), port)))
        }
        libc::AF_INET6 => {
            let octets: [u8; 16] = bytes.get(8..24)?.try_into().ok()?;
            Some((Family::V6, SocketAddr::new(Ipv6Addr::from(octets).to_canonical(), port)))
        }
        _ => None,
    }
}

/// The bytes of a C structure, and how many there are.
pub(crate) fn format(family: Family, address: SocketAddr) -> ([u8; size_of::<sockaddr_in6>()], usize) {
    let mut bytes = [0; size_of::<sockaddr_in6>()];
    bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
    match (family, address.ip()) {
        (Family::V4, IpAddr::V4(ip)) => {
            bytes[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
            bytes[4..8].copy_from_slice(&ip.octets());
            (bytes, size_of::<sockaddr_in>())
        }
        (_, ip) => {
            let ip = match ip {
                IpAddr::V4(ip) => ip.to_ipv6_mapped(),
                IpAddr::V6(ip) => ip,
            };
            bytes[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
            bytes[8..24].copy_from_slice(&ip.octets());
            (bytes, size_of::<sockaddr_in6>())
        }
    }
}

/// The bytes of a caller's socket address.
///
/// # Safety
///
/// `address` is null or has `len` bytes that live as long as what is made of them.
pub(crate) unsafe fn borrow<'a>(address: *const sockaddr, len: socklen_t) -> &'a [u8] {
    if address.is_null() || len as usize > 4096 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { core::slice::from_raw_parts(address.cast(), len as usize) }
}

/// Writes a socket address as the kernel does: what fits of the bytes, and the length of all of them.
///
/// # Safety
///
/// `len` is null or valid, and `address` is null or has `*len` bytes of room.
pub(crate) unsafe fn store(bytes: &[u8], address: *mut sockaddr, len: *mut socklen_t) -> sys::Outcome {
    if len.is_null() {
        return Err(libc::EFAULT);
    }
    // SAFETY: the caller's promise.
    let room = unsafe { *len };
    if room > i32::MAX as u32 {
        return Err(libc::EINVAL);
    }
    let count = bytes.len().min(room as usize);
    if address.is_null() && count > 0 {
        return Err(libc::EFAULT);
    }
    // SAFETY: there is room for `count` bytes, and a caller's buffer does not overlap ours.
    unsafe {
        core::ptr::copy_nonoverlapping(bytes.as_ptr(), address.cast(), count);
        *len = bytes.len() as socklen_t;
    }
    Ok(0)
}

/// The address that packets to `ip` come from. No packet is sent.
pub(crate) fn source(ip: IpAddr) -> sys::Outcome<IpAddr> {
    let (domain, family) = if ip.is_ipv4() { (libc::AF_INET, Family::V4) } else { (libc::AF_INET6, Family::V6) };
    let fd = sys::socket(domain, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0)?;
    let (bytes, len) = format(family, SocketAddr::new(ip, 9));
    let mut buffer = [0; 128];
    let source = sys::connect(fd, &bytes[..len])
        .and_then(|_| sys::address(fd, End::Own, &mut buffer))
        .and_then(|bytes| parse(bytes).ok_or(libc::EAFNOSUPPORT))
        .map(|(_, address)| address.ip());
    sys::close(fd);
    source
}

/// Whether an address needs the name of an interface beside it; such ones are left to TCP.
pub(crate) fn is_link_local(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local())
}
