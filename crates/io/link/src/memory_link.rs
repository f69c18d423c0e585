//! [`MemoryLink`]: two ends in one process, with the habits of a real link: it coalesces, has a limited receive buffer and
//! drops what does not fit.
//!
//! Always true: an end's descriptor is readable exactly while its queue holds something; a queue never holds more than
//! its limit.

use crate::{BufferTable, Descriptors, Link, LinkCounters, ReadBuffer, ReadOutcome, Received, SendOutcome};
use pinnace_core::{Address, Ecn, ReceivePlan, RxMeta, Train, TrainLimits};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How a pair of [`MemoryLink`]s behaves.
#[derive(Clone, Debug)]
pub struct MemoryOptions {
    /// Bytes that an end holds for its reader; more are dropped.
    pub receive_buffer: usize,
    /// What a train may hold.
    pub limits: TrainLimits,
    /// The largest datagram, in bytes.
    pub max_datagram: usize,
    /// Whether a read brings a whole train, as `UDP_GRO` does, or one datagram.
    pub coalescing: bool,
}

impl Default for MemoryOptions {
    fn default() -> Self {
        Self { receive_buffer: 4 << 20, limits: TrainLimits::GSO, max_datagram: 65_507, coalescing: true }
    }
}

/// What one read brings.
#[derive(Debug)]
struct Parcel {
    bytes: Vec<u8>,
    segment: usize,
    ecn: Ecn,
}

/// One direction.
#[derive(Debug)]
struct Queue {
    parcels: VecDeque<Parcel>,
    bytes: usize,
    drops: u64,
    /// Buffers of parcels that were read, for the next ones.
    spare: Vec<Vec<u8>>,
    signal: Signal,
}

const SPARE_BUFFERS: usize = 64;

/// One end of a link within a process.
///
/// ```
/// use pinnace_core::{Address, Train};
/// use pinnace_link::{BufferTable, Link, MemoryLink, MemoryOptions, SendOutcome};
/// let (mut a, b) = MemoryLink::pair(&MemoryOptions::default())?;
/// let mut train = Train::new(a.train_limits());
/// train.begin(Address::Peer, 4);
/// train.inline(b"ahoy");
/// train.end_segment();
/// assert_eq!(a.send(&train, &BufferTable::new())?, SendOutcome::Sent);
/// drop(b);
/// assert_eq!(a.send(&train, &BufferTable::new())?, SendOutcome::Unreachable);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct MemoryLink {
    incoming: Arc<Mutex<Queue>>,
    outgoing: Arc<Mutex<Queue>>,
    descriptors: Descriptors,
    options: MemoryOptions,
    counters: LinkCounters,
    last_drops: u64,
}

impl MemoryLink {
    /// Two ends that are each other's peer.
    ///
    /// # Errors
    /// If the system has no descriptors left.
    pub fn pair(options: &MemoryOptions) -> io::Result<(Self, Self)> {
        let (a, b) = (Queue::new()?, Queue::new()?);
        Ok((Self::new(&a, &b, options), Self::new(&b, &a, options)))
    }

    fn new(incoming: &Arc<Mutex<Queue>>, outgoing: &Arc<Mutex<Queue>>, options: &MemoryOptions) -> Self {
        let descriptors = lock(incoming).signal.descriptors();
        Self {
            incoming: Arc::clone(incoming),
            outgoing: Arc::clone(outgoing),
            descriptors,
            options: options.clone(),
            counters: LinkCounters::default(),
            last_drops: 0,
        }
    }
}

