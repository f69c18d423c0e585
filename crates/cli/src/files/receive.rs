//! `pinnace recv`.

use super::MAX_BYTES;
use super::digest::{HashThread, Hashed, Job, OpenFile, Value};
use super::peer::Peer;
use super::progress::{Progress, Report, Status, Totals};
use super::protocol::{
    self, CHUNKS_AN_ITEM, CONTROL_BYTES, Held, Holding, Item, ManifestReader, Problem, ToReceiver, ToSender,
    unsafe_peer,
};
use super::schedule::{self, Schedule, Values, Work};
use super::store::{self, Claim, Existing, Store, Stores, exists, is_folder};
use crate::address::resolve;
use crate::bare::announce_as;
use crate::exit::{Error, Exit};
use crate::interrupt;
use crate::mapped;
use crate::output::Output;
use crate::senders::{self, Place};
use crate::service::{self, Asked};
use crate::transport::{self, Transport};
use indicatif::BinaryBytes;
use pinnace::Message;
use pinnace::zcrp::{Listener, Receiving};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

const EXAMPLES: &str = "\
Examples:
  pinnace recv --dir incoming                      from any number of senders, until Ctrl-C
  pinnace recv --bind [::]:4747 --once --json      over IPv6, end after the first, for scripts

Nothing is ever written outside --dir. A file gets its name when it is whole and verified; until then it lies in \
.pinnace-partial there, for the next attempt. Anybody who reaches the port can send: nothing is authenticated yet.";

/// Arguments of `pinnace recv`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The address to listen on, a port alone (of every IPv4 address), or a URI; port 0 picks one, and it is printed on
    /// standard error (with --json on standard output)
    #[arg(long, value_name = "[HOST:]PORT", default_value = "0.0.0.0:4747", value_parser = service::place)]
    bind: String,
    /// What is needed, in the words of a service, like path=cluster; of those that it cannot meet it says why
    #[arg(long, value_name = "WORDS")]
    service: Option<String>,
    /// The folder to receive into; it is made if need be
    #[arg(long, default_value = ".")]
    dir: PathBuf,
    /// End after the first sender
    #[arg(long)]
    once: bool,
    /// Replace files that exist with other content [default: refuse the transfer]
    #[arg(long)]
    overwrite: bool,
    /// Have each file on the disk before it gets its name, so that it survives a power failure
    #[arg(long)]
    sync: bool,
    #[command(flatten)]
    transport: Transport,
}

/// Runs `pinnace recv`.
pub(crate) fn run(args: &Args, output: &Output) -> Result<(), Error> {
    let Asked { authority: bind, service } = super::tool("pinnace recv").asked(&args.bind, args.service.as_deref())?;
    let transport = args.transport.declared(service.path_class())?;
    interrupt::install();
    // Before the folder is made: where the port is taken nothing is left behind.
    let listener = Listener::bind(resolve(&bind)?, &transport.options())?;
    let stores = Stores::open(&args.dir, args.overwrite)?;
    listener.warnings().iter().for_each(|warning| output.warn(warning));
    let bound = listener.local_addr()?;
    let address = bound.to_string();
    announce_as(output, format_args!("receiving into {} at {address}", args.dir.display()), &address);
    // One that fell silent before it had shown that it is there may be nobody: `Ok` with its error.
    let receive = |channel, report: &Report, gives_way: &dyn Fn() -> bool| {
        let begun = Instant::now();
        // In this order: nothing is written any more when the peer has been dropped, and then the files are free.
        let store = stores.current()?;
        let mut claim = None;
        let peer = Peer::new(channel, "the sender", &transport).giving_way(gives_way);
        match serve(&peer, &store, args.sync, report, &mut claim) {
            Ok(totals) => report.totals(totals, begun),
            Err(error) if error.exit == Exit::PeerGone && !peer.is_proved() => return Ok(Some(error)),
            Err(error) => return Err(error),
        }
        Ok(None)
    };
    let report = Report::new(output);
    if args.once {
        let mut listener = listener;
        loop {
            let channel = transport::interruptible(move || listener.accept())??;
            let Some(error) = receive(channel, &report, &|| false)? else { return Ok(()) };
            report.warn(format!("{error}; listening on, as it never answered"));
            listener = Listener::bind(bound, &transport.options())?;
        }
    }
    let serve_one = |number, channel, place: &Place<'_>| {
        let (report, begun) = (report.of_sender(number), Instant::now());
        match receive(channel, &report, &|| place.is_needed_more(begun)) {
            // The whole command says so.
            Ok(None) | Err(Error { exit: Exit::Interrupted, .. }) => {}
            Ok(Some(error)) | Err(error) => report.error(&error),
        }
    };
    let (options, warn) = (transport.options(), |text: &str| report.warn(text));
    if transport.captures() {
        // A capture holds one sender.
        return senders::serve_in_turn(listener, &options, warn, Listener::accept, serve_one);
    }
    senders::serve(listener, &options, warn, Listener::accept_and_go_on, serve_one)
}

