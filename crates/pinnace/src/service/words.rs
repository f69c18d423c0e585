//! The properties of a service, a word each: `loss=5%`. The one place that knows how they are written; the short text, the
//! URI and TOML only differ in what stands between the words.
//!
//! Always true: what [`pairs`] says of a service, [`service_of`] makes the same service of; a word that is not understood
//! is named, with what would have been, and with a known one that is near.

use super::{Checksum, Direction, Pattern, Preference, Receivers, Reliability, Service, joined, units};
use crate::vrp::Contract;
use std::fmt;
use std::ops::Range;

/// Why a text is no service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// The word that is wrong, as it was written.
    pub word: String,
    /// What is wrong with it.
    pub problem: String,
    /// What is allowed in its place.
    pub allowed: String,
    /// What may have been meant.
    pub near: Option<String>,
}

impl Malformed {
    pub(super) fn new(word: &str, problem: &str, allowed: &str) -> Self {
        Self { word: word.to_owned(), problem: problem.to_owned(), allowed: allowed.to_owned(), near: None }
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { word, problem, allowed, near } = self;
        write!(f, "`{word}`: {problem}")?;
        if let Some(near) = near {
            write!(f, "; did you mean `{near}`?")?;
        }
        if !allowed.is_empty() {
            write!(f, " (allowed: {allowed})")?;
        }
        Ok(())
    }
}

impl std::error::Error for Malformed {}

/// A property of a service.
#[derive(Debug)]
pub struct Property {
    /// The word for it.
    pub name: &'static str,
    /// What values it may have.
    pub allowed: &'static str,
    /// What it means.
    pub meaning: &'static str,
    /// Values of which one may be meant.
    values: &'static [&'static str],
    set: fn(&mut Draft, &str) -> Result<(), String>,
    said: fn(&Service) -> Option<String>,
}

