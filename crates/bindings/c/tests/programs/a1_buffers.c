/* Messages in the memory that they arrived in: moved, kept beyond the socket, freed twice. */
#include "a1_common.h"

int main(void) {
    static char data[300000];
    struct a1_qos qos = reliable();
    struct a1_buffer *buffers[8], *none, own;
    int ends[2], number;
    uint32_t status;
    pair(qos, ends);
    for (number = 0; number < 8; number++) {
        fill(data, (size_t)number, sizeof data);
        IS(a1_send(ends[0], data, sizeof data, 0, NULL), sizeof data);
    }
    for (number = 0; number < 8; number++) {
        struct a1_buffer *b;
        IS(a1_recv_buffer(ends[1], &buffers[number], 0, &status), sizeof data);
        b = buffers[number];
        CHECK((status & (A1_START | A1_END)) == (A1_START | A1_END));
        CHECK(b != NULL && b->len == sizeof data && b->size >= sizeof data && b->free_fn != NULL);
        CHECK((char *)b->data >= (char *)b->base && (char *)b->data + b->len <= (char *)b->base + b->size);
    }
    /* Each has memory of its own, which layers may write and move in. */
    for (number = 0; number < 8; number++) {
        struct a1_buffer *b = buffers[number];
        CHECK(is_intact(b->data, (size_t)number, b->len));
        memset(b->data, 'h', 10);
        b->data = (char *)b->data + 10;
        b->len -= 10;
        CHECK(is_intact(b->data, (size_t)number + 10, b->len));
    }
    for (number = 0; number < 4; number++)
        buffers[number]->free_fn(buffers[number]);
    /* Freed already, nothing, and no buffer of the library's. */
    a1_free_buffer(buffers[0]);
    a1_free_buffer(NULL);
    memset(&own, 0, sizeof own);
    a1_free_buffer(&own);
    /* Memory is used again. */
    for (number = 0; number < 100; number++) {
        struct a1_buffer *b;
        IS(a1_send(ends[1], data, sizeof data, 0, NULL), sizeof data);
        IS(a1_recv_buffer(ends[0], &b, 0, NULL), sizeof data);
        CHECK(is_intact(b->data, 7, b->len));
        a1_free_buffer(b);
    }
    /* An empty message, the rest of one that was begun, and nothing. */
    IS(a1_send(ends[0], NULL, 0, 0, NULL), 0);
    IS(a1_recv_buffer(ends[1], &none, 0, &status), 0);
    CHECK(none != NULL && none->len == 0 && (status & (A1_START | A1_END)) == (A1_START | A1_END));
    none->free_fn(none);
    IS(a1_send(ends[0], data, 1000, 0, NULL), 1000);
    IS(a1_recv(ends[1], data + 2000, 400, 0, &status), 400);
    CHECK((status & (A1_START | A1_END)) == A1_START);
    IS(a1_recv_buffer(ends[1], &none, 0, &status), 600);
    CHECK((status & (A1_START | A1_END)) == A1_END && memcmp(none->data, data + 400, 600) == 0);
    none->free_fn(none);
    IS(a1_recv_buffer(ends[1], &none, A1_DONTWAIT, &status), -EAGAIN);
    CHECK(none == NULL);
    IS(a1_recv_buffer(ends[1], NULL, A1_DONTWAIT, &status), -EFAULT);
    /* The end, and buffers that are kept beyond it. */
    IS(a1_close(ends[0], 1000), 0);
    IS(a1_recv_buffer(ends[1], &none, 0, &status), 0);
    CHECK(none == NULL && (status & (A1_PEER_CLOSED | A1_START)) == A1_PEER_CLOSED);
    IS(a1_close(ends[1], 1000), 0);
    for (number = 4; number < 8; number++) {
        CHECK(is_intact(buffers[number]->data, (size_t)number + 10, buffers[number]->len));
        buffers[number]->free_fn(buffers[number]);
    }
    puts("buffers came and went");
    return 0;
}
