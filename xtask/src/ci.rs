//! Runs the checks and the tests.

use std::path::Path;

use anyhow::Result;
use xshell::{Shell, cmd};

use crate::suite::Program;
use crate::{lint, python, suite, trace};

/// A program that some tests call, and what is skipped without it.
struct Tool {
    program: &'static str,
    packages: &'static [&'static str],
    without: &'static str,
}

const TOOLS: &[Tool] = &[
    Tool {
        program: "cc",
        packages: &["gcc", "libc6-dev"],
        without: "the C programs against libpinnace are not compiled",
    },
    Tool { program: "c++", packages: &["g++"], without: "the headers of libpinnace are not tried from C++" },
    Tool { program: "pkg-config", packages: &["pkg-config"], without: "`pinnace.pc` is not tried" },
    Tool { program: "ip", packages: &["iproute2"], without: "no network namespaces: the veth paths are not tried" },
    Tool {
        program: "ethtool",
        packages: &["ethtool"],
        without: "offloads stay on: the veth...seg paths are not tried",
    },
    Tool {
        program: "tshark",
        packages: &["tshark"],
        without: "nobody but us reads what XTP sends, and the Wireshark dissectors are not tried",
    },
    Tool { program: "iperf3", packages: &["iperf3"], without: "`pinnace run` is not tried with it" },
    Tool {
        program: "redis-server",
        packages: &["redis-server", "redis-tools"],
        without: "`pinnace run` is not tried with it",
    },
    Tool { program: "nginx", packages: &["nginx-light"], without: "`pinnace run` is not tried with it" },
    Tool { program: "curl", packages: &["curl"], without: "`pinnace run` is not tried with it" },
    Tool {
        program: "pgbench",
        packages: &["postgresql", "postgresql-contrib"],
        without: "`pinnace run` is not tried with it",
    },
    Tool { program: "nc", packages: &["netcat-openbsd"], without: "`pinnace run` is not tried with it" },
];

/// Whether a test fails that would be skipped for want of a program.
const NO_SKIPS: &str = "PINNACE_NO_SKIPS";

/// Every test of the workspace, documentation examples included; its closing lines are those of `cargo test`.
pub(crate) fn test(root: &Path) -> Result<()> {
    let shell = shell(root)?;
    let are_there = provide_tools(&shell);
    let models = models(root);
    // They are built beside what else is.
    let models = models.start(root, ("RUSTFLAGS", "--cfg loom"))?;
    let python = python::install(&shell, root);
    let programs = suite::build(root);
    let (models, mut programs) = (models.wait(root), programs?);
    let (python, its_tests) = python.map_or_else(|error| (Err(error), None), |tests| (Ok(()), tests));
    // They take longest, and wait for most of it.
    programs.splice(..0, its_tests);
    // Where all programs are there, no test is skipped for want of one (`pinnace_testing::skip`); 0 lets it be.
    let strict = std::env::var(NO_SKIPS).unwrap_or_else(|_| u8::from(are_there).to_string());
    let tests = suite::run(root, &programs, (NO_SKIPS, &strict));
    models.and(python).and(tests)
}

/// Models of shared memory, in which every interleaving is tried: they replace the atomics, so they are built apart, and nothing but
/// what tries them has to be fast.
fn models(root: &Path) -> Program {
    let fast = ["loom", "pinnace-qbuf"].map(|package| format!("profile.dev.package.{package}.opt-level=3"));
    let fast = fast.iter().flat_map(|setting| ["--config", setting]);
    let arguments = ["test", "--locked", "-p", "pinnace-qbuf", "--lib", "--target-dir", "target/loom"];
    let arguments = arguments.into_iter().chain(fast).chain(["models"]).map(str::to_owned).collect();
    let source = root.join("crates/foundation/qbuf/src/models.rs");
    Program { executable: suite::cargo(), arguments, source, folder: root.to_owned() }
}

