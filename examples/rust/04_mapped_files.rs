//! From file to file: the sender's memory is a mapped file, and so is the receiver's.
//!
//! cargo run --release -p pinnace --example 04_mapped_files
#![allow(clippy::print_stdout)]

use pinnace::{Endpoint, Listener, Message, Service};
use std::error::Error;
use std::fs::File;
use std::path::Path;
use std::thread;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn receive(listener: &Listener, path: &Path) -> Outcome<()> {
    let connection = listener.accept()?;
    // First a message that says how long the file is, so that we can make room for it.
    let size = connection.recv()?.ok_or("the sender is gone")?;
    let size = u64::from_be_bytes(size[..].try_into()?);
    let file = File::options().read(true).write(true).create(true).truncate(true).open(path)?;
    file.set_len(size)?;
    // SAFETY: nobody else uses the file before all of it is there.
    let mut pages = unsafe { Message::map_file_mut(&file, 0, usize::try_from(size)?)? };
    pages.set_len(usize::try_from(size)?);
    let received = connection.recv_into(&mut pages)?.ok_or("the sender is gone")?;
    assert_eq!((received.len as u64, received.holes.len()), (size, 0));
    pages.flush()?;
    Ok(())
}

fn main() -> Outcome<()> {
    let folder = tempfile::tempdir()?;
    let (source, target) = (folder.path().join("source.bin"), folder.path().join("target.bin"));
    std::fs::write(&source, (0..8 << 20).map(|i: u32| (i ^ i >> 8) as u8).collect::<Vec<_>>())?;

    let listener = Endpoint::bind("127.0.0.1:0")?.listen(&Service::default())?;
    let address = listener.local_addr().to_string();
    let into = target.clone();
    let receiving = thread::spawn(move || receive(&listener, &into));

    let file = File::open(&source)?;
    let size = file.metadata()?.len();
    let connection = Endpoint::client().connect(&address, &format!("size={size}").parse()?)?;
    drop(connection.send(&size.to_be_bytes())?);
    // Nothing reads the file: the kernel sends its pages.
    // SAFETY: nobody writes to it.
    let pages = unsafe { Message::map_file(&file, 0, usize::try_from(size)?)? };
    connection.send(pages)?.wait()?;
    receiving.join().expect("the receiving thread does not panic")?;
    println!("{size} bytes from {} to {} by {}", source.display(), target.display(), connection.method());
    assert!(std::fs::read(target)? == std::fs::read(source)?, "the files are the same");
    Ok(())
}
