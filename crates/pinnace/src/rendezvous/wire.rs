//! What the two ends of a rendezvous say to each other, as bytes.
//!
//! | offset | HELLO (1,200 bytes) | ANSWER (at most as long) |
//! |---|---|---|
//! | 0 | `PNCE` | `PNCE` |
//! | 4 | 1 | 2 |
//! | 5 | lowest version | version |
//! | 6 | highest version | status |
//! | 7 | class of the path | method |
//! | 8 | nonce, 8 bytes | nonce, 8 bytes |
//! | 16 | cookie, 8 bytes; 0 in the first | cookie, 8 bytes |
//! | 24 | identity of the host, 16 bytes; 0 if it is not told | port, 2 bytes; bytes of a piece, 4; 0, 10 bytes |
//! | 40 | methods (1), then one byte each, as the client prefers them | bytes of text (2), then the text |
//! | | bytes of text (2), then the service as text; zeros | |
//!
//! Numbers are little-endian. Always true: what was parsed keeps the limits ([`MOST_METHODS`], [`MOST_TEXT`]); an answer is
//! never longer than the HELLO that asked for it, so a liar gains nothing from naming somebody else as its address.

use crate::service::Service;
use std::fmt;

/// The versions that this code speaks. From [`LARGE_PIECES`] on a message that has to be in place is one piece.
pub(crate) const VERSIONS: (u8, u8) = (1, LARGE_PIECES);
/// A client that speaks this version takes pieces of ZCRP of more than 8 MiB, if it has said `in-place=yes`.
pub(crate) const LARGE_PIECES: u8 = 2;
/// Bytes of a HELLO: below the smallest MTU that is met, and not less than any answer.
pub(crate) const HELLO_BYTES: usize = 1200;
/// The longest text, in bytes: a service, or the reason of a refusal.
pub(crate) const MOST_TEXT: usize = 512;
/// The most methods of a HELLO.
pub(crate) const MOST_METHODS: usize = 16;

const MAGIC: [u8; 4] = *b"PNCE";
const KIND_HELLO: u8 = 1;
const KIND_ANSWER: u8 = 2;
const HEAD_BYTES: usize = 40;

/// Why bytes are no message of the rendezvous. Nobody is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WireError {
    /// Too short for what it says.
    Short,
    /// Not of this protocol, or of the other direction.
    Foreign,
    /// A limit is passed, a number has no meaning, or text is not UTF-8.
    Malformed,
}

/// What a client wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    /// The versions that the client speaks.
    pub(crate) versions: (u8, u8),
    /// The class of the path, as the client sees it; the server has a mind of its own.
    pub(crate) class: u8,
    /// Names this attempt; the answer and the preamble repeat it.
    pub(crate) nonce: u64,
    /// What the server said to the last HELLO; 0 in the first.
    pub(crate) cookie: u64,
    /// The client's host; 0 if it does not tell.
    pub(crate) host: u128,
    /// The methods that the client has, by their numbers, in order of preference.
    pub(crate) methods: Vec<u8>,
    /// The service as text.
    pub(crate) service: String,
}

/// What a server says to a [`Hello`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// The method, at the port.
    Accepted = 0,
    /// Say it again with this cookie: so the address is known to be the client's.
    Again = 1,
    /// The endpoint is there, and nobody listens on it.
    NobodyListens = 2,
    /// No method that both have meets the service; the text says why.
    NoMethod = 3,
    /// The service is beyond what the listener accepts; the text says why.
    BeyondLimits = 4,
    /// None of the client's versions is spoken here.
    Version = 5,
    /// Too many are being answered, or too many connections wait.
    Busy = 6,
    /// The service is not understood here; the text says why.
    Unknown = 7,
}

