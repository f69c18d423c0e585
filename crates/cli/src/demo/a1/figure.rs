//! The figure: how late each block of the song was, in each turn.

use super::{BAR_MS, Findings, SINKS, Turn};
use crate::picture::{self, COLOURS, Drawn, FAINT, Figure, INK};
use plotters::coord::Shift;
use plotters::prelude::*;

/// Milliseconds at the lower end of the axis, which is logarithmic: what one wants to tell apart lies between one and
/// thousands.
const LEAST: f64 = 0.03;

/// So much of the axis is free above the latest block, for the legend.
const ROOM: f64 = 0.26;

/// All findings in one figure.
pub(super) struct Overview<'f> {
    pub(super) findings: &'f Findings,
}

impl Figure for Overview<'_> {
    fn size(&self) -> (u32, u32) {
        (1280, 520)
    }

    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>, scale: u32) -> Drawn
    where
        B::ErrorType: 'static,
    {
        let findings = self.findings;
        picture::text(area, scale, (16, 12), "A song to three sinks over one narrow link (A1)", (24, true, INK))?;
        let summary = format!(
            "A block every 20 ms; {}. How much later than the quickest each block came, at the {SINKS} sinks.",
            findings.link
        );
        picture::text(area, scale, (16, 46), &summary, (14, false, FAINT))?;
        let (_, panels) = area.split_vertically(80 * scale);
        let latest = findings.turns.iter().map(|turn| turn.most(|heard| heard.late_max)).fold(4.0 * BAR_MS, f64::max);
        for (turn, panel) in findings.turns.iter().zip(panels.split_evenly((1, findings.turns.len()))) {
            draw_turn(&panel, scale, turn, (f64::from(findings.length), latest * 1.5))?;
        }
        Ok(())
    }
}

fn draw_turn<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    scale: u32,
    turn: &Turn,
    (length, latest): (f64, f64),
) -> Drawn
where
    B::ErrorType: 'static,
{
    let bulk = match turn.bulk {
        rate if rate > 0.0 => format!(", bulk {}", crate::numbers::rate(rate)),
        _ => String::new(),
    };
    let caption = format!("p99 {:.1} ms, {} blocks lost{bulk}", turn.most(|heard| heard.p99), turn.lost());
    let rest = picture::headed(area, scale, &turn.beside.to_string(), &[caption])?;
    let (low, high) = (LEAST.log10(), latest.log10());
    let top = low + (high - low) / (1.0 - ROOM);
    let mut chart = ChartBuilder::on(&rest)
        .margin_right(20 * scale)
        .margin_left(6 * scale)
        .margin_bottom(4 * scale)
        .x_label_area_size(38 * scale)
        .y_label_area_size(56 * scale)
        .build_cartesian_2d(0.0..length, low..top)?;
    picture::mesh(&mut chart, scale, ("seconds", "late, ms"), |x| picture::short(*x), |y| tick(*y))?;
    for (index, (heard, colour)) in turn.heard.iter().zip(COLOURS).enumerate() {
        let points =
            heard.line.iter().map(|&(at, late)| Circle::new((at, late.max(LEAST).log10()), 2 * scale, colour.filled()));
        chart.draw_series(points)?.label(format!("sink {}", index + 1)).legend(picture::dot(colour.mix(1.0), scale));
    }
    let style = ShapeStyle { color: FAINT.into(), filled: false, stroke_width: scale };
    chart.draw_series(DashedLineSeries::new(
        [(0.0, BAR_MS.log10()), (length, BAR_MS.log10())],
        4 * scale,
        4 * scale,
        style,
    ))?;
    picture::legend(&mut chart, scale, SeriesLabelPosition::UpperLeft)
}

/// A time whose logarithm this is, in milliseconds, to one digit.
fn tick(logarithm: f64) -> String {
    let millis = 10_f64.powf(logarithm);
    let unit = 10_f64.powf(millis.log10().floor());
    picture::short((millis / unit).round() * unit)
}
