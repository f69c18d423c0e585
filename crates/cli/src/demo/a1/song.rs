//! The song: 48 kHz stereo, made of sines.

use crate::exit::Error;
use std::f64::consts::TAU;
use std::path::Path;

const RATE: u32 = 48_000;
/// Steps of a scale, a quarter of a second each.
const NOTES: [i32; 16] = [0, 4, 7, 12, 7, 4, 0, -5, 0, 5, 9, 12, 11, 7, 2, -5];

/// Writes so many seconds of it.
pub(super) fn write(path: &Path, seconds: u32) -> Result<(), Error> {
    let spec =
        hound::WavSpec { channels: 2, sample_rate: RATE, bits_per_sample: 16, sample_format: hound::SampleFormat::Int };
    let failed = |error: hound::Error| Error::failed(format!("cannot write {}: {error}", path.display()));
    let mut writer = hound::WavWriter::create(path, spec).map_err(failed)?;
    for frame in 0..seconds * RATE {
        let at = f64::from(frame) / f64::from(RATE);
        let beat = (at * 4.0) as usize;
        let fade = 1.0 - (at * 4.0).fract();
        let tone = |octave: i32| {
            let step = f64::from(NOTES[beat % NOTES.len()]) / 12.0 + f64::from(octave);
            (at * 220.0 * step.exp2() * TAU).sin() * fade * 9000.0
        };
        for sample in [tone(0) + tone(1) / 3.0, tone(1) + tone(0) / 3.0] {
            writer.write_sample(sample as i16).map_err(failed)?;
        }
    }
    writer.finalize().map_err(failed)
}
