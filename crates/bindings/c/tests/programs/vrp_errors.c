/* What goes wrong, and how it is told. */
#include "vrp_common.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

static int handled;

static void take(vrp_in_buffer_t frame) {
    (void)frame;
    handled++;
}

/* A socket at which nobody answers. */
static int silent(int *port) {
    struct sockaddr_in name;
    socklen_t size = sizeof name;
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    memset(&name, 0, sizeof name);
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&name, sizeof name) == 0);
    CHECK(getsockname(fd, (struct sockaddr *)&name, &size) == 0);
    *port = ntohs(name.sin_port);
    return fd;
}

/* Says that it has packets that were never sent. */
static void *liar(void *argument) {
    int fd = *(int *)argument;
    unsigned char in[65536];
    for (;;) {
        struct sockaddr_in from;
        socklen_t size = sizeof from;
        ssize_t length = recvfrom(fd, in, sizeof in, 0, (struct sockaddr *)&from, &size);
        /* Header; FRAME_OK of the frame; ACK 48, its last packet; LAST. */
        unsigned char out[] = {0, 0, 0, 0, 0, 0, 9, 0, 0, 3, 0, 0, 0, 48, 0};
        /* Header; PONG; LAST. */
        unsigned char pong[] = {0x80, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0};
        if (length >= 15 && in[6] == 1) {
            memcpy(pong + 7, in + 7, 8);
            (void)!sendto(fd, pong, sizeof pong, 0, (struct sockaddr *)&from, size);
        }
        if (length < 7 || !(in[0] & 0x80) || in[6] != 6)
            continue;
        out[0] = in[0];
        out[1] = out[8] = in[1];
        out[7] = in[0] & 0x7f;
        (void)!sendto(fd, out, sizeof out, 0, (struct sockaddr *)&from, size);
    }
    return NULL;
}

/* Nobody is there: it takes 5 seconds to be sure, side by side with the rest. */
static void *in_vain(void *argument) {
    vrp_outgoing_t outgoing = argument;
    double begin = now();
    REFUSED(send_frame(outgoing, 1, 1000) == 0, ETIMEDOUT);
    CHECK(now() - begin > 4.5 && now() - begin < 20);
    return NULL;
}

static void *connect_in_vain(void *argument) {
    REFUSED(vrp_outgoing_connect(argument) == 0, ETIMEDOUT);
    return NULL;
}

static void *until_closed(void *argument) {
    REFUSED(send_frame(argument, 2, 100000) == 0, ECANCELED);
    return NULL;
}

static void *connect_until_closed(void *argument) {
    REFUSED(vrp_outgoing_connect(argument) == 0, ECANCELED);
    return NULL;
}

static void *refused(void *argument) {
    unsigned char *data = calloc(60000000, 1);
    vrp_buffer_t buffer = vrp_buffer_construct(data, 60000000);
    CHECK(data != NULL && buffer != NULL);
    REFUSED(vrp_outgoing_send_frame(argument, buffer) == 0, ECONNREFUSED);
    vrp_buffer_destroy(buffer);
    free(data);
    return NULL;
}

