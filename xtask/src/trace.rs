//! Requirements against the code: which lines fulfil `Z-18`, and which tests would notice if they did not.
//!
//! Requirements are the rows of the tables in `specs/*.md` that start with an identifier. A citation is a line of its
//! own: `//= Z-18` (in Python `#= Z-18`) beside the code that fulfils it, `//= Z-18 test` beside a test; several
//! identifiers are separated by commas. Every requirement must have both, or a
//! reason in `specs/exceptions.toml`. Citations of unknown identifiers are errors, so that a misspelt one is noticed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use toml::Table as Toml;

use crate::source::{self, SourceFile};

const TABLE: &str = "docs/src/trace.md";
const EXCEPTIONS: &str = "specs/exceptions.toml";

/// Where citations are looked for.
const CITING: &[&str] = &["crates", "tests", "examples", "fuzz", "bench"];

/// What to do about the table in the book.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Table {
    /// Write it.
    Write,
    /// Fail if it differs in any way.
    Exact,
    /// Fail if a requirement has no row, and say so if anything else differs.
    Report,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Family {
    Zcrp,
    A1,
    Qmp,
    Qbuf,
    Xtp,
    VrpSender,
    VrpReceiver,
}

impl Family {
    const ALL: [Self; 7] = [Self::Zcrp, Self::A1, Self::Qmp, Self::Qbuf, Self::Xtp, Self::VrpSender, Self::VrpReceiver];

    fn prefix(self) -> &'static str {
        match self {
            Self::Zcrp => "Z-",
            Self::A1 => "A-",
            Self::Qmp => "Q-",
            Self::Qbuf => "B-",
            Self::Xtp => "X-",
            Self::VrpSender => "V-S",
            Self::VrpReceiver => "V-R",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Zcrp => "ZCRP",
            Self::A1 => "A1",
            Self::Qmp => "QMP",
            Self::Qbuf => "QBUF",
            Self::Xtp => "XTP",
            Self::VrpSender => "VRP, sender",
            Self::VrpReceiver => "VRP, receiver",
        }
    }
}

/// The identifier of a requirement, ordered as the specifications list them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Id {
    family: Family,
    number: u16,
}

impl Id {
    fn parse(text: &str) -> Option<Self> {
        Family::ALL.into_iter().find_map(|family| {
            let digits = text.strip_prefix(family.prefix())?;
            let plain = !digits.starts_with('0') && digits.bytes().all(|b| b.is_ascii_digit());
            plain.then(|| digits.parse().ok()).flatten().map(|number| Self { family, number })
        })
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.family.prefix(), self.number)
    }
}

/// A citation in a source file.
#[derive(Debug, PartialEq, Eq)]
struct Citation {
    ids: Vec<Id>,
    by_test: bool,
}

/// The files that cite a requirement.
#[derive(Debug, Default)]
struct Cited {
    code: BTreeSet<String>,
    tests: BTreeSet<String>,
}

type Requirements = BTreeMap<Id, String>;
type Citations = BTreeMap<Id, Cited>;
type Exceptions = BTreeMap<Id, String>;

/// Collects requirements, citations and exceptions, checks them, and writes or compares the table.
pub(crate) fn run(root: &Path, table: Table) -> Result<()> {
    let mut problems = Vec::new();
    let requirements = requirements(root, &mut problems)?;
    let citations = citations(root, &requirements, &mut problems)?;
    let exceptions = exceptions(root, &requirements, &mut problems)?;
    problems.extend(uncited(&requirements, &citations, &exceptions));

    let wanted = render(&requirements, &citations, &exceptions);
    let path = root.join(TABLE);
    let found = fs::read_to_string(&path).unwrap_or_default();
    match table {
        Table::Write if found != wanted => {
            fs::write(&path, &wanted).with_context(|| TABLE.to_owned())?;
            println!("trace: wrote {TABLE}");
        }
        Table::Exact if found != wanted => problems.push(format!("{TABLE} is out of date: cargo xtask trace --write")),
        Table::Report if found != wanted => {
            let rows = |text: &str| text.lines().filter_map(row).map(|(id, _)| id).collect::<BTreeSet<_>>();
            if rows(&found) == rows(&wanted) {
                println!("trace: {TABLE} lists other files than the code: cargo xtask trace --write");
            } else {
                problems.push(format!("{TABLE} lists other requirements than specs: cargo xtask trace --write"));
            }
        }
        Table::Write | Table::Exact | Table::Report => {}
    }
    if problems.is_empty() {
        let checked = requirements.len();
        println!("trace: {checked} requirements, each cited by code and by a test, or excused");
        return Ok(());
    }
    bail!("trace:\n  {}", problems.join("\n  "));
}

