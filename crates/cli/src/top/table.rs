//! The rows of the table: what two looks at the counters files come to.
//!
//! A connection and the socket that carries it alone are one row: what the application sends and receives, with the
//! socket's round trip and repetitions. It is known which socket that is if it leads to the same peer, or if the process has
//! one connection and one socket of that protocol; other sockets have rows of their own.

use super::columns::Columns;
use crate::units;
use clap::ValueEnum;
use indicatif::BinaryBytes;
use pinnace::counters::{Entry, Kind, Numbers, Process};
use serde::Serialize;
use std::cmp::Reverse;
use std::fmt::Write;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// What comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Order {
    /// What moves most bytes
    #[default]
    Rate,
    /// By service
    Service,
    /// By process
    Process,
    /// By protocol
    Protocol,
    /// What loses and repeats most
    Loss,
    /// What is oldest
    Time,
}

/// What there was to see at one time.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) at: Instant,
    pub(super) processes: Vec<Process>,
}

/// A row, as programs get it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Row {
    /// `row`.
    pub(super) event: &'static str,
    pub(super) pid: u32,
    pub(super) program: String,
    /// `connection` or `socket`.
    pub(super) kind: &'static str,
    /// The protocol, or the method that was chosen.
    pub(super) protocol: String,
    pub(super) address: String,
    pub(super) peer: String,
    pub(super) service: String,
    /// `open` or `closing`.
    pub(super) state: &'static str,
    pub(super) seconds: f64,
    pub(super) bytes_sent_per_second: f64,
    pub(super) bytes_received_per_second: f64,
    pub(super) messages_sent_per_second: f64,
    pub(super) messages_received_per_second: f64,
    #[serde(flatten)]
    pub(super) totals: Totals,
    /// Packets sent again; `null` of a connection whose socket carries others too.
    pub(super) packets_resent: Option<u64>,
    pub(super) round_trip_us: Option<f64>,
}

/// What has happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Totals {
    pub(super) messages_sent: u64,
    pub(super) bytes_sent: u64,
    pub(super) datagrams_sent: u64,
    pub(super) messages_received: u64,
    pub(super) bytes_received: u64,
    pub(super) datagrams_received: u64,
    /// Of a connection.
    pub(super) bytes_lost: Option<u64>,
    /// Of a socket.
    pub(super) packets_lost: Option<u64>,
}

#[derive(Debug)]
pub(super) struct Table {
    pub(super) rows: Vec<Row>,
    processes: usize,
    missing: u64,
    /// What there is to say if there are no rows.
    pub(super) nobody: String,
}

/// The socket that carries a connection alone.
fn socket_of<'a>(process: &'a Process, connection: &Entry) -> Option<&'a Entry> {
    let of = |kind| process.rows.iter().filter(move |row| row.kind == kind && row.protocol == connection.protocol);
    let is_of_peer = |row: &&Entry| row.peer == connection.peer;
    let connected: Vec<_> = of(Kind::Socket).filter(is_of_peer).collect();
    if let ([socket], 1) = (&connected[..], of(Kind::Connection).filter(is_of_peer).count()) {
        return Some(socket);
    }
    let all: Vec<_> = of(Kind::Socket).collect();
    match (&all[..], of(Kind::Connection).count()) {
        ([socket], 1) => Some(socket),
        _ => None,
    }
}

fn micros(round_trip_ns: u64) -> Option<f64> {
    (round_trip_ns > 0).then_some(round_trip_ns as f64 / 1e3)
}

