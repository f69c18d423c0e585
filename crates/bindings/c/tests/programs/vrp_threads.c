/* Many threads on one sender; handlers that are slow, close their own receiver, or change who drives; loops beside sends. */
#include "vrp_common.h"

enum { THREADS = 16, EACH = 30 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int running, handled, most, first_waits, told[2], go_on[2];
static vrp_incoming_t to_close, to_ask;
static pthread_t handler_thread;

static int number_handled(void) {
    int number;
    pthread_mutex_lock(&mutex);
    number = handled;
    pthread_mutex_unlock(&mutex);
    return number;
}

static int number_running(void) {
    int number;
    pthread_mutex_lock(&mutex);
    number = running;
    pthread_mutex_unlock(&mutex);
    return number;
}

static void take(vrp_in_buffer_t frame) {
    int first;
    size_t size = frame->size;
    CHECK(size >= 8 && is_intact(frame->data, size, size));
    pthread_mutex_lock(&mutex);
    if (++running > most)
        most = running;
    first = handled == 0;
    handler_thread = pthread_self();
    pthread_mutex_unlock(&mutex);
    if (first && first_waits) {
        char byte;
        await(go_on[0], &byte, 1);
    } else {
        usleep(200);
    }
    if (first && to_close != NULL)
        vrp_incoming_close(to_close);
    if (first && to_ask != NULL)
        CHECK(vrp_incoming_fd(to_ask) >= 0);
    pthread_mutex_lock(&mutex);
    running--;
    handled++;
    pthread_mutex_unlock(&mutex);
    CHECK(write(told[1], "x", 1) == 1);
}

/* The handler that waits ends. */
static void release(void) {
    CHECK(write(go_on[1], "x", 1) == 1);
}

static void *release_later(void *nothing) {
    pause_ms(1000);
    release();
    return nothing;
}

static void reset(int waits) {
    CHECK(running == 0);
    handled = most = 0;
    first_waits = waits;
    to_close = to_ask = NULL;
    while (is_readable(told[0], 0)) {
        char byte;
        await(told[0], &byte, 1);
    }
}

static vrp_incoming_t receiver(int *port) {
    vrp_incoming_t incoming;
    *port = 0;
    CHECK((incoming = vrp_incoming_construct(port, take)) != NULL);
    return incoming;
}

static vrp_outgoing_t sender_to(int port) {
    vrp_outgoing_t outgoing = vrp_outgoing_construct("127.0.0.1", port, -1, -1, -1);
    CHECK(outgoing != NULL);
    return outgoing;
}

static void *send_many(void *outgoing) {
    int i;
    for (i = 0; i < EACH; i++) {
        size_t size = 8 + (size_t)i * 997;
        CHECK(send_frame(outgoing, size, size) == 0);
    }
    return NULL;
}

static void *send_one(void *outgoing) {
    CHECK(send_frame(outgoing, 1000, 1000) == 0);
    return NULL;
}

/* A loop around a sender's descriptor, until the pipe says stop. */
struct loop {
    vrp_outgoing_t outgoing;
    vrp_incoming_t incoming;
    int stop[2], callbacks;
};

static void *run_loop(void *argument) {
    struct loop *loop = argument;
    int fd = loop->outgoing ? vrp_outgoing_fd(loop->outgoing) : vrp_incoming_fd(loop->incoming);
    CHECK(fd >= 0);
    for (;;) {
        struct pollfd entries[2];
        entries[0].fd = fd;
        entries[1].fd = loop->stop[0];
        entries[0].events = entries[1].events = POLLIN;
        CHECK(poll(entries, 2, -1) > 0);
        if (entries[1].revents)
            return NULL;
        loop->callbacks++;
        if (loop->outgoing)
            vrp_outgoing_read_callback(fd, loop->outgoing);
        else
            vrp_incoming_read_callback(fd, loop->incoming);
    }
}

static void stop(struct loop *loop, pthread_t thread) {
    CHECK(write(loop->stop[1], "x", 1) == 1);
    join(thread);
}

static void many_threads(int loops) {
    int port, i;
    vrp_incoming_t incoming;
    vrp_outgoing_t outgoing;
    pthread_t threads[THREADS];
    static pthread_t drivers[2];
    static struct loop in, out;
    reset(0);
    incoming = receiver(&port);
    outgoing = sender_to(port);
    if (loops) {
        memset(&in, 0, sizeof in);
        memset(&out, 0, sizeof out);
        CHECK(pipe(in.stop) == 0 && pipe(out.stop) == 0);
        in.incoming = incoming;
        out.outgoing = outgoing;
        drivers[0] = start(run_loop, &in);
        drivers[1] = start(run_loop, &out);
    }
    for (i = 0; i < THREADS; i++)
        threads[i] = start(send_many, outgoing);
    for (i = 0; i < THREADS; i++)
        join(threads[i]);
    if (loops) {
        while (number_handled() < THREADS * EACH)
            usleep(1000);
        CHECK(pthread_equal(handler_thread, drivers[0]) && in.callbacks > 0);
        stop(&in, drivers[0]);
        stop(&out, drivers[1]);
    }
    vrp_outgoing_close(outgoing);
    vrp_incoming_close(incoming);
    /* What has arrived is handled before the close returns. */
    CHECK(handled == THREADS * EACH && most == 1);
}

static void slow_handler(int loops) {
    int port, i;
    vrp_incoming_t incoming;
    vrp_outgoing_t first, second;
    static struct loop in;
    static pthread_t driver;
    pthread_t sender;
    char byte;
    reset(1);
    incoming = receiver(&port);
    first = sender_to(port);
    second = sender_to(port);
    if (loops) {
        memset(&in, 0, sizeof in);
        CHECK(pipe(in.stop) == 0);
        in.incoming = incoming;
        driver = start(run_loop, &in);
    }
    CHECK(send_frame(first, 5000, 5000) == 0);
    for (i = 0; i < 10; i++) {
        sender = start(send_one, i % 2 ? first : second);
        CHECK(send_frame(second, 300000, 300000) == 0);
        join(sender);
    }
    /* All acknowledged, while the first one is still in its handler. */
    CHECK(number_handled() == 0);
    release();
    for (i = 0; i < 21; i++)
        await(told[0], &byte, 1);
    if (loops)
        stop(&in, driver);
    vrp_incoming_close(incoming);
    CHECK(handled == 21 && most == 1);
    vrp_outgoing_close(first);
    vrp_outgoing_close(second);
}

/* Frames that were complete before the loop began are the loop's: the descriptor says so although nothing comes. */
static void frames_before_the_loop(void) {
    int port, i, fd;
    vrp_incoming_t incoming;
    vrp_outgoing_t outgoing;
    pthread_t releasing;
    reset(1);
    incoming = receiver(&port);
    outgoing = sender_to(port);
    for (i = 0; i < 5; i++)
        CHECK(send_frame(outgoing, 100, 100) == 0);
    while (number_running() == 0)
        usleep(100);
    CHECK(number_handled() == 0);
    releasing = start(release_later, NULL);
    fd = vrp_incoming_fd(incoming);
    join(releasing);
    /* The handler that ran was waited for; no other began. */
    CHECK(number_handled() == 1 && !pthread_equal(handler_thread, pthread_self()));
    while (number_handled() < 5) {
        CHECK(is_readable(fd, 10000));
        vrp_incoming_read_callback(fd, incoming);
        CHECK(pthread_equal(handler_thread, pthread_self()));
    }
    vrp_outgoing_close(outgoing);
    vrp_incoming_close(incoming);
    CHECK(most == 1);
}

static void handlers_that_meddle(void) {
    int port, fd, i;
    char byte;
    vrp_incoming_t incoming;
    vrp_outgoing_t outgoing;

    /* Closes its own receiver, on the library's thread: what is complete is still handled. */
    reset(1);
    incoming = receiver(&port);
    outgoing = sender_to(port);
    to_close = incoming;
    for (i = 0; i < 4; i++)
        CHECK(send_frame(outgoing, 64, 64) == 0);
    release();
    for (i = 0; i < 4; i++)
        await(told[0], &byte, 1);
    vrp_outgoing_close(outgoing);
    usleep(20000);

    /* Closes it in the callback. */
    reset(0);
    incoming = receiver(&port);
    outgoing = sender_to(port);
    fd = vrp_incoming_fd(incoming);
    to_close = incoming;
    {
        pthread_t sender = start(send_one, outgoing);
        for (i = 0; i < 100 && number_handled() == 0; i++) {
            CHECK(is_readable(fd, 10000));
            vrp_incoming_read_callback(fd, incoming);
        }
        CHECK(number_handled() == 1);
        join(sender);
    }
    errno = 0;
    vrp_incoming_read_callback(fd, incoming);
    CHECK(errno == ECANCELED);
    vrp_outgoing_close(outgoing);

    /* Takes the driving over, in a handler. */
    reset(0);
    incoming = receiver(&port);
    outgoing = sender_to(port);
    to_ask = incoming;
    CHECK(send_frame(outgoing, 64, 64) == 0);
    await(told[0], &byte, 1);
    fd = vrp_incoming_fd(incoming);
    {
        pthread_t sender = start(send_one, outgoing);
        while (number_handled() < 2) {
            CHECK(is_readable(fd, 10000));
            vrp_incoming_read_callback(fd, incoming);
        }
        CHECK(pthread_equal(handler_thread, pthread_self()));
        join(sender);
    }
    vrp_outgoing_close(outgoing);
    vrp_incoming_close(incoming);
}

int main(void) {
    CHECK(pipe(told) == 0 && pipe(go_on) == 0);
    vrp_init();
    many_threads(0);
    many_threads(1);
    slow_handler(0);
    slow_handler(1);
    frames_before_the_loop();
    handlers_that_meddle();
    vrp_shutdown();
    puts("all threads are content");
    return 0;
}
