//! What C knows of XTP: the two structures of the paper's appendices A and B, and the numbers beside them, as specs/xtp.md,
//! section 5, has them. `include/xtp.h` says the same in C, and the tests compare the two member by member.
#![allow(non_camel_case_types, reason = "the names are the paper's")]

use libc::{c_char, sockaddr_storage, timespec};

/// Two hosts and their ports: IPv4 in the first 4 bytes, ports in host order.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct adrseg {
    /// Bytes on the wire; not looked at.
    pub alen: u16,
    /// 1.
    pub adomain: u8,
    /// 1: IPv4, 6: IPv6.
    pub aformat: u8,
    /// Where the FIRST goes, or where we listen.
    pub dst: [u8; 16],
    /// Where it comes from.
    pub src: [u8; 16],
    /// The port that listens.
    pub dport: u16,
    /// The port that sends.
    pub sport: u16,
}

/// A stretch of the incoming stream, in a list.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct xtpspan {
    /// Its first byte.
    pub low: u64,
    /// One past its last byte.
    pub high: u64,
    /// The one behind it, or NULL.
    pub next: *mut xtpspan,
    /// The one before it, or NULL.
    pub prev: *mut xtpspan,
}

/// The control block (appendix B).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct xtpcbloc {
    /// Options of the stream, and how this end works.
    pub mode_flags: u32,
    /// Priority, lower first.
    pub sort_value: u32,
    /// What a receiver does of itself.
    pub listen_flags: u32,
    /// Which of the members below count.
    pub field_flags: u32,
    /// The paper's number.
    pub service: u8,
    /// Bytes behind `recv_buf`.
    pub rbufsize: u32,
    /// Bytes of output that are kept until they are acknowledged.
    pub wbufsize: u32,
    /// User bytes of a packet.
    pub maxdata: u32,
    /// How far the peer may be ahead.
    pub rwindow: u32,
    /// Expiries of WTIMER in a row.
    pub retry_count: u32,
    /// Bytes.
    pub input_burst: i64,
    /// Bytes a second.
    pub input_rate: i64,
    /// Bytes.
    pub output_burst: i64,
    /// Bytes a second.
    pub output_rate: i64,
    /// Milliseconds.
    pub ctimeout: u32,
    /// Milliseconds.
    pub ctimer: u32,
    /// Milliseconds.
    pub wtimer: u32,
    /// To whom, or where.
    pub address_segment: adrseg,
    /// Multicast.
    pub mc_drops: u16,
    /// Multicast.
    pub mc_sreqs: u16,
    /// Multicast.
    pub mc_rttgain: u16,
    /// Multicast.
    pub mc_rttvgain: u16,
    /// Of the DIAG that ended the association.
    pub code: u32,
    /// And its value.
    pub value: u32,
}

