//! Clients that say, or do, what they should not. Each time the daemon goes on to serve others, and nothing stays behind.

use crate::parts::{Named, Process, Served, exchange, wait_until};
use crate::raw::{ATTACH, BYTES, CONNECT, HELLO, LISTEN, REFUSED, Raw, TOTALS, WELCOME, message};
use pinnace::daemon::{Client, Refusal};
use std::fs::File;
use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::time::Duration;

pub(crate) fn tests() -> Vec<Named> {
    vec![
        ("one_who_connects_ten_thousand_times_shuts_nobody_out", ten_thousand_connections),
        ("one_who_connects_and_says_nothing_is_dropped", silence),
        ("one_who_takes_all_that_he_gets_leaves_some_to_others", all_blocks),
        ("one_who_takes_more_than_his_share_loses_it", too_many_blocks),
        ("one_who_never_reads_is_dropped", never_reads),
        ("one_who_never_accepts_keeps_few_waiting", never_accepts),
        ("descriptors_that_nobody_asked_for_are_closed", foreign_descriptors),
        ("another_version_is_refused", other_versions),
        ("garbage_is_not_answered", garbage),
        ("half_a_message_is_none", half_messages),
        ("nothing_can_be_asked_out_of_turn", out_of_turn),
        ("nobody_can_say_that_he_is_another", impostor),
        ("one_who_does_not_say_who_he_is_loses_the_pool", stranger),
        ("one_who_says_that_he_is_a_thousand_keeps_nobody_waiting", thousand_strangers),
        ("one_who_says_that_the_pool_is_guarded_is_not_believed", guard),
        ("listeners_and_channels_are_limited", limits),
    ]
}

/// What a client may take to say who it is, where that is to be over soon: a busy machine needs some of it.
const SHORT_HANDSHAKE: &str = "handshake_ms=1000";

/// The daemon serves others as ever.
fn assert_well(served: &mut Served) {
    assert!(served.process.runs());
    let client = Client::open(&served.socket).expect("it takes others");
    let address = "127.0.0.1:7999".parse().unwrap();
    let registration = client.listen(address).unwrap();
    let mut here = client.connect(address).unwrap().expect("somebody listens");
    let mut there = registration.accept_timeout(Duration::from_secs(30)).unwrap().expect("somebody came");
    here.channel.try_send_bytes(b"ahoy").unwrap();
    assert_eq!(&there.channel.try_recv().unwrap().unwrap()[..], b"ahoy");
    drop((here, there, registration, client));
    served.wait_until_unused();
}

fn ten_thousand_connections() {
    let mut served = Served::start(&[]);
    let before = served.process.descriptors();
    let mut kept = Vec::new();
    for turn in 0..10_000 {
        let raw = Raw::connect(&served.socket);
        match turn % 4 {
            0 => {}
            1 => drop(raw.send(&message(2, HELLO, &[]), &[])),
            2 => drop(raw.send(b"x", &[])),
            // What it has at one time is limited; the daemon says so, and hangs up.
            _ if kept.len() < 100 => kept.push(raw),
            _ => {}
        }
    }
    // Those that it would have had to keep were refused, and so are more of this process, until there is room again.
    let refused = kept.iter().filter(|raw| raw.ask(TOTALS, &[]).is_none_or(|(kind, _)| kind == REFUSED)).count();
    assert!(refused >= 92, "{refused}");
    // Others are not.
    let mut other = Process::start("come", &[served.path()]);
    assert_eq!(other.line(), "welcome");
    drop(kept);
    wait_until("room", || Client::open(&served.socket).is_ok());
    assert_well(&mut served);
    wait_until("all descriptors are closed", || served.process.descriptors() <= before);
}

fn silence() {
    let mut served = Served::start(&[SHORT_HANDSHAKE]);
    let quiet = Raw::connect(&served.socket);
    let half_way = Raw::connect(&served.socket);
    assert_eq!(half_way.ask(HELLO, &[]).unwrap().0, WELCOME);
    assert!(quiet.is_dropped() && half_way.is_dropped());
    assert_well(&mut served);
}

