//! The goals of xtask/goals.toml, measured by `pinnace perf` and `pinnace ping` in one go: a table of what was reached.
//!
//! Always true: a ratio is of medians of rounds in turns of one run; what could not be measured is a row that says why.
//! Goals are no tests: a machine with other work misses some, and nothing fails.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::Deserialize;
use serde_json::Value;
use xshell::{Shell, cmd};

const GOALS: &str = "xtask/goals.toml";
const TABLE: &str = "docs/goals.md";
/// What bounds the figure, and not a ratio.
const ITSELF: &str = "itself";

#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Only goals with this word in their group, measure, or command
    #[arg(long, value_name = "WORD", default_value = "")]
    only: String,
    /// Write the table docs/goals.md
    #[arg(long)]
    write: bool,
    /// Say which commands would be run
    #[arg(long, conflicts_with = "write")]
    list: bool,
}

#[derive(Debug, Deserialize)]
struct Goals {
    goal: Vec<Goal>,
}

/// See the file of the goals.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Goal {
    group: String,
    measure: String,
    run: String,
    sizes: Vec<String>,
    idle: Vec<String>,
    #[serde(default)]
    fields: Vec<String>,
    #[serde(default)]
    at_least: BTreeMap<String, f64>,
    #[serde(default)]
    at_most: BTreeMap<String, f64>,
}

impl Goal {
    /// The transport that is measured.
    fn protocol(&self) -> Result<&str> {
        let mut words = self.run.split_whitespace().skip_while(|word| *word != "--protocol");
        words.nth(1).with_context(|| format!("`{}` names no --protocol", self.run))
    }

    /// Other transports with the bounds of the ratio to them, and whether more is better.
    fn bounds(&self) -> impl Iterator<Item = (&str, f64, bool)> {
        let least = self.at_least.iter().map(|(other, bound)| (other.as_str(), *bound, true));
        least.chain(self.at_most.iter().map(|(other, bound)| (other.as_str(), *bound, false)))
    }

    fn command(&self, size: &str, idle: &str) -> String {
        let mut others: Vec<&str> = self.bounds().map(|(other, ..)| other).filter(|other| *other != ITSELF).collect();
        if others.is_empty() {
            others.push("tcp-cubic");
        }
        format!("{} --sizes {size} --idle {idle} --against {}", self.run, others.join(","))
    }

    fn is_about(&self, word: &str) -> bool {
        [&self.group, &self.measure, &self.run].iter().any(|text| text.to_lowercase().contains(&word.to_lowercase()))
    }

    /// What one object of the output says, with the least and the most of its rounds.
    fn figure(&self, said: &Value) -> Option<Figure> {
        let number = |field: &str| said.get(field).and_then(Value::as_f64);
        if !self.fields.is_empty() {
            let value = self.fields.iter().map(|field| number(field)).sum::<Option<f64>>()?;
            return Some(Figure { value, range: None, unit: "" });
        }
        match number("gbit_s") {
            Some(value) => {
                Some(Figure { value, range: number("gbit_s_min").zip(number("gbit_s_max")), unit: " Gbit/s" })
            }
            None => Some(Figure { value: number("p50_us")?, range: None, unit: " us" }),
        }
    }

    /// The best of each transport.
    fn measured(&self, outputs: &[String]) -> Result<BTreeMap<String, Figure>> {
        let more = self.fields.is_empty() && !self.at_least.is_empty();
        let mut best = BTreeMap::<String, Figure>::new();
        for line in outputs.iter().flat_map(|output| output.lines()) {
            let said: Value = serde_json::from_str(line).with_context(|| format!("not JSON: {line}"))?;
            let (Some(transport), Some(figure)) = (said["transport"].as_str(), self.figure(&said)) else { continue };
            let is_better = |known: &Figure| if more { figure.value > known.value } else { figure.value < known.value };
            if best.get(transport).is_none_or(is_better) {
                best.insert(transport.to_owned(), figure);
            }
        }
        Ok(best)
    }

