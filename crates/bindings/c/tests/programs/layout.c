/* The struct and the types are as the paper has them, and every function has the paper's type. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "zcrp.h"

#define TYPE_IS(function, type)   \
    do {                          \
        type pointer = &function; \
        if (pointer == NULL)      \
            return 1;             \
    } while (0)

typedef struct zcrp_msg *(*alloc_function)(nlong);
typedef void (*free_function)(struct zcrp_msg *);
typedef nbyte (*init_function)(int *);
typedef nbyte (*begin_function)(struct zcrp_msg *, nlong);
typedef nlong (*wait_function)(struct zcrp_msg *);
typedef nbyte (*probe_function)(struct zcrp_msg *);
typedef int (*set_function)(const char *, long);
typedef long (*get_function)(const char *);

int main(void) {
    struct zcrp_msg *message;
    struct zcrp_msg example;
    nbyte *buffer = example.buffer = NULL;
    unsigned char byte = 255;
    TYPE_IS(zcrp_alloc_msg, alloc_function);
    TYPE_IS(zcrp_free_msg, free_function);
    TYPE_IS(zcrp_send_init, init_function);
    TYPE_IS(zcrp_rcv_init, init_function);
    TYPE_IS(zcrp_send, begin_function);
    TYPE_IS(zcrp_rcv, begin_function);
    TYPE_IS(zcrp_recv, begin_function);
    TYPE_IS(zcrp_wait, wait_function);
    TYPE_IS(zcrp_probe, probe_function);
    TYPE_IS(zcrp_set, set_function);
    TYPE_IS(zcrp_get, get_function);
    buffer = &byte;
    if (*buffer != 255 || sizeof(nbyte) != 1 || sizeof(nlong) != 4 || (nlong)-1 != 0xffffffffu)
        return 2;
    if (offsetof(struct zcrp_msg, buffer) != 0 || offsetof(struct zcrp_msg, number) != sizeof(void *)
        || offsetof(struct zcrp_msg, message_size) != sizeof(void *) + 4
        || offsetof(struct zcrp_msg, buffer_size) != sizeof(void *) + 8)
        return 3;

    /* All of the buffer can be written to, and is zero at first. */
    message = zcrp_alloc_msg(1000);
    if (message == NULL || message->message_size != 1000 || message->buffer_size < 1000 || message->buffer[999] != 0)
        return 4;
    memset(message->buffer, 1, message->buffer_size);
    zcrp_free_msg(message);
    /* No room for 4 GiB is no reason to die; nor is room for nothing. */
    zcrp_free_msg(zcrp_alloc_msg(0xffffffffu));
    message = zcrp_alloc_msg(0);
    if (message == NULL || message->message_size != 0)
        return 5;
    zcrp_free_msg(message);
    printf("as the paper has it\n");
    return 0;
}
