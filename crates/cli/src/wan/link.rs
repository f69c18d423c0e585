//! One direction of the emulated link: which packets get through, and when each arrives. Pure: the time is passed in.
//!
//! A packet is lost (independently, or in bursts), or dropped because the queue before the bottleneck is full, or it
//! crosses: it waits for the line, takes its time on it, and then the distance, and jitter that keeps the order. Some
//! packets are held back at the end, so that others overtake them. The order of these things is the simulator's.
//!
//! Always true: every packet offered is lost, dropped or crosses, and is counted as just one of these; over no stretch of
//! time more bits leave the line than its rate allows; whether the packet of some number is lost, and how long it is held,
//! follows from the seed and that number alone.

use super::config::queue_bytes;
use pinnace_core::{Random, Time};
use pinnace_sim::NetworkConfig;
use serde::Serialize;
use std::collections::VecDeque;
use std::time::Duration;

const NANOS: u128 = 1_000_000_000;

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It arrives then.
    Crosses {
        /// When.
        at: Time,
        /// Whether it was held back, and others may overtake it.
        held: bool,
    },
    /// Lost by chance.
    Lost,
    /// The queue was full.
    Dropped,
}

/// What became of all packets of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Counters {
    /// Packets that entered.
    pub(crate) packets: u64,
    /// Bytes of them, headers of IP counted.
    pub(crate) bytes: u64,
    /// Packets that cross, or have crossed.
    pub(crate) packets_delivered: u64,
    /// Bytes of them.
    pub(crate) bytes_delivered: u64,
    /// Packets lost by chance.
    pub(crate) packets_lost: u64,
    /// Packets that found the queue full.
    pub(crate) packets_dropped: u64,
    /// Packets that crossed and were held back.
    pub(crate) packets_held: u64,
}

/// One direction.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    config: NetworkConfig,
    queue_bytes: u64,
    /// When the line is free, in nanoseconds times its rate: exact over any number of packets.
    free: u128,
    /// The last arrival, before packets are held back.
    last: Time,
    bad: bool,
    loss: Random,
    burst: Random,
    jitter: Random,
    reorder: Random,
    counters: Counters,
}

impl Link {
    /// A direction with its own seed.
    pub(crate) fn new(config: &NetworkConfig, seed: u64) -> Self {
        let mut random = Random::from_seed(seed);
        Self {
            queue_bytes: queue_bytes(config),
            config: config.clone(),
            free: 0,
            last: Time::ZERO,
            bad: false,
            loss: random.fork(),
            burst: random.fork(),
            jitter: random.fork(),
            reorder: random.fork(),
            counters: Counters::default(),
        }
    }

    /// What became of the packets so far.
    pub(crate) fn counters(&self) -> Counters {
        self.counters
    }

    /// A packet of so many bytes enters. Times must not go back.
    pub(crate) fn offer(&mut self, now: Time, bytes: u32) -> Fate {
        let Some((jitter, held)) = self.enters(bytes) else { return Fate::Lost };
        let Some(left) = self.cross_line(now, bytes) else {
            self.counters.packets_dropped += 1;
            return Fate::Dropped;
        };
        self.last = (left + self.config.delay + jitter).max(self.last);
        self.counters.packets_delivered += 1;
        self.counters.bytes_delivered += u64::from(bytes);
        self.counters.packets_held += u64::from(held);
        Fate::Crosses { at: if held { self.last + self.config.reorder_by } else { self.last }, held }
    }

    /// The same of a packet for which there is no memory: if it is not lost it is dropped, and takes no time on the line.
    pub(crate) fn refuse(&mut self, bytes: u32) {
        if self.enters(bytes).is_some() {
            self.counters.packets_dropped += 1;
        }
    }

    /// Counts a packet, and draws its jitter and whether it is held back; nothing if it is lost.
    fn enters(&mut self, bytes: u32) -> Option<(Duration, bool)> {
        self.counters.packets += 1;
        self.counters.bytes += u64::from(bytes);
        // Drawn for every packet, whatever becomes of it, so that the numbers stay in step with the packets.
        let (lost, jitter, held) = (self.is_lost(), self.jitter(), self.is_held());
        self.counters.packets_lost += u64::from(lost);
        (!lost).then_some((jitter, held))
    }

    fn is_lost(&mut self) -> bool {
        let mut lost = self.config.loss > 0.0 && self.loss.chance(self.config.loss);
        if let Some(model) = self.config.burst_loss {
            self.bad ^= self.burst.chance(if self.bad { model.leave } else { model.enter });
            lost |= self.burst.chance(if self.bad { model.loss_bad } else { model.loss_good });
        }
        lost
    }

    fn jitter(&mut self) -> Duration {
        let most = u64::try_from(self.config.jitter.as_nanos()).unwrap_or(u64::MAX);
        if most == 0 {
            return Duration::ZERO;
        }
        Duration::from_nanos(self.jitter.below(most.saturating_add(1)))
    }

