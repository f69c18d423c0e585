//! What can go wrong, to whom, and what to do about it.

use crate::endpoint::ConnectionError;
use crate::{Message, a1, vrp, xtp};
use pinnace_runtime::{EndpointError, WaitError};
use pinnace_zcrp::{Failure, Refused};
use std::{fmt, io};

/// Why something did not work.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused.
    Io {
        /// What was tried, and with what.
        action: String,
        /// What the system said.
        source: io::Error,
    },
    /// Nobody can listen at this address: another program does, no interface of this host has it, or a right is missing.
    Listen {
        /// Where: an address and a port, or an address alone where there are no ports.
        address: String,
        /// What the system said.
        source: io::Error,
    },
    /// The message did not complete.
    Failed(Failure),
    /// The call was refused; no message number was taken.
    Refused(Refused),
    /// The frame was not delivered (VRP).
    FrameFailed(vrp::Failure),
    /// The frame was not accepted for sending; nothing left (VRP).
    FrameRefused(vrp::Refused),
    /// The association did not end well (XTP).
    ContextFailed(xtp::Failure),
    /// The call was refused; nothing has happened (XTP).
    ContextRefused(xtp::Refused),
    /// The peer ended the transaction without a response (XTP).
    NoResponse,
    /// A message is longer than so many bytes, the most that are collected (XTP).
    MessageTooLong(u64),
    /// This end has no memory for so many bytes, which a message that comes has already, or says that it has.
    NoMemory(u64),
    /// The connection was not accepted, or did not end well (A1).
    ConnectionFailed(a1::Failure),
    /// The call was refused; nothing has happened (A1).
    CallRefused(a1::Refused),
    /// There is no room for the message now; the status says why (A1).
    WindowFull(a1::Status),
    /// The connection was not made, or cannot do this; says by which method.
    Connection(Box<ConnectionError>),
    /// The endpoint is of no use any more.
    Endpoint(EndpointError),
    /// The deadline passed. What was begun goes on.
    Timeout,
    /// The message is larger than the protocol carries (4,294,967,295 bytes).
    TooLarge,
    /// A message in read-only memory was posted to receive into.
    ReadOnly,
}

impl Error {
    /// Whether there is only no room now: what was refused can be sent once something has arrived.
    ///
    /// ```
    /// use pinnace::{ConnectionError, Error, service::Method};
    /// let error = Error::from(ConnectionError::Full { method: Method::Zcrp });
    /// assert!(error.would_block() && !Error::Timeout.would_block());
    /// ```
    pub fn would_block(&self) -> bool {
        match self {
            Self::WindowFull(_)
            | Self::CallRefused(a1::Refused::Full)
            | Self::ContextRefused(xtp::Refused::Full)
            | Self::Refused(Refused::TooMany)
            | Self::FrameRefused(vrp::Refused::TooMany) => true,
            Self::Connection(error) => matches!(**error, ConnectionError::Full { .. }),
            _ => false,
        }
    }

    /// What the operating system said, where it was asked for something and refused.
    ///
    /// ```
    /// use std::io::ErrorKind;
    /// let taken = pinnace::Endpoint::bind("127.0.0.1:0").unwrap();
    /// let error = pinnace::Endpoint::bind(taken.local_addr().unwrap()).unwrap_err();
    /// assert_eq!(error.system().map(|why| why.kind()), Some(ErrorKind::AddrInUse));
    /// ```
    pub fn system(&self) -> Option<&io::Error> {
        match self {
            Self::Io { source, .. } | Self::Listen { source, .. } => Some(source),
            _ => None,
        }
    }

    /// The error that decides what is to be done: where several addresses of a name were tried
    /// ([`ConnectionError::NoneOf`]), that of the last; otherwise this one.
    pub fn deciding(&self) -> &Self {
        match self {
            Self::Connection(error) => match &**error {
                ConnectionError::NoneOf { each, .. } => each.last().map_or(self, |(_, last)| last.deciding()),
                _ => self,
            },
            _ => self,
        }
    }

