/* A loss contract through C: frames of a camera over a path that loses one datagram in twelve, and what is missing of them.
 * The path is a relay of this program's, since loopback loses nothing. */
#include "unified_common.h"

#define FRAMES 20
#define BYTES 200000
#define HEADER 64

/* Passes datagrams on between a client and one socket of the server's, and loses some. The rendezvous tells the client the
 * port of the method's socket (docs/src/rendezvous.md): it is told another relay's instead. */
struct relay {
    int here;     /* the client sends here */
    int there;    /* and this goes on to the server */
    struct relay *next;
    int every;    /* one in so many large datagrams is lost; 0: none */
    int lost;
};

static int udp_socket(int to) {
    struct sockaddr_in address;
    int fd = socket(AF_INET, SOCK_DGRAM, 0), large = 4 << 20;
    memset(&address, 0, sizeof address);
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &large, sizeof large);
    address.sin_port = htons((unsigned short)to);
    CHECK(to == 0 || connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    return fd;
}

static int port_of(int fd) {
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    CHECK(getsockname(fd, (struct sockaddr *)&address, &length) == 0);
    return ntohs(address.sin_port);
}

static void *pass_on(void *argument) {
    struct relay *relay = argument;
    static unsigned char bytes[2][65536];
    unsigned char *data = bytes[relay->next == NULL];
    struct pollfd entries[2] = {{-1, POLLIN, 0}, {-1, POLLIN, 0}};
    int seen = 0;
    entries[0].fd = relay->here;
    entries[1].fd = relay->there;
    while (poll(entries, 2, -1) > 0) {
        ssize_t size;
        if (entries[0].revents != 0) {
            struct sockaddr_in from;
            socklen_t length = sizeof from;
            size = recvfrom(relay->here, data, 65536, 0, (struct sockaddr *)&from, &length);
            if (size >= 0 && connect(relay->here, (struct sockaddr *)&from, length) == 0) {
                if (size > 500 && relay->every > 0 && ++seen % relay->every == 0)
                    relay->lost++;
                else
                    send(relay->there, data, (size_t)size, 0);
            }
        }
        if (entries[1].revents != 0 && (size = recv(relay->there, data, 65536, 0)) >= 0) {
            if (relay->next != NULL && size >= 42 && data[4] == 2 && data[6] == 0) {
                pthread_t thread;
                if (relay->next->there == 0) {
                    relay->next->there = udp_socket(data[24] | data[25] << 8);
                    CHECK(pthread_create(&thread, NULL, pass_on, relay->next) == 0);
                }
                data[24] = (unsigned char)port_of(relay->next->here);
                data[25] = (unsigned char)(port_of(relay->next->here) >> 8);
            }
            send(relay->here, data, (size_t)size, 0);
        }
    }
    return NULL;
}

/* What the sender promises with these bytes: each tells where it is, and is not 0. */
static unsigned char byte_at(int frame, size_t at) {
    return (unsigned char)(1 + (at * 7 + (size_t)frame) % 255);
}

static void *camera(void *argument) {
    pinnace_connection_t *c = argument;
    static unsigned char memory[FRAMES][BYTES];
    pinnace_delivery_t *deliveries[FRAMES];
    int reported = 0;
    for (int frame = 0; frame < FRAMES; frame++) {
        struct iovec part;
        struct pinnace_send_options options = PINNACE_SEND_OPTIONS_INIT;
        struct pinnace_range header = {0, HEADER};
        for (size_t at = 0; at < BYTES; at++)
            memory[frame][at] = byte_at(frame, at);
        part.iov_base = memory[frame];
        part.iov_len = BYTES;
        /* The last one may lose nothing. */
        options.flags = frame == FRAMES - 1 ? PINNACE_OWN_CONTRACT : 0;
        if (frame == FRAMES - 1) {
            options.critical = &header;
            options.critical_count = 1;
        }
        CHECK(pinnace_sendv(c, &part, 1, &options, &deliveries[frame]) == 0);
    }
    for (int frame = 0; frame < FRAMES; frame++) {
        struct pinnace_completion completion = PINNACE_COMPLETION_INIT;
        CHECK(pinnace_delivery_wait(deliveries[frame], &completion, LONG) == 0);
        CHECK(completion.error == 0 && completion.text[0] == 0);
        reported += completion.is_reported;
        memset(memory[frame], 0xFF, BYTES);
    }
    CHECK(reported > 0);
    return NULL;
}

