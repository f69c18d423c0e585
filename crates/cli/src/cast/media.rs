//! What is cast: a WAV or Y4M file at its own rate, or any bytes at a rate that is given.
//!
//! The stream is the medium byte for byte, in pieces of one period each: 20 ms of sound, a picture with its line, or what
//! the rate makes of 20 ms. Its header (what a player needs before anything else) is told apart, so that sinks that tune in
//! late can have it too.
//!
//! Always true: a piece has at most [`MOST`] bytes; a piece is due a whole number of its bytes (or pictures) after the
//! beginning, so that no error adds up; memory does not depend on the length of the medium.

use crate::exit::Error;
use crate::stream::y4m;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read, Seek, SeekFrom};
use std::path::Path;
use std::time::Duration;

/// The most bytes of a piece.
pub(crate) const MOST: usize = 16 << 20;
/// Sound of one piece.
const PERIOD: Duration = Duration::from_millis(20);
/// Bytes of a piece where only a rate is known, at most: a faster medium has shorter periods.
const MOST_RAW: u64 = 64 << 10;
/// A header of a WAV file is not longer.
const HEADER_BYTES: u64 = 1 << 20;
const NANOS: u128 = 1_000_000_000;

/// What a medium is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Format {
    /// Sound, as `hound` reads it.
    Wav,
    /// Pictures, YUV4MPEG2.
    Y4m,
    /// Bytes at a rate.
    Raw,
}

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Wav => "WAV",
            Self::Y4m => "Y4M",
            Self::Raw => "bytes",
        })
    }
}

/// How fast a medium goes: `units` a second, each of so many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pace {
    /// A numerator and a denominator: frames of sound, pictures, or bytes a second.
    units: (u64, u64),
    /// Bytes of such a unit.
    unit_bytes: u64,
    /// Units of a piece.
    piece: u64,
}

impl Pace {
    fn piece_bytes(&self) -> u64 {
        self.unit_bytes * self.piece
    }

    /// When so many units are over.
    fn after(&self, units: u64) -> Duration {
        let nanos = u128::from(units) * u128::from(self.units.1) * NANOS / u128::from(self.units.0);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Bits a second.
    fn bit_rate(&self) -> f64 {
        self.units.0 as f64 / self.units.1 as f64 * self.unit_bytes as f64 * 8.0
    }
}

/// What of a medium is known before its first piece.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Description {
    pub(crate) format: Format,
    /// Its first bytes, which are needed to play any of the others.
    pub(crate) header: Vec<u8>,
    /// Bits a second.
    pub(crate) bit_rate: f64,
    /// Between two pieces.
    pub(crate) period: Duration,
    /// Bytes of a piece, its line in front of it not counted.
    pub(crate) piece_bytes: usize,
    /// Bytes of all of it, if that is known.
    pub(crate) bytes: Option<u64>,
    /// In words.
    pub(crate) text: String,
}

/// A piece of a medium.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// When it is due, after the beginning.
    pub(crate) due: Duration,
    pub(crate) data: Vec<u8>,
}

/// An open medium.
pub(crate) struct Medium {
    description: Description,
    pace: Pace,
    from: Box<dyn BufRead + Send>,
    /// Where to go on when it is over, if it begins again.
    again: Option<(File, u64)>,
    /// Units that have been read.
    units: u64,
}

