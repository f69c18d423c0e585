//! The arguments that the commands of the bare protocols share.

use super::Content;
use super::content::places;
use crate::exit::Error;
use crate::transport;
use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;

/// The help's words on standard input, where the protocol names the length of a message first.
pub(crate) const WHOLE: &str = "\
Standard input is read to its end before anything is sent: that nobody listens is not noticed before. `pinnace connect` sends \
as it reads.";

/// What a sender sends, and where to.
#[derive(Debug, Args)]
pub(crate) struct What {
    /// What to send (- is standard input), and the listener's address
    #[arg(value_name = "FILE|- HOST:PORT", num_args = 0..=2)]
    places: Vec<OsString>,
    /// The listener's address
    #[arg(long, value_name = "HOST:PORT", value_parser = transport::address)]
    to: Option<String>,
    /// Bytes of each message of pseudo-random content
    #[arg(long, value_name = "BYTES", value_parser = transport::bytes)]
    size: Option<u64>,
    /// How many messages
    #[arg(long, value_name = "K", default_value = "1", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: u64,
    /// Where the pseudo-random content starts
    #[arg(long, default_value = "1", value_parser = crate::units::seed, allow_negative_numbers = true)]
    seed: u64,
    /// Send the content of this file in each message
    #[arg(long, conflicts_with_all = ["size", "seed"])]
    file: Option<PathBuf>,
}

impl What {
    /// The content, and where to. `what` is what one message is called.
    pub(crate) fn open(&self, what: &str) -> Result<(Content, String), Error> {
        let (file, to) = places(&self.places, (self.file.as_ref(), self.size, self.to.as_ref()))?;
        let content = Content::open(file.as_deref(), self.size, self.seed, what)?;
        if content.len().is_none() && self.count != 1 {
            return Err(Error::usage("--count: standard input can be read only once"));
        }
        Ok((content, to))
    }
}

/// Where a listener listens.
#[derive(Debug, Args)]
pub(crate) struct Local {
    /// The address to listen on, or a port alone, of every IPv4 address; port 0 picks one, and it is printed on standard
    /// error (with --json on standard output)
    #[arg(value_name = "[HOST:]PORT", value_parser = transport::local, required_unless_present = "bind")]
    address: Option<String>,
    /// The same, by name
    #[arg(long, value_name = "[HOST:]PORT", value_parser = transport::local, conflicts_with = "address")]
    bind: Option<String>,
}

impl Local {
    pub(crate) fn address(&self) -> &str {
        self.address.as_ref().or(self.bind.as_ref()).map_or("", String::as_str)
    }
}
