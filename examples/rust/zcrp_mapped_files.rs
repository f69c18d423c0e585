//! From file to file, straight from and into mapped pages: no buffer of the program ever holds the content.
//!
//! cargo run --release -p pinnace --example zcrp_mapped_files
#![allow(clippy::print_stdout)]

use pinnace::Message;
use pinnace::zcrp::{Listener, Options, Sender};
use std::error::Error;
use std::fs::File;
use std::io::Write;
use std::thread;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let (source, target) = (folder.path().join("source.bin"), folder.path().join("target.bin"));
    let content: Vec<u8> = (0..8 << 20).map(|i: u32| (i ^ i >> 8) as u8).collect();
    File::create(&source)?.write_all(&content)?;

    let listener = Listener::bind("127.0.0.1:0", &Options::default())?;
    let address = listener.local_addr()?;
    let into = target.clone();
    let receiving = thread::spawn(move || -> Result<(), Box<dyn Error + Send + Sync>> {
        let receiver = listener.accept_receiver()?;
        // First a message that says how long the file is, so that we can make room for it.
        let size = receiver.post(Message::with_capacity(8))?.wait()?;
        let size = u64::from_be_bytes(size[..].try_into()?);
        let file = File::options().read(true).write(true).create(true).truncate(true).open(into)?;
        file.set_len(size)?;
        // The second message's memory is the file itself: the kernel puts the payload into the page cache.
        // SAFETY: nobody else uses the file before all of it is there.
        let message = unsafe { Message::map_file_mut(&file, 0, usize::try_from(size)?)? };
        let message = receiver.post(message)?.wait()?;
        message.flush()?;
        let counters = receiver.counters();
        println!("{} units in place, {} copied", counters.units_in_place, counters.units_copied);
        receiver.close();
        Ok(())
    });

    let sender = Sender::connect(address, &Options::default())?;
    let file = File::open(&source)?;
    let size = file.metadata()?.len();
    // Both are queued at once. The second one waits until the receiver has named its memory for it.
    let sizes = sender.send(Message::from_vec(size.to_be_bytes().to_vec()))?;
    // SAFETY: nobody writes to the file.
    let pages = unsafe { Message::map_file(&file, 0, usize::try_from(size)?)? };
    let bytes = sender.send(pages)?;
    sizes.wait()?;
    bytes.wait()?;
    receiving.join().expect("the receiving thread does not panic").map_err(|error| error.to_string())?;
    println!("{size} bytes from {} to {}", source.display(), target.display());
    assert!(std::fs::read(target)? == content, "the files are the same");
    Ok(())
}
