//! What goes wrong between a service and the methods.

use crate::Error;
use crate::service::{Malformed, Method, Unmet};
use std::net::SocketAddr;
use std::{fmt, io};

/// Why a connection was not made, or is of no use. Says who, and by which method.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConnectionError {
    /// No method can carry the service on this path; says of each why not.
    Unmet {
        /// Who was to be reached.
        peer: String,
        /// What each method answered.
        unmet: Unmet,
    },
    /// The service, or an address, is not understood.
    Malformed(Malformed),
    /// The service is longer as a text than can be told to a peer.
    ServiceTooLong {
        /// Its bytes.
        bytes: usize,
        /// The most.
        most: usize,
    },
    /// Nobody has answered.
    NoAnswer {
        /// Who was asked.
        peer: String,
        /// What may be the reason.
        hint: String,
    },
    /// The peer has refused.
    Refused {
        /// Who.
        peer: String,
        /// What it said.
        why: String,
    },
    /// The peer was found, and could not be reached by any method that both ends have.
    Unreached {
        /// Who.
        peer: String,
        /// What has become of each method that was tried.
        tried: Vec<(Method, String)>,
    },
    /// A name has several addresses, and none of them was connected to.
    NoneOf {
        /// The name.
        name: String,
        /// Its addresses in the order in which they were tried, and what has happened at each.
        each: Vec<(SocketAddr, Error)>,
    },
    /// The method cannot do this.
    Cannot {
        /// Which.
        method: Method,
        /// What.
        what: String,
    },
    /// The service, as it is, cannot do this.
    Unsuited(String),
    /// The peer's messages have ended in the midst of one.
    Unfinished {
        /// The method.
        method: Method,
    },
    /// The peer has broken the connection off ([`Connection::abort`](crate::Connection::abort)): what it has sent is not all that
    /// it had to send.
    BrokenOff {
        /// The method.
        method: Method,
    },
    /// The peer has closed the connection in order, and nobody takes any more what is sent to it.
    Left {
        /// The method.
        method: Method,
    },
    /// The connection is lost.
    Lost {
        /// The method.
        method: Method,
        /// Why.
        source: io::Error,
    },
    /// Messages were lost that the service does not allow to be, and nobody has learnt of it from their
    /// [`Delivery`](crate::Delivery). The connection goes on: what comes with this error was not sent, and can be.
    Undelivered {
        /// The method.
        method: Method,
        /// Who has not got them.
        peer: String,
        /// How many.
        messages: u64,
        /// It does not answer any more.
        is_gone: bool,
        /// What has happened to the last of them, and what to do about it.
        why: String,
    },
    /// A stream of bytes cannot go on: messages of it are missing, or come too late for their place.
    Gap {
        /// The method.
        method: Method,
        /// How many are missing here; 0: one has come behind those that were sent after it.
        messages: u64,
    },
    /// The message is larger than the service says that any is.
    MessageTooLong {
        /// Its bytes.
        bytes: u64,
        /// What the service says.
        most: u64,
    },
    /// There is no room for the message now: so much was sent that has not arrived.
    Full {
        /// The method.
        method: Method,
    },
    /// The connection was closed at this end.
    Closed,
    /// The listener was closed at this end: it accepts nobody any more.
    ListenerClosed,
}

