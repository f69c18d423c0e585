//! What happened to every datagram: the record of a run.
//!
//! Always true: the digest covers every event since the beginning, kept or not; two runs with equal digests saw the same
//! datagrams with the same bytes meet the same fates at the same times.

use crate::HostId;
use crate::packet::{Fate, Packet};
use pinnace_core::{Time, mix64};
use std::collections::VecDeque;

/// Which way a datagram went, as its host sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Away from the host.
    Out,
    /// To the host.
    In,
}

/// One event of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceEvent {
    /// When.
    pub time: Time,
    /// The receiving host of a delivery, the sending host of everything else.
    pub host: HostId,
    /// Which way.
    pub direction: Direction,
    /// The number of the datagram.
    pub number: u64,
    /// Bytes, headers of lower layers not counted.
    pub len: usize,
    /// A hash of the bytes.
    pub hash: u64,
    /// What happened.
    pub fate: Fate,
    /// What the formatter made of the bytes.
    pub summary: Option<String>,
}

impl core::fmt::Display for TraceEvent {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let way = match self.direction {
            Direction::Out => "out",
            Direction::In => "in ",
        };
        let Self { time, host, number, len, fate, .. } = self;
        // Injected datagrams count from 2^63 on.
        match number.checked_sub(1 << 63) {
            Some(forged) => write!(f, "{time:?} {host} {way} !{forged}")?,
            None => write!(f, "{time:?} {host} {way} #{number}")?,
        }
        write!(f, " {len} bytes ")?;
        match &self.summary {
            Some(summary) => write!(f, "[{summary}]")?,
            None => write!(f, "{:016x}", self.hash)?,
        }
        write!(f, " {fate}")
    }
}

/// Turns the bytes of a datagram into a short text.
pub type Formatter = Box<dyn Fn(&[u8]) -> String>;

/// The record of a run: the latest events, how many of each kind, and a digest of all.
#[derive(Default)]
pub struct Trace {
    events: VecDeque<TraceEvent>,
    limit: usize,
    formatter: Option<Formatter>,
    counts: [u64; Fate::ALL.len()],
    digest: u64,
    seen: u64,
}

impl core::fmt::Debug for Trace {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Trace").field("seen", &self.seen).field("digest", &self.digest).finish_non_exhaustive()
    }
}

impl Trace {
    /// Keeps the latest `limit` events (0 at first, and then only the digest and the counts).
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
        while self.events.len() > limit {
            self.events.pop_front();
        }
    }

    /// Describes datagrams with `formatter` instead of a hash.
    pub fn set_formatter(&mut self, formatter: impl Fn(&[u8]) -> String + 'static) {
        self.formatter = Some(Box::new(formatter));
    }

    /// The events that were kept, in order.
    pub fn events(&self) -> impl Iterator<Item = &TraceEvent> {
        self.events.iter()
    }

    /// Events since the beginning, kept or not.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// How many datagrams met this fate.
    pub fn count(&self, fate: Fate) -> u64 {
        self.counts[fate as usize]
    }

    /// Datagrams that did not reach their host, for whatever reason.
    pub fn lost(&self) -> u64 {
        Fate::ALL.into_iter().filter(|fate| fate.is_loss()).map(|fate| self.count(fate)).sum()
    }

    /// A digest of everything that happened.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    pub(crate) fn record(&mut self, time: Time, packet: &Packet, fate: Fate) {
        let (host, direction) = match fate {
            Fate::Delivered | Fate::HostDown | Fate::ReceiveBufferFull => (packet.position.to, Direction::In),
            _ => (packet.position.from, Direction::Out),
        };
        self.seen += 1;
        self.counts[fate as usize] += 1;
        let (len, hash) = (packet.data().len(), packet.hash());
        let what = u64::from(host.index()) << 8 | fate as u64;
        for word in [time.as_nanos(), what, packet.number, hash] {
            self.digest = mix64(self.digest ^ word);
        }
        if self.limit > 0 {
            if self.events.len() >= self.limit {
                self.events.pop_front();
            }
            let summary = self.formatter.as_ref().map(|formatter| formatter(packet.data()));
            self.events.push_back(TraceEvent {
                time,
                host,
                direction,
                number: packet.number,
                len,
                hash,
                fate,
                summary,
            });
        }
    }
}

/// One line an event.
impl core::fmt::Display for Trace {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        for event in &self.events {
            writeln!(f, "{event}")?;
        }
        Ok(())
    }
}
