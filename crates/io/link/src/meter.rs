//! [`Meter`]: a link that measures itself: rates, sizes of trains and reads, and calls per gigabyte.

use crate::{BufferTable, Link, LinkCounters, ReadBuffer, ReadOutcome, SendOutcome};
use hdrhistogram::Histogram;
use pinnace_core::{ReceivePlan, Train};
use std::io;
use std::time::{Duration, Instant};

/// A link that is measured.
#[derive(Debug)]
pub struct Meter<L> {
    inner: L,
    since: Instant,
    before: LinkCounters,
    sent: Histogram<u64>,
    received: Histogram<u64>,
}

/// What a [`Meter`] measured since it was made or reset.
#[derive(Clone, Debug)]
pub struct MeterReport {
    /// How long.
    pub elapsed: Duration,
    /// Bits sent a second.
    pub sent_bits_per_second: f64,
    /// Bits received a second.
    pub received_bits_per_second: f64,
    /// System calls for each 10^9 bytes sent.
    pub send_calls_per_gigabyte: f64,
    /// Reads that brought something, for each 10^9 bytes received.
    pub reads_per_gigabyte: f64,
    /// Datagrams in each train sent.
    pub datagrams_per_train: Histogram<u64>,
    /// Datagrams in each read.
    pub datagrams_per_read: Histogram<u64>,
}

impl<L: Link> Meter<L> {
    /// Wraps a link and starts to measure.
    pub fn new(inner: L) -> Self {
        // From 1 to 1,024 datagrams, to three digits: small, and never resized.
        let histogram = || Histogram::new_with_max(1024, 3).expect("these bounds are valid");
        Self { before: inner.counters(), inner, since: Instant::now(), sent: histogram(), received: histogram() }
    }

    /// Starts anew.
    pub fn reset(&mut self) {
        self.before = self.inner.counters();
        self.since = Instant::now();
        self.sent.reset();
        self.received.reset();
    }

    /// What was measured so far.
    pub fn report(&self) -> MeterReport {
        let (now, before) = (self.inner.counters(), self.before);
        let elapsed = self.since.elapsed();
        let ratio = |of: u64, to: f64| if to > 0.0 { of as f64 / to } else { 0.0 };
        let sent = now.bytes_sent - before.bytes_sent;
        let received = now.bytes_received - before.bytes_received;
        MeterReport {
            elapsed,
            sent_bits_per_second: ratio(sent * 8, elapsed.as_secs_f64()),
            received_bits_per_second: ratio(received * 8, elapsed.as_secs_f64()),
            send_calls_per_gigabyte: ratio(now.send_calls - before.send_calls, sent as f64 / 1e9),
            reads_per_gigabyte: ratio(now.reads - before.reads, received as f64 / 1e9),
            datagrams_per_train: self.sent.clone(),
            datagrams_per_read: self.received.clone(),
        }
    }

    /// The link inside.
    pub fn inner(&self) -> &L {
        &self.inner
    }

    /// The link inside, not measured any more.
    pub fn into_inner(self) -> L {
        self.inner
    }
}

impl std::fmt::Display for MeterReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sides = [
            ("sent", self.sent_bits_per_second, self.send_calls_per_gigabyte, &self.datagrams_per_train),
            ("received", self.received_bits_per_second, self.reads_per_gigabyte, &self.datagrams_per_read),
        ];
        for (what, rate, calls, datagrams) in sides {
            let (p50, p99) = (datagrams.value_at_quantile(0.5), datagrams.value_at_quantile(0.99));
            let (mbit, max) = (rate / 1e6, datagrams.max());
            writeln!(
                f,
                "{what}: {mbit:.1} Mbit/s, {calls:.0} calls/GB, datagrams a call p50 {p50} p99 {p99} max {max}"
            )?;
        }
        Ok(())
    }
}

impl<L: Link> Link for Meter<L> {
    forward_sizes!(inner);

    fn descriptors(&self) -> crate::Descriptors {
        self.inner.descriptors()
    }

    fn send(&mut self, train: &Train, memory: &BufferTable) -> io::Result<SendOutcome> {
        let outcome = self.inner.send(train, memory)?;
        if outcome == SendOutcome::Sent {
            self.sent.saturating_record(train.segments() as u64);
        }
        Ok(outcome)
    }

    fn receive(&mut self, plan: &ReceivePlan, memory: &BufferTable, pool: &mut ReadBuffer) -> io::Result<ReadOutcome> {
        let outcome = self.inner.receive(plan, memory, pool)?;
        if let ReadOutcome::Received(read) = &outcome {
            self.received.saturating_record(read.bytes.div_ceil(read.segment.max(1)).max(1) as u64);
        }
        Ok(outcome)
    }

    fn counters(&self) -> LinkCounters {
        self.inner.counters()
    }
}
