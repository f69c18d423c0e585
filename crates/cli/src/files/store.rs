//! Where files arrive: a folder, and in it a hidden one for what is not whole yet.
//!
//! Always true: every path is walked from the folder's own descriptor, component by component, without following
//! symbolic links, so nothing is created, read or replaced outside; a file gets its name only when it is whole and
//! verified, in one step; no two transfers receive a file of the same name at once.

use super::digest::{Value, became_shorter};
use super::progress::Who;
use super::protocol::{Item, PARTIAL_FOLDER, SafePath};
use super::schedule::chunk_count;
use crate::exit::Error;
use crate::interrupt;
use rustix::fs::{
    Access, AtFlags, FallocateFlags, FileType, FlockOperation, Mode, OFlags, RenameFlags, Stat, Timespec, Timestamps,
};
use rustix::io::Errno;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::ops::Bound;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

const STATE_MAGIC: &[u8; 8] = b"pnstate1";
/// Magic, size of the file, size of a chunk.
const STATE_HEADER: usize = 24;
/// Number of a chunk, and its value.
const STATE_RECORD: usize = 36;

/// Permissions of what is not whole yet.
const PARTIAL_FILE: Mode = Mode::from_raw_mode(0o600);

const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC).union(OFlags::RDONLY);

/// The receiving folder.
#[derive(Debug)]
pub(super) struct Store {
    path: PathBuf,
    root: OwnedFd,
    partial: OwnedFd,
    overwrite: bool,
    claimed: Mutex<Claimed>,
    released: Condvar,
    /// The file system has refused to keep room free for what comes.
    reserves_nothing: AtomicBool,
}

/// What the transfers under way have for themselves.
#[derive(Debug, Default)]
struct Claimed {
    /// Paths of files that are being received, and of whom.
    paths: BTreeMap<Vec<u8>, Who>,
    /// Bytes of the disk that were promised, and are not reserved yet.
    set_aside: u64,
}

impl Claimed {
    /// The one of those files that has the path of this one, or is where the other has a folder, and whose it is.
    fn in_the_way(&self, item: &Item) -> Option<(&[u8], Who)> {
        let path = item.path.as_bytes();
        let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        let above = ends.chain([path.len()]).find_map(|end| self.paths.get_key_value(&path[..end]));
        let inside = [path, b"/"].concat();
        let mut behind = self.paths.range::<[u8], _>((Bound::Included(&inside[..]), Bound::Unbounded));
        let below = || behind.next().filter(|(path, _)| item.is_file() && path.starts_with(&inside));
        above.or_else(below).map(|(path, who)| (&**path, *who))
    }
}

/// Files that one transfer receives, and no other until this is dropped.
#[derive(Debug)]
pub(super) struct Claim<'a> {
    store: &'a Store,
    paths: BTreeSet<Vec<u8>>,
    set_aside: Cell<u64>,
}

impl Claim<'_> {
    /// Sets so many bytes of the disk aside, if they are free. Returns how many were.
    pub(super) fn set_aside(&self, bytes: u64) -> Result<u64, Error> {
        let mut claimed = self.store.claimed();
        let free = self.store.free_bytes()?.saturating_sub(claimed.set_aside);
        if bytes <= free {
            claimed.set_aside += bytes;
            self.set_aside.set(self.set_aside.get() + bytes);
        }
        Ok(free)
    }

    /// So many of them are reserved now.
    pub(super) fn has_taken(&self, bytes: u64) {
        let bytes = bytes.min(self.set_aside.get());
        self.set_aside.set(self.set_aside.get() - bytes);
        self.store.claimed().set_aside -= bytes;
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut claimed = self.store.claimed();
        claimed.paths.retain(|path, _| !self.paths.contains(path));
        claimed.set_aside -= self.set_aside.get();
        self.store.released.notify_all();
    }
}

/// The folders of a transfer, from when they are made until everything is in them. Those that were there before and had to be made
/// writable meanwhile get their permissions back: they are the user's, and whoever sends does not change them.
#[derive(Debug)]
pub(super) struct Folders<'s> {
    store: &'s Store,
    /// Made by this transfer, or by an attempt at it that ended early.
    own: BTreeSet<Vec<u8>>,
    /// An inner one comes after the one that it is in.
    unlocked: BTreeMap<Vec<u8>, (SafePath, Mode)>,
}

