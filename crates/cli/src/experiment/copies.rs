//! E-X1, what else the XTP paper says of the price of a checksum: summed in the pass of a copy (section 1.3), and the
//! operations that the plain loop consists of (table 3.2).

use super::Run;
use super::clock::{self, Time, Timed, over};
use crate::exit::Error;
use crate::perf::size_name;
use pinnace_wire::checksum::{cxor, cxor_copy, internet, internet_copy};
use serde::Serialize;
use std::hint::black_box;

/// Copy and checksum in one pass to both one after the other, as the paper quotes it.
const PAPER_FUSED: f64 = 1.5;

/// One way to copy and to sum.
struct Way {
    name: &'static str,
    /// The way that does the same in two passes.
    apart: Option<usize>,
    run: fn(&[u8], &mut [u8]) -> u64,
}

const WAYS: [Way; 5] = [
    Way { name: "copy", apart: None, run: |from, to| two_passes(from, to, |_| 0) },
    Way { name: "copy, then cxor", apart: None, run: |from, to| two_passes(from, to, |copy| cxor(copy).into()) },
    Way { name: "copy and cxor", apart: Some(1), run: |from, to| cxor_copy(from, to).into() },
    Way {
        name: "copy, then internet",
        apart: None,
        run: |from, to| two_passes(from, to, |copy| internet(copy).into()),
    },
    Way { name: "copy and internet", apart: Some(3), run: |from, to| internet_copy(from, to).into() },
];

fn two_passes(from: &[u8], to: &mut [u8], sum: impl FnOnce(&[u8]) -> u64) -> u64 {
    to.copy_from_slice(from);
    // Or the compiler might sum what it copies.
    sum(black_box(to))
}

/// An operation on a short word.
struct Operation {
    name: &'static str,
    /// Microseconds in table 3.2: Sun 3/60, Sparc IPX, DEC 5000/200.
    paper: Option<[f64; 3]>,
}

const OPERATIONS: [Operation; 3] = [
    Operation { name: "rotate(x,1)", paper: Some([6.24, 1.00, 0.687]) },
    Operation { name: "short XOR", paper: Some([4.00, 0.88, 0.445]) },
    Operation { name: "the loop", paper: None },
];
/// Operations of a call.
const TIMES: usize = 1000;

/// One row as JSON: a copy.
#[derive(Serialize)]
struct Copied<'a> {
    event: &'static str,
    experiment: &'a str,
    copy: &'a str,
    size: usize,
    gb_s: f64,
    gb_s_min: f64,
    gb_s_max: f64,
    nanoseconds: f64,
    /// Times the speed of the same in two passes.
    ratio_apart: Option<f64>,
    paper_ratio_apart: Option<f64>,
}

/// One row as JSON: an operation.
#[derive(Serialize)]
struct Operated<'a> {
    event: &'static str,
    experiment: &'a str,
    operation: &'a str,
    nanoseconds: f64,
    nanoseconds_min: f64,
    nanoseconds_max: f64,
    /// Table 3.2.
    paper_us: Option<[f64; 3]>,
}

/// Measures both, and prints what was seen.
pub(super) fn run(run: &Run<'_>, bytes: &[u8], sizes: &[usize]) -> Result<(), Error> {
    agree(&bytes[..sizes[0]])?;
    run.say(format_args!(
        "\n{:>8}  {:<20} {:>9} {:>21} {:>8}  paper: x apart",
        "block", "with a copy", "GB/s", "(min .. max)", "x apart"
    ));
    for &size in sizes {
        crate::interrupt::check()?;
        let mut runs: Vec<Timed<'_>> = WAYS.iter().map(|way| copying(&bytes[..size], way.run)).collect();
        print_copies(run, size, &clock::measure(&mut runs, clock::rounds(run.effort)));
    }
    crate::interrupt::check()?;
    let mut runs = [again(|x| x.rotate_left(1)), again(|x| x ^ 0x5a17), again(|x| x)];
    print_operations(run, &clock::measure(&mut runs, clock::rounds(run.effort)));
    Ok(())
}

