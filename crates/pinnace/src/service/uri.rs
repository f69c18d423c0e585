//! A peer and a service in one word: `pinnace://host:port?loss=5%&run=4KiB&deadline=50ms`.
//!
//! Always true: a percent sign that is not followed by two hexadecimal digits is itself, so that `loss=5%` needs no escape.

use super::{Malformed, Service, words};
use percent_encoding::percent_decode_str;
use std::fmt;
use std::str::FromStr;

const SCHEME: &str = "pinnace://";

/// Where an address is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A listener is to be there, whose port may be 0: any.
    Here,
    /// It is of whoever is to be reached.
    There,
}

/// Whether a text is `HOST:PORT`: what may be wrong with a name that does not resolve is said better before it is asked for.
pub(crate) fn check_address(text: &str, place: Place) -> Result<(), Malformed> {
    let allowed = match place {
        Place::Here => "HOST:PORT, as `[::]:4747` (every address), `127.0.0.1:4747` or `[::]:0` (any port)",
        Place::There => "HOST:PORT, as `host:4747` or `[::1]:4747`, or pinnace://HOST:PORT?WORD=VALUE&WORD=VALUE",
    };
    let wrong = |what: &str| Err(Malformed::new(text, what, allowed));
    if text.trim().is_empty() {
        return wrong("the address is empty");
    }
    if let Some((scheme, _)) = text.split_once("://") {
        return match place {
            Place::Here => wrong("a listener has an address, and no URI"),
            Place::There => wrong(&format!("the scheme `{scheme}` is not known")),
        };
    }
    let Some((host, port)) = text.rsplit_once(':').filter(|_| !text.ends_with(']')) else {
        return wrong("has no port");
    };
    if host.ends_with(':') || (host.contains(':') && !(host.starts_with('[') && host.ends_with(']'))) {
        return wrong("IPv6 wants brackets, and a port behind them");
    }
    match port.parse::<u16>() {
        Err(_) if place == Place::Here => wrong(&format!("`{port}` is no port: 0 to 65535")),
        Err(_) => wrong(&format!("`{port}` is no port: 1 to 65535")),
        Ok(0) if place == Place::There => wrong("nobody can be reached at port 0: say the listener's own"),
        Ok(_) if host.is_empty() => wrong("has no host"),
        Ok(_) => Ok(()),
    }
}

/// Whom to reach, and with what service.
///
/// ```
/// use pinnace::service::Uri;
/// let uri: Uri = "pinnace://[2001:db8::7]:4747?loss=5%25&size=2MB".parse()?;
/// assert_eq!((uri.host.as_str(), uri.port), ("2001:db8::7", 4747));
/// assert_eq!(uri.to_string(), "pinnace://[2001:db8::7]:4747?loss=5%&size=2MB");
/// # Ok::<(), pinnace::service::Malformed>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uri {
    /// A name or an address, without brackets.
    pub host: String,
    /// The port of UDP.
    pub port: u16,
    /// With what service.
    pub service: Service,
}

impl Uri {
    /// Whether a text is meant to be one.
    pub fn is_meant(text: &str) -> bool {
        text.trim_start().starts_with(SCHEME)
    }

    /// Whether a URI says something of the service, if only what is so anyway, as `loss=0` is.
    ///
    /// ```
    /// use pinnace::service::Uri;
    /// assert!(Uri::has_words("pinnace://host:4747?loss=0"));
    /// assert!(!Uri::has_words("pinnace://host:4747") && !Uri::has_words("pinnace://host:4747?"));
    /// ```
    pub fn has_words(text: &str) -> bool {
        let query = text.trim().split_once('?').map_or("", |(_, query)| query);
        Self::is_meant(text) && words_in(query).next().is_some()
    }

    /// `host:port`, as the standard library resolves it.
    pub fn authority(&self) -> String {
        let Self { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }
}

impl fmt::Display for Uri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}", self.authority())?;
        for (at, (name, value)) in words::pairs(&self.service).enumerate() {
            write!(f, "{}{name}={}", if at == 0 { '?' } else { '&' }, escaped(&value))?;
        }
        Ok(())
    }
}

/// What is said behind the question mark.
fn words_in(query: &str) -> impl Iterator<Item = &str> {
    query.split('&').filter(|word| !word.is_empty())
}

/// With what would be read as an escape escaped.
fn escaped(value: &str) -> String {
    let is_escape = |rest: &[u8]| rest.len() > 1 && rest[..2].iter().all(u8::is_ascii_hexdigit);
    let mut out = String::with_capacity(value.len());
    for (at, c) in value.char_indices() {
        out.push(c);
        if c == '%' && is_escape(&value.as_bytes()[at + 1..]) {
            out.push_str("25");
        }
    }
    out
}

impl FromStr for Uri {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Self, Malformed> {
        let text = text.trim();
        let wrong = |what: &str| Malformed::new(text, what, "pinnace://HOST:PORT?WORD=VALUE&WORD=VALUE");
        let rest = text.strip_prefix(SCHEME).ok_or_else(|| wrong("does not begin with `pinnace://`"))?;
        let (authority, query) = rest.split_once('?').unwrap_or((rest, ""));
        let authority = authority.strip_suffix('/').unwrap_or(authority);
        let (host, port) = authority.rsplit_once(':').ok_or_else(|| wrong("has no port"))?;
        let port = port.parse().map_err(|_| wrong(&format!("`{port}` is no port")))?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host = match bare {
            Some(host) if host.contains(':') => host,
            None if !host.contains([':', '[', ']']) => host,
            _ => return Err(wrong("has a host that is neither a name nor an address; IPv6 wants brackets")),
        };
        if host.is_empty() || host.contains(['/', '@', '#', '&', '=', '%']) || host.contains(char::is_whitespace) {
            return Err(wrong("has no host that could be one"));
        }
        let words = words_in(query).map(|word| {
            let word = percent_decode_str(word).decode_utf8();
            word.map_err(|_| wrong("is no UTF-8"))
        });
        let words: Vec<_> = words.collect::<Result<_, _>>()?;
        let service = words::service_of(words.iter().map(|word| words::pair(word)))?;
        Ok(Self { host: host.to_owned(), port, service })
    }
}
