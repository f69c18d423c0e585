//! XTP to a group over real UDP sockets of this machine (specs/xtp.md, X-22).
#![allow(clippy::print_stdout, reason = "says how much it sent")]
#![cfg(target_os = "linux")]

use pinnace_core::{ControllerKind, Storage, Time};
use pinnace_link::{BufferTable, GroupLink, MulticastOptions, UdpOptions, probe_multicast};
use pinnace_runtime::{Endpoint, EndpointConfig, EventSink};
use pinnace_xtp::{Close, Config, ContextId, ControlBlock, Event, Output, Service, Services, Xtp};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

/// Keeps the events until somebody takes them, and gives buffers back.
#[derive(Default)]
struct Events(Vec<Event>);

impl EventSink<Event> for Events {
    fn handle_event(&mut self, event: Event, memory: &mut BufferTable) {
        if let Event::Sent { buffer, .. } | Event::Released { buffer } = event {
            memory.take(buffer);
        }
        self.0.push(event);
    }

    fn is_outstanding(&self) -> bool {
        true
    }
}

type Host = Endpoint<Xtp, GroupLink, Events>;

/// A group of its own for every test of every run.
fn group(number: u8) -> SocketAddr {
    let id = std::process::id();
    SocketAddr::from(([239, 77, number, (id % 251) as u8], 20_000 + (id % 20_000) as u16))
}

fn over_loopback() -> MulticastOptions {
    MulticastOptions { interface: Ipv4Addr::LOCALHOST, ..MulticastOptions::default() }
}

fn host(group: SocketAddr, seed: u64) -> Host {
    let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let link = GroupLink::bind(any, group, &UdpOptions::default(), &over_loopback()).expect("a group link");
    let config = Config { seed, congestion: ControllerKind::Fixed { window: 1 << 18 }, ..Config::default() };
    Endpoint::new(Xtp::new(config, Time::ZERO), link, Events::default(), EndpointConfig::default()).expect("a host")
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at as u8).wrapping_mul(31).wrapping_add((at >> 8) as u8)).collect()
}

/// What a stream carried, and where nothing came.
#[derive(Default)]
struct Taken {
    bytes: Vec<u8>,
    holes: Vec<std::ops::Range<usize>>,
}

/// Takes what can be read.
fn read(host: &Host, context: ContextId, into: &mut Taken) {
    let Taken { bytes: into, holes } = into;
    host.call(|call| {
        while let Some(readable) = call.engine.readable(context).filter(|readable| readable.len > 0) {
            for (offset, len) in call.engine.holes(context, readable.len) {
                let start = into.len() + offset as usize;
                holes.push(start..start + len as usize);
            }
            for part in readable.parts {
                into.extend_from_slice(call.memory.bytes(part));
            }
            call.engine.consume(call.now, context, readable.len);
        }
    })
    .expect("alive");
}

/// Waits for the end of a stream; returns what it carried, and how it ended.
fn receive(host: &Host, until: Instant) -> (Taken, Result<(), pinnace_xtp::Failure>) {
    let mut taken = Taken::default();
    loop {
        let take = |events: &mut Events| (!events.0.is_empty()).then(|| std::mem::take(&mut events.0));
        for event in host.wait_until(take, Some(until)).expect("in time") {
            match event {
                Event::Readable { context } => read(host, context, &mut taken),
                Event::Closed { result, context } => {
                    read(host, context, &mut taken);
                    return (taken, result);
                }
                _ => {}
            }
        }
    }
}

fn carries(service: Service, number: u8, size: usize) {
    if let Err(error) = probe_multicast(&over_loopback()) {
        pinnace_testing::skip::host(format_args!("this machine has no multicast on its loopback interface ({error})"));
        return;
    }
    let group = group(number);
    let hosts: Vec<_> = (0..4).map(|seed| host(group, seed + 100 * u64::from(number))).collect();
    let [sender, receivers @ ..] = &hosts[..] else { panic!() };
    let until = Instant::now() + Duration::from_secs(30);
    let mut block = ControlBlock::new(service);
    block.output_rate = 20_000_000;
    block.output_burst = 30_000;
    block.wtimer = Duration::from_millis(50);
    block.wbufsize = 8 << 20;
    for host in receivers {
        let services = Services::from(service);
        host.call(|call| call.engine.join(group.into(), block.clone(), services)).expect("alive").expect("joined");
    }
    let message = pattern(size);
    sender
        .call(|call| {
            let context = call.engine.open_group(call.now, group.into(), block).expect("room");
            let buffer = call.memory.allocate(size as u64, &[(0, message.clone())]).expect("memory");
            call.engine.send(call.now, context, Output::message(buffer, size as u64)).expect("taken");
            call.engine.close(call.now, context, Close::Full).expect("open");
        })
        .expect("alive");
    std::thread::scope(|scope| {
        let mut waits = Vec::new();
        for host in receivers {
            waits.push(scope.spawn(move || receive(host, until)));
        }
        assert_eq!(receive(sender, until).1, Ok(()));
        for wait in waits {
            let (Taken { mut bytes, holes }, result) = wait.join().expect("no panic");
            assert_eq!((bytes.len(), result), (size, Ok(())));
            let lost: usize = holes.iter().map(std::ops::Range::len).sum();
            let most = if service == Service::UnackMulticast { size / 4 } else { 0 };
            assert!(lost <= most, "{lost} of {size} bytes are told as lost");
            for hole in holes {
                bytes[hole.clone()].copy_from_slice(&message[hole]);
            }
            assert!(bytes == message, "it differs outside of its holes");
        }
    });
    let counters = sender.inspect(|engine, _, _| engine.counters());
    println!("{service:?}: {} packets, {} again", counters.data_packets_sent, counters.data_packets_resent);
}

//= X-22 test
#[test]
fn a_reliable_stream_reaches_all_members_on_this_machine() {
    carries(Service::Multicast, 6, 3_000_000);
}

//= X-22 test
#[test]
fn an_unacknowledged_stream_reaches_them_too() {
    carries(Service::UnackMulticast, 5, 100_000);
}
