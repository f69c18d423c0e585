//! Where a daemon serves: the socket's directory, its lock, and the socket.
//!
//! Always true: of two daemons at one place one serves and the other gets an error; what is replaced is a socket that
//! nobody serves; nobody can connect before the socket has its final owner and mode.

use crate::daemon::socket;
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, flock, openat};
use rustix::io::Errno;
use rustix::net::{SocketAddrUnix, SocketFlags};
use std::fs::{self, File, Permissions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Connections that the kernel keeps for us while we do something else.
const BACKLOG: i32 = 128;

/// A socket that is served, with the lock that says so.
#[derive(Debug)]
pub(super) struct Place {
    path: PathBuf,
    pub(super) listening: OwnedFd,
    /// Locked as long as it is open.
    lock: File,
}

impl Place {
    pub(super) fn take(path: &Path, mode: u32, group: Option<u32>) -> io::Result<Self> {
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        prepare(directory, group)?;
        let lock = lock(path)?;
        replace_stale(path)?;
        let listening = bind(path, mode, group)?;
        Ok(Self { path: path.to_owned(), listening, lock })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // The lock is ours, so the socket is, unless somebody meddled. The lock's file stays: removing it would let two
        // daemons lock two files of the same name.
        let _ = fs::remove_file(&self.path);
        let _ = self.lock.set_len(0);
    }
}

fn refused(kind: io::ErrorKind, why: String) -> io::Error {
    io::Error::new(kind, why)
}

/// Makes the directory if it is not there, and checks that nobody else can put another socket in our place.
fn prepare(directory: &Path, group: Option<u32>) -> io::Result<()> {
    // Those of a group have to get through.
    let mode = if group.is_some() { 0o711 } else { 0o700 };
    match fs::DirBuilder::new().mode(mode).create(directory) {
        // Whatever the umask takes away.
        Ok(()) => fs::set_permissions(directory, Permissions::from_mode(mode))?,
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            let why = format!(
                "cannot make the directory {}: {error}; name another place for the socket",
                directory.display()
            );
            return Err(refused(error.kind(), why));
        }
        Err(_) => {}
    }
    let found = fs::metadata(directory)?;
    let me = rustix::process::geteuid().as_raw();
    let why = if !found.is_dir() {
        "is no directory"
    } else if found.uid() != me && found.uid() != 0 {
        "belongs to another user"
    } else if found.mode() & 0o022 != 0 {
        "can be written to by others, who could put another socket in its place"
    } else {
        return Ok(());
    };
    Err(refused(io::ErrorKind::PermissionDenied, format!("{} {why}", directory.display())))
}

/// Locks the place, for as long as the file is open. Survives no crash, and needs no cleaning up.
fn lock(path: &Path) -> io::Result<File> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let mut lock = File::from(openat(rustix::fs::CWD, &*name, flags, Mode::from_raw_mode(0o600))?);
    match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => {
            let mut pid = String::new();
            let _ = lock.read_to_string(&mut pid);
            return Err(in_use(path, pid.trim()));
        }
        Err(error) => return Err(error.into()),
    }
    lock.set_len(0)?;
    writeln!(lock, "{}", std::process::id())?;
    Ok(lock)
}

fn in_use(path: &Path, pid: &str) -> io::Error {
    let who = if pid.is_empty() { String::new() } else { format!(" (process {pid})") };
    refused(io::ErrorKind::AddrInUse, format!("a daemon{who} serves {} already", path.display()))
}

/// Removes a socket that nobody serves. Under the lock.
fn replace_stale(path: &Path) -> io::Result<()> {
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    if !found.file_type().is_socket() {
        let why = format!("{} is there, and is no socket", path.display());
        return Err(refused(io::ErrorKind::AlreadyExists, why));
    }
    let probe = socket::new(SocketFlags::NONBLOCK)?;
    match rustix::net::connect(&probe, &SocketAddrUnix::new(path)?) {
        // Somebody who does not know of the lock.
        Ok(()) => {
            return Err(in_use(path, &socket::peer(probe.as_fd())?.pid.to_string()));
        }
        Err(Errno::AGAIN) => return Err(in_use(path, "")),
        Err(Errno::CONNREFUSED) => {}
        Err(Errno::NOENT) => return Ok(()),
        // Of another kind, say: somebody may serve it.
        Err(error) => {
            let why = format!("{} is there, and is no daemon's socket ({error})", path.display());
            return Err(refused(io::ErrorKind::AlreadyExists, why));
        }
    }
    fs::remove_file(path)
}

fn bind(path: &Path, mode: u32, group: Option<u32>) -> io::Result<OwnedFd> {
    let listening = socket::new(SocketFlags::NONBLOCK)?;
    let address = SocketAddrUnix::new(path).map_err(|error| {
        let why = format!("{} is too long for the name of a socket: {error}", path.display());
        refused(io::ErrorKind::InvalidInput, why)
    })?;
    rustix::net::bind(&listening, &address)
        .map_err(|error| refused(error.kind(), format!("cannot make the socket {}: {error}", path.display())))?;
    let ready = || {
        if let Some(group) = group {
            let group = rustix::fs::Gid::from_raw(group);
            rustix::fs::chownat(rustix::fs::CWD, path, None, Some(group), AtFlags::SYMLINK_NOFOLLOW)?;
        }
        // Nobody gets in before this: it does not listen yet.
        fs::set_permissions(path, Permissions::from_mode(mode))?;
        Ok::<(), io::Error>(rustix::net::listen(listening.as_fd(), BACKLOG)?)
    };
    ready().inspect_err(|_| drop(fs::remove_file(path)))?;
    Ok(listening)
}
