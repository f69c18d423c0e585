//! E-X2: the checksum of a packet that is put together of two, and of one in which a word has changed (the XTP paper's table
//! 3.3): without looking at the rest of it, so in the same time for every length.

use super::Run;
use super::clock::{self, Time, Timed};
use super::figure::{Curve, Panel, Panels};
use crate::exit::Error;
use crate::perf::{progress, span};
use crate::picture::COLOURS;
use pinnace_wire::checksum::{cxor, cxor_catenate, cxor_update};
use serde::Serialize;
use std::hint::black_box;

/// Bytes of a packet; the paper's is one of them.
const SIZES: [usize; 6] = [100, 1_000, PAPER_SIZE, 100_000, 1_000_000, 10_000_000];
const PAPER_SIZE: usize = 10_000;
/// Microseconds on the paper's machines: Sun 3/60, Sparc IPX, DEC 5000/200.
const PAPER_CATENATION: [f64; 3] = [60.0, 12.0, 4.0];
const PAPER_UPDATE: [f64; 3] = [80.0, 14.0, 4.0];
/// How far the medians of the shortest and the longest packet may be apart to count as the same time: a cycle or two of so
/// few are a third.
const SAME: f64 = 1.5;

/// The times of one length.
struct Packet {
    size: usize,
    catenation: Time,
    update: Time,
    /// The sum of the whole packet again.
    again: Time,
}

/// One row as JSON.
#[derive(Serialize)]
struct Line<'a> {
    event: &'static str,
    experiment: &'a str,
    size: usize,
    catenation_ns: f64,
    catenation_ns_min: f64,
    catenation_ns_max: f64,
    update_ns: f64,
    update_ns_min: f64,
    update_ns_max: f64,
    /// The checksum of the whole packet.
    again_ns: f64,
    paper_catenation_us: Option<[f64; 3]>,
    paper_update_us: Option<[f64; 3]>,
}

/// The last line of JSON.
#[derive(Serialize)]
struct Summary<'a> {
    experiment: &'a str,
    event: &'static str,
    /// Slowest to fastest over all lengths.
    catenation_spread: f64,
    update_spread: f64,
    /// Both take the same time for every length.
    reached: bool,
    quick: bool,
}

