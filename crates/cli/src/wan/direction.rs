//! One direction at work: packets from one device, over a [`Link`], to the other device.
//!
//! Always true: a packet lies where the kernel put it when it was read, in a ring of bytes made once, until it is written;
//! what is lost leaves no gap there, so the ring holds what the link can hold. No packet is written before it is due.

use super::config::capacity;
use super::link::{Counters, Fate, Line, Link};
use super::segment::{Cut, MOST_HEADERS, PREFIX};
use pinnace_core::Time;
use pinnace_sim::NetworkConfig;
use rustix::io::Errno;
use serde::Serialize;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use tun_rs::SyncDevice;

/// The most that one read gives: the prefix, the largest IPv6 packet, and some.
const MOST: usize = PREFIX + 65_536 + 64;
/// What the ring holds beyond what the link can hold.
const SPARE: u64 = 8 << 20;
/// No ring is larger.
const MOST_MEMORY: u64 = 4 << 30;
/// Reads in a row, before what is due has its turn.
const READS: usize = 32;
/// A packet that comes out so much too late is counted.
const LATE: Duration = Duration::from_millis(1);

/// What a look at the device found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Found {
    /// Nothing.
    Nothing,
    /// Packets, and all of them have been read.
    Some,
    /// Packets, and perhaps more.
    More,
}

/// What one direction did.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Work {
    /// What became of the packets.
    #[serde(flatten)]
    pub(crate) counters: Counters,
    /// Packets that were inside the link at the end.
    pub(crate) packets_under_way: u64,
    /// Packets, or large packets of the kernel, that the device dropped before the link; nothing if that is not known.
    pub(crate) packets_overrun: Option<u64>,
    /// Packets that the kernel did not take back.
    pub(crate) packets_refused: u64,
    /// Packets that came out more than 1 ms after they were due: the machine was busy.
    pub(crate) packets_late: u64,
    /// The most that a packet came out too late, in microseconds.
    pub(crate) late_max_us: u64,
    /// Reads of the device.
    pub(crate) reads: u64,
    /// Writes to the device.
    pub(crate) writes: u64,
}

/// Segments that were read together.
#[derive(Clone, Debug)]
struct Train {
    cut: Cut,
    /// Where its prefix lies.
    low: u64,
    /// Segments under way.
    left: u32,
}

/// A packet under way.
#[derive(Clone, Copy, Debug)]
struct Packet {
    train: u64,
    index: u32,
    /// Where its payload lies; of a packet that was not cut, the prefix.
    at: u64,
}

/// One direction.
pub(super) struct Direction {
    pub(super) from: Arc<SyncDevice>,
    to: Arc<SyncDevice>,
    link: Link,
    line: Line<Packet>,
    ring: Vec<u8>,
    /// Positions count on for ever; they mean a place in the ring.
    tail: u64,
    trains: VecDeque<Train>,
    /// The number of the first of `trains`.
    first: u64,
    scratch: Vec<u8>,
    work: Work,
}

impl Direction {
    /// Fails if the link can hold more than memory should.
    pub(super) fn new(
        from: Arc<SyncDevice>,
        to: Arc<SyncDevice>,
        config: &NetworkConfig,
        seed: u64,
    ) -> Result<Self, String> {
        // A small packet has a prefix too.
        let bytes = capacity(config).saturating_mul(5) / 4 + SPARE;
        if bytes > MOST_MEMORY {
            return Err(format!(
                "the link would hold {} GB in each direction: take a lower rate, a shorter RTT or a shorter queue",
                bytes / 1_000_000_000
            ));
        }
        Ok(Self {
            from,
            to,
            link: Link::new(config, seed),
            line: Line::with_capacity((bytes / 1024) as usize),
            ring: vec![0; bytes as usize],
            tail: 0,
            trains: VecDeque::with_capacity(4096),
            first: 0,
            scratch: vec![0; MOST],
            work: Work::default(),
        })
    }

    /// What it did, at the end: what has not come out by now does not.
    pub(super) fn work(&self) -> Work {
        let mut work = Work { counters: self.link.counters(), ..self.work };
        for packet in self.line.iter() {
            work.packets_under_way += 1;
            work.counters.packets_delivered -= 1;
            work.counters.bytes_delivered -= self.bytes_of(packet);
        }
        work
    }

    /// Bytes of a packet under way, headers of IP counted.
    fn bytes_of(&self, packet: &Packet) -> u64 {
        self.train(packet.train).map_or(0, |train| {
            let payload = train.cut.range(packet.index).len() as u64;
            u64::from(train.cut.headers) + payload
        })
    }

    fn train(&self, number: u64) -> Option<&Train> {
        number.checked_sub(self.first).and_then(|index| self.trains.get(index as usize))
    }

    /// When the next packet is due.
    pub(super) fn next(&self) -> Option<Time> {
        self.line.next()
    }

