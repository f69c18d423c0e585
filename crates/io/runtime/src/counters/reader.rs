//! Reading the counters files of others.
//!
//! Always true: what is in a file is believed of no one: sizes are bounded before anything is had for them, offsets are
//! checked, and text that is none is shown as far as it is some; a file is read, not mapped, so that one that shrinks is no
//! fault; no file is opened that is not a plain one.

use super::layout::{FILE_BYTES, HEADER_WORDS, Kind, LABELS, MAGIC, NAME_BYTES, Numbers, ROWS, header, row};
use super::{layout, place};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// A process that has a counters file, and what it shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// When its file was made, in milliseconds since 1970.
    pub since_ms: u64,
    /// Rows that found no room in the file.
    pub rows_missing: u64,
    /// What it shows, in no order.
    pub rows: Vec<Entry>,
    /// When the process began, in the kernel's ticks; 0 if it did not know.
    begun_ticks: u64,
}

/// A row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Which row: it may be another one's later.
    pub row: usize,
    /// What it is about.
    pub kind: Kind,
    /// The protocol, or the method.
    pub protocol: String,
    /// The address here, if it has one.
    pub local: String,
    /// The address there, if it has one.
    pub peer: String,
    /// The service, or the contract, if it has one.
    pub service: String,
    /// Whether it is being closed.
    pub is_closing: bool,
    /// Since when, in milliseconds since 1970.
    pub since_ms: u64,
    /// The numbers.
    pub numbers: Numbers,
}

/// Files in a directory that are looked at.
const MOST_FILES: usize = 4096;
/// Looks at a file in which rows are being changed.
const LOOKS: usize = 4;
/// A file without its final name is somebody's who has died over it, after so long.
const DRAFT: Duration = Duration::from_secs(60);

/// All living processes that show something to this user.
pub fn processes() -> Vec<Process> {
    let mut found = Vec::new();
    for directory in place::directories() {
        // Elsewhere somebody else may have named what is not a counters file at all.
        if place::is_ours(&directory) {
            sweep(&directory);
        }
        for path in files(&directory) {
            let Ok(Some(process)) = read(&path) else { continue };
            if path.file_name().is_some_and(|name| name == &*process.pid.to_string()) {
                found.push(process);
            }
        }
    }
    found.sort_by_key(|process| process.pid);
    found.dedup_by_key(|process| process.pid);
    found
}

fn files(directory: &Path) -> impl Iterator<Item = std::path::PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten().take(MOST_FILES);
    entries.map(|entry| entry.path()).filter(|path| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let digits = name.strip_prefix('.').unwrap_or(name);
        !digits.is_empty() && digits.len() <= 10 && digits.bytes().all(|byte| byte.is_ascii_digit())
    })
}

