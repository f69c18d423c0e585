//! A listener's link while it is not certain who the peer is.
//!
//! A sender introduces itself with an idle datagram (Z-21), which anybody can send in anybody's name. So whoever does is a
//! *candidate*: all of them get what the endpoint has to say, which is requests, and the first that answers with anything
//! but an idle datagram is the peer. From then on the link is connected to it and to nobody else.
//!
//! Always true: candidates are at most [`CANDIDATES`]; to none goes more than its [`Allowance`]; what others
//! send does not reach the endpoint. What may go to the peer then is the engine's to say: an answer is no proof, because all
//! that a request or a unit holds can be guessed.

use super::exchange::KnownPeer;
use super::successor::{Followed, OwnLink, Predecessor};
use pinnace_core::{Address, Allowance, Part, ReceivePlan, Train, TrainLimits};
use pinnace_link::{
    BufferTable, Descriptors, Link, LinkCounters, ReadBuffer, ReadOutcome, Received, SendOutcome, UdpLink,
};
use pinnace_wire::zcrp::{Control, ControlWriter, TRAILER_BYTES, Trailer};
use std::collections::VecDeque;
use std::io;
use std::mem::ManuallyDrop;
use std::net::SocketAddr;

/// Candidates at most; another one takes the place of the oldest.
pub(super) const CANDIDATES: usize = 512;
/// Bytes of a request to whoever comes late, at most: those of an engine's.
const REQUEST_BYTES: usize = 512;
/// Reads that are for nobody, before whoever drives looks after other things: a flood of them must not keep it here.
const STRANGERS_A_LOOK: usize = 64;

/// Who has introduced itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    pub(super) address: Address,
    /// The address of ours that it wrote to.
    pub(super) wrote_to: Option<Address>,
    /// What may be sent to it.
    allowance: Allowance,
}

impl Candidate {
    /// Whoever sent this read.
    pub(super) fn of(read: &Received) -> Self {
        let mut candidate =
            Self { address: read.meta.source, wrote_to: read.meta.destination, allowance: Allowance::default() };
        candidate.credit(read);
        candidate
    }

    /// Whoever sent a datagram of so many bytes to the link that somebody else has now, at this address of ours.
    pub(super) fn strayed(from: SocketAddr, wrote_to: Option<SocketAddr>, bytes: usize) -> Self {
        let mut allowance = Allowance::default();
        allowance.earn(1, bytes);
        Self { address: Address::Inet(from), wrote_to: wrote_to.map(Address::Inet), allowance }
    }

    fn credit(&mut self, read: &Received) {
        let datagrams = read.bytes.div_ceil(read.segment.max(1)).max(1);
        self.allowance.earn(datagrams, read.bytes);
    }
}

/// A bound link, until one of those who have come is known to be the peer.
#[derive(Debug)]
pub(super) struct OpenLink {
    /// Dropped or given away with this.
    link: ManuallyDrop<UdpLink>,
    /// The endpoint has a sending half, to which control datagrams are an answer.
    sends: bool,
    /// Empty once the peer is known.
    candidates: VecDeque<Candidate>,
    /// What was sent last: for whoever comes after it, if nothing was asked for.
    last: Vec<u8>,
    /// What was asked for, in the order in which it was: for whoever comes after that.
    asked: Vec<(u32, u32)>,
    succession: Option<Predecessor>,
    before: Option<Before>,
    /// The link is the peer's, and another hears everybody.
    own: Option<OwnLink>,
    peer: KnownPeer,
    /// Datagrams that were for nobody.
    thrown_away: u64,
}

/// The link that hears everybody, while what is read next from it came from the peer, before that had a link of its own.
#[derive(Debug)]
struct Before {
    link: UdpLink,
    peer: SocketAddr,
    /// Those who may be peers of the next one.
    others: VecDeque<Candidate>,
}

/// What a read says of who sent it.
#[derive(Default)]
struct Said {
    /// It begins with an introduction.
    introduces: bool,
    /// It has an answer.
    answers: bool,
}

impl OpenLink {
    /// The link, and one candidate or more.
    pub(super) fn new(link: UdpLink, candidates: impl Into<VecDeque<Candidate>>, sends: bool) -> Self {
        let link = ManuallyDrop::new(link);
        let (last, asked, succession, before, own, peer, thrown_away) = Default::default();
        Self { link, sends, candidates: candidates.into(), last, asked, succession, before, own, peer, thrown_away }
    }

