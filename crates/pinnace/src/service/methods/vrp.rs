//! VRP: the one method that bounds loss with a contract (specs/vrp.md).

use super::*;
use crate::vrp::{largest_packet, packet_bytes_of};
use pinnace_core::LossContract;
use pinnace_vrp::Terms;

/// What a receiver keeps at most, unless its limits say otherwise (V-R1).
const STORAGE: f64 = 268_435_456.0;
/// Packets of a frame at most (V-R1).
const PACKETS: f64 = 16_777_216.0;
/// Critical ranges that fit a header, about.
const RANGES: usize = 150;
/// Packets that may follow a frame's header without waiting for its answer.
const EARLY: f64 = 16.0;
/// Bytes that its pacing lets leave at once.
const BURST: u64 = 65_535;
/// A frame's header is not shorter (V-S4).
const LEAST: usize = 64;
/// Bytes that one system call sends.
const TRAIN: usize = 65_493;

pub(super) fn probe(service: &Service, path: &Path) -> Offer {
    let engine = cost::VRP;
    let mut verdict = Verdict::new(service, path);
    verdict.must(service.pattern != Pattern::Stream, || "carries frames, not a stream of bytes".to_owned());
    only_one(&mut verdict, service);
    datagrams(&mut verdict, path, LEAST);
    let terms = terms_of(service);
    let most = largest_packet(path.datagram);
    let bytes = packet_bytes_of(service.typical_bytes(), &terms, most, TRAIN);
    let payload = f64::from(bytes);
    largest(&mut verdict, service, (payload * PACKETS).min(STORAGE), "what a receiver keeps");
    let ranges = terms.critical.len();
    verdict
        .must(ranges <= RANGES, || format!("a header has room for about {RANGES} critical ranges, not for {ranges}"));
    if let Some(burst) = service.burst {
        let least = BURST.max(2 * u64::from(bytes));
        verdict.must(burst >= least, || format!("lets {least} bytes leave at once, more than {burst}"));
    }
    let loss = path.share_lost();
    let packets = cost::packets(service.typical_bytes() as f64, payload);
    let refused = refused(&terms, packets, bytes, loss);
    // Whatever the contract allows, something behind a loss has to arrive for it to be seen: the last packet must.
    let rounds = cost::expected_rounds(1.0, loss, loss).max(cost::expected_rounds(packets, refused, loss));
    let is_announced = service.foretold_bytes().is_some();
    let waits = if packets <= EARLY || is_announced { 0.0 } else { 1.0 };
    let round_us = round_us(packets, &engine);
    let shipment = Shipment { payload, waits, rounds, round_us, ..shipment(service, path, &engine) };
    let counted = count_of(packets, "packet");
    verdict.note(format!("{counted} of {bytes} bytes{}", contract_in_packets(&terms, bytes)));
    match service.reliability {
        Reliability::Full => verdict.note("a contract that lets nothing be lost"),
        Reliability::Bounded(_) | Reliability::BestEffort => {
            verdict
                .note(format!("of what the path loses {} is asked for again", units::of_share(share(refused, loss))));
        }
    }
    if packets > EARLY {
        verdict.note(if is_announced {
            "frames of a known size and rate are announced ahead"
        } else {
            "waits a round trip for the answer to the frame's header"
        });
    }
    if service.order && service.pattern == Pattern::Messages {
        verdict.note("frames overtake each other: the receiving end puts them in order");
    }
    if service.direction == Direction::Duplex || service.pattern == Pattern::Transaction {
        verdict.note("the way back is an association of its own");
    }
    verdict.offer(Method::Vrp, Mode::Frames, &engine, &shipment)
}

fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// The contract, in the engine's words.
fn terms_of(service: &Service) -> Terms {
    match &service.reliability {
        Reliability::Full => Terms::reliable(),
        Reliability::Bounded(contract) => contract.clone().into_terms(),
        Reliability::BestEffort => Terms { rate: Some(255), run_bytes: Some(u64::MAX), ..Terms::default() },
    }
}

fn contract_in_packets(terms: &Terms, bytes: u16) -> String {
    match terms.run_bytes {
        Some(run) if terms.rate.unwrap_or(0) > 0 && run != u64::MAX => {
            format!(", of which {} in a row may be lost", run / u64::from(bytes.max(1)))
        }
        _ => String::new(),
    }
}

