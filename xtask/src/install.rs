//! Installs what is built: the command, the C library with its headers and its pkg-config file, manual pages, completions.
//!
//! | what | where, below the prefix |
//! |---|---|
//! | `pinnace` | `bin` |
//! | `libpinnace.so.0.1.0`, its links `libpinnace.so.0` and `libpinnace.so`, `libpinnace.a` | `lib` |
//! | the headers | `include/pinnace` |
//! | `libpinnace_preload.so`, which `pinnace run` loads (Linux) | `lib/pinnace` |
//! | `pinnace.pc` | `lib/pkgconfig` |
//! | manual pages | `share/man/man1`, `share/man/man3`, ... |
//! | completions | `share/bash-completion/completions`, `share/zsh/site-functions`, `share/fish/vendor_completions.d` |
//!
//! Always true: a file is there whole or not at all, and one that is in use is replaced, not written over; nothing is written
//! before every folder is known to be there and writable.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use xshell::{Shell, cmd};

/// The version of the library's binary interface, as crates/bindings/c/build.rs names it.
const INTERFACE: u32 = 0;

/// Whether `pinnace run` is for this system.
const HAS_RUN: bool = cfg!(target_os = "linux");

/// How it is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Profile {
    Release,
    Dev,
}

impl Profile {
    fn name(self) -> &'static str {
        match self {
            Self::Release => "release",
            Self::Dev => "dev",
        }
    }

    fn folder(self) -> &'static str {
        match self {
            Self::Release => "release",
            Self::Dev => "debug",
        }
    }
}

#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The folder below which everything goes
    #[arg(long, value_name = "DIR", default_value = "/usr/local")]
    prefix: PathBuf,
    /// Write below this folder instead, as if it were the root (for packages)
    #[arg(long, value_name = "DIR")]
    destdir: Option<PathBuf>,
    /// How to compile it
    #[arg(long, value_enum, default_value_t = Profile::Release)]
    profile: Profile,
    /// Install what was compiled before, as it is
    #[arg(long)]
    no_build: bool,
}

/// A file to be written.
struct Item {
    /// Below the prefix.
    to: PathBuf,
    content: Content,
}

enum Content {
    /// A copy of this file, and whether it can be executed.
    Copy(PathBuf, bool),
    /// These bytes, and whether they can be executed.
    Bytes(Vec<u8>, bool),
    /// A link beside it.
    Link(String),
}

/// Builds what is to be installed, and installs it.
pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    if !options.prefix.is_absolute() {
        bail!(
            "the prefix {} is relative: programs look for the library there, wherever they are",
            options.prefix.display()
        );
    }
    let target = std::env::current_exe()?;
    let target = target.parent().and_then(Path::parent).context("cargo puts this program into a folder of its own")?;
    let shell = Shell::new()?;
    shell.change_dir(root);
    if !options.no_build {
        let profile = options.profile.name();
        let preload = if HAS_RUN { &["-p", "pinnace-preload"][..] } else { &[] };
        let what = ["-p", "pinnace-cli", "-p", "pinnace-c"].iter().chain(preload);
        cmd!(shell, "cargo build --locked --profile {profile} --target-dir {target} {what...}").run()?;
    }
    let items = items(root, &shell, &target.join(options.profile.folder()), &options.prefix)?;
    let base = base(options)?;
    for item in &items {
        let folder = base.join(&item.to);
        let folder = folder.parent().context("a file lies in a folder")?;
        prepare(folder)?;
    }
    for item in &items {
        let to = base.join(&item.to);
        write(&to, &item.content).with_context(|| format!("cannot write {}", to.display()))?;
        match &item.content {
            Content::Link(name) => println!("{} -> {name}", to.display()),
            _ => println!("{}", to.display()),
        }
    }
    println!("\n{} files below {}", items.len(), base.display());
    if options.destdir.is_none() {
        let prefix = options.prefix.display();
        println!("If programs do not find the library, run `ldconfig`, or set LD_LIBRARY_PATH={prefix}/lib.");
        println!("If pkg-config does not find it, set PKG_CONFIG_PATH={prefix}/lib/pkgconfig.");
    }
    Ok(())
}

/// Where the prefix is on this machine.
fn base(options: &Options) -> Result<PathBuf> {
    let Some(destdir) = &options.destdir else { return Ok(options.prefix.clone()) };
    let inside = options.prefix.components().filter(|part| matches!(part, Component::Normal(_)));
    Ok(std::path::absolute(destdir)?.join(inside.collect::<PathBuf>()))
}

