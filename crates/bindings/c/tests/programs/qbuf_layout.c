/* Types and functions are those of the specification (B-15), exactly. */
#include "qbuf.h"

#include <stdio.h>

static int (*volatile open_)(const char *, const struct qb_options *) = qb_open;
static int (*volatile close_)(int) = qb_close;
static void *(*volatile alloc_)(int, size_t) = qb_alloc;
static int (*volatile free_)(int, void *) = qb_free;
static ssize_t (*volatile write_)(int, void *, size_t) = qb_write;
static ssize_t (*volatile read_)(int, void **, size_t *) = qb_read;
static qbuf_handle_t (*volatile register_)(int) = qbuf_register;
static int (*volatile unregister_)(qbuf_handle_t) = qbuf_unregister;
static struct qbuf *(*volatile wrap_)(qbuf_handle_t, void *, size_t) = qbuf_wrap;
static int (*volatile vfree_)(qbuf_handle_t, struct qbuf *) = qbuf_vfree;
static int (*volatile stats_)(int, struct qb_stats *) = qb_stats;

int main(void) {
    struct qbuf buffer = {0, 0, NULL, 0, NULL};
    if (open_ && close_ && alloc_ && free_ && write_ && read_ && register_ && unregister_ && wrap_ && vfree_ && stats_ &&
        buffer.zone + buffer.blocks == 0 && buffer.address == NULL && buffer.block_address == NULL)
        puts("as the specification has it");
    return 0;
}
