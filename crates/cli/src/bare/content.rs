//! What is sent: a file, standard input, or pseudo-random bytes that anybody can compute.

use crate::content::Source;
use crate::exit::Error;
use crate::interrupt;
use crate::thread;
use pinnace::Message;
use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

/// Bytes of standard input or a file that travel together.
const PIECE: usize = 256 << 10;
/// Whether a piece is the last is found out for so long; then it goes, and the message may end without another byte.
const HOLD: Duration = Duration::from_millis(10);
/// The longest message.
const MOST: u64 = u32::MAX as u64;

/// Where messages come from.
pub(crate) enum Content {
    /// Of a length that is known.
    Known(Source),
    /// As long as it turns out to be.
    Input(Box<dyn Read + Send>),
}

impl Content {
    /// Standard input if `file` is `-`, the content of the file, or `size` bytes that depend on `seed`.
    pub(crate) fn open(file: Option<&Path>, size: Option<u64>, seed: u64, what: &str) -> Result<Self, Error> {
        if file.is_some_and(|file| file == Path::new("-")) {
            return Ok(Self::Input(Box::new(std::io::stdin())));
        }
        // A pipe has a name but no length.
        if let Some(path) = file
            && let Ok(metadata) = std::fs::metadata(path)
            && !metadata.is_file()
        {
            if metadata.is_dir() {
                let why =
                    format!("{} is a folder: name a file, or use `pinnace send`, which takes folders", path.display());
                return Err(Error::usage(why));
            }
            let file = std::fs::File::open(path)
                .map_err(|error| Error::io(format_args!("cannot read {}", path.display()), &error))?;
            return Ok(Self::Input(Box::new(file)));
        }
        Source::open(file, size, seed, what).map(Self::Known)
    }

    /// Bytes of a message, if that is known.
    pub(crate) fn len(&self) -> Option<u64> {
        match self {
            Self::Known(source) => Some(source.len() as u64),
            Self::Input(_) => None,
        }
    }

    /// Message `number`, whole.
    pub(crate) fn whole(&mut self, number: u64) -> Result<Message, Error> {
        match self {
            Self::Known(source) => source.message(number),
            Self::Input(input) => {
                let pieces = read_ahead(std::mem::replace(input, Box::new(std::io::empty())))?;
                let mut bytes = Vec::new();
                while let Some(piece) = wait(&pieces, &mut interrupt::check)? {
                    bytes.extend_from_slice(&piece);
                    if bytes.len() as u64 > MOST {
                        return Err(Error::usage("a message has at most 4294967295 bytes"));
                    }
                }
                Ok(Message::from_vec(bytes))
            }
        }
    }

    /// The same, of a length that is known now: standard input is read to its end.
    pub(crate) fn measured(mut self) -> Result<Source, Error> {
        match self {
            Self::Known(source) => Ok(source),
            Self::Input(_) => Ok(Source::read(self.whole(0)?)),
        }
    }

    /// Message `number` in pieces, each with whether it is the last.
    pub(crate) fn pieces(&mut self, number: u64) -> Result<Pieces<'_>, Error> {
        Ok(match self {
            Self::Known(source @ Source::File { .. }) => Pieces::File { source, from: 0 },
            Self::Known(source) => Pieces::Whole(source.message(number).map(Some)),
            Self::Input(input) => {
                // It is read once.
                let input = std::mem::replace(input, Box::new(std::io::empty()));
                Pieces::Input { pieces: read_ahead(input)?, ahead: None }
            }
        })
    }
}

/// The pieces of one message.
pub(crate) enum Pieces<'a> {
    Whole(Result<Option<Message>, Error>),
    File {
        source: &'a Source,
        from: usize,
    },
    /// One piece is read ahead, if it comes soon: the last one should be known, and none should wait for long.
    Input {
        pieces: Receiver<Result<Vec<u8>, Error>>,
        ahead: Option<Vec<u8>>,
    },
}

impl Pieces<'_> {
    /// The next piece, and whether it is known that the message ends with it: where input pauses before its end it is not. An
    /// empty message has none. While it has to be waited for `look` is called every [`interrupt::LOOK`]; its error ends the
    /// wait.
    pub(crate) fn next(
        &mut self,
        mut look: impl FnMut() -> Result<(), Error>,
    ) -> Result<Option<(Message, bool)>, Error> {
        match self {
            Self::Whole(whole) => {
                let message = std::mem::replace(whole, Ok(None))?;
                Ok(message.filter(|message| !message.is_empty()).map(|message| (message, true)))
            }
            Self::File { source, from } => {
                let len = (source.len() - *from).min(PIECE);
                if len == 0 {
                    return Ok(None);
                }
                let piece = source.part(*from as u64, len)?;
                *from += len;
                Ok(Some((piece, *from == source.len())))
            }
            Self::Input { pieces, ahead } => {
                let this = if let Some(this) = ahead.take() { Some(this) } else { wait(pieces, &mut look)? };
                let Some(this) = this else { return Ok(None) };
                let is_last = match pieces.recv_timeout(HOLD) {
                    Ok(piece) => {
                        *ahead = Some(piece?);
                        false
                    }
                    Err(RecvTimeoutError::Disconnected) => true,
                    Err(RecvTimeoutError::Timeout) => false,
                };
                Ok(Some((Message::from_vec(this), is_last)))
            }
        }
    }
}

