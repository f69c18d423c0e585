//! A hundred thousand contexts in one process: what each costs while it is idle.
mod direct;

use core::time::Duration;
use direct::Pair;
use pinnace_xtp::Service;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts what is allocated.
struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is the system allocator's; only numbers are kept beside it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const CONTEXTS: usize = 100_000;

//= X-24 test
#[test]
fn an_idle_context_takes_less_than_a_kibibyte() {
    let mut pair = Pair::new(CONTEXTS + 1);
    pair.open(1, Service::Connection);
    pair.wait(Duration::from_secs(2));
    let before = LIVE.load(Ordering::Relaxed);
    for _ in 0..CONTEXTS / 1000 {
        pair.open(1000, Service::Connection);
        // Receive rings and congestion state are let go of when nothing happens.
        pair.wait(Duration::from_secs(2));
    }
    let used = LIVE.load(Ordering::Relaxed) - before;
    let each = used / (2 * CONTEXTS);
    assert_eq!(pair.client.contexts(), CONTEXTS + 1);
    assert_eq!(pair.server.contexts(), CONTEXTS + 1);
    assert_eq!((pair.server.bytes(), pair.client.bytes()), (0, 0));
    assert!(each < 1024, "{each} bytes a context");
}