impl Medium {
    /// Opens a file, or standard input (`-`). With a `rate` (bits a second) that is its rate, whatever it is; without one
    /// it must be a WAV or Y4M file. `again`: it begins again and again.
    pub(crate) fn open(path: &Path, rate: Option<u64>, again: bool) -> Result<Self, Error> {
        if path.as_os_str() == "-" {
            if again {
                return Err(Error::usage("--loop: standard input comes but once"));
            }
            return Self::new(BufReader::new(io::stdin()), None, rate, "standard input");
        }
        let name = path.display().to_string();
        let cannot = |error| Error::io(format_args!("cannot read {name}"), &error);
        let file = File::open(path).map_err(cannot)?;
        let metadata = file.metadata().map_err(cannot)?;
        if metadata.is_dir() {
            return Err(Error::usage(format!("{name} is a folder: name a file")));
        }
        let bytes = metadata.is_file().then_some(metadata.len());
        if again && bytes.is_none() {
            return Err(Error::usage(format!("--loop: {name} is no file that could be read again")));
        }
        let twin = if again { Some(file.try_clone().map_err(cannot)?) } else { None };
        let mut medium = Self::new(BufReader::new(file), bytes, rate, &name)?;
        let header = medium.description.header.len() as u64;
        // An empty one would be read for ever.
        medium.again = twin.map(|twin| (twin, header)).filter(|_| bytes.is_some_and(|bytes| bytes > header));
        if medium.again.is_some() {
            medium.description.bytes = None;
        }
        Ok(medium)
    }

    fn new(
        mut from: impl BufRead + Send + 'static,
        bytes: Option<u64>,
        rate: Option<u64>,
        name: &str,
    ) -> Result<Self, Error> {
        let cannot = |error| Error::io(format_args!("cannot read {name}"), &error);
        // What a pipe has not delivered yet does not count: these come with a whole header at once.
        let begin = from.fill_buf().map_err(cannot)?;
        let (is_film, is_sound) = (begin.starts_with(y4m::MAGIC), begin.starts_with(b"RIFF"));
        let (format, header, own, text) = if is_film {
            let (header, pace, text) = film(&mut from).map_err(cannot)?;
            (Format::Y4m, header, Some(pace), text)
        } else if is_sound {
            match sound(&mut from) {
                Ok((header, pace, text)) => (Format::Wav, header, Some(pace), text),
                Err((read, why)) if rate.is_some() => {
                    let from = Cursor::new(read).chain(from);
                    return Self::with(Box::new(from), bytes, Format::Raw, Vec::new(), (None, rate), why, name);
                }
                Err((_, why)) => {
                    return Err(Error::failed(format!(
                        "{name} is a WAV file that I cannot read ({why}); say how fast it goes with --rate, or convert it \
                         to PCM"
                    )));
                }
            }
        } else {
            (Format::Raw, Vec::new(), None, String::new())
        };
        Self::with(Box::new(from), bytes, format, header, (own, rate), text, name)
    }

    fn with(
        from: Box<dyn BufRead + Send>,
        bytes: Option<u64>,
        format: Format,
        header: Vec<u8>,
        (own, rate): (Option<Pace>, Option<u64>),
        text: String,
        name: &str,
    ) -> Result<Self, Error> {
        let pace = match (own, rate) {
            (Some(pace), None) => pace,
            // Faster or slower, in pieces of its own.
            (Some(pace), Some(rate)) => Pace { units: (rate, 8 * pace.unit_bytes), ..pace },
            (None, Some(rate)) => {
                let bytes = u128::from(rate) / 8 * PERIOD.as_nanos() / NANOS;
                let piece = u64::try_from(bytes).unwrap_or(u64::MAX).clamp(1, MOST_RAW);
                Pace { units: (rate, 8), unit_bytes: 1, piece }
            }
            (None, None) => {
                return Err(Error::usage(format!(
                    "{name} is neither WAV nor Y4M, so nobody knows how fast it goes: add --rate, like --rate 2mbit"
                )));
            }
        };
        let piece_bytes = usize::try_from(pace.piece_bytes()).ok().filter(|bytes| *bytes <= MOST - 4096);
        let Some(piece_bytes) = piece_bytes else {
            return Err(Error::failed(format!("the pictures of {name} are larger than {} MiB", MOST >> 20)));
        };
        let (bit_rate, period) = (pace.bit_rate(), pace.after(pace.piece));
        let description = Description { format, header, bit_rate, period, piece_bytes, bytes, text };
        Ok(Self { description, pace, from, again: None, units: 0 })
    }

