//! How fast trains cross the loopback interface, between two processes that spin: through `UdpLink`, and through bare
//! `sendmsg` and `recvmsg` with the same pieces. With a window and acknowledgements, without any protocol.
//!
//! `cargo run --release -p pinnace-link --example train_loop [SECONDS]`

#![allow(clippy::print_stdout, reason = "it prints a table")]

#[cfg(target_os = "linux")]
mod linux {
    use libc::{iovec, msghdr};
    use pinnace_core::{Address, BufferId, BufferRange, ReceivePlan, Train};
    use pinnace_link::{BufferTable, Link, ReadBuffer, ReadOutcome, SendOutcome, UdpLink, UdpOptions};
    use std::os::fd::RawFd;
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    const WINDOW: u64 = 512 << 10;
    const ACKNOWLEDGE: u64 = 128 << 10;
    const TRAILER: usize = 8;
    /// Memory that messages are sent from and received into, small enough for the cache.
    const MEMORY: usize = 1 << 20;

    #[derive(Clone, Copy)]
    struct Shape {
        segments: usize,
        size: usize,
    }

    impl Shape {
        fn payload(self) -> usize {
            self.size - TRAILER
        }
        fn bytes(self) -> usize {
            self.size * self.segments
        }
        /// Where in memory train number `n` lies.
        fn low(self, n: usize) -> usize {
            let stride = self.payload() * self.segments;
            (n % (MEMORY / stride).max(1)) * stride
        }
    }

    /// One end: sends train `n`, or reads what has come. What it is made of is either a link or bare calls.
    trait End {
        fn send(&mut self, n: usize) -> bool;
        fn acknowledge(&mut self, bytes: u64);
        fn read(&mut self, n: usize) -> usize;
        /// The last acknowledgement that has come.
        fn acknowledged(&mut self) -> Option<u64>;
    }

    struct Linked {
        link: UdpLink,
        memory: BufferTable,
        id: BufferId,
        train: Train,
        plan: ReceivePlan,
        pool: ReadBuffer,
        shape: Shape,
    }

    impl End for Linked {
        fn send(&mut self, n: usize) -> bool {
            let low = self.shape.low(n);
            self.train.reset(self.link.train_limits());
            self.train.begin(Address::Peer, self.shape.size);
            for i in 0..self.shape.segments {
                let at = (low + i * self.shape.payload()) as u64;
                self.train.payload(BufferRange::new(self.id, at, self.shape.payload() as u32));
                self.train.inline(&[7; TRAILER]);
                self.train.end_segment();
            }
            self.link.send(&self.train, &self.memory).unwrap() == SendOutcome::Sent
        }
        fn acknowledge(&mut self, bytes: u64) {
            self.train.begin(Address::Peer, 8);
            self.train.inline(&bytes.to_ne_bytes());
            self.train.end_segment();
            self.link.send(&self.train, &self.memory).unwrap();
        }
        fn read(&mut self, n: usize) -> usize {
            let low = self.shape.low(n);
            self.plan.reset(self.link.datagrams_per_read());
            for i in 0..self.shape.segments {
                let at = (low + i * self.shape.payload()) as u64;
                self.plan.payload(BufferRange::new(self.id, at, self.shape.payload() as u32));
                self.plan.pooled(TRAILER);
            }
            self.plan.top_up(ReadBuffer::READ_BYTES);
            match self.link.receive(&self.plan, &self.memory, &mut self.pool).unwrap() {
                ReadOutcome::Received(read) => read.bytes,
                _ => 0,
            }
        }
        fn acknowledged(&mut self) -> Option<u64> {
            self.plan.reset(1);
            self.plan.top_up(ReadBuffer::READ_BYTES);
            match self.link.receive(&self.plan, &self.memory, &mut self.pool).unwrap() {
                ReadOutcome::Received(read) => {
                    let mut pieces = Vec::new();
                    self.pool.pieces(read.bytes, &mut pieces);
                    pieces.concat().last_chunk().map(|bytes| u64::from_ne_bytes(*bytes))
                }
                _ => None,
            }
        }
    }