/// The next piece that was read; `None` at the end.
fn wait(
    pieces: &Receiver<Result<Vec<u8>, Error>>,
    look: &mut dyn FnMut() -> Result<(), Error>,
) -> Result<Option<Vec<u8>>, Error> {
    loop {
        match pieces.recv_timeout(interrupt::LOOK) {
            Ok(piece) => return piece.map(Some),
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
            Err(RecvTimeoutError::Timeout) => look()?,
        }
    }
}

/// Reads on a thread of its own: a pipe may say nothing for any time, in which the peer can die.
fn read_ahead(mut input: Box<dyn Read + Send>) -> Result<Receiver<Result<Vec<u8>, Error>>, Error> {
    let (done, pieces) = sync_channel(1);
    thread::start(move || {
        while let Some(piece) = piece(&mut *input).transpose() {
            let is_last = piece.is_err();
            if done.send(piece).is_err() || is_last {
                return;
            }
        }
    })?;
    Ok(pieces)
}

/// The next bytes, as many as come at once; `None` at the end.
fn piece(input: &mut dyn Read) -> Result<Option<Vec<u8>>, Error> {
    let mut bytes = vec![0; PIECE];
    loop {
        match input.read(&mut bytes) {
            Ok(0) => return Ok(None),
            Ok(n) => {
                bytes.truncate(n);
                return Ok(Some(bytes));
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Error::io("cannot read standard input", &error)),
        }
    }
}

/// `FILE ADDRESS`, `ADDRESS` with the content said otherwise, or both by name.
pub(crate) fn places(
    words: &[OsString],
    (file, size, to): (Option<&PathBuf>, Option<u64>, Option<&String>),
) -> Result<(Option<PathBuf>, String), Error> {
    let is_said = file.is_some() || size.is_some();
    let mut words = words.iter();
    let file = if is_said { file.cloned() } else { words.next().map(PathBuf::from) };
    let to =
        if let Some(to) = to { Some(to.clone()) } else { words.next().map(|to| to.to_string_lossy().into_owned()) };
    let usage = "say what to send and where to: FILE HOST:PORT (- is standard input), or --size BYTES --to HOST:PORT";
    match (to, words.next()) {
        (Some(to), None) if is_said || file.is_some() => {
            let to = crate::transport::address(&to).map_err(|why| Error::usage(format!("the address {to}: {why}")))?;
            Ok((file, to))
        }
        _ => Err(Error::usage(usage)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_piece_is_known_as_such() {
        let of = |bytes: &[u8]| -> Vec<(usize, bool)> {
            let mut content = Content::Input(Box::new(std::io::Cursor::new(bytes.to_vec())));
            let mut pieces = content.pieces(0).unwrap();
            std::iter::from_fn(|| pieces.next(|| Ok(())).unwrap()).map(|(piece, last)| (piece.len(), last)).collect()
        };
        assert_eq!(of(&[]), []);
        assert_eq!(of(&[1]), [(1, true)]);
        assert_eq!(of(&vec![1; PIECE]), [(PIECE, true)]);
        assert_eq!(of(&vec![1; PIECE + 1]), [(PIECE, false), (1, true)]);
    }

    #[test]
    fn standard_input_is_one_message_of_a_length_that_is_known_when_it_ends() {
        let source = Content::Input(Box::new(std::io::Cursor::new(vec![7; 300_000]))).measured().unwrap();
        assert_eq!(source.len(), 300_000);
        assert_eq!(*source.message(0).unwrap(), [7; 300_000]);
        assert!(source.message(1).is_err(), "there is no second one");
    }

    #[test]
    fn content_and_address_are_told_apart() {
        let words = |words: &[&str]| -> Vec<OsString> { words.iter().map(OsString::from).collect() };
        let (file, to) = (PathBuf::from("f"), "h:1".to_owned());
        let both = Ok((Some(file.clone()), to.clone()));
        let places = |list: &[&str], named| places(&words(list), named).map_err(|error| error.message);
        assert_eq!(places(&["f", "h:1"], (None, None, None)), both);
        assert_eq!(places(&["f"], (None, None, Some(&to))), both);
        assert_eq!(places(&["h:1"], (Some(&file), None, None)), both);
        assert_eq!(places(&["h:1"], (None, Some(5), None)), Ok((None, to.clone())));
        assert_eq!(places(&[], (None, Some(5), Some(&to))), Ok((None, to.clone())));
        for wrong in [&[][..], &["f"], &["f", "h:1", "x"]] {
            assert!(places(wrong, (None, None, None)).is_err());
        }
        assert!(places(&["f", "h:1"], (None, Some(5), None)).is_err());
    }
}