    /// A row for each bound, or why there is none.
    fn rows(&self, size: &str, best: &BTreeMap<String, Figure>) -> Result<Vec<Result<Row>>> {
        let protocol = self.protocol()?;
        let own = best.get(protocol).with_context(|| format!("nothing was measured of {protocol}"))?;
        let measure = self.measure.replace("{size}", size);
        let row = |(other, bound, more): (&str, f64, bool)| {
            let (beside, value) = if other == ITSELF {
                (String::new(), own.value)
            } else {
                let beside = best.get(other).with_context(|| format!("nothing was measured of {other}"))?;
                (format!("{other} {beside}"), own.value / beside.value)
            };
            let is_met = if more { value >= bound } else { value <= bound };
            Ok(Row { measure: measure.clone(), own: own.to_string(), beside, value, bound, more, is_met })
        };
        Ok(self.bounds().map(row).collect())
    }
}

/// A median.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Figure {
    value: f64,
    range: Option<(f64, f64)>,
    unit: &'static str,
}

impl std::fmt::Display for Figure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", short(self.value), self.unit)?;
        match self.range {
            Some((least, most)) => write!(f, " ({} to {})", short(least), short(most)),
            None => Ok(()),
        }
    }
}

/// Three digits, as far as there are any behind the point.
fn short(value: f64) -> String {
    match value.abs() {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        1.0.. => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[derive(Debug, PartialEq)]
struct Row {
    measure: String,
    own: String,
    beside: String,
    value: f64,
    bound: f64,
    more: bool,
    is_met: bool,
}

impl Row {
    fn markdown(&self) -> String {
        let Self { measure, own, beside, value, bound, more, is_met } = self;
        let (value, stars) = (short(*value), if *is_met { "" } else { "**" });
        let ratio = if beside.is_empty() { String::new() } else { format!("{stars}{value}{stars}") };
        let own = if beside.is_empty() && !is_met { format!("**{own}**") } else { own.clone() };
        let side = if *more { "at least" } else { "at most" };
        format!("| {measure} | {own} | {beside} | {ratio} | {side} {bound} |")
    }
}

pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let text = fs::read_to_string(root.join(GOALS)).with_context(|| format!("cannot read {GOALS}"))?;
    let Goals { goal: mut goals } = toml::from_str(&text).with_context(|| format!("{GOALS} does not parse"))?;
    goals.retain(|goal| goal.is_about(&options.only));
    ensure!(!goals.is_empty(), "no goal is about `{}`", options.only);
    if options.list {
        for goal in &goals {
            for (size, idle) in goal.sizes.iter().flat_map(|size| goal.idle.iter().map(move |idle| (size, idle))) {
                println!("pinnace {}", goal.command(size, idle));
            }
        }
        return Ok(());
    }
    let sh = Shell::new()?;
    sh.change_dir(root);
    // What is built here is no load that others cause.
    let load = sh.read_file("/proc/loadavg").unwrap_or_default();
    let load = load.split_whitespace().next().unwrap_or("unknown");
    cmd!(sh, "cargo build --quiet --locked --release -p pinnace-cli").run()?;
    let pinnace = root.join("target/release/pinnace");
    let mut table = header(&sh, load)?;
    let (mut group, mut met, mut missed, mut failed) = (String::new(), 0, 0, 0);
    for goal in &goals {
        if goal.group != group {
            group.clone_from(&goal.group);
            let _ = writeln!(
                table,
                "\n## {group}\n\n| measure | {group} | beside it | ratio | goal |\n|---|---|---|---|---|"
            );
        }
        for size in &goal.sizes {
            for row in measure(&sh, &pinnace, goal, size).unwrap_or_else(|error| vec![Err(error)]) {
                let line = match row {
                    Ok(row) => {
                        *(if row.is_met { &mut met } else { &mut missed }) += 1;
                        row.markdown()
                    }
                    Err(error) => {
                        failed += 1;
                        let error = format!("{error:#}").replace('\n', " ");
                        format!("| {} | not measured: {error} | | | |", goal.measure.replace("{size}", size))
                    }
                };
                eprintln!("{line}");
                let _ = writeln!(table, "{line}");
            }
        }
    }
    let _ = writeln!(table, "\n{met} met, {missed} missed, {failed} not measured.");
    if options.write {
        fs::write(root.join(TABLE), &table).with_context(|| format!("cannot write {TABLE}"))?;
    } else {
        print!("{table}");
    }
    Ok(())
}

fn measure(sh: &Shell, pinnace: &Path, goal: &Goal, size: &str) -> Result<Vec<Result<Row>>> {
    let mut outputs = Vec::new();
    for idle in &goal.idle {
        let command = goal.command(size, idle);
        let words = command.split_whitespace();
        let output = cmd!(sh, "{pinnace} {words...} --json").quiet().ignore_status().output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "`pinnace {command}`: {}", said.trim());
        outputs.push(String::from_utf8(output.stdout)?);
    }
    goal.rows(size, &goal.measured(&outputs)?)
}