    /// Reads what has come, up to a limit.
    pub(super) fn read(&mut self, clock: impl Fn() -> Time) -> io::Result<Found> {
        for reads in 0..READS {
            let place = self.reserve();
            let buffer = match place {
                Some(low) => {
                    let at = self.offset(low);
                    &mut self.ring[at..at + MOST]
                }
                None => &mut self.scratch[..],
            };
            let length = match rustix::io::read(&*self.from, buffer) {
                Ok(length) => length,
                Err(Errno::AGAIN) => return Ok(if reads > 0 { Found::Some } else { Found::Nothing }),
                // Somebody has taken the device down, and may take it up again.
                Err(Errno::INTR | Errno::BADFD) => return Ok(Found::Some),
                Err(error) => return Err(error.into()),
            };
            self.work.reads += 1;
            match place {
                Some(low) => self.enter(clock(), low, length),
                None => self.drop_all(length),
            }
        }
        Ok(Found::More)
    }

    /// Where the next read may go: [`MOST`] bytes in one piece, if there are so many.
    fn reserve(&self) -> Option<u64> {
        let size = self.ring.len() as u64;
        let at = self.tail % size;
        let low = if at + MOST as u64 > size { self.tail + (size - at) } else { self.tail };
        let head = self.trains.front().map_or(low, |train| train.low);
        (low + MOST as u64 - head <= size).then_some(low)
    }

    fn offset(&self, position: u64) -> usize {
        (position % self.ring.len() as u64) as usize
    }

    /// Lets each segment of what was read enter the link, and closes the gaps that the lost ones leave.
    fn enter(&mut self, now: Time, low: u64, length: usize) {
        let base = self.offset(low);
        let Some((prefix, packet)) = self.ring[base..base + length].split_first_chunk::<PREFIX>() else { return };
        let cut = Cut::new(prefix, packet);
        let whole = cut.headers == 0;
        let number = self.first + self.trains.len() as u64;
        let payload = PREFIX + usize::from(cut.headers);
        let (mut kept, mut left) = (0, 0);
        for index in 0..cut.count() {
            let range = cut.range(index);
            let bytes = range.end - range.start;
            let Fate::Crosses { at, held } = self.link.offer(now, u32::from(cut.headers) + bytes) else { continue };
            if kept != range.start {
                let from = base + payload + range.start as usize;
                self.ring.copy_within(from..from + bytes as usize, base + payload + kept as usize);
            }
            let place = low + if whole { 0 } else { payload as u64 + u64::from(kept) };
            self.line.push(at, held, Packet { train: number, index, at: place });
            kept += bytes;
            left += 1;
        }
        if left > 0 {
            self.tail = low + payload as u64 + u64::from(kept);
            self.trains.push_back(Train { cut, low, left });
        }
    }

    /// There is no memory: everything counts as dropped by the queue.
    fn drop_all(&mut self, length: usize) {
        let Some((prefix, packet)) = self.scratch[..length].split_first_chunk::<PREFIX>() else { return };
        let cut = Cut::new(prefix, packet);
        for index in 0..cut.count() {
            let bytes = u32::from(cut.headers) + cut.range(index).len() as u32;
            self.link.refuse(bytes);
        }
    }

    /// Writes what is due; false if nothing is.
    pub(super) fn write(&mut self, now: Time) -> bool {
        let mut any = false;
        while let Some((at, packet)) = self.line.pop_if(now, |_| true) {
            any = true;
            // The first has waited longest, and each has a time of its own.
            self.work.late_max_us = self.work.late_max_us.max(now.since(at).as_micros() as u64);
            self.work.packets_late += u64::from(now.since(at) > LATE);
            let mut run = packet.index..packet.index + 1;
            let of_run = |end: u32| move |next: &Packet| next.train == packet.train && next.index == end;
            while let Some((at, _)) = self.line.pop_if(now, of_run(run.end)) {
                self.work.packets_late += u64::from(now.since(at) > LATE);
                run.end += 1;
            }
            self.write_run(packet, &run);
            self.leave(packet.train, run.len() as u32);
        }
        any
    }

    fn write_run(&mut self, packet: Packet, run: &Range<u32>) {
        let Some(&Train { cut, low, .. }) = self.train(packet.train) else { return };
        let bytes = cut.range(run.end - 1).end - cut.range(run.start).start;
        let (base, at) = (self.offset(low), self.offset(packet.at));
        let written = if cut.headers == 0 {
            rustix::io::write(&*self.to, &self.ring[at..at + PREFIX + bytes as usize])
        } else {
            let mut headers = [0; PREFIX + MOST_HEADERS];
            let length = cut.headers(&self.ring[base + PREFIX..], run, bytes, &mut headers);
            let parts = [IoSlice::new(&headers[..length]), IoSlice::new(&self.ring[at..at + bytes as usize])];
            rustix::io::writev(&*self.to, &parts)
        };
        self.work.writes += 1;
        if written.is_err() {
            self.work.packets_refused += run.len() as u64;
        }
    }

    /// So many segments of a train are no longer under way: their memory is free when all before them are gone too.
    fn leave(&mut self, train: u64, segments: u32) {
        if let Some(train) = train.checked_sub(self.first).and_then(|index| self.trains.get_mut(index as usize)) {
            train.left = train.left.saturating_sub(segments);
        }
        while self.trains.front().is_some_and(|train| train.left == 0) {
            self.trains.pop_front();
            self.first += 1;
        }
    }
}
