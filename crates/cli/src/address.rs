//! Addresses, as people write them: names too, and `[fe80::1%eth0]:7001`, which says through which interface.

use crate::exit::Error;
use nix::net::if_::if_nametoindex;
use pinnace::qmp::EtherAddress;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, ToSocketAddrs, UdpSocket};
use std::time::Duration;

/// How long another host may take to say that a port is closed.
const PATIENCE: Duration = Duration::from_millis(300);
/// The same of this host, which says so while it is asked.
const PATIENCE_HERE: Duration = Duration::from_millis(10);

/// The address that `text`, HOST:PORT, names: the first of several.
pub(crate) fn resolve(text: &str) -> Result<SocketAddr, Error> {
    Ok(resolve_all(text)?.0)
}

/// The address of a peer who is to be reached over UDP: of several, as `localhost` has them, the first whose port is open.
pub(crate) fn resolve_peer(text: &str) -> Result<SocketAddr, Error> {
    let (first, others) = resolve_all(text)?;
    Ok(first_open(first, &others))
}

/// The first address, and the others.
fn resolve_all(text: &str) -> Result<(SocketAddr, Vec<SocketAddr>), Error> {
    if station(text).is_some() {
        return Err(Error::usage(format!(
            "{text} is a station of Ethernet: only `pinnace qmp send --link ether` takes it"
        )));
    }
    let failed = |error| Error::io(format!("cannot resolve {text}"), &error);
    let mut found = lookup_all(text).map_err(failed)?.into_iter();
    let first = found.next().ok_or_else(|| Error::failed(format!("{text} has no address")))?;
    Ok((first, found.collect()))
}

/// The first address of the name; `None`: it has none.
pub(crate) fn lookup(text: &str) -> io::Result<Option<SocketAddr>> {
    Ok(lookup_all(text)?.first().copied())
}

fn lookup_all(text: &str) -> io::Result<Vec<SocketAddr>> {
    match zoned(text) {
        Some(found) => Ok(vec![found?]),
        None => Ok(text.to_socket_addrs()?.collect()),
    }
}

/// The last is not asked: whoever connects to it finds out.
fn first_open(first: SocketAddr, others: &[SocketAddr]) -> SocketAddr {
    let Some((&last, between)) = others.split_last() else { return first };
    let mut asked = [first].into_iter().chain(between.iter().copied());
    asked.find(|&address| !is_closed(address)).unwrap_or(last)
}

/// Whether there is no way to that address, or its host says that nobody has the UDP port. Asked with an empty datagram, which
/// every protocol drops.
fn is_closed(address: SocketAddr) -> bool {
    let ask = || {
        let local: SocketAddr = match address {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = UdpSocket::bind(local)?;
        let patience = if address.ip().is_loopback() { PATIENCE_HERE } else { PATIENCE };
        socket.set_read_timeout(Some(patience))?;
        socket.connect(address)?;
        socket.send(&[])?;
        socket.recv(&mut [0])
    };
    let is_silence =
        |kind| matches!(kind, io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted);
    ask().is_err_and(|error| !is_silence(error.kind()))
}

/// The same address with the number of its interface, if it says a name: for the library, which knows numbers alone.
pub(crate) fn numbered(text: &str) -> Result<String, Error> {
    match zoned(text) {
        Some(found) => {
            let found = found.map_err(|error| Error::io(format!("cannot resolve {text}"), &error))?;
            Ok(found.to_string())
        }
        None => Ok(text.to_owned()),
    }
}

/// An IPv6 address with the name of an interface: the standard library takes its number alone.
fn zoned(text: &str) -> Option<io::Result<SocketAddr>> {
    let (host, port) = text.strip_prefix('[')?.rsplit_once("]:")?;
    let (host, zone) = host.split_once('%')?;
    let (host, port) = (host.parse::<Ipv6Addr>().ok()?, port.parse().ok()?);
    if zone.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let of = |index| SocketAddrV6::new(host, port, 0, index).into();
    let absent = |_| io::Error::new(io::ErrorKind::NotFound, format!("this host has no interface {zone}"));
    Some(if_nametoindex(zone).map(of).map_err(absent))
}

/// A station of Ethernet and a port, as `02:00:00:00:00:01%eth0:7001`; `None`: it is none.
pub(crate) fn station(text: &str) -> Option<(EtherAddress, u16)> {
    let (station, port) = text.rsplit_once(':')?;
    Some((station.parse().ok()?, port.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_the_addresses_of_a_name_the_first_whose_port_is_open_is_taken() {
        let sockets = ["127.0.0.1:0", "127.0.0.2:0", "127.0.0.3:0"].map(|at| UdpSocket::bind(at).unwrap());
        let [first, second, third] = [0, 1, 2].map(|at| sockets[at].local_addr().unwrap());
        assert_eq!(first_open(first, &[]), first);
        assert_eq!(first_open(first, &[second, third]), first);
        let [one, two, three] = sockets;
        drop(one);
        assert_eq!(first_open(first, &[second, third]), second);
        drop(two);
        assert_eq!(first_open(first, &[second, third]), third);
        // Nobody is anywhere: whoever connects is told so.
        drop(three);
        assert_eq!(first_open(first, &[second, third]), third);
    }

    #[test]
    fn a_station_is_a_link_address_an_interface_and_a_port() {
        let (found, port) = station("02:00:00:00:00:01%eth0:7001").unwrap();
        assert_eq!((&*found.to_string(), port), ("02:00:00:00:00:01%eth0", 7001));
        for none in ["02:00:00:00:00:01%eth0", "02:00:00:00:00:01:7001", "[fe80::1%eth0]:7001", "eth0:7001"] {
            assert!(station(none).is_none(), "{none}");
        }
        let error = resolve("02:00:00:00:00:01%eth0:7001").unwrap_err();
        assert!(error.message.contains("--link ether"), "{error}");
    }

    #[test]
    fn an_interface_has_a_name_or_a_number() {
        let lo = if_nametoindex("lo").unwrap();
        let expected: SocketAddr = SocketAddrV6::new("fe80::1".parse().unwrap(), 7, 0, lo).into();
        for text in ["[fe80::1%lo]:7".to_owned(), format!("[fe80::1%{lo}]:7")] {
            assert_eq!(resolve(&text).unwrap(), expected, "{text}");
            assert_eq!(numbered(&text).unwrap(), format!("[fe80::1%{lo}]:7"));
        }
        let error = resolve("[fe80::1%none-such]:7").unwrap_err();
        assert!(error.message.contains("no interface none-such"), "{error}");
        assert_eq!(resolve("127.0.0.1:7").unwrap(), "127.0.0.1:7".parse().unwrap());
        assert!(resolve("[fe80::1%lo]:70000").is_err() && resolve("[lo%lo]:7").is_err());
    }
}
