//! The figures: bars in groups, ratios with the paper's range behind them, and panels of lines.
//!
//! Always true: VRP, TCP cubic and TCP bbr have the colours that they have in every other figure.

use crate::picture::{self, Drawn, FAINT, FONT, Figure, INK, short};
use plotters::coord::Shift;
use plotters::coord::ranged1d::{Ranged, ValueFormatter};
use plotters::coord::types::RangedCoordf64;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// One bar: of which series, how high, and what is written above it.
#[derive(Clone, Debug)]
pub(super) struct Bar {
    pub(super) series: usize,
    pub(super) value: f64,
    pub(super) label: String,
}

/// Bars that stand together, and the lines of text below them.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) name: Vec<String>,
    pub(super) bars: Vec<Bar>,
}

/// A chart of bars.
#[derive(Clone, Debug)]
pub(super) struct Bars {
    pub(super) y_name: String,
    /// The end of the vertical axis, if not the highest bar.
    pub(super) top: Option<f64>,
    pub(super) series: Vec<(String, RGBColor)>,
    pub(super) groups: Vec<Group>,
}

/// Ratios that stand together, of which series each, and the lines of text below them.
#[derive(Clone, Debug)]
pub(super) struct Dotted {
    pub(super) name: Vec<String>,
    pub(super) ratios: Vec<(usize, f64)>,
}

/// A chart of ratios, on a logarithmic axis: of which series, and how much; with a range behind them.
#[derive(Clone, Debug)]
pub(super) struct Ratios {
    pub(super) y_name: String,
    pub(super) series: Vec<(String, RGBColor)>,
    pub(super) groups: Vec<Dotted>,
    pub(super) band: (f64, f64),
    pub(super) band_name: String,
}

/// Bars on the left, ratios on the right.
#[derive(Clone, Debug)]
pub(super) struct Sides {
    pub(super) title: String,
    pub(super) caption: String,
    pub(super) bars: Bars,
    pub(super) ratios: Ratios,
}

impl Figure for Sides {
    fn size(&self) -> (u32, u32) {
        (1280, 520)
    }

    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>, scale: u32) -> Drawn
    where
        B::ErrorType: 'static,
    {
        let rest = picture::headed(area, scale, &self.title, std::slice::from_ref(&self.caption))?;
        let (left, right) = rest.split_horizontally(660 * scale);
        self.bars.draw(&left, scale)?;
        self.ratios.draw(&right, scale)
    }
}

/// Charts of bars, side by side.
#[derive(Clone, Debug)]
pub(super) struct BarCharts {
    pub(super) title: String,
    pub(super) caption: String,
    pub(super) charts: Vec<Bars>,
}

impl Figure for BarCharts {
    fn size(&self) -> (u32, u32) {
        if self.charts.len() == 1 { (860, 480) } else { (1480, 500) }
    }

    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>, scale: u32) -> Drawn
    where
        B::ErrorType: 'static,
    {
        let rest = picture::headed(area, scale, &self.title, std::slice::from_ref(&self.caption))?;
        for (bars, area) in self.charts.iter().zip(rest.split_evenly((1, self.charts.len()))) {
            bars.draw(&area, scale)?;
        }
        Ok(())
    }
}

fn letters(size: u32, scale: u32, colour: RGBColor) -> TextStyle<'static> {
    (FONT, size * scale).into_font().color(&colour)
}

/// Room below a chart for the names of groups, in pixels.
const NAMES: u32 = 48;
/// Room above it for the legend.
const LEGEND: u32 = 34;

impl Bars {
    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>, scale: u32) -> Drawn
    where
        B::ErrorType: 'static,
    {
        let highest = self.groups.iter().flat_map(|group| &group.bars).fold(0.1f64, |top, bar| top.max(bar.value));
        let top = self.top.unwrap_or(0.0).max(highest) * 1.1;
        let (low, high) = (-0.5, self.groups.len() as f64 - 0.5);
        let mut chart = frame(area, scale).build_cartesian_2d(low..high, 0.0..top)?;
        mesh(&mut chart, scale, &self.y_name, None)?;
        let width = 0.84 / self.series.len().max(1) as f64;
        let above = letters(11, scale, INK).pos(Pos::new(HPos::Center, VPos::Bottom));
        for (x, group) in self.groups.iter().enumerate() {
            for bar in &group.bars {
                let left = x as f64 - 0.42 + bar.series as f64 * width;
                let corners = [(left + 0.02, 0.0), (left + width - 0.02, bar.value)];
                chart.draw_series([Rectangle::new(corners, self.series[bar.series].1.filled())])?;
                let place = chart.backend_coord(&(left + width / 2.0, bar.value));
                write(area, &bar.label, (place.0, place.1 - 2 * scale as i32), &above)?;
            }
            let place = chart.backend_coord(&(x as f64, 0.0));
            names(area, scale, &group.name, place)?;
        }
        let keys: Vec<_> = self.series.iter().map(|(name, colour)| (name.as_str(), *colour, Key::Block)).collect();
        legend(area, scale, &keys)
    }
}

