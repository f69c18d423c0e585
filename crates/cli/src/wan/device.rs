//! The devices at both ends of the link, each in a network namespace.
//!
//! Always true: a device is a queue before the emulator's own; it is long enough for anything that the emulator leaves
//! there between two looks, and what it drops all the same is counted ([`dropped`]).

use super::config::Config;
use crate::exit::Error;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::{self, File};
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;
use tun_rs::{DeviceBuilder, SyncDevice};

/// Packets, or large packets of the kernel, that wait for the emulator.
const DEVICE_QUEUE: u32 = 10_000;
/// The least that TCP's windows may grow to.
const LEAST_WINDOW: u64 = 64 << 20;
/// The most; the kernel keeps the rest of the memory.
const MOST_WINDOW: u64 = 512 << 20;

/// Runs `work` in a thread of its own inside a network namespace.
fn inside<T: Send>(namespace: &str, work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    let file = File::open(format!("/run/netns/{namespace}"))?;
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
            work()
        });
        thread.join().unwrap_or_else(|_| Err(io::Error::other("a thread has failed")))
    })
}

/// Makes the device of one end, and opens the windows of TCP there.
pub(crate) fn open(namespace: &str, name: &str, address: IpAddr, config: &Config) -> Result<SyncDevice, Error> {
    let window = config.window_bytes().saturating_mul(4).clamp(LEAST_WINDOW, MOST_WINDOW);
    let made = inside(namespace, || {
        tune(window)?;
        let builder = DeviceBuilder::new().name(name).mtu(config.mtu as u16).offload(true).tx_queue_len(DEVICE_QUEUE);
        match address {
            IpAddr::V4(address) => builder.ipv4(address, 24_u8, None),
            IpAddr::V6(address) => builder.ipv6(address, 64_u8),
        }
        .build_sync()
    });
    made.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            Error::failed("the emulator needs /dev/net/tun, which is missing: sudo modprobe tun".to_owned())
        }
        _ => Error::io("cannot make a TUN device", &error),
    })
}

/// Settings of this namespace that would otherwise limit what is measured.
fn tune(window: u64) -> io::Result<()> {
    for setting in ["tcp_rmem", "tcp_wmem"] {
        let file = format!("/proc/sys/net/ipv4/{setting}");
        let values = fs::read_to_string(&file)?;
        let mut values: Vec<&str> = values.split_whitespace().collect();
        let window = window.to_string();
        if let Some(most) = values.get_mut(2) {
            *most = &window;
        }
        fs::write(&file, values.join(" "))?;
    }
    // A connection should not start with what another one, perhaps with another congestion control, has learned.
    fs::write("/proc/sys/net/ipv4/tcp_no_metrics_save", "1")?;
    // Of the whole system on most kernels, and then not ours to change from here.
    for setting in ["rmem_max", "wmem_max"] {
        let _ = fs::write(format!("/proc/sys/net/core/{setting}"), window.to_string());
    }
    Ok(())
}

/// Packets that the device of an end dropped before the emulator could read them.
pub(crate) fn dropped(namespace: &str, name: &str) -> Option<u64> {
    // The fields of a line: eight about receiving, then bytes, packets, errors and drops of sending.
    inside(namespace, || fs::read_to_string("/proc/thread-self/net/dev")).ok()?.lines().find_map(|line| {
        let (device, fields) = line.split_once(':')?;
        if device.trim() == name { fields.split_whitespace().nth(11)?.parse().ok() } else { None }
    })
}
