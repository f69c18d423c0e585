//! Whom, and with what service, as people write it: words, a URI, a port.

use crate::exit::Error;
use pinnace::service::{Direction, Receivers, Service, Uri, units};

/// An address, and a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// `host:port`.
    pub(super) authority: String,
    pub(super) service: Service,
}

/// Those who are connected to, and the service that all of them get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Peers {
    /// `host:port`.
    pub(super) authorities: Vec<String>,
    pub(super) service: Service,
}

/// A service that was given as words or as a URI, and whom the URI names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Said {
    /// The default one, if nothing was said of it.
    pub(crate) service: Service,
    /// Something was said of it, if only what is so anyway.
    pub(crate) has_words: bool,
    pub(crate) authority: Option<String>,
}

/// Reads words like `loss=5% run=4KiB`, or a URI.
pub(crate) fn said(text: &str) -> Result<Said, String> {
    if Uri::is_meant(text) {
        let uri: Uri = text.parse().map_err(|error| format!("{error}"))?;
        let authority = Some(uri.authority());
        return Ok(Said { service: uri.service, has_words: Uri::has_words(text), authority });
    }
    let service = text.parse().map_err(|error: pinnace::service::Malformed| error.to_string())?;
    Ok(Said { service, has_words: !text.trim().is_empty(), authority: None })
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

/// Whether messages may be too old to be of use.
pub(super) fn may_be_late(service: &Service) -> bool {
    ["lifespan", "deadline"].iter().any(|name| word(service, name).is_some())
}

/// The service of an address and of `--service`, of which only one may say something.
pub(crate) fn one_of(address: &str, words: Option<&str>) -> Result<Said, Error> {
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
    if by_address.has_words {
        let both = format!("{address} says a service, and so does --service '{words}': leave --service out");
        return Err(wrong(both));
    }
    Ok(Said { authority: by_address.authority, ..by_words })
}

/// Whom to connect to. Messages go both ways unless the service says otherwise, or it is one to several receivers.
pub(super) fn connecting(peers: &[String], words: Option<&str>) -> Result<Peers, Error> {
    let (mut authorities, mut services) = (Vec::with_capacity(peers.len()), Vec::new());
    for peer in peers {
        let Said { service, has_words, authority } = one_of(peer, words)?;
        let authority = authority.unwrap_or_default();
        crate::transport::address(&authority).map_err(|why| Error::usage(format!("the peer {peer}: {why}")))?;
        authorities.push(authority);
        if has_words && !services.contains(&service) {
            services.push(service);
        }
    }
    if services.len() > 1 {
        return Err(Error::usage("the URIs say different services: all peers get the same".to_owned()));
    }
    let service = services.pop().unwrap_or_default();
    let is_said = peers.iter().map(String::as_str).chain(words).any(|text| text.contains("direction="));
    let service = match (word(&service, "multicast"), authorities.len()) {
        (None, 0 | 1) if is_said => service,
        (None, 0 | 1) => service.direction(Direction::Duplex),
        (None, count) => service.receivers(Receivers::Many(u32::try_from(count).unwrap_or(u32::MAX))),
        (Some(_), _) => service,
    };
    Ok(Peers { authorities, service })
}

/// Where to listen: also a port alone, on all addresses.
pub(super) fn listening(address: &str, words: Option<&str>) -> Result<Target, Error> {
    let Said { service, authority, .. } = one_of(address, words)?;
    let authority = crate::transport::local(&authority.unwrap_or_default())
        .map_err(|why| Error::usage(format!("the address {address}: {why}")))?;
    Ok(Target { authority, service })
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
        for wrong in ["99999", ":99999"] {
            let error = authority(wrong).unwrap_err();
            assert!(error.contains("99999 is no port"), "{error}");
        }
        assert!(authority("host").unwrap_err().contains("has no port"));
    }

    #[test]
    fn a_peer_is_talked_with_both_ways_unless_the_service_says_otherwise() {
        let to = |peer: &str, words| connecting(&[peer.to_owned()], words);
        let service = |peer, words| to(peer, words).unwrap().service;
        assert!(is_duplex(&service("h:1", None)) && is_duplex(&service("h:1", Some("loss=5%"))));
        assert!(!is_duplex(&service("h:1", Some("direction=one-way"))));
        assert!(!is_duplex(&service("pinnace://h:1?direction=one-way", None)));
        assert!(is_duplex(&service("pinnace://h:1", Some("loss=5%"))));
        assert!(to("pinnace://h:1?loss=5%", Some("run=4KiB")).is_err());
        // What is said anyway is said, too.
        let error = to("pinnace://h:1?loss=0", Some("loss=5%")).unwrap_err().message;
        assert!(error.contains("pinnace://h:1?loss=0") && error.contains("--service 'loss=5%'"), "{error}");
        assert!(to("pinnace://h:1?loss=0", Some("size=1KiB")).is_err());
        assert_eq!(service("pinnace://h:1?loss=0", None), service("h:1", None));
        assert!(to("h:1", Some("pinnace://h:1")).is_err());
    }

    #[test]
    fn several_peers_only_receive_and_get_the_same() {
        let service = |peers: &[&str], words| {
            let peers: Vec<_> = peers.iter().map(|peer| (*peer).to_owned()).collect();
            connecting(&peers, words).map(|peers| peers.service.to_string()).map_err(|error| error.message)
        };
        assert_eq!(service(&["h:1", "h:2"], Some("size=1KiB")).as_deref(), Ok("size=1KiB multicast=2"));
        assert_eq!(service(&["h:1", "h:2", "h:3"], Some("multicast=3")).as_deref(), Ok("multicast=3"));
        assert_eq!(service(&["h:1"], Some("multicast=239.1.2.3:7")).as_deref(), Ok("multicast=239.1.2.3:7"));
        assert_eq!(service(&["pinnace://h:1?size=1KiB", "h:2"], None).as_deref(), Ok("size=1KiB multicast=2"));
        let error = service(&["pinnace://h:1?size=1KiB", "pinnace://h:2?size=2KiB"], None).unwrap_err();
        assert!(error.contains("different services"), "{error}");
        let error = service(&["pinnace://h:1?loss=0", "pinnace://h:2?loss=5%"], None).unwrap_err();
        assert!(error.contains("different services"), "{error}");
    }

    #[test]
    fn sizes_are_read_back_from_services() {
        let service: Service = "loss=5% run=4KiB size=100KB".parse().unwrap();
        assert_eq!((bytes_of(&service, "size"), bytes_of(&service, "largest")), (Some(100_000), None));
    }
}