    fn is_held(&mut self) -> bool {
        self.config.reorder > 0.0 && self.reorder.chance(self.config.reorder)
    }

    /// When the packet has left the line; nothing if the queue is full. The packet on the line counts as queued; an idle
    /// line takes a packet of any size.
    fn cross_line(&mut self, now: Time, bytes: u32) -> Option<Time> {
        let Some(rate) = self.config.rate.map(u128::from) else { return Some(now) };
        let now = u128::from(now.as_nanos()) * rate;
        let waiting = self.free.saturating_sub(now).div_ceil(8 * NANOS);
        if waiting > 0 && waiting + u128::from(bytes) > u128::from(self.queue_bytes) {
            return None;
        }
        self.free = self.free.max(now) + u128::from(bytes) * 8 * NANOS;
        Some(Time::from_nanos(u64::try_from(self.free.div_ceil(rate)).unwrap_or(u64::MAX)))
    }
}

/// What is under way, by the time of arrival: two queues, each in order by itself, so that nothing is ever searched.
#[derive(Clone, Debug)]
pub(crate) struct Line<T> {
    ordered: VecDeque<(Time, T)>,
    held: VecDeque<(Time, T)>,
}

impl<T> Line<T> {
    /// Nothing is under way; memory for so many packets.
    pub(crate) fn with_capacity(packets: usize) -> Self {
        Self { ordered: VecDeque::with_capacity(packets), held: VecDeque::new() }
    }

    /// A packet that [`Fate::Crosses`].
    pub(crate) fn push(&mut self, at: Time, held: bool, packet: T) {
        if held { self.held.push_back((at, packet)) } else { self.ordered.push_back((at, packet)) }
    }

