//! The numbers of `qmp_getsockopt` and `qmp_setsockopt`, as C has them.

/// The level of QMP's own options; SOL_SOCKET has those of every socket.
pub const SOL_QMP: i32 = 0x514d50;
/// int: of so many consecutive packets with data one asks for the receiver's status; 1 to 65536, 16 by default. Set it before
/// qmp_bind and qmp_connect.
pub const QMP_STATUS_EVERY: i32 = 1;
/// int: bytes that the peer may send ahead of you, and that you may have queued to it; 65536 to 1 GiB. By default chosen for
/// the path. Set it before qmp_bind and qmp_connect. SO_RCVBUF is the same.
pub const QMP_WINDOW: i32 = 2;
/// int: what carries the packets, one of QMP_LINK_UDP to QMP_LINK_SHM. Set it before qmp_bind and qmp_connect; of a connected
/// socket it says what does.
pub const QMP_LINK: i32 = 3;
/// int: not 0: repeat everything from the first lost byte on, instead of what is lost. Set it before qmp_bind and
/// qmp_connect.
pub const QMP_GO_BACK_N: i32 = 4;
/// int, to be read only: where the socket stands, one of QMP_QUIESCENT to QMP_INACTIVE.
pub const QMP_STATE: i32 = 5;
/// int: milliseconds for which a peer may be silent before it is given up; 0: as the library thinks. Set it before qmp_bind
/// and qmp_connect.
pub const QMP_PEER_TIMEOUT: i32 = 6;
/// int: not 0: a peer on this host is reached through shared memory where both have the same daemon, and QMP_LINK_UDP is set.
/// The default. Set it before qmp_bind and qmp_connect.
pub const QMP_SAME_HOST: i32 = 7;
/// int: a number of qb_open (qbuf.h): where buffers for qb_write and qb_read lie, and what arrives; -1 if it was not set. Set it
/// before qmp_bind and qmp_connect; sockets that are accepted have that of their listener. The pool stays, also when its number is
/// closed. (A connection through the daemon's shared memory uses the daemon's pool: allocate with the socket's number.)
pub const QMP_POOL: i32 = 8;

/// UDP: the default.
pub const QMP_LINK_UDP: i32 = 0;
/// IP protocol 36: needs CAP_NET_RAW.
pub const QMP_LINK_IP36: i32 = 1;
/// Ethernet frames: needs CAP_NET_RAW.
pub const QMP_LINK_ETHER: i32 = 2;
/// Memory shared with processes of this host, through the daemon, and nothing else.
pub const QMP_LINK_SHM: i32 = 3;

/// Nothing was begun, or it is over.
pub const QMP_QUIESCENT: i32 = 0;
/// It waits for others.
pub const QMP_LISTENING: i32 = 1;
/// At least one of the two streams is open.
pub const QMP_ACTIVE: i32 = 2;
/// Both streams are closed, and the end has not passed.
pub const QMP_INACTIVE: i32 = 3;
