//! Remote service requests: values, references, methods, holes, and two processes.

#![allow(clippy::single_range_in_vec_init, reason = "a list of holes may have one")]

use pinnace::rsr::{
    Arrival, Buffer, ByteOrder, Cause, Context, Endpoint, Error, Incoming, Local, Method, Obstacle, Outgoing, Parcel,
    Pending, ReadError, Reader, Request, Sent, Sink, Startpoint, Unified, Vrp, Way, Zcrp, send_rsr,
};
use pinnace::vrp;
use proptest::prelude::*;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::ops::Range;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Clone, Debug, PartialEq)]
enum Value {
    U8(u8),
    U16(u16),
    U32(u32),
    U64(u64),
    I8(i8),
    I16(i16),
    I32(i32),
    I64(i64),
    F32(u32),
    F64(u64),
    Bool(bool),
    Text(String),
    Bytes(Vec<u8>),
    Raw(Vec<u8>),
    U16s(Vec<u16>),
    I64s(Vec<i64>),
    F64s(Vec<f64>),
}

fn value() -> impl Strategy<Value = Value> {
    use proptest::collection::vec;
    prop_oneof![
        any::<u8>().prop_map(Value::U8),
        any::<u16>().prop_map(Value::U16),
        any::<u32>().prop_map(Value::U32),
        any::<u64>().prop_map(Value::U64),
        any::<i8>().prop_map(Value::I8),
        any::<i16>().prop_map(Value::I16),
        any::<i32>().prop_map(Value::I32),
        any::<i64>().prop_map(Value::I64),
        any::<u32>().prop_map(Value::F32),
        any::<u64>().prop_map(Value::F64),
        any::<bool>().prop_map(Value::Bool),
        ".{0,9}".prop_map(Value::Text),
        vec(any::<u8>(), 0..20).prop_map(Value::Bytes),
        vec(any::<u8>(), 0..20).prop_map(Value::Raw),
        vec(any::<u16>(), 0..9).prop_map(Value::U16s),
        vec(any::<i64>(), 0..5).prop_map(Value::I64s),
        vec(-1e300..1e300, 0..5).prop_map(Value::F64s),
    ]
}

fn put(buffer: &mut Buffer, value: &Value) {
    match value {
        Value::U8(value) => buffer.put_u8(*value),
        Value::U16(value) => buffer.put_u16(*value),
        Value::U32(value) => buffer.put_u32(*value),
        Value::U64(value) => buffer.put_u64(*value),
        Value::I8(value) => buffer.put_i8(*value),
        Value::I16(value) => buffer.put_i16(*value),
        Value::I32(value) => buffer.put_i32(*value),
        Value::I64(value) => buffer.put_i64(*value),
        Value::F32(bits) => buffer.put_f32(f32::from_bits(*bits)),
        Value::F64(bits) => buffer.put_f64(f64::from_bits(*bits)),
        Value::Bool(value) => buffer.put_bool(*value),
        Value::Text(value) => buffer.put_str(value),
        Value::Bytes(value) => buffer.put_bytes(value),
        Value::Raw(value) => buffer.put_raw(value),
        Value::U16s(value) => buffer.put_u16_array(value),
        Value::I64s(value) => buffer.put_i64_array(value),
        Value::F64s(value) => buffer.put_f64_array(value),
    };
}

/// Reads a value like this one.
fn get(reader: &mut Reader<'_>, like: &Value) -> Result<Value, ReadError> {
    Ok(match like {
        Value::U8(_) => Value::U8(reader.get_u8()?),
        Value::U16(_) => Value::U16(reader.get_u16()?),
        Value::U32(_) => Value::U32(reader.get_u32()?),
        Value::U64(_) => Value::U64(reader.get_u64()?),
        Value::I8(_) => Value::I8(reader.get_i8()?),
        Value::I16(_) => Value::I16(reader.get_i16()?),
        Value::I32(_) => Value::I32(reader.get_i32()?),
        Value::I64(_) => Value::I64(reader.get_i64()?),
        Value::F32(_) => Value::F32(reader.get_f32()?.to_bits()),
        Value::F64(_) => Value::F64(reader.get_f64()?.to_bits()),
        Value::Bool(_) => Value::Bool(reader.get_bool()?),
        Value::Text(_) => Value::Text(reader.get_str()?.to_owned()),
        Value::Bytes(_) => Value::Bytes(reader.get_bytes()?.to_vec()),
        Value::Raw(bytes) => Value::Raw(reader.get_raw(bytes.len())?.to_vec()),
        Value::U16s(_) => Value::U16s(reader.get_u16_array()?),
        Value::I64s(_) => Value::I64s(reader.get_i64_array()?),
        Value::F64s(_) => Value::F64s(reader.get_f64_array()?),
    })
}

