//! What this process remembers of its descriptors: hints, which make the common case cheap.
//!
//! Always true: the truth is in the kernel ([`crate::name`], [`crate::listener::learn`]), and a lost or stale hint costs a few
//! system calls, never a wrong answer. So there are no locks: a fork in another thread's midst and a signal handler do no
//! harm. A child of vfork(), which works on its parent's memory, changes nothing here.

use crate::sys;
use core::ffi::c_int;
use core::ptr;
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// Descriptors from here on are remembered by the kernel alone.
const SIZE: usize = 1 << 16;

/// A listener (with its members), or a member of one.
static ROLES: [AtomicU64; SIZE] = [const { AtomicU64::new(0) }; SIZE];
/// Options of converted streams, and what happened to a TCP socket before it was converted.
static NOTES: [AtomicU64; SIZE] = [const { AtomicU64::new(0) }; SIZE];
/// `TCP_USER_TIMEOUT` of converted streams.
static USER_TIMEOUTS: [AtomicU64; SIZE] = [const { AtomicU64::new(0) }; SIZE];
/// How a fresh socket is registered in its epoll instance: events, with the age above them, and data.
static EVENTS: [AtomicU64; SIZE] = [const { AtomicU64::new(0) }; SIZE];
static DATA: [AtomicU64; SIZE] = [const { AtomicU64::new(0) }; SIZE];
/// After a fork both processes may change what the other has noted of a registration; so neither believes it any more.
static AGE: AtomicU32 = AtomicU32::new(1);
/// No listener and no member has a higher number.
static HIGHEST: AtomicI32 = AtomicI32::new(-1);

const LISTENER: u64 = 1 << 63;
const MEMBER: u64 = 1 << 62;
/// A descriptor of the library's own that no listener has.
const KEPT: u64 = 1 << 61;
const FD_BITS: u32 = 20;
const FD_MASK: u64 = (1 << FD_BITS) - 1;

/// The two sockets behind a listener's epoll descriptor, and the connection to the companion (0: none).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Members {
    pub(crate) tcp: c_int,
    pub(crate) unix: c_int,
    pub(crate) control: c_int,
}

impl Members {
    pub(crate) fn all(self) -> impl Iterator<Item = c_int> {
        [self.tcp, self.unix, self.control].into_iter().filter(|&fd| fd > 0)
    }
}

/// The process that these tables belong to (0: any), in memory that a child finds empty, unless it works on its parent's.
static OWNER: AtomicPtr<AtomicI32> = AtomicPtr::new(ptr::null_mut());

/// Begins to tell a child of fork(), which has its own tables, from one of vfork(), which does not.
pub(crate) fn own() {
    let place = sys::forgotten_by_children().unwrap_or(ptr::null_mut());
    OWNER.store(place, Ordering::Release);
    is_borrowed();
    // Before such a child has one of vfork() itself. One that is made by a bare system call looks when it first has to.
    // SAFETY: the function is there as long as the process.
    unsafe { libc::pthread_atfork(None, Some(aged), Some(forked)) };
}

extern "C" fn aged() {
    AGE.fetch_add(1, Ordering::Relaxed);
}

extern "C" fn forked() {
    is_borrowed();
    aged();
}

/// Whether these are the tables of another process: its child has its memory until it calls exec().
pub(crate) fn is_borrowed() -> bool {
    // SAFETY: it was mapped for good, and is aligned.
    let Some(owner) = (unsafe { OWNER.load(Ordering::Acquire).as_ref() }) else { return false };
    let process = sys::pid();
    match owner.load(Ordering::Relaxed) {
        // A child of fork(), which looks for the first time, or the process itself.
        0 => owner
            .compare_exchange(0, process, Ordering::Relaxed, Ordering::Relaxed)
            .is_err_and(|owner| owner != process),
        owner => owner != process,
    }
}

/// Changes a word, if it is ours to change.
fn put(slot: &AtomicU64, value: u64) {
    if slot.load(Ordering::Relaxed) != value && !is_borrowed() {
        slot.store(value, Ordering::Release);
    }
}