impl Folders<'_> {
    /// Makes a folder, so that this user can write to it.
    pub(super) fn make(&mut self, item: &Item) -> Result<(), Error> {
        let (is_own, before) = self.store.make_folder(item)?;
        let name = || item.path.as_bytes().to_vec();
        if is_own {
            self.own.insert(name());
        }
        self.unlocked.extend(before.map(|mode| (name(), (item.path.clone(), mode))));
        Ok(())
    }

    /// Gives them, of which the innermost comes first, their permissions and times; those that were there before keep what they
    /// have, unless it may be overwritten.
    pub(super) fn finish<'i>(mut self, folders: impl IntoIterator<Item = &'i Item>) -> Result<(), Error> {
        for folder in folders {
            if self.store.overwrite || self.own.contains(folder.path.as_bytes()) {
                self.store.finish_folder(folder)?;
                self.unlocked.remove(folder.path.as_bytes());
            }
        }
        Ok(())
    }
}

impl Drop for Folders<'_> {
    fn drop(&mut self) {
        for (path, mode) in self.unlocked.values().rev() {
            // Whoever has removed it does not need it.
            let _ = self.store.folder(path).and_then(|folder| rustix::fs::fchmod(&folder, *mode));
        }
    }
}

/// The receiving folder, by its name: another one may get that name, or its hidden folder may be removed.
#[derive(Debug)]
pub(super) struct Stores {
    path: PathBuf,
    overwrite: bool,
    current: Mutex<Arc<Store>>,
}

impl Stores {
    pub(super) fn open(path: &Path, overwrite: bool) -> Result<Self, Error> {
        let current = Mutex::new(Arc::new(Store::open(path, overwrite)?));
        Ok(Self { path: path.to_owned(), overwrite, current })
    }

    /// The folder that has the name now.
    pub(super) fn current(&self) -> Result<Arc<Store>, Error> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if !current.is_in_place() {
            *current = Arc::new(Store::open(&self.path, self.overwrite)?);
        }
        Ok(Arc::clone(&current))
    }
}

/// What has the name of a file that is offered.
#[derive(Debug)]
pub(super) enum Existing {
    Nothing,
    File(File, u64),
    Folder,
    /// A symbolic link, say.
    Other,
}