//= B-12 test
fn all_blocks() {
    let mut served = Served::start(&[]);
    let address = "127.0.0.1:7001";
    let mut echo = Process::start("echo", &[served.path(), address]);
    echo.line();
    let client = Client::open(&served.socket).unwrap();
    let mut arrival = client.connect(address.parse().unwrap()).unwrap().unwrap();
    exchange(&mut arrival, 100_000);
    let mut grabber = Process::start("grab", &[served.path()]);
    assert!(grabber.line().parse::<u64>().unwrap() > 1500, "most of the pool");
    // It keeps to the rules, and nobody takes from it what it may be writing to.
    std::thread::sleep(Duration::from_millis(700));
    assert!(grabber.runs());
    exchange(&mut arrival, 100_000);
    let held = served.statistics().clients.iter().map(|client| client.held_blocks).max();
    assert_eq!((served.statistics().totals.dropped_clients, held), (0, Some(64 * 32 * 3 / 4)));
    grabber.kill();
    echo.kill();
    drop((arrival, client));
    assert_well(&mut served);
}

//= B-12 test
fn too_many_blocks() {
    let mut served = Served::start(&[]);
    let client = Client::open(&served.socket).unwrap();
    // Two attachments that know nothing of each other, for what counts as one.
    let pools = [pool_of(&served), pool_of(&served)];
    let raw = Raw::connect(&served.socket);
    assert_eq!(raw.ask(HELLO, &[]).unwrap().0, WELCOME);
    for pool in &pools {
        assert_eq!(raw.ask(ATTACH, &pool.client().to_bits().to_le_bytes()).unwrap().0, 0x102);
    }
    let all: Vec<_> = pools.iter().flat_map(|pool| std::iter::from_fn(|| pool.alloc(1))).collect();
    assert_eq!(all.len(), 64 * 32);
    wait_until("its blocks come back", || client.pool().alloc(100_000).is_some());
    assert_eq!(served.statistics().totals.dropped_clients, 1);
    drop((all, pools, client));
    assert_well(&mut served);
}

fn never_reads() {
    let mut served = Served::start(&[]);
    let raw = Raw::connect(&served.socket);
    raw.send(&message(2, HELLO, &[]), &[]);
    let mut sent = 0;
    while raw.send(&message(2, TOTALS, &[]), &[]) {
        sent += 1;
        assert!(sent < 1_000_000, "the daemon keeps answers without end");
    }
    assert_eq!(served.statistics().totals.dropped_clients, 1);
    assert_well(&mut served);
}

fn never_accepts() {
    let mut served = Served::start(&["pending=4"]);
    let address = "127.0.0.1:7001";
    let mut listener = Process::start("listen", &[served.path(), address]);
    assert_eq!(listener.line(), "ready");
    let client = Client::open(&served.socket).unwrap();
    let connect = || client.connect(address.parse().unwrap());
    let mut waiting: Vec<_> = (0..4).map(|_| connect().unwrap().unwrap()).collect();
    let refused = connect().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    // One that is accepted makes room for one.
    assert_eq!(listener.ask("accept"), waiting[0].local.to_string());
    waiting.push(connect().unwrap().unwrap());
    assert_eq!(connect().unwrap_err().kind(), ErrorKind::ConnectionRefused);
    // What waits is told when nobody will ever come.
    listener.kill();
    for arrival in &mut waiting {
        wait_until("the end", || arrival.channel.try_recv().is_err());
    }
    assert!(connect().unwrap().is_none());
    drop((waiting, client));
    assert_well(&mut served);
}

fn foreign_descriptors() {
    let mut served = Served::start(&[]);
    let before = served.process.descriptors();
    let file = tempfile::tempfile().unwrap();
    let (pipe, _writer) = std::io::pipe().unwrap();
    let memory = rustix::fs::memfd_create("mine", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    for fd in [file.as_fd(), pipe.as_fd(), memory.as_fd()] {
        for first in [true, false] {
            let raw = Raw::connect(&served.socket);
            if !first {
                assert_eq!(raw.ask(HELLO, &[]).unwrap().0, WELCOME);
            }
            raw.send(&message(2, if first { HELLO } else { TOTALS }, &[]), &[fd]);
            assert!(raw.is_dropped(), "descriptors came with it");
        }
    }
    let raw = Raw::connect(&served.socket);
    raw.send(&message(2, HELLO, &[]), &[file.as_fd(); 8]);
    assert!(raw.is_dropped());
    // On the socket of a listener, too.
    let raw = attached(&served);
    assert_eq!(raw.ask(LISTEN, &v4([127, 0, 0, 1], 7001)).unwrap().0, 0x103);
    drop(raw);
    wait_until("none of them was kept", || served.process.descriptors() <= before);
    assert_well(&mut served);
}

fn other_versions() {
    let mut served = Served::start(&[]);
    for version in [0, 1, 255, u16::MAX] {
        let raw = Raw::connect(&served.socket);
        raw.send(&message(version, HELLO, &[]), &[]);
        let (kind, body) = raw.receive().expect("an answer");
        assert_eq!((kind, body[0]), (REFUSED, Refusal::Version as u8));
        assert!(raw.is_dropped());
    }
    assert_well(&mut served);
}

fn garbage() {
    let mut served = Served::start(&[]);
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    for turn in 0..500 {
        let mut bytes: Vec<u8> = std::iter::repeat_with(|| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random as u8
        })
        .take(BYTES)
        .collect();
        if turn % 2 == 0 {
            // All but what the kind says.
            bytes[..8].copy_from_slice(&message(2, (turn / 2 % 12) as u16 | 0x8000, &[])[..8]);
        }
        let raw = Raw::connect(&served.socket);
        raw.send(&bytes, &[]);
        assert!(raw.receive().is_none(), "garbage was answered");
    }
    // A reply is no request.
    let raw = Raw::connect(&served.socket);
    assert!(raw.ask(WELCOME, &[]).is_none());
    assert_well(&mut served);
}