fn order() -> impl Strategy<Value = ByteOrder> {
    prop_oneof![Just(ByteOrder::Little), Just(ByteOrder::Big)]
}

/// Holes from marks: a byte is lost if its mark is set.
fn holes_of(marks: &[bool]) -> Vec<Range<usize>> {
    let mut holes: Vec<Range<usize>> = Vec::new();
    for (at, _) in marks.iter().enumerate().filter(|(_, lost)| **lost) {
        match holes.last_mut() {
            Some(last) if last.end == at => last.end += 1,
            _ => holes.push(at..at + 1),
        }
    }
    holes
}

proptest! {
    #[test]
    fn values_are_read_as_they_were_put(order in order(), values in proptest::collection::vec(value(), 0..20)) {
        let mut buffer = Buffer::with_order(order);
        values.iter().for_each(|value| put(&mut buffer, value));
        let mut reader = buffer.reader();
        for value in &values {
            prop_assert_eq!(&get(&mut reader, value).unwrap(), value);
        }
        prop_assert_eq!(reader.remaining(), 0);
    }

    #[test]
    fn a_payload_cut_short_gives_the_values_before_the_cut(
        order in order(), values in proptest::collection::vec(value(), 1..12), cut in any::<prop::sample::Index>(),
    ) {
        let mut buffer = Buffer::with_order(order);
        let mut ends = Vec::new();
        for value in &values {
            put(&mut buffer, value);
            ends.push(buffer.len());
        }
        let cut = cut.index(buffer.len() + 1);
        let mut reader = Reader::new(&buffer.payload()[..cut], &[], order);
        for (value, end) in values.iter().zip(ends) {
            let before = reader.position();
            let read = get(&mut reader, value);
            if end <= cut {
                prop_assert_eq!(&read.unwrap(), value);
            } else {
                prop_assert_eq!(read, Err(ReadError::Truncated));
                prop_assert_eq!(reader.position(), before);
                break;
            }
        }
    }

    #[test]
    fn a_value_is_lost_exactly_if_a_byte_of_it_is(
        order in order(), values in proptest::collection::vec(value(), 1..12),
        seeds in proptest::collection::vec(0u8..12, 400),
    ) {
        let mut buffer = Buffer::with_order(order);
        let mut ranges = Vec::new();
        for value in &values {
            let before = buffer.len();
            put(&mut buffer, value);
            ranges.push(before..buffer.len());
        }
        let critical = buffer.critical_ranges();
        let lost = |at: usize| {
            seeds[at % seeds.len()] == 0 && !critical.iter().any(|range| range.contains(&at))
        };
        let marks: Vec<_> = (0..buffer.len()).map(lost).collect();
        let holes = holes_of(&marks);
        let mut reader = Reader::new(buffer.payload(), &holes, order);
        for (value, range) in values.iter().zip(ranges) {
            let expected = if marks[range].contains(&true) { Err(ReadError::Lost) } else { Ok(value.clone()) };
            prop_assert_eq!(get(&mut reader, value), expected);
        }
    }

    #[test]
    fn nothing_that_arrives_makes_a_reader_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..60), kinds in proptest::collection::vec(value(), 0..30),
        holes in proptest::collection::vec((0usize..80, 0usize..80), 0..5), order in order(),
    ) {
        // Holes of a method that is not as it should be.
        let holes: Vec<_> = holes.into_iter().map(|(a, b)| a..b).collect();
        let mut reader = Reader::new(&bytes, &holes, order);
        for kind in &kinds {
            let _ = get(&mut reader, kind);
            let mut lossy = reader.clone();
            let _ = (lossy.get_u16_lossy(), lossy.get_f64_array_lossy(), lossy.get_bytes_lossy());
            let _ = (lossy.get_raw_lossy(3), lossy.get_startpoint());
            prop_assert!(reader.position() <= bytes.len());
        }
    }

    #[test]
    fn lossy_arrays_name_what_is_missing(
        values in proptest::collection::vec(any::<u32>(), 1..30), lost in proptest::collection::vec(any::<bool>(), 120),
        order in order(),
    ) {
        let mut buffer = Buffer::with_order(order);
        buffer.put_u32_array(&values);
        let marks: Vec<_> = (0..buffer.len()).map(|at| at >= 4 && lost[at - 4] && lost[(at + 7) % 120]).collect();
        let holes = holes_of(&marks);
        let array = Reader::new(buffer.payload(), &holes, order).get_u32_array_lossy().unwrap();
        prop_assert_eq!(&array.values, &values);
        let missing: Vec<_> = (0..values.len()).filter(|&index| marks[4 + index * 4..][..4].contains(&true)).collect();
        let named: Vec<_> = array.holes.iter().cloned().flatten().collect();
        prop_assert_eq!(named, missing);
        prop_assert!(array.holes.windows(2).all(|pair| pair[0].end < pair[1].start));
    }

    #[test]
    fn startpoints_survive_both_forms(
        ways in proptest::collection::vec(("[a-z][a-z0-9_-]{0,31}", "\\PC{0,60}", "\\PC{0,60}"), 1..16),
        id in any::<Option<u64>>(),
    ) {
        let ways = ways.iter().map(|(method, address, options)| Way::new(method, address, options).unwrap()).collect();
        let startpoint = Startpoint::new(ways, id).unwrap();
        prop_assert_eq!(&startpoint.to_string().parse::<Startpoint>().unwrap(), &startpoint);
        let bytes = startpoint.to_bytes();
        prop_assert_eq!(&Startpoint::from_bytes(&bytes).unwrap(), &startpoint);
        for short in 0..bytes.len() {
            prop_assert!(Startpoint::from_bytes(&bytes[..short]).is_err());
        }
        let mut buffer = Buffer::new();
        buffer.put_startpoint(&startpoint);
        prop_assert_eq!(buffer.reader().get_startpoint().unwrap(), startpoint);
    }

    #[test]
    fn nothing_makes_reading_a_startpoint_panic(
        text in "(rsr:)?[a-z=,;?%0-9\\PC]{0,40}", bytes in proptest::collection::vec(any::<u8>(), 0..80),
    ) {
        let _ = text.parse::<Startpoint>();
        let _ = Startpoint::from_bytes(&bytes);
    }
}