/// Everything that is not a test, the quick ones first.
pub(crate) fn check(root: &Path) -> Result<()> {
    let shell = shell(root)?;
    cmd!(shell, "cargo fmt --all --check").run()?;
    lint::run(root)?;
    trace::run(root, trace::Table::Report)?;
    cmd!(shell, "cargo clippy --workspace --all-targets --locked -- -D warnings").run()?;
    elsewhere(&shell)?;
    {
        let _flags = shell.push_env("RUSTDOCFLAGS", "-D warnings");
        cmd!(shell, "cargo doc --workspace --exclude pinnace-c --lib --no-deps --locked").run()?;
    }
    if has(&shell, "mdbook") {
        let target = shell.create_temp_dir()?;
        let target = target.path();
        cmd!(shell, "mdbook build docs --dest-dir {target}").run()?;
    } else {
        println!("skipped: the book is not built (cargo install mdbook)");
    }
    if has(&shell, "cargo-deny") {
        // Advisories change without us and need the network: they are looked at before a release.
        cmd!(shell, "cargo deny check bans licenses sources").run()?;
    } else {
        println!("skipped: licences and sources of dependencies are not checked (cargo install cargo-deny)");
    }
    Ok(())
}

/// What is to compile elsewhere than on Linux does: with these, all that they stand on.
fn elsewhere(shell: &Shell) -> Result<()> {
    const ELSEWHERE: &str = "x86_64-apple-darwin";
    const PACKAGES: [&str; 3] = ["-ppinnace", "-ppinnace-c", "-ppinnace-sim"];
    let installed = cmd!(shell, "rustup target list --installed").quiet().ignore_stderr().read().unwrap_or_default();
    if installed.lines().any(|target| target == ELSEWHERE) {
        let _flags = shell.push_env("RUSTFLAGS", "-D warnings");
        cmd!(shell, "cargo check --locked --target {ELSEWHERE} --target-dir target/elsewhere {PACKAGES...}").run()?;
    } else {
        println!("skipped: nothing is compiled for {ELSEWHERE} (rustup target add {ELSEWHERE})");
    }
    Ok(())
}

fn shell(root: &Path) -> Result<Shell> {
    let shell = Shell::new()?;
    shell.change_dir(root);
    Ok(shell)
}

fn has(shell: &Shell, program: &str) -> bool {
    cmd!(shell, "sh -c 'command -v \"$0\"' {program}").quiet().ignore_stdout().ignore_stderr().run().is_ok()
}

/// Installs the programs that tests call, where that is possible, and says what goes untested where it is not. Returns whether
/// all are there.
fn provide_tools(shell: &Shell) -> bool {
    let missing: Vec<&Tool> = TOOLS.iter().filter(|tool| !has(shell, tool.program)).collect();
    if missing.is_empty() {
        return true;
    }
    let packages: Vec<&str> = missing.iter().flat_map(|tool| tool.packages).copied().collect();
    install(shell, &packages);
    let mut are_there = true;
    for tool in missing.iter().filter(|tool| !has(shell, tool.program)) {
        are_there = false;
        println!(
            "skipped: `{}` is missing (apt-get install {}): {}",
            tool.program,
            tool.packages.join(" "),
            tool.without
        );
    }
    are_there
}

/// Installs packages, as root on Debian; otherwise, or if that fails, they are missing still.
pub(crate) fn install(shell: &Shell, packages: &[&str]) {
    let is_root = cmd!(shell, "id -u").quiet().read().is_ok_and(|id| id == "0");
    if !is_root || !has(shell, "apt-get") {
        return;
    }
    let _quiet = shell.push_env("DEBIAN_FRONTEND", "noninteractive");
    let updated = cmd!(shell, "apt-get update -qq").run();
    let installed =
        updated.and_then(|()| cmd!(shell, "apt-get install -y -qq --no-install-recommends {packages...}").run());
    if let Err(error) = installed {
        println!("{error}");
    }
}
