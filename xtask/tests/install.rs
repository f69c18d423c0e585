//! `cargo xtask install` puts everything where programs find it: a C program is compiled by what pkg-config says, and runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Once;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies inside the workspace")
}

fn profile() -> &'static str {
    if cfg!(debug_assertions) { "dev" } else { "release" }
}

/// Builds what is not there: tests of the workspace have built the command already.
fn build() {
    static BUILT: Once = Once::new();
    BUILT.call_once(|| {
        let built = Path::new(env!("CARGO_BIN_EXE_xtask")).parent().expect("a folder");
        let mut packages = vec!["-p", "pinnace-c"];
        if !built.join("pinnace").exists() {
            packages.extend(["-p", "pinnace-cli"]);
        }
        if !built.join("libpinnace_preload.so").exists() {
            packages.extend(["-p", "pinnace-preload"]);
        }
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--profile", profile(), "--target-dir"]);
        cargo.arg(built.parent().expect("a target folder")).args(packages).current_dir(root());
        assert!(cargo.status().expect("cargo runs").success(), "it does not build");
    });
}

fn install(arguments: &[&str]) -> Output {
    let mut xtask = Command::new(env!("CARGO_BIN_EXE_xtask"));
    xtask.args(["install", "--no-build", "--profile", profile()]).args(arguments);
    xtask.output().expect("xtask runs")
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// An empty folder.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("install-{name}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

#[test]
fn a_c_program_is_compiled_by_pkg_config_and_runs() {
    build();
    let prefix = folder("prefix");
    let output = install(&["--prefix", prefix.to_str().expect("text")]);
    assert!(output.status.success(), "{}", said(&output));
    for file in [
        "bin/pinnace",
        "lib/libpinnace.a",
        "lib/libpinnace.so",
        "include/pinnace/pinnace.h",
        "include/pinnace/zcrp.h",
        "share/man/man3/pinnace.h.3",
        "share/bash-completion/completions/pinnace",
        "share/zsh/site-functions/_pinnace",
        "share/fish/vendor_completions.d/pinnace.fish",
    ] {
        let path = prefix.join(file);
        assert!(fs::metadata(&path).is_ok_and(|it| it.len() > 0), "{file} is missing");
        assert!(said(&output).contains(path.to_str().expect("text")), "{file} is not named");
    }
    let target = fs::read_link(prefix.join("lib/libpinnace.so")).expect("a link");
    assert_eq!(target, Path::new("libpinnace.so.0"));
    let target = fs::read_link(prefix.join("lib/libpinnace.so.0")).expect("a link");
    assert_eq!(target, Path::new(concat!("libpinnace.so.", env!("CARGO_PKG_VERSION"))));
    let version = Command::new(prefix.join("bin/pinnace")).arg("--version").output().expect("it runs");
    assert!(said(&version).contains(env!("CARGO_PKG_VERSION")));

    let asked = Command::new("pkg-config")
        .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"))
        .args(["--cflags", "--libs", "pinnace"])
        .output();
    let (Ok(flags), Ok(_)) = (asked, Command::new("cc").arg("--version").output()) else {
        pinnace_testing::skip::program("there is no `cc`, or no `pkg-config`");
        return;
    };
    assert!(flags.status.success(), "{}", said(&flags));
    let program = prefix.join("first");
    let mut cc = Command::new("cc");
    cc.args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-o"]).arg(&program);
    cc.arg(root().join("examples/c/01_first_message.c"));
    cc.args(String::from_utf8_lossy(&flags.stdout).split_whitespace());
    let output = cc.output().expect("the compiler runs");
    assert!(output.status.success(), "{}", said(&output));
    // It asks for the library by its versioned name, and finds it by the link: the one without a version is for compilers.
    fs::remove_file(prefix.join("lib/libpinnace.so")).expect("a link");
    let output = Command::new(&program).env("LD_LIBRARY_PATH", prefix.join("lib")).output().expect("it runs");
    assert!(output.status.success() && said(&output).starts_with("received ahoy by "), "{}", said(&output));
    let _ = fs::remove_dir_all(&prefix);
}

#[test]
fn a_package_is_made_below_another_root() {
    build();
    let destdir = folder("destdir");
    // Twice: what is there is replaced.
    for _ in 0..2 {
        let output = install(&["--prefix", "/usr", "--destdir", destdir.to_str().expect("text")]);
        assert!(output.status.success(), "{}", said(&output));
    }
    let package = fs::read_to_string(destdir.join("usr/lib/pkgconfig/pinnace.pc")).expect("a file");
    assert!(package.starts_with("prefix=/usr\n") && !package.contains('@'), "{package}");
    let rest = fs::read_dir(destdir.join("usr/lib")).expect("a folder").count();
    assert_eq!(rest, 6, "three libraries, an archive, and the folders of pkg-config and of what `run` loads");
    for file in ["lib/pinnace/libpinnace_preload.so", "share/man/man1/pinnace-run.1", "share/man/man3/pinnace.h.3"] {
        assert!(destdir.join("usr").join(file).is_file(), "{file}");
    }
    let _ = fs::remove_dir_all(&destdir);
}

#[test]
fn what_cannot_be_written_is_said_before_anything_is() {
    build();
    let folder = folder("refused");
    fs::write(folder.join("lib"), b"no folder").expect("a file");
    let output = install(&["--prefix", folder.to_str().expect("text")]);
    assert!(!output.status.success());
    assert!(
        said(&output).contains("cannot make ") && said(&output).contains("nothing was installed"),
        "{}",
        said(&output)
    );
    assert!(!folder.join("bin/pinnace").exists());
    let output = install(&["--prefix", "here"]);
    assert!(!output.status.success() && said(&output).contains("relative"), "{}", said(&output));
    let _ = fs::remove_dir_all(&folder);
}