#[test]
fn a_startpoint_has_these_bytes() {
    let startpoint: Startpoint = "rsr:vrp=192.0.2.1:4000?p=1,zcrp=h:1;id=102;later=x".parse().unwrap();
    let expected = b"\x01\x01\0\0\0\0\0\0\x01\x02\x02\x03vrp\0\x0e192.0.2.1:4000\0\x03p=1\x04zcrp\0\x03h:1\0\0";
    assert_eq!(startpoint.to_bytes(), expected);
    for bad in
        ["", "rsr:", "vrp=1", "rsr:vrp", "rsr:=1", "rsr:V=1", "rsr:v=1;id=x", "rsr:v=1;id", "rsr:v=%4", "rsr:v=%zz"]
    {
        assert!(matches!(bad.parse::<Startpoint>(), Err(Error::Malformed(_))), "{bad}");
    }
    let error = startpoint.via("qmp").unwrap_err();
    assert_eq!(
        error.to_string(),
        "no method leads to the endpoint: qmp: the startpoint does not list the method, but vrp, zcrp"
    );
}

/// A method that loses what the contract lets it, and lets tests see and send frames as they are.
#[derive(Clone, Default)]
struct Torn {
    sink: Arc<Mutex<Option<Sink>>>,
    parcels: Arc<Mutex<Vec<Parcel>>>,
}

impl Torn {
    fn deliver(&self, data: Vec<u8>, holes: Vec<Range<usize>>) {
        let sink = self.sink.lock().unwrap().clone().unwrap();
        let arrival = Arrival { data: Box::new(data), holes, source: "somewhere".to_owned() };
        sink.deliver(arrival, PATIENCE).unwrap();
    }
}

impl Method for Torn {
    fn name(&self) -> &str {
        "torn"
    }

    fn connect(&self, address: &str, options: &str) -> Result<Arc<dyn Outgoing>, Cause> {
        assert_eq!((address, options), ("here", "as=is"));
        Ok(Arc::new(self.clone()))
    }

    fn listen(&self, _: &str, sink: Sink) -> Result<Box<dyn Incoming>, Cause> {
        *self.sink.lock().unwrap() = Some(sink);
        Ok(Box::new(self.clone()))
    }
}

impl Incoming for Torn {
    fn address(&self) -> String {
        "here".to_owned()
    }

    fn options(&self) -> String {
        "as=is".to_owned()
    }

    fn close(&mut self) {}
}

