//! Throughput by message size over loopback, beside TCP: `pinnace perf` in a process of its own.

use super::child::Child;
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

/// One message size.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) size: u64,
    /// Gbit/s.
    pub(super) pinnace: f64,
    /// Gbit/s.
    pub(super) tcp: f64,
}

/// The transport that Pinnace is compared with.
const OTHER: &str = "tcp-cubic";

/// Measures. The error is a sentence.
pub(super) fn measure(folder: &Path, quick: bool) -> Result<Vec<Row>, String> {
    let (sizes, rounds, seconds) =
        if quick { ("64KiB,1MiB", "1", "0.1") } else { ("1KiB,16KiB,64KiB,256KiB,1MiB,16MiB", "3", "0.3") };
    let arguments = [
        "--json",
        "perf",
        "--protocol",
        "zcrp",
        "--against",
        OTHER,
        "--sizes",
        sizes,
        "--rounds",
        rounds,
        "--seconds",
        seconds,
        "--path",
        "lo",
        "--idle",
        "adaptive",
    ];
    let mut perf = Child::start(folder, "perf", &arguments).map_err(|error| error.to_string())?;
    perf.succeed(Duration::from_secs(35)).map_err(|error| error.to_string())?;
    let rows = rows(&perf.said());
    if rows.is_empty() { Err("pinnace perf printed no results".to_owned()) } else { Ok(rows) }
}

/// Reads what `perf --json` printed: one object a line.
fn rows(text: &str) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for object in text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        let (Some(transport), Some(size), Some(rate)) =
            (object["transport"].as_str(), object["size"].as_u64(), object["gbit_s"].as_f64())
        else {
            continue;
        };
        let row = match rows.iter().position(|row| row.size == size) {
            Some(at) => &mut rows[at],
            None => {
                rows.push(Row { size, pinnace: 0.0, tcp: 0.0 });
                let last = rows.len() - 1;
                &mut rows[last]
            }
        };
        match transport {
            "zcrp" => row.pinnace = rate,
            OTHER => row.tcp = rate,
            _ => {}
        }
    }
    rows.retain(|row| row.pinnace > 0.0 && row.tcp > 0.0);
    rows.sort_by_key(|row| row.size);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_perf_become_rows() {
        let text = "{\"transport\":\"zcrp\",\"size\":65536,\"gbit_s\":20.5}\nnoise\n\
                    {\"transport\":\"tcp-cubic\",\"size\":65536,\"gbit_s\":10.0}\n\
                    {\"transport\":\"zcrp\",\"size\":1024,\"gbit_s\":1.0}\n{\"other\":1}\n";
        assert_eq!(rows(text), [Row { size: 65_536, pinnace: 20.5, tcp: 10.0 }], "half a comparison is none");
        assert!(rows("").is_empty());
    }
}
