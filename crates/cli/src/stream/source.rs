//! Where frames come from: a camera-like generator, files, or standard input.
//!
//! Always true: frames are made on a thread of their own, at most [`AHEAD`] before they are due, into buffers that come back
//! ([`Feed::give_back`]); each begins with room for its header.

use super::header;
use super::scene::Scene;
use super::y4m::{self, Pictures};
use crate::exit::Error;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TryRecvError, channel, sync_channel};
use std::time::Duration;

/// Frames made ahead.
const AHEAD: usize = 2;

/// The source as the command line has it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Choice {
    /// Pictures, of a size in pixels or as many as fit `--size`.
    Camera(Option<(u32, u32)>),
    /// Standard input, or a file, cut into frames; or a folder, a frame a file.
    Files(PathBuf),
}

/// The same of any word: paths need not be text.
pub(super) fn of_word(word: OsString) -> Result<Choice, String> {
    match word.to_str() {
        Some(text) => choice(text),
        None => Ok(Choice::Files(word.into())),
    }
}

/// Reads `camera`, `camera:640x360`, a path, or `-`.
pub(super) fn choice(text: &str) -> Result<Choice, String> {
    if text == "camera" {
        return Ok(Choice::Camera(None));
    }
    let Some(size) = text.strip_prefix("camera:") else { return Ok(Choice::Files(text.into())) };
    let wrong = || format!("`{size}` is no size of a picture; write it as camera:1280x720");
    let (width, height) = size.split_once('x').ok_or_else(wrong)?;
    let (width, height) = (width.parse().map_err(|_| wrong())?, height.parse().map_err(|_| wrong())?);
    let pixels = u64::from(width) * u64::from(height);
    if pixels == 0 {
        return Err(wrong());
    }
    header::check_size(pixels.saturating_mul(3)).map_err(|why| format!("a picture of {size}: {why}"))?;
    Ok(Choice::Camera(Some((width, height))))
}

/// Makes frames, one after the other.
trait Source: Send {
    /// Appends a frame; false if there are no more.
    fn fill(&mut self, frame: &mut Vec<u8>) -> io::Result<bool>;
}

struct Camera {
    scene: Scene,
    bytes: usize,
    next: u64,
}

impl Camera {
    /// The largest picture of about 16 by 9 in so many bytes; what is left is zeros.
    fn within(bytes: u64) -> Self {
        let pixels = (bytes / 3) as f64;
        let width = ((pixels * 16.0 / 9.0).sqrt() as usize).max(1);
        let height = ((pixels as usize) / width).max(1);
        Self { scene: Scene::new(width, height), bytes: (bytes as usize).max(width * height * 3), next: 0 }
    }

    fn new((width, height): (u32, u32)) -> Self {
        let scene = Scene::new(width as usize, height as usize);
        Self { bytes: scene.bytes(), scene, next: 0 }
    }
}

impl Source for Camera {
    fn fill(&mut self, frame: &mut Vec<u8>) -> io::Result<bool> {
        let start = frame.len();
        frame.resize(start + self.bytes, 0);
        self.scene.paint(self.next, &mut frame[start..start + self.scene.bytes()]);
        self.next += 1;
        Ok(true)
    }
}

/// Bytes that are cut into frames, the last of which may be shorter.
struct Cut<R> {
    from: R,
    size: u64,
}

impl<R: Read + Send> Source for Cut<R> {
    fn fill(&mut self, frame: &mut Vec<u8>) -> io::Result<bool> {
        Ok((&mut self.from).take(self.size).read_to_end(frame)? > 0)
    }
}

impl<R: BufRead + Send> Source for Pictures<R> {
    fn fill(&mut self, frame: &mut Vec<u8>) -> io::Result<bool> {
        self.read(frame)
    }
}

/// A file over and over again.
struct Again<F> {
    file: File,
    open: F,
    source: Box<dyn Source>,
}

impl<F: Fn(File) -> io::Result<Box<dyn Source>> + Send> Source for Again<F> {
    fn fill(&mut self, frame: &mut Vec<u8>) -> io::Result<bool> {
        if self.source.fill(frame)? {
            return Ok(true);
        }
        self.file.seek(SeekFrom::Start(0))?;
        self.source = (self.open)(self.file.try_clone()?)?;
        self.source.fill(frame)
    }
}

/// The files of a folder, in the order of their names.
struct Folder {
    files: VecDeque<PathBuf>,
    repeat: bool,
}

impl Folder {
    fn open(path: &Path, repeat: bool) -> io::Result<Self> {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(path)? {
            let path = entry?.path();
            if path.is_file() {
                // So that it shows before anything is sent.
                header::check_size(path.metadata()?.len()).map_err(|why| too_large(&path, &why))?;
                files.push(path);
            }
        }
        if files.is_empty() {
            return Err(io::Error::other("there are no files in it"));
        }
        files.sort();
        Ok(Self { files: files.into(), repeat })
    }
}

