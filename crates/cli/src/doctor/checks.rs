//! The checks.

use super::{Check, Verdict};
use pinnace::link::{Link as _, Offload, UdpLink, UdpOptions};
use rustix::process::{Resource, getrlimit};
use rustix::thread::{CapabilitySet, capabilities};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(super) fn all() -> Vec<Check> {
    let privileges = Privileges::of_this_process();
    let mut checks = vec![kernel(), processors()];
    checks.extend(offloads());
    checks.push(buffer("receive buffer", "net.core.rmem_max", UdpOptions::default().receive_buffer));
    checks.push(buffer("send buffer", "net.core.wmem_max", UdpOptions::default().send_buffer));
    checks.extend(granted());
    checks.push(busy_poll(&privileges));
    checks.push(busy_poll_allowed(&privileges));
    checks.push(privileges.check());
    checks.push(user_namespaces());
    checks.push(tcp(&privileges));
    checks.push(tool("ip", "iproute2"));
    checks.push(tool("ethtool", "ethtool"));
    checks.push(memlock());
    checks.push(io_uring());
    checks.push(af_xdp());
    checks
}

fn read(path: impl AsRef<Path>) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// The value of a kernel parameter, by its name with dots.
fn parameter(name: &str) -> Option<String> {
    read(PathBuf::from("/proc/sys").join(name.replace('.', "/")))
}

fn kernel() -> Check {
    let found = read("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".to_owned());
    Check::new("kernel", found, Verdict::Note)
}

fn processors() -> Check {
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    match count {
        1 => Check::new("processors", "1: spinning harms here", Verdict::Could).command("pinnace ... --idle block"),
        2 | 3 => Check::new("processors", format!("{count}: spin with one side at most"), Verdict::Note),
        _ => Check::new("processors", count.to_string(), Verdict::Good),
    }
}

fn offloads() -> Vec<Check> {
    let Offload { segments, coalescing } = Offload::of_this_kernel();
    let newer = "run a newer kernel (4.18 sends, 5.0 receives in batches)";
    let sending = match segments {
        0 | 1 => Check::new("UDP_SEGMENT", "not available: one call a datagram", Verdict::Bad).command(newer),
        segments => Check::new("UDP_SEGMENT", format!("{segments} datagrams a call"), Verdict::Good),
    };
    let receiving = match coalescing {
        false => Check::new("UDP_GRO", "not available: one call a datagram", Verdict::Bad).command(newer),
        true => Check::new("UDP_GRO", "available", Verdict::Good),
    };
    vec![sending, receiving]
}

fn buffer(check: &'static str, name: &'static str, wanted: usize) -> Check {
    let Some(most) = parameter(name).and_then(|value| value.parse::<usize>().ok()) else {
        return Check::new(check, format!("{name} cannot be read"), Verdict::Note);
    };
    let found = format!("{name} = {most}, {wanted} asked for");
    if most >= wanted {
        return Check::new(check, found, Verdict::Good);
    }
    let verdict = if most < wanted / 4 { Verdict::Bad } else { Verdict::Could };
    Check::new(check, found, verdict).command(format!("sudo sysctl -w {name}={wanted}"))
}

/// What a socket is given in fact, and what datagrams it can carry.
fn granted() -> Vec<Check> {
    match UdpLink::bind(([127, 0, 0, 1], 0).into(), &UdpOptions::default()) {
        Ok(link) => {
            let bytes = link.receive_buffer_bytes();
            let batch = link.datagrams_per_read();
            vec![Check::new("UDP socket", format!("{bytes} bytes buffered, {batch} datagrams a read"), Verdict::Note)]
        }
        Err(error) => {
            let found = format!("cannot be opened on loopback: {error}");
            vec![Check::new("UDP socket", found, Verdict::Bad).command("sudo ip link set lo up")]
        }
    }
}

fn busy_poll(privileges: &Privileges) -> Check {
    let value = parameter("net.core.busy_poll").and_then(|value| value.parse::<u32>().ok());
    match value {
        None => Check::new("busy polling", "not in this kernel", Verdict::Note),
        Some(0) => {
            let check = Check::new("busy polling", "net.core.busy_poll = 0 (off)", Verdict::Note);
            check.command(privileges.sudo("sysctl -w net.core.busy_poll=50 net.core.busy_read=50"))
        }
        Some(us) => Check::new("busy polling", format!("net.core.busy_poll = {us} us"), Verdict::Good),
    }
}

