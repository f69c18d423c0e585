//! Where `libpinnace_preload.so` is.

use crate::exit::Error;
use std::env;
use std::path::{Path, PathBuf};

const NAME: &str = "libpinnace_preload.so";

/// `PINNACE_PRELOAD`, else beside this program (where cargo puts both), else where a package would put it.
pub(crate) fn find() -> Result<PathBuf, Error> {
    if let Some(path) = env::var_os("PINNACE_PRELOAD") {
        let path = PathBuf::from(path);
        let path = if path.is_dir() { path.join(NAME) } else { path };
        return if path.is_file() {
            absolute(&path)
        } else {
            Err(Error::failed(format!("there is no library at {} (PINNACE_PRELOAD)", path.display())))
        };
    }
    let program = env::current_exe()
        .and_then(|path| path.canonicalize())
        .map_err(|error| Error::io("cannot find out where this program is", &error))?;
    let folder = program.parent().unwrap_or(Path::new("/"));
    match places(folder).into_iter().find(|path| path.is_file()) {
        Some(path) => absolute(&path),
        None => {
            // What cargo calls its profiles: `dev` builds into `debug`.
            let release = if folder.ends_with("release") { " --release" } else { "" };
            Err(Error::failed(format!(
                "there is no {NAME} beside {}; build it with `cargo build -p pinnace-preload{release}`, or say where it is \
                 with PINNACE_PRELOAD",
                program.display()
            )))
        }
    }
}

fn places(folder: &Path) -> [PathBuf; 3] {
    [
        folder.join(NAME),
        folder.join("../lib/pinnace").join(NAME),
        // A test's program is one folder deeper.
        folder.join("..").join(NAME),
    ]
}

fn absolute(path: &Path) -> Result<PathBuf, Error> {
    let path = path.canonicalize().map_err(|error| Error::io(format_args!("cannot use {}", path.display()), &error))?;
    // The loader splits its list at both.
    if path.to_string_lossy().contains([':', ' ']) {
        let path = path.display();
        return Err(Error::failed(format!("LD_PRELOAD cannot name {path}: it has a colon or a blank in it; move it")));
    }
    Ok(path)
}
