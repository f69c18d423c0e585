//! The moving picture of the demo: painted in code, sent tile by tile, and put together again with its holes marked.
//!
//! Always true: a tile fills a packet, so a lost packet is a square that is missing; the topmost row of tiles says which
//! picture it is, and is critical, so it is never missing. The stream's header leaves with the first tile, whose first bytes
//! stay behind for that.

use super::FPS;
use crate::exit::Error;
use crate::interrupt;
use crate::picture::{self, FONT};
use crate::stream::{HEADER_BYTES, Scene};
use plotters::prelude::*;
use plotters::style::FontStyle;
use std::ops::Range;
use std::path::Path;

/// Pixels of a side of a tile.
const TILE: usize = 22;
/// Tiles in a row, and rows.
const TILES: (usize, usize) = (18, 12);
/// Pixels of a picture.
pub(super) const SIZE: (usize, usize) = (TILES.0 * TILE, TILES.1 * TILE);
/// Bytes of a tile.
pub(super) const TILE_BYTES: usize = TILE * TILE * 3;
/// Bytes of a picture; as it travels, of its header and its tiles.
pub(super) const BYTES: usize = SIZE.0 * SIZE.1 * 3;
/// The bytes of a file that say which picture it is.
pub(super) const CAPTION: Range<usize> = 0..TILES.0 * TILE_BYTES - HEADER_BYTES;
/// How many pictures of the scene pass by between two of the movie, and before the first.
const PACE: (u64, u64) = (2, 24);

/// Paints the pictures into files of a folder, in the order in which they are sent.
pub(super) fn shoot(folder: &Path, pictures: u64) -> Result<(), Error> {
    let failed = |error| Error::io(format_args!("cannot write {}", folder.display()), &error);
    std::fs::create_dir(folder).map_err(failed)?;
    let scene = Scene::new(SIZE.0, SIZE.1);
    for number in 0..pictures {
        interrupt::check()?;
        let tiles = to_tiles(&paint(&scene, number)?);
        std::fs::write(folder.join(format!("{number:04}")), tiles).map_err(failed)?;
    }
    Ok(())
}

/// One picture, row by row.
pub(super) fn still(number: u64) -> Result<Vec<u8>, Error> {
    paint(&Scene::new(SIZE.0, SIZE.1), number)
}

fn paint(scene: &Scene, number: u64) -> Result<Vec<u8>, Error> {
    picture::prepare();
    let mut pixels = vec![0; BYTES];
    scene.paint(number * PACE.0 + PACE.1, &mut pixels);
    for value in &mut pixels[..SIZE.0 * TILE * 3] {
        *value /= 3;
    }
    let write = |pixels: &mut [u8]| -> picture::Drawn {
        let area = BitMapBackend::with_buffer(pixels, (SIZE.0 as u32, SIZE.1 as u32)).into_drawing_area();
        let font = |style| (FONT, 14, style).into_font().color(&WHITE);
        area.draw(&Text::new(format!("picture {number}"), (8, 3), font(FontStyle::Bold)))?;
        let seconds = number as f64 / f64::from(FPS);
        area.draw(&Text::new(format!("{seconds:.2} s"), (SIZE.0 as i32 - 62, 3), font(FontStyle::Normal)))?;
        Ok(area.present()?)
    };
    write(&mut pixels).map_err(|error| Error::failed(format!("cannot write into a picture: {error}")))?;
    Ok(pixels)
}

/// Where in a picture a byte of its tiles lies.
fn place(byte: usize) -> usize {
    let (tile, within) = (byte / TILE_BYTES, byte % TILE_BYTES);
    let (row, column) = (within / (TILE * 3), within % (TILE * 3));
    let (x, y) = (tile % TILES.0 * TILE * 3 + column, tile / TILES.0 * TILE + row);
    y * SIZE.0 * 3 + x
}

fn to_tiles(pixels: &[u8]) -> Vec<u8> {
    (HEADER_BYTES..BYTES).map(|byte| pixels[place(byte)]).collect()
}

/// The picture from its tiles, with what is missing hatched. Where the header was, it is as one row below.
pub(super) fn from_tiles(tiles: &[u8], holes: &[Range<usize>]) -> Vec<u8> {
    let mut pixels = vec![0; BYTES];
    for (byte, value) in (HEADER_BYTES..BYTES).zip(tiles) {
        pixels[place(byte)] = *value;
    }
    for byte in 0..HEADER_BYTES {
        pixels[place(byte)] = pixels[place(byte + TILE * 3)];
    }
    for byte in holes.iter().flat_map(|hole| hole.start + HEADER_BYTES..(hole.end + HEADER_BYTES).min(BYTES)) {
        let at = place(byte);
        let (x, y) = (at / 3 % SIZE.0, at / 3 / SIZE.0);
        let stripe = (x + y) / 4 % 2 == 0;
        let colour = if stripe { HOLE.0 } else { HOLE.1 };
        pixels[at] = colour[at % 3];
    }
    pixels
}

/// How holes are hatched.
pub(super) const HOLE: ([u8; 3], [u8; 3]) = ([255, 0, 168], [140, 0, 104]);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_come_back_from_their_tiles_and_holes_are_squares() {
        let pixels = still(7).unwrap();
        let tiles = to_tiles(&pixels);
        assert_eq!(from_tiles(&tiles, &[])[HEADER_BYTES..], pixels[HEADER_BYTES..]);
        // The packet in which the tile is, behind the header, as the stream cuts it.
        let tile = TILES.0 + 2;
        let packet = tile * TILE_BYTES - HEADER_BYTES..(tile + 1) * TILE_BYTES - HEADER_BYTES;
        let marked = from_tiles(&tiles, std::slice::from_ref(&packet));
        let is_hole = |x: usize, y: usize| {
            let at = (y * SIZE.0 + x) * 3;
            let pixel = &marked[at..at + 3];
            pixel == HOLE.0 || pixel == HOLE.1
        };
        assert!(is_hole(2 * TILE, TILE) && is_hole(3 * TILE - 1, 2 * TILE - 1));
        let holes = (0..SIZE.0 * SIZE.1).filter(|pixel| is_hole(pixel % SIZE.0, pixel / SIZE.0)).count();
        assert_eq!(holes, TILE * TILE, "and nothing else");
        assert_eq!(from_tiles(&tiles, std::slice::from_ref(&(BYTES - 1..BYTES + 99))).len(), BYTES);
    }

    #[test]
    fn a_tile_fits_a_packet() {
        const { assert!(TILE_BYTES <= 1466) };
        assert_eq!(place(CAPTION.end + HEADER_BYTES) / 3, TILE * SIZE.0, "the caption is the first row");
        const { assert!(HEADER_BYTES < TILE * 3, "there is a row below") };
    }
}
