//! Startpoints: references to endpoints, that can be copied, written down and sent.
//!
//! Two forms. Text: `rsr:METHOD=ADDRESS[?OPTIONS],...[;id=HEX]`, in which bytes of an address or of options that are not
//! letters, digits or one of `-_.:/[]@&=+*` stand as `%XX`. Bytes: version (1), flags (bit 0: there is an id), id u64,
//! number of ways u8, and for each the method's name, the address and the options, each behind its length (u8, u16, u16);
//! numbers are big-endian, and bytes behind the last way are skipped.
//!
//! Always true: there are at most [`MOST_WAYS`] ways, and names, addresses and options are within their limits, so both
//! forms of a startpoint can be read back.

use super::error::Error;
use std::fmt;
use std::str::FromStr;

/// Ways that a startpoint may list.
pub const MOST_WAYS: usize = 16;

/// Bytes of a method's name.
const MOST_NAME_BYTES: usize = 32;
/// Bytes of an address.
const MOST_ADDRESS_BYTES: usize = 255;
/// Bytes of a way's options.
const MOST_OPTION_BYTES: usize = 1024;

const VERSION: u8 = 1;
const HAS_ID: u8 = 1;
const SCHEME: &str = "rsr:";

/// One way to reach an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Way {
    method: String,
    address: String,
    options: String,
}

impl Way {
    /// A way by `method` to `address`, with the method's own `options` (or none: `""`).
    ///
    /// # Errors
    /// If the method's name is not 1 to 32 lower-case letters, digits, `-` and `_`; if there are more than 255 bytes of
    /// address or 1,024 bytes of options.
    pub fn new(method: &str, address: &str, options: &str) -> Result<Self, Error> {
        let letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_');
        if method.is_empty() || method.len() > MOST_NAME_BYTES || !method.bytes().all(letter) {
            return Err(Error::malformed(format!("`{method}` is no name of a method")));
        }
        if address.len() > MOST_ADDRESS_BYTES || options.len() > MOST_OPTION_BYTES {
            return Err(Error::malformed(format!("the address or the options of `{method}` are too long")));
        }
        Ok(Self { method: method.to_owned(), address: address.to_owned(), options: options.to_owned() })
    }

    /// The method's name.
    pub fn method(&self) -> &str {
        &self.method
    }

    /// Where the endpoint is, as the method writes it.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// What else the method should know.
    pub fn options(&self) -> &str {
        &self.options
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.method, escaped(&self.address))?;
        if !self.options.is_empty() {
            write!(f, "?{}", escaped(&self.options))?;
        }
        Ok(())
    }
}

impl FromStr for Way {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let (method, rest) =
            text.split_once('=').ok_or_else(|| Error::malformed(format!("`{text}` is not METHOD=ADDRESS")))?;
        let (address, options) = rest.split_once('?').unwrap_or((rest, ""));
        Self::new(method, &unescaped(address)?, &unescaped(options)?)
    }
}

/// A reference to an endpoint: the ways to it, the preferred first, and which one is meant.
///
/// ```
/// use pinnace::rsr::Startpoint;
/// let startpoint: Startpoint = "rsr:vrp=192.0.2.1:4000,zcrp=[2001:db8::1]:4001;id=2a".parse()?;
/// assert_eq!(startpoint.ways()[1].address(), "[2001:db8::1]:4001");
/// assert_eq!(startpoint.via("zcrp")?.to_string(), "rsr:zcrp=[2001:db8::1]:4001;id=2a");
/// # Ok::<(), pinnace::rsr::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Startpoint {
    ways: Vec<Way>,
    id: Option<u64>,
}

impl Startpoint {
    /// A reference to the endpoint `id`, or to whichever is found, by these ways.
    ///
    /// # Errors
    /// If there are none, or more than [`MOST_WAYS`].
    pub fn new(ways: Vec<Way>, id: Option<u64>) -> Result<Self, Error> {
        match ways.len() {
            0 => Err(Error::malformed("a startpoint lists at least one way")),
            1..=MOST_WAYS => Ok(Self { ways, id }),
            _ => Err(Error::malformed(format!("a startpoint lists at most {MOST_WAYS} ways"))),
        }
    }

    /// The ways to the endpoint, the preferred first.
    pub fn ways(&self) -> &[Way] {
        &self.ways
    }

    /// Which endpoint is meant. Without, any that listens there takes the requests.
    pub fn id(&self) -> Option<u64> {
        self.id
    }

