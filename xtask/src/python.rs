//! The Python package: installs it as a user does, into a virtual environment under `target/`, where its tests run.
//!
//! The library is compiled with the features and in the profile in which the tests of the C interface need it, once for both.

use std::path::Path;

use anyhow::Result;
use xshell::{Shell, cmd};

use crate::ci;
use crate::suite::Program;

/// What the package's tests import, and what builds the package.
const NEEDED: &[&str] = &["maturin>=1.8,<2", "mypy>=1.19,<2", "numpy", "pytest"];

/// Builds and installs the package, and gives its tests; says what is missing where that cannot be.
pub(crate) fn install(shell: &Shell, root: &Path) -> Result<Option<Program>> {
    if !is_there(shell) {
        ci::install(shell, &["python3", "python3-venv"]);
    }
    if !is_there(shell) {
        println!("skipped: the Python package is not tried (apt-get install python3 python3-venv; 3.11 or later)");
        return Ok(None);
    }
    let environment = root.join("target/python");
    let python = environment.join("bin/python");
    cmd!(shell, "python3 -m venv {environment}").run()?;
    let pip = ["-m", "pip", "--quiet", "--disable-pip-version-check", "install"];
    if let Err(error) = cmd!(shell, "{python} {pip...} {NEEDED...}").run() {
        println!("skipped: the Python package is not tried, because what its tests need cannot be had: {error}");
        return Ok(None);
    }
    {
        let _profile = shell.push_env("MATURIN_PEP517_ARGS", "--profile dev --locked");
        let _target = shell.push_env("CARGO_TARGET_DIR", root.join("target"));
        // maturin is an ordinary program of the environment.
        let programs = format!("{}:{}", environment.join("bin").display(), shell.var("PATH")?);
        let _path = shell.push_env("PATH", programs);
        let own = ["--no-build-isolation", "--no-deps", "--force-reinstall", "."];
        cmd!(shell, "{python} {pip...} {own...}").run()?;
    }
    let arguments = ["-m", "pytest", "-q", "-p", "no:cacheprovider"].map(str::to_owned).to_vec();
    Ok(Some(Program {
        executable: python,
        arguments,
        source: root.join("crates/bindings/python/tests"),
        folder: root.to_owned(),
    }))
}

/// Whether there is a Python that is not too old, and makes virtual environments.
fn is_there(shell: &Shell) -> bool {
    let program = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))";
    cmd!(shell, "python3 -c {program}").quiet().ignore_stderr().run().is_ok()
}
