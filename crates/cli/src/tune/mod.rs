//! `pinnace tune`: a sink of `pinnace cast`.
//!
//! It waits for a cast, writes the stream byte for byte, and shows how it comes. It survives its senders: one that was
//! killed and starts again goes on in the same output.
//!
//! Always true: one stream is written at a time; another sender is let in when this one has ended, or has been silent for
//! [`SILENT`].

mod assembly;
mod display;
mod jitter;

use crate::a1::{Mode, Transport};
use crate::bare::{announce, one_line, tenths};
use crate::cast::{ANSWER, MOST};
use crate::exit::Error;
use crate::interrupt;
use crate::output::{self, Output};
use crate::{transport, units};
use assembly::{Assembly, Took};
use display::Display;
pub(crate) use display::{object, stream};
use pinnace::a1::{Connection, Options, Qos, Socket};
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

const EXAMPLES: &str = "\
Examples:
  pinnace tune -o copy.wav                      one stream, at port 4748 of every address
  pinnace tune 127.0.0.1:4748 -o - | aplay -    play it as it comes
  pinnace tune --keep                           show one stream after the other, write none
  pinnace tune --json -o /dev/null              a line a second for programs

The last line is `stream N bytes SHA256-HEX`, and after it one for each hole, `hole FROM..TO`: bytes FROM up to, \
without, TO were lost and are zero. Who tunes in late gets the header of the medium, and then what comes. A sender \
that starts again goes on in the same output; its header is written only if it is another one.

jitter is that of RFC 3550 (6.4.1), p99 the 99th percentile of the same differences; late is how long after the \
quickest one 99 of 100 blocks came, which is what a player has to keep ahead.";

/// Receive what `pinnace cast` sends, write it, and show rate, jitter, loss, window and quality of service (A1)
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The address to listen on, or a port alone, of every IPv4 address; port 0 picks one, and it is printed on standard
    /// error (with --json on standard output)
    #[arg(value_name = "[HOST:]PORT", default_value = "0.0.0.0:4748", value_parser = transport::local)]
    address: String,
    /// Write the stream to this file; `-` is standard output [default: it is only shown]
    #[arg(short, long, value_name = "FILE|-")]
    out: Option<PathBuf>,
    /// Write when each block came to this file: JSON, one object a line
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Go on after the end of a stream, until Ctrl-C
    #[arg(long)]
    keep: bool,
    /// Give up if nothing comes for so long: seconds [default: wait]
    #[arg(long, value_name = "SECONDS", value_parser = crate::bare::seconds)]
    wait: Option<Duration>,
    /// Between two lines about the stream
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = units::duration)]
    every: Duration,
    /// What happens to blocks that are lost; `pinnace cast` must say the same
    #[arg(long, value_enum, default_value_t, help_heading = "Quality of service")]
    mode: Mode,
    /// Never faster than this: 50mbit [default: no limit]
    #[arg(long, value_name = "RATE", value_parser = units::bit_rate, help_heading = "Quality of service")]
    rate: Option<u64>,
    /// Sum every datagram; `pinnace cast` must say the same
    #[arg(long, help_heading = "Quality of service")]
    checksum: bool,
    #[command(flatten)]
    transport: Transport,
}

/// A sender that says nothing for so long may be replaced by another.
const SILENT: Duration = Duration::from_millis(1500);
/// For the sender to close after the end of its stream.
const FAREWELL: Duration = Duration::from_secs(2);
/// Senders that wait to be looked at.
const BACKLOG: usize = 16;
/// Bytes of a message without repetitions: a block, but of headers.
const RAW: u32 = 64 << 10;
/// Bytes of the smallest block that a window is made for.
const BLOCK: u32 = 1200;
/// What may come at once where a rate is given.
const BURST: u32 = 64 << 10;

