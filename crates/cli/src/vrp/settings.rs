//! The options that say what may be lost of a frame, and how its packets travel: shared by everything that sends frames.

use crate::congestion::Congestion;
use crate::exit::Error;
use crate::units;
use clap::Args;
use pinnace::vrp::{Contract, Options};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;

/// What may be lost. Without any of it: nothing.
#[derive(Clone, Debug, Default, PartialEq, Args, Serialize, Deserialize)]
#[command(next_help_heading = "Contract")]
pub(crate) struct ContractArgs {
    /// The share of a frame's packets that may be lost, in every window of packets: 10%, 0.1; rounded to the nearest 1/255, and
    /// of a window to the nearest whole packet: of 64 with 10% it is 7 [default: nothing]
    #[arg(long, value_name = "SHARE", value_parser = units::share)]
    pub(crate) loss_rate: Option<f64>,
    /// The most bytes that may be lost in a row: 4KiB; counted in whole packets [default: any]
    #[arg(long, value_name = "BYTES", value_parser = units::bytes, requires = "loss_rate")]
    pub(crate) run: Option<u64>,
    /// Bytes that must not be lost: 0..1KiB; may be repeated
    #[arg(long, value_name = "FROM..TO", value_parser = units::byte_range)]
    pub(crate) critical: Vec<Range<u64>>,
    /// Only this share may be lost while the path is free, and up to --loss-rate while it is congested
    #[arg(long, value_name = "SHARE", value_parser = units::share, requires = "loss_rate")]
    pub(crate) loss_floor: Option<f64>,
}

impl ContractArgs {
    /// For frames of `size` bytes.
    pub(crate) fn contract(&self, size: u64) -> Result<Contract, Error> {
        let mut contract = match self.loss_rate {
            None => Contract::reliable(),
            Some(share) => Contract::new().loss_percent(share * 100.0).run_bytes(self.run.unwrap_or(u64::MAX)),
        };
        if let Some(floor) = self.loss_floor {
            if self.loss_rate.is_some_and(|share| floor > share) {
                return Err(Error::usage("--loss-floor is the lower end: it cannot be above --loss-rate"));
            }
            contract = contract.adaptive_from_percent(floor * 100.0);
        }
        for range in &self.critical {
            if range.end > size {
                return Err(Error::usage(format!(
                    "--critical {}..{} lies outside the frame, which has {size} bytes",
                    range.start, range.end
                )));
            }
            contract = contract.critical(range.clone());
        }
        Ok(contract)
    }
}

impl fmt::Display for ContractArgs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(share) = self.loss_rate else { return f.write_str("no loss") };
        if let Some(floor) = self.loss_floor {
            write!(f, "{} to ", percent(floor))?;
        }
        f.write_str(&percent(share))?;
        if let Some(run) = self.run {
            write!(f, ", run {run} B")?;
        }
        for (index, Range { start, end }) in self.critical.iter().enumerate() {
            write!(f, "{}{start}..{end}", if index == 0 { ", critical " } else { " " })?;
        }
        Ok(())
    }
}

fn percent(share: f64) -> String {
    // Ten digits: 7 % is not 7.000000000000001 %.
    let percent = format!("{:.10}", share * 100.0);
    format!("{} %", percent.trim_end_matches('0').trim_end_matches('.'))
}

/// How packets travel.
#[derive(Clone, Debug, Default, PartialEq, Args, Serialize, Deserialize)]
#[command(next_help_heading = "VRP")]
pub(crate) struct Packets {
    /// Bytes of a frame in each packet; 2048 is the paper's [default: what the path carries and the contract needs, up to
    /// 65501 on loopback]
    #[arg(long, value_name = "P", value_parser = clap::value_parser!(u16).range(1..=65_501))]
    pub(crate) packet_size: Option<u16>,
    /// Packets over which the loss rate holds, and that may be unacknowledged at a time [default: what the path needs, at
    /// least 64]
    #[arg(long, value_name = "W", value_parser = clap::value_parser!(u16).range(1..=16_384))]
    pub(crate) window: Option<u16>,
    /// What bounds the bytes in transit: fixed, fixed:4MiB, cubic, bbr, or bbr:30% over a path that loses up to 30 % by
    /// itself [default: fixed on loopback and closed networks, otherwise bbr]
    #[arg(long, value_name = "CONTROL")]
    pub(crate) congestion: Option<Congestion>,
    /// Never send faster: 100mbit
    #[arg(long, value_name = "RATE", value_parser = units::bit_rate)]
    pub(crate) rate: Option<u64>,
}

impl Packets {
    /// Options of an endpoint, with this in them.
    pub(crate) fn options(&self, base: Options) -> Options {
        Options {
            packet_bytes: self.packet_size,
            window: self.window,
            congestion: self.congestion.map(Into::into),
            rate: self.rate.map(units::byte_rate),
            ..base
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contract_is_said_in_one_line() {
        assert_eq!(ContractArgs::default().to_string(), "no loss");
        let contract = ContractArgs {
            loss_rate: Some(0.07),
            run: Some(4096),
            critical: vec![0..1024, 5000..5001],
            loss_floor: None,
        };
        assert_eq!(contract.to_string(), "7 %, run 4096 B, critical 0..1024 5000..5001");
        let contract = ContractArgs { loss_floor: Some(0.02), run: None, critical: Vec::new(), ..contract };
        assert_eq!(contract.to_string(), "2 % to 7 %");
    }

    #[test]
    fn what_must_not_be_lost_lies_inside_the_frame() {
        let contract = ContractArgs { critical: vec![0..10, 0..1024], ..ContractArgs::default() };
        assert!(contract.contract(1024).is_ok());
        let error = contract.contract(1023).unwrap_err();
        assert!(error.message.contains("--critical 0..1024"), "{error}");
        let floor = ContractArgs { loss_rate: Some(0.1), loss_floor: Some(0.2), ..ContractArgs::default() };
        assert!(floor.contract(1).is_err());
    }
}
