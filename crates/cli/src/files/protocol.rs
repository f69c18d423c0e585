//! What the two ends of a file transfer say to each other: version 1 (docs/src/file-transfer.md).
//!
//! Always true: nothing here allocates by what a peer claims, only by what has arrived; a path that exists as [`SafePath`]
//! stays below the folder it is joined to, as far as names go (symbolic links are [`super::store`]'s business).

use crate::exit::{Error, Exit};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fmt;

/// First bytes of every offer.
pub(super) const MAGIC: [u8; 8] = *b"pinnacef";
/// The version of this module.
pub(super) const VERSION: u16 = 1;

/// The buffer that is posted for every message but file content, in bytes.
pub(super) const CONTROL_BYTES: usize = 1 << 20;
/// Pages are closed when they have grown to this.
const PAGE_BYTES: usize = 256 << 10;
/// Chunks that one item of a page names at most, so that an item is smaller than a page.
pub(super) const CHUNKS_AN_ITEM: usize = 4096;

/// Files and folders of one transfer.
pub(super) const MAX_ENTRIES: usize = 1_000_000;
/// Bytes of the encoded manifest.
const MAX_MANIFEST_BYTES: usize = 64 << 20;
/// Bytes of a path.
const MAX_PATH_BYTES: usize = 4096;
/// Bytes of one component of a path.
const MAX_NAME_BYTES: usize = 255;
/// Bytes of what a peer wants the user to read.
const MAX_TEXT_BYTES: usize = 1024;
/// The largest file, in bytes: what an offset of the file system can say.
const MAX_FILE_BYTES: u64 = i64::MAX as u64;

/// The folder, in the receiver's directory, for what has not arrived whole.
pub(super) const PARTIAL_FOLDER: &str = ".pinnace-partial";

/// From the sender of files to the receiver.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ToReceiver {
    /// The first message.
    Offer(Offer),
    /// The files.
    Manifest(Page<Entry>),
    /// Answers to what the receiver says it holds; what is not named is agreed to.
    Plan(Page<Decision>),
    /// BLAKE3 of each file of a batch, in order.
    Digests(Vec<[u8; 32]>),
}

/// From the receiver of files to the sender.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ToSender {
    /// Go on.
    Accept,
    /// The transfer ends here.
    Refuse(Refusal),
    /// What the receiver holds already.
    Holdings(Page<Holding>),
    /// What did not verify; empty if everything did.
    Report(Page<Problem>),
}

/// A part of a list that may be longer than a message.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Page<T> {
    pub(super) items: Vec<T>,
    /// No other page follows.
    pub(super) last: bool,
}

/// Who is there.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Offer {
    pub(super) magic: [u8; 8],
    pub(super) version: u16,
    /// Every chunk of a file but the last has so many bytes: a power of two.
    pub(super) chunk_bytes: u64,
}

impl Offer {
    /// The smallest and the largest chunk, in bytes.
    pub(super) const CHUNKS: (u64, u64) = (64 << 10, 1 << 30);

    pub(super) fn new(chunk_bytes: u64) -> Self {
        Self { magic: MAGIC, version: VERSION, chunk_bytes }
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        if self.magic != MAGIC {
            return Err(Error::failed("the peer speaks another protocol than file transfer; run `pinnace send` there"));
        }
        if self.version != VERSION {
            let version = self.version;
            return Err(Error::failed(format!(
                "the peer speaks version {version} of file transfer, this program version {VERSION}: use the same \
                 release of pinnace at both ends"
            )));
        }
        let (least, most) = Self::CHUNKS;
        if !self.chunk_bytes.is_power_of_two() || !(least..=most).contains(&self.chunk_bytes) {
            return Err(unsafe_peer("it asks for an impossible chunk size"));
        }
        Ok(())
    }
}

