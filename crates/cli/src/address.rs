//! Addresses, as people write them: names too, and `[fe80::1%eth0]:7001`, which says through which interface.

use crate::exit::Error;
use nix::net::if_::if_nametoindex;
use pinnace::qmp::EtherAddress;
use std::io;
use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6, ToSocketAddrs};

/// The address that `text`, HOST:PORT, names: the first of several.
pub(crate) fn resolve(text: &str) -> Result<SocketAddr, Error> {
    Ok(resolve_all(text)?[0])
}

/// The address of a peer who is to be reached over UDP: of several, as `localhost` has them, the first whose port is open.
pub(crate) fn resolve_peer(text: &str) -> Result<SocketAddr, Error> {
    Ok(pinnace::resolve_peer(&resolve_all(text)?[..])?)
}

/// All addresses that `text` names: one at least.
pub(crate) fn resolve_all(text: &str) -> Result<Vec<SocketAddr>, Error> {
    if station(text).is_some() {
        return Err(Error::usage(format!(
            "{text} is a station of Ethernet: only `pinnace qmp send --link ether` takes it"
        )));
    }
    let failed = |error| Error::io(format!("cannot resolve {text}"), &error);
    let found = lookup_all(text).map_err(failed)?;
    if found.is_empty() { Err(Error::failed(format!("{text} has no address"))) } else { Ok(found) }
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
