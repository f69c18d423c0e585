//! What others see of this process while it runs: its sockets and connections, what they carry and lose. `pinnace top` shows
//! it.
//!
//! The file, who writes it and when, are described in the runtime's module, which is this one; what is added here is what
//! each protocol's engine and each [`Connection`](crate::Connection) have to say. Setting `PINNACE_COUNTERS` to `off` in the
//! environment switches it off; a path there is another directory.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use pinnace::counters;
//! let endpoint = pinnace::Endpoint::bind("127.0.0.1:0")?;
//! let listener = endpoint.listen(&pinnace::service::Service::new())?;
//! let connection = pinnace::connect(&listener.local_addr().to_string())?;
//! drop(connection.send(b"ahoy".to_vec())?);
//! for process in counters::processes() {
//!     for row in process.rows {
//!         println!("{} {} {} -> {}: {}", process.pid, row.protocol, row.local, row.peer, row.numbers.bytes_sent);
//!     }
//! }
//! # Ok(())
//! # }
//! ```

pub use pinnace_runtime::counters::{
    ENVIRONMENT, Entry, Kind, Numbers, PERIOD, Process, directories, directory, parse, processes, read,
};

use pinnace_a1::A1;
use pinnace_core::Engine;
use pinnace_runtime::counters::{Labels, Row};
use pinnace_vrp::Vrp;
use pinnace_xtp::Xtp;
use pinnace_zcrp::Zcrp;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

fn nanos(time: Option<Duration>) -> u64 {
    time.map_or(0, |time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

/// What an engine of a protocol knows beyond its link.
pub(crate) trait Seen: Engine {
    /// Adds it.
    fn look(&self, numbers: &mut Numbers);
}

impl Seen for Zcrp {
    fn look(&self, numbers: &mut Numbers) {
        if let Some(sender) = self.sender() {
            let counters = sender.counters();
            numbers.messages_sent = counters.messages_sent;
            numbers.repeated = counters.units_resent;
            numbers.round_trip_ns = nanos(sender.round_trip());
        }
        if let Some(receiver) = self.receiver() {
            numbers.messages_received = receiver.counters().messages_received;
        }
    }
}

impl Seen for Vrp {
    fn look(&self, numbers: &mut Numbers) {
        match self {
            Self::Outgoing(outgoing) => {
                let counters = outgoing.counters();
                numbers.messages_sent = counters.frames_sent;
                numbers.repeated = counters.packets_resent;
                numbers.lost = counters.packets_lost;
                numbers.round_trip_ns = nanos(outgoing.round_trip());
            }
            Self::Incoming(incoming) => {
                let counters = incoming.counters();
                numbers.messages_received = counters.frames_received;
                numbers.lost = counters.packets_lost;
            }
        }
    }
}

impl Seen for Xtp {
    fn look(&self, numbers: &mut Numbers) {
        let counters = self.counters();
        numbers.messages_received = counters.messages_received;
        numbers.repeated = counters.data_packets_resent;
        numbers.round_trip_ns = nanos(self.round_trip());
    }
}

impl Seen for A1 {
    fn look(&self, numbers: &mut Numbers) {
        let counters = self.counters();
        numbers.messages_received = counters.messages_received;
        numbers.repeated = counters.blocks_repeated;
        numbers.lost = counters.blocks_lost;
        numbers.round_trip_ns = nanos(self.round_trip());
    }
}

/// What a connection has carried, and what others see of it.
#[derive(Debug)]
pub(crate) struct Shown {
    row: Result<Row, Unseen>,
}

/// The numbers of a connection of which nobody else sees anything.
#[derive(Debug, Default)]
struct Unseen {
    messages_sent: AtomicU64,
    bytes_sent: AtomicU64,
    messages_received: AtomicU64,
    bytes_received: AtomicU64,
    lost: AtomicU64,
}

impl Unseen {
    fn numbers(&self) -> Numbers {
        let [messages_sent, bytes_sent, messages_received, bytes_received, lost] =
            [&self.messages_sent, &self.bytes_sent, &self.messages_received, &self.bytes_received, &self.lost]
                .map(|number| number.load(Relaxed));
        Numbers { messages_sent, bytes_sent, messages_received, bytes_received, lost, ..Numbers::default() }
    }
}

impl Shown {
    pub(crate) fn new(method: &str, peer: &str, service: &str) -> Self {
        let row = Row::new(Kind::Connection, &Labels { protocol: method, local: "", peer, service });
        Self { row: row.ok_or_else(Unseen::default) }
    }

    /// What was counted: messages, bytes and what was lost.
    pub(crate) fn numbers(&self) -> Numbers {
        self.row.as_ref().map_or_else(Unseen::numbers, Row::numbers)
    }

    /// The service has changed. One thread at a time.
    pub(crate) fn describe(&self, method: &str, peer: &str, service: &str) {
        if let Ok(row) = &self.row {
            row.describe(&Labels { protocol: method, local: "", peer, service });
        }
    }

    #[inline]
    pub(crate) fn count_sent(&self, bytes: usize) {
        match &self.row {
            Ok(row) => row.count_sent(bytes as u64),
            Err(unseen) => {
                unseen.messages_sent.fetch_add(1, Relaxed);
                unseen.bytes_sent.fetch_add(bytes as u64, Relaxed);
            }
        }
    }

    #[inline]
    pub(crate) fn count_received(&self, bytes: usize, lost: usize) {
        match &self.row {
            Ok(row) => row.count_received(bytes as u64, lost as u64),
            Err(unseen) => {
                unseen.messages_received.fetch_add(1, Relaxed);
                unseen.bytes_received.fetch_add(bytes as u64, Relaxed);
                unseen.lost.fetch_add(lost as u64, Relaxed);
            }
        }
    }

    pub(crate) fn close(&self) {
        if let Ok(row) = &self.row {
            row.close();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_else_sees_is_counted_as_well() {
        let (seen, unseen) = (Shown::new("zcrp", "", ""), Shown { row: Err(Unseen::default()) });
        for shown in [&seen, &unseen] {
            shown.count_sent(5);
            shown.count_received(7, 0);
            shown.count_received(3, 2);
        }
        let expected = Numbers {
            messages_sent: 1,
            bytes_sent: 5,
            messages_received: 2,
            bytes_received: 10,
            lost: 2,
            ..Numbers::default()
        };
        assert_eq!((seen.numbers(), unseen.numbers()), (expected, expected));
    }
}
