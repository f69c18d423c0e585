//! Datagram links: what carries a train, and what brings reads.
//!
//! A [`Link`] moves datagrams between application memory and a network. It knows nothing of any protocol: it takes a
//! [`Train`] (parts in memory that a [`BufferTable`] resolves) and fills a [`ReceivePlan`]. Implementations: [`MemoryLink`]
//! (two ends in one process), [`UdpLink`] (vectored, with segmentation offload on Linux) and, on Linux only, [`Ip36Link`] (raw
//! IP, protocol 36) and [`EtherLink`] (Ethernet frames). Middlewares wrap a link and are links themselves: [`Fault`], [`Capture`], [`Meter`].
//!
//! Always true: a link never blocks, never touches memory that neither the train nor the plan names, and never sends a
//! datagram other than those of the train.
#![warn(missing_docs)]

/// What a link that stands on another does not change: how much that takes at a time.
macro_rules! forward_sizes {
    ($inner:ident) => {
        fn train_limits(&self) -> ::pinnace_core::TrainLimits {
            self.$inner.train_limits()
        }

        fn max_datagram(&self) -> usize {
            self.$inner.max_datagram()
        }

        fn datagrams_per_read(&self) -> usize {
            self.$inner.datagrams_per_read()
        }

        fn allow_fragmentation(&mut self) -> bool {
            $crate::Link::allow_fragmentation(&mut self.$inner)
        }
    };
}

mod capture;
#[cfg(not(target_os = "linux"))]
mod elsewhere;
mod ether;
mod fault;
mod ip36;
mod memory;
mod memory_link;
mod meter;
mod pool;
mod read;
mod socket;
mod sums;
#[cfg(target_os = "linux")]
mod sys;
mod udp;

use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

pub use capture::{Capture, CaptureOptions, Carrier};
pub use ether::{EtherAddress, EtherAddressError, EtherLink, EtherOptions, Neighbour, neighbour};
pub use fault::{Burst, Fault, FaultCounters, FaultOptions};
pub use ip36::{Ip36Link, Ip36Options};
pub use memory::{BufferTable, Piece, Source};
pub use memory_link::{MemoryLink, MemoryOptions};
pub use meter::{Meter, MeterReport};
use pinnace_core::{ReceivePlan, RxMeta, Train, TrainLimits};
pub use read::ReadBuffer;
pub use sums::Sums;
#[cfg(target_os = "linux")]
pub use udp::Offload;
pub use udp::{
    GroupLink, GroupsLink, Memberships, MulticastOptions, PathMtu, PortableUdpLink, UdpLink, UdpOptions,
    probe_multicast,
};

/// What Ethernet frames of XTP and QMP say that they carry (specs/qmp.md).
const ETHER_TYPE: u16 = 0x817D;

/// One successful read.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// Bytes in all.
    pub bytes: usize,
    /// Bytes of every datagram but the last; equal to `bytes` for a single datagram.
    pub segment: usize,
    /// Who sent it, and how it came.
    pub meta: RxMeta,
    /// The read lost the end of the last datagram (`MSG_TRUNC`): it must be dropped and counted.
    pub truncated: bool,
}

/// What came of an attempt to send a train.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOutcome {
    /// The train left (or was lost on the way: a datagram link promises nothing).
    Sent,
    /// Nothing was sent, the link is full: try the same train again when it is writable.
    Blocked,
    /// Datagrams larger than the path carries, and the link could not help; the largest that would fit, if known.
    TooLarge(Option<u32>),
    /// The peer's host said that nobody listens there (ICMP). The train may have been dropped.
    Unreachable,
}

/// What came of an attempt to read.
#[derive(Clone, Copy, Debug)]
pub enum ReadOutcome {
    /// Datagrams.
    Received(Received),
    /// Nothing is waiting.
    Empty,
    /// An ICMP error was waiting; read again.
    Unreachable,
}

pinnace_core::counters! {
    /// What a link has seen since it was made.
    pub struct LinkCounters {
        /// Trains sent.
        trains_sent,
        /// Datagrams sent.
        datagrams_sent,
        /// Bytes sent, headers of lower layers not counted.
        bytes_sent,
        /// Bytes that were copied together to be sent, by links of UDP ([`UdpOptions::stage_below`]).
        bytes_staged,
        /// System calls made to send.
        send_calls,
        /// Sends that found the link full.
        sends_blocked,
        /// Sends refused by the kernel for another reason; the train counts as lost.
        send_errors,
        /// Reads that brought something.
        reads,
        /// Datagrams received.
        datagrams_received,
        /// Bytes received.
        bytes_received,
        /// Datagrams whose end was cut off by the read.
        datagrams_truncated,
        /// Datagrams that the kernel dropped because the receive buffer was full.
        receive_buffer_drops,
        /// Datagrams of others that reached a link with one peer, or for others than the link's address, thrown away.
        datagrams_from_strangers,
        /// ICMP errors reported by the kernel.
        unreachable_reports,
        /// Times that segmentation offload had to be given up.
        offload_fallbacks,
    }
}

