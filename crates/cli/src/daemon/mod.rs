//! `pinnace daemon`: the pool of a host, and what brings its processes together.
//!
//! Stays in the foreground: who wants it in the background has a service manager. Ends in good order on SIGTERM and Ctrl-C.

use crate::exit::Error;
use crate::interrupt;
use crate::output::Output;
use crate::thread;
use crate::units;
use clap::Args as ClapArgs;
use pinnace::daemon::{Daemon, DaemonOptions, Limits};
use pinnace::qmp::PoolOptions;
use serde::Serialize;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  pinnace daemon                                       for programs of this user
  pinnace daemon --pool-size 1GiB --block-size 64KiB   for large messages
  sudo pinnace daemon --socket /run/pinnace/daemon.sock --group messages
                                                       for a group of users
  pinnace qbuf stat                                    what is in use, and by whom

Programs find it at $PINNACE_DAEMON, $XDG_RUNTIME_DIR/pinnace/daemon.sock or /run/pinnace/daemon.sock. Two that share \
a daemon pass messages through shared memory by themselves; PINNACE_DAEMON=off switches that off for one program.

Whoever may use the socket can read and change what others have in the pool: let in only who may see their data.";

/// Let programs of this host pass messages through shared memory, by ownership
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The path of the socket [default: the first of the places below that can be used]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Memory for messages
    #[arg(long, value_name = "BYTES", value_parser = units::bytes, default_value = "64MiB")]
    pool_size: u64,
    /// The smallest piece of it, a power of two; a message takes up to 32 of them
    #[arg(long, value_name = "BYTES", value_parser = units::bytes, default_value = "4KiB")]
    block_size: u64,
    /// Wire the pool: it is never paged out, where the limit allows
    #[arg(long)]
    wired: bool,
    /// The permissions of the socket, in octal [default: 0600, and 0660 with --group]
    #[arg(long, value_name = "MODE", value_parser = mode)]
    mode: Option<u32>,
    /// A group whose members may use it, by name or number
    #[arg(long, value_name = "NAME")]
    group: Option<String>,
    /// Messages on their way in one direction of a connection
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(2..=65_536))]
    slots: u32,
    #[command(flatten)]
    limits: LimitArgs,
}

#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Limits")]
struct LimitArgs {
    /// Processes that use the daemon
    #[arg(long, value_name = "N", default_value_t = Limits::default().clients)]
    max_clients: usize,
    /// Addresses that one process listens at
    #[arg(long, value_name = "N", default_value_t = Limits::default().listeners_per_client)]
    max_listeners: usize,
    /// Connections of one process
    #[arg(long, value_name = "N", default_value_t = Limits::default().channels_per_client)]
    max_channels: usize,
    /// Connections of all processes
    #[arg(long, value_name = "N", default_value_t = Limits::default().channels)]
    max_channels_total: usize,
    /// Connections that wait to be accepted by one listener
    #[arg(long, value_name = "N", default_value_t = Limits::default().pending_per_listener)]
    max_pending: usize,
    /// Percent of the pool that one process may keep for itself; it gets no more until it has freed or sent some
    #[arg(long, value_name = "PERCENT", default_value_t = Limits::default().blocks_per_client_percent)]
    max_share: u8,
}

#[derive(Serialize)]
struct Serving {
    event: &'static str,
    socket: String,
    pid: u32,
    pool_bytes: u64,
    block_bytes: u64,
}

/// Permissions in octal, as `chmod` has them.
fn mode(text: &str) -> Result<u32, String> {
    u32::from_str_radix(text, 8)
        .ok()
        .filter(|mode| *mode <= 0o777)
        .ok_or_else(|| format!("`{text}` is no mode; write it in octal, as 0600 or 0660"))
}

/// The number of a group.
fn group(name: &str) -> Result<u32, Error> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    match nix::unistd::Group::from_name(name) {
        Ok(Some(group)) => Ok(group.gid.as_raw()),
        Ok(None) => Err(Error::usage(format!("there is no group `{name}`"))),
        Err(error) => Err(Error::io(format_args!("cannot look up the group `{name}`"), &error.into())),
    }
}

impl Args {
    /// A group that may not use the socket would have been named for nothing.
    fn mode(&self) -> Result<u32, Error> {
        match (self.mode, &self.group) {
            (Some(mode), Some(group)) if mode & 0o060 != 0o060 => Err(Error::usage(format!(
                "--mode {mode:04o} does not let the group {group} use the socket: write it as 0660, or leave it out"
            ))),
            (Some(mode), _) => Ok(mode),
            (None, group) => Ok(if group.is_some() { 0o660 } else { 0o600 }),
        }
    }

