//! E-X1: speeds of the checksums (the XTP paper's table 3.1): what TCP and ISO TP4 have, the paper's five ways to compute
//! CXOR, and Pinnace's, beside a pass that only reads. What else the paper says of their price is in [`copies`].

use super::Run;
use super::clock::{self, Time, Timed, over};
use super::copies;
use super::figure::{Bar, Bars, Dotted, Group, Ratios, Sides};
use crate::exit::Error;
use crate::perf::{progress, size_name, span};
use crate::picture::COLOURS;
use crate::units::count_of;
use fearless_simd::{Level, Simd, SimdBase, dispatch, u8x64};
use pinnace_wire::checksum::{cxor, fletcher, internet, paper};
use serde::Serialize;

/// Bytes of a block: a packet, what lies in the first cache, and what does not.
const SIZES: [usize; 3] = [1_400, 4 << 10, 512 << 10];
/// The two that the issue of speed is decided by, and that are drawn.
const DRAWN: [usize; 2] = [1, 2];
/// `op4` to `std`, over the paper's three machines.
const PAPER_OP4_TO_STD: (f64, f64) = (12.7, 24.5);
/// `op4` to TCP's checksum.
const PAPER_OP4_TO_TCP: (f64, f64) = (5.7, 12.9);
/// What Pinnace's must reach: times `std`, and of a pass that only reads.
const BARS: (f64, f64) = (40.0, 0.8);

/// One way to sum.
struct Way {
    name: &'static str,
    /// Below its bar.
    short: &'static str,
    /// Mbit/s in table 3.1: Sun 3/60, Sparc IPX, DEC 5000/200.
    paper: Option<[f64; 3]>,
    sum: fn(&[u8]) -> u64,
}

const WAYS: [Way; 10] = [
    Way { name: "internet, a loop", short: "Internet", paper: Some([2.61, 13.3, 30.52]), sum: internet_loop },
    Way { name: "fletcher, a loop", short: "Fletcher", paper: Some([1.21, 6.50, 10.69]), sum: |b| fletcher(b).into() },
    Way { name: "cxor std", short: "std", paper: Some([1.36, 7.02, 13.67]), sum: |b| paper::std(b).into() },
    Way { name: "cxor op1", short: "op1", paper: Some([1.46, 6.83, 10.93]), sum: |b| paper::op1(b).into() },
    Way { name: "cxor op2", short: "op2", paper: Some([2.95, 16.54, 36.96]), sum: |b| paper::op2(b).into() },
    Way { name: "cxor op3", short: "op3", paper: Some([5.78, 31.25, 66.06]), sum: |b| paper::op3(b).into() },
    Way { name: "cxor op4", short: "op4", paper: Some([22.59, 172.05, 173.53]), sum: |b| paper::op4(b).into() },
    Way { name: "cxor, pinnace", short: "Pinnace", paper: None, sum: |b| cxor(b).into() },
    Way { name: "internet, pinnace", short: "Internet*", paper: None, sum: |b| internet(b).into() },
    Way { name: "read only", short: "read only", paper: None, sum: read_only },
];
const TCP: usize = 0;
const STD: usize = 2;
const OP4: usize = 6;
const OURS: usize = 7;
const READ: usize = 9;

/// The Internet checksum word after word, as TCP had it then; left to the compiler as it is.
fn internet_loop(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<2>();
    let mut sum = 0u64;
    for &word in words {
        sum += u64::from(u16::from_ne_bytes(word));
    }
    for &last in rest {
        sum += u64::from(u16::from_ne_bytes([last, 0]));
    }
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    u64::from((!sum as u16).to_be())
}

/// A pass that only reads: the exclusive-or of everything, in the widest words that there are.
fn read_only(bytes: &[u8]) -> u64 {
    #[inline(always)]
    fn turns<S: Simd>(simd: S, turns: &[[u8; 256]]) -> [u8; 64] {
        let mut folded = [u8x64::splat(simd, 0); 4];
        for turn in turns {
            for (folded, vector) in folded.iter_mut().zip(turn.as_chunks::<64>().0) {
                *folded ^= u8x64::from_slice(simd, vector);
            }
        }
        let mut lanes = [0; 64];
        ((folded[0] ^ folded[1]) ^ (folded[2] ^ folded[3])).store_slice(&mut lanes);
        lanes
    }
    let (blocks, rest) = bytes.as_chunks::<256>();
    let lanes = dispatch!(Level::new(), simd => turns(simd, blocks));
    let words = lanes.as_chunks::<8>().0.iter().chain(rest.as_chunks::<8>().0);
    words.fold(0, |all, word| all ^ u64::from_ne_bytes(*word))
}