fn half_messages() {
    let mut served = Served::start(&[]);
    let whole = message(2, HELLO, &[]);
    for len in [1, 4, 8, 128, BYTES - 1] {
        let raw = Raw::connect(&served.socket);
        raw.send(&whole[..len], &[]);
        assert!(raw.receive().is_none(), "{len} bytes were answered");
    }
    for len in [BYTES + 1, 2 * BYTES, 65_536] {
        let raw = Raw::connect(&served.socket);
        let mut long = whole.clone();
        long.resize(len, 0);
        raw.send(&long, &[]);
        assert!(raw.receive().is_none(), "{len} bytes were answered");
    }
    // Nothing at all, and gone in the middle.
    let raw = Raw::connect(&served.socket);
    raw.send(&[], &[]);
    assert!(raw.is_dropped());
    let raw = Raw::connect(&served.socket);
    raw.send(&whole, &[]);
    drop(raw);
    assert_well(&mut served);
}

fn v4(ip: [u8; 4], port: u16) -> Vec<u8> {
    let mut body = [&4u16.to_le_bytes()[..], &port.to_le_bytes(), &0u32.to_le_bytes(), &ip].concat();
    body.resize(24, 0);
    body
}

fn refusal(answer: Option<(u16, Vec<u8>)>) -> u32 {
    let (kind, body) = answer.expect("an answer");
    assert_eq!(kind, REFUSED);
    u32::from_le_bytes([body[0], body[1], body[2], body[3]])
}

fn out_of_turn() {
    let mut served = Served::start(&[]);
    let raw = Raw::connect(&served.socket);
    let out_of_turn = Refusal::OutOfTurn as u32;
    let connect = [&v4([127, 0, 0, 1], 7001)[..], &1u32.to_le_bytes()].concat();
    for (kind, body) in [(ATTACH, &1u32.to_le_bytes()[..]), (LISTEN, &v4([127, 0, 0, 1], 7001)), (CONNECT, &connect)] {
        assert_eq!(refusal(raw.ask(kind, body)), out_of_turn);
    }
    assert_eq!(refusal(raw.ask(TOTALS, &[])), out_of_turn);
    assert_eq!(raw.ask(HELLO, &[]).unwrap().0, WELCOME);
    assert_eq!(refusal(raw.ask(HELLO, &[])), out_of_turn);
    assert_eq!(refusal(raw.ask(LISTEN, &v4([127, 0, 0, 1], 7001))), out_of_turn);
    assert_eq!(refusal(raw.ask(CONNECT, &connect)), out_of_turn);
    drop(raw);
    assert_well(&mut served);
}

/// A client of the daemon, by hand, and of no pool.
fn attached(served: &Served) -> Raw {
    // The pool's client of a process that this one really is.
    let pool = pool_of(served);
    let raw = Raw::connect(&served.socket);
    assert_eq!(raw.ask(HELLO, &[]).unwrap().0, WELCOME);
    assert_eq!(raw.ask(ATTACH, &pool.client().to_bits().to_le_bytes()).unwrap().0, 0x102);
    // The daemon holds it for as long as the process lives; here it is gone at once.
    drop(pool);
    raw
}