/// One transfer. What it has claimed must stay claimed until `peer` is dropped: until then what was asked for may still come.
pub(super) fn serve<'s>(
    peer: &Peer<'_>,
    store: &'s Store,
    sync: bool,
    report: &Report,
    claim: &mut Option<Claim<'s>>,
) -> Result<Totals, Error> {
    let result = Transfer::begin(peer, store, sync, report, claim).and_then(Transfer::run);
    match &result {
        Ok(_) => peer.receiver.close(),
        // The sender has been told, in the report.
        Err(Failed { error, told: true }) => {
            peer.receiver.close();
            report.note(error);
        }
        Err(Failed { error, told: false }) => peer.refuse(error),
    }
    result.map_err(|failed| failed.error)
}

/// An error, and whether the sender knows.
struct Failed {
    error: Error,
    told: bool,
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self { error, told: false }
    }
}

struct Transfer<'a, 's> {
    peer: &'a Peer<'a>,
    store: &'s Store,
    sync: bool,
    report: &'a Report,
    chunk_bytes: u64,
    items: Vec<Item>,
    claim: &'a Claim<'s>,
    work: Vec<Work>,
    hasher: HashThread,
    values: Values,
    /// The file that was opened last, by work.
    open: Option<(usize, Arc<OpenFile>)>,
    problems: Vec<Problem>,
    totals: Totals,
    progress: RefCell<Progress>,
}

/// A message under way.
struct Posted {
    receiving: Receiving,
    what: Awaited,
}

/// What will be in it.
enum Awaited {
    /// A chunk of a file; the index is that of the work.
    Chunk { work: usize, chunk: u32, file: Arc<OpenFile> },
    /// The digests of these files.
    Digests(Range<usize>),
}

impl<'a, 's> Transfer<'a, 's> {
    /// Hears what is offered, says what is there, and agrees on what will come.
    fn begin(
        peer: &'a Peer<'a>,
        store: &'s Store,
        sync: bool,
        report: &'a Report,
        claim: &'a mut Option<Claim<'s>>,
    ) -> Result<Self, Failed> {
        let (ToReceiver::Offer(offer), _) = peer.hear(Some(peer.first_deadline()))? else {
            return Err(unsafe_peer("it offers nothing").into());
        };
        offer.check()?;
        peer.tell(&ToSender::Accept, || Ok(()))?;
        let chunk_bytes = offer.chunk_bytes;
        let items = manifest(peer)?;
        peer.listen()?;
        let (who, mut is_told) = (report.who(peer.receiver.peer_addr()), false);
        let look = |path: &[u8], holder| {
            if !std::mem::replace(&mut is_told, true) {
                report.waits(who, path, holder);
            }
            peer.wait_on()
        };
        let claim = &*claim.insert(store.claim(who, &items, look)?);
        let mut transfer = Self {
            peer,
            store,
            sync,
            report,
            chunk_bytes,
            items,
            claim,
            work: Vec::new(),
            hasher: HashThread::start(chunk_bytes)?,
            values: Values::new(chunk_bytes),
            open: None,
            problems: Vec::new(),
            totals: Totals::default(),
            progress: RefCell::new(Progress::new("verifying", report, who.address)),
        };
        transfer.agree()?;
        Ok(transfer)
    }

