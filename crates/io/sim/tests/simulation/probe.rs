//! An engine that sends what it is told and reports what comes.

use pinnace_core::{Address, Ecn, Engine, PathEvent, Placed, PollAt, ReceivePlan, RxMeta, Time, Train};
use std::collections::VecDeque;

/// A train to send: datagrams of `size` bytes, numbered in their first four.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Burst {
    pub(crate) to: Address,
    pub(crate) size: usize,
    pub(crate) count: u32,
    pub(crate) ecn: Ecn,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Seen {
    Datagram {
        source: Address,
        ecn: Ecn,
        bytes: Vec<u8>,
    },
    /// Datagrams of one read.
    Read(usize),
    Path(PathEvent),
}

#[derive(Debug, Default)]
pub(crate) struct Probe {
    pub(crate) bursts: VecDeque<Burst>,
    pub(crate) seen: VecDeque<Seen>,
    pub(crate) next: u32,
    /// Answers every datagram with one as large.
    pub(crate) echo: bool,
    /// Says that it wants to be called now, always.
    pub(crate) restless: bool,
    /// Never stops sending.
    pub(crate) endless: bool,
}

impl Probe {
    pub(crate) fn send(&mut self, to: Address, size: usize, count: u32) {
        self.bursts.push_back(Burst { to, size, count, ecn: Ecn::Capable0 });
    }
}

impl Engine for Probe {
    type Event = Seen;

    fn handle_datagrams(&mut self, _: Time, meta: &RxMeta, rx: &mut Placed<'_>) {
        let mut count = 0;
        while let Some(segment) = rx.next_segment() {
            let mut scratch = Vec::new();
            let bytes = rx.whole(&segment, &mut scratch).to_vec();
            if self.echo {
                self.bursts.push_back(Burst { to: meta.source, size: bytes.len(), count: 1, ecn: Ecn::NotCapable });
            }
            self.seen.push_back(Seen::Datagram { source: meta.source, ecn: meta.ecn, bytes });
            count += 1;
        }
        self.seen.push_back(Seen::Read(count));
    }

    fn handle_timeout(&mut self, _: Time) {}

    fn handle_path_event(&mut self, _: Time, event: PathEvent) {
        self.seen.push_back(Seen::Path(event));
    }

    fn plan_receive(&self, _: &mut ReceivePlan) {}

    fn poll_transmit(&mut self, _: Time, train: &mut Train) -> bool {
        if self.endless {
            self.send(Address::Peer, 4, 1);
        }
        let Some(burst) = self.bursts.front_mut() else { return false };
        train.begin(burst.to, burst.size);
        train.set_ecn(burst.ecn);
        while burst.count > 0 && train.has_room(burst.size) {
            let mut bytes = vec![0; burst.size];
            let number = self.next.to_be_bytes();
            let len = burst.size.min(4);
            bytes[..len].copy_from_slice(&number[..len]);
            train.inline(&bytes);
            train.end_segment();
            self.next += 1;
            burst.count -= 1;
        }
        if burst.count == 0 {
            self.bursts.pop_front();
        }
        true
    }

    fn poll_at(&self) -> PollAt {
        if self.restless { PollAt::Now } else { PollAt::Ingress }
    }

    fn poll_event(&mut self) -> Option<Seen> {
        self.seen.pop_front()
    }
}
