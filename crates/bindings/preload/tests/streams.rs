//! What a connection does, with the library at both ends, at one, and at none.
//!
//= Q-13 test

mod support;

use support::{MIXES, program, run};

/// One test for each case of a program: IPv4 in every mix, and what else an address can be where both ends have the library.
macro_rules! cases {
    ($($case:ident: $program:literal, $name:literal;)*) => {
        $(
            #[test]
            fn $case() {
                let Some(program) = program($program) else { return };
                for mix in MIXES {
                    run(&program, $name, mix, &[]);
                }
                for environment in [("PINNACE_FAMILY", "6"), ("PINNACE_FAMILY", "mapped"), ("PINNACE_ANY", "1")] {
                    run(&program, $name, MIXES[0], &[environment]);
                }
            }
        )*
    };
}

cases! {
    both_ends_know_both_addresses: "streams", "names";
    a_port_that_was_chosen_is_kept: "streams", "chosen";
    options_are_those_of_tcp: "streams", "options";
    each_direction_ends_by_itself: "streams", "shutdown";
    unread_bytes_are_a_reset: "streams", "reset";
    a_close_that_lingers: "streams", "linger";
    writing_to_nobody_fails: "streams", "gone";
    time_outs: "streams", "timeout";
    flags_of_receiving: "streams", "flags";
    messages_with_addresses: "streams", "messages";
    no_descriptors_come_with_the_bytes: "streams", "rights";
    connecting_with_the_first_bytes: "streams", "fast";
    files_are_sent: "streams", "sendfile";
    much_is_said_before_anything_is_read: "streams", "ahead";
    a_length_without_room_for_an_address: "streams", "nameless";
    bytes_are_discarded: "streams", "discard";
    bytes_are_looked_at_before_they_are_there: "streams", "ahead-of-time";
}
