//! What becomes of a rate when its timers fire late.
mod half;

use core::time::Duration;
use half::Half;
use half::liar::Liar;
use pinnace_a1::{Address as Name, Config, Event, Output, Qos};
use pinnace_core::{Address, ControllerKind, Time};
use pinnace_wire::a1::Kind;

const PEER: Address = Address::Node(1);
const PORT: u32 = 7;
const BLOCK: u32 = 1000;
const AVERAGE: u64 = 1_000_000;
/// What a block takes at that rate.
const TURN: Duration = Duration::from_millis(1);

/// When blocks leave under `burst`, if every timer fires so much too late.
fn departures(burst: u32, late: Duration) -> Vec<Time> {
    let qos = Qos {
        has_retransmission: true,
        block_size: BLOCK,
        send_average: AVERAGE,
        send_burst: burst,
        largest_sent: 100 * BLOCK,
        largest_received: 100 * BLOCK,
        outstanding: 4,
        ..Qos::default()
    };
    let mut half = Half::new(Config {
        max_qos: qos,
        local: Name { host: 0, port: PORT },
        congestion: ControllerKind::Fixed { window: 1 << 20 },
        ..Config::default()
    });
    half.call(|engine, _| engine.listen(1, false)).expect("nobody listens");
    let mut liar = Liar::new(PEER, 3, qos);
    liar.connect(&mut half, PORT);
    half.feed(PEER, &liar.lie(Kind::Sync).bytes());
    let mut events = half.events.iter();
    let id = events.find_map(|it| if let Event::Accepted { connection, .. } = it { Some(*connection) } else { None });
    let buffer = half.memory.add(vec![1; 100 * BLOCK as usize]);
    half.call(|engine, now| engine.send(now, id.expect("a connection"), Output::new(buffer, 100 * u64::from(BLOCK))))
        .expect("room");
    let mut left = Vec::new();
    loop {
        left.extend(half.take().iter().filter(|got| got.kind() == Kind::Data).map(|_| half.now));
        if left.len() >= 100 {
            return left;
        }
        half.now = half.next_timer().expect("blocks wait") + late;
        let now = half.now;
        half.engine.handle_timeout(now);
        half.drain();
    }
}

/// No two blocks are closer than a burst of one block lets them be, so what such a burst loses to a late timer is lost: the
/// average is as exact as the timers are. Larger bursts make up for it.
//= A-11 test
#[test]
fn a_burst_of_two_blocks_makes_up_for_late_timers_and_one_of_a_single_block_cannot() {
    for late in [Duration::ZERO, TURN / 100, TURN / 2] {
        let left = departures(BLOCK, late);
        assert!(left.windows(2).all(|pair| pair[1].since(pair[0]) >= TURN), "never more than the burst");
        let took = left[99].since(left[0]);
        assert!((TURN * 99..=(TURN + late) * 99).contains(&took), "{took:?}");
        let left = departures(2 * BLOCK, late);
        assert!(left.windows(3).all(|three| three[2].since(three[0]) >= TURN), "never more than the burst");
        let took = left[99].since(left[0]);
        assert!((TURN * 98..=TURN * 98 + late).contains(&took), "{took:?}");
    }
}
