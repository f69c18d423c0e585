//! What an engine counts.

pinnace_core::counters! {
    /// What an engine has seen.
    pub struct XtpCounters {
        /// Contexts opened here.
        contexts_opened,
        /// Contexts accepted from others.
        contexts_accepted,
        /// FIRSTs refused.
        contexts_refused,
        /// Half-open contexts that gave way to others.
        contexts_evicted,
        /// Contexts that ended well.
        contexts_closed,
        /// Contexts that ended with an error.
        contexts_failed,
        /// DATA and FIRST packets sent, repetitions included.
        data_packets_sent,
        /// DATA and FIRST packets sent again.
        data_packets_resent,
        /// Status packets sent.
        statuses_sent,
        /// User bytes sent, repetitions included.
        bytes_sent,
        /// DATA and FIRST packets received.
        data_packets_received,
        /// Those that brought nothing new.
        data_packets_duplicate,
        /// Those beyond the allocation, or without a place.
        data_packets_dropped,
        /// Gaps seen in what arrived.
        gaps_seen,
        /// Status packets received.
        statuses_received,
        /// Status packets that acknowledge what was never sent.
        statuses_invalid,
        /// User bytes received.
        bytes_received,
        /// User bytes received straight into their place.
        bytes_in_place,
        /// User bytes copied to their place.
        bytes_copied,
        /// Messages whose end was received.
        messages_received,
        /// Expirations of WTIMER.
        timeouts,
        /// DIAGs sent.
        diags_sent,
        /// DIAGs not sent, because of the limit.
        diags_withheld,
        /// DIAGs received for a context.
        diags_received,
        /// DIAGs received for none.
        diags_stray,
        /// Packets of contexts that are not known.
        packets_unknown,
        /// Packets that do not parse, or whose checksum is wrong.
        packets_malformed,
        /// Packets whose checksum is wrong, of those.
        checksums_wrong,
        /// ICMP errors.
        unreachable_reports,
    }
}