int main(void) {
    pinnace_connection_t *client, *server;
    struct pinnace_received m = PINNACE_RECEIVED_INIT;
    struct pinnace_options options = PINNACE_OPTIONS_INIT;
    pinnace_endpoint_t *endpoint;
    static struct relay second, first;
    size_t all = 0;
    int seen[FRAMES] = {0};
    pthread_t thread;
    char uri[128];
    pinnace_listener_t *listener = pinnace_listen("127.0.0.1:0", NULL);
    CHECK(listener != NULL);
    memset(&second, 0, sizeof second);
    second.here = udp_socket(0);
    second.every = 12;
    first = second;
    first.here = udp_socket(0);
    first.there = udp_socket(pinnace_listener_port(listener));
    first.every = 0;
    first.next = &second;
    CHECK(pthread_create(&thread, NULL, pass_on, &first) == 0);
    snprintf(uri, sizeof uri, "pinnace://127.0.0.1:%d?loss=10%%&run=4KiB&critical=0..64&size=200kB&order=no&path=internet",
             port_of(first.here));
    options.force = "vrp";
    endpoint = pinnace_endpoint_open(NULL, &options);
    client = pinnace_endpoint_connect(endpoint, uri, NULL);
    CHECK(client != NULL && pinnace_endpoint_close(endpoint) == 0);
    server = pinnace_accept(listener, LONG);
    CHECK(server != NULL);
    CHECK(strcmp(pinnace_method(client), "vrp") == 0 && strcmp(pinnace_method(server), "vrp") == 0);

    CHECK(pthread_create(&thread, NULL, camera, client) == 0);
    for (int count = 0; count < FRAMES; count++) {
        const unsigned char *data;
        size_t missing = 0;
        uint64_t end = 0;
        int frame;
        CHECK(pinnace_recv(server, &m, LONG) == 1);
        CHECK(m.length == BYTES);
        data = m.data;
        /* They come as they are complete, each once; the first byte is of the header, and tells which it is. */
        frame = data[0] - 1;
        CHECK(frame >= 0 && frame < FRAMES && !seen[frame]++);
        for (size_t hole = 0; hole < m.hole_count; hole++) {
            struct pinnace_range range = m.holes[hole];
            printf("frame %d: hole at %llu, %llu bytes\n", frame, (unsigned long long)range.offset,
                   (unsigned long long)range.length);
            CHECK(range.offset >= end && range.length > 0 && range.offset >= HEADER && range.length <= 4096);
            end = range.offset + range.length;
            CHECK(end <= BYTES);
            missing += range.length;
            for (uint64_t at = range.offset; at < end; at++)
                CHECK(data[at] == 0);
        }
        CHECK(missing <= BYTES / 5);
        all += missing;
        for (size_t at = 0, hole = 0; at < BYTES; at++) {
            if (hole < m.hole_count && at == m.holes[hole].offset) {
                at += m.holes[hole++].length - 1;
                continue;
            }
            if (data[at] != byte_at(frame, at))
                fprintf(stderr, "frame %d: byte %zu is %d and not %d\n", frame, at, data[at], byte_at(frame, at));
            CHECK(data[at] == byte_at(frame, at));
        }
        if (frame == FRAMES - 1) {
            CHECK(m.hole_count == 0);
            puts("nothing is lost where it is said per message");
        }
        CHECK(pinnace_received_free(&m) == 0);
    }
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(pinnace_close(client, LONG) == 0);
    CHECK(pinnace_recv(server, &m, LONG) == 0);
    CHECK(pinnace_close(server, LONG) == 0 && pinnace_listener_close(listener) == 0);
    CHECK(second.lost > 0 && all > 0);
    puts("all frames are within the contract");
    return 0;
}
