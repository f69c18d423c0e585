//! How long a cache line takes from one processor to another and back: `cargo run --release -p pinnace-link --example cache_line`.
//!
//! Two ends that spin on two processors hand each other everything through the cache. A virtual machine does not say whether its
//! processors share one, and that can change under it: a figure of throughput that is a third of another one may be this.
#![allow(clippy::print_stdout, reason = "it prints figures")]

#[cfg(target_os = "linux")]
fn main() {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::{Duration, Instant};

    const TURNS: u32 = 200_000;

    fn pin(processor: usize) {
        // SAFETY: zeros are an empty set, and the call reads the set alone.
        unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(processor, &mut set);
            libc::sched_setaffinity(0, size_of_val(&set), &raw const set);
        }
    }

    fn wait_for(line: &AtomicU32, value: u32) {
        while line.load(Ordering::Acquire) != value {
            std::hint::spin_loop();
        }
    }

    let line = AtomicU32::new(0);
    for _ in 0..20 {
        line.store(0, Ordering::Relaxed);
        let begun = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                pin(1);
                for turn in 0..TURNS {
                    wait_for(&line, 2 * turn + 1);
                    line.store(2 * turn + 2, Ordering::Release);
                }
            });
            pin(0);
            for turn in 0..TURNS {
                line.store(2 * turn + 1, Ordering::Release);
                wait_for(&line, 2 * turn + 2);
            }
        });
        println!("{} ns", begun.elapsed().as_nanos() / u128::from(TURNS));
        std::thread::sleep(Duration::from_millis(500));
    }
}

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("processors can be chosen on Linux only");
}
