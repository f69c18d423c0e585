//! What one direction of a network is like, as plain data with a textual form.

use crate::nodes::GilbertElliott;
use core::fmt;
use core::str::FromStr;
use core::time::Duration;

/// How long the queue before the bottleneck is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum QueueSize {
    /// Endless.
    Unlimited,
    /// So many bytes.
    Bytes(u64),
    /// So many times what is under way on a full path: the rate times twice the delay. At least one full train, 65,535
    /// bytes.
    Bdp(f64),
}

/// One direction of a network; both are the same unless given apart.
///
/// The textual form is a list of `key=value`, in any order, everything optional:
///
/// | key | example | meaning |
/// |---|---|---|
/// | `rate` | `100mbit`, `2.5gbit` | bits per second, headers of IP and UDP counted |
/// | `queue` | `1bdp`, `64KiB`, `none` | queue before the bottleneck; `1bdp` unless given, `none` is endless |
/// | `ecn` | `50%` | marks packets when the queue is fuller than this |
/// | `delay`, `jitter` | `30ms`, `5ms` | one way; the jitter is added, evenly spread, and keeps the order |
/// | `loss` | `1%` | independent losses |
/// | `burst-loss` | `1%:30%[:LB[:LG]]` | Gilbert-Elliott: probability to enter the bad state, to leave it, loss in the bad state (100%) and in the good one (0%) |
/// | `train-loss` | `1%` | trains lost as a whole |
/// | `reorder` | `1%[:5ms]` | packets held back for a time (1 ms unless given) |
/// | `duplicate` | `0.1%` | packets that arrive twice |
/// | `corrupt` | `0.01%[:through]` | packets with flipped bits: dropped by the checksum, or let through |
/// | `mtu` | `1500` | largest IP packet |
/// | `mtu-change` | `1280@2s` | another limit from then on; may be repeated |
/// | `icmp` | `no` | an MTU that is exceeded drops silently; who is told of it lets the network cut the rest |
/// | `partition` | `2s..5s` | nothing passes from then until then; may be repeated |
/// | `adversary` | `1000` | injected datagrams a second from a third address |
///
/// ```
/// use pinnace_sim::NetworkConfig;
/// let config: NetworkConfig = "rate=100mbit,delay=30ms,loss=1%,burst-loss=1%:30%,queue=1bdp".parse()?;
/// assert_eq!(config.rate, Some(100_000_000));
/// assert_eq!(config.queue_bytes(), Some(750_000));
/// assert_eq!(config.to_string().parse::<NetworkConfig>()?, config);
/// # Ok::<(), pinnace_sim::ConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkConfig {
    /// Bits per second; endless if `None`.
    pub rate: Option<u64>,
    /// The queue before the bottleneck, where there is one.
    pub queue: QueueSize,
    /// Bytes that pass the bottleneck at once after a pause, as through a token bucket.
    pub bucket: u64,
    /// The share of the queue (0 to 1) beyond which packets are marked.
    pub ecn: Option<f64>,
    /// One way.
    pub delay: Duration,
    /// The most that is added to the delay.
    pub jitter: Duration,
    /// Probability of an independent loss.
    pub loss: f64,
    /// Losses in bursts.
    pub burst_loss: Option<GilbertElliott>,
    /// Probability that a train is lost as a whole.
    pub train_loss: f64,
    /// Probability that a packet is held back.
    pub reorder: f64,
    /// For how long.
    pub reorder_by: Duration,
    /// Probability that a packet arrives twice.
    pub duplicate: f64,
    /// Probability that a packet is damaged.
    pub corrupt: f64,
    /// Whether damaged packets go on.
    pub corrupt_through: bool,
    /// Bytes of the largest IP packet.
    pub mtu: Option<u32>,
    /// Other limits from then on, counted from the beginning of the simulation.
    pub mtu_changes: Vec<(Duration, u32)>,
    /// Whether the sender is told when a packet was too large.
    pub icmp: bool,
    /// When nothing passes: from, until.
    pub partitions: Vec<(Duration, Duration)>,
    /// Injected datagrams a second.
    pub adversary: Option<f64>,
}

