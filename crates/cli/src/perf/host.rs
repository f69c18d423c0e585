//! What a table was measured on, so that it can be measured again.

/// Kernel, processor, and the command line: no date, so that two runs of one command begin alike.
pub(crate) fn header() -> String {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let kernel = read("/proc/sys/kernel/osrelease");
    let cpuinfo = read("/proc/cpuinfo");
    let model =
        cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": ")).map(|(_, name)| name);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    format!(
        "# {} {}, {} ({cores} cores), pinnace {}{}: pinnace {}",
        capitalized(std::env::consts::OS),
        kernel.trim(),
        model.unwrap_or(std::env::consts::ARCH),
        env!("CARGO_PKG_VERSION"),
        if cfg!(debug_assertions) { ", NOT a release build" } else { "" },
        arguments.join(" ")
    )
}

fn capitalized(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
