//! [`Fault`]: a link that loses, doubles, reorders and corrupts what it sends, by a seed.
//!
//! Always true: the same seed, options and trains give the same faults; what the inner link could not take yet is kept
//! (at most one train and the held-back datagrams) and goes first next time.

use crate::{BufferTable, Link, LinkCounters, ReadBuffer, ReadOutcome, SendOutcome};
use pinnace_core::{Address, Ecn, Random, ReceivePlan, Train};
use std::collections::VecDeque;
use std::io;

/// Bursts of loss after Gilbert and Elliott: the link is good or bad, and changes with some probability at each datagram.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Burst {
    /// Probability that a good link turns bad.
    pub begin: f64,
    /// Probability that a bad link turns good; its inverse is the mean length of a burst in datagrams.
    pub end: f64,
    /// Probability that a bad link loses a datagram.
    pub loss: f64,
}

/// What goes wrong, each as a probability from 0 to 1.
#[derive(Clone, Debug, PartialEq)]
pub struct FaultOptions {
    /// Decides everything.
    pub seed: u64,
    /// A datagram is lost.
    pub loss: f64,
    /// Datagrams are lost in bursts, on top of `loss`.
    pub burst: Option<Burst>,
    /// A whole train is lost.
    pub train_loss: f64,
    /// A datagram comes twice.
    pub duplication: f64,
    /// A datagram is held back while up to `reordering_distance` others pass.
    pub reordering: f64,
    /// See `reordering`.
    pub reordering_distance: usize,
    /// One bit of a datagram is flipped.
    pub corruption: f64,
}

impl Default for FaultOptions {
    /// Nothing goes wrong.
    fn default() -> Self {
        Self {
            seed: 1,
            loss: 0.0,
            burst: None,
            train_loss: 0.0,
            duplication: 0.0,
            reordering: 0.0,
            reordering_distance: 8,
            corruption: 0.0,
        }
    }
}

pinnace_core::counters! {
    /// What a [`Fault`] has done.
    pub struct FaultCounters {
        /// Datagrams handed on, duplicates included.
        datagrams_passed,
        /// Datagrams lost, those of lost trains included.
        datagrams_lost,
        /// Trains lost as a whole.
        trains_lost,
        /// Datagrams sent a second time.
        datagrams_duplicated,
        /// Datagrams held back.
        datagrams_reordered,
        /// Datagrams with a flipped bit.
        datagrams_corrupted,
    }
}

#[derive(Clone, Debug)]
struct Datagram {
    bytes: Vec<u8>,
    destination: Address,
    source: Option<Address>,
    ecn: Ecn,
}

impl Datagram {
    fn leaves_with(&self, train: &Train) -> bool {
        self.destination == train.destination() && self.source == train.source() && self.ecn == train.ecn()
    }
}

/// A link with faults, on the sending side. See [`FaultOptions`].
#[derive(Debug)]
pub struct Fault<L> {
    inner: L,
    options: FaultOptions,
    random: Random,
    bad: bool,
    /// Held back, each until so many others have passed.
    held: Vec<(u64, Datagram)>,
    outbox: VecDeque<Datagram>,
    train: Train,
    nothing: BufferTable,
    faults: FaultCounters,
}

impl<L: Link> Fault<L> {
    /// Wraps a link.
    pub fn new(inner: L, options: FaultOptions) -> Self {
        let train = Train::new(inner.train_limits());
        Self {
            random: Random::from_seed(options.seed),
            inner,
            options,
            bad: false,
            held: Vec::new(),
            outbox: VecDeque::new(),
            train,
            nothing: BufferTable::new(),
            faults: FaultCounters::default(),
        }
    }

    /// What was done so far.
    pub fn faults(&self) -> FaultCounters {
        self.faults
    }

    /// The link inside.
    pub fn inner(&self) -> &L {
        &self.inner
    }

    /// The link inside, without the faults.
    pub fn into_inner(self) -> L {
        self.inner
    }