    struct Bare {
        fd: RawFd,
        shape: Shape,
        memory: Vec<u8>,
        pieces: Vec<iovec>,
        control: [u64; 8],
        rest: Vec<u8>,
    }

    fn header() -> msghdr {
        // SAFETY: all zeros is a valid `msghdr`.
        unsafe { std::mem::zeroed() }
    }

    impl Bare {
        fn lay_out(&mut self, n: usize) {
            let low = self.shape.low(n);
            self.pieces.clear();
            for i in 0..self.shape.segments {
                let at = low + i * self.shape.payload();
                let payload = self.memory[at..].as_mut_ptr();
                self.pieces.push(iovec { iov_base: payload.cast(), iov_len: self.shape.payload() });
                self.pieces.push(iovec { iov_base: self.rest[i * 8..].as_mut_ptr().cast(), iov_len: TRAILER });
            }
        }
    }

    impl End for Bare {
        fn send(&mut self, n: usize) -> bool {
            self.lay_out(n);
            let mut header = header();
            header.msg_iov = self.pieces.as_mut_ptr();
            header.msg_iovlen = self.pieces.len() as _;
            if self.shape.segments > 1 {
                // One control message: `UDP_SEGMENT`, a `u16`.
                self.control[0] = 18;
                self.control[1] = u64::from(libc::SOL_UDP as u32) | 103 << 32;
                self.control[2] = self.shape.size as u64;
                header.msg_control = self.control.as_mut_ptr().cast();
                header.msg_controllen = 24;
            }
            // SAFETY: everything that the header points to lives in `self`.
            unsafe { libc::sendmsg(self.fd, &raw const header, libc::MSG_DONTWAIT) >= 0 }
        }
        fn acknowledge(&mut self, bytes: u64) {
            // SAFETY: eight bytes.
            unsafe { libc::send(self.fd, (&raw const bytes).cast(), 8, libc::MSG_DONTWAIT) };
        }
        fn read(&mut self, n: usize) -> usize {
            self.lay_out(n);
            let rest = self.rest[8192..].as_mut_ptr();
            self.pieces.push(iovec { iov_base: rest.cast(), iov_len: self.rest.len() - 8192 });
            let mut header = header();
            header.msg_iov = self.pieces.as_mut_ptr();
            header.msg_iovlen = self.pieces.len() as _;
            header.msg_control = self.control.as_mut_ptr().cast();
            header.msg_controllen = size_of_val(&self.control) as _;
            // SAFETY: everything that the header points to lives in `self`.
            unsafe { libc::recvmsg(self.fd, &raw mut header, libc::MSG_DONTWAIT) }.max(0) as usize
        }
        fn acknowledged(&mut self) -> Option<u64> {
            let mut bytes = 0u64;
            // SAFETY: eight bytes.
            let read = unsafe { libc::recv(self.fd, (&raw mut bytes).cast(), 8, libc::MSG_DONTWAIT) };
            (read == 8).then_some(bytes)
        }
    }

    fn end(link: UdpLink, shape: Shape, bare: bool) -> Box<dyn End> {
        let memory = vec![1u8; MEMORY + 65_536];
        if bare {
            let fd = link.descriptors().readable;
            std::mem::forget(link);
            let rest = vec![0; 8192 + 65_536];
            return Box::new(Bare { fd, shape, memory, pieces: Vec::new(), control: [0; 8], rest });
        }
        let mut table = BufferTable::new();
        let bytes = memory.leak();
        // SAFETY: leaked, and not used otherwise.
        let id = unsafe { table.insert(bytes.as_mut_ptr(), bytes.len()) };
        let train = Train::new(link.train_limits());
        let (plan, pool) = (ReceivePlan::new(), ReadBuffer::new());
        Box::new(Linked { link, memory: table, id, train, plan, pool, shape })
    }

    fn receiver(port: u16, shape: Shape, bare: bool, options: &UdpOptions) {
        let link = UdpLink::connect(None, ([127, 0, 0, 1], port).into(), options).unwrap();
        let mut end = end(link, shape, bare);
        end.acknowledge(0);
        let (mut bytes, mut said, mut n) = (0u64, 0u64, 0);
        let mut last = Instant::now();
        loop {
            let read = end.read(n) as u64;
            if read > 0 {
                (bytes, n) = (bytes + read, n + 1);
                if bytes - said >= ACKNOWLEDGE.min(WINDOW / 2) {
                    end.acknowledge(bytes);
                    said = bytes;
                }
                if n % 256 == 0 {
                    last = Instant::now();
                }
            } else if last.elapsed() > Duration::from_secs(4) {
                return;
            }
        }
    }

