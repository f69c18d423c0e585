//! Namespaces with virtual Ethernet between them, and a raw view of what crosses it.
#![allow(dead_code, reason = "each test uses a part of it")]
#![allow(clippy::print_stdout, reason = "a test that cannot run says why")]

use std::net::{IpAddr, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::Command;
use std::sync::mpsc;
use std::time::Duration;

pub(crate) const MAC_A: [u8; 6] = [2, 0, 0, 0, 0, 0xA];
pub(crate) const MAC_B: [u8; 6] = [2, 0, 0, 0, 0, 0xB];
const SET_MACS: [&str; 2] = ["link set va address 02:00:00:00:00:0a", "link set vb address 02:00:00:00:00:0b"];

/// Runs `ip`.
pub(crate) fn run(arguments: &str) -> bool {
    Command::new("ip").args(arguments.split(' ')).status().is_ok_and(|status| status.success())
}

/// A namespace of this thread.
pub(crate) fn namespace() -> bool {
    // SAFETY: changes this thread's namespace only, which ends with the test.
    let done = unsafe { libc::unshare(libc::CLONE_NEWNET) } == 0;
    if !done {
        pinnace_testing::skip::host(format_args!("no network namespace here ({})", std::io::Error::last_os_error()));
        return false;
    }
    if Command::new("ip").arg("-V").output().is_err() {
        pinnace_testing::skip::program("no `ip` here");
        return false;
    }
    if !std::path::Path::new("/proc/sys/net/ipv6").exists() {
        pinnace_testing::skip::host("no IPv6 here");
        return false;
    }
    if !run("link set lo up") {
        pinnace_testing::skip::host("interfaces may not be set up here");
        return false;
    }
    true
}

/// A device in this namespace, if the kernel has such: nothing else about it is a reason to skip a test.
pub(crate) fn device(add: &str) -> bool {
    let made = run(add);
    if !made {
        pinnace_testing::skip::host(format_args!("no such device here: `ip {add}`"));
    }
    made
}

/// A veth queues packets for the processor that sends them, so a thread that moves meanwhile changes their order.
pub(crate) fn stay_on_one_processor() {
    // SAFETY: all zeros is an empty set, which the call only reads; it is about this thread alone.
    let done = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(libc::sched_getcpu() as usize, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set)
    };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

/// A namespace of this thread with both ends of a veth in it, `va` and `vb`, and no internet addresses.
pub(crate) fn wire(mtu: usize) -> bool {
    stay_on_one_processor();
    if !namespace() || !device(&format!("link add va mtu {mtu} type veth peer name vb mtu {mtu}")) {
        return false;
    }
    assert!(SET_MACS.iter().all(|command| run(command)));
    assert!(["va", "vb"].iter().all(|name| run(&format!("link set {name} addrgenmode none up"))));
    assert!(carries([&Raw::open("va"), &Raw::open("vb")]), "nothing crosses the wire");
    true
}

/// Waits until frames cross in both directions: the kernel starts an interface's queue a little after it has a carrier, and
/// until then throws away what is sent.
pub(crate) fn carries(ends: [&Raw; 2]) -> bool {
    let probe =
        [0xFF; 6].into_iter().chain([2, 0, 0, 0, 0, 0xD, 0x88, 0xB5]).chain(*b"is anybody there?").collect::<Vec<_>>();
    let crosses = |[from, to]: [&Raw; 2]| {
        (0..3000).any(|_| {
            from.try_send(&[&probe]);
            std::thread::sleep(Duration::from_millis(1));
            // One's own is seen too, but from this side only.
            std::iter::from_fn(|| to.try_receive()).any(|frame| frame == probe)
        })
    };
    let [a, b] = ends;
    let both = crosses([a, b]);
    // Whatever has not been looked at went the other way.
    while a.try_receive().is_some() {}
    both && crosses([b, a])
}

/// A thread in a namespace of its own, and what it is asked to do there.
pub(crate) struct Far {
    jobs: mpsc::Sender<Box<dyn FnOnce() + Send>>,
}

impl Far {
    /// Calls `job` over there.
    pub(crate) fn call<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        let (answer, wait) = mpsc::channel();
        self.jobs.send(Box::new(move || drop(answer.send(job())))).unwrap();
        wait.recv().expect("the job over there ends")
    }
}

