//! Which crate of the workspace may depend on which: the floors of ARCHITECTURE.md; and that docs/dependencies.md says why
//! each crate of others is here.
//!
//! A crate may use what stands below it, never what stands beside or above it, save where [`FLOORS`] says so. Only
//! what ends up in the product counts: tests may use anything (an engine is tested on the simulator).

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use toml::{Table, Value};

use crate::source;

/// Where each dependency has a row.
const DEPENDENCIES: &str = "docs/dependencies.md";

/// A crate (or a folder of crates, with `*`) and the crates it may use.
struct Floor {
    name: &'static str,
    may_use: &'static [&'static str],
}

const ENGINE: &[&str] = &["pinnace-wire", "pinnace-core"];
const BELOW_LIBRARY: &[&str] = &[
    "pinnace-wire",
    "pinnace-core",
    "pinnace-qbuf",
    "pinnace-zcrp",
    "pinnace-a1",
    "pinnace-xtp",
    "pinnace-qmp",
    "pinnace-vrp",
    "pinnace-link",
    "pinnace-seal",
    "pinnace-sim",
    "pinnace-runtime",
];

/// From the ground up. `BELOW_LIBRARY` and `pinnace` itself is what the top floor stands on.
const FLOORS: &[Floor] = &[
    Floor { name: "pinnace-wire", may_use: &[] },
    Floor { name: "pinnace-core", may_use: &[] },
    Floor { name: "pinnace-qbuf", may_use: &[] },
    Floor { name: "pinnace-zcrp", may_use: ENGINE },
    Floor { name: "pinnace-a1", may_use: ENGINE },
    Floor { name: "pinnace-xtp", may_use: ENGINE },
    Floor { name: "pinnace-qmp", may_use: &["pinnace-wire", "pinnace-core", "pinnace-xtp"] },
    Floor { name: "pinnace-vrp", may_use: ENGINE },
    Floor { name: "pinnace-link", may_use: &["pinnace-wire", "pinnace-core", "pinnace-qbuf"] },
    Floor { name: "pinnace-seal", may_use: &["pinnace-core", "pinnace-link"] },
    Floor { name: "pinnace-sim", may_use: &["pinnace-wire", "pinnace-core"] },
    Floor { name: "pinnace-runtime", may_use: &["pinnace-core", "pinnace-link"] },
    Floor { name: "pinnace", may_use: BELOW_LIBRARY },
];

/// The crates of the top floor, which may use every crate of [`FLOORS`].
const TOP: &[&str] = &["pinnace-c", "pinnace-preload", "pinnace-python", "pinnace-cli"];

/// The members of the workspace that are not part of the product: no rule for them, and nobody may use them.
const OUTSIDE: &[&str] = &["xtask", "pinnace-testing"];

/// What is wrong with the dependencies of every member of the workspace.
pub(crate) fn problems(root: &Path) -> Result<Vec<String>> {
    let workspace = read(&root.join("Cargo.toml"))?;
    let members = workspace.get("workspace").and_then(|w| w.get("members")).and_then(Value::as_array);
    let mut problems = Vec::new();
    for member in members.context("the workspace has members")?.iter().filter_map(Value::as_str) {
        problems.extend(problems_of(&read(&root.join(member).join("Cargo.toml"))?));
    }
    Ok(problems)
}

fn read(path: &Path) -> Result<Table> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    text.parse().with_context(|| path.display().to_string())
}

fn problems_of(manifest: &Table) -> Vec<String> {
    let name = manifest.get("package").and_then(|p| p.get("name")).and_then(Value::as_str).unwrap_or_default();
    if OUTSIDE.contains(&name) {
        return Vec::new();
    }
    let may_use = |used: &str| match FLOORS.iter().find(|f| f.name == name) {
        Some(floor) => floor.may_use.contains(&used),
        None => FLOORS.iter().any(|f| f.name == used),
    };
    if !TOP.contains(&name) && FLOORS.iter().all(|f| f.name != name) {
        return vec![format!("{name}: on no floor; add it to xtask/src/floors.rs and ARCHITECTURE.md")];
    }
    let used = dependencies(manifest, &["dependencies", "build-dependencies"]);
    let wrong = used.into_iter().filter(|used| is_ours(used) && !may_use(used));
    wrong.map(|used| format!("{name} may not depend on {used}: it does not stand below it")).collect()
}