/// One row as JSON.
#[derive(Serialize)]
struct Line<'a> {
    event: &'static str,
    experiment: &'a str,
    checksum: &'a str,
    size: usize,
    gb_s: f64,
    gb_s_min: f64,
    gb_s_max: f64,
    nanoseconds: f64,
    /// Times the speed of the paper's `std`.
    ratio_std: f64,
    /// Of the speed of a pass that only reads.
    ratio_read: f64,
    /// Times `std` on the paper's three machines.
    paper_ratio_std: Option<[f64; 3]>,
    /// Table 3.1.
    paper_mbit_s: Option<[f64; 3]>,
}

/// The last line of JSON.
#[derive(Serialize)]
struct Summary<'a> {
    experiment: &'a str,
    event: &'static str,
    /// The paper's fastest against its slowest, and against TCP's: least and most over the sizes.
    op4_to_std: (f64, f64),
    op4_to_tcp: (f64, f64),
    paper_op4_to_std: (f64, f64),
    paper_op4_to_tcp: (f64, f64),
    /// Pinnace's against `std` and against a pass that only reads: the least of 4 KiB and 512 KiB.
    ratio_std: f64,
    ratio_read: f64,
    bar_std: f64,
    bar_read: f64,
    /// Pinnace's is at least as far above `std` as the paper's fastest was anywhere, and both bars are reached.
    reached: bool,
    quick: bool,
}

/// The times of one size, in the order of [`WAYS`].
struct Block {
    size: usize,
    times: Vec<Time>,
}

impl Block {
    /// How many times as fast the one way is as the other.
    fn ratio(&self, way: usize, other: usize) -> f64 {
        self.times[other].median / self.times[way].median
    }
}

/// Runs it.
pub(super) fn run(run: &Run<'_>) -> Result<(), Error> {
    let rounds = clock::rounds(run.effort);
    run.begin("speeds of checksums (the XTP paper's table 3.1)");
    run.say(format_args!(
        "# {rounds}, interleaved, warmed up; medians, and the middle half of the rounds; x std: times the plain loop \
         of CXOR, here and on the paper's machines (Sun 3/60, Sparc IPX, DEC 5000/200)",
        rounds = count_of(rounds as u64, "round")
    ));
    run.say(format_args!(
        "{:>8}  {:<18} {:>9} {:>21} {:>8} {:>8}  {:<20}",
        "block", "checksum", "GB/s", "(min .. max)", "x std", "of read", "paper: x std"
    ));
    let bytes: Vec<u8> = (0..(SIZES[2] as u32) + 64).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let bytes = &bytes[bytes.as_ptr().align_offset(64)..];
    agree(&bytes[..SIZES[0]])?;
    let bar = progress(SIZES.len());
    let mut blocks = Vec::new();
    for size in SIZES {
        bar.set_message(size_name(size));
        crate::interrupt::check()?;
        let mut runs: Vec<Timed<'_>> = WAYS.iter().map(|way| over(&bytes[..size], way.sum)).collect();
        let block = Block { size, times: clock::measure(&mut runs, rounds) };
        bar.inc(1);
        bar.suspend(|| print(run, &block));
        blocks.push(block);
    }
    bar.finish_and_clear();
    copies::run(run, bytes, &SIZES)?;
    summarize(run, &blocks);
    run.draw(&figure(&blocks))
}

/// Fails unless all ways to compute CXOR come to the same.
fn agree(bytes: &[u8]) -> Result<(), Error> {
    let sums: Vec<u64> = WAYS[STD..=OURS].iter().map(|way| (way.sum)(bytes)).collect();
    if sums.iter().all(|&sum| sum == sums[0]) && (WAYS[TCP].sum)(bytes) == (WAYS[OURS + 1].sum)(bytes) {
        Ok(())
    } else {
        Err(Error::not_verified(format!("the ways to compute a checksum do not agree: {sums:x?}; please report it")))
    }
}

/// Times `std` on the paper's machines.
fn paper_ratios(way: &Way) -> Option<[f64; 3]> {
    let std = WAYS[STD].paper?;
    way.paper.map(|speeds| [0, 1, 2].map(|at| speeds[at] / std[at]))
}

fn print(run: &Run<'_>, block: &Block) {
    for (index, way) in WAYS.iter().enumerate() {
        let time = block.times[index];
        let line = Line {
            event: "row",
            experiment: run.name,
            checksum: way.name,
            size: block.size,
            gb_s: time.gb_s(block.size),
            gb_s_min: block.size as f64 / time.high,
            gb_s_max: block.size as f64 / time.low,
            nanoseconds: time.median,
            ratio_std: block.ratio(index, STD),
            ratio_read: block.ratio(index, READ),
            paper_ratio_std: paper_ratios(way),
            paper_mbit_s: way.paper,
        };
        let paper = line.paper_ratio_std.map_or_else(String::new, |[a, b, c]| format!("{a:.2}, {b:.2}, {c:.2}"));
        let text = format!(
            "{:>8}  {:<18} {:>9.2} {:>21} {:>8.2} {:>8.2}  {paper:<20}",
            size_name(block.size),
            way.name,
            line.gb_s,
            format!("({:.2} .. {:.2})", line.gb_s_min, line.gb_s_max),
            line.ratio_std,
            line.ratio_read,
        );
        run.output.result(text.trim_end(), &line);
    }
}

