//! Whom, and with what service, as people write it: words, a URI, a port.

use crate::exit::Error;
use pinnace::service::{Direction, Service, Uri, units};
use std::net::{SocketAddr, ToSocketAddrs};

/// An address, and a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// `host:port`.
    pub(super) authority: String,
    pub(super) service: Service,
}

/// A service that was given as words or as a URI, and whom the URI names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) service: Service,
    pub(crate) authority: Option<String>,
}

/// Reads words like `loss=5% run=4KiB`, or a URI.
pub(crate) fn said(text: &str) -> Result<Said, String> {
    if Uri::is_meant(text) {
        let uri: Uri = text.parse().map_err(|error| format!("{error}"))?;
        let authority = Some(uri.authority());
        return Ok(Said { service: uri.service, authority });
    }
    let service = text.parse().map_err(|error: pinnace::service::Malformed| error.to_string())?;
    Ok(Said { service, authority: None })
}

/// What a service says in this word.
fn word(service: &Service, name: &str) -> Option<String> {
    let text = service.to_string();
    text.split(' ')
        .filter_map(|word| word.split_once('='))
        .find(|(word, _)| *word == name)
        .map(|(_, value)| value.to_owned())
}

/// What a service says of bytes in this word.
pub(super) fn bytes_of(service: &Service, name: &str) -> Option<u64> {
    units::bytes(&word(service, name)?).ok()
}

/// Whether messages go both ways.
pub(super) fn is_duplex(service: &Service) -> bool {
    word(service, "direction").is_some_and(|value| value == "duplex")
        || word(service, "pattern").is_some_and(|value| value == "transaction")
}

/// The service of an address and of `--service`, of which only one may say something.
fn one_of(address: &str, words: Option<&str>) -> Result<Said, Error> {
    let wrong = |why: String| Error::usage(why);
    let by_address = if Uri::is_meant(address) {
        said(address).map_err(wrong)?
    } else {
        Said { authority: Some(address.to_owned()), ..Said::default() }
    };
    let Some(words) = words else { return Ok(by_address) };
    let by_words = said(words).map_err(wrong)?;
    if by_words.authority.is_some() {
        return Err(wrong("--service takes words like 'loss=5% run=4KiB': a URI is an address".to_owned()));
    }
    if by_address.service != Service::new() {
        return Err(wrong("the URI says a service already: leave --service out".to_owned()));
    }
    Ok(Said { service: by_words.service, ..by_address })
}

/// Whom to connect to. Messages go both ways unless the service says otherwise.
pub(super) fn connecting(peer: &str, words: Option<&str>) -> Result<Target, Error> {
    let Said { service, authority } = one_of(peer, words)?;
    let authority = authority.unwrap_or_default();
    crate::transport::address(&authority).map_err(|why| Error::usage(format!("the peer {peer}: {why}")))?;
    let is_said = [Some(peer), words].into_iter().flatten().any(|text| text.contains("direction="));
    let service = if is_said { service } else { service.direction(Direction::Duplex) };
    Ok(Target { authority, service })
}

/// Where to listen: also a port alone, on all addresses.
pub(super) fn listening(address: &str, words: Option<&str>) -> Result<Target, Error> {
    let Said { service, authority } = one_of(address, words)?;
    let authority = authority.unwrap_or_default();
    let port: Option<u16> = authority.strip_prefix(':').unwrap_or(&authority).parse().ok();
    let authority = match port {
        Some(port) => format!("0.0.0.0:{port}"),
        None => crate::transport::address(&authority)
            .map_err(|why| Error::usage(format!("the address {address}: {why}, or a port alone")))?,
    };
    Ok(Target { authority, service })
}

/// The first address of a peer.
pub(super) fn resolve(authority: &str) -> Result<SocketAddr, Error> {
    let found =
        authority.to_socket_addrs().map_err(|error| Error::io(format!("cannot resolve {authority}"), &error))?;
    found.into_iter().next().ok_or_else(|| Error::failed(format!("{authority} has no address")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_an_address_and_a_uri_say_where_to_listen() {
        let authority = |text| listening(text, None).map(|target| target.authority).map_err(|error| error.message);
        assert_eq!(authority("4747").as_deref(), Ok("0.0.0.0:4747"));
        assert_eq!(authority(":4747").as_deref(), Ok("0.0.0.0:4747"));
        assert_eq!(authority("[::1]:4747").as_deref(), Ok("[::1]:4747"));
        assert_eq!(authority("pinnace://127.0.0.1:0?largest=1MiB").as_deref(), Ok("127.0.0.1:0"));
        for wrong in ["", "70000", "host", "pinnace://host", "pinnace://h:1?los=5%"] {
            assert!(authority(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_peer_is_talked_with_both_ways_unless_the_service_says_otherwise() {
        let service = |peer, words| connecting(peer, words).unwrap().service;
        assert!(is_duplex(&service("h:1", None)) && is_duplex(&service("h:1", Some("loss=5%"))));
        assert!(!is_duplex(&service("h:1", Some("direction=one-way"))));
        assert!(!is_duplex(&service("pinnace://h:1?direction=one-way", None)));
        assert!(is_duplex(&service("pinnace://h:1", Some("loss=5%"))));
        assert!(connecting("pinnace://h:1?loss=5%", Some("run=4KiB")).is_err());
        assert!(connecting("h:1", Some("pinnace://h:1")).is_err());
    }

    #[test]
    fn sizes_are_read_back_from_services() {
        let service: Service = "loss=5% run=4KiB size=100KB".parse().unwrap();
        assert_eq!((bytes_of(&service, "size"), bytes_of(&service, "largest")), (Some(100_000), None));
    }
}
