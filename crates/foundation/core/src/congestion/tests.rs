//! The controllers over a model of one bottleneck: a rate, a queue, a delay, random loss.

use super::*;
use crate::{Pacer, Random};
use core::cmp::Reverse;
use proptest::prelude::*;
use std::collections::{BinaryHeap, VecDeque};

const MSS: u64 = 1_400;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The bottleneck that all flows share.
struct Bottleneck {
    bytes_per_second: u64,
    queue: u64,
    rtt: Duration,
    /// So much longer is the way from the second second on.
    detour: Duration,
    loss: f64,
    busy_until: Time,
    random: Random,
}

impl Bottleneck {
    fn new(bytes_per_second: u64, queue: u64, rtt: Duration, loss: f64) -> Self {
        let (detour, busy_until, random) = (Duration::ZERO, Time::ZERO, Random::from_seed(1));
        Self { bytes_per_second, queue, rtt, detour, loss, busy_until, random }
    }

    /// When the acknowledgement of a packet sent `now` comes back, unless it is lost.
    fn carry(&mut self, now: Time, bytes: u64) -> Option<Time> {
        let waiting = self.busy_until.since(now).as_nanos() as u64;
        if u128::from(waiting) * u128::from(self.bytes_per_second) / 1_000_000_000 > u128::from(self.queue) {
            return None;
        }
        self.busy_until =
            now.max(self.busy_until) + Duration::from_nanos(bytes * 1_000_000_000 / self.bytes_per_second);
        let detour = if now >= Time::ZERO + Duration::from_secs(1) { self.detour } else { Duration::ZERO };
        (!self.random.chance(self.loss)).then_some(self.busy_until + self.rtt + detour)
    }
}

/// A sender with always something to send, or with so many packets every tenth of a second.
struct Flow {
    burst: Option<u64>,
    /// What is left of the burst.
    ready: u64,
    control: Box<dyn Congestion>,
    pacer: Pacer,
    delivery: DeliveryRate,
    starts_at: Time,
    next: u64,
    in_flight: u64,
    sent: VecDeque<(u64, DeliveryStamp)>,
    last_ack: Time,
    timeouts: u32,
    /// Bytes delivered by the end of every second.
    by_second: Vec<u64>,
    /// The longest round trip of this second, and of the last whole one.
    worst_rtt: [Duration; 2],
}

impl Flow {
    fn new(kind: ControllerKind, starts_at: Time) -> Self {
        let control = kind.build(MSS, starts_at);
        let pacer = Pacer::new(control.pacing_rate(), 10 * MSS);
        Self {
            burst: None,
            ready: 0,
            control,
            pacer,
            delivery: DeliveryRate::new(),
            starts_at,
            next: 0,
            in_flight: 0,
            sent: VecDeque::new(),
            last_ack: starts_at,
            timeouts: 0,
            by_second: Vec::new(),
            worst_rtt: [Duration::ZERO; 2],
        }
    }

    fn on_ack(&mut self, now: Time, number: u64) {
        self.last_ack = now;
        let mut lost = 0;
        let mut lost_at = Time::ZERO;
        while let Some(&(first, stamp)) = self.sent.front()
            && first < number
        {
            // The model keeps the order, so what was sent before is lost.
            lost += MSS;
            lost_at = stamp.sent_at;
            self.sent.pop_front();
        }
        let Some(&(first, stamp)) = self.sent.front() else { return };
        if first != number {
            return; // Given up by a time-out.
        }
        self.sent.pop_front();
        self.in_flight -= lost + MSS;
        if lost > 0 {
            let in_flight_after = self.in_flight;
            self.control.on_loss(&LossSample {
                now,
                noticed_at: now,
                lost_bytes: lost,
                sent_at: lost_at,
                in_flight_after,
            });
        }
        self.delivery.on_packet_acked(now, MSS, &stamp);
        self.worst_rtt[0] = self.worst_rtt[0].max(now.since(stamp.sent_at));
        let sample = self.delivery.finish(now, Some(now.since(stamp.sent_at)), self.in_flight).expect("one packet");
        self.control.on_ack(&sample);
        self.pacer.set_rate(now, self.control.pacing_rate());
    }

    fn end_second(&mut self) {
        self.by_second.push(self.delivery.delivered());
        self.worst_rtt = [Duration::ZERO, self.worst_rtt[0]];
    }

