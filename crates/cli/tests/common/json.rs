//! What `--json` prints: every object, and every name in it. docs/src/json.md shows the same table, and the test `json` sees to
//! that.

use serde_json::Value;

/// Commands, an event, and its names; `?` behind a name says that it may be missing. `event.name` is what lies in that name, and `*`
/// stands for names that are not fixed.
pub(crate) const OBJECTS: &[(&[&str], &str, &str)] = &[
    (&["*"], "error", "error exit sender?"),
    (
        &[
            "zcrp listen",
            "vrp listen",
            "xtp listen",
            "qmp listen",
            "a1 listen",
            "recv",
            "listen",
            "stream recv",
            "tune",
        ],
        "listening",
        "address",
    ),
    (&["ping"], "listening", "address"),
    (&["xtp listen", "qmp listen", "a1 listen", "listen"], "broke", "error"),
    (&["zcrp listen"], "message", "sender? message bytes sha256"),
    (&["zcrp send"], "message", "message bytes sha256"),
    (&["zcrp listen", "zcrp send"], "refused", "sender? message error"),
    (&["zcrp send"], "done", "messages bytes seconds units_sent units_resent messages_refused"),
    (&["vrp listen"], "message", "message bytes sha256 holes packets packets_lost longest_run_packets peer frame"),
    (&["vrp send"], "late", "message"),
    (&["vrp send"], "message", "message bytes sha256 holes packets packets_lost longest_run_packets"),
    (
        &["vrp send"],
        "done",
        "messages bytes seconds messages_late packets packets_lost longest_run_packets messages_unreported",
    ),
    (&["xtp listen"], "message", "message bytes sha256 service holes? peer"),
    (&["xtp send"], "message", "message bytes sha256 service"),
    (&["xtp send"], "done", "service messages bytes seconds packets_sent packets_resent acknowledged"),
    (&["xtp transact"], "response", "request_bytes bytes sha256 text round_trip_us"),
    (&["qmp listen"], "message", "message bytes sha256 way peer"),
    (&["qmp send"], "message", "message bytes sha256 way"),
    (&["qmp send"], "done", "messages bytes seconds packets_sent packets_resent acknowledged"),
    (&["a1 listen"], "message", "message bytes sha256 whole lost peer"),
    (&["a1 listen"], "lost", "peer"),
    (&["a1 send"], "message", "message bytes sha256 whole lost stale"),
    (&["a1 send"], "done", "messages bytes seconds blocks_sent blocks_resent messages_stale acknowledged"),
    (&["send"], "left_out", "path why"),
    (&["recv"], "waiting", "sender? peer? path path_bytes? held_by? held_by_peer?"),
    (&["send", "recv"], "file", "sender? status path path_bytes? bytes blake3"),
    (&["send", "recv"], "done", "sender? files bytes bytes_resumed seconds verified"),
    (&["listen", "connect"], "connected", "peer method service"),
    (&["listen", "connect"], "lost", "message bytes bytes_lost holes"),
    (&["listen", "connect"], "missed", "before? messages_lost bytes_filled"),
    (&["listen", "connect"], "late", "bytes"),
    (&["listen", "connect"], "peer_ended", ""),
    (
        &["listen", "connect"],
        "done",
        "messages_sent bytes_sent messages_received bytes_received bytes_lost messages_lost seconds",
    ),
    (&["explain", "listen", "connect"], "explained", "service peer? path offers choice changes"),
    (
        &["explain", "listen", "connect"],
        "explained.path",
        "class round_trip_us loss datagram_bytes bits_per_second shared_memory ethernet multicast",
    ),
    (
        &["explain", "listen", "connect"],
        "explained.offers",
        "method mode fits allowed chosen cost_us set_up_us work_us wire_us travel_us repetition_us wait_us shared_by why",
    ),
    (&["explain", "listen", "connect"], "explained.changes", "change method"),
    (
        &["stream recv"],
        "done",
        "over frames frames_offered share_received bytes frames_per_second bits_per_second age_ms messages_dropped \
         clocks_disagree ending deadline_ms? frames_in_time? share_in_time? frames_as_agreed? frames_with_holes? packets? \
         packets_lost? loss? longest_run_packets?",
    ),
    (&["stream recv"], "done.age_ms", "min p50 p90 p99 max"),
    (&["stream recv"], "done.ending", "frames_offered frames_sent frames_left_out frames_given_up"),
    (
        &["stream send"],
        "done",
        "over frames_offered frames_sent frames_left_out frames_given_up frames_acknowledged source_late bytes seconds \
         frames_per_second bits_per_second acknowledged_after_ms frames_with_holes? packets? packets_lost? loss? \
         longest_run_packets?",
    ),
    (&["stream send"], "done.acknowledged_after_ms", "min p50 p90 p99 max"),
    (&["cast"], "sink", "peer state error?"),
    (&["cast", "tune"], "stream", "format bits_per_second period_us bytes text"),
    (&["cast"], "qos", "qos"),
    (&["tune"], "qos", "qos qos_changes"),
    (
        &["cast", "tune"],
        "qos.qos",
        "bits_per_second burst_bytes priority checksum retransmission messages_outstanding largest_bytes",
    ),
    (&["cast"], "done", "seconds bytes blocks blocks_unheard sinks"),
    (&["cast"], "done.sinks", "peer delivered blocks_resent messages_skipped"),
    (&["tune"], "sender", "peer"),
    (&["tune"], "gone", "error"),
    (&["tune"], "lost", "block blocks_lost bytes_lost holes"),
    (
        &["tune"],
        "status",
        "seconds bits_per_second bytes blocks blocks_lost jitter_ms jitter_p99_ms late_p99_ms late_max_ms window_blocks \
         block_bytes round_trip_us multicast qos qos_changes",
    ),
    (
        &["tune"],
        "status.qos",
        "bits_per_second burst_bytes priority checksum retransmission messages_outstanding largest_bytes",
    ),
    (&["tune"], "over", ""),
    (
        &["tune"],
        "done",
        "seconds bytes sha256 holes holes_left_out blocks blocks_lost streams bytes_missed jitter_ms jitter_p99_ms late_p99_ms late_max_ms \
         qos_changes",
    ),
    (
        &["sim"],
        "done",
        "protocol network back contract congestion datagram_bytes seed outcome arrived seconds bytes bytes_lost \
         bits_per_second share_of_rate round_trip_us in_place datagrams_sent datagrams_resent timeouts deliveries time_line \
         sender_counters receiver_counters datagrams trace digest",
    ),
    (
        &["sim"],
        "done.deliveries",
        "message bytes arrived verified bytes_lost received_seconds acknowledged_seconds receiver_failure sender_failure",
    ),
    (&["sim"], "done.time_line", "interval_seconds bytes datagrams_resent datagrams_lost"),
    (&["sim"], "done.sender_counters", "*"),
    (&["sim"], "done.receiver_counters", "*"),
    (&["sim"], "done.datagrams", "*"),
    (
        &["perf"],
        "throughput",
        "transport path size gbit_s cpu_s_per_gb_tx cpu_s_per_gb_rx ratio_to ratio in_place rounds idle load gbit_s_min \
         gbit_s_max ratio_paired sys_s_per_gb_tx sys_s_per_gb_rx share_copied receiver_bytes_beyond_buffers messages in_flight \
         seconds loss longest_run_packets contract xtp qmp a1 service method counts_per_second",
    ),
    (&["perf"], "throughput.xtp", "*"),
    (&["perf"], "throughput.qmp", "*"),
    (&["perf"], "throughput.a1", "*"),
    (
        &["perf"],
        "round_trips",
        "transport path size idle p50_us p90_us p99_us max_us mean_us count rounds ratio_to ratio xtp",
    ),
    (&["perf"], "round_trips.xtp", "*"),
    (
        &["ping"],
        "round_trips",
        "transport path size idle p50_us p90_us p99_us p999_us max_us mean_us count half ratio_to ratio rounds method",
    ),
    (&["experiment"], "row", "experiment *"),
    (&["experiment"], "link", "experiment path link"),
    (&["experiment"], "link.link", "*"),
    (&["experiment"], "samples", "experiment name samples"),
    (&["experiment"], "samples.samples", "*"),
    (&["experiment"], "summary", "experiment *"),
    (&["demo"], "done", "quick transfer throughput lossy svg png seconds"),
    (&["demo"], "done.transfer", "files bytes seconds gbit_s verified"),
    (&["demo"], "done.throughput", "size pinnace_gbit_s tcp_cubic_gbit_s ratio"),
    (
        &["demo"],
        "done.lossy",
        "loss complete bytes bits_per_second share_of_rate cubic_bits_per_second units_sent units_resent in_place",
    ),
    (&["demo vrp"], "done", "path pictures picture_bytes transports without_tcp png seconds"),
    (&["demo vrp"], "done.transports", "name pictures? frames_per_second? share_missing? received? sent? error?"),
    (&["demo vrp"], "done.transports.received", "*"),
    (&["demo vrp"], "done.transports.sent", "*"),
    (&["demo a1"], "done", "quick network turns whole p99_below_bar verdict svg png seconds"),
    (&["demo a1"], "done.turns", "beside bulk_bits_per_second sinks"),
    (&["demo a1"], "done.turns.sinks", "equal blocks blocks_lost jitter_ms jitter_p99_ms late_p99_ms late_max_ms"),
    (&["wan"], "done", "network exit near_to_far far_to_near seconds processor_seconds"),
    (
        &["wan"],
        "done.near_to_far",
        "packets bytes packets_delivered bytes_delivered packets_lost packets_dropped packets_held packets_under_way \
         packets_overrun packets_refused packets_late late_max_us reads writes",
    ),
    (
        &["wan"],
        "done.far_to_near",
        "packets bytes packets_delivered bytes_delivered packets_lost packets_dropped packets_held packets_under_way \
         packets_overrun packets_refused packets_late late_max_us reads writes",
    ),
    (&["daemon"], "serving", "socket pid pool_bytes block_bytes"),
    (
        &["qbuf stat"],
        "daemon",
        "socket pid seconds listeners channels connected refused_clients dropped_clients dead_clients zones block_bytes blocks \
         free_blocks user_blocks engine_blocks transit_blocks deferred_blocks swept_blocks clients",
    ),
    (&["qbuf stat"], "daemon.clients", "number pid uid seconds listeners channels held_blocks incoming_blocks"),
    (
        &["qbuf stat"],
        "pool",
        "pool processes variant wired guarded zones block_bytes blocks free_blocks user_blocks engine_blocks transit_blocks \
         deferred_blocks hidden_blocks locked_zones attached_clients owners",
    ),
    (&["qbuf stat"], "pool.processes", "pid name"),
    (&["qbuf stat"], "pool.owners", "slot generation alive user_blocks engine_blocks transit_blocks changing_blocks"),
    (
        &["top"],
        "row",
        "pid program kind protocol address peer service state seconds bytes_sent_per_second bytes_received_per_second \
         messages_sent_per_second messages_received_per_second messages_sent bytes_sent datagrams_sent messages_received \
         bytes_received datagrams_received bytes_lost packets_lost packets_resent round_trip_us",
    ),
    (&["doctor"], "check", "check found verdict command?"),
    (&["man"], "done", "pages folder"),
    (&["completion"], "done", "shell script"),
];