impl Row {
    fn new(process: &Process, entry: &Entry, socket: Option<&Entry>, before: &Numbers, time: Duration) -> Self {
        let own = &entry.numbers;
        let per_second = |now: u64, before: u64| now.saturating_sub(before) as f64 / time.as_secs_f64().max(1e-3);
        let link = socket.map_or(own, |socket| &socket.numbers);
        let is_socket = entry.kind == Kind::Socket;
        let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_millis() as u64);
        Self {
            event: "row",
            pid: process.pid,
            program: process.name.clone(),
            kind: if is_socket { "socket" } else { "connection" },
            protocol: entry.protocol.clone(),
            address: socket.unwrap_or(entry).local.clone(),
            peer: entry.peer.clone(),
            service: entry.service.clone(),
            state: if entry.is_closing { "closing" } else { "open" },
            seconds: now_ms.saturating_sub(entry.since_ms) as f64 / 1e3,
            bytes_sent_per_second: per_second(own.bytes_sent, before.bytes_sent),
            bytes_received_per_second: per_second(own.bytes_received, before.bytes_received),
            messages_sent_per_second: per_second(own.messages_sent, before.messages_sent),
            messages_received_per_second: per_second(own.messages_received, before.messages_received),
            totals: Totals {
                messages_sent: own.messages_sent,
                bytes_sent: own.bytes_sent,
                datagrams_sent: link.datagrams_sent,
                messages_received: own.messages_received,
                bytes_received: own.bytes_received,
                datagrams_received: link.datagrams_received,
                bytes_lost: (!is_socket).then_some(own.lost),
                packets_lost: is_socket.then_some(own.lost),
            },
            packets_resent: (is_socket || socket.is_some()).then_some(link.repeated),
            round_trip_us: micros(link.round_trip_ns),
        }
    }

    fn rate(&self) -> f64 {
        self.bytes_sent_per_second + self.bytes_received_per_second
    }

    /// Bytes of a connection, packets of a socket.
    pub(super) fn lost(&self) -> u64 {
        self.totals.bytes_lost.or(self.totals.packets_lost).unwrap_or(0)
    }

    fn losses(&self) -> u64 {
        self.lost().saturating_add(self.packets_resent.unwrap_or(0))
    }
}

impl Table {
    /// `all_sockets`: those of connections as well.
    pub(super) fn new(before: &Snapshot, after: &Snapshot, order: Order, all_sockets: bool) -> Self {
        let time = after.at.saturating_duration_since(before.at);
        let mut rows = Vec::new();
        for process in &after.processes {
            let earlier = before.processes.iter().find(|it| (it.pid, it.since_ms) == (process.pid, process.since_ms));
            let numbers_before = |entry: &Entry| {
                let same = |it: &&Entry| (it.row, it.kind, it.since_ms) == (entry.row, entry.kind, entry.since_ms);
                earlier.and_then(|it| it.rows.iter().find(same)).map(|it| it.numbers).unwrap_or_default()
            };
            let mut carriers = Vec::new();
            for entry in process.rows.iter().filter(|entry| entry.kind == Kind::Connection) {
                let socket = socket_of(process, entry);
                carriers.extend(socket.map(|socket| socket.row));
                rows.push(Row::new(process, entry, socket, &numbers_before(entry), time));
            }
            let is_shown =
                |entry: &&Entry| entry.kind == Kind::Socket && (all_sockets || !carriers.contains(&entry.row));
            for entry in process.rows.iter().filter(is_shown) {
                rows.push(Row::new(process, entry, None, &numbers_before(entry), time));
            }
        }
        // What is equal stays in the order of processes.
        match order {
            Order::Rate => rows.sort_by(|a, b| b.rate().total_cmp(&a.rate())),
            Order::Service => rows.sort_by(|a, b| b.service.cmp(&a.service)),
            Order::Process => rows.sort_by_key(|row| row.pid),
            Order::Protocol => rows.sort_by(|a, b| a.protocol.cmp(&b.protocol)),
            Order::Loss => rows.sort_by_key(|row| Reverse(row.losses())),
            Order::Time => rows.sort_by(|a, b| b.seconds.total_cmp(&a.seconds)),
        }
        let missing = after.processes.iter().fold(0u64, |sum, process| sum.saturating_add(process.rows_missing));
        Self { rows, processes: after.processes.len(), missing, nobody: "nobody uses Pinnace here now".to_owned() }
    }

