//! Standard input, cut into messages.
//!
//! Always true: it is read by one thread of its own, a few messages ahead and no more, whoever is served; what was read and
//! not sent to one peer goes to the next.

use crate::exit::Error;
use crate::thread;
use crate::units;
use std::io::{self, BufRead, BufReader, Read};
use std::str::FromStr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, TryLockError};
use std::time::Duration;

/// How standard input is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// What one read gives.
    Chunks,
    /// Lines, each with its end.
    Lines,
    /// All of it is one message.
    Whole,
    /// So many bytes each; the last may have fewer.
    Records(usize),
    /// Before each message there are four bytes, the most significant first, that say its length.
    LengthPrefixed,
}

/// The most bytes of a chunk.
const CHUNK: usize = 64 << 10;
/// The most bytes of a message.
const LONGEST: u64 = 1 << 30;
/// Messages that are read ahead.
const AHEAD: usize = 4;

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "chunks" => Ok(Self::Chunks),
            "lines" => Ok(Self::Lines),
            "whole" => Ok(Self::Whole),
            "length-prefixed" => Ok(Self::LengthPrefixed),
            size => match units::bytes(size) {
                Ok(bytes) if (1..=LONGEST).contains(&bytes) => Ok(Self::Records(bytes as usize)),
                _ => Err("chunks, lines, whole, length-prefixed, or a size from 1 to 1GiB".to_owned()),
            },
        }
    }
}