    /// Another link follows this one on its port, once this one has its peer.
    pub(super) fn followed(mut self, succession: Option<Predecessor>) -> Self {
        self.succession = succession;
        self
    }

    /// Where the peer's address will be.
    pub(super) fn known_peer(&self) -> KnownPeer {
        self.peer.clone()
    }

    /// Sends datagrams of the engine's own to one candidate, if it may have them all.
    fn send_to(&mut self, index: usize, datagrams: &[u8], size: usize) {
        let Some(candidate) = self.candidates.get_mut(index) else { return };
        let count = datagrams.len().div_ceil(size.max(1));
        if count == 0 || !candidate.allowance.try_spend(count, datagrams.len()) {
            return;
        }
        let mut train = Train::new(self.link.train_limits());
        train.begin(candidate.address, size);
        train.set_source(candidate.wrote_to);
        for datagram in datagrams.chunks(size) {
            train.inline(datagram);
            train.end_segment();
        }
        // Whatever comes of it: anybody can name an address that nothing can be sent to, such as one of port 0, and candidates
        // do not hold each other up.
        let _ = self.link.send(&train, &BufferTable::new());
    }

    /// Tells whoever has just come what the others have been told: what was asked for, from the first on, as much as one datagram
    /// may hold. Who were asked for something else would have nothing to answer with.
    //= Z-21
    fn greet(&mut self, index: usize) {
        let Some(candidate) = self.candidates.get(index) else { return };
        let mut bytes = [0; REQUEST_BYTES];
        let most = candidate.allowance.largest().min(REQUEST_BYTES) & !3;
        // The length, a pair and the trailer.
        let datagram = if self.asked.is_empty() || most < 16 {
            self.last.clone()
        } else {
            let mut writer = ControlWriter::new(&mut bytes[..most]);
            for &(number, capacity) in &self.asked {
                if writer.has_room(2) {
                    writer.push(number);
                    writer.push(capacity);
                }
            }
            writer.request().to_vec()
        };
        self.send_to(index, &datagram, datagram.len());
    }

    /// Notes what is asked for.
    fn note(&mut self, datagrams: &[u8], size: usize) {
        for datagram in datagrams.chunks(size.max(1)) {
            let Ok(Control::Request(pairs)) = Control::parse(datagram) else { continue };
            for pair in pairs.iter() {
                if self.asked.len() < REQUEST_BYTES / 8 && !self.asked.contains(&pair) {
                    self.asked.push(pair);
                }
            }
        }
    }

    /// The link is the peer's alone from now on, whose answer was the last to be read: so the link knows to which address of ours
    /// it wrote. False if it cannot be reached, or not now: what was read is lost then, and comes again.
    fn settle(&mut self, peer: SocketAddr, others: VecDeque<Candidate>) -> bool {
        let succession = self.succession.as_mut();
        match succession.map_or(Followed::No, |succession| succession.is_known(&mut self.link, peer)) {
            Followed::Yes(link, own, strays) => {
                let mut others = others;
                for stray in strays {
                    if others.len() < CANDIDATES && others.iter().all(|other| other.address != stray.address) {
                        others.push_back(stray);
                    }
                }
                self.own = Some(own);
                self.before = Some(Before { link: *link, peer, others });
                self.go_on();
                true
            }
            Followed::NotYet => false,
            Followed::No => self.link.connect_to(peer).is_ok(),
        }
    }

    /// The link that hears everybody goes on, unless what is read next from it is for the peer.
    fn go_on(&mut self) {
        if let Some(before) = self.before.take_if(|before| !before.link.next_is_from(before.peer))
            && let Some(succession) = self.succession.take()
        {
            succession.goes_on(before.link, before.others);
        }
    }

    /// What came from the peer before it had a link of its own.
    fn receive_before(&mut self, plan: &ReceivePlan, memory: &BufferTable, pool: &mut ReadBuffer) -> Option<Received> {
        let before = self.before.as_mut()?;
        let outcome = before.link.receive(plan, memory, pool);
        let peer = Address::Inet(before.peer);
        self.go_on();
        match outcome {
            Ok(ReadOutcome::Received(mut read)) if read.meta.source == peer => {
                read.meta.source = Address::Peer;
                Some(read)
            }
            _ => None,
        }
    }

