//! What `pinnace sim` prints, for people and for programs.

use super::timeline::{Line, Moment};
use super::transfer::{MessageEnd, Transfer};
use super::units::{bytes, count, percent, rate, share, time};
use pinnace_core::Time;
use pinnace_sim::Outcome;
use serde_json::{Map, Value, json};
use std::io::{self, Write};

/// Messages listed one by one at most.
const LISTED: usize = 12;
/// Columns of a time line.
const COLUMNS: usize = 60;

/// Writes the report for people. On a terminal the time line is a row of blocks, otherwise a line an interval.
pub(super) fn text(out: &mut dyn Write, transfer: &Transfer, terminal: bool) -> io::Result<()> {
    let plan = &transfer.plan;
    let total: u64 = plan.sizes.iter().map(|&size| u64::from(size)).sum();
    let messages = plan.sizes.len();
    writeln!(out, "{messages} message{} of {} in all", if messages == 1 { "" } else { "s" }, bytes(total))?;
    writeln!(out, "network      {}", plan.there)?;
    if plan.back != plan.there {
        writeln!(out, "back         {}", plan.back)?;
    }
    writeln!(out, "settings     congestion {}, units of {} bytes, seed {}\n", plan.congestion, plan.unit, plan.seed)?;

    writeln!(out, "outcome      {}", outcome(transfer))?;
    if let Some(goodput) = transfer.goodput() {
        let share =
            transfer.share().map_or(String::new(), |share| format!(", {:.1} % of the link's rate", share * 100.0));
        writeln!(out, "goodput      {}{share}", rate(goodput))?;
    }
    if let Some(round_trip) = transfer.round_trip {
        writeln!(
            out,
            "round trip   {} smoothed, {} without queues",
            time(round_trip),
            time(plan.there.delay + plan.back.delay)
        )?;
    }
    let (sender, receiver) = (&transfer.sender, &transfer.receiver);
    let resent = sender.units_resent;
    writeln!(
        out,
        "resent       {} of {} units ({}); {} time-outs",
        count(resent),
        count(sender.units_sent),
        percent(resent, sender.units_sent),
        count(sender.timeouts)
    )?;
    let lost: u64 = transfer.fates.iter().filter(|(fate, _)| fate.is_loss()).map(|(_, count)| count).sum();
    let sent: u64 = transfer.hosts.iter().map(|host| host.datagrams_sent).sum();
    writeln!(out, "network lost {} of {} datagrams ({}), both ways", count(lost), count(sent), percent(lost, sent))?;
    let placed = receiver.units_in_place + receiver.units_copied;
    writeln!(
        out,
        "in place     {} of units received straight into their buffers; {} copied",
        percent(receiver.units_in_place, placed),
        bytes(receiver.bytes_copied)
    )?;
    list(out, transfer)?;
    if terminal {
        blocks(out, &transfer.line)?;
    } else {
        bars(out, &transfer.line)?;
    }
    counters(out, transfer)?;
    if !transfer.trace.is_empty() {
        writeln!(
            out,
            "\nlast {} datagrams (host 0 sends, host 1 receives; #number bytes [content] fate)",
            transfer.trace.len()
        )?;
        for line in &transfer.trace {
            writeln!(out, "  {line}")?;
        }
    }
    writeln!(
        out,
        "\ndigest       {:016x} (of everything that happened; the same for the same arguments)",
        transfer.digest
    )
}

fn outcome(transfer: &Transfer) -> String {
    let messages = transfer.messages.len();
    let arrived = transfer.messages.iter().filter(|message| message.arrived()).count();
    let end = time(transfer.end);
    if arrived == messages {
        return format!("all {messages} arrived whole, every byte verified, after {end}");
    }
    let why = match transfer.outcome {
        Outcome::Done => "the rest failed, and both ends were told",
        Outcome::DeadlineReached => "the rest was still under way",
        Outcome::Quiet => "the rest hangs: a defect, please report it with this command line",
        Outcome::Livelock(_) => "an engine went round in circles: a defect, please report it with this command line",
    };
    format!("FAILED: {arrived} of {messages} arrived whole; {why}, after {end}")
}

