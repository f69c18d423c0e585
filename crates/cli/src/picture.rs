//! Figures as SVG and PNG, drawn by the same code.
//!
//! Always true: a figure needs nothing from the host; its font comes with the program. A PNG is drawn three times as large
//! and averaged, so that lines and letters have soft edges.
//!
//! Whoever draws text with `plotters` in this program must call [`prepare`] first.

use crate::sim::Line;
use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::{FontStyle, register_font};
use rustix::fs::Access;
use rustix::io::Errno;
use std::error::Error;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;
use std::sync::Once;

/// What drawing can fail with.
pub(crate) type Drawn = Result<(), Box<dyn Error>>;

/// The colours of lines, one after the other; they differ in brightness too.
pub(crate) const COLOURS: [RGBColor; 6] = [
    RGBColor(0x0b, 0x5c, 0xad),
    RGBColor(0xe0, 0x7b, 0x1f),
    RGBColor(0x2a, 0x9d, 0x6f),
    RGBColor(0x8a, 0x4f, 0xbf),
    RGBColor(0x7a, 0x7a, 0x7a),
    RGBColor(0xc2, 0x3b, 0x6b),
];
pub(crate) const INK: RGBColor = RGBColor(0x22, 0x2b, 0x36);
pub(crate) const FAINT: RGBColor = RGBColor(0x6b, 0x76, 0x84);
const GRID: RGBColor = RGBColor(0xe3, 0xe7, 0xec);
const ALARM: RGBColor = RGBColor(0xd6, 0x27, 0x28);

/// The font family of every figure.
pub(crate) const FONT: &str = "sans-serif";

/// Something to draw. All lengths are multiplied by the scale.
pub(crate) trait Figure {
    /// Width and height in pixels.
    fn size(&self) -> (u32, u32);

    /// Draws it `scale` times as large.
    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>, scale: u32) -> Drawn
    where
        B::ErrorType: 'static;
}

/// Makes the program's font known to `plotters`.
pub(crate) fn prepare() {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        // Both are fonts that parse; a failure would show as a figure that cannot be drawn.
        let _ = register_font(FONT, FontStyle::Normal, dejavu::sans::regular());
        let _ = register_font(FONT, FontStyle::Bold, dejavu::sans::bold());
    });
}

/// Fails if no figure can be written there: to be asked before the work whose result it is to show.
pub(crate) fn check(path: &Path) -> Result<(), crate::exit::Error> {
    let is_known = |name: &std::ffi::OsStr| ["svg", "png"].iter().any(|known| name.eq_ignore_ascii_case(known));
    if !path.extension().is_some_and(is_known) {
        let name = path.display();
        return Err(crate::exit::Error::usage(format!(
            "cannot draw {name}: the name of a figure ends in .svg or .png"
        )));
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let (what, rights) = match path.metadata() {
        Ok(found) if found.is_dir() => (path, Err(Errno::ISDIR.into())),
        Ok(_) => (path, access(path, Access::WRITE_OK)),
        Err(_) if !folder.is_dir() => (folder, Err(Errno::NOENT.into())),
        Err(_) => (folder, access(folder, Access::WRITE_OK | Access::EXEC_OK)),
    };
    rights.map_err(|error: io::Error| {
        let name = path.display();
        let at = if what == path { String::new() } else { format!(": {}", what.display()) };
        crate::exit::Error::io(format_args!("cannot write {name}{at}"), &error)
    })
}

fn access(path: &Path, rights: Access) -> io::Result<()> {
    rustix::fs::access(path, rights).map_err(io::Error::from)
}

/// Writes a figure as SVG.
pub(crate) fn svg(figure: &impl Figure, path: &Path) -> Drawn {
    prepare();
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, figure.size()).into_drawing_area();
        area.fill(&WHITE)?;
        figure.draw(&area, 1)?;
        area.present()?;
    }
    Ok(std::fs::write(path, text)?)
}

/// How much larger a PNG is drawn than it becomes.
const OVERSAMPLING: u32 = 3;