    /// What a read brought; true if it is for the endpoint.
    fn judge(&mut self, read: &mut Received, pool: &ReadBuffer) -> bool {
        let Address::Inet(source) = read.meta.source else { return false };
        let known = self.candidates.iter().position(|candidate| candidate.address == read.meta.source);
        let Said { introduces, answers } = said(read, pool, self.sends);
        match known {
            Some(index) if answers => {
                let mut others = self.candidates.clone();
                others.remove(index);
                if !self.settle(source, others) {
                    return false;
                }
                let _ = self.peer.set(source);
                self.candidates = VecDeque::new();
                (self.last, self.asked) = Default::default();
            }
            Some(index) if introduces => self.candidates[index].credit(read),
            None if introduces && !self.succession.as_ref().is_some_and(|succession| succession.serves(source)) => {
                if self.candidates.len() == CANDIDATES {
                    self.candidates.pop_front();
                }
                self.candidates.push_back(Candidate::of(read));
                self.greet(self.candidates.len() - 1);
                // Nothing else that came with it is for the endpoint yet.
                read.bytes = read.segment.min(read.bytes);
            }
            _ => return false,
        }
        read.meta.source = Address::Peer;
        true
    }
}

impl Drop for OpenLink {
    fn drop(&mut self) {
        // SAFETY: it is taken once, here, and nothing else is done with this any more.
        let link = unsafe { ManuallyDrop::take(&mut self.link) };
        let Some(succession) = self.succession.take() else { return };
        if let Some(before) = self.before.take() {
            succession.goes_on(before.link, before.others);
        } else if self.candidates.is_empty() {
            succession.ends(link);
        } else {
            // Not with the candidates: they have been asked, and none has answered.
            succession.goes_on(link, VecDeque::new());
        }
    }
}

/// What a read says to an endpoint that also sends, or that does not.
fn said(read: &Received, pool: &ReadBuffer, sends: bool) -> Said {
    let mut said = Said::default();
    if read.truncated {
        return said;
    }
    let mut pieces = Vec::new();
    // SAFETY: the link has just laid them out, in memory that is borrowed and that nobody writes to meanwhile.
    unsafe { pool.pieces(read.bytes, &mut pieces) };
    for (index, datagram) in pieces.concat().chunks(read.segment.max(1)).enumerate() {
        let trailer = datagram.last_chunk::<TRAILER_BYTES>().map(|tail| Trailer::parse(tail, datagram.len()));
        match trailer {
            Some(Ok(Trailer::Idle { .. })) => said.introduces |= index == 0,
            Some(Ok(Trailer::Unit(_))) => said.answers = true,
            Some(Ok(Trailer::Control)) | None => said.answers |= sends && Control::parse(datagram).is_ok(),
            Some(Err(_)) => {}
        }
    }
    said
}

impl Link for OpenLink {
    fn train_limits(&self) -> TrainLimits {
        self.link.train_limits()
    }

    fn max_datagram(&self) -> usize {
        self.link.max_datagram()
    }

    fn datagrams_per_read(&self) -> usize {
        self.link.datagrams_per_read()
    }

    fn send(&mut self, train: &Train, memory: &BufferTable) -> io::Result<SendOutcome> {
        if self.candidates.is_empty() {
            return self.link.send(train, memory);
        }
        // Nobody has asked for a unit yet, so it is all the engine's own.
        if train.parts().iter().all(|part| matches!(part, Part::Inline { .. })) {
            let datagrams = train.inline_bytes().to_vec();
            for index in 0..self.candidates.len() {
                self.send_to(index, &datagrams, train.segment_size());
            }
            self.note(&datagrams, train.segment_size());
            if train.segments() == 1 {
                self.last = datagrams;
            }
        }
        Ok(SendOutcome::Sent)
    }

    fn receive(&mut self, plan: &ReceivePlan, memory: &BufferTable, pool: &mut ReadBuffer) -> io::Result<ReadOutcome> {
        if let Some(read) = self.receive_before(plan, memory, pool) {
            return Ok(ReadOutcome::Received(read));
        }
        for _ in 0..STRANGERS_A_LOOK {
            let is_settled = self.candidates.is_empty();
            match self.link.receive(plan, memory, pool)? {
                ReadOutcome::Received(mut read) if !is_settled => {
                    if self.judge(&mut read, pool) {
                        return Ok(ReadOutcome::Received(read));
                    }
                    self.thrown_away += read.bytes.div_ceil(read.segment.max(1)).max(1) as u64;
                }
                outcome => return Ok(outcome),
            }
        }
        // What is left keeps the socket readable.
        Ok(ReadOutcome::Empty)
    }