/// The context (appendix A).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct xtpctx {
    /// The application's ring.
    pub recv_buf: *mut c_char,
    /// Our newest sync.
    pub saved_sync: u32,
    /// The peer's.
    pub recv_sync: u32,
    /// Statuses carry our key.
    pub should_xkey: u32,
    /// Our key.
    pub my_key: u64,
    /// The peer's.
    pub rem_key: u64,
    /// Priority.
    pub sort: u32,
    /// One past the highest byte received.
    pub hseq: u64,
    /// The next byte in sequence to be received.
    pub rseq: u64,
    /// The next byte for the application: moved by it.
    pub dseq: u64,
    /// The first byte sent that is not acknowledged.
    pub bseq: u64,
    /// The last byte sent.
    pub last_sent: u64,
    /// The first byte being transmitted.
    pub xseq: u64,
    /// One past the last.
    pub lseq: u64,
    /// The number of the FIRST.
    pub first_seq: i64,
    /// Where both streams start.
    pub init_seq: u64,
    /// How many spans there are.
    pub nspans: u32,
    /// The first.
    pub span: *mut xtpspan,
    /// The control block.
    pub cbloc: *mut xtpcbloc,
    /// One of `XTP_QUIESCENT` to `XTP_ENDED`.
    pub cstate: i32,
    /// The socket.
    pub soc: i32,
    /// The peer.
    pub paddr: sockaddr_storage,
    /// When the first data came or went.
    pub t_start: timespec,
    /// When the last did.
    pub t_end: timespec,
}

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $value:expr;)*) => {
        $($(#[$doc])* pub const $name: $type = $value;)*

        /// All of them by name, to be compared with the header's.
        #[allow(dead_code, reason = "for the tests")]
        pub const NUMBERS: &[(&str, i64)] = &[$((stringify!($name), $name as i64)),*];
    };
}

numbers! {
    /// A reliable stream each way.
    XTP_CONNECTION: u8 = 1;
    /// A request and its response.
    XTP_TRANSACTION: u8 = 2;
    /// A message in one packet.
    XTP_UNACK_DGRAM: u8 = 3;
    /// A message in one packet, acknowledged.
    XTP_ACK_DGRAM: u8 = 4;
    /// A stream of which nothing is repeated.
    XTP_ISO_STREAM: u8 = 5;
    /// A stream into memory that was reserved for it.
    XTP_BULK_DATA: u8 = 6;

    /// Done.
    XTP_OK: i32 = 0;
    /// Done, and a message is complete.
    XTP_EOM: i32 = 1;
    /// Not now.
    XTP_AGAIN: i32 = 2;
    /// The peer's stream, or the association, has ended.
    XTP_CLOSED: i32 = 3;
    /// The peer refused, with a DIAG.
    XTP_REFUSED: i32 = 4;
    /// The peer does not answer, or gave up.
    XTP_ABANDONED: i32 = 5;

    /// Initialised.
    XTP_QUIESCENT: i32 = 0;
    /// Waits for a FIRST.
    XTP_LISTENING: i32 = 1;
    /// Packets go and come.
    XTP_ACTIVE: i32 = 2;
    /// The association has ended, late packets are answered.
    XTP_TIME_WAIT: i32 = 3;
    /// It has ended.
    XTP_ENDED: i32 = 4;

    /// The data are not summed.
    XTP_NOCHECK: u32 = 0x40_0000;
    /// Ignored.
    XTP_EDGE: u32 = 0x20_0000;
    /// Nothing is repeated.
    XTP_NOERR: u32 = 0x10_0000;
    /// Multicast.
    XTP_MULTI: u32 = 0x08_0000;
    /// The window is the receiver's reserved memory.
    XTP_RES: u32 = 0x04_0000;
    /// `sort_value` counts.
    XTP_SORT: u32 = 0x02_0000;
    /// The window does not count.
    XTP_NOFLOW: u32 = 0x01_0000;
    /// New gaps are reported unasked.
    XTP_FASTNAK: u32 = 0x00_8000;
    /// Asks for a status at once.
    XTP_SREQ: u32 = 0x00_4000;
    /// Asks for a status when the data have been delivered.
    XTP_DREQ: u32 = 0x00_2000;
    /// No more of the peer's stream is wanted.
    XTP_RCLOSE: u32 = 0x00_1000;
    /// Our stream ends.
    XTP_WCLOSE: u32 = 0x00_0800;
    /// A message ends.
    XTP_EOM_BIT: u32 = 0x00_0400;
    /// The association ends.
    XTP_END: u32 = 0x00_0200;
    /// A message begins, with eight bytes of the user's.
    XTP_BTAG: u32 = 0x00_0100;

    /// Go-back-N instead of selective retransmission.
    XTP_MODE_GO_BACK_N: u32 = 0x0100_0000;
    /// Packets as in revision 3.6.
    XTP_MODE_36: u32 = 0x0200_0000;
    /// The application alone decides when to ask.
    XTP_MODE_OWN_SREQ: u32 = 0x0400_0000;
    /// No congestion control: the paper's behaviour.
    XTP_MODE_FIXED: u32 = 0x0800_0000;
    /// A listener refuses who would send faster than `input_rate`.
    XTP_MODE_BINDING: u32 = 0x1000_0000;

    /// `service` counts.
    XTP_FIELD_SERVICE: u32 = 1;
    /// `rbufsize` counts.
    XTP_FIELD_RBUFSIZE: u32 = 1 << 1;
    /// `wbufsize` counts.
    XTP_FIELD_WBUFSIZE: u32 = 1 << 2;
    /// `maxdata` counts.
    XTP_FIELD_MAXDATA: u32 = 1 << 3;
    /// `rwindow` counts.
    XTP_FIELD_RWINDOW: u32 = 1 << 4;
    /// `retry_count` counts.
    XTP_FIELD_RETRY_COUNT: u32 = 1 << 5;
    /// `input_burst` and `input_rate` count.
    XTP_FIELD_INPUT: u32 = 1 << 6;
    /// `output_burst` and `output_rate` count.
    XTP_FIELD_OUTPUT: u32 = 1 << 7;
    /// `ctimeout` counts.
    XTP_FIELD_CTIMEOUT: u32 = 1 << 8;
    /// `ctimer` counts.
    XTP_FIELD_CTIMER: u32 = 1 << 9;
    /// `wtimer` counts.
    XTP_FIELD_WTIMER: u32 = 1 << 10;
    /// `address_segment` counts.
    XTP_FIELD_ADDRESS: u32 = 1 << 11;
    /// The four of multicast count.
    XTP_FIELD_MULTICAST: u32 = 1 << 12;
    /// All of them count.
    XTP_FIELD_ALL: u32 = 0x1fff;
}
