/* Messages that are too long, or longer than there is memory for, are refused at once: nothing of them is copied before. */
#include "a1_common.h"

#include "huge.h"

#define LARGEST ((size_t)1 << 30)

static void one_way(int from, int to, const void *data) {
    static char small[100];
    IS(a1_send(from, data, (size_t)1 << 42, 0, NULL), -EMSGSIZE);
    IS(a1_send(from, data, LARGEST + 1, A1_DONTWAIT, NULL), -EMSGSIZE);
    IS(a1_send(from, data, LARGEST, 0, NULL), -ENOMEM);
    /* What is refused does no harm to what follows. */
    IS(a1_send(from, "ahoy", 4, 0, NULL), 4);
    IS(a1_recv(to, small, sizeof small, 0, NULL), 4);
    CHECK(memcmp(small, "ahoy", 4) == 0);
}

int main(void) {
    struct a1_qos qos = reliable();
    void *data = huge((size_t)1 << 42);
    int ends[2];
    qos.largest_sent = qos.largest_received = (uint32_t)LARGEST;
    qos.block_size = 32768;
    pair(qos, ends);
    limit_memory((size_t)256 << 20);
    one_way(ends[0], ends[1], data);
    one_way(ends[1], ends[0], data);
    IS(a1_close(ends[0], 5000), 0);
    IS(a1_close(ends[1], 5000), 0);
    printf("nothing was copied\n");
    return 0;
}
