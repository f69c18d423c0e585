//! The terminal: a table in place, and keys.
//!
//! Always true: however the command ends in good order, the cursor is there again and the table stays to be read.

use super::table::Order;
use console::{Term, truncate_str};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Instant;

/// What somebody has pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Quit,
    /// Look again at once.
    Look,
    Sort(Order),
}

impl Key {
    fn of(key: &console::Key) -> Option<Self> {
        use console::Key::{Char, CtrlC, Escape};
        match key {
            Char('q' | 'Q') | Escape | CtrlC => Some(Self::Quit),
            Char(' ') => Some(Self::Look),
            Char('r') => Some(Self::Sort(Order::Rate)),
            Char('s') => Some(Self::Sort(Order::Service)),
            Char('p') => Some(Self::Sort(Order::Process)),
            Char('c') => Some(Self::Sort(Order::Protocol)),
            Char('l') => Some(Self::Sort(Order::Loss)),
            Char('t') => Some(Self::Sort(Order::Time)),
            _ => None,
        }
    }
}

pub(super) struct Screen {
    term: Term,
    keys: Receiver<Key>,
}

impl Screen {
    pub(super) fn new() -> Self {
        let term = Term::stdout();
        let _ = term.hide_cursor();
        let (press, keys) = channel();
        let keyboard = Term::stdout();
        std::thread::spawn(move || {
            while let Ok(key) = keyboard.read_key() {
                let known = Key::of(&key);
                if known.is_some_and(|key| press.send(key).is_err()) {
                    return;
                }
            }
        });
        Self { term, keys }
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
    pub(super) fn key(&self, until: Instant) -> Option<Key> {
        let rest = until.saturating_duration_since(Instant::now());
        match self.keys.recv_timeout(rest) {
            Ok(key) => Some(key),
            Err(RecvTimeoutError::Timeout) => None,
            // There is no keyboard.
            Err(RecvTimeoutError::Disconnected) => {
                std::thread::sleep(rest);
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
