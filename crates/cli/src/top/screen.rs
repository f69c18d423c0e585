//! The terminal: a table in place, and keys.
//!
//! Always true: however the command ends in good order, the cursor is there again, the terminal is as it was, and the table
//! stays to be read.

use super::table::Order;
use console::{Term, truncate_str};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};
use std::fs::File;
use std::io::IsTerminal;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// What somebody has pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Quit,
    /// Look again at once.
    Look,
    Sort(Order),
}

impl Key {
    /// What a read of the keyboard gave: of more than one key the first that means something. Keys like the arrows come as
    /// several bytes, the first of which is Escape's.
    fn of(bytes: &[u8]) -> Option<Self> {
        match bytes {
            b"\x1b" => Some(Self::Quit),
            [b'\x1b', ..] => None,
            _ => bytes.iter().find_map(|byte| Self::of_byte(*byte)),
        }
    }

    fn of_byte(byte: u8) -> Option<Self> {
        match byte {
            b'q' | b'Q' => Some(Self::Quit),
            b' ' => Some(Self::Look),
            b'r' => Some(Self::Sort(Order::Rate)),
            b's' => Some(Self::Sort(Order::Service)),
            b'p' => Some(Self::Sort(Order::Process)),
            b'c' => Some(Self::Sort(Order::Protocol)),
            b'l' => Some(Self::Sort(Order::Loss)),
            b't' => Some(Self::Sort(Order::Time)),
            _ => None,
        }
    }
}

/// The terminal's keys, each as it is pressed; dropped, the terminal is as it was.
struct Keyboard {
    terminal: OwnedFd,
    before: Termios,
}

impl Keyboard {
    /// Nothing without a terminal to read from.
    fn new() -> Option<Self> {
        let stdin = std::io::stdin();
        let terminal = if stdin.is_terminal() {
            stdin.as_fd().try_clone_to_owned().ok()?
        } else {
            File::open("/dev/tty").ok()?.into()
        };
        let before = tcgetattr(&terminal).ok()?;
        let mut keys = before.clone();
        keys.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
        // Ctrl-C is heard as ever. Whoever stopped the process, or had it write a core, would keep this terminal.
        for code in [SpecialCodeIndex::VSUSP, SpecialCodeIndex::VQUIT] {
            keys.special_codes[code] = 0;
        }
        keys.special_codes[SpecialCodeIndex::VMIN] = 1;
        keys.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(&terminal, OptionalActions::Now, &keys).ok()?;
        Some(Self { terminal, before })
    }

    /// What is pressed until then; fails if nobody can press anything any more.
    fn read(&self, rest: Duration) -> Result<Option<Key>, Errno> {
        let mut ready = [PollFd::new(&self.terminal, PollFlags::IN)];
        let timeout = Timespec::try_from(rest).unwrap_or_default();
        if poll(&mut ready, Some(&timeout))? == 0 {
            return Ok(None);
        }
        let mut bytes = [0; 64];
        match rustix::io::read(&self.terminal, &mut bytes)? {
            0 => Err(Errno::IO),
            read => Ok(Key::of(&bytes[..read])),
        }
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        let _ = tcsetattr(&self.terminal, OptionalActions::Now, &self.before);
    }
}

pub(super) struct Screen {
    term: Term,
    keyboard: Option<Keyboard>,
}

impl Screen {
    pub(super) fn new() -> Self {
        let term = Term::stdout();
        let _ = term.hide_cursor();
        Self { term, keyboard: Keyboard::new() }
    }

    /// Lines and columns.
    pub(super) fn size(&self) -> (usize, usize) {
        let (lines, columns) = self.term.size();
        (usize::from(lines).max(4), usize::from(columns).max(40))
    }

    pub(super) fn draw(&self, text: &str) {
        let (lines, columns) = self.size();
        let mut shown = String::new();
        for line in text.lines().take(lines - 1) {
            shown.push_str(&truncate_str(line, columns, ""));
            shown.push('\n');
        }
        let _ = self.term.clear_screen().and_then(|()| self.term.write_str(&shown));
    }

    /// The next key until then.
    pub(super) fn key(&mut self, until: Instant) -> Option<Key> {
        let rest = until.saturating_duration_since(Instant::now());
        match self.keyboard.as_ref().map(|keyboard| keyboard.read(rest)) {
            Some(Ok(key)) => key,
            // A signal, which whoever waits asks for.
            Some(Err(Errno::INTR)) => None,
            _ => {
                // There is no keyboard, or not any more.
                self.keyboard = None;
                std::thread::sleep(until.saturating_duration_since(Instant::now()));
                None
            }
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.term.show_cursor();
    }
}