fn slot(table: &'static [AtomicU64; SIZE], fd: c_int) -> Option<&'static AtomicU64> {
    usize::try_from(fd).ok().and_then(|fd| table.get(fd))
}

fn role(fd: c_int) -> u64 {
    slot(&ROLES, fd).map_or(0, |slot| slot.load(Ordering::Relaxed))
}

/// The members of a listener.
pub(crate) fn listener(fd: c_int) -> Option<Members> {
    let word = role(fd);
    let part = |index: u32| (word >> (index * FD_BITS) & FD_MASK) as c_int;
    (word & LISTENER != 0).then(|| Members { tcp: part(0), unix: part(1), control: part(2) })
}

/// Whether a descriptor is behind a listener, where the application does not know of it.
pub(crate) fn is_member(fd: c_int) -> bool {
    role(fd) & MEMBER != 0
}

/// Whether a descriptor is the library's own, and is there as long as the process.
pub(crate) fn is_kept(fd: c_int) -> bool {
    role(fd) & KEPT != 0
}

/// Notes that it is.
pub(crate) fn keep(fd: c_int) {
    if let Some(slot) = slot(&ROLES, fd) {
        put(slot, KEPT);
        HIGHEST.fetch_max(fd, Ordering::Relaxed);
    }
}

/// Whether a descriptor is a listener, or one that the application does not know of.
pub(crate) fn is_special(fd: c_int) -> bool {
    role(fd) != 0
}

/// Notes a listener and its members.
pub(crate) fn set_listener(fd: c_int, members: Members) {
    let word = LISTENER
        | (members.tcp as u64 & FD_MASK)
        | (members.unix as u64 & FD_MASK) << FD_BITS
        | (members.control as u64 & FD_MASK) << (2 * FD_BITS);
    for member in members.all() {
        if let Some(slot) = slot(&ROLES, member) {
            put(slot, MEMBER);
            HIGHEST.fetch_max(member, Ordering::Relaxed);
        }
    }
    if let Some(slot) = slot(&ROLES, fd) {
        put(slot, word);
        HIGHEST.fetch_max(fd, Ordering::Relaxed);
    }
}

/// Forgets what a descriptor was; it is closed, or is something new.
pub(crate) fn reset(fd: c_int) {
    for table in [&ROLES, &NOTES, &USER_TIMEOUTS, &EVENTS] {
        if let Some(slot) = slot(table, fd) {
            put(slot, 0);
        }
    }
}

/// A descriptor was duplicated.
pub(crate) fn copy(from: c_int, to: c_int) {
    reset(to);
    if let Some(members) = listener(from) {
        set_listener(to, members);
    }
    // What happened to `from` in an epoll instance did not happen to `to`.
    set_notes(to, notes(from).with(Notes::EPOLL, false));
}

/// The listeners of this process.
pub(crate) fn listeners() -> impl Iterator<Item = (c_int, Members)> {
    (0..=HIGHEST.load(Ordering::Relaxed)).filter_map(|fd| Some((fd, listener(fd)?)))
}

/// The descriptors in a range that the application does not know of.
pub(crate) fn hidden(first: c_int, last: c_int) -> impl Iterator<Item = c_int> {
    (first..=last.min(HIGHEST.load(Ordering::Relaxed))).filter(|&fd| is_member(fd) || is_kept(fd))
}

/// Where a fresh socket is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Nowhere,
    /// In this epoll instance.
    In(c_int),
    /// In one or several that are not known.
    Somewhere,
}

/// What is noted of one descriptor: a word of everything else, and the user time-out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Notes(u64, u32);

impl Notes {
    const NODELAY: u64 = 1 << 0;
    const CORK: u64 = 1 << 1;
    /// A TCP socket that was made and not yet connected.
    const FRESH: u64 = 1 << 2;
    /// A listener's Unix socket: what it gives has no options to inherit.
    const PLAIN: u64 = 1 << 3;
    /// A TCP socket that has to stay one (a stream, which has the other option of this bit, is none).
    const TCP_ONLY: u64 = Self::CORK;
    /// The epoll instance that a fresh socket was added to, plus one; all ones if there are several.
    const EPOLL: u64 = 0x1f_ffff << 4;
    const SEVERAL: c_int = 0x1f_ffff - 1;
    /// A stream that the companion carries to another host.
    const REMOTE: u64 = 1 << 62;
    /// Keep-alive times as set, 0: the default.
    const IDLE: u32 = 25;
    const INTERVAL: u32 = 40;
    const COUNT: u32 = 55;

