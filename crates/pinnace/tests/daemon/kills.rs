//! Processes that are killed at random instants (B-12).

use crate::parts::{Named, Process, Served, exchange, wait_until};
use pinnace::daemon::Client;
use pinnace_core::Random;
use pinnace_qbuf::channel::ChannelError;
use std::time::{Duration, Instant};

pub(crate) fn tests() -> Vec<Named> {
    vec![
        ("killed_clients_leave_nothing_behind", killed_clients),
        ("one_who_is_another_program_is_gone_for_others", another_program),
        ("clients_go_on_when_the_daemon_is_killed", killed_daemon),
        ("new_streams_use_udp_while_there_is_no_daemon", udp_without),
        ("a_killed_daemon_is_replaced_under_load", replaced_daemon),
    ]
}

/// Kills; `PINNACE_KILLS` says how many.
fn kills(by_default: usize) -> usize {
    std::env::var("PINNACE_KILLS").ok().map_or(by_default, |text| text.parse().expect("a number"))
}

/// Instants at random; `PINNACE_SEED` says the seed of a run that failed.
fn instants() -> Random {
    let given = std::env::var("PINNACE_SEED").ok().map(|text| text.parse().expect("a number"));
    let seed = given.unwrap_or_else(|| std::process::id().into());
    eprintln!("PINNACE_SEED={seed}");
    Random::from_seed(seed)
}

//= B-12 test
fn killed_clients() {
    let mut served = Served::start(&[]);
    let address = "127.0.0.1:7001";
    let mut random = instants();
    let start = |part: &str, path: &str| {
        let mut process = Process::start(part, &[path, address]);
        assert_eq!(process.line(), "ready");
        process
    };
    let path = served.path().to_owned();
    let survivor = Client::open(&served.socket).unwrap();
    let mut echo = start("echo", &path);
    let mut loads: Vec<_> = (0..2).map(|_| start("load", &path)).collect();
    for turn in 0..kills(100) {
        std::thread::sleep(Duration::from_micros(random.below(20_000)));
        if random.below(3) == 0 {
            echo.kill();
            // Its address is free as soon as the daemon has noticed.
            wait_until("the address is free", || survivor.connect(address.parse().unwrap()).unwrap().is_none());
            echo = start("echo", &path);
        } else {
            let victim = random.below(2) as usize;
            loads[victim].kill();
            loads[victim] = start("load", &path);
        }
        if turn % 10 == 0 {
            let mut arrival = survivor.connect(address.parse().unwrap()).unwrap().expect("the echo listens");
            exchange(&mut arrival, 20);
        }
        assert!(served.process.runs());
    }
    drop((echo, loads, survivor));
    served.wait_until_unused();
    assert_eq!(served.statistics().totals.dropped_clients, 0, "nobody misbehaved");
}

/// How many echoes a faithful load has got, and whether it has a daemon.
fn another_program() {
    let served = Served::start(&[]);
    let mut other = Process::start("another", &[served.path(), "127.0.0.1:7001"]);
    assert_eq!(other.line(), "ready");
    let client = Client::open(&served.socket).unwrap();
    let mut arrival = client.connect("127.0.0.1:7001".parse().unwrap()).unwrap().unwrap();
    let begun = Instant::now();
    let deadline = begun + Duration::from_secs(20);
    assert!(arrival.channel.wait_readable(Duration::ZERO, Some(deadline)).unwrap(), "it is waited for in vain");
    assert!(matches!(arrival.channel.try_recv(), Err(ChannelError::Closed)));
    assert!(other.runs() && begun.elapsed() < Duration::from_secs(5));
    wait_until("its address is free", || client.connect("127.0.0.1:7001".parse().unwrap()).unwrap().is_none());
    other.kill();
    drop((arrival, client));
    served.wait_until_unused();
}

fn progress(load: &mut Process) -> (u64, bool) {
    let line = load.ask("?");
    let (count, alive) = line.split_once(' ').unwrap_or_else(|| panic!("it says {line:?}"));
    (count.parse().unwrap(), alive == "alive")
}

fn killed_daemon() {
    let mut served = Served::start(&[]);
    let address = "127.0.0.1:7001";
    let mut echo = Process::start("echo", &[served.path(), address]);
    echo.line();
    let mut load = Process::start("faithful", &[served.path(), address]);
    load.line();
    let client = Client::open(&served.socket).unwrap();
    let mut arrival = client.connect(address.parse().unwrap()).unwrap().unwrap();
    exchange(&mut arrival, 1000);
    wait_until("they talk", || progress(&mut load).0 > 100);
    served.process.kill();
    // They notice, and go on.
    wait_until("it notices", || !progress(&mut load).1);
    let before = progress(&mut load).0;
    wait_until("it goes on", || progress(&mut load).0 > before + 100);
    exchange(&mut arrival, 10_000);
    assert!(!client.is_alive());
    assert!(client.connect(address.parse().unwrap()).is_err(), "no new ones");
    // Without a daemon, too, one notices that the other is dead, and gets the blocks back.
    load.kill();
    echo.kill();
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        match arrival.channel.try_recv() {
            Ok(Some(_)) => {}
            Ok(None) => {
                assert!(Instant::now() < deadline, "the death goes unnoticed");
                let soon = Instant::now() + Duration::from_millis(300);
                let _ = arrival.channel.wait_readable(Duration::ZERO, Some(soon));
            }
            Err(_) => break,
        }
    }
    drop(arrival);
    wait_until("all is free", || {
        client.pool().sweep();
        let pool = client.pool().stats();
        (pool.free_blocks, pool.clients, pool.locked_zones) == (pool.blocks, 1, 0)
    });
}

fn udp_without() {
    let mut served = Served::start(&[]);
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.env("PINNACE_DAEMON", served.path());
    let mut program = Process::start_by(command, "ways", &[]);
    assert_eq!(program.ask("?"), "shm");
    served.process.kill();
    assert_eq!(program.ask("?"), "udp");
    served.again();
    wait_until("the new one is used", || program.ask("?") == "shm");
}

fn replaced_daemon() {
    let mut served = Served::start(&[]);
    let address = "127.0.0.1:7001";
    let mut random = instants();
    for _ in 0..kills(100).div_ceil(10) {
        let mut echo = Process::start("echo", &[served.path(), address]);
        echo.line();
        let mut load = Process::start("faithful", &[served.path(), address]);
        load.line();
        wait_until("they talk", || progress(&mut load).0 > 0);
        std::thread::sleep(Duration::from_micros(random.below(20_000)));
        served.process.kill();
        served.again();
        // New ones have the new daemon, while the old ones go on with what they have.
        let before = progress(&mut load).0;
        wait_until("it goes on", || progress(&mut load).0 > before);
        let mut new = Process::start("echo", &[served.path(), address]);
        assert_eq!(new.line(), "ready");
        let client = Client::open(&served.socket).unwrap();
        let mut arrival = client.connect(address.parse().unwrap()).unwrap().unwrap();
        exchange(&mut arrival, 1000);
        drop((arrival, client, new));
        drop((echo, load));
        served.wait_until_unused();
    }
}