impl Outgoing for Torn {
    fn send(&self, parcel: Parcel) -> Result<Box<dyn Pending>, Cause> {
        let mut bytes = parcel.bytes().to_vec();
        let critical = |at: &usize| parcel.contract().critical.iter().any(|range| range.contains(&(*at as u64)));
        let lost: Vec<_> = (0..bytes.len()).map(|at| !parcel.contract().is_reliable() && !critical(&at)).collect();
        let holes = holes_of(&lost);
        holes.iter().for_each(|hole| bytes[hole.clone()].fill(0));
        self.parcels.lock().unwrap().push(parcel);
        self.deliver(bytes, holes.clone());
        let lost = holes.into_iter().map(|hole| hole.start as u64..hole.end as u64).collect();
        Ok(Box::new(Lost(Sent { lost })))
    }
}

struct Lost(Sent);

impl Pending for Lost {
    fn wait(self: Box<Self>) -> Result<Sent, Cause> {
        Ok(self.0)
    }
}

fn torn() -> (Torn, Context) {
    let torn = Torn::default();
    (torn.clone(), Context::with_methods(vec![Arc::new(torn)]))
}

/// What handlers saw, in a channel.
fn tell<T: Send + 'static>(
    look: impl Fn(&Request) -> T + Send + Sync + 'static,
) -> (impl Fn(Request) + Send + Sync, Receiver<T>) {
    let (tell, told) = channel();
    let handler = move |request: Request| {
        let _ = tell.send(look(&request));
    };
    (handler, told)
}

#[test]
fn a_handler_is_told_the_holes() {
    let (torn, context) = torn();
    let (handler, told) = tell(|request| {
        let mut reader = request.reader();
        let values =
            (reader.get_u32(), reader.get_u32(), reader.get_u32_lossy(), reader.get_bytes_lossy().unwrap().holes);
        (values, reader.get_startpoint().is_ok(), request.holes().to_vec())
    });
    let endpoint = Endpoint::builder().context(&context).handler(5, handler).open().unwrap();
    let mut buffer = Buffer::new();
    buffer.allow_loss(50.0, 1000);
    buffer.critical(|buffer| {
        buffer.put_u32(1);
    });
    buffer.put_u32(2).put_u32(3).put_bytes(&[4; 5]).put_startpoint(endpoint.startpoint());
    let delivered = context.send(endpoint.startpoint(), 5, &mut buffer).unwrap();
    assert_eq!(delivered.lost(), [4..12, 16..21]);
    let lost = vec![0..5];
    let expected = ((Ok(1), Err(ReadError::Lost), Ok(None), lost), true, vec![4..12, 16..21]);
    assert_eq!(told.recv_timeout(PATIENCE).unwrap(), expected);
    let counters = endpoint.counters();
    assert_eq!((counters.requests_with_holes, counters.lost_bytes), (1, 13));
    // The header comes first, and its bytes are critical.
    let parcels = torn.parcels.lock().unwrap();
    assert_eq!(parcels[0].bytes()[..6], *b"RSR1\x00\x05");
    assert_eq!(parcels[0].contract().critical[0], 0..24);
}

#[test]
fn what_cannot_be_used_is_dropped_and_counted() {
    let (torn, context) = torn();
    let (handler, told) = tell(|request| request.payload().to_vec());
    let mut endpoint = Endpoint::builder().context(&context).handler(5, handler).open().unwrap();
    let frame = |flags: u16, length: u32, rest: &[u8]| {
        let mut frame = b"RSR1\x00\x05".to_vec();
        frame.extend_from_slice(&flags.to_be_bytes());
        frame.extend_from_slice(&length.to_be_bytes());
        frame.extend_from_slice(rest);
        frame
    };
    torn.deliver(Vec::new(), Vec::new());
    torn.deliver(b"GET / HTTP/1.1\r\n\r\n".to_vec(), Vec::new());
    torn.deliver(frame(0, 40, b"?"), Vec::new());
    // A part of the header was lost.
    torn.deliver(frame(0, 14, b"..payload"), vec![13..15]);
    torn.deliver(frame(4, 12, b""), Vec::new());
    let other = endpoint.startpoint().id().unwrap() ^ 1;
    torn.deliver(frame(2, 20, &other.to_be_bytes()), Vec::new());
    let mut buffer = Buffer::new();
    context.send(endpoint.startpoint(), 6, &mut buffer).unwrap();
    // The plain header will do.
    torn.deliver(frame(0, 14, b"..payload"), vec![20..900, 15..15]);
    assert_eq!(told.recv_timeout(PATIENCE).unwrap(), b"payload");
    endpoint.close();
    let counters = endpoint.counters();
    assert_eq!((counters.malformed_headers, counters.unsupported_flags, counters.other_endpoints), (4, 1, 1));
    assert_eq!((counters.unknown_handlers, counters.requests, counters.payload_bytes), (1, 1, 7));
    assert_eq!((counters.lost_bytes, counters.value("lost_bytes"), counters.value("luck")), (1, Some(1), None));
}

