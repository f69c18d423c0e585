//! What the two halves count (Z-18 and the robustness rules).

pinnace_core::counters! {
    /// What a sender has seen.
    pub struct SenderCounters {
        /// Messages acknowledged in full.
        messages_sent,
        /// Messages that ended with an error.
        messages_failed,
        /// Units sent, repetitions included.
        units_sent,
        /// Units sent again.
        units_resent,
        /// Padding bytes sent to keep trains regular.
        padding_bytes_sent,
        /// Units that a block acknowledgement reported lost.
        units_reported_lost,
        /// Units whose acknowledgement did not come in time.
        units_timed_out,
        /// Units reported lost that arrived all the same: the path does not keep the order.
        units_late,
        /// Expirations of the retransmission timer.
        timeouts,
        /// Block acknowledgements received.
        acknowledgements_received,
        /// Requests received.
        requests_received,
        /// Pairs for messages too far ahead; they come again.
        requests_ignored,
        /// Flow hints received.
        flow_hints_received,
        /// Idle datagrams sent.
        idles_sent,
        /// Datagrams that did not parse, dropped.
        datagrams_malformed,
        /// ICMP errors; hints, nothing fails because of them.
        unreachable_reports,
    }
}

pinnace_core::counters! {
    /// What a receiver has seen.
    pub struct ReceiverCounters {
        /// Messages received whole.
        messages_received,
        /// Messages that ended with an error.
        messages_failed,
        /// Payload bytes received, repetitions not counted.
        bytes_received,
        /// Units whose payload was received straight into its final place.
        units_in_place,
        /// Units whose payload was mispredicted and copied once.
        units_copied,
        /// Payload bytes copied for them.
        bytes_copied,
        /// Units that had been received before.
        units_duplicate,
        /// Units of messages that nobody asked for, dropped.
        units_unrequested,
        /// Units beyond their buffer, or that contradict earlier ones, dropped.
        units_contradictory,
        /// Last units that came before the fragment size was known and found no room, dropped; they come again.
        units_unplaceable,
        /// Units whose sequence number is of another life of the sender, dropped.
        units_stale,
        /// Sequence numbers reported lost.
        units_reported_lost,
        /// Block acknowledgements sent.
        acknowledgements_sent,
        /// Requests sent, repetitions included.
        requests_sent,
        /// Pairs in them that were repetitions.
        requests_repeated,
        /// Flow hints sent.
        flow_hints_sent,
        /// Idle datagrams received.
        idles_received,
        /// Datagrams that did not parse, dropped.
        datagrams_malformed,
        /// Answers held back because too little has come from the peer's address yet.
        answers_withheld,
        /// ICMP errors; hints, nothing fails because of them.
        unreachable_reports,
    }
}