    pub(crate) fn description(&self) -> &Description {
        &self.description
    }

    /// The next piece; nothing at the end.
    pub(crate) fn next(&mut self) -> io::Result<Option<Piece>> {
        let due = self.pace.after(self.units);
        let mut data = Vec::with_capacity(self.description.piece_bytes);
        let mut begins_again = false;
        loop {
            let before = data.len();
            self.read(&mut data)?;
            // A short piece goes on with the beginning, or it would have the time of a whole one. Pictures are whole.
            let is_picture = self.description.format == Format::Y4m && !data.is_empty();
            let is_over = begins_again && data.len() == before;
            let Some((file, from)) = &self.again else { break };
            if is_picture || is_over || data.len() >= self.description.piece_bytes {
                break;
            }
            let mut file = file.try_clone()?;
            file.seek(SeekFrom::Start(*from))?;
            self.from = Box::new(BufReader::new(file));
            begins_again = true;
        }
        if data.is_empty() {
            return Ok(None);
        }
        self.units += self.pace.piece;
        Ok(Some(Piece { due, data }))
    }

    /// Adds what comes next, up to a whole piece.
    fn read(&mut self, data: &mut Vec<u8>) -> io::Result<()> {
        let most = self.pace.piece_bytes().saturating_sub(data.len() as u64);
        if self.description.format == Format::Y4m {
            let Some(line) = y4m::line(&mut self.from)? else { return Ok(()) };
            if !line.is_ascii() || !line.starts_with("FRAME") {
                return Err(y4m::wrong("a line FRAME is missing between two pictures"));
            }
            data.extend_from_slice(line.as_bytes());
            data.push(b'\n');
        }
        (&mut self.from).take(most).read_to_end(data)?;
        Ok(())
    }
}

/// The header of a medium, how fast it goes, and what it is in words.
type Header = (Vec<u8>, Pace, String);

/// The first line of a film.
fn film(from: &mut impl BufRead) -> io::Result<Header> {
    let line = y4m::line(from)?.unwrap_or_default();
    let wrong = |what: &str| y4m::wrong(&format!("{what} `{line}`"));
    let unit_bytes = y4m::picture_bytes(&line).ok_or_else(|| wrong("it begins with"))?;
    let (pictures, seconds) = y4m::pictures_a_second(&line).ok_or_else(|| wrong("no rate (F25:1) in"))?;
    if !line.is_ascii() {
        return Err(wrong("letters beyond ASCII in"));
    }
    let pace = Pace { units: (pictures.into(), seconds.into()), unit_bytes, piece: 1 };
    let size: Vec<&str> = line.split(' ').filter(|word| word.starts_with(['W', 'H'])).map(|word| &word[1..]).collect();
    let text = format!("{} pixels, {:.2} pictures a second", size.join("x"), f64::from(pictures) / f64::from(seconds));
    Ok((format!("{line}\n").into_bytes(), pace, text))
}

/// Keeps what is read through it.
struct Tee<R> {
    from: R,
    read: Vec<u8>,
}

impl<R: Read> Read for Tee<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.from.read(buffer)?;
        self.read.extend_from_slice(&buffer[..n]);
        Ok(n)
    }
}