#[test]
fn a_panic_in_a_handler_does_not_take_the_endpoint_down() {
    let (handler, told) = tell(|request| request.method().to_owned());
    let mut endpoint = Endpoint::builder()
        .handler(1, |request| assert!(request.payload().is_empty(), "a handler that fails"))
        .listen("local", "")
        .open()
        .unwrap();
    endpoint.set_handler(2, handler);
    for _ in 0..3 {
        send_rsr(endpoint.startpoint(), 1, Buffer::new().put_u8(1)).unwrap();
    }
    send_rsr(endpoint.startpoint(), 2, &mut Buffer::new()).unwrap();
    assert_eq!(told.recv_timeout(PATIENCE).unwrap(), "local");
    assert_eq!(endpoint.counters().handler_panics, 3);
    endpoint.close();
    let error = send_rsr(endpoint.startpoint(), 2, &mut Buffer::new()).unwrap_err();
    assert!(error.to_string().contains("no such endpoint in this process"), "{error}");
}

fn most_at_a_time(threads: usize) -> usize {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let seen = most.clone();
    let mut endpoint = Endpoint::builder()
        .handler(1, move |_| {
            seen.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(30));
            now.fetch_sub(1, Ordering::SeqCst);
        })
        .listen("local", "")
        .threads(threads)
        .open()
        .unwrap();
    for _ in 0..8 {
        send_rsr(endpoint.startpoint(), 1, &mut Buffer::new()).unwrap();
    }
    // Waits for the handlers of what was taken.
    endpoint.close();
    assert_eq!(endpoint.counters().requests, 8);
    most.load(Ordering::SeqCst)
}

#[test]
fn one_handler_runs_at_a_time_unless_more_are_asked_for() {
    assert_eq!(most_at_a_time(1), 1);
    assert!((2..=4).contains(&most_at_a_time(4)));
}

fn over(method: &str) {
    over_of(method, Context::default);
}

