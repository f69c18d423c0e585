//! The worked examples of the specification, a literal model of its rules, and the contract itself.

use super::*;
use crate::Random;
use proptest::prelude::*;

fn contract(rate: u8, run: u8) -> LossContract {
    LossContract { rate, run, critical: IntervalSet::new() }
}

/// Takes packet `number` in and returns what was decided about those before it.
fn take(frame: &mut LossDecider, number: u32) -> (Vec<Decision>, Arrival) {
    let mut decisions = Vec::new();
    let arrival = frame.on_packet(number, |decision| decisions.push(decision));
    (decisions, arrival)
}

const NEW: Arrival = Arrival { stored: true, single_ack: true };

//= V-R5 test
//= V-R8 test
//= V-R11 test
//= V-R12 test
#[test]
fn worked_example_rate() {
    let mut frame = LossDecider::new(20, 6, contract(43, 255));
    assert_eq!(frame.max_lost, 1);
    for number in [0, 1, 3, 4, 5] {
        take(&mut frame, number);
    }
    assert_eq!((frame.wait_point(), frame.next_expected(), frame.history_lost), (6, 6, 1));
    assert_eq!(take(&mut frame, 7), (vec![Decision::Nack(6)], NEW));
    assert_eq!((frame.wait_point(), frame.history_lost), (6, 1));
    assert_eq!(take(&mut frame, 6), (vec![], NEW));
    assert_eq!((frame.wait_point(), frame.history_lost), (8, 1));
}

//= V-R11 test
//= V-R16 test
#[test]
fn worked_example_run() {
    let mut frame = LossDecider::new(20, 6, contract(85, 1));
    assert_eq!(frame.max_lost, 2);
    for number in [0, 1, 2, 4, 5, 6] {
        take(&mut frame, number);
    }
    assert_eq!((frame.wait_point(), frame.next_expected(), frame.history_lost), (7, 7, 1));
    let expected = vec![Decision::Lost(7), Decision::Nack(8), Decision::Lost(9)];
    assert_eq!(take(&mut frame, 10), (expected, NEW));
    assert_eq!((frame.wait_point(), frame.history_lost), (8, 2), "ACK 7, and a SINGLE_ACK for 9 behind it");
    assert_eq!(take(&mut frame, 8), (vec![], NEW));
    assert_eq!(frame.wait_point(), 11);
    assert_eq!(frame.lost().collect::<Vec<_>>(), [3..4, 7..8, 9..10]);
}

//= V-R5 test
#[test]
fn the_rate_is_rounded_to_nearest_and_kept_by_short_frames() {
    assert_eq!(contract(255, 0).max_lost(64), 64);
    assert_eq!(contract(0, 255).max_lost(16_384), 0);
    assert_eq!(contract(26, 0).max_lost(64), 7);
    let mut short = LossDecider::new(3, 64, contract(85, 255));
    assert_eq!((short.window, short.max_lost), (3, 1));
    assert_eq!(take(&mut short, 2).0, [Decision::Lost(0), Decision::Nack(1)]);
    assert!(LossDecider::new(0, 64, contract(0, 0)).is_complete());
}

//= V-R5 test
#[test]
fn a_run_of_255_does_not_limit_how_many_may_be_lost_in_a_row() {
    let mut free = LossDecider::new(3_000, 16_384, contract(255, 255));
    assert!(take(&mut free, 2_999).0.iter().all(|decision| matches!(decision, Decision::Lost(_))));
    assert!(free.is_complete());
    assert_eq!(free.longest_run(), 2_999);

    let mut limited = LossDecider::new(3_000, 16_384, contract(255, 254));
    let asked: Vec<_> =
        take(&mut limited, 600).0.into_iter().filter(|decision| matches!(decision, Decision::Nack(_))).collect();
    assert_eq!(asked, [Decision::Nack(254), Decision::Nack(509)]);
}

