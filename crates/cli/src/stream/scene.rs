//! The moving picture of the camera-like source: a pinnace that sails past, at sunset.
//!
//! Always true: a picture depends on its size and its number alone, so anybody can compute what was sent; the boat is where
//! it is after that many thirtieths of a second, so one sees how old a picture is.

use std::f32::consts::TAU;

type Colour = [f32; 3];

const SKY: [Colour; 4] = [[24.0, 44.0, 92.0], [92.0, 84.0, 138.0], [224.0, 138.0, 120.0], [252.0, 208.0, 150.0]];
const SEA: [Colour; 3] = [[214.0, 148.0, 124.0], [70.0, 88.0, 130.0], [14.0, 36.0, 76.0]];
const SUN: Colour = [255.0, 242.0, 205.0];
const HILLS: [Colour; 2] = [[150.0, 106.0, 128.0], [92.0, 72.0, 112.0]];
const HULL: Colour = [74.0, 36.0, 28.0];
const STRAKE: Colour = [232.0, 196.0, 140.0];
const MAST: Colour = [58.0, 40.0, 36.0];
const SAIL: Colour = [250.0, 240.0, 222.0];
const JIB: Colour = [238.0, 214.0, 188.0];
const PENNANT: Colour = [200.0, 44.0, 52.0];
const GULL: Colour = [246.0, 240.0, 240.0];

/// Where the sea begins, in heights.
const HORIZON: f32 = 0.60;
/// Steps of the sine table.
const STEPS: usize = 1024;
/// Pictures until the boat is where it was.
const ROUND: u64 = 240;

/// Paints pictures of one size, three bytes a pixel.
pub(crate) struct Scene {
    width: usize,
    height: usize,
    /// What does not move.
    still: Vec<u8>,
    sine: Vec<f32>,
}

impl Scene {
    pub(crate) fn new(width: usize, height: usize) -> Self {
        let sine = (0..STEPS).map(|step| (step as f32 / STEPS as f32 * TAU).sin()).collect();
        let mut scene = Self { width, height, still: vec![0; width * height * 3], sine };
        scene.paint_still();
        scene
    }

    /// Bytes of a picture.
    pub(crate) fn bytes(&self) -> usize {
        self.still.len()
    }

    /// Paints picture `number` into [`Scene::bytes`] bytes, row by row.
    pub(crate) fn paint(&self, number: u64, pixels: &mut [u8]) {
        pixels.copy_from_slice(&self.still);
        self.paint_waves(number, pixels);
        self.paint_gulls(number, pixels);
        self.paint_boat(number, pixels);
    }

    fn horizon(&self) -> usize {
        (self.height as f32 * HORIZON) as usize
    }

    /// The sun's centre in heights.
    fn sun(&self) -> (f32, f32) {
        (self.width as f32 / self.height as f32 * 0.74, HORIZON - 0.13)
    }

    fn paint_still(&mut self) {
        let (width, height, horizon) = (self.width, self.height, self.horizon());
        let scale = 1.0 / height as f32;
        let (sun_x, sun_y) = self.sun();
        for y in 0..height {
            let v = y as f32 * scale;
            for x in 0..width {
                let u = x as f32 * scale;
                let colour = if y < horizon {
                    let distance = (u - sun_x).hypot(v - sun_y);
                    let glow = (1.0 - distance / 0.55).max(0.0).powi(2) * 0.75;
                    let sky = mix(gradient(&SKY, v / HORIZON), [255.0, 214.0, 150.0], glow);
                    let sky = mix(sky, SUN, ((0.075 - distance) * height as f32 + 0.5).clamp(0.0, 1.0));
                    let far = HORIZON - 0.055 - 0.022 * (u * 5.1).sin() - 0.014 * (u * 11.7 + 1.0).sin();
                    let near = HORIZON - 0.012 - 0.026 * (u * 3.3 + 2.4).sin() - 0.009 * (u * 17.0).sin();
                    let covered = |edge: f32| ((v - edge) * height as f32 + 0.5).clamp(0.0, 1.0);
                    mix(mix(sky, HILLS[0], covered(far)), HILLS[1], covered(near))
                } else {
                    gradient(&SEA, (v - HORIZON) / (1.0 - HORIZON))
                };
                put(&mut self.still, (y * width + x) * 3, colour);
            }
        }
    }

    fn sin(&self, turns: f32) -> f32 {
        self.sine[((turns * STEPS as f32) as i32).rem_euclid(STEPS as i32) as usize]
    }

