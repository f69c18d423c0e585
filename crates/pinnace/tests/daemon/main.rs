//! The daemon and its clients, as processes that misbehave and die.
//!
//! This program is its own children: with an environment variable it plays one of the parts in `parts`.
// What a system does not let a test try is said.
#![allow(clippy::print_stderr)]

mod bad_input;
mod bridging;
mod joining;
mod kills;
mod parts;
mod raw;

fn main() -> std::process::ExitCode {
    if parts::play() {
        return std::process::ExitCode::SUCCESS;
    }
    let arguments = libtest_mimic::Arguments::from_args();
    let tests = [joining::tests(), bad_input::tests(), bridging::tests(), kills::tests()].concat();
    let trials = tests.into_iter().map(|(name, test)| {
        libtest_mimic::Trial::test(name, move || {
            test();
            Ok(())
        })
    });
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}
