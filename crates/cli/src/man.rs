//! `pinnace man`: the manual pages, from the very definitions that the arguments are read by.

use crate::exit::Error;
use crate::output::Output;
use clap::Command;
use clap_mangen::Man;
use std::path::{Path, PathBuf};

/// Arguments of `pinnace man`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Into which folder; it is made if it is not there
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Runs `pinnace man`.
pub(crate) fn run(args: &Args, program: &Command, output: &Output) -> Result<(), Error> {
    let folder = &args.folder;
    std::fs::create_dir_all(folder).map_err(|error| Error::io(folder.display(), &error))?;
    let mut program = program.clone();
    program.build();
    let pages = write(&program, "pinnace", folder)?;
    let text = format!("{pages} pages in {}", folder.display());
    let folder = folder.to_string_lossy();
    output.result(text, &serde_json::json!({ "event": "done", "pages": pages, "folder": folder }));
    Ok(())
}

/// The page, with its examples and tables in the lines that they have.
fn as_it_stands(page: &str) -> String {
    const EXTRA: &str = "\n.SH EXTRA\n";
    let Some((before, extra)) = page.split_once(EXTRA) else { return page.to_owned() };
    let (extra, after) = extra.split_at(extra.find("\n.SH ").map_or(extra.len(), |end| end + 1));
    format!("{before}{EXTRA}.nf\n{}\n.fi\n{after}", extra.trim_end())
}

/// Writes the page of a command and those below it; returns how many.
fn write(command: &Command, name: &str, folder: &Path) -> Result<usize, Error> {
    let path = folder.join(format!("{name}.1"));
    let failed = |error| Error::io(path.display(), &error);
    let mut page = Vec::new();
    // Built as a whole, every command knows what it is called with those above it.
    Man::new(command.clone())
        .source(format!("pinnace {}", env!("CARGO_PKG_VERSION")))
        .render(&mut page)
        .map_err(failed)?;
    std::fs::write(&path, as_it_stands(&String::from_utf8_lossy(&page))).map_err(failed)?;
    let mut pages = 1;
    for below in command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help") {
        pages += write(below, &format!("{name}-{}", below.get_name()), folder)?;
    }
    Ok(pages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_stand_in_their_lines() {
        let page = ".TH pinnace 1\n.SH OPTIONS\n.TP\nx\n.SH EXTRA\nExamples:\n  pinnace   one\n  pinnace   two\n.SH VERSION\nv1\n";
        let expected = page.replace("\nExamples:", "\n.nf\nExamples:").replace("two\n", "two\n.fi\n");
        assert_eq!(as_it_stands(page), expected);
        assert_eq!(as_it_stands(".TH x\n.SH EXTRA\n  a\n"), ".TH x\n.SH EXTRA\n.nf\n  a\n.fi\n");
        assert_eq!(as_it_stands(".TH x\n"), ".TH x\n");
    }
}