fn open(path: &Path) -> io::Result<File> {
    // A pipe would wait, and a link lead elsewhere.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Removes files whose processes have died.
pub(super) fn sweep(directory: &Path) {
    for path in files(directory) {
        let Ok(file) = open(&path) else { continue };
        let Ok(found) = file.metadata() else { continue };
        let is_draft = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        let is_young = || {
            let age = found.modified().ok().and_then(|modified| SystemTime::now().duration_since(modified).ok());
            age.is_none_or(|age| age < DRAFT)
        };
        if (is_draft && is_young()) || file.try_lock_shared().is_err() {
            continue;
        }
        // A process with the number of the dead one may have put its own file there meanwhile.
        if std::fs::symlink_metadata(&path).is_ok_and(|now| now.ino() == found.ino()) {
            let _ = std::fs::remove_file(&path);
        }
    }
}

/// When a process began, in the kernel's ticks since the host did.
pub(super) fn begun_ticks(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may have anything in it. What follows begins with the third field.
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// Reads one file; `None` if its process is no more.
///
/// # Errors
/// If it cannot be read, or is no counters file.
pub fn read(path: &Path) -> io::Result<Option<Process>> {
    let file = open(path)?;
    if file.try_lock_shared().is_ok() {
        return Ok(None);
    }
    let words = || words(&file);
    let (mut before, mut process) = (words()?, None);
    for look in 0..LOOKS {
        let (content, after) = (words()?, words()?);
        let is_last = look + 1 == LOOKS;
        let read = parse_between(&before, &content, &after)?;
        // What changes all the time is left out rather than waited for.
        if read.1 == 0 || is_last {
            process = Some(read.0);
            break;
        }
        before = after;
    }
    let is_alive =
        |process: &Process| process.begun_ticks == 0 || begun_ticks(process.pid) == Some(process.begun_ticks);
    Ok(process.filter(is_alive))
}

fn words(file: &File) -> io::Result<Vec<u64>> {
    let mut bytes = vec![0; FILE_BYTES];
    let mut len = 0;
    while len < bytes.len() {
        match file.read_at(&mut bytes[len..], len as u64)? {
            0 => break,
            n => len += n,
        }
    }
    let (words, _) = bytes[..len].as_chunks::<8>();
    Ok(words.iter().map(|&word| u64::from_ne_bytes(word)).collect())
}

/// What the content of a file says. Rows that were being changed are left out.
///
/// # Errors
/// If it is not the content of a counters file.
pub fn parse(bytes: &[u8]) -> io::Result<Process> {
    let (words, _) = bytes.as_chunks::<8>();
    let words: Vec<u64> = words.iter().take(FILE_BYTES / 8).map(|&word| u64::from_ne_bytes(word)).collect();
    parse_between(&words, &words, &words).map(|(process, _)| process)
}

/// What `content` says, and how many rows were being changed: those whose sequences before and after it differ.
fn parse_between(before: &[u64], content: &[u64], after: &[u64]) -> io::Result<(Process, usize)> {
    let wrong = |why: &str| io::Error::new(io::ErrorKind::InvalidData, format!("no counters file: {why}"));
    let Some(head) = content.get(..HEADER_WORDS) else { return Err(wrong("too short")) };
    if head[header::MAGIC] != MAGIC || head[header::ROW_BYTES] != (layout::ROW_WORDS * 8) as u64 {
        return Err(wrong("of another format"));
    }
    let pid = u32::try_from(head[header::PID]).map_err(|_| wrong("its process has no number"))?;
    let used = usize::try_from(head[header::USED].min(head[header::ROWS])).unwrap_or(ROWS).min(ROWS);
    let (mut rows, mut unsettled) = (Vec::new(), 0);
    for index in 0..used {
        let at = HEADER_WORDS + index * layout::ROW_WORDS;
        let Some(words) = content.get(at..at + layout::ROW_WORDS) else { break };
        let sequence = |words: &[u64]| words.get(at + row::SEQUENCE).copied();
        if sequence(before) != sequence(after) || words[row::SEQUENCE] % 2 != 0 {
            unsettled += 1;
            continue;
        }
        rows.extend(entry(index, words));
    }
    let name_bytes = (head[header::NAME_BYTES] as usize).min(NAME_BYTES);
    let process = Process {
        pid,
        name: text(&head[header::NAME..], name_bytes),
        since_ms: head[header::SINCE_MS],
        rows_missing: head[header::MISSING],
        rows,
        begun_ticks: head[header::BEGUN_TICKS],
    };
    Ok((process, unsettled))
}

fn entry(index: usize, words: &[u64]) -> Option<Entry> {
    let kind = Kind::of(words[row::KIND])?;
    let label = |number: usize| {
        let (at, most) = LABELS[number];
        let len = (words[row::LENGTHS] >> (16 * number)) as usize & 0xffff;
        text(&words[at..], len.min(most))
    };
    Some(Entry {
        row: index,
        kind,
        protocol: label(0),
        local: label(1),
        peer: label(2),
        service: label(3),
        is_closing: words[row::STATE] != 1,
        since_ms: words[row::SINCE_MS],
        numbers: Numbers::of(|number| words[row::NUMBERS + number]),
    })
}

/// The text in these words, without what a terminal would obey.
fn text(words: &[u64], len: usize) -> String {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).take(len).collect();
    String::from_utf8_lossy(&bytes).chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}