impl Ratios {
    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>, scale: u32) -> Drawn
    where
        B::ErrorType: 'static,
    {
        let values = || self.groups.iter().flat_map(|group| group.ratios.iter().map(|&(_, ratio)| ratio));
        let lowest = values().fold(self.band.0, f64::min).min(1.0) / 1.4;
        let highest = values().fold(self.band.1, f64::max) * 1.5;
        let (low, high) = (-0.5, self.groups.len() as f64 - 0.5);
        let mut chart = frame(area, scale).build_cartesian_2d(low..high, (lowest..highest).log_scale().base(2.0))?;
        let pale = FAINT.mix(0.16);
        chart.draw_series([Rectangle::new([(low, self.band.0), (high, self.band.1)], pale.filled())])?;
        mesh(&mut chart, scale, &self.y_name, None)?;
        chart.draw_series(LineSeries::new([(low, 1.0), (high, 1.0)], INK.stroke_width(scale)))?;
        let side = |side| letters(11, scale, INK).pos(Pos::new(side, VPos::Center));
        let (right, left) = (side(HPos::Left), side(HPos::Right));
        let pixels = |n: i32| n * scale as i32;
        let mut drawn = Vec::new();
        for (x, Dotted { name, ratios }) in self.groups.iter().enumerate() {
            let mut labels: Vec<i32> = Vec::new();
            for &(series, ratio) in ratios {
                let at = (x as f64 - 0.12, ratio);
                chart.draw_series([Circle::new(at, 5 * scale, self.series[series].1.filled())])?;
                let mut place = chart.backend_coord(&at);
                // Not on the line at 1.
                let (line, room) = (chart.backend_coord(&(at.0, 1.0)).1, pixels(9));
                if (place.1 - line).abs() < room {
                    place.1 = if ratio < 1.0 { line + room } else { line - room };
                }
                let label = if ratio < 10.0 { format!("{ratio:.2}") } else { format!("{ratio:.0}") };
                // Not over the number of another dot.
                if labels.iter().any(|y| (y - place.1).abs() < pixels(12)) {
                    write(area, &label, (place.0 - pixels(9), place.1), &left)?;
                } else {
                    write(area, &label, (place.0 + pixels(9), place.1), &right)?;
                    labels.push(place.1);
                }
                drawn.push(series);
            }
            let place = chart.backend_coord(&(x as f64, lowest));
            names(area, scale, name, place)?;
        }
        let series = self.series.iter().enumerate().filter(|(index, _)| drawn.contains(index));
        let mut keys: Vec<_> = series.map(|(_, (name, colour))| (name.as_str(), *colour, Key::Dot)).collect();
        keys.push((&self.band_name, RGBColor(0xd8, 0xdc, 0xe0), Key::Block));
        legend(area, scale, &keys)
    }
}

/// A chart with room for a legend above and names below.
fn frame<'a, 'b, B: DrawingBackend>(area: &'a DrawingArea<B, Shift>, scale: u32) -> ChartBuilder<'a, 'b, B> {
    let mut chart = ChartBuilder::on(area);
    chart
        .margin_top(LEGEND * scale)
        .margin_right(16 * scale)
        .margin_left(10 * scale)
        .margin_bottom(NAMES * scale)
        .x_label_area_size(2 * scale)
        .y_label_area_size(54 * scale);
    chart
}

/// A horizontal axis with numbers: its name, and how they are written.
type Across<'a> = (&'a str, &'a dyn Fn(&f64) -> String);

