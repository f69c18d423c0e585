//! How messages are sent, in the words of VRP and A1: some of the options are of both.

use super::Transport;
use super::a1::Choice;
use crate::a1::Mode;
use crate::congestion::Congestion;
use crate::exit::Error;
use crate::units;
use crate::vrp::Packets;
use clap::Args;

/// Options of VRP's packets and of A1's quality of service.
#[derive(Clone, Debug, Default, PartialEq, Args)]
#[command(next_help_heading = "VRP and A1")]
pub(super) struct SendingArgs {
    /// Never send faster: 100mbit; of a1 the average of its quality of service
    #[arg(long, value_name = "RATE", value_parser = units::bit_rate)]
    rate: Option<u64>,
    /// vrp: packets over which the loss rate holds, and that may be unacknowledged at a time [default: what the path
    /// needs, at least 64]; a1: bytes of messages that may be under way, 160kB [default: what --in-flight says]
    #[arg(long, value_name = "W", value_parser = units::bytes)]
    window: Option<u64>,
    /// Bytes of a frame of vrp in each packet [default: what the path carries and the contract needs]
    #[arg(long, value_name = "P", value_parser = clap::value_parser!(u16).range(1..=65_501))]
    packet_size: Option<u16>,
    /// What bounds the bytes of vrp in transit: fixed, cubic, bbr, or bbr:30% over a path that loses up to 30 % by itself
    /// [default: fixed on loopback and closed networks, otherwise bbr]
    #[arg(long, value_name = "CONTROL")]
    congestion: Option<Congestion>,
    /// What happens to blocks of a1 that are lost
    #[arg(long, value_enum, default_value_t)]
    mode: Mode,
    /// What of a1 may leave at once at its --rate [default: 64 KiB]
    #[arg(long, value_name = "BYTES", value_parser = units::bytes, requires = "rate")]
    burst: Option<u64>,
    /// The priority of a1's connection, 0 is the most urgent [default: 128]
    #[arg(long, value_name = "0..255")]
    priority: Option<u8>,
    /// Bytes of a block of a1 [default: what the path carries in one piece, with a rate an eighth of its burst]
    #[arg(long, value_name = "BYTES", value_parser = units::bytes)]
    block: Option<u64>,
    /// Sum every datagram of a1
    #[arg(long)]
    checksum: bool,
}

impl SendingArgs {
    /// What of it VRP takes.
    pub(super) fn packets(&self) -> Packets {
        Packets {
            packet_size: self.packet_size,
            window: self.window.and_then(|packets| u16::try_from(packets).ok()),
            congestion: self.congestion,
            rate: self.rate,
        }
    }

    /// What of it A1 takes.
    pub(super) fn a1(&self) -> Choice {
        Choice {
            mode: self.mode,
            rate: self.rate,
            burst: self.burst,
            priority: self.priority,
            block: self.block.and_then(|bytes| u32::try_from(bytes).ok()),
            window: self.window,
            checksum: self.checksum,
        }
    }

    /// Fails unless somebody takes what was said, and can.
    pub(super) fn check(&self, transports: &[Transport]) -> Result<(), Error> {
        let (has_vrp, has_a1) = (transports.contains(&Transport::Vrp), transports.contains(&Transport::A1));
        let said = |is_said: bool, is_taken: bool, what: &str| {
            if is_said && !is_taken { Err(Error::usage(what.to_owned())) } else { Ok(()) }
        };
        let of_both = self.rate.is_some() || self.window.is_some();
        let of_vrp = self.packet_size.is_some() || self.congestion.is_some();
        let of_a1 = Choice { rate: None, window: None, ..self.a1() } != Choice::default() || self.block.is_some();
        let vrp = "only vrp has a contract and options of its own: add --protocol vrp, or vrp to --against";
        let a1 =
            "only a1 has --mode, --burst, --priority, --block and --checksum: add --protocol a1, or a1 to --against";
        let both = "only vrp and a1 have --rate and --window: add --protocol vrp or --protocol a1, or one to --against";
        said(of_vrp, has_vrp, vrp)?;
        said(of_a1, has_a1, a1)?;
        said(of_both, has_vrp || has_a1, both)?;
        if has_vrp && self.window.is_some_and(|packets| !(1..=16_384).contains(&packets)) {
            return Err(Error::usage("--window: 1 to 16384 packets of vrp"));
        }
        if self.block.is_some_and(|bytes| !(1..=65_475).contains(&bytes)) {
            return Err(Error::usage("--block: a block of a1 has 1 to 65475 bytes"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_takes_is_refused() {
        let nothing = SendingArgs::default();
        assert!(nothing.check(&[Transport::Zcrp]).is_ok());
        let rate = SendingArgs { rate: Some(1), ..nothing.clone() };
        assert!(rate.check(&[Transport::Zcrp]).is_err());
        assert!(rate.check(&[Transport::Vrp]).is_ok() && rate.check(&[Transport::A1]).is_ok());
        let packet = SendingArgs { packet_size: Some(1), ..nothing.clone() };
        assert!(packet.check(&[Transport::A1]).is_err() && packet.check(&[Transport::Vrp]).is_ok());
        let window = SendingArgs { window: Some(160_000), ..nothing.clone() };
        assert!(window.check(&[Transport::A1]).is_ok() && window.check(&[Transport::Vrp]).is_err());
        for of_a1 in [
            SendingArgs { mode: Mode::Raw, ..nothing.clone() },
            SendingArgs { priority: Some(128), ..nothing.clone() },
            SendingArgs { checksum: true, ..nothing.clone() },
        ] {
            assert!(of_a1.check(&[Transport::Vrp]).is_err() && of_a1.check(&[Transport::A1]).is_ok());
        }
        let block = SendingArgs { block: Some(65_476), ..nothing };
        assert!(block.check(&[Transport::A1]).is_err());
    }
}
