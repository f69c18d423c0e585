//! How fast trains cross the loopback interface, between two processes that spin: through `UdpLink`, and through bare
//! `sendmsg` and `recvmsg` with the same pieces. With a window and acknowledgements, without any protocol.
//!
//! `cargo run --release -p pinnace-link --example train_loop [SECONDS [ROUNDS]]`, or
//! `... train_loop cost [ROUNDS]` for processor time in one thread, which other load disturbs less.

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
                    self.pool.pooled(read.bytes).last_chunk().map(|bytes| u64::from_ne_bytes(*bytes))
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

    /// Whatever else the machine does only slows a sample down.
    fn best(of: &[f64]) -> f64 {
        of.iter().copied().fold(0.0, f64::max)
    }

    /// Nanoseconds of processor time that this thread has used.
    fn processor_time() -> f64 {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: a valid pointer.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
        time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
    }

    /// Microseconds of processor time to send a train, and to read it, in one thread: little disturbed by others.
    fn cost(shape: Shape, bare: bool, stage_below: usize) -> [f64; 2] {
        let options = UdpOptions { stage_below, ..UdpOptions::default() };
        let mut listener = UdpLink::bind("127.0.0.1:0".parse().unwrap(), &options).unwrap();
        let caller = UdpLink::connect(None, listener.local_address().unwrap(), &options).unwrap();
        listener.connect_to(caller.local_address().unwrap()).unwrap();
        let (mut to, mut from) = (end(listener, shape, bare), end(caller, shape, bare));
        for _ in 0..100 {
            while to.read(0) > 0 {}
        }
        let mut cost = [0.0; 2];
        const TRAINS: usize = 1000;
        for n in 0..TRAINS {
            let start = processor_time();
            assert!(from.send(n));
            let sent = processor_time();
            let mut bytes = 0;
            while bytes < shape.bytes() {
                bytes += to.read(n);
            }
            cost[0] += (sent - start) / 1e3 / TRAINS as f64;
            cost[1] += (processor_time() - sent) / 1e3 / TRAINS as f64;
        }
        cost
    }

    fn costs(rounds: usize) {
        println!("microseconds of processor time a train, best of {rounds} interleaved");
        println!(
            "{:>12}   send: {:>7} {:>9} {:>7}   read: {:>7} {:>7}",
            "train", "bare", "gathered", "staged", "bare", "link"
        );
        for shape in SHAPES {
            let mut best = [[f64::MAX; 2]; 3];
            for _ in 0..rounds {
                let now = [cost(shape, true, 0), cost(shape, false, 0), cost(shape, false, usize::MAX)];
                for (best, now) in best.as_flattened_mut().iter_mut().zip(now.as_flattened()) {
                    *best = best.min(*now);
                }
            }
            let [[bare, read_bare], [gathered, read], [staged, _]] = best;
            let shape = format!("{} x {}", shape.segments, shape.size);
            println!(
                "{shape:>12}         {bare:>7.2} {gathered:>9.2} {staged:>7.2}         {read_bare:>7.2} {read:>7.2}"
            );
        }
    }

    const SHAPES: [Shape; 9] = [
        Shape { segments: 1, size: 65_507 },
        Shape { segments: 7, size: 9_000 },
        Shape { segments: 15, size: 4_124 },
        Shape { segments: 31, size: 2_100 },
        Shape { segments: 44, size: 1_472 },
        Shape { segments: 62, size: 1_052 },
        Shape { segments: 120, size: 540 },
        Shape { segments: 120, size: 130 },
        Shape { segments: 4, size: 1_472 },
    ];

    pub(super) fn main() {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        if let [port, segments, size, bare] = &arguments[..] {
            let shape = Shape { segments: segments.parse().unwrap(), size: size.parse().unwrap() };
            pin(1);
            return receiver(port.parse().unwrap(), shape, bare.parse().unwrap(), &UdpOptions::default());
        }
        pin(0);
        if let [word, rest @ ..] = &arguments[..]
            && word == "cost"
        {
            return costs(rest.first().map_or(10, |text| text.parse().unwrap()));
        }
        let seconds: f64 = arguments.first().map_or(0.2, |text| text.parse().unwrap());
        let rounds: usize = arguments.get(1).map_or(10, |text| text.parse().unwrap());
        let time = Duration::from_secs_f64(seconds);
        println!(
            "{:>14} {:>10} {:>10} {:>10}   Gbit/s, best of {rounds} interleaved",
            "train", "bare", "gathered", "staged"
        );
        for shape in SHAPES {
            let mut rates = [const { Vec::new() }; 3];
            for _ in 0..rounds {
                rates[0].push(sample(shape, true, time, 0));
                rates[1].push(sample(shape, false, time, 0));
                rates[2].push(sample(shape, false, time, usize::MAX));
            }
            let [bare, gathered, staged] = rates.each_ref().map(|of| best(of));
            println!(
                "{:>14} {bare:>10.1} {gathered:>10.1} {staged:>10.1}",
                format!("{} x {}", shape.segments, shape.size)
            );
        }
    }
}

fn main() {
    #[cfg(target_os = "linux")]
    linux::main();
}