    pub(crate) fn io(action: impl Into<String>, source: io::Error) -> Self {
        Self::Io { action: action.into(), source }
    }

    pub(crate) fn listen(address: impl fmt::Display, source: io::Error) -> Self {
        Self::Listen { address: address.to_string(), source }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { action, source } => write!(f, "{action}: {source}"),
            Self::Listen { address, source } => write!(f, "cannot listen on {address}: {source}"),
            Self::Failed(failure) => failure.fmt(f),
            Self::Refused(refused) => refused.fmt(f),
            Self::FrameFailed(failure) => failure.fmt(f),
            Self::FrameRefused(refused) => refused.fmt(f),
            Self::ContextFailed(failure) => {
                failure.fmt(f)?;
                f.write_str(what_to_do(*failure))
            }
            Self::ContextRefused(refused) => {
                refused.fmt(f)?;
                f.write_str(what_to_change(*refused))
            }
            Self::NoResponse => f.write_str("the peer ended the transaction without a response"),
            Self::MessageTooLong(most) => {
                write!(
                    f,
                    "a message is longer than {most} bytes: receive it into more memory, or piece by piece, or raise \
                     longest_message if that is as much"
                )
            }
            Self::NoMemory(bytes) => {
                write!(
                    f,
                    "there is no memory for {bytes} bytes of a message: give the process more, or let longest_message refuse what \
                     is so long"
                )
            }
            Self::ConnectionFailed(failure) => {
                failure.fmt(f)?;
                f.write_str(what_a1_needs(failure))
            }
            Self::CallRefused(refused) => {
                refused.fmt(f)?;
                f.write_str(what_a1_allows(*refused))
            }
            Self::WindowFull(status) if status.contains(a1::Status::RATE_EXCEEDED) => {
                f.write_str("the window is full, because more is sent than the rate allows")
            }
            Self::WindowFull(_) => f.write_str("the window is full: wait until a message has been acknowledged"),
            Self::Connection(error) => error.fmt(f),
            Self::Endpoint(error) => error.fmt(f),
            Self::Timeout => f.write_str("timed out; what was begun goes on"),
            Self::TooLarge => f.write_str("a message has at most 4,294,967,295 bytes; cut it into several"),
            Self::ReadOnly => f.write_str("the message lies in read-only memory and cannot be received into"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } | Self::Listen { source, .. } => Some(source),
            Self::Failed(failure) => Some(failure),
            Self::Refused(refused) => Some(refused),
            Self::FrameFailed(failure) => Some(failure),
            Self::FrameRefused(refused) => Some(refused),
            Self::ContextFailed(failure) => Some(failure),
            Self::ContextRefused(refused) => Some(refused),
            Self::ConnectionFailed(failure) => Some(failure),
            Self::CallRefused(refused) => Some(refused),
            Self::Connection(error) => Some(error),
            Self::Endpoint(error) => Some(error),
            Self::Timeout
            | Self::TooLarge
            | Self::ReadOnly
            | Self::NoResponse
            | Self::MessageTooLong(_)
            | Self::NoMemory(_)
            | Self::WindowFull(_) => None,
        }
    }
}

/// What helps after an association has failed.
fn what_to_do(failure: xtp::Failure) -> &'static str {
    use xtp::Failure;
    match failure {
        Failure::Refused { code: 1, value: 1 } => ": check the address and the port, and that the peer listens",
        Failure::Refused { code: 1, value: 8 } => ": let its listener offer it, or use another one",
        Failure::Refused { code: 1, value: 3 | 5 } => ": both ends need the same version",
        Failure::Unanswered => {
            ": check the address, that the peer runs and is set up alike, and that no firewall is between"
        }
        Failure::Abandoned => ": it was ended, or the network between is down; connect again",
        Failure::Swallowed => ": the path may lose all packets of their size; try smaller ones (maxdata)",
        Failure::GivenUpByPeer { .. } | Failure::Unknown => ": it may have been restarted; connect again",
        Failure::Forced => ": what was not acknowledged may be lost",
        Failure::StoppedReading => ": what was not acknowledged is lost",
        Failure::NoStorage => ": raise the limit of bytes",
        _ => "",
    }
}