    fn paint_waves(&self, number: u64, pixels: &mut [u8]) {
        let (width, horizon) = (self.width, self.horizon());
        let scale = 1.0 / self.height as f32;
        let time = (number % (ROUND * 8)) as f32 / 30.0;
        let (sun_x, _) = self.sun();
        for y in horizon..self.height {
            let depth = (y - horizon) as f32 * scale / (1.0 - HORIZON);
            // Waves are longer, slower to the eye and deeper, the nearer they are.
            let length = 1.0 / (0.03 + depth * 0.16);
            let phase = self.sin(depth * 3.0 / (0.12 + depth) + time * 0.25) * 0.6 + depth * 9.0;
            let row = &mut pixels[y * width * 3..(y + 1) * width * 3];
            for (x, pixel) in row.chunks_exact_mut(3).enumerate() {
                let u = x as f32 * scale;
                let wave = self.sin(u * length * 0.31 + phase + time * 0.35)
                    + self.sin(u * length * 0.77 - phase * 1.7 - time * 0.21) * 0.6;
                let shade = wave * (4.0 + 11.0 * depth);
                let away = (u - sun_x).abs() / (0.05 + depth * 0.22);
                let glitter = if away < 1.0 && wave > 0.55 { (wave - 0.55) * (1.0 - away) * 190.0 } else { 0.0 };
                for (channel, (value, warm)) in pixel.iter_mut().zip([1.0, 0.82, 0.55]).enumerate() {
                    let tint = if channel == 2 { 1.15 } else { 1.0 };
                    *value = (f32::from(*value) + shade * tint + glitter * warm) as u8;
                }
            }
        }
    }

    fn paint_gulls(&self, number: u64, pixels: &mut [u8]) {
        let aspect = self.width as f32 / self.height as f32;
        for (start, height, speed, flap) in [(0.1, 0.30, 0.11, 1.9), (0.22, 0.26, 0.11, 2.3), (0.62, 0.36, 0.08, 1.6)] {
            let time = (number % (ROUND * 80)) as f32 / 30.0;
            let x = (start * aspect + time * speed).rem_euclid(aspect + 0.1) - 0.05;
            let y = height + 0.012 * self.sin(time * 0.2 + start);
            let tip = 0.010 + 0.012 * self.sin(time * flap);
            for side in [-1.0, 1.0] {
                let elbow = (x + side * 0.016, y - 0.011);
                self.stroke(pixels, (x, y), elbow, 0.0028, GULL);
                self.stroke(pixels, elbow, (x + side * 0.036, y - tip), 0.0022, GULL);
            }
        }
    }

    fn paint_boat(&self, number: u64, pixels: &mut [u8]) {
        let aspect = self.width as f32 / self.height as f32;
        let turn = (number % ROUND) as f32 / ROUND as f32;
        let time = (number % (ROUND * 8)) as f32 / 30.0;
        let size = 0.40;
        let (x, y) = (-0.3 + turn * (aspect + 0.6), 0.735 + 0.006 * self.sin(time * 0.45));
        let lean = 0.05 * self.sin(time * 0.31);
        // Upright, the water line at 0, the mast's top at -1; right is forward.
        let place = |(u, v): (f32, f32)| (x + (u - v * lean) * size, y + (v + u * lean) * size);
        let shape = |pixels: &mut [u8], points: &[(f32, f32)], colour| {
            let points: Vec<(f32, f32)> = points.iter().map(|&point| place(point)).collect();
            self.fill(pixels, &points, colour);
        };
        // Its shadow on the water, and the wake.
        let reflect = mix(HULL, SEA[1], 0.55);
        for line in 0..5 {
            let v = 0.015 + line as f32 * 0.028;
            let sway = 0.03 * self.sin(time * 0.6 + line as f32 * 0.21);
            let half = 0.42 - line as f32 * 0.05;
            self.stroke(pixels, place((sway - half, v)), place((sway + half, v)), 0.0042, reflect);
            let foam = mix(SEA[1], SAIL, 0.55 - line as f32 * 0.09);
            let behind = -0.50 - line as f32 * 0.10;
            self.stroke(pixels, place((behind - 0.07, v + 0.01)), place((behind + 0.03, v)), 0.0028, foam);
        }
        shape(pixels, &[(-0.012, -0.1), (-0.012, -1.0), (0.012, -1.0), (0.012, -0.1)], MAST);
        shape(pixels, &[(-0.03, -0.93), (-0.03, -0.21), (-0.44, -0.21), (-0.33, -0.45)], SAIL);
        shape(pixels, &[(0.03, -0.86), (0.50, -0.19), (0.05, -0.22)], JIB);
        let flutter = 0.02 * self.sin(time * 1.7);
        shape(pixels, &[(0.0, -1.0), (-0.20, -0.97 + flutter), (0.0, -0.93)], PENNANT);
        shape(pixels, &[(-0.50, -0.16), (0.56, -0.18), (0.40, 0.02), (-0.42, 0.02)], HULL);
        shape(pixels, &[(-0.49, -0.125), (0.535, -0.145), (0.52, -0.115), (-0.48, -0.095)], STRAKE);
    }

