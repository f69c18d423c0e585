//! What becomes of descriptors, with the library at both ends, at one, and at none.
//!
//= Q-13 test

mod support;

use support::{MIXES, program, run};

macro_rules! cases {
    ($($case:ident: $name:literal;)*) => {
        $(
            #[test]
            fn $case() {
                let Some(program) = program("descriptors") else { return };
                for mix in MIXES {
                    run(&program, $name, mix, &[]);
                }
                run(&program, $name, MIXES[0], &[("PINNACE_FAMILY", "mapped")]);
            }
        )*
    };
}

cases! {
    poll: "poll";
    select: "select";
    epoll_by_level: "level";
    epoll_by_edge: "edge";
    listeners_are_waited_for: "await";
    registered_before_it_is_connected: "early";
    workers_share_a_listener: "fork";
    duplicates_of_a_listener: "dup";
    listeners_survive_exec: "exec";
    listeners_survive_an_emptied_environment: "emptied";
    closing_what_one_does_not_know: "sweep";
    threads_accept_at_once: "threads";
    signals_and_cancellation: "signal";
    listeners_share_a_port: "share";
    exec_closes_what_no_descriptor_keeps: "flags";
    a_child_in_its_parents_memory: "borrow";
    a_listener_is_given_to_a_child: "spawn";
    a_listener_pauses: "pause";
}