impl Status {
    const ALL: [Self; 8] = [
        Self::Accepted,
        Self::Again,
        Self::NobodyListens,
        Self::NoMethod,
        Self::BeyondLimits,
        Self::Version,
        Self::Busy,
        Self::Unknown,
    ];
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Accepted => "accepted",
            Self::Again => "say it again",
            Self::NobodyListens => "nobody listens there",
            Self::NoMethod => "no method that both ends have meets the service",
            Self::BeyondLimits => "the service is beyond what the listener accepts",
            Self::Version => "both ends need the same version",
            Self::Busy => "too many connections are being set up there; try again",
            Self::Unknown => "the service is not understood there",
        })
    }
}

/// The server's word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// The version that is spoken from now on.
    pub(crate) version: u8,
    /// What has become of it.
    pub(crate) status: Status,
    /// The number of the method that was chosen; 0: none.
    pub(crate) method: u8,
    /// The HELLO's.
    pub(crate) nonce: u64,
    /// To be said in the next HELLO, if there is one.
    pub(crate) cookie: u64,
    /// Where the method's own socket is.
    pub(crate) port: u16,
    /// The largest piece of a message that the method's receiver has buffers for; 0: it does not matter.
    pub(crate) piece: u32,
    /// Why it is refused.
    pub(crate) text: String,
}

/// The longest beginning of `text` that is no longer than `most` bytes.
fn clip(text: &str, most: usize) -> &str {
    let mut len = text.len().min(most);
    while !text.is_char_boundary(len) {
        len -= 1;
    }
    &text[..len]
}

/// Reads numbers and texts from the front.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], WireError> {
        let (front, rest) = self.0.split_at_checked(len).ok_or(WireError::Short)?;
        self.0 = rest;
        Ok(front)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (front, rest) = self.0.split_first_chunk().ok_or(WireError::Short)?;
        self.0 = rest;
        Ok(*front)
    }

    fn byte(&mut self) -> Result<u8, WireError> {
        self.array().map(|[byte]| byte)
    }

    fn text(&mut self, most: usize) -> Result<String, WireError> {
        let len = usize::from(u16::from_le_bytes(self.array()?));
        if len > most {
            return Err(WireError::Malformed);
        }
        let text = std::str::from_utf8(self.take(len)?).map_err(|_| WireError::Malformed)?;
        Ok(text.to_owned())
    }

    fn kind(&mut self, kind: u8) -> Result<(), WireError> {
        if self.array()? == MAGIC && self.byte()? == kind { Ok(()) } else { Err(WireError::Foreign) }
    }
}

fn put_text(to: &mut Vec<u8>, text: &str, most: usize) {
    let text = clip(text, most);
    to.extend_from_slice(&(text.len() as u16).to_le_bytes());
    to.extend_from_slice(text.as_bytes());
}

impl Hello {
    /// As bytes. `None` if it has more methods or a longer text than there may be.
    pub(crate) fn encode(&self) -> Option<Vec<u8>> {
        if self.methods.len() > MOST_METHODS || self.service.len() > MOST_TEXT {
            return None;
        }
        let mut bytes = Vec::with_capacity(HELLO_BYTES);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&[KIND_HELLO, self.versions.0, self.versions.1, self.class]);
        bytes.extend_from_slice(&self.nonce.to_le_bytes());
        bytes.extend_from_slice(&self.cookie.to_le_bytes());
        bytes.extend_from_slice(&self.host.to_le_bytes());
        bytes.push(self.methods.len() as u8);
        bytes.extend_from_slice(&self.methods);
        put_text(&mut bytes, &self.service, MOST_TEXT);
        bytes.resize(HELLO_BYTES, 0);
        Some(bytes)
    }

    /// From the bytes of a datagram.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, WireError> {
        if bytes.len() < HELLO_BYTES {
            // An answer might be longer than what was asked.
            return Err(WireError::Short);
        }
        let mut cursor = Cursor(bytes);
        cursor.kind(KIND_HELLO)?;
        let [low, high, class] = cursor.array()?;
        let nonce = u64::from_le_bytes(cursor.array()?);
        let cookie = u64::from_le_bytes(cursor.array()?);
        let host = u128::from_le_bytes(cursor.array()?);
        let count = usize::from(cursor.byte()?);
        if count > MOST_METHODS || low > high {
            return Err(WireError::Malformed);
        }
        let methods = cursor.take(count)?.to_vec();
        let service = cursor.text(MOST_TEXT)?;
        Ok(Self { versions: (low, high), class, nonce, cookie, host, methods, service })
    }
}

