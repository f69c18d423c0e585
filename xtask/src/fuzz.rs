//! The fuzz targets: a workspace of its own, and to compile it takes longer than all other checks. What a target does with its
//! bytes is compiled and run by the tests of the workspace; here is looked whether what joins the two still fits.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use proc_macro2::{TokenStream, TokenTree};
use serde::Deserialize;

use crate::source::{self, SourceFile};

const FOLDER: &str = "fuzz";
/// What the targets of the library call: without `--cfg fuzzing` nobody else has it.
const OF_THE_LIBRARY: &str = "crates/pinnace/src/fuzz/mod.rs";

#[derive(Deserialize)]
struct Manifest {
    dependencies: toml::Table,
    bin: Vec<Bin>,
}

#[derive(Deserialize)]
struct Bin {
    name: String,
    path: PathBuf,
}

/// Targets without a file, or the other way round; without a corpus; that call what is not there; or whose code uses a crate
/// that theirs does not depend on.
pub(crate) fn problems(root: &Path) -> Result<Vec<String>> {
    let text = fs::read_to_string(root.join(FOLDER).join("Cargo.toml")).context("cannot read fuzz/Cargo.toml")?;
    let Manifest { dependencies, bin } = toml::from_str(&text).context("fuzz/Cargo.toml does not parse")?;
    let crates: BTreeSet<String> = dependencies.keys().map(|name| name.replace('-', "_")).collect();
    let files = source::files(root, "fuzz/fuzz_targets", &["rs"])?;
    let is_target = |file: &&SourceFile| bin.iter().any(|bin| Path::new(FOLDER).join(&bin.path) == file.path);
    let mut problems: Vec<String> = files
        .iter()
        .filter(|file| !is_target(file))
        .map(|file| format!("{} is no target of fuzz/Cargo.toml", file.path.display()))
        .collect();
    for Bin { name, path } in &bin {
        let inputs = fs::read_dir(root.join(FOLDER).join("corpus").join(name)).map_or(0, Iterator::count);
        if inputs == 0 {
            problems.push(format!("fuzz/corpus/{name} holds nothing"));
        }
        match files.iter().find(|file| Path::new(FOLDER).join(path) == file.path) {
            Some(file) => problems.extend(of_target(root, file, &crates)?),
            None => problems.push(format!("fuzz/{} is missing", path.display())),
        }
    }
    Ok(problems)
}

fn of_target(root: &Path, target: &SourceFile, crates: &BTreeSet<String>) -> Result<Vec<String>> {
    let name = target.path.display();
    let tokens = source::tokens(target)?;
    let mut problems = Vec::new();
    let mut code = Vec::new();
    for path in paths_of_modules(&tokens) {
        match with_its_modules(root, &target.path.with_file_name(path))? {
            Some(files) => code.extend(files),
            None => problems.push(format!("{name}: a module that it names is not there")),
        }
    }
    let paths = source::paths(&tokens);
    let call = paths.iter().rfind(|path| path.segments.len() > 1 && !path.contains(&["libfuzzer_sys"]));
    let Some(call) = call else { return Ok(vec![format!("{name} calls nothing")]) };
    if call.segments[0] == "pinnace" {
        code.extend(with_its_modules(root, Path::new(OF_THE_LIBRARY))?.unwrap_or_default());
    }
    let function = &call.segments[call.segments.len() - 1];
    let mut is_there = false;
    for file in &code {
        let tokens = source::tokens(file)?;
        is_there |= follow("fn", &tokens).contains(function);
        // Of the library's crate the library's manifest says what it depends on.
        if call.segments[0] != "pinnace" {
            let own: BTreeSet<String> = follow("mod", &tokens).into_iter().collect();
            let is_known = |root: &String| {
                let roots = ["alloc", "core", "crate", "self", "std", "super"];
                roots.contains(&root.as_str()) || own.contains(root) || crates.contains(root)
            };
            let unknown = follow("use", &tokens).into_iter().filter(|root| !is_known(root));
            problems.extend(unknown.map(|root| {
                format!("{name}: {} uses {root}, on which fuzz/Cargo.toml does not depend", file.path.display())
            }));
        }
    }
    if !is_there {
        problems.push(format!("{name}: `{}` is not there", call.segments.join("::")));
    }
    Ok(problems)
}

