//! The columns of the table, and which of them a terminal has room for.
//!
//! Always true: elsewhere than on a terminal every column is there in full; on a narrow one the least important are left out
//! and the rest shortened, rates and losses last. A number is never cut, and an address keeps its end.

use super::table::Row;
use indicatif::BinaryBytes;
use std::borrow::Cow;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Pid,
    Program,
    Protocol,
    State,
    Local,
    Peer,
    Out,
    In,
    Messages,
    Lost,
    Repeated,
    RoundTrip,
    Age,
    Service,
}

use Column::*;

/// As they stand beside each other.
const ALL: [Column; 14] =
    [Pid, Program, Protocol, State, Local, Peer, Out, In, Messages, Lost, Repeated, RoundTrip, Age, Service];

/// Who gets room for so many letters, the most important first.
const IMPORTANCE: [(Column, usize); 17] = [
    (Pid, 7),
    (Out, 11),
    (In, 11),
    (Lost, 6),
    (RoundTrip, 7),
    (Protocol, 5),
    (Program, 8),
    (Repeated, 6),
    (Peer, 11),
    (Service, 12),
    (Peer, 21),
    (Messages, 6),
    (Local, 11),
    (Protocol, 13),
    (Local, 21),
    (Age, 6),
    (State, 7),
];

impl Column {
    /// Its title, and how wide it is in full.
    fn form(self) -> (&'static str, usize) {
        match self {
            Pid => ("pid", 8),
            Program => ("program", 12),
            Protocol => ("protocol", 13),
            State => ("state", 7),
            Local => ("local", 21),
            Peer => ("peer", 21),
            Out => ("out/s", 12),
            In => ("in/s", 12),
            Messages => ("msg/s", 9),
            Lost => ("lost", 8),
            Repeated => ("repeated", 8),
            RoundTrip => ("rtt", 8),
            Age => ("age", 6),
            Service => ("service", usize::MAX),
        }
    }

    fn is_right(self) -> bool {
        !matches!(self, Program | Protocol | State | Local | Peer | Service)
    }

    /// What a row says there in so many letters.
    fn cell(self, row: &Row, width: usize) -> Cow<'_, str> {
        match self {
            Pid => row.pid.to_string().into(),
            Program => short(&row.program, width).into(),
            Protocol => short(&row.protocol, width).into(),
            State => if row.kind == "socket" { "socket" } else { row.state }.into(),
            Local => address(&row.address, width),
            Peer => address(&row.peer, width),
            Out => BinaryBytes(row.bytes_sent_per_second as u64).to_string().into(),
            In => BinaryBytes(row.bytes_received_per_second as u64).to_string().into(),
            Messages => count((row.messages_sent_per_second + row.messages_received_per_second).round() as u64, width),
            Lost => count(row.lost(), width),
            Repeated => row.packets_resent.map_or("-".into(), |repeated| count(repeated, width)),
            RoundTrip => row.round_trip_us.map_or("-".into(), |us| round_trip(us).into()),
            Age => age(row.seconds).into(),
            Service => short(&row.service, width).into(),
        }
    }
}

/// The columns that are shown, and how wide.
#[derive(Debug)]
pub(super) struct Columns {
    shown: Vec<(Column, usize)>,
    /// Whether what has no room is shortened.
    is_cut: bool,
}

impl Columns {
    /// Those that a terminal of so many columns has room for; all of them where it is none.
    pub(super) fn of(width: Option<usize>) -> Self {
        let Some(width) = width else {
            return Self { shown: ALL.map(|column| (column, column.form().1)).to_vec(), is_cut: false };
        };
        let mut rest = width;
        let mut shown: Vec<(Column, usize)> = Vec::new();
        // At last as wide as they should be; the service has what nobody else needs.
        let full = ALL.map(|column| (column, column.form().1));
        for (column, wanted) in IMPORTANCE.into_iter().chain(full) {
            if let Some((_, width)) = shown.iter_mut().find(|(other, _)| *other == column) {
                let more = wanted.saturating_sub(*width).min(rest);
                *width += more;
                rest -= more;
                continue;
            }
            let taken = wanted.saturating_add(usize::from(!shown.is_empty()));
            if taken <= rest {
                rest -= taken;
                shown.push((column, wanted));
            }
        }
        shown.sort_by_key(|(column, _)| ALL.iter().position(|other| other == column));
        Self { shown, is_cut: true }
    }

