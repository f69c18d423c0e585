//! The time lines of simulated transfers as a figure.

use super::transfer::Transfer;
use crate::numbers;
use crate::picture::{self, COLOURS, Drawn, Figure, Series};
use plotters::coord::Shift;
use plotters::prelude::{DrawingArea, DrawingBackend};
use std::path::Path;

/// Of the same network and the same messages.
struct TimeLine<'t> {
    transfers: &'t [Transfer],
}

/// Writes the figure: PNG if the name says so, else SVG.
pub(super) fn write(path: &Path, transfers: &[Transfer]) -> Drawn {
    let figure = TimeLine { transfers };
    let is_png = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("png"));
    if is_png { picture::png(&figure, path) } else { picture::svg(&figure, path) }
}

impl Figure for TimeLine<'_> {
    fn size(&self) -> (u32, u32) {
        (900, 460)
    }

    fn draw<B: DrawingBackend>(&self, area: &DrawingArea<B, Shift>, scale: u32) -> Drawn
    where
        B::ErrorType: 'static,
    {
        let Some(Transfer { plan, .. }) = self.transfers.first() else { return Ok(()) };
        let sum = |of: fn(&Transfer) -> u64| self.transfers.iter().map(of).sum::<u64>();
        let arrived = sum(|transfer| transfer.messages.iter().filter(|message| message.arrived()).count() as u64);
        let (messages, resent) =
            (sum(|transfer| transfer.messages.len() as u64), sum(|transfer| transfer.figures.resent));
        let titles: Vec<&str> = self.transfers.iter().map(|transfer| transfer.plan.protocol.title()).collect();
        let series: Vec<Series> = self
            .transfers
            .iter()
            .zip(COLOURS)
            .map(|(transfer, colour)| Series {
                label: format!(
                    "{}, {}",
                    transfer.plan.protocol.title(),
                    transfer.goodput().map_or("nothing arrived".to_owned(), numbers::rate)
                ),
                colour,
                line: transfer.line.readable(300),
            })
            .collect();
        let steps: Vec<String> = series.iter().map(|series| series.line.interval().as_millis().to_string()).collect();
        let step = if steps.iter().all(|step| *step == steps[0]) { &steps[0] } else { &steps.join(", ") };
        let caption = [
            format!("{}, {}, seed {}", plan.there, plan.congestion, plan.seed),
            format!(
                "{arrived} of {messages} messages of {} in all arrived; {} datagrams sent again; a point every {step} ms",
                numbers::bytes(sum(|transfer| transfer.plan.bytes())),
                numbers::count(resent),
            ),
        ];
        let title = format!("{} over an emulated network", titles.join(", "));
        let rest = picture::headed(area, scale, &title, &caption)?;
        picture::goodput(&rest, scale, &series, plan.there.rate.map(|rate| rate as f64))
    }
}