static void arguments(int port) {
    static unsigned char data[1000];
    vrp_buffer_t buffer = vrp_buffer_construct(data, sizeof data), other;
    vrp_outgoing_t outgoing = vrp_outgoing_construct("127.0.0.1", port, -1, -1, -1), wrong;
    vrp_incoming_t incoming;
    static const int rates[] = {-2, 256, 1000000, -2000000000};
    int i, zero = 0, negative = -1, large = 65536;
    CHECK(buffer != NULL && outgoing != NULL);

    REFUSED(vrp_buffer_construct(NULL, 1) != NULL, EINVAL);
    vrp_buffer_destroy(NULL);
    errno = 0;
    vrp_buffer_add_critical(NULL, data, 1);
    CHECK(errno == EINVAL);
    errno = 0;
    vrp_buffer_set_loss_rate(NULL, 1, 1);
    CHECK(errno == EINVAL);
    REFUSED(vrp_outgoing_construct(NULL, port, -1, -1, -1) != NULL, EINVAL);
    REFUSED(vrp_outgoing_construct("host\xff", port, -1, -1, -1) != NULL, EINVAL);
    REFUSED(vrp_outgoing_construct("127.0.0.1", 0, -1, -1, -1) != NULL, EINVAL);
    REFUSED(vrp_outgoing_construct("127.0.0.1", 65536, -1, -1, -1) != NULL, EINVAL);
    REFUSED(vrp_outgoing_construct("127.0.0.1", -1, -1, -1, -1) != NULL, EINVAL);
    REFUSED(vrp_outgoing_construct("127.0.0.1", port, -1, -1, 0) != NULL, EINVAL);
    REFUSED(vrp_outgoing_construct("127.0.0.1", port, -1, -1, -2) != NULL, EINVAL);
    REFUSED(vrp_outgoing_construct("127.0.0.1", port, -1, -1, 65502) != NULL, EINVAL);
    REFUSED(vrp_outgoing_construct("a..b", port, -1, -1, -1) != NULL, EHOSTUNREACH);
    REFUSED(vrp_outgoing_connect(NULL) == 0, EINVAL);
    REFUSED(vrp_outgoing_fd(NULL) >= 0, EINVAL);
    REFUSED(vrp_outgoing_send_frame(NULL, buffer) == 0, EINVAL);
    REFUSED(vrp_outgoing_send_frame(outgoing, NULL) == 0, EINVAL);
    errno = 0;
    vrp_outgoing_read_callback(0, NULL);
    CHECK(errno == EINVAL);
    errno = 0;
    vrp_outgoing_close(NULL);
    CHECK(errno == EINVAL);
    REFUSED(vrp_incoming_construct(NULL, take) != NULL, EINVAL);
    REFUSED(vrp_incoming_construct(&zero, NULL) != NULL, EINVAL);
    REFUSED(vrp_incoming_construct(&negative, take) != NULL, EINVAL);
    REFUSED(vrp_incoming_construct(&large, take) != NULL, EINVAL);
    REFUSED(vrp_incoming_construct(&port, take) != NULL, EADDRINUSE);
    REFUSED(vrp_incoming_fd(NULL) >= 0, EINVAL);
    errno = 0;
    vrp_incoming_set_source(NULL, data);
    CHECK(errno == EINVAL);
    errno = 0;
    vrp_incoming_close(NULL);
    CHECK(errno == EINVAL);

    /* A contract that is none makes the send fail, until another is set. */
    for (i = 0; i < 4; i++) {
        vrp_buffer_set_loss_rate(buffer, rates[i], 1000);
        REFUSED(vrp_outgoing_send_frame(outgoing, buffer) == 0, EINVAL);
    }
    vrp_buffer_set_loss_rate(buffer, 255, -2);
    REFUSED(vrp_outgoing_send_frame(outgoing, buffer) == 0, EINVAL);
    wrong = vrp_outgoing_construct("127.0.0.1", port, 256, 0, -1);
    CHECK(wrong != NULL);
    vrp_buffer_set_loss_rate(buffer, -1, 0);
    REFUSED(vrp_outgoing_send_frame(wrong, buffer) == 0, EINVAL);
    vrp_buffer_set_loss_rate(buffer, 255, 2147483647);
    CHECK(vrp_outgoing_send_frame(wrong, buffer) == 0);
    CHECK(vrp_outgoing_send_frame(outgoing, buffer) == 0);
    vrp_outgoing_close(wrong);

    /* Critical bytes in the buffer, up to its end, and empty ranges; and then some that are not in it. */
    vrp_buffer_add_critical(buffer, data, 1000);
    vrp_buffer_add_critical(buffer, data + 999, 1);
    vrp_buffer_add_critical(buffer, data + 5000, 0);
    vrp_buffer_add_critical(buffer, NULL, 0);
    CHECK(vrp_outgoing_send_frame(outgoing, buffer) == 0);
    for (i = 0; i < 4; i++) {
        other = vrp_buffer_construct(data + 10, 980);
        vrp_buffer_add_critical(other, i == 0 ? data + 9 : i == 1 ? data + 10 : i == 2 ? data + 990 : data + 20,
                                i == 0 ? 5 : i == 1 ? 981 : i == 2 ? 1 : (size_t)-1);
        REFUSED(vrp_outgoing_send_frame(outgoing, other) == 0, EINVAL);
        vrp_buffer_destroy(other);
    }

    /* Too large a frame, and too large a header. */
    other = vrp_buffer_construct(data, (size_t)UINT32_MAX + 1);
    REFUSED(vrp_outgoing_send_frame(outgoing, other) == 0, EMSGSIZE);
    vrp_buffer_destroy(other);
    wrong = vrp_outgoing_construct("127.0.0.1", port, -1, -1, 1);
    for (i = 0; i < 500; i++)
        vrp_buffer_add_critical(buffer, data + 2 * i, 1);
    CHECK(vrp_outgoing_send_frame(wrong, buffer) == 0);
    other = vrp_buffer_construct(data, sizeof data);
    for (i = 0; i < 500; i++)
        vrp_buffer_add_critical(other, data + 2 * i, 1);
    REFUSED(vrp_outgoing_send_frame(wrong, other) == 0, EMSGSIZE);
    vrp_buffer_destroy(other);
    vrp_outgoing_close(wrong);

    /* Handles that were good once, and ones that never were. */
    vrp_outgoing_close(outgoing);
    errno = 0;
    vrp_outgoing_close(outgoing);
    CHECK(errno == ECANCELED);
    REFUSED(vrp_outgoing_send_frame(outgoing, buffer) == 0, ECANCELED);
    REFUSED(vrp_outgoing_connect(outgoing) == 0, ECANCELED);
    REFUSED(vrp_outgoing_fd(outgoing) >= 0, ECANCELED);
    REFUSED(vrp_outgoing_connect((vrp_outgoing_t)data) == 0, EINVAL);
    incoming = vrp_incoming_construct(&zero, take);
    CHECK(incoming != NULL && zero > 0);
    vrp_incoming_close(incoming);
    REFUSED(vrp_incoming_fd(incoming) >= 0, ECANCELED);
    errno = 0;
    vrp_incoming_read_callback(0, incoming);
    CHECK(errno == ECANCELED);
    vrp_buffer_destroy(buffer);
}