impl Store {
    /// Opens, and if need be makes, the folder; nobody else may receive into it meanwhile.
    pub(super) fn open(path: &Path, overwrite: bool) -> Result<Self, Error> {
        let cannot = |error: Errno| Error::io(format_args!("cannot receive into {}", path.display()), &error.into());
        fs::create_dir_all(path).map_err(|error| {
            // A symbolic link that leads nowhere is in the way, too.
            let (is_there, path) = (path.exists(), path.display());
            if error.kind() == ErrorKind::AlreadyExists && is_there {
                return Error::failed(format!(
                    "cannot receive into {path}: it is a file; choose another folder (--dir)"
                ));
            }
            Error::io(format_args!("cannot make the folder {path}"), &error)
        })?;
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
        let root = rustix::fs::open(path, flags, Mode::empty()).map_err(cannot)?;
        let partial = folder_in(&root, PARTIAL_FOLDER.as_bytes(), Some(Mode::from_raw_mode(0o700)));
        let partial = partial.map_err(|error| match error {
            Errno::NOTDIR | Errno::LOOP => Error::failed(format!(
                "cannot receive into {0}: {0}/{PARTIAL_FOLDER}, where what is not whole yet is to lie, is no folder; move it \
                 away",
                path.display()
            )),
            error => cannot(error),
        })?;
        // Whose the folder itself is may do as he likes in it.
        let owner = |folder: &OwnedFd| rustix::fs::fstat(folder).map(|found| found.st_uid).map_err(cannot);
        let trusted = [rustix::process::geteuid().as_raw(), 0, owner(&root)?];
        if !trusted.contains(&owner(&partial)?) {
            return Err(Error::failed(format!(
                "cannot receive into {0}: {0}/{PARTIAL_FOLDER} belongs to another user, who could change what is not whole yet; \
                 move it away, or choose another folder (--dir)",
                path.display()
            )));
        }
        match rustix::fs::flock(&partial, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                return Err(Error::failed(format!(
                    "another `pinnace recv` receives into {}; choose another --dir, or end it",
                    path.display()
                )));
            }
            Err(error) => return Err(cannot(error)),
        }
        let (claimed, released, reserves_nothing) = Default::default();
        Ok(Self { path: path.to_owned(), root, partial, overwrite, claimed, released, reserves_nothing })
    }

    fn claimed(&self) -> MutexGuard<'_, Claimed> {
        self.claimed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until nobody else sends any of these files, which `who` sends, and calls `look` meanwhile with one that somebody does; its
    /// error ends the wait.
    pub(super) fn claim(
        &self,
        who: Who,
        items: &[Item],
        mut look: impl FnMut(&[u8], Who) -> Result<(), Error>,
    ) -> Result<Claim<'_>, Error> {
        let mut claimed = self.claimed();
        // All at once, so that no two transfers wait for each other.
        while let Some((path, holder)) = items.iter().find_map(|item| claimed.in_the_way(item)) {
            interrupt::check()?;
            look(path, holder)?;
            claimed = self.released.wait_timeout(claimed, interrupt::LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
        let files = items.iter().filter(|item| item.is_file());
        let paths: BTreeSet<_> = files.map(|item| item.path.as_bytes().to_vec()).collect();
        claimed.paths.extend(paths.iter().map(|path| (path.clone(), who)));
        Ok(Claim { store: self, paths, set_aside: Cell::new(0) })
    }

    /// Whether it is still found where it was opened, with its hidden folder.
    fn is_in_place(&self) -> bool {
        is_same(rustix::fs::stat(&self.path), &self.root) && self.has_partial()
    }

    /// Whether the hidden folder is still the one that was opened.
    fn has_partial(&self) -> bool {
        is_same(rustix::fs::statat(&self.root, PARTIAL_FOLDER, AtFlags::SYMLINK_NOFOLLOW), &self.partial)
    }

    /// Bytes that can be written to the folder, as far as is known.
    pub(super) fn free_bytes(&self) -> Result<u64, Error> {
        let status =
            rustix::fs::fstatvfs(&self.root).map_err(|error| self.cannot("look at the disk of", None, error))?;
        // One without a size (ramfs, some in user space) does not know what is free.
        if status.f_blocks == 0 {
            return Ok(u64::MAX);
        }
        Ok(status.f_bavail.saturating_mul(status.f_frsize))
    }

    /// Bytes of the disk that an earlier attempt at a file has reserved.
    pub(super) fn reserved_bytes(&self, item: &Item) -> u64 {
        let status = rustix::fs::statat(&self.partial, content_name(&item.path), AtFlags::SYMLINK_NOFOLLOW);
        status.map_or(0, |status| u64::try_from(status.st_blocks).unwrap_or(0).saturating_mul(512))
    }

    /// Fails if somebody has made what arrives of a file shorter than [`begin`](Self::begin) left it.
    pub(super) fn check_length(&self, item: &Item) -> Result<(), Error> {
        let status = rustix::fs::statat(&self.partial, content_name(&item.path), AtFlags::SYMLINK_NOFOLLOW);
        if status.is_ok_and(|status| u64::try_from(status.st_size).is_ok_and(|bytes| bytes < item.bytes())) {
            return Err(became_shorter(&partial_name(item)));
        }
        Ok(())
    }

    pub(super) fn overwrites(&self) -> bool {
        self.overwrite
    }

    fn cannot(&self, what: &str, path: Option<&SafePath>, error: Errno) -> Error {
        // `O_DIRECTORY` finds that a symbolic link is no folder, before `O_NOFOLLOW` finds that it is one.
        if error == Errno::NOTDIR
            && let Some(file) = path.and_then(|path| self.file_on(path))
        {
            return Error::failed(format!(
                "{}/{} is a file, where a folder of that name is to come; move it away",
                self.path.display(),
                file.display()
            ));
        }
        let path = path.map(|path| format!("/{}", path.display())).unwrap_or_default();
        if error == Errno::LOOP || error == Errno::NOTDIR {
            return Error::not_verified(format!(
                "cannot {what} {}{path}: a part of the path is a symbolic link; nothing is written through it",
                self.path.display()
            ));
        }
        Error::io(format_args!("cannot {what} {}{path}", self.path.display()), &error.into())
    }

    /// The first component of `path` that is no folder, if it is no symbolic link either.
    fn file_on(&self, path: &SafePath) -> Option<SafePath> {
        let bytes = path.as_bytes();
        let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at).chain([bytes.len()]);
        for part in ends.map(|end| SafePath::new(bytes[..end].to_vec())) {
            let part = part.ok()?;
            let folder = self.parent(&part, false).ok()?;
            let status = rustix::fs::statat(&folder, OsStr::from_bytes(part.split().1), AtFlags::SYMLINK_NOFOLLOW);
            match FileType::from_raw_mode(status.ok()?.st_mode) {
                FileType::Directory => {}
                FileType::Symlink => return None,
                _ => return Some(part),
            }
        }
        None
    }

    /// The folder that `path` lies in.
    fn parent(&self, path: &SafePath, create: bool) -> Result<OwnedFd, Errno> {
        let mut folder = rustix::io::fcntl_dupfd_cloexec(&self.root, 0)?;
        for name in path.split().0 {
            folder = folder_in(&folder, name, create.then(|| Mode::from_raw_mode(0o777)))?;
        }
        Ok(folder)
    }

    /// What has that name now.
    pub(super) fn existing(&self, path: &SafePath) -> Result<Existing, Error> {
        let cannot = |error| self.cannot("look at", Some(path), error);
        let folder = match self.parent(path, false) {
            Ok(folder) => folder,
            Err(Errno::NOENT) => return Ok(Existing::Nothing),
            Err(error) => return Err(cannot(error)),
        };
        let name = OsStr::from_bytes(path.split().1);
        let status = match rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(status) => status,
            Err(Errno::NOENT) => return Ok(Existing::Nothing),
            Err(error) => return Err(cannot(error)),
        };
        match FileType::from_raw_mode(status.st_mode) {
            FileType::RegularFile => {}
            FileType::Directory => return Ok(Existing::Folder),
            _ => return Ok(Existing::Other),
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = File::from(rustix::fs::openat(&folder, name, flags, Mode::empty()).map_err(cannot)?);
        let bytes = file.metadata().map_err(|error| Error::io("cannot look at a file", &error))?.len();
        Ok(Existing::File(file, bytes))
    }

    /// Makes a folder; nobody may do in it meanwhile what they may not in the end. Whether it is this transfer's; and if this user may
    /// write in it now, but could not, its permissions as they were.
    fn make_folder(&self, item: &Item) -> Result<(bool, Option<Mode>), Error> {
        let path = &item.path;
        let make = || {
            let (parent, name) = (self.parent(path, true)?, path.split().1);
            let mode = Mode::from_raw_mode(item.mode) | Mode::RWXU;
            let is_own = match rustix::fs::mkdirat(&parent, OsStr::from_bytes(name), mode) {
                // The next attempt must know that it may change it.
                Ok(()) => self.open_partial(&made_name(path), OFlags::WRONLY | OFlags::CREATE).map(|_| true)?,
                Err(Errno::EXIST) => {
                    rustix::fs::statat(&self.partial, made_name(path), AtFlags::SYMLINK_NOFOLLOW).is_ok()
                }
                Err(error) => return Err(error),
            };
            Ok((folder_in(&parent, name, None)?, is_own))
        };
        let (folder, is_own) = make().map_err(|error| self.cannot("make the folder", Some(path), error))?;
        if rustix::fs::accessat(&folder, ".", Access::WRITE_OK | Access::EXEC_OK, AtFlags::empty()).is_ok() {
            return Ok((is_own, None));
        }
        let unlock = || {
            let mode = Mode::from_raw_mode(rustix::fs::fstat(&folder)?.st_mode);
            rustix::fs::fchmod(&folder, mode | Mode::RWXU)?;
            Ok(mode)
        };
        let before = unlock().map_err(|error| self.cannot("write to the folder", Some(path), error))?;
        Ok((is_own, Some(before)))
    }

    fn folder(&self, path: &SafePath) -> Result<OwnedFd, Errno> {
        folder_in(&self.parent(path, false)?, path.split().1, None)
    }

    /// The folders that a transfer makes.
    pub(super) fn folders(&self) -> Folders<'_> {
        Folders { store: self, own: BTreeSet::new(), unlocked: BTreeMap::new() }
    }

    /// Gives a folder its permissions and its time, when everything is in it.
    fn finish_folder(&self, item: &Item) -> Result<(), Error> {
        let finish = || {
            let folder = self.folder(&item.path)?;
            // The bits beyond the nine are this host's: that files in it get its group, say.
            let own =
                Mode::from_raw_mode(rustix::fs::fstat(&folder)?.st_mode) & !(Mode::RWXU | Mode::RWXG | Mode::RWXO);
            rustix::fs::fchmod(&folder, own | Mode::from_raw_mode(item.mode))?;
            rustix::fs::futimens(&folder, &times(item))
        };
        finish().map_err(|error| self.cannot("set the permissions of", Some(&item.path), error))?;
        self.remove(&made_name(&item.path));
        Ok(())
    }

    fn open_partial(&self, name: &str, flags: OFlags) -> Result<File, Errno> {
        // Nobody waits for what is no file.
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let open = || rustix::fs::openat(&self.partial, name, flags, PARTIAL_FILE).map(File::from);
        match open() {
            // An attempt that was killed on its last step has left it with the permissions of the whole file.
            Err(Errno::ACCESS) if self.unlock_partial(name).is_ok() => open(),
            opened => opened,
        }
    }

    fn unlock_partial(&self, name: &str) -> Result<(), Errno> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.partial, name, flags, Mode::empty())?;
        if FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) != FileType::RegularFile {
            return Err(Errno::ACCESS);
        }
        // `fchmod` takes no descriptor that neither reads nor writes; by its name a link could be followed.
        rustix::fs::chmod(format!("/proc/self/fd/{}", file.as_raw_fd()), PARTIAL_FILE)
    }

    /// What arrived of a file before: its content, and the chunks that were written down as whole. They must be
    /// verified.
    pub(super) fn resume(&self, item: &Item, chunk_bytes: u64) -> Option<(File, Vec<(u32, Value)>)> {
        let file = self.open_partial(&content_name(&item.path), OFlags::RDONLY).ok()?;
        if file.metadata().ok()?.len() != item.bytes() {
            return None;
        }
        let mut state = Vec::new();
        let chunks = chunk_count(item.bytes(), chunk_bytes);
        // Chunks may have been written down twice, after a resumption.
        let most = STATE_HEADER as u64 + 4 * u64::from(chunks) * STATE_RECORD as u64;
        let opened = self.open_partial(&state_name(&item.path), OFlags::RDONLY).ok()?;
        opened.take(most).read_to_end(&mut state).ok()?;
        let (header, records) = state.split_at_checked(STATE_HEADER)?;
        if header != state_header(item.bytes(), chunk_bytes) {
            return None;
        }
        let record = |record: &[u8; STATE_RECORD]| {
            let (chunk, value) = record.split_first_chunk::<4>()?;
            let chunk = u32::from_le_bytes(*chunk);
            (chunk < chunks).then_some((chunk, value.try_into().ok()?))
        };
        let mut held: Vec<(u32, Value)> = records.as_chunks::<STATE_RECORD>().0.iter().filter_map(record).collect();
        // The last record of a chunk counts.
        held.reverse();
        held.sort_by_key(|(chunk, _)| *chunk);
        held.dedup_by_key(|(chunk, _)| *chunk);
        Some((file, held))
    }

    /// Makes room for a file that arrives, and writes down what of it is there (`held`).
    pub(super) fn begin(&self, item: &Item, chunk_bytes: u64, held: &[(u32, Value)]) -> Result<File, Error> {
        let cannot = |error| self.cannot("write", Some(&item.path), error);
        let mut flags = OFlags::RDWR | OFlags::CREATE;
        if held.is_empty() {
            flags |= OFlags::TRUNC;
        }
        let file = self.open_partial(&content_name(&item.path), flags).map_err(cannot)?;
        rustix::fs::ftruncate(&file, item.bytes()).map_err(cannot)?;
        if chunk_count(item.bytes(), chunk_bytes) > 1 {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
            let mut state = self.open_partial(&state_name(&item.path), flags).map_err(cannot)?;
            let mut text = state_header(item.bytes(), chunk_bytes).to_vec();
            held.iter().for_each(|(chunk, value)| text.extend(state_record(*chunk, value)));
            state.write_all(&text).map_err(|error| Error::io("cannot write down what has arrived", &error))?;
        }
        Ok(file)
    }

    /// Reserves the disk space of a part of a file: writing to a mapped page without space would kill the process.
    pub(super) fn reserve(&self, file: &File, item: &Item, offset: u64, len: usize) -> Result<(), Error> {
        match rustix::fs::fallocate(file, FallocateFlags::empty(), offset, len as u64) {
            Ok(()) => Ok(()),
            // This file system reserves nothing; what is free now has to do.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) if self.free_bytes()? > len as u64 => {
                self.reserves_nothing.store(true, Ordering::Relaxed);
                Ok(())
            }
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Err(self.cannot("write", Some(&item.path), Errno::NOSPC)),
            Err(error) => Err(self.cannot("write", Some(&item.path), error)),
        }
    }

    /// Writes down that a chunk has arrived whole.
    pub(super) fn note(&self, item: &Item, chunk: u32, value: &Value) -> Result<(), Error> {
        let cannot = |error| Error::io("cannot write down what has arrived", &error);
        let flags = OFlags::WRONLY | OFlags::APPEND;
        let mut state = self.open_partial(&state_name(&item.path), flags).map_err(|error| cannot(error.into()))?;
        state.write_all(&state_record(chunk, value)).map_err(cannot)
    }

    /// Gives a verified file its permissions, its time and its name.
    pub(super) fn place(&self, item: &Item, sync: bool) -> Result<(), Error> {
        self.check_length(item)?;
        let content = content_name(&item.path);
        let place = || {
            let file = self.open_partial(&content, OFlags::RDWR)?;
            let folder = self.parent(&item.path, true)?;
            rustix::fs::futimens(&file, &times(item))?;
            rustix::fs::fchmod(&file, Mode::from_raw_mode(item.mode))?;
            // Where nothing is reserved, whether there was room is known when it is on the disk.
            let is_asked = sync || self.reserves_nothing.load(Ordering::Relaxed);
            let synced = if is_asked { rustix::fs::fsync(&file) } else { Ok(()) };
            let named = synced.and_then(|()| self.name(&content, &folder, OsStr::from_bytes(item.path.split().1)));
            if named.is_err() {
                // The next attempt must be able to write to it, whatever permissions the whole file has.
                let _ = rustix::fs::fchmod(&file, PARTIAL_FILE);
            }
            named?;
            if sync { self.sync_folders(&item.path) } else { Ok(()) }
        };
        place().map_err(|error| match error {
            Errno::EXIST | Errno::ISDIR => match self.existing(&item.path) {
                Ok(Existing::Folder) => is_folder(&item.path),
                Ok(_) => exists(&item.path),
                Err(error) => error,
            },
            error => self.cannot("put into its place", Some(&item.path), error),
        })?;
        self.remove(&state_name(&item.path));
        Ok(())
    }

    /// Has the names on the way to a file, and its own, on the disk.
    fn sync_folders(&self, path: &SafePath) -> Result<(), Errno> {
        let mut folder = rustix::io::fcntl_dupfd_cloexec(&self.root, 0)?;
        for name in path.split().0 {
            let inner = folder_in(&folder, name, None)?;
            rustix::fs::fsync(std::mem::replace(&mut folder, inner))?;
        }
        rustix::fs::fsync(folder)
    }

    /// Has a file that was there before on the disk.
    pub(super) fn sync(&self, path: &SafePath) -> Result<(), Error> {
        let sync = || {
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
            let name = OsStr::from_bytes(path.split().1);
            rustix::fs::fsync(rustix::fs::openat(self.parent(path, false)?, name, flags, Mode::empty())?)?;
            self.sync_folders(path)
        };
        sync().map_err(|error| self.cannot("write to the disk", Some(path), error))
    }

    /// Gives what lies in the hidden folder its name.
    fn name(&self, content: &str, folder: &OwnedFd, name: &OsStr) -> Result<(), Errno> {
        if self.overwrite {
            return rustix::fs::renameat(&self.partial, content, folder, name);
        }
        match rustix::fs::renameat_with(&self.partial, content, folder, name, RenameFlags::NOREPLACE) {
            // This file system cannot; a link to an existing name fails too.
            Err(Errno::INVAL | Errno::NOSYS) => {
                rustix::fs::linkat(&self.partial, content, folder, name, AtFlags::empty())?;
                rustix::fs::unlinkat(&self.partial, content, AtFlags::empty())
            }
            result => result,
        }
    }

    /// Forgets what arrived of a file.
    pub(super) fn forget(&self, item: &Item) {
        self.remove(&state_name(&item.path));
        self.remove(&content_name(&item.path));
    }

    fn remove(&self, name: &str) {
        // If it is not there, so much the better.
        let _ = rustix::fs::unlinkat(&self.partial, name, AtFlags::empty());
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // Only an empty folder can be removed; what is in it is for the next attempt. Another one is somebody else's.
        if self.has_partial() {
            let _ = rustix::fs::unlinkat(&self.root, PARTIAL_FOLDER, AtFlags::REMOVEDIR);
        }
    }
}

