//! The file of this process, as memory.
//!
//! Always true: a file has its final name only when it is locked and its header is written; the memory stays as long as the
//! process, so a row can be written at any time; all of its bytes were allotted when it was made, so that a full disk is no
//! fault later; it is not made where the process may not write as much; after `fork` the child makes a file of its own, and leaves the parent's rows alone.

use super::layout::{self, FILE_BYTES, HEADER_WORDS, LABELS, MAGIC, NAME_BYTES, ROW_WORDS, ROWS, header, row};
use super::{Kind, Labels, Numbers, place, reader, unix_ms};
use crate::OfProcess;
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::ptr::{null_mut, slice_from_raw_parts};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// See the [module](self).
#[derive(Debug)]
struct Region {
    words: &'static [AtomicU64],
    pid: u32,
    /// Locked as long as it is open.
    _file: File,
}

impl Region {
    /// That of this process. Where it could not be made, it would not work the next time either.
    fn current() -> Option<&'static Self> {
        static CURRENT: OfProcess<OnceLock<Option<Region>>> = OfProcess::new();
        CURRENT.get().get_or_init(|| Self::open(std::process::id())).as_ref()
    }

    fn open(pid: u32) -> Option<Self> {
        let directory = place::prepared()?;
        reader::sweep(&directory);
        let (draft, path) = (directory.join(format!(".{pid}")), directory.join(pid.to_string()));
        let _ = std::fs::remove_file(&draft);
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&draft).ok()?;
        let opened = Self::fill(file, pid);
        let renamed = opened.is_some() && std::fs::rename(&draft, &path).is_ok();
        if !renamed {
            let _ = std::fs::remove_file(&draft);
            return None;
        }
        opened
    }

    fn fill(file: File, pid: u32) -> Option<Self> {
        file.try_lock().ok()?;
        // To go beyond it would end the process (SIGXFSZ).
        if FILE_BYTES as u64 > most_bytes() {
            return None;
        }
        // SAFETY: an open descriptor, and no pointers.
        if unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, FILE_BYTES as libc::off_t) } != 0 {
            return None;
        }
        // SAFETY: a new mapping of an open file, at an address that the system picks; the result is checked.
        let memory = unsafe {
            let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
            libc::mmap(null_mut(), FILE_BYTES, access, kind, file.as_raw_fd(), 0)
        };
        if memory == libc::MAP_FAILED {
            return None;
        }
        // SAFETY: it has that many bytes, begins at a page, is never unmapped, and is only used as words that are atomic.
        let words = unsafe { &*slice_from_raw_parts(memory.cast::<AtomicU64>(), FILE_BYTES / 8) };
        let region = Self { words, pid, _file: file };
        let comm = std::fs::read_to_string("/proc/self/comm").unwrap_or_default();
        let name = layout::beginning(comm.trim_end(), NAME_BYTES);
        for (at, value) in [
            (header::ROW_BYTES, (ROW_WORDS * 8) as u64),
            (header::ROWS, ROWS as u64),
            (header::PID, pid.into()),
            (header::BEGUN_TICKS, reader::begun_ticks(pid).unwrap_or(0)),
            (header::SINCE_MS, unix_ms()),
            (header::NAME_BYTES, name.len() as u64),
            (header::MAGIC, MAGIC),
        ] {
            words[at].store(value, Ordering::Relaxed);
        }
        region.write_text(header::NAME, name);
        Some(region)
    }

    fn write_text(&self, at: usize, text: &str) {
        for (word, bytes) in self.words[at..].iter().zip(text.as_bytes().chunks(8)) {
            let mut value = [0; 8];
            value[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_ne_bytes(value), Ordering::Relaxed);
        }
    }
}

/// The largest file that this process may write (`ulimit -f`).
fn most_bytes() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a place for the limit, as large as it is.
    let is_known = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) } == 0;
    if is_known { limit.rlim_cur } else { 0 }
}