/// A service of which not everything has been read.
#[derive(Debug, Default)]
struct Draft {
    service: Service,
    loss: Option<Loss>,
    run: Option<u64>,
    floor: Option<u8>,
    critical: Vec<Range<u64>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Loss {
    /// In 255ths; not 0.
    Step(u8),
    Nothing,
    Anything,
}

const YES_NO: &[&str] = &["yes", "no"];

/// Every property there is, in the order in which they are written.
pub const PROPERTIES: &[Property] = &[
    Property {
        name: "loss",
        allowed: "0, a share like 5%, or any",
        meaning: "how much of a message may be lost: nothing, a share of any of its windows, or everything (best effort)",
        values: &["any"],
        set: |draft, text| {
            draft.loss = Some(match text {
                "any" => Loss::Anything,
                _ => match step(text)? {
                    (0, share) if share > 0.0 => {
                        return Err("is less than a 510th, which counts as nothing; say 0 or at least 0.2%".to_owned());
                    }
                    (0, _) => Loss::Nothing,
                    (step, _) => Loss::Step(step),
                },
            });
            Ok(())
        },
        said: |service| match &service.reliability {
            Reliability::Full => None,
            Reliability::Bounded(contract) => Some(percent(contract.clone().into_terms().rate.unwrap_or(0))),
            Reliability::BestEffort => Some("any".to_owned()),
        },
    },
    Property {
        name: "run",
        allowed: "bytes like 4KiB, or any",
        meaning: "how much of it may be lost in a row",
        values: &["any"],
        set: |draft, text| {
            draft.run = Some(if text == "any" { u64::MAX } else { units::bytes(text)? });
            Ok(())
        },
        said: |service| terms(service)?.run_bytes.filter(|&run| run != u64::MAX).map(units::of_bytes),
    },
    Property {
        name: "critical",
        allowed: "ranges of bytes like 0..1KiB, with commas between them",
        meaning: "which bytes of a message may not be lost",
        values: &[],
        set: |draft, text| {
            draft.critical = text.split(',').map(units::byte_range).collect::<Result<_, _>>()?;
            Ok(())
        },
        said: |service| {
            let ranges: Vec<_> = terms(service)?.critical.iter().map(units::of_byte_range).collect();
            (!ranges.is_empty()).then(|| ranges.join(","))
        },
    },
    Property {
        name: "floor",
        allowed: "a share like 1%",
        meaning: "how much may be lost while the path is not congested",
        values: &[],
        set: |draft, text| {
            draft.floor = Some(step(text)?.0);
            Ok(())
        },
        said: |service| terms(service)?.floor.map(percent),
    },
    Property {
        name: "size",
        allowed: "bytes like 2MB",
        meaning: "a typical message, or write",
        values: &[],
        set: |draft, text| {
            draft.service.size = Some(units::bytes(text)?);
            Ok(())
        },
        said: |service| service.size.map(units::of_bytes),
    },
    Property {
        name: "largest",
        allowed: "bytes like 4MB",
        meaning: "the largest message",
        values: &[],
        set: |draft, text| {
            draft.service.largest = Some(units::bytes(text)?);
            Ok(())
        },
        said: |service| service.largest.map(units::of_bytes),
    },
    Property {
        name: "deadline",
        allowed: "a time like 50ms",
        meaning: "when a message is too late to be of use",
        values: &[],
        set: |draft, text| {
            draft.service.deadline = Some(units::duration(text)?);
            Ok(())
        },
        said: |service| service.deadline.map(units::of_duration),
    },
    Property {
        name: "lifespan",
        allowed: "a time like 200ms",
        meaning: "when the sender drops a message that has not arrived",
        values: &[],
        set: |draft, text| {
            draft.service.lifespan = Some(units::duration(text)?);
            Ok(())
        },
        said: |service| service.lifespan.map(units::of_duration),
    },
    Property {
        name: "rate",
        allowed: "bits a second like 200mbit",
        meaning: "what is sent on average",
        values: &[],
        set: |draft, text| {
            draft.service.rate = Some(units::bit_rate(text)?);
            Ok(())
        },
        said: |service| service.rate.map(units::of_bit_rate),
    },
    Property {
        name: "burst",
        allowed: "bytes like 64KiB",
        meaning: "what may leave at once, beside the rate",
        values: &[],
        set: |draft, text| {
            draft.service.burst = Some(units::bytes(text)?);
            Ok(())
        },
        said: |service| service.burst.map(units::of_bytes),
    },
    Property {
        name: "priority",
        allowed: "0 (most urgent) to 255",
        meaning: "which connection of this process goes first",
        values: &[],
        set: |draft, text| {
            draft.service.priority = Some(text.parse().map_err(|_| "is no priority".to_owned())?);
            Ok(())
        },
        said: |service| service.priority.map(|priority| priority.to_string()),
    },
    Property {
        name: "multicast",
        allowed: "a number of receivers, or a group like 239.1.2.3:7000",
        meaning: "to how many, or to which group",
        values: &[],
        set: |draft, text| {
            let receivers = match (text.parse::<u32>(), text.parse()) {
                (Ok(0), _) => return Err("has no receiver".to_owned()),
                (Ok(count), _) => Receivers::Many(count),
                (_, Ok(group)) => Receivers::Group(group),
                _ => return Err("is neither a number nor an address with a port".to_owned()),
            };
            if matches!(receivers, Receivers::Group(group) if !group.ip().is_multicast()) {
                return Err("is no multicast address; they begin with 224. to 239., or ff".to_owned());
            }
            draft.service = std::mem::take(&mut draft.service).receivers(receivers);
            Ok(())
        },
        said: |service| match service.receivers {
            Receivers::One => None,
            Receivers::Many(count) => Some(count.to_string()),
            Receivers::Group(group) => Some(group.to_string()),
        },
    },
    Property {
        name: "pattern",
        allowed: "messages, stream, transaction",
        meaning: "what is exchanged: messages, bytes, or one request and its response",
        values: &["messages", "stream", "transaction"],
        set: |draft, text| {
            draft.service.pattern = match text {
                "messages" => Pattern::Messages,
                "stream" => Pattern::Stream,
                "transaction" => Pattern::Transaction,
                _ => return Err("is no pattern".to_owned()),
            };
            Ok(())
        },
        said: |service| match service.pattern {
            Pattern::Messages => None,
            Pattern::Stream => Some("stream".to_owned()),
            Pattern::Transaction => Some("transaction".to_owned()),
        },
    },
    Property {
        name: "order",
        allowed: "yes, no",
        meaning: "whether messages are delivered in the order in which they were sent",
        values: YES_NO,
        set: |draft, text| {
            draft.service.order = yes(text)?;
            Ok(())
        },
        said: |service| (!service.order).then(|| "no".to_owned()),
    },
    Property {
        name: "in-place",
        allowed: "yes, no",
        meaning: "whether a message must reach the application's memory without a copy in user space",
        values: YES_NO,
        set: |draft, text| {
            draft.service.in_place = yes(text)?;
            Ok(())
        },
        said: |service| service.in_place.then(|| "yes".to_owned()),
    },
    Property {
        name: "checksum",
        allowed: "none, internet",
        meaning: "what must protect the bytes from end to end",
        values: &["none", "internet"],
        set: |draft, text| {
            draft.service.checksum = match text {
                "none" => Checksum::None,
                "internet" => Checksum::Internet,
                _ => return Err("is no checksum".to_owned()),
            };
            Ok(())
        },
        said: |service| (service.checksum == Checksum::None).then(|| "none".to_owned()),
    },
    Property {
        name: "prefer",
        allowed: "latency, throughput",
        meaning: "what matters more",
        values: &["latency", "throughput"],
        set: |draft, text| {
            draft.service.preference = match text {
                "latency" => Preference::Latency,
                "throughput" => Preference::Throughput,
                _ => return Err("cannot be preferred".to_owned()),
            };
            Ok(())
        },
        said: |service| (service.preference == Preference::Throughput).then(|| "throughput".to_owned()),
    },
    Property {
        name: "direction",
        allowed: "one-way, duplex",
        meaning: "which way messages go",
        values: &["one-way", "duplex"],
        set: |draft, text| {
            draft.service.direction = match text {
                "one-way" => Direction::OneWay,
                "duplex" => Direction::Duplex,
                _ => return Err("is no direction".to_owned()),
            };
            Ok(())
        },
        said: |service| (service.direction == Direction::Duplex).then(|| "duplex".to_owned()),
    },
    Property {
        name: "path",
        allowed: "host, cluster, internet",
        meaning: "what kind of network lies between the peers; found out from the address unless said",
        values: &["host", "cluster", "internet"],
        set: |draft, text| {
            draft.service.path = Some(text.parse().map_err(|_| "is no kind of path".to_owned())?);
            Ok(())
        },
        said: |service| service.path.map(|class| class.name().to_owned()),
    },
];

/// The contract of a service that has one.
fn terms(service: &Service) -> Option<pinnace_vrp::Terms> {
    match &service.reliability {
        Reliability::Bounded(contract) => Some(contract.clone().into_terms()),
        _ => None,
    }
}

/// A share in the protocol's steps, 255ths, and itself.
fn step(text: &str) -> Result<(u8, f64), String> {
    let share = units::share(text)?;
    Ok(((share * 255.0).round() as u8, share))
}

/// The shortest percentage that is just this step.
fn percent(rate: u8) -> String {
    let exact = f64::from(rate) * 100.0 / 255.0;
    let rounded = [format!("{exact:.0}%"), format!("{exact:.1}%")];
    rounded.into_iter().find(|text| step(text).is_ok_and(|(step, _)| step == rate)).unwrap_or(format!("{exact}%"))
}

fn yes(text: &str) -> Result<bool, String> {
    match text {
        "yes" | "true" => Ok(true),
        "no" | "false" => Ok(false),
        _ => Err("is neither yes nor no".to_owned()),
    }
}

/// `loss=5%` as its two sides.
pub(super) fn pair(word: &str) -> (&str, Option<&str>) {
    match word.split_once('=') {
        Some((name, value)) => (name.trim(), Some(value.trim())),
        None => (word.trim(), None),
    }
}

/// What is said of a service, word by word.
pub(super) fn pairs(service: &Service) -> impl Iterator<Item = (&'static str, String)> {
    PROPERTIES.iter().filter_map(move |property| Some((property.name, (property.said)(service)?)))
}

/// The service of which these words are said.
pub(super) fn service_of<'a>(words: impl Iterator<Item = (&'a str, Option<&'a str>)>) -> Result<Service, Malformed> {
    let mut draft = Draft::default();
    let mut said: Vec<&'static str> = Vec::new();
    for (name, value) in words {
        let Some(property) = PROPERTIES.iter().find(|property| property.name == name) else {
            return Err(unknown(name, value));
        };
        let Some(value) = value.filter(|value| !value.is_empty()) else {
            return Err(Malformed::new(name, "has no value", property.allowed));
        };
        let word = format!("{name}={value}");
        if said.contains(&property.name) {
            return Err(Malformed::new(&word, &format!("{name} is said twice"), ""));
        }
        said.push(property.name);
        (property.set)(&mut draft, value).map_err(|problem| {
            let near = nearest(value, property.values.iter().copied()).map(|value| format!("{name}={value}"));
            Malformed { near, ..Malformed::new(&word, &problem, property.allowed) }
        })?;
    }
    draft.finish()
}

