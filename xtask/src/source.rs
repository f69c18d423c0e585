//! What the checks know about source files: where they are, which lines are tests, which paths the code names.
//!
//! Rust is read as tokens and not as text, so that a banned name in a comment or a string is not found, and one that
//! is split over lines or hidden in a `use` group is.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result, anyhow};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use walkdir::WalkDir;

/// A file of the workspace, with its path from the root.
#[derive(Debug)]
pub(crate) struct SourceFile {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

impl SourceFile {
    /// The name ends in `.extension`.
    pub(crate) fn has_extension(&self, extension: &str) -> bool {
        self.path.extension().is_some_and(|e| e == extension)
    }

    /// Whether the whole file is test code: it lies in a `tests` folder, or is called `tests`.
    pub(crate) fn is_test(&self) -> bool {
        self.path.components().any(|c| c.as_os_str() == "tests") || self.path.file_stem().is_some_and(|s| s == "tests")
    }
}

/// Every file under `root/under` that ends in one of `extensions`, sorted; build output and hidden folders left out.
pub(crate) fn files(root: &Path, under: &str, extensions: &[&str]) -> Result<Vec<SourceFile>> {
    let start = root.join(under);
    if !start.exists() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    let wanted = |entry: &walkdir::DirEntry| {
        let name = entry.file_name().to_string_lossy();
        let skipped = name.starts_with('.') || matches!(&*name, "target" | "corpus" | "node_modules" | "__pycache__");
        entry.depth() == 0 || !skipped
    };
    for entry in WalkDir::new(&start).sort_by_file_name().into_iter().filter_entry(wanted) {
        let entry = entry?;
        let matches = entry.path().extension().and_then(|e| e.to_str()).is_some_and(|e| extensions.contains(&e));
        if entry.file_type().is_file() && matches {
            let text = fs::read_to_string(entry.path()).with_context(|| entry.path().display().to_string())?;
            found.push(SourceFile { path: entry.path().strip_prefix(root)?.to_path_buf(), text });
        }
    }
    Ok(found)
}

/// The tokens of a Rust file, without comments.
pub(crate) fn tokens(file: &SourceFile) -> Result<TokenStream> {
    // The first line may be `#!/...`, which is not a token. An inner attribute also starts with `#!`.
    let text = match file.text.strip_prefix("#!") {
        Some(rest) if !rest.trim_start().starts_with('[') => &file.text[file.text.find('\n').unwrap_or(0)..],
        _ => &file.text,
    };
    TokenStream::from_str(text).map_err(|e| anyhow!("{}: {e}", file.path.display()))
}

/// The number of lines of a Rust file without the `#[cfg(test)] mod ... { ... }` at its end.
pub(crate) fn lines_without_tests(text: &str, tokens: &TokenStream) -> usize {
    let trees: Vec<TokenTree> = tokens.clone().into_iter().collect();
    let all = text.lines().count();
    match trees.as_slice() {
        [
            ..,
            TokenTree::Punct(hash),
            TokenTree::Group(attribute),
            TokenTree::Ident(module),
            TokenTree::Ident(_),
            TokenTree::Group(body),
        ] if hash.as_char() == '#'
            && squeeze(&attribute.stream()) == "cfg(test)"
            && module == "mod"
            && body.delimiter() == Delimiter::Brace =>
        {
            // Lines count from 1, so the attribute's line is one more than the number of lines before it.
            (hash.span().start().line - 1).min(all)
        }
        _ => all,
    }
}

fn squeeze(tokens: &TokenStream) -> String {
    tokens.to_string().split_whitespace().collect()
}

/// A path that code names, such as `std::net::IpAddr`, and its line. A lone identifier is a path of one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NamedPath {
    pub(crate) segments: Vec<String>,
    pub(crate) line: usize,
}

impl NamedPath {
    /// Whether `names` occur in the path, one right after the other.
    pub(crate) fn contains(&self, names: &[&str]) -> bool {
        self.segments.windows(names.len()).any(|w| w.iter().zip(names).all(|(a, b)| a == b))
    }
}

/// Every path in the tokens, with `use a::{b, c::d}` written out as `a::b` and `a::c::d`.
pub(crate) fn paths(tokens: &TokenStream) -> Vec<NamedPath> {
    let mut found = Vec::new();
    collect_paths(tokens, &[], &mut found);
    found
}

fn collect_paths(tokens: &TokenStream, prefix: &[String], found: &mut Vec<NamedPath>) {
    let trees: Vec<TokenTree> = tokens.clone().into_iter().collect();
    let is_colon = |i: usize| matches!(trees.get(i), Some(TokenTree::Punct(p)) if p.as_char() == ':');
    let mut at = 0;
    while at < trees.len() {
        match &trees[at] {
            TokenTree::Ident(first) => {
                let mut segments = prefix.to_vec();
                segments.push(first.to_string());
                let line = first.span().start().line;
                at += 1;
                // `::` is two punctuation tokens; what follows is a segment, or the group of a `use`.
                while is_colon(at) && is_colon(at + 1) {
                    match trees.get(at + 2) {
                        Some(TokenTree::Ident(next)) => segments.push(next.to_string()),
                        Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                            collect_paths(&group.stream(), &segments, found);
                        }
                        _ => break,
                    }
                    at += 3;
                }
                found.push(NamedPath { segments, line });
            }
            TokenTree::Group(group) => {
                collect_paths(&group.stream(), &[], found);
                at += 1;
            }
            TokenTree::Punct(_) | TokenTree::Literal(_) => at += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(text: &str) -> TokenStream {
        TokenStream::from_str(text).expect("tokens")
    }

    fn named(text: &str) -> Vec<String> {
        paths(&stream(text)).into_iter().map(|p| p.segments.join("::")).collect()
    }

    #[test]
    fn paths_are_whole_and_groups_are_written_out() {
        assert_eq!(named("use std::{net::IpAddr, time};"), ["use", "std::net::IpAddr", "std::time", "std"]);
        assert_eq!(named("let t = Instant :: now();"), ["let", "t", "Instant::now"]);
        assert_eq!(named("f(|| { std::thread::sleep(d) })"), ["f", "std::thread::sleep", "d"]);
    }

    #[test]
    fn comments_and_strings_name_nothing() {
        assert_eq!(named("// std::net\n/* unsafe */ x(\"Instant::now\")"), ["x"]);
    }

    #[test]
    fn contains_looks_for_neighbours_only() {
        let path = NamedPath { segments: ["std", "time", "Instant", "now"].map(String::from).to_vec(), line: 1 };
        assert!(path.contains(&["Instant", "now"]));
        assert!(!path.contains(&["std", "now"]));
        assert!(!path.contains(&["now", "x"]));
    }

    #[test]
    fn only_a_test_module_at_the_end_is_left_out() {
        let text = "fn a() {}\n\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\n";
        assert_eq!(lines_without_tests(text, &stream(text)), 2);
        let text = "#[cfg(test)]\nmod tests {\n}\nfn a() {}\n";
        assert_eq!(lines_without_tests(text, &stream(text)), 4);
        let text = "fn a() {}\n#[cfg(unix)]\nmod imp {\n}\n";
        assert_eq!(lines_without_tests(text, &stream(text)), 4);
    }

    #[test]
    fn test_files_are_known_by_folder_or_name() {
        let file = |path: &str| SourceFile { path: path.into(), text: String::new() };
        assert!(file("crates/core/tests/wheel.rs").is_test());
        assert!(file("crates/core/src/wheel/tests.rs").is_test());
        assert!(!file("crates/core/src/wheel.rs").is_test());
        assert!(!file("crates/core/src/contests.rs").is_test());
    }
}
