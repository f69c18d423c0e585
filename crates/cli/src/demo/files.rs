//! A folder of files, made for the occasion and carried by `pinnace send` and `pinnace recv`.

use super::child::Child;
use crate::exit::Error;
use crate::interrupt;
use pinnace_core::Random;
use std::fs::{self, File};
use std::io::{self, Write};
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What was carried.
#[derive(Debug)]
pub(super) struct Carried {
    pub(super) files: usize,
    pub(super) bytes: u64,
    /// From the start of the sending process to its end, both ends' verification included.
    pub(super) seconds: f64,
    /// Files whose BLAKE3 is the same in both folders.
    pub(super) equal: usize,
    pub(super) largest: u64,
}

impl Carried {
    /// Payload bits per second.
    pub(super) fn rate(&self) -> f64 {
        self.bytes as f64 * 8.0 / self.seconds.max(1e-9)
    }
}

/// Makes the files, has them carried, and compares.
pub(super) fn carry(folder: &Path, quick: bool) -> Result<Carried, Error> {
    let (ship, port) = (folder.join("ship"), folder.join("port"));
    let failed = |error: io::Error| Error::io(format!("cannot make files in {}", folder.display()), &error);
    let made = load(&ship, quick).map_err(failed)?;
    fs::create_dir(&port).map_err(failed)?;

    let address = free_address().map_err(|error| Error::io("cannot find a free port on loopback", &error))?;
    let mut receiver = Child::start(folder, "recv", &["recv", "--once", "--bind", &address, "--dir", &text(&port)])?;
    let begin = Instant::now();
    let mut sender = Child::start(folder, "send", &["send", &text(&ship), &address])?;
    let sent = sender.succeed(Duration::from_secs(40));
    let seconds = begin.elapsed().as_secs_f64();
    if let Err(error) = sent {
        // If it was the receiver that failed, it knows better why.
        return match receiver.wait(Duration::from_millis(50)) {
            Some(status) if !status.success() => Err(receiver.failure(&format!("ended with {status}"))),
            _ => Err(error),
        };
    }
    receiver.succeed(Duration::from_secs(5))?;

    let mut carried = Carried { files: made.len(), bytes: 0, seconds, equal: 0, largest: 0 };
    for (name, size) in &made {
        interrupt::check()?;
        carried.bytes += size;
        carried.largest = carried.largest.max(*size);
        let same = same_content(&ship.join(name), &port.join("ship").join(name));
        carried.equal +=
            usize::from(same.map_err(|error| Error::io(format!("cannot read {}", name.display()), &error))?);
    }
    if carried.equal != carried.files {
        let wrong = carried.files - carried.equal;
        return Err(Error::not_verified(format!("{wrong} of {} files differ after the transfer", carried.files)));
    }
    // Room for what comes next.
    let _ = fs::remove_dir_all(&ship).and(fs::remove_dir_all(&port));
    Ok(carried)
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// An address that nobody has now. That somebody takes it before the receiver does is unlikely, and would be told.
fn free_address() -> io::Result<String> {
    Ok(UdpSocket::bind("127.0.0.1:0")?.local_addr()?.to_string())
}

/// Fills a folder: names, and sizes in bytes.
fn load(ship: &Path, quick: bool) -> io::Result<Vec<(PathBuf, u64)>> {
    const MIB: u64 = 1 << 20;
    let share = if quick { 16 } else { 1 };
    let mut plan: Vec<(PathBuf, u64)> = vec![("empty.txt".into(), 0), ("manifest.txt".into(), 1234)];
    // From a few hundred bytes to a hundred kilobytes.
    plan.extend((0..48).map(|day| (format!("log/day-{day:02}.txt").into(), 300 + day * day * 45)));
    plan.extend((0..12).map(|sheet| (format!("charts/sheet-{sheet:02}.tif").into(), (sheet + 1) * 300_007 / share)));
    plan.push(("hold/spices.bin".into(), 32 * MIB / share));
    plan.push(("hold/cargo.bin".into(), 256 * MIB / share));
    for name in ["log", "charts", "hold"] {
        fs::create_dir_all(ship.join(name))?;
    }
    let mut random = Random::from_seed(1492);
    let mut chunk = vec![0; MIB as usize];
    for (name, size) in &plan {
        let mut file = File::create(ship.join(name))?;
        let mut left = *size;
        while left > 0 {
            let piece = &mut chunk[..left.min(MIB) as usize];
            for word in piece.chunks_mut(8) {
                word.copy_from_slice(&random.next_u64().to_le_bytes()[..word.len()]);
            }
            file.write_all(piece)?;
            left -= piece.len() as u64;
        }
    }
    Ok(plan)
}

fn same_content(one: &Path, other: &Path) -> io::Result<bool> {
    let digest = |path: &Path| -> io::Result<blake3::Hash> {
        let mut hasher = blake3::Hasher::new();
        hasher.update_mmap(path)?;
        Ok(hasher.finalize())
    };
    Ok(digest(one)? == digest(other)?)
}
