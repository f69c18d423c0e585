//! The rules of ARCHITECTURE.md that clippy does not know: the size of files, the purity of `wire`, `core` and the
//! engines, where `unsafe` may stand, the floors, the fuzz targets, and the specifications being there.

use std::fs;
use std::path::Path;

use anyhow::{Result, bail};

use crate::floors;
use crate::fuzz;
use crate::source::{self, SourceFile};

/// A file is one idea, and an idea is not longer than this. Tests do not count.
const MOST_LINES: usize = 800;

/// Paths that a pure crate may not name, and why.
const BANNED: &[(&[&str], &str)] = &[
    (&["unsafe"], "pure crates forbid it"),
    (&["Instant", "now"], "pure crates have no clock: time is passed in"),
    (&["SystemTime", "now"], "pure crates have no clock: time is passed in"),
    (&["thread", "sleep"], "an engine never blocks: it says in poll_at when to call it"),
    (&["UNIX_EPOCH"], "pure crates have no clock: time is passed in"),
    (&["thread", "spawn"], "an engine has no threads: a driver calls it"),
    (&["thread", "scope"], "an engine has no threads: a driver calls it"),
    (&["thread", "Builder"], "an engine has no threads: a driver calls it"),
    (&["std", "net"], "pure crates open no sockets; core::net has the address types"),
    (&["std", "env"], "pure crates read no environment: they are configured"),
    (&["thread_local"], "pure crates have no global state: the same input gives the same trace"),
    (&["OnceLock"], "pure crates have no global state: the same input gives the same trace"),
    (&["LazyLock"], "pure crates have no global state: the same input gives the same trace"),
    (&["atomic"], "pure crates have no global state, and share none: whoever drives an engine has it alone"),
    (&["Mutex"], "pure crates have no global state, and share none: whoever drives an engine has it alone"),
    (&["RwLock"], "pure crates have no global state, and share none: whoever drives an engine has it alone"),
];

/// The same, which their tests may name: they read the published vectors.
const BANNED_BUT_IN_TESTS: &[(&[&str], &str)] =
    &[(&["std", "fs"], "pure crates read no files: what they work on is passed in")];

/// The folders under `crates/`, and two files, whose code may say `unsafe`: they talk to the kernel or to C, or share memory.
const UNSAFE_FOLDERS: &[&str] = &[
    "crates/foundation/qbuf",
    "crates/io/link",
    "crates/io/runtime",
    "crates/pinnace",
    "crates/bindings",
    "crates/cli/src/mapped.rs",
    "crates/cli/src/run/inherited.rs",
];

/// The specifications that must stand in `specs/`.
const SPECIFICATIONS: &[&str] =
    &["README.md", "zcrp.md", "a1.md", "qbuf.md", "qmp.md", "xtp.md", "vrp.md", "experiments.md"];

/// Runs every check and fails with the list of what is wrong.
pub(crate) fn run(root: &Path) -> Result<()> {
    let mut problems = Vec::new();
    for file in source::files(root, ".", &["rs", "c", "h", "py"])? {
        problems.extend(size_problem(&file)?);
    }
    let pure = pure_crates(root)?;
    for file in source::files(root, "crates", &["rs"])? {
        // Pure crates are looked at below, in more detail.
        if !pure.iter().any(|folder| file.path.starts_with(folder)) {
            problems.extend(unsafe_problem(&file)?);
        }
    }
    for folder in &pure {
        for file in source::files(root, &format!("{folder}/src"), &["rs"])? {
            problems.extend(purity_problems(&file)?);
        }
        problems.extend(root_problem(root, folder)?);
    }
    problems.extend(clippy_problems(root, &pure));
    problems.extend(floors::problems(root)?);
    problems.extend(floors::unexplained(root)?);
    problems.extend(fuzz::problems(root)?);
    let missing = SPECIFICATIONS.iter().filter(|name| !root.join("specs").join(name).is_file());
    problems.extend(missing.map(|name| format!("specs/{name} is missing")));
    if problems.is_empty() {
        println!("lint: nothing found");
        return Ok(());
    }
    bail!("lint:\n  {}", problems.join("\n  "));
}

/// The folders of the crates that do no input or output.
fn pure_crates(root: &Path) -> Result<Vec<String>> {
    let mut folders = vec!["crates/foundation/wire".to_owned(), "crates/foundation/core".to_owned()];
    for entry in fs::read_dir(root.join("crates/engines"))? {
        let entry = entry?;
        if entry.path().join("Cargo.toml").is_file() {
            folders.push(format!("crates/engines/{}", entry.file_name().to_string_lossy()));
        }
    }
    folders.sort();
    Ok(folders)
}

fn size_problem(file: &SourceFile) -> Result<Option<String>> {
    let free = file.is_test() || ["fuzz", "bench"].iter().any(|folder| file.path.starts_with(folder));
    if free || file.text.lines().count() <= MOST_LINES {
        return Ok(None);
    }
    let lines = if file.has_extension("rs") {
        source::lines_without_tests(&file.text, &source::tokens(file)?)
    } else {
        file.text.lines().count()
    };
    let path = file.path.display();
    Ok((lines > MOST_LINES).then(|| format!("{path}: {lines} lines without tests, more than {MOST_LINES}: split it")))
}

fn purity_problems(file: &SourceFile) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for path in source::paths(&source::tokens(file)?) {
        let others = BANNED_BUT_IN_TESTS.iter().filter(|_| !file.is_test());
        for (banned, why) in BANNED.iter().chain(others).filter(|(banned, _)| path.contains(banned)) {
            problems.push(format!("{}:{}: `{}`: {why}", file.path.display(), path.line, banned.join("::")));
        }
    }
    Ok(problems)
}

