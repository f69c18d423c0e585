//! What the two roles count.

pinnace_core::counters! {
    /// What an outgoing endpoint has seen.
    pub struct OutgoingCounters {
        /// Frames acknowledged.
        frames_sent,
        /// Frames that ended with an error.
        frames_failed,
        /// Of those, frames that their receivers had taken, and then refused: the receivers have ended.
        frames_dropped,
        /// Frame headers sent, repetitions included.
        headers_sent,
        /// Data packets sent, repetitions included.
        packets_sent,
        /// Data packets sent again.
        packets_resent,
        /// Bytes of datagrams sent.
        bytes_sent,
        /// Data packets that a NACK asked for.
        packets_nacked,
        /// Data packets whose acknowledgement did not come in time.
        packets_timed_out,
        /// Of those, packets that had arrived: their acknowledgement came in less than a round trip after the repetition.
        timeouts_spurious,
        /// Data packets that were late and not repeated, because the contract may let them go.
        packets_let_go,
        /// Packets that the receivers reported as lost for good.
        packets_lost,
        /// How often the path was found to lose large datagrams in silence.
        black_holes,
        /// Frames begun anew for that, with smaller packets.
        frames_begun_anew,
        /// Control packets received.
        controls_received,
        /// Control packets for no frame of ours, and answers that came too late to matter.
        controls_stale,
        /// Datagrams that do not parse.
        datagrams_malformed,
        /// ICMP errors.
        unreachable_reports,
        /// Data packets that arrived marked by a congested router.
        congestion_marks,
    }
}

pinnace_core::counters! {
    /// What an incoming endpoint has seen.
    pub struct IncomingCounters {
        /// Frames delivered.
        frames_received,
        /// Frames that ended before they were complete.
        frames_failed,
        /// Frame headers refused: of new frames, and of those that have ended or were another.
        frames_refused,
        /// Frame headers of a sender's life before this one, ignored.
        headers_stale,
        /// Frames ended to make room for others: nothing of them had come, or they were finished and their senders silent.
        frames_evicted,
        /// Data packets stored.
        packets_received,
        /// Data packets that had come before, or that no frame had a place for.
        packets_unwanted,
        /// Data packets treated as lost, each the last of its frame, because the application is slow to take what came.
        packets_held_back,
        /// Data packets of unknown frames.
        packets_unknown,
        /// Data packets that came before the header of their frame, and were kept.
        packets_early,
        /// Packets lost with permission, of the frames delivered.
        packets_lost,
        /// Packets that were asked for again.
        packets_nacked,
        /// Data packets received straight into their place.
        packets_in_place,
        /// Data packets that were copied.
        packets_copied,
        /// Bytes copied for that.
        bytes_copied,
        /// Bytes of data stored.
        bytes_received,
        /// Control packets sent.
        controls_sent,
        /// Tags and answers left out, so as not to send more than came.
        answers_withheld,
        /// Datagrams that do not parse.
        datagrams_malformed,
        /// Data packets that arrived marked by a congested router.
        congestion_marks,
    }
}
