//! What is to be sent: the files and folders that the user named.
//!
//! Symbolic links that are named are followed; those inside folders are left out, with a warning, and so is what somebody
//! removes from a folder meanwhile. Devices, sockets and pipes, what cannot be read, and what has more in it than its size
//! says, are refused before anything is sent.

use super::protocol::{Entry, Kind, MAX_ENTRIES, PARTIAL_FOLDER, SafePath};
use crate::exit::Error;
use crate::mapped;
use crate::output::Output;
use rustix::fs::OFlags;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use walkdir::WalkDir;

/// Something to send, and where it lies here.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) entry: Entry,
    pub(super) location: PathBuf,
    /// Which file it was, on which device: another one may get its name.
    pub(super) identity: (u64, u64),
}

impl Source {
    /// The name at the receiver, for people.
    pub(super) fn display(&self) -> String {
        super::protocol::printable(&String::from_utf8_lossy(&self.entry.path))
    }

    pub(super) fn bytes(&self) -> u64 {
        match self.entry.kind {
            Kind::Folder => 0,
            Kind::File { bytes } => bytes,
        }
    }

    /// The file, if it is still the one that was offered, as long and as old as it was.
    pub(super) fn open(&self) -> Result<File, Error> {
        let cannot = |error| Error::io(format_args!("cannot read {}", self.location.display()), &error);
        let file = not_waiting().open(&self.location).map_err(cannot)?;
        let metadata = file.metadata().map_err(cannot)?;
        let is_it = (metadata.dev(), metadata.ino()) == self.identity;
        if !is_it
            || metadata.len() != self.bytes()
            || (metadata.mtime(), metadata.mtime_nsec() as u32) != self.entry.modified
        {
            return Err(mapped::changed(&self.location));
        }
        Ok(file)
    }
}

/// What there is to send.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    /// Everything below the named paths, folders before what they contain.
    pub(super) sources: Vec<Source>,
    /// What a folder had, and was gone when its turn came.
    pub(super) gone: Vec<PathBuf>,
}

impl Gathered {
    fn leave_out_gone(&mut self, location: &Path, output: &Output) {
        // Of a folder one hears twice: that it is not there, and that it cannot be listed.
        if self.gone.last().is_none_or(|last| last != location) {
            left_out(location, "gone", "it was removed before its turn came", output);
            self.gone.push(location.to_owned());
        }
    }
}

/// Looks at everything below the named paths.
pub(super) fn gather(paths: &[PathBuf], output: &Output) -> Result<Gathered, Error> {
    let mut gathered = Gathered::default();
    let mut names = std::collections::BTreeSet::new();
    for path in paths {
        // A variable of a script that is not set, most likely.
        if path.as_os_str().is_empty() {
            return Err(Error::usage("one of the files to send has an empty name (''); name a file or a folder"));
        }
        let cannot = |error| Error::io(format_args!("cannot read {}", path.display()), &error);
        // `photos/`, `.` and `..` have names too.
        let name =
            match path.file_name() {
                Some(name) => name.to_owned(),
                None => std::fs::canonicalize(path).map_err(cannot)?.file_name().map(ToOwned::to_owned).ok_or_else(
                    || Error::usage(format!("{} has no name to send it under; name the folders in it", path.display())),
                )?,
            };
        if !names.insert(name.clone()) {
            let name = Path::new(&name).display();
            return Err(Error::usage(format!("two of the arguments are called {name}; send them one after the other")));
        }
        gather_one(path, name.as_bytes(), output, &mut gathered)?;
    }
    Ok(gathered)
}

fn left_out(location: &Path, why: &str, said: &str, output: &Output) {
    let object = serde_json::json!({ "event": "left_out", "path": location.to_string_lossy(), "why": why });
    output.event(format_args!("left out {}: {said}", location.display()), &object);
}

fn gather_one(path: &Path, name: &[u8], output: &Output, gathered: &mut Gathered) -> Result<(), Error> {
    let walk = WalkDir::new(path).follow_root_links(true).sort_by_file_name().into_iter();
    // What a receiver keeps for itself is nobody else's.
    for found in walk.filter_entry(|found| found.depth() == 0 || found.file_name() != PARTIAL_FOLDER) {
        let found = match found {
            Ok(found) => found,
            Err(error) if error.depth() > 0 && error.io_error().is_some_and(is_gone) => {
                gathered.leave_out_gone(error.path().unwrap_or(path), output);
                continue;
            }
            Err(error) => {
                let action = format!("cannot read {}", error.path().unwrap_or(path).display());
                return Err(match error.io_error() {
                    Some(error) => Error::io(action, error),
                    None => Error::failed(format!("{action}: the folders go round in a circle")),
                });
            }
        };
        let location = found.path();
        if found.depth() > 0 && found.path_is_symlink() {
            left_out(location, "symbolic link", "it is a symbolic link", output);
            continue;
        }
        let (metadata, has_more) = match examine(location, found.depth() == 0) {
            Ok(examined) => examined,
            Err(error) if found.depth() > 0 && is_gone(&error) => {
                gathered.leave_out_gone(location, output);
                continue;
            }
            Err(error) => return Err(Error::io(format_args!("cannot read {}", location.display()), &error)),
        };
        if has_more {
            return Err(mapped::hiding(location));
        }
        let mut full = name.to_vec();
        if let Ok(below) = location.strip_prefix(path)
            && found.depth() > 0
        {
            full.push(b'/');
            full.extend(below.as_os_str().as_bytes());
        }
        let (entry, identity) = (entry(full, &metadata, location)?, (metadata.dev(), metadata.ino()));
        gathered.sources.push(Source { entry, location: location.to_owned(), identity });
        if gathered.sources.len() > MAX_ENTRIES {
            return Err(Error::failed(format!("more than {MAX_ENTRIES} files; send them in several transfers")));
        }
    }
    Ok(())
}