impl Draft {
    /// Checks what the words say together.
    fn finish(self) -> Result<Service, Malformed> {
        let Self { service, loss, run, floor, critical } = self;
        let Service { size, largest, rate, burst, .. } = service;
        if let (Some(size), Some(largest)) = (size, largest)
            && size > largest
        {
            let word = format!("largest={}", units::of_bytes(largest));
            return Err(Malformed::new(&word, "is smaller than a typical message", "at least the size"));
        }
        if let (Some(burst), None) = (burst, rate) {
            let word = format!("burst={}", units::of_bytes(burst));
            return Err(Malformed::new(&word, "needs a rate beside it", "rate=200mbit"));
        }
        let beside = [
            run.map(|run| ("run", if run == u64::MAX { "any".to_owned() } else { units::of_bytes(run) })),
            floor.map(|floor| ("floor", percent(floor))),
            critical.first().map(|range| ("critical", units::of_byte_range(range))),
        ];
        let step = match loss {
            Some(Loss::Step(step)) => step,
            _ => {
                if let Some((name, value)) = beside.into_iter().flatten().next() {
                    let problem = "says what may be lost, and needs a share beside it";
                    return Err(Malformed::new(&format!("{name}={value}"), problem, "loss=5%"));
                }
                return Ok(if loss == Some(Loss::Anything) { service.best_effort() } else { service });
            }
        };
        if run == Some(0) {
            return Err(Malformed::new("run=0", "lets nothing be lost", "at least a byte, any, or loss=0"));
        }
        if let Some(floor) = floor
            && floor > step
        {
            let word = format!("floor={}", percent(floor));
            return Err(Malformed::new(&word, "is above the share that may be lost", "at most the loss"));
        }
        let mut contract = Contract::new().loss_rate(step).run_bytes(run.unwrap_or(u64::MAX));
        if let Some(floor) = floor {
            contract = contract.adaptive_from_percent(f64::from(floor) * 100.0 / 255.0);
        }
        for range in joined(critical) {
            contract = contract.critical(range);
        }
        Ok(service.contract(contract))
    }
}

/// A name that no property has.
fn unknown(name: &str, value: Option<&str>) -> Malformed {
    let names: Vec<&str> = PROPERTIES.iter().map(|property| property.name).collect();
    let near = nearest(name, names.iter().copied());
    let word = value.map_or(name.to_owned(), |value| format!("{name}={value}"));
    let near = near.map(|name| value.map_or(name.to_owned(), |value| format!("{name}={value}")));
    Malformed { near, ..Malformed::new(&word, "is no property of a service", &names.join(", ")) }
}

/// What is as good as the same: a letter in three may be wrong, or the end be missing.
fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_ascii_lowercase().replace('_', "-");
    let is_begun = |known: &str| word.len() >= 3 && known.starts_with(&word);
    let near = known.filter(|known| is_begun(known) || strsim::osa_distance(&word, known) <= (word.len() / 3).max(1));
    let near = near.map(|known| (strsim::jaro_winkler(&word, known), known));
    near.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, known)| known)
}
