//! Two network namespaces with a veth between them.

#[path = "namespace.rs"]
pub(crate) mod namespace;

use namespace::{ip, namespace};
use std::sync::mpsc;
use std::thread;

pub(crate) const HERE: &str = "10.81.0.1";
pub(crate) const THERE: &str = "10.81.0.2";

/// Runs `server` and `client` in two namespaces that a veth joins. What it returns is passed from the first to the second.
pub(crate) fn apart<T: Send + 'static>(
    mtu: usize,
    server: impl FnOnce(mpsc::Sender<T>) + Send + 'static,
    client: impl FnOnce(T),
) {
    if !namespace() {
        return;
    }
    // SAFETY: no arguments.
    let here = unsafe { libc::syscall(libc::SYS_gettid) };
    let (up, is_up) = mpsc::channel();
    let (tell, told) = mpsc::channel();
    let there = thread::spawn(move || {
        let made = namespace()
            && ip(&format!(
                "link add vb mtu {mtu} address 02:00:00:00:00:0b type veth peer name va mtu {mtu} netns {here}"
            ))
            && ip(&format!("addr add {THERE}/24 dev vb"))
            && ip("link set vb up");
        up.send(made).unwrap();
        if made {
            server(tell);
        }
    });
    assert!(is_up.recv().unwrap(), "the veth can be made where namespaces can");
    assert!(ip(&format!("addr add {HERE}/24 dev va")) && ip("link set va up"));
    client(told.recv().unwrap());
    there.join().unwrap();
}
