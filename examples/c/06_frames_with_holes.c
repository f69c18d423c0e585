/* Frames that may lose something: a camera sends pictures, and none of them waits for what it can do without. On a path that
 * loses nothing, as this one, nothing is missing. */
#include "both_ends.h"

#define PICTURES 10
#define BYTES 200000
#define HEADER 64

static void *camera(void *argument) {
    pinnace_connection_t *to = argument;
    static char picture[BYTES];
    for (int number = 0; number < PICTURES; number++) {
        struct pinnace_send_options options = PINNACE_SEND_OPTIONS_INIT;
        struct pinnace_completion completion = PINNACE_COMPLETION_INIT;
        struct iovec part = {picture, BYTES};
        pinnace_delivery_t *delivery;
        memset(picture, number + 1, BYTES);
        /* After a second nobody wants to see it any more. */
        options.lifespan_us = 1000000;
        /* The last picture is a still: nothing of it may be lost. */
        if (number == PICTURES - 1)
            options.flags = PINNACE_OWN_CONTRACT;
        MUST(pinnace_sendv(to, &part, 1, &options, &delivery) == 0);
        MUST(pinnace_delivery_wait(delivery, &completion, -1) == 0);
        /* The camera learns what was lost: it could send smaller pictures. */
        if (completion.is_reported)
            printf("sent picture %d: %d holes\n", number, (int)completion.hole_count);
    }
    return NULL;
}

int main(void) {
    pinnace_connection_t *to, *from;
    struct pinnace_received picture = PINNACE_RECEIVED_INIT;
    unsigned long long missing = 0;
    pthread_t thread;
    /* A tenth of a picture may be missing, 2,800 bytes in a row at most, and nothing of its header. */
    connect_both("loss=10% run=2800 critical=0..64 size=200kB lifespan=2s", &to, &from);
    MUST(pthread_create(&thread, NULL, camera, to) == 0);
    for (int number = 0; number < PICTURES; number++) {
        MUST(pinnace_recv(from, &picture, -1) == 1 && picture.length == BYTES);
        /* The bytes lie where they belong; the holes are zeros. */
        for (size_t hole = 0; hole < picture.hole_count; hole++) {
            MUST(picture.holes[hole].offset >= HEADER && picture.holes[hole].length <= 2800);
            missing += picture.holes[hole].length;
        }
        pinnace_received_free(&picture);
    }
    MUST(pthread_join(thread, NULL) == 0);
    MUST(missing <= PICTURES * BYTES / 5);
    printf("%llu of %d bytes are missing, all within the contract\n", missing, PICTURES * BYTES);
    MUST(pinnace_close(to, 1000) == 0 && pinnace_close(from, 1000) == 0);
    return 0;
}