    /// As text: `size` are the lines and columns of a terminal.
    pub(super) fn text(&self, size: Option<(usize, usize)>) -> String {
        let rate: f64 = self.rows.iter().filter(|row| row.kind == "socket").map(Row::rate).sum();
        let carried: f64 = self.rows.iter().filter(|row| row.kind == "connection").map(Row::rate).sum();
        let mut text = format!(
            "{}, {}; connections {}/s, other sockets {}/s\n",
            units::count_of(self.processes as u64, "process"),
            units::count_of(self.rows.len() as u64, "row"),
            BinaryBytes(carried as u64),
            BinaryBytes(rate as u64)
        );
        if self.missing > 0 {
            let _ = writeln!(text, "{} found no room in their files", units::count_of(self.missing, "row"));
        }
        let columns = Columns::of(size.map(|(_, columns)| columns));
        let _ = writeln!(text, "{}", columns.head());
        let most = size.map_or(usize::MAX, |(lines, _)| lines.saturating_sub(3));
        for row in self.rows.iter().take(most) {
            let _ = writeln!(text, "{}", columns.row(row));
        }
        if self.rows.is_empty() {
            let _ = writeln!(text, "{}", self.nobody);
        }
        text.truncate(text.trim_end().len());
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(row: usize, kind: Kind, protocol: &str, peer: &str, bytes_sent: u64) -> Entry {
        Entry {
            row,
            kind,
            protocol: protocol.to_owned(),
            local: "127.0.0.1:1".to_owned(),
            peer: peer.to_owned(),
            service: String::new(),
            is_closing: false,
            since_ms: 5,
            numbers: Numbers { bytes_sent, repeated: 3, ..Numbers::default() },
        }
    }

    #[test]
    fn a_connection_has_the_numbers_of_the_socket_that_is_its_alone() {
        // There is no other way to make one.
        let mut words = vec![0u64; 512 / 8];
        words[0] = u64::from_le_bytes(*b"PINNACE1");
        (words[1], words[4]) = (768, 77);
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let mut process = pinnace::counters::parse(&bytes).unwrap();
        process.rows = vec![
            entry(0, Kind::Socket, "zcrp", "h:1", 1000),
            entry(1, Kind::Connection, "zcrp", "h:1", 900),
            entry(2, Kind::Socket, "xtp", "", 50),
            entry(3, Kind::Connection, "xtp", "h:2", 20),
            entry(4, Kind::Connection, "xtp", "h:3", 20),
        ];
        let at = Instant::now();
        let mut earlier = process.clone();
        earlier.rows[1].numbers.bytes_sent = 400;
        earlier.rows[3].numbers.bytes_sent = 0;
        let before = Snapshot { at, processes: vec![earlier] };
        let after = Snapshot { at: at + Duration::from_secs(2), processes: vec![process] };
        let table = Table::new(&before, &after, Order::Rate, false);
        let kinds: Vec<_> =
            table.rows.iter().map(|row| (row.kind, row.packets_resent, row.bytes_sent_per_second)).collect();
        assert_eq!(kinds[0], ("connection", Some(3), 250.0));
        assert!(kinds[1..].contains(&("connection", None, 0.0)) && kinds[1..].contains(&("socket", Some(3), 0.0)));
        assert_eq!(table.rows.len(), 4, "{kinds:?}");
        assert_eq!(Table::new(&before, &after, Order::Time, true).rows.len(), 5);
        let text = table.text(Some((24, 80)));
        assert!(text.contains("zcrp") && text.contains("250 B") && text.starts_with("1 process, 4 rows"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        // One that shares its socket, or has none, is no socket.
        assert!(text.lines().next().unwrap().contains("connections 260 B/s, other sockets 0 B/s"), "{text}");
    }
}