/// A file of the workspace, and the modules in it that have files of their own; nothing if there is no such file.
fn with_its_modules(root: &Path, path: &Path) -> Result<Option<Vec<SourceFile>>> {
    let Ok(place) = root.join(path).canonicalize() else { return Ok(None) };
    let root = root.canonicalize()?;
    let (folder, path) = (place.parent().context("it lies in a folder")?, place.strip_prefix(&root)?);
    if path.ends_with("mod.rs") {
        return source::files(&root, &folder.strip_prefix(&root)?.to_string_lossy(), &["rs"]).map(Some);
    }
    let file = SourceFile { path: path.to_path_buf(), text: fs::read_to_string(&place)? };
    let others = paths_of_modules(&source::tokens(&file)?);
    let mut files = vec![file];
    for other in others {
        files.extend(with_its_modules(&root, &path.with_file_name(other))?.unwrap_or_default());
    }
    Ok(Some(files))
}

/// What stands in `#[path = "..."]`.
fn paths_of_modules(tokens: &TokenStream) -> Vec<String> {
    let groups = tokens.clone().into_iter().filter_map(|tree| match tree {
        TokenTree::Group(group) => Some(group.stream().into_iter().collect::<Vec<_>>()),
        _ => None,
    });
    let path = |trees: Vec<TokenTree>| match &trees[..] {
        [TokenTree::Ident(name), TokenTree::Punct(_), TokenTree::Literal(path)] if name == "path" => {
            Some(path.to_string().trim_matches('"').to_owned())
        }
        _ => None,
    };
    groups.filter_map(path).collect()
}

/// The identifiers behind a keyword, wherever it stands.
fn follow(keyword: &str, tokens: &TokenStream) -> Vec<String> {
    let trees: Vec<TokenTree> = tokens.clone().into_iter().collect();
    let mut found = Vec::new();
    for (at, tree) in trees.iter().enumerate() {
        match (tree, trees.get(at + 1)) {
            (TokenTree::Group(group), _) => found.extend(follow(keyword, &group.stream())),
            (TokenTree::Ident(word), Some(TokenTree::Ident(next))) if word == keyword => found.push(next.to_string()),
            _ => {}
        }
    }
    found
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    fn said(text: &str, crates: &[&str]) -> Vec<String> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let target = SourceFile { path: "fuzz/fuzz_targets/t.rs".into(), text: text.to_owned() };
        of_target(&root, &target, &crates.iter().map(|&name| name.to_owned()).collect()).unwrap()
    }

    const CRATES: [&str; 4] = ["pinnace_core", "pinnace_testing", "pinnace_wire", "pinnace_zcrp"];

    fn zcrp(half: &str, function: &str) -> String {
        format!(
            "#![no_main]\n#[path = \"../../crates/engines/zcrp/tests/common/{half}.rs\"]\nmod half;\n\
             #[path = \"../../crates/engines/zcrp/tests/common/script.rs\"]\nmod script;\n\
             libfuzzer_sys::fuzz_target!(|data: &[u8]| script::{function}(data));"
        )
    }

    #[test]
    fn a_target_calls_what_is_there_and_uses_what_its_crate_has() {
        assert_eq!(said(&zcrp("half", "sender"), &CRATES), [""; 0]);
        let library = "libfuzzer_sys::fuzz_target!(|data: &[u8]| pinnace::fuzz::texts(data));";
        assert_eq!(said(library, &[]), [""; 0]);
    }

    #[test]
    fn what_a_target_lacks_is_named() {
        assert_eq!(said(&zcrp("half", "nobody"), &CRATES), ["fuzz/fuzz_targets/t.rs: `script::nobody` is not there"]);
        assert!(said(&zcrp("nothing", "sender"), &CRATES)[0].contains("a module that it names is not there"));
        let library = "libfuzzer_sys::fuzz_target!(|data: &[u8]| pinnace::fuzz::nobody(data));";
        assert!(said(library, &[])[0].contains("`pinnace::fuzz::nobody` is not there"));
        let found = said(&zcrp("half", "sender"), &CRATES[..3]);
        assert!(found.iter().any(|it| it.contains("oracle.rs uses pinnace_zcrp, on which")), "{found:?}");
        assert!(said("fn main() {}", &[])[0].contains("calls nothing"));
    }
}