impl Default for NetworkConfig {
    /// A perfect wire: endless rate, no delay, no loss.
    fn default() -> Self {
        Self {
            rate: None,
            queue: QueueSize::Bdp(1.0),
            bucket: 0,
            ecn: None,
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            loss: 0.0,
            burst_loss: None,
            train_loss: 0.0,
            reorder: 0.0,
            reorder_by: Duration::from_millis(1),
            duplicate: 0.0,
            corrupt: 0.0,
            corrupt_through: false,
            mtu: None,
            mtu_changes: Vec::new(),
            icmp: true,
            partitions: Vec::new(),
            adversary: None,
        }
    }
}

impl NetworkConfig {
    /// Bytes of the queue; `None` if it is endless or there is no bottleneck.
    pub fn queue_bytes(&self) -> Option<u64> {
        let rate = self.rate?;
        match self.queue {
            QueueSize::Unlimited => None,
            QueueSize::Bytes(bytes) => Some(bytes),
            QueueSize::Bdp(times) => {
                let product = rate as f64 / 8.0 * 2.0 * self.delay.as_secs_f64();
                Some(((product * times).round() as u64).max(65_535))
            }
        }
    }
}

/// A textual form that says nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    item: String,
    expected: &'static str,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not {}", self.item, self.expected)
    }
}

impl core::error::Error for ConfigError {}

const KEYS: &str = "a network setting (rate, queue, bucket, ecn, delay, jitter, loss, burst-loss, train-loss, reorder, duplicate, \
                    corrupt, mtu, mtu-change, icmp, partition, adversary; written key=value)";

impl FromStr for NetworkConfig {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let mut config = Self::default();
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            let error = |expected| ConfigError { item: item.to_owned(), expected };
            let (key, value) = item.split_once('=').ok_or_else(|| error(KEYS))?;
            let (key, value) = (key.trim(), value.trim());
            let percent = || probability(value).ok_or_else(|| error("a percentage, like 1%"));
            let time = || duration(value).ok_or_else(|| error("a time, like 30ms"));
            match key {
                "rate" => config.rate = Some(rate(value).ok_or_else(|| error("a rate above zero, like 100mbit"))?),
                "queue" => config.queue = queue(value).ok_or_else(|| error("a queue, like 1bdp, 64KiB or none"))?,
                "bucket" => config.bucket = bytes(value).ok_or_else(|| error("a size, like 5kB"))?,
                "ecn" => config.ecn = Some(percent()?),
                "delay" => config.delay = time()?,
                "jitter" => config.jitter = time()?,
                "loss" => config.loss = percent()?,
                "burst-loss" => config.burst_loss = Some(burst(value).ok_or_else(|| error("like 1%:30%"))?),
                "train-loss" => config.train_loss = percent()?,
                "reorder" => {
                    let (share, by) = value.split_once(':').map_or((value, None), |(share, by)| (share, Some(by)));
                    config.reorder = probability(share).ok_or_else(|| error("like 1% or 1%:5ms"))?;
                    if let Some(by) = by {
                        config.reorder_by = duration(by).ok_or_else(|| error("like 1%:5ms"))?;
                    }
                }
                "duplicate" => config.duplicate = percent()?,
                "corrupt" => {
                    config.corrupt_through = value.ends_with(":through");
                    let share = value.strip_suffix(":through").unwrap_or(value);
                    config.corrupt = probability(share).ok_or_else(|| error("like 1% or 1%:through"))?;
                }
                "mtu" => config.mtu = Some(mtu(value).ok_or_else(|| error("a size of at least 68 bytes"))?),
                "mtu-change" => {
                    let change = value.split_once('@').and_then(|(size, at)| Some((duration(at)?, mtu(size)?)));
                    config.mtu_changes.push(change.ok_or_else(|| error("like 1280@2s"))?);
                }
                "icmp" => {
                    config.icmp = match value {
                        "yes" => true,
                        "no" => false,
                        _ => return Err(error("yes or no")),
                    }
                }
                "partition" => {
                    let times = value.split_once("..").and_then(|(low, high)| Some((duration(low)?, duration(high)?)));
                    config
                        .partitions
                        .push(times.filter(|(low, high)| low <= high).ok_or_else(|| error("like 2s..5s"))?);
                }
                "adversary" => {
                    let rate = value.parse().ok().filter(|rate: &f64| rate.is_finite() && *rate > 0.0);
                    config.adversary = Some(rate.ok_or_else(|| error("datagrams a second, like 1000"))?);
                }
                _ => return Err(error(KEYS)),
            }
        }
        Ok(config)
    }
}

