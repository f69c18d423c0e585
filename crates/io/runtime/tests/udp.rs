//! The same conversations over real UDP sockets.

mod common;

use common::{Inbox, RESEND, Toy, eventually, soon};
use pinnace_link::{Link, PortableUdpLink, UdpLink, UdpOptions};
use pinnace_runtime::{Endpoint, EndpointConfig, Idle};
use std::net::SocketAddr;
use std::thread;
use std::time::Instant;

type UdpEndpoint<L> = Endpoint<Toy, L, Inbox>;

fn endpoint<L: Link + 'static>(link: L, idle: Idle, worker: bool) -> UdpEndpoint<L> {
    let config = EndpointConfig { idle, worker, ..EndpointConfig::default() };
    Endpoint::new(Toy::default(), link, Inbox::default(), config).unwrap()
}

fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

fn links() -> (UdpLink, UdpLink) {
    let options = UdpOptions::default();
    let (mut a, mut b) = (UdpLink::bind(loopback(), &options).unwrap(), UdpLink::bind(loopback(), &options).unwrap());
    a.connect_to(b.local_address().unwrap()).unwrap();
    b.connect_to(a.local_address().unwrap()).unwrap();
    (a, b)
}

fn portable_links() -> (PortableUdpLink, PortableUdpLink) {
    let options = UdpOptions::default();
    let bind = || PortableUdpLink::bind(loopback(), &options).unwrap();
    let (mut a, mut b) = (bind(), bind());
    a.connect_to(b.local_address().unwrap()).unwrap();
    b.connect_to(a.local_address().unwrap()).unwrap();
    (a, b)
}

fn receive<L: Link + 'static>(endpoint: &UdpEndpoint<L>, number: u64) {
    endpoint.wait_until(|inbox| inbox.received.remove(&number).then_some(()), soon()).unwrap();
}

fn ping_pong<L: Link + 'static>((a, b): (L, L), idle: Idle, worker: bool, rounds: u64) {
    let (client, server) = (endpoint(a, idle, worker), endpoint(b, idle, worker));
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..rounds {
                receive(&server, number);
                server.call(|c| c.engine.send(number)).unwrap();
            }
            let all = |inbox: &mut Inbox| inbox.acked.contains(&(rounds - 1)).then_some(());
            server.wait_until(all, soon()).unwrap();
        });
        for number in 0..rounds {
            client.call(|c| c.engine.send(number)).unwrap();
            receive(&client, number);
        }
        let _ = client.wait_until(|_| None::<()>, Some(Instant::now() + 3 * RESEND));
    });
    let resent = client.inspect(|engine, _, _| engine.resent) + server.inspect(|engine, _, _| engine.resent);
    assert!(resent * 50 < rounds, "{resent} of {rounds} came too late");
}

#[test]
fn threads_talk_while_blocking() {
    ping_pong(links(), Idle::Block, false, 5_000);
    ping_pong(links(), Idle::Block, true, 5_000);
    ping_pong(portable_links(), Idle::Block, true, 2_000);
}

#[test]
fn threads_talk_while_spinning() {
    ping_pong(links(), Idle::Spin, false, 5_000);
    ping_pong(links(), Idle::ADAPTIVE, true, 5_000);
}

#[test]
fn workers_talk_while_nobody_waits() {
    let (a, b) = links();
    let (client, server) = (endpoint(a, Idle::Block, true), endpoint(b, Idle::Block, true));
    server.call(|c| c.state.outstanding = true).unwrap();
    client.call(|c| (0..500).for_each(|number| c.engine.send(number))).unwrap();
    eventually("acknowledged", || client.inspect(|_, _, inbox| inbox.acked.len() == 500));
    assert_eq!(server.inspect(|_, _, inbox| inbox.received.len()), 500);
}

#[test]
fn a_peer_that_comes_late_is_reached() {
    let (a, b) = links();
    let address = b.local_address().unwrap();
    let back = a.local_address().unwrap();
    drop(b);
    let client = endpoint(a, Idle::Block, true);
    client.call(|c| c.engine.send(1)).unwrap();
    // Nobody listens: the kernel says so, which is a hint and no failure.
    eventually("told", || client.inspect(|engine, _, _| !engine.path_events.is_empty()));
    let late = UdpLink::connect(Some(address), back, &UdpOptions::default()).unwrap();
    let server = endpoint(late, Idle::Block, true);
    receive(&server, 1);
    client.wait_until(|inbox| inbox.acked.remove(&1).then_some(()), soon()).unwrap();
}