fn is_same(named: rustix::io::Result<Stat>, open: &OwnedFd) -> bool {
    let open = rustix::fs::fstat(open);
    named.is_ok_and(|named| open.is_ok_and(|open| (named.st_dev, named.st_ino) == (open.st_dev, open.st_ino)))
}

/// The refusal of a name that is taken.
pub(super) fn exists(path: &SafePath) -> Error {
    let path = path.display();
    Error::failed(format!(
        "{path} exists at the receiver, with other content; move it away, or start `pinnace recv` with --overwrite"
    ))
}

/// The refusal of a file where a folder is.
pub(super) fn is_folder(path: &SafePath) -> Error {
    let path = path.display();
    Error::failed(format!(
        "{path} is a folder at the receiver, where a file of that name is to come; move it away (--overwrite does not \
         replace folders)"
    ))
}

/// Opens a folder in a folder, and makes it if `create` says how.
fn folder_in(parent: impl AsFd, name: &[u8], create: Option<Mode>) -> Result<OwnedFd, Errno> {
    let name = OsStr::from_bytes(name);
    if let Some(mode) = create {
        match rustix::fs::mkdirat(&parent, name, mode) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error),
        }
    }
    rustix::fs::openat(&parent, name, FOLDER, Mode::empty())
}

fn times(item: &Item) -> Timestamps {
    let time = Timespec { tv_sec: item.modified.0, tv_nsec: item.modified.1.into() };
    Timestamps { last_access: time, last_modification: time }
}

