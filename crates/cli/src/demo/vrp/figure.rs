//! The figure: what the camera and each viewer saw at one moment, pictures a second, and how old what was on the screens was.

use super::run::{Seen, Viewed};
use super::{CONTRACT, FPS, Findings, Shown, movie};
use crate::exit::Error;
use crate::picture::{self, COLOURS, Drawn, FAINT, FONT, Figure, INK};
use plotters::coord::Shift;
use plotters::element::BitMapElement;
use plotters::prelude::*;
use std::time::Duration;

/// Left upper corners of the four pictures.
const PLACES: [(i32, i32); 4] = [(20, 112), (440, 112), (20, 448), (440, 448)];
/// Where the right column begins, and how wide it is.
const RIGHT: (i32, i32) = (868, 392);
const PALE: RGBColor = RGBColor(0xf2, 0xf4, 0xf7);

/// Everything in one figure.
pub(super) struct Overview<'f> {
    findings: &'f Findings,
    camera: Vec<u8>,
    camera_caption: String,
    panels: Vec<Panel>,
}

/// One viewer's.
struct Panel {
    name: &'static str,
    colour: RGBColor,
    pixels: Option<Vec<u8>>,
    caption: String,
    fps: f64,
    /// Seconds, and how old what is on the screen is then.
    ages: Vec<(f64, f64)>,
}

impl<'f> Overview<'f> {
    /// Reads what it needs.
    pub(super) fn new(findings: &'f Findings) -> Result<Self, Error> {
        let number = (findings.moment.as_secs_f64() * f64::from(FPS)) as u64;
        let panels = findings.shown.iter().zip(COLOURS).map(|(shown, colour)| panel(findings, shown, colour));
        Ok(Self {
            findings,
            camera: movie::still(number)?,
            camera_caption: format!("picture {number}, the newest"),
            panels: panels.collect::<Result<_, _>>()?,
        })
    }
}

/// What is missing of a picture.
pub(super) fn missing(seen: &Seen) -> String {
    let bytes: usize = seen.holes.iter().map(|hole| hole.len()).sum();
    match bytes {
        0 => "whole".to_owned(),
        _ => format!("{:.1} % missing", bytes as f64 / movie::BYTES as f64 * 100.0),
    }
}

/// As people read it.
pub(super) fn age(age: Duration) -> String {
    match age.as_millis() {
        millis @ 0..1000 => format!("{millis} ms"),
        _ => format!("{:.1} s", age.as_secs_f64()),
    }
}

fn panel(findings: &Findings, shown: &Shown, colour: RGBColor) -> Result<Panel, Error> {
    let Shown { name, result } = shown;
    let Ok(viewed) = result else {
        let caption = "brought nothing".to_owned();
        return Ok(Panel { name, colour, pixels: None, caption, fps: 0.0, ages: Vec::new() });
    };
    let on_screen = viewed.on_screen(findings.moment);
    let pixels = on_screen.map(|seen| Ok::<_, Error>(movie::from_tiles(&viewed.tiles(seen)?, &seen.holes)));
    let caption = on_screen.map_or("nothing yet".to_owned(), |seen| {
        let old = findings.moment.saturating_sub(seen.sent);
        format!("picture {}, {} old, {}", seen.number, age(old), missing(seen))
    });
    let end = findings.pictures as f64 / f64::from(FPS);
    Ok(Panel { name, colour, pixels: pixels.transpose()?, caption, fps: fps(viewed), ages: saw(viewed, end) })
}

/// Pictures a second from the first to the last one.
pub(super) fn fps(viewed: &Viewed) -> f64 {
    viewed.received["frames_per_second"].as_f64().unwrap_or(0.0)
}

/// A line that falls with each new picture, and rises until the next.
fn saw(viewed: &Viewed, end: f64) -> Vec<(f64, f64)> {
    let mut line = Vec::new();
    let mut newest = Duration::ZERO;
    for seen in viewed.seen.iter().take_while(|seen| seen.at().as_secs_f64() <= end) {
        let at = seen.at();
        if !line.is_empty() {
            line.push((at.as_secs_f64(), at.saturating_sub(newest).as_secs_f64()));
        }
        // A picture that was overtaken is not shown.
        newest = newest.max(seen.sent);
        line.push((at.as_secs_f64(), at.saturating_sub(newest).as_secs_f64()));
    }
    if !line.is_empty() {
        line.push((end, end - newest.as_secs_f64()));
    }
    line
}

