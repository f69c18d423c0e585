//! What a command is, before it runs: whether the loader would load a library into it.
//!
//! Scripts are followed to their interpreter, and `/usr/bin/env` to the program that it would run.

use object::Endianness;
use object::elf;
use object::read::elf::{FileHeader, ProgramHeader};
use std::collections::VecDeque;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Why a command cannot run over QMP: one line for people.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    Absent(String),
    Io(PathBuf, String),
    NotExecutable(PathBuf),
    Static(PathBuf),
    Privileged(PathBuf),
    Foreign(PathBuf, &'static str),
    Loop(PathBuf),
}

impl Trouble {
    pub(crate) fn is_absence(&self) -> bool {
        matches!(self, Self::Absent(_))
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent(name) => write!(f, "{name}: command not found"),
            Self::Io(path, error) => write!(f, "{}: {error}", path.display()),
            Self::NotExecutable(path) => write!(f, "{}: not a program that this host can run", path.display()),
            Self::Static(path) => write!(
                f,
                "{} is statically linked: nothing can be loaded into it, so it cannot run over QMP; run it without \
                 `pinnace run`, or link it dynamically",
                path.display()
            ),
            Self::Privileged(path) => write!(
                f,
                "{} runs with another user's rights (set-user-ID, set-group-ID or capabilities): the system loads no \
                 library of yours into it, so it cannot run over QMP; start it as that user, from a copy without these rights",
                path.display()
            ),
            Self::Foreign(path, what) => {
                write!(f, "{} is {what}: the library cannot be loaded into it", path.display())
            }
            Self::Loop(path) => write!(f, "{}: too many interpreters, one behind the other", path.display()),
        }
    }
}

/// How many interpreters the kernel follows.
const DEPTH: usize = 4;

/// Finds the command as a shell would, and looks whether the library can be loaded into it. Answers with its path.
pub(crate) fn find(name: &OsStr) -> Result<PathBuf, Trouble> {
    let program = search(name)?;
    let mut path = program.clone();
    for _ in 0..=DEPTH {
        match look(&path)? {
            Next::Done => return Ok(program),
            Next::At(next) => path = next,
            Next::Named(name) => path = search(&name)?,
        }
    }
    Err(Trouble::Loop(program))
}

/// Whether there is such a command, whatever it is.
pub(crate) fn exists(name: &OsStr) -> Result<(), Trouble> {
    let path = search(name)?;
    match path.metadata() {
        Ok(found) if found.is_file() && found.permissions().mode() & 0o111 != 0 => Ok(()),
        Ok(_) => Err(Trouble::Io(path, "not an executable file".into())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(Trouble::Absent(path.display().to_string())),
        Err(error) => Err(Trouble::Io(path, error.to_string())),
    }
}

fn search(name: &OsStr) -> Result<PathBuf, Trouble> {
    if name.as_bytes().contains(&b'/') {
        return Ok(PathBuf::from(name));
    }
    let list = env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/local/bin:/usr/bin:/bin"));
    env::split_paths(&list)
        .map(|folder| folder.join(name))
        .find(|path| path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0))
        .ok_or_else(|| Trouble::Absent(name.to_string_lossy().into_owned()))
}

enum Next {
    Done,
    At(PathBuf),
    Named(OsString),
}

fn look(path: &Path) -> Result<Next, Trouble> {
    let trouble = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => Trouble::Absent(path.display().to_string()),
        _ => Trouble::Io(path.to_owned(), error.to_string()),
    };
    let facts = path.metadata().map_err(trouble)?;
    if !facts.is_file() || facts.permissions().mode() & 0o111 == 0 {
        return Err(Trouble::Io(path.to_owned(), "not an executable file".into()));
    }
    let mut head = Vec::new();
    match File::open(path) {
        Ok(file) => file.take(HEAD).read_to_end(&mut head).map_err(trouble)?,
        // Some programs may be run and not read. Whether it works shows when it runs.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(Next::Done),
        Err(error) => return Err(trouble(error)),
    };
    if let Some(line) = head.strip_prefix(b"#!") {
        return interpreter(line).ok_or_else(|| Trouble::NotExecutable(path.to_owned()));
    }
    if !head.starts_with(&elf::ELFMAG) {
        // A shell would take it for a script of its own; exec() does not.
        return Err(Trouble::NotExecutable(path.to_owned()));
    }
    linkage(path, &head)?;
    let own = rustix::process::geteuid().as_raw();
    let mode = facts.mode();
    // Root that becomes root gains nothing, and the loader does not mind.
    let gains = mode & 0o4000 != 0 && facts.uid() != own
        || mode & 0o2010 == 0o2010 && facts.gid() != rustix::process::getegid().as_raw()
        || own != 0 && rustix::fs::getxattr(path, c"security.capability", &mut [0_u8; 64]).is_ok();
    if gains { Err(Trouble::Privileged(path.to_owned())) } else { Ok(Next::Done) }
}

/// Enough for the program headers of every linker.
const HEAD: u64 = 1 << 20;

