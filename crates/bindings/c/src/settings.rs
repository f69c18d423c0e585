//! The names of `zcrp_set` and `zcrp_get`.
//!
//! Settings are the process's, survive `fork`, and hold for what is opened after they were set. A setting that was never
//! set follows from the path when something is opened.

use libc::c_long;
use pinnace::zcrp::{Channel, Config, Options, Profile, UnitSize};
use pinnace::{ControllerKind, Idle};
use pinnace_core::Bbr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// A number with a name.
struct Setting {
    name: &'static str,
    low: i64,
    high: i64,
    write: fn(&mut Config, u64),
    read: fn(&Config) -> u64,
}

macro_rules! setting {
    ($name:literal, $low:expr, $high:expr, $field:ident as $kind:ty) => {
        Setting {
            name: $name,
            low: $low,
            high: $high,
            write: |config, value| config.$field = value as $kind,
            read: |config| config.$field as u64,
        }
    };
    ($name:literal, $low:expr, $high:expr, $field:ident in $unit:ident) => {
        Setting {
            name: $name,
            low: $low,
            high: $high,
            write: |config, value| config.$field = $unit * value as u32,
            read: |config| (config.$field.as_nanos() / $unit.as_nanos()) as u64,
        }
    };
}

const MILLIS: Duration = Duration::from_millis(1);
const MICROS: Duration = Duration::from_micros(1);
/// A day and an hour, so that every duration fits its type on every system.
const DAY_MS: i64 = 86_400_000;
const HOUR_US: i64 = 3_600_000_000 / 2;
const ANY: i64 = i64::MAX;
/// Percent that a path may be said to lose by itself.
const MOST_PATH_LOSS: i64 = Bbr::MOST_PATH_LOSS as i64;

static SETTINGS: &[Setting] = &[
    Setting {
        name: "unit_bytes",
        low: 29,
        high: 65_507,
        write: |config, value| config.unit_size = UnitSize::Fixed(value as usize),
        read: |config| match config.unit_size {
            UnitSize::Fixed(bytes) | UnitSize::Whole(bytes) | UnitSize::UpTo(bytes) => bytes as u64,
        },
    },
    setting!("control_bytes", 16, 65_504, control_bytes as usize),
    Setting {
        name: "rate",
        low: 1,
        high: ANY,
        write: |config, value| config.rate = Some(value),
        read: |config| config.rate.unwrap_or(0),
    },
    setting!("window_units", 1, 32_768, window_units as u32),
    setting!("window_bytes", 1, ANY, window_bytes as u64),
    setting!("ack_units", 1, 65_536, ack_units as u32),
    setting!("ack_bytes", 1, ANY, ack_bytes as u64),
    setting!("ack_delay_us", 1, HOUR_US, ack_delay in MICROS),
    setting!("reorder_units", 1, 65_536, reorder_units as u32),
    setting!("reorder_delay_us", 1, HOUR_US, reorder_delay in MICROS),
    setting!("request_interval_ms", 1, DAY_MS, request_interval in MILLIS),
    setting!("request_interval_max_ms", 1, DAY_MS, request_interval_max in MILLIS),
    setting!("idle_interval_ms", 1, DAY_MS, idle_interval in MILLIS),
    setting!("peer_timeout_ms", 1, DAY_MS, peer_timeout in MILLIS),
    setting!("timeout_floor_us", 1, HOUR_US, timeout_floor in MICROS),
    setting!("max_messages", 1, 1 << 24, max_messages as usize),
];

/// What is not a number of the engine's configuration.
const CONGESTION_FIXED: &str = "congestion_fixed";
const CONGESTION_CUBIC: &str = "congestion_cubic";
const CONGESTION_BBR: &str = "congestion_bbr";
const PROFILE_INTERNET: &str = "profile_internet";
const PROFILE_CLUSTER: &str = "profile_cluster";
const SPIN_US: &str = "spin_us";

/// What was set.
struct Chosen {
    numbers: [Option<u64>; SETTINGS.len()],
    congestion: Option<ControllerKind>,
    profile: Profile,
    idle: Idle,
}

static CHOSEN: Mutex<Chosen> = Mutex::new(Chosen {
    numbers: [None; SETTINGS.len()],
    congestion: None,
    profile: Profile::Auto,
    idle: Idle::ADAPTIVE,
});

/// Why a setting was not set.
pub(crate) enum Unset {
    Unknown,
    OutOfRange,
}

fn position(name: &str) -> Option<usize> {
    SETTINGS.iter().position(|setting| setting.name == name)
}