/// What DEPENDENCIES has no row for, and what it has a row for that nobody uses.
pub(crate) fn unexplained(root: &Path) -> Result<Vec<String>> {
    let mut used = BTreeSet::new();
    for manifest in source::files(root, ".", &["toml"])?.iter().filter(|file| file.path.ends_with("Cargo.toml")) {
        let table: Table = manifest.text.parse().with_context(|| manifest.path.display().to_string())?;
        let of_tests = ["dependencies", "build-dependencies", "dev-dependencies"];
        used.extend(dependencies(&table, &of_tests).into_iter().filter(|name| !is_ours(name)));
    }
    let text = fs::read_to_string(root.join(DEPENDENCIES)).context(DEPENDENCIES)?;
    Ok(differences(&used, &text))
}

fn differences(used: &BTreeSet<String>, text: &str) -> Vec<String> {
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |"));
    let told: BTreeSet<String> = rows.flat_map(|(names, _)| names.split("`, `").map(str::to_owned)).collect();
    let missing = used.difference(&told).map(|name| format!("{DEPENDENCIES} does not say why {name} is here"));
    let stale = told.difference(used).map(|name| format!("{DEPENDENCIES} speaks of {name}, which nobody uses"));
    missing.chain(stale).collect()
}

fn is_ours(name: &str) -> bool {
    name == "xtask" || name == "pinnace" || name.starts_with("pinnace-")
}

/// The crates that a manifest names in these sections, for any target.
fn dependencies(manifest: &Table, sections: &[&str]) -> Vec<String> {
    let targets = manifest.get("target").and_then(Value::as_table).into_iter().flat_map(Table::values);
    let tables = std::iter::once(manifest).chain(targets.filter_map(Value::as_table));
    let mut names = Vec::new();
    for table in tables {
        for section in sections {
            let entries = table.get(*section).and_then(Value::as_table).into_iter().flatten();
            names.extend(entries.map(|(key, value)| {
                // `package = "..."` is the true name behind a renamed dependency.
                value.get("package").and_then(Value::as_str).unwrap_or(key).to_owned()
            }));
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Vec<String> {
        problems_of(&text.parse().expect("toml"))
    }

    #[test]
    fn an_engine_may_use_the_foundation_only() {
        let good =
            "[package]\nname='pinnace-zcrp'\n[dependencies]\npinnace-core.workspace=true\npinnace-wire.workspace=true";
        assert!(check(good).is_empty());
        let bad = format!("{good}\npinnace-link.workspace=true");
        assert_eq!(check(&bad), ["pinnace-zcrp may not depend on pinnace-link: it does not stand below it"]);
    }

    #[test]
    fn targets_build_scripts_and_renamed_crates_are_seen() {
        let text = "[package]\nname='pinnace-core'\n[target.'cfg(unix)'.dependencies]\nx={package='pinnace-sim',path='..'}\n\
                    [build-dependencies]\npinnace-wire='1'";
        assert_eq!(check(text).len(), 2);
    }

    #[test]
    fn tests_may_use_what_they_like() {
        assert!(check("[package]\nname='pinnace-zcrp'\n[dev-dependencies]\npinnace-sim='1'").is_empty());
    }

    #[test]
    fn the_top_floor_may_use_all_below_and_nothing_beside() {
        assert!(check("[package]\nname='pinnace-cli'\n[dependencies]\npinnace='1'\npinnace-sim='1'").is_empty());
        assert_eq!(check("[package]\nname='pinnace-cli'\n[dependencies]\npinnace-c='1'").len(), 1);
    }

    #[test]
    fn a_dependency_without_a_row_and_a_row_without_a_dependency_are_found() {
        let used = ["libc", "png", "serde"].map(str::to_owned).into();
        let told = "| crate | used by | why |\n| `libc` | a | b |\n| `serde`, `toml` | `libc` | c |\n";
        let found = differences(&used, told);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("png") && found[1].contains("toml"), "{found:?}");
    }

    #[test]
    fn a_crate_that_nobody_placed_is_a_problem() {
        assert_eq!(check("[package]\nname='pinnace-extra'").len(), 1);
    }
}