/// Whether an ELF file asks for the loader that the library was made for.
fn linkage(path: &Path, head: &[u8]) -> Result<(), Trouble> {
    let foreign = |what| Err(Trouble::Foreign(path.to_owned(), what));
    let broken = || Trouble::NotExecutable(path.to_owned());
    let header = match elf::FileHeader64::<Endianness>::parse(head) {
        Ok(header) => header,
        Err(_) if elf::FileHeader32::<Endianness>::parse(head).is_ok() => return foreign("a 32-bit program"),
        Err(_) => return Err(broken()),
    };
    let endian = header.endian().map_err(|_| broken())?;
    if header.e_machine(endian) != MACHINE {
        return foreign("for another processor");
    }
    let interpreter = header
        .program_headers(endian, head)
        .map_err(|_| broken())?
        .iter()
        .find(|segment| segment.p_type(endian) == elf::PT_INTERP)
        .ok_or_else(|| Trouble::Static(path.to_owned()))?;
    let loader = interpreter.data(endian, head).unwrap_or_default();
    if loader.windows(7).any(|part| part == b"ld-musl") {
        return foreign("linked with musl");
    }
    Ok(())
}

#[cfg(target_arch = "x86_64")]
const MACHINE: elf::Machine = elf::EM_X86_64;
#[cfg(target_arch = "aarch64")]
const MACHINE: elf::Machine = elf::EM_AARCH64;

/// What `#!` names: a path, or behind `env` a name.
fn interpreter(line: &[u8]) -> Option<Next> {
    let line = line.split(|&byte| byte == b'\n').next()?;
    let mut words: VecDeque<&[u8]> =
        line.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty()).collect();
    let path = words.pop_front()?;
    if path.ends_with(b"/env") {
        // `env -S NAME=VALUE program`
        while words.front().is_some_and(|word| word.starts_with(b"-") || word.contains(&b'=')) {
            words.pop_front();
        }
        if let Some(name) = words.pop_front() {
            return Some(Next::Named(OsStr::from_bytes(name).to_owned()));
        }
    }
    Some(Next::At(PathBuf::from(OsStr::from_bytes(path))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::OpenOptionsExt;

    fn file(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
        let path = folder.join(name);
        fs::write(&path, bytes).expect("written");
        fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).expect("set");
        path
    }

    #[test]
    fn scripts_are_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        for (name, text) in
            [("sh", "#!/bin/sh -e\n"), ("env", "#! /usr/bin/env sh\n"), ("split", "#!/usr/bin/env -S A=1 sh -e")]
        {
            let path = file(folder, name, text.as_bytes());
            assert_eq!(find(path.as_os_str()), Ok(path.clone()), "{text}");
        }
        let path = file(folder, "gone", b"#!/nonexistent/sh\n");
        assert_eq!(find(path.as_os_str()), Err(Trouble::Absent("/nonexistent/sh".into())));
        let own = folder.join("self");
        let path = file(folder, "self", format!("#!{}\n", own.display()).as_bytes());
        assert_eq!(find(path.as_os_str()), Err(Trouble::Loop(path.clone())));
        let path = file(folder, "empty", b"#!\n");
        assert_eq!(find(path.as_os_str()), Err(Trouble::NotExecutable(path.clone())));
    }

    #[test]
    fn programs_are_told_apart() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        let own = fs::read("/bin/sh").expect("a shell");
        assert_eq!(find(OsStr::new("sh")).map(|path| path.ends_with("sh")), Ok(true));
        // Without the request for a loader it is statically linked.
        let offset = u64::from_le_bytes(own[32..40].try_into().expect("8 bytes")) as usize;
        let (size, count) = (u16::from_le_bytes([own[54], own[55]]), u16::from_le_bytes([own[56], own[57]]));
        let mut bytes = own.clone();
        for index in 0..usize::from(count) {
            let at = offset + index * usize::from(size);
            if bytes[at..at + 4] == elf::PT_INTERP.0.to_le_bytes() {
                bytes[at..at + 4].copy_from_slice(&0_u32.to_le_bytes());
            }
        }
        let path = file(folder, "static", &bytes);
        assert_eq!(find(path.as_os_str()), Err(Trouble::Static(path.clone())));
        let mut bytes = own.clone();
        bytes[18] ^= 1;
        let path = file(folder, "foreign", &bytes);
        assert!(matches!(find(path.as_os_str()), Err(Trouble::Foreign(..))));
        let mut bytes = own[..64].to_vec();
        bytes[4] = 1;
        let path = file(folder, "narrow", &bytes);
        assert_eq!(find(path.as_os_str()), Err(Trouble::Foreign(path.clone(), "a 32-bit program")));
        for (name, bytes) in [("text", &b"hello"[..]), ("cut", &own[..20]), ("nothing", b"")] {
            let path = file(folder, name, bytes);
            assert_eq!(find(path.as_os_str()), Err(Trouble::NotExecutable(path.clone())), "{name}");
        }
        let path = folder.join("data");
        fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o644).open(&path).expect("made");
        assert!(matches!(find(path.as_os_str()), Err(Trouble::Io(..))));
        assert!(find(OsStr::new("no-such-command-here")).expect_err("absent").is_absence());
    }
}