/// A file or a folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry {
    /// Components with `/` between them; bytes, because names need not be UTF-8.
    pub(super) path: Vec<u8>,
    pub(super) kind: Kind,
    /// Permissions; only the lower nine bits count.
    pub(super) mode: u32,
    /// Modification time: seconds and nanoseconds.
    pub(super) modified: (i64, u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Kind {
    Folder,
    File { bytes: u64 },
}

/// Something the receiver holds already.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Holding {
    /// Index in the manifest.
    pub(super) entry: u32,
    pub(super) held: Held,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Held {
    /// A file of that name and size with this BLAKE3.
    Whole([u8; 32]),
    /// These chunks, each with the value of its subtree of BLAKE3.
    Chunks(Vec<(u32, [u8; 32])>),
}

/// What the sender does not agree to: its content is different.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Decision {
    /// Index in the manifest.
    pub(super) entry: u32,
    /// The chunks; empty for a whole file.
    pub(super) chunks: Vec<u32>,
}

/// A file that did not verify, or could not be put in its place.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Problem {
    /// Index in the manifest.
    pub(super) entry: u32,
    pub(super) text: String,
}

/// Why the receiver ends the transfer.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Refusal {
    /// The sender's exit code should be that of something unsafe or different, not of a failure.
    pub(super) not_verified: bool,
    pub(super) text: String,
}

impl Refusal {
    pub(super) fn of(error: &Error) -> Self {
        Self { not_verified: error.exit == Exit::NotVerified, text: error.message.clone() }
    }
}

/// A message of a peer that no version of this program sends.
pub(super) fn unsafe_peer(what: impl fmt::Display) -> Error {
    Error::not_verified(format!("the peer is refused: {what}"))
}

/// What a peer wants the user to read, without what terminals take for commands.
pub(super) fn printable(text: &str) -> String {
    let clean = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut kept = 0;
    clean
        .take_while(|c| {
            kept += c.len_utf8();
            kept <= MAX_TEXT_BYTES
        })
        .collect()
}

pub(super) fn encode(message: &impl Serialize) -> Result<Vec<u8>, Error> {
    let bytes = postcard::to_stdvec(message).map_err(|error| Error::failed(format!("cannot encode: {error}")))?;
    if bytes.len() > CONTROL_BYTES {
        return Err(Error::failed("a control message became too large; please report it"));
    }
    Ok(bytes)
}

pub(super) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    match postcard::take_from_bytes(bytes) {
        Ok((message, [])) => Ok(message),
        Ok(_) | Err(_) => Err(unsafe_peer("it sent a message that does not parse; are both ends the same release?")),
    }
}

/// Cuts a list into pages; there is always one, and only the last one says so.
pub(super) fn pages<T: Serialize>(items: impl IntoIterator<Item = T>) -> Result<Vec<Page<T>>, Error> {
    let mut pages = Vec::new();
    let (mut page, mut bytes) = (Vec::new(), 0);
    for item in items {
        let size = encode(&item)?.len();
        if bytes + size > PAGE_BYTES && !page.is_empty() {
            pages.push(Page { items: std::mem::take(&mut page), last: false });
            bytes = 0;
        }
        bytes += size;
        page.push(item);
    }
    pages.push(Page { items: page, last: true });
    Ok(pages)
}

/// A path that stays below the folder it is joined to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct SafePath(Vec<u8>);

impl SafePath {
    /// Checks a path that a peer names.
    pub(super) fn new(path: Vec<u8>) -> Result<Self, &'static str> {
        if path.is_empty() || path.len() > MAX_PATH_BYTES {
            return Err("it is empty, or too long");
        }
        if path.contains(&0) {
            return Err("it contains a zero byte");
        }
        if path[0] == b'/' {
            return Err("it is absolute");
        }
        for name in path.split(|&byte| byte == b'/') {
            match name {
                b"" => return Err("it has an empty component"),
                b"." | b".." => return Err("it leads out of the folder"),
                // Some file systems tell no case from the other.
                name if name.eq_ignore_ascii_case(PARTIAL_FOLDER.as_bytes()) => {
                    return Err("it leads into the receiver's own state");
                }
                name if name.len() > MAX_NAME_BYTES => return Err("it has a name of more than 255 bytes"),
                _ => {}
            }
        }
        Ok(Self(path))
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The folders on the way, and the last name.
    pub(super) fn split(&self) -> (impl Iterator<Item = &[u8]>, &[u8]) {
        let (folders, name) = match self.0.iter().rposition(|&byte| byte == b'/') {
            Some(slash) => (&self.0[..slash], &self.0[slash + 1..]),
            None => (&[][..], &self.0[..]),
        };
        (folders.split(|&byte| byte == b'/').filter(|name| !name.is_empty()), name)
    }

