//! Threads, tasks and event loops on one endpoint: who drives, who follows, who is woken.

mod common;

use common::*;
use pinnace_runtime::{EndpointConfig, EndpointError, Idle, Topic, WaitError};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

/// Answers every number up to `rounds`.
fn echo(endpoint: &ToyEndpoint, rounds: u64) {
    for number in 0..rounds {
        receive(endpoint, number).unwrap();
        send(endpoint, number);
    }
    acked(endpoint, rounds - 1).unwrap();
}

fn ping_pong(idle: Idle, rounds: u64) {
    let (client, server) = endpoints(alone(idle));
    thread::scope(|scope| {
        scope.spawn(|| echo(&server, rounds));
        for number in 0..rounds {
            send(&client, number);
            receive(&client, number).unwrap();
        }
        // The last answer is acknowledged by this thread or by none.
        let _ = client.wait_until(|_| None::<()>, Some(Instant::now() + 3 * RESEND));
    });
    let resent = client.inspect(|engine, _, _| engine.resent) + server.inspect(|engine, _, _| engine.resent);
    assert!(resent * 100 < rounds, "{resent} of {rounds} came too late: a wake-up was lost");
}

#[test]
fn no_wake_up_is_lost_while_blocking() {
    ping_pong(Idle::Block, 20_000);
}

#[test]
fn no_wake_up_is_lost_while_spinning_and_then_blocking() {
    ping_pong(Idle::Adaptive { spin: Duration::from_micros(10) }, 20_000);
}

#[test]
fn no_wake_up_is_lost_while_spinning() {
    ping_pong(Idle::Spin, 5_000);
}

#[test]
fn a_wait_ends_at_its_deadline() {
    for idle in [Idle::Block, Idle::ADAPTIVE, Idle::Spin] {
        let (client, _server) = endpoints(alone(idle));
        let before = Instant::now();
        let result = client.wait_until(|_| None::<()>, Some(before + Duration::from_millis(30)));
        assert!(matches!(result, Err(WaitError::Timeout)));
        assert!((30..10_000).contains(&before.elapsed().as_millis()), "{:?}", before.elapsed());
    }
}

#[test]
fn a_wait_ends_at_its_deadline_although_the_clock_is_set_back_for_a_stop() {
    let (a, _b) = PairLink::pair();
    let client = endpoint(a, alone(Idle::Block));
    // Its timer is due soon, and nobody drives.
    send(&client, 7);
    thread::sleep(Duration::from_secs(3));
    let before = Instant::now();
    let result = client.wait_until(|_| None::<()>, Some(before));
    assert!(matches!(result, Err(WaitError::Timeout)));
    assert!(before.elapsed() < Duration::from_millis(1500), "{:?}", before.elapsed());
}

#[test]
fn a_follower_keeps_its_own_deadline_beside_a_spinning_driver() {
    let (client, server) = endpoints(alone(Idle::Spin));
    thread::scope(|scope| {
        scope.spawn(|| receive(&client, 1).unwrap());
        thread::sleep(Duration::from_millis(10));
        let before = Instant::now();
        let result = client.wait_until(|_| None::<()>, Some(before + Duration::from_millis(30)));
        assert!(matches!(result, Err(WaitError::Timeout)));
        assert!(before.elapsed() < Duration::from_secs(5));
        send(&server, 1);
    });
}

#[test]
fn one_drives_for_two_and_hands_over_when_it_leaves() {
    for idle in [Idle::Block, Idle::ADAPTIVE, Idle::Spin] {
        // For the driver first: the follower must take over. Then the other way round.
        for order in [[1, 2], [2, 1]] {
            let (client, server) = endpoints(alone(idle));
            thread::scope(|scope| {
                let mut waits = Vec::new();
                for number in [1, 2] {
                    let client = &client;
                    waits.push(scope.spawn(move || receive(client, number).unwrap()));
                    eventually("a driver", || client.counters().application_drives == 1);
                    eventually("a follower", || client.counters().application_follows == number - 1);
                }
                for number in order {
                    send(&server, number);
                    eventually("received", || waits[number as usize - 1].is_finished());
                }
            });
            let counters = client.counters();
            assert_eq!((counters.hand_overs, counters.application_drives), if order[0] == 1 { (1, 2) } else { (0, 1) });
        }
    }
}