/// What helps after a call was refused.
fn what_to_change(refused: xtp::Refused) -> &'static str {
    use xtp::Refused;
    match refused {
        Refused::TooManyContexts => ": close some, or raise the limit of contexts",
        Refused::TooLarge { .. } => ": use a connection or a transaction",
        Refused::Empty => ": send at least one byte",
        Refused::Port => ": name another one",
        Refused::Full => ": wait until a message has been acknowledged, or raise wbufsize",
        _ => "",
    }
}

/// What helps after a connection has failed.
fn what_a1_needs(failure: &a1::Failure) -> &'static str {
    use a1::{Failure, RejectCode};
    match failure {
        Failure::Refused { code: RejectCode::NoListener, .. } => {
            ": check the address and the port, and that the peer listens"
        }
        Failure::Refused { code: RejectCode::Qos, .. } => {
            ": checksum and retransmission must be the same at both ends, and no message larger than the other receives"
        }
        Failure::TimedOut => ": check the address, that the peer runs, and that no firewall is between",
        Failure::Abandoned => ": it may have been restarted; connect again",
        Failure::Swallowed => ": connect again with smaller blocks (block_size: 1168, or 516)",
        Failure::LingerOver => ": give it more time, or wait with flush before",
        _ => "",
    }
}

/// What helps after a call was refused.
fn what_a1_allows(refused: a1::Refused) -> &'static str {
    use a1::Refused;
    match refused {
        Refused::TooManyConnections => ": close some, or raise the limit of connections",
        Refused::TooLarge { .. } => ": cut it into several, or agree on larger ones",
        Refused::Impossible => ": make blocks larger, or messages smaller or fewer",
        _ => "",
    }
}

impl From<xtp::Refused> for Error {
    fn from(refused: xtp::Refused) -> Self {
        Self::ContextRefused(refused)
    }
}

impl Error {
    /// What it is to those who read and write streams of bytes.
    pub(crate) fn kind(&self) -> io::ErrorKind {
        match self {
            _ if self.would_block() => io::ErrorKind::WouldBlock,
            Self::Io { source, .. } | Self::Listen { source, .. } => source.kind(),
            Self::Endpoint(EndpointError::Link(error)) => error.kind(),
            Self::Timeout => io::ErrorKind::TimedOut,
            Self::NoMemory(_) => io::ErrorKind::OutOfMemory,
            Self::Connection(error) => error.kind(),
            Self::Failed(Failure::PeerGone | Failure::Swallowed)
            | Self::Refused(Refused::Closed(Failure::PeerGone | Failure::Swallowed))
            | Self::FrameFailed(vrp::Failure::PeerGone | vrp::Failure::Swallowed) => io::ErrorKind::TimedOut,
            Self::ContextFailed(xtp::Failure::Refused { .. }) => io::ErrorKind::ConnectionRefused,
            Self::ContextFailed(xtp::Failure::Unanswered | xtp::Failure::Abandoned | xtp::Failure::Swallowed) => {
                io::ErrorKind::TimedOut
            }
            Self::ContextFailed(xtp::Failure::Aborted) => io::ErrorKind::ConnectionAborted,
            Self::ContextFailed(_) => io::ErrorKind::ConnectionReset,
            Self::ConnectionFailed(failure) => match failure {
                a1::Failure::Refused { .. } => io::ErrorKind::ConnectionRefused,
                a1::Failure::TimedOut | a1::Failure::Abandoned | a1::Failure::Swallowed => io::ErrorKind::TimedOut,
                a1::Failure::Aborted => io::ErrorKind::ConnectionAborted,
                a1::Failure::Unfinished => io::ErrorKind::UnexpectedEof,
                _ => io::ErrorKind::ConnectionReset,
            },
            Self::CallRefused(a1::Refused::NoConnection) => io::ErrorKind::BrokenPipe,
            Self::CallRefused(a1::Refused::NotConnected) => io::ErrorKind::NotConnected,
            Self::CallRefused(a1::Refused::BeyondMaximum) => io::ErrorKind::PermissionDenied,
            Self::CallRefused(a1::Refused::Listening) => io::ErrorKind::AddrInUse,
            Self::CallRefused(_) => io::ErrorKind::InvalidInput,
            Self::ContextRefused(xtp::Refused::Closed | xtp::Refused::NoContext) => io::ErrorKind::BrokenPipe,
            _ => io::ErrorKind::Other,
        }
    }