    /// For people: one line, without control characters.
    pub(super) fn display(&self) -> String {
        printable(&String::from_utf8_lossy(&self.0))
    }
}

/// A checked entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) path: SafePath,
    pub(super) kind: Kind,
    pub(super) mode: u32,
    pub(super) modified: (i64, u32),
}

impl Item {
    /// Bytes of a file; a folder has none.
    pub(super) fn bytes(&self) -> u64 {
        match self.kind {
            Kind::Folder => 0,
            Kind::File { bytes } => bytes,
        }
    }

    pub(super) fn is_file(&self) -> bool {
        matches!(self.kind, Kind::File { .. })
    }
}

/// Gathers the pages of a manifest, within the limits.
#[derive(Debug, Default)]
pub(super) struct ManifestReader {
    items: Vec<Item>,
    paths: HashSet<SafePath>,
    encoded: usize,
    total: u64,
}

impl ManifestReader {
    /// Takes a page that was `encoded` bytes long.
    pub(super) fn add(&mut self, page: Page<Entry>, encoded: usize) -> Result<(), Error> {
        self.encoded += encoded;
        if self.encoded > MAX_MANIFEST_BYTES || self.items.len() + page.items.len() > MAX_ENTRIES {
            return Err(unsafe_peer("its list of files is too long; send them in several transfers"));
        }
        if page.items.is_empty() && !page.last {
            return Err(unsafe_peer("it sent a page of nothing"));
        }
        for entry in page.items {
            let named = printable(&String::from_utf8_lossy(&entry.path));
            let path = SafePath::new(entry.path).map_err(|why| unsafe_peer(format!("the path `{named}`: {why}")))?;
            if let Kind::File { bytes } = entry.kind {
                let total = self.total.checked_add(bytes).filter(|&total| total <= MAX_FILE_BYTES);
                self.total = total.ok_or_else(|| unsafe_peer("it offers more bytes than there can be"))?;
            }
            if entry.modified.1 >= 1_000_000_000 {
                return Err(unsafe_peer(format!("`{named}` has an impossible modification time")));
            }
            if !self.paths.insert(path.clone()) {
                return Err(unsafe_peer(format!("it offers `{named}` twice")));
            }
            self.items.push(Item { path, kind: entry.kind, mode: entry.mode & 0o777, modified: entry.modified });
        }
        Ok(())
    }

