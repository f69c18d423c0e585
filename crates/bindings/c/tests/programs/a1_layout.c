/* Types, members and functions are those of the specification (section 3); compiled as C and as C++. */
#include "a1.h"

#include <stdio.h>

#ifdef __cplusplus
#define SAME(what) static_assert(what, #what)
#else
#define SAME(what) _Static_assert(what, #what)
#endif

struct specified_qos { uint16_t options; uint8_t priority, reserved; uint32_t block_size; uint64_t send_average; uint32_t send_burst; uint64_t receive_average; uint32_t receive_burst, largest_sent, largest_received, outstanding, deadline_us; };
struct specified_buffer { void *base; size_t size; void *data; size_t len; void (*free_fn)(struct a1_buffer *); };

#define MEMBER(name, member)                                                              \
    SAME(offsetof(struct a1_##name, member) == offsetof(struct specified_##name, member)); \
    SAME(sizeof(((struct a1_##name *)0)->member) == sizeof(((struct specified_##name *)0)->member))

SAME(sizeof(struct a1_qos) == sizeof(struct specified_qos));
MEMBER(qos, options);
MEMBER(qos, priority);
MEMBER(qos, reserved);
MEMBER(qos, block_size);
MEMBER(qos, send_average);
MEMBER(qos, send_burst);
MEMBER(qos, receive_average);
MEMBER(qos, receive_burst);
MEMBER(qos, largest_sent);
MEMBER(qos, largest_received);
MEMBER(qos, outstanding);
MEMBER(qos, deadline_us);
SAME(sizeof(struct a1_buffer) == sizeof(struct specified_buffer));
MEMBER(buffer, base);
MEMBER(buffer, size);
MEMBER(buffer, data);
MEMBER(buffer, len);
MEMBER(buffer, free_fn);
SAME(A1_DONTWAIT == 1);
SAME(A1_CHECKSUM == 1);
SAME(A1_RETRANSMISSION == 2);
/* Bit n has the value 2^n. */
SAME(A1_START == 1 << 0);
SAME(A1_END == 1 << 1);
SAME(A1_PEER_CLOSED == 1 << 2);
SAME(A1_ABORTED == 1 << 3);
SAME(A1_WINDOW_FULL == 1 << 4);
SAME(A1_RATE_EXCEEDED == 1 << 5);
SAME(A1_QOS_PENDING == 1 << 6);
SAME(A1_QOS_CHANGED == 1 << 7);
SAME(A1_LOST == 1 << 8);

static int (*volatile socket_)(void) = a1_socket;
static int (*volatile bind_)(int, uint64_t, const struct a1_qos *) = a1_bind;
static int (*volatile set_link_)(int, uint64_t, uint32_t) = a1_set_link;
static int (*volatile name_)(int, uint64_t *) = a1_name;
static int (*volatile listen_)(int, int) = a1_listen;
static int (*volatile accept_)(int, uint64_t *, int, uint32_t *) = a1_accept;
static int (*volatile add_sink_)(int, uint64_t, const struct a1_qos *, uint32_t *) = a1_add_sink;
static int (*volatile remove_sink_)(int, uint64_t) = a1_remove_sink;
static ssize_t (*volatile send_)(int, const void *, size_t, int, uint32_t *) = a1_send;
static ssize_t (*volatile recv_)(int, void *, size_t, int, uint32_t *) = a1_recv;
static ssize_t (*volatile recv_buffer_)(int, struct a1_buffer **, int, uint32_t *) = a1_recv_buffer;
static void (*volatile free_buffer_)(struct a1_buffer *) = a1_free_buffer;
static int (*volatile setqos_)(int, const struct a1_qos *, uint32_t *) = a1_setqos;
static int (*volatile getqos_)(int, struct a1_qos *) = a1_getqos;
static int (*volatile rtt_)(int, uint32_t *) = a1_rtt;
static int (*volatile map_host_)(uint32_t, const struct sockaddr_in6 *) = a1_map_host;
static int (*volatile close_)(int, uint32_t) = a1_close;
static int (*volatile fd_)(int) = a1_fd;

int main(void) {
    int all = socket_ && bind_ && set_link_ && name_ && listen_ && accept_ && add_sink_ && remove_sink_ && send_ && recv_;
    all = all && recv_buffer_ && free_buffer_ && setqos_ && getqos_ && rtt_ && map_host_ && close_ && fd_;
    puts(all ? "as the specification has it" : "no");
    return 0;
}
