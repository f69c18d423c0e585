//! What a message costs: the one model by which methods are compared.
//!
//! A cost is an estimate, in microseconds, of the time from the call that sends a typical message to its delivery, and the
//! sum of
//!
//! | part | is |
//! |---|---|
//! | set-up | round trips and work before the first message, shared by 1,000 messages; all of it in a transaction |
//! | work | what both ends do: a constant, something for each byte, and for each packet; once for each receiver, if each gets its own copy |
//! | wire | the bits at the path's rate, with all headers and what is lost, if the rate is known |
//! | travel | half a round trip, and whole ones that the method waits for before data flow |
//! | repetition | the expected number of rounds until everything that must arrive has, at the path's loss; a round is a round trip, and the method's shortest time-out where a message is too short for a gap to show |
//! | wait | where a priority is wished and the method has none: one more message that is already on its way |
//!
//! A transaction is both ways. If throughput is preferred, travel and repetition are shared by the messages that are under
//! way meanwhile: as many as 2 MiB hold, at most 64.
//!
//! The expected rounds: of `n` packets that are lost with probability `p` each time, and must arrive, some are still missing after `k`
//! rounds with probability `1 - (1 - p^k)^n`; the rounds are the sum of that over all `k` from 1 on.
//!
//! The constants of [`Engine`] are rounded from docs/machines.md (one way, spinning, two cores), except those said to be
//! assumed. They order the methods; they predict nobody's machine.

use super::{Path, Pattern, Preference, Service};

/// Messages that share the set-up of a connection.
const MESSAGES: f64 = 1000.0;
/// Bytes under way that share a wait, if throughput is preferred.
const UNDER_WAY: f64 = 2_097_152.0;
/// At most so many messages share it.
const MOST_UNDER_WAY: f64 = 64.0;
/// Headers of UDP and IP.
pub(super) const UDP_HEADERS: f64 = 28.0;

/// What a message costs, in microseconds; see the [module](super) and the documentation of `pinnace explain`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// The share of setting up the connection.
    pub set_up: f64,
    /// The work of both ends.
    pub work: f64,
    /// The bits at the path's rate.
    pub wire: f64,
    /// Getting there.
    pub travel: f64,
    /// What is expected to be sent again.
    pub repetition: f64,
    /// Behind others.
    pub wait: f64,
    /// The share of travel and repetition that counts: others are under way meanwhile.
    pub shared_by: f64,
}

impl Cost {
    /// All of it: what methods are compared by.
    pub fn total(&self) -> f64 {
        self.set_up + self.work + self.wire + self.wait + (self.travel + self.repetition) / self.shared_by.max(1.0)
    }

    /// From the call that sends a message to its delivery, on a connection that is there.
    pub fn latency(&self) -> f64 {
        self.work + self.wire + self.wait + self.travel + self.repetition
    }
}

/// What is known of an implementation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Engine {
    /// Round trips before the first message.
    pub(super) set_up_round_trips: f64,
    /// Work before the first message, in microseconds.
    pub(super) set_up_us: f64,
    /// Work a message.
    pub(super) message_us: f64,
    /// Work a byte, in nanoseconds.
    pub(super) byte_ns: f64,
    /// Work a packet.
    pub(super) packet_us: f64,
    /// Bytes of a packet's own header.
    pub(super) header: f64,
    /// The shortest time-out, in microseconds.
    pub(super) time_out_us: f64,
}

/// 0.79 to 0.88 us for 16 bytes there and back; 6 to 16 GB/s written and read. Set-up (the daemon) is assumed.
pub(super) const SHARED_MEMORY: Engine = Engine {
    set_up_round_trips: 0.0,
    set_up_us: 200.0,
    message_us: 0.4,
    byte_ns: 0.1,
    packet_us: 0.0,
    header: 0.0,
    time_out_us: 0.0,
};

/// 8.0 us for 16 bytes there and back; 59.9 Gbit/s at 1 MiB; 16.9 Gbit/s where each packet crosses by itself.
pub(super) const ZCRP: Engine = Engine {
    set_up_round_trips: 1.0,
    set_up_us: 50.0,
    message_us: 4.0,
    byte_ns: 0.134,
    packet_us: 0.5,
    header: 28.0,
    time_out_us: 6_000.0,
};

/// 17.4 to 29.2 Gbit/s at 1 MiB, a quarter of TCP cubic over packets of 1,500 bytes. The work a message is assumed: a header,
/// its answer, and the data.
pub(super) const VRP: Engine = Engine {
    set_up_round_trips: 1.0,
    set_up_us: 50.0,
    message_us: 8.0,
    byte_ns: 0.35,
    packet_us: 0.6,
    header: 6.0,
    time_out_us: 10_000.0,
};

/// 17.7 to 19.5 us for a transaction; 19.8 Gbit/s in messages of 16 KiB, 10.1 in packets of 1,500 bytes.
pub(super) const XTP: Engine = Engine {
    set_up_round_trips: 0.0,
    set_up_us: 3.0,
    message_us: 6.0,
    byte_ns: 0.25,
    packet_us: 0.55,
    header: 32.0,
    time_out_us: 10_000.0,
};

/// 2.25 times TCP's 7.1 us for 16 bytes there and back; 0.69 of its 27 Gbit/s at 64 KiB.
pub(super) const QMP: Engine = Engine {
    set_up_round_trips: 1.0,
    set_up_us: 50.0,
    message_us: 8.0,
    byte_ns: 0.43,
    packet_us: 0.6,
    header: 32.0,
    time_out_us: 10_000.0,
};

/// Assumed: as XTP, which has the same machinery, with a block's bookkeeping. Not measured yet.
pub(super) const A1: Engine = Engine {
    set_up_round_trips: 1.0,
    set_up_us: 50.0,
    message_us: 6.0,
    byte_ns: 0.3,
    packet_us: 0.6,
    header: 32.0,
    time_out_us: 10_000.0,
};