/// As `wire`, with `vb` in another namespace, and internet addresses: 10.36.0.1 and fd36::1 here, 10.36.0.2 and fd36::2
/// there.
pub(crate) fn two_hosts(mtu: usize) -> Option<Far> {
    if !namespace() {
        return None;
    }
    // SAFETY: no arguments.
    let here = unsafe { libc::syscall(libc::SYS_gettid) };
    let (jobs, todo) = mpsc::channel::<Box<dyn FnOnce() + Send>>();
    std::thread::spawn(move || todo.into_iter().for_each(|job| job()));
    let far = Far { jobs };
    let made = far.call(move || {
        if !namespace() || !device(&format!("link add vb mtu {mtu} type veth peer name va mtu {mtu} netns {here}")) {
            return false;
        }
        assert!(run(SET_MACS[1]));
        bring_up("vb", 2);
        true
    });
    if !made {
        return None;
    }
    assert!(run(SET_MACS[0]));
    bring_up("va", 1);
    let ends = [Raw::open("va"), far.call(|| Raw::open("vb"))];
    assert!(carries([&ends[0], &ends[1]]), "nothing crosses the wire");
    Some(far)
}

/// Gives an interface the addresses of `host`, and waits until it has them.
fn bring_up(interface: &str, host: u8) {
    assert!(run(&format!("addr add 10.36.0.{host}/24 dev {interface}")));
    assert!(run(&format!("addr add fd36::{host}/64 dev {interface} nodad")));
    assert!(run(&format!("link set {interface} up")));
    assert!(settle(&format!("fd36::{host}")), "fd36::{host} never comes");
}

/// Waits until an address of IPv6 that was given to this host is really there: the kernel routes to it a little later.
fn settle(local: &str) -> bool {
    let local: IpAddr = local.parse().unwrap();
    let socket = UdpSocket::bind((local, 0)).unwrap();
    let own = socket.local_addr().unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
    (0..500).any(|_| socket.send_to(b"?", own).is_ok() && socket.recv(&mut [0]).is_ok())
}

/// A socket for whole frames on an interface, in both directions.
pub(crate) struct Raw(OwnedFd);

impl Raw {
    pub(crate) fn open(interface: &str) -> Self {
        let all = (libc::ETH_P_ALL as u16).to_be();
        let name = std::ffi::CString::new(interface).unwrap();
        // SAFETY: no pointers but a name that ends with a 0, and an address of the length given; a fresh descriptor with no
        // other owner; all zeros is a `sockaddr_ll`.
        unsafe {
            let fd = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
            assert!(fd >= 0);
            let mut at: libc::sockaddr_ll = std::mem::zeroed();
            at.sll_family = libc::AF_PACKET as u16;
            at.sll_protocol = all;
            at.sll_ifindex = libc::if_nametoindex(name.as_ptr()) as i32;
            assert_eq!(libc::bind(fd, (&raw const at).cast(), size_of_val(&at) as u32), 0);
            Self(OwnedFd::from_raw_fd(fd))
        }
    }

    /// Puts a frame on the wire, as it is.
    pub(crate) fn send(&self, parts: &[&[u8]]) {
        assert!(self.try_send(parts), "{}", std::io::Error::last_os_error());
    }

    /// As `send`, if there is room.
    pub(crate) fn try_send(&self, parts: &[&[u8]]) -> bool {
        let frame = parts.concat();
        // SAFETY: the pointer and the length are those of `frame`.
        let sent = unsafe { libc::send(self.0.as_raw_fd(), frame.as_ptr().cast(), frame.len(), libc::MSG_DONTWAIT) };
        sent == frame.len() as isize
    }

    /// The next frame that crosses the interface, if one has.
    pub(crate) fn try_receive(&self) -> Option<Vec<u8>> {
        let mut room = vec![0; 65_536];
        // SAFETY: the pointer and the length are those of `room`.
        let len = unsafe { libc::recv(self.0.as_raw_fd(), room.as_mut_ptr().cast(), room.len(), libc::MSG_DONTWAIT) };
        room.truncate(usize::try_from(len).ok()?);
        Some(room)
    }

    /// The next frame that crosses the interface.
    pub(crate) fn receive(&self) -> Vec<u8> {
        let mut poll = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid `pollfd`.
        unsafe { libc::poll(&raw mut poll, 1, 2000) };
        self.try_receive().expect("a frame")
    }
}
