//! The picture at the end: throughput by message size, and goodput over time on a path with loss.

use super::Findings;
use super::lossy::RATE;
use super::throughput::Row;
use crate::numbers;
use crate::picture::{self, COLOURS, Drawn, FAINT, FONT, Figure, INK, Series};
use plotters::coord::Shift;
use plotters::prelude::*;

/// All findings in one figure.
pub(super) struct Overview<'f> {
    pub(super) findings: &'f Findings,
}

impl Figure for Overview<'_> {
    fn size(&self) -> (u32, u32) {
        (1280, 620)
    }

    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>, scale: u32) -> Drawn
    where
        B::ErrorType: 'static,
    {
        let findings = self.findings;
        let files = &findings.files;
        picture::text(area, scale, (16, 12), "Pinnace: messages over UDP, received in place", (24, true, INK))?;
        let summary = format!(
            "{} files, {}, went from one process to another over loopback in {:.2} s ({}), BLAKE3 verified.{}",
            files.files,
            numbers::bytes(files.bytes),
            files.seconds,
            numbers::rate(files.rate()),
            if findings.quick { " A quick run: says nothing about speed." } else { "" }
        );
        picture::text(area, scale, (16, 46), &summary, (14, false, FAINT))?;
        let (_, panels) = area.split_vertically(80 * scale);
        let (left, right) = panels.split_horizontally(640 * scale);

        let caption = match &findings.throughput {
            Ok(_) => {
                "Two processes over loopback, in turn on this machine; the numbers are Pinnace over TCP.".to_owned()
            }
            Err(error) => format!("Not measured: {error}"),
        };
        let rest = picture::headed(&left, scale, "Throughput by message size", &[caption])?;
        if let Ok(rows) = &findings.throughput {
            throughput(&rest, scale, rows)?;
        }

        let caption = "ZCRP with bbr on a simulated 100 Mbit/s path, 60 ms round trip; every byte compared.".to_owned();
        let rest = picture::headed(&right, scale, "Goodput on a path with loss", &[caption])?;
        let series: Vec<Series> = findings
            .lossy
            .iter()
            .zip([COLOURS[0], COLOURS[2], COLOURS[3]])
            .map(|(path, colour)| Series {
                label: format!("{} % loss: {}", path.percent, numbers::rate(path.goodput)),
                colour,
                line: path.line.clone(),
            })
            .collect();
        picture::goodput(&rest, scale, &series, Some(RATE))
    }
}

/// Two lines over the message sizes, evenly spaced.
fn throughput<B: DrawingBackend>(area: &DrawingArea<B, Shift>, scale: u32, rows: &[Row]) -> Drawn
where
    B::ErrorType: 'static,
{
    let most = rows.iter().flat_map(|row| [row.pinnace, row.tcp]).fold(0.1, f64::max);
    let last = rows.len().saturating_sub(1) as f64;
    let mut chart = ChartBuilder::on(area)
        .margin_right(24 * scale)
        .margin_left(6 * scale)
        .margin_bottom(4 * scale)
        .x_label_area_size(38 * scale)
        .y_label_area_size(62 * scale)
        .build_cartesian_2d(-0.35..last + 0.45, 0.0..most * 1.15)?;
    let name = |x: &f64| match rows.get(x.round() as usize) {
        Some(row) if (x - x.round()).abs() < 1e-6 && *x >= 0.0 => numbers::bytes(row.size),
        _ => String::new(),
    };
    picture::mesh(&mut chart, scale, ("message size", "throughput, Gbit/s"), name, |y| picture::short(*y))?;
    let tcp: Vec<f64> = rows.iter().map(|row| row.tcp).collect();
    let pinnace: Vec<f64> = rows.iter().map(|row| row.pinnace).collect();
    for (label, colour, values) in [("TCP cubic", COLOURS[1], &tcp), ("Pinnace (ZCRP)", COLOURS[0], &pinnace)] {
        let points = || values.iter().enumerate().map(|(x, &value)| (x as f64, value));
        chart
            .draw_series(LineSeries::new(points(), colour.stroke_width(3 * scale)))?
            .label(label)
            .legend(picture::key(colour, scale));
        chart.draw_series(points().map(|point| Circle::new(point, 4 * scale, colour.filled())))?;
    }
    // The ratio, above the higher point of every size.
    let font = (FONT, 12 * scale).into_font().color(&INK);
    chart.draw_series(rows.iter().enumerate().map(|(x, row)| {
        let lift = (-20 * scale as i32, -20 * scale as i32);
        EmptyElement::at((x as f64, row.pinnace.max(row.tcp)))
            + Text::new(format!("{}x", ratio(row.pinnace / row.tcp)), lift, font.clone())
    }))?;
    picture::legend(&mut chart, scale, SeriesLabelPosition::LowerRight)
}

fn ratio(ratio: f64) -> String {
    if ratio >= 9.95 { format!("{ratio:.0}") } else { format!("{ratio:.1}") }
}
