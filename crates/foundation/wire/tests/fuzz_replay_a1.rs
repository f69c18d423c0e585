//! Everything that fuzzing found worth keeping, again, on the stable compiler: `fuzz/corpus/a1_codec/`; and datagrams with
//! random faults.

#[path = "fuzz/a1.rs"]
mod fuzz;

use std::path::Path;

fn run(name: &str, input: &[u8]) {
    let result = std::panic::catch_unwind(|| fuzz::codec(input));
    assert!(result.is_ok(), "{name} fails: {input:02x?}");
}

/// The same numbers in every run (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}

/// The datagrams of the published vectors, each behind the byte that says what to do with it.
fn vectors() -> Vec<Vec<u8>> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../specs/vectors/a1.txt");
    let text = std::fs::read_to_string(path).unwrap();
    let mut inputs = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some((hex, _)) = line.split_once(" -> ") else { continue };
        let digits: String = hex.chars().filter(char::is_ascii_hexdigit).collect();
        let digits = if hex == "(empty)" { String::new() } else { digits };
        let bytes = (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap());
        let datagram: Vec<u8> = bytes.collect();
        inputs.extend([0, fuzz::SEALED].map(|flags| [&[flags], &datagram[..]].concat()));
    }
    assert!(inputs.len() > 500, "{} vectors", inputs.len());
    inputs
}

#[test]
fn the_corpus() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus/a1_codec");
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut count = 0;
    for entry in entries {
        let path = entry.unwrap().path();
        run(&path.display().to_string(), &std::fs::read(&path).unwrap());
        count += 1;
    }
    assert!(count > 20, "{} holds {count} inputs", folder.display());
}

#[test]
fn any_bytes() {
    let mut random = Random(1);
    for _ in 0..20_000 {
        let len = random.below(300);
        let input: Vec<u8> = (0..len).map(|_| random.next() as u8).collect();
        run("random", &input);
    }
}

#[test]
fn datagrams_with_faults() {
    let mut random = Random(2);
    for input in vectors() {
        run("vector", &input);
        for _ in 0..200 {
            let mut faulty = input.clone();
            for _ in 0..1 + random.below(4) {
                let at = random.below(faulty.len());
                match random.below(6) {
                    0 => faulty[at] = random.next() as u8,
                    1 => faulty[at] ^= 1 << random.below(8),
                    2 => faulty[at] = [0, 1, 0x7f, 0x80, 0xff][random.below(5)],
                    3 => faulty.truncate(at.max(1)),
                    4 => faulty.extend((0..random.below(200)).map(|_| random.next() as u8)),
                    _ => faulty.insert(at, random.next() as u8),
                }
            }
            run("a datagram with faults", &faulty);
        }
    }
}
