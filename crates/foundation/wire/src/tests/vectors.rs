//! The published vectors (`specs/vectors`), for the tests of each protocol.

extern crate std;
use std::string::String;
use std::vec::Vec;
use std::{format, fs};

/// One line of the published vectors.
pub(crate) struct Vector {
    pub(crate) bytes: Vec<u8>,
    /// A writer writes exactly this.
    pub(crate) exact: bool,
    /// What a reader makes of it.
    pub(crate) reading: String,
}

/// Those of this name: as many as `least`, or more.
pub(crate) fn vectors(name: &str, least: usize) -> Vec<Vector> {
    let path = format!("{}/../../../specs/vectors/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(path).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let vectors: Vec<Vector> = lines.map(vector).collect();
    assert!(vectors.len() >= least, "{} vectors of {name}", vectors.len());
    vectors
}

fn vector(line: &str) -> Vector {
    let (hex, reading) = line.split_once(" -> ").unwrap();
    let digits: String = if hex == "(empty)" { String::new() } else { hex.split(' ').collect() };
    let bytes = (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect();
    let (exact, reading) = match (reading.strip_prefix("exact "), reading.strip_prefix("read ")) {
        (Some(reading), _) => (true, reading),
        (_, Some(reading)) => (false, reading),
        _ => (false, reading),
    };
    Vector { bytes, exact, reading: reading.into() }
}

/// As the vectors have bytes.
pub(crate) fn hex(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "(empty)".into();
    }
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