fn too_large(path: &Path, why: &str) -> io::Error {
    io::Error::other(format!("{}: {why}", path.display()))
}

impl Source for Folder {
    fn fill(&mut self, frame: &mut Vec<u8>) -> io::Result<bool> {
        let Some(path) = self.files.pop_front() else { return Ok(false) };
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        let mut file = File::open(&path).map_err(named)?.take(header::MOST + 1);
        // It may have grown.
        let bytes = file.read_to_end(frame).map_err(named)? as u64;
        header::check_size(bytes).map_err(|why| too_large(&path, &why))?;
        if self.repeat {
            self.files.push_back(path);
        }
        Ok(true)
    }
}

/// Pictures if it begins like a film and no other size was asked for; otherwise cut.
fn cut(mut from: impl BufRead + Send + 'static, size: Option<u64>, default: u64) -> io::Result<Box<dyn Source>> {
    if size.is_none() {
        // What a pipe has not delivered yet does not count: films come with a whole line at once.
        let film = from.fill_buf()?.starts_with(y4m::MAGIC);
        if film {
            return Ok(Box::new(Pictures::new(from)?));
        }
    }
    Ok(Box::new(Cut { from, size: size.unwrap_or(default) }))
}

/// What a source is opened with.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) choice: Choice,
    pub(super) size: Option<u64>,
    /// Bytes of a frame if nothing else says it.
    pub(super) default_size: u64,
    pub(super) repeat: bool,
}

impl Settings {
    fn open(&self) -> io::Result<Box<dyn Source>> {
        let Self { size, default_size, repeat, .. } = *self;
        let path = match &self.choice {
            Choice::Camera(Some(pixels)) => return Ok(Box::new(Camera::new(*pixels))),
            Choice::Camera(None) => return Ok(Box::new(Camera::within(size.unwrap_or(default_size)))),
            Choice::Files(path) => path,
        };
        if path.as_os_str() == "-" {
            return cut(BufReader::new(io::stdin()), size, default_size);
        }
        if path.is_dir() {
            return Ok(Box::new(Folder::open(path, repeat)?));
        }
        let file = File::open(path)?;
        let open = move |file: File| cut(BufReader::new(file), size, default_size);
        let source = open(file.try_clone()?)?;
        Ok(if repeat { Box::new(Again { file, open, source }) } else { source })
    }

    /// What it is called in messages.
    fn name(&self) -> String {
        match &self.choice {
            Choice::Camera(_) => "the camera".to_owned(),
            Choice::Files(path) if path.as_os_str() == "-" => "standard input".to_owned(),
            Choice::Files(path) => path.display().to_string(),
        }
    }

    /// Whether it is standard input, a pipe or a device: what is read of it is gone, and to open it may take until somebody
    /// writes to it.
    fn comes_once(&self) -> bool {
        let Choice::Files(path) = &self.choice else { return false };
        let is_kept = |found: Metadata| found.is_file() || found.is_dir();
        path.as_os_str() == "-" || !path.metadata().map_or(true, is_kept)
    }

    /// Whether they make sense together.
    pub(super) fn check(&self) -> Result<(), Error> {
        if let Some(size) = self.size {
            header::check_size(size).map_err(|why| Error::usage(format!("--size: {why}")))?;
        }
        match (&self.choice, self.size) {
            (_, Some(0)) => Err(Error::usage("--size: a frame has at least one byte")),
            (Choice::Camera(Some(_)), Some(_)) => {
                Err(Error::usage("--size: the camera's pictures have a size already, three bytes a pixel"))
            }
            (Choice::Files(path), Some(_)) if path.is_dir() => {
                Err(Error::usage("--size: the files of a folder are frames as they are"))
            }
            (Choice::Files(_), _) if self.repeat && self.comes_once() => {
                Err(Error::usage(format!("--repeat: {} comes but once", self.name())))
            }
            _ => Ok(()),
        }
    }
}

/// Frames, made ahead.
#[derive(Debug)]
pub(super) struct Feed {
    frames: Receiver<io::Result<Vec<u8>>>,
    spare: Sender<Vec<u8>>,
    name: String,
}

/// A look at the feed.
#[derive(Debug)]
pub(super) enum Next {
    /// A frame, with room for its header.
    Frame(Vec<u8>),
    /// None is ready yet.
    NotYet,
    /// There are no more.
    End,
}

impl Feed {
    /// Opens the source and starts to make frames.
    pub(super) fn start(settings: &Settings) -> Result<Self, Error> {
        let name = settings.name();
        let ((done, frames), (spare, spares)) = (sync_channel(AHEAD), channel());
        if !settings.comes_once() {
            // So that a mistake shows before anything is sent. What comes once may take its time.
            settings.open().map_err(|error| cannot_read(&name, &error))?;
        }
        let settings = settings.clone();
        std::thread::Builder::new()
            .name("source".into())
            .spawn(move || match settings.open() {
                Ok(source) => make(source, &done, &spares),
                Err(error) => drop(done.send(Err(error))),
            })
            .map_err(|error| Error::io("cannot start a thread", &error))?;
        Ok(Self { frames, spare, name })
    }