/// Splits `100mbit` into 100 and `mbit`.
fn number(text: &str) -> Option<(f64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let value: f64 = text[..end].parse().ok()?;
    value.is_finite().then_some((value, text[end..].trim()))
}

fn rate(text: &str) -> Option<u64> {
    let (value, unit) = number(text)?;
    let factor = match unit {
        "bit" | "" => 1.0,
        "kbit" => 1e3,
        "mbit" => 1e6,
        "gbit" => 1e9,
        _ => return None,
    };
    Some((value * factor).round()).filter(|&rate| (1.0..=1e15).contains(&rate)).map(|rate| rate as u64)
}

fn queue(text: &str) -> Option<QueueSize> {
    if text == "none" {
        return Some(QueueSize::Unlimited);
    }
    match number(text)? {
        (value, "bdp") => Some(QueueSize::Bdp(value)),
        _ => bytes(text).map(QueueSize::Bytes),
    }
}

fn bytes(text: &str) -> Option<u64> {
    let (value, unit) = number(text)?;
    let factor = match unit {
        "" | "B" => 1.0,
        "kB" => 1e3,
        "MB" => 1e6,
        "KiB" => 1024.0,
        "MiB" => 1_048_576.0,
        _ => return None,
    };
    Some((value * factor).round() as u64)
}

fn probability(text: &str) -> Option<f64> {
    let (value, unit) = number(text.trim())?;
    // Without the sign only nothing is clear: is 1 one percent, or all?
    let value = match unit {
        "%" => value / 100.0,
        "" if value == 0.0 => value,
        _ => return None,
    };
    (0.0..=1.0).contains(&value).then_some(value)
}

fn duration(text: &str) -> Option<Duration> {
    let (value, unit) = number(text.trim())?;
    let nanos = match unit {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "min" => 60e9,
        _ if value == 0.0 => 1.0,
        _ => return None,
    };
    // Beyond 2^53 ns a double is not exact, and nobody simulates a hundred days.
    Some(value * nanos).filter(|&nanos| nanos <= 9e15).map(|nanos| Duration::from_nanos(nanos.round() as u64))
}

fn mtu(text: &str) -> Option<u32> {
    text.trim().parse().ok().filter(|&bytes| bytes >= 68)
}

fn burst(text: &str) -> Option<GilbertElliott> {
    let parts: Vec<f64> = text.split(':').map(probability).collect::<Option<_>>()?;
    let (&[enter, leave], more) = parts.split_first_chunk::<2>()?;
    let mut model = GilbertElliott::new(enter, leave);
    match *more {
        [] => {}
        [loss_bad] => model.loss_bad = loss_bad,
        [loss_bad, loss_good] => (model.loss_bad, model.loss_good) = (loss_bad, loss_good),
        _ => return None,
    }
    Some(model)
}

impl fmt::Display for NetworkConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut items = Vec::new();
        let mut percent = |key: &str, value: f64| {
            if value > 0.0 {
                items.push(format!("{key}={}", Percent(value)));
            }
        };
        percent("loss", self.loss);
        percent("train-loss", self.train_loss);
        percent("duplicate", self.duplicate);
        if let Some(rate) = self.rate {
            items.push(format!("rate={}", Rate(rate)));
        }
        match self.queue {
            QueueSize::Unlimited => items.push("queue=none".to_owned()),
            QueueSize::Bytes(bytes) => items.push(format!("queue={bytes}")),
            QueueSize::Bdp(times) if times != 1.0 => items.push(format!("queue={times}bdp")),
            QueueSize::Bdp(_) => {}
        }
        if self.bucket > 0 {
            items.push(format!("bucket={}", self.bucket));
        }
        if let Some(share) = self.ecn {
            items.push(format!("ecn={}", Percent(share)));
        }
        if self.delay > Duration::ZERO {
            items.push(format!("delay={}", Span(self.delay)));
        }
        if self.jitter > Duration::ZERO {
            items.push(format!("jitter={}", Span(self.jitter)));
        }
        if let Some(GilbertElliott { enter, leave, loss_bad, loss_good }) = self.burst_loss {
            let states = match (loss_bad, loss_good) {
                (1.0, 0.0) => String::new(),
                _ => format!(":{}:{}", Percent(loss_bad), Percent(loss_good)),
            };
            items.push(format!("burst-loss={}:{}{states}", Percent(enter), Percent(leave)));
        }
        if self.reorder > 0.0 {
            items.push(format!("reorder={}:{}", Percent(self.reorder), Span(self.reorder_by)));
        }
        if self.corrupt > 0.0 {
            let through = if self.corrupt_through { ":through" } else { "" };
            items.push(format!("corrupt={}{through}", Percent(self.corrupt)));
        }
        items.extend(self.mtu.map(|mtu| format!("mtu={mtu}")));
        items.extend(self.mtu_changes.iter().map(|&(at, mtu)| format!("mtu-change={mtu}@{}", Span(at))));
        if !self.icmp {
            items.push("icmp=no".to_owned());
        }
        items.extend(self.partitions.iter().map(|&(low, high)| format!("partition={}..{}", Span(low), Span(high))));
        items.extend(self.adversary.map(|rate| format!("adversary={rate}")));
        f.write_str(&items.join(","))
    }
}

