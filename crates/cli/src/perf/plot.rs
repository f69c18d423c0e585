//! Message size against throughput, one line a transport; with and without load in one figure.

use super::measure::Series;
use super::{Args, Transport, size_name};
use crate::exit::Error;
use crate::picture::{self, COLOURS, Drawn, FAINT, FONT, Figure, INK};
use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::path::Path;

/// Room for the legend, in pixels.
const LEGEND: u32 = 224;

/// Draws what was measured.
pub(super) fn throughput(file: &Path, args: &Args, series: &[Series]) -> Result<(), Error> {
    let figure = Throughput { args, lines: lines(series) };
    let is_png = file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("png"));
    let drawn = if is_png { picture::png(&figure, file) } else { picture::svg(&figure, file) };
    drawn.map_err(|error| Error::failed(format!("cannot draw the figure {}: {error}", file.display())))
}

/// One transport under one load.
struct Curve<'a> {
    transport: &'a Transport,
    load: u32,
    /// Bytes a message, and Gbit/s.
    points: Vec<(f64, f64)>,
}

fn lines(series: &[Series]) -> Vec<Curve<'_>> {
    let mut curves: Vec<Curve<'_>> = Vec::new();
    for series in series.iter().filter(|series| !series.measured.is_empty()) {
        let point = (series.job.size as f64, series.median(|measured| measured.gbit_s));
        match curves.iter_mut().find(|curve| series.is(curve.transport, curve.load)) {
            Some(curve) => curve.points.push(point),
            None => curves.push(Curve { transport: &series.job.transport, load: series.load, points: vec![point] }),
        }
    }
    for curve in &mut curves {
        curve.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    curves
}

struct Throughput<'a> {
    args: &'a Args,
    lines: Vec<Curve<'a>>,
}

impl Figure for Throughput<'_> {
    fn size(&self) -> (u32, u32) {
        (1000, 520)
    }

    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>, scale: u32) -> Drawn
    where
        B::ErrorType: 'static,
    {
        let points = || self.lines.iter().flat_map(|line| line.points.iter().copied());
        let (low, high) = points().fold((f64::MAX, 1.0f64), |(low, high), (x, _)| (low.min(x), high.max(x)));
        let top = points().fold(0.1f64, |top, (_, y)| top.max(y)) * 1.08;
        let letters = |size: u32, colour: RGBColor| (FONT, size * scale).into_font().color(&colour);
        let title = format!("Throughput over {}, idle {}", self.args.path_name(), self.args.idle);
        // The legend stands beside the lines, never on them.
        let (left, right) = area.split_horizontally(area.dim_in_pixel().0 - LEGEND * scale);
        let mut chart = ChartBuilder::on(&left)
            .caption(title, letters(20, INK))
            .margin(14 * scale)
            .x_label_area_size(44 * scale)
            .y_label_area_size(56 * scale)
            // A little room at both ends, also if there is one size only.
            .build_cartesian_2d((low / 1.3..high * 1.3).log_scale().base(2.0), 0.0..top)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(FAINT.mix(0.2))
            .axis_style(FAINT)
            .x_desc("message size")
            .y_desc("Gbit/s, median")
            .axis_desc_style(letters(14, INK))
            .label_style(letters(12, INK))
            .x_label_formatter(&|size| size_name(size.round() as usize))
            .y_label_formatter(&|rate| format!("{rate:.0}"))
            .draw()?;
        for (row, line) in self.lines.iter().enumerate() {
            let colour = COLOURS[self.colour(line.transport) % COLOURS.len()];
            let style = colour.stroke_width(2 * scale);
            let loaded = line.load > 0;
            let label = match line.load {
                0 => line.transport.to_string(),
                1 => format!("{}, beside a counter", line.transport),
                n => format!("{}, beside {n} counters", line.transport),
            };
            let (size, space) = if loaded { (7 * scale, 5 * scale) } else { (1, 0) };
            let radius = 3 * scale;
            let fill = if loaded { WHITE.filled() } else { colour.filled() };
            chart.draw_series(DashedLineSeries::new(line.points.iter().copied(), size, space, style))?;
            chart.draw_series(line.points.iter().map(|point| Circle::new(*point, radius, fill)))?;
            chart.draw_series(line.points.iter().map(|point| Circle::new(*point, radius, style)))?;
            let pixels = |n: usize| (n * scale as usize) as i32;
            let y = pixels(60 + 22 * row);
            right.draw(&DashedPathElement::new([(pixels(6), y), (pixels(34), y)], size, space, style))?;
            right.draw(&Circle::new((pixels(20), y), radius, fill))?;
            right.draw(&Circle::new((pixels(20), y), radius, style))?;
            let beside = letters(13, INK).pos(Pos::new(HPos::Left, VPos::Center));
            right.draw(&Text::new(label, (pixels(42), y), beside))?;
        }
        Ok(())
    }
}

impl Throughput<'_> {
    /// With and without load a transport has one colour.
    fn colour(&self, transport: &Transport) -> usize {
        let mut seen: Vec<&Transport> = Vec::new();
        for line in &self.lines {
            if !seen.contains(&line.transport) {
                seen.push(line.transport);
            }
        }
        seen.iter().position(|other| *other == transport).unwrap_or(0)
    }
}