    /// The next frame, if it comes in time.
    pub(super) fn next(&self, timeout: Duration) -> Result<Next, Error> {
        let next = match self.frames.try_recv() {
            Err(TryRecvError::Empty) => self.frames.recv_timeout(timeout),
            Err(TryRecvError::Disconnected) => Err(RecvTimeoutError::Disconnected),
            Ok(frame) => Ok(frame),
        };
        match next {
            Ok(frame) => frame.map(Next::Frame).map_err(|error| cannot_read(&self.name, &error)),
            Err(RecvTimeoutError::Timeout) => Ok(Next::NotYet),
            Err(RecvTimeoutError::Disconnected) => Ok(Next::End),
        }
    }

    /// A buffer that is not needed any more.
    pub(super) fn give_back(&self, buffer: Vec<u8>) {
        // Nobody makes frames any more: then it goes.
        let _ = self.spare.send(buffer);
    }
}

fn cannot_read(name: &str, error: &io::Error) -> Error {
    Error::io(format_args!("cannot read frames from {name}"), error)
}

fn make(mut source: Box<dyn Source>, done: &SyncSender<io::Result<Vec<u8>>>, spares: &Receiver<Vec<u8>>) {
    loop {
        let mut frame = spares.try_recv().unwrap_or_default();
        frame.clear();
        frame.resize(header::BYTES, 0);
        let made = match source.fill(&mut frame) {
            Ok(true) => Ok(frame),
            Ok(false) => return,
            Err(error) => Err(error),
        };
        let failed = made.is_err();
        if done.send(made).is_err() || failed {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(settings: &Settings, most: usize) -> Vec<Vec<u8>> {
        let feed = Feed::start(settings).unwrap();
        let mut frames = Vec::new();
        while let Next::Frame(frame) = feed.next(Duration::from_secs(20)).unwrap() {
            frames.push(frame[header::BYTES..].to_vec());
            feed.give_back(frame);
            if frames.len() == most {
                break;
            }
        }
        frames
    }

    fn settings(source: &str, size: Option<u64>, repeat: bool) -> Settings {
        Settings { choice: choice(source).unwrap(), size, default_size: 1000, repeat }
    }

    #[test]
    fn choices_are_read() {
        assert_eq!(choice("camera"), Ok(Choice::Camera(None)));
        assert_eq!(choice("camera:4x3"), Ok(Choice::Camera(Some((4, 3)))));
        assert_eq!(choice("./camera"), Ok(Choice::Files("./camera".into())));
        for text in ["camera:", "camera:0x3", "camera:3", "camera:99999x99999", "camera:-1x3"] {
            assert!(choice(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_camera_fills_its_frames() {
        for size in [1, 2, 3, 100, 10_001] {
            let frames = all(&settings("camera", Some(size), false), 2);
            assert_eq!(frames.iter().map(Vec::len).collect::<Vec<_>>(), [size.max(3) as usize; 2]);
        }
        let frames = all(&settings("camera:16x9", None, false), 3);
        assert!(frames.iter().all(|frame| frame.len() == 16 * 9 * 3) && frames[0] != frames[2]);
    }

    #[test]
    fn files_are_cut_and_repeated() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, b"abcdefgh").unwrap();
        let path = path.to_str().unwrap();
        assert_eq!(all(&settings(path, Some(3), false), 99), [&b"abc"[..], b"def", b"gh"]);
        assert_eq!(all(&settings(path, Some(5), true), 4), [&b"abcde"[..], b"fgh", b"abcde", b"fgh"]);
        assert_eq!(all(&settings(path, None, false), 9), [b"abcdefgh"]);
        assert_eq!(all(&settings(folder.path().to_str().unwrap(), None, true), 2), [b"abcdefgh", b"abcdefgh"]);
    }

    #[test]
    fn films_are_cut_into_pictures_unless_told_otherwise() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("film");
        std::fs::write(&path, b"YUV4MPEG2 W2 H1 Cmono\nFRAME\nabFRAME\ncd").unwrap();
        let path = path.to_str().unwrap();
        assert_eq!(all(&settings(path, None, true), 3), [b"ab", b"cd", b"ab"]);
        assert_eq!(all(&settings(path, Some(10), false), 1), [b"YUV4MPEG2 "]);
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let empty = folder.path().to_str().unwrap();
        assert!(Feed::start(&settings(empty, None, false)).unwrap_err().message.contains("no files"));
        assert!(Feed::start(&settings("/no/such/file", None, false)).unwrap_err().message.contains("/no/such/file"));
        for (source, size, repeat) in [("-", Some(0), false), ("-", None, true), ("camera:2x2", Some(9), false)] {
            assert!(settings(source, size, repeat).check().is_err(), "{source}");
        }
    }
}