    /// All that has not come out yet.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.ordered.iter().chain(&self.held).map(|(_, packet)| packet)
    }

    /// When the next one arrives.
    pub(crate) fn next(&self) -> Option<Time> {
        let head = |queue: &VecDeque<(Time, T)>| queue.front().map(|(at, _)| *at);
        match (head(&self.ordered), head(&self.held)) {
            (Some(ordered), Some(held)) => Some(ordered.min(held)),
            (ordered, held) => ordered.or(held),
        }
    }

    /// The next one, if it has arrived by now and `accept` wants it.
    pub(crate) fn pop_if(&mut self, now: Time, accept: impl FnOnce(&T) -> bool) -> Option<(Time, T)> {
        // At the same time the held one comes first: it entered first.
        let held = match (self.ordered.front(), self.held.front()) {
            (Some((ordered, _)), Some((held, _))) => held <= ordered,
            (None, Some(_)) => true,
            _ => false,
        };
        let queue = if held { &mut self.held } else { &mut self.ordered };
        let (at, packet) = queue.front()?;
        if *at > now || !accept(packet) { None } else { queue.pop_front() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(text: &str) -> Link {
        Link::new(&text.parse().unwrap(), 7)
    }

    /// Packets of random sizes at random times: twice the rate of 10 Mbit/s. What came, in order, and when: number, bytes.
    fn swarm(link: &mut Link, packets: u64) -> Vec<(Time, u64, u32)> {
        let (mut line, mut random, mut now) = (Line::with_capacity(0), Random::from_seed(3), Time::ZERO);
        let mut arrived = Vec::new();
        for number in 0..packets {
            let bytes = 40 + random.below(1461) as u32;
            now += Duration::from_nanos(random.below(616_000));
            while let Some((at, (number, bytes))) = line.pop_if(now, |_| true) {
                arrived.push((at, number, bytes));
            }
            if let Fate::Crosses { at, held } = link.offer(now, bytes) {
                line.push(at, held, (number, bytes));
            }
        }
        while let Some((at, (number, bytes))) = line.pop_if(Time::MAX, |_| true) {
            arrived.push((at, number, bytes));
        }
        assert_eq!(line.next(), None);
        arrived
    }

    const EVERYTHING: &str = "rate=10mbit,delay=5ms,queue=20kB,loss=2%,burst-loss=1%:30%,jitter=3ms,reorder=3%:4ms";

    #[test]
    fn every_packet_is_delivered_lost_or_dropped() {
        let mut link = link(EVERYTHING);
        let arrived = swarm(&mut link, 20_000);
        let counters = link.counters();
        assert_eq!(counters.packets, 20_000);
        assert_eq!(counters.packets, counters.packets_delivered + counters.packets_lost + counters.packets_dropped);
        assert_eq!(counters.packets_delivered, arrived.len() as u64);
        assert_eq!(counters.bytes_delivered, arrived.iter().map(|&(.., bytes)| u64::from(bytes)).sum::<u64>());
        assert!(counters.packets_lost > 0 && counters.packets_dropped > 0 && counters.packets_held > 0, "{counters:?}");
        let mut numbers: Vec<u64> = arrived.iter().map(|&(_, number, _)| number).collect();
        numbers.sort_unstable();
        assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "nothing comes twice");
    }

    #[test]
    fn the_rate_is_never_exceeded_and_fully_used() {
        let mut link = link("rate=10mbit,delay=5ms,queue=20kB");
        let arrived = swarm(&mut link, 5000);
        // Between any two arrivals: at most the bits of the packets after the first one.
        for low in (0..arrived.len()).step_by(97) {
            let mut bits = 0;
            for &(at, _, bytes) in &arrived[low + 1..] {
                bits += u64::from(bytes) * 8;
                let time = at.since(arrived[low].0).as_nanos() as u64;
                assert!(time + 1 >= bits * 100, "{bits} bits in {time} ns");
            }
        }
        let bits: u64 = arrived.iter().map(|&(.., bytes)| u64::from(bytes) * 8).sum();
        let time = arrived.last().unwrap().0.as_nanos();
        assert!(bits * 100 > time * 97 / 100, "{bits} bits in {time} ns");
    }

    #[test]
    fn the_order_is_kept_unless_packets_are_held_back() {
        let in_order = |text| swarm(&mut link(text), 5000).windows(2).all(|pair| pair[0].1 < pair[1].1);
        assert!(in_order("rate=10mbit,delay=5ms,loss=5%"));
        assert!(in_order("rate=10mbit,delay=5ms,loss=5%,jitter=30ms"));
        assert!(!in_order("delay=5ms,reorder=1%:5ms"));
    }

    #[test]
    fn packets_arrive_when_due() {
        let mut link = link("rate=12mbit,delay=30ms,queue=3000");
        let at = |millis: u64| Fate::Crosses { at: Time::ZERO + Duration::from_millis(millis), held: false };
        let start = Time::ZERO;
        assert_eq!((link.offer(start, 1500), link.offer(start, 1500)), (at(31), at(32)));
        assert_eq!(link.offer(start, 1), Fate::Dropped);
        assert_eq!(link.offer(start + Duration::from_millis(1), 1500), at(33));
        assert_eq!(link.offer(start + Duration::from_secs(1), 1500), at(1031), "an idle line saves nothing up");
    }

    #[test]
    fn losses_have_their_share_and_their_bursts() {
        let mut independent = link("loss=1%");
        let mut bursts = link("burst-loss=1%:30%");
        let share = |link: &mut Link| {
            for _ in 0..200_000 {
                link.offer(Time::ZERO, 100);
            }
            link.counters().packets_lost as f64 / 200_000.0
        };
        assert!((share(&mut independent) - 0.01).abs() < 0.001);
        assert!((share(&mut bursts) - 0.01 / 0.31).abs() < 0.002);
        let mut runs = Vec::new();
        let mut run = 0_u32;
        for _ in 0..200_000 {
            match bursts.offer(Time::ZERO, 100) {
                Fate::Lost => run += 1,
                _ if run > 0 => runs.push(std::mem::take(&mut run)),
                _ => {}
            }
        }
        let mean = f64::from(runs.iter().sum::<u32>()) / runs.len() as f64;
        assert!((mean - 1.0 / 0.3).abs() < 0.2, "{mean}");
    }

    #[test]
    fn the_same_packets_are_lost_whatever_their_time_and_size() {
        let fates = |bytes: u32, seed| {
            let mut link = Link::new(&EVERYTHING.parse().unwrap(), seed);
            let lost = |number| link.offer(Time::from_nanos(number * u64::from(bytes)), bytes) == Fate::Lost;
            (0..5000).map(lost).collect::<Vec<_>>()
        };
        assert_eq!(fates(100, 1), fates(1500, 1));
        assert_ne!(fates(100, 1), fates(100, 2));
    }

    #[test]
    fn a_packet_without_memory_counts_as_dropped_and_takes_no_time() {
        let mut link = link("rate=12mbit,delay=1ms,reorder=100%");
        link.refuse(100);
        assert_eq!(link.counters(), Counters { packets: 1, bytes: 100, packets_dropped: 1, ..Counters::default() });
        (0..1000).for_each(|_| link.refuse(1500));
        let Fate::Crosses { at, held: true } = link.offer(Time::ZERO, 1500) else { panic!("the line is free") };
        assert_eq!(at.since(Time::ZERO), Duration::from_millis(2) + link.config.reorder_by);
    }

    #[test]
    fn a_queue_without_an_end_is_two_seconds_long() {
        let mut link = link("rate=12mbit,queue=none");
        let crossed = (0..5000).filter(|_| matches!(link.offer(Time::ZERO, 1500), Fate::Crosses { .. })).count();
        // A packet takes 1 ms.
        assert_eq!((crossed, link.counters().packets_dropped), (2000, 3000));
    }
}