    fn agree(&mut self) -> Result<(), Error> {
        let mut present = Vec::new();
        for item in &self.items {
            let held = if item.is_file() { self.present(item)? } else { None };
            present.push(held);
            self.peer.wait_on()?;
        }
        self.check_space(&present)?;
        let mut holdings = Vec::new();
        for (entry, held) in (0..).zip(&present) {
            match held {
                None => {}
                Some(Held::Whole(hash)) => holdings.push(Holding { entry, held: Held::Whole(*hash) }),
                Some(Held::Chunks(chunks)) => holdings.extend(
                    chunks.chunks(CHUNKS_AN_ITEM).map(|part| Holding { entry, held: Held::Chunks(part.to_vec()) }),
                ),
            }
        }
        for page in protocol::pages(holdings)? {
            self.peer.tell(&ToSender::Holdings(page), || self.peer.wait_on())?;
        }
        self.hear_decisions(&mut present)?;
        for (entry, (item, held)) in self.items.iter().zip(present).enumerate() {
            if !item.is_file() {
                continue;
            }
            self.totals.files += 1;
            self.totals.bytes += item.bytes();
            match held {
                Some(Held::Whole(hash)) => {
                    self.totals.bytes_resumed += item.bytes();
                    if self.sync {
                        self.store.sync(&item.path)?;
                    }
                    let (path, bytes) = (item.path.as_bytes(), item.bytes());
                    self.report.file(Status::AlreadyThere, path, bytes, &hash);
                }
                held => {
                    let held = if let Some(Held::Chunks(held)) = held { held } else { Vec::new() };
                    let work = Work { entry, bytes: item.bytes(), held };
                    let lengths = work.held.iter().map(|(chunk, _)| work.range(*chunk, self.chunk_bytes).1 as u64);
                    self.totals.bytes_resumed += lengths.sum::<u64>();
                    self.work.push(work);
                }
            }
        }
        Ok(())
    }

    /// What of a file is here already, verified against what was written down about it.
    fn present(&self, item: &Item) -> Result<Option<Held>, Error> {
        if !schedule::fits(item.bytes(), self.chunk_bytes) {
            return Err(unsafe_peer(format!("{} has too many chunks; use larger ones (--chunk)", item.path.display())));
        }
        match self.store.existing(&item.path)? {
            Existing::File(file, bytes) if bytes == item.bytes() => {
                let hash =
                    super::hash_on_disk(&file, &item.path.display(), bytes, self.chunk_bytes, &|| self.peer.wait_on())?;
                return Ok(Some(Held::Whole(hash)));
            }
            Existing::Folder => return Err(is_folder(&item.path)),
            Existing::File(..) | Existing::Other if !self.store.overwrites() => return Err(exists(&item.path)),
            Existing::File(..) | Existing::Other | Existing::Nothing => {}
        }
        let Some((file, chunks)) = self.store.resume(item, self.chunk_bytes) else { return Ok(None) };
        let work = Work { entry: 0, bytes: item.bytes(), held: Vec::new() };
        let mut held = Vec::new();
        for (chunk, value) in chunks {
            let range = work.range(chunk, self.chunk_bytes);
            let of = (item.bytes(), self.chunk_bytes);
            if super::value_on_disk(&file, &item.path.display(), range, of, &|| self.peer.wait_on())? == value {
                held.push((chunk, value));
            }
        }
        Ok((!held.is_empty()).then_some(Held::Chunks(held)))
    }

    fn check_space(&self, present: &[Option<Held>]) -> Result<(), Error> {
        let missing = self.items.iter().zip(present).map(|(item, held)| match held {
            Some(Held::Whole(_)) => 0,
            // What an earlier attempt has reserved is used again.
            Some(Held::Chunks(_)) | None => item.bytes().saturating_sub(self.store.reserved_bytes(item)),
        });
        let missing = missing.sum::<u64>();
        let free = self.claim.set_aside(missing)?;
        if missing > free {
            return Err(Error::failed(format!(
                "the receiver's disk is too full: {} are missing, {} are free; free some space there",
                BinaryBytes(missing),
                BinaryBytes(free)
            )));
        }
        Ok(())
    }

