//! The paths between sender and receiver: the loopback interface, or two network namespaces of our own with a pair of
//! virtual Ethernet devices, or an emulated link, between them.
//!
//! Always true: the namespaces carry our process id in their names. A janitor, a process of its own, ends what still runs
//! in them and removes them when this one ends, however it ends; should the janitor be killed too, the next run removes
//! what is left.

use crate::exit::Error;
use crate::wan;
use clap::ValueEnum;
use std::ffi::OsStr;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::path::Path as FilePath;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

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
    /// MTU 1500, offloads on, and a token bucket of 100 Mbit/s at each end
    Veth100m,
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lo => "lo",
            Self::Veth1500 => "veth1500",
            Self::Veth9000 => "veth9000",
            Self::Veth1500seg => "veth1500seg",
            Self::Veth9000seg => "veth9000seg",
            Self::Veth100m => "veth100m",
        })
    }
}

impl Path {
    fn mtu(self) -> u32 {
        match self {
            Self::Lo => 65_536,
            Self::Veth1500 | Self::Veth1500seg | Self::Veth100m => 1500,
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
    /// Another host, where `pinnace ping --listen` starts workers for us.
    pub(crate) remote: Option<SocketAddr>,
}

impl Host {
    fn inside(namespace: String) -> Self {
        Self { namespace: Some(namespace), remote: None }
    }

    /// The address of a worker there, as it is reached from here: another host is where we have reached it, whatever it says;
    /// nobody names a third one to whom we would send then.
    pub(crate) fn seen_at(&self, address: SocketAddr) -> SocketAddr {
        self.remote.map_or(address, |mut remote| {
            remote.set_port(address.port());
            remote
        })
    }

    /// The command that runs a worker there.
    pub(crate) fn command(&self) -> Result<Command, Error> {
        let program = std::env::current_exe().map_err(|error| Error::io("cannot find my own program", &error))?;
        let mut command = self.enter(program);
        command.arg("perf-worker");
        Ok(command)
    }

    /// The command that runs a program there.
    pub(crate) fn enter(&self, program: impl AsRef<OsStr>) -> Command {
        match &self.namespace {
            None => Command::new(program),
            Some(name) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", name]).arg(program);
                command
            }
        }
    }

    /// The name of its network namespace, if it has one of its own.
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }
}

/// How long anything that a worker is asked may take, for each transport in its turn.
const PATIENCE: Duration = Duration::from_secs(60);
/// The same over an emulated link: what loses a packet in twenty at a long distance is slow, and that is what one wants to
/// know.
const WAN_PATIENCE: Duration = Duration::from_secs(600);

const PREFIX: &str = "pinnace-";
/// 100 Mbit/s: what may leave at once after a pause, and a queue of a thousand packets, as a network card has.
const BUCKET: [&str; 7] = ["tbf", "rate", "100mbit", "burst", "32kb", "limit", "1514000"];
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
    /// How long anything that a worker is asked may take.
    pub(crate) patience: Duration,
    emulator: Option<wan::Emulator>,
    janitor: Option<Child>,
}

