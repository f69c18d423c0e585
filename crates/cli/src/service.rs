//! Services for the tools that have a method of their own: each word is met, or refused with the reason.
//!
//! Always true: what a tool begins with has no word that it would not keep.

use crate::exit::Error;
use crate::netcat::{Said, one_of, said};
use crate::transport;
use pinnace::service::{Method, Path, PathClass, Service, Uri};
use pinnace::zcrp::Profile;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// An address, or a URI that has one.
pub(crate) fn target(text: &str) -> Result<String, String> {
    if Uri::is_meant(text) { said(text).map(|_| text.to_owned()) } else { transport::address(text) }
}

/// The same of this end: a port alone, too.
pub(crate) fn place(text: &str) -> Result<String, String> {
    if Uri::is_meant(text) { target(text) } else { transport::local(text) }
}

/// Whom a tool is to talk with, and how.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// `host:port`.
    pub(crate) authority: String,
    pub(crate) service: Service,
}

/// A tool, its method, and why it does not meet a word; `None`: it does.
pub(crate) struct Tool {
    pub(crate) name: &'static str,
    pub(crate) method: Method,
    pub(crate) cannot: fn(&str) -> Option<&'static str>,
}

impl Tool {
    /// What is asked of it, by an address or URI, and by words beside that.
    pub(crate) fn asked(&self, address: &str, words: Option<&str>) -> Result<Asked, Error> {
        let Said { service, authority, .. } = one_of(address, words)?;
        let authority = authority.unwrap_or_default();
        transport::address(&authority).map_err(|why| Error::usage(format!("`{address}` {why}")))?;
        let asked = Asked { authority, service };
        self.check(&asked)?;
        Ok(asked)
    }

    fn check(&self, asked: &Asked) -> Result<(), Error> {
        let text = asked.service.to_string();
        let refused = text.split_whitespace().filter_map(|word| {
            let (name, _) = word.split_once('=')?;
            Some(format!("{word} ({})", (self.cannot)(name)?))
        });
        let refused: Vec<String> = refused.collect();
        if !refused.is_empty() {
            return Err(Error::usage(format!("{} cannot meet {}", self.name, refused.join(", "))));
        }
        if text.is_empty() {
            return Ok(());
        }
        // A name that is not known yet is told of by whoever connects.
        let peer = crate::address::lookup(&asked.authority).ok().flatten();
        // Whoever listens everywhere does not know from how far they come: perhaps from here.
        let peer = peer.map(|peer| match peer.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => SocketAddr::new(Ipv4Addr::LOCALHOST.into(), peer.port()),
            IpAddr::V6(ip) if ip.is_unspecified() => SocketAddr::new(Ipv6Addr::LOCALHOST.into(), peer.port()),
            _ => peer,
        });
        let path = Path::of_service(&asked.service, peer)
            .map_err(|error| Error::io(format!("the way to {}", asked.authority), &error))?;
        let offer = self.method.probe(&asked.service, &path);
        if offer.fits {
            return Ok(());
        }
        let Self { name, method, .. } = self;
        let why = offer.why.join("; ");
        Err(Error::usage(format!("{name} sends by {method}, which cannot meet `{text}`: {why}")))
    }
}

impl Asked {
    /// What the service says in this word.
    pub(crate) fn word(&self, name: &str) -> Option<String> {
        let text = self.service.to_string();
        let mut words = text.split_whitespace().filter_map(|word| word.split_once('='));
        words.find(|(word, _)| *word == name).map(|(_, value)| value.to_owned())
    }
}

/// What kind of network that is for the transports.
pub(crate) fn profile(class: PathClass) -> Profile {
    match class {
        PathClass::Internet => Profile::Internet,
        PathClass::Host | PathClass::Cluster => Profile::Cluster,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_met_or_refused_with_the_reason() {
        let tool = Tool {
            name: "sail",
            method: Method::Zcrp,
            cannot: |word| (word == "rate" || word == "priority").then_some("it goes with the wind"),
        };
        let asked = tool.asked("pinnace://127.0.0.1:4747?path=cluster&size=1MiB", None).unwrap();
        assert_eq!((asked.authority.as_str(), asked.word("size").as_deref()), ("127.0.0.1:4747", Some("1MiB")));
        assert_eq!(asked.word("rate"), None);
        let why = |address: &str, words| tool.asked(address, words).unwrap_err().message;
        let both = why("127.0.0.1:4747", Some("rate=1mbit loss=5% priority=3"));
        assert!(both.contains("rate=1mbit (it goes with the wind), priority=3 (it"), "{both}");
        let by_method = why("127.0.0.1:4747", Some("lifespan=1s"));
        assert!(by_method.contains("zcrp") && by_method.contains("drops nothing"), "{by_method}");
        assert!(why("pinnace://127.0.0.1:4747?size=1KiB", Some("size=2KiB")).contains("--service"));
        assert!(tool.asked("0.0.0.0:0", Some("path=internet")).is_ok());
        // From how far they come is not known, unless it is said.
        for everywhere in ["0.0.0.0:0", "[::]:0"] {
            assert!(tool.asked(everywhere, Some("deadline=5ms")).is_ok());
            assert!(why(everywhere, Some("deadline=5ms path=internet")).contains("deadline"));
        }
    }
}