    pub(super) fn finish(self) -> Vec<Item> {
        self.items
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinnace_testing::corpus;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::path::{Component, Path};

    fn file(path: &[u8]) -> Entry {
        Entry { path: path.to_vec(), kind: Kind::File { bytes: 1 }, mode: 0o644, modified: (0, 0) }
    }

    fn read(entries: Vec<Entry>) -> Result<Vec<Item>, Error> {
        let mut reader = ManifestReader::default();
        reader.add(Page { items: entries, last: true }, 100)?;
        Ok(reader.finish())
    }

    #[test]
    fn hostile_paths_are_refused() {
        let long = [b'a'; 256];
        let deep = b"a/".repeat(2049);
        let hostile: &[&[u8]] = &[
            b"",
            b"/etc/passwd",
            b"..",
            b"../x",
            b"a/../../x",
            b"a/..",
            b".",
            b"a/./b",
            b"a//b",
            b"a/",
            b"a\0b",
            &long,
            &deep,
            b".pinnace-partial",
            b".pinnace-partial/x",
            b"a/.pinnace-partial",
            b".Pinnace-PARTIAL/x",
        ];
        for path in hostile {
            let error = read(vec![file(path)]).expect_err("refused");
            assert_eq!(error.exit, Exit::NotVerified, "{path:?}");
        }
    }

    #[test]
    fn odd_but_harmless_paths_are_taken() {
        for path in [&b"a"[..], b"...", b"..a/b..", b"a b/\xff\xfe", b"-rf", b"\n", b"~", b"C:\\x"] {
            let items = read(vec![file(path)]).expect("taken");
            assert_eq!(items[0].path.as_bytes(), path);
        }
        let path = SafePath::new(b"a/b/c".to_vec()).unwrap();
        let (folders, name) = path.split();
        assert_eq!((folders.collect::<Vec<_>>(), name), (vec![&b"a"[..], b"b"], &b"c"[..]));
        assert_eq!(SafePath::new(b"\x1b[2J".to_vec()).unwrap().display(), " [2J");
    }

    #[test]
    fn impossible_manifests_are_refused() {
        let huge = |bytes| Entry { kind: Kind::File { bytes }, ..file(&bytes.to_string().into_bytes()) };
        assert!(read(vec![huge(u64::MAX)]).is_err());
        assert!(read(vec![huge(i64::MAX as u64), huge(1)]).is_err());
        assert!(read(vec![file(b"a"), file(b"a")]).is_err());
        assert!(read(vec![Entry { modified: (0, 1_000_000_000), ..file(b"a") }]).is_err());
        let mut reader = ManifestReader::default();
        assert!(reader.add(Page { items: Vec::new(), last: false }, 1).is_err());
        assert!(reader.add(Page { items: vec![file(b"a")], last: true }, MAX_MANIFEST_BYTES).is_err());
        assert_eq!(read(vec![Entry { mode: 0o104_755, ..file(b"a") }]).unwrap()[0].mode, 0o755);
    }

    #[test]
    fn a_claimed_length_allocates_nothing() {
        // A manifest page whose list claims 2^63 entries, and has none.
        let mut bytes = vec![1];
        bytes.extend([0xff; 9]);
        bytes.push(1);
        assert!(decode::<ToReceiver>(&bytes).is_err());
        assert!(decode::<ToReceiver>(&[]).is_err());
        let mut offer = encode(&ToReceiver::Offer(Offer::new(1 << 24))).unwrap();
        assert!(decode::<ToReceiver>(&offer).is_ok());
        offer.push(0);
        assert!(decode::<ToReceiver>(&offer).is_err());
    }

    #[test]
    fn offers_are_checked() {
        assert!(Offer::new(1 << 24).check().is_ok());
        for chunk_bytes in [0, 1, 65_535, (1 << 24) + 1, 1 << 31, u64::MAX] {
            assert!(Offer::new(chunk_bytes).check().is_err(), "{chunk_bytes}");
        }
        assert!(Offer { version: 2, ..Offer::new(1 << 24) }.check().is_err());
        assert!(Offer { magic: *b"somthing", ..Offer::new(1 << 24) }.check().is_err());
    }

    #[test]
    fn pages_carry_everything_in_order() {
        let items: Vec<Vec<u8>> = (0..1000u32).map(|n| vec![n as u8; 1000]).collect();
        let pages = pages(items.clone()).unwrap();
        assert!(pages.len() > 1 && pages.iter().rev().skip(1).all(|page| !page.last) && pages.last().unwrap().last);
        assert!(pages.iter().all(|page| encode(page).is_ok_and(|bytes| bytes.len() <= CONTROL_BYTES)));
        assert_eq!(pages.into_iter().flat_map(|page| page.items).collect::<Vec<_>>(), items);
        assert_eq!(super::pages::<u8>([]).unwrap().len(), 1);
    }

    /// Bytes as a message of this kind: it is refused, or can be said again, in no more bytes, and is understood alike.
    fn said<T: Serialize + DeserializeOwned>(bytes: &[u8]) -> Option<T> {
        let message: T = decode(bytes).ok()?;
        let said = encode(&message).expect("it came in fewer bytes than there may be");
        assert!(said.len() <= bytes.len(), "{} bytes became {}", bytes.len(), said.len());
        assert!(decode::<T>(&[&said[..], &[0]].concat()).is_err(), "nothing follows a message");
        assert_eq!(encode(&decode::<T>(&said).expect("it is understood")).ok(), Some(said));
        Some(message)
    }

    /// What is taken of a peer's words keeps the limits, and what is printed of them moves no cursor.
    fn heard(bytes: &[u8]) {
        match said(bytes) {
            Some(ToReceiver::Offer(offer)) if offer.check().is_ok() => {
                let (least, most) = Offer::CHUNKS;
                assert!(offer.chunk_bytes.is_power_of_two() && (least..=most).contains(&offer.chunk_bytes));
                assert_eq!((offer.magic, offer.version), (MAGIC, VERSION));
            }
            Some(ToReceiver::Manifest(page)) => {
                assert!(page.items.len() <= bytes.len());
                let mut reader = ManifestReader::default();
                match reader.add(page, bytes.len()) {
                    Ok(()) => reader.finish().iter().for_each(check_item),
                    Err(error) => assert!(!error.message.contains(char::is_control), "{error:?}"),
                }
            }
            _ => {}
        }
        match said(bytes) {
            Some(ToSender::Refuse(Refusal { text, .. })) => check_text(&text),
            Some(ToSender::Report(page)) => page.items.iter().for_each(|problem| check_text(&problem.text)),
            Some(ToSender::Holdings(page)) => assert!(page.items.len() <= bytes.len()),
            _ => {}
        }
    }

    fn check_item(item: &Item) {
        let path = Path::new(OsStr::from_bytes(item.path.as_bytes()));
        assert!(path.components().all(|part| matches!(part, Component::Normal(_))), "{path:?}");
        let names: Vec<&[u8]> = item.path.as_bytes().split(|&byte| byte == b'/').collect();
        assert!(names.iter().all(|name| !matches!(*name, b"" | b"." | b"..") && name.len() <= MAX_NAME_BYTES));
        let (folders, last) = item.path.split();
        assert_eq!(folders.chain([last]).collect::<Vec<_>>(), names);
        assert!(item.bytes() <= MAX_FILE_BYTES && item.mode <= 0o777 && item.modified.1 < 1_000_000_000);
        check_text(&String::from_utf8_lossy(item.path.as_bytes()));
    }

    fn check_text(text: &str) {
        let shown = printable(text);
        assert!(shown.len() <= MAX_TEXT_BYTES && !shown.contains(char::is_control), "{shown:?}");
    }

    /// The first byte made one of the four kinds that there are: of the others nothing is read.
    fn heard_as_a_kind(bytes: &[u8]) {
        let Some((kind, rest)) = bytes.split_first() else { return };
        heard(&[&[kind % 4], rest].concat());
    }

    #[test]
    fn whatever_a_peer_says_is_refused_or_understood_alike() {
        corpus::random("what a peer says", heard_as_a_kind, 50_000, 100);
        let page = |items| Page { items, last: false };
        let folder = Entry { kind: Kind::Folder, modified: (-7, 999_999_999), ..file(b"a b") };
        let to_receiver = [
            ToReceiver::Offer(Offer::new(1 << 24)),
            ToReceiver::Manifest(page(vec![file(b"a/b/c"), file(b"\xff\x1b[2J"), folder])),
            // One bit more makes them absolute, or lead out of the folder.
            ToReceiver::Manifest(page(vec![file(b"oa/.n/.n")])),
            ToReceiver::Plan(Page { items: vec![Decision { entry: 300, chunks: vec![0, 1, 70_000] }], last: true }),
            ToReceiver::Digests(vec![[7; 32], [9; 32]]),
        ];
        let held = [Held::Whole([7; 32]), Held::Chunks(vec![(3, [1; 32]), (400, [2; 32])])];
        let held = held.into_iter().enumerate().map(|(entry, held)| Holding { entry: entry as u32, held }).collect();
        let text = || "no: a\nb".to_owned();
        let to_sender = [
            ToSender::Accept,
            ToSender::Refuse(Refusal { not_verified: true, text: text() }),
            ToSender::Holdings(Page { items: held, last: true }),
            ToSender::Report(Page { items: vec![Problem { entry: 1, text: text() }], last: true }),
        ];
        let mut inputs: Vec<Vec<u8>> = to_receiver.iter().map(|message| encode(message).unwrap()).collect();
        assert!(inputs.iter().all(|bytes| said::<ToReceiver>(bytes).is_some()));
        let answers: Vec<Vec<u8>> = to_sender.iter().map(|message| encode(message).unwrap()).collect();
        assert!(answers.iter().all(|bytes| said::<ToSender>(bytes).is_some()));
        inputs.extend(answers);
        corpus::faulty(heard, &inputs, 10_000);
    }
}
