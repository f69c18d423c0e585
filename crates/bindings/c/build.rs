//! Gives `libpinnace.so` the name by which programs that are linked to it ask for it (its SONAME), and that name a link beside
//! the library, so that they find it where it was built as well. `cargo xtask install` installs it by the same name.

#![allow(clippy::print_stdout, reason = "what is printed is for cargo")]

use std::env;
use std::path::{Path, PathBuf};

/// The number is the version of the binary interface: it rises when programs that were linked before do not work any more.
const SONAME: &str = "libpinnace.so.0";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("linux") {
        return;
    }
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,{SONAME}");
    // OUT_DIR is `<target>/<profile>/build/<package>/out`, and the library goes to `<target>/<profile>`.
    let out = env::var_os("OUT_DIR").map(PathBuf::from).unwrap_or_default();
    if let Some(folder) = out.ancestors().nth(3) {
        link(&folder.join(SONAME));
    }
}

#[cfg(unix)]
fn link(at: &Path) {
    // It may be there, and without it programs run that have the library installed.
    let _ = std::os::unix::fs::symlink("libpinnace.so", at);
}

#[cfg(not(unix))]
fn link(_: &Path) {}