/// Names in the hidden folder: from the path, so that the next attempt finds them, and of a length that every file system
/// takes.
fn content_name(path: &SafePath) -> String {
    blake3::hash(path.as_bytes()).to_hex()[..40].to_owned()
}

/// What arrives of a file, for people.
pub(super) fn partial_name(item: &Item) -> String {
    format!("what had arrived of {} in {PARTIAL_FOLDER}", item.path.display())
}

/// Says of a folder that an attempt has made it, and has not finished.
fn made_name(path: &SafePath) -> String {
    content_name(path) + ".made"
}

fn state_name(path: &SafePath) -> String {
    content_name(path) + ".state"
}

fn state_header(bytes: u64, chunk_bytes: u64) -> [u8; STATE_HEADER] {
    let mut header = [0; STATE_HEADER];
    header[..8].copy_from_slice(STATE_MAGIC);
    header[8..16].copy_from_slice(&bytes.to_le_bytes());
    header[16..].copy_from_slice(&chunk_bytes.to_le_bytes());
    header
}

fn state_record(chunk: u32, value: &Value) -> [u8; STATE_RECORD] {
    let mut record = [0; STATE_RECORD];
    record[..4].copy_from_slice(&chunk.to_le_bytes());
    record[4..].copy_from_slice(value);
    record
}

#[cfg(test)]
#[path = "store/tests.rs"]
mod tests;
