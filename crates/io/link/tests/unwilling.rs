//! Kernels and paths that refuse what a control message asks for. The kernel at hand refuses nothing, so this program's own
//! `syscall`, by which the link sends, stands before the C library's, and refuses what the thread's test says.
#![cfg(target_os = "linux")]

mod support;

use libc::{c_int, c_long, c_void, mmsghdr, msghdr, sockaddr_in};
use pinnace_core::{Address, Ecn, Train};
use pinnace_link::{Link, SendOutcome, UdpLink, UdpOptions};
use std::cell::Cell;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::{mem, ptr};
use support::{Memory, TRAILER, collect, fill};

const UDP_SEGMENT: c_int = 103;

/// What is refused.
#[derive(Clone, Copy, Default)]
struct Kernel {
    /// Marks: it does not know that control message.
    marks: bool,
    /// What has no mark: its buffer is full.
    unmarked: bool,
    /// Segments for this port: its path cannot.
    segments_to: Option<u16>,
}

thread_local! {
    static KERNEL: Cell<Kernel> = const { Cell::new(Kernel { marks: false, unmarked: false, segments_to: None }) };
}

/// # Safety
/// The header must be a valid one, as for the system call.
unsafe fn refuses(header: &msghdr) -> Option<c_int> {
    let kernel = KERNEL.get();
    let port = if header.msg_name.is_null() {
        None
    } else {
        // SAFETY: these tests send to IPv4 alone.
        Some(u16::from_be(unsafe { (*header.msg_name.cast::<sockaddr_in>()).sin_port }))
    };
    let mut is_marked = false;
    // SAFETY: the caller's promise.
    let mut head = unsafe { libc::CMSG_FIRSTHDR(header) };
    // SAFETY: null, or one that the caller's header has room for.
    while let Some(control) = unsafe { head.as_ref() } {
        match (control.cmsg_level, control.cmsg_type) {
            (libc::SOL_IP, libc::IP_TOS) if kernel.marks => return Some(libc::EINVAL),
            (libc::SOL_IP, libc::IP_TOS) => is_marked = true,
            (libc::SOL_UDP, UDP_SEGMENT) if port.is_some() && port == kernel.segments_to => return Some(libc::EIO),
            _ => {}
        }
        // SAFETY: as above.
        head = unsafe { libc::CMSG_NXTHDR(header, head) };
    }
    (kernel.unmarked && !is_marked).then_some(libc::EAGAIN)
}

fn fail(errno: c_int) {
    // SAFETY: this thread's own.
    unsafe { *libc::__errno_location() = errno };
}

/// The C library's own `syscall`, found once: no lock, as locks call `syscall` to wait.
fn of_the_library() -> unsafe extern "C" fn(c_long, ...) -> c_long {
    static FOUND: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
    let mut found = FOUND.load(Ordering::Relaxed);
    if found.is_null() {
        // SAFETY: a name that ends.
        found = unsafe { libc::dlsym(libc::RTLD_NEXT, c"syscall".as_ptr()) };
        assert!(!found.is_null());
        FOUND.store(found, Ordering::Relaxed);
    }
    // SAFETY: the C library declares it so.
    unsafe { mem::transmute::<*mut c_void, unsafe extern "C" fn(c_long, ...) -> c_long>(found) }
}

// SAFETY: the caller passes integers and pointers alone, which the calling conventions of Linux pass to a variadic function
// as to any other; those it does not pass are not looked at.
#[unsafe(no_mangle)]
unsafe extern "C" fn syscall(
    number: c_long,
    first: c_long,
    second: c_long,
    third: c_long,
    fourth: c_long,
    fifth: c_long,
    sixth: c_long,
) -> c_long {
    let header = match number {
        // SAFETY: the caller's promise for this call.
        libc::SYS_sendmsg => unsafe { (second as *const msghdr).as_ref() },
        // SAFETY: as above; there is at least one.
        libc::SYS_sendmmsg => unsafe { (second as *const mmsghdr).as_ref() }.map(|message| &message.msg_hdr),
        _ => None,
    };
    // SAFETY: the caller's promise.
    if let Some(errno) = header.and_then(|header| unsafe { refuses(header) }) {
        fail(errno);
        return -1;
    }
    // SAFETY: the arguments are those that the caller gave.
    unsafe { of_the_library()(number, first, second, third, fourth, fifth, sixth) }
}