/// How a message ended, in words: at the receiver, at the sender.
fn endings(message: &MessageEnd) -> [String; 2] {
    let at = |when: Time| time(when.since(Time::ZERO));
    let receiver = match message.received {
        Some((when, Ok(_))) if message.verified => format!("arrived whole after {}", at(when)),
        Some((when, Ok(_))) => format!("ALTERED, reported after {}", at(when)),
        Some((when, Err(failure))) => format!("FAILED at the receiver after {}: {failure}", at(when)),
        None => "not arrived".to_owned(),
    };
    let sender = match message.sent {
        Some((when, Ok(()))) => format!("acknowledged after {}", at(when)),
        Some((when, Err(failure))) => format!("FAILED at the sender after {}: {failure}", at(when)),
        None => "not acknowledged".to_owned(),
    };
    [receiver, sender]
}

/// The messages in order, those that ended alike in one line; if any failed, only those that did.
fn list(out: &mut dyn Write, transfer: &Transfer) -> io::Result<()> {
    let failed = transfer.messages.iter().any(|message| !message.arrived());
    let mut groups: Vec<(usize, usize, u64, [String; 2])> = Vec::new();
    for (number, message) in transfer.messages.iter().enumerate().filter(|(_, message)| failed != message.arrived()) {
        let (size, endings) = (u64::from(message.size), endings(message));
        match groups.last_mut() {
            Some((_, last, bytes, same)) if *last + 1 == number && *same == endings => {
                *last = number;
                *bytes += size;
            }
            _ => groups.push((number, number, size, endings)),
        }
    }
    writeln!(out, "\n{}", if failed { "messages that did not arrive" } else { "messages" })?;
    for (first, last, size, [receiver, sender]) in groups.iter().take(LISTED) {
        let numbers = if first == last { first.to_string() } else { format!("{first} to {last}") };
        let separator = if failed { format!("\n{:27}", "") } else { "; ".to_owned() };
        writeln!(out, "  {numbers:>12} {:>10}  {receiver}{separator}{sender}", bytes(*size))?;
    }
    match groups.iter().skip(LISTED).map(|(first, last, ..)| last - first + 1).sum::<usize>() {
        0 => Ok(()),
        more if failed => writeln!(out, "  and {more} more"),
        more => writeln!(out, "  and {more} more, all of which arrived whole"),
    }
}

fn milliseconds(line: &Line) -> String {
    format!("{} ms", line.interval().as_millis())
}

fn peak(line: &Line) -> u64 {
    line.moments().iter().map(|moment| moment.bytes).max().unwrap_or(0)
}

/// One row of blocks, and under it a mark wherever units were sent again.
fn blocks(out: &mut dyn Write, line: &Line) -> io::Result<()> {
    const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let line = line.readable(COLUMNS);
    let peak = peak(&line);
    let height = |moment: &Moment| BLOCKS[(share(moment.bytes, peak) * 8.0).ceil() as usize];
    let marks: String = line.moments().iter().map(|moment| if moment.resent > 0 { '↻' } else { ' ' }).collect();
    let fastest = line.moments().iter().map(|moment| line.rate(moment)).fold(0.0, f64::max);
    writeln!(
        out,
        "\ntime line    goodput per {}, ↻ units sent again; the highest is {}",
        milliseconds(&line),
        rate(fastest)
    )?;
    writeln!(out, "  {}", line.moments().iter().map(height).collect::<String>())?;
    writeln!(out, "  {}", marks.trim_end())
}

/// One line an interval.
fn bars(out: &mut dyn Write, line: &Line) -> io::Result<()> {
    let line = line.readable(COLUMNS);
    let peak = peak(&line);
    writeln!(out, "\ntime line, goodput per {}", milliseconds(&line))?;
    let is_idle = |moment: &Moment| moment.bytes == 0 && moment.resent == 0;
    for (index, moment) in line.moments().iter().enumerate() {
        if index > 1 && line.moments()[index - 2..=index].iter().all(is_idle) {
            if index == 2 || !is_idle(&line.moments()[index - 3]) {
                writeln!(out, "        ... |")?;
            }
            continue;
        }
        let begin = line.interval().as_secs_f64() * index as f64;
        let bar = "#".repeat((share(moment.bytes, peak) * 30.0).round() as usize);
        let resent = if moment.resent > 0 { format!("  {} resent", count(moment.resent)) } else { String::new() };
        writeln!(out, "{begin:>9.3} s |{bar:<30}| {:>12}{resent}", rate(line.rate(moment)))?;
    }
    Ok(())
}