    fn on_tick(&mut self, now: Time) {
        self.ready += self.burst.unwrap_or(0);
        if self.in_flight > 0 && now.since(self.last_ack) > ms(1_000) {
            self.sent.clear();
            self.in_flight = 0;
            self.last_ack = now;
            self.timeouts += 1;
            self.control.on_timeout(now);
        }
    }

    /// Sends what may be sent and returns when pacing lets the next go, if pacing is what holds it.
    fn send(&mut self, now: Time, link: &mut Bottleneck) -> (Vec<(Time, u64)>, Option<Time>) {
        let mut acks = Vec::new();
        while now >= self.starts_at && (self.in_flight == 0 || self.in_flight + MSS <= self.control.window()) {
            if self.burst.is_some() && self.ready == 0 {
                self.delivery.on_app_limited(self.in_flight);
                break;
            }
            if let Err(ready_at) = self.pacer.try_take(now, MSS) {
                return (acks, Some(ready_at));
            }
            self.ready = self.ready.saturating_sub(1);
            let stamp = self.delivery.on_sent(now, MSS, self.in_flight);
            self.control.on_sent(now, MSS, self.in_flight);
            self.in_flight += MSS;
            self.sent.push_back((self.next, stamp));
            acks.extend(link.carry(now, MSS).map(|at| (at, self.next)));
            self.next += 1;
        }
        (acks, None)
    }

