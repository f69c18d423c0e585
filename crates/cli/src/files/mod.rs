//! `pinnace send` and `pinnace recv`: files and folders, from mapped file to mapped file.
//!
//! The protocol between the two is in docs/src/file-transfer.md. Every file is cut into chunks, each a ZCRP message; as
//! many as [`MAX_MESSAGES`] and [`MAX_BYTES`] allow are under way at once, so that the line is busy and memory stays small.

mod digest;
mod peer;
mod progress;
mod protocol;
pub(crate) mod receive;
mod schedule;
pub(crate) mod send;
mod source;
mod store;

#[cfg(test)]
mod tests;

use crate::descriptors;
use crate::exit::Error;
use crate::interrupt;
use crate::service::Tool;
use digest::{Place, Value};
use pinnace::service::Method;
use rustix::io::Errno;
use std::fmt::Display;
use std::fs::File;
use std::io;

/// Messages under way at most, at either end: as many as a batch has files, because its digests wait for all of them. Small files
/// travel no faster than this in a round trip.
const MAX_MESSAGES: usize = schedule::BATCH_FILES;
/// Bytes under way at which no more are begun.
const MAX_BYTES: u64 = 64 << 20;

/// Messages under way at most, of one of so many transfers: each keeps its file open until it is hashed, and half of the descriptors
/// are for others.
fn most_messages(transfers: usize) -> usize {
    let each = descriptors::raise() / 2 / transfers as u64;
    usize::try_from(each).map_or(MAX_MESSAGES, |each| each.clamp(1, MAX_MESSAGES))
}

/// What a file transfer makes of a service.
const fn tool(name: &'static str) -> Tool {
    Tool {
        name,
        method: Method::Zcrp,
        cannot: |word| {
            Some(match word {
                "rate" => "ZCRP promises no rate; --rate of `pinnace send` bounds it",
                "burst" => "ZCRP promises no bursts",
                "priority" => "ZCRP knows no priorities",
                "deadline" | "lifespan" => "a file is of use whenever it comes, and nothing of it is dropped",
                "size" | "largest" => "--chunk says how large the messages are",
                "multicast" => "a file goes to one receiver",
                "direction" | "pattern" => "files go from the one who connects to the one who listens",
                // A file comes whole, which any contract allows, and where it belongs.
                _ => return None,
            })
        },
    }
}

/// Why a file cannot be sent from its pages, or received into them. `location`: for people.
fn unmapped(location: impl Display, error: &io::Error) -> Error {
    if error.raw_os_error() == Some(Errno::NODEV.raw_os_error()) {
        return Error::failed(format!(
            "cannot map {location}: its file system does not have files in memory (mmap); use one that does, like that of /tmp"
        ));
    }
    Error::io(format_args!("cannot map {location}"), error)
}

/// The value of a chunk of a file on the disk. The file must be that long. `name`: for people.
fn value_on_disk(
    file: &File,
    name: &str,
    (offset, len): (u64, usize),
    of: (u64, u64),
    look: Look<'_>,
) -> Result<Value, Error> {
    interrupt::check()?;
    look()?;
    let (bytes, chunk_bytes) = of;
    digest::value_in_file(file, len, Place { offset, bytes, chunk_bytes }, name)
}

/// Whether the other end is still there, for whom a file is read: that takes long, and it may be tired of it.
type Look<'a> = &'a dyn Fn() -> Result<(), Error>;

/// BLAKE3 of a file on the disk. The file must be that long.
fn hash_on_disk(file: &File, name: &str, bytes: u64, chunk_bytes: u64, look: Look<'_>) -> Result<Value, Error> {
    let work = schedule::Work { entry: 0, bytes, held: Vec::new() };
    let values: Result<Vec<Value>, Error> = (0..work.chunks(chunk_bytes))
        .map(|chunk| value_on_disk(file, name, work.range(chunk, chunk_bytes), (bytes, chunk_bytes), look))
        .collect();
    digest::file_hash(&values?, bytes, chunk_bytes).ok_or_else(|| Error::failed("a file is too large to be hashed"))
}
