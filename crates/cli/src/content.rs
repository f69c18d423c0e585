//! What the bare protocols' senders send: pseudo-random bytes that anybody can compute, or a file.

use crate::exit::Error;
use crate::mapped;
use pinnace::Message;
use std::cell::Cell;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The help's words on pseudo-random content.
pub(crate) const DATA: &str = "\
Without --file, message N is the first SIZE bytes of BLAKE3's extendable output for 16 bytes of input: the seed and N, \
each as 8 bytes, least significant first.";

/// Where the messages' bytes come from.
pub(crate) enum Source {
    Random {
        seed: u64,
        size: usize,
    },
    File {
        file: File,
        size: usize,
        path: PathBuf,
    },
    /// What was read of standard input, to be sent once.
    Read {
        content: Cell<Option<Message>>,
        size: usize,
    },
}

impl Source {
    /// The content of `file`, or `size` bytes that depend on `seed`. `what` is what one of them is called.
    pub(crate) fn open(file: Option<&Path>, size: Option<u64>, seed: u64, what: &str) -> Result<Self, Error> {
        let (size, source) = match file {
            None => {
                let size = size.unwrap_or(0);
                (size, Self::Random { seed, size: size as usize })
            }
            Some(path) => {
                let cannot = |error| Error::io(format_args!("cannot read {}", path.display()), &error);
                let file = File::open(path).map_err(cannot)?;
                let size = file.metadata().map_err(cannot)?.len();
                if mapped::hides_content(&file).map_err(cannot)? {
                    return Err(mapped::hiding(path));
                }
                (size, Self::File { file, size: size as usize, path: path.to_owned() })
            }
        };
        if size > u64::from(u32::MAX) {
            return Err(Error::usage(format!(
                "{what} has at most 4294967295 bytes; `pinnace send` takes files of any size"
            )));
        }
        Ok(source)
    }

    /// Standard input that was read.
    pub(crate) fn read(content: Message) -> Self {
        Self::Read { size: content.len(), content: Cell::new(Some(content)) }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Random { size, .. } | Self::File { size, .. } | Self::Read { size, .. } => *size,
        }
    }

    /// The content of message `number`.
    pub(crate) fn message(&self, number: u64) -> Result<Message, Error> {
        match self {
            Self::Random { seed, size } => Ok(Message::from_vec(pseudo_random(*seed, number, *size))),
            Self::File { size, .. } => self.part(0, *size),
            Self::Read { content, .. } => {
                content.take().ok_or_else(|| Error::failed("standard input can be read only once"))
            }
        }
    }
}

impl Source {
    /// Some bytes of a file. They are read, not mapped: most protocols look at them (to sum them, or to cut them into packets),
    /// and whoever looks at pages that somebody has cut off meanwhile is killed.
    pub(crate) fn part(&self, from: u64, len: usize) -> Result<Message, Error> {
        let Self::File { file, path, .. } = self else { return Err(Error::failed("only files are read in parts")) };
        let mut bytes = vec![0; len];
        file.read_exact_at(&mut bytes, from).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => mapped::changed(path),
            _ => Error::io(format_args!("cannot read {}", path.display()), &error),
        })?;
        Ok(Message::from_vec(bytes))
    }
}

/// See [`DATA`].
fn pseudo_random(seed: u64, number: u64, size: usize) -> Vec<u8> {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&seed.to_le_bytes()).update(&number.to_le_bytes());
    let mut content = vec![0; size];
    hasher.finalize_xof().fill(&mut content);
    content
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_depends_on_seed_and_number_and_grows_at_its_end() {
        let content = pseudo_random(1, 0, 1000);
        assert_eq!(content[..64], pseudo_random(1, 0, 64));
        assert_ne!(content[..64], pseudo_random(2, 0, 64));
        assert_ne!(content[..64], pseudo_random(1, 1, 64));
    }
}