//= V-R7 test
//= V-R9 test
#[test]
fn what_does_not_belong_is_not_stored_but_known_packets_are_acknowledged() {
    let mut frame = LossDecider::new(40_000, 64, contract(255, 255));
    let dropped = Arrival { stored: false, single_ack: false };
    assert_eq!(take(&mut frame, 40_000), (vec![], dropped));
    assert_eq!(take(&mut frame, u32::MAX), (vec![], dropped));
    assert_eq!(take(&mut frame, MAX_PACKETS_AHEAD), (vec![], dropped));
    assert_eq!(take(&mut frame, 0), (vec![], NEW));
    assert_eq!(take(&mut frame, 0), (vec![], dropped), "below the wait point the cumulative ACK says it");
    let mut strict = LossDecider::new(10, 64, contract(0, 0));
    take(&mut strict, 5);
    assert_eq!(take(&mut strict, 5), (vec![], Arrival { stored: false, single_ack: true }));
    assert_eq!(take(&mut strict, 3), (vec![], NEW));
}

//= V-R10 test
//= V-R19 test
#[test]
fn an_overtaken_packet_is_taken_when_it_comes_and_frees_its_place_in_the_history() {
    let mut frame = LossDecider::new(20, 6, contract(43, 255));
    assert_eq!(take(&mut frame, 1).0, [Decision::Lost(0)]);
    assert_eq!(take(&mut frame, 0), (vec![], Arrival { stored: true, single_ack: false }));
    assert_eq!(take(&mut frame, 3).0, [Decision::Lost(2)], "one may be lost again");
    for number in 4..12 {
        take(&mut frame, number);
    }
    assert!(take(&mut frame, 2).1.stored, "long out of the history");
    assert_eq!(take(&mut frame, 13).0, [Decision::Lost(12)]);
    assert_eq!((frame.lost_count(), frame.longest_run()), (1, 1));
}

//= V-R15 test
#[test]
fn a_packet_that_waits_is_asked_for_once() {
    let mut frame = LossDecider::new(20, 6, contract(0, 0));
    assert_eq!(take(&mut frame, 1).0, [Decision::Nack(0)]);
    for number in 2..20 {
        assert_eq!(take(&mut frame, number).0, []);
    }
    assert!(!frame.is_complete());
    take(&mut frame, 0);
    assert!(frame.is_complete());
}

#[test]
fn a_lower_rate_holds_for_what_is_decided_later() {
    let mut frame = LossDecider::new(200, 10, contract(128, 255));
    assert_eq!(take(&mut frame, 4).0, [0, 1, 2, 3].map(Decision::Lost));
    frame.set_rate(0);
    assert_eq!(take(&mut frame, 6).0, [Decision::Nack(5)]);
    frame.set_rate(255);
    assert_eq!(take(&mut frame, 8).0, [Decision::Lost(7)]);
    assert!((frame.loss_rate() - 5.0 / 200.0).abs() < 1e-9);
}

//= V-S13 test
#[test]
fn a_contract_in_bytes_covers_every_packet_it_touches() {
    let critical = [100..101, 0..0, 1_400..2_800, 2_799..2_801];
    let contract = LossContract::of_bytes(10, 1_399, critical, 1_400);
    assert_eq!((contract.run, contract.critical.to_string()), (0, "[0,3)".to_string()));
    assert_eq!(LossContract::of_bytes(0, u64::MAX, [], 1).run, 255);
    assert_eq!(LossContract::reliable(), LossContract::of_bytes(0, 0, [], 0));
}

/// The rules of the specification word for word: cells, and a history that is counted anew for every decision.
struct Literal {
    cells: Vec<Cell>,
    window: usize,
    max_lost: usize,
    contract: LossContract,
    next_exp: usize,
    wait_point: usize,
    cons_loss: u32,
}

#[derive(Clone, Copy, Default)]
struct Cell {
    received: bool,
    valid: bool,
    waiting: bool,
}

impl Literal {
    fn new(packets: usize, window: usize, contract: LossContract) -> Self {
        let window = window.min(packets.max(1));
        let max_lost = (usize::from(contract.rate) * window + 127) / 255;
        let cells = vec![Cell::default(); packets];
        Self { cells, window, max_lost, contract, next_exp: 0, wait_point: 0, cons_loss: 0 }
    }

