//! What bounds the bytes in transit, as the commands name it.

use crate::units;
use clap::Args;
use pinnace::ControllerKind;
use serde::{Deserialize, Serialize};
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

/// A congestion controller on a command line: `bbr`, `bbr:30%`, `cubic`, `fixed`, `fixed:4MiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Congestion(pub(crate) ControllerKind);

/// The option of whoever sends.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Control {
    /// What bounds the bytes in transit: fixed, fixed:4MiB, cubic, bbr, or bbr:30% over a path that loses up to 30 % by
    /// itself [default: fixed on loopback and closed networks, otherwise bbr]
    #[arg(long, value_name = "CONTROL")]
    congestion: Option<Congestion>,
}

impl Control {
    /// What was said.
    pub(crate) fn kind(&self) -> Option<ControllerKind> {
        self.congestion.map(Into::into)
    }
}

impl FromStr for Congestion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(window) = text.strip_prefix("fixed:").map(units::bytes) {
            return match window? {
                0 => Err("a window of no bytes carries nothing".to_owned()),
                window => Ok(Self(ControllerKind::Fixed { window })),
            };
        }
        text.parse().map(Self).map_err(|_| {
            "choose bbr, bbr:30% (over a path that loses up to 30 % by itself; 1 % to 50 %), cubic, fixed or fixed:4MiB"
                .to_owned()
        })
    }
}

impl TryFrom<String> for Congestion {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Congestion> for String {
    fn from(congestion: Congestion) -> Self {
        congestion.to_string()
    }
}

impl From<Congestion> for ControllerKind {
    fn from(congestion: Congestion) -> Self {
        congestion.0
    }
}

impl Display for Congestion {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn congestion_controls_have_names_and_keep_them_on_the_way_to_another_process() {
        for (text, kind) in [
            ("bbr", ControllerKind::Bbr),
            ("bbr:30%", ControllerKind::LossyBbr { percent: 30 }),
            ("cubic", ControllerKind::Cubic),
            ("fixed", ControllerKind::Fixed { window: u64::MAX }),
            ("fixed:1MiB", ControllerKind::Fixed { window: 1 << 20 }),
        ] {
            let congestion: Congestion = text.parse().expect(text);
            assert_eq!(congestion.0, kind);
            let line = serde_json::to_string(&congestion).expect("a string");
            assert_eq!(serde_json::from_str::<Congestion>(&line).expect("the same"), congestion);
        }
        for text in ["", "reno", "fixed:", "fixed:0", "fixed:x", "bbr:", "bbr:30", "bbr:0%", "bbr:51%"] {
            assert!(text.parse::<Congestion>().is_err(), "{text}");
        }
    }
}
