//! Pools that are found by name.
//!
//! A memfd has no name. So the process that makes a named pool leaves a symbolic link to its descriptor,
//! `/proc/PID/fd/N`, in a folder of the user: `$XDG_RUNTIME_DIR/pinnace-qbuf`, or `/dev/shm/pinnace-qbuf-UID`. Opening the
//! link opens the memfd, seals and all, which a file with a name could not have. A name lasts as long as that process has
//! the pool; who comes later makes a new one. A second link has for its text the memfd's inode number, because the descriptor's
//! number may have been given to another pool since, and that of the PID namespace in which the process has its number.
//!
//! The links go with the attachment that made them. What a process leaves behind that is killed, the next removes that opens a
//! pool, whatever its name, if it is of the same namespace: of others it is not known who lives.
//!
//! Always true: the folder belongs to the user, and nobody else can write to it; links are made and removed with its lock in
//! hand, and none is removed whose pool is there.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::retry_on_intr;
use rustix::process::getuid;

use crate::error::PoolError;
use crate::pool::{Pool, PoolOptions};

impl Pool {
    //= B-15
    /// Attaches to the pool of that name of this user, or makes it if there is none; an existing one keeps its own
    /// options. Names have 1 to 100 letters, digits, `-`, `_` and `.`, and do not begin with `.`.
    ///
    /// ```
    /// use pinnace_qbuf::{Pool, PoolOptions};
    /// let name = format!("example-{}", std::process::id());
    /// let pool = Pool::open(&name, &PoolOptions { zones: 3, ..PoolOptions::default() }).unwrap();
    /// let same = Pool::open(&name, &PoolOptions::default()).unwrap();
    /// assert_eq!((same.options().zones, same.slot()), (3, 1));
    /// assert!(Pool::open("../elsewhere", &PoolOptions::default()).is_err());
    /// ```
    pub fn open(name: &str, options: &PoolOptions) -> Result<Self, PoolError> {
        let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if !(1..=100).contains(&name.len()) || name.starts_with('.') || !name.bytes().all(is_fine) {
            let rule = "1 to 100 letters, digits, `-`, `_` and `.`, of which `.` is not the first";
            let message = format!("{name:?} is no name for it: a name has {rule}");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message).into());
        }
        let folder = folder()?;
        // Two that come at once find the same pool.
        let _lock = lock(&folder)?;
        sweep(&folder)?;
        let (link, identity) = links(&folder, name);
        if let Some(file) =
            File::options().read(true).write(true).open(&link).ok().filter(|file| is_of(file, &identity))
        {
            match Self::attach(file.into()) {
                // The descriptor's number was given to something else.
                Err(PoolError::NotSealed | PoolError::NotAPool) => {}
                outcome => return outcome,
            }
        }
        let pool = Self::create(options)?;
        let mark = mark(File::from(pool.fd().try_clone_to_owned()?).metadata()?.ino());
        let process = std::process::id();
        let place = format!("/proc/{process}/fd/{}", pool.fd().as_raw_fd());
        remove(&link, &identity)?;
        symlink(&mark, &identity)?;
        symlink(&place, &link)?;
        pool.keep_name(Name { process, folder, name: name.to_owned(), mark, place });
        Ok(pool)
    }
}

/// That a pool has a name; it goes with this.
#[derive(Debug)]
pub(crate) struct Name {
    /// Whose it is: a child made by `fork` leaves it alone.
    process: u32,
    folder: PathBuf,
    name: String,
    /// What the two links say.
    mark: String,
    place: String,
}

impl Drop for Name {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            return;
        }
        let Ok(_lock) = lock(&self.folder) else { return };
        let (link, identity) = links(&self.folder, &self.name);
        let says = |link: &Path, text: &str| fs::read_link(link).is_ok_and(|said| said.as_os_str() == text);
        // Somebody may have the name by now, to whom our descriptor was not to be opened.
        if says(&link, &self.place) && says(&identity, &self.mark) {
            let _ = remove(&link, &identity);
        }
    }
}

/// The two links of a name.
fn links(folder: &Path, name: &str) -> (PathBuf, PathBuf) {
    (folder.join(name), folder.join(format!(".{name}.inode")))
}

/// Nobody else makes or removes links meanwhile. The kernel gives the lock back when its holder dies.
struct Locked(File);

impl Drop for Locked {
    fn drop(&mut self) {
        // To close it is not enough: a child that was forked meanwhile has it, too.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

fn lock(folder: &Path) -> io::Result<Locked> {
    let lock = File::create(folder.join(".lock"))?;
    // A signal is no reason to leave a name as it is.
    retry_on_intr(|| flock(&lock, FlockOperation::LockExclusive))?;
    Ok(Locked(lock))
}

/// What says which memfd it is, and of a process in which namespace.
fn mark(inode: u64) -> String {
    format!("{inode}@{}", namespace())
}

/// The namespace of this process's number, as the system names it.
fn namespace() -> u64 {
    fs::metadata("/proc/self/ns/pid").map_or(0, |found| found.ino())
}

/// Whether it is the file of which this link speaks.
fn is_of(file: &File, identity: &Path) -> bool {
    let found = file.metadata().map(|found| mark(found.ino()));
    found.is_ok_and(|found| fs::read_link(identity).is_ok_and(|known| known.as_os_str() == found.as_str()))
}

fn remove(link: &Path, identity: &Path) -> io::Result<()> {
    for link in [link, identity] {
        match fs::remove_file(link) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Removes the names of the dead: of those whose process or descriptor is no more, or is something else now.
//= B-12
fn sweep(folder: &Path) -> io::Result<()> {
    let of_this = format!("@{}", namespace());
    for entry in fs::read_dir(folder)?.flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        if name.starts_with('.') {
            continue;
        }
        let (link, identity) = links(folder, &name);
        let known = fs::read_link(&identity).ok().and_then(|known| known.into_os_string().into_string().ok());
        if known.as_ref().is_some_and(|known| known.contains('@') && !known.ends_with(&of_this)) {
            continue;
        }
        let is_dead = match fs::metadata(&link) {
            Ok(found) => known.is_none_or(|known| known != mark(found.ino())),
            // Whoever may not look at a process does not know.
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        };
        if is_dead {
            remove(&link, &identity)?;
        }
    }
    Ok(())
}

/// The folder of this user's names.
fn folder() -> io::Result<PathBuf> {
    let user = getuid().as_raw();
    let folder = match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(folder) if !folder.is_empty() => PathBuf::from(folder).join("pinnace-qbuf"),
        _ => PathBuf::from(format!("/dev/shm/pinnace-qbuf-{user}")),
    };
    match DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let found = fs::symlink_metadata(&folder)?;
    if !found.is_dir() || found.uid() != user || found.mode() & 0o022 != 0 {
        let message = format!("{} is not a folder of this user alone", folder.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
    }
    Ok(folder)
}
