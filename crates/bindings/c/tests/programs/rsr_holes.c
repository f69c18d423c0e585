/* A path that loses packets: what VRP loses is what the buffer lets it, and the handler is told. */
#include "rsr_common.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>

enum { FRAME = 9, NUMBERS = 50000 };

static int near, far;
static struct sockaddr_in client;
static socklen_t client_size;

/* Passes datagrams on to the endpoint, and drops one in six of the large ones. */
static void *forth(void *unused) {
    static char datagram[65536];
    uint32_t state = 1;
    (void)unused;
    for (;;) {
        struct sockaddr_in from;
        socklen_t from_size = sizeof from;
        ssize_t size = recvfrom(near, datagram, sizeof datagram, 0, (struct sockaddr *)&from, &from_size);
        if (size < 0)
            return NULL;
        client = from;
        client_size = from_size;
        state = state * 1664525u + 1013904223u;
        if (size < 500 || state >> 24 >= 40)
            (void)!send(far, datagram, (size_t)size, 0);
    }
}

static void *back(void *unused) {
    static char datagram[65536];
    (void)unused;
    for (;;) {
        ssize_t size = recv(far, datagram, sizeof datagram, 0);
        if (size < 0)
            return NULL;
        (void)!sendto(near, datagram, (size_t)size, 0, (struct sockaddr *)&client, client_size);
    }
}

static int relay_to(uint16_t port) {
    struct sockaddr_in name;
    socklen_t size = sizeof name;
    pthread_t thread;
    memset(&name, 0, sizeof name);
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    near = socket(AF_INET, SOCK_DGRAM, 0);
    far = socket(AF_INET, SOCK_DGRAM, 0);
    CHECK(near >= 0 && far >= 0 && bind(near, (struct sockaddr *)&name, sizeof name) == 0);
    name.sin_port = htons(port);
    CHECK(connect(far, (struct sockaddr *)&name, sizeof name) == 0);
    CHECK(getsockname(near, (struct sockaddr *)&name, &size) == 0);
    CHECK(pthread_create(&thread, NULL, forth, NULL) == 0 && pthread_detach(thread) == 0);
    CHECK(pthread_create(&thread, NULL, back, NULL) == 0 && pthread_detach(thread) == 0);
    return ntohs(name.sin_port);
}

static void take(rsr_request_t *request, void *argument) {
    static uint32_t numbers[NUMBERS];
    const char *title;
    uint64_t last;
    const struct rsr_range *holes = NULL, *hole = NULL;
    size_t count, index, ranges, lost = 0;
    int result;
    CHECK(rsr_request_get_str(request, &title) == 0 && strcmp(title, "a picture") == 0);
    errno = 0;
    result = rsr_request_get_u32_array(request, numbers, NUMBERS, &count);
    ranges = rsr_request_lost(request, &hole);
    CHECK(count == NUMBERS && (result == 0) == (ranges == 0) && (result == 0 || errno == ENODATA));
    for (index = 0; index < count; index++) {
        while (ranges > 0 && index >= hole->high) {
            hole++;
            ranges--;
        }
        if (ranges > 0 && index >= hole->low)
            lost++;
        else
            CHECK(numbers[index] == index);
    }
    CHECK((rsr_request_holes(request, &holes) > 0) == (lost > 0));
    CHECK(lost == 0 || (holes[0].low > 4 && holes[0].high > holes[0].low));
    CHECK(rsr_request_get_u64(request, &last) == 0 && last == 99);
    CHECK(write(*(int *)argument, &lost, sizeof lost) == (ssize_t)sizeof lost);
}

int main(void) {
    static uint32_t numbers[NUMBERS];
    struct rsr_handler handler = {FRAME, take, NULL};
    int told[2], round;
    size_t lost, all = 0;
    char name[200], *colon;
    rsr_endpoint_t *endpoint;
    rsr_startpoint_t *startpoint;
    rsr_buffer_t *buffer = rsr_buffer_create();
    uint32_t index;
    for (index = 0; index < NUMBERS; index++)
        numbers[index] = index;
    CHECK(pipe(told) == 0);
    handler.argument = &told[1];
    endpoint = rsr_endpoint_open("vrp=127.0.0.1:0", &handler, 1);
    CHECK(endpoint != NULL);
    startpoint = rsr_endpoint_startpoint(endpoint);
    CHECK(rsr_startpoint_to_string(startpoint, name, sizeof name) > 0);
    rsr_startpoint_free(startpoint);
    colon = strrchr(name, ':');
    CHECK(colon != NULL);
    sprintf(name, "rsr:vrp=127.0.0.1:%d", relay_to((uint16_t)atoi(colon + 1)));
    startpoint = rsr_startpoint_from_string(name);
    CHECK(startpoint != NULL);
    for (round = 0; round < 6; round++) {
        int exact = round == 5;
        CHECK(rsr_buffer_clear(buffer) == 0);
        CHECK(rsr_buffer_allow_loss(buffer, exact ? 0 : 40, 20000) == 0);
        CHECK(rsr_buffer_begin_critical(buffer) == 0);
        CHECK(rsr_buffer_begin_critical(buffer) == 0 && rsr_buffer_end_critical(buffer) == 0);
        CHECK(rsr_buffer_put_str(buffer, "a picture") == 0);
        CHECK(rsr_buffer_end_critical(buffer) == 0);
        CHECK(rsr_buffer_put_u32_array(buffer, numbers, NUMBERS) == 0);
        CHECK(rsr_buffer_begin_critical(buffer) == 0);
        /* Ends with the buffer. */
        CHECK(rsr_buffer_put_u64(buffer, 99) == 0);
        CHECK(rsr_send(startpoint, FRAME, buffer) == 0);
        await(told[0], &lost, sizeof lost);
        CHECK(!exact || lost == 0);
        all += lost;
    }
    CHECK(all > 0);
    rsr_endpoint_close(endpoint);
    rsr_startpoint_free(startpoint);
    rsr_buffer_free(buffer);
    puts("both ends know the holes");
    return 0;
}