fn is_gone(error: &io::Error) -> bool {
    error.kind() == ErrorKind::NotFound
}

/// What lies there, and whether it has content though it says that it is empty. A file must be readable: its turn to be sent
/// may come hours later.
///
/// `is_named`: on the command line, where links are followed.
fn examine(location: &Path, is_named: bool) -> io::Result<(Metadata, bool)> {
    let look = if is_named { std::fs::metadata } else { std::fs::symlink_metadata };
    let metadata = look(location)?;
    if !metadata.is_file() {
        return Ok((metadata, false));
    }
    let file = not_waiting().open(location)?;
    let has_more = mapped::hides_content(&file)?;
    Ok((metadata, has_more))
}

/// To open what may have become something that is waited for when it is opened.
fn not_waiting() -> OpenOptions {
    let mut options = File::options();
    options.read(true).custom_flags(OFlags::NONBLOCK.bits() as i32);
    options
}

fn entry(path: Vec<u8>, metadata: &Metadata, location: &Path) -> Result<Entry, Error> {
    let kind = if metadata.is_dir() {
        Kind::Folder
    } else if metadata.is_file() {
        Kind::File { bytes: metadata.len() }
    } else {
        return Err(Error::failed(format!("{} is neither a file nor a folder; leave it out", location.display())));
    };
    if let Err(why) = SafePath::new(path.clone()) {
        return Err(Error::failed(format!("{} cannot be sent under this name: {why}", location.display())));
    }
    let modified = (metadata.mtime(), metadata.mtime_nsec() as u32);
    Ok(Entry { path, kind, mode: metadata.mode() & 0o777, modified })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_come_with_what_is_in_them_and_links_do_not() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().join("top");
        std::fs::create_dir_all(top.join("empty")).unwrap();
        std::fs::create_dir_all(top.join(PARTIAL_FOLDER)).unwrap();
        std::fs::write(top.join("a"), b"123").unwrap();
        std::os::unix::fs::symlink("/etc", top.join("link")).unwrap();
        let output = Output::new(false, false);
        let Gathered { sources, gone } = gather(std::slice::from_ref(&top), &output).unwrap();
        assert!(gone.is_empty());
        let names: Vec<_> = sources.iter().map(Source::display).collect();
        assert_eq!(names, ["top", "top/a", "top/empty"]);
        assert_eq!(sources[1].bytes(), 3);
        assert!(sources[1].open().is_ok());
        std::fs::write(top.join("a"), b"1234").unwrap();
        assert!(sources[1].open().is_err());
        assert!(gather(&[top.clone(), top], &output).is_err());
        assert!(gather(&[PathBuf::from("/dev/null")], &output).is_err());
        assert!(gather(&[folder.path().join("nothing")], &output).is_err());
    }

    #[test]
    fn what_has_taken_the_place_of_a_file_is_not_sent() {
        let folder = tempfile::tempdir().unwrap();
        let (top, secret) = (folder.path().join("top"), folder.path().join("secret"));
        std::fs::create_dir(&top).unwrap();
        let times =
            std::fs::FileTimes::new().set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000));
        for path in [&top.join("a"), &secret] {
            std::fs::write(path, b"123").unwrap();
            File::options().write(true).open(path).unwrap().set_times(times).unwrap();
        }
        let sources = gather(std::slice::from_ref(&top), &Output::new(false, false)).unwrap().sources;
        assert!(sources[1].open().is_ok());
        // As long and as old as the file was.
        std::fs::remove_file(top.join("a")).unwrap();
        std::os::unix::fs::symlink(&secret, top.join("a")).unwrap();
        assert!(sources[1].open().is_err());
        // And one that whoever opens waits for.
        std::fs::remove_file(top.join("a")).unwrap();
        let made = std::process::Command::new("mkfifo").arg(top.join("a")).status().unwrap();
        assert!(made.success() && sources[1].open().is_err());
    }

    #[test]
    fn a_file_that_only_says_that_it_is_empty_is_refused() {
        let output = Output::new(false, false);
        let error = gather(&[PathBuf::from("/proc/self/status")], &output).unwrap_err();
        assert!(error.message.contains("/proc/self/status has content"), "{error}");
        let empty = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(gather(&[empty.path().to_owned()], &output).unwrap().sources[0].bytes(), 0);
    }
}
