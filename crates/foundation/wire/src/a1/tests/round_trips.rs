//! Anything that can be written is read as it was meant, and anything that can be read is written alike.

use super::*;
use core::net::SocketAddrV4;
use proptest::prelude::*;

fn any_header() -> impl Strategy<Value = Header> {
    (1u32.., any::<[u32; 3]>(), any::<[bool; 2]>()).prop_map(|(connection, [sequence, edge, stamp], flags)| Header {
        connection: NonZeroU32::new(connection).unwrap(),
        sequence,
        edge,
        stamp,
        is_checked: flags[0],
        is_retransmitted: flags[1],
    })
}

fn any_qos() -> impl Strategy<Value = Qos> {
    (any::<[bool; 2]>(), any::<u8>(), any::<[u64; 2]>(), any::<[u32; 7]>()).prop_map(
        |([has_checksum, has_retransmission], priority, [send_average, receive_average], numbers)| {
            let [block_size, send_burst, receive_burst, largest_sent, largest_received, outstanding, deadline] =
                numbers;
            Qos {
                has_checksum,
                has_retransmission,
                priority,
                block_size,
                send_average,
                send_burst,
                receive_average,
                receive_burst,
                largest_sent,
                largest_received,
                outstanding,
                deadline,
            }
        },
    )
}

fn any_cookie() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), COOKIE_BYTES)
}

fn any_group() -> impl Strategy<Value = Group> {
    (1u32.., 0xe000_0000u32..0xf000_0000, 1u16..).prop_map(|(identifier, host, port)| {
        Group::new(NonZeroU32::new(identifier).unwrap(), SocketAddrV4::new(host.into(), port)).unwrap()
    })
}

/// Ranges that rise from a sequence, given as distances between their ends.
fn ranges_from(sequence: u32, gaps: &[(u32, u32)]) -> Vec<(u32, u32)> {
    let mut at = sequence;
    let next = |(gap, len)| {
        let low = at.wrapping_add(gap);
        at = low.wrapping_add(len);
        (low, at)
    };
    gaps.iter().copied().map(next).collect()
}

/// Holds what was written against what it should say.
fn check(datagram: &[u8], header: &Header, body: &Body<'_>) -> Result<(), TestCaseError> {
    let Some((head, found)) = read(datagram) else {
        return Err(TestCaseError::fail(format!("{body:?} is not read")));
    };
    prop_assert_eq!(&head.header, header);
    prop_assert_eq!(&found, body);
    Ok(())
}

proptest! {
    #[test]
    fn an_open_that_is_written_is_read(
        header in any_header(),
        addresses in any::<[u64; 2]>(),
        qos in any_qos(),
        cookie in prop::option::of(any_cookie()),
        group in prop::option::of(any_group()),
    ) {
        let header = Header { is_checked: true, ..header };
        let [destination, source] = addresses.map(Address::from_bits);
        let cookie = cookie.as_deref().map(|cookie| Cookie::new(cookie).unwrap());
        let body = Body::Open(Open { destination, source, qos, cookie, group });
        check(&write(&header, &body, &[]), &header, &body)?;
    }

    #[test]
    fn an_accept_that_is_written_is_read(
        header in any_header(),
        addresses in any::<[u64; 2]>(),
        identifier in 1u32..,
        qos in any_qos(),
        has_joined in any::<bool>(),
    ) {
        let header = Header { is_checked: qos.has_checksum, ..header };
        let [destination, source] = addresses.map(Address::from_bits);
        let identifier = NonZeroU32::new(identifier).unwrap();
        let body = Body::Accept(Accept { destination, source, identifier, qos, has_joined });
        check(&write(&header, &body, &[]), &header, &body)?;
    }

    #[test]
    fn a_reject_that_is_written_is_read(
        header in any_header(),
        code in 1u16..7,
        text in any::<String>(),
        cookie in any_cookie(),
    ) {
        let header = Header { sequence: 0, edge: 0, is_checked: true, ..header };
        let body = Body::Reject(match RejectCode::from_wire(code) {
            Some(code) => Reject::Refused { code, text: &text },
            None => Reject::Cookie(Cookie::new(&cookie).unwrap()),
        });
        check(&write(&header, &body, &[]), &header, &body)?;
    }

    #[test]
    fn data_that_are_written_are_read(
        header in any_header(),
        message in any::<u32>(),
        count in 1u16..,
        index in any::<prop::sample::Index>(),
        flags in any::<[bool; 2]>(),
        data in prop::collection::vec(any::<u8>(), 1..100),
    ) {
        let block = Block::new(message, index.index(count.into()) as u16, count).unwrap();
        let [is_reliable, is_group] = flags;
        let block = block.reliable(is_reliable).to_group(is_group);
        let header = match is_group {
            true => Header { edge: 0, is_retransmitted: false, ..header },
            false => header,
        };
        let datagram = write(&header, &Body::Data(block), &data);
        check(&datagram, &header, &Body::Data(block))?;
        prop_assert_eq!(&datagram[HEADER_BYTES..], &data);
    }

    #[test]
    fn lists_that_are_written_are_read(
        header in any_header(),
        gaps in prop::collection::vec((1..1u32 << 24, 1..1u32 << 24), 1..50),
    ) {
        let ranges = ranges_from(header.sequence, &gaps);
        let ranges = Ranges::from_slice(&ranges);
        for body in [Body::Ack(ranges), Body::Nack(ranges), Body::Ack(Ranges::EMPTY), Body::Nack(Ranges::EMPTY)] {
            check(&write(&header, &body, &[]), &header, &body)?;
        }
    }

    #[test]
    fn other_control_datagrams_that_are_written_are_read(header in any_header(), epoch in any::<u32>(), qos in any_qos()) {
        let codes = [CloseCode::Normal, CloseCode::Aborted];
        for body in [Body::Sync, Body::SyncReply].into_iter().chain(codes.map(Body::Close)).chain(codes.map(Body::CloseReply)) {
            check(&write(&header, &body, &[]), &header, &body)?;
        }
        let header = Header { is_checked: qos.has_checksum, ..header };
        let change = Change { epoch, qos };
        for body in [Body::Qos(change), Body::QosReply(change)] {
            check(&write(&header, &body, &[]), &header, &body)?;
        }
    }

    #[test]
    fn what_is_read_of_any_bytes_can_be_said_again(
        number in 1u8..13,
        flags in 0u8..64,
        mut datagram in prop::collection::vec(any::<u8>(), HEADER_BYTES..200),
    ) {
        let length = datagram.len() - HEADER_BYTES;
        datagram[..2].copy_from_slice(&[number, flags]);
        datagram[12..20].fill(0);
        datagram[28..32].copy_from_slice(&(length as u32).to_be_bytes());
        datagram[CHECK_AT..CHECK_AT + 2].fill(0);
        seal(&mut datagram);
        if let Some((head, body)) = read(&datagram) {
            prop_assert_eq!(write(&head.header, &body, &datagram[HEADER_BYTES..]), datagram);
        }
    }
}