fn pool_of(served: &Served) -> pinnace::qmp::Pool {
    let client = Client::open(&served.socket).unwrap();
    pinnace::qmp::Pool::attach(client.pool().fd().try_clone_to_owned().unwrap()).unwrap()
}

fn impostor() {
    let mut served = Served::start(&[]);
    let victim = Client::open(&served.socket).unwrap();
    let theirs = victim.pool().client();
    let held = victim.pool().alloc(1).unwrap();
    let raw = Raw::connect(&served.socket);
    assert_eq!(raw.ask(HELLO, &[]).unwrap().0, WELCOME);
    // Another's, the daemon's own (which came first), and nobody's.
    for bits in [theirs.to_bits(), 1 << 10, 0, 0x3F_FFFF] {
        assert_eq!(refusal(raw.ask(ATTACH, &bits.to_le_bytes())), Refusal::OutOfTurn as u32, "{bits:x}");
    }
    drop(raw);
    let first = held.first_block();
    wait_until("the impostor is gone", || served.statistics().clients.len() == 1);
    assert_eq!(victim.pool().owner(first).map(|owner| owner.client), Some(theirs), "what it had was touched");
    drop((held, victim));
    assert_well(&mut served);
}

fn thousand_strangers() {
    const SLOTS_AT: u64 = 128;
    let mut served = Served::start(&[SHORT_HANDSHAKE]);
    let pool = pool_of(&served);
    let file = File::from(pool.fd().try_clone_to_owned().unwrap());
    let mut name = [0; 16];
    file.read_exact_at(&mut name, SLOTS_AT + 64 * u64::from(pool.slot())).unwrap();
    for slot in 10..1010 {
        file.write_all_at(&name, SLOTS_AT + 64 * slot).unwrap();
    }
    let clients = || served.statistics().totals.pool.clients;
    wait_until("all are counted", || clients() > 1000);
    // Who asks waits for what the daemon does first. That is work: the time of a busy machine would say nothing of it.
    let mut longest = Duration::ZERO;
    wait_until("all are taken out", || {
        let before = served.process.busy();
        let clients = clients();
        longest = longest.max(served.process.busy() - before);
        clients == 1
    });
    assert!(longest < Duration::from_secs(1), "somebody waited while it worked for {longest:?}");
    drop(pool);
    assert_well(&mut served);
}

//= B-13 test
fn guard() {
    /// Where the header has the flags of the pool, and which says that it is guarded.
    const FLAGS_AT: u64 = 24;
    const GUARDED: u8 = 2;
    let mut served = Served::start(&[]);
    let pool = pool_of(&served);
    let file = File::from(pool.fd().try_clone_to_owned().unwrap());
    let mut flags = [0];
    file.read_exact_at(&mut flags, FLAGS_AT).unwrap();
    file.write_all_at(&[flags[0] | GUARDED], FLAGS_AT).unwrap();
    assert_eq!(Client::open(&served.socket).unwrap_err().kind(), ErrorKind::InvalidData);
    file.write_all_at(&flags, FLAGS_AT).unwrap();
    drop((file, pool));
    assert_well(&mut served);
}

fn stranger() {
    let mut served = Served::start(&[SHORT_HANDSHAKE]);
    let pool = pool_of(&served);
    let held = pool.alloc(100_000).unwrap();
    wait_until("it is taken out", || {
        let pool = served.statistics().totals.pool;
        (pool.free_blocks, pool.clients) == (pool.blocks, 1)
    });
    drop((held, pool));
    assert_well(&mut served);
}

fn limits() {
    let mut served = Served::start(&["listeners=3", "channels=5"]);
    let client = Client::open(&served.socket).unwrap();
    let address = |port| std::net::SocketAddr::from(([127, 0, 0, 1], port));
    let listening: Vec<_> = (1..=3).map(|turn| client.listen(address(7000 + turn)).unwrap()).collect();
    assert_eq!(client.listen(address(7004)).unwrap_err().kind(), ErrorKind::QuotaExceeded);
    let connect = || client.connect(address(7001));
    let mut connected: Vec<_> = (0..5).map(|_| connect().unwrap().unwrap()).collect();
    assert_eq!(connect().unwrap_err().kind(), ErrorKind::QuotaExceeded);
    // One that both sides have closed makes room.
    drop(connected.pop());
    for _ in 0..5 {
        drop(listening[0].try_accept().unwrap().unwrap());
    }
    wait_until("room", || connect().is_ok());
    drop((connected, listening, client));
    assert_well(&mut served);
}