/// Splits a row of a table, `| Z-1 | text |`, into identifier and text.
fn row(line: &str) -> Option<(Id, &str)> {
    let (id, rest) = line.trim().strip_prefix('|')?.split_once('|')?;
    let text = rest.trim();
    Some((Id::parse(id.trim())?, text.strip_suffix('|').unwrap_or(text).trim()))
}

fn requirements(root: &Path, problems: &mut Vec<String>) -> Result<Requirements> {
    let mut found = Requirements::new();
    for file in source::files(root, "specs", &["md"])? {
        for (id, text) in file.text.lines().filter_map(row) {
            if found.insert(id, text.to_owned()).is_some() {
                problems.push(format!("{}: {id} is defined twice", file.path.display()));
            }
        }
    }
    Ok(found)
}

/// Reads a line of source. `None`: it cites nothing. `Err`: it looks like a citation and is none.
fn citation(line: &str, marker: &str) -> Option<std::result::Result<Citation, String>> {
    let text = line.trim().strip_prefix(marker)?.trim();
    let (list, by_test) = match text.strip_suffix("test") {
        Some(list) if list.ends_with(char::is_whitespace) => (list, true),
        _ => (text, false),
    };
    let ids = list.split(',').map(str::trim).map(|id| Id::parse(id).ok_or_else(|| format!("`{id}` is no identifier")));
    Some(ids.collect::<std::result::Result<_, _>>().map(|ids| Citation { ids, by_test }))
}

fn citations(root: &Path, requirements: &Requirements, problems: &mut Vec<String>) -> Result<Citations> {
    let mut found = Citations::new();
    for folder in CITING {
        for file in source::files(root, folder, &["rs", "c", "h", "py"])? {
            problems.extend(cite(&file, requirements, &mut found));
        }
    }
    Ok(found)
}

/// Adds what a file cites to `found`, and returns what is wrong in it.
fn cite(file: &SourceFile, requirements: &Requirements, found: &mut Citations) -> Vec<String> {
    let path = file.path.display().to_string();
    let marker = if file.has_extension("py") { "#=" } else { "//=" };
    let mut problems = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        let mut problem = |what: String| problems.push(format!("{path}:{}: {what}", index + 1));
        match citation(line, marker) {
            None => {}
            Some(Err(what)) => problem(what),
            Some(Ok(citation)) => {
                if file.is_test() && !citation.by_test {
                    problem(format!("a citation in a test ends in `test`: {}", line.trim()));
                    continue;
                }
                for id in citation.ids {
                    if !requirements.contains_key(&id) {
                        problem(format!("{id} is in no specification"));
                        continue;
                    }
                    let cited = found.entry(id).or_default();
                    if citation.by_test { &mut cited.tests } else { &mut cited.code }.insert(path.clone());
                }
            }
        }
    }
    problems
}

fn exceptions(root: &Path, requirements: &Requirements, problems: &mut Vec<String>) -> Result<Exceptions> {
    let text = fs::read_to_string(root.join(EXCEPTIONS)).with_context(|| EXCEPTIONS.to_owned())?;
    parse_exceptions(&text, requirements, problems).with_context(|| EXCEPTIONS.to_owned())
}

fn parse_exceptions(text: &str, requirements: &Requirements, problems: &mut Vec<String>) -> Result<Exceptions> {
    let mut found = Exceptions::new();
    for (key, value) in text.parse::<Toml>()? {
        let id = Id::parse(&key).filter(|id| requirements.contains_key(id));
        match (id, value.as_str().map(str::trim)) {
            (Some(id), Some(reason)) if !reason.is_empty() => _ = found.insert(id, reason.to_owned()),
            (Some(_), _) => problems.push(format!("{EXCEPTIONS}: {key} has no reason")),
            (None, _) => problems.push(format!("{EXCEPTIONS}: {key} is in no specification")),
        }
    }
    Ok(found)
}

