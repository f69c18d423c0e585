//! Files that are sent from where they lie, and received into where they will, and what it means if somebody makes one shorter
//! meanwhile.
//!
//! Always true: the command fails with a sentence that names the file, and not with what the kernel says to a call that
//! reads pages that are gone (EFAULT). To read them in this process would be fatal (SIGBUS): what is summed or cut up here
//! is read from the file instead (`content.rs`).

use crate::exit::Error;
use pinnace::Message;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

struct Mapped {
    path: PathBuf,
    bytes: u64,
    modified: (i64, i64),
}

/// By their devices and numbers: another file may have the name by now.
static MAPPED: Mutex<BTreeMap<(u64, u64), Mapped>> = Mutex::new(BTreeMap::new());

/// Notes that a file is about to be sent from its pages.
pub(crate) fn note(file: &File, path: &Path) -> io::Result<()> {
    let metadata = file.metadata()?;
    let mapped = Mapped { path: path.to_owned(), bytes: metadata.len(), modified: modified(&metadata) };
    let mut all = MAPPED.lock().unwrap_or_else(PoisonError::into_inner);
    all.entry(identity(&metadata)).or_insert(mapped);
    Ok(())
}

/// A part of a file, to be sent from its pages.
pub(crate) fn to_send(file: &File, offset: u64, len: usize) -> io::Result<Message> {
    // SAFETY: nothing in this process looks at the bytes through the map. What others write to the file meanwhile is sent as
    // the system finds it, and the hash, which is of what is read, is another one then.
    unsafe { Message::map_file(file, offset, len) }
}

/// A part of a file, to be received into its pages. The file is as long.
pub(crate) fn to_receive(file: &File, offset: u64, len: usize) -> io::Result<Message> {
    // SAFETY: nothing in this process looks at the bytes through the map, and the system alone writes to them. Who else writes
    // to a file that is being received changes its hash.
    unsafe { Message::map_file_mut(file, offset, len) }
}

fn modified(metadata: &Metadata) -> (i64, i64) {
    (metadata.mtime(), metadata.mtime_nsec())
}

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

impl Mapped {
    /// As it is now, if it is there under its name.
    fn now(&self, known: (u64, u64)) -> Option<Metadata> {
        std::fs::metadata(&self.path).ok().filter(|metadata| identity(metadata) == known)
    }
}

fn first(is_meant: impl Fn(&Mapped, &Metadata) -> bool) -> Option<Error> {
    let all = MAPPED.lock().unwrap_or_else(PoisonError::into_inner);
    let found = all.iter().find(|(known, mapped)| mapped.now(**known).is_some_and(|now| is_meant(mapped, &now)))?;
    Some(changed(&found.1.path))
}

/// What is said of a file that was not the same from the first byte to the last.
pub(crate) fn changed(path: &Path) -> Error {
    Error::failed(format!("{} changed while it was being sent; send it again when nobody writes to it", path.display()))
}

/// Whether a file has content though its size is 0: what some of them contain the kernel makes up when they are read.
pub(crate) fn hides_content(mut file: &File) -> io::Result<bool> {
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.len() > 0 {
        return Ok(false);
    }
    // Some have nothing now, and would have whoever reads wait.
    fcntl_setfl(file, fcntl_getfl(file)? | OFlags::NONBLOCK)?;
    match file.read(&mut [0]) {
        Ok(bytes) => Ok(bytes > 0),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(true),
        Err(error) => Err(error),
    }
}

/// What is said of such a file.
pub(crate) fn hiding(path: &Path) -> Error {
    Error::failed(format!(
        "{} has content, though its size is 0, as files of /proc have it; copy it, and send the copy",
        path.display()
    ))
}

/// What a command that has failed with `error` is to say instead, if a file is to blame.
pub(crate) fn blamed(error: Error) -> Error {
    let is_fault = is_fault(&error);
    first(|mapped, now| now.len() < mapped.bytes || (is_fault && modified(now) != mapped.modified)).unwrap_or(error)
}

/// Whether that is how it ends when pages are gone.
pub(crate) fn is_fault(error: &Error) -> bool {
    error.message.contains(&io::Error::from_raw_os_error(EFAULT).to_string())
}

/// What a call says to which memory was given that is not there.
const EFAULT: i32 = 14;

/// Fails if what was sent is not all of what was asked for: the end of the last page is readable, and zero.
pub(crate) fn check() -> Result<(), Error> {
    first(|mapped, now| now.len() < mapped.bytes).map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_shorter_than_it_was_is_blamed_and_another_of_its_name_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "ahoy").unwrap();
        let file = File::open(&path).unwrap();
        note(&file, &path).unwrap();
        assert!(check().is_ok());
        assert_eq!(blamed(Error::failed("lost")).message, "lost");
        std::fs::write(&path, "oh").unwrap();
        assert!(check().unwrap_err().message.contains("changed while it was being sent"));
        assert!(blamed(Error::failed("lost")).message.contains("changed while"));
        std::fs::remove_file(&path).unwrap();
        assert!(check().is_ok());
    }
}