/// What was measured where.
fn header(sh: &Shell, load: &str) -> Result<String> {
    let processor = sh.read_file("/proc/cpuinfo").unwrap_or_default();
    let model = processor.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("an unknown processor", |(_, model)| model);
    let cores = std::thread::available_parallelism()?;
    let kernel = sh.read_file("/proc/sys/kernel/osrelease").unwrap_or_default();
    Ok(format!(
        "# The goals\n\nWritten by `cargo xtask goals --write` (as root, for `veth` and emulated links) on {cores} processors \
         ({model}), Linux {}, load before {load}. `cargo xtask goals --list` says the command of each row, `--only WORD` measures \
         some. Medians, with the least and the most of the rounds; bold: missed. Not among them is what takes too long or other \
         commands ([performance](performance.md) has it): VRP's grid of paths, QMP with and without QBUF, the throughput of shared \
         memory, unmodified programs, checksums, contexts, many sinks, and sound beside bulk.\n",
        kernel.trim()
    ))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::{Goal, Goals};

    fn goal(bounds: &str) -> Goal {
        let text = format!(
            "[[goal]]\ngroup = \"G\"\nmeasure = \"{{size}}\"\nrun = \"perf --protocol zcrp\"\nsizes = [\"1\"]\nidle = []\n{bounds}"
        );
        toml::from_str::<Goals>(&text).unwrap().goal.remove(0)
    }

    #[test]
    fn the_best_of_each_transport_counts_and_ratios_are_bounded_on_their_side() {
        let goal = goal("at-least = { tcp-cubic = 1.5, itself = 4.0 }");
        let outputs = [
            "{\"transport\":\"zcrp\",\"gbit_s\":3.0}\n{\"transport\":\"tcp-cubic\",\"gbit_s\":2.5}".to_owned(),
            "{\"transport\":\"zcrp\",\"gbit_s\":4.0}\n{\"transport\":\"tcp-cubic\",\"gbit_s\":2.0}\n{\"event\":\"other\"}".to_owned(),
        ];
        let rows = goal.rows("1", &goal.measured(&outputs).unwrap()).unwrap();
        let said: Vec<_> = rows.iter().flatten().map(|row| (row.value, row.is_met)).collect();
        assert_eq!(said, [(4.0, true), (1.6, true)]);
    }

    #[test]
    fn of_round_trips_less_is_better() {
        let goal = goal("at-most = { tcp-cubic = 0.8 }");
        let outputs = [
            "{\"transport\":\"zcrp\",\"p50_us\":9.0}\n{\"transport\":\"tcp-cubic\",\"p50_us\":10.0}".to_owned(),
            "{\"transport\":\"zcrp\",\"p50_us\":8.5}".to_owned(),
        ];
        let rows = goal.rows("1", &goal.measured(&outputs).unwrap()).unwrap();
        assert_eq!(
            rows[0].as_ref().unwrap().markdown(),
            "| 1 | 8.50 us | tcp-cubic 10.0 us | **0.850** | at most 0.8 |"
        );
    }

    #[test]
    fn what_was_not_measured_is_said() {
        let goal = goal("at-least = { itself = 2.0, tcp-cubic = 1.5 }");
        let measured = goal.measured(&["{\"transport\":\"zcrp\",\"gbit_s\":3.0}".to_owned()]).unwrap();
        let rows = goal.rows("1", &measured).unwrap();
        let [Ok(itself), Err(beside)] = &rows[..] else { panic!("{rows:?}") };
        assert_eq!((itself.value, itself.is_met), (3.0, true), "what was measured counts all the same");
        assert_eq!(beside.to_string(), "nothing was measured of tcp-cubic");
        assert_eq!(goal.rows("1", &[].into()).unwrap_err().to_string(), "nothing was measured of zcrp");
    }

    #[test]
    fn the_goals_of_the_repository_parse() {
        let goals: Goals = toml::from_str(include_str!("../goals.toml")).unwrap();
        assert!(goals.goal.iter().all(|goal| goal.protocol().is_ok() && goal.bounds().count() > 0));
    }
}