int main(void) {
    int port = 0, nobody, lying, fd, i, descriptors[2];
    vrp_incoming_t incoming;
    vrp_outgoing_t vain, vain_too, closing, closing_too, liars, outgoing;
    pthread_t threads[5];
    void *data;
    vrp_buffer_t buffer;
    double begin;

    descriptors[0] = silent(&nobody);
    CHECK((vain = vrp_outgoing_construct("127.0.0.1", nobody, -1, -1, -1)) != NULL);
    CHECK((vain_too = vrp_outgoing_construct("127.0.0.1", nobody, -1, -1, -1)) != NULL);
    threads[0] = start(in_vain, vain);
    threads[1] = start(connect_in_vain, vain_too);

    incoming = vrp_incoming_construct(&port, take);
    CHECK(incoming != NULL);
    arguments(port);

    /* Closed in another thread. */
    CHECK((closing = vrp_outgoing_construct("127.0.0.1", nobody, -1, -1, -1)) != NULL);
    CHECK((closing_too = vrp_outgoing_construct("127.0.0.1", nobody, -1, -1, -1)) != NULL);
    threads[2] = start(until_closed, closing);
    threads[3] = start(connect_until_closed, closing_too);
    usleep(100000);
    begin = now();
    vrp_outgoing_close(closing);
    vrp_outgoing_close(closing_too);
    join(threads[2]);
    join(threads[3]);
    CHECK(now() - begin < 3);

    /* A receiver that cannot be. */
    descriptors[1] = silent(&lying);
    threads[2] = start(liar, &descriptors[1]);
    CHECK((liars = vrp_outgoing_construct("127.0.0.1", lying, -1, -1, -1)) != NULL);
    REFUSED(send_frame(liars, 3, 100000) == 0, EPROTO);
    vrp_outgoing_close(liars);

    /* More than a receiver keeps: 256 MiB. */
    CHECK((outgoing = vrp_outgoing_construct("127.0.0.1", port, -1, -1, -1)) != NULL);
    CHECK((data = calloc(300000000, 1)) != NULL);
    CHECK((buffer = vrp_buffer_construct(data, 300000000)) != NULL);
    begin = now();
    REFUSED(vrp_outgoing_send_frame(outgoing, buffer) == 0, ECONNREFUSED);
    CHECK(now() - begin < 3);
    vrp_buffer_destroy(buffer);
    free(data);
    CHECK(send_frame(outgoing, 4, 1000) == 0);
    vrp_outgoing_close(outgoing);
    vrp_incoming_close(incoming);
    CHECK(handled > 3);

    /* A receiver that closes while a frame is on its way. */
    port = 0;
    CHECK((incoming = vrp_incoming_construct(&port, take)) != NULL);
    CHECK((outgoing = vrp_outgoing_construct("127.0.0.1", port, -1, -1, -1)) != NULL);
    fd = vrp_incoming_fd(incoming);
    threads[4] = start(refused, outgoing);
    for (i = 0; i < 3; i++) {
        CHECK(is_readable(fd, 10000));
        vrp_incoming_read_callback(fd, incoming);
    }
    handled = 0;
    vrp_incoming_close(incoming);
    join(threads[4]);
    CHECK(handled == 0);

    join(threads[0]);
    join(threads[1]);

    /* After the end. */
    vrp_shutdown();
    REFUSED(vrp_outgoing_send_frame(outgoing, NULL) == 0, EINVAL);
    REFUSED(send_frame(outgoing, 5, 10) == 0, ECANCELED);
    REFUSED(vrp_outgoing_construct("127.0.0.1", port, -1, -1, -1) != NULL, ECANCELED);
    port = 0;
    REFUSED(vrp_incoming_construct(&port, take) != NULL, ECANCELED);
    CHECK(port == 0);
    vrp_init();
    CHECK((incoming = vrp_incoming_construct(&port, take)) != NULL);

    /* A child has nothing of its parent's, and does not disturb it. */
    CHECK((outgoing = vrp_outgoing_construct("127.0.0.1", port, -1, -1, -1)) != NULL);
    CHECK(send_frame(outgoing, 6, 10) == 0);
    {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            REFUSED(send_frame(outgoing, 7, 10) == 0, ECANCELED);
            vrp_outgoing_close(outgoing);
            vrp_shutdown();
            vrp_init();
            CHECK((outgoing = vrp_outgoing_construct("127.0.0.1", port, -1, -1, -1)) != NULL);
            CHECK(send_frame(outgoing, 7, 10) == 0);
            exit(0);
        }
        CHECK(child_succeeded(child));
    }
    CHECK(send_frame(outgoing, 8, 10) == 0);
    puts("every error was told");
    return 0;
}
