//! `--contract`: what the connections to other hosts are to be.

use bytesize::ByteSize;
use pinnace::qmp::Options;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// What was asked for; everything else is as the library has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Contract {
    window: Option<u32>,
    status_every: Option<u32>,
    go_back_n: bool,
    silence: Option<Duration>,
}

impl Contract {
    pub(crate) fn options(&self) -> Options {
        let options = Options::default();
        Options {
            window_bytes: self.window.or(options.window_bytes),
            status_every: self.status_every.unwrap_or(options.status_every),
            go_back_n: self.go_back_n,
            peer_timeout: self.silence.or(options.peer_timeout),
            ..options
        }
    }
}

impl FromStr for Contract {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut contract = Self::default();
        for term in text.split(',').map(str::trim).filter(|term| !term.is_empty()) {
            let (name, value) = term.split_once('=').unwrap_or((term, ""));
            let wrong = || format!("{term:?}: not a value of {name}");
            match name {
                "window" => {
                    let bytes = value.parse::<ByteSize>().map_err(|_| wrong())?.as_u64();
                    let bytes = u32::try_from(bytes).ok().filter(|bytes| (1..=1 << 30).contains(bytes));
                    contract.window = Some(bytes.ok_or_else(wrong)?);
                }
                "status-every" => {
                    let packets = value.parse().ok().filter(|packets| (1..=65_536).contains(packets));
                    contract.status_every = Some(packets.ok_or_else(wrong)?);
                }
                "go-back-n" if value.is_empty() => contract.go_back_n = true,
                "silence" => {
                    let seconds = value.parse::<f64>().ok().filter(|seconds| (0.1..=86_400.0).contains(seconds));
                    contract.silence = Some(Duration::from_secs_f64(seconds.ok_or_else(wrong)?));
                }
                _ => return Err(format!("{term:?}: the terms are window, status-every, go-back-n and silence")),
            }
        }
        Ok(contract)
    }
}

impl fmt::Display for Contract {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let terms = [
            self.window.map(|bytes| format!("window={bytes}")),
            self.status_every.map(|packets| format!("status-every={packets}")),
            self.go_back_n.then(|| "go-back-n".to_owned()),
            self.silence.map(|time| format!("silence={}", time.as_secs_f64())),
        ];
        f.write_str(&terms.into_iter().flatten().collect::<Vec<_>>().join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contract_is_read_as_it_is_printed() {
        for text in ["", "window=1048576,status-every=4,go-back-n,silence=2.5", "go-back-n"] {
            assert_eq!(text.parse::<Contract>().map(|contract| contract.to_string()).as_deref(), Ok(text));
        }
        let contract: Contract = "window=1MiB, silence=3".parse().expect("a contract");
        let options = contract.options();
        assert_eq!((options.window_bytes, options.peer_timeout), (Some(1 << 20), Some(Duration::from_secs(3))));
        for wrong in ["window=0", "window=2GiB", "window", "status-every=0", "go-back-n=1", "silence=0", "speed=9"] {
            assert!(wrong.parse::<Contract>().is_err(), "{wrong}");
        }
    }
}
