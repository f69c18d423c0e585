//! What would change the choice: the smallest single changes of a service after which another method is taken, or none.
//!
//! Every property is tried by itself: left out, with each of its other values, and, where it is a number, further and
//! further away until the choice is another one; then the way back is halved until the border is known to 5 %.

use super::{Direction, Method, Path, Pattern, Receivers, Reliability, Selection, Service, choose, units};
use crate::vrp::Contract;
use std::fmt;
use std::time::Duration;

/// A change of a service, and what would be chosen then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// What would be different, as it is said in a service: `order=no`, `size=48KiB or less`, `without multicast`.
    pub change: String,
    /// What would be taken; `None`: no method would fit any more.
    pub method: Option<Method>,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let method = self.method.map_or("no method", Method::name);
        write!(f, "{}: {method}", self.change)
    }
}

/// Steps away from the value that was said: doublings and halvings.
const STEPS: i32 = 24;
/// Halvings of the last step, until the border is known to 5 %.
const HALVINGS: usize = 4;

/// The smallest single changes that would change the choice.
///
/// ```
/// use pinnace::service::{Path, PathClass, Selection, what_would_change};
/// let service = "pattern=stream size=1MiB".parse()?;
/// let changes = what_would_change(&service, &Path::of_class(PathClass::Internet), &Selection::default());
/// assert!(changes.iter().any(|change| change.to_string() == "pattern=messages: zcrp"), "{changes:?}");
/// # Ok::<(), pinnace::service::Malformed>(())
/// ```
pub fn what_would_change(service: &Service, path: &Path, selection: &Selection) -> Vec<Change> {
    let chosen = |service: &Service| choose(service, path, selection).ok().map(|choice| choice.offer.method);
    let now = chosen(service);
    let mut changes = Vec::new();
    for (change, other) in switches(service) {
        let method = chosen(&other);
        // That something is asked for which nobody can is no way to another method.
        if method != now && method.is_some() {
            changes.push(Change { change, method });
        }
    }
    for quantity in quantities(service, path) {
        for grows in [true, false] {
            changes.extend(quantity.border(service, grows, now, &chosen));
        }
    }
    changes
}

/// A service with one thing different that has no size.
fn switches(service: &Service) -> Vec<(String, Service)> {
    let with = |change: &str, other: Service| (change.to_owned(), other);
    let other = || service.clone();
    let mut all = Vec::new();
    if service.reliability != Reliability::Full {
        all.push(with("loss=0", other().reliability(Reliability::Full)));
    }
    if service.reliability != Reliability::BestEffort {
        all.push(with("loss=any", other().best_effort()));
    }
    if service.reliability == Reliability::Full {
        all.push(with("loss=5%", other().contract(Contract::new().loss_percent(5.0))));
    }
    if let Reliability::Bounded(contract) = &service.reliability {
        let terms = contract.clone().into_terms();
        let rate = Contract::new().loss_rate(terms.rate.unwrap_or(0));
        let run = terms.run_bytes.unwrap_or(u64::MAX);
        let without_run = terms.critical.iter().cloned().fold(rate.clone(), Contract::critical);
        if run != u64::MAX {
            all.push(with("without run", other().contract(without_run)));
        }
        if !terms.critical.is_empty() {
            all.push(with("without critical", other().contract(rate.run_bytes(run))));
        }
    }
    let without = [
        ("without deadline", Service { deadline: None, ..other() }),
        ("without lifespan", Service { lifespan: None, ..other() }),
        ("without burst", Service { burst: None, ..other() }),
        (
            if service.burst.is_some() { "without rate and burst" } else { "without rate" },
            Service { rate: None, burst: None, ..other() },
        ),
        ("without priority", Service { priority: None, ..other() }),
        ("without multicast", Service { receivers: Receivers::One, ..other() }),
        ("without in-place", other().in_place(false)),
    ];
    all.extend(
        without.into_iter().filter(|(_, without)| without != service).map(|(change, other)| with(change, other)),
    );
    let patterns = [
        ("pattern=messages", Pattern::Messages),
        ("pattern=stream", Pattern::Stream),
        ("pattern=transaction", Pattern::Transaction),
    ];
    let patterns = patterns.into_iter().filter(|(_, pattern)| *pattern != service.pattern);
    all.extend(patterns.map(|(change, pattern)| with(change, other().pattern(pattern))));
    if service.receivers == Receivers::One {
        all.push(with("multicast=2", other().receivers(Receivers::Many(2))));
    }
    if service.order {
        all.push(with("order=no", other().order(false)));
    }
    if !service.in_place {
        all.push(with("in-place=yes", other().in_place(true)));
    }
    if service.checksum != super::Checksum::None {
        all.push(with("checksum=none", other().checksum(super::Checksum::None)));
    }
    match service.direction {
        Direction::OneWay => all.push(with("direction=duplex", other().direction(Direction::Duplex))),
        Direction::Duplex => all.push(with("direction=one-way", other().direction(Direction::OneWay))),
    }
    all.push(match service.preference {
        super::Preference::Latency => with("prefer=throughput", other().prefer(super::Preference::Throughput)),
        super::Preference::Throughput => with("prefer=latency", other().prefer(super::Preference::Latency)),
    });
    all
}