fn bind(ip: &str) -> UdpLink {
    UdpLink::bind(format!("{ip}:0").parse().unwrap(), &UdpOptions::default()).unwrap()
}

/// A train of `source` in segments of 1000 bytes: the outcome, and how many calls it took.
fn send(link: &mut UdpLink, to: &UdpLink, source: &Memory, ecn: Ecn) -> (SendOutcome, u64) {
    let mut train = Train::new(link.train_limits());
    train.begin(Address::from(to.local_address().unwrap()), 1000 + TRAILER);
    train.set_ecn(ecn);
    fill(&mut train, source.id, 0, source.bytes().len(), 1000);
    let calls = link.counters().send_calls;
    let outcome = link.send(&train, &source.table).unwrap();
    (outcome, link.counters().send_calls - calls)
}

/// In how many reads it came.
fn reads(link: &mut UdpLink, bytes: usize) -> usize {
    collect(link, &Memory::zeros(bytes), bytes, 1000).reads
}

#[test]
fn a_path_that_refuses_to_segment_is_one_peers_alone() {
    let (mut link, mut far, mut near) = (bind("127.0.0.1"), bind("127.0.0.2"), bind("127.0.0.3"));
    let (source, limits) = (Memory::pattern(9_500), link.train_limits());
    KERNEL.set(Kernel { segments_to: Some(far.local_address().unwrap().port()), ..Kernel::default() });
    for calls in [2, 1, 1] {
        assert_eq!(send(&mut link, &far, &source, Ecn::NotCapable), (SendOutcome::Sent, calls));
        assert_eq!(reads(&mut far, 9_500), 10);
    }
    assert_eq!((link.train_limits(), link.counters().offload_fallbacks), (limits, 1));
    assert_eq!(send(&mut link, &near, &source, Ecn::NotCapable), (SendOutcome::Sent, 1));
    assert_eq!(reads(&mut near, 9_500), 1);
}

#[test]
fn a_kernel_that_does_not_take_marks_still_segments() {
    let (mut link, mut peer) = (bind("127.0.0.1"), bind("127.0.0.2"));
    let (source, limits) = (Memory::pattern(9_500), link.train_limits());
    KERNEL.set(Kernel { marks: true, ..Kernel::default() });
    for calls in [2, 1, 1] {
        assert_eq!(send(&mut link, &peer, &source, Ecn::Capable0), (SendOutcome::Sent, calls));
        assert_eq!(reads(&mut peer, 9_500), 1);
    }
    assert_eq!((link.train_limits(), link.counters().offload_fallbacks), (limits, 0));
}

#[test]
fn a_path_that_refuses_to_segment_still_carries_marks() {
    let (mut link, mut peer) = (bind("127.0.0.1"), bind("127.0.0.2"));
    let source = Memory::pattern(9_500);
    KERNEL.set(Kernel { segments_to: Some(peer.local_address().unwrap().port()), ..Kernel::default() });
    for _ in 0..3 {
        assert_eq!(send(&mut link, &peer, &source, Ecn::Capable0).0, SendOutcome::Sent);
        for _ in 0..10 {
            let (_, read) = support::receive_bytes(&mut peer).unwrap();
            assert_eq!(read.meta.ecn, Ecn::Capable0);
        }
    }
    assert_eq!(link.counters().offload_fallbacks, 1);
}

#[test]
fn a_refusal_before_the_socket_was_full_need_not_have_been_the_mark_s() {
    for offload in [false, true] {
        let options = UdpOptions { offload, ..UdpOptions::default() };
        let mut link = UdpLink::bind("127.0.0.1:0".parse().unwrap(), &options).unwrap();
        let mut peer = bind("127.0.0.2");
        let source = Memory::pattern(3_000);
        KERNEL.set(Kernel { marks: true, unmarked: true, ..Kernel::default() });
        assert_eq!(send(&mut link, &peer, &source, Ecn::Capable0).0, SendOutcome::Blocked, "offload: {offload}");
        KERNEL.set(Kernel::default());
        assert_eq!(send(&mut link, &peer, &source, Ecn::Capable0).0, SendOutcome::Sent);
        let (_, read) = support::receive_bytes(&mut peer).unwrap();
        assert_eq!(read.meta.ecn, Ecn::Capable0, "offload: {offload}");
    }
}
