/* Two processes, by each method: all types there and back, startpoints as text and within requests. */
#include "rsr_common.h"

enum { ECHO = 1, ECHOED = 2, QUIT = 3 };

static void echo(rsr_request_t *request, void *argument) {
    uint8_t a;
    uint16_t b;
    uint32_t c;
    uint64_t d;
    int8_t e;
    int16_t f;
    int32_t g;
    int64_t h;
    float i;
    double j;
    const char *text;
    const void *data;
    size_t size, count;
    double numbers[3];
    int16_t *shorts;
    rsr_startpoint_t *reply_to;
    rsr_buffer_t *reply = rsr_buffer_create();
    CHECK(argument != NULL);
    CHECK(rsr_request_handler(request) == ECHO);
    CHECK(strlen(rsr_request_source(request)) > 0);
    CHECK(rsr_request_holes(request, NULL) == 0);
    CHECK(rsr_request_payload(request, &size) != NULL && size == rsr_request_remaining(request));
    reply_to = rsr_request_get_startpoint(request);
    CHECK(reply_to != NULL);
    CHECK(rsr_request_get_u8(request, &a) == 0 && rsr_buffer_put_u8(reply, a) == 0);
    CHECK(rsr_request_get_u16(request, &b) == 0 && rsr_buffer_put_u16(reply, b) == 0);
    CHECK(rsr_request_get_u32(request, &c) == 0 && rsr_buffer_put_u32(reply, c) == 0);
    CHECK(rsr_request_get_u64(request, &d) == 0 && rsr_buffer_put_u64(reply, d) == 0);
    CHECK(rsr_request_get_i8(request, &e) == 0 && rsr_buffer_put_i8(reply, e) == 0);
    CHECK(rsr_request_get_i16(request, &f) == 0 && rsr_buffer_put_i16(reply, f) == 0);
    CHECK(rsr_request_get_i32(request, &g) == 0 && rsr_buffer_put_i32(reply, g) == 0);
    CHECK(rsr_request_get_i64(request, &h) == 0 && rsr_buffer_put_i64(reply, h) == 0);
    CHECK(rsr_request_get_f32(request, &i) == 0 && rsr_buffer_put_f32(reply, i) == 0);
    CHECK(rsr_request_get_f64(request, &j) == 0 && rsr_buffer_put_f64(reply, j) == 0);
    CHECK(rsr_request_get_str(request, &text) == 0 && rsr_buffer_put_str(reply, text) == 0);
    CHECK(rsr_request_get_bytes(request, &data, &size) == 0 && rsr_buffer_put_bytes(reply, data, size) == 0);
    REFUSED(rsr_request_get_f64_array(request, numbers, 2, &count) == 0, ENOBUFS);
    CHECK(count == 3 && rsr_request_get_f64_array(request, numbers, 3, &count) == 0);
    CHECK(rsr_buffer_put_f64_array(reply, numbers, count) == 0);
    REFUSED(rsr_request_get_i16_array(request, NULL, 0, &count) == 0, ENOBUFS);
    shorts = malloc(count * sizeof *shorts);
    CHECK(rsr_request_get_i16_array(request, shorts, count, NULL) == 0);
    CHECK(rsr_buffer_put_i16_array(reply, shorts, count) == 0);
    free(shorts);
    /* There is no more. */
    CHECK(rsr_request_remaining(request) == 0);
    REFUSED(rsr_request_get_u8(request, &a) == 0, ERANGE);
    REFUSED(rsr_request_get_startpoint(request) != NULL, ERANGE);
    CHECK(rsr_send(reply_to, ECHOED, reply) == 0);
    rsr_startpoint_free(reply_to);
    rsr_buffer_free(reply);
}

static void tell(rsr_request_t *request, void *argument) {
    uint16_t handler = rsr_request_handler(request);
    (void)!write(*(int *)argument, &handler, sizeof handler);
}

static void compare(rsr_request_t *request, void *argument) {
    (void)argument;
    size_t size;
    uint64_t d;
    const char *text;
    const void *data;
    int16_t shorts[1000];
    size_t count;
    double numbers[3];
    CHECK(rsr_request_payload(request, &size) != NULL);
    /* The next request may be in the making by now, so there is nothing to compare the size with. */
    CHECK(size > 2000);
    {
        uint8_t a;
        uint16_t b;
        uint32_t c;
        CHECK(rsr_request_get_u8(request, &a) == 0 && a == 200);
        CHECK(rsr_request_get_u16(request, &b) == 0 && b == 60000);
        CHECK(rsr_request_get_u32(request, &c) == 0 && c == 4000000000u);
    }
    CHECK(rsr_request_get_u64(request, &d) == 0 && d == UINT64_MAX);
    {
        int8_t e;
        int16_t f;
        int32_t g;
        int64_t h;
        float i;
        double j;
        CHECK(rsr_request_get_i8(request, &e) == 0 && e == -100);
        CHECK(rsr_request_get_i16(request, &f) == 0 && f == -30000);
        CHECK(rsr_request_get_i32(request, &g) == 0 && g == -2000000000);
        CHECK(rsr_request_get_i64(request, &h) == 0 && h == INT64_MIN);
        CHECK(rsr_request_get_f32(request, &i) == 0 && i == 1.5f);
        CHECK(rsr_request_get_f64(request, &j) == 0 && j == -2.25);
    }
    CHECK(rsr_request_get_str(request, &text) == 0 && strcmp(text, "ahoy") == 0);
    CHECK(rsr_request_get_bytes(request, &data, &size) == 0 && size == 3 && memcmp(data, "\0\1\2", 3) == 0);
    CHECK(rsr_request_get_f64_array(request, numbers, 3, &count) == 0 && count == 3 && numbers[2] == 3.5);
    CHECK(rsr_request_get_i16_array(request, shorts, 1000, &count) == 0 && count == 1000 && shorts[999] == -999);
    CHECK(rsr_request_lost(request, NULL) == 0);
}

