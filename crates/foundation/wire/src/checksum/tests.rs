extern crate std;

use std::vec::Vec;

use super::*;

#[test]
fn the_vectors_hold() {
    let path = std::concat!(std::env!("CARGO_MANIFEST_DIR"), "/../../../specs/vectors/cxor.txt");
    let vectors = std::fs::read_to_string(path).unwrap();
    let mut count = 0;
    for line in vectors.lines().filter(|line| !line.starts_with('#')) {
        let (input, value) = line.split_once(" -> ").unwrap();
        let input = if input == "(empty)" { "" } else { input };
        let bytes: Vec<u8> =
            (0..input.len()).step_by(2).map(|at| u8::from_str_radix(&input[at..at + 2], 16).unwrap()).collect();
        let value = u32::from_str_radix(&value.replace(' ', ""), 16).unwrap();
        assert_eq!(cxor(&bytes), value, "{line}");
        assert_eq!(paper::std(&bytes), value, "{line}");
        count += 1;
    }
    assert_eq!(count, 20);
}