fn over_of(method: &str, context_of: fn() -> Context) {
    let (handler, told) = tell(|request| (request.payload().to_vec(), request.reader().get_bytes().map(<[u8]>::len)));
    let context = context_of();
    let endpoint =
        Endpoint::builder().context(&context).handler(9, handler).listen(method, "127.0.0.1:0").open().unwrap();
    // Around the limits of one packet, of a head with its request, and large.
    for size in [0, 1, 100, 230, 1400, 4067, 4068, 4069, 65_000, 3_000_000] {
        let data: Vec<_> = (0..size).map(|index: u32| (index * 7 + size) as u8).collect();
        let mut buffer = Buffer::new();
        buffer.put_bytes(&data);
        let delivered = context.send(endpoint.startpoint(), 9, &mut buffer).unwrap();
        assert_eq!((delivered.way().method(), delivered.lost().len()), (method, 0));
        let (payload, len) = told.recv_timeout(PATIENCE).unwrap();
        assert!(payload == buffer.payload() && len == Ok(size as usize), "{size} bytes were altered");
    }
    // Many at once, from many threads; one context or many.
    std::thread::scope(|scope| {
        for thread in 0..4u32 {
            let context = if thread % 2 == 0 { context.clone() } else { context_of() };
            let startpoint = endpoint.startpoint();
            scope.spawn(move || {
                let mut buffer = Buffer::new();
                let begin = |index: u32| {
                    buffer.clear();
                    buffer.put_bytes(&vec![thread as u8; (index * 997 % 9000) as usize]);
                    context.begin(startpoint, 9, &mut buffer).unwrap()
                };
                let sendings: Vec<_> = (0..25).map(begin).collect();
                sendings.into_iter().for_each(|sending| drop(sending.wait().unwrap()));
            });
        }
    });
    let mut sizes: Vec<_> = (0..100).map(|_| told.recv_timeout(PATIENCE).unwrap().1.unwrap()).collect();
    sizes.sort_unstable();
    let mut expected: Vec<_> = (0..100).map(|index| index / 4 * 997 % 9000).collect();
    expected.sort_unstable();
    assert_eq!(sizes, expected);
    // A new endpoint at the old address is another one.
    let startpoint = endpoint.startpoint().clone();
    drop(endpoint);
    let (handler, told) = tell(|request| request.handler());
    let endpoint = Endpoint::builder()
        .context(&context)
        .handler(9, handler)
        .listen(method, startpoint.ways()[0].address())
        .open()
        .unwrap();
    let without_id = Startpoint::new(startpoint.ways().to_vec(), None).unwrap();
    let _ = context.send(&startpoint, 9, &mut Buffer::new());
    let before = Instant::now();
    // The old way may have to be found out to be of no use.
    while context.send(&without_id, 9, &mut Buffer::new()).is_err() {
        assert!(before.elapsed() < PATIENCE, "the new endpoint is not found");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(told.recv_timeout(PATIENCE).unwrap(), 9);
    assert!(endpoint.counters().requests >= 1);
}

#[test]
fn requests_travel_over_zcrp() {
    over("zcrp");
}

#[test]
fn requests_travel_over_vrp() {
    over("vrp");
}

#[test]
fn requests_travel_over_what_is_chosen() {
    over("pinnace");
}

/// A context whose requests travel by this method of the one interface.
fn by(forced: pinnace::service::Method, service: &str) -> Context {
    let mut unified = Unified { service: service.parse().unwrap(), ..Unified::default() };
    unified.options.selection.forced = Some(forced);
    Context::with_methods(vec![Arc::new(unified)])
}

#[test]
fn requests_travel_over_each_method_of_the_one_interface() {
    use pinnace::service::Method::{A1, Qmp, Vrp, Xtp, Zcrp};
    let contexts: [fn() -> Context; 5] = [
        || by(Xtp, "largest=8MiB"),
        || by(Zcrp, "largest=8MiB"),
        || by(Vrp, "loss=5% largest=8MiB"),
        || by(A1, "largest=8MiB"),
        || by(Qmp, "largest=8MiB"),
    ];
    std::thread::scope(|scope| {
        for context_of in contexts {
            scope.spawn(move || over_of("pinnace", context_of));
        }
    });
}

#[test]
fn best_effort_requests_travel_where_nothing_is_repeated() {
    use pinnace::service::Method::{A1, Xtp};
    for method in [Xtp, A1] {
        let context = by(method, "loss=any size=1KiB");
        let (tell, told) = channel();
        let endpoint = Endpoint::builder()
            .context(&context)
            .handler(1, move |request| tell.send(request.reader().get_u32()).unwrap())
            .listen("pinnace", "127.0.0.1:0")
            .open()
            .unwrap();
        context.send(endpoint.startpoint(), 1, Buffer::new().put_u32(7)).unwrap();
        assert_eq!(told.recv_timeout(Duration::from_secs(20)).unwrap(), Ok(7), "{method}");
    }
}

/// Passes datagrams on, from one sender to one receiver and back, and drops some of the large ones on their way there.
fn lossy_relay(target: SocketAddr) -> SocketAddr {
    let [near, far] = [0, 1].map(|_| UdpSocket::bind("127.0.0.1:0").unwrap());
    far.connect(target).unwrap();
    let address = near.local_addr().unwrap();
    let back = (near.try_clone().unwrap(), far.try_clone().unwrap());
    let sender = Arc::new(Mutex::new(None));
    let known = sender.clone();
    std::thread::spawn(move || {
        let (mut datagram, mut state) = ([0; 65_536], 1u32);
        while let Ok((len, source)) = near.recv_from(&mut datagram) {
            *known.lock().unwrap() = Some(source);
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            if len < 500 || state >> 24 >= 40 {
                let _ = far.send(&datagram[..len]);
            }
        }
    });
    std::thread::spawn(move || {
        let ((near, far), mut datagram) = (back, [0; 65_536]);
        while let Ok(len) = far.recv(&mut datagram) {
            let sender = *sender.lock().unwrap();
            let _ = near.send_to(&datagram[..len], sender.unwrap());
        }
    });
    address
}

#[test]
fn what_vrp_loses_is_what_the_buffer_lets_it_and_both_ends_know() {
    let (handler, told) = tell(|request| {
        let mut reader = request.reader();
        let first = reader.get_str().map(str::to_owned);
        let pixels = reader.get_u32_array_lossy().unwrap();
        (first, pixels, reader.get_u64(), request.holes().to_vec())
    });
    let endpoint = Endpoint::builder().handler(3, handler).listen("vrp", "127.0.0.1:0").open().unwrap();
    let relay = lossy_relay(endpoint.startpoint().ways()[0].address().parse().unwrap());
    let startpoint =
        Startpoint::new(vec![Way::new("vrp", &relay.to_string(), "").unwrap()], endpoint.startpoint().id()).unwrap();
    let options = vrp::Options { packet_bytes: Some(1000), ..vrp::Options::default() };
    let context = Context::with_methods(vec![Arc::new(Vrp { options })]);
    let pixels: Vec<u32> = (0..50_000).collect();
    let mut lost = 0;
    for _ in 0..5 {
        let mut buffer = Buffer::new();
        buffer.allow_loss(40.0, 20_000);
        buffer.critical(|buffer| {
            buffer.put_str("a picture");
        });
        buffer.put_u32_array(&pixels).critical(|buffer| {
            buffer.put_u64(99);
        });
        let delivered = context.send(&startpoint, 3, &mut buffer).unwrap();
        let (first, got, last, holes) = told.recv_timeout(PATIENCE).unwrap();
        assert_eq!((first.as_deref(), last), (Ok("a picture"), Ok(99)));
        let reported: Vec<_> = delivered.lost().iter().map(|hole| hole.start as usize..hole.end as usize).collect();
        assert_eq!(reported, holes);
        let missing: usize = got.holes.iter().map(ExactSizeIterator::len).sum();
        assert_eq!(got.values.len(), pixels.len());
        let is_lost = |index: usize| got.holes.iter().any(|hole| hole.contains(&index));
        assert!((0..pixels.len()).all(|index| is_lost(index) || got.values[index] == pixels[index]));
        lost += missing;
    }
    assert!(lost > 0, "one datagram in six was dropped");
    // Without leave nothing is lost.
    let mut buffer = Buffer::new();
    buffer.put_str("exact").put_u32_array(&pixels).put_u64(1);
    context.send(&startpoint, 3, &mut buffer).unwrap();
    let (first, got, last, holes) = told.recv_timeout(PATIENCE).unwrap();
    assert!(first.as_deref() == Ok("exact") && got.values == pixels && last == Ok(1) && holes.is_empty());
}

#[test]
fn a_request_that_is_too_large_for_one_method_takes_another() {
    let small = Zcrp { most_request_bytes: 10_000, ..Zcrp::default() };
    let context = Context::with_methods(vec![Arc::new(small), Arc::new(Local::default())]);
    let (handler, told) = tell(|request| request.method().to_owned());
    let endpoint = Endpoint::builder().context(&context).handler(1, handler).open().unwrap();
    for (size, method) in [(10, "zcrp"), (9_000, "zcrp"), (10_000, "local"), (10, "zcrp")] {
        context.send(endpoint.startpoint(), 1, Buffer::new().put_raw(&vec![0; size])).unwrap();
        assert_eq!(told.recv_timeout(PATIENCE).unwrap(), method);
    }
    let forced = endpoint.startpoint().via("zcrp").unwrap();
    let error = context.send(&forced, 1, Buffer::new().put_raw(&[0; 10_000])).unwrap_err();
    assert!(error.to_string().contains("takes at most 10000 bytes"), "{error}");
}

#[test]
fn the_method_is_chosen_or_forced_and_errors_name_all() {
    let (handler, told) = tell(|request| request.method().to_owned());
    let endpoint =
        Endpoint::builder().handler(1, handler).listen("zcrp", "127.0.0.1:0").listen("local", "").open().unwrap();
    let [zcrp, local] = endpoint.startpoint().ways() else { panic!("two ways") };
    let strange = Way::new("smoke", "a hill", "").unwrap();
    let elsewhere = Way::new("local", "elsewhere", "").unwrap();
    let id = endpoint.startpoint().id();
    let context = Context::default();
    let send = |ways: &[&Way]| {
        let startpoint = Startpoint::new(ways.iter().map(|way| (*way).clone()).collect(), id).unwrap();
        context.send(&startpoint, 1, &mut Buffer::new())
    };
    for (ways, method) in [
        (&[local, zcrp][..], "local"),
        (&[zcrp, local], "zcrp"),
        (&[&strange, &elsewhere, zcrp, local], "zcrp"),
        (&[&elsewhere, local], "local"),
    ] {
        assert_eq!(send(ways).unwrap().way().method(), method);
        assert_eq!(told.recv_timeout(PATIENCE).unwrap(), method);
    }
    let forced = endpoint.startpoint().via("local").unwrap();
    assert_eq!(context.choose(endpoint.startpoint()).unwrap(), zcrp);
    assert_eq!(context.choose(&forced).unwrap(), local);
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let nobody = Way::new("zcrp", &port.to_string(), "").unwrap();
    let error = send(&[&strange, &elsewhere, &nobody]).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, Error::Unreachable(_)), "{text}");
    let [strange, elsewhere, nobody] = error.attempts() else { panic!("{text}") };
    assert!(matches!(strange.obstacle, Obstacle::Unsupported) && text.contains("smoke=a hill: this process"), "{text}");
    assert!(matches!(elsewhere.obstacle, Obstacle::FailedBefore(_)), "{text}");
    assert!(matches!(nobody.obstacle, Obstacle::Failed(_)) && nobody.address == port.to_string(), "{text}");
}

