//! The table at the end.

use super::figure::{age, fps};
use super::run::Viewed;
use super::{CONTRACT, DEADLINE, FPS, Findings, Shown, movie};
use crate::output::Output;
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

/// Prints it, for people or as JSON.
pub(super) fn print(findings: &Findings, png: &Path, output: &Output) {
    output.result(text(findings, png).unwrap_or_default(), &object(findings, png));
}

fn text(findings: &Findings, png: &Path) -> Result<String, std::fmt::Error> {
    let mut out = String::new();
    writeln!(
        out,
        "\n{} pictures of {} bytes, {FPS} a second, over {}",
        findings.pictures,
        movie::BYTES,
        findings.path
    )?;
    let [rate, run] = CONTRACT;
    writeln!(
        out,
        "VRP may lose {} of a picture's packets, {} in a row, and nothing of the top row of tiles\n",
        rate.replace('%', " %"),
        run.trim_end_matches("packets")
    )?;
    writeln!(
        out,
        "  {:<10} {:>9} {:>9} {:>11} {:>9} {:>12} {:>9}",
        "", "arrived", "a second", "median age", "p99 age", "in time", "missing"
    )?;
    for Shown { name, result } in &findings.shown {
        let viewed = match result {
            Ok(viewed) => viewed,
            Err(error) => {
                writeln!(out, "  {name:<10} {error}")?;
                continue;
            }
        };
        let of = |name: &str| viewed.received["age_ms"][name].as_f64().unwrap_or(0.0);
        let millis = |name: &str| age(Duration::from_secs_f64(of(name) / 1e3));
        let number = |name: &str| viewed.received[name].as_u64().unwrap_or(0);
        writeln!(
            out,
            "  {name:<10} {:>9} {:>9.1} {:>11} {:>9} {:>10.1} % {:>7.2} %",
            format!("{}/{}", number("frames"), findings.pictures),
            fps(viewed),
            millis("p50"),
            millis("p99"),
            number("frames_in_time") as f64 / findings.pictures as f64 * 100.0,
            missing(viewed) * 100.0,
        )?;
    }
    writeln!(
        out,
        "\nIn time: within {} ms. Ages run from the call that sends a picture to its delivery. A picture that is due while",
        DEADLINE.as_millis()
    )?;
    writeln!(out, "three are under way is left out, with either transport, so that none grows old in a queue.")?;
    if let Some(reason) = &findings.without_tcp {
        writeln!(
            out,
            "\nTCP was not run: it is the kernel's, and a lossy path for it takes privileges. {reason}\nVRP crossed a relay in \
             user space instead."
        )?;
    }
    writeln!(out, "\nPicture: {}", png.display())?;
    write!(out, "\nDone in {:.0} s.", findings.seconds)?;
    Ok(out)
}

/// The share of all bytes that arrived in pictures and are holes.
fn missing(viewed: &Viewed) -> f64 {
    let bytes: usize = viewed.seen.iter().flat_map(|seen| &seen.holes).map(|hole| hole.len()).sum();
    bytes as f64 / (viewed.seen.len() * movie::BYTES).max(1) as f64
}

fn object(findings: &Findings, png: &Path) -> Value {
    let transports = findings.shown.iter().map(|Shown { name, result }| match result {
        Ok(viewed) => json!({
            "name": name,
            "pictures": viewed.seen.len(),
            "frames_per_second": fps(viewed),
            "share_missing": missing(viewed),
            "received": viewed.received,
            "sent": viewed.sent,
        }),
        Err(error) => json!({ "name": name, "error": error }),
    });
    json!({
        "event": "done",
        "path": findings.path,
        "pictures": findings.pictures,
        "picture_bytes": movie::BYTES,
        "transports": transports.collect::<Vec<_>>(),
        "without_tcp": findings.without_tcp,
        "png": png.display().to_string(),
        "seconds": findings.seconds,
    })
}
