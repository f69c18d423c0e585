//! Where in the file what lies. All of it is words of 64 bits, in the byte order of the host.
//!
//! | words of the header | |
//! |---|---|
//! | 0 | [`MAGIC`], which also tells the byte order |
//! | 1 | bytes of a row |
//! | 2 | rows there is room for |
//! | 3 | rows from the first to the last that was ever used |
//! | 4 | process number |
//! | 5 | when the process began, in the kernel's ticks |
//! | 6 | when the file was made, in milliseconds since 1970 |
//! | 7 | rows that found no room |
//! | 8 | bytes of the name of the program, which begins in word 9 |
//!
//! | words of a row | |
//! |---|---|
//! | 0 | odd while the row is being changed, and another number afterwards |
//! | 1 | [`Kind`]; 0 if the row is free |
//! | 2 | whether somebody has taken the row |
//! | 3 | since when, in milliseconds since 1970 |
//! | 4 | whether it is open (1) or closing (2) |
//! | 5 | bytes of the four labels, 16 bits each |
//! | 8 to 23 | [`Numbers`], in their order |
//! | 24 to 95 | the labels, each in a place of its own |

pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"PINNACE1");

pub(super) const HEADER_WORDS: usize = 64;
pub(super) const ROW_WORDS: usize = 96;
pub(super) const ROWS: usize = 256;
pub(super) const FILE_BYTES: usize = (HEADER_WORDS + ROWS * ROW_WORDS) * 8;

/// Words of the header.
pub(super) mod header {
    pub(crate) const MAGIC: usize = 0;
    pub(crate) const ROW_BYTES: usize = 1;
    pub(crate) const ROWS: usize = 2;
    pub(crate) const USED: usize = 3;
    pub(crate) const PID: usize = 4;
    pub(crate) const BEGUN_TICKS: usize = 5;
    pub(crate) const SINCE_MS: usize = 6;
    pub(crate) const MISSING: usize = 7;
    pub(crate) const NAME_BYTES: usize = 8;
    pub(crate) const NAME: usize = 9;
}

/// Words of a row.
pub(super) mod row {
    pub(crate) const SEQUENCE: usize = 0;
    pub(crate) const KIND: usize = 1;
    pub(crate) const TAKEN: usize = 2;
    pub(crate) const SINCE_MS: usize = 3;
    pub(crate) const STATE: usize = 4;
    pub(crate) const LENGTHS: usize = 5;
    pub(crate) const NUMBERS: usize = 8;
}

/// Bytes of the name of a program.
pub(super) const NAME_BYTES: usize = 64;
/// Where each label begins, and the most bytes of it.
pub(super) const LABELS: [(usize, usize); 4] = [(24, 16), (26, 64), (34, 64), (42, 432)];

/// What a row is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An endpoint that drives an engine: a socket. Bytes are those of datagrams.
    Socket,
    /// A connection of the application. Bytes are those of its messages.
    Connection,
}

impl Kind {
    pub(super) fn number(self) -> u64 {
        match self {
            Self::Socket => 1,
            Self::Connection => 2,
        }
    }

    pub(super) fn of(number: u64) -> Option<Self> {
        match number {
            1 => Some(Self::Socket),
            2 => Some(Self::Connection),
            _ => None,
        }
    }
}

pinnace_core::counters! {
    /// The numbers of a row; all but the round trip only grow.
    pub struct Numbers {
        /// Messages that were sent.
        messages_sent,
        /// Bytes that were sent.
        bytes_sent,
        /// Datagrams that were sent.
        datagrams_sent,
        /// Messages that were received.
        messages_received,
        /// Bytes that were received.
        bytes_received,
        /// Datagrams that were received.
        datagrams_received,
        /// What was lost for good, with permission: packets of a socket, bytes of a connection.
        lost,
        /// Packets that were sent again.
        repeated,
        /// The round trip, in nanoseconds; 0 if it is not known.
        round_trip_ns,
    }
}

impl Numbers {
    /// In the order of the file.
    pub(super) fn of(mut word: impl FnMut(usize) -> u64) -> Self {
        Self {
            messages_sent: word(0),
            bytes_sent: word(1),
            datagrams_sent: word(2),
            messages_received: word(3),
            bytes_received: word(4),
            datagrams_received: word(5),
            lost: word(6),
            repeated: word(7),
            round_trip_ns: word(8),
        }
    }
}

/// The beginning of a text that fits into so many bytes.
pub(super) fn beginning(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}
