//! What `pinnace explain` prints: a table for people, an object for programs.

use pinnace::service::{Change, Choice, Method, Offer, Path, Selection, Service, Unmet, units};
use serde::Serialize;
use std::fmt;

/// All that was found out.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    event: &'static str,
    service: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<String>,
    path: PathFacts,
    /// In the order of their cost, those that fit first.
    offers: Vec<Row>,
    /// `null` if none fits.
    choice: Option<&'static str>,
    changes: Vec<ChangeRow>,
}

#[derive(Debug, Serialize)]
struct PathFacts {
    class: &'static str,
    round_trip_us: f64,
    loss: f64,
    datagram_bytes: usize,
    bits_per_second: Option<u64>,
    shared_memory: bool,
    ethernet: bool,
    multicast: bool,
}

#[derive(Debug, Serialize)]
struct Row {
    method: &'static str,
    mode: &'static str,
    fits: bool,
    allowed: bool,
    chosen: bool,
    cost_us: f64,
    set_up_us: f64,
    work_us: f64,
    wire_us: f64,
    travel_us: f64,
    repetition_us: f64,
    wait_us: f64,
    shared_by: f64,
    why: Vec<String>,
}

#[derive(Debug, Serialize)]
struct ChangeRow {
    change: String,
    method: Option<&'static str>,
}

/// To a thousandth of a microsecond: more digits say nothing.
fn digits(us: f64) -> f64 {
    (us * 1e3).round() / 1e3
}

impl Row {
    fn new(offer: &Offer, selection: &Selection, chosen: Option<Method>) -> Self {
        let cost = &offer.cost;
        Self {
            method: offer.method.name(),
            mode: offer.mode.name(),
            fits: offer.fits,
            allowed: selection.allows(offer.method),
            chosen: chosen == Some(offer.method),
            cost_us: digits(cost.total()),
            set_up_us: digits(cost.set_up),
            work_us: digits(cost.work),
            wire_us: digits(cost.wire),
            travel_us: digits(cost.travel),
            repetition_us: digits(cost.repetition),
            wait_us: digits(cost.wait),
            shared_by: digits(cost.shared_by),
            why: offer.why.clone(),
        }
    }
}

impl Report {
    pub(super) fn new(
        service: &Service,
        path: &Path,
        to: Option<String>,
        selection: &Selection,
        choice: &Result<Choice, Unmet>,
        changes: Vec<Change>,
    ) -> Self {
        let (chosen, mut offers) = match choice {
            Ok(choice) => (Some(choice.offer.method), vec![&choice.offer]),
            Err(_) => (None, Vec::new()),
        };
        offers.extend(match choice {
            Ok(choice) => &choice.others,
            Err(unmet) => &unmet.offers,
        });
        let class = service.path_class().unwrap_or(path.class);
        Self {
            event: "explained",
            service: service.to_string(),
            peer: to,
            path: PathFacts {
                class: class.name(),
                round_trip_us: path.round_trip.as_secs_f64() * 1e6,
                loss: path.loss,
                datagram_bytes: path.datagram,
                bits_per_second: path.rate,
                shared_memory: path.shared_memory,
                ethernet: path.ethernet,
                multicast: path.multicast,
            },
            offers: offers.into_iter().map(|offer| Row::new(offer, selection, chosen)).collect(),
            choice: chosen.map(Method::name),
            changes: changes
                .into_iter()
                .map(|Change { change, method }| ChangeRow { change, method: method.map(Method::name) })
                .collect(),
        }
    }
}

/// `1.5 ms`.
fn time(us: f64) -> String {
    match us {
        0.0 => "-".to_owned(),
        us if us < 999.95 => format!("{us:.1} us"),
        us if us < 999_950.0 => format!("{:.1} ms", us / 1e3),
        us => format!("{:.1} s", us / 1e6),
    }
}

impl fmt::Display for PathFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { class, round_trip_us, loss, datagram_bytes, .. } = self;
        let lost = units::of_share(*loss);
        write!(f, "{class}, round trip {}, {lost} lost, datagrams of {datagram_bytes} bytes", time(*round_trip_us))?;
        match self.bits_per_second {
            Some(rate) => write!(f, ", {}", units::of_bit_rate(rate))?,
            None => f.write_str(", rate unknown")?,
        }
        for (is, what) in
            [(self.shared_memory, "shared memory"), (self.ethernet, "Ethernet frames"), (self.multicast, "multicast")]
        {
            if is {
                write!(f, ", {what}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let service = if self.service.is_empty() { "reliable messages, in order" } else { &self.service };
        writeln!(f, "service  {service}")?;
        if let Some(to) = &self.peer {
            writeln!(f, "to       {to}")?;
        }
        writeln!(f, "path     {}\n", self.path)?;
        writeln!(
            f,
            "  {:<14} {:>9} {:>9} {:>9} {:>9} {:>9} {:>10}  as",
            "method", "cost", "set-up", "work", "wire", "travel", "repetition"
        )?;
        for row in &self.offers {
            let sign = if row.chosen { '>' } else { ' ' };
            write!(f, "{sign} {:<14}", row.method)?;
            if row.fits {
                for part in [row.cost_us, row.set_up_us, row.work_us, row.wire_us, row.travel_us].map(time) {
                    write!(f, " {part:>9}")?;
                }
                let allowed = if row.allowed { "" } else { " (not allowed)" };
                writeln!(f, " {:>10}  {}{allowed}", time(row.repetition_us), row.mode)?;
            } else {
                writeln!(f, " {:>9}", "no")?;
            }
            for why in &row.why {
                writeln!(f, "      {why}")?;
            }
        }
        match self.choice {
            Some(choice) => writeln!(f, "\nchoice   {choice}")?,
            None => writeln!(f, "\nchoice   none")?,
        }
        write!(f, "\nwhat would change it")?;
        if self.changes.is_empty() {
            write!(f, "\n  no single change")?;
        }
        for ChangeRow { change, method } in &self.changes {
            write!(f, "\n  {change:<28} {}", method.unwrap_or("no method"))?;
        }
        Ok(())
    }
}