/// Fails unless all copies are whole, and what is summed in one pass is what is summed in two.
fn agree(bytes: &[u8]) -> Result<(), Error> {
    let copied: Vec<(u64, bool)> = WAYS
        .iter()
        .map(|way| {
            let mut copy = vec![0; bytes.len()];
            ((way.run)(bytes, &mut copy), copy == bytes)
        })
        .collect();
    let is_right = |way: &Way, (sum, whole): (u64, bool)| whole && way.apart.is_none_or(|apart| copied[apart].0 == sum);
    if WAYS.iter().zip(&copied).all(|(way, copied)| is_right(way, *copied)) {
        Ok(())
    } else {
        Err(Error::not_verified(format!("a checksum and a copy in one pass are wrong: {copied:x?}; please report it")))
    }
}

/// Copies these again and again to one place.
fn copying<'a>(from: &'a [u8], run: fn(&[u8], &mut [u8]) -> u64) -> Timed<'a> {
    let mut to = vec![0; from.len()];
    Box::new(move |repeats| {
        for _ in 0..repeats {
            black_box(run(black_box(from), black_box(&mut to)));
        }
    })
}

/// An operation in a loop, each on the result of the one before, which goes through memory: so the compiler does not make one of
/// them all.
fn again(operation: impl Fn(u16) -> u16 + 'static) -> Timed<'static> {
    over(&1u16, move |&first| (0..TIMES).fold(first, |x, _| black_box(operation(black_box(x)))))
}

fn print_copies(run: &Run<'_>, size: usize, times: &[Time]) {
    for (way, time) in WAYS.iter().zip(times) {
        let line = Copied {
            event: "row",
            experiment: run.name,
            copy: way.name,
            size,
            gb_s: time.gb_s(size),
            gb_s_min: size as f64 / time.high,
            gb_s_max: size as f64 / time.low,
            nanoseconds: time.median,
            ratio_apart: way.apart.map(|apart| times[apart].median / time.median),
            paper_ratio_apart: way.apart.map(|_| PAPER_FUSED),
        };
        let ratio = |ratio: Option<f64>| ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}"));
        let text = format!(
            "{:>8}  {:<20} {:>9.2} {:>21} {:>8}  {}",
            size_name(size),
            way.name,
            line.gb_s,
            format!("({:.2} .. {:.2})", line.gb_s_min, line.gb_s_max),
            ratio(line.ratio_apart),
            ratio(line.paper_ratio_apart),
        );
        run.output.result(text.trim_end(), &line);
    }
}

fn print_operations(run: &Run<'_>, times: &[Time]) {
    run.say(format_args!("\n{:<12} {:>9} {:>21}  paper: us", "operation", "ns", "(min .. max)"));
    for (operation, time) in OPERATIONS.iter().zip(times) {
        let each = |time: f64| time / TIMES as f64;
        let line = Operated {
            event: "row",
            experiment: run.name,
            operation: operation.name,
            nanoseconds: each(time.median),
            nanoseconds_min: each(time.low),
            nanoseconds_max: each(time.high),
            paper_us: operation.paper,
        };
        let paper = line.paper_us.map_or_else(String::new, |[a, b, c]| format!("{a:.2}, {b:.2}, {c:.3}"));
        let range = format!("({:.2} .. {:.2})", line.nanoseconds_min, line.nanoseconds_max);
        let text = format!("{:<12} {:>9.2} {range:>21}  {paper}", operation.name, line.nanoseconds);
        run.output.result(text.trim_end(), &line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_pass_does_what_two_do_at_every_length() {
        let bytes: Vec<u8> = (0..600u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        for length in 0..bytes.len() {
            assert!(agree(&bytes[..length]).is_ok(), "{length}");
        }
    }
}