/// A row of the counters file of this process. It is free again when this is dropped.
#[derive(Debug)]
pub struct Row {
    region: &'static Region,
    /// Of its first word.
    at: usize,
}

impl Row {
    /// Takes a row. `None` if this process has no file, or no row of it is free.
    pub fn new(kind: Kind, labels: &Labels<'_>) -> Option<Self> {
        let region = Region::current()?;
        for index in 0..ROWS {
            let at = HEADER_WORDS + index * ROW_WORDS;
            let taken = &region.words[at + row::TAKEN];
            if taken.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
                continue;
            }
            region.words[header::USED].fetch_max(index as u64 + 1, Ordering::Relaxed);
            let this = Self { region, at };
            this.change(|| {
                this.set(row::SINCE_MS, unix_ms());
                this.set(row::STATE, 1);
                this.write_labels(labels);
                (0..Numbers::NAMES.len()).for_each(|number| this.set(row::NUMBERS + number, 0));
                this.set(row::KIND, kind.number());
            });
            return Some(this);
        }
        region.words[header::MISSING].fetch_add(1, Ordering::Relaxed);
        None
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        &self.region.words[self.at + at]
    }

    fn set(&self, at: usize, value: u64) {
        self.word(at).store(value, Ordering::Relaxed);
    }

    /// Changes several words so that readers see all of it or nothing. One thread at a time.
    fn change(&self, work: impl FnOnce()) {
        let sequence = self.word(row::SEQUENCE);
        let before = sequence.load(Ordering::Relaxed);
        sequence.store(before | 1, Ordering::Relaxed);
        fence(Ordering::Release);
        work();
        sequence.store((before | 1).wrapping_add(1), Ordering::Release);
    }

    fn write_labels(&self, labels: &Labels<'_>) {
        let mut lengths = 0;
        let texts = [labels.protocol, labels.local, labels.peer, labels.service];
        for (number, (text, (at, most))) in texts.into_iter().zip(LABELS).enumerate() {
            let text = layout::beginning(text, most);
            self.region.write_text(self.at + at, text);
            lengths |= (text.len() as u64) << (16 * number);
        }
        self.set(row::LENGTHS, lengths);
    }

    /// Writes all numbers, of one moment. One thread at a time.
    pub fn publish(&self, numbers: &Numbers) {
        self.change(|| {
            for (at, (_, value)) in numbers.iter().enumerate() {
                self.set(row::NUMBERS + at, value);
            }
        });
    }

    /// Counts a message that was sent. From any thread.
    pub fn count_sent(&self, bytes: u64) {
        self.word(row::NUMBERS).fetch_add(1, Ordering::Relaxed);
        self.word(row::NUMBERS + 1).fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts a message that was received, and how many of its bytes were lost. From any thread.
    pub fn count_received(&self, bytes: u64, lost: u64) {
        self.word(row::NUMBERS + 3).fetch_add(1, Ordering::Relaxed);
        self.word(row::NUMBERS + 4).fetch_add(bytes, Ordering::Relaxed);
        if lost > 0 {
            self.word(row::NUMBERS + 6).fetch_add(lost, Ordering::Relaxed);
        }
    }

    /// What was counted.
    pub fn numbers(&self) -> Numbers {
        Numbers::of(|at| self.word(row::NUMBERS + at).load(Ordering::Relaxed))
    }

    /// It is about something else from now on. One thread at a time.
    pub fn describe(&self, labels: &Labels<'_>) {
        self.change(|| self.write_labels(labels));
    }

    /// It is being closed.
    pub fn close(&self) {
        self.set(row::STATE, 2);
    }
}

impl Drop for Row {
    fn drop(&mut self) {
        // A child's copy of a parent's row is none.
        if self.region.pid == std::process::id() {
            self.change(|| self.set(row::KIND, 0));
            self.word(row::TAKEN).store(0, Ordering::Release);
        }
    }
}
