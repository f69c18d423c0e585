//! The paths between sender and receiver: the loopback interface, or two network namespaces of our own with a pair of
//! virtual Ethernet devices between them.
//!
//! Always true: the namespaces carry our process id in their names and are removed with this value, also when a
//! measurement fails or is interrupted; those of processes that were killed are removed by the next run.

use crate::exit::Error;
use clap::ValueEnum;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path as FilePath;
use std::process::{Command, Stdio};

/// What lies between the two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Path {
    /// The loopback interface
    Lo,
    /// Virtual Ethernet, MTU 1500, offloads on: large packets cross whole
    Veth1500,
    /// Virtual Ethernet, MTU 9000, offloads on
    Veth9000,
    /// MTU 1500, segmentation offload off and GRO on: each packet crosses alone, closest to a network card
    Veth1500seg,
    /// MTU 9000, segmentation offload off and GRO on
    Veth9000seg,
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lo => "lo",
            Self::Veth1500 => "veth1500",
            Self::Veth9000 => "veth9000",
            Self::Veth1500seg => "veth1500seg",
            Self::Veth9000seg => "veth9000seg",
        })
    }
}

impl Path {
    fn mtu(self) -> u32 {
        match self {
            Self::Lo => 65_536,
            Self::Veth1500 | Self::Veth1500seg => 1500,
            Self::Veth9000 | Self::Veth9000seg => 9000,
        }
    }

    fn segments(self) -> bool {
        matches!(self, Self::Veth1500seg | Self::Veth9000seg)
    }
}

/// Where a worker runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Host {
    namespace: Option<String>,
}

impl Host {
    /// The command that runs a worker there.
    pub(crate) fn command(&self) -> Result<Command, Error> {
        let program = std::env::current_exe().map_err(|error| Error::io("cannot find my own program", &error))?;
        let mut command = match &self.namespace {
            None => Command::new(program),
            Some(name) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", name]).arg(program);
                command
            }
        };
        command.arg("perf-worker");
        Ok(command)
    }
}

const PREFIX: &str = "pinnace-";
/// The device at both ends.
const DEVICE: &str = "pinnace0";

/// The two ends, ready to run workers. Removes what it made when dropped.
#[derive(Debug)]
pub(crate) struct Network {
    pub(crate) near: Host,
    pub(crate) far: Host,
    /// The far end's address.
    pub(crate) address: IpAddr,
    /// The near end's address.
    pub(crate) near_address: IpAddr,
}

impl Network {
    /// Makes the path.
    pub(crate) fn new(path: Path) -> Result<Self, Error> {
        if path == Path::Lo {
            let address = Ipv4Addr::LOCALHOST.into();
            return Ok(Self { near: Host::default(), far: Host::default(), address, near_address: address });
        }
        check_privileges(path)?;
        remove_stale();
        let name = |end| Some(format!("{PREFIX}{}-{end}", std::process::id()));
        // From here on dropping it cleans up, whatever has been made by then.
        let network = Self {
            near: Host { namespace: name("tx") },
            far: Host { namespace: name("rx") },
            address: Ipv4Addr::new(10, 77, 0, 2).into(),
            near_address: Ipv4Addr::new(10, 77, 0, 1).into(),
        };
        network.make(path)?;
        Ok(network)
    }

    fn make(&self, path: Path) -> Result<(), Error> {
        let (Some(near), Some(far)) = (&self.near.namespace, &self.far.namespace) else { return Ok(()) };
        let mtu = path.mtu().to_string();
        run("ip", &["netns", "add", near])?;
        run("ip", &["netns", "add", far])?;
        run("ip", &["link", "add", DEVICE, "netns", near, "type", "veth", "peer", "name", DEVICE, "netns", far])?;
        for (namespace, address) in [(near, self.near_address), (far, self.address)] {
            let address = format!("{address}/24");
            run("ip", &["-n", namespace, "address", "add", &address, "dev", DEVICE])?;
            run("ip", &["-n", namespace, "link", "set", DEVICE, "mtu", &mtu, "up"])?;
            run("ip", &["-n", namespace, "link", "set", "lo", "up"])?;
            if path.segments() {
                let inside = ["netns", "exec", namespace, "ethtool", "-K", DEVICE];
                run("ip", &[&inside[..], &["tso", "off", "gso", "off", "tx-udp-segmentation", "off"]].concat())?;
                run("ip", &[&inside[..], &["gro", "on"]].concat())?;
            }
        }
        Ok(())
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for name in [&self.near.namespace, &self.far.namespace].into_iter().flatten() {
            remove(name);
        }
    }
}

fn remove(name: &str) {
    let _ = Command::new("ip").args(["netns", "delete", name]).stdout(Stdio::null()).stderr(Stdio::null()).status();
}

/// Removes the namespaces of processes that are no more.
fn remove_stale() {
    let Ok(folder) = std::fs::read_dir("/run/netns") else { return };
    for name in folder.flatten().filter_map(|entry| entry.file_name().into_string().ok()) {
        if owner(&name).is_some_and(|process| !FilePath::new(&format!("/proc/{process}")).exists()) {
            remove(&name);
        }
    }
}

/// The process that made a namespace of this name.
fn owner(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.strip_suffix("-tx").or(name.strip_prefix(PREFIX)?.strip_suffix("-rx"))?.parse().ok()
}

fn check_privileges(path: Path) -> Result<(), Error> {
    if !rustix::process::geteuid().is_root() {
        return Err(Error::failed(format!(
            "the path {path} needs network namespaces, and those need root: run the command with sudo, or use --path lo"
        )));
    }
    require("ip", "-V", "iproute2", path)?;
    if path.segments() { require("ethtool", "--version", "ethtool", path) } else { Ok(()) }
}

fn require(program: &str, argument: &str, package: &str, path: Path) -> Result<(), Error> {
    let found = Command::new(program).arg(argument).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if found.is_ok_and(|status| status.success()) {
        return Ok(());
    }
    Err(Error::failed(format!(
        "the path {path} needs the program {program}, which was not found: install the package {package}, or use --path lo"
    )))
}

fn run(program: &str, arguments: &[&str]) -> Result<(), Error> {
    crate::interrupt::check()?;
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| Error::io(format!("cannot run {program}"), &error))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Error::failed(format!("{program} {} failed: {}", arguments.join(" "), said.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_namespaces_have_an_owner() {
        assert_eq!(owner("pinnace-123-tx"), Some(123));
        assert_eq!(owner("pinnace-7-rx"), Some(7));
        for name in ["pinnace-123", "pinnace-x-tx", "other-123-tx", "pinnace--rx"] {
            assert_eq!(owner(name), None, "{name}");
        }
    }
}
