//! Pools that are found by name.
//!
//! A memfd has no name. So the process that makes a named pool leaves a symbolic link to its descriptor,
//! `/proc/PID/fd/N`, in a folder of the user: `$XDG_RUNTIME_DIR/pinnace-qbuf`, or `/dev/shm/pinnace-qbuf-UID`. Opening the
//! link opens the memfd, seals and all, which a file with a name could not have. A name lasts as long as that process has
//! the pool; who comes later makes a new one. A second link has the memfd's inode number for its text: the descriptor's
//! number may have been given to another pool since.
//!
//! Always true: the folder belongs to the user, and nobody else can write to it.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, symlink};
use std::path::PathBuf;

use rustix::fs::{FlockOperation, flock};
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
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a name for a buffer pool").into());
        }
        let folder = folder()?;
        // Two that come at once find the same pool. The kernel gives the lock back when its holder dies.
        let lock = File::create(folder.join(".lock"))?;
        flock(&lock, FlockOperation::LockExclusive)?;
        let (link, identity) = (folder.join(name), folder.join(format!(".{name}.inode")));
        let is_it = |file: &File| {
            let inode = file.metadata().map(|found| found.ino().to_string());
            inode.is_ok_and(|inode| fs::read_link(&identity).is_ok_and(|known| known.as_os_str() == inode.as_str()))
        };
        if let Some(file) = File::options().read(true).write(true).open(&link).ok().filter(is_it) {
            match Self::attach(file.into()) {
                // The descriptor's number was given to something else.
                Err(PoolError::NotSealed | PoolError::NotAPool) => {}
                outcome => return outcome,
            }
        }
        let pool = Self::create(options)?;
        let inode = File::from(pool.fd().try_clone_to_owned()?).metadata()?.ino().to_string();
        let place = format!("/proc/{}/fd/{}", std::process::id(), pool.fd().as_raw_fd());
        for (link, text) in [(&identity, inode), (&link, place)] {
            match fs::remove_file(link) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
                _ => symlink(text, link)?,
            }
        }
        Ok(pool)
    }
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