#[test]
fn many_threads_call_and_wait_on_one_endpoint() {
    const THREADS: u64 = 6;
    const EACH: u64 = 1_000;
    for idle in [Idle::Block, Idle::ADAPTIVE] {
        for (worker, is_topical) in [(false, false), (true, false), (false, true), (true, true)] {
            let (client, server) = endpoints(EndpointConfig { idle, worker, ..EndpointConfig::default() });
            client.call(|call| call.state.is_topical = is_topical).unwrap();
            let left = AtomicU64::new(THREADS);
            thread::scope(|scope| {
                scope.spawn(|| {
                    while left.load(Ordering::Relaxed) > 0 {
                        let _ = server.wait_until(|_| None::<()>, Some(Instant::now() + Duration::from_millis(20)));
                    }
                });
                for thread in 0..THREADS {
                    let (client, left) = (&client, &left);
                    scope.spawn(move || {
                        for number in thread * EACH..(thread + 1) * EACH {
                            send(client, number);
                            let look = |inbox: &mut Inbox| inbox.acked.remove(&number).then_some(());
                            client.about(Topic::of(number)).wait_until(look, soon()).unwrap();
                        }
                        left.fetch_sub(1, Ordering::Relaxed);
                    });
                }
            });
            assert_eq!(server.inspect(|_, _, inbox| inbox.received.len() as u64), THREADS * EACH);
            let resent = client.inspect(|engine, _, _| engine.resent);
            assert!(resent < THREADS * EACH / 50, "{resent} came too late");
        }
    }
}

#[test]
fn threads_and_tasks_look_when_it_concerns_them() {
    const IDLE: u64 = 8;
    const TURNS: u64 = 100;
    let (client, server) = endpoints(EndpointConfig { idle: Idle::Block, ..EndpointConfig::default() });
    client.call(|call| call.state.is_topical = true).unwrap();
    let mut looked = Vec::new();
    let looks: Vec<AtomicU64> = (0..2 * IDLE).map(|_| AtomicU64::new(0)).collect();
    // No two of them share a room.
    let number = |waiting: u64| TURNS + waiting;
    let look = |waiting: u64| {
        let looks = &looks[waiting as usize];
        move |inbox: &mut Inbox| {
            looks.fetch_add(1, Ordering::Relaxed);
            inbox.acked.contains(&number(waiting)).then_some(())
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            let done = |inbox: &mut Inbox| (inbox.received.len() as u64 == TURNS + 2 * IDLE).then_some(());
            server.wait_until(done, soon()).unwrap();
            let _ = server.wait_until(|_| None::<()>, Some(Instant::now() + 4 * RESEND));
        });
        for waiting in 0..IDLE {
            let (client, look) = (&client, look(waiting));
            scope.spawn(move || client.about(Topic::of(number(waiting))).wait_until(look, soon()).unwrap());
        }
        for waiting in IDLE..2 * IDLE {
            let (client, look) = (&client, look(waiting));
            scope.spawn(move || pollster::block_on(client.about(Topic::of(number(waiting))).wait(look)).unwrap());
        }
        eventually("all wait", || looks.iter().all(|looks| looks.load(Ordering::Relaxed) > 0));
        for number in 0..TURNS {
            send(&client, number);
            let look = |inbox: &mut Inbox| inbox.acked.contains(&number).then_some(());
            client.about(Topic::of(number)).wait_until(look, soon()).unwrap();
        }
        looked.extend(looks.iter().map(|looks| looks.load(Ordering::Relaxed)));
        (0..2 * IDLE).for_each(|waiting| send(&client, number(waiting)));
    });
    looked.sort_unstable();
    // Whoever drives looks in each turn; each may have been asked to once.
    let followers = &looked[..looked.len() - 2];
    assert!(followers.iter().all(|looks| *looks < TURNS / 4), "{looked:?}");
}