fn summarize(run: &Run<'_>, blocks: &[Block]) {
    let decisive = || DRAWN.iter().filter_map(|&at| blocks.get(at));
    let ratio_std = span(decisive().map(|block| block.ratio(OURS, STD))).0;
    let ratio_read = span(decisive().map(|block| block.ratio(OURS, READ))).0;
    let summary = Summary {
        experiment: run.name,
        event: "summary",
        op4_to_std: span(blocks.iter().map(|block| block.ratio(OP4, STD))),
        op4_to_tcp: span(blocks.iter().map(|block| block.ratio(OP4, TCP))),
        paper_op4_to_std: PAPER_OP4_TO_STD,
        paper_op4_to_tcp: PAPER_OP4_TO_TCP,
        ratio_std,
        ratio_read,
        bar_std: BARS.0,
        bar_read: BARS.1,
        reached: ratio_std >= PAPER_OP4_TO_STD.1 && ratio_std >= BARS.0 && ratio_read >= BARS.1,
        quick: run.effort.quick,
    };
    let between = |(low, high): (f64, f64)| format!("{low:.1} to {high:.1}");
    let verdict = if summary.reached { "reached" } else { "not reached" };
    let text = format!(
        "\nop4 / std {}, the paper: {}\nop4 / TCP's checksum {}, the paper: {} (a compiler of today makes vectors of TCP's \
         loop)\npinnace / std {ratio_std:.1}, of a read-only pass {ratio_read:.2}; wanted {} and {}: {verdict}",
        between(summary.op4_to_std),
        between(PAPER_OP4_TO_STD),
        between(summary.op4_to_tcp),
        between(PAPER_OP4_TO_TCP),
        BARS.0,
        BARS.1,
    );
    run.output.result(text, &summary);
}

fn figure(blocks: &[Block]) -> Sides {
    let drawn: Vec<&Block> = DRAWN.iter().filter_map(|&at| blocks.get(at)).collect();
    let speed = |block: &Block, way: usize| block.times[way].gb_s(block.size);
    let groups = WAYS.iter().enumerate().map(|(index, way)| Group {
        name: vec![way.short.to_owned()],
        bars: (0..drawn.len())
            .map(|series| {
                let value = speed(drawn[series], index);
                let label = if value < 10.0 { format!("{value:.1}") } else { format!("{value:.0}") };
                Bar { series, value, label }
            })
            .collect(),
    });
    // `std` itself is 1, and a pass that only reads is no checksum.
    let compared = (0..=OURS).filter(|&way| way != STD);
    let dotted = compared.map(|index| {
        let here = drawn.iter().take(1).map(|block| (0, block.ratio(index, STD)));
        let paper = paper_ratios(&WAYS[index]).map(|[_, _, dec]| (1, dec));
        Dotted { name: vec![WAYS[index].short.to_owned()], ratios: here.chain(paper).collect() }
    });
    let sizes = drawn.iter().zip([COLOURS[0], COLOURS[2]]);
    Sides {
        title: "Speeds of checksums".to_owned(),
        caption: "std to op4: the paper's ways to compute CXOR, left to today's compiler as they are. Internet, Fletcher: plain \
                  loops; Internet*: Pinnace's. Medians of rounds in turn."
            .to_owned(),
        bars: Bars {
            y_name: "GB/s".to_owned(),
            top: None,
            series: sizes.map(|(block, colour)| (format!("{} blocks", size_name(block.size)), colour)).collect(),
            groups: groups.collect(),
        },
        ratios: Ratios {
            y_name: "times the plain loop (std)".to_owned(),
            series: vec![
                (format!("here, {}", drawn.first().map_or_else(String::new, |block| size_name(block.size))), COLOURS[0]),
                ("DEC 5000/200 (paper)".to_owned(), COLOURS[1]),
            ],
            groups: dotted.collect(),
            band: PAPER_OP4_TO_STD,
            band_name: "op4 on the paper's machines".to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_ways_agree_at_every_length() {
        let bytes: Vec<u8> = (0..600u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        for length in 0..bytes.len() {
            assert!(agree(&bytes[..length]).is_ok(), "{length}");
        }
    }

    #[test]
    fn the_papers_ratios_are_what_the_specification_quotes() {
        let [sun, sparc, dec] = paper_ratios(&WAYS[OP4]).unwrap();
        let range = span([sun, sparc, dec].into_iter());
        assert!(
            (range.0 - PAPER_OP4_TO_STD.0).abs() < 0.05 && (range.1 - PAPER_OP4_TO_STD.1).abs() < 0.05,
            "{range:?}"
        );
    }
}
