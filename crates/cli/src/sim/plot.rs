//! The time line of a simulated transfer as a figure.

use super::transfer::Transfer;
use super::units;
use crate::picture::{self, COLOURS, Drawn, Figure, Series};
use plotters::coord::Shift;
use plotters::prelude::{DrawingArea, DrawingBackend};
use std::path::Path;

struct TimeLine<'t> {
    transfer: &'t Transfer,
}

/// Writes the figure: PNG if the name says so, else SVG.
pub(super) fn write(path: &Path, transfer: &Transfer) -> Drawn {
    let figure = TimeLine { transfer };
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
        let Transfer { plan, line, .. } = self.transfer;
        let total: u64 = plan.sizes.iter().map(|&size| u64::from(size)).sum();
        let arrived = self.transfer.messages.iter().filter(|message| message.arrived()).count();
        let line = line.readable(300);
        let caption = [
            format!("{}, {}, seed {}", plan.there, plan.congestion, plan.seed),
            format!(
                "{arrived} of {} messages ({}) arrived whole; {} of goodput; {} units sent again; a point every {} ms",
                plan.sizes.len(),
                units::bytes(total),
                self.transfer.goodput().map_or("no".to_owned(), units::rate),
                units::count(self.transfer.sender.units_resent),
                line.interval().as_millis()
            ),
        ];
        let rest = picture::headed(area, scale, "ZCRP over an emulated network", &caption)?;
        let series = Series { label: format!("ZCRP, {}", plan.congestion), colour: COLOURS[0], line };
        picture::goodput(&rest, scale, &[series], plan.there.rate.map(|rate| rate as f64))
    }
}