    fn hear_decisions(&self, present: &mut [Option<Held>]) -> Result<(), Error> {
        loop {
            let (ToReceiver::Plan(page), _) = self.peer.hear(None)? else {
                return Err(unsafe_peer("it does not say what it will send"));
            };
            if page.items.is_empty() && !page.last {
                return Err(unsafe_peer("it sent a page of nothing"));
            }
            for decision in page.items {
                let at = decision.entry as usize;
                match present.get_mut(at) {
                    Some(held @ Some(Held::Whole(_))) => {
                        if !self.store.overwrites() {
                            return Err(exists(&self.items[at].path));
                        }
                        *held = None;
                    }
                    Some(Some(Held::Chunks(chunks))) => {
                        let rejected: std::collections::BTreeSet<u32> = decision.chunks.into_iter().collect();
                        chunks.retain(|(chunk, _)| !rejected.contains(chunk));
                    }
                    Some(None) | None => return Err(unsafe_peer("it decides about files that are not here")),
                }
            }
            if page.last {
                return Ok(());
            }
        }
    }

    fn run(mut self) -> Result<Totals, Failed> {
        // Before content comes: it would be in vain where it cannot be written.
        let mut made = self.store.folders();
        let mut folders: Vec<usize> = (0..self.items.len()).filter(|at| !self.items[*at].is_file()).collect();
        // One that another is in comes before it.
        folders.sort_by_key(|at| self.items[*at].path.as_bytes());
        folders.iter().try_for_each(|at| made.make(&self.items[*at]))?;
        let missing = self.totals.bytes - self.totals.bytes_resumed;
        self.progress.get_mut().begin("receiving", missing);
        self.content()?;
        // What lies in a folder changes its time, so folders come last, the innermost first.
        made.finish(folders.iter().rev().map(|at| &self.items[*at]))?;
        let failed = self.problems.first().map(|first| {
            let name = self.items[first.entry as usize].path.display();
            let count = self.problems.len();
            Error::not_verified(format!(
                "{count} of {} files did not verify, first {name}: {}; have them sent again",
                self.totals.files, first.text
            ))
        });
        let mut pages = protocol::pages(std::mem::take(&mut self.problems))?.into_iter();
        match pages.try_for_each(|page| self.peer.tell(&ToSender::Report(page), || Ok(()))) {
            // It may have heard all, and its last acknowledgement be lost. What lies here does not depend on that.
            Err(Error { exit: Exit::PeerGone, .. }) => {
                self.report.warn("the sender has stopped answering: it may not know what was verified here");
            }
            told => told?,
        }
        failed.map_or(Ok(self.totals), |error| Err(Failed { error, told: true }))
    }

    /// Receives chunks and digests in the agreed order.
    fn content(&mut self) -> Result<(), Error> {
        let mut schedule = Schedule::new(self.chunk_bytes);
        let mut posted: VecDeque<Posted> = VecDeque::new();
        // Each chunk keeps its file open.
        let (most, mut bytes) = (super::most_messages(senders::AT_ONCE), 0);
        loop {
            while posted.len() < most
                && bytes < MAX_BYTES
                && let Some(what) = schedule.next(&self.work)
            {
                let (message, what) = match what {
                    schedule::Item::Chunk { work, chunk } => {
                        let (message, file) = self.map(work, chunk)?;
                        bytes += message.capacity() as u64;
                        self.progress.get_mut().queued(message.capacity() as u64);
                        (message, Awaited::Chunk { work, chunk, file })
                    }
                    schedule::Item::Digests(range) => (Message::with_capacity(CONTROL_BYTES), Awaited::Digests(range)),
                };
                posted.push_back(Posted { receiving: self.peer.post(message)?, what });
            }
            let Some(Posted { receiving, what }) = posted.pop_front() else { return Ok(()) };
            let (peer, progress) = (self.peer, &self.progress);
            let look = || {
                progress.borrow_mut().look(peer.receiver.counters().bytes_received);
                Ok(())
            };
            let message = transport::wait(receiving, look, |error| self.blamed(peer.error(error)))?;
            if message.is_empty() {
                return Err(peer.gave_up(posted.pop_front().map(|next| next.receiving)));
            }
            match what {
                Awaited::Chunk { work, chunk, file } => {
                    let (offset, len) = self.work[work].range(chunk, self.chunk_bytes);
                    if message.len() != len {
                        return Err(unsafe_peer("it sent less of a file than it offered"));
                    }
                    bytes -= len as u64;
                    self.progress.get_mut().completed(len as u64);
                    self.hasher.submit(Job { work, chunk, offset, len, bytes: self.work[work].bytes, file })?;
                }
                Awaited::Digests(range) => {
                    let ToReceiver::Digests(digests) = protocol::decode(&message)? else {
                        return Err(unsafe_peer("it sent something else than digests"));
                    };
                    self.finish_batch(range, &digests)?;
                }
            }
            while let Some(hashed) = self.hasher.poll()? {
                self.hashed(&hashed)?;
            }
        }
    }