/// A property that has a size, and where to begin.
struct Quantity {
    name: &'static str,
    from: f64,
    /// The greatest value that is tried.
    most: f64,
    set: fn(&Service, f64) -> Service,
    say: fn(f64) -> String,
}

fn quantities(service: &Service, path: &Path) -> Vec<Quantity> {
    let size = service.typical_bytes() as f64;
    let longest = units::LONGEST.as_secs_f64() * 1e9;
    let mut all = vec![
        Quantity {
            name: "size",
            from: size.max(1.0),
            most: 1e12,
            // What is the largest moves along, if it was not said by itself, and where it would be the smaller one.
            set: |service, value| {
                let size = value as u64;
                let largest = service.largest.map(|largest| largest.max(size));
                Service { size: Some(size), largest, ..service.clone() }
            },
            say: |value| units::of_bytes(value as u64),
        },
        Quantity {
            name: "deadline",
            from: service.deadline.map_or(path.round_trip.as_nanos() as f64 * 64.0, |time| time.as_nanos() as f64),
            most: longest,
            set: |service, value| service.clone().deadline(Duration::from_nanos(value as u64)),
            say: |value| units::of_duration(Duration::from_nanos(value as u64)),
        },
        Quantity {
            name: "rate",
            from: service.rate.unwrap_or(1_000_000) as f64,
            most: units::FASTEST as f64,
            set: |service, value| service.clone().rate(value as u64),
            say: |value| units::of_bit_rate(value as u64),
        },
    ];
    if let Some(burst) = service.burst {
        all.push(Quantity {
            name: "burst",
            from: burst.max(1) as f64,
            most: 1e12,
            set: |service, value| service.clone().burst(value as u64),
            say: |value| units::of_bytes(value as u64),
        });
    }
    if let Reliability::Bounded(contract) = &service.reliability {
        all.push(Quantity {
            name: "loss",
            from: f64::from(contract.clone().into_terms().rate.unwrap_or(0)) * 100.0 / 255.0,
            most: 100.0,
            set: |service, value| {
                let Reliability::Bounded(contract) = &service.reliability else { return service.clone() };
                service.clone().contract(contract.clone().loss_percent(value))
            },
            say: |value| units::of_share(value / 100.0),
        });
    }
    all
}

/// Two digits, so that it can be said; away from `from`, so that it is still beyond the border.
fn rounded(value: f64, grows: bool) -> f64 {
    let unit = 10f64.powi(value.log10().floor() as i32 - 1);
    let steps = value / unit;
    (if grows { (steps - 1e-9).ceil() } else { (steps + 1e-9).floor() }) * unit
}

impl Quantity {
    /// The nearest value on one side at which the choice is another one.
    fn border(
        &self,
        service: &Service,
        grows: bool,
        now: Option<Method>,
        chosen: &impl Fn(&Service) -> Option<Method>,
    ) -> Option<Change> {
        let method = |value: f64| chosen(&(self.set)(service, value));
        // Where nothing was said the first value may already be a change; then it is not one of this side.
        if method(self.from) != now {
            return None;
        }
        let factor: f64 = if grows { 2.0 } else { 0.5 };
        let in_range = |value: f64| (1.0..=self.most).contains(&value);
        let mut steps = (1..=STEPS).map(|step| self.from * factor.powi(step)).take_while(|value| in_range(*value));
        let mut beyond = steps.find(|value| method(*value) != now)?;
        let mut before = beyond / factor;
        for _ in 0..HALVINGS {
            let between = (before * beyond).sqrt();
            if method(between) == now { before = between } else { beyond = between }
        }
        let value = Some(rounded(beyond, grows)).filter(|value| in_range(*value) && method(*value) != now);
        let value = value.unwrap_or(beyond);
        let method = method(value);
        let side = if grows { "or more" } else { "or less" };
        Some(Change { change: format!("{}={} {side}", self.name, (self.say)(value)), method })
    }
}
