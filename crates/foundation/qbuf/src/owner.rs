//! Who has a block: one 64-bit word for each, the truth that everything else (bitmaps, locks) can be rebuilt from.
//!
//! A word that is not 0 stands at the first block of a run and says how many blocks the run has; how it passes on costs
//! the same for 1 block and for 32. Words come from shared memory, so reading one is total: what makes no sense is
//! [`Kind::Free`]'s opposite, never a panic.
//!
//! | bits | owned: user, raw, engine, deferred, claim, freeing, body | in transit |
//! |---|---|---|
//! | 0-3 | kind | kind |
//! | 4-9 | blocks of the run (1 to 32) | blocks of the run |
//! | 10-19 | slot of the owner | slot of the receiver |
//! | 20-31 | generation of that slot | generation of that slot |
//! | 32-41 | 0 | slot of the sender |
//! | 42-63 | 0 | channel |

use crate::layout::BLOCKS;

/// Clients a pool can have at a time.
pub const MAX_CLIENTS: usize = 1 << SLOT_BITS;

const SLOT_BITS: u32 = 10;
const GENERATION_BITS: u32 = 12;
const CHANNEL_BITS: u32 = 22;

/// A client of a pool: its slot in the control structure, and which of the slot's successive clients it is.
///
/// ```
/// use pinnace_qbuf::{Pool, PoolOptions, ClientId};
/// let pool = Pool::create(&PoolOptions::default()).unwrap();
/// let me = pool.client();
/// assert_eq!((me.slot(), ClientId::from_bits(me.to_bits())), (0, me));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientId(u32);

impl ClientId {
    pub(crate) fn new(slot: u16, generation: u16) -> Self {
        Self::from_bits(u32::from(slot) | u32::from(generation) << SLOT_BITS)
    }

    /// The slot in the control structure, below [`MAX_CLIENTS`].
    pub fn slot(self) -> u16 {
        (self.0 & mask(SLOT_BITS)) as u16
    }

    /// Which of the slot's successive clients this is, modulo 4096.
    pub fn generation(self) -> u16 {
        (self.0 >> SLOT_BITS) as u16
    }

    /// As 22 bits, to tell another process.
    pub fn to_bits(self) -> u32 {
        self.0
    }

    /// The opposite of [`to_bits`](Self::to_bits); what lies above 22 bits is ignored.
    pub fn from_bits(bits: u32) -> Self {
        Self(bits & mask(SLOT_BITS + GENERATION_BITS))
    }
}

/// Which side of a process has a qbuf (B-6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The application.
    User,
    /// The transport, until the last packet that uses the qbuf is acknowledged.
    Engine,
}

/// A passage between two clients of a pool: which channel, from whom, to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transit {
    /// The number of the channel, unique in the pool while the channel lives, below 2^22 (what lies above is cut off).
    pub channel: u32,
    /// Who sends.
    pub from: ClientId,
    /// Who receives.
    pub to: ClientId,
}

/// What names a qbuf that is under way: it fits in a slot of a ring, and is checked by [`Pool::take`](crate::Pool::take).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed {
    /// The first block, counted over the whole pool.
    pub block: u32,
    /// Bytes used.
    pub len: u32,
}

/// What the word of a block says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Kind {
    /// Nobody has it, or it is not the first of its run (variant with locks).
    Free = 0,
    /// A `Qbuf` of the application.
    User = 1,
    /// A pointer of the application.
    Raw = 2,
    /// A `Qbuf` of the transport.
    Engine = 3,
    /// On its way through a channel.
    Transit = 4,
    /// To be freed by whoever locks the zone next (B-5).
    Deferred = 5,
    /// Not the first of its run (lock-free variant).
    Body = 6,
    /// The first of a run that is being allocated (lock-free variant).
    Claim = 7,
    /// The first of a run that is being freed (lock-free variant).
    Freeing = 8,
}

/// The word of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word(pub(crate) u64);

impl Word {
    pub(crate) const FREE: Self = Self(0);

    pub(crate) fn owned(kind: Kind, blocks: u32, owner: ClientId) -> Self {
        Self(kind as u64 | u64::from(blocks & 63) << 4 | u64::from(owner.to_bits()) << 10)
    }

    pub(crate) fn in_transit(blocks: u32, transit: Transit) -> Self {
        Self(
            Self::owned(Kind::Transit, blocks, transit.to).0
                | u64::from(transit.from.slot()) << 32
                | u64::from(transit.channel & mask(CHANNEL_BITS)) << 42,
        )
    }

    /// `None`: no word that we write.
    pub(crate) fn kind(self) -> Option<Kind> {
        Some(match self.0 & 15 {
            0 if self.0 == 0 => Kind::Free,
            1 => Kind::User,
            2 => Kind::Raw,
            3 => Kind::Engine,
            4 => Kind::Transit,
            5 => Kind::Deferred,
            6 => Kind::Body,
            7 => Kind::Claim,
            8 => Kind::Freeing,
            _ => return None,
        })
    }

    /// Blocks of the run that starts at block `first` of a zone, never past the zone's end.
    pub(crate) fn blocks(self, first: u32) -> u32 {
        ((self.0 >> 4 & 63) as u32).clamp(1, (BLOCKS as u32).saturating_sub(first).max(1))
    }

    /// The owner, or the receiver.
    pub(crate) fn client(self) -> ClientId {
        ClientId::from_bits((self.0 >> 10) as u32)
    }
}

fn mask(bits: u32) -> u32 {
    (1 << bits) - 1
}
