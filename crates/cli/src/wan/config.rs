//! What the emulated link is like: the vocabulary of the simulator's [`NetworkConfig`], with the round trip time instead
//! of the delay of one way.
//!
//! Always true: a [`Config`] says nothing that the emulator does not do; what a simulator can do beyond that is refused.

use clap::Args;
use pinnace_sim::{NetworkConfig, QueueSize};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Bytes of the largest packet unless told otherwise.
const MTU: u32 = 1500;
/// What a queue without an end holds in fact, as time on the line: memory has one.
const ENDLESS_QUEUE: Duration = Duration::from_secs(2);
/// The rate that memory is made for where none is given.
const ENDLESS_RATE: u64 = 10_000_000_000;

/// The settings as options of a command.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "The link")]
pub(crate) struct Settings {
    /// Bits per second of each direction, headers of IP counted, like 100mbit; endless unless given
    #[arg(long, allow_hyphen_values = true)]
    rate: Option<String>,
    /// Round trip time of an empty link, half of it each way, like 60ms
    #[arg(long, allow_hyphen_values = true)]
    rtt: Option<String>,
    /// Independent losses in both directions, like 1%
    #[arg(long, allow_hyphen_values = true)]
    loss: Option<String>,
    /// Losses in bursts in both directions (Gilbert-Elliott): chances to enter and to leave the bad state, like 0.1%:30%
    #[arg(long, value_name = "ENTER:LEAVE", allow_hyphen_values = true)]
    burst_loss: Option<String>,
    /// Losses from the far to the near end, if not the same: independent ones; 0 for none
    #[arg(long, value_name = "LOSS", allow_hyphen_values = true)]
    loss_back: Option<String>,
    /// The most that is added to the delay of a packet, evenly spread, like 5ms; keeps the order
    #[arg(long, allow_hyphen_values = true)]
    jitter: Option<String>,
    /// Packets held back, and for how long (1 ms unless given), like 1% or 1%:5ms
    #[arg(long, value_name = "SHARE[:TIME]", allow_hyphen_values = true)]
    reorder: Option<String>,
    /// The queue before the bottleneck of each direction: bytes, like 64KiB, or times rate x RTT, like 1bdp (the default)
    #[arg(long, allow_hyphen_values = true)]
    queue: Option<String>,
    /// Bytes of the largest IP packet
    #[arg(long, value_name = "BYTES")]
    mtu: Option<u32>,
    /// Decides which packets are lost, delayed and held back, counted one by one in each direction
    #[arg(long, value_parser = crate::units::seed, allow_negative_numbers = true)]
    seed: Option<u64>,
}

impl Settings {
    /// What they say, or why they say nothing.
    pub(crate) fn config(&self) -> Result<Config, String> {
        let mut items = Vec::new();
        let mut item = |key: &str, value: Option<String>| items.extend(value.map(|value| format!("{key}={value}")));
        item("rate", self.rate.clone());
        item("rtt", self.rtt.clone());
        item("loss", self.loss.clone());
        item("burst-loss", self.burst_loss.as_ref().map(|value| value.replace(',', ":")));
        item("loss-back", self.loss_back.clone());
        item("jitter", self.jitter.clone());
        item("reorder", self.reorder.clone());
        item("queue", self.queue.clone());
        item("mtu", self.mtu.map(|value| value.to_string()));
        item("seed", self.seed.map(|value| value.to_string()));
        items.join(",").parse()
    }
}

/// A link between two ends.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Config {
    /// From the near to the far end.
    pub(super) forward: NetworkConfig,
    /// From the far to the near end.
    pub(super) back: NetworkConfig,
    /// Bytes of the largest packet.
    pub(super) mtu: u32,
    pub(super) seed: u64,
}

impl Config {
    /// The round trip time of an empty link.
    pub(crate) fn rtt(&self) -> Duration {
        self.forward.delay + self.back.delay
    }

    /// Bytes that the windows of a transport have to hold for a full link: what is under way, and a full queue.
    pub(crate) fn window_bytes(&self) -> u64 {
        under_way(&self.forward, self.rtt()).saturating_add(queue_bytes(&self.forward))
    }
}

fn rate(direction: &NetworkConfig) -> u64 {
    direction.rate.unwrap_or(ENDLESS_RATE)
}

fn under_way(direction: &NetworkConfig, time: Duration) -> u64 {
    (rate(direction) as f64 / 8.0 * time.as_secs_f64()) as u64
}

/// Bytes of the queue before the line; of one without an end, what it holds in fact.
pub(super) fn queue_bytes(direction: &NetworkConfig) -> u64 {
    match (direction.rate, direction.queue_bytes()) {
        (_, Some(bytes)) => bytes,
        (Some(_), None) => under_way(direction, ENDLESS_QUEUE),
        (None, None) => 0,
    }
}

/// Bytes that can be inside one direction at a time.
pub(super) fn capacity(direction: &NetworkConfig) -> u64 {
    let held = if direction.reorder > 0.0 { direction.reorder_by } else { Duration::ZERO };
    under_way(direction, direction.delay + direction.jitter + held).saturating_add(queue_bytes(direction))
}

