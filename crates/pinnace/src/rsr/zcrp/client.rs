//! The sending end of a way.

use super::{HANDSHAKE_TIMEOUT, INLINE_BYTES, LOOK_INTERVAL, MAGIC, SIZE_BYTES, VERSION};
use crate::lock::Lock;
use crate::rsr::Cause;
use crate::rsr::method::{Outgoing, Parcel, Pending, Sent};
use crate::zcrp::{Channel, Options, Progress, Sender, Sending};
use crate::{Error, Message, Unsent};
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

/// How long the probe waits for each address of a name.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

pub(super) fn connect(address: &str, options: &Options) -> Result<Arc<dyn Outgoing>, Cause> {
    let (control, port, most_bytes, socket) = agree(address, HANDSHAKE_TIMEOUT)?;
    let [incoming, outgoing] = super::join(&socket, &control, port)?;
    let channel = Channel::from_sockets(incoming, outgoing, options)?;
    let sender = channel.open_sender(channel.config(options))?;
    let line = Arc::new(Line { control, channel, sender: sender.clone() });
    Ok(Arc::new(Open { line, sender: Lock::new(sender), most_bytes }))
}

/// Agrees on the ports: the connection, the peer's port, the largest request, and our socket.
pub(super) fn agree(address: &str, patience: Duration) -> io::Result<(TcpStream, u16, u32, std::net::UdpSocket)> {
    let mut control = Err(io::Error::from(io::ErrorKind::AddrNotAvailable));
    for address in address.to_socket_addrs()? {
        control = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT);
        if control.is_ok() {
            break;
        }
    }
    let mut control = control?;
    control.set_read_timeout(Some(patience))?;
    control.set_write_timeout(Some(patience))?;
    let socket = super::socket_beside(&control)?;
    let mut hello = [0; 8];
    hello[..4].copy_from_slice(&MAGIC);
    hello[4] = VERSION;
    hello[6..].copy_from_slice(&socket.local_addr()?.port().to_be_bytes());
    control.write_all(&hello)?;
    let mut answer = [0; 12];
    control.read_exact(&mut answer).map_err(|error| match error.kind() {
        // What a socket with a time-out says on Unix, and elsewhere.
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            io::Error::new(io::ErrorKind::TimedOut, "what listens there does not answer")
        }
        io::ErrorKind::UnexpectedEof => no_such_method(),
        _ => error,
    })?;
    let [m0, m1, m2, m3, version, status, p0, p1, b0, b1, b2, b3] = answer;
    if [m0, m1, m2, m3] != MAGIC || version != VERSION {
        return Err(no_such_method());
    }
    if status != 0 {
        return Err(io::Error::new(io::ErrorKind::ConnectionRefused, "the endpoint has too many peers"));
    }
    control.set_nonblocking(true)?;
    Ok((control, u16::from_be_bytes([p0, p1]), u32::from_be_bytes([b0, b1, b2, b3]), socket))
}

fn no_such_method() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "what listens there takes no requests by this method")
}

/// What a way consists of; open as long as anything is under way on it.
struct Line {
    control: TcpStream,
    channel: Channel,
    sender: Sender,
}

impl Drop for Line {
    fn drop(&mut self) {
        self.sender.close();
        self.channel.shutdown();
    }
}

struct Open {
    line: Arc<Line>,
    /// Held while a head and its body are queued, which belong together.
    sender: Lock<Sender>,
    most_bytes: u32,
}

impl Outgoing for Open {
    fn send(&self, parcel: Parcel) -> Result<Box<dyn Pending>, Cause> {
        let bytes = parcel.bytes();
        let Some(size) = u32::try_from(bytes.len()).ok().filter(|&size| size <= self.most_bytes) else {
            let text = format!("the endpoint takes at most {} bytes", self.most_bytes);
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, text).into());
        };
        let inline = bytes.len() <= INLINE_BYTES;
        let mut head = Vec::with_capacity(SIZE_BYTES + if inline { bytes.len() } else { 0 });
        head.extend_from_slice(&size.to_be_bytes());
        if inline {
            head.extend_from_slice(bytes);
        }
        let sender = self.sender.lock();
        let head = sender.send(Message::from_vec(head)).map_err(Error::from)?;
        let body = if inline { None } else { Some(sender.send(parcel.message())) };
        drop(sender);
        let line = self.line.clone();
        Ok(Box::new(UnderWay { line, head, body }))
    }

    fn is_usable(&self) -> bool {
        !super::has_gone(&self.line.control)
    }
}

struct UnderWay {
    line: Arc<Line>,
    head: Sending,
    /// If it could not be queued behind its head, the way is of no use any more.
    body: Option<Result<Sending, Unsent>>,
}

impl UnderWay {
    fn finish(line: &Line, mut sending: Sending) -> Result<(), Cause> {
        let mut gone = false;
        loop {
            // What was acknowledged before the peer went is acknowledged.
            let patience = if gone { Duration::ZERO } else { LOOK_INTERVAL };
            match sending.wait_timeout(patience) {
                Progress::Ended(result) => return Ok(result.map(drop).map_err(Error::from)?),
                Progress::UnderWay(_) if gone => {
                    let text = "the endpoint has gone";
                    return Err(io::Error::new(io::ErrorKind::ConnectionReset, text).into());
                }
                Progress::UnderWay(same) => sending = same,
            }
            gone = super::has_gone(&line.control);
        }
    }
}

impl Pending for UnderWay {
    fn wait(self: Box<Self>) -> Result<Sent, Cause> {
        Self::finish(&self.line, self.head)?;
        if let Some(body) = self.body {
            Self::finish(&self.line, body.map_err(Error::from)?)?;
        }
        Ok(Sent::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn who_does_not_answer_or_closes_at_once_is_told_apart() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let error = agree(&address, Duration::from_millis(20)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
        // The first waits to be accepted still.
        let closing = std::thread::spawn(move || {
            for _ in 0..2 {
                let (mut control, _) = listener.accept().unwrap();
                control.read_exact(&mut [0; 8]).unwrap();
            }
        });
        let error = agree(&address, Duration::from_secs(20)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{error}");
        closing.join().unwrap();
    }
}