impl Args {
    fn qos(&self) -> Qos {
        let qos = self.mode.record();
        let largest = if qos.has_retransmission { MOST as u32 + 8192 } else { RAW };
        // As many as the window can hold; the sender says how many it needs.
        let outstanding = ((pinnace::a1::WINDOW_LIMIT - 1) / largest.div_ceil(BLOCK)).min(8192);
        Qos {
            has_checksum: self.checksum,
            receive_average: self.rate.map_or(0, units::byte_rate),
            receive_burst: if self.rate.is_some() { BURST } else { 0 },
            largest_sent: ANSWER,
            largest_received: largest,
            outstanding,
            ..qos
        }
    }

    fn options(&self) -> Options {
        self.transport.options()
    }

    fn open(&self) -> Result<Box<dyn Write>, Error> {
        Ok(match &self.out {
            None => Box::new(io::sink()),
            Some(path) if path.as_os_str() == "-" => Box::new(io::stdout()),
            Some(path) => {
                let file = File::create(path);
                Box::new(file.map_err(|error| Error::io(format_args!("cannot write {}", path.display()), &error))?)
            }
        })
    }

    fn open_log(&self) -> Result<Option<display::Log>, Error> {
        let Some(path) = &self.log else { return Ok(None) };
        let file =
            File::create(path).map_err(|error| Error::io(format_args!("cannot write {}", path.display()), &error))?;
        Ok(Some(io::BufWriter::new(file)))
    }

    fn is_piped(&self) -> bool {
        self.out.as_ref().is_some_and(|path| path.as_os_str() == "-")
    }
}

/// How a sender's turn has ended.
enum Ended {
    /// The stream is over.
    Over,
    /// It went away in the middle.
    Broken(String),
    /// It says nothing, and somebody else is here.
    Replaced(Connection),
}

/// Runs `pinnace tune`.
pub(crate) fn run(args: &Args, output: &Output) -> Result<(), Error> {
    if args.is_piped() && output.json {
        return Err(Error::usage("-o -: standard output is for the stream: leave --json out, or name a file"));
    }
    interrupt::install();
    if args.out.is_none() && output.json {
        output::only_prints();
    }
    let failed = |error| args.transport.error(&args.address, "tune", error);
    let socket =
        Socket::bind_with(crate::address::resolve(&args.address)?, args.qos(), &args.options()).map_err(failed)?;
    socket.listen(BACKLOG)?;
    socket.warnings().iter().for_each(|warning| output.warn(warning));
    let mut assembly = Assembly::new(args.open()?);
    announce(output, &socket.local_addr().to_string());
    let mut display = Display::new(*output, args.is_piped(), args.every, args.open_log()?)?;
    let result = tune(args, &socket, &mut assembly, &mut display);
    display.clear();
    output.note(one_line(&socket.counters()));
    let is_interrupted = result.as_ref().is_err_and(|error| error.exit == crate::exit::Exit::Interrupted);
    if result.is_ok() || (is_interrupted && assembly.streams > 0) {
        display.done(&mut assembly).map_err(|error| cannot_write(args, &error))?;
    }
    crate::a1::part(&socket);
    result.and_then(|()| display.end_log().map_err(|error| cannot_log(&error)))
}

fn cannot_log(error: &io::Error) -> Error {
    Error::io("cannot write the log", error)
}

fn cannot_write(args: &Args, error: &io::Error) -> Error {
    if args.is_piped() {
        return Error::output(error);
    }
    let name = args.out.as_ref().map_or_else(String::new, |path| path.display().to_string());
    Error::io(format_args!("cannot write {name}"), error)
}

type Out = Assembly<Box<dyn Write>>;

fn tune(args: &Args, socket: &Socket, assembly: &mut Out, display: &mut Display) -> Result<(), Error> {
    let mut next = None;
    // When anything was heard of anybody last.
    let mut heard = Instant::now();
    loop {
        let connection = match next.take() {
            Some(connection) => connection,
            None => accept(args, socket, heard)?,
        };
        heard = Instant::now();
        display.sender(&connection);
        match listen(args, socket, &connection, assembly, display, &mut heard)? {
            Ended::Over if !args.keep => return Ok(()),
            Ended::Over => display.say("waiting for the next stream"),
            Ended::Replaced(other) => {
                display.gone(&format!("{} says nothing, and another sender is here", connection.peer_addr()));
                next = Some(other);
            }
            Ended::Broken(why) => {
                display.gone(&format!("the sender {} is gone: {why}; waiting for it", connection.peer_addr()));
            }
        }
    }
}