impl LinkCounters {
    /// A train has left, but for so many of its datagrams, which were refused for good.
    #[cfg(target_os = "linux")]
    pub(crate) fn count_train(&mut self, train: &Train, lost: usize) {
        let sent = train.segments() - lost;
        if sent > 0 {
            self.trains_sent += 1;
            self.datagrams_sent += sent as u64;
            let size = train.segment_size().min(train.bytes() / train.segments());
            self.bytes_sent += (train.bytes() - lost * size) as u64;
        }
    }

    /// Something has come.
    pub(crate) fn count_read(&mut self, read: &Received) {
        self.reads += 1;
        self.datagrams_received += read.bytes.div_ceil(read.segment.max(1)).max(1) as u64;
        self.bytes_received += read.bytes as u64;
        self.datagrams_truncated += u64::from(read.truncated);
    }

    /// What has come over another socket of the same link.
    pub(crate) fn add_reads(&mut self, other: &Self) {
        self.reads += other.reads;
        self.datagrams_received += other.datagrams_received;
        self.bytes_received += other.bytes_received;
        self.datagrams_truncated += other.datagrams_truncated;
        self.receive_buffer_drops += other.receive_buffer_drops;
        self.unreachable_reports += other.unreachable_reports;
    }
}

/// A datagram link. See the [crate documentation](crate).
pub trait Link: Send {
    /// What one train may hold, on this link now. May shrink when a path refuses offload.
    fn train_limits(&self) -> TrainLimits;

    /// The largest datagram that reaches the peer in one piece, in bytes, as far as is known now.
    fn max_datagram(&self) -> usize;

    /// How many datagrams one read can bring (1 without coalescing).
    fn datagrams_per_read(&self) -> usize;

    /// Sends a train from the memory that `memory` resolves. Never blocks.
    ///
    /// # Errors
    /// Only for what makes the link useless (a closed descriptor). Losses and full queues are outcomes.
    fn send(&mut self, train: &Train, memory: &BufferTable) -> io::Result<SendOutcome>;

    /// Reads once into the slots of `plan`: application memory through `memory`, the driver's through `pool`.
    /// The plan must end with enough pooled memory for the largest read ([`ReceivePlan::top_up`]). Never blocks.
    ///
    /// # Errors
    /// Only for what makes the link useless.
    fn receive(&mut self, plan: &ReceivePlan, memory: &BufferTable, pool: &mut ReadBuffer) -> io::Result<ReadOutcome>;

    /// Lets the network cut datagrams that are larger than the path carries, after [`SendOutcome::TooLarge`]. Returns
    /// whether sending the same train again may help now.
    fn allow_fragmentation(&mut self) -> bool {
        false
    }

    /// A descriptor to sleep on: readable when [`Link::receive`] will bring something, writable when [`Link::send`] will
    /// take something; negative for links without one.
    fn descriptors(&self) -> Descriptors;

    /// What the link has seen.
    fn counters(&self) -> LinkCounters;
}

/// The descriptors to sleep on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptors {
    /// Becomes readable when something has come.
    pub readable: RawFd,
    /// Becomes writable when the link can take more.
    pub writable: RawFd,
    /// Whoever sleeps until `readable` may poll the network device for so long first.
    pub busy_poll: Option<Duration>,
}

impl Descriptors {
    /// Without a device to poll.
    pub const fn new(readable: RawFd, writable: RawFd) -> Self {
        Self { readable, writable, busy_poll: None }
    }
}

impl<L: Link + ?Sized> Link for Box<L> {
    fn train_limits(&self) -> TrainLimits {
        (**self).train_limits()
    }

    fn max_datagram(&self) -> usize {
        (**self).max_datagram()
    }

    fn datagrams_per_read(&self) -> usize {
        (**self).datagrams_per_read()
    }

    fn send(&mut self, train: &Train, memory: &BufferTable) -> io::Result<SendOutcome> {
        (**self).send(train, memory)
    }

    fn receive(&mut self, plan: &ReceivePlan, memory: &BufferTable, pool: &mut ReadBuffer) -> io::Result<ReadOutcome> {
        (**self).receive(plan, memory, pool)
    }

    fn allow_fragmentation(&mut self) -> bool {
        (**self).allow_fragmentation()
    }

    fn descriptors(&self) -> Descriptors {
        (**self).descriptors()
    }

    fn counters(&self) -> LinkCounters {
        (**self).counters()
    }
}