#[test]
fn an_endpoint_does_not_wait_for_who_has_come_and_says_nothing() {
    let mut endpoint = Endpoint::builder().listen("zcrp", "127.0.0.1:0").open().unwrap();
    let stranger = TcpStream::connect(endpoint.startpoint().ways()[0].address()).unwrap();
    // For the thread that accepts; if that is not enough, there is nothing to wait for either.
    std::thread::sleep(Duration::from_millis(100));
    let begun = Instant::now();
    endpoint.close();
    assert!(begun.elapsed() < Duration::from_secs(4), "it took {:?}", begun.elapsed());
    drop(stranger);
}

#[test]
fn an_endpoint_says_why_it_cannot_listen() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let error = Endpoint::builder().listen("zcrp", &address).open().unwrap_err();
    assert!(matches!(error, Error::Listen(_)) && error.to_string().contains(&address), "{error}");
    let error = Endpoint::builder().listen("smoke", "").open().unwrap_err();
    assert_eq!(error.to_string(), "cannot listen: smoke: this process does not have the method");
}

const ECHO: u16 = 1;
const ECHOED: u16 = 2;
const CHILD: &str = "PINNACE_TEST_RSR_CHILD";

/// In the child: answers until it is killed.
fn serve(method: &str) {
    let endpoint = Endpoint::builder()
        .handler(ECHO, |request| {
            let mut reader = request.reader();
            let reply_to = reader.get_startpoint().unwrap();
            let bytes = reader.get_bytes().unwrap();
            send_rsr(&reply_to, ECHOED, Buffer::with_order(ByteOrder::Big).put_u64(7).put_bytes(bytes)).unwrap();
        })
        .listen("local", "")
        .listen(method, "127.0.0.1:0")
        .open()
        .unwrap();
    let mut line = endpoint.startpoint().to_string();
    line.insert(0, '\n');
    line.push('\n');
    std::io::Write::write_all(&mut std::io::stdout(), line.as_bytes()).unwrap();
    std::thread::sleep(Duration::from_secs(120));
}