/// The names of an object, or why there are none.
fn names(command: &str, event: &str) -> Option<Vec<&'static str>> {
    let is_of = |commands: &[&str]| commands.contains(&command) || commands == ["*"];
    let (_, _, names) = OBJECTS.iter().find(|(commands, of, _)| *of == event && is_of(commands))?;
    Some(names.split_whitespace().collect())
}

/// Checks an object's names, and those of the objects in it.
fn check_names(command: &str, event: &str, object: &Value) {
    let known = names(command, event).unwrap_or_else(|| panic!("{command}: {event} is not documented: {object}"));
    let is_open = known.contains(&"*");
    let has = |name: &str| known.iter().any(|known| known.trim_end_matches('?') == name);
    let fields = object.as_object().expect("an object");
    for (name, value) in fields.iter().filter(|(name, _)| *name != "event") {
        assert!(is_open || has(name), "{command}: {event} has no `{name}`: {object}");
        let inner = format!("{event}.{name}");
        let parts = value.as_array().map_or_else(|| std::slice::from_ref(value), Vec::as_slice);
        for part in parts.iter().filter(|part| part.is_object()) {
            // What lies in names that are not fixed is not fixed either.
            if !is_open || names(command, &inner).is_some() {
                check_names(command, &inner, part);
            }
        }
    }
    for name in known.iter().filter(|name| !name.ends_with('?') && **name != "*") {
        assert!(fields.contains_key(*name), "{command}: {event} lacks `{name}`: {object}");
    }
}

/// Checks that each line is an object of this command with the names that it should have; returns their events.
pub(crate) fn check(command: &str, text: &str) -> Vec<String> {
    let check = |line: &str| {
        let object: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{command}: {error}: {line}"));
        let event = object["event"].as_str().unwrap_or_else(|| panic!("{command}: no event: {line}")).to_owned();
        check_names(command, &event, &object);
        event
    };
    text.lines().map(check).collect()
}

/// The table as the book has it.
pub(crate) fn table() -> String {
    let code = |words: Vec<&str>| words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    let rows = OBJECTS.iter().map(|(commands, event, names)| {
        let commands = if *commands == ["*"] { "all".to_owned() } else { code(commands.to_vec()) };
        let names = names.split_whitespace().map(|name| match name {
            "*" => "…".to_owned(),
            name => match name.strip_suffix('?') {
                Some(name) => format!("(`{name}`)"),
                None => format!("`{name}`"),
            },
        });
        format!("| {commands} | `{event}` | {} |", names.collect::<Vec<_>>().join(", "))
    });
    let head = ["| command | event | names |".to_owned(), "|---|---|---|".to_owned()];
    head.into_iter().chain(rows).collect::<Vec<_>>().join("\n")
}
