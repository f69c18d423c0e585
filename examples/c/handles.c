/* More than one sender and receiver in a process, through explicit handles, and many threads: each pair has a thread that
 * sends and one that receives, and several threads wait for one message. */
#include "common.h"
#include <pthread.h>

#define PAIRS 3
#define COUNT 30
#define SIZE 100000u
#define WAITERS 4

struct channel {
    int descriptors[2];
    nlong salt;
};

static void *send_many(void *argument) {
    const struct channel *channel = (const struct channel *)argument;
    struct zcrp_msg *message = zcrp_alloc_msg(SIZE);
    zcrp_sender_t *sender = zcrp_sender_open(channel->descriptors);
    nlong i;
    CHECK(message != NULL && sender != NULL);
    for (i = 0; i < COUNT; i++) {
        fill(message, i + channel->salt, SIZE - i);
        CHECK(zcrp_sender_send(sender, message, SIZE - i));
        CHECK(zcrp_wait(message));
    }
    CHECK(zcrp_sender_get(sender, "messages_sent") == COUNT);
    CHECK(zcrp_sender_get(sender, "unit_bytes") == 65507);
    CHECK(zcrp_sender_get(sender, "units_in_place") == -1);
    zcrp_sender_close(sender);
    zcrp_free_msg(message);
    return NULL;
}

static void *receive_many(void *argument) {
    const struct channel *channel = (const struct channel *)argument;
    struct zcrp_msg *message = zcrp_alloc_msg(SIZE);
    zcrp_receiver_t *receiver = zcrp_receiver_open(channel->descriptors);
    nlong i;
    CHECK(message != NULL && receiver != NULL);
    for (i = 0; i < COUNT; i++) {
        CHECK(zcrp_receiver_rcv(receiver, message, SIZE));
        CHECK(zcrp_wait(message));
        CHECK(message->message_size == SIZE - i && is_intact(message, i + channel->salt, SIZE - i));
    }
    CHECK(zcrp_receiver_get(receiver, "messages_received") == COUNT);
    zcrp_receiver_close(receiver);
    zcrp_free_msg(message);
    return NULL;
}

static void *wait_for(void *message) {
    CHECK(zcrp_wait((struct zcrp_msg *)message) == 1);
    CHECK(((struct zcrp_msg *)message)->message_size == SIZE);
    return NULL;
}

int main(void) {
    struct channel channels[PAIRS][2];
    pthread_t threads[PAIRS][2], waiters[WAITERS];
    struct zcrp_msg *out = zcrp_alloc_msg(SIZE), *in = zcrp_alloc_msg(SIZE);
    int i, pair[2], sender[2], receiver[2];
    CHECK(out != NULL && in != NULL);
    for (i = 0; i < PAIRS; i++) {
        udp_pair(pair);
        channels[i][0].descriptors[0] = channels[i][0].descriptors[1] = pair[0];
        channels[i][1].descriptors[0] = channels[i][1].descriptors[1] = pair[1];
        channels[i][0].salt = channels[i][1].salt = (nlong)i * 1000;
        CHECK(pthread_create(&threads[i][0], NULL, send_many, &channels[i][0]) == 0);
        CHECK(pthread_create(&threads[i][1], NULL, receive_many, &channels[i][1]) == 0);
    }

    /* Meanwhile the paper's own sender and receiver, with several threads that wait for the same message. */
    udp_pair(pair);
    sender[0] = sender[1] = pair[0];
    receiver[0] = receiver[1] = pair[1];
    CHECK(zcrp_send_init(sender) && zcrp_rcv_init(receiver));
    CHECK(zcrp_rcv(in, SIZE));
    for (i = 0; i < WAITERS; i++)
        CHECK(pthread_create(&waiters[i], NULL, wait_for, in) == 0);
    usleep(20000);
    fill(out, 77, SIZE);
    CHECK(zcrp_send(out, SIZE));
    for (i = 0; i < WAITERS; i++)
        CHECK(pthread_join(waiters[i], NULL) == 0);
    CHECK(zcrp_wait(out) && is_intact(in, 77, SIZE));

    for (i = 0; i < PAIRS; i++) {
        CHECK(pthread_join(threads[i][0], NULL) == 0);
        CHECK(pthread_join(threads[i][1], NULL) == 0);
    }
    zcrp_free_msg(in);
    zcrp_free_msg(out);
    printf("%d pairs exchanged %d messages each\n", PAIRS, COUNT);
    return 0;
}
