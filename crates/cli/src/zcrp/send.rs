//! `pinnace zcrp send`.

use crate::exit::Error;
use crate::interrupt;
use crate::output::Output;
use crate::transport::{self, Transport};
use pinnace::Message;
use pinnace::zcrp::{Sender, Sending};
use std::collections::VecDeque;
use std::fs::File;
use std::path::PathBuf;
use std::time::Instant;

/// Messages under way at most.
const AHEAD: usize = 8;
/// Bytes under way at most, if that is less.
const AHEAD_BYTES: usize = 256 << 20;

const DATA: &str = "\
Without --file, message N is the first SIZE bytes of BLAKE3's extendable output for 16 bytes of input: the seed and N, each as
8 bytes, least significant first.";

/// Arguments of `pinnace zcrp send`.
#[derive(Debug, clap::Args)]
#[command(after_help = DATA)]
pub(super) struct Args {
    /// The listener's address
    #[arg(long, value_name = "HOST:PORT", value_parser = transport::address)]
    to: String,
    /// Bytes of each message
    #[arg(long, value_name = "BYTES", value_parser = transport::bytes, required_unless_present = "file")]
    size: Option<u64>,
    /// How many messages
    #[arg(long, value_name = "K", default_value = "1")]
    count: u64,
    /// Where the pseudo-random content starts
    #[arg(long, default_value = "1")]
    seed: u64,
    /// Send the content of this file in each message, straight from its pages
    #[arg(long, conflicts_with_all = ["size", "seed"])]
    file: Option<PathBuf>,
    #[command(flatten)]
    transport: Transport,
}

pub(super) fn run(args: &Args, output: &Output) -> Result<(), Error> {
    let source = Source::open(args)?;
    interrupt::install();
    let sender = Sender::connect(args.to.as_str(), &args.transport.options())?;
    let failed = |error| args.transport.error(&args.to, error);
    let ahead = (AHEAD_BYTES / source.len().max(1)).clamp(1, AHEAD);
    let begun = Instant::now();
    let answered = || {
        let counters = sender.counters();
        counters.requests_received + counters.acknowledgements_received + counters.flow_hints_received > 0
    };
    let look = || {
        if begun.elapsed() > args.transport.timeout && !answered() {
            return Err(Error::peer_gone(format!(
                "no answer from {} within {} s: is `pinnace zcrp listen` running there, and does UDP reach it?",
                args.to,
                args.transport.timeout.as_secs_f32()
            )));
        }
        Ok(())
    };
    let mut under_way: VecDeque<Sending> = VecDeque::new();
    let mut next = 0;
    loop {
        while next < args.count && under_way.len() < ahead {
            let message = source.message(next)?;
            under_way.push_back(sender.send(message).map_err(|unsent| failed(unsent.error))?);
            next += 1;
        }
        let Some(oldest) = under_way.pop_front() else { break };
        let number = oldest.number();
        let message = transport::wait(oldest, look, failed)?;
        if output.json || output.verbose {
            super::print(output, number, &message);
        }
    }
    output.note(sender.counters().to_string().trim_end().replace('\n', ", "));
    sender.close();
    Ok(())
}

/// Where the messages' bytes come from.
enum Source {
    Random { seed: u64, size: usize },
    File { file: File, size: usize, path: PathBuf },
}

impl Source {
    fn open(args: &Args) -> Result<Self, Error> {
        let (size, source) = match &args.file {
            None => {
                let size = args.size.unwrap_or(0);
                (size, Self::Random { seed: args.seed, size: size as usize })
            }
            Some(path) => {
                let cannot = |error| Error::io(format_args!("cannot read {}", path.display()), &error);
                let file = File::open(path).map_err(cannot)?;
                let size = file.metadata().map_err(cannot)?.len();
                (size, Self::File { file, size: size as usize, path: path.clone() })
            }
        };
        if size > u64::from(u32::MAX) {
            return Err(Error::usage(
                "a ZCRP message has at most 4294967295 bytes; `pinnace send` takes files of any size",
            ));
        }
        Ok(source)
    }

    fn len(&self) -> usize {
        match self {
            Self::Random { size, .. } | Self::File { size, .. } => *size,
        }
    }

    fn message(&self, number: u64) -> Result<Message, Error> {
        match self {
            Self::Random { seed, size } => Ok(Message::from_vec(pseudo_random(*seed, number, *size))),
            Self::File { file, size, path } => Message::map_file(file, 0, *size)
                .map_err(|error| Error::io(format_args!("cannot map {}", path.display()), &error)),
        }
    }
}

/// See [`DATA`].
fn pseudo_random(seed: u64, number: u64, size: usize) -> Vec<u8> {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&seed.to_le_bytes()).update(&number.to_le_bytes());
    let mut content = vec![0; size];
    hasher.finalize_xof().fill(&mut content);
    content
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_depends_on_seed_and_number_and_grows_at_its_end() {
        let content = pseudo_random(1, 0, 1000);
        assert_eq!(content[..64], pseudo_random(1, 0, 64));
        assert_ne!(content[..64], pseudo_random(2, 0, 64));
        assert_ne!(content[..64], pseudo_random(1, 1, 64));
    }
}