/// How a method would carry a typical message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shipment {
    /// Bytes of data in a packet.
    pub(super) payload: f64,
    /// Bytes of headers below the method's own.
    pub(super) below: f64,
    /// Round trips before data flow.
    pub(super) waits: f64,
    /// Rounds of repetitions that are expected.
    pub(super) rounds: f64,
    /// Microseconds that a round takes beside its round trip.
    pub(super) round_us: f64,
    /// Copies that leave, one for each receiver that has its own.
    pub(super) copies: f64,
    /// Answers beside, each a packet's work.
    pub(super) answers: f64,
    /// Whether it orders connections by their priority.
    pub(super) orders_by_priority: bool,
}

/// Packets of a message.
pub(super) fn packets(size: f64, payload: f64) -> f64 {
    (size / payload.max(1.0)).ceil().max(1.0)
}

/// Rounds until all of `packets` have arrived, of which a share of `first` is to be repeated at first, and of the
/// repetitions a share of `loss` again.
pub(super) fn expected_rounds(packets: f64, first: f64, loss: f64) -> f64 {
    let mut missing = first;
    let mut rounds = 0.0;
    for _ in 0..1000 {
        let chance = -f64::exp_m1(packets * f64::ln_1p(-missing.min(0.999_999)));
        rounds += chance;
        missing *= loss;
        if chance < 1e-9 {
            break;
        }
    }
    rounds
}

/// What a typical message costs.
pub(super) fn estimate(service: &Service, path: &Path, engine: &Engine, shipment: &Shipment) -> Cost {
    let Shipment { payload, below, waits, rounds, round_us, copies, answers, orders_by_priority } = *shipment;
    let size = service.typical_bytes() as f64;
    let round_trip = path.round_trip_us();
    let packets = packets(size, payload);
    let is_transaction = service.pattern == Pattern::Transaction;
    let ways = if is_transaction { 2.0 } else { 1.0 };
    let set_up = engine.set_up_round_trips * round_trip + engine.set_up_us;
    let work = (engine.message_us + size * engine.byte_ns / 1e3 + packets * engine.packet_us) * copies
        + answers * engine.packet_us;
    let bytes = (size + packets * (engine.header + below)) * copies / (1.0 - path.share_lost());
    let wire = path.rate.map_or(0.0, |rate| bytes * 8.0 / rate.max(1) as f64 * 1e6);
    let shared_by = match service.preference {
        Preference::Latency => 1.0,
        Preference::Throughput => (UNDER_WAY / size.max(1.0)).clamp(1.0, MOST_UNDER_WAY),
    };
    let has_to_wait = service.priority.is_some() && !orders_by_priority;
    Cost {
        set_up: if is_transaction { set_up } else { set_up / MESSAGES },
        work: work * ways,
        wire: wire * ways,
        travel: (round_trip / 2.0 + waits * round_trip) * ways,
        repetition: rounds * (round_trip + round_us) * ways,
        wait: if has_to_wait { work + wire } else { 0.0 },
        shared_by,
    }
}

/// Bits a second that a method carries at this cost: the slower of its work and the wire.
pub(super) fn capacity(service: &Service, cost: &Cost) -> f64 {
    let ways = if service.pattern == Pattern::Transaction { 2.0 } else { 1.0 };
    service.typical_bytes().max(1) as f64 * 8.0 * 1e6 * ways / cost.work.max(cost.wire).max(1e-3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_expected_rounds_are_those_of_the_geometric_distribution() {
        assert_eq!(expected_rounds(1000.0, 0.0, 0.0), 0.0);
        assert!((expected_rounds(1.0, 0.5, 0.5) - 1.0).abs() < 1e-6, "1/2 + 1/4 + ...");
        assert!((expected_rounds(1.0, 0.01, 0.01) - 0.01 / 0.99).abs() < 1e-9);
        let many = expected_rounds(1400.0, 0.01, 0.01);
        assert!((1.1..1.2).contains(&many), "{many}");
        assert!(expected_rounds(1e12, 0.95, 0.95).is_finite());
    }

    #[test]
    fn a_transaction_pays_for_its_set_up_and_goes_both_ways() {
        let path = Path { rate: Some(8_000_000), ..Path::of_class(super::super::PathClass::Internet) };
        let shipment = Shipment {
            payload: 1000.0,
            below: UDP_HEADERS,
            waits: 0.0,
            rounds: 0.0,
            round_us: 0.0,
            copies: 1.0,
            answers: 0.0,
            orders_by_priority: false,
        };
        let message = estimate(&Service::new().size(1000), &path, &QMP, &shipment);
        assert!((message.set_up - 40.05).abs() < 1e-9 && message.travel == 20_000.0 && message.wait == 0.0);
        assert!((message.wire - 1060.0 / 0.99).abs() < 1e-6, "a byte a microsecond, and 1 % is lost: {message:?}");
        let service = Service::new().size(1000).pattern(Pattern::Transaction);
        let transaction = estimate(&service, &path, &QMP, &shipment);
        assert_eq!((transaction.set_up, transaction.travel), (40_050.0, 40_000.0));
        let wished = estimate(&Service::new().size(1000).priority(0), &path, &QMP, &shipment);
        assert_eq!(wished.wait, message.work + message.wire);
        assert!((wished.total() - message.total() - wished.wait).abs() < 1e-6);
        let throughput = Service::new().size(1000).prefer(Preference::Throughput);
        let shared = estimate(&throughput, &path, &QMP, &shipment);
        assert_eq!((shared.shared_by, shared.latency()), (64.0, message.latency()));
        assert!(shared.total() < message.total());
    }
}