/// The requirements that lack a citation and an excuse, and the excuses that nobody needs.
fn uncited(requirements: &Requirements, citations: &Citations, exceptions: &Exceptions) -> Vec<String> {
    let mut problems = Vec::new();
    for id in requirements.keys() {
        let (code, tests) = citations.get(id).map_or((0, 0), |c| (c.code.len(), c.tests.len()));
        match (code, tests, exceptions.contains_key(id)) {
            (0, 0, false) => problems.push(format!("{id} is cited by no code and by no test")),
            (0, _, false) => problems.push(format!("{id} is cited by no code")),
            (_, 0, false) => problems.push(format!("{id} is cited by no test")),
            (1.., 1.., true) => problems.push(format!("{EXCEPTIONS}: {id} is cited, and needs no exception")),
            _ => {}
        }
    }
    problems
}

/// The first words of a requirement, without markup.
fn first_words(text: &str) -> String {
    const MOST: usize = 60;
    let plain: String = text.chars().filter(|c| !matches!(c, '*' | '`' | '|')).collect();
    let sentence = plain.split_inclusive(". ").next().unwrap_or_default().trim();
    if sentence.chars().count() <= MOST {
        return sentence.to_owned();
    }
    let mut words = String::new();
    for word in sentence.split_whitespace() {
        if words.chars().count() + word.chars().count() >= MOST {
            break;
        }
        words.push_str(word);
        words.push(' ');
    }
    words.trim_end().trim_end_matches([',', ';', ':']).to_owned() + " ..."
}