impl Figure for Overview<'_> {
    fn size(&self) -> (u32, u32) {
        (1280, 800)
    }

    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>, scale: u32) -> Drawn
    where
        B::ErrorType: 'static,
    {
        let findings = self.findings;
        let title = if findings.without_tcp.is_none() {
            "One camera, one bad path: VRP and TCP"
        } else {
            "A camera over a bad path with VRP"
        };
        picture::text(area, scale, (20, 14), title, (25, true, INK))?;
        let summary = format!(
            "{FPS} pictures of {} kB a second over {}. What each viewer saw {:.1} s after the first was sent:",
            movie::BYTES / 1000,
            findings.path,
            findings.moment.as_secs_f64(),
        );
        picture::text(area, scale, (20, 50), &summary, (14, false, FAINT))?;
        let camera = ("At the camera", INK, Some(&self.camera), &self.camera_caption);
        let viewers = self.panels.iter().map(|panel| {
            let Panel { name, colour, pixels, caption, .. } = panel;
            (*name, *colour, pixels.as_ref(), caption)
        });
        for ((name, colour, pixels, caption), place) in std::iter::once(camera).chain(viewers).zip(PLACES) {
            draw_panel(area, scale, place, (name, colour), pixels, caption)?;
        }
        self.draw_reason(area, scale)?;
        draw_legend(area, scale)?;
        self.draw_rates(area, scale)?;
        self.draw_ages(area, scale)
    }
}

fn draw_panel<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    scale: u32,
    (x, y): (i32, i32),
    (name, colour): (&str, RGBColor),
    pixels: Option<&Vec<u8>>,
    caption: &str,
) -> Drawn
where
    B::ErrorType: 'static,
{
    let (width, height) = (movie::SIZE.0 as i32, movie::SIZE.1 as i32);
    picture::text(area, scale, (x, y - 24), name, (17, true, colour))?;
    rectangle(area, scale, [(x - 3, y - 3), (x + width + 3, y + height + 3)], colour)?;
    match pixels {
        Some(pixels) => {
            let enlarged = enlarge(pixels, scale as usize);
            let (size, place) = ((width as u32 * scale, height as u32 * scale), (x * scale as i32, y * scale as i32));
            if let Some(bitmap) = BitMapElement::with_owned_buffer(place, size, enlarged) {
                area.draw(&bitmap)?;
            }
        }
        None => rectangle(area, scale, [(x, y), (x + width, y + height)], PALE)?,
    }
    picture::text(area, scale, (x, y + height + 8), caption, (14, false, INK))
}

/// Repeats every pixel.
fn enlarge(pixels: &[u8], scale: usize) -> Vec<u8> {
    let row = movie::SIZE.0 * 3;
    let mut enlarged = Vec::with_capacity(pixels.len() * scale * scale);
    for line in pixels.chunks(row) {
        let wide: Vec<u8> = line.chunks(3).flat_map(|pixel| pixel.repeat(scale)).collect();
        (0..scale).for_each(|_| enlarged.extend_from_slice(&wide));
    }
    enlarged
}

fn rectangle<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    scale: u32,
    corners: [(i32, i32); 2],
    colour: RGBColor,
) -> Drawn
where
    B::ErrorType: 'static,
{
    let scaled = corners.map(|(x, y)| (x * scale as i32, y * scale as i32));
    Ok(area.draw(&Rectangle::new(scaled, colour.filled()))?)
}

fn draw_legend<B: DrawingBackend>(area: &DrawingArea<B, Shift>, scale: u32) -> Drawn
where
    B::ErrorType: 'static,
{
    let (x, y) = (20, 756);
    for stripe in 0..8 {
        let [r, g, b] = if stripe % 2 == 0 { movie::HOLE.0 } else { movie::HOLE.1 };
        let left = x + stripe * 3;
        rectangle(area, scale, [(left, y), (left + 3, y + 16)], RGBColor(r, g, b))?;
    }
    let [rate, run] = CONTRACT;
    let text = format!(
        "lost, and delivered all the same: the contract lets {} of the tiles go, at most {} in a row, none of the top row",
        rate.replace('%', " %"),
        run.trim_end_matches("packets"),
    );
    picture::text(area, scale, (x + 34, y), &text, (13, false, FAINT))
}

