//! What a daemon says of itself, its pool and its clients.

use super::Blocks;
use crate::exit::Error;
use crate::output::Output;
use crate::units::count_of;
use pinnace::daemon::{ClientStatistics, Totals, statistics};
use rustix::io::Errno;
use serde::Serialize;
use std::borrow::Cow;
use std::fmt::Write as _;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::{fs, io};

/// A daemon as JSON.
#[derive(Serialize)]
struct DaemonLine<'a> {
    event: &'static str,
    socket: Cow<'a, str>,
    pid: u64,
    seconds: u64,
    listeners: u64,
    channels: u64,
    /// Channels that it has made.
    connected: u64,
    refused_clients: u64,
    dropped_clients: u64,
    dead_clients: u64,
    #[serde(flatten)]
    blocks: Blocks,
    swept_blocks: u64,
    clients: Vec<ClientLine>,
}

#[derive(Serialize)]
struct ClientLine {
    number: u64,
    pid: u64,
    uid: u64,
    seconds: u64,
    listeners: u64,
    channels: u64,
    held_blocks: u64,
    /// On their way to it.
    incoming_blocks: u64,
}

/// Asks the daemon at a socket, and prints what it says.
pub(super) fn print(socket: &Path, output: &Output) -> Result<(), Error> {
    let statistics = statistics(socket).map_err(|error| refused(socket, &error))?;
    let line = line(socket, &statistics.totals, &statistics.clients);
    output.result(text(&line), &line);
    Ok(())
}

/// Why there is no answer.
fn refused(socket: &Path, error: &io::Error) -> Error {
    let at = socket.display();
    let which = "name the socket that `pinnace daemon` says it serves at";
    let is_other = || fs::metadata(socket).is_ok_and(|it| !it.file_type().is_socket());
    match (Errno::from_io_error(error), error.kind()) {
        // This is what connecting to a file of another kind is answered, too.
        (Some(Errno::CONNREFUSED), _) if is_other() => Error::usage(format!("{at} is no socket: {which}")),
        (Some(Errno::NOENT | Errno::CONNREFUSED), _) => {
            Error::peer_gone(format!("no daemon serves at {at}: start `pinnace daemon --socket {at}`, or {which}"))
        }
        (Some(Errno::ACCESS), _) => Error::failed(format!(
            "this user may not use the daemon at {at}: run the command as the user that runs it, or as root"
        )),
        (Some(Errno::NOTDIR), _) => Error::usage(format!("{at} leads through what is no folder: {which}")),
        (Some(Errno::NAMETOOLONG), _) => {
            Error::usage(format!("{at} is too long: a socket's path has at most 107 bytes"))
        }
        (Some(Errno::PROTOTYPE), _) | (_, io::ErrorKind::InvalidData) => {
            Error::usage(format!("{at} is the socket of another program: {which}"))
        }
        (Some(Errno::CONNRESET | Errno::PIPE), _) | (_, io::ErrorKind::NotConnected) => {
            Error::peer_gone(format!("the daemon at {at} has ended; run the command again when it is back"))
        }
        (_, io::ErrorKind::TimedOut) => Error::peer_gone(format!(
            "the daemon at {at} does not answer: continue it if it is stopped, or end it and start it anew"
        )),
        (Some(_), _) => Error::io(format_args!("cannot ask the daemon at {at}"), error),
        // In its own words.
        (None, _) => Error::failed(format!("the daemon at {at} does not serve this command: {error}")),
    }
}

fn line<'a>(socket: &'a Path, totals: &Totals, clients: &[ClientStatistics]) -> DaemonLine<'a> {
    DaemonLine {
        event: "daemon",
        socket: socket.to_string_lossy(),
        pid: totals.pid,
        seconds: totals.uptime_seconds,
        listeners: totals.listeners,
        channels: totals.channels,
        connected: totals.connected,
        refused_clients: totals.refused_clients,
        dropped_clients: totals.dropped_clients,
        dead_clients: totals.dead_clients,
        blocks: Blocks::from(&totals.pool),
        swept_blocks: totals.pool.swept_blocks,
        clients: clients
            .iter()
            .map(|client| ClientLine {
                number: client.number,
                pid: client.pid,
                uid: client.uid,
                seconds: client.age_seconds,
                listeners: client.listeners,
                channels: client.channels,
                held_blocks: client.held_blocks,
                incoming_blocks: client.incoming_blocks,
            })
            .collect(),
    }
}

fn text(line: &DaemonLine<'_>) -> String {
    let mut text = format!(
        "daemon {} at {}: up {} s, {}, {}, {} ({} made); refused {}, dropped {}, dead {}\n  {}; {}, {} bytes \
         a block",
        line.pid,
        line.socket,
        line.seconds,
        count_of(line.clients.len() as u64, "client"),
        count_of(line.listeners, "listener"),
        count_of(line.channels, "channel"),
        line.connected,
        line.refused_clients,
        line.dropped_clients,
        line.dead_clients,
        line.blocks,
        count_of(line.blocks.zones, "zone"),
        line.blocks.block_bytes,
    );
    for client in &line.clients {
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "\n  client {}: process {}, user {}, {} s; {}, {}, {}, {} on their way",
            client.number,
            client.pid,
            client.uid,
            client.seconds,
            count_of(client.listeners, "listener"),
            count_of(client.channels, "channel"),
            count_of(client.held_blocks, "block"),
            client.incoming_blocks,
        );
    }
    text
}