impl FromStr for Config {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (mut both, mut back_loss) = (Vec::new(), None);
        let (mut rtt, mut seed) = (Duration::ZERO, 1);
        // Whatever a percentage or a time is, the simulator's parser knows.
        let one = |key: &str, value: &str, item: &str| {
            let parsed = format!("{key}={value}").parse::<NetworkConfig>();
            parsed.map_err(|error| error.to_string().replacen(&format!("`{key}={value}`"), &format!("`{item}`"), 1))
        };
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            let (key, value) = item.split_once('=').map_or((item, ""), |(key, value)| (key.trim(), value.trim()));
            match key {
                "rtt" => rtt = one("delay", value, item)?.delay,
                "loss-back" => back_loss = Some(one("loss", value, item)?.loss),
                "seed" => seed = value.parse().map_err(|_| format!("`{item}` is not a number, like seed=7"))?,
                "rate" | "loss" | "burst-loss" | "jitter" | "reorder" | "queue" | "mtu" => both.push(item),
                _ => {
                    return Err(format!(
                        "`{item}` is not a setting of the link (rate, rtt, loss, burst-loss, loss-back, jitter, reorder, \
                         queue, mtu, seed; written key=value)"
                    ));
                }
            }
        }
        let mut forward: NetworkConfig = both.join(",").parse().map_err(|error| format!("{error}"))?;
        forward.delay = rtt / 2;
        let mtu = forward.mtu.take().unwrap_or(MTU);
        // Linux gives up IPv6 below the first, and a TUN device does not take more than the second.
        if !(1280..=65_535).contains(&mtu) {
            return Err(format!("`mtu={mtu}` is not a size from 1280 to 65535 bytes"));
        }
        let mut back = forward.clone();
        back.delay = rtt - forward.delay;
        if let Some(loss) = back_loss {
            (back.loss, back.burst_loss) = (loss, None);
        }
        Ok(Self { forward, back, mtu, seed })
    }
}

impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nothing = NetworkConfig { queue: QueueSize::Bdp(1.0), ..NetworkConfig::default() };
        let rate = NetworkConfig { rate: self.forward.rate, ..nothing.clone() };
        let rtt = NetworkConfig { delay: self.rtt(), ..nothing.clone() };
        let rest = NetworkConfig { rate: None, delay: Duration::ZERO, ..self.forward.clone() };
        let mut items = vec![rate.to_string(), rtt.to_string().replace("delay", "rtt"), rest.to_string()];
        if (self.back.loss, self.back.burst_loss) != (self.forward.loss, self.forward.burst_loss) {
            let loss = NetworkConfig { loss: self.back.loss, ..nothing };
            let loss = if self.back.loss > 0.0 { loss.to_string() } else { "loss=0%".to_owned() };
            items.push(loss.replace("loss", "loss-back"));
        }
        if self.mtu != MTU {
            items.push(format!("mtu={}", self.mtu));
        }
        if self.seed != 1 {
            items.push(format!("seed={}", self.seed));
        }
        items.retain(|item| !item.is_empty());
        f.write_str(&items.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_textual_form_comes_back() {
        for text in [
            "",
            "rate=100mbit,rtt=60ms,loss=1%",
            "rate=1gbit,rtt=150ms,burst-loss=0.1%:30%,jitter=5ms,reorder=1%:2ms,queue=65536,loss-back=0%,mtu=9000,seed=7",
            "rate=1gbit,rtt=1ns,loss=5%,loss-back=1%,queue=2bdp",
        ] {
            let config: Config = text.parse().unwrap();
            assert_eq!(config.to_string().parse(), Ok(config), "{text}");
        }
        let config: Config = "rate=100mbit,rtt=60ms,loss=1%".parse().unwrap();
        assert_eq!(config.to_string(), "rate=100mbit,rtt=60ms,loss=1%");
        assert_eq!((config.rtt(), config.forward.queue_bytes()), (Duration::from_millis(60), Some(750_000)));
        assert_eq!((config.forward, config.mtu, config.seed), (config.back, 1500, 1));
    }

    #[test]
    fn a_queue_of_any_size_counts_as_what_it_is() {
        let config: Config = format!("rate=100mbit,rtt=60ms,queue={}", u64::MAX).parse().unwrap();
        assert_eq!((config.window_bytes(), capacity(&config.forward)), (u64::MAX, u64::MAX));
    }

    #[test]
    fn the_way_back_may_lose_less() {
        let config: Config = "loss=1%,burst-loss=1%:30%,loss-back=0".parse().unwrap();
        assert_eq!((config.forward.loss, config.back.loss), (0.01, 0.0));
        assert!(config.forward.burst_loss.is_some() && config.back.burst_loss.is_none());
    }

    #[test]
    fn nonsense_is_refused_with_a_reason() {
        for (text, about) in [
            ("rtt=60", "`rtt=60` is not a time"),
            ("loss-back=7", "`loss-back=7` is not a percentage"),
            ("loss=1", "`loss=1` is not a percentage"),
            ("delay=30ms", "`delay=30ms` is not a setting of the link"),
            ("duplicate=1%", "`duplicate=1%` is not a setting"),
            ("seed=-1", "`seed=-1` is not a number"),
            ("mtu=100", "`mtu=100` is not a size"),
            ("rate", "`rate` is not"),
        ] {
            let error = text.parse::<Config>().unwrap_err();
            assert!(error.starts_with(about), "{text}: {error}");
        }
    }

    #[test]
    fn memory_holds_the_queue_and_what_is_under_way() {
        let config: Config = "rate=1gbit,rtt=150ms".parse().unwrap();
        assert_eq!(capacity(&config.forward), 9_375_000 + 18_750_000);
        let config: Config = "rtt=10ms,queue=none".parse().unwrap();
        assert_eq!(capacity(&config.forward), 6_250_000, "10 Gbit/s are assumed, and nothing queues");
    }
}