struct Percent(f64);
impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Fifteen digits: 7 % is not 7.000000000000001 %.
        let text = format!("{:.12}", self.0 * 100.0);
        write!(f, "{}%", text.trim_end_matches('0').trim_end_matches('.'))
    }
}

struct Rate(u64);
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            rate if rate.is_multiple_of(1_000_000_000) => write!(f, "{}gbit", rate / 1_000_000_000),
            rate if rate.is_multiple_of(1_000_000) => write!(f, "{}mbit", rate / 1_000_000),
            rate if rate.is_multiple_of(1000) => write!(f, "{}kbit", rate / 1000),
            rate => write!(f, "{rate}bit"),
        }
    }
}

struct Span(Duration);
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_nanos() {
            nanos if nanos.is_multiple_of(1_000_000_000) => write!(f, "{}s", nanos / 1_000_000_000),
            nanos if nanos.is_multiple_of(1_000_000) => write!(f, "{}ms", nanos / 1_000_000),
            nanos if nanos.is_multiple_of(1000) => write!(f, "{}us", nanos / 1000),
            nanos => write!(f, "{nanos}ns"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_textual_form_comes_back() {
        for text in [
            "",
            "rate=100mbit,delay=30ms,loss=1%,burst-loss=1%:30%,jitter=5ms,reorder=1%,duplicate=0.1%,corrupt=0.01%,\
             mtu=1500,queue=1bdp,train-loss=1%",
            "rate=2.5gbit, queue=64KiB, ecn=7%, mtu-change=1280@2s, mtu-change=576@3.5s, icmp=no",
            "burst-loss=1%:30%:50%:0.1%,reorder=3%:250us,corrupt=1%:through,partition=2s..5s,partition=7s..8s",
            "rate=9600bit,queue=none,bucket=1500,adversary=1000,delay=1min",
        ] {
            let config: NetworkConfig = text.parse().unwrap();
            assert_eq!(config.to_string().parse(), Ok(config), "{text}");
        }
        let config: NetworkConfig = "mtu-change=1280@2s,burst-loss=1%:30%:50%,reorder=3%:250us".parse().unwrap();
        assert_eq!(config.mtu_changes, [(Duration::from_secs(2), 1280)]);
        assert_eq!(config.burst_loss, Some(GilbertElliott { enter: 0.01, leave: 0.3, loss_bad: 0.5, loss_good: 0.0 }));
        assert_eq!(config.reorder_by, Duration::from_micros(250));
    }

    #[test]
    fn nonsense_is_refused_with_a_reason() {
        for text in [
            "rate",
            "rate=",
            "rate=0",
            "rate=fast",
            "loss=101%",
            "loss=-1%",
            "loss=NaN",
            "loss=1",
            "delay=30",
            "delay=1e9s",
            "delay=99999999999s",
            "colour=red",
            "mtu=20",
            "partition=5s..2s",
            "icmp=maybe",
            "adversary=0",
            "burst-loss=1%",
            "burst-loss=1%:2%:3%:4%:5%",
            "queue=1lot",
            "rate=100mbit;loss=1%",
        ] {
            let error = text.parse::<NetworkConfig>().unwrap_err();
            assert!(error.to_string().starts_with('`'), "{text}: {error}");
        }
    }

    #[test]
    fn a_queue_holds_at_least_a_train() {
        let config: NetworkConfig = "rate=1mbit".parse().unwrap();
        assert_eq!(config.queue_bytes(), Some(65_535));
        assert_eq!(NetworkConfig::default().queue_bytes(), None);
    }
}
