/* Sockets are closed while threads wait on them: each call says what the header says. */
#include "a1_common.h"

static char data[1 << 20];

struct waiting {
    int s;
    long why;
};

static void *accepts(void *argument) {
    struct waiting *waiting = (struct waiting *)argument;
    waiting->why = a1_accept(waiting->s, NULL, 0, NULL);
    return NULL;
}

static void *sends(void *argument) {
    struct waiting *waiting = (struct waiting *)argument;
    while ((waiting->why = (long)a1_send(waiting->s, data, sizeof data, 0, NULL)) == (long)sizeof data)
        continue;
    return NULL;
}

static long close_while(void *(*does)(void *), int s) {
    struct waiting waiting;
    pthread_t thread;
    waiting.s = s;
    CHECK(pthread_create(&thread, NULL, does, &waiting) == 0);
    pause_ms(500);
    /* What was sent has not arrived. */
    (void)a1_close(s, 0);
    CHECK(pthread_join(thread, NULL) == 0);
    return waiting.why;
}

int main(void) {
    uint64_t there;
    int ends[2];
    /* Who is told of nothing waits for ever. */
    alarm(30);
    IS(close_while(accepts, listening(reliable(), &there)), -EINVAL);
    pair(reliable(), ends);
    IS(close_while(sends, ends[0]), -ENOTCONN);
    printf("who waits is told of the end\n");
    return 0;
}
