//! What a connection has carried so far.

use super::Connection;
use crate::carrier::Carry;
use std::time::Duration;

/// What a [`Connection`] has carried so far, and how long its path is: for those who adapt what they send, and for metrics. What
/// packets were repeated is counted by sockets, of which several connections may be one's
/// ([`counters`](crate::counters), `pinnace top`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Messages that the method took, to be sent.
    pub messages_sent: u64,
    /// Their bytes.
    pub bytes_sent: u64,
    /// Messages that were received here, by whoever asked for them.
    pub messages_received: u64,
    /// Their bytes, those that are missing in them included.
    pub bytes_received: u64,
    /// Bytes that were missing in them, with permission: their [holes](crate::Received::holes).
    pub bytes_missing: u64,
    /// To the peer and back, smoothed, once that has been measured; of several receivers the longest. None over shared memory,
    /// and at an end that has sent nothing.
    pub round_trip: Option<Duration>,
}

impl Connection {
    /// What it has carried so far. Numbers of one moment each, not all of the same.
    ///
    /// ```
    /// let listener = pinnace::Endpoint::bind("127.0.0.1:0")?.listen(&pinnace::Service::new())?;
    /// let connection = pinnace::connect(&listener.local_addr().to_string())?;
    /// connection.send("ahoy")?.wait()?;
    /// let statistics = connection.statistics();
    /// assert_eq!((statistics.messages_sent, statistics.bytes_sent), (1, 4));
    /// println!("{:?} there and back", statistics.round_trip);
    /// # Ok::<(), pinnace::Error>(())
    /// ```
    pub fn statistics(&self) -> Statistics {
        let numbers = self.shown.numbers();
        Statistics {
            messages_sent: numbers.messages_sent,
            bytes_sent: numbers.bytes_sent,
            messages_received: numbers.messages_received,
            bytes_received: numbers.bytes_received,
            bytes_missing: numbers.lost,
            round_trip: self.carrier.round_trip(),
        }
    }
}