impl Answer {
    /// That `hello` is refused, and why.
    pub(crate) fn refusal(hello: &Hello, status: Status, why: &str) -> Self {
        let text = clip(why, MOST_TEXT).to_owned();
        Self {
            version: hello.versions.1.min(VERSIONS.1),
            status,
            method: 0,
            nonce: hello.nonce,
            cookie: 0,
            port: 0,
            piece: 0,
            text,
        }
    }

    /// As bytes; a text that is too long is cut.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD_BYTES + 2 + self.text.len());
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&[KIND_ANSWER, self.version, self.status as u8, self.method]);
        bytes.extend_from_slice(&self.nonce.to_le_bytes());
        bytes.extend_from_slice(&self.cookie.to_le_bytes());
        bytes.extend_from_slice(&self.port.to_le_bytes());
        bytes.extend_from_slice(&self.piece.to_le_bytes());
        bytes.resize(HEAD_BYTES, 0);
        put_text(&mut bytes, &self.text, MOST_TEXT);
        bytes
    }

    /// From the bytes of a datagram.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, WireError> {
        let mut cursor = Cursor(bytes);
        cursor.kind(KIND_ANSWER)?;
        let [version, status, method] = cursor.array()?;
        let status = *Status::ALL.get(usize::from(status)).ok_or(WireError::Malformed)?;
        let nonce = u64::from_le_bytes(cursor.array()?);
        let cookie = u64::from_le_bytes(cursor.array()?);
        let port = u16::from_le_bytes(cursor.array()?);
        let piece = u32::from_le_bytes(cursor.array()?);
        cursor.take(HEAD_BYTES - 30)?;
        let text = cursor.text(MOST_TEXT)?;
        Ok(Self { version, status, method, nonce, cookie, port, piece, text })
    }
}

const CONTROL_MAGIC: [u8; 8] = *b"PNCEctl\x01";
const CONTROL_HEAD: usize = 24;
/// The longest service of an OPEN, in bytes. HELLO has no room for as much: it leaves out which ranges are critical.
pub(crate) const MOST_SERVICE: usize = 8192;

/// What a message of a connection says that is not the application's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The first message: who this is.
    Open = 1,
    /// No more messages come.
    End = 2,
    /// Somebody is here; nothing else.
    Alive = 3,
    /// No more messages come, and some of those that were to come are missing.
    Abort = 4,
}

/// A message of the connection's own, on the method's way. It begins with the connection's nonce, that no application is
/// told; so it is known from the application's messages without a byte on each of those.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Control {
    /// What it says.
    pub(crate) kind: Kind,
    /// Where the sender receives, for methods that have one direction; 0: nowhere.
    pub(crate) port: u16,
    /// The connection's.
    pub(crate) nonce: u64,
    /// With OPEN the largest piece that its sender has buffers for, or of VRP after how many milliseconds a sender that has
    /// nothing to send shows that it is there; with END the words of its sender that were lost; of VRP with ALIVE a
    /// frame's number that was announced and not used, plus one, and 65,536 more if it was refused; 0: it does not matter.
    pub(crate) piece: u32,
    /// The service, if it opens.
    pub(crate) service: String,
}

impl Control {
    /// The longest, in bytes.
    pub(crate) const MOST_BYTES: usize = CONTROL_HEAD + 2 + MOST_SERVICE;

    /// One without a service.
    pub(crate) fn new(kind: Kind, nonce: u64) -> Self {
        Self { kind, port: 0, nonce, piece: 0, service: String::new() }
    }