    pub(super) fn head(&self) -> String {
        self.line(|column, width| short(column.form().0, width).into())
    }

    pub(super) fn row(&self, row: &Row) -> String {
        self.line(|column, width| match column {
            // An address or a number that is too long only moves the rest of its row.
            Local | Peer | Messages | Lost | Repeated if !self.is_cut => column.cell(row, usize::MAX),
            _ => column.cell(row, width),
        })
    }

    fn line<'a>(&self, cell: impl Fn(Column, usize) -> Cow<'a, str>) -> String {
        let mut line = String::new();
        for &(column, width) in &self.shown {
            let cell = cell(column, width);
            if !line.is_empty() {
                line.push(' ');
            }
            let padding = if column == Service { 0 } else { width.saturating_sub(cell.chars().count()) };
            let padding = " ".repeat(padding);
            let (before, after) = if column.is_right() { (&*padding, "") } else { ("", &*padding) };
            line.extend([before, &*cell, after]);
        }
        line.truncate(line.trim_end().len());
        line
    }
}

fn short(text: &str, most: usize) -> &str {
    text.char_indices().nth(most).map_or(text, |(at, _)| &text[..at])
}

/// Hosts and ports of one place differ at their ends.
fn address(text: &str, most: usize) -> Cow<'_, str> {
    let letters = text.chars().count();
    match letters {
        0 => "-".into(),
        _ if letters <= most => text.into(),
        _ => format!("…{}", text.chars().skip(letters + 1 - most).collect::<String>()).into(),
    }
}

/// In thousands, millions and so on where it has no room.
fn count(number: u64, most: usize) -> Cow<'static, str> {
    let mut text = number.to_string();
    let mut number = number;
    for unit in ["k", "M", "G", "T", "P"] {
        if text.len() <= most {
            break;
        }
        number /= 1000;
        text = format!("{number}{unit}");
    }
    text.into()
}

fn round_trip(us: f64) -> String {
    match us {
        0.0..1e3 => format!("{us:.0} us"),
        1e3..1e5 => format!("{:.1} ms", us / 1e3),
        _ => format!("{:.0} ms", us / 1e3),
    }
}

fn age(seconds: f64) -> String {
    match seconds as u64 {
        s @ 0..120 => format!("{s} s"),
        s @ 120..7200 => format!("{} min", s / 60),
        s => format!("{} h", s / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_room_is_short() {
        assert_eq!([age(3.2), age(125.0), age(8000.0)], ["3 s", "2 min", "2 h"]);
        assert_eq!([42.4, 1250.0, 123_456.0].map(round_trip), ["42 us", "1.2 ms", "123 ms"]);
        assert_eq!((short("abcdef", 3), short("ab", 3)), ("abc", "ab"));
        assert_eq!(
            [address("192.168.10.27:4747", 10), address("h:1", 11), address("", 11)],
            ["…0.27:4747", "h:1", "-"]
        );
        assert_eq!([count(999_999, 6), count(1_234_567, 6), count(u64::MAX, 6)], ["999999", "1234k", "18446P"]);
    }

    #[test]
    fn a_narrow_terminal_shows_rates_and_losses_and_nothing_is_wider() {
        for width in 40..300 {
            let head = Columns::of(Some(width)).head();
            assert!(head.chars().count() <= width, "{width}: {head}");
            assert!(["pid", "out/s", "in/s", "lost"].iter().all(|title| head.contains(title)), "{width}: {head}");
        }
        let head = Columns::of(Some(80)).head();
        assert!(["program", "proto", "peer", "repeat", "rtt"].iter().all(|title| head.contains(title)), "{head}");
        assert_eq!(Columns::of(Some(200)).head(), Columns::of(None).head());
    }
}
