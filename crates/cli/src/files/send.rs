//! `pinnace send`.

use super::MAX_BYTES;
use super::digest::{HashThread, Hashed, Job, OpenFile, Value};
use super::peer::Peer;
use super::progress::{Progress, Report, Status, Totals};
use super::protocol::{self, Decision, Held, Holding, Kind, Offer, Problem, ToReceiver, ToSender, unsafe_peer};
use super::schedule::{Item, Schedule, Values, Work};
use super::source::{self, Gathered, Source};
use crate::address::resolve_peer;
use crate::exit::{Error, Exit};
use crate::interrupt;
use crate::mapped;
use crate::output::Output;
use crate::service::{self, Asked};
use crate::transport::{self, Pace, Transport};
use pinnace::Message;
use pinnace::zcrp::{self, Sending};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

const EXAMPLES: &str = "\
Examples:
  pinnace send results.bin photos/ 192.0.2.7:4747
  pinnace send --to [2001:db8::7]:4747 backup.tar
  pinnace send results.bin 'pinnace://192.0.2.7:4747?path=cluster'

`pinnace recv` must run at that address. Names, permissions and modification times are kept. Symbolic links inside \
folders are left out, and so is what is removed from them meanwhile (exit code 1); devices, sockets and pipes are refused. Every file is verified with BLAKE3 at both ends. If \
either end is killed, run both commands again: what has arrived is verified, and not sent twice.";

/// Arguments of `pinnace send`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, override_usage = "pinnace send [OPTIONS] <FILE>... <HOST:PORT>")]
pub(crate) struct Args {
    /// Files and folders, and last the receiver's address or URI, unless --to names it
    #[arg(value_name = "FILE", required = true)]
    files: Vec<OsString>,
    /// The receiver's address, or a URI like pinnace://HOST:PORT?path=cluster
    #[arg(long, value_name = "HOST:PORT", value_parser = service::target)]
    to: Option<String>,
    /// What is needed, in the words of a service; of those that a file transfer cannot meet it says why
    #[arg(long, value_name = "WORDS")]
    service: Option<String>,
    /// Bytes of a chunk, a power of two: what is sent again at most when a transfer is resumed
    #[arg(long, value_name = "BYTES", default_value = "16MiB", value_parser = chunk_bytes)]
    chunk: u64,
    #[command(flatten)]
    pace: Pace,
    #[command(flatten)]
    transport: Transport,
}

fn chunk_bytes(text: &str) -> Result<u64, String> {
    let bytes = transport::bytes(text)?;
    if Offer::new(bytes).check().is_err() {
        return Err("must be a power of two from 64KiB to 1GiB".to_owned());
    }
    Ok(bytes)
}

impl Args {
    fn files_and_address(&self) -> Result<(Vec<PathBuf>, String), Error> {
        let paths = |files: &[OsString]| files.iter().map(PathBuf::from).collect();
        if let Some(to) = &self.to {
            return Ok((paths(&self.files), to.clone()));
        }
        let Some((last, files)) = self.files.split_last() else { return Err(Error::usage("name a file to send")) };
        let shown = last.to_string_lossy();
        let address = service::target(&shown).map_err(|why| {
            Error::usage(format!("the last argument, `{shown}`, must be the receiver's address: {why}"))
        })?;
        if files.is_empty() {
            return Err(Error::usage(format!("name the files to send to {address}")));
        }
        Ok((paths(files), address))
    }
}

/// Runs `pinnace send`.
pub(crate) fn run(args: &Args, output: &Output) -> Result<(), Error> {
    let (paths, to) = args.files_and_address()?;
    let Asked { authority: to, service } = super::tool("pinnace send").asked(&to, args.service.as_deref())?;
    let transport = args.transport.declared(service.path_class())?;
    interrupt::install();
    let Gathered { sources, gone } = source::gather(&paths, output)?;
    let begun = Instant::now();
    let options = transport.options_of_sender(&args.pace);
    let channel = zcrp::connect(resolve_peer(&to)?, &options)?;
    let peer = Peer::new(channel, to, &transport);
    let report = Report::new(output);
    let mut transfer = Transfer::new(&peer, &sources, args.chunk, &report)?;
    let result = transfer.run(&transport);
    match &result {
        Ok(_) => peer.take_leave(),
        Err(error) => peer.give_up(error),
    }
    let Transfer { hashes, already_there, totals, .. } = transfer;
    let problems = result?;
    for (at, source) in sources.iter().enumerate() {
        let (Some(hash), false) = (&hashes[at], problems.contains_key(&at)) else { continue };
        let status = if already_there[at] { Status::AlreadyThere } else { Status::Sent };
        report.file(status, &source.entry.path, source.bytes(), hash);
    }
    if let Some((&first, text)) = problems.first_key_value() {
        let name = sources.get(first).map(Source::display).unwrap_or_default();
        return Err(Error::not_verified(format!(
            "{} of {} files did not verify, first {name}: {text}; send them again",
            problems.len(),
            totals.files
        )));
    }
    report.totals(totals, begun);
    if let Some(first) = gone.first() {
        return Err(Error::failed(format!(
            "removed before their turn came: {} of what the folders had, first {}; all else was sent",
            gone.len(),
            first.display()
        )));
    }
    Ok(())
}

