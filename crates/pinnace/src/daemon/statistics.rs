//! What a daemon tells of itself.

use pinnace_qbuf::Stats;

/// A daemon, counted. Names are the same everywhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// The daemon and its pool.
    pub totals: Totals,
    /// Its clients.
    pub clients: Vec<ClientStatistics>,
}

macro_rules! fields {
    ($(#[$meta:meta])* $name:ident { $($(#[$field_meta:meta])* $field:ident,)* } $(pool { $($pool:ident,)* })?) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct $name {
            $($(#[$field_meta])* pub $field: u64,)*
            $(
                /// The pool; what happened to "this client" in it happened to the daemon.
                pub pool: fields!(@stats $($pool)*),
            )?
        }

        impl $name {
            pub(super) const FIELDS: usize = [$(stringify!($field),)* $($(stringify!($pool),)*)?].len();

            pub(super) fn fields(&self) -> [u64; Self::FIELDS] {
                [$(self.$field,)* $($(self.pool.$pool,)*)?]
            }

            fields!(@of $name { $($field,)* } $(pool { $($pool,)* })?);
        }
    };
    (@stats $($pool:ident)*) => { Stats };
    (@of $name:ident { $($field:ident,)* } pool { $($pool:ident,)* }) => {
        /// `pool` is filled in: nobody else can make one.
        pub(super) fn of(fields: [u64; Self::FIELDS], mut pool: Stats) -> Self {
            let [$($field,)* $($pool,)*] = fields;
            $(pool.$pool = $pool;)*
            Self { $($field,)* pool }
        }
    };
    (@of $name:ident { $($field:ident,)* }) => {
        pub(super) fn of(fields: [u64; Self::FIELDS]) -> Self {
            let [$($field,)*] = fields;
            Self { $($field,)* }
        }
    };
}

fields! {
    /// A daemon and its pool.
    Totals {
        /// Its process.
        pid,
        /// Seconds since it began.
        uptime_seconds,
        /// Addresses that its clients listen at.
        listeners,
        /// Channels that are open.
        channels,
        /// Channels that it has made.
        connected,
        /// Clients that it has turned away: without the right, of another namespace, too many.
        refused_clients,
        /// Clients that it has dropped for what they said, or did not read, or for having too much of the pool.
        dropped_clients,
        /// Clients that died.
        dead_clients,
    }
    pool {
        zones, block_bytes, blocks, free_blocks, user_blocks, engine_blocks, transit_blocks, deferred_blocks,
        hidden_blocks, locked_zones, clients, failed_allocs, busy_zones, deferred_frees, lost_races, corrupt_words,
        swept_clients, swept_blocks, broken_locks, repaired_bits,
    }
}

fields! {
    /// A client of a daemon.
    ClientStatistics {
        /// Its number; a daemon gives none twice.
        number,
        /// Its process, 0 if the daemon cannot see it.
        pid,
        /// The user that it runs as.
        uid,
        /// Seconds since it came.
        age_seconds,
        /// Addresses that it listens at.
        listeners,
        /// Channels that it has.
        channels,
        /// Blocks of the pool that it has.
        held_blocks,
        /// Blocks of the pool that are on their way to it.
        incoming_blocks,
    }
}
