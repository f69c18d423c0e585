//! YUV4MPEG2, the plain video format of many tools (`ffmpeg -i FILM -f yuv4mpegpipe -`): its pictures, one after the other.
//!
//! Always true: a picture is at most [`MOST`] bytes, and a line of text at most [`LINE`].

use super::header;
use std::io::{self, BufRead, Read};

/// How a file of this kind begins.
pub(crate) const MAGIC: &[u8] = b"YUV4MPEG2 ";
const LINE: u64 = 4096;
const MOST: u64 = u32::MAX as u64;

/// Reads pictures.
pub(super) struct Pictures<R> {
    from: R,
    bytes: u64,
}

impl<R: BufRead> Pictures<R> {
    /// Reads the first line, from its magic on.
    pub(super) fn new(mut from: R) -> io::Result<Self> {
        let line = line(&mut from)?.ok_or_else(|| wrong("it is empty"))?;
        let bytes = picture_bytes(&line).ok_or_else(|| wrong(&format!("it begins with `{line}`")))?;
        header::check_size(bytes).map_err(|why| io::Error::other(format!("its pictures are too large: {why}")))?;
        Ok(Self { from, bytes })
    }

    /// Appends the next picture, without its line; false at the end.
    pub(super) fn read(&mut self, frame: &mut Vec<u8>) -> io::Result<bool> {
        let Some(line) = line(&mut self.from)? else { return Ok(false) };
        if !line.starts_with("FRAME") {
            return Err(wrong("a line FRAME is missing between two pictures"));
        }
        let read = (&mut self.from).take(self.bytes).read_to_end(frame)?;
        if (read as u64) < self.bytes {
            return Err(wrong("it ends in the midst of a picture"));
        }
        Ok(true)
    }
}

pub(crate) fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("not a YUV4MPEG2 stream that I can read: {what}"))
}

/// A line without its end; nothing at the end.
pub(crate) fn line(from: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    from.take(LINE).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Ok(None);
    }
    if line.pop() != Some(b'\n') {
        return Err(wrong("a line does not end"));
    }
    Ok(Some(String::from_utf8_lossy(&line).into_owned()))
}

/// Pictures a second, from the parameters of the first line: a numerator and a denominator, neither of them 0.
pub(crate) fn pictures_a_second(line: &str) -> Option<(u32, u32)> {
    let (pictures, seconds) = line.split(' ').skip(1).find_map(|word| word.strip_prefix('F'))?.split_once(':')?;
    let rate = (pictures.parse().ok()?, seconds.parse().ok()?);
    (rate.0 > 0 && rate.1 > 0).then_some(rate)
}

/// Bytes of a picture, from the parameters of the first line.
pub(crate) fn picture_bytes(line: &str) -> Option<u64> {
    let parameter = |name: char| line.split(' ').skip(1).find_map(|word| word.strip_prefix(name));
    let (width, height): (u64, u64) = (parameter('W')?.parse().ok()?, parameter('H')?.parse().ok()?);
    let colours = parameter('C').unwrap_or("420");
    let sample = if colours.contains("p1") { 2 } else { 1 };
    let half = |length: u64| length.div_ceil(2);
    let pixels = width.checked_mul(height)?;
    let chroma = match colours {
        _ if colours.starts_with("mono") => 0,
        _ if colours.starts_with("420") => half(width).checked_mul(half(height))?.checked_mul(2)?,
        _ if colours.starts_with("411") => width.div_ceil(4).checked_mul(height)?.checked_mul(2)?,
        _ if colours.starts_with("422") => half(width).checked_mul(height)?.checked_mul(2)?,
        "444alpha" => pixels.checked_mul(3)?,
        _ if colours.starts_with("444") => pixels.checked_mul(2)?,
        _ => return None,
    };
    let sample = if colours.starts_with("mono") && colours != "mono" { 2 } else { sample };
    pixels.checked_add(chroma)?.checked_mul(sample).filter(|bytes| (1..=MOST).contains(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_says_how_large_pictures_are() {
        let bytes = |parameters: &str| picture_bytes(&format!("YUV4MPEG2 {parameters}"));
        assert_eq!(bytes("W640 H480 F25:1 Ip A1:1 C420jpeg"), Some(460_800));
        assert_eq!(bytes("W3 H3"), Some(9 + 8));
        assert_eq!(bytes("W4 H4 C444"), Some(48));
        assert_eq!(bytes("W4 H4 C422p10"), Some(64));
        assert_eq!(bytes("W4 H4 Cmono"), Some(16));
        for wrong in ["W4", "H4 C420", "W0 H0", "W99999999999 H99999999999", "W100000 H100000", "W4 H4 Crgb", "Wx H4"] {
            assert_eq!(bytes(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_first_line_says_how_many_pictures_a_second() {
        let rate = |parameters: &str| pictures_a_second(&format!("YUV4MPEG2 {parameters}"));
        assert_eq!(rate("W2 H2 F30000:1001 Ip"), Some((30_000, 1001)));
        for wrong in ["W2 H2", "F0:0", "F25:0", "F25", "Fx:1"] {
            assert_eq!(rate(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn pictures_are_read_one_by_one() {
        let text = b"YUV4MPEG2 W2 H2 Cmono\nFRAME\nabcdFRAME Ip\nefgh";
        let mut pictures = Pictures::new(&text[..]).unwrap();
        let mut frame = b">".to_vec();
        assert!(pictures.read(&mut frame).unwrap() && frame == b">abcd");
        frame.clear();
        assert!(pictures.read(&mut frame).unwrap() && frame == b"efgh");
        assert!(!pictures.read(&mut frame).unwrap());
        let mut cut = Pictures::new(&text[..text.len() - 1]).unwrap();
        assert!(cut.read(&mut Vec::new()).unwrap() && cut.read(&mut Vec::new()).is_err());
        assert!(Pictures::new(&b"YUV4MPEG2 W2 H2"[..]).is_err() && Pictures::new(&b""[..]).is_err());
    }
}