struct Transfer<'a> {
    peer: &'a Peer<'a>,
    sources: &'a [Source],
    chunk_bytes: u64,
    hasher: HashThread,
    values: Values,
    /// Of each source, once it is known.
    hashes: Vec<Option<Value>>,
    already_there: Vec<bool>,
    /// The file that was opened last, by source.
    open: Option<(usize, Arc<OpenFile>)>,
    totals: Totals,
    progress: RefCell<Progress>,
}

/// A message under way.
struct Queued {
    sending: Sending,
    /// The chunk in it, and its file, unless it is a message of digests.
    chunk: Option<(usize, u32, Arc<OpenFile>)>,
}

impl<'a> Transfer<'a> {
    fn new(peer: &'a Peer<'a>, sources: &'a [Source], chunk_bytes: u64, report: &Report) -> Result<Self, Error> {
        let files = sources.iter().filter(|source| matches!(source.entry.kind, Kind::File { .. }));
        let (count, bytes) = files.fold((0, 0), |(count, bytes), file| (count + 1, bytes + file.bytes()));
        Ok(Self {
            peer,
            sources,
            chunk_bytes,
            hasher: HashThread::start(chunk_bytes)?,
            values: Values::new(chunk_bytes),
            hashes: vec![None; sources.len()],
            already_there: vec![false; sources.len()],
            open: None,
            totals: Totals { files: count, bytes, bytes_resumed: 0 },
            progress: RefCell::new(Progress::new("connecting", report, None)),
        })
    }

    /// The whole conversation; returns what did not verify.
    fn run(&mut self, transport: &Transport) -> Result<BTreeMap<usize, String>, Error> {
        self.introduce(transport)?;
        let manifest = self.sources.iter().map(|source| source.entry.clone());
        for page in protocol::pages(manifest)? {
            self.peer.tell(&ToReceiver::Manifest(page), || self.peer.look())?;
        }
        let work = self.agree()?;
        let missing = self.totals.bytes - self.totals.bytes_resumed;
        self.progress.borrow_mut().begin("sending", missing);
        self.content(&work)?;
        self.report()
    }

    fn introduce(&self, transport: &Transport) -> Result<(), Error> {
        self.peer.listen()?;
        let offer = protocol::encode(&ToReceiver::Offer(Offer::new(self.chunk_bytes)))?;
        let deadline = self.peer.first_deadline();
        let presence = self.peer.presence("recv");
        let sender = &self.peer.sender;
        let reports = || sender.counters().unreachable_reports;
        let no_answer = || {
            let why = format!(
                "no answer within {} s: is `pinnace recv` running at that address, not busy with others, and \
                 does UDP reach it?",
                transport.timeout.as_secs_f32()
            );
            let is_heard = transport::is_heard(sender);
            presence.silent(if is_heard { 0 } else { reports() }, why)
        };
        let look = || {
            presence.look(reports(), transport::is_heard(sender))?;
            if Instant::now() < deadline { self.peer.look() } else { Err(no_answer()) }
        };
        transport::wait(self.peer.queue(Message::from_vec(offer))?, look, |error| match self.peer.error(error) {
            // The transport may be a moment faster.
            Error { exit: Exit::PeerGone, .. } if !transport::is_heard(sender) => no_answer(),
            error => error,
        })?;
        // `pinnace recv` accepts at once, and only then looks at what it has. What takes the offer and says nothing is something
        // else, and ZCRP itself sees nothing wrong with it.
        let answer = self.peer.hear_receiver(Some(self.peer.first_deadline())).map_err(|error| {
            if error.exit != Exit::PeerGone {
                return error;
            }
            Error::peer_gone(format!(
                "the offer has arrived, but nobody has answered it within {} s: is it `pinnace recv` that runs at that \
                 address, and not `pinnace zcrp listen`?",
                transport.timeout.as_secs_f32()
            ))
        })?;
        match answer {
            ToSender::Accept => Ok(()),
            _ => Err(unsafe_peer("it does not answer the offer")),
        }
    }