    fn bit(self, bit: u64) -> bool {
        self.0 & bit != 0
    }

    fn with(self, bit: u64, on: bool) -> Self {
        Self(if on { self.0 | bit } else { self.0 & !bit }, self.1)
    }

    fn field(self, at: u32, bits: u32) -> Option<c_int> {
        match self.0 >> at & ((1 << bits) - 1) {
            0 => None,
            value => Some(value as c_int),
        }
    }

    fn with_field(self, at: u32, bits: u32, value: c_int) -> Self {
        let mask = (1 << bits) - 1;
        Self(self.0 & !(mask << at) | (value as u64 & mask) << at, self.1)
    }

    pub(crate) fn no_delay(self) -> bool {
        self.bit(Self::NODELAY)
    }

    pub(crate) fn with_no_delay(self, on: bool) -> Self {
        self.with(Self::NODELAY, on)
    }

    pub(crate) fn cork(self) -> bool {
        self.bit(Self::CORK)
    }

    pub(crate) fn with_cork(self, on: bool) -> Self {
        self.with(Self::CORK, on)
    }

    pub(crate) fn is_fresh(self) -> bool {
        self.bit(Self::FRESH)
    }

    pub(crate) fn fresh() -> Self {
        Self(Self::FRESH, 0)
    }

    pub(crate) fn is_tcp_only(self) -> bool {
        self.bit(Self::TCP_ONLY)
    }

    pub(crate) fn with_tcp_only(self, on: bool) -> Self {
        self.with(Self::TCP_ONLY, on)
    }

    pub(crate) fn is_plain(self) -> bool {
        self.bit(Self::PLAIN)
    }

    pub(crate) fn with_plain(self, on: bool) -> Self {
        self.with(Self::PLAIN, on)
    }

    pub(crate) fn is_remote(self) -> bool {
        self.bit(Self::REMOTE)
    }

    pub(crate) fn with_remote(self, on: bool) -> Self {
        self.with(Self::REMOTE, on)
    }

    pub(crate) fn epoll(self) -> Place {
        match self.field(4, 21).map(|fd| fd - 1) {
            None => Place::Nowhere,
            Some(Self::SEVERAL) => Place::Somewhere,
            Some(fd) => Place::In(fd),
        }
    }

    fn with_epoll(self, fd: Option<c_int>) -> Self {
        self.with_field(4, 21, fd.map_or(0, |fd| fd.clamp(0, Self::SEVERAL) + 1))
    }

    /// It was added to an epoll instance.
    pub(crate) fn added(self, epoll: c_int) -> Self {
        self.with_epoll(Some(if self.epoll() == Place::Nowhere { epoll } else { Self::SEVERAL }))
    }

    /// It was deleted from one. Of several it is not known which are left.
    pub(crate) fn deleted(self, epoll: c_int) -> Self {
        if self.epoll() == Place::In(epoll) { self.with_epoll(None) } else { self }
    }

    /// `TCP_KEEPIDLE`, `TCP_KEEPINTVL` or `TCP_KEEPCNT`, if it was set.
    pub(crate) fn keep_alive(self, option: c_int) -> Option<c_int> {
        match option {
            libc::TCP_KEEPIDLE => self.field(Self::IDLE, 15),
            libc::TCP_KEEPINTVL => self.field(Self::INTERVAL, 15),
            libc::TCP_KEEPCNT => self.field(Self::COUNT, 7),
            _ => None,
        }
    }

    pub(crate) fn with_keep_alive(self, option: c_int, value: c_int) -> Self {
        // Nobody can set more than there is room for; the system's own value may be more.
        let fitting = |bits: u32| if value >> bits == 0 { value } else { 0 };
        match option {
            libc::TCP_KEEPIDLE => self.with_field(Self::IDLE, 15, fitting(15)),
            libc::TCP_KEEPINTVL => self.with_field(Self::INTERVAL, 15, fitting(15)),
            libc::TCP_KEEPCNT => self.with_field(Self::COUNT, 7, fitting(7)),
            _ => self,
        }
    }

