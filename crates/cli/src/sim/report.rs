//! What `pinnace sim` prints, for people and for programs.

use super::Protocol;
use super::tally::End;
use super::timeline::{Line, Moment};
use super::transfer::{MessageEnd, Plan, Transfer};
use crate::numbers::{bytes, count, percent, rate, share, time};
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
    write!(out, "{}: ", plan.protocol.title())?;
    settings(out, plan)?;
    if plan.protocol == Protocol::Vrp {
        writeln!(out, "contract     {}", plan.contract)?;
    }
    writeln!(out, "\noutcome      {}", outcome(transfer))?;
    if let Some(goodput) = transfer.goodput() {
        let share =
            transfer.share().map_or(String::new(), |share| format!(", {:.1} % of the link's rate", share * 100.0));
        writeln!(out, "goodput      {}{share}", rate(goodput))?;
    }
    let (figures, pieces) = (&transfer.figures, plan.protocol.pieces());
    if plan.contract.loss_rate.is_some() {
        let lost = transfer.bytes_lost();
        writeln!(
            out,
            "let go       {} of {} ({}), within the contract",
            bytes(lost),
            bytes(plan.bytes()),
            percent(lost, plan.bytes())
        )?;
    }
    if let Some(round_trip) = figures.round_trip {
        writeln!(
            out,
            "round trip   {} smoothed, {} without queues",
            time(round_trip),
            time(plan.there.delay + plan.back.delay)
        )?;
    }
    writeln!(
        out,
        "resent       {} of {} {pieces} ({}); {} time-outs",
        count(figures.resent),
        count(figures.sent),
        percent(figures.resent, figures.sent),
        count(figures.timeouts)
    )?;
    let lost: u64 = transfer.fates.iter().filter(|(fate, _)| fate.is_loss()).map(|(_, count)| count).sum();
    let sent: u64 = transfer.hosts.iter().map(|host| host.datagrams_sent).sum();
    writeln!(out, "network lost {} of {} datagrams ({}), both ways", count(lost), count(sent), percent(lost, sent))?;
    writeln!(
        out,
        "in place     {} received straight into their buffers; {} copied",
        percent(figures.in_place, figures.in_place + figures.copied),
        bytes(figures.bytes_copied)
    )?;
    list(out, transfer)?;
    if terminal {
        blocks(out, &transfer.line, pieces)?;
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

/// What was sent over what.
fn settings(out: &mut dyn Write, plan: &Plan) -> io::Result<()> {
    let messages = plan.sizes.len();
    writeln!(out, "{messages} message{} of {} in all", if messages == 1 { "" } else { "s" }, bytes(plan.bytes()))?;
    writeln!(out, "network      {}", plan.there)?;
    if plan.back != plan.there {
        writeln!(out, "back         {}", plan.back)?;
    }
    writeln!(
        out,
        "settings     congestion {}, datagrams of {} bytes at most, seed {}",
        plan.congestion, plan.datagram, plan.seed
    )
}

/// Several transfers over the same network, a line each.
pub(super) fn table(out: &mut dyn Write, transfers: &[Transfer]) -> io::Result<()> {
    let Some(Transfer { plan, .. }) = transfers.first() else { return Ok(()) };
    settings(out, plan)?;
    writeln!(
        out,
        "\n{:<5} {:>14} {:>12} {:>10} {:>10} {:>16} {:>14}  outcome",
        "", "goodput", "of the link", "resent", "time-outs", "arrived, median", "let go"
    )?;
    for transfer in transfers {
        let figures = &transfer.figures;
        writeln!(
            out,
            "{:<5} {:>14} {:>12} {:>10} {:>10} {:>16} {:>14}  {}",
            transfer.plan.protocol.title(),
            transfer.goodput().map_or("none".to_owned(), rate),
            transfer.share().map_or(String::new(), |share| format!("{:.1} %", share * 100.0)),
            percent(figures.resent, figures.sent),
            count(figures.timeouts),
            transfer.median_arrival().map_or("never".to_owned(), time),
            bytes(transfer.bytes_lost()),
            outcome(transfer)
        )?;
    }
    Ok(())
}

fn outcome(transfer: &Transfer) -> String {
    let messages = transfer.messages.len();
    let arrived = transfer.messages.iter().filter(|message| message.arrived()).count();
    let end = time(transfer.end);
    if arrived == messages {
        let how = if transfer.bytes_lost() == 0 { "whole" } else { "within their contracts" };
        return format!("all {messages} arrived {how}, every byte verified, after {end}");
    }
    let why = match transfer.outcome {
        // Only of VRP: a frame that never came is unknown to its receiver.
        Outcome::Done if transfer.messages.iter().any(|message| message.received.is_none()) => {
            "the rest failed, and the sender was told"
        }
        Outcome::Done => "the rest failed, and both ends were told",
        Outcome::DeadlineReached => "the rest was still under way",
        Outcome::Quiet => "the rest hangs: a defect, please report it with this command line",
        Outcome::Livelock(_) => "an engine went round in circles: a defect, please report it with this command line",
    };
    format!("FAILED: {arrived} of {messages} arrived; {why}, after {end}")
}

/// How a message ended, in words: at the receiver, at the sender.
fn endings(message: &MessageEnd) -> [String; 2] {
    let at = |when: Time| time(when.since(Time::ZERO));
    let receiver = match &message.received {
        Some(end @ End { at: when, result: Ok(got) }) if end.is_verified() => match got.lost {
            0 => format!("arrived whole after {}", at(*when)),
            lost => format!("arrived but for {} after {}", bytes(lost), at(*when)),
        },
        Some(End { at: when, result: Ok(_) }) => format!("ALTERED, reported after {}", at(*when)),
        Some(End { at: when, result: Err(failed) }) => {
            format!("FAILED at the receiver after {}: {}", at(*when), failed.why)
        }
        None => "not arrived".to_owned(),
    };
    let sender = match &message.sent {
        Some(End { at: when, result: Ok(_) }) => format!("acknowledged after {}", at(*when)),
        Some(End { at: when, result: Err(failed) }) => {
            format!("FAILED at the sender after {}: {}", at(*when), failed.why)
        }
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
        more => writeln!(out, "  and {more} more, all of which arrived"),
    }
}

fn milliseconds(line: &Line) -> String {
    format!("{} ms", line.interval().as_millis())
}

fn peak(line: &Line) -> u64 {
    line.moments().iter().map(|moment| moment.bytes).max().unwrap_or(0)
}

/// One row of blocks, and under it a mark wherever anything was sent again.
fn blocks(out: &mut dyn Write, line: &Line, pieces: &str) -> io::Result<()> {
    const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let line = line.readable(COLUMNS);
    let peak = peak(&line);
    let height = |moment: &Moment| BLOCKS[(share(moment.bytes, peak) * 8.0).ceil() as usize];
    let marks: String = line.moments().iter().map(|moment| if moment.resent > 0 { '↻' } else { ' ' }).collect();
    let fastest = line.moments().iter().map(|moment| line.rate(moment)).fold(0.0, f64::max);
    writeln!(
        out,
        "\ntime line    goodput per {}, ↻ {pieces} sent again; the highest is {}",
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
        ("sender", transfer.figures.sender.clone()),
        ("receiver", transfer.figures.receiver.clone()),
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
            let when = |end: &Option<End>| end.as_ref().map(|end| seconds(end.at));
            let failure = |end: &Option<End>| {
                end.as_ref().and_then(|end| end.result.as_ref().err().map(|failed| failed.why.clone()))
            };
            json!({
                "message": number,
                "bytes": message.size,
                "arrived": message.arrived(),
                "verified": message.is_verified(),
                "bytes_lost": message.lost(),
                "received_seconds": when(&message.received),
                "acknowledged_seconds": when(&message.sent),
                "receiver_failure": failure(&message.received),
                "sender_failure": failure(&message.sent),
            })
        })
        .collect();
    let line = transfer.line.readable(usize::MAX);
    let column = |value: fn(&Moment) -> u64| line.moments().iter().map(value).collect::<Vec<_>>();
    let figures = &transfer.figures;
    let named = |counters: &[(&str, u64)]| -> Map<String, Value> {
        counters.iter().map(|&(name, value)| (name.to_owned(), value.into())).collect()
    };
    let outcome = match transfer.outcome {
        Outcome::Done => "done",
        Outcome::Quiet => "quiet",
        Outcome::DeadlineReached => "deadline",
        Outcome::Livelock(_) => "livelock",
    };
    json!({
        "event": "done",
        "protocol": plan.protocol.name(),
        "network": plan.there.to_string(),
        "back": plan.back.to_string(),
        "congestion": plan.congestion.to_string(),
        "contract": plan.contract.loss_rate.map(|_| plan.contract.to_string()),
        "datagram_bytes": plan.datagram,
        "seed": plan.seed,
        "outcome": outcome,
        "arrived": transfer.succeeded(),
        "seconds": transfer.end.as_secs_f64(),
        "bytes": transfer.bytes_arrived(),
        "bytes_lost": transfer.bytes_lost(),
        "bits_per_second": transfer.goodput(),
        "share_of_rate": transfer.share(),
        "round_trip_us": figures.round_trip.map(|time| time.as_secs_f64() * 1e6),
        "in_place": figures.share_in_place(),
        "datagrams_sent": figures.sent,
        "datagrams_resent": figures.resent,
        "timeouts": figures.timeouts,
        "deliveries": messages,
        "time_line": {
            "interval_seconds": line.interval().as_secs_f64(),
            "bytes": column(|moment| moment.bytes),
            "datagrams_resent": column(|moment| moment.resent),
            "datagrams_lost": column(|moment| moment.lost),
        },
        "sender_counters": named(&figures.sender),
        "receiver_counters": named(&figures.receiver),
        "datagrams": named(&transfer.fates.iter().map(|(fate, count)| (fate.name(), *count)).collect::<Vec<_>>()),
        "trace": transfer.trace,
        "digest": format!("{:016x}", transfer.digest),
    })
}
