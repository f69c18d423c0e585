//! What an engine counts.

pinnace_core::counters! {
    /// What an engine has seen.
    pub struct A1Counters {
        /// Connections opened here.
        connections_opened,
        /// Connections accepted from others.
        connections_accepted,
        /// OPENs refused.
        connections_refused,
        /// Connections that ended well.
        connections_closed,
        /// Connections that ended with an error.
        connections_failed,
        /// Cookies given out.
        cookies_sent,
        /// OPENs with a cookie that is not ours, not theirs, or too old.
        cookies_wrong,
        /// REJECTs not sent, because too many waited.
        replies_withheld,
        /// Blocks sent, repetitions included.
        blocks_sent,
        /// Blocks sent again.
        blocks_repeated,
        /// Blocks sent to groups.
        blocks_to_groups,
        /// Blocks dropped here before they left, because they were too old.
        blocks_stale,
        /// Bytes of blocks sent, repetitions included.
        bytes_sent,
        /// Blocks received.
        blocks_received,
        /// Blocks that came before.
        blocks_duplicate,
        /// Blocks beyond the edge, or without storage.
        blocks_dropped,
        /// Blocks that contradict what is known.
        blocks_contradictory,
        /// Blocks that were lost on their way here (without retransmission).
        blocks_lost,
        /// Bytes of blocks received.
        bytes_received,
        /// Bytes received straight into their place.
        bytes_in_place,
        /// Bytes copied to their place.
        bytes_copied,
        /// Messages whose last block was received.
        messages_received,
        /// ACKs sent.
        acks_sent,
        /// NACKs sent.
        nacks_sent,
        /// SYNCs sent.
        syncs_sent,
        /// ACKs and NACKs received.
        answers_received,
        /// Answers that speak of what was never sent.
        answers_invalid,
        /// Round trips measured.
        round_trips,
        /// Stamps in answers that were never sent.
        stamps_wrong,
        /// Changes of quality of service, ours and theirs.
        qos_changes,
        /// Messages left out for slow sinks.
        messages_skipped,
        /// Sinks cut off because they were slow.
        sinks_cut_off,
        /// Repetition time-outs.
        timeouts,
        /// Datagrams for no connection, or from another address than the connection's.
        datagrams_unknown,
        /// Datagrams that do not parse, or whose checksum is wrong or missing.
        datagrams_malformed,
        /// Datagrams whose checksum is wrong, of those.
        checksums_wrong,
        /// ICMP errors.
        unreachable_reports,
    }
}