    /// Bytes a second between two seconds of the run.
    fn rate(&self, from: usize, to: usize) -> u64 {
        (self.by_second[to - 1] - self.by_second[from - 1]) / (to - from) as u64
    }
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Happening {
    Ack(u64),
    Ready,
    Tick,
}

fn run(link: &mut Bottleneck, flows: &mut [Flow], seconds: u64) {
    let mut agenda = BinaryHeap::new();
    for index in 0..flows.len() {
        for tick in 0..seconds * 10 {
            agenda.push(Reverse((Time::ZERO + ms(tick * 100), index, Happening::Tick)));
        }
    }
    let end = Time::ZERO + Duration::from_secs(seconds);
    let mut scheduled = vec![Time::MAX; flows.len()];
    while let Some(Reverse((now, index, happening))) = agenda.pop() {
        if now > end {
            break;
        }
        while flows[0].by_second.len() < (now.as_nanos() / 1_000_000_000) as usize {
            flows.iter_mut().for_each(Flow::end_second);
        }
        let flow = &mut flows[index];
        match happening {
            Happening::Ack(number) => flow.on_ack(now, number),
            Happening::Tick => flow.on_tick(now),
            Happening::Ready if scheduled[index] == now => scheduled[index] = Time::MAX,
            Happening::Ready => continue, // Pacing has become faster since.
        }
        let (acks, ready_at) = flow.send(now, link);
        agenda.extend(acks.into_iter().map(|(at, number)| Reverse((at, index, Happening::Ack(number)))));
        if let Some(ready_at) = ready_at
            && ready_at < scheduled[index]
        {
            scheduled[index] = ready_at;
            agenda.push(Reverse((ready_at, index, Happening::Ready)));
        }
    }
    flows.iter_mut().for_each(|flow| flow.by_second.push(flow.delivery.delivered()));
}

const HUNDRED_MEGABITS: u64 = 12_500_000;

fn single(kind: ControllerKind, link: &mut Bottleneck, seconds: u64) -> Flow {
    let mut flows = [Flow::new(kind, Time::ZERO)];
    run(link, &mut flows, seconds);
    let [flow] = flows;
    flow
}

#[test]
fn bbr_does_not_take_random_loss_for_congestion() {
    for (loss, share) in [(0.0, 95), (0.01, 90), (0.05, 85), (0.15, 65)] {
        let mut link = Bottleneck::new(HUNDRED_MEGABITS, 750_000, ms(60), loss);
        let flow = single(ControllerKind::Bbr, &mut link, 20);
        let rate = flow.rate(3, 20);
        assert!(rate * 100 >= HUNDRED_MEGABITS * share, "{rate} B/s at {loss}");
        assert_eq!(flow.timeouts, 0);
    }
}

#[test]
fn bbr_fills_fast_and_slow_paths_without_standing_queues() {
    for (rate, rtt) in [(125_000, ms(200)), (1_250_000, ms(5)), (125_000_000, ms(2))] {
        let queue = rate * 4 * rtt.as_millis() as u64 / 1_000 + 20_000;
        let mut link = Bottleneck::new(rate, queue, rtt, 0.0);
        let mut flow = Flow::new(ControllerKind::Bbr, Time::ZERO);
        run(&mut link, core::slice::from_mut(&mut flow), 8);
        let reached = flow.rate(4, 8);
        assert!(reached * 100 >= rate * 90, "{reached} of {rate} B/s");
        // A quarter more for a round trip, and a few packets, is what the cycle may queue.
        let packets = Duration::from_nanos(16 * MSS * 1_000_000_000 / rate);
        assert!(flow.worst_rtt[1] <= rtt * 3 / 2 + packets, "{:?} over {rtt:?}", flow.worst_rtt[1]);
    }
}

#[test]
fn bbr_does_not_forget_the_rate_while_it_looks_at_the_bare_round_trip() {
    // After ten seconds without one as short as the first: for 200 ms, which are many rounds of a short path.
    for (rate, rtt) in [(125_000_000, ms(2)), (12_500_000, ms(5)), (12_500_000, ms(10))] {
        let queue = rate * 4 * rtt.as_millis() as u64 / 1_000 + 20_000;
        let mut link = Bottleneck { detour: rtt / 4, ..Bottleneck::new(rate, queue, rtt, 0.0) };
        let flow = single(ControllerKind::Bbr, &mut link, 14);
        let reached: Vec<u64> = (4..14).map(|second| flow.rate(second, second + 1) * 100 / rate).collect();
        assert!(reached.iter().all(|percent| *percent >= 80), "{reached:?} % of {rate} B/s, {rtt:?}");
        assert!(reached.iter().any(|percent| *percent < 93), "{reached:?}: it has not looked");
    }
}

#[test]
fn bbr_learns_the_rate_of_the_path_from_bursts_that_fill_it() {
    // Cameras: up to half of the path's rate, in frames that leave within one round trip if they may. Start-up ends in the
    // middle of one frame or another.
    let path = 5 * HUNDRED_MEGABITS;
    for burst in (1_200..2_000).step_by(100) {
        let mut link = Bottleneck::new(path, 1_250_000, ms(20), 0.01);
        let mut flow = Flow { burst: Some(burst), ..Flow::new(ControllerKind::Bbr, Time::ZERO) };
        run(&mut link, core::slice::from_mut(&mut flow), 20);
        let (sent, delivered) = (flow.next * MSS, flow.delivery.delivered() + flow.in_flight);
        let pace = flow.control.pacing_rate().expect("a pace");
        let lost = sent - delivered;
        assert!(lost * 100 < sent * 3 / 2, "{lost} of {sent} bytes lost, {pace} B/s");
        assert!((path * 7 / 10..path * 13 / 10).contains(&pace), "{pace} B/s");
    }
}

#[test]
fn bbr_paces_what_never_fills_the_path() {
    // Small pictures, an eighth of the path's rate, for most of which the queue has room: start-up never ends.
    for rtt in [60, 150].map(ms) {
        let mut link = Bottleneck::new(2_500_000, 20 * MSS, rtt, 0.0);
        let mut flow = Flow { burst: Some(24), ..Flow::new(ControllerKind::Bbr, Time::ZERO) };
        run(&mut link, core::slice::from_mut(&mut flow), 20);
        let lost = flow.next * MSS - flow.delivery.delivered() - flow.in_flight;
        assert!(lost * 100 < flow.next * MSS, "{lost} of {} bytes lost over {rtt:?}", flow.next * MSS);
    }
}

#[test]
fn bbr_is_bounded_where_a_fifth_is_lost_for_long() {
    // Four flows over a queue far too small for them: the bound keeps what is lost in check.
    let mut link = Bottleneck::new(HUNDRED_MEGABITS, 20_000, ms(40), 0.0);
    let mut flows: Vec<_> = (0..4).map(|n| Flow::new(ControllerKind::Bbr, Time::ZERO + ms(37 * n))).collect();
    run(&mut link, &mut flows, 20);
    let delivered: u64 = flows.iter().map(|flow| flow.rate(5, 20)).sum();
    let sent: u64 = flows.iter().map(|flow| flow.next * MSS).sum();
    let arrived: u64 = flows.iter().map(|flow| flow.delivery.delivered()).sum();
    assert!(delivered * 100 >= HUNDRED_MEGABITS * 80, "{delivered} B/s");
    assert!((sent - arrived) * 100 < sent * 25, "{} of {sent} bytes lost", sent - arrived);
}

#[test]
fn bbr_keeps_the_rate_of_a_path_that_loses_as_much_as_was_said() {
    let reached = |loss, kind, queue| {
        let mut link = Bottleneck::new(HUNDRED_MEGABITS, queue, ms(60), loss);
        let flow = single(kind, &mut link, 20);
        assert_eq!(flow.timeouts, 0);
        let lost = flow.next * MSS - flow.delivery.delivered() - flow.in_flight;
        (flow.rate(3, 20) * 100 / HUNDRED_MEGABITS, lost * 100 / (flow.next * MSS))
    };
    for (loss, percent, share) in [(0.25, 30, 55), (0.3, 30, 48), (0.4, 50, 35), (0.5, 50, 25), (0.1, 50, 78)] {
        let (rate, _) = reached(loss, ControllerKind::LossyBbr { percent }, 750_000);
        assert!(rate >= share, "{rate} % of the path at {loss}");
    }
    let (rate, _) = reached(0.3, ControllerKind::Bbr, 750_000);
    assert!(rate < 25, "nobody said it: {rate} % of the path");
    // Said of a path that loses nothing by itself.
    for queue in [3_000, 20_000, 100_000, 750_000] {
        let (rate, lost) = reached(0.0, ControllerKind::LossyBbr { percent: 50 }, queue);
        assert!(rate >= 93 && lost <= 7, "{rate} % of the path, {lost} % lost, a queue of {queue}");
    }
}

#[test]
fn bbr_recovers_from_a_dead_path() {
    let mut link = Bottleneck::new(HUNDRED_MEGABITS, 750_000, ms(60), 1.0);
    let mut flow = Flow::new(ControllerKind::Bbr, Time::ZERO);
    run(&mut link, core::slice::from_mut(&mut flow), 4);
    assert!(flow.timeouts >= 2 && flow.control.window() == 4 * MSS);
    let ack = ack_of(Time::ZERO + Duration::from_secs(5), 10 * MSS, ms(60));
    flow.control.on_ack(&ack);
    assert!(flow.control.window() > 4 * MSS, "the first acknowledgement ends it");
}

#[test]
fn bbr_lowers_its_bound_at_marks_and_lifts_it_again() {
    let mut link = Bottleneck::new(HUNDRED_MEGABITS, 750_000, ms(60), 0.0);
    let mut flow = Flow::new(ControllerKind::Bbr, Time::ZERO);
    run(&mut link, core::slice::from_mut(&mut flow), 5);
    let before = flow.control.window();
    let mut now = Time::ZERO + Duration::from_secs(5);
    let delivered = flow.delivery.delivered();
    let mut ack = |flow: &mut Flow, step: u64| {
        now += ms(60);
        let mut ack = ack_of(now, delivered + step * 750_000, ms(60));
        ack.delivered_at_send = delivered + (step - 1) * 750_000;
        ack.acked_bytes = 750_000;
        ack.delivery_rate = Some(HUNDRED_MEGABITS);
        ack.in_flight_after = 700_000;
        flow.control.on_ack(&ack);
    };
    flow.control.on_ecn(Time::ZERO, 3);
    ack(&mut flow, 1);
    let marked = flow.control.window();
    assert!(marked < before, "{marked} of {before}");
    assert!(marked >= 740_000, "never below what the path holds");
    (2..30).for_each(|step| ack(&mut flow, step));
    assert!(flow.control.window() > marked);
}

#[test]
fn cubic_fills_a_clean_path() {
    let mut link = Bottleneck::new(HUNDRED_MEGABITS, 750_000, ms(60), 0.0);
    let flow = single(ControllerKind::Cubic, &mut link, 20);
    assert!(flow.rate(5, 20) * 100 >= HUNDRED_MEGABITS * 93, "{} B/s", flow.rate(5, 20));
    assert_eq!(flow.timeouts, 0);
}

#[test]
fn two_cubic_flows_converge() {
    let mut link = Bottleneck::new(HUNDRED_MEGABITS, 400_000, ms(30), 0.0);
    let mut flows =
        [Flow::new(ControllerKind::Cubic, Time::ZERO), Flow::new(ControllerKind::Cubic, Time::ZERO + ms(10_000))];
    run(&mut link, &mut flows, 60);
    let (first, second) = (flows[0].rate(40, 60), flows[1].rate(40, 60));
    assert!((first + second) * 100 >= HUNDRED_MEGABITS * 93, "{first} + {second}");
    assert!(first.max(second) * 10 <= first.min(second) * 16, "{first} against {second}");
}

fn ack_of(now: Time, delivered: u64, rtt: Duration) -> AckSample {
    AckSample {
        now,
        acked_bytes: MSS,
        rtt: Some(rtt),
        delivered,
        delivered_at_send: delivered.saturating_sub(10 * MSS),
        sent_at: Time::from_nanos(now.as_nanos().saturating_sub(rtt.as_nanos() as u64)),
        delivery_rate: None,
        app_limited: false,
        in_flight_after: 1 << 30,
    }
}

fn loss_at(now: Time, sent_at: Time) -> LossSample {
    LossSample { now, noticed_at: now, lost_bytes: MSS, sent_at, in_flight_after: 0 }
}

#[test]
fn cubic_reduces_once_a_round_trip_and_remembers_its_peak() {
    let mut cubic = Cubic::new(MSS);
    let mut now = Time::ZERO + ms(100);
    for step in 0..90 {
        cubic.on_ack(&ack_of(now, (step + 1) * MSS, ms(200)));
    }
    let peak = cubic.window();
    assert_eq!(peak, 100 * MSS, "slow start adds what is acknowledged");
    let sent_at = now;
    now += ms(200);
    cubic.on_loss(&loss_at(now, sent_at));
    assert_eq!(cubic.window(), 70 * MSS);
    cubic.on_loss(&loss_at(now + ms(10), sent_at));
    assert_eq!(cubic.window(), 70 * MSS, "the same flight");

    // It comes back to the peak after K = cbrt(30 / 0.4) seconds and lingers there.
    let k = Duration::from_secs_f64((30.0_f64 / 0.4).cbrt());
    let mut windows = Vec::new();
    let start = now;
    while now.since(start) < k + ms(2_500) {
        now += ms(2);
        cubic.on_ack(&ack_of(now, 1 << 30, ms(200)));
        windows.push((now.since(start), cubic.window()));
    }
    let at = |when: Duration| windows.iter().find(|(at, _)| *at >= when).map(|(_, window)| *window / MSS);
    assert!((96..=101).contains(&at(k).expect("reached")), "{:?}", at(k));
    assert!((99..=112).contains(&at(k + ms(2_000)).expect("reached")), "{:?}", at(k + ms(2_000)));

    cubic.on_loss(&loss_at(now, now));
    cubic.on_timeout(now);
    assert_eq!(cubic.window(), 2 * MSS);
    assert!(cubic.in_slow_start());
}

#[test]
fn cubic_takes_what_was_lost_before_a_timeout_for_part_of_it() {
    let mut cubic = Cubic::new(MSS);
    let at = |millis| Time::ZERO + ms(millis);
    for step in 0..90 {
        cubic.on_ack(&ack_of(at(100), (step + 1) * MSS, ms(200)));
    }
    cubic.on_timeout(at(300));
    cubic.on_timeout(at(500));
    // Of what was sent after the first.
    cubic.on_loss(&loss_at(at(600), at(400)));
    for step in 90..200 {
        cubic.on_ack(&ack_of(at(800), (step + 1) * MSS, ms(200)));
    }
    // Slow start, as far as the first time-out left it.
    assert_eq!(cubic.window() / MSS, 70);
}

fn late(control: &mut Cubic, now: Time, noticed_at: Time, bytes: u64) {
    control.on_spurious_loss(&SpuriousLoss { now, noticed_at, bytes });
}

#[test]
fn cubic_takes_a_reduction_back_when_all_has_arrived_that_it_was_for() {
    let (mut control, at) = (Cubic::new(MSS), |millis| Time::ZERO + ms(millis));
    control.on_ack(&AckSample { acked_bytes: 86_000, ..ack_of(at(100), 86_000, ms(50)) });
    assert_eq!(control.window(), 100_000);
    control.on_loss(&loss_at(at(110), at(60)));
    control.on_loss(&loss_at(at(112), at(62)));
    assert_eq!((control.window(), control.in_slow_start()), (70_000, false));
    late(&mut control, at(120), at(110), MSS);
    assert_eq!(control.window(), 70_000, "the other may be lost");
    late(&mut control, at(121), at(112), MSS);
    assert_eq!((control.window(), control.in_slow_start()), (100_000, true));
    control.on_loss(&loss_at(at(122), at(75)));
    assert_eq!(control.window(), 70_000, "which left before, but is none of those");
    late(&mut control, at(123), at(112), MSS);
    late(&mut control, at(123), at(50), 1 << 40);
    assert_eq!(control.window(), 70_000, "nothing was reduced for those any more");
}

#[test]
fn cubic_takes_reductions_back_in_any_order_and_only_those_that_were_for_nothing() {
    for order in [[110, 170], [170, 110]] {
        let (mut control, at) = (Cubic::new(MSS), |millis| Time::ZERO + ms(millis));
        control.on_ack(&AckSample { acked_bytes: 86_000, ..ack_of(at(100), 86_000, ms(50)) });
        control.on_loss(&loss_at(at(110), at(60)));
        control.on_loss(&loss_at(at(170), at(120)));
        assert_eq!(control.window(), 49_000);
        late(&mut control, at(180), at(order[0]), MSS);
        assert_eq!(control.window(), if order[0] == 110 { 79_000 } else { 70_000 });
        assert!(!control.in_slow_start(), "the other one stands");
        late(&mut control, at(181), at(order[1]), MSS);
        assert_eq!((control.window(), control.in_slow_start()), (100_000, true));
    }
}

#[test]
fn cubic_takes_a_time_out_back_for_whatever_arrives_of_what_it_was_for() {
    let (mut control, at) = (Cubic::new(MSS), |millis| Time::ZERO + ms(millis));
    control.on_ack(&AckSample { acked_bytes: 86_000, ..ack_of(at(100), 86_000, ms(50)) });
    control.on_timeout(at(400));
    control.on_timeout(at(800));
    assert_eq!(control.window(), 2 * MSS);
    late(&mut control, at(810), at(800), MSS);
    assert_eq!((control.window(), control.in_slow_start()), (100_000, true));
    control.on_ecn(at(900), 1);
    late(&mut control, at(910), at(900), MSS);
    assert_eq!(control.window(), 70_000, "a mark is no loss");
}

#[test]
fn bbr_starts_up_again_where_nothing_was_lost() {
    let mut control = Bbr::new(MSS, Time::ZERO);
    let (mut now, mut delivered) = (Time::ZERO, 0);
    for step in 0..4 {
        now += ms(40);
        delivered += 200 * MSS;
        if step > 0 {
            control.on_loss(&LossSample { lost_bytes: 100 * MSS, ..loss_at(now, now) });
        }
        control.on_ack(&AckSample {
            acked_bytes: 200 * MSS,
            delivered_at_send: delivered - 200 * MSS,
            delivery_rate: Some(7_000_000 << step),
            in_flight_after: 400 * MSS,
            ..ack_of(now, delivered, ms(40))
        });
    }
    assert!(!control.starts_up());
    control.on_spurious_loss(&SpuriousLoss { now, noticed_at: now, bytes: 300 * MSS });
    assert!(control.starts_up());
}

#[test]
fn cubic_makes_room_when_it_loses_below_its_peak() {
    let mut cubic = Cubic::new(MSS);
    let at = |millis| Time::ZERO + ms(millis);
    for step in 0..90 {
        cubic.on_ack(&ack_of(at(100), (step + 1) * MSS, ms(200)));
    }
    cubic.on_loss(&loss_at(at(300), at(100)));
    cubic.on_loss(&loss_at(at(600), at(500)));
    assert_eq!(cubic.window(), 49 * MSS);
    // The second loss came at 70 packets, below the peak of 100: the curve is flat at 85 % of the 70.
    let k = Duration::from_secs_f64(((59.5 - 49.0) / 0.4_f64).cbrt());
    let mut now = at(800);
    let end = now + k;
    while now < end {
        now += ms(4);
        cubic.on_ack(&ack_of(now, 1 << 30, ms(200)));
    }
    assert!((57..=61).contains(&(cubic.window() / MSS)), "{}", cubic.window() / MSS);
}

#[test]
fn cubic_leaves_slow_start_when_the_round_trip_grows() {
    let mut cubic = Cubic::new(MSS);
    let mut delivered = 0;
    let mut round = |cubic: &mut Cubic, rtt| {
        let (before, sent_after) = (cubic.window(), delivered);
        for _ in 0..10 {
            delivered += MSS;
            let mut ack = ack_of(Time::ZERO + ms(1_000), delivered, rtt);
            ack.delivered_at_send = sent_after;
            cubic.on_ack(&ack);
        }
        (cubic.window() - before) / MSS
    };
    assert_eq!(round(&mut cubic, ms(50)), 10);
    assert_eq!(round(&mut cubic, ms(53)), 10, "less than an eighth more");
    round(&mut cubic, ms(62));
    assert_eq!(round(&mut cubic, ms(62)), 2, "a quarter of what is acknowledged");
    assert_eq!(round(&mut cubic, ms(50)) / 2, 2, "it was a false alarm: fast again from the eighth sample on");
    round(&mut cubic, ms(70));
    (0..4).for_each(|_| assert!(round(&mut cubic, ms(70)) > 0 && cubic.in_slow_start()));
    round(&mut cubic, ms(70));
    assert!(!cubic.in_slow_start(), "five rounds later it is over, without any loss");
}

#[test]
fn cubic_answers_marks_like_a_loss_but_once_a_round_trip() {
    let mut cubic = Cubic::new(MSS);
    let now = Time::ZERO + ms(500);
    cubic.on_ack(&ack_of(now, MSS, ms(50)));
    let before = cubic.window();
    cubic.on_ecn(now, 0);
    assert_eq!(cubic.window(), before);
    cubic.on_ecn(now, 1);
    assert_eq!(cubic.window(), before * 7 / 10);
    cubic.on_ecn(now + ms(20), 5);
    assert_eq!(cubic.window(), before * 7 / 10);
    cubic.on_ecn(now + ms(60), 5);
    assert!(cubic.window() < before * 7 / 10);
}

#[test]
fn cubic_does_not_grow_a_window_that_is_not_used() {
    let mut cubic = Cubic::new(MSS);
    let before = cubic.window();
    let mut ack = ack_of(Time::ZERO + ms(50), MSS, ms(50));
    ack.in_flight_after = 0;
    cubic.on_ack(&ack);
    ack.in_flight_after = 1 << 30;
    ack.app_limited = true;
    cubic.on_ack(&ack);
    assert_eq!(cubic.window(), before);
}

#[test]
fn cubic_grows_from_the_smallest_of_windows() {
    let mut cubic = Cubic::new(MSS);
    let mut now = Time::ZERO;
    for _ in 0..20 {
        now += ms(200);
        cubic.on_loss(&loss_at(now, now));
    }
    assert_eq!((cubic.window(), cubic.in_slow_start()), (2 * MSS, false));
    let mut delivered = 0;
    for _ in 0..200 {
        now += ms(40);
        // As many packets as fit, and each that is acknowledged makes room for another.
        for _ in 0..cubic.window() / MSS {
            delivered += MSS;
            let in_flight_after = cubic.window() / MSS * MSS - MSS;
            cubic.on_ack(&AckSample { in_flight_after, ..ack_of(now, delivered, ms(40)) });
        }
    }
    assert!(cubic.window() > 20 * MSS, "{} bytes after 8 s without a loss", cubic.window());
}

#[test]
fn the_delivery_rate_is_that_of_the_slower_of_sending_and_acknowledging() {
    let mut delivery = DeliveryRate::new();
    let at = |millis| Time::ZERO + ms(millis);
    // Ten packets over 10 ms, acknowledged all at once: sending was slower than acknowledging.
    let stamps: Vec<_> = (0..10).map(|n| delivery.on_sent(at(n), 1_000, n * 1_000)).collect();
    for stamp in &stamps {
        delivery.on_packet_acked(at(20), 1_000, stamp);
    }
    let sample = delivery.finish(at(20), None, 0).expect("ten packets");
    assert_eq!((sample.acked_bytes, sample.delivered, sample.delivered_at_send), (10_000, 10_000, 0));
    assert_eq!(sample.delivery_rate, Some(500_000), "10 kB in 20 ms");
    assert_eq!(sample.sent_at, at(9));
    assert_eq!(delivery.finish(at(21), None, 0), None);

    // Acknowledgements that come in a burst do not make the path look faster than it was fed.
    let mut burst = DeliveryRate::new();
    let first = burst.on_sent(at(0), 1_000, 0);
    let second = burst.on_sent(at(90), 1_000, 1_000);
    burst.on_packet_acked(at(100), 1_000, &first);
    burst.finish(at(100), None, 1_000).expect("one packet");
    let third = burst.on_sent(at(100), 1_000, 1_000);
    burst.on_packet_acked(at(102), 1_000, &second);
    burst.on_packet_acked(at(102), 1_000, &third);
    let sample = burst.finish(at(102), None, 0).expect("two packets");
    assert_eq!(sample.delivery_rate, Some(20_000), "2 kB sent over 100 ms");

    // Silence is not part of the next flight, and application limited samples say so.
    delivery.on_app_limited(0);
    let stamp = delivery.on_sent(at(1_000), 1_000, 0);
    delivery.on_packet_acked(at(1_010), 1_000, &stamp);
    let sample = delivery.finish(at(1_010), Some(ms(10)), 0).expect("one packet");
    assert_eq!((sample.delivery_rate, sample.app_limited), (Some(100_000), true));
    assert!(!delivery.app_limited(), "what was limited has been delivered");
}

//= X-23 test
#[test]
fn fixed_never_moves() {
    let mut fixed = Fixed::new(70_000);
    fixed.on_ack(&ack_of(Time::ZERO + ms(50), MSS, ms(50)));
    fixed.on_loss(&loss_at(Time::ZERO + ms(60), Time::ZERO));
    fixed.on_timeout(Time::ZERO + ms(70));
    fixed.on_ecn(Time::ZERO + ms(80), 7);
    assert_eq!((fixed.window(), fixed.pacing_rate()), (70_000, None));
}

#[test]
fn names_are_read_as_they_are_written() {
    for kind in [
        ControllerKind::Fixed { window: u64::MAX },
        ControllerKind::Fixed { window: 65_536 },
        ControllerKind::Cubic,
        ControllerKind::Bbr,
        ControllerKind::LossyBbr { percent: 1 },
        ControllerKind::LossyBbr { percent: 50 },
    ] {
        assert_eq!(kind.to_string().parse(), Ok(kind));
        assert_eq!(kind.build(MSS, Time::ZERO).name(), kind.name());
    }
    for text in
        ["", "reno", "cubic:5", "fixed:", "fixed:0", "fixed:-1", "bbr:", "bbr:0%", "bbr:51%", "bbr:30", "bbr:300%"]
    {
        assert_eq!(text.parse::<ControllerKind>(), Err(UnknownController));
    }
}

proptest! {
    #[test]
    fn no_report_breaks_a_controller(
        reports in prop::collection::vec((0_u8..5, any::<u64>(), any::<u64>(), any::<u64>(), any::<bool>()), 1..80),
        mss in prop_oneof![Just(0), 1_u64..70_000],
    ) {
        let lossy = ControllerKind::LossyBbr { percent: 50 };
        for kind in [ControllerKind::Fixed { window: 5 }, ControllerKind::Cubic, ControllerKind::Bbr, lossy] {
            let mut control = kind.build(mss, Time::ZERO);
            for &(which, a, b, c, flag) in &reports {
                let now = Time::from_nanos(a);
                match which {
                    0 => control.on_sent(now, b, c),
                    1 => control.on_ack(&AckSample {
                        now,
                        acked_bytes: b,
                        rtt: flag.then_some(Duration::from_nanos(c)),
                        delivered: c,
                        delivered_at_send: b,
                        sent_at: Time::from_nanos(b),
                        delivery_rate: (!flag).then_some(a),
                        app_limited: flag,
                        in_flight_after: c,
                    }),
                    2 => control.on_loss(&LossSample {
                        now, noticed_at: now, lost_bytes: b, sent_at: Time::from_nanos(c), in_flight_after: a,
                    }),
                    4 => control.on_spurious_loss(&SpuriousLoss { now, noticed_at: Time::from_nanos(b), bytes: c }),
                    3 => control.on_timeout(now),
                    _ => control.on_ecn(now, b),
                }
                let least = if control.name() == "fixed" { 5 } else { 2 * mss };
                prop_assert!(control.window() >= least);
                prop_assert!(control.pacing_rate() != Some(0), "0 would be no limit");
            }
        }
    }
}
