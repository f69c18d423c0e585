//! A daemon at the socket that it is told, until its standard input ends: for the tests of the package.

use pinnace::daemon::{Daemon, DaemonOptions};
use std::io::Read;
use std::sync::Arc;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let socket = std::env::args_os().nth(1).ok_or("where?")?;
    let daemon = Arc::new(Daemon::bind(&DaemonOptions { socket: Some(socket.into()), ..DaemonOptions::default() })?);
    let serving = std::thread::spawn({
        let daemon = Arc::clone(&daemon);
        move || daemon.run()
    });
    std::io::stdin().read_to_end(&mut Vec::new())?;
    daemon.stop();
    serving.join().map_err(|_| "it has panicked")??;
    Ok(())
}