    /// The same endpoint, reached by this method and no other.
    ///
    /// # Errors
    /// [`Error::Unreachable`] if the startpoint does not list the method.
    pub fn via(&self, method: &str) -> Result<Self, Error> {
        let ways: Vec<_> = self.ways.iter().filter(|way| way.method == method).cloned().collect();
        if ways.is_empty() {
            return Err(Error::not_listed(method, self));
        }
        Ok(Self { ways, id: self.id })
    }

    /// The form that travels in buffers.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION, if self.id.is_some() { HAS_ID } else { 0 }];
        bytes.extend_from_slice(&self.id.unwrap_or(0).to_be_bytes());
        // The casts lose nothing: `Way::new` and `Startpoint::new` have looked.
        bytes.push(self.ways.len() as u8);
        for way in &self.ways {
            bytes.push(way.method.len() as u8);
            bytes.extend_from_slice(way.method.as_bytes());
            for text in [&way.address, &way.options] {
                bytes.extend_from_slice(&(text.len() as u16).to_be_bytes());
                bytes.extend_from_slice(text.as_bytes());
            }
        }
        bytes
    }

    /// Reads what [`Startpoint::to_bytes`] wrote.
    ///
    /// # Errors
    /// [`Error::Malformed`] if the bytes are nothing of the kind.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        Self::read(bytes).unwrap_or_else(|| Err(Error::malformed("the bytes are no startpoint")))
    }

    fn read(bytes: &[u8]) -> Option<Result<Self, Error>> {
        let (&[VERSION, flags], bytes) = bytes.split_first_chunk::<2>()? else { return None };
        let (id, bytes) = bytes.split_first_chunk()?;
        let id = (flags & HAS_ID != 0).then_some(u64::from_be_bytes(*id));
        let (&count, mut bytes) = bytes.split_first()?;
        let mut ways = Vec::new();
        for _ in 0..usize::from(count).min(MOST_WAYS + 1) {
            let (&len, rest) = bytes.split_first()?;
            let (method, rest) = split_text(rest, usize::from(len))?;
            let (len, rest) = rest.split_first_chunk()?;
            let (address, rest) = split_text(rest, usize::from(u16::from_be_bytes(*len)))?;
            let (len, rest) = rest.split_first_chunk()?;
            let (options, rest) = split_text(rest, usize::from(u16::from_be_bytes(*len)))?;
            ways.push(Way::new(method, address, options));
            bytes = rest;
        }
        Some(ways.into_iter().collect::<Result<_, _>>().and_then(|ways| Self::new(ways, id)))
    }
}

fn split_text(bytes: &[u8], len: usize) -> Option<(&str, &[u8])> {
    let (text, rest) = bytes.split_at_checked(len)?;
    Some((std::str::from_utf8(text).ok()?, rest))
}

impl fmt::Display for Startpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(SCHEME)?;
        for (index, way) in self.ways.iter().enumerate() {
            write!(f, "{}{way}", if index == 0 { "" } else { "," })?;
        }
        self.id.map_or(Ok(()), |id| write!(f, ";id={id:x}"))
    }
}

impl FromStr for Startpoint {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let no = || Error::malformed(format!("`{text}` is no startpoint: rsr:METHOD=ADDRESS,...;id=HEX is one"));
        let mut parts = text.trim().strip_prefix(SCHEME).ok_or_else(no)?.split(';');
        let ways = parts.next().ok_or_else(no)?.split(',').map(str::parse).collect::<Result<_, _>>()?;
        let mut id = None;
        for part in parts {
            match part.split_once('=') {
                Some(("id", digits)) => id = Some(u64::from_str_radix(digits, 16).map_err(|_| no())?),
                // What later versions add.
                Some(_) => {}
                None => return Err(no()),
            }
        }
        Self::new(ways, id)
    }
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.:/[]@&=+*".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

fn unescaped(text: &str) -> Result<String, Error> {
    let no = || Error::malformed(format!("`{text}` has a % without two hexadecimal digits of a character behind it"));
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let (digits, behind) = rest.split_first_chunk::<2>().ok_or_else(no)?;
        let digit = |digit: u8| char::from(digit).to_digit(16).ok_or_else(no);
        bytes.push((digit(digits[0])? * 16 + digit(digits[1])?) as u8);
        rest = behind;
    }
    String::from_utf8(bytes).map_err(|_| no())
}