fn unsafe_problem(file: &SourceFile) -> Result<Option<String>> {
    if file.is_test() || UNSAFE_FOLDERS.iter().any(|folder| file.path.starts_with(folder)) {
        return Ok(None);
    }
    let found = source::paths(&source::tokens(file)?).into_iter().find(|path| path.contains(&["unsafe"]));
    let folders = UNSAFE_FOLDERS.join(", ");
    Ok(found.map(|path| format!("{}:{}: `unsafe` belongs in {folders}", file.path.display(), path.line)))
}

fn root_problem(root: &Path, folder: &str) -> Result<Option<String>> {
    let file = SourceFile {
        path: format!("{folder}/src/lib.rs").into(),
        text: fs::read_to_string(root.join(folder).join("src/lib.rs"))?,
    };
    let found = forbids_unsafe(&file)?;
    Ok((!found).then(|| format!("{}: #![forbid(unsafe_code)] is missing", file.path.display())))
}

fn forbids_unsafe(file: &SourceFile) -> Result<bool> {
    let text: String = source::tokens(file)?.to_string().split_whitespace().collect();
    Ok(text.contains("#![forbid(unsafe_code)]"))
}

/// Clippy reads the nearest clippy.toml only, so each pure crate has one, and they are equal.
fn clippy_problems(root: &Path, pure: &[String]) -> Vec<String> {
    let read = |folder: &String| fs::read_to_string(root.join(folder).join("clippy.toml")).unwrap_or_default();
    let Some(model) = pure.iter().map(read).find(|text| !text.is_empty()) else {
        return vec!["no pure crate has a clippy.toml".to_owned()];
    };
    let wrong = pure.iter().filter(|folder| read(folder) != model);
    wrong
        .map(|folder| format!("{folder}/clippy.toml is missing, or differs from those of the other pure crates"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> SourceFile {
        SourceFile { path: path.into(), text: text.to_owned() }
    }

    #[test]
    fn impure_names_are_found_with_their_line() {
        let text = "use std::{net, time::Instant};\nfn f() {\n    Instant::now();\n    unsafe { g() }\n}";
        let found = purity_problems(&file("a.rs", text)).expect("tokens");
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].starts_with("a.rs:1: `std::net`"));
        assert!(found[1].starts_with("a.rs:3: `Instant::now`"));
        assert!(found[2].starts_with("a.rs:4: `unsafe`"));
    }

    #[test]
    fn threads_files_and_what_is_shared_are_impure() {
        for (text, name) in [
            ("fn f() { std::thread::scope(|scope| {}) }", "thread::scope"),
            ("fn f() { std::thread::Builder::new(); }", "thread::Builder"),
            ("fn f() { std::time::UNIX_EPOCH.elapsed(); }", "UNIX_EPOCH"),
            ("static COUNT: core::sync::atomic::AtomicU64 = core::sync::atomic::AtomicU64::new(0);", "atomic"),
            ("static SHARED: std::sync::Mutex<u8> = std::sync::Mutex::new(0);", "Mutex"),
            ("static SHARED: RwLock<u8> = RwLock::new(0);", "RwLock"),
            ("use std::{fs, vec::Vec};", "std::fs"),
        ] {
            let found = purity_problems(&file("a.rs", text)).expect("tokens");
            assert!(
                !found.is_empty() && found.iter().all(|it| it.starts_with(&format!("a.rs:1: `{name}`"))),
                "{found:?}"
            );
        }
        assert!(purity_problems(&file("src/tests/a.rs", "use std::fs;")).expect("tokens").is_empty());
    }

    #[test]
    fn pure_code_and_talk_of_impure_code_pass() {
        let text = "#![forbid(unsafe_code)]\n//! No std::net here, no Instant::now.\nuse core::net::IpAddr;\nconst S: &str = \"unsafe\";";
        assert!(purity_problems(&file("a.rs", text)).expect("tokens").is_empty());
    }

    #[test]
    fn unsafe_code_has_its_folders() {
        let problem = |path: &str| unsafe_problem(&file(path, "fn f() {\n    unsafe { g() }\n}")).expect("tokens");
        assert!(problem("crates/io/sim/src/a.rs").is_some_and(|p| p.starts_with("crates/io/sim/src/a.rs:2:")));
        assert!(problem("crates/io/link/src/a.rs").is_none());
        assert!(problem("crates/cli/src/run/inherited.rs").is_none());
        assert!(problem("crates/cli/src/run/command.rs").is_some());
        assert!(problem("crates/cli/tests/a.rs").is_none());
    }

    #[test]
    fn long_files_are_found_and_long_tests_are_not() {
        let code = "const A: u8 = 0;\n".repeat(MOST_LINES);
        let tests = format!("#[cfg(test)]\nmod tests {{\n{code}}}\n");
        let problem = |path: &str, text: &str| size_problem(&file(path, text)).expect("tokens");
        assert!(problem("src/a.rs", &code).is_none());
        assert!(problem("src/a.rs", &format!("{code}{tests}")).is_none());
        assert!(problem("src/a.rs", &format!("{code}const B: u8 = 0;\n{tests}")).is_some());
        assert!(problem("src/a.c", &format!("{code}int b;\n")).is_some());
        assert!(problem("tests/a.rs", &format!("{code}{code}")).is_none());
        assert!(problem("fuzz/a.rs", &format!("{code}{code}")).is_none());
    }

    #[test]
    fn the_attribute_is_recognised_and_not_its_mention() {
        assert!(forbids_unsafe(&file("lib.rs", "//! Doc.\n#![forbid(unsafe_code)]\n")).expect("tokens"));
        assert!(!forbids_unsafe(&file("lib.rs", "// #![forbid(unsafe_code)]\n")).expect("tokens"));
    }
}
