//! Tests, or parts of them, that cannot be done where they run. They say why, and pass; unless it is for a program where
//! `PINNACE_NO_SKIPS` is 1, as `cargo xtask test` sets it where all programs that it knows of are there: a test that needs one more
//! fails there, and is not overlooked.

use core::fmt::Display;
use std::io::Write as _;

/// Says that a test is skipped for a program that `cargo xtask test` installs, as root on Debian.
///
/// # Panics
///
/// If nothing may be skipped for that.
pub fn program(why: impl Display) {
    assert!(std::env::var_os("PINNACE_NO_SKIPS").is_none_or(|value| value != "1"), "not to be skipped: {why}");
    host(why);
}

/// Says that a test is skipped for what this host or this user cannot do, and nobody can install: a right, what the kernel or
/// the network has.
pub fn host(why: impl Display) {
    // What a macro prints is shown of tests alone that fail. Whoever has closed it does not want to know.
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    #[test]
    fn what_is_skipped_is_shown_of_a_test_that_passes() {
        const WITHIN: &str = "PINNACE_SKIPS_FOR_A_TEST";
        if let Ok(why) = std::env::var(WITHIN) {
            return super::host(why);
        }
        let itself = std::env::current_exe().expect("its path");
        let arguments = ["skip::tests::what_is_skipped_is_shown_of_a_test_that_passes", "--exact"];
        let output = Command::new(itself).args(arguments).env(WITHIN, "no sea here").output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.contains("skipped: no sea here\n"), "{output:?}");
    }
}
