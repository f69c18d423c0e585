//! The completion scripts of shells.

use clap_complete::Shell;
use std::collections::BTreeSet;

/// The script of `shell` for the commands of `whole` that are for people: it would offer hidden ones, too.
pub(crate) fn script(shell: Shell, whole: &clap::Command) -> String {
    let mut public = clap::Command::new("pinnace")
        .version(env!("CARGO_PKG_VERSION"))
        .args(whole.get_arguments().cloned())
        .subcommands(whole.get_subcommands().filter(|command| !command.is_hide_set()).cloned());
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut public, "pinnace", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    if shell != Shell::Zsh {
        return script;
    }
    // Zsh takes what follows a colon in the name of a value, like HOST:PORT, for a command to run.
    let mut names = BTreeSet::new();
    with_colons(&public, &mut names);
    names
        .iter()
        .fold(script, |script, name| script.replace(&format!("]:{name}:"), &format!("]:{}:", name.replace(':', "\\:"))))
}

/// The names of values of options that have a colon.
fn with_colons(command: &clap::Command, names: &mut BTreeSet<String>) {
    let all = command.get_arguments().filter_map(clap::Arg::get_value_names).flatten();
    names.extend(all.filter(|name| name.contains(':')).map(ToString::to_string));
    command.get_subcommands().for_each(|command| with_colons(command, names));
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Arg;

    #[test]
    fn a_colon_in_the_name_of_a_value_is_no_end_for_zsh() {
        let option = |name: &'static str, value| Arg::new(name).long(name).help("Where").value_name(value);
        let inner = clap::Command::new("sail").arg(option("from", "[HOST:]PORT")).arg(option("fast", "RATE"));
        let whole = clap::Command::new("whole").arg(option("to", "HOST:PORT")).subcommand(inner);
        let zsh = script(Shell::Zsh, &whole);
        for spec in ["--to=[Where]:HOST\\:PORT:_default", "--from=[Where]:[HOST\\:]PORT:_default", ":RATE:_default"] {
            assert!(zsh.contains(spec), "{spec}: {zsh}");
        }
        assert!(script(Shell::Bash, &whole).contains("--from"));
    }
}
