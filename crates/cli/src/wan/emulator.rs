//! The emulator at work: a thread that moves packets between two devices, and ends with the value that stands for it.
//!
//! Timing: after packets have come or gone, the thread waits [`PAUSE`] before it looks for more, as a network card
//! moderates its interrupts; so packets that follow each other closely are written together. Otherwise it sleeps until
//! something comes or is due.

use super::config::Config;
use super::direction::{Direction, Found};
use super::report::Report;
use pinnace_core::Time;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::time::{ClockId, clock_gettime};
use std::io;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tun_rs::SyncDevice;

/// The pause between two looks while packets move.
const PAUSE: Duration = Duration::from_micros(50);

#[derive(Debug)]
struct Stop {
    asked: AtomicBool,
    /// Readable as soon as `asked` is set.
    wake: OwnedFd,
}

/// A running emulator.
#[derive(Debug)]
pub(crate) struct Emulator {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<io::Result<Report>>>,
}

impl Emulator {
    /// Joins two devices.
    pub(crate) fn start(near: SyncDevice, far: SyncDevice, config: &Config) -> Result<Self, String> {
        let failed = |error: io::Error| format!("the emulator cannot start: {error}");
        for device in [&near, &far] {
            rustix::io::ioctl_fionbio(device, true).map_err(|error| failed(error.into()))?;
        }
        let (near, far) = (Arc::new(near), Arc::new(far));
        let seeds = [config.seed, !config.seed];
        let forward = Direction::new(Arc::clone(&near), Arc::clone(&far), &config.forward, seeds[0])?;
        let back = Direction::new(far, near, &config.back, seeds[1])?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|error| failed(error.into()))?;
        let stop = Arc::new(Stop { asked: AtomicBool::new(false), wake });
        let stops = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("wan".into()).spawn(move || run([forward, back], &stops));
        Ok(Self { stop, thread: Some(thread.map_err(failed)?) })
    }

    /// Ends it, and says what it did.
    pub(crate) fn finish(mut self) -> Result<Report, String> {
        self.end().ok_or("the emulator has ended")?.map_err(|error| format!("the emulator failed: {error}"))
    }

    fn end(&mut self) -> Option<io::Result<Report>> {
        self.stop.asked.store(true, Ordering::SeqCst);
        let _ = rustix::io::write(&self.stop.wake, &1_u64.to_ne_bytes());
        self.thread.take()?.join().ok()
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

fn run(mut directions: [Direction; 2], stop: &Stop) -> io::Result<Report> {
    urgent();
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let start = Instant::now();
    let clock = || Time::from_nanos(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
    while !stop.asked.load(Ordering::Relaxed) {
        let (mut found, mut wrote) = (Found::Nothing, false);
        for direction in &mut directions {
            found = found.max(direction.read(clock)?);
            wrote |= direction.write(clock());
        }
        match found {
            // What waits in a device has not entered the link yet: its time has to come soon.
            Found::More => {}
            Found::Some => std::thread::sleep(PAUSE),
            Found::Nothing => sleep(&directions, clock(), if wrote { PAUSE } else { Duration::ZERO }, stop)?,
        }
    }
    let [near_to_far, far_to_near] = directions.map(|direction| direction.work());
    let used = clock_gettime(ClockId::ThreadCPUTime);
    Ok(Report {
        near_to_far,
        far_to_near,
        seconds: start.elapsed().as_secs_f64(),
        processor_seconds: used.tv_sec as f64 + used.tv_nsec as f64 / 1e9,
    })
}

/// Lets this thread run before others, or packets come late whenever sender and receiver keep the processors busy.
fn urgent() {
    // The kernel keeps a part of each processor for the others, whatever this thread does. It is no error if a host does
    // not have the program: then niceness has to do.
    let thread = rustix::thread::gettid().as_raw_nonzero().to_string();
    let real_time = Command::new("chrt")
        .args(["--rr", "--pid", "1", &thread])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if !real_time.is_ok_and(|status| status.success()) {
        let _ = rustix::process::setpriority_process(None, -20);
    }
}

/// Until a packet comes, or is due and `pause` is over, or the emulator has to end.
fn sleep(directions: &[Direction; 2], now: Time, pause: Duration, stop: &Stop) -> io::Result<()> {
    let next = directions.iter().filter_map(Direction::next).min();
    let timeout = next.and_then(|next| Timespec::try_from(next.since(now).max(pause)).ok());
    let mut watched = [
        PollFd::new(&*directions[0].from, PollFlags::IN),
        PollFd::new(&*directions[1].from, PollFlags::IN),
        PollFd::new(&stop.wake, PollFlags::IN),
    ];
    match poll(&mut watched, timeout.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
