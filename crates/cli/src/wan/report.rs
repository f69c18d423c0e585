//! What crossed the link and what did not, for people and for programs.

use super::direction::Work;
use crate::numbers;
use serde::Serialize;

/// What the emulator did.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Report {
    /// From the near to the far end.
    pub(crate) near_to_far: Work,
    /// From the far to the near end.
    pub(crate) far_to_near: Work,
    /// How long it ran.
    pub(crate) seconds: f64,
    /// Processor seconds of the emulator, with what the kernel did for the packets it wrote.
    pub(crate) processor_seconds: f64,
}

impl Report {
    /// Adds what the devices of the near and the far end dropped before the emulator could read it.
    pub(crate) fn with_dropped_before(mut self, dropped: [Option<u64>; 2]) -> Self {
        [self.near_to_far.packets_overrun, self.far_to_near.packets_overrun] = dropped;
        self
    }

    /// A table.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!(
            "{:<12} {:>11} {:>11} {:>11} {:>11} {:>8} {:>11} {:>14}",
            "direction", "packets", "delivered", "lost", "dropped", "held", "bytes", "rate"
        )];
        for (name, work) in [("near to far", &self.near_to_far), ("far to near", &self.far_to_near)] {
            let counters = work.counters;
            lines.push(format!(
                "{name:<12} {:>11} {:>11} {:>11} {:>11} {:>8} {:>11} {:>14}",
                counters.packets,
                counters.packets_delivered,
                counters.packets_lost,
                counters.packets_dropped,
                counters.packets_held,
                numbers::bytes(counters.bytes_delivered),
                numbers::rate(counters.bytes_delivered as f64 * 8.0 / self.seconds.max(1e-9)),
            ));
            lines.extend(remark(name, work));
        }
        lines.push(format!(
            "{:.1} s; the emulator used {:.1} % of a processor",
            self.seconds,
            self.processor_seconds / self.seconds.max(1e-9) * 100.0
        ));
        lines
    }
}

/// What one should know before believing the figures.
fn remark(name: &str, work: &Work) -> Option<String> {
    let mut remarks = Vec::new();
    match work.packets_overrun {
        Some(packets @ 1..) => {
            remarks
                .push(format!("{packets} reads' worth were dropped before the link: they came faster than it looks"));
        }
        Some(0) => {}
        None => remarks.push("what was dropped before the link is not known".to_owned()),
    }
    if work.packets_refused > 0 {
        remarks.push(format!("the kernel did not take {} back", work.packets_refused));
    }
    if work.packets_late > 0 {
        let share = work.packets_late as f64 / work.counters.packets_delivered.max(1) as f64 * 100.0;
        remarks.push(format!("{share:.2} % came out more than 1 ms too late (at most {} us)", work.late_max_us));
    }
    (!remarks.is_empty()).then(|| format!("  {name}: {}", remarks.join("; ")))
}
