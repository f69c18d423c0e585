//! The one interface: the same test body over every method.
#![allow(clippy::print_stdout)] // A test at random says its seed.

mod announced;
mod best_effort;
mod body;
mod choices;
mod errors;
mod full;
#[allow(dead_code, reason = "shared with other tests")]
#[path = "../../src/inline.rs"]
mod inline;
mod lossy;
mod multicast;
mod refused;
#[cfg(target_os = "linux")] // Other systems limit neither so.
mod short_of;
mod tasks;
mod too_long;

use body::{Pair, duplex, pair_of, pair_with};
use pinnace::EndpointOptions;
use pinnace::service::Method;
use std::time::Duration;

macro_rules! over_every_method {
    ($($name:ident: $method:expr, $changes:expr;)*) => {
        $(
            mod $name {
                use super::*;

                fn pair() -> Pair {
                    pair_of($method, &duplex())
                }

                #[test]
                fn messages_of_all_sizes_arrive_both_ways() {
                    body::sizes(&pair());
                }

                #[test]
                fn what_was_sent_comes_back_and_says_that_it_has_arrived() {
                    body::deliveries(&pair());
                }

                #[test]
                fn whoever_may_be_silent_for_ever_is_served_as_others_are() {
                    let (peer_timeout, connect_timeout) = (Duration::MAX, Some(Duration::MAX));
                    let options = EndpointOptions { peer_timeout, connect_timeout, ..EndpointOptions::default() };
                    body::deliveries(&pair_with($method, &duplex(), &options));
                }

                #[test]
                fn what_was_carried_is_counted() {
                    body::statistics(&pair());
                }

                #[test]
                fn parts_of_a_message_lie_where_they_like() {
                    body::parts(&pair());
                }

                #[test]
                fn many_are_under_way_and_keep_their_order() {
                    body::order(&pair());
                }

                #[test]
                fn a_queue_that_is_full_makes_nobody_wait_who_must_not() {
                    let Pair { client, server, _endpoint } = pair();
                    for len in [1 << 20, 5000] {
                        full::full(&client, &server, len);
                    }
                }

                #[test]
                fn whoever_closes_a_full_queue_waits_no_longer_than_it_said() {
                    full::closing([pair(), pair()].map(|it| (it.client, it.server, it._endpoint)));
                }

                #[test]
                fn an_end_that_nobody_waits_for_is_told() {
                    full::ends_by_itself([pair(), pair(), pair()].map(|it| (it.client, it.server, it._endpoint)));
                }

                #[test]
                fn memory_of_the_caller_is_received_into() {
                    body::into_memory(&pair());
                }

                #[test]
                fn requests_are_answered() {
                    body::transactions(pair());
                }

                #[test]
                fn what_is_broken_off_does_not_look_complete() {
                    body::breaks_off(pair());
                    body::breaks_off_in_the_middle(pair());
                    body::breaks_off_what_comes(pair());
                }

                #[test]
                fn whoever_only_receives_may_break_off_behind_its_end() {
                    // Over VRP, one way, nobody answers any more, and the sender finds out by that.
                    let options = EndpointOptions { peer_timeout: Duration::from_secs(2), ..EndpointOptions::default() };
                    body::breaks_off_what_only_comes(|service| {
                        pair_with($method, &service.parse().unwrap(), &options)
                    });
                }

                #[test]
                fn whoever_asks_finds_out_that_the_peer_has_gone() {
                    body::checks(pair());
                }

                #[test]
                fn whoever_waits_for_the_end_is_told_that_it_is_broken_off() {
                    full::breaks_off(|| {
                        let Pair { client, server, _endpoint } = pair();
                        (client, server, _endpoint)
                    });
                }

                #[test]
                fn whoever_waits_for_room_is_told_that_another_thread_closes() {
                    full::is_closed_here(|| {
                        let Pair { client, server, _endpoint } = pair();
                        (client, server, _endpoint)
                    });
                }

                #[test]
                fn whoever_waits_is_told_that_another_thread_breaks_off() {
                    full::is_broken_off_here(|| {
                        let Pair { client, server, _endpoint } = pair();
                        (client, server, _endpoint)
                    });
                }

                #[test]
                fn a_task_may_run_in_the_call_that_breaks_off() {
                    // What the window of A1 takes has arrived, whether somebody receives it or not.
                    if $method != Method::A1 {
                        let Pair { client, server, _endpoint } = pair();
                        tasks::breaks_off_beside_a_task((client, server, _endpoint));
                    }
                }

                #[test]
                fn a_task_may_send_in_a_call_that_sends() {
                    let Pair { client, server, _endpoint } = pair();
                    tasks::sends_beside_tasks((client, server, _endpoint));
                }

                #[test]
                fn the_end_is_told_and_nothing_is_lost_before_it() {
                    body::ends(pair());
                }

                #[test]
                fn what_has_arrived_is_received_however_long_the_sender_has_been_gone() {
                    // Small messages: where buffers are posted for them, there are enough for all.
                    let service = "direction=duplex largest=60KiB".parse().unwrap();
                    body::outlives(&|options| pair_with($method, &service, options));
                }

                #[test]
                fn what_is_sent_while_somebody_closes_arrives_or_fails() {
                    for _ in 0..20 {
                        body::closing_meanwhile(pair());
                    }
                }

                #[test]
                fn bytes_flow_as_a_stream() {
                    body::streams(pair());
                }

                #[test]
                fn tasks_do_the_same() {
                    body::tasks(pair());
                }

                #[test]
                fn the_service_changes_while_messages_flow() {
                    body::changes(&pair(), $changes);
                }

                #[test]
                fn nothing_to_receive_is_a_time_out_and_the_descriptor_tells_when_there_is() {
                    body::descriptors(&pair());
                }
            }
        )*
    };
}

over_every_method! {
    xtp: Method::Xtp, &["rate=400mbit burst=128KiB", "priority=3", "rate=800mbit burst=64KiB priority=200", ""];
    qmp: Method::Qmp, &["priority=3", "deadline=1s", ""];
    zcrp: Method::Zcrp, &["priority=3", "deadline=1s", "prefer=throughput"];
    vrp: Method::Vrp, &["loss=5% run=16KiB", "", "loss=20% run=64KiB critical=0..4", "lifespan=20s"];
    a1: Method::A1, &["rate=400mbit burst=128KiB", "priority=3", "rate=800mbit burst=256KiB priority=200", ""];
}

#[test]
fn who_has_gone_before_it_is_accepted_has_lost_nothing() {
    // A ZCRP sender waits until it is asked.
    for method in [Method::Xtp, Method::Qmp, Method::Vrp, Method::A1] {
        body::goes_before_it_is_accepted(method);
    }
}