/// Horizontal lines, both axes, and what the vertical one shows; and the horizontal one, where it has numbers.
fn mesh<B: DrawingBackend, X, Y>(
    chart: &mut ChartContext<'_, B, Cartesian2d<X, Y>>,
    scale: u32,
    y_name: &str,
    across: Option<Across<'_>>,
) -> Drawn
where
    B::ErrorType: 'static,
    X: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let mut mesh = chart.configure_mesh();
    mesh.disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(FAINT.mix(0.2).stroke_width(scale))
        .axis_style(FAINT.stroke_width(scale))
        .y_desc(y_name)
        .axis_desc_style(letters(13, scale, INK))
        .label_style(letters(11, scale, FAINT))
        .y_label_formatter(&|y| short(*y));
    match across {
        Some((name, label)) => mesh.x_desc(name).x_label_formatter(label),
        None => mesh.x_labels(0),
    }
    .draw()?;
    Ok(())
}

/// Text at a pixel of the whole figure.
fn write<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    text: &str,
    (x, y): (i32, i32),
    style: &TextStyle<'_>,
) -> Drawn
where
    B::ErrorType: 'static,
{
    let (columns, rows) = area.get_pixel_range();
    Ok(area.draw(&Text::new(text.to_owned(), (x - columns.start, y - rows.start), style.clone()))?)
}

/// The lines of a group's name, below a point of the axis.
fn names<B: DrawingBackend>(area: &DrawingArea<B, Shift>, scale: u32, lines: &[String], (x, y): (i32, i32)) -> Drawn
where
    B::ErrorType: 'static,
{
    let below = letters(11, scale, INK).pos(Pos::new(HPos::Center, VPos::Top));
    for (row, line) in lines.iter().enumerate() {
        write(area, line, (x, y + (8 + 15 * row as i32) * scale as i32), &below)?;
    }
    Ok(())
}

/// What stands before a name in the legend.
#[derive(Clone, Copy, Debug)]
enum Key {
    Block,
    Dot,
    Line,
    Dashes,
}

/// Names in one row above the chart.
fn legend<B: DrawingBackend>(area: &DrawingArea<B, Shift>, scale: u32, keys: &[(&str, RGBColor, Key)]) -> Drawn
where
    B::ErrorType: 'static,
{
    let pixels = |n: i32| n * scale as i32;
    let style = letters(12, scale, INK).pos(Pos::new(HPos::Left, VPos::Center));
    let y = pixels(18);
    let mut x = pixels(66);
    for &(name, colour, key) in keys {
        let stroke = colour.stroke_width(2 * scale);
        match key {
            Key::Block => {
                area.draw(&Rectangle::new([(x, y - pixels(5)), (x + pixels(18), y + pixels(5))], colour.filled()))?;
            }
            Key::Dot => area.draw(&Circle::new((x + pixels(9), y), 5 * scale, colour.filled()))?,
            Key::Line => area.draw(&PathElement::new([(x, y), (x + pixels(18), y)], stroke))?,
            Key::Dashes => {
                area.draw(&DashedPathElement::new([(x, y), (x + pixels(18), y)], 5 * scale, 3 * scale, stroke))?;
            }
        }
        area.draw(&Text::new(name.to_owned(), (x + pixels(24), y), style.clone()))?;
        let (width, _) = area.estimate_text_size(name, &style)?;
        x += width as i32 + pixels(24 + 20);
    }
    Ok(())
}

/// One line of a panel.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    pub(super) label: String,
    pub(super) colour: RGBColor,
    pub(super) dashed: bool,
    /// A dot at every point.
    pub(super) dots: bool,
    pub(super) points: Vec<(f64, f64)>,
}

/// Dots that are no line.
#[derive(Clone, Debug)]
pub(super) struct Dots {
    pub(super) label: String,
    pub(super) colour: RGBColor,
    pub(super) points: Vec<(f64, f64)>,
}

/// A chart of lines.
#[derive(Clone, Debug)]
pub(super) struct Panel {
    pub(super) title: String,
    pub(super) x_name: String,
    pub(super) y_name: String,
    /// Powers of two on the horizontal axis, evenly spaced.
    pub(super) doubling: bool,
    pub(super) curves: Vec<Curve>,
    pub(super) dots: Vec<Dots>,
    /// A vertical line, and what it is.
    pub(super) mark: Option<(f64, String)>,
}

/// Panels side by side.
#[derive(Clone, Debug)]
pub(super) struct Panels {
    pub(super) title: String,
    pub(super) caption: Vec<String>,
    pub(super) panels: Vec<Panel>,
}