/// Runs it.
pub(super) fn run(run: &Run<'_>) -> Result<(), Error> {
    let rounds = clock::rounds(run.effort);
    run.begin("checksums of assembled and of modified packets (the XTP paper's table 3.3)");
    run.say(format_args!(
        "# {}, interleaved, warmed up; medians, and the middle half of the rounds",
        crate::units::count_of(rounds as u64, "round")
    ));
    run.say(format_args!(
        "{:>9} {:>14} {:>17} {:>11} {:>17} {:>14}  {}",
        "packet", "catenation, ns", "(min .. max)", "update, ns", "(min .. max)", "summed again", "paper, us"
    ));
    let sizes = if run.effort.quick { &SIZES[..5] } else { &SIZES[..] };
    let bytes: Vec<u8> = (0..10_000_000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let bar = progress(1);
    bar.set_message("all lengths");
    let packets = measure(&bytes, sizes, rounds)?;
    bar.finish_and_clear();
    packets.iter().for_each(|packet| print(run, packet));
    let spread = |of: fn(&Packet) -> Time| {
        let (least, most) = span(packets.iter().map(|packet| of(packet).median));
        most / least
    };
    let (catenation_spread, update_spread) = (spread(|packet| packet.catenation), spread(|packet| packet.update));
    let summary = Summary {
        experiment: run.name,
        event: "summary",
        catenation_spread,
        update_spread,
        reached: catenation_spread <= SAME && update_spread <= SAME,
        quick: run.effort.quick,
    };
    let verdict = if summary.reached { "reached" } else { "not reached" };
    let text = format!(
        "\nslowest to fastest length: catenation {catenation_spread:.2}, update {update_spread:.2}\nthe paper: the same time \
         for every length: {verdict}"
    );
    run.output.result(text, &summary);
    run.draw(&figure(&packets))
}

/// Times all lengths in turns.
fn measure(bytes: &[u8], sizes: &[usize], rounds: usize) -> Result<Vec<Packet>, Error> {
    let mut runs: Vec<Timed<'_>> = Vec::new();
    for &size in sizes {
        let packet = &bytes[..size];
        let half = size / 4 * 2;
        let (first, second, whole) = (cxor(&packet[..half]), cxor(&packet[half..]), cxor(packet));
        let words = (size - half).div_ceil(2) as u64;
        verify(packet, whole, cxor_catenate(first, second, words))?;
        runs.push(Box::new(move |repeats| {
            for _ in 0..repeats {
                black_box(cxor_catenate(black_box(first), black_box(second), black_box(words)));
            }
        }));
        let (index, all) = (size as u64 / 5, size.div_ceil(2) as u64);
        runs.push(Box::new(move |repeats| {
            for _ in 0..repeats {
                let (old, new) = (black_box(1), black_box(2));
                black_box(cxor_update(black_box(whole), old, new, black_box(index), black_box(all)));
            }
        }));
    }
    let mut short = clock::measure(&mut runs, rounds).into_iter();
    // Apart: the long ones drive everything out of the caches.
    let mut runs: Vec<Timed<'_>> = sizes.iter().map(|&size| clock::over(&bytes[..size], cxor)).collect();
    let again = clock::measure(&mut runs, rounds.min(31));
    let packets = sizes
        .iter()
        .zip(again)
        .map_while(|(&size, again)| Some(Packet { size, catenation: short.next()?, update: short.next()?, again }));
    Ok(packets.collect())
}

/// Fails unless what was put together, or changed and changed back, is the checksum of all.
fn verify(packet: &[u8], whole: u32, catenated: u32) -> Result<(), Error> {
    let all = packet.len().div_ceil(2) as u64;
    let mut changed = packet.to_vec();
    let index = packet.len() / 10 * 2;
    let old = u16::from_be_bytes([changed[index], changed[index + 1]]);
    changed[index] ^= 0x5a;
    let new = u16::from_be_bytes([changed[index], changed[index + 1]]);
    if catenated == whole && cxor_update(whole, old, new, index as u64 / 2, all) == cxor(&changed) {
        return Ok(());
    }
    Err(Error::not_verified(format!("catenation or update of {} bytes is wrong; please report it", packet.len())))
}

fn print(run: &Run<'_>, packet: &Packet) {
    let Packet { size, catenation, update, again } = packet;
    let is_papers = *size == PAPER_SIZE;
    let text = format!(
        "{size:>9} {:>14.2} {:>17} {:>11.2} {:>17} {:>11.0} ns  {}",
        catenation.median,
        format!("({:.2} .. {:.2})", catenation.low, catenation.high),
        update.median,
        format!("({:.2} .. {:.2})", update.low, update.high),
        again.median,
        if is_papers { "catenation 60, 12, 4; update 80, 14, 4" } else { "" },
    );
    let line = Line {
        event: "row",
        experiment: run.name,
        size: *size,
        catenation_ns: catenation.median,
        catenation_ns_min: catenation.low,
        catenation_ns_max: catenation.high,
        update_ns: update.median,
        update_ns_min: update.low,
        update_ns_max: update.high,
        again_ns: again.median,
        paper_catenation_us: is_papers.then_some(PAPER_CATENATION),
        paper_update_us: is_papers.then_some(PAPER_UPDATE),
    };
    run.output.result(text.trim_end(), &line);
}

fn figure(packets: &[Packet]) -> Panels {
    let curve = |label: &str, colour: usize, of: fn(&Packet) -> Time| Curve {
        label: label.to_owned(),
        colour: COLOURS[colour],
        dashed: false,
        dots: true,
        points: packets.iter().map(|packet| (packet.size as f64, of(packet).median)).collect(),
    };
    let again = |packet: Option<&Packet>| packet.map_or_else(String::new, |packet| time(packet.again.median));
    Panels {
        title: "The checksum of a packet from its parts".to_owned(),
        caption: vec![
            format!(
                "CXOR of two buffers joined, and after a change of one word: the same time for every length. Summing all of it \
                 takes {} to {}.",
                again(packets.first()),
                again(packets.last())
            ),
            "The paper, 10,000 bytes: catenation 60, 12, 4 us and update 80, 14, 4 us on a Sun 3/60, a Sparc IPX and a DEC \
             5000/200."
                .to_owned(),
        ],
        panels: vec![Panel {
            title: String::new(),
            x_name: "bytes of the packet".to_owned(),
            y_name: "ns".to_owned(),
            doubling: true,
            curves: vec![
                curve("catenation", 0, |packet| packet.catenation),
                curve("update", 1, |packet| packet.update),
            ],
            dots: Vec::new(),
            mark: Some((PAPER_SIZE as f64, "the paper's packet".to_owned())),
        }],
    }
}

/// Nanoseconds as people say them.
fn time(nanoseconds: f64) -> String {
    match nanoseconds {
        ..1e3 => format!("{nanoseconds:.0} ns"),
        ..1e6 => format!("{:.0} us", nanoseconds / 1e3),
        _ => format!("{:.0} ms", nanoseconds / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_timed_is_right_at_odd_lengths_too() {
        let bytes: Vec<u8> = (0..2_000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        for size in [100, 101, 102, 103, 1_999] {
            let half = size / 4 * 2;
            let joined =
                cxor_catenate(cxor(&bytes[..half]), cxor(&bytes[half..size]), (size - half).div_ceil(2) as u64);
            assert!(verify(&bytes[..size], cxor(&bytes[..size]), joined).is_ok(), "{size}");
        }
        assert!(verify(&bytes, cxor(&bytes), 0).is_err());
    }
}
