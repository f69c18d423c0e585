//! `pinnace qbuf`: what the buffer pools of this host hold, and who has it (specs/qbuf.md).
//!
//! A pool has no name: it is found where processes have it open, in /proc. To count one the command attaches to it, and so
//! is a client of it for a moment; it takes no block. A daemon is asked for its own figures.

mod daemon;
mod find;

use crate::exit::Error;
use crate::output::Output;
use crate::units::count_of;
use bytesize::ByteSize;
use clap::{Args as ClapArgs, Subcommand};
use find::Found;
use pinnace_qbuf::{BLOCKS, ClientId, Holding, Pool, Stats, Variant};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  pinnace qbuf stat                 every pool that this user may look at
  pinnace qbuf stat --pid 4711      those that a process has open
  pinnace qbuf stat --json          one object for each
  pinnace qbuf stat --daemon /run/pinnace/daemon.sock

Blocks are free, or have an owner: the application part of a process (user), its transport part (engine), or whoever \
they are on their way to (transit). Deferred ones wait for the lock of their zone to be freed. What a dead client has, \
the next allocation that finds nothing returns to the pool. While others work in a pool the numbers are approximate.";

/// Arguments of `pinnace qbuf`.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Args {
    /// Count the blocks of each pool: free, and by owner
    Stat(StatArgs),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct StatArgs {
    /// The pools of this process alone
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pid: Option<u32>,
    /// Ask the daemon at this socket, and nobody else
    #[arg(long, value_name = "SOCKET", conflicts_with = "pid")]
    daemon: Option<PathBuf>,
}

/// A pool as JSON.
#[derive(Serialize)]
struct PoolLine {
    event: &'static str,
    /// Which memory it is: the number of its inode.
    pool: u64,
    processes: Vec<ProcessLine>,
    variant: &'static str,
    wired: bool,
    guarded: bool,
    #[serde(flatten)]
    blocks: Blocks,
    /// Free blocks that the bitmaps do not show.
    hidden_blocks: u64,
    locked_zones: u64,
    /// Without this command.
    attached_clients: u64,
    owners: Vec<OwnerLine>,
}

/// How many blocks there are, and who has them.
#[derive(Serialize)]
struct Blocks {
    zones: u64,
    block_bytes: u64,
    blocks: u64,
    free_blocks: u64,
    user_blocks: u64,
    engine_blocks: u64,
    transit_blocks: u64,
    deferred_blocks: u64,
}

impl From<&Stats> for Blocks {
    fn from(stats: &Stats) -> Self {
        Self {
            zones: stats.zones,
            block_bytes: stats.block_bytes,
            blocks: stats.blocks,
            free_blocks: stats.free_blocks,
            user_blocks: stats.user_blocks,
            engine_blocks: stats.engine_blocks,
            transit_blocks: stats.transit_blocks,
            deferred_blocks: stats.deferred_blocks,
        }
    }
}

impl fmt::Display for Blocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { blocks, free_blocks, user_blocks, engine_blocks, transit_blocks, deferred_blocks, .. } = self;
        write!(
            f,
            "blocks {blocks}: free {free_blocks}, user {user_blocks}, engine {engine_blocks}, transit {transit_blocks}, \
             deferred {deferred_blocks}"
        )
    }
}

#[derive(Serialize)]
struct ProcessLine {
    pid: u32,
    name: String,
}

/// What one client has.
#[derive(Default, Serialize)]
struct OwnerLine {
    slot: u16,
    generation: u16,
    alive: bool,
    user_blocks: u64,
    engine_blocks: u64,
    /// On their way to it.
    transit_blocks: u64,
    /// Being allocated or freed.
    changing_blocks: u64,
}