impl Figure for Panels {
    fn size(&self) -> (u32, u32) {
        match self.panels.len() {
            1 => (1000, 520),
            2 | 3 => (1320, 470),
            _ => (1480, 430),
        }
    }

    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>, scale: u32) -> Drawn
    where
        B::ErrorType: 'static,
    {
        let rest = picture::headed(area, scale, &self.title, &self.caption)?;
        for (panel, area) in self.panels.iter().zip(rest.split_evenly((1, self.panels.len()))) {
            panel.draw(&area, scale)?;
        }
        Ok(())
    }
}

impl Panel {
    fn points(&self) -> impl Iterator<Item = (f64, f64)> {
        let lines = self.curves.iter().flat_map(|curve| curve.points.iter().copied());
        lines.chain(self.dots.iter().flat_map(|dots| dots.points.iter().copied()))
    }

    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>, scale: u32) -> Drawn
    where
        B::ErrorType: 'static,
    {
        let area = if self.title.is_empty() {
            area.clone()
        } else {
            picture::text(area, scale, (66, 6), &self.title, (13, true, INK))?;
            area.split_vertically(20 * scale).1
        };
        let (low, high) = self.points().fold((f64::MAX, f64::MIN), |(low, high), (x, _)| (low.min(x), high.max(x)));
        if low > high {
            return Ok(());
        }
        let top = self.points().fold(0.1f64, |top, (_, y)| top.max(y)) * 1.12;
        let mut builder = frame(&area, scale);
        builder.margin_bottom(8 * scale).x_label_area_size(40 * scale);
        if self.doubling {
            let chart = builder.build_cartesian_2d((low / 1.2..high * 1.2).log_scale().base(2.0), 0.0..top)?;
            self.fill(&area, chart, scale, top)
        } else {
            let chart = builder.build_cartesian_2d(low..high, 0.0..top)?;
            self.fill(&area, chart, scale, top)
        }
    }

    fn fill<B: DrawingBackend, X>(
        &self,
        area: &DrawingArea<B, Shift>,
        mut chart: ChartContext<'_, B, Cartesian2d<X, RangedCoordf64>>,
        scale: u32,
        top: f64,
    ) -> Drawn
    where
        B::ErrorType: 'static,
        X: Ranged<ValueType = f64> + ValueFormatter<f64>,
    {
        let size = |x: &f64| if self.doubling { bytes(x.round()) } else { short(*x) };
        mesh(&mut chart, scale, &self.y_name, Some((&self.x_name, &size)))?;
        if let Some((x, name)) = &self.mark {
            let dashes = DashedLineSeries::new([(*x, 0.0), (*x, top)], 4 * scale, 4 * scale, FAINT.stroke_width(scale));
            chart.draw_series(dashes)?;
            let place = chart.backend_coord(&(*x, 0.0));
            let left = letters(11, scale, FAINT).pos(Pos::new(HPos::Left, VPos::Bottom));
            write(area, name, (place.0 + 4 * scale as i32, place.1 - 4 * scale as i32), &left)?;
        }
        for curve in &self.curves {
            let style = curve.colour.stroke_width(2 * scale);
            let points = || curve.points.iter().copied();
            if curve.dashed {
                chart.draw_series(DashedLineSeries::new(points(), 6 * scale, 4 * scale, style))?;
            } else {
                chart.draw_series(LineSeries::new(points(), style))?;
            }
            if curve.dots {
                chart.draw_series(points().map(|point| Circle::new(point, 4 * scale, curve.colour.filled())))?;
            }
        }
        for dots in &self.dots {
            let points = dots.points.iter();
            chart.draw_series(points.map(|point| Circle::new(*point, 3 * scale, dots.colour.filled())))?;
        }
        let lines = self
            .curves
            .iter()
            .map(|curve| (curve.label.as_str(), curve.colour, if curve.dashed { Key::Dashes } else { Key::Line }));
        let dots = self.dots.iter().map(|dots| (dots.label.as_str(), dots.colour, Key::Dot));
        legend(area, scale, &lines.chain(dots).collect::<Vec<_>>())
    }
}

/// 512, 1 Ki, 64 Ki: whatever it is a number of.
fn bytes(x: f64) -> String {
    if x < 1024.0 { short(x) } else { format!("{} Ki", short((x / 1024.0 * 10.0).round() / 10.0)) }
}
