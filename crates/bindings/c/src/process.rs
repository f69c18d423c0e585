//! Who sends and who receives in this process, and over which sockets.
//!
//! Always true: one engine reads a socket, so a sender and a receiver on one duplex channel share a [`Channel`] (Z-1), and
//! what cannot be shared is refused; the library works on duplicates of the caller's descriptors; a child process starts
//! with nothing, whatever its parent had; whatever is open when the process exits is closed properly.

use crate::errors::Errno;
use crate::kept::{Kept, Place, lock};
use crate::message::Direction;
use crate::settings;
use libc::{c_int, c_long};
use pinnace::Message;
use pinnace::zcrp::{Channel, Config, Receiver, ReceiverCounters, Sender, SenderCounters};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};

/// What the library keeps for a process.
#[derive(Default)]
pub(crate) struct Process {
    open: Mutex<Vec<Open>>,
    sender: Mutex<Standing<Sender>>,
    receiver: Mutex<Standing<Receiver>>,
}

/// The one that the paper's functions use, and what the last of them has counted.
pub(crate) struct Standing<H: Half> {
    role: Option<Arc<Role<H>>>,
    counters: H::Counters,
}

impl<H: Half> Default for Standing<H> {
    fn default() -> Self {
        Self { role: None, counters: H::Counters::default() }
    }
}

/// A channel that is in use.
pub(crate) struct Open {
    incoming: SocketId,
    outgoing: SocketId,
    channel: Channel,
    sender: Option<Arc<Role<Sender>>>,
    receiver: Option<Arc<Role<Receiver>>>,
}

/// A sender or a receiver, and how it was set up.
pub(crate) struct Role<H> {
    half: H,
    config: Config,
}

/// What tells one socket from another, by whatever descriptor it is known: device and inode.
type SocketId = (u64, u64);

/// Either half of the protocol.
pub(crate) trait Half: Sized {
    type Counters: Copy + Default;

    /// Which of the caller's two descriptors it reads, and which it writes.
    const READS: usize;
    const WRITES: usize;

    fn open(channel: &Channel, config: Config) -> Result<Self, pinnace::Error>;
    fn close(&self);
    fn begin(&self, message: Message) -> Result<(u64, Direction), pinnace::Error>;
    fn counters(&self) -> Self::Counters;
    fn counter(counters: &Self::Counters, name: &str) -> Option<u64>;
    fn unit_bytes(&self) -> Option<usize>;
    fn standing(process: &Process) -> &Mutex<Standing<Self>>;
    fn seat(open: &mut Open) -> &mut Option<Arc<Role<Self>>>;
}

impl Half for Sender {
    type Counters = SenderCounters;
    const READS: usize = 0;
    const WRITES: usize = 1;

    fn open(channel: &Channel, config: Config) -> Result<Self, pinnace::Error> {
        channel.open_sender(config)
    }

    fn close(&self) {
        self.close();
    }

    fn begin(&self, message: Message) -> Result<(u64, Direction), pinnace::Error> {
        let sending = self.send(message)?;
        Ok((sending.number(), Direction::Out(sending)))
    }

    fn counters(&self) -> SenderCounters {
        self.counters()
    }

    fn counter(counters: &SenderCounters, name: &str) -> Option<u64> {
        counters.value(name)
    }

    fn unit_bytes(&self) -> Option<usize> {
        self.unit_bytes()
    }

    fn standing(process: &Process) -> &Mutex<Standing<Self>> {
        &process.sender
    }

    fn seat(open: &mut Open) -> &mut Option<Arc<Role<Self>>> {
        &mut open.sender
    }
}

impl Half for Receiver {
    type Counters = ReceiverCounters;
    const READS: usize = 1;
    const WRITES: usize = 0;

    fn open(channel: &Channel, config: Config) -> Result<Self, pinnace::Error> {
        channel.open_receiver(config)
    }

    fn close(&self) {
        self.close();
    }

    fn begin(&self, message: Message) -> Result<(u64, Direction), pinnace::Error> {
        let receiving = self.post(message)?;
        Ok((receiving.number(), Direction::In(receiving)))
    }

    fn counters(&self) -> ReceiverCounters {
        self.counters()
    }

    fn counter(counters: &ReceiverCounters, name: &str) -> Option<u64> {
        counters.value(name)
    }

    fn unit_bytes(&self) -> Option<usize> {
        None
    }

    fn standing(process: &Process) -> &Mutex<Standing<Self>> {
        &process.receiver
    }

    fn seat(open: &mut Open) -> &mut Option<Arc<Role<Self>>> {
        &mut open.receiver
    }
}

impl<H: Half> Role<H> {
    pub(crate) fn begin(&self, message: Message) -> Result<(u64, Direction), Errno> {
        Ok(self.half.begin(message)?)
    }

    /// A counter, or a setting as it is in force here.
    pub(crate) fn value(&self, name: &str) -> Option<c_long> {
        let counter = || H::counter(&self.half.counters(), name).map(settings::long);
        counter().or_else(|| settings::in_force(name, &self.config, self.half.unit_bytes()))
    }
}

//= Z-15
impl Kept for Process {
    const AT_EXIT: fn(&'static Self) = Self::close_all;

    fn place() -> &'static Place<Self> {
        static PLACE: Place<Process> = Place::new();
        &PLACE
    }
}