fn invalid(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// As many bytes as there are, at most `most`.
fn fill(input: &mut impl Read, most: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    input.take(most as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// All of it, if that is at most so many bytes.
fn all(input: &mut impl Read, most: u64) -> io::Result<Vec<u8>> {
    let bytes = fill(input, most as usize + 1)?;
    if bytes.len() as u64 > most {
        return Err(invalid(format!("it has more than {most} bytes: cut it into messages")));
    }
    Ok(bytes)
}

/// The next message; `None` at the end. `Whole` is not cut here.
fn next(input: &mut impl BufRead, mode: Mode) -> io::Result<Option<Vec<u8>>> {
    let message = match mode {
        Mode::Chunks => loop {
            match input.fill_buf() {
                Ok(bytes) => {
                    let chunk = bytes.to_vec();
                    input.consume(chunk.len());
                    break chunk;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        },
        Mode::Lines => {
            let mut line = Vec::new();
            input.take(LONGEST + 1).read_until(b'\n', &mut line)?;
            if line.len() as u64 > LONGEST {
                return Err(invalid(format!("a line has more than {LONGEST} bytes")));
            }
            line
        }
        Mode::Whole => all(input, LONGEST)?,
        Mode::Records(size) => fill(input, size)?,
        Mode::LengthPrefixed => {
            let head = fill(input, 4)?;
            let Ok(head) = <[u8; 4]>::try_from(&head[..]) else {
                return match head.len() {
                    0 => Ok(None),
                    bytes => Err(invalid(format!("it ends after {bytes} of the 4 bytes of a length"))),
                };
            };
            let len = u32::from_be_bytes(head) as usize;
            if len as u64 > LONGEST {
                return Err(invalid(format!("a message of {len} bytes is too long")));
            }
            let message = fill(input, len)?;
            if message.len() < len {
                return Err(invalid(format!("it ends after {} of {len} bytes of a message", message.len())));
            }
            // Also one of no bytes is one.
            return Ok(Some(message));
        }
    };
    Ok((!message.is_empty()).then_some(message))
}

fn failed(error: &io::Error) -> Error {
    Error::io("cannot read standard input", error)
}

/// All of standard input.
pub(super) fn whole() -> Result<Vec<u8>, Error> {
    all(&mut io::stdin().lock(), LONGEST).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => Error::usage(format!("standard input cannot be one message: {error}")),
        _ => failed(&error),
    })
}

/// What was read ahead.
struct Messages {
    read: Receiver<io::Result<Vec<u8>>>,
    /// What a peer did not get, which comes first.
    unsent: Option<Vec<u8>>,
}

/// Messages to send, for one peer after the other.
#[derive(Clone)]
pub(super) struct Input {
    messages: Option<Arc<Mutex<Messages>>>,
}

/// Why a message was not sent, and what of it was not, if that is known.
pub(super) type Unsent = (Option<Vec<u8>>, Result<(), Error>);

/// What became of the next message.
pub(super) enum Next {
    Sent,
    /// Nothing yet.
    Later,
    Ended,
}

impl Input {
    /// Nothing.
    pub(super) fn none() -> Self {
        Self { messages: None }
    }

    /// One message.
    pub(super) fn of_message(message: Vec<u8>) -> Self {
        let (give, messages) = sync_channel(1);
        let _ = give.send(Ok(message));
        Self::of(messages)
    }

    /// What comes from standard input.
    pub(super) fn of_stdin(mode: Mode) -> Result<Self, Error> {
        let (give, messages) = sync_channel(AHEAD);
        thread::start(move || {
            let mut stdin = BufReader::with_capacity(CHUNK, io::stdin());
            while let Some(message) = next(&mut stdin, mode).transpose() {
                let is_last = message.is_err() || mode == Mode::Whole;
                if give.send(message).is_err() || is_last {
                    return;
                }
            }
        })?;
        Ok(Self::of(messages))
    }

    fn of(read: Receiver<io::Result<Vec<u8>>>) -> Self {
        Self { messages: Some(Arc::new(Mutex::new(Messages { read, unsent: None }))) }
    }

    /// Has the next message sent, if it comes within `timeout`. What is not sent comes first the next time: nobody else gets
    /// one meanwhile.
    pub(super) fn next(
        &self,
        timeout: Duration,
        send: impl FnOnce(Vec<u8>) -> Result<(), Unsent>,
    ) -> Result<Next, Error> {
        let Some(messages) = &self.messages else { return Ok(Next::Ended) };
        let mut messages = match messages.try_lock() {
            Ok(messages) => messages,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // Whoever sent to the peer before has not ended yet.
            Err(TryLockError::WouldBlock) => {
                std::thread::sleep(timeout);
                return Ok(Next::Later);
            }
        };
        let message = match messages.unsent.take() {
            Some(message) => message,
            None => match messages.read.recv_timeout(timeout) {
                Ok(message) => message.map_err(|error| failed(&error))?,
                Err(RecvTimeoutError::Timeout) => return Ok(Next::Later),
                Err(RecvTimeoutError::Disconnected) => return Ok(Next::Ended),
            },
        };
        let Err((unsent, result)) = send(message) else { return Ok(Next::Sent) };
        messages.unsent = unsent;
        result.map(|()| Next::Later)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(bytes: &[u8], mode: Mode) -> io::Result<Vec<Vec<u8>>> {
        let mut input = BufReader::with_capacity(4, bytes);
        std::iter::from_fn(|| next(&mut input, mode).transpose()).collect()
    }

    #[test]
    fn input_is_cut_as_was_asked() {
        let of = |bytes, mode| cut(bytes, mode).unwrap().iter().map(|message| message.to_vec()).collect::<Vec<_>>();
        assert_eq!(of(b"abcdef", Mode::Chunks), [b"abcd".to_vec(), b"ef".to_vec()]);
        assert_eq!(of(b"a\n\nbcdef", Mode::Lines), [b"a\n".to_vec(), b"\n".to_vec(), b"bcdef".to_vec()]);
        assert_eq!(of(b"abcdefg", Mode::Records(5)), [b"abcde".to_vec(), b"fg".to_vec()]);
        assert_eq!(of(b"abcdefg", Mode::Whole), [b"abcdefg".to_vec()]);
        assert_eq!(
            of(b"\0\0\0\x02ab\0\0\0\0\0\0\0\x01c", Mode::LengthPrefixed),
            [b"ab".to_vec(), vec![], b"c".to_vec()]
        );
        for mode in [Mode::Chunks, Mode::Lines, Mode::Records(5), Mode::Whole, Mode::LengthPrefixed] {
            assert!(of(b"", mode).is_empty(), "{mode:?}");
        }
    }

    #[test]
    fn what_is_longer_than_a_message_may_be_is_not_cut_off() {
        assert_eq!(all(&mut &b"abc"[..], 3).unwrap(), b"abc");
        assert_eq!(all(&mut &b"abcd"[..], 3).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn what_one_peer_did_not_get_is_for_the_next() {
        let (give, messages) = sync_channel(2);
        ["a", "b"].iter().for_each(|text| give.send(Ok((*text).into())).unwrap());
        let (input, mut sent) = (Input::of(messages), Vec::new());
        let gone = |message| Err((Some(message), Err(Error::peer_gone("gone"))));
        assert!(input.next(Duration::ZERO, gone).is_err());
        assert!(matches!(input.next(Duration::ZERO, |message| Err((Some(message), Ok(())))), Ok(Next::Later)));
        for _ in 0..2 {
            let next = input.next(Duration::ZERO, |message| {
                sent.push(message);
                Ok(())
            });
            assert!(matches!(next, Ok(Next::Sent)));
        }
        assert_eq!(sent, [b"a", b"b"]);
    }

    #[test]
    fn lengths_that_cannot_be_are_errors() {
        for bytes in [&b"\0\0"[..], b"\0\0\0\x02a", b"\xff\xff\xff\xffa"] {
            assert!(cut(bytes, Mode::LengthPrefixed).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn modes_are_words_or_sizes() {
        assert_eq!("4KiB".parse(), Ok(Mode::Records(4096)));
        assert_eq!("length-prefixed".parse(), Ok(Mode::LengthPrefixed));
        for wrong in ["", "0", "2GiB", "words"] {
            assert!(wrong.parse::<Mode>().is_err(), "{wrong}");
        }
    }
}
