//! What the script of an input says of VRP.

use core::time::Duration;
use pinnace_testing::script::Script;
use pinnace_vrp::{Config, Terms};

/// Steps of a script; more only take time.
pub const STEPS: usize = 500;

/// Mostly near `base`, seldom anything.
pub fn near(script: &mut Script<'_>, base: u32) -> u32 {
    match script.byte() {
        0xFF => script.long(),
        0xFE => base.wrapping_add(u32::from(script.word())),
        0xFD => base.wrapping_sub(u32::from(script.word())),
        near => base.wrapping_add(u32::from(near & 31)).wrapping_sub(8),
    }
}

/// A size in bytes, small ones as often as large ones.
pub fn size(script: &mut Script<'_>) -> u32 {
    u32::from(script.word()) >> (script.byte() % 16)
}

/// What an application may say about a frame of `size` bytes; seldom what it may not.
pub fn terms(script: &mut Script<'_>, size: u64) -> Terms {
    let said = script.byte();
    let rate = (said & 1 != 0).then(|| script.byte());
    let run_bytes = (said & 2 != 0).then(|| match script.byte() {
        255 => u64::MAX,
        run => u64::from(run) << (said >> 4),
    });
    let mut critical = Vec::new();
    for _ in 0..if said & 4 != 0 { script.byte() % 4 } else { 0 } {
        let low = u64::from(script.word()) % (size + 1);
        let high = low + u64::from(script.byte());
        critical.push(low..if said == 0xFF { high } else { high.min(size) });
    }
    let floor = (said & 8 != 0).then(|| script.byte().min(rate.unwrap_or(0)));
    Terms { rate, run_bytes, critical, floor }
}

pub fn config(script: &mut Script<'_>) -> Config {
    let kinds = script.byte();
    let congestion = script.controller(kinds, |script| u64::from(script.byte()) * 64);
    Config {
        packet_bytes: packet_bytes(script),
        window: window(script),
        congestion,
        rate: (kinds & 0x10 != 0).then(|| 100_000 + u64::from(script.word()) * 1000),
        burst: if kinds & 0x20 != 0 { 3000 } else { 65_535 },
        max_frames: if kinds & 0x40 != 0 { 3 } else { 200 },
        control_bytes: if kinds & 0x80 != 0 { 100 } else { 1472 },
        ecn: kinds & 8 != 0,
        seed: u64::from(script.word()),
        ..Config::default()
    }
}

pub fn packet_bytes(script: &mut Script<'_>) -> u16 {
    script.pick(&[1466, 1466, 100, 1000, 1, 10, 11, 12, 255, 9000, 65_501])
}

pub fn window(script: &mut Script<'_>) -> u16 {
    match script.byte() {
        0 => 1,
        1..=100 => 64,
        200 => 16_384,
        window => u16::from(window),
    }
}

/// A time to wait.
pub fn time(script: &mut Script<'_>, step: u8) -> Duration {
    let time = u64::from(script.byte());
    match step {
        0 => Duration::from_micros(time * 50),
        1 => Duration::from_millis(time),
        _ => Duration::from_millis(time * 40),
    }
}