/// The state of this process.
pub(crate) fn current() -> &'static Process {
    Process::current()
}

impl Process {
    /// Opens a sender or a receiver on the caller's descriptors.
    pub(crate) fn open<H: Half>(&'static self, descriptors: [c_int; 2]) -> Result<Arc<Role<H>>, Errno> {
        let (incoming, outgoing) = (descriptors[H::READS], descriptors[H::WRITES]);
        let ids = (identify(incoming)?, identify(outgoing)?);
        let options = settings::options();
        let mut open = lock(&self.open);
        let found = open.iter().position(|other| other.incoming == ids.0);
        let channel = match found {
            // Two engines on one socket would take each other's datagrams.
            Some(index) if open[index].outgoing != ids.1 || H::seat(&mut open[index]).is_some() => {
                return Err(Errno(libc::EBUSY));
            }
            Some(index) => open[index].channel.clone(),
            None => Channel::from_sockets(duplicate(incoming)?, duplicate(outgoing)?, &options)?,
        };
        let config = settings::config(&channel, &options);
        let role = Arc::new(Role { half: H::open(&channel, config.clone())?, config });
        let index = found.unwrap_or_else(|| {
            open.push(Open { incoming: ids.0, outgoing: ids.1, channel, sender: None, receiver: None });
            open.len() - 1
        });
        *H::seat(&mut open[index]) = Some(role.clone());
        Ok(role)
    }

    /// Closes a sender or a receiver, and its channel if it was the last on it. A receiver takes 40 ms.
    pub(crate) fn close<H: Half>(&self, role: &Arc<Role<H>>) {
        role.half.close();
        let mut open = lock(&self.open);
        let place = |other: &mut Open| H::seat(other).as_ref().is_some_and(|seated| Arc::ptr_eq(seated, role));
        let Some(index) = open.iter_mut().position(place) else { return };
        *H::seat(&mut open[index]) = None;
        if open[index].sender.is_none() && open[index].receiver.is_none() {
            let last = open.swap_remove(index);
            drop(open);
            last.channel.shutdown();
        }
    }

    /// Opens the one that the paper's functions use.
    pub(crate) fn init<H: Half>(&'static self, descriptors: [c_int; 2]) -> Result<(), Errno> {
        let mut standing = lock(H::standing(self));
        if standing.role.is_some() {
            return Err(Errno(libc::EALREADY));
        }
        standing.role = Some(self.open::<H>(descriptors)?);
        Ok(())
    }

    /// The one that the paper's functions use.
    pub(crate) fn role<H: Half>(&self) -> Result<Arc<Role<H>>, Errno> {
        lock(H::standing(self)).role.clone().ok_or(Errno(libc::ENOTCONN))
    }

    /// Closes the one that the paper's functions use.
    pub(crate) fn finish<H: Half>(&self) -> Result<(), Errno> {
        let role = lock(H::standing(self)).role.take().ok_or(Errno(libc::ENOTCONN))?;
        self.close(&role);
        lock(H::standing(self)).counters = role.half.counters();
        Ok(())
    }

    /// A counter of the one that the paper's functions use, or used last.
    pub(crate) fn counter<H: Half>(&self, name: &str) -> Option<u64> {
        let standing = lock(H::standing(self));
        let counters = standing.role.as_ref().map_or(standing.counters, |role| role.half.counters());
        H::counter(&counters, name)
    }

    /// A setting as the one that the paper's functions use has it.
    pub(crate) fn setting<H: Half>(&self, name: &str) -> Option<c_long> {
        let role = self.role::<H>().ok()?;
        settings::in_force(name, &role.config, role.half.unit_bytes())
    }

    fn close_all(&self) {
        loop {
            let (sender, receiver) = match lock(&self.open).last() {
                Some(open) => (open.sender.clone(), open.receiver.clone()),
                None => return,
            };
            // The receiver first: the sender may still be heard while it says goodbye.
            if let Some(receiver) = receiver {
                self.close(&receiver);
            }
            if let Some(sender) = sender {
                self.close(&sender);
            }
        }
    }
}

fn failed() -> Errno {
    Errno(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
}

fn identify(descriptor: c_int) -> Result<SocketId, Errno> {
    // SAFETY: all zero is a valid `stat`, which the call fills; a bad descriptor is an error.
    let status = unsafe {
        let mut status: libc::stat = std::mem::zeroed();
        if libc::fstat(descriptor, &raw mut status) != 0 {
            return Err(failed());
        }
        status
    };
    if status.st_mode & libc::S_IFMT != libc::S_IFSOCK {
        return Err(Errno(libc::ENOTSOCK));
    }
    Ok((status.st_dev as u64, status.st_ino as u64))
}

/// A descriptor of our own for the caller's socket, so that the caller may close theirs at any time, and the goodbye at
/// exit still has a way out.
fn duplicate(descriptor: c_int) -> Result<OwnedFd, Errno> {
    if descriptor < 0 {
        return Err(Errno(libc::EBADF));
    }
    // SAFETY: it is not -1, and if it is not open, the call says so.
    let borrowed = unsafe { BorrowedFd::borrow_raw(descriptor) };
    borrowed.try_clone_to_owned().map_err(|_| failed())
}