#[test]
fn a_call_by_another_thread_moves_the_sleepers_timer() {
    // The server never answers, so the message is sent again by the client's timer, which nobody but the sleeper serves.
    let (a, b) = PairLink::pair();
    let client = endpoint(a, alone(Idle::Block));
    let server = endpoint(b, alone(Idle::Block));
    thread::scope(|scope| {
        scope.spawn(|| acked(&client, 7).unwrap());
        eventually("it sleeps", || client.counters().application_sleeps > 0);
        send(&client, 7);
        eventually("sent again", || client.inspect(|engine, _, _| engine.resent) >= 2);
        receive(&server, 7).unwrap();
    });
    assert!(client.counters().rousings >= 1);
}

#[test]
fn who_must_not_be_late_is_not() {
    // Nobody answers, so that the message is sent again by the timer of whoever waits.
    let (a, _b) = PairLink::pair();
    let client = endpoint(a, alone(Idle::Block));
    client.call(|call| call.engine.is_strict = true).unwrap();
    send(&client, 7);
    let deadline = Some(Instant::now() + 20 * RESEND);
    assert!(matches!(client.wait_until(|_| None::<()>, deadline), Err(WaitError::Timeout)));
    let lateness = client.inspect(|engine, _, _| engine.lateness.clone());
    // Another program may have had the processor, but hardly each time. Timers alone are 50 us late.
    let least = lateness.iter().min().expect("timers have fired");
    assert!(*least < Duration::from_micros(20), "{lateness:?}");
    assert!(client.counters().application_sleeps > 0, "it does not stay awake all the time");
}

#[test]
fn a_change_without_an_event_is_announced_by_notify() {
    let (client, _server) = endpoints(alone(Idle::Block));
    thread::scope(|scope| {
        let waits = || client.wait_until(|inbox| (inbox.flag == 1).then_some(()), soon());
        scope.spawn(move || waits().unwrap());
        scope.spawn(move || waits().unwrap());
        thread::sleep(Duration::from_millis(20));
        client.call(|c| c.state.flag = 1).unwrap();
        client.notify();
    });
}

#[test]
fn notify_reaches_a_driver_and_a_follower_20_000_times() {
    let (client, _server) = endpoints(alone(Idle::Block));
    let turn = |mine: u64| {
        for round in 0..20_000u64 {
            client.wait_until(|inbox| (inbox.flag % 2 == mine).then_some(()), soon()).expect("a wake-up was lost");
            client.call(|c| c.state.flag += 1).unwrap();
            client.notify();
            let _ = round;
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| turn(0));
        scope.spawn(|| turn(1));
    });
    assert_eq!(client.inspect(|_, _, inbox| inbox.flag), 40_000);
}

#[test]
fn the_worker_takes_over_when_nobody_waits() {
    let (client, server) = endpoints(EndpointConfig { idle: Idle::Block, ..EndpointConfig::default() });
    server.call(|c| c.state.outstanding = true).unwrap();
    for number in 0..20 {
        send(&client, number);
        eventually("acknowledged", || client.inspect(|_, _, inbox| inbox.acked.contains(&number)));
    }
    assert_eq!(client.inspect(|engine, _, _| engine.resent), 0);
    assert!(client.counters().worker_takeovers > 0 && server.counters().worker_takeovers > 0);
    assert_eq!(client.counters().application_sleeps, 0);
}

#[test]
fn the_worker_steps_aside_for_a_thread_and_comes_back() {
    let config = EndpointConfig { idle: Idle::Block, grace: Duration::from_millis(50), ..EndpointConfig::default() };
    let (client, server) = endpoints(config);
    for endpoint in [&client, &server] {
        endpoint.call(|c| c.state.outstanding = true).unwrap();
        eventually("the worker sleeps", || endpoint.counters().worker_sleeps > 0);
    }
    let sleeps = client.counters().worker_sleeps;
    thread::scope(|scope| {
        scope.spawn(|| echo(&server, 3_000));
        for number in 0..3_000 {
            send(&client, number);
            receive(&client, number).unwrap();
        }
        let counters = client.counters();
        assert!(counters.worker_sleeps - sleeps < 100, "the worker was woken all the time: {counters:?}");
    });
    // Long after: the worker is back.
    send(&client, 9_999_999);
    eventually("acknowledged", || client.inspect(|_, _, inbox| inbox.acked.contains(&9_999_999)));
}

