//! Tests, or parts of them, that cannot be done where they run. They say why, and pass; unless it is for a program where
//! `PINNACE_NO_SKIPS` is 1, as `cargo xtask test` sets it where all programs that it knows of are there: a test that needs one more
//! fails there, and is not overlooked.

use core::fmt::Display;

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
#[allow(clippy::print_stdout, reason = "says what was skipped, and why")]
pub fn host(why: impl Display) {
    println!("skipped: {why}");
}