/// The counters that are not zero.
fn counters(out: &mut dyn Write, transfer: &Transfer) -> io::Result<()> {
    let fates = transfer.fates.iter().map(|(fate, count)| (fate.name(), *count)).collect();
    let sections: [(&str, Vec<(&str, u64)>); 3] = [
        ("sender", transfer.sender.iter().collect()),
        ("receiver", transfer.receiver.iter().collect()),
        ("network, datagrams", fates),
    ];
    for (title, counters) in sections {
        writeln!(out, "\n{title}")?;
        for (name, value) in counters.into_iter().filter(|&(_, value)| value > 0) {
            writeln!(out, "  {name:<26} {:>14}", count(value))?;
        }
    }
    Ok(())
}

/// The report for programs.
pub(super) fn json(transfer: &Transfer) -> Value {
    let plan = &transfer.plan;
    let seconds = |at: Time| at.since(Time::ZERO).as_secs_f64();
    let messages: Vec<Value> = transfer
        .messages
        .iter()
        .enumerate()
        .map(|(number, message)| {
            let failure = |side: Option<String>| side.map_or(Value::Null, Value::String);
            json!({
                "message": number,
                "bytes": message.size,
                "arrived": message.arrived(),
                "verified": message.verified,
                "received_seconds": message.received.map(|(at, _)| seconds(at)),
                "acknowledged_seconds": message.sent.map(|(at, _)| seconds(at)),
                "receiver_failure": failure(message.received.and_then(|(_, r)| r.err()).map(|f| f.to_string())),
                "sender_failure": failure(message.sent.and_then(|(_, r)| r.err()).map(|f| f.to_string())),
            })
        })
        .collect();
    let line = transfer.line.readable(usize::MAX);
    let column = |value: fn(&Moment) -> u64| line.moments().iter().map(value).collect::<Vec<_>>();
    let receiver = &transfer.receiver;
    let named = |counters: Vec<(&str, u64)>| -> Map<String, Value> {
        counters.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect()
    };
    let outcome = match transfer.outcome {
        Outcome::Done => "done",
        Outcome::Quiet => "quiet",
        Outcome::DeadlineReached => "deadline",
        Outcome::Livelock(_) => "livelock",
    };
    json!({
        "event": "done",
        "protocol": "zcrp",
        "network": plan.there.to_string(),
        "back": plan.back.to_string(),
        "congestion": plan.congestion.to_string(),
        "unit_bytes": plan.unit,
        "seed": plan.seed,
        "outcome": outcome,
        "arrived": transfer.succeeded(),
        "seconds": transfer.end.as_secs_f64(),
        "bytes": transfer.bytes_arrived(),
        "bits_per_second": transfer.goodput(),
        "share_of_rate": transfer.share(),
        "round_trip_us": transfer.round_trip.map(|time| time.as_secs_f64() * 1e6),
        "in_place": share(receiver.units_in_place, receiver.units_in_place + receiver.units_copied),
        "deliveries": messages,
        "time_line": {
            "interval_seconds": line.interval().as_secs_f64(),
            "bytes": column(|moment| moment.bytes),
            "units_resent": column(|moment| moment.resent),
            "datagrams_lost": column(|moment| moment.lost),
        },
        "sender_counters": named(transfer.sender.iter().collect()),
        "receiver_counters": named(transfer.receiver.iter().collect()),
        "datagrams": named(transfer.fates.iter().map(|(fate, count)| (fate.name(), *count)).collect()),
        "trace": transfer.trace,
        "digest": format!("{:016x}", transfer.digest),
    })
}