/// Everything that is installed, from what was built in `built`.
fn items(root: &Path, shell: &Shell, built: &Path, prefix: &Path) -> Result<Vec<Item>> {
    let version = env!("CARGO_PKG_VERSION");
    let mut items = Vec::new();
    let mut add = |to: String, content: Content| items.push(Item { to: to.into(), content });
    let command = existing(built.join("pinnace"))?;
    add("bin/pinnace".into(), Content::Copy(command.clone(), true));

    let soname = format!("libpinnace.so.{INTERFACE}");
    let library = existing(built.join("libpinnace.so"))?;
    add(format!("lib/libpinnace.so.{version}"), Content::Copy(library, true));
    add(format!("lib/{soname}"), Content::Link(format!("libpinnace.so.{version}")));
    add("lib/libpinnace.so".into(), Content::Link(soname));
    add("lib/libpinnace.a".into(), Content::Copy(existing(built.join("libpinnace.a"))?, false));

    if HAS_RUN {
        let preload = existing(built.join("libpinnace_preload.so"))?;
        add("lib/pinnace/libpinnace_preload.so".into(), Content::Copy(preload, true));
    }

    let bindings = root.join("crates/bindings/c");
    for (name, header) in files(&bindings.join("include"))? {
        add(format!("include/pinnace/{name}"), Content::Copy(header, false));
    }
    let prefix = prefix.to_str().context("the prefix is no UTF-8, and cannot be said to pkg-config")?;
    let package = fs::read_to_string(bindings.join("pinnace.pc.in"))?
        .replace("@prefix@", prefix)
        .replace("@libdir@", "${prefix}/lib")
        .replace("@includedir@", "${prefix}/include/pinnace")
        .replace("@version@", version);
    add("lib/pkgconfig/pinnace.pc".into(), Content::Bytes(package.into_bytes(), false));

    for page in walkdir::WalkDir::new(root.join("docs/man")).sort_by_file_name().into_iter().filter_map(Result::ok) {
        let (name, page) = (page.file_name().to_string_lossy().into_owned(), page.into_path());
        // `pinnace.h.3` is of section 3; what has no section is no page.
        let section = page.extension().and_then(|section| section.to_str());
        let section = section.filter(|section| section.len() == 1 && section.starts_with(|c: char| c.is_ascii_digit()));
        if let Some(section) = section.filter(|_| page.is_file()) {
            add(format!("share/man/man{section}/{name}"), Content::Copy(page.clone(), false));
        }
    }
    let pages = shell.create_temp_dir()?;
    let folder = pages.path();
    cmd!(shell, "{command} man {folder}").quiet().ignore_stdout().run().context("the command does not run here")?;
    for (name, page) in files(folder)? {
        add(format!("share/man/man1/{name}"), Content::Bytes(fs::read(page)?, false));
    }
    for (name, to) in [
        ("bash", "share/bash-completion/completions/pinnace"),
        ("zsh", "share/zsh/site-functions/_pinnace"),
        ("fish", "share/fish/vendor_completions.d/pinnace.fish"),
    ] {
        let script =
            cmd!(shell, "{command} completion {name}").quiet().read().context("the command does not run here")?;
        add(to.into(), Content::Bytes(format!("{script}\n").into_bytes(), false));
    }
    Ok(items)
}

fn existing(path: PathBuf) -> Result<PathBuf> {
    if !path.is_file() {
        bail!("{} was not built: leave out --no-build", path.display());
    }
    Ok(path)
}

/// The files of a folder, by name; none if there is no such folder.
fn files(folder: &Path) -> Result<Vec<(String, PathBuf)>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if let Some(name) = path.file_name().and_then(|name| name.to_str()).filter(|_| path.is_file()) {
            files.push((name.to_owned(), path.clone()));
        }
    }
    files.sort();
    Ok(files)
}

/// Makes sure that a folder is there, and can be written to.
fn prepare(folder: &Path) -> Result<()> {
    let advice = |action: &str, error: &io::Error| {
        let help = match error.kind() {
            io::ErrorKind::PermissionDenied => ": run this as a user who may, or give a --prefix that is yours",
            io::ErrorKind::ReadOnlyFilesystem => ": give another --prefix",
            _ => "",
        };
        anyhow::anyhow!("cannot {action} {}: {error}{help}; nothing was installed", folder.display())
    };
    fs::create_dir_all(folder).map_err(|error| advice("make", &error))?;
    let probe = folder.join(format!(".pinnace-install-{}", std::process::id()));
    fs::write(&probe, b"").map_err(|error| advice("write to", &error))?;
    fs::remove_file(&probe).map_err(|error| advice("write to", &error))
}

/// Writes a file beside its place, and moves it there.
fn write(to: &Path, content: &Content) -> Result<()> {
    let name = to.file_name().context("a file has a name")?.to_string_lossy();
    let new = to.with_file_name(format!(".{name}.new-{}", std::process::id()));
    let executable = match content {
        Content::Copy(from, executable) => {
            fs::copy(from, &new)?;
            Some(*executable)
        }
        Content::Bytes(bytes, executable) => {
            fs::write(&new, bytes)?;
            Some(*executable)
        }
        Content::Link(target) => {
            let _ = fs::remove_file(&new);
            link(target, &new)?;
            None
        }
    };
    if let Some(executable) = executable {
        set_mode(&new, if executable { 0o755 } else { 0o644 })?;
    }
    fs::rename(&new, to)?;
    Ok(())
}

#[cfg(unix)]
fn link(target: &str, at: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, at)
}

#[cfg(unix)]
fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

#[cfg(not(unix))]
fn link(_: &str, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(not(unix))]
fn set_mode(_: &Path, _: u32) -> io::Result<()> {
    Ok(())
}