/// Sets a setting; 0 goes back to the default.
pub(crate) fn set(name: &str, value: i64) -> Result<(), Unset> {
    let mut chosen = CHOSEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(index) = position(name) {
        let Setting { low, high, .. } = SETTINGS[index];
        if value != 0 && !(low..=high).contains(&value) {
            return Err(Unset::OutOfRange);
        }
        chosen.numbers[index] = (value != 0).then_some(value as u64);
        return Ok(());
    }
    let most = match name {
        CONGESTION_FIXED | SPIN_US => ANY,
        CONGESTION_BBR => MOST_PATH_LOSS,
        _ => 1,
    };
    if value < -i64::from(name == SPIN_US) || value > most {
        return if knows(name) { Err(Unset::OutOfRange) } else { Err(Unset::Unknown) };
    }
    match name {
        CONGESTION_FIXED => choose(&mut chosen.congestion, ControllerKind::Fixed { window: value as u64 }, value),
        CONGESTION_CUBIC => choose(&mut chosen.congestion, ControllerKind::Cubic, value),
        CONGESTION_BBR if value > 1 => {
            choose(&mut chosen.congestion, ControllerKind::LossyBbr { percent: value as u8 }, value);
        }
        CONGESTION_BBR => choose(&mut chosen.congestion, ControllerKind::Bbr, value),
        PROFILE_INTERNET | PROFILE_CLUSTER if value == 0 => chosen.profile = Profile::Auto,
        PROFILE_INTERNET => chosen.profile = Profile::Internet,
        PROFILE_CLUSTER => chosen.profile = Profile::Cluster,
        SPIN_US => {
            chosen.idle = match value {
                -1 => Idle::Spin,
                0 => Idle::Block,
                spin => Idle::Adaptive { spin: Duration::from_micros(spin as u64) },
            }
        }
        _ => return Err(Unset::Unknown),
    }
    Ok(())
}

fn choose(congestion: &mut Option<ControllerKind>, kind: ControllerKind, value: i64) {
    *congestion = (value != 0).then_some(kind);
}

fn knows(name: &str) -> bool {
    [CONGESTION_FIXED, CONGESTION_CUBIC, CONGESTION_BBR, PROFILE_INTERNET, PROFILE_CLUSTER, SPIN_US].contains(&name)
}

/// A setting as it was set; 0 if it follows from the path.
pub(crate) fn chosen(name: &str) -> Option<c_long> {
    let chosen = CHOSEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(index) = position(name) {
        return Some(long(chosen.numbers[index].unwrap_or(0)));
    }
    Some(match name {
        PROFILE_INTERNET => (chosen.profile == Profile::Internet).into(),
        PROFILE_CLUSTER => (chosen.profile == Profile::Cluster).into(),
        SPIN_US => match chosen.idle {
            Idle::Spin => -1,
            Idle::Block => 0,
            Idle::Adaptive { spin } => long(spin.as_micros() as u64),
        },
        _ => return chosen.congestion.map_or(knows(name).then_some(0), |kind| congestion(name, kind)),
    })
}

/// A setting of something that is open.
pub(crate) fn in_force(name: &str, config: &Config, unit_bytes: Option<usize>) -> Option<c_long> {
    match position(name) {
        Some(index) => Some(match unit_bytes {
            Some(bytes) if name == "unit_bytes" => long(bytes as u64),
            _ => long((SETTINGS[index].read)(config)),
        }),
        None => congestion(name, config.congestion),
    }
}

fn congestion(name: &str, kind: ControllerKind) -> Option<c_long> {
    Some(match (name, kind) {
        (CONGESTION_FIXED, ControllerKind::Fixed { window }) => long(window),
        (CONGESTION_CUBIC, ControllerKind::Cubic) | (CONGESTION_BBR, ControllerKind::Bbr) => 1,
        (CONGESTION_BBR, ControllerKind::LossyBbr { percent }) => percent.into(),
        (CONGESTION_FIXED | CONGESTION_CUBIC | CONGESTION_BBR, _) => 0,
        _ => return None,
    })
}

/// How a channel is set up.
pub(crate) fn options() -> Options {
    let chosen = CHOSEN.lock().unwrap_or_else(PoisonError::into_inner);
    let number = |name| position(name).and_then(|index| chosen.numbers[index]);
    Options {
        profile: chosen.profile,
        idle: chosen.idle,
        congestion: chosen.congestion,
        window_bytes: number("window_bytes"),
        rate: number("rate"),
        ..Options::default()
    }
}

/// How a sender or a receiver on it is set up.
pub(crate) fn config(channel: &Channel, options: &Options) -> Config {
    let mut config = channel.config(options);
    let chosen = CHOSEN.lock().unwrap_or_else(PoisonError::into_inner);
    for (setting, value) in SETTINGS.iter().zip(chosen.numbers) {
        if let Some(value) = value {
            (setting.write)(&mut config, value);
        }
    }
    config
}

/// A number for C.
pub(crate) fn long(value: u64) -> c_long {
    c_long::try_from(value).unwrap_or(c_long::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_may_be_said_to_lose_up_to_half() {
        for (value, kind) in
            [(1, Some(ControllerKind::Bbr)), (30, Some(ControllerKind::LossyBbr { percent: 30 })), (0, None)]
        {
            assert!(set(CONGESTION_BBR, value).is_ok());
            assert_eq!((options().congestion, chosen(CONGESTION_BBR)), (kind, Some(value as c_long)));
        }
        assert!(matches!(set(CONGESTION_BBR, 51), Err(Unset::OutOfRange)));
        assert!(matches!(set(CONGESTION_BBR, -1), Err(Unset::OutOfRange)));
        assert!(matches!(set(CONGESTION_CUBIC, 2), Err(Unset::OutOfRange)));
        assert!(matches!(set("congestion", 2), Err(Unset::Unknown)));
    }
}