    /// What is to be said instead of `error` if somebody has cut off the pages that content comes into.
    fn blamed(&self, error: Error) -> Error {
        if !mapped::is_fault(&error) {
            return error;
        }
        let items = self.work.iter().map(|work| &self.items[work.entry]);
        items.filter_map(|item| self.store.check_length(item).err()).next().unwrap_or(error)
    }

    /// Room for a chunk, in the pages of its file.
    fn map(&mut self, at: usize, chunk: u32) -> Result<(Message, Arc<OpenFile>), Error> {
        let work = &self.work[at];
        let item = &self.items[work.entry];
        let open = match self.open.take() {
            Some((opened, open)) if opened == at => {
                // To reserve space would make it longer again, and what was cut off would be zeros.
                self.store.check_length(item)?;
                open
            }
            _ => {
                let file = self.store.begin(item, self.chunk_bytes, &work.held)?;
                Arc::new(OpenFile { file, name: store::partial_name(item) })
            }
        };
        let (offset, len) = work.range(chunk, self.chunk_bytes);
        self.store.reserve(&open.file, item, offset, len)?;
        self.claim.has_taken(len as u64);
        let message = mapped::to_receive(&open.file, offset, len)
            .map_err(|error| super::unmapped(item.path.display(), &error))?;
        self.open = Some((at, Arc::clone(&open)));
        Ok((message, open))
    }

    fn hashed(&mut self, hashed: &Hashed) -> Result<(), Error> {
        let work = &self.work[hashed.work];
        self.values.set(hashed.work, work, hashed.chunk, hashed.value);
        if work.chunks(self.chunk_bytes) > 1 {
            self.store.note(&self.items[work.entry], hashed.chunk, &hashed.value)?;
        }
        Ok(())
    }

    /// Verifies the files of a batch and puts them into their places.
    fn finish_batch(&mut self, range: Range<usize>, digests: &[Value]) -> Result<(), Error> {
        if digests.len() != range.len() {
            return Err(unsafe_peer("it sent another number of digests than of files"));
        }
        for (at, digest) in range.zip(digests) {
            while !self.values.is_complete(at, &self.work[at]) {
                let hashed = self.hasher.wait()?;
                self.hashed(&hashed)?;
            }
            let work = &self.work[at];
            let item = &self.items[work.entry];
            if self.values.take_hash(at, work).as_ref() != Some(digest) {
                self.store.forget(item);
                let text = "BLAKE3 differs between the two ends".to_owned();
                self.problems.push(Problem { entry: work.entry as u32, text });
                continue;
            }
            if item.bytes() == 0 {
                self.store.begin(item, self.chunk_bytes, &[])?;
            }
            self.store.place(item, self.sync)?;
            let (path, bytes) = (item.path.as_bytes(), item.bytes());
            self.report.file(Status::Received, path, bytes, digest);
        }
        Ok(())
    }
}

fn manifest(peer: &Peer<'_>) -> Result<Vec<Item>, Error> {
    let mut reader = ManifestReader::default();
    loop {
        let (ToReceiver::Manifest(page), bytes) = peer.hear(None)? else {
            return Err(unsafe_peer("it does not list its files"));
        };
        let last = page.last;
        reader.add(page, bytes)?;
        if last {
            return Ok(reader.finish());
        }
    }
}