/// Writes a figure as PNG.
pub(crate) fn png(figure: &impl Figure, path: &Path) -> Drawn {
    prepare();
    let (width, height) = figure.size();
    let (drawn_width, drawn_height) = (width * OVERSAMPLING, height * OVERSAMPLING);
    let mut pixels = vec![0; (drawn_width * drawn_height * 3) as usize];
    {
        let size = (drawn_width, drawn_height);
        let area = BitMapBackend::with_buffer(&mut pixels, size).into_drawing_area();
        area.fill(&WHITE)?;
        figure.draw(&area, OVERSAMPLING)?;
        area.present()?;
    }
    let pixels = averaged(&pixels, width as usize, height as usize);
    let mut encoder = png::Encoder::new(BufWriter::new(File::create(path)?), width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    Ok(encoder.write_header()?.write_image_data(&pixels)?)
}

/// Makes one pixel of every square.
fn averaged(pixels: &[u8], width: usize, height: usize) -> Vec<u8> {
    let scale = OVERSAMPLING as usize;
    let row = width * scale * 3;
    let mut smooth = Vec::with_capacity(width * height * 3);
    for y in 0..height {
        for x in 0..width {
            for channel in 0..3 {
                let at = |i: usize| (y * scale + i / scale) * row + (x * scale + i % scale) * 3 + channel;
                let sum: usize = (0..scale * scale).map(|i| usize::from(pixels[at(i)])).sum();
                smooth.push((sum / (scale * scale)) as u8);
            }
        }
    }
    smooth
}

/// A line of text with its upper left corner at (x, y), in unscaled pixels.
pub(crate) fn text<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    scale: u32,
    (x, y): (i32, i32),
    what: &str,
    (size, bold, colour): (u32, bool, RGBColor),
) -> Drawn
where
    B::ErrorType: 'static,
{
    let style = if bold { FontStyle::Bold } else { FontStyle::Normal };
    let font = (FONT, size * scale, style).into_font().color(&colour);
    Ok(area.draw(&Text::new(what.to_owned(), (x * scale as i32, y * scale as i32), font))?)
}

/// A title and what the figure below it shows; returns the rest of the area.
pub(crate) fn headed<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    scale: u32,
    title: &str,
    caption: &[String],
) -> Result<DrawingArea<B, Shift>, Box<dyn Error>>
where
    B::ErrorType: 'static,
{
    text(area, scale, (16, 8), title, (17, true, INK))?;
    for (index, line) in caption.iter().enumerate() {
        text(area, scale, (16, 33 + 16 * index as i32), line, (12, false, FAINT))?;
    }
    Ok(area.split_vertically((40 + 16 * caption.len() as u32) * scale).1)
}

/// One line of a goodput figure.
pub(crate) struct Series {
    pub(crate) label: String,
    pub(crate) colour: RGBColor,
    pub(crate) line: Line,
}

/// Goodput over time, with a dot wherever units were sent again, and the link's rate.
pub(crate) fn goodput<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    scale: u32,
    series: &[Series],
    link: Option<f64>,
) -> Drawn
where
    B::ErrorType: 'static,
{
    const MEGA: f64 = 1e6;
    let rates = series.iter().flat_map(|s| s.line.moments().iter().map(|moment| s.line.rate(moment)));
    let fastest = rates.chain(link).fold(1.0, f64::max) / MEGA;
    let length = |line: &Line| line.interval().as_secs_f64() * line.moments().len() as f64;
    let end = series.iter().map(|s| length(&s.line)).fold(0.001, f64::max);
    let mut chart = ChartBuilder::on(area)
        .margin_right(18 * scale)
        .margin_left(6 * scale)
        .margin_bottom(4 * scale)
        .x_label_area_size(38 * scale)
        .y_label_area_size(62 * scale)
        .build_cartesian_2d(0.0..end, 0.0..fastest * 1.12)?;
    mesh(&mut chart, scale, ("virtual seconds", "goodput, Mbit/s"), |x| short(*x), |y| short(*y))?;
    if let Some(link) = link.map(|link| link / MEGA) {
        let dashes = DashedLineSeries::new(
            [(0.0, link), (end, link)],
            6 * scale,
            4 * scale,
            ShapeStyle { color: FAINT.into(), filled: false, stroke_width: scale },
        );
        chart.draw_series(dashes)?.label("the link's rate").legend(key(FAINT, scale));
    }
    for Series { label, colour, line } in series {
        let step = line.interval().as_secs_f64();
        let points = line.moments().iter().enumerate().map(|(i, m)| ((i as f64 + 0.5) * step, line.rate(m) / MEGA));
        chart
            .draw_series(LineSeries::new(points, colour.stroke_width(2 * scale)))?
            .label(label.as_str())
            .legend(key(*colour, scale));
    }
    let most = series.iter().flat_map(|s| s.line.moments()).map(|moment| moment.resent).max();
    let most = most.unwrap_or(0).max(1) as f64;
    for Series { line, .. } in series {
        let step = line.interval().as_secs_f64();
        let resent = line.moments().iter().enumerate().filter(|(_, moment)| moment.resent > 0);
        chart.draw_series(resent.map(|(i, moment)| {
            let radius = (1.6 + 4.4 * (moment.resent as f64 / most).sqrt()) * f64::from(scale);
            Circle::new(((i as f64 + 0.5) * step, line.rate(moment) / MEGA), radius as i32, ALARM.mix(0.75).filled())
        }))?;
    }
    if series.iter().any(|s| s.line.moments().iter().any(|moment| moment.resent > 0)) {
        // Only for the legend: there may be dots on every line.
        let none: [Circle<(f64, f64), i32>; 0] = [];
        chart.draw_series(none)?.label("sent again").legend(dot(ALARM.mix(0.75), scale));
    }
    legend(&mut chart, scale, SeriesLabelPosition::LowerMiddle)
}