#[test]
fn the_worker_follows_at_once_who_hands_over() {
    let config = EndpointConfig { idle: Idle::Block, grace: Duration::from_secs(600), ..EndpointConfig::default() };
    let (client, server) = endpoints(config);
    server.call(|c| c.state.outstanding = true).unwrap();
    send(&client, 0);
    server.hand_over();
    acked(&client, 0).unwrap();
    for number in 1..20 {
        send(&client, number);
        acked(&client, number).unwrap();
    }
    assert!(server.counters().worker_takeovers > 0);
}

#[test]
fn a_worker_that_rests_through_a_long_wait_comes_back() {
    let (client, server) = endpoints(EndpointConfig { idle: Idle::Block, ..EndpointConfig::default() });
    client.call(|c| c.state.outstanding = true).unwrap();
    eventually("the worker sleeps", || client.counters().worker_sleeps > 0);
    let before = client.counters().worker_takeovers;
    let waited = client.wait_until(|_| None::<()>, Some(Instant::now() + Duration::from_millis(60)));
    assert!(matches!(waited, Err(WaitError::Timeout)));
    send(&server, 1);
    eventually("acknowledged", || server.inspect(|_, _, inbox| inbox.acked.contains(&1)));
    assert!(client.counters().worker_takeovers > before);
}

#[test]
fn what_a_call_holds_back_leaves_at_last() {
    let (client, server) = endpoints(EndpointConfig { idle: Idle::Block, ..EndpointConfig::default() });
    server.call(|c| c.state.outstanding = true).unwrap();
    // The first leaves at once, the others are held while it is in transit.
    client
        .call(|c| {
            c.engine.send(0);
            assert!(c.engine.held);
        })
        .unwrap();
    for number in 1..4 {
        send(&client, number);
    }
    eventually("acknowledged", || client.inspect(|_, _, inbox| inbox.acked.len() == 4));
    // A waiting thread releases.
    for number in 10..13 {
        send(&client, number);
    }
    acked(&client, 12).unwrap();
    assert!(!client.inspect(|engine, _, _| engine.held));
}

#[test]
fn calls_alone_make_progress() {
    let (client, server) = endpoints(alone(Idle::Block));
    for number in 0..200 {
        send(&client, number);
        server.call(|_| ()).unwrap();
        thread::sleep(Duration::from_micros(100));
    }
    eventually("acknowledged", || {
        server.call(|_| ()).unwrap();
        client.call(|c| c.engine.in_transit() == 0).unwrap()
    });
    assert!(client.counters().reading_calls > 0);
}

#[test]
fn tasks_wait_without_a_thread_of_their_own() {
    let (client, server) = endpoints(EndpointConfig::default());
    thread::scope(|scope| {
        scope.spawn(|| {
            pollster::block_on(async {
                for number in 0..2_000 {
                    server.wait(|inbox| inbox.received.remove(&number).then_some(())).await.unwrap();
                    send(&server, number);
                }
                server.wait(|inbox| inbox.acked.contains(&1_999).then_some(())).await.unwrap();
            });
        });
        pollster::block_on(async {
            for number in 0..2_000 {
                send(&client, number);
                client.wait(|inbox| inbox.received.remove(&number).then_some(())).await.unwrap();
            }
        });
        // The worker acknowledges the last answer.
    });
    let resent = client.inspect(|engine, _, _| engine.resent);
    assert!(resent < 40, "{resent} of 2000 came too late");
}

/// A task, as far as it is woken.
struct Task;

impl Wake for Task {
    fn wake(self: Arc<Self>) {}
}