/// The header of a WAV file, up to its samples; or what was read of it, and why it is none.
fn sound(from: &mut impl BufRead) -> Result<Header, (Vec<u8>, String)> {
    let mut tee = Tee { from: from.take(HEADER_BYTES), read: Vec::new() };
    let found = hound::WavReader::new(&mut tee).map(|reader| reader.spec());
    let Tee { read, .. } = tee;
    let found = found.or_else(|error| {
        // Who writes into a pipe does not know the length, and says something that cannot be one.
        let Some(at) = read.len().checked_sub(8).filter(|at| read[*at..].starts_with(b"data")) else {
            return Err(error);
        };
        let without = [&read[..at + 4], &[0; 4]].concat();
        hound::WavReader::new(&without[..]).map(|reader| reader.spec())
    });
    let spec = match found {
        Ok(spec) if spec.sample_rate > 0 => spec,
        Ok(_) => return Err((read, "it has no rate".to_owned())),
        Err(error) => return Err((read, error.to_string())),
    };
    let rate = u64::from(spec.sample_rate);
    let unit_bytes = u64::from(spec.bits_per_sample.div_ceil(8)) * u64::from(spec.channels);
    let piece = (rate * PERIOD.as_millis() as u64 / 1000).max(1);
    let pace = Pace { units: (rate, 1), unit_bytes, piece };
    let text = format!(
        "{rate} Hz, {} of {} bits",
        crate::units::count_of(spec.channels.into(), "channel"),
        spec.bits_per_sample
    );
    Ok((read, pace, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(content: &[u8]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), content).unwrap();
        file
    }

    fn wav(rate: u32, channels: u16, frames: u32) -> Vec<u8> {
        let spec = hound::WavSpec {
            channels,
            sample_rate: rate,
            bits_per_sample: 16,
            sample_format: hound::SampleFormat::Int,
        };
        let mut bytes = Cursor::new(Vec::new());
        let mut writer = hound::WavWriter::new(&mut bytes, spec).unwrap();
        (0..frames * u32::from(channels)).for_each(|n| writer.write_sample(n as i16).unwrap());
        writer.finalize().unwrap();
        bytes.into_inner()
    }

    fn pieces(medium: &mut Medium, most: usize) -> Vec<Piece> {
        std::iter::from_fn(|| medium.next().unwrap()).take(most).collect()
    }

    #[test]
    fn sound_is_cut_into_20_ms_and_is_whole_again() {
        let content = wav(44_100, 2, 2000);
        let file = file(&content);
        let mut medium = Medium::open(file.path(), None, false).unwrap();
        let description = medium.description().clone();
        assert_eq!((description.format, description.bytes), (Format::Wav, Some(content.len() as u64)));
        assert_eq!((description.header.len(), description.piece_bytes), (44, 882 * 4));
        assert!((description.bit_rate - 1_411_200.0).abs() < 1e-6 && description.period == PERIOD);
        let pieces = pieces(&mut medium, 99);
        let due: Vec<u128> = pieces.iter().map(|piece| piece.due.as_micros()).collect();
        assert_eq!(due, [0, 20_000, 40_000]);
        assert_eq!(pieces[2].data.len(), (2000 - 2 * 882) * 4);
        let all: Vec<u8> = description.header.into_iter().chain(pieces.into_iter().flat_map(|p| p.data)).collect();
        assert_eq!(all, content);
    }

    #[test]
    fn sound_through_a_pipe_has_no_length_and_goes_on() {
        let mut content = wav(8000, 1, 500);
        // As ffmpeg writes into a pipe.
        content[40..44].fill(0xff);
        let file = file(&content);
        let mut medium = Medium::open(file.path(), None, false).unwrap();
        assert_eq!(pieces(&mut medium, 99).iter().map(|piece| piece.data.len()).sum::<usize>(), 1000);
    }

    #[test]
    fn films_go_by_pictures_with_their_lines() {
        let content = b"YUV4MPEG2 W2 H2 F30000:1001 Cmono\nFRAME\nabcdFRAME Ip\nefgh".to_vec();
        let film = file(&content);
        let mut medium = Medium::open(film.path(), None, false).unwrap();
        let description = medium.description().clone();
        assert_eq!((description.format, description.header.len()), (Format::Y4m, 34));
        let found = pieces(&mut medium, 99);
        assert_eq!(
            found.iter().map(|piece| &piece.data[..]).collect::<Vec<_>>(),
            [&b"FRAME\nabcd"[..], b"FRAME Ip\nefgh"]
        );
        assert_eq!(found[1].due, Duration::from_nanos(33_366_666));
        let mut again = Medium::open(film.path(), None, true).unwrap();
        assert_eq!(again.description().bytes, None);
        let again = pieces(&mut again, 5);
        assert_eq!(again[2].data, again[0].data);
        assert!(again.windows(2).all(|two| two[0].due < two[1].due));
        for wrong in ["YUV4MPEG2 W2 H2 Cmono\n", "YUV4MPEG2 F25:1\n", "YUV4MPEG2 W9999 H9999 F25:1 C444p16\n"] {
            assert!(Medium::open(file(wrong.as_bytes()).path(), None, false).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_begins_again_keeps_its_rate() {
        let bytes: Vec<u8> = (0..5001).map(|n| n as u8).collect();
        let file = file(&bytes);
        let mut medium = Medium::open(file.path(), Some(800_000), true).unwrap();
        let found = pieces(&mut medium, 9);
        assert!(found.iter().all(|piece| piece.data.len() == 2000));
        assert_eq!(found[8].due, Duration::from_millis(160));
        let sent = found.iter().flat_map(|piece| piece.data.clone());
        assert!(sent.eq(bytes.iter().copied().cycle().take(9 * 2000)));
        // Shorter than one piece.
        std::fs::write(file.path(), &bytes[..700]).unwrap();
        let piece = Medium::open(file.path(), Some(800_000), true).unwrap().next().unwrap().unwrap();
        assert!(piece.data.into_iter().eq(bytes[..700].iter().copied().cycle().take(2000)));
    }

    #[test]
    fn anything_else_needs_a_rate() {
        let bytes = file(&[7; 5001]);
        let error = Medium::open(bytes.path(), None, false).err().unwrap();
        assert!(error.message.contains("--rate"), "{error}");
        let mut medium = Medium::open(bytes.path(), Some(800_000), false).unwrap();
        let found = pieces(&mut medium, 99);
        assert_eq!(found.iter().map(|piece| piece.data.len()).collect::<Vec<_>>(), [2000, 2000, 1001]);
        assert_eq!(found[2].due, Duration::from_millis(40));
        let fast = Medium::open(bytes.path(), Some(1_000_000_000), false).unwrap();
        assert_eq!(fast.description().piece_bytes as u64, MOST_RAW);
        let slow = Medium::open(bytes.path(), Some(1), false).unwrap();
        assert_eq!((slow.description().piece_bytes, slow.description().period), (1, Duration::from_secs(8)));
        // A RIFF that is no sound.
        let wrong = file(b"RIFF\x00\x00\x00\x00WEBPVP8 and so on");
        assert!(Medium::open(wrong.path(), None, false).is_err());
        let mut medium = Medium::open(wrong.path(), Some(1_000_000), false).unwrap();
        assert_eq!(pieces(&mut medium, 9)[0].data, b"RIFF\x00\x00\x00\x00WEBPVP8 and so on");
    }

    #[test]
    fn another_rate_makes_sound_faster() {
        let file = file(&wav(8000, 1, 8000));
        let mut medium = Medium::open(file.path(), Some(256_000), false).unwrap();
        assert_eq!(medium.description().period, Duration::from_millis(10));
        let found = pieces(&mut medium, 99);
        assert_eq!((found.len(), found[1].due), (50, Duration::from_millis(10)));
    }

    #[test]
    fn nothing_is_over_at_once_even_if_it_begins_again() {
        let empty = file(b"");
        for again in [false, true] {
            let mut medium = Medium::open(empty.path(), Some(1000), again).unwrap();
            assert_eq!(medium.next().unwrap(), None);
        }
        assert!(Medium::open(Path::new("/"), Some(1), false).is_err());
        assert!(Medium::open(Path::new("/no/such"), Some(1), false).is_err());
        assert!(Medium::open(Path::new("-"), Some(1), true).is_err());
    }
}
