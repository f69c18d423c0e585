//! Lines about connections that broke, when there are many: who forges connections does not fill a terminal or a log.

use crate::units::count_of;
use std::time::{Duration, Instant};

/// Lines of one [`SPAN`]; what goes beyond is counted.
const MOST: u64 = 16;
const SPAN: Duration = Duration::from_secs(1);

/// See the [module](self).
#[derive(Default)]
pub(super) struct Complaints {
    since: Option<Instant>,
    said: u64,
    more: u64,
}

impl Complaints {
    /// A connection broke: what there is to say now.
    pub(super) fn broken(&mut self, now: Instant, why: String, mut say: impl FnMut(String)) {
        self.look(now, &mut say);
        self.since.get_or_insert(now);
        if self.said < MOST {
            self.said += 1;
            say(why);
        } else {
            self.more += 1;
        }
    }

    /// To be called now and then.
    pub(super) fn look(&mut self, now: Instant, say: impl FnMut(String)) {
        if self.since.is_some_and(|since| now.saturating_duration_since(since) >= SPAN) {
            self.end(say);
        }
    }

    /// Says how many more there were.
    pub(super) fn end(&mut self, mut say: impl FnMut(String)) {
        let more = std::mem::take(self).more;
        if more > 0 {
            say(format!("{} broke, too", count_of(more, "other connection")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_that_break_at_once_the_first_are_named_and_the_others_counted() {
        let (begun, mut complaints, mut lines) = (Instant::now(), Complaints::default(), Vec::new());
        for number in 0..MOST + 5 {
            complaints.broken(begun, number.to_string(), |line| lines.push(line));
        }
        assert_eq!(lines.len() as u64, MOST);
        complaints.look(begun, |line| lines.push(line));
        complaints.broken(begun + SPAN, "later".into(), |line| lines.push(line));
        complaints.end(|line| lines.push(line));
        assert_eq!(lines[MOST as usize..], ["5 other connections broke, too".to_owned(), "later".to_owned()]);
    }
}
