//! The pools that processes of this host have open.

use crate::exit::Error;
use pinnace_qbuf::{Pool, PoolError};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What the kernel calls a descriptor of a pool.
const NAME: &str = "/memfd:pinnace-qbuf (deleted)";

/// A pool, and who has it open.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) inode: u64,
    /// Their names, by process id.
    pub(super) processes: BTreeMap<u32, String>,
    /// A descriptor of it.
    path: PathBuf,
}

impl Found {
    pub(super) fn attach(&self) -> Result<Pool, PoolError> {
        let file: File = OpenOptions::new().read(true).write(true).open(&self.path).map_err(PoolError::Io)?;
        Pool::attach(file.into())
    }
}

/// The pools of all processes that this one may look at, or of one, in the order of their processes' numbers.
pub(super) fn pools(only: Option<u32>) -> Result<Vec<Found>, Error> {
    let processes = match only {
        Some(pid) => vec![pid],
        None => {
            let folder = fs::read_dir("/proc").map_err(|error| Error::io("cannot read /proc", &error))?;
            let names = folder.flatten().filter_map(|entry| entry.file_name().into_string().ok());
            let mut processes: Vec<u32> = names.filter_map(|name| name.parse().ok()).collect();
            processes.sort_unstable();
            processes
        }
    };
    let mut found: Vec<Found> = Vec::new();
    for pid in processes {
        let descriptors = match fs::read_dir(format!("/proc/{pid}/fd")) {
            Ok(descriptors) => descriptors,
            // It may be another user's, or have ended; but one that was asked for has to be there.
            Err(error) if only.is_some() => {
                return Err(unseen(pid, &error));
            }
            Err(_) => continue,
        };
        for path in descriptors.flatten().map(|entry| entry.path()) {
            if fs::read_link(&path).is_ok_and(|target| target == Path::new(NAME))
                && let Ok(metadata) = fs::metadata(&path)
            {
                let inode = metadata.ino();
                let found = match found.iter_mut().position(|other| other.inode == inode) {
                    Some(index) => &mut found[index],
                    None => {
                        found.push(Found { inode, processes: BTreeMap::new(), path });
                        let last = found.len() - 1;
                        &mut found[last]
                    }
                };
                found.processes.entry(pid).or_insert_with(|| name(pid));
            }
        }
    }
    Ok(found)
}

/// Why a process cannot be looked at.
fn unseen(pid: u32, error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::NotFound => Error::failed(format!("there is no process {pid}: it has ended, or never was")),
        io::ErrorKind::PermissionDenied => Error::failed(format!(
            "this user may not look at process {pid}, which is another's: run the command as its user, or as root"
        )),
        _ => Error::io(format_args!("cannot look at process {pid}"), error),
    }
}

fn name(pid: u32) -> String {
    // Whoever runs it can call it anything.
    let name = fs::read(format!("/proc/{pid}/comm")).unwrap_or_else(|_| b"?".to_vec());
    String::from_utf8_lossy(&name).trim().replace(char::is_control, "?")
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinnace_qbuf::PoolOptions;

    #[test]
    fn a_pool_of_this_process_is_found_and_counted() {
        let pool = Pool::create(&PoolOptions { zones: 3, ..PoolOptions::default() }).unwrap();
        let qbuf = pool.alloc(5_000).unwrap();
        let me = std::process::id();
        let found = pools(Some(me)).unwrap();
        // Other tests may have pools, too.
        let mine = found.iter().find_map(|found| {
            let attached = found.attach().ok()?;
            (attached.options().zones == 3).then_some((found, attached))
        });
        let (found, attached) = mine.expect("it is there");
        assert!(found.processes.contains_key(&me));
        let stats = attached.stats();
        assert_eq!((stats.zones, stats.blocks, stats.user_blocks, stats.free_blocks), (3, 96, 2, 94));
        drop(qbuf);
        assert_eq!(attached.stats().free_blocks, 96);
    }
}