    /// Whether a method says so that the peer does not answer, or does not know the connection any more.
    pub(crate) fn is_of_absent_peer(&self) -> bool {
        match self {
            Self::Failed(Failure::PeerGone | Failure::Swallowed)
            | Self::Refused(Refused::Closed(Failure::PeerGone | Failure::Swallowed))
            | Self::FrameFailed(vrp::Failure::PeerGone | vrp::Failure::Swallowed)
            | Self::ConnectionFailed(a1::Failure::Abandoned | a1::Failure::Swallowed)
            | Self::ContextFailed(
                xtp::Failure::Unanswered
                | xtp::Failure::Abandoned
                | xtp::Failure::Swallowed
                | xtp::Failure::Unknown
                | xtp::Failure::Forced
                | xtp::Failure::StoppedReading
                | xtp::Failure::GivenUpByPeer { .. },
            ) => true,
            Self::Connection(error) => matches!(**error, ConnectionError::Undelivered { is_gone: true, .. }),
            _ => self.is_of_end(),
        }
    }

    /// Whether a method says so that there is no connection to send on.
    pub(crate) fn is_of_end(&self) -> bool {
        matches!(
            self,
            Self::CallRefused(a1::Refused::NoConnection)
                | Self::ContextRefused(xtp::Refused::Closed | xtp::Refused::NoContext)
        )
    }
}

/// For those who read and write streams of bytes.
impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        Self::new(error.kind(), error)
    }
}

impl From<ConnectionError> for Error {
    fn from(error: ConnectionError) -> Self {
        Self::Connection(Box::new(error))
    }
}

impl From<EndpointError> for Error {
    fn from(error: EndpointError) -> Self {
        Self::Endpoint(error)
    }
}

impl From<WaitError> for Error {
    fn from(error: WaitError) -> Self {
        match error {
            WaitError::Timeout => Self::Timeout,
            WaitError::Endpoint(error) => Self::Endpoint(error),
        }
    }
}

/// A message that did not go through, and why: the buffer is the caller's again.
#[derive(Debug)]
pub struct Unsent {
    /// The message, unless its endpoint was lost with it, or its memory is still in use when its wait ends because the peer has broken off.
    pub message: Option<Message>,
    /// What happened.
    pub error: Error,
}

impl Unsent {
    pub(crate) fn new(message: impl Into<Option<Message>>, error: impl Into<Error>) -> Self {
        Self { message: message.into(), error: error.into() }
    }
}

impl fmt::Display for Unsent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for Unsent {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        std::error::Error::source(&self.error)
    }
}

impl From<Unsent> for Error {
    fn from(unsent: Unsent) -> Self {
        unsent.error
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::Method;
    use std::sync::Arc;

    #[test]
    fn streams_are_told_what_kind_of_error_it_is() {
        let full = [
            Error::Refused(Refused::TooMany),
            Error::FrameRefused(vrp::Refused::TooMany),
            Error::ContextRefused(xtp::Refused::Full),
            Error::CallRefused(a1::Refused::Full),
            Error::WindowFull(a1::Status::default()),
            ConnectionError::Full { method: Method::Zcrp }.into(),
        ];
        for error in full {
            assert!(error.would_block(), "{error}");
            assert_eq!(io::Error::from(error).kind(), io::ErrorKind::WouldBlock);
        }
        let link = EndpointError::Link(Arc::new(io::ErrorKind::NetworkDown.into()));
        assert_eq!(io::Error::from(Error::from(link)).kind(), io::ErrorKind::NetworkDown);
    }
}