impl Overview<'_> {
    /// Instead of TCP's pictures, why there are none.
    fn draw_reason<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>, scale: u32) -> Drawn
    where
        B::ErrorType: 'static,
    {
        if self.findings.without_tcp.is_none() {
            return Ok(());
        }
        let (x, y) = PLACES[2];
        picture::text(area, scale, (x, y - 24), "TCP", (17, true, FAINT))?;
        let right = PLACES[3].0 + movie::SIZE.0 as i32;
        rectangle(area, scale, [(x, y), (right, y + movie::SIZE.1 as i32)], PALE)?;
        for (line, text) in [
            "not run: TCP is the kernel's, and a lossy path for it takes network namespaces and a TUN device.",
            "With the privileges for these (sudo pinnace demo vrp) both cross the same emulated link.",
        ]
        .iter()
        .enumerate()
        {
            picture::text(area, scale, (x + 24, y + 110 + 22 * line as i32), text, (14, false, FAINT))?;
        }
        Ok(())
    }

    fn draw_rates<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>, scale: u32) -> Drawn
    where
        B::ErrorType: 'static,
    {
        let (x, width) = RIGHT;
        picture::text(area, scale, (x, 88), &format!("Pictures a second, of {FPS}"), (17, true, INK))?;
        for (index, Panel { name, colour, fps, .. }) in self.panels.iter().enumerate() {
            let y = 120 + 34 * index as i32;
            picture::text(area, scale, (x, y + 3), name, (14, false, INK))?;
            let (from, most) = (x + 84, f64::from(width - 84 - 52));
            let length = (fps / f64::from(FPS) * most).clamp(1.0, most) as i32;
            rectangle(area, scale, [(from, y), (from + most as i32, y + 22)], PALE)?;
            rectangle(area, scale, [(from, y), (from + length, y + 22)], *colour)?;
            picture::text(area, scale, (from + most as i32 + 8, y + 3), &format!("{fps:.1}"), (15, true, INK))?;
        }
        Ok(())
    }

    /// On a logarithmic scale: what one wants to tell apart lies between 50 ms and 10 s.
    fn draw_ages<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>, scale: u32) -> Drawn
    where
        B::ErrorType: 'static,
    {
        let (x, width) = RIGHT;
        picture::text(area, scale, (x, 250), "Age of what is on the screen", (17, true, INK))?;
        let end = self.findings.pictures as f64 / f64::from(FPS);
        let ages = self.panels.iter().flat_map(|panel| panel.ages.iter().map(|(_, age)| *age));
        let (low, high) = ages.fold((0.09_f64, 0.4_f64), |(low, high), age| (low.min(age), high.max(age)));
        let (low, high) = ((low.max(0.01) * 0.85).log10(), (high * 1.2).log10());
        let scaled = |at: i32| (at * scale as i32) as u32;
        let part = area.margin(scaled(276), scaled(800 - 748), scaled(x - 8), scaled(1280 - x - width - 8));
        let mut chart = ChartBuilder::on(&part)
            .margin_right(10 * scale)
            .x_label_area_size(38 * scale)
            .y_label_area_size(58 * scale)
            .build_cartesian_2d(0.0..end, low..high)?;
        picture::mesh(&mut chart, scale, ("seconds", ""), |x| picture::short(*x), |y| tick(*y))?;
        for Panel { name, colour, ages, .. } in &self.panels {
            let points = ages.iter().map(|&(at, age)| (at, age.max(0.001).log10()));
            chart
                .draw_series(LineSeries::new(points, colour.stroke_width(2 * scale)))?
                .label(*name)
                .legend(picture::key(*colour, scale));
        }
        let moment = self.findings.moment.as_secs_f64();
        let dashes = DashedLineSeries::new(
            [(moment, low), (moment, high)],
            4 * scale,
            4 * scale,
            ShapeStyle { color: FAINT.into(), filled: false, stroke_width: scale },
        );
        chart.draw_series(dashes)?;
        let font = (FONT, 12 * scale).into_font().color(&FAINT);
        let lift = (-118 * scale as i32, 4 * scale as i32);
        chart.draw_series(std::iter::once(
            EmptyElement::at((moment, high)) + Text::new("the moment shown", lift, font),
        ))?;
        Ok(())
    }
}

/// A time whose logarithm this is, to two digits.
fn tick(logarithm: f64) -> String {
    let seconds = 10_f64.powf(logarithm);
    let unit = 10_f64.powi(seconds.log10().floor() as i32 - 1);
    let seconds = (seconds / unit).round() * unit;
    if seconds < 0.999 { format!("{:.0} ms", seconds * 1e3) } else { format!("{} s", picture::short(seconds)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn times_on_the_axis_are_round() {
        let ticks = [-2.0, -1.0, -0.2, 0.0, 0.4, 1.1].map(tick);
        assert_eq!(ticks, ["10 ms", "100 ms", "630 ms", "1 s", "2.5 s", "13 s"]);
    }

    #[test]
    fn what_is_on_the_screen_grows_old_until_the_next_picture() {
        let seen = |number, sent, age| Seen {
            number,
            sent: Duration::from_millis(sent),
            age: Duration::from_millis(age),
            holes: Vec::new(),
        };
        let seen = vec![seen(0, 0, 100), seen(2, 200, 100), seen(1, 100, 300), seen(3, 300, 9000)];
        let viewed = Viewed { seen, received: Value::Null, sent: Value::Null, pictures: "none".into() };
        let line: Vec<_> = saw(&viewed, 1.0).iter().map(|&(x, y)| ((x * 1e3).round(), (y * 1e3).round())).collect();
        let expected =
            [(100.0, 100.0), (300.0, 300.0), (300.0, 100.0), (400.0, 200.0), (400.0, 200.0), (1000.0, 800.0)];
        assert_eq!(line, expected, "one that was overtaken is not shown");
    }
}