    /// Hears what the receiver has, compares, and says what is different; returns what has to be sent.
    fn agree(&mut self) -> Result<Vec<Work>, Error> {
        let mut held: Vec<Vec<(u32, Value)>> = vec![Vec::new(); self.sources.len()];
        let mut decisions = Vec::new();
        let mut said = (0, 0);
        loop {
            let ToSender::Holdings(page) = self.peer.hear_receiver(None)? else {
                return Err(unsafe_peer("it does not say what it has"));
            };
            if page.items.is_empty() && !page.last {
                return Err(unsafe_peer("it sent a page of nothing"));
            }
            for Holding { entry, held: claim } in page.items {
                let at = entry as usize;
                let file = self.sources.get(at).filter(|source| matches!(source.entry.kind, Kind::File { .. }));
                let Some(source) = file else { return Err(unsafe_peer("it has files that nobody offered")) };
                // In order, so that what it says of files is bounded by the files.
                let (first, next) = match &claim {
                    Held::Whole(_) => (0, u64::MAX),
                    Held::Chunks(chunks) if chunks.is_sorted_by(|one, other| one.0 < other.0) => {
                        let end = |chunk: Option<&(u32, Value)>| chunk.map(|(chunk, _)| u64::from(*chunk));
                        (end(chunks.first()).unwrap_or(0), end(chunks.last()).map_or(0, |last| last + 1))
                    }
                    Held::Chunks(_) => (0, 0),
                };
                if (entry, first) < said || next == 0 {
                    return Err(unsafe_peer("it says twice what it has"));
                }
                said = (entry, next);
                let rejected = self.compare(at, source, claim, &mut held[at])?;
                decisions.extend(rejected.map(|chunks| Decision { entry, chunks }));
            }
            if page.last {
                break;
            }
        }
        for page in protocol::pages(decisions)? {
            self.peer.tell(&ToReceiver::Plan(page), || self.peer.look())?;
        }
        let mut work = Vec::new();
        for (at, source) in self.sources.iter().enumerate() {
            let Kind::File { bytes } = source.entry.kind else { continue };
            if self.already_there[at] {
                self.totals.bytes_resumed += bytes;
                continue;
            }
            let mut held = std::mem::take(&mut held[at]);
            held.sort_by_key(|(chunk, _)| *chunk);
            held.dedup_by_key(|(chunk, _)| *chunk);
            let file = Work { entry: at, bytes, held };
            let lengths = file.held.iter().map(|(chunk, _)| file.range(*chunk, self.chunk_bytes).1 as u64);
            self.totals.bytes_resumed += lengths.sum::<u64>();
            work.push(file);
        }
        Ok(work)
    }

    /// Compares what the receiver claims to have with the file; returns what is different, if anything is.
    fn compare(
        &mut self,
        at: usize,
        source: &Source,
        claim: Held,
        held: &mut Vec<(u32, Value)>,
    ) -> Result<Option<Vec<u32>>, Error> {
        self.peer.look()?;
        let (file, bytes) = (source.open()?, source.bytes());
        let work = Work { entry: at, bytes, held: Vec::new() };
        match claim {
            Held::Whole(hash) => {
                let own = super::hash_on_disk(&file, &source.display(), bytes, self.chunk_bytes, &|| self.peer.look())?;
                if own != hash {
                    return Ok(Some(Vec::new()));
                }
                self.hashes[at] = Some(own);
                self.already_there[at] = true;
                Ok(None)
            }
            Held::Chunks(chunks) => {
                let mut different = Vec::new();
                for (chunk, value) in chunks {
                    if chunk >= work.chunks(self.chunk_bytes) {
                        return Err(unsafe_peer("it has chunks beyond the end of a file"));
                    }
                    let range = work.range(chunk, self.chunk_bytes);
                    let of = (bytes, self.chunk_bytes);
                    if super::value_on_disk(&file, &source.display(), range, of, &|| self.peer.look())? == value {
                        held.push((chunk, value));
                    } else {
                        different.push(chunk);
                    }
                }
                Ok((!different.is_empty()).then_some(different))
            }
        }
    }

