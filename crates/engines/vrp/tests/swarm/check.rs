//! What must hold at the end of a run.

use crate::plan::{Frame, Plan};
use crate::{RECEIVER, World, sender};
use pinnace_core::Random;
use pinnace_sim::HostId;
use pinnace_vrp::{Delivery, Event, Failure, LossSummary};
use std::collections::BTreeMap;

/// The bytes of a frame: different in every position, frame and seed, and never zero.
pub(crate) fn content(seed: u64, index: usize, size: u32) -> Vec<u8> {
    let mut random = Random::from_seed(seed ^ ((index as u64) << 32) ^ 0x5EED);
    let mut bytes = Vec::with_capacity(size as usize + 8);
    // The frame says which it is, where there is room for it.
    bytes.extend_from_slice(&(index as u32 + 1).to_be_bytes());
    while bytes.len() < size as usize {
        bytes.extend_from_slice(&random.next_u64().to_le_bytes());
    }
    bytes.truncate(size as usize);
    bytes
}

/// Which frame is which.
pub(crate) struct Ledger {
    seed: u64,
    frames: Vec<Frame>,
    /// Index of the frame, by sender and ticket.
    taken: BTreeMap<(HostId, u64), usize>,
}

impl Ledger {
    pub(crate) fn new(plan: &Plan) -> Self {
        Self { seed: plan.seed, frames: plan.frames.clone(), taken: BTreeMap::new() }
    }

    pub(crate) fn on_taken(&mut self, host: HostId, ticket: u64, index: usize) {
        assert!(self.taken.insert((host, ticket), index).is_none(), "seed {}: a ticket twice", self.seed);
    }

    pub(crate) fn taken_by(&self, host: HostId) -> usize {
        self.taken.range((host, 0)..=(host, u64::MAX)).count()
    }

    pub(crate) fn check(&mut self, plan: &Plan, world: &World) {
        let told = self.told(plan, world);
        let mut delivered: BTreeMap<usize, (Delivery, bool)> = BTreeMap::new();
        for (_, event) in &world.application(RECEIVER).events {
            let Event::Received(delivery) = event else { continue };
            let candidates = self.candidates(plan, world, delivery);
            // Frames of a few bytes, or of which little has come, may look the same.
            let index = candidates.iter().find(|index| !delivered.contains_key(index));
            let Some(&index) = index else { panic!("seed {}: frame {candidates:?} twice: {plan:#?}", self.seed) };
            delivered.insert(index, (delivery.clone(), candidates.len() == 1));
        }
        for (index, result) in &told {
            let (Ok(loss), alive) = (result, plan.is_alive(RECEIVER)) else { continue };
            let Some((delivery, is_sure)) = delivered.get(index) else {
                let is_sure = delivered.values().all(|(_, is_sure)| *is_sure);
                assert!(
                    !alive || !is_sure,
                    "seed {}: frame {index} acknowledged, never delivered: {plan:#?}",
                    self.seed
                );
                continue;
            };
            if let Some(loss) = loss.as_ref().filter(|_| *is_sure) {
                let same =
                    loss.lost == delivery.loss.lost && (!loss.is_complete || loss.ranges == delivery.loss.ranges);
                assert!(same, "seed {}: frame {index}: {loss:?}, but {:?}", self.seed, delivery.loss);
            }
        }
        if plan.is_calm() {
            for (&index, result) in &told {
                let can_be_late = self.frames[index].give_up_after.is_some();
                let fine = result.is_ok() || (can_be_late && *result == Err(Failure::Late));
                assert!(fine, "seed {}: frame {index} on a good day: {result:?} {plan:#?}", self.seed);
            }
        }
    }

    /// How each frame ended at its sender, by index.
    fn told(&self, plan: &Plan, world: &World) -> BTreeMap<usize, Result<Option<LossSummary>, Failure>> {
        let mut told = BTreeMap::new();
        for host in (0..plan.senders.len()).map(sender) {
            for (_, event) in &world.application(host).events {
                let Event::Sent { ticket, result, .. } = event else { continue };
                let index = self.taken[&(host, *ticket)];
                let result = result.clone().map(|sent| sent.loss);
                assert!(told.insert(index, result).is_none(), "seed {}: frame {index} ended twice", self.seed);
            }
        }
        told
    }