    /// Bytes a second.
    fn sender(shape: Shape, bare: bool, time: Duration, options: &UdpOptions) -> f64 {
        let mut link = UdpLink::bind("127.0.0.1:0".parse().unwrap(), options).unwrap();
        let port = link.local_address().unwrap().port();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([port.to_string(), shape.segments.to_string(), shape.size.to_string(), bare.to_string()])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let (mut plan, mut pool) = (ReceivePlan::new(), ReadBuffer::new());
        plan.reset(1);
        plan.top_up(ReadBuffer::READ_BYTES);
        let peer = loop {
            if let ReadOutcome::Received(read) = link.receive(&plan, &BufferTable::new(), &mut pool).unwrap()
                && let Address::Inet(peer) = read.meta.source
            {
                break peer;
            }
        };
        link.connect_to(peer).unwrap();
        let mut end = end(link, shape, bare);
        let start = Instant::now();
        let (mut sent, mut acknowledged, mut n) = (0u64, 0u64, 0);
        let mut stuck = 0u64;
        while n % 64 != 0 || start.elapsed() < time {
            if sent - acknowledged + shape.bytes() as u64 <= WINDOW && end.send(n) {
                (sent, n, stuck) = (sent + shape.bytes() as u64, n + 1, 0);
            } else if let Some(bytes) = end.acknowledged() {
                acknowledged = acknowledged.max(bytes);
            } else {
                stuck += 1;
                assert!(stuck < 100_000_000, "datagrams were lost");
            }
        }
        let rate = acknowledged as f64 / start.elapsed().as_secs_f64();
        child.kill().unwrap();
        child.wait().unwrap();
        rate
    }

    fn sample(shape: Shape, bare: bool, time: Duration, stage_below: usize) -> f64 {
        sender(shape, bare, time, &UdpOptions { stage_below, ..UdpOptions::default() }) * 8.0 / 1e9
    }

    /// Two spinning processes on one core would take turns of milliseconds.
    fn pin(cpu: usize) {
        // SAFETY: a set of this size, all zeros but one bit.
        unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(cpu, &mut set);
            libc::sched_setaffinity(0, size_of_val(&set), &raw const set);
        }
    }

    fn median(mut of: Vec<f64>) -> f64 {
        of.sort_by(f64::total_cmp);
        of[of.len() / 2]
    }

    pub(super) fn main() {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        if let [port, segments, size, bare] = &arguments[..] {
            let shape = Shape { segments: segments.parse().unwrap(), size: size.parse().unwrap() };
            pin(1);
            return receiver(port.parse().unwrap(), shape, bare.parse().unwrap(), &UdpOptions::default());
        }
        pin(0);
        let seconds: f64 = arguments.first().map_or(1.0, |text| text.parse().unwrap());
        let time = Duration::from_secs_f64(seconds);
        println!(
            "{:>14} {:>10} {:>10} {:>10}   Gbit/s, medians of 5 interleaved",
            "train", "bare", "gathered", "staged"
        );
        for (segments, size) in
            [(1, 65_507), (7, 9_000), (15, 4_124), (31, 2_100), (44, 1_472), (62, 1_052), (120, 540)]
        {
            let shape = Shape { segments, size };
            let mut rates = [const { Vec::new() }; 3];
            for _ in 0..5 {
                rates[0].push(sample(shape, true, time, 0));
                rates[1].push(sample(shape, false, time, 0));
                rates[2].push(sample(shape, false, time, usize::MAX));
            }
            let [bare, gathered, staged] = rates.map(median);
            println!("{:>14} {bare:>10.1} {gathered:>10.1} {staged:>10.1}", format!("{segments} x {size}"));
        }
    }
}

fn main() {
    #[cfg(target_os = "linux")]
    linux::main();
}
