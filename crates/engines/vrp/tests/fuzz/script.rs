//! The bytes of an input, read as a script.

use core::time::Duration;
use pinnace_core::ControllerKind;
use pinnace_vrp::{Config, Terms};

/// Steps of a script; more only take time.
pub const STEPS: usize = 500;

/// The bytes of a script, zero behind their end.
pub struct Script<'a> {
    bytes: &'a [u8],
}

impl<'a> Script<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    pub fn done(&self) -> bool {
        self.bytes.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.bytes.split_first() else { return 0 };
        self.bytes = rest;
        first
    }

    pub fn word(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    pub fn long(&mut self) -> u32 {
        u32::from(self.word()) << 16 | u32::from(self.word())
    }

    /// True for one byte in `share`.
    pub fn one_in(&mut self, share: u8) -> bool {
        self.byte() % share == share - 1
    }

    /// One of `of`, which is not empty.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[usize::from(self.byte()) % of.len()]
    }

    /// Mostly near `base`, seldom anything.
    pub fn near(&mut self, base: u32) -> u32 {
        match self.byte() {
            0xFF => self.long(),
            0xFE => base.wrapping_add(u32::from(self.word())),
            0xFD => base.wrapping_sub(u32::from(self.word())),
            near => base.wrapping_add(u32::from(near & 31)).wrapping_sub(8),
        }
    }

    /// A size in bytes, small ones as often as large ones.
    pub fn size(&mut self) -> u32 {
        u32::from(self.word()) >> (self.byte() % 16)
    }

    pub fn take(&mut self, len: usize) -> Vec<u8> {
        let (now, later) = self.bytes.split_at(len.min(self.bytes.len()));
        self.bytes = later;
        now.to_vec()
    }

    /// What an application may say about a frame of `size` bytes; seldom what it may not.
    pub fn terms(&mut self, size: u64) -> Terms {
        let said = self.byte();
        let rate = (said & 1 != 0).then(|| self.byte());
        let run_bytes = (said & 2 != 0).then(|| match self.byte() {
            255 => u64::MAX,
            run => u64::from(run) << (said >> 4),
        });
        let mut critical = Vec::new();
        for _ in 0..if said & 4 != 0 { self.byte() % 4 } else { 0 } {
            let low = u64::from(self.word()) % (size + 1);
            let high = low + u64::from(self.byte());
            critical.push(low..if said == 0xFF { high } else { high.min(size) });
        }
        let floor = (said & 8 != 0).then(|| self.byte().min(rate.unwrap_or(0)));
        Terms { rate, run_bytes, critical, floor }
    }

    pub fn config(&mut self) -> Config {
        let kinds = self.byte();
        let congestion = match kinds % 4 {
            0 => ControllerKind::Fixed { window: u64::MAX },
            1 => ControllerKind::Fixed { window: u64::from(self.byte()) * 64 },
            2 => ControllerKind::Cubic,
            _ => ControllerKind::Bbr,
        };
        Config {
            packet_bytes: self.packet_bytes(),
            window: self.window(),
            congestion,
            rate: (kinds & 0x10 != 0).then(|| 100_000 + u64::from(self.word()) * 1000),
            burst: if kinds & 0x20 != 0 { 3000 } else { 65_535 },
            max_frames: if kinds & 0x40 != 0 { 3 } else { 200 },
            control_bytes: if kinds & 0x80 != 0 { 100 } else { 1472 },
            ecn: kinds & 8 != 0,
            seed: u64::from(self.word()),
            ..Config::default()
        }
    }

    pub fn packet_bytes(&mut self) -> u16 {
        self.pick(&[1466, 1466, 100, 1000, 1, 10, 11, 12, 255, 9000, 65_501])
    }

    pub fn window(&mut self) -> u16 {
        match self.byte() {
            0 => 1,
            1..=100 => 64,
            200 => 16_384,
            window => u16::from(window),
        }
    }

    /// A time to wait.
    pub fn time(&mut self, step: u8) -> Duration {
        let time = u64::from(self.byte());
        match step {
            0 => Duration::from_micros(time * 50),
            1 => Duration::from_millis(time),
            _ => Duration::from_millis(time * 40),
        }
    }
}
