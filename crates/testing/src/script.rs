//! The bytes of a fuzzer's input, read as a script: each step takes some of them to decide what happens.

use pinnace_core::ControllerKind;

/// The bytes of a script, zero behind their end.
#[derive(Debug)]
pub struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    /// A script of these bytes.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Whether its end is reached.
    pub const fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    /// The next two bytes.
    pub fn word(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    /// The next four bytes.
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

    /// A congestion controller: two bits of `kind` say which. `window` is that of the one with a small window, and is asked for it
    /// alone.
    pub fn controller(&mut self, kind: u8, window: impl FnOnce(&mut Self) -> u64) -> ControllerKind {
        match kind % 4 {
            0 => ControllerKind::Fixed { window: u64::MAX },
            1 => ControllerKind::Fixed { window: window(self) },
            2 => ControllerKind::Cubic,
            _ => ControllerKind::Bbr,
        }
    }

    /// The next `len` bytes, or as many as there are.
    pub fn take(&mut self, len: usize) -> Vec<u8> {
        let (now, later) = self.0.split_at(len.min(self.0.len()));
        self.0 = later;
        now.to_vec()
    }
}