    fn allow_fragmentation(&mut self) -> bool {
        Link::allow_fragmentation(&mut *self.link)
    }

    fn descriptors(&self) -> Descriptors {
        let readable = self.before.as_ref().map(|before| before.link.descriptors().readable);
        let own = self.link.descriptors();
        Descriptors { readable: readable.unwrap_or(own.readable), ..own }
    }

    fn counters(&self) -> LinkCounters {
        let mut counters = self.link.counters();
        counters.datagrams_from_strangers += self.thrown_away;
        counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Message;
    use crate::zcrp::successor::{Served, succession};
    use crate::zcrp::{Listener, Options, Profile};
    use pinnace_core::{Ecn, RxMeta};
    use pinnace_link::UdpOptions;
    use pinnace_wire::zcrp::encode_idle;
    use std::net::UdpSocket;
    use std::time::Duration;

    /// An introduction, as it is read, in the name of somebody to whom nothing can be sent.
    fn of_nobody(source: &str) -> Received {
        let meta = RxMeta { source: Address::Inet(source.parse().unwrap()), destination: None, ecn: Ecn::default() };
        Received { bytes: TRAILER_BYTES, segment: TRAILER_BYTES, meta, truncated: false }
    }

    /// What a peer that sends and receives says first, in one train, which is one read.
    fn introduction_and_request(link: &impl Link) -> Train {
        let mut train = Train::new(link.train_limits());
        train.begin(Address::Peer, TRAILER_BYTES);
        train.inline(&encode_idle(1));
        train.end_segment();
        train.inline(&[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 100, 0x83, 0, 0, 0]);
        train.end_segment();
        train
    }

    fn train(link: &impl Link, to: Address) -> Train {
        let mut train = Train::new(link.train_limits());
        train.begin(to, TRAILER_BYTES);
        train.inline(&[7; TRAILER_BYTES]);
        train.end_segment();
        train
    }

    /// Reads until the endpoint gets something.
    fn read(link: &mut OpenLink, pool: &mut ReadBuffer) -> Received {
        let mut plan = ReceivePlan::new();
        plan.reset(1);
        plan.top_up(ReadBuffer::READ_BYTES);
        for _ in 0..5000 {
            if let ReadOutcome::Received(read) = link.receive(&plan, &BufferTable::new(), pool).unwrap() {
                return read;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        panic!("nothing came");
    }

    #[test]
    fn control_is_an_answer_to_who_sends_only() {
        //= Z-21 test
        for sends in [false, true] {
            let link = UdpLink::bind("127.0.0.1:0".parse().unwrap(), &UdpOptions::default()).unwrap();
            let address = link.local_address().unwrap();
            let mut link = OpenLink::new(link, [Candidate::of(&of_nobody("127.0.0.2:0"))], sends);
            let mut pool = ReadBuffer::new();
            let [first, second] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
            first.send_to(&encode_idle(0), address).unwrap();
            read(&mut link, &mut pool);
            // An acknowledgement of nothing, which anybody can send in anybody's name.
            first.send_to(&[0, 0, 0, 0, 0, 0, 0, 0, 0x81, 0, 0, 0], address).unwrap();
            second.send_to(&encode_idle(0), address).unwrap();
            let said = read(&mut link, &mut pool);
            let expected = if sends { (12, 0) } else { (TRAILER_BYTES, 3) };
            assert_eq!((said.bytes, link.candidates.len()), expected);
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn what_came_before_the_peer_had_its_own_link_is_for_it() {
        //= Z-21 test
        let options = Options::default();
        let link = UdpLink::bind("127.0.0.1:0".parse().unwrap(), &options.udp(true)).unwrap();
        let address = link.local_address().unwrap();
        let (predecessor, successor) = succession(address, options, Served::default());
        let [peer, other] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        let of_peer = of_nobody(&peer.local_addr().unwrap().to_string());
        let mut link = OpenLink::new(link, [Candidate::of(&of_peer)], false).followed(Some(predecessor));
        for bytes in 1..=5 {
            let unit = [&vec![7; bytes][..], &[0; 23], &[bytes as u8, 2, 0, 0, 0]].concat();
            peer.send_to(&unit, address).unwrap();
        }
        other.send_to(&[0], address).unwrap();
        // A copy that comes late introduces nobody.
        peer.send_to(&encode_idle(0), address).unwrap();
        other.send_to(&encode_idle(0), address).unwrap();
        let mut pool = ReadBuffer::new();
        for bytes in 1..=5 {
            let read = read(&mut link, &mut pool);
            assert_eq!((read.bytes, read.meta.source), (bytes + TRAILER_BYTES, Address::Peer));
        }
        // Behind it everything is the next one's.
        let (next, _receiver) = successor.wait().unwrap().accept_timeout(Duration::from_secs(5)).unwrap();
        drop(next.send(Message::from_vec(vec![1])).unwrap());
        other.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        assert_eq!(other.recv(&mut [0; 100]).unwrap(), TRAILER_BYTES);
        peer.set_nonblocking(true).unwrap();
        assert!(peer.recv(&mut [0; 100]).is_err(), "it has been served");
    }

    #[test]
    fn whoever_comes_late_is_asked_for_all_that_the_others_were_from_the_first_message_on() {
        //= Z-21 test
        let link = UdpLink::bind("127.0.0.1:0".parse().unwrap(), &UdpOptions::default()).unwrap();
        let address = link.local_address().unwrap();
        let mut link = OpenLink::new(link, [Candidate::of(&of_nobody("127.0.0.2:0"))], false);
        for numbers in [0..1, 1..5, 0..1, 5..40] {
            let mut bytes = [0; REQUEST_BYTES];
            let mut writer = ControlWriter::new(&mut bytes);
            numbers.flat_map(|number| [number, 1000 + number]).for_each(|word| writer.push(word));
            let request = writer.request();
            let mut train = Train::new(link.train_limits());
            train.begin(Address::Peer, request.len());
            train.inline(request);
            train.end_segment();
            assert_eq!(link.send(&train, &BufferTable::new()).unwrap(), SendOutcome::Sent);
        }
        let late = UdpSocket::bind("127.0.0.1:0").unwrap();
        late.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        late.send_to(&encode_idle(0), address).unwrap();
        read(&mut link, &mut ReadBuffer::new());
        let mut datagram = [0; 1000];
        let len = late.recv(&mut datagram).unwrap();
        let Ok(Control::Request(pairs)) = Control::parse(&datagram[..len]) else { panic!("{:?}", &datagram[..len]) };
        // As many as three times an introduction's bytes hold.
        let most = (3 * (28 + TRAILER_BYTES as u32) - 28 - 8) / 8;
        assert!(pairs.iter().eq((0..most).map(|number| (number, 1000 + number))), "{pairs:?}");
    }

    #[test]
    fn datagrams_that_introduce_nobody_end_a_look() {
        let link = UdpLink::bind("127.0.0.1:0".parse().unwrap(), &UdpOptions::default()).unwrap();
        let address = link.local_address().unwrap();
        let mut link = OpenLink::new(link, [Candidate::of(&of_nobody("127.0.0.2:0"))], false);
        let others = UdpSocket::bind("127.0.0.1:0").unwrap();
        for _ in 0..100 {
            others.send_to(&[0], address).unwrap();
        }
        others.send_to(&encode_idle(0), address).unwrap();
        let mut plan = ReceivePlan::new();
        plan.reset(1);
        plan.top_up(ReadBuffer::READ_BYTES);
        let mut pool = ReadBuffer::new();
        let mut look = || link.receive(&plan, &BufferTable::new(), &mut pool).unwrap();
        assert!(matches!(look(), ReadOutcome::Empty), "whoever drives has other things to do as well");
        assert!(matches!(look(), ReadOutcome::Received(_)));
        assert_eq!(link.counters().datagrams_from_strangers, 100);
    }

    #[test]
    fn an_introduction_may_come_with_an_answer_in_one_read() {
        //= Z-21 test
        let link = UdpLink::bind("127.0.0.1:0".parse().unwrap(), &UdpOptions::default()).unwrap();
        let address = link.local_address().unwrap();
        let mut link = OpenLink::new(link, [Candidate::of(&of_nobody("127.0.0.2:0"))], true);
        let mut pool = ReadBuffer::new();
        let mut peer = UdpLink::connect(None, address, &UdpOptions::default()).unwrap();
        let both = introduction_and_request(&peer);
        peer.send(&both, &BufferTable::new()).unwrap();
        assert_eq!(read(&mut link, &mut pool).bytes, TRAILER_BYTES, "who has not been asked has nothing to answer");
        assert_eq!(link.candidates.len(), 2);
        peer.send(&both, &BufferTable::new()).unwrap();
        while !link.candidates.is_empty() {
            read(&mut link, &mut pool);
        }
    }

    #[test]
    fn a_listener_accepts_an_introduction_that_comes_with_a_request_in_one_read() {
        //= Z-21 test
        let listener = Listener::bind("127.0.0.1:0", &Options::default()).unwrap();
        let mut peer = UdpLink::connect(None, listener.local_addr().unwrap(), &UdpOptions::default()).unwrap();
        let both = introduction_and_request(&peer);
        peer.send(&both, &BufferTable::new()).unwrap();
        listener.accept_timeout(Duration::from_secs(5)).unwrap();
    }

    #[test]
    fn whoever_an_answer_is_forged_of_gets_one_unit_until_it_acknowledges_that() {
        //= Z-8 test
        let options = Options { profile: Profile::Cluster, unit_bytes: Some(1472), ..Options::default() };
        let listener = Listener::bind("127.0.0.1:0", &options).unwrap();
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        peer.connect(listener.local_addr().unwrap()).unwrap();
        peer.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        peer.send(&encode_idle(0)).unwrap();
        let (sender, _receiver) = listener.accept_timeout(Duration::from_secs(5)).unwrap();
        drop(sender.send(Message::from_vec(vec![5; 1 << 20])).unwrap());
        peer.send(&[0, 0, 0, 1, 0, 0, 0, 0, 255, 255, 255, 255, 0x83, 0, 0, 0]).unwrap();
        let mut datagram = [0; 2000];
        let mut unit = || loop {
            match peer.recv(&mut datagram) {
                // Anything shorter introduces this end.
                Ok(1472) => return Some(<[u8; 4]>::try_from(&datagram[1472 - 20..][..4]).unwrap()),
                Ok(_) => {}
                Err(_) => return None,
            }
        };
        let first = unit().unwrap();
        // The first repetition comes after 200 ms, the second 400 ms later.
        peer.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        assert_eq!(unit(), None);
        let behind = u32::from_be_bytes(first).wrapping_add(1).to_be_bytes();
        let acknowledgement = [&[0, 0, 0, 1][..], &first, &behind, &[0x81, 0, 0, 0]].concat();
        peer.send(&acknowledgement).unwrap();
        peer.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let count = (0..50).map_while(|_| unit()).count();
        assert_eq!(count, 50);
    }

    #[test]
    fn candidates_that_cannot_be_sent_to_fail_nobody() {
        //= Z-21 test
        let mut link = UdpLink::bind("127.0.0.1:0".parse().unwrap(), &UdpOptions::default()).unwrap();
        let address = link.local_address().unwrap();
        // Of no internet address at all: the link fails. Of another family there is no way; of port 0 the system refuses each
        // datagram.
        let (mut nobody, nowhere) = (of_nobody("[2001:db8::1]:7"), of_nobody("127.0.0.2:0"));
        let to_nobody = train(&link, nobody.meta.source);
        assert_eq!(link.send(&to_nobody, &BufferTable::new()).unwrap(), SendOutcome::Unreachable);
        nobody.meta.source = Address::Node(1);
        let to_nobody = train(&link, nobody.meta.source);
        assert!(link.send(&to_nobody, &BufferTable::new()).is_err(), "or this test says nothing");
        // One of them is the first, and one comes behind the one who is there.
        let mut link = OpenLink::new(link, [Candidate::of(&nobody)], true);
        let friend = UdpSocket::bind("127.0.0.1:0").unwrap();
        friend.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        friend.send_to(&encode_idle(0), address).unwrap();
        let mut pool = ReadBuffer::new();
        let introduced = read(&mut link, &mut pool);
        assert_eq!((introduced.meta.source, link.candidates.len()), (Address::Peer, 2));
        let request = train(&link, Address::Peer);
        assert_eq!(link.send(&request, &BufferTable::new()).unwrap(), SendOutcome::Sent);
        let mut answer = [0; 100];
        assert_eq!(friend.recv(&mut answer).unwrap(), TRAILER_BYTES, "it is not held up by who came before");
        // What was sent last goes to whoever comes after it. The pool still holds an introduction.
        for mut nobody in [nowhere, of_nobody("[2001:db8::2]:7")] {
            assert!(link.judge(&mut nobody, &pool));
        }
        assert_eq!(link.candidates.len(), 4);
        friend.send_to(&encode_idle(0), address).unwrap();
        read(&mut link, &mut pool);
        assert_eq!(link.send(&request, &BufferTable::new()).unwrap(), SendOutcome::Sent);
        assert_eq!(friend.recv(&mut answer).unwrap(), TRAILER_BYTES);
    }
}