    /// `TCP_USER_TIMEOUT` in milliseconds, 0: none.
    pub(crate) fn user_timeout(self) -> c_int {
        self.1 as c_int
    }

    pub(crate) fn with_user_timeout(self, millis: c_int) -> Self {
        Self(self.0, millis as u32)
    }
}

/// Notes how a fresh socket is registered; `None`: it is not known.
pub(crate) fn set_registered(fd: c_int, registered: Option<(u32, u64)>) {
    let (Some(events), Some(data)) = (slot(&EVENTS, fd), slot(&DATA, fd)) else { return };
    let (flags, value) = registered.unwrap_or((0, 0));
    put(data, value);
    put(events, registered.map_or(0, |_| u64::from(AGE.load(Ordering::Relaxed)) << 32 | u64::from(flags)));
}

/// How a fresh socket was registered: events and data.
pub(crate) fn registered(fd: c_int) -> Option<(u32, u64)> {
    let word = slot(&EVENTS, fd)?.load(Ordering::Acquire);
    let is_known = word != 0 && (word >> 32) as u32 == AGE.load(Ordering::Relaxed);
    is_known.then(|| (word as u32, slot(&DATA, fd).map_or(0, |data| data.load(Ordering::Relaxed))))
}

/// Whether anything can be noted of a descriptor.
pub(crate) fn is_noted(fd: c_int) -> bool {
    slot(&NOTES, fd).is_some()
}

pub(crate) fn notes(fd: c_int) -> Notes {
    let word = |table| slot(table, fd).map_or(0, |slot| slot.load(Ordering::Relaxed));
    Notes(word(&NOTES), word(&USER_TIMEOUTS) as u32)
}

pub(crate) fn set_notes(fd: c_int, notes: Notes) {
    if let Some(slot) = slot(&NOTES, fd) {
        put(slot, notes.0);
    }
    if let Some(slot) = slot(&USER_TIMEOUTS, fd) {
        put(slot, notes.1.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_do_not_touch_each_other() {
        let notes = Notes::default()
            .with_no_delay(true)
            .with_cork(true)
            .added((1 << FD_BITS) - 1)
            .with_keep_alive(libc::TCP_KEEPIDLE, 32767)
            .with_keep_alive(libc::TCP_KEEPINTVL, 1)
            .with_keep_alive(libc::TCP_KEEPCNT, 127);
        assert_eq!(notes.epoll(), Place::In((1 << FD_BITS) - 1));
        assert_eq!(notes.keep_alive(libc::TCP_KEEPIDLE), Some(32767));
        assert_eq!(notes.keep_alive(libc::TCP_KEEPINTVL), Some(1));
        assert_eq!(notes.keep_alive(libc::TCP_KEEPCNT), Some(127));
        let several = notes.added(7);
        assert_eq!((several.epoll(), several.deleted(7).epoll()), (Place::Somewhere, Place::Somewhere));
        assert_eq!(notes.deleted(7), notes);
        assert_eq!(notes.with_user_timeout(c_int::MAX).user_timeout(), c_int::MAX);
        assert_eq!(notes.with_keep_alive(libc::TCP_KEEPIDLE, 86_400).keep_alive(libc::TCP_KEEPIDLE), None);
        let notes = notes.deleted((1 << FD_BITS) - 1).with_cork(false);
        assert_eq!((notes.no_delay(), notes.cork(), notes.epoll()), (true, false, Place::Nowhere));
        assert!(!notes.is_fresh() && !notes.is_plain() && Notes::fresh().is_fresh());
    }

    #[test]
    fn a_duplicate_of_a_listener_has_its_members() {
        let members = Members { tcp: 60_001, unix: 60_002, control: 0 };
        set_listener(60_000, members);
        copy(60_000, 60_010);
        assert_eq!(listener(60_010), Some(members));
        assert!(is_member(60_002) && !is_member(60_000));
        assert!(members_are(60_000, 60_010, &[60_001, 60_002]));
        reset(60_000);
        assert_eq!(listener(60_000), None);
        assert_eq!(listener(-1), None);
        assert_eq!(listener(c_int::MAX), None);
    }

    fn members_are(first: c_int, last: c_int, expected: &[c_int]) -> bool {
        hidden(first, last).eq(expected.iter().copied())
    }
}