    fn options(&self) -> Result<DaemonOptions, Error> {
        if !self.block_size.is_power_of_two() || self.block_size < 4096 {
            return Err(Error::usage("--block-size is a power of two, 4KiB at least"));
        }
        let zone = self.block_size.saturating_mul(32);
        let zones = self.pool_size.div_ceil(zone);
        if self.pool_size == 0 {
            return Err(Error::usage("--pool-size: a pool has memory for one message at least; write it as 64MiB"));
        }
        if zones > 65_536 {
            let why =
                format!("--pool-size is at most 65536 times 32 blocks, here {} bytes", zone.saturating_mul(65_536));
            return Err(Error::usage(why));
        }
        let limits = Limits {
            clients: self.limits.max_clients,
            listeners_per_client: self.limits.max_listeners,
            channels_per_client: self.limits.max_channels,
            channels: self.limits.max_channels_total,
            pending_per_listener: self.limits.max_pending,
            blocks_per_client_percent: self.limits.max_share,
            ..Limits::default()
        };
        Ok(DaemonOptions {
            socket: self.socket.clone(),
            pool: PoolOptions {
                zones: zones as u32,
                block_bytes: self.block_size as usize,
                wired: self.wired,
                ..PoolOptions::default()
            },
            mode: self.mode()?,
            group: self.group.as_deref().map(group).transpose()?,
            channel_slots: self.slots,
            limits,
        })
    }
}

/// Runs `pinnace daemon`.
pub(crate) fn run(args: &Args, output: &Output) -> Result<(), Error> {
    interrupt::install();
    let daemon = Daemon::bind(&args.options()?).map_err(|error| match error.kind() {
        // These say all there is to say.
        io::ErrorKind::AddrInUse | io::ErrorKind::AlreadyExists => Error::failed(error.to_string()),
        io::ErrorKind::InvalidInput => Error::usage(error.to_string()),
        _ => Error::io("cannot serve", &error),
    })?;
    let daemon = Arc::new(daemon);
    let pool = daemon.pool();
    pool.warnings().iter().for_each(|warning| output.warn(warning));
    let stats = pool.stats();
    let (blocks, block_bytes) = (stats.blocks, stats.block_bytes);
    let serving = Serving {
        event: "serving",
        socket: daemon.path().to_string_lossy().into_owned(),
        pid: std::process::id(),
        pool_bytes: blocks * block_bytes,
        block_bytes,
    };
    let size = |bytes| bytesize::ByteSize::b(bytes).display().iec();
    let text = format!(
        "serving a pool of {} in {blocks} blocks of {} at {}",
        size(serving.pool_bytes),
        size(block_bytes),
        serving.socket
    );
    output.event(text, &serving);
    if serving.pool_bytes != args.pool_size {
        output.warn(format_args!(
            "--pool-size: a pool has a multiple of 32 blocks, so this one has {} and not {}",
            size(serving.pool_bytes),
            size(args.pool_size)
        ));
    }
    let group = args.group.as_deref().map(group).transpose()?;
    if let Some(directory) = group.and_then(|group| closed_to(group, daemon.path())) {
        let directory = directory.display();
        output.warn(format_args!(
            "the group cannot enter {directory}, so its programs do without the daemon: let it, as with `chmod a+x {directory}`"
        ));
    }
    serve(&daemon, output)
}

/// The socket's folder, if the members of a group do not get through it.
fn closed_to(group: u32, socket: &Path) -> Option<&Path> {
    let directory = socket.parent().filter(|directory| !directory.as_os_str().is_empty())?;
    let found = std::fs::metadata(directory).ok()?;
    let bit = if found.gid() == group { 0o010 } else { 0o001 };
    (found.mode() & bit == 0).then_some(directory)
}

/// Serves until it is interrupted, which is how a daemon ends well.
fn serve(daemon: &Arc<Daemon>, output: &Output) -> Result<(), Error> {
    let looking = thread::start({
        let daemon = Arc::clone(daemon);
        move || {
            while !interrupt::requested() {
                std::thread::sleep(Duration::from_millis(20).min(interrupt::LOOK));
            }
            daemon.stop();
        }
    })?;
    daemon.run().map_err(|error| Error::io("cannot go on serving", &error))?;
    let _ = looking.join();
    output.note("ended; programs go on with what they have");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_octal() {
        assert_eq!((mode("0600"), mode("660")), (Ok(0o600), Ok(0o660)));
        for text in ["", "0800", "rw", "7777", "-1"] {
            assert!(mode(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_folder_that_the_group_cannot_enter_is_named() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let (path, socket) = (folder.path(), folder.path().join("daemon.sock"));
        let own = std::fs::metadata(path).unwrap().gid();
        for (mode, of_own, of_others) in [(0o700, true, true), (0o710, false, true), (0o701, true, false)] {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
            for (group, is_closed) in [(own, of_own), (own + 1, of_others)] {
                assert_eq!(closed_to(group, &socket), is_closed.then_some(path), "{mode:o}");
            }
        }
    }

    #[test]
    fn groups_have_names_and_numbers() {
        assert_eq!(group("17").unwrap(), 17);
        assert_eq!(group("root").unwrap(), 0);
        assert!(group("no such group").is_err());
    }
}
