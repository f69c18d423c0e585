//! The table at the end.

use super::{BAR_MS, Findings, SINKS};
use crate::numbers;
use crate::output::Output;
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::Path;

/// Prints it, for people or as JSON.
pub(super) fn print(findings: &Findings, svg: &Path, png: &Path, output: &Output) {
    output.result(text(findings, svg, png).unwrap_or_default(), &object(findings, svg, png));
}

fn text(findings: &Findings, svg: &Path, png: &Path) -> Result<String, std::fmt::Error> {
    let mut out = String::new();
    writeln!(
        out,
        "\n{} s of 48 kHz stereo, a block every 20 ms, to {SINKS} sinks over one link: {}\n",
        findings.length, findings.link
    )?;
    writeln!(
        out,
        "  {:<32} {:>8} {:>7} {:>10} {:>8} {:>8} {:>10}",
        "the song went", "blocks", "lost", "jitter", "p99", "latest", "bulk"
    )?;
    for turn in &findings.turns {
        let bulk = if turn.bulk > 0.0 { numbers::rate(turn.bulk) } else { String::new() };
        writeln!(
            out,
            "  {:<32} {:>8} {:>7} {:>7.2} ms {:>5.1} ms {:>5.0} ms {bulk:>10}",
            turn.beside.to_string(),
            turn.heard.iter().map(|heard| heard.blocks).sum::<u64>(),
            turn.lost(),
            turn.most(|heard| heard.jitter),
            turn.most(|heard| heard.p99),
            turn.most(|heard| heard.late_max),
        )?;
    }
    writeln!(out, "\n  Of the {SINKS} sinks the worst. Jitter is that of RFC 3550, p99 of the same differences.")?;
    writeln!(
        out,
        "  Copies that are the original, byte for byte: {} of {}.",
        equal(findings),
        SINKS * findings.turns.len()
    )?;
    writeln!(out, "\n{}", capital(&findings.verdict()))?;
    if findings.quick {
        writeln!(out, "This was --quick: it works; the numbers say little.")?;
    }
    writeln!(out, "\nPicture: {}\n         {}", png.display(), svg.display())?;
    writeln!(
        out,
        "\nTry next:\n  pinnace tune -o copy.wav          # here, and there: pinnace cast FILE.wav --to THIS-HOST:4748"
    )?;
    write!(out, "\nDone in {:.0} s.", findings.seconds)?;
    Ok(out)
}

fn equal(findings: &Findings) -> usize {
    findings.turns.iter().map(super::Turn::equal).sum()
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn object(findings: &Findings, svg: &Path, png: &Path) -> Value {
    let turns = findings.turns.iter().map(|turn| {
        json!({
            "beside": turn.beside.to_string(),
            "bulk_bits_per_second": turn.bulk,
            "sinks": turn.heard.iter().map(|heard| json!({
                "equal": heard.is_equal,
                "blocks": heard.blocks,
                "blocks_lost": heard.lost,
                "jitter_ms": heard.jitter,
                "jitter_p99_ms": heard.p99,
                "late_p99_ms": heard.late_p99,
                "late_max_ms": heard.late_max,
            })).collect::<Vec<_>>(),
        })
    });
    json!({
        "event": "done",
        "quick": findings.quick,
        "network": findings.link,
        "turns": turns.collect::<Vec<_>>(),
        "whole": findings.is_whole(),
        "p99_below_bar": findings.with_priority().is_some_and(|turn| turn.most(|heard| heard.p99) < BAR_MS),
        "verdict": findings.verdict(),
        "svg": svg.display().to_string(),
        "png": png.display().to_string(),
        "seconds": findings.seconds,
    })
}