/// The share of packets that is expected to be lost and asked for again: those beyond the rate, those that make a run too
/// long, and critical ones.
fn refused(terms: &Terms, packets: f64, bytes: u16, loss: f64) -> f64 {
    let contract = LossContract::of_bytes(
        terms.rate.unwrap_or(0),
        terms.run_bytes.unwrap_or(0),
        terms.critical.iter().cloned(),
        u32::from(bytes.max(1)),
    );
    // A quarter of a long frame, as the engine's windows are chosen.
    let window = (packets / 4.0).clamp(64.0, 16_384.0).min(packets.max(1.0));
    let most = f64::from(contract.max_lost(window as u32));
    if loss == 0.0 || most == 0.0 || contract.run == 0 {
        return loss;
    }
    let too_long = if contract.run == u8::MAX { 0.0 } else { loss.powi(i32::from(contract.run)) };
    let critical: f64 = contract.critical.iter().map(|range| (range.end - range.start) as f64).sum();
    loss * (too_long + beyond(most, window, loss) + critical / packets).min(1.0)
}

/// The probability that a loss finds the rate used up: Chernoff's bound, or the share above the rate.
fn beyond(most: f64, window: f64, loss: f64) -> f64 {
    let rate = most / window;
    if rate >= 1.0 {
        return 0.0;
    }
    if loss >= rate {
        return 1.0 - rate / loss + rate / loss * 0.5;
    }
    let divergence = rate * (rate / loss).ln() + (1.0 - rate) * ((1.0 - rate) / (1.0 - loss)).ln();
    f64::exp(-window * divergence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::{Selection, choose};

    #[test]
    fn it_is_what_bounded_loss_takes_on_a_path_that_loses() {
        let path = Path::of_class(PathClass::Internet);
        for text in [
            "loss=5% run=4KiB size=2MB rate=200mbit",
            "loss=5% run=4KiB critical=0..1KiB size=2MB rate=200mbit burst=64KiB deadline=50ms",
            "loss=10% size=100kB rate=10mbit lifespan=100ms",
        ] {
            let choice = choose(&text.parse().unwrap(), &path, &Selection::default()).unwrap();
            assert_eq!((choice.offer.method, choice.offer.mode), (Method::Vrp, Mode::Frames), "{text}");
        }
        let tight = "loss=5% run=4KiB size=2MB rate=200mbit deadline=50ms".parse().unwrap();
        let zcrp = Method::Zcrp.probe(&tight, &path);
        assert!(!zcrp.fits && zcrp.why[0].starts_with("expected after"), "{zcrp:?}");
    }

    #[test]
    fn the_looser_the_contract_the_less_is_asked_for_again() {
        let of = |text: &str, loss| {
            let terms = terms_of(&text.parse().unwrap());
            refused(&terms, 1000.0, 1466, loss)
        };
        assert_eq!(of("", 0.01), 0.01);
        assert_eq!(of("loss=any", 0.2), 0.0);
        let (tight, loose) = (of("loss=2% run=2KiB", 0.01), of("loss=10% run=16KiB", 0.01));
        assert!(loose < tight / 10.0 && tight < 0.01, "{loose} {tight}");
        let half = of("loss=5%", 0.1);
        assert!((0.05..0.1).contains(&half), "most of what is lost beyond the rate: {half}");
        assert!(of("loss=10% critical=0..1MB", 0.01) > 0.006, "two thirds are critical");
        for loss in [0.0, 1e-9, 0.5, 0.95] {
            assert!((0.0..=loss).contains(&of("loss=5% run=4KiB critical=0..1KiB", loss)));
        }
    }

    #[test]
    fn what_it_cannot_do_it_says() {
        let path = Path::of_class(PathClass::Internet);
        for text in ["pattern=stream", "multicast=2", "size=1GiB", "loss=5% rate=1mbit burst=1KiB"] {
            let offer = Method::Vrp.probe(&text.parse().unwrap(), &path);
            assert!(!offer.fits && offer.why.len() == 1, "{text}: {offer:?}");
        }
    }
}