    /// Which frames a delivery may be, of those whose contract it keeps.
    fn candidates(&self, plan: &Plan, world: &World, delivery: &Delivery) -> Vec<usize> {
        let bytes = world.buffer(RECEIVER, delivery.buffer);
        assert_eq!(bytes.len(), delivery.size as usize, "seed {}: storage of another size", self.seed);
        let fits = |index: &usize| {
            let frame = &self.frames[*index];
            frame.size == delivery.size
                && delivery.source == sender(frame.sender).address()
                && self.has_sent_in(plan, frame, delivery.packet_bytes)
                && self.matches(*index, bytes, delivery)
        };
        let candidates: Vec<_> = (0..self.frames.len()).filter(fits).collect();
        assert!(!candidates.is_empty(), "seed {}: a delivery that nobody sent: {delivery:?} {plan:#?}", self.seed);
        let kept = |&index: &usize| self.keeps_contract(plan, index, delivery);
        let first = kept(&candidates[0]);
        let keeping: Vec<_> = candidates.into_iter().filter(|index| kept(index).is_ok()).collect();
        assert!(!keeping.is_empty(), "seed {}: {first:?}: {delivery:?} {plan:#?}", self.seed);
        keeping
    }

    /// Whether the frame's packets may have had so many bytes: fewer than the endpoint's on a path that seems to lose those.
    fn has_sent_in(&self, plan: &Plan, frame: &Frame, packet_bytes: u16) -> bool {
        let usual = plan.senders[frame.sender].packet_bytes;
        frame.packet_bytes.unwrap_or(usual) == packet_bytes
            || (frame.packet_bytes.is_none() && packet_bytes < usual && [1_194, 542].contains(&packet_bytes))
    }

    /// Whether every byte that is not in a hole is the frame's.
    fn matches(&self, index: usize, bytes: &[u8], delivery: &Delivery) -> bool {
        let expected = content(self.seed, index, delivery.size);
        let mut at = 0;
        for hole in delivery.holes.iter().chain([&(u64::from(delivery.size)..u64::from(delivery.size))]) {
            let (low, high) = (hole.start as usize, hole.end as usize);
            if bytes[at..low] != expected[at..low] {
                return false;
            }
            at = high;
        }
        true
    }

    //= V-R18 test
    fn keeps_contract(&self, plan: &Plan, index: usize, delivery: &Delivery) -> Result<(), String> {
        let frame = &self.frames[index];
        let packet = delivery.packet_bytes;
        let n = frame.size.div_ceil(u32::from(packet));
        let contract = frame.terms.contract(u64::from(frame.size), packet).expect("it was sent");
        let window = u32::from(frame.window.unwrap_or(plan.senders[frame.sender].window)).min(n.max(1));
        let mut lost = vec![false; n as usize];
        for range in &delivery.loss.ranges {
            lost[range.start as usize..range.end as usize].fill(true);
        }
        let count = lost.iter().filter(|lost| **lost).count() as u32;
        let most = contract.max_lost(window);
        let longest = lost.split(|lost| !lost).map(<[bool]>::len).max().unwrap_or(0);
        let holes: Vec<_> = delivery.loss.holes(u64::from(frame.size), packet);
        let in_window = |low: usize| lost[low..low + window.min(n) as usize].iter().filter(|lost| **lost).count();
        let densest = (0..=(n - window.min(n)) as usize).map(in_window).max().unwrap_or(0);
        let critical = (0..n).find(|&number| lost[number as usize] && contract.critical.contains(u64::from(number)));
        let claims = [
            ("the number of packets", delivery.loss.packets == n),
            ("the number of lost packets", delivery.loss.lost == count && delivery.loss.is_complete),
            ("the longest run", delivery.loss.longest_run as usize == longest),
            ("a run that is too long", contract.run == u8::MAX || longest <= usize::from(contract.run)),
            ("too many lost in a window", densest <= most as usize),
            ("a critical packet lost", critical.is_none()),
            ("the holes", holes == delivery.holes),
            ("the contract", delivery.contract == contract),
            ("the window", delivery.window == window),
        ];
        match claims.iter().find(|(_, holds)| !holds) {
            Some((what, _)) => Err(format!("frame {index}: {what}: {longest} in a row, {densest} in {window}")),
            None => Ok(()),
        }
    }
}