/// Fails if nothing has been heard for longer than `--wait`.
fn check_wait(args: &Args, heard: Instant, advice: &str) -> Result<(), Error> {
    let silence = heard.elapsed();
    if args.wait.is_none_or(|wait| silence <= wait) {
        return Ok(());
    }
    Err(Error::peer_gone(format!("nothing came for {} s: {advice}", tenths(silence))))
}

fn accept(args: &Args, socket: &Socket, heard: Instant) -> Result<Connection, Error> {
    loop {
        interrupt::check()?;
        if let Some(connection) = socket.accept_timeout(interrupt::LOOK)? {
            return Ok(connection);
        }
        check_wait(args, heard, "start `pinnace cast` with --to this address, and the same --mode")?;
    }
}

/// One sender's turn.
fn listen(
    args: &Args,
    socket: &Socket,
    connection: &Connection,
    assembly: &mut Out,
    display: &mut Display,
    last: &mut Instant,
) -> Result<Ended, Error> {
    let mut heard = *last;
    // Blocks that have come, also those of a message that is not there yet.
    let mut come = None;
    let mut is_over = false;
    // Whether anything of a stream has come from this sender.
    let mut has_begun = false;
    // Another sender waits until it is known whether this one lives; what it sends meanwhile waits with it.
    let mut other: Option<(Connection, Instant)> = None;
    loop {
        interrupt::check()?;
        match connection.recv_timeout(interrupt::LOOK) {
            Ok(Some(received)) => {
                heard = Instant::now();
                *last = heard;
                let took = assembly.take(&received.data).map_err(|error| cannot_write(args, &error))?;
                is_over |= matches!(took, Took::End { .. });
                has_begun |= matches!(took, Took::Stream(_) | Took::Data { .. });
                let logged = display.took(&took, received.data.len());
                logged.map_err(|error| cannot_log(&error))?;
                connection.recycler().recycle(received.data);
            }
            Ok(None) if is_over => return Ok(Ended::Over),
            // Closed in order, which a sender that was killed cannot: without repetitions its last words may be lost. With them
            // they are not, and who has not said that it is over could not go on.
            Ok(None) if has_begun && !args.mode.record().has_retransmission => return Ok(Ended::Over),
            Ok(None) => {
                return Ok(Ended::Broken("it has closed the connection before the end of the stream".to_owned()));
            }
            Err(pinnace::Error::Timeout) => {
                let now = connection.facts().ok().map(|facts| facts.expected);
                if come.replace(now).is_some_and(|before| before != now) {
                    *last = Instant::now();
                }
            }
            // Everything has come: how the connection ends does not matter.
            Err(_) if is_over => return Ok(Ended::Over),
            Err(error) => return Ok(Ended::Broken(error.to_string())),
        }
        if is_over && other.is_none() && heard.elapsed() > FAREWELL {
            return Ok(Ended::Over);
        }
        if !is_over && let Err(error) = check_wait(args, *last, "the sender was ended, or the network between is down")
        {
            connection.abort();
            return Err(error);
        }
        let silence = heard.elapsed();
        // The header comes every second.
        if silence > args.transport.timeout {
            connection.abort();
            return Ok(Ended::Broken(format!("nothing came for {:.0} s", silence.as_secs_f64())));
        }
        if other.is_none() && socket.has_arrivals() {
            other = socket.try_accept()?.map(|other| (other, Instant::now()));
        }
        match other.take() {
            Some((waiting, _)) if is_over || silence > SILENT => {
                connection.abort();
                return Ok(Ended::Replaced(waiting));
            }
            Some((waiting, since)) if heard > since => {
                display.say(&format!("{} was turned away: a stream is being received", waiting.peer_addr()));
                waiting.abort();
            }
            waiting => other = waiting,
        }
        display.look(connection, assembly);
    }
}
