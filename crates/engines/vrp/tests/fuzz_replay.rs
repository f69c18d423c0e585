//! What fuzzing of VRP found worth keeping, again, and inputs that nobody chose.

mod fuzz;

use pinnace_testing::corpus::{random, replay};

#[test]
fn packets() {
    replay("vrp_codec", fuzz::codec);
    random("vrp_codec", fuzz::codec, 20_000, 500);
}

#[test]
fn an_outgoing_endpoint() {
    //= V-S11 test
    replay("vrp_outgoing", fuzz::outgoing);
    random("vrp_outgoing", fuzz::outgoing, 1000, 500);
}

#[test]
fn an_incoming_endpoint() {
    //= V-R13 test
    //= V-R20 test
    replay("vrp_incoming", fuzz::incoming);
    random("vrp_incoming", fuzz::incoming, 1000, 500);
}

#[test]
fn both_against_each_other() {
    //= V-R18 test
    replay("vrp_pair", fuzz::pair);
    random("vrp_pair", fuzz::pair, 300, 500);
}