impl Network {
    /// The way to another host.
    pub(crate) fn to(remote: SocketAddr) -> Self {
        let near_address = match remote {
            SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        let far = Host { namespace: None, remote: Some(remote) };
        Self::between([Host::default(), far], remote.ip(), near_address, None)
    }

    fn between([near, far]: [Host; 2], address: IpAddr, near_address: IpAddr, janitor: Option<Child>) -> Self {
        Self { near, far, address, near_address, patience: PATIENCE, emulator: None, janitor }
    }

    /// Makes the path.
    pub(crate) fn new(path: Path) -> Result<Self, Error> {
        if path == Path::Lo {
            let address = Ipv4Addr::LOCALHOST.into();
            return Ok(Self::between(Default::default(), address, address, None));
        }
        check_privileges(&format!("the path {path}"), ", or use --path lo")?;
        if path == Path::Veth100m {
            require("tc", "-V", "iproute2", "the path veth100m", ", or use --path lo")?;
        }
        if path.segments() {
            require("ethtool", "--version", "ethtool", &format!("the path {path}"), ", or use --path lo")?;
        }
        let network = Self::namespaces()?;
        network.make(path)?;
        Ok(network)
    }

    /// Makes an emulated link.
    pub(crate) fn over(config: &wan::Config) -> Result<Self, Error> {
        check_privileges("the emulated link", "")?;
        let mut network = Self::namespaces()?;
        let (Some(near), Some(far)) = (&network.near.namespace, &network.far.namespace) else { return Ok(network) };
        let mut devices = Vec::new();
        for (namespace, address) in [(near, network.near_address), (far, network.address)] {
            run("ip", &["netns", "add", namespace])?;
            run("ip", &["-n", namespace, "link", "set", "lo", "up"])?;
            devices.push(wan::open(namespace, DEVICE, address, config)?);
            // Or fq_codel, if that is the system's choice, would drop before the emulator does.
            run("tc", &["-n", namespace, "qdisc", "replace", "dev", DEVICE, "root", "noqueue"])?;
        }
        let [near, far] = <[_; 2]>::try_from(devices).map_err(|_| Error::failed("a device is missing"))?;
        network.emulator = Some(wan::Emulator::start(near, far, config).map_err(Error::failed)?);
        network.patience = WAN_PATIENCE;
        Ok(network)
    }

    /// Ends the emulator, if there is one, and says what it did; and what the devices of both ends dropped before it.
    pub(crate) fn finish_emulator(&mut self) -> Option<Result<wan::Report, String>> {
        let dropped = |host: &Host| host.namespace().and_then(|name| wan::dropped(name, DEVICE));
        let before = [dropped(&self.near), dropped(&self.far)];
        Some(self.emulator.take()?.finish().map(|report| report.with_dropped_before(before)))
    }

    /// Two hosts with a namespace each, yet to be made.
    fn namespaces() -> Result<Self, Error> {
        remove_stale();
        let name = |end| format!("{PREFIX}{}-{end}", std::process::id());
        let (near, far) = (name("tx"), name("rx"));
        // From here on everything is cleaned up, whatever has been made by then.
        let janitor = janitor(&near, &far).map_err(|error| Error::io("cannot run sh", &error))?;
        let hosts = [near, far].map(Host::inside);
        let (address, near_address) = (Ipv4Addr::new(10, 77, 0, 2), Ipv4Addr::new(10, 77, 0, 1));
        Ok(Self::between(hosts, address.into(), near_address.into(), Some(janitor)))
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
            if path == Path::Veth100m {
                run("tc", &[&["-n", namespace, "qdisc", "replace", "dev", DEVICE, "root"], &BUCKET[..]].concat())?;
            }
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
        drop(self.emulator.take());
        if let Some(mut janitor) = self.janitor.take() {
            drop(janitor.stdin.take());
            let _ = janitor.wait();
        }
    }
}

/// What the janitor does. What runs in a namespace keeps it alive without a name.
const JANITOR: &str = r#"
trap '' INT TERM HUP
read -r _
for signal in TERM KILL; do
    left=$(for name; do ip netns pids "$name"; done)
    [ -z "$left" ] && break
    kill -s $signal $left
    [ $signal = TERM ] && sleep 1
done
for name; do ip netns delete "$name"; done
"#;

/// Starts a process that removes both namespaces when its input ends, at the latest with this process.
fn janitor(near: &str, far: &str) -> std::io::Result<Child> {
    // Ctrl-C goes to the whole group of the command.
    cleaning(&[near, far]).process_group(0).stdin(Stdio::piped()).spawn()
}

/// Ends what runs in these namespaces, and removes them, once its input ends.
fn cleaning(names: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", JANITOR, "sh"]).args(names).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Removes the namespaces of processes that are no more.
fn remove_stale() {
    let Ok(folder) = std::fs::read_dir("/run/netns") else { return };
    for name in folder.flatten().filter_map(|entry| entry.file_name().into_string().ok()) {
        if owner(&name).is_some_and(|process| !FilePath::new(&format!("/proc/{process}")).exists()) {
            // Its janitor may be at work on it: without the name it would not find what it has to end.
            let _ = cleaning(&[&name]).stdin(Stdio::null()).status();
        }
    }
}

/// The process that made a namespace of this name.
fn owner(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.strip_suffix("-tx").or(name.strip_prefix(PREFIX)?.strip_suffix("-rx"))?.parse().ok()
}

/// Fails unless namespaces can be made; `instead` says what would do without.
fn check_privileges(what: &str, instead: &str) -> Result<(), Error> {
    if !rustix::process::geteuid().is_root() {
        return Err(Error::failed(format!(
            "{what} needs network namespaces, and those need root: run the command with sudo{instead}"
        )));
    }
    require("ip", "-V", "iproute2", what, instead)
}

fn require(program: &str, argument: &str, package: &str, what: &str, instead: &str) -> Result<(), Error> {
    let found = Command::new(program).arg(argument).stdout(Stdio::null()).stderr(Stdio::null()).status();
    if found.is_ok_and(|status| status.success()) {
        return Ok(());
    }
    Err(Error::failed(format!(
        "{what} needs the program {program}, which was not found: install the package {package}{instead}"
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