/// Runs `pinnace qbuf`.
pub(crate) fn run(args: &Args, output: &Output) -> Result<(), Error> {
    let Args::Stat(StatArgs { pid, daemon }) = args;
    if let Some(path) = daemon {
        return daemon::print(path, output);
    }
    // One that serves where clients look; that none does is no failure.
    let has_daemon = pid.is_none() && daemon::print(&pinnace::daemon::default_path(), output).is_ok();
    let found = find::pools(*pid)?;
    if found.is_empty() {
        if has_daemon {
            return Ok(());
        }
        return Err(Error::failed(match pid {
            Some(pid) => format!("process {pid} has no buffer pool open"),
            None => "no process that this user may look at has a buffer pool open".to_owned(),
        }));
    }
    let mut failed = None;
    for found in found {
        match found.attach() {
            Ok(pool) => {
                let line = line(&found, &pool);
                output.result(text(&line), &line);
            }
            Err(error) => {
                let error = Error::failed(format!("pool {}: {error}", found.inode));
                if let Some(error) = failed.replace(error) {
                    output.warn(error);
                }
            }
        }
    }
    failed.map_or(Ok(()), Err)
}

fn line(found: &Found, pool: &Pool) -> PoolLine {
    let (stats, options) = (pool.stats(), pool.options());
    let processes = found.processes.iter().map(|(&pid, name)| ProcessLine { pid, name: name.clone() });
    PoolLine {
        event: "pool",
        pool: found.inode,
        processes: processes.collect(),
        variant: match options.variant {
            Variant::Locked => "locked",
            Variant::LockFree => "lock-free",
        },
        wired: options.wired,
        guarded: options.guarded,
        blocks: Blocks::from(&stats),
        hidden_blocks: stats.hidden_blocks,
        locked_zones: stats.locked_zones,
        attached_clients: stats.clients.saturating_sub(1),
        owners: owners(pool),
    }
}

fn owners(pool: &Pool) -> Vec<OwnerLine> {
    let mut owners: BTreeMap<ClientId, OwnerLine> = BTreeMap::new();
    let blocks = pool.options().zones * BLOCKS as u32;
    for owner in (0..blocks).filter_map(|block| pool.owner(block)) {
        let client = owner.client;
        let line = owners.entry(client).or_insert_with(|| OwnerLine {
            slot: client.slot(),
            generation: client.generation(),
            alive: pool.is_alive(client),
            ..OwnerLine::default()
        });
        let count = match owner.holding {
            Holding::User | Holding::Raw => &mut line.user_blocks,
            Holding::Engine => &mut line.engine_blocks,
            Holding::InTransit => &mut line.transit_blocks,
            Holding::Changing => &mut line.changing_blocks,
        };
        *count += u64::from(owner.blocks);
    }
    owners.into_values().collect()
}

fn text(line: &PoolLine) -> String {
    let size = |bytes: u64| ByteSize::b(bytes).display().iec().to_string().replace(".0 ", " ");
    let blocks = &line.blocks;
    let processes: Vec<_> = line.processes.iter().map(|process| format!("{} {}", process.pid, process.name)).collect();
    let flags = [(line.wired, ", wired"), (line.guarded, ", guarded")];
    let flags: String = flags.iter().filter(|(is_set, _)| *is_set).map(|(_, name)| *name).collect();
    let mut text = format!(
        "pool {}: {}, {} of {BLOCKS} blocks of {}{flags}, {} in all; open in {}\n  {blocks}, hidden {}; locked zones {}; \
         clients {}",
        line.pool,
        line.variant,
        count_of(blocks.zones, "zone"),
        size(blocks.block_bytes),
        size(blocks.blocks * blocks.block_bytes),
        processes.join(", "),
        line.hidden_blocks,
        line.locked_zones,
        line.attached_clients,
    );
    for owner in &line.owners {
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "\n  client {}.{}{}: user {}, engine {}, transit {}, changing {}",
            owner.slot,
            owner.generation,
            if owner.alive { "" } else { " (dead)" },
            owner.user_blocks,
            owner.engine_blocks,
            owner.transit_blocks,
            owner.changing_blocks,
        );
    }
    text
}