    /// Sends chunks and digests in the agreed order.
    fn content(&mut self, work: &[Work]) -> Result<(), Error> {
        let mut schedule = Schedule::new(self.chunk_bytes);
        let mut next = schedule.next(work);
        let mut under_way: VecDeque<Queued> = VecDeque::new();
        let (most, mut bytes) = (super::most_messages(1), 0);
        loop {
            while let Some(item) = &next
                && under_way.len() < most
                && bytes < MAX_BYTES
            {
                let queued = match item {
                    &Item::Chunk { work: at, chunk } => {
                        let (content, file) = self.map(&work[at], chunk)?;
                        bytes += content.len() as u64;
                        self.progress.get_mut().queued(content.len() as u64);
                        Queued { sending: self.peer.queue(content)?, chunk: Some((at, chunk, file)) }
                    }
                    Item::Digests(range) => {
                        if !range.clone().all(|at| self.values.is_complete(at, &work[at])) {
                            if !under_way.is_empty() {
                                break;
                            }
                            let hashed = self.hasher.wait()?;
                            self.hashed(work, &hashed);
                            continue;
                        }
                        let digests = self.digests(work, range)?;
                        Queued { sending: self.peer.queue(Message::from_vec(digests))?, chunk: None }
                    }
                };
                under_way.push_back(queued);
                next = schedule.next(work);
            }
            let Some(Queued { sending, chunk }) = under_way.pop_front() else { return Ok(()) };
            let (peer, progress) = (self.peer, &self.progress);
            let look = || {
                progress.borrow_mut().look(peer.sender.link_counters().bytes_sent);
                peer.look()
            };
            let content = transport::wait(sending, look, |error| peer.error(error))?;
            if let Some((at, chunk, file)) = chunk {
                bytes -= content.len() as u64;
                self.progress.get_mut().completed(content.len() as u64);
                let (offset, len) = work[at].range(chunk, self.chunk_bytes);
                self.hasher.submit(Job { work: at, chunk, offset, len, bytes: work[at].bytes, file })?;
            }
            while let Some(hashed) = self.hasher.poll()? {
                self.hashed(work, &hashed);
            }
        }
    }

    fn hashed(&mut self, work: &[Work], hashed: &Hashed) {
        self.values.set(hashed.work, &work[hashed.work], hashed.chunk, hashed.value);
    }

    fn map(&mut self, work: &Work, chunk: u32) -> Result<(Message, Arc<OpenFile>), Error> {
        let source = &self.sources[work.entry];
        let file = match self.open.take() {
            Some((entry, file)) if entry == work.entry => file,
            _ => {
                let file = source.open()?;
                mapped::note(&file, &source.location)
                    .map_err(|error| Error::io(format_args!("cannot read {}", source.location.display()), &error))?;
                Arc::new(OpenFile { file, name: source.location.display().to_string() })
            }
        };
        let (offset, len) = work.range(chunk, self.chunk_bytes);
        let cannot = |error| super::unmapped(source.location.display(), &error);
        // The kernel refuses to send a mapped page behind the end of the file, in words that say nothing of a file.
        if file.file.metadata().map_err(cannot)?.len() != work.bytes {
            source.open()?;
        }
        let content = mapped::to_send(&file.file, offset, len).map_err(cannot)?;
        self.open = Some((work.entry, Arc::clone(&file)));
        Ok((content, file))
    }

    fn digests(&mut self, work: &[Work], range: &Range<usize>) -> Result<Vec<u8>, Error> {
        let mut digests = Vec::with_capacity(range.len());
        for at in range.clone() {
            let entry = work[at].entry;
            // What was sent and hashed may be of two minds if somebody wrote to the file meanwhile.
            self.sources[entry].open()?;
            let hash = self.values.take_hash(at, &work[at]);
            let hash = hash.ok_or_else(|| Error::failed("a file was not hashed; please report it"))?;
            self.hashes[entry] = Some(hash);
            digests.push(hash);
        }
        protocol::encode(&ToReceiver::Digests(digests))
    }

    fn report(&self) -> Result<BTreeMap<usize, String>, Error> {
        let mut problems = BTreeMap::new();
        loop {
            let ToSender::Report(page) = self.peer.hear_receiver(None)? else {
                return Err(unsafe_peer("it does not report what it verified"));
            };
            if page.items.is_empty() && !page.last {
                return Err(unsafe_peer("it sent a page of nothing"));
            }
            for Problem { entry, text } in page.items {
                problems.insert(entry as usize, protocol::printable(&text));
            }
            if problems.len() > self.sources.len() {
                return Err(unsafe_peer("it reports files that nobody offered"));
            }
            if page.last {
                return Ok(problems);
            }
        }
    }
}
