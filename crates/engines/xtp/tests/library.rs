//! The protocol machine as a library (specs/xtp.md, X-1): all that it needs below it are datagrams.

mod direct;

use direct::Pair;
use pinnace_xtp::Service;

//= X-1 test
#[test]
fn nothing_below_it_but_what_hands_datagrams_over() {
    let manifest = include_str!("../Cargo.toml");
    let (_, rest) = manifest.split_once("[dependencies]\n").expect("a table of them");
    let names: Vec<&str> =
        rest.lines().take_while(|line| !line.is_empty()).filter_map(|it| it.split('.').next()).collect();
    assert_eq!(names, ["pinnace-core", "pinnace-wire"], "no link, no socket, no clock");
    // Two of them, whose datagrams a test carries.
    let mut pair = Pair::new(4);
    pair.open(2, Service::Transaction);
    assert_eq!((pair.accepted.len(), pair.packets > 0), (2, true));
}
