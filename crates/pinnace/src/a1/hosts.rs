//! Addresses of 64 bits (A-14): a host of 32 bits, which is an IPv4 address, or one of 240.0.0.0/4 that stands for an IPv6
//! address in a table of the process.
//= A-14

use super::Address;
use crate::Error;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::sync::{PoisonError, RwLock};

/// Address and scope of an IPv6 host.
type Host = (Ipv6Addr, u32);

static HOSTS: RwLock<BTreeMap<u32, Host>> = RwLock::new(BTreeMap::new());

/// The upper four bits of hosts that stand for others.
const RESERVED: u32 = 0xF000_0000;

fn refused(why: String) -> Error {
    Error::io("cannot use the address", io::Error::new(io::ErrorKind::InvalidInput, why))
}

/// Lets `host`, one of 240.0.0.0/4, stand for an IPv6 host in this process from now on. The port does not count.
///
/// ```
/// use pinnace::a1::{Address, map_host, to_address, to_socket};
/// # fn main() -> Result<(), pinnace::Error> {
/// map_host(0xF000_0001, "[2001:db8::1]:0".parse().unwrap())?;
/// let socket = to_socket(Address { host: 0xF000_0001, port: 4000 })?;
/// assert_eq!(socket, "[2001:db8::1]:4000".parse().unwrap());
/// assert_eq!(to_address(socket), Address { host: 0xF000_0001, port: 4000 });
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// If the host is not one of 240.0.0.0/4.
pub fn map_host(host: u32, to: SocketAddrV6) -> Result<(), Error> {
    if host & RESERVED != RESERVED {
        return Err(refused(format!("{} is a host of its own: use one of 240.0.0.0/4", Ipv4Addr::from(host))));
    }
    let mut hosts = HOSTS.write().unwrap_or_else(PoisonError::into_inner);
    hosts.insert(host, (*to.ip(), to.scope_id()));
    Ok(())
}

/// Where an address of 64 bits leads.
///
/// # Errors
/// If its port is above 65,535, or its host is one of 240.0.0.0/4 for which nobody has called [`map_host`].
pub fn to_socket(address: Address) -> Result<SocketAddr, Error> {
    let port = u16::try_from(address.port).map_err(|_| refused(format!("port {} is above 65,535", address.port)))?;
    if address.host & RESERVED != RESERVED {
        return Ok(SocketAddr::new(Ipv4Addr::from(address.host).into(), port));
    }
    let hosts = HOSTS.read().unwrap_or_else(PoisonError::into_inner);
    match hosts.get(&address.host) {
        Some((ip, scope)) => Ok(SocketAddrV6::new(*ip, port, 0, *scope).into()),
        None => Err(refused(format!("{} stands for no host: call map_host before", Ipv4Addr::from(address.host)))),
    }
}

/// The address of 64 bits of a socket. The host of an IPv6 address is the one that [`map_host`] has given to it, or 0.
pub fn to_address(socket: SocketAddr) -> Address {
    let host = match socket.ip().to_canonical() {
        IpAddr::V4(ip) => ip.into(),
        IpAddr::V6(ip) => {
            let hosts = HOSTS.read().unwrap_or_else(PoisonError::into_inner);
            hosts.iter().find(|(_, (mapped, _))| *mapped == ip).map_or(0, |(host, _)| *host)
        }
    };
    Address { host, port: socket.port().into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    //= A-14 test
    #[test]
    fn hosts_of_ipv4_stand_for_themselves_and_those_of_class_e_for_what_they_were_mapped_to() {
        let near = Address { host: 0x7F00_0001, port: 80 };
        assert_eq!(to_socket(near).unwrap(), "127.0.0.1:80".parse().unwrap());
        assert_eq!(to_address("[::ffff:127.0.0.1]:80".parse().unwrap()), near);
        assert_eq!(to_address("[2001:db8::77]:5".parse().unwrap()), Address { host: 0, port: 5 });
        let far = Address { host: 0xF123_4567, port: 9 };
        assert!(to_socket(far).unwrap_err().to_string().contains("241.35.69.103"));
        map_host(far.host, "[2001:db8::2]:1".parse().unwrap()).unwrap();
        assert_eq!(to_socket(far).unwrap(), "[2001:db8::2]:9".parse().unwrap());
        assert!(map_host(near.host, "[::1]:1".parse().unwrap()).is_err());
        assert!(to_socket(Address { host: 1, port: 65_536 }).is_err());
    }
}
