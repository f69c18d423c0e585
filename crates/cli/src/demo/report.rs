//! The table at the end.

use super::Findings;
use super::lossy::RATE;
use crate::numbers;
use crate::output::Output;
use serde_json::{Value, json};
use std::fmt::Write;
use std::io::IsTerminal;
use std::path::Path;

/// Prints it: for people, with bars on a terminal, or as JSON.
pub(super) fn print(findings: &Findings, svg: &Path, png: &Path, output: &Output) {
    let text = text(findings, svg, png, std::io::stdout().is_terminal()).unwrap_or_default();
    output.result(text, &object(findings, svg, png));
}

fn text(findings: &Findings, svg: &Path, png: &Path, terminal: bool) -> Result<String, std::fmt::Error> {
    let mut out = String::new();
    let files = &findings.files;
    writeln!(out, "\nReal files over loopback, from `pinnace send` to `pinnace recv`")?;
    writeln!(
        out,
        "  {} files, {} (the largest {})",
        files.files,
        numbers::bytes(files.bytes),
        numbers::bytes(files.largest)
    )?;
    writeln!(
        out,
        "  {:.2} s, {}, both processes' start and verification included",
        files.seconds,
        numbers::rate(files.rate())
    )?;
    writeln!(out, "  BLAKE3 the same in both folders: {} of {}", files.equal, files.files)?;

    writeln!(
        out,
        "\nMessages over loopback, Gbit/s: two processes, queued asynchronously, Pinnace (ZCRP) and TCP in turn"
    )?;
    match &findings.throughput {
        Err(error) => writeln!(out, "  not measured: {error}")?,
        Ok(rows) => {
            writeln!(out, "  {:>8} {:>9} {:>9} {:>7}", "message", "Pinnace", "TCP cubic", "ratio")?;
            let most = rows.iter().flat_map(|row| [row.pinnace, row.tcp]).fold(0.1, f64::max);
            for row in rows {
                let ratio = row.pinnace / row.tcp;
                write!(out, "  {:>8} {:>9.2} {:>9.2} {ratio:>6.2}x", numbers::bytes(row.size), row.pinnace, row.tcp)?;
                if terminal {
                    write!(out, "  {}\n{:40}{}", bar(row.pinnace / most, '█'), "", bar(row.tcp / most, '░'))?;
                }
                writeln!(out)?;
            }
        }
    }

    writeln!(
        out,
        "\nA simulated path: 100 Mbit/s, 60 ms round trip, messages of 1 MiB (ZCRP, congestion control bbr)"
    )?;
    writeln!(
        out,
        "  {:>5} {:>12} {:>9} {:>13} {:>9}   with cubic",
        "loss", "goodput", "of link", "units resent", "in place"
    )?;
    for path in &findings.lossy {
        writeln!(
            out,
            "  {:>3} % {:>12} {:>7.1} % {:>11.2} % {:>7.1} %   {}{}",
            path.percent,
            numbers::rate(path.goodput),
            path.goodput / RATE * 100.0,
            path.resent as f64 / path.units.max(1) as f64 * 100.0,
            path.in_place * 100.0,
            numbers::rate(path.cubic),
            if path.complete { "" } else { "  INCOMPLETE" }
        )?;
    }
    writeln!(
        out,
        "  Every byte was compared. bbr, the default on the Internet, does not take random loss for congestion;"
    )?;
    writeln!(out, "  cubic does, as TCP's does.")?;
    if findings.quick {
        writeln!(out, "\nThis was --quick: it works; the numbers say nothing about speed.")?;
    }
    writeln!(out, "\nPicture: {}\n         {}", png.display(), svg.display())?;
    let program = program();
    writeln!(out, "\nTry next:")?;
    writeln!(
        out,
        "  {program} recv --dir incoming     # here, and on another host: pinnace send FILE... THIS-HOST:4747"
    )?;
    writeln!(out, "  {program} perf --sizes 64KiB,1MiB --against tcp-cubic,tcp-bbr,udp --idle spin")?;
    writeln!(out, "  {program} sim --network rate=100mbit,delay=30ms,burst-loss=0.5%:20% --trace 20")?;
    write!(out, "\nDone in {:.0} s.", findings.seconds)?;
    Ok(out)
}

/// This program, as one would type it here.
fn program() -> String {
    let name = || {
        let program = std::env::current_exe().ok()?;
        let here = std::env::current_dir().ok()?;
        Some(format!("./{}", program.strip_prefix(here).ok()?.display()))
    };
    name().unwrap_or_else(|| "pinnace".to_owned())
}

fn bar(share: f64, block: char) -> String {
    block.to_string().repeat((share * 32.0).round().max(1.0) as usize)
}

fn object(findings: &Findings, svg: &Path, png: &Path) -> Value {
    let files = &findings.files;
    let rows = findings.throughput.as_deref().unwrap_or_default().iter();
    json!({
        "event": "done",
        "quick": findings.quick,
        "transfer": {
            "files": files.files,
            "bytes": files.bytes,
            "seconds": files.seconds,
            "gbit_s": files.rate() / 1e9,
            "verified": files.equal,
        },
        "throughput": rows.map(|row| json!({
            "size": row.size, "pinnace_gbit_s": row.pinnace, "tcp_cubic_gbit_s": row.tcp, "ratio": row.pinnace / row.tcp,
        })).collect::<Vec<_>>(),
        "lossy": findings.lossy.iter().map(|path| json!({
            "loss": f64::from(path.percent) / 100.0,
            "complete": path.complete,
            "bytes": path.bytes,
            "bits_per_second": path.goodput,
            "share_of_rate": path.goodput / RATE,
            "cubic_bits_per_second": path.cubic,
            "units_sent": path.units,
            "units_resent": path.resent,
            "in_place": path.in_place,
        })).collect::<Vec<_>>(),
        "svg": svg.display().to_string(),
        "png": png.display().to_string(),
        "seconds": findings.seconds,
    })
}
