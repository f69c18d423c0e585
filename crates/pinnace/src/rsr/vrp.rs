//! The method `vrp`: each request is a VRP frame, whose contract is the buffer's (specs/vrp.md, section 8).

use super::Cause;
use super::address::reachable;
use super::method::{Arrival, Incoming, Method, Outgoing, Parcel, Pending, Sent, Sink};
use crate::Error;
use crate::vrp::{Frame, Options, Received, Receiver, Sender, Sending};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// The method `vrp`. Its probe is a PING: where nobody answers, it takes the options' life time-out.
///
/// An endpoint whose handlers do not keep up refuses requests when the options' limits are reached.
#[derive(Clone, Debug, Default)]
pub struct Vrp {
    /// Settings of the protocol.
    pub options: Options,
}

impl Method for Vrp {
    fn name(&self) -> &str {
        "vrp"
    }

    fn connect(&self, address: &str, _options: &str) -> Result<Arc<dyn Outgoing>, Cause> {
        let sender = Sender::connect(address, &self.options)?;
        sender.open()?;
        Ok(Arc::new(Open { sender }))
    }

    fn listen(&self, address: &str, sink: Sink) -> Result<Box<dyn Incoming>, Cause> {
        let receiver = if address.is_empty() {
            Receiver::bind_all(0, &self.options)
        } else {
            Receiver::bind(address, &self.options)
        }?;
        let taking = receiver.clone();
        let thread = std::thread::Builder::new().name("rsr-vrp".to_owned()).spawn(move || {
            // Ends when the receiver is closed and empty, or its socket fails.
            while let Ok(frame) = taking.recv() {
                if sink.deliver(arrival(frame), Duration::MAX).is_err() {
                    return;
                }
            }
        })?;
        Ok(Box::new(Listening { receiver, thread: Some(thread) }))
    }
}

fn arrival(frame: Received) -> Arrival {
    Arrival { holes: frame.holes().to_vec(), source: frame.source().to_string(), data: Box::new(frame) }
}

struct Open {
    sender: Sender,
}

impl Outgoing for Open {
    fn send(&self, parcel: Parcel) -> Result<Box<dyn Pending>, Cause> {
        let frame = Frame::new(parcel.message()).with_contract(parcel.contract().vrp());
        let sending = self.sender.send(frame).map_err(Error::from)?;
        Ok(Box::new(UnderWay { sending }))
    }
}

struct UnderWay {
    sending: Sending,
}

impl Pending for UnderWay {
    fn wait(self: Box<Self>) -> Result<Sent, Cause> {
        let sent = self.sending.wait().map_err(Error::from)?;
        let holes = sent.report.as_ref().map(|report| report.holes()).unwrap_or_default();
        Ok(Sent { lost: holes.iter().map(|hole| hole.start as u64..hole.end as u64).collect() })
    }
}

struct Listening {
    receiver: Receiver,
    thread: Option<JoinHandle<()>>,
}

impl Incoming for Listening {
    fn address(&self) -> String {
        reachable(self.receiver.local_addr()).to_string()
    }

    fn close(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        self.receiver.close();
        // A panic there would be ours, and has been printed.
        let _ = thread.join();
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.close();
    }
}