#[test]
fn a_task_that_has_stopped_waiting_is_not_kept() {
    let (client, _server) = endpoints(EndpointConfig::default());
    let tasks = [(); 100].map(|()| Arc::new(Task));
    for task in &tasks {
        let mut waiting = Box::pin(client.wait(|_| None::<()>));
        let waker = Waker::from(Arc::clone(task));
        assert!(waiting.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        assert_eq!(Arc::strong_count(task), 3, "it waits to be woken");
    }
    assert!(tasks.iter().all(|task| Arc::strong_count(task) == 1));
}

/// A task that an executor runs as soon as it is woken.
struct Bomb;

impl Wake for Bomb {
    fn wake(self: Arc<Self>) {
        panic!("a task exploded");
    }
}

#[test]
fn a_task_that_panics_as_it_is_woken_harms_no_other() {
    const LONG: Duration = Duration::from_secs(20);
    let (client, server) = endpoints(EndpointConfig::default());
    let waker = Waker::from(Arc::new(Bomb));
    let mut bomb = Box::pin(client.wait(|_| None::<()>));
    assert!(bomb.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    let (told, tells) = mpsc::channel();
    thread::spawn({
        let client = client.clone();
        move || {
            for number in 0..2 {
                let task = client.wait(|inbox| inbox.received.contains(&number).then_some(()));
                told.send(pollster::block_on(task).is_ok()).unwrap();
            }
        }
    });
    // By the worker, who goes on.
    send(&server, 0);
    assert_eq!(tells.recv_timeout(LONG), Ok(true));
    send(&server, 1);
    assert_eq!(tells.recv_timeout(LONG), Ok(true));
    // By a thread, which gets what it has waited for.
    assert!(bomb.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    send(&server, 2);
    let result = client.wait_until(|inbox| inbox.received.contains(&2).then_some(()), Some(Instant::now() + LONG));
    assert!(result.is_ok());
}

#[test]
fn tasks_and_threads_share_an_endpoint() {
    let (client, server) = endpoints(EndpointConfig::default());
    thread::scope(|scope| {
        scope.spawn(|| echo(&server, 1_000));
        scope.spawn(|| {
            pollster::block_on(async {
                for number in 0..1_000 {
                    client.wait(|inbox| inbox.acked.remove(&number).then_some(())).await.unwrap();
                }
            });
        });
        for number in 0..1_000 {
            send(&client, number);
            receive(&client, number).unwrap();
        }
    });
}

#[test]
fn an_event_loop_is_told_by_the_readiness_descriptor() {
    use std::os::fd::AsRawFd;
    let (client, server) = endpoints(EndpointConfig::default());
    let fd = client.readiness_fd().unwrap().as_raw_fd();
    let readable = |timeout: i32| {
        let mut entry = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry, which lives through the call.
        unsafe { libc::poll(&raw mut entry, 1, timeout) == 1 }
    };
    assert!(!readable(0));
    for number in 0..50 {
        send(&server, number);
        assert!(readable(20_000));
        client.clear_readiness();
        assert!(client.inspect(|_, _, inbox| inbox.received.remove(&number)));
        assert!(!readable(0));
    }
    client.shutdown();
    assert!(readable(20_000), "a failure is something to be told of");
}

#[test]
fn dropping_with_work_outstanding_returns_promptly() {
    for worker in [false, true] {
        let (client, server) = endpoints(EndpointConfig { worker, ..EndpointConfig::default() });
        drop(server);
        client.call(|c| (0..100).for_each(|number| c.engine.send(number))).unwrap();
        thread::sleep(Duration::from_millis(5));
        let before = Instant::now();
        drop(client);
        assert!(before.elapsed() < Duration::from_secs(2));
    }
}

#[test]
fn shutdown_wakes_all_who_wait() {
    for idle in [Idle::Block, Idle::Spin] {
        let (client, _server) = endpoints(EndpointConfig { idle, ..EndpointConfig::default() });
        thread::scope(|scope| {
            let waits: Vec<_> = (0..3)
                .map(|number| {
                    scope.spawn({
                        let client = &client;
                        move || receive(client, number)
                    })
                })
                .collect();
            let task =
                scope.spawn(|| pollster::block_on(client.wait(|inbox| inbox.received.contains(&9).then_some(()))));
            thread::sleep(Duration::from_millis(20));
            client.shutdown();
            for wait in waits {
                assert!(matches!(wait.join().unwrap(), Err(WaitError::Endpoint(EndpointError::ShutDown))));
            }
            assert!(matches!(task.join().unwrap(), Err(EndpointError::ShutDown)));
        });
        assert!(matches!(client.call(|_| ()), Err(EndpointError::ShutDown)));
    }
}

#[test]
fn a_failing_link_fails_all_who_wait() {
    let (mut a, b) = PairLink::pair();
    a.broken = true;
    let client = endpoint(a, alone(Idle::Block));
    thread::scope(|scope| {
        let waits: Vec<_> = (0..3)
            .map(|number| {
                scope.spawn({
                    let client = &client;
                    move || receive(client, number)
                })
            })
            .collect();
        thread::sleep(Duration::from_millis(20));
        b.inject(&[0xFF]);
        for wait in waits {
            assert!(is_failure(&wait.join().unwrap().unwrap_err()));
        }
    });
    assert!(client.call(|_| ()).unwrap_err().to_string().contains("the cable is cut"));
}

#[test]
fn a_panic_in_the_engine_fails_the_others_instead_of_hanging_them() {
    for worker in [false, true] {
        let (client, server) = endpoints(EndpointConfig { idle: Idle::Block, worker, ..EndpointConfig::default() });
        client.call(|c| c.state.outstanding = true).unwrap();
        thread::scope(|scope| {
            let waits: Vec<_> = (0..3)
                .map(|number| {
                    scope.spawn({
                        let client = &client;
                        move || receive(client, number)
                    })
                })
                .collect();
            eventually("one drives", || client.counters().application_drives == 1);
            server.call(|c| c.engine.bomb = true).unwrap();
            let results: Vec<_> = waits.into_iter().map(|wait| wait.join()).collect();
            assert_eq!(results.iter().filter(|result| result.is_err()).count(), 1, "the driver's own panic");
            for result in results.into_iter().flatten() {
                assert!(matches!(result, Err(WaitError::Endpoint(EndpointError::Panicked))));
            }
        });
        assert!(matches!(client.call(|_| ()), Err(EndpointError::Panicked)));
    }
}

#[test]
fn a_panic_in_a_condition_hands_over() {
    let (client, server) = endpoints(alone(Idle::Block));
    thread::scope(|scope| {
        let first = scope.spawn(|| {
            client.wait_until(|inbox| -> Option<()> { inbox.received.contains(&1).then(|| panic!("mine")) }, soon())
        });
        thread::sleep(Duration::from_millis(20));
        let second = scope.spawn(|| receive(&client, 2).unwrap());
        thread::sleep(Duration::from_millis(20));
        send(&server, 1);
        assert!(first.join().is_err());
        send(&server, 2);
        assert!(second.join().unwrap());
    });
}

#[test]
fn a_full_link_is_resumed_when_it_can_be_written_to() {
    for idle in [Idle::Block, Idle::ADAPTIVE, Idle::Spin] {
        let (client, server) = endpoints(alone(idle));
        // More than the socket takes; nobody reads yet.
        client.call(|c| (0..5_000).for_each(|number| c.engine.send(number))).unwrap();
        assert!(client.driver_counters().trains_held > 0);
        thread::scope(|scope| {
            let sender = scope.spawn(|| {
                client.wait_until(|inbox| (inbox.acked.len() == 5_000).then_some(()), soon()).unwrap();
            });
            thread::sleep(Duration::from_millis(5));
            while !sender.is_finished() {
                let _ = server.wait_until(|_| None::<()>, Some(Instant::now() + Duration::from_millis(10)));
            }
        });
        assert_eq!(server.inspect(|_, _, inbox| inbox.received.len()), 5_000);
    }
}

#[test]
fn the_worker_resumes_a_full_link() {
    let (client, server) = endpoints(EndpointConfig { idle: Idle::Block, ..EndpointConfig::default() });
    client.call(|c| (0..2_000).for_each(|number| c.engine.send(number))).unwrap();
    assert!(client.driver_counters().trains_held > 0);
    server.call(|c| c.state.outstanding = true).unwrap();
    eventually("acknowledged", || client.inspect(|_, _, inbox| inbox.acked.len() == 2_000));
}