/// `test` is the name of the test that calls it: the child runs that alone.
fn two_processes(method: &str, test: &str) {
    if let Ok(method) = std::env::var(CHILD) {
        return serve(&method);
    }
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(CHILD, method)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = lines.find(|line| line.as_ref().is_ok_and(|line| line.starts_with("rsr:"))).unwrap().unwrap();
    let server: Startpoint = line.parse().unwrap();
    let (handler, told) = tell(|request| {
        let mut reader = request.reader();
        (reader.get_u64(), reader.get_bytes().map(<[u8]>::to_vec), request.order())
    });
    let client =
        Endpoint::builder().handler(ECHOED, handler).listen("local", "").listen(method, "127.0.0.1:0").open().unwrap();
    for size in [0, 10, 10_000, 1_000_000] {
        let data: Vec<_> = (0..size).map(|index: u32| (index ^ size) as u8).collect();
        let mut buffer = Buffer::new();
        buffer.put_startpoint(client.startpoint()).put_bytes(&data);
        let delivered = send_rsr(&server, ECHO, &mut buffer).unwrap();
        assert_eq!(delivered.way().method(), method, "`local` leads nowhere");
        let (seven, echoed, order) = told.recv_timeout(PATIENCE).unwrap();
        assert_eq!((seven, order), (Ok(7), ByteOrder::Big));
        assert!(echoed == Ok(data), "{size} bytes were altered");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let before = Instant::now();
    let error = send_rsr(&server, ECHO, Buffer::new().put_u8(1)).unwrap_err();
    assert!(before.elapsed() < PATIENCE, "{:?}: {error}", before.elapsed());
    assert!(error.to_string().contains(method), "{error}");
}

#[test]
fn two_processes_over_vrp() {
    two_processes("vrp", "two_processes_over_vrp");
}

#[test]
fn two_processes_over_zcrp() {
    two_processes("zcrp", "two_processes_over_zcrp");
}

#[test]
fn two_processes_over_what_is_chosen() {
    two_processes("pinnace", "two_processes_over_what_is_chosen");
}