    /// As bytes; a text that is too long is cut.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(CONTROL_HEAD + 2 + self.service.len());
        bytes.extend_from_slice(&CONTROL_MAGIC);
        bytes.extend_from_slice(&self.nonce.to_le_bytes());
        bytes.extend_from_slice(&[self.kind as u8, 0]);
        bytes.extend_from_slice(&self.port.to_le_bytes());
        bytes.extend_from_slice(&self.piece.to_le_bytes());
        put_text(&mut bytes, &self.service, MOST_SERVICE);
        bytes
    }

    /// From the bytes of a message: of the connection with this nonce, if one is given.
    pub(crate) fn parse(bytes: &[u8], nonce: Option<u64>) -> Result<Self, WireError> {
        let mut cursor = Cursor(bytes);
        if cursor.array()? != CONTROL_MAGIC {
            return Err(WireError::Foreign);
        }
        let said = u64::from_le_bytes(cursor.array()?);
        if nonce.is_some_and(|nonce| nonce != said) {
            return Err(WireError::Foreign);
        }
        let [kind, _] = cursor.array()?;
        let kind = match kind {
            1 => Kind::Open,
            2 => Kind::End,
            3 => Kind::Alive,
            4 => Kind::Abort,
            _ => return Err(WireError::Malformed),
        };
        let port = u16::from_le_bytes(cursor.array()?);
        let piece = u32::from_le_bytes(cursor.array()?);
        let service = cursor.text(MOST_SERVICE)?;
        if !cursor.0.is_empty() {
            return Err(WireError::Malformed);
        }
        Ok(Self { kind, port, nonce: said, piece, service })
    }

    /// Whether `bytes` may be a control message of this connection: one look for messages of the application.
    pub(crate) fn may_be(bytes: &[u8], nonce: u64) -> bool {
        bytes.len() >= CONTROL_HEAD + 2
            && bytes.len() <= Self::MOST_BYTES
            && bytes[..8] == CONTROL_MAGIC
            && bytes[8..16] == nonce.to_le_bytes()
    }
}