/// A panic elsewhere leaves a queue whole: every change to it is complete before anything can fail.
fn lock(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Queue {
    fn new() -> io::Result<Arc<Mutex<Self>>> {
        let signal = Signal::new()?;
        Ok(Arc::new(Mutex::new(Self { parcels: VecDeque::new(), bytes: 0, drops: 0, spare: Vec::new(), signal })))
    }

    fn push(&mut self, train: &Train, memory: &BufferTable, limit: usize, coalescing: bool) -> io::Result<()> {
        if self.bytes + train.bytes() > limit {
            self.drops += train.segments() as u64;
            return Ok(());
        }
        let was_empty = self.parcels.is_empty();
        let (segment, ecn) = (train.segment_size(), train.ecn());
        let mut whole: Option<Vec<u8>> = None;
        train.for_each_datagram(
            |range| memory.bytes(range),
            |datagram| {
                if coalescing {
                    let bytes = whole.get_or_insert_with(|| self.spare.pop().unwrap_or_default());
                    bytes.extend_from_slice(datagram);
                } else {
                    let mut bytes = self.spare.pop().unwrap_or_default();
                    bytes.extend_from_slice(datagram);
                    self.bytes += bytes.len();
                    self.parcels.push_back(Parcel { segment: bytes.len(), bytes, ecn });
                }
            },
        );
        if let Some(bytes) = whole {
            self.bytes += bytes.len();
            self.parcels.push_back(Parcel { segment: segment.min(bytes.len()), bytes, ecn });
        }
        if was_empty && !self.parcels.is_empty() { self.signal.raise() } else { Ok(()) }
    }

    fn pop(&mut self) -> io::Result<Option<Parcel>> {
        let Some(parcel) = self.parcels.pop_front() else { return Ok(None) };
        self.bytes -= parcel.bytes.len();
        if self.parcels.is_empty() {
            self.signal.lower()?;
        }
        Ok(Some(parcel))
    }

    fn recycle(&mut self, mut bytes: Vec<u8>) {
        if self.spare.len() < SPARE_BUFFERS {
            bytes.clear();
            self.spare.push(bytes);
        }
    }
}

impl Link for MemoryLink {
    fn train_limits(&self) -> TrainLimits {
        self.options.limits
    }

    fn max_datagram(&self) -> usize {
        self.options.max_datagram
    }

    fn datagrams_per_read(&self) -> usize {
        if self.options.coalescing { self.options.limits.segments } else { 1 }
    }

    fn send(&mut self, train: &Train, memory: &BufferTable) -> io::Result<SendOutcome> {
        // This end and the other hold the queue; alone, there is nobody to read it.
        if Arc::strong_count(&self.outgoing) == 1 {
            self.counters.unreachable_reports += 1;
            return Ok(SendOutcome::Unreachable);
        }
        if train.segment_size() > self.options.max_datagram {
            return Ok(SendOutcome::TooLarge(Some(self.options.max_datagram as u32)));
        }
        lock(&self.outgoing).push(train, memory, self.options.receive_buffer, self.options.coalescing)?;
        self.counters.trains_sent += 1;
        self.counters.datagrams_sent += train.segments() as u64;
        self.counters.bytes_sent += train.bytes() as u64;
        Ok(SendOutcome::Sent)
    }

    fn receive(&mut self, plan: &ReceivePlan, memory: &BufferTable, pool: &mut ReadBuffer) -> io::Result<ReadOutcome> {
        let mut queue = lock(&self.incoming);
        self.counters.receive_buffer_drops += queue.drops - self.last_drops;
        self.last_drops = queue.drops;
        let Some(parcel) = queue.pop()? else { return Ok(ReadOutcome::Empty) };
        drop(queue);
        pool.lay_out(plan, memory, |_, _| ());
        // SAFETY: it has just been laid out, in memory that is borrowed, and that whoever lent it promised not to look at.
        let bytes = unsafe { pool.scatter(&parcel.bytes) };
        let truncated = bytes < parcel.bytes.len();
        self.counters.reads += 1;
        self.counters.datagrams_received += bytes.div_ceil(parcel.segment.max(1)) as u64;
        self.counters.bytes_received += bytes as u64;
        self.counters.datagrams_truncated += u64::from(truncated);
        lock(&self.incoming).recycle(parcel.bytes);
        let meta = RxMeta { source: Address::Peer, destination: None, ecn: parcel.ecn };
        Ok(ReadOutcome::Received(Received { bytes, segment: parcel.segment.min(bytes), meta, truncated }))
    }

    fn descriptors(&self) -> Descriptors {
        self.descriptors
    }

    fn counters(&self) -> LinkCounters {
        self.counters
    }
}

/// Something to sleep on: raised or not. An eventfd where there is one, otherwise a pipe.
#[derive(Debug)]
struct Signal {
    read: File,
    /// The other end of a pipe.
    write: Option<File>,
}

impl Signal {
    #[cfg(target_os = "linux")]
    fn new() -> io::Result<Self> {
        use std::os::fd::FromRawFd;
        // SAFETY: no pointers.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new descriptor that nobody else owns.
        Ok(Self { read: unsafe { OwnedFd::from_raw_fd(fd) }.into(), write: None })
    }

    #[cfg(not(target_os = "linux"))]
    fn new() -> io::Result<Self> {
        let (read, write) = io::pipe()?;
        Ok(Self { read: File::from(OwnedFd::from(read)), write: Some(File::from(OwnedFd::from(write))) })
    }

    fn descriptors(&self) -> Descriptors {
        let readable = self.read.as_raw_fd();
        Descriptors::new(readable, self.write.as_ref().map_or(readable, AsRawFd::as_raw_fd))
    }

    /// Only when lowered, so a pipe never fills.
    fn raise(&mut self) -> io::Result<()> {
        self.write.as_mut().unwrap_or(&mut self.read).write_all(&1u64.to_ne_bytes())
    }

    /// Only when raised, so there is something to read.
    fn lower(&mut self) -> io::Result<()> {
        self.read.read_exact(&mut [0; 8])
    }
}
