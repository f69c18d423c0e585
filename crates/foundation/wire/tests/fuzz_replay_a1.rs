//! Everything that fuzzing found worth keeping, again, on the stable compiler: `fuzz/corpus/a1_codec/`; and datagrams with
//! random faults.

#[path = "fuzz/a1.rs"]
mod fuzz;

use pinnace_testing::corpus;

#[test]
fn the_corpus() {
    let count = corpus::replay("a1_codec", fuzz::codec);
    assert!(count > 20, "{count} inputs");
}

#[test]
fn any_bytes() {
    corpus::random("a1_codec", fuzz::codec, 20_000, 300);
}

/// The datagrams of the published vectors, each behind the byte that says what to do with it.
#[test]
fn datagrams_with_faults() {
    let flagged = |datagram: &Vec<u8>| [0, fuzz::SEALED].map(|flags| [&[flags], &datagram[..]].concat());
    let inputs: Vec<_> = corpus::vectors("a1").iter().flat_map(flagged).collect();
    assert!(inputs.len() > 500, "{} vectors", inputs.len());
    corpus::faulty(fuzz::codec, &inputs, 200);
}