impl fmt::Display for ConnectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unmet { peer, unmet } => write!(f, "cannot connect to {peer}: {unmet}"),
            Self::Malformed(malformed) => malformed.fmt(f),
            Self::ServiceTooLong { bytes, most } => {
                write!(f, "the service has {bytes} bytes as text, at most {most} can be told to a peer: say less")
            }
            Self::NoAnswer { peer, hint } => write!(f, "{peer} does not answer: {hint}"),
            Self::Refused { peer, why } => write!(f, "{peer} refuses: {why}"),
            Self::Unreached { peer, tried } => {
                write!(f, "{peer} answers, but cannot be reached")?;
                for (at, (method, why)) in tried.iter().enumerate() {
                    write!(f, "{} by {method}: {why}", if at == 0 { "" } else { ";" })?;
                }
                Ok(())
            }
            Self::NoneOf { name, each } => {
                write!(f, "none of the {} addresses of {name} is reached: ", each.len())?;
                for (at, (address, error)) in each.iter().enumerate() {
                    let (address, text) = (address.to_string(), error.to_string());
                    let hint = hint_of(error);
                    let is_said_later =
                        hint.is_some() && each[at + 1..].iter().any(|(_, later)| hint_of(later) == hint);
                    match (is_said_later, text.contains(&address)) {
                        // What may be the reason is said once.
                        (true, _) => write!(f, "{address} does not answer")?,
                        (_, true) => f.write_str(&text)?,
                        _ => write!(f, "{address}: {text}")?,
                    }
                    f.write_str(if at + 1 < each.len() { "; " } else { "" })?;
                }
                Ok(())
            }
            Self::Cannot { method, what } => write!(f, "{method} cannot {what}"),
            Self::Unsuited(why) => f.write_str(why),
            Self::Unfinished { method } => {
                write!(f, "the peer has ended the connection ({method}) in the midst of a message")
            }
            Self::BrokenOff { method } => {
                write!(f, "the peer has broken off the connection ({method}): what has come is not all")
            }
            Self::Left { method } => {
                write!(
                    f,
                    "the peer has closed the connection ({method}), or was killed after it had ended what it sends: nobody takes \
                     what is sent to it"
                )
            }
            Self::Lost { method, source } => write!(f, "the connection ({method}) is lost: {source}"),
            Self::Undelivered { method, peer, messages, why, .. } => {
                let those = if *messages == 1 { "message" } else { "messages" };
                write!(f, "{messages} {those} did not reach {peer} ({method}): {why}")
            }
            Self::Gap { method, messages } => {
                write!(f, "the stream ({method}) cannot go on: ")?;
                match messages {
                    0 => f.write_str("a message has come too late for its place")?,
                    1 => f.write_str("1 message is missing here")?,
                    more => write!(f, "{more} messages are missing here")?,
                }
                f.write_str("; this end has refused what nobody read, or the peer has given up: read in time, and connect again")
            }
            Self::MessageTooLong { bytes, most } => {
                write!(
                    f,
                    "a message of {bytes} bytes, where the service says that none has more than {most}: say largest={bytes}"
                )
            }
            Self::Full { method } => {
                write!(f, "{method} has no room for the message now: wait until some of what was sent has arrived")
            }
            Self::Closed => f.write_str("the connection was closed at this end"),
            Self::ListenerClosed => f.write_str("the listener was closed at this end"),
        }
    }
}

/// What may be the reason that nobody has answered, if that is what has happened.
fn hint_of(error: &Error) -> Option<&str> {
    match error {
        Error::Connection(error) => match &**error {
            ConnectionError::NoAnswer { hint, .. } => Some(hint),
            _ => None,
        },
        _ => None,
    }
}

impl std::error::Error for ConnectionError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unmet { unmet, .. } => Some(unmet),
            Self::Malformed(malformed) => Some(malformed),
            Self::Lost { source, .. } => Some(source),
            Self::NoneOf { each, .. } => each.last().map(|(_, error)| error as _),
            _ => None,
        }
    }
}

impl ConnectionError {
    pub(crate) fn kind(&self) -> io::ErrorKind {
        match self {
            Self::Unmet { .. } | Self::Cannot { .. } | Self::Unsuited(_) => io::ErrorKind::Unsupported,
            Self::Malformed(_) | Self::ServiceTooLong { .. } | Self::MessageTooLong { .. } => {
                io::ErrorKind::InvalidInput
            }
            Self::NoAnswer { .. } => io::ErrorKind::TimedOut,
            Self::Refused { .. } => io::ErrorKind::ConnectionRefused,
            Self::Unreached { .. } => io::ErrorKind::HostUnreachable,
            Self::NoneOf { each, .. } => each.last().map_or(io::ErrorKind::Other, |(_, error)| error.kind()),
            Self::Unfinished { .. } => io::ErrorKind::UnexpectedEof,
            Self::BrokenOff { .. } => io::ErrorKind::ConnectionReset,
            Self::Left { .. } => io::ErrorKind::BrokenPipe,
            Self::Lost { source, .. } => source.kind(),
            Self::Undelivered { is_gone: true, .. } => io::ErrorKind::TimedOut,
            Self::Undelivered { .. } => io::ErrorKind::Other,
            Self::Gap { .. } => io::ErrorKind::InvalidData,
            Self::Full { .. } => io::ErrorKind::WouldBlock,
            Self::Closed | Self::ListenerClosed => io::ErrorKind::NotConnected,
        }
    }
}