/// The service that an OPEN says, if it is the one that was agreed on: the same, or what HELLO had no room for beside it.
pub(crate) fn whole(opened: &str, agreed: &Service) -> Option<Service> {
    let service: Service = opened.parse().ok()?;
    (service == *agreed || service.without_critical() == *agreed).then_some(service)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hello() -> Hello {
        Hello {
            versions: (1, 3),
            class: 2,
            nonce: 0x1122_3344_5566_7788,
            cookie: 9,
            host: 0xABCD,
            methods: vec![4, 2, 7],
            service: "loss=5%&run=4KiB".into(),
        }
    }

    fn answer() -> Answer {
        let text = "no".to_owned();
        Answer { version: 1, status: Status::Again, method: 3, nonce: 7, cookie: 5, port: 4711, piece: 1 << 20, text }
    }

    #[test]
    fn what_is_said_is_understood() {
        let bytes = hello().encode().unwrap();
        assert_eq!((bytes.len(), Hello::parse(&bytes)), (HELLO_BYTES, Ok(hello())));
        assert_eq!(Answer::parse(&answer().encode()), Ok(answer()));
        let control = Control { port: 9, piece: 3, service: "x".into(), ..Control::new(Kind::Open, 77) };
        assert_eq!(Control::parse(&control.encode(), Some(77)), Ok(control.clone()));
        assert_eq!(Control::parse(&control.encode(), Some(78)), Err(WireError::Foreign));
        assert!(Control::may_be(&control.encode(), 77) && !Control::may_be(&control.encode(), 78));
        for status in Status::ALL {
            let answer = Answer { status, ..answer() };
            assert_eq!(Answer::parse(&answer.encode()).unwrap().status, status);
        }
    }

    #[test]
    fn an_answer_is_never_longer_than_what_asked_for_it() {
        let longest = Answer { text: "x".repeat(100_000), ..answer() };
        let bytes = longest.encode();
        assert!(bytes.len() <= HELLO_BYTES, "{}", bytes.len());
        assert_eq!(Answer::parse(&bytes).unwrap().text.len(), MOST_TEXT);
        let hello = hello().encode().unwrap();
        for len in 0..HELLO_BYTES {
            assert_eq!(Hello::parse(&hello[..len]), Err(WireError::Short), "{len}");
        }
    }

    #[test]
    fn limits_hold_on_both_sides() {
        assert!(Hello { methods: vec![1; MOST_METHODS + 1], ..hello() }.encode().is_none());
        assert!(Hello { service: "x".repeat(MOST_TEXT + 1), ..hello() }.encode().is_none());
        let most = Hello { methods: vec![1; MOST_METHODS], service: "x".repeat(MOST_TEXT), ..hello() };
        assert_eq!(Hello::parse(&most.encode().unwrap()), Ok(most));
        let mut bytes = hello().encode().unwrap();
        bytes[40] = MOST_METHODS as u8 + 1;
        assert_eq!(Hello::parse(&bytes), Err(WireError::Malformed));
        let mut bytes = hello().encode().unwrap();
        (bytes[5], bytes[6]) = (3, 1);
        assert_eq!(Hello::parse(&bytes), Err(WireError::Malformed), "no versions");
        let mut bytes = hello().encode().unwrap();
        bytes[44..46].copy_from_slice(&(MOST_TEXT as u16 + 1).to_le_bytes());
        assert_eq!(Hello::parse(&bytes), Err(WireError::Malformed), "too long a text");
        let mut bytes = hello().encode().unwrap();
        bytes[46] = 0xFF;
        assert_eq!(Hello::parse(&bytes), Err(WireError::Malformed), "no text");
        let mut bytes = answer().encode();
        bytes[6] = 99;
        assert_eq!(Answer::parse(&bytes), Err(WireError::Malformed));
        assert_eq!(Answer::parse(&hello().encode().unwrap()), Err(WireError::Foreign));
    }

    #[test]
    fn text_is_cut_between_letters() {
        let text = "ä".repeat(MOST_TEXT);
        assert_eq!(clip(&text, MOST_TEXT).len(), MOST_TEXT);
        assert_eq!(clip(&format!("a{text}"), MOST_TEXT).len(), MOST_TEXT - 1);
    }

    proptest! {
        #[test]
        fn nothing_that_comes_panics_and_what_is_understood_is_said_alike(mut bytes in proptest::collection::vec(any::<u8>(), 0..1400)) {
            let _ = (Hello::parse(&bytes), Answer::parse(&bytes), Control::parse(&bytes, None));
            // Most of what was random is not of this protocol at all.
            for kind in [KIND_HELLO, KIND_ANSWER] {
                if bytes.len() > 5 {
                    bytes[..4].copy_from_slice(&MAGIC);
                    bytes[4] = kind;
                }
                if let Ok(hello) = Hello::parse(&bytes) {
                    prop_assert_eq!(Hello::parse(&hello.encode().unwrap()), Ok(hello));
                }
                if let Ok(answer) = Answer::parse(&bytes) {
                    prop_assert_eq!(Answer::parse(&answer.encode()), Ok(answer));
                }
            }
            if bytes.len() > 8 {
                bytes[..8].copy_from_slice(&CONTROL_MAGIC);
            }
            if let Ok(control) = Control::parse(&bytes, None) {
                prop_assert_eq!(Control::parse(&control.encode(), None), Ok(control));
            }
        }

        #[test]
        fn every_truncation_is_refused_or_short(at in 0usize..45) {
            prop_assert!(Answer::parse(&answer().encode()[..at.min(43)]).is_err());
            let control = Control::new(Kind::End, 5).encode();
            prop_assert!(Control::parse(&control[..at.min(control.len() - 1)], None).is_err());
        }
    }
}
