//! The control block of C, and what the engine makes of it.

use super::types::*;
use crate::errors::Errno;
use core::time::Duration;
use pinnace_core::ControllerKind;
use pinnace_xtp::{AddressSegment, Codec, ControlBlock, Options, Service};

/// The bits of options, of the 24.
const OPTION_BITS: u32 = 0x7f_ff00;
const MODE_BITS: u32 = XTP_MODE_GO_BACK_N | XTP_MODE_36 | XTP_MODE_OWN_SREQ | XTP_MODE_FIXED | XTP_MODE_BINDING;
/// More than that is never of use (specs/xtp.md, 3.1), and sums of it do not overflow.
const LARGEST_BUFFER: u32 = 1 << 30;

fn invalid<T>() -> Result<T, Errno> {
    Err(Errno(libc::EINVAL))
}

/// Options of an output. [`XTP_EOM`], the return code, is understood as well.
pub(super) fn options_of_output(bits: u32) -> Result<Options, Errno> {
    options(if bits & XTP_EOM as u32 == 0 { bits } else { bits & !(XTP_EOM as u32) | XTP_EOM_BIT })
}

fn options(bits: u32) -> Result<Options, Errno> {
    if bits & !OPTION_BITS != 0 {
        return invalid();
    }
    Options::from_bits((bits >> 8) as u16).ok_or(Errno(libc::EINVAL))
}

/// By the paper's number.
pub(super) fn service(number: u8) -> Result<Service, Errno> {
    Ok(match number {
        XTP_CONNECTION => Service::Connection,
        XTP_TRANSACTION => Service::Transaction,
        XTP_UNACK_DGRAM => Service::UnackDgram,
        XTP_ACK_DGRAM => Service::AckDgram,
        XTP_ISO_STREAM => Service::IsoStream,
        XTP_BULK_DATA => Service::BulkData,
        _ => return invalid(),
    })
}

impl xtpcbloc {
    /// The defaults of specs/xtp.md, 3.13.
    pub(super) fn new() -> Self {
        let block = ControlBlock::default();
        let millis = |duration: Duration| duration.as_millis() as u32;
        Self {
            mode_flags: u32::from(block.mode_flags.bits()) << 8,
            sort_value: block.sort_value,
            listen_flags: u32::from(block.listen_flags.bits()) << 8,
            field_flags: XTP_FIELD_ALL,
            service: XTP_CONNECTION,
            rbufsize: block.rbufsize,
            wbufsize: block.wbufsize,
            maxdata: block.maxdata,
            rwindow: block.rwindow,
            retry_count: block.retry_count,
            input_burst: block.input_burst.into(),
            input_rate: block.input_rate.into(),
            output_burst: block.output_burst.into(),
            output_rate: block.output_rate.into(),
            ctimeout: millis(block.ctimeout),
            ctimer: millis(block.ctimer),
            wtimer: millis(block.wtimer),
            address_segment: adrseg::UNKNOWN,
            mc_drops: block.mc_drops,
            mc_sreqs: block.mc_sreqs,
            mc_rttgain: block.mc_rttgain,
            mc_rttvgain: block.mc_rttvgain,
            code: 0,
            value: 0,
        }
    }