static struct rsr_handler handler(uint16_t id, void (*run)(rsr_request_t *, void *), void *argument) {
    struct rsr_handler handler;
    handler.id = id;
    handler.run = run;
    handler.argument = argument;
    return handler;
}

static void serve(const char *listen, int names, int parent) {
    struct rsr_handler handlers[2];
    char name[1000];
    int quit[2];
    uint16_t asked = 0;
    rsr_endpoint_t *endpoint;
    rsr_startpoint_t *self;
    int size;
    CHECK(pipe(quit) == 0);
    handlers[0] = handler(ECHO, echo, &quit);
    handlers[1] = handler(QUIT, tell, &quit[1]);
    endpoint = rsr_endpoint_open(listen, handlers, 2);
    CHECK(endpoint != NULL);
    self = rsr_endpoint_startpoint(endpoint);
    size = rsr_startpoint_to_string(self, name, sizeof name);
    CHECK(size > 0 && (size_t)size < sizeof name);
    rsr_startpoint_free(self);
    memset(name + size, 0, sizeof name - (size_t)size);
    CHECK(write(names, name, sizeof name) == (ssize_t)sizeof name);
    await(quit[0], &asked, sizeof asked);
    CHECK(asked == QUIT);
    rsr_endpoint_close(endpoint);
    close(parent);
    exit(0);
}

static void converse(const char *method) {
    int names[2], told[2], status, round;
    char listen[100], name[1000], twice[1000];
    struct rsr_handler handlers[2];
    rsr_startpoint_t *server, *forced, *self;
    rsr_endpoint_t *endpoint;
    rsr_buffer_t *buffer;
    pid_t child;
    sprintf(listen, "local=,%s=127.0.0.1:0", method);
    CHECK(pipe(names) == 0 && pipe(told) == 0);
    child = fork();
    CHECK(child >= 0);
    if (child == 0)
        serve(listen, names[1], told[1]);
    await(names[0], name, sizeof name);
    server = rsr_startpoint_from_string(name);
    CHECK(server != NULL);
    CHECK(rsr_startpoint_to_string(server, twice, sizeof twice) == (int)strlen(name) && strcmp(name, twice) == 0);
    buffer = rsr_buffer_create();
    handlers[0] = handler(ECHOED, compare, NULL);
    endpoint = rsr_endpoint_open(listen, handlers, 1);
    CHECK(endpoint != NULL);
    self = rsr_endpoint_startpoint(endpoint);
    forced = rsr_startpoint_via(server, method);
    CHECK(self != NULL && forced != NULL);
    for (round = 0; round < 10; round++) {
        static const double numbers[3] = {1.5, 2.5, 3.5};
        int16_t shorts[1000];
        int index;
        for (index = 0; index < 1000; index++)
            shorts[index] = (int16_t)-index;
        CHECK(rsr_buffer_clear(buffer) == 0);
        CHECK(rsr_buffer_put_startpoint(buffer, self) == 0);
        CHECK(rsr_buffer_put_u8(buffer, 200) == 0 && rsr_buffer_put_u16(buffer, 60000) == 0);
        CHECK(rsr_buffer_put_u32(buffer, 4000000000u) == 0 && rsr_buffer_put_u64(buffer, UINT64_MAX) == 0);
        CHECK(rsr_buffer_put_i8(buffer, -100) == 0 && rsr_buffer_put_i16(buffer, -30000) == 0);
        CHECK(rsr_buffer_put_i32(buffer, -2000000000) == 0 && rsr_buffer_put_i64(buffer, INT64_MIN) == 0);
        CHECK(rsr_buffer_put_f32(buffer, 1.5f) == 0 && rsr_buffer_put_f64(buffer, -2.25) == 0);
        CHECK(rsr_buffer_put_str(buffer, "ahoy") == 0 && rsr_buffer_put_bytes(buffer, "\0\1\2", 3) == 0);
        CHECK(rsr_buffer_put_f64_array(buffer, numbers, 3) == 0);
        CHECK(rsr_buffer_put_i16_array(buffer, shorts, 1000) == 0);
        CHECK(rsr_send(round % 2 ? server : forced, ECHO, buffer) == 0);
    }
    while (rsr_endpoint_counter(endpoint, "requests") < 10)
        usleep(1000);
    CHECK(rsr_buffer_clear(buffer) == 0 && rsr_send(server, QUIT, buffer) == 0);
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(rsr_send(server, QUIT, buffer) == -1 && strstr(rsr_error(), method) != NULL);
    rsr_endpoint_close(endpoint);
    rsr_startpoint_free(self);
    rsr_startpoint_free(forced);
    rsr_startpoint_free(server);
    rsr_buffer_free(buffer);
    printf("10 requests answered by %s\n", method);
    fflush(stdout);
}

int main(void) {
    converse("zcrp");
    converse("vrp");
    converse("pinnace");
    return 0;
}
