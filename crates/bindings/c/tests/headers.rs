//! Every header is enough by itself: it compiles without a warning as strict C99, where nothing of POSIX has been asked for, as
//! later C, and as C++; and all of them together.

#[allow(dead_code, reason = "shared with other tests")]
mod support;

use std::path::Path;
use std::process::Command;
use support::{compiler, root};

fn headers() -> Vec<String> {
    let files = std::fs::read_dir(root().join("include")).expect("the headers");
    let mut names: Vec<_> =
        files.map(|file| file.expect("a header").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    assert!(names.len() >= 8 && names.iter().all(|name| name.ends_with(".h")), "{names:?}");
    names
}

/// Compiles a file that includes these, and nothing else.
fn compiles(compiler: &str, standard: &str, language: &str, headers: &[String]) {
    let text: String = headers.iter().map(|header| format!("#include \"{header}\"\n")).collect();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("headers");
    std::fs::create_dir_all(&folder).expect("a folder");
    let source = folder.join(format!("{}-{}.{language}", headers.join("-"), standard.trim_start_matches("-std=")));
    std::fs::write(&source, format!("{text}{text}int main(void) {{ return 0; }}\n")).expect("a file");
    let mut command = Command::new(compiler);
    command.args([standard, "-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only", "-I"]);
    let output = command.arg(root().join("include")).arg(&source).output().expect("the compiler runs");
    assert!(output.status.success(), "{command:?}:\n{}", String::from_utf8_lossy(&output.stderr));
}

fn check(compiler: &str, standard: &str, language: &str) {
    let headers = headers();
    for header in &headers {
        compiles(compiler, standard, language, std::slice::from_ref(header));
    }
    compiles(compiler, standard, language, &headers);
}

#[test]
fn every_header_is_strict_c() {
    let Some(compiler) = compiler("CC", "cc") else { return };
    for standard in ["-std=c99", "-std=c11", "-std=gnu99"] {
        check(&compiler, standard, "c");
    }
}

#[test]
fn every_header_is_cpp() {
    let Some(compiler) = compiler("CXX", "c++") else { return };
    for standard in ["-std=c++11", "-std=c++17"] {
        check(&compiler, standard, "cpp");
    }
}