    /// The block with the defaults where its `field_flags` do not enable a member, if what counts of it is possible.
    pub(super) fn checked(&self) -> Result<Self, Errno> {
        let mut block = Self::new();
        let is_on = |field| self.field_flags & field != 0;
        (block.mode_flags, block.sort_value) = (self.mode_flags, self.sort_value);
        (block.listen_flags, block.field_flags) = (self.listen_flags, self.field_flags);
        (block.code, block.value) = (self.code, self.value);
        macro_rules! take {
            ($($flag:ident: $($member:ident)+;)*) => {
                $(if is_on($flag) {
                    $(block.$member = self.$member;)+
                })*
            };
        }
        take! {
            XTP_FIELD_SERVICE: service;
            XTP_FIELD_RBUFSIZE: rbufsize;
            XTP_FIELD_WBUFSIZE: wbufsize;
            XTP_FIELD_MAXDATA: maxdata;
            XTP_FIELD_RWINDOW: rwindow;
            XTP_FIELD_RETRY_COUNT: retry_count;
            XTP_FIELD_INPUT: input_burst input_rate;
            XTP_FIELD_OUTPUT: output_burst output_rate;
            XTP_FIELD_CTIMEOUT: ctimeout;
            XTP_FIELD_CTIMER: ctimer;
            XTP_FIELD_WTIMER: wtimer;
            XTP_FIELD_ADDRESS: address_segment;
            XTP_FIELD_MULTICAST: mc_drops mc_sreqs mc_rttgain mc_rttvgain;
        }
        let is_sane = |bytes: u32| (1..=LARGEST_BUFFER).contains(&bytes);
        let is_rate = |rate: i64| u32::try_from(rate).is_ok();
        let sort_fits = block.codec() == Codec::Xtp36 || block.sort_value <= u32::from(u16::MAX);
        let is_possible = is_sane(block.rbufsize)
            && is_sane(block.wbufsize)
            && is_sane(block.rwindow)
            && (1..=65_507).contains(&block.maxdata)
            && [block.input_burst, block.input_rate, block.output_burst, block.output_rate].into_iter().all(is_rate)
            && block.wtimer > 0
            && block.address_segment.is_valid()
            && sort_fits;
        service(block.service)?;
        let mode = options(block.mode_flags & !MODE_BITS)?;
        let of_stream = Options::OF_STREAM.without(Options::MULTI).with(Options::EDGE);
        let is_clear = options(block.listen_flags)?.without(Options::FASTNAK) == Options::NONE;
        if !is_possible || !is_clear || mode.without(of_stream) != Options::NONE {
            return invalid();
        }
        Ok(block)
    }

    pub(super) fn codec(&self) -> Codec {
        if self.mode_flags & XTP_MODE_36 == 0 { Codec::Xtp40 } else { Codec::Xtp36 }
    }

    pub(super) fn service(&self) -> Service {
        service(self.service).unwrap_or_default()
    }

    /// Whether the application alone decides when to ask.
    pub(super) fn asks_itself(&self) -> bool {
        self.mode_flags & XTP_MODE_OWN_SREQ != 0
    }

    /// What bounds the bytes under way; `is_near`: they do not leave this host.
    pub(super) fn congestion(&self, is_near: bool) -> ControllerKind {
        if is_near || self.mode_flags & XTP_MODE_FIXED != 0 {
            ControllerKind::Fixed { window: u64::MAX }
        } else {
            ControllerKind::Bbr
        }
    }

    /// The engine's block of one that was checked; `extra`: options that the first output gave.
    pub(super) fn to_engine(self, address_segment: AddressSegment, extra: Options) -> ControlBlock {
        let rate = |rate: i64| u32::try_from(rate).unwrap_or(0);
        let millis = |millis: u32| Duration::from_millis(millis.into());
        let bits = |flags: u32| options(flags & !MODE_BITS).unwrap_or(Options::NONE);
        ControlBlock {
            mode_flags: bits(self.mode_flags) | extra,
            sort_value: self.sort_value,
            listen_flags: bits(self.listen_flags),
            rbufsize: self.rbufsize,
            wbufsize: self.wbufsize,
            maxdata: self.maxdata,
            rwindow: self.rwindow,
            retry_count: self.retry_count,
            input_burst: rate(self.input_burst),
            input_rate: rate(self.input_rate),
            output_burst: rate(self.output_burst),
            output_rate: rate(self.output_rate),
            ctimeout: millis(self.ctimeout),
            ctimer: millis(self.ctimer),
            wtimer: millis(self.wtimer),
            address_segment,
            mc_drops: self.mc_drops,
            mc_sreqs: self.mc_sreqs,
            mc_rttgain: self.mc_rttgain,
            mc_rttvgain: self.mc_rttvgain,
            code: self.code,
            value: self.value,
            go_back_n: self.mode_flags & XTP_MODE_GO_BACK_N != 0,
            sreq_every: if self.asks_itself() { 0 } else { ControlBlock::default().sreq_every },
            is_rate_binding: self.mode_flags & XTP_MODE_BINDING != 0,
            ..ControlBlock::new(self.service())
        }
    }
}