fn render(requirements: &Requirements, citations: &Citations, exceptions: &Exceptions) -> String {
    let mut page = String::from(
        "# Requirements and where they are met\n\n\
         Written by `cargo xtask trace --write`; `cargo xtask ci` checks that every requirement\n\
         is cited by the code that meets it and by a test. The full text is in `specs/`.\n",
    );
    let list = |files: &BTreeSet<String>| files.iter().map(|path| format!("`{path}`")).collect::<Vec<_>>().join(", ");
    for family in Family::ALL {
        let _ = write!(page, "\n## {}\n\n| id | requirement | code | tests |\n|---|---|---|---|\n", family.name());
        for (id, text) in requirements.iter().filter(|(id, _)| id.family == family) {
            let cited = citations.get(id);
            let code = cited.map(|c| list(&c.code)).unwrap_or_default();
            let mut tests = cited.map(|c| list(&c.tests)).unwrap_or_default();
            if let Some(reason) = exceptions.get(id) {
                let gap = if tests.is_empty() { "" } else { "; " };
                let _ = write!(tests, "{gap}exception: {reason}");
            }
            let _ = writeln!(page, "| {id} | {} | {code} | {tests} |", first_words(text));
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> Id {
        Id::parse(text).expect("an identifier")
    }

    fn file(path: &str, text: &str) -> SourceFile {
        SourceFile { path: path.into(), text: text.to_owned() }
    }

    fn known(ids: &[&str]) -> Requirements {
        ids.iter().map(|text| (id(text), format!("What {text} asks."))).collect()
    }

    #[test]
    fn identifiers_of_every_family_parse_and_print() {
        for text in ["Z-1", "A-23", "Q-9", "B-15", "X-24", "V-S13", "V-R20"] {
            assert_eq!(id(text).to_string(), text);
        }
    }

    #[test]
    fn what_is_no_identifier_does_not_parse() {
        for text in ["", "Z", "Z-", "Z-x", "Z-01", "Z-+1", "Z-1a", "E-Z1", "V-1", "V-T1", "z-1", "Z-99999999"] {
            assert_eq!(Id::parse(text), None, "{text}");
        }
    }

    #[test]
    fn numbers_order_as_numbers() {
        assert!(id("Z-9") < id("Z-10"));
        assert!(id("V-S20") < id("V-R1"));
    }

    #[test]
    fn rows_of_tables_are_requirements_and_other_lines_are_not() {
        assert_eq!(row("| Z-4 | Messages are `a | b`. |"), Some((id("Z-4"), "Messages are `a | b`.")));
        assert_eq!(row("|V-S1|Per endpoint|"), Some((id("V-S1"), "Per endpoint")));
        for line in ["| id | requirement |", "|---|---|", "see Z-4", "| E-Z1 | figure |", "| Z-4", ""] {
            assert_eq!(row(line), None, "{line}");
        }
    }

    #[test]
    fn citations_name_one_or_several_and_say_whether_they_test() {
        let cites = |ids: &[&str], by_test| Some(Ok(Citation { ids: ids.iter().map(|i| id(i)).collect(), by_test }));
        assert_eq!(citation("    //= Z-18", "//="), cites(&["Z-18"], false));
        assert_eq!(citation("//= Z-18 test", "//="), cites(&["Z-18"], true));
        assert_eq!(citation("//= Z-18, V-R2,X-3 test", "//="), cites(&["Z-18", "V-R2", "X-3"], true));
        assert_eq!(citation("#= A-1", "#="), cites(&["A-1"], false));
        assert_eq!(citation("// see Z-18", "//="), None);
        assert_eq!(citation("let s = \"//= Z-18\";", "//="), None);
    }

    #[test]
    fn malformed_citations_are_errors() {
        for line in ["//=", "//= Z-18 Z-19", "//= Z-18, test", "//= Z18", "//= Z-18 tests", "//= Z-18test"] {
            assert!(matches!(citation(line, "//="), Some(Err(_))), "{line}");
        }
    }

    #[test]
    fn files_are_counted_once_by_kind_and_mistakes_are_reported() {
        let requirements = known(&["Z-1", "Z-2"]);
        let mut found = Citations::new();
        let text = "//= Z-1\n//= Z-1\n//= Z-2 test\n//= Z-3\n";
        let problems = cite(&file("crates/a/src/b.rs", text), &requirements, &mut found);
        assert_eq!(problems, ["crates/a/src/b.rs:4: Z-3 is in no specification"]);
        assert_eq!(found[&id("Z-1")].code.len(), 1);
        assert_eq!(found[&id("Z-2")].tests.len(), 1);

        let problems = cite(&file("crates/a/tests/b.rs", "//= Z-1\n"), &requirements, &mut found);
        assert_eq!(problems.len(), 1);
    }

    #[test]
    fn every_requirement_needs_code_and_test_or_a_reason() {
        let requirements = known(&["Z-1", "Z-2", "Z-3", "Z-4"]);
        let mut found = Citations::new();
        let text = "//= Z-1\n//= Z-1 test\n//= Z-2\n";
        assert!(cite(&file("crates/a/src/b.rs", text), &requirements, &mut found).is_empty());
        let mut problems = Vec::new();
        let exceptions = parse_exceptions("Z-4 = 'nothing to test'", &requirements, &mut problems).expect("toml");
        assert!(problems.is_empty());
        assert_eq!(
            uncited(&requirements, &found, &exceptions),
            ["Z-2 is cited by no test", "Z-3 is cited by no code and by no test"]
        );
    }

    #[test]
    fn exceptions_have_a_reason_a_requirement_and_a_need() {
        let requirements = known(&["Z-1", "Z-2"]);
        let mut problems = Vec::new();
        let text = "Z-1 = 'because'\nZ-2 = ' '\nZ-9 = 'because'";
        let exceptions = parse_exceptions(text, &requirements, &mut problems).expect("toml");
        assert_eq!(problems.len(), 2, "{problems:?}");

        let mut found = Citations::new();
        cite(&file("a.rs", "//= Z-1, Z-2\n//= Z-1, Z-2 test\n"), &requirements, &mut found);
        assert_eq!(uncited(&requirements, &found, &exceptions).len(), 1);
    }

    #[test]
    fn the_table_has_a_row_for_each_requirement() {
        let requirements = known(&["Z-1", "Z-2", "A-1"]);
        let mut found = Citations::new();
        cite(&file("crates/a/src/b.rs", "//= Z-1\n"), &requirements, &mut found);
        let exceptions = Exceptions::from([(id("Z-2"), "a hint".to_owned())]);
        let page = render(&requirements, &found, &exceptions);
        assert!(page.contains("| Z-1 | What Z-1 asks. | `crates/a/src/b.rs` |  |\n"), "{page}");
        assert!(page.contains("| Z-2 | What Z-2 asks. |  | exception: a hint |\n"), "{page}");
        assert!(page.contains("| A-1 | What A-1 asks. |  |  |\n"), "{page}");
    }

    #[test]
    fn first_words_are_the_first_sentence_or_less() {
        assert_eq!(first_words("Simplex. Two-way talk is two."), "Simplex.");
        assert_eq!(first_words("**In place**: no copy"), "In place: no copy");
        let long = first_words(&"word, ".repeat(40));
        assert!(long.chars().count() <= 64 && long.ends_with("word ..."), "{long}");
    }
}