    fn on_packet(&mut self, q: usize) -> (Vec<Decision>, Arrival) {
        let mut decisions = Vec::new();
        let in_window = self.wait_point <= q && q < self.cells.len();
        let stored = if q >= self.cells.len() || q >= self.wait_point + 16_384 || self.cells[q].received {
            false
        } else {
            for m in self.next_exp..q {
                let history = &self.cells[(m + 1).saturating_sub(self.window)..m];
                let loss_cnt = 1 + history.iter().filter(|cell| cell.valid && !cell.received).count();
                self.cons_loss += 1;
                let required = self.contract.critical.contains(m as u64);
                let is_long = self.contract.run < u8::MAX && self.cons_loss > u32::from(self.contract.run);
                if is_long || loss_cnt > self.max_lost || required {
                    decisions.push(Decision::Nack(m as u32));
                    self.cons_loss = 0;
                    self.cells[m].waiting = true;
                } else {
                    decisions.push(Decision::Lost(m as u32));
                    self.cells[m].valid = true;
                }
            }
            if q >= self.next_exp {
                self.next_exp = q + 1;
                self.cons_loss = 0;
            }
            self.cells[q] = Cell { received: true, valid: true, waiting: false };
            true
        };
        while self.cells.get(self.wait_point).is_some_and(|cell| cell.valid) {
            self.wait_point += 1;
        }
        (decisions, Arrival { stored, single_ack: in_window && self.cells[q].valid })
    }
}

/// Whether the losses of a complete frame keep its contract: every window, every run, every critical packet.
fn contract_holds(frame: &LossDecider, window: u32, contract: &LossContract) -> Result<(), String> {
    let packets = frame.packets();
    let lost: Vec<bool> = (0..packets).map(|number| !frame.is_received(number)).collect();
    let window = window.min(packets.max(1));
    for (first, cells) in lost.windows(window as usize).enumerate() {
        let count = cells.iter().filter(|lost| **lost).count() as u32;
        if count > contract.max_lost(window) {
            return Err(format!("{count} lost of the {window} packets from {first}"));
        }
    }
    let mut run = 0;
    for (number, lost) in lost.iter().enumerate() {
        run = if *lost { run + 1 } else { 0 };
        if contract.run < u8::MAX && run > u32::from(contract.run) {
            return Err(format!("{run} lost in a row at {number}"));
        }
        if *lost && contract.critical.contains(number as u64) {
            return Err(format!("critical packet {number} is lost"));
        }
    }
    let told: u32 = frame.lost().map(|range| range.end - range.start).sum();
    let holes = lost.iter().filter(|lost| **lost).count() as u32;
    if told != holes
        || frame.lost_count() != holes
        || !frame.lost().all(|range| range.clone().all(|n| lost[n as usize]))
    {
        return Err(format!("told of {told}, counted {} and lost {holes}", frame.lost_count()));
    }
    Ok(())
}

fn contracts(packets: u32) -> impl Strategy<Value = LossContract> {
    let rate = prop_oneof![0_u8..60, any::<u8>()];
    let run = prop_oneof![0_u8..4, any::<u8>()];
    let critical = prop::collection::vec((0..packets.max(1), 0_u32..6), 0..4);
    (rate, run, critical).prop_map(|(rate, run, critical)| LossContract {
        rate,
        run,
        critical: critical.into_iter().map(|(low, len)| u64::from(low)..u64::from(low + len)).collect(),
    })
}

fn frames() -> impl Strategy<Value = (u32, u32, LossContract)> {
    let packets = prop_oneof![1_u32..20, 60_u32..70, 1_u32..400];
    (packets, 1_u32..100).prop_flat_map(|(packets, window)| (Just(packets), Just(window), contracts(packets)))
}