    /// Rows and columns that lie within `margin` of these points, all in heights.
    fn around(&self, points: &[(f32, f32)], margin: f32) -> [std::ops::Range<usize>; 2] {
        let bounds = |of: fn(&(f32, f32)) -> f32, most: usize| {
            let low = points.iter().map(of).fold(f32::MAX, f32::min) - margin;
            let high = points.iter().map(of).fold(f32::MIN, f32::max) + margin;
            let pixel = |at: f32| (at * self.height as f32).clamp(0.0, most as f32) as usize;
            pixel(low)..(pixel(high) + 2).min(most)
        };
        [bounds(|point| point.1, self.height), bounds(|point| point.0, self.width)]
    }

    /// Blends a colour into every pixel by `cover`, which takes positions in heights.
    fn blend(
        &self,
        pixels: &mut [u8],
        [rows, columns]: [std::ops::Range<usize>; 2],
        colour: Colour,
        cover: impl Fn(f32, f32) -> f32,
    ) {
        let scale = 1.0 / self.height as f32;
        for y in rows {
            for x in columns.clone() {
                let share = cover((x as f32 + 0.5) * scale, (y as f32 + 0.5) * scale).clamp(0.0, 1.0);
                if share > 0.0 {
                    let at = (y * self.width + x) * 3;
                    let under = [0, 1, 2].map(|channel| f32::from(pixels[at + channel]));
                    put(pixels, at, mix(under, colour, share));
                }
            }
        }
    }

    /// A convex polygon with soft edges.
    fn fill(&self, pixels: &mut [u8], points: &[(f32, f32)], colour: Colour) {
        let corner = |index: usize| points[index % points.len()];
        let area: f32 = (0..points.len()).map(|i| corner(i).0 * corner(i + 1).1 - corner(i + 1).0 * corner(i).1).sum();
        // The distance inside each edge is what its normal says.
        let edges: Vec<(f32, f32, f32)> = (0..points.len())
            .map(|i| {
                let ((x0, y0), (x1, y1)) = (corner(i), corner(i + 1));
                let length = (x1 - x0).hypot(y1 - y0).max(1e-9) * area.signum();
                let (a, b) = ((y0 - y1) / length, (x1 - x0) / length);
                (a, b, -(a * x0 + b * y0))
            })
            .collect();
        let sharp = self.height as f32;
        self.blend(pixels, self.around(points, 2.0 / sharp), colour, |x, y| {
            edges.iter().map(|&(a, b, c)| (a * x + b * y + c) * sharp + 0.5).fold(1.0, f32::min)
        });
    }

    /// A line with round ends and soft edges.
    fn stroke(&self, pixels: &mut [u8], from: (f32, f32), to: (f32, f32), radius: f32, colour: Colour) {
        let along = (to.0 - from.0, to.1 - from.1);
        let length = (along.0 * along.0 + along.1 * along.1).max(1e-9);
        let sharp = self.height as f32;
        self.blend(pixels, self.around(&[from, to], radius + 2.0 / sharp), colour, |x, y| {
            let at = (((x - from.0) * along.0 + (y - from.1) * along.1) / length).clamp(0.0, 1.0);
            let distance = (x - from.0 - along.0 * at).hypot(y - from.1 - along.1 * at);
            (radius - distance) * sharp + 0.5
        });
    }
}

fn mix(under: Colour, over: Colour, share: f32) -> Colour {
    [0, 1, 2].map(|channel| under[channel] + (over[channel] - under[channel]) * share)
}

fn gradient(colours: &[Colour], at: f32) -> Colour {
    let at = at.clamp(0.0, 1.0) * (colours.len() - 1) as f32;
    let low = (at as usize).min(colours.len() - 2);
    mix(colours[low], colours[low + 1], at - low as f32)
}

fn put(pixels: &mut [u8], at: usize, colour: Colour) {
    for (value, channel) in pixels[at..at + 3].iter_mut().zip(colour) {
        // Saturates.
        *value = (channel + 0.5) as u8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_follow_from_their_number_and_move() {
        let scene = Scene::new(64, 36);
        let paint = |number| {
            let mut pixels = vec![0; scene.bytes()];
            scene.paint(number, &mut pixels);
            pixels
        };
        assert_eq!(paint(9), paint(9));
        let moved = paint(9).iter().zip(paint(40)).filter(|(a, b)| **a != *b).count();
        assert!(moved > 64 * 36 / 10, "{moved} bytes differ");
    }

    #[test]
    fn any_size_and_number_can_be_painted() {
        for (width, height) in [(1, 1), (1, 300), (300, 1), (2, 2), (17, 5)] {
            let scene = Scene::new(width, height);
            let mut pixels = vec![0; scene.bytes()];
            for number in [0, 1, 239, u64::MAX] {
                scene.paint(number, &mut pixels);
            }
        }
    }
}