    fn is_lost(&mut self) -> bool {
        let burst = self.options.burst.is_some_and(|burst| {
            let turns = if self.bad { burst.end } else { burst.begin };
            self.bad ^= self.random.chance(turns);
            self.bad && self.random.chance(burst.loss)
        });
        self.random.chance(self.options.loss) || burst
    }

    fn suffer(&mut self, mut datagram: Datagram) {
        if self.is_lost() {
            self.faults.datagrams_lost += 1;
            return;
        }
        if self.random.chance(self.options.corruption) && !datagram.bytes.is_empty() {
            let at = self.random.below(datagram.bytes.len() as u64) as usize;
            datagram.bytes[at] ^= 1 << self.random.below(8);
            self.faults.datagrams_corrupted += 1;
        }
        if self.random.chance(self.options.duplication) {
            self.faults.datagrams_duplicated += 1;
            self.pass(datagram.clone());
        }
        if self.random.chance(self.options.reordering) {
            self.faults.datagrams_reordered += 1;
            let others = 1 + self.random.below(self.options.reordering_distance.max(1) as u64);
            self.held.push((others, datagram));
        } else {
            self.pass(datagram);
        }
    }

    fn pass(&mut self, datagram: Datagram) {
        self.faults.datagrams_passed += 1;
        self.outbox.push_back(datagram);
        let mut at = 0;
        while at < self.held.len() {
            self.held[at].0 -= 1;
            if self.held[at].0 == 0 {
                self.faults.datagrams_passed += 1;
                self.outbox.push_back(self.held.remove(at).1);
            } else {
                at += 1;
            }
        }
    }

    /// Sends what waits, in trains of equal datagrams. Blocked if something still waits; otherwise the worst outcome.
    fn flush(&mut self) -> io::Result<SendOutcome> {
        let mut outcome = SendOutcome::Sent;
        while let Some(first) = self.outbox.front() {
            self.train.reset(self.inner.train_limits());
            self.train.begin(first.destination, first.bytes.len());
            self.train.set_source(first.source);
            self.train.set_ecn(first.ecn);
            let mut count = 0;
            for datagram in &self.outbox {
                if !datagram.leaves_with(&self.train) || !self.train.has_room(datagram.bytes.len()) {
                    break;
                }
                self.train.inline(&datagram.bytes);
                self.train.end_segment();
                count += 1;
            }
            match self.inner.send(&self.train, &self.nothing)? {
                SendOutcome::Blocked => return Ok(SendOutcome::Blocked),
                SendOutcome::Sent => {}
                worse => outcome = worse,
            }
            self.outbox.drain(..count);
        }
        Ok(outcome)
    }
}

impl<L: Link> Link for Fault<L> {
    forward_sizes!(inner);

    fn descriptors(&self) -> crate::Descriptors {
        self.inner.descriptors()
    }

    fn send(&mut self, train: &Train, memory: &BufferTable) -> io::Result<SendOutcome> {
        if self.flush()? == SendOutcome::Blocked {
            return Ok(SendOutcome::Blocked);
        }
        if self.random.chance(self.options.train_loss) {
            self.faults.trains_lost += 1;
            self.faults.datagrams_lost += train.segments() as u64;
            return Ok(SendOutcome::Sent);
        }
        let (destination, source, ecn) = (train.destination(), train.source(), train.ecn());
        train.for_each_datagram(
            |range| memory.bytes(range),
            |bytes| self.suffer(Datagram { bytes: bytes.to_vec(), destination, source, ecn }),
        );
        // What is kept here is as good as sent.
        Ok(match self.flush()? {
            SendOutcome::Blocked => SendOutcome::Sent,
            outcome => outcome,
        })
    }

    fn receive(&mut self, plan: &ReceivePlan, memory: &BufferTable, pool: &mut ReadBuffer) -> io::Result<ReadOutcome> {
        // A driver that has nothing to send does not come to `send`.
        if !self.outbox.is_empty() {
            self.flush()?;
        }
        self.inner.receive(plan, memory, pool)
    }

    fn counters(&self) -> LinkCounters {
        self.inner.counters()
    }
}
