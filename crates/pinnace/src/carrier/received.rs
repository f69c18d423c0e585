//! A message that was received.

use super::pieces::Pool;
use crate::Message;
use crate::vrp;
use std::fmt;
use std::ops::{Deref, DerefMut, Range};
use std::sync::Weak;

/// A message that was received: its bytes, where the method has put them, and what is missing of it.
///
/// It is read like a slice of bytes, and changed like one. Dropping it gives its memory back to the connection, which
/// uses it again; [`Received::into_vec`] and [`Received::into_message`] take it away instead.
pub struct Received {
    data: Data,
    /// Of data that does not say it.
    holes: Vec<Range<usize>>,
    position: Position,
}

/// Whether a message comes when it is its turn.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Position {
    /// Messages before it that were not waited for any longer.
    pub(super) missed: u64,
    /// It is one of those.
    pub(super) is_late: bool,
}

// Boxing the frame would be an allocation for every message.
#[allow(clippy::large_enum_variant)]
enum Data {
    Bytes(Vec<u8>),
    Frame(vrp::Received),
    /// `None` once it was given away.
    Posted(Option<Message>, Weak<Pool>),
}

impl Received {
    pub(super) fn bytes(bytes: Vec<u8>, holes: Vec<Range<usize>>) -> Self {
        Self { data: Data::Bytes(bytes), holes, position: Position::default() }
    }

    /// The same at this place.
    pub(super) fn at(mut self, position: Position) -> Self {
        self.position = position;
        self
    }

    pub(super) fn frame(frame: vrp::Received, position: Position) -> Self {
        Self { data: Data::Frame(frame), holes: Vec::new(), position }
    }

    pub(super) fn posted(message: Message, pool: Weak<Pool>) -> Self {
        Self { data: Data::Posted(Some(message), pool), holes: Vec::new(), position: Position::default() }
    }

    /// What is missing, with permission: half-open ranges of bytes in rising order that do not touch. They read as zeros.
    pub fn holes(&self) -> &[Range<usize>] {
        match &self.data {
            Data::Frame(frame) => frame.holes(),
            _ => &self.holes,
        }
    }

    /// Whether nothing is missing.
    pub fn is_whole(&self) -> bool {
        self.holes().is_empty()
    }

    /// Bytes that are missing.
    pub fn bytes_lost(&self) -> usize {
        self.holes().iter().map(ExactSizeIterator::len).sum()
    }

    /// How many messages before this one are missing, of methods that know.
    ///
    /// VRP has not waited for them any longer: they had been overtaken for as long as the service's lifespan or deadline, or
    /// half a minute where it says neither, or until their sender has said that it has given them up. Each of them comes later
    /// ([`Received::is_late`]), or was given up by its sender.
    /// XTP, where it repeats nothing, has lost them: none of them comes. A1, where it repeats nothing, knows only that there is
    /// a gap, and says 1. What is missing behind the last message: [`Connection::is_end_missing`](crate::Connection::is_end_missing).
    pub fn missed(&self) -> u64 {
        self.position.missed
    }

    /// Whether it comes behind messages that were sent after it, although the service wants order: nothing that has arrived
    /// is thrown away.
    pub fn is_late(&self) -> bool {
        self.position.is_late
    }

    /// What is said of it where its bytes are copied ([`Connection::recv_into`](crate::Connection::recv_into)).
    pub fn told(&self) -> ReceivedInto {
        let Position { missed, is_late } = self.position;
        ReceivedInto { len: self.len(), holes: self.holes().to_vec(), missed, is_late }
    }

    /// What is missing in packets, of methods that count so: how many, which share, the longest run.
    pub fn loss(&self) -> Option<&vrp::Loss> {
        match &self.data {
            Data::Frame(frame) => Some(frame.loss()),
            _ => None,
        }
    }

    /// The bytes, as a vector of one's own. Not copied, but from the buffers of ZCRP, which the connection gets back: read
    /// them where they are, or take [`Received::into_message`].
    pub fn into_vec(self) -> Vec<u8> {
        match &self.data {
            Data::Posted(..) => self.to_vec(),
            _ => self.into_message().into_vec(),
        }
    }

    /// The bytes, as a message to send on. Not copied.
    pub fn into_message(mut self) -> Message {
        match std::mem::replace(&mut self.data, Data::Bytes(Vec::new())) {
            Data::Bytes(bytes) => Message::from_vec(bytes),
            Data::Frame(frame) => frame.into_message(),
            Data::Posted(message, _) => message.unwrap_or_else(|| Message::from_vec(Vec::new())),
        }
    }
}

impl Drop for Received {
    fn drop(&mut self) {
        if let Data::Posted(message, pool) = &mut self.data
            && let (Some(message), Some(pool)) = (message.take(), pool.upgrade())
        {
            pool.give_back(message);
        }
    }
}

impl Deref for Received {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.data {
            Data::Bytes(bytes) => bytes,
            Data::Frame(frame) => frame,
            Data::Posted(message, _) => message.as_deref().unwrap_or_default(),
        }
    }
}

impl DerefMut for Received {
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.data {
            Data::Bytes(bytes) => bytes,
            Data::Frame(frame) => frame,
            Data::Posted(message, _) => message.as_deref_mut().unwrap_or_default(),
        }
    }
}

impl AsRef<[u8]> for Received {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for Received {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Received {{ {} bytes, holes {:?} }}", self.len(), self.holes())
    }
}

/// What [`Connection::recv_into`](crate::Connection::recv_into) has received.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReceivedInto {
    /// Bytes of the message.
    pub len: usize,
    /// What is missing of it, with permission: half-open ranges of bytes in rising order. They read as zeros.
    pub holes: Vec<Range<usize>>,
    /// As [`Received::missed`].
    pub missed: u64,
    /// As [`Received::is_late`].
    pub is_late: bool,
}

impl ReceivedInto {
    pub(super) fn whole(len: usize) -> Self {
        Self { len, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Endpoint, EndpointOptions, Service};
    use std::time::Duration;

    #[test]
    fn what_has_to_be_in_place_is_where_it_was_received() {
        let ship = Endpoint::bind("127.0.0.1:0").unwrap();
        let listener = ship.listen(&Service::new()).unwrap();
        let options = EndpointOptions::default();
        for (service, is_in_place) in [("size=20MiB in-place=yes", true), ("size=20MiB", false)] {
            let service = format!("{service} path=cluster").parse().unwrap();
            let mut options = options.clone();
            options.selection.forced = Some(crate::service::Method::Zcrp);
            let client = Endpoint::client_with(&options).connect(&listener.local_addr().to_string(), &service).unwrap();
            let server = listener.accept_timeout(Duration::from_secs(20)).unwrap().unwrap();
            for _ in 0..3 {
                let sent = client.send(vec![7; 20 << 20]).unwrap();
                let received = server.recv_timeout(Duration::from_secs(20)).unwrap().unwrap();
                assert!(received.len() == 20 << 20 && received.iter().all(|byte| *byte == 7));
                assert_eq!(matches!(received.data, Data::Posted(..)), is_in_place);
                drop(sent.wait().unwrap());
            }
        }
    }
}
