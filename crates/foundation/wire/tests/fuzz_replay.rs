//! Everything that fuzzing found worth keeping, again, on the stable compiler: `fuzz/corpus/xtp_codec/`; and packets with
//! random faults.

#[path = "fuzz/mod.rs"]
mod fuzz;

use fuzz::xtp_codec;
use pinnace_testing::corpus;

#[test]
fn the_corpus() {
    corpus::replay("xtp_codec", xtp_codec);
}

#[test]
fn any_bytes() {
    corpus::random("xtp_codec", xtp_codec, 20_000, 300);
}

/// The packets of the published vectors, each behind the byte that chooses its codec.
#[test]
fn packets_with_faults() {
    let mut inputs = Vec::new();
    for (name, flags) in [("xtp40", fuzz::SEALED), ("xtp36", fuzz::SEALED | fuzz::XTP36)] {
        inputs.extend(corpus::vectors(name).iter().map(|packet| [&[flags], &packet[..]].concat()));
    }
    assert!(inputs.len() > 150, "{} vectors", inputs.len());
    corpus::faulty(xtp_codec, &inputs, 400);
}