/// Every chart here.
type Chart<'a, B> = ChartContext<'a, B, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// Grid, axes and their names.
pub(crate) fn mesh<'a, B: DrawingBackend + 'a>(
    chart: &mut Chart<'a, B>,
    scale: u32,
    (x_name, y_name): (&str, &str),
    x_label: impl Fn(&f64) -> String,
    y_label: impl Fn(&f64) -> String,
) -> Drawn
where
    B::ErrorType: 'static,
{
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID.stroke_width(scale))
        .axis_style(FAINT.stroke_width(scale))
        .label_style((FONT, 11 * scale).into_font().color(&FAINT))
        .axis_desc_style((FONT, 12 * scale).into_font().color(&INK))
        .x_desc(x_name)
        .y_desc(y_name)
        .x_label_formatter(&x_label)
        .y_label_formatter(&y_label)
        .draw()?;
    Ok(())
}

/// The legend, on a pale ground.
pub(crate) fn legend<'a, B: DrawingBackend + 'a>(
    chart: &mut Chart<'a, B>,
    scale: u32,
    place: SeriesLabelPosition,
) -> Drawn
where
    B::ErrorType: 'static,
{
    chart
        .configure_series_labels()
        .position(place)
        .margin(10 * scale)
        .legend_area_size(24 * scale)
        .label_font((FONT, 12 * scale).into_font().color(&INK))
        .background_style(WHITE.mix(0.85))
        .border_style(GRID)
        .draw()?;
    Ok(())
}

/// A stroke in front of a name in the legend.
pub(crate) fn key<B: DrawingBackend>(
    colour: RGBColor,
    scale: u32,
) -> impl Fn((i32, i32)) -> DynElement<'static, B, (i32, i32)> {
    let scale = scale as i32;
    move |(x, y)| PathElement::new([(x, y), (x + 18 * scale, y)], colour.stroke_width(2 * scale as u32)).into_dyn()
}

/// A dot in front of a name in the legend.
pub(crate) fn dot<B: DrawingBackend>(
    colour: RGBAColor,
    scale: u32,
) -> impl Fn((i32, i32)) -> DynElement<'static, B, (i32, i32)> {
    let scale = scale as i32;
    move |(x, y)| Circle::new((x + 9 * scale, y), 4 * scale, colour.filled()).into_dyn()
}

/// A number on an axis, without needless digits.
pub(crate) fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_on_axes_are_short() {
        assert_eq!((short(0.0), short(100.0), short(0.25)), ("0".into(), "100".into(), "0.25".into()));
    }

    #[test]
    fn squares_become_their_average() {
        let mut pixels = vec![0; 9 * 3];
        pixels[0] = 90;
        assert_eq!(averaged(&pixels, 1, 1), [10, 0, 0]);
    }
}