proptest! {
    #[test]
    fn agrees_with_the_rules_word_for_word(
        (packets, window, contract) in frames(),
        numbers in prop::collection::vec((any::<u32>(), 0_u32..8), 1..200),
    ) {
        let mut frame = LossDecider::new(packets, window, contract.clone());
        let mut literal = Literal::new(packets as usize, window as usize, contract);
        for (anywhere, ahead) in numbers {
            // Mostly near the front, sometimes anywhere, sometimes outside.
            let number = if anywhere % 4 == 0 { anywhere % (packets + 2) } else { frame.next_expected() + ahead };
            prop_assert_eq!(take(&mut frame, number), literal.on_packet(number as usize));
            prop_assert_eq!(frame.wait_point() as usize, literal.wait_point);
            prop_assert_eq!(frame.next_expected() as usize, literal.next_exp);
            let waiting = literal.cells.iter().filter(|cell| cell.waiting).count();
            let undecided = (0..frame.next_expected()).filter(|number| !frame.is_valid(*number)).count();
            prop_assert_eq!(undecided, waiting);
        }
    }

    //= V-R18 test
    #[test]
    fn the_contract_holds_over_every_channel(
        (packets, window, contract) in frames(),
        seed in any::<u64>(),
        loss in 0.0..0.6,
        reordering in 0.0..0.4,
        duplication in 0.0..0.3,
    ) {
        let mut random = Random::from_seed(seed);
        let mut frame = LossDecider::new(packets, window, contract.clone());
        let mut acked = vec![false; packets as usize];
        let mut channel: Vec<u32> = (0..packets).collect();
        let mut rounds = 0;
        while !frame.is_complete() {
            rounds += 1;
            prop_assert!(rounds < 2_000, "the frame never completes");
            let mut again = Vec::new();
            let mut index = 0;
            while index < channel.len() {
                if random.chance(reordering) && index + 1 < channel.len() {
                    let other = index + 1 + random.below(8.min(channel.len() as u64 - index as u64 - 1)) as usize;
                    channel.swap(index, other);
                }
                let number = channel[index];
                index += 1;
                let copies = if random.chance(loss) { 0 } else { 1 + usize::from(random.chance(duplication)) };
                for _ in 0..copies {
                    let (decisions, arrival) = take(&mut frame, number);
                    for decision in decisions {
                        match decision {
                            Decision::Nack(number) => again.push(number),
                            Decision::Lost(number) => acked[number as usize] = true,
                        }
                    }
                    acked[number as usize] |= arrival.single_ack;
                }
            }
            // The sender's deadlines: what is neither acknowledged nor asked for is repeated too.
            let wait_point = frame.wait_point();
            again.extend((wait_point..packets).filter(|number| !acked[*number as usize]));
            channel = again;
        }
        let kept = contract_holds(&frame, window, &contract);
        prop_assert!(kept.is_ok(), "{:?}", kept);
    }
}

#[test]
fn what_is_permitted_is_what_holds_in_every_window_and_what_a_decider_lets_go() {
    let mut random = Random::from_seed(5);
    let (mut permitted, mut decided) = (0, 0);
    for seed in 0..20_000 {
        let (packets, window) = (1 + random.below(40) as u32, 1 + random.below(20) as u32);
        let mut contract = contract(random.next_u32() as u8, random.below(5) as u8);
        if random.chance(0.2) {
            contract.run = u8::MAX;
        }
        if random.chance(0.3) {
            let low = random.below(40);
            contract.critical.insert(low..low + 1 + random.below(4));
        }
        let share = random.below(100) as f64 / 100.0;
        let lost: IntervalSet =
            (0..packets).filter(|_| random.chance(share)).map(|n| n.into()..u64::from(n) + 1).collect();
        let runs: Vec<_> = lost.iter().map(|run| run.start as u32..run.end as u32).collect();
        let whole = window.min(packets);
        let holds = (0..=packets - whole).all(|low| {
            let count = (low..low + whole).filter(|&number| lost.contains(number.into())).count();
            count <= contract.max_lost(whole) as usize
        });
        let holds = holds
            && runs.iter().all(|run| contract.run == u8::MAX || run.len() <= usize::from(contract.run))
            && lost.iter().all(|run| !contract.critical.overlaps(run));
        let shown = format!("seed {seed}: {runs:?} of {packets} in {window}: {contract:?}");
        assert_eq!(contract.permits(&runs, packets, window), holds, "{shown}");
        if holds {
            assert!(lost.len() <= contract.max_lost_of(packets, window), "{shown}");
            permitted += u32::from(!runs.is_empty());
        }
        let mut frame = LossDecider::new(packets, window, contract.clone());
        let mut again = Vec::new();
        for number in (0..packets).filter(|&number| number + 1 == packets || !lost.contains(number.into())) {
            frame.on_packet(number, |decision| again.extend(matches!(decision, Decision::Nack(_)).then_some(decision)));
        }
        for decision in again {
            let Decision::Nack(number) = decision else { continue };
            frame.on_packet(number, |_| ());
        }
        assert!(frame.is_complete());
        let runs: Vec<_> = frame.lost().collect();
        assert!(contract.permits(&runs, packets, window), "{shown}, {runs:?} decided");
        decided += u32::from(!runs.is_empty());
    }
    assert!(permitted > 1000 && decided > 1000, "{permitted} {decided}");
}
