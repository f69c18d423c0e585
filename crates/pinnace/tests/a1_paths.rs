//! How large A1's blocks are on the way that there is: between two network namespaces with a veth between them. Without the
//! privilege for that, the test says so and passes.

#![cfg(target_os = "linux")]

#[path = "support/apart.rs"]
mod apart;

use apart::namespace::ip;
use apart::{THERE, apart};
use pinnace::a1::{Full, Options, Profile, Qos, Socket, reliable};
use std::net::SocketAddr;
use std::sync::mpsc;

/// An address there that is on no network here.
const FAR: &str = "198.51.100.7";
/// Datagrams of 9000 and of 1500 bytes, headers and all.
const JUMBO: u32 = 9000 - 28 - 32;
const USUAL: u32 = 1500 - 28 - 32;

fn messages(longest: u32) -> Qos {
    Qos { largest_sent: longest, ..reliable() }
}

/// The block that a connection has, over which a message has arrived.
fn block(to: SocketAddr, qos: Qos, options: &Options) -> u32 {
    let socket = Socket::connected(to, qos, options).unwrap();
    let connection = socket.connect(to, qos).unwrap();
    connection.send(vec![7; qos.largest_sent as usize], Full::Block).unwrap();
    connection.facts().unwrap().qos.block_size
}

/// Both ends of a wide network send what it carries, also where the far one listens on every address; beyond a router, of which
/// nobody knows what is behind it, they send what every network carries. Messages of one length are cut into equal blocks.
#[test]
fn blocks_are_as_large_as_the_network_of_both_ends_carries_and_beyond_a_router_as_all_do() {
    const CONNECTIONS: usize = 6;
    apart(
        9000,
        |tell: mpsc::Sender<[SocketAddr; 3]>| {
            assert!(ip(&format!("addr add {FAR}/32 dev vb")));
            let sockets = [(THERE, 0), ("0.0.0.0", 0)].map(|at| Socket::bind(at, messages(1 << 20)).unwrap());
            let [named, any] = sockets.each_ref().map(|socket| {
                socket.listen(CONNECTIONS).unwrap();
                socket.local_addr().port()
            });
            let at = |host: &str, port| SocketAddr::new(host.parse().unwrap(), port);
            tell.send([at(THERE, named), at(THERE, any), at(FAR, any)]).unwrap();
            for socket in [&sockets[0], &sockets[1], &sockets[1], &sockets[1], &sockets[1], &sockets[1]] {
                let connection = socket.accept().unwrap();
                assert!(connection.recv().unwrap().is_some_and(|message| message.iter().all(|byte| *byte == 7)));
            }
        },
        |[named, any, far]| {
            assert!(ip(&format!("route add {FAR}/32 via {THERE}")));
            let options = Options::default();
            let cluster = Options { profile: Profile::Cluster, ..Options::default() };
            assert_eq!(block(named, messages(100_001), &options), JUMBO);
            assert_eq!(block(any, messages(100_001), &options), JUMBO);
            assert_eq!(block(any, messages(16 << 10), &options), 8192);
            assert_eq!(block(far, messages(100_001), &options), USUAL);
            assert_eq!(block(far, messages(4096), &options), 1024);
            assert_eq!(block(far, messages(100_001), &cluster), JUMBO, "who says that all of it is theirs");
        },
    );
}