fn busy_poll_allowed(privileges: &Privileges) -> Check {
    let options = UdpOptions { busy_poll: Some(Duration::from_micros(50)), ..UdpOptions::default() };
    let refused = UdpLink::bind(([127, 0, 0, 1], 0).into(), &options).map_or_else(
        |error| Some(error.to_string()),
        |link| link.warnings().into_iter().find(|w| w.contains("SO_BUSY_POLL")),
    );
    match refused {
        None => Check::new("SO_BUSY_POLL", "this process may set it", Verdict::Good),
        Some(_) => Check::new("SO_BUSY_POLL", "this process may not set it", Verdict::Note)
            .command(privileges.sudo("setcap cap_net_admin+ep $(command -v pinnace)")),
    }
}

struct Privileges {
    root: bool,
    net_admin: bool,
    net_raw: bool,
}

impl Privileges {
    fn of_this_process() -> Self {
        let effective = capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective);
        Self {
            root: rustix::process::geteuid().is_root(),
            net_admin: effective.contains(CapabilitySet::NET_ADMIN),
            net_raw: effective.contains(CapabilitySet::NET_RAW),
        }
    }

    fn sudo(&self, command: &str) -> String {
        if self.root { command.to_owned() } else { format!("sudo {command}") }
    }

    fn check(&self) -> Check {
        let mut has = Vec::new();
        has.extend(self.root.then_some("root"));
        has.extend(self.net_admin.then_some("CAP_NET_ADMIN"));
        has.extend(self.net_raw.then_some("CAP_NET_RAW"));
        if self.net_admin && self.net_raw {
            return Check::new("privileges", has.join(", "), Verdict::Good);
        }
        let without = "none (`wan`, `perf --wan`, `experiment`: root; ip36, ether: CAP_NET_RAW)";
        has.extend(has.is_empty().then_some(without));
        Check::new("privileges", has.join(", "), Verdict::Note).command("sudo pinnace ...")
    }
}

fn user_namespaces() -> Check {
    let most = parameter("user.max_user_namespaces").and_then(|value| value.parse::<u64>().ok());
    // Debian's switch, and Ubuntu's: how they are off, and on.
    let switches = [("unprivileged_userns_clone", "0", "1"), ("apparmor_restrict_unprivileged_userns", "1", "0")];
    let is_off = |(name, off, _): &&(&str, &str, &str)| parameter(&format!("kernel.{name}")).as_deref() == Some(*off);
    match most {
        None => Check::new("user namespaces", "not in this kernel", Verdict::Note),
        Some(0) => Check::new("user namespaces", "none may be made", Verdict::Note)
            .command("sudo sysctl -w user.max_user_namespaces=1024"),
        Some(_) => match switches.iter().find(is_off) {
            Some((name, _, on)) => Check::new("user namespaces", "privileged processes only", Verdict::Note)
                .command(format!("sudo sysctl -w kernel.{name}={on}")),
            None => Check::new("user namespaces", "may be made without privileges", Verdict::Good),
        },
    }
}

fn tcp(privileges: &Privileges) -> Check {
    let Some(available) = parameter("net.ipv4.tcp_available_congestion_control") else {
        return Check::new("TCP controllers", "cannot be read", Verdict::Note);
    };
    let check = Check::new("TCP controllers", available.clone(), Verdict::Good);
    if available.split_whitespace().any(|name| name == "bbr") {
        return check;
    }
    // Only comparisons need it.
    Check { verdict: Verdict::Note, ..check }.command(privileges.sudo("modprobe tcp_bbr"))
}

fn tool(name: &'static str, package: &str) -> Check {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/sbin", "/usr/sbin"].map(PathBuf::from));
    match folders.map(|folder| folder.join(name)).find(|file| file.is_file()) {
        Some(file) => Check::new(name, file.display().to_string(), Verdict::Good),
        None => Check::new(name, "missing (`perf --path veth...` needs it)", Verdict::Note)
            .command(format!("sudo apt-get install {package}")),
    }
}

fn memlock() -> Check {
    match getrlimit(Resource::Memlock).current {
        None => Check::new("locked memory", "no limit", Verdict::Good),
        Some(bytes) => {
            Check::new("locked memory", format!("{} KiB", bytes / 1024), Verdict::Note).command("ulimit -l unlimited")
        }
    }
}

fn io_uring() -> Check {
    match parameter("kernel.io_uring_disabled").as_deref() {
        Some("0") => Check::new("io_uring", "available (not used yet)", Verdict::Note),
        Some(_) => Check::new("io_uring", "switched off (not used yet)", Verdict::Note),
        None => Check::new("io_uring", "not reported by this kernel (not used yet)", Verdict::Note),
    }
}

fn af_xdp() -> Check {
    // The address family shows up in the list of protocols once a kernel has it.
    let known = read("/proc/net/protocols").is_some_and(|text| text.lines().any(|line| line.starts_with("XDP")));
    let found = if known { "available (not used yet)" } else { "not in this kernel (not used yet)" };
    Check::new("AF_XDP", found, Verdict::Note)
}
