/* What goes wrong with requests, and how it is told. */
#include "rsr_common.h"

static void never(rsr_request_t *request, void *argument) {
    (void)request;
    (void)argument;
    CHECK(0);
}

static void close_myself(rsr_request_t *request, void *argument) {
    (void)request;
    rsr_endpoint_close(*(rsr_endpoint_t **)argument);
    (void)!write(((int *)((rsr_endpoint_t **)argument + 1))[0], "x", 1);
}

static void read_wrongly(rsr_request_t *request, void *argument) {
    const char *text;
    uint32_t number = 5;
    size_t count;
    uint64_t numbers[1];
    /* Without a place nothing is read. */
    REFUSED(rsr_request_get_str(request, NULL) == 0, EINVAL);
    REFUSED(rsr_request_get_bytes(request, NULL, &count) == 0, EINVAL);
    REFUSED(rsr_request_get_u8(request, NULL) == 0, EINVAL);
    CHECK(strstr(rsr_error(), "nothing was read") != NULL);
    REFUSED(rsr_request_get_f64(request, NULL) == 0, EINVAL);
    REFUSED(rsr_request_get_u8_array(request, NULL, 4, &count) == 0, EINVAL);
    REFUSED(rsr_request_get_str(request, &text) == 0, EBADMSG);
    REFUSED(rsr_request_get_startpoint(request) != NULL, EBADMSG);
    /* An array that claims to be longer than the request. */
    REFUSED(rsr_request_get_u64_array(request, numbers, 1, &count) == 0, ERANGE);
    CHECK(rsr_request_get_u32(request, &number) == 0 && number == UINT32_MAX);
    REFUSED(rsr_request_get_u32(request, &number) == 0, ERANGE);
    CHECK(number == UINT32_MAX && rsr_request_remaining(request) == 0);
    (void)!write(*(int *)argument, "x", 1);
}

int main(void) {
    struct rsr_handler handlers[2] = {{1, never, NULL}, {2, NULL, NULL}};
    struct {
        rsr_endpoint_t *endpoint;
        int told;
    } state;
    int told[2];
    char byte, small[8];
    rsr_endpoint_t *endpoint;
    rsr_startpoint_t *self, *other;
    rsr_buffer_t *buffer = rsr_buffer_create();
    CHECK(pipe(told) == 0);

    /* Null pointers, and what is freed twice as nothing. */
    REFUSED(rsr_startpoint_from_string(NULL) != NULL, EINVAL);
    REFUSED(rsr_startpoint_copy(NULL) != NULL, EINVAL);
    REFUSED(rsr_startpoint_to_string(NULL, small, sizeof small) >= 0, EINVAL);
    REFUSED(rsr_endpoint_startpoint(NULL) != NULL, EINVAL);
    REFUSED(rsr_endpoint_counter(NULL, "requests") >= 0, EINVAL);
    REFUSED(rsr_send(NULL, 1, buffer) == 0, EINVAL);
    REFUSED(rsr_buffer_put_u8(NULL, 1) == 0, EINVAL);
    REFUSED(rsr_buffer_allow_loss(buffer, -1, 0) == 0, EINVAL);
    REFUSED(rsr_buffer_allow_loss(buffer, 100.5, 0) == 0, EINVAL);
    CHECK(strstr(rsr_error(), "100.5 % cannot be lost") != NULL);
    REFUSED(rsr_buffer_end_critical(buffer) == 0, EINVAL);
    REFUSED(rsr_buffer_put_str(buffer, NULL) == 0, EINVAL);
    REFUSED(rsr_buffer_put_str(buffer, "\xff") == 0, EINVAL);
    REFUSED(rsr_buffer_put_bytes(buffer, NULL, 1) == 0, EINVAL);
    CHECK(rsr_buffer_put_bytes(buffer, NULL, 0) == 0 && rsr_buffer_size(buffer) == 4);
    REFUSED(rsr_buffer_end_critical(buffer) == 0, EINVAL);
    REFUSED(rsr_request_get_u8(NULL, NULL) == 0, EINVAL);
    rsr_startpoint_free(NULL);
    rsr_buffer_free(NULL);
    rsr_endpoint_close(NULL);

    /* Endpoints that cannot be. */
    REFUSED(rsr_endpoint_open("zcrp", NULL, 0) != NULL, EINVAL);
    REFUSED(rsr_endpoint_open("local=", NULL, 1) != NULL, EINVAL);
    REFUSED(rsr_endpoint_open("local=", handlers, 2) != NULL, EINVAL);
    REFUSED(rsr_endpoint_open("smoke=hill", NULL, 0) != NULL, EPROTONOSUPPORT);
    CHECK(strstr(rsr_error(), "smoke=hill") != NULL);
    REFUSED(rsr_endpoint_open("local=a,local=a", NULL, 0) != NULL, EADDRINUSE);

    /* References that are none, or lead nowhere. */
    REFUSED(rsr_startpoint_from_string("http://example.org") != NULL, EINVAL);
    other = rsr_startpoint_from_string("rsr:local=nobody,zcrp=127.0.0.1:1,smoke=hill;id=7");
    CHECK(other != NULL);
    CHECK(rsr_startpoint_to_string(other, small, sizeof small) == 49 && strcmp(small, "rsr:loc") == 0);
    CHECK(rsr_startpoint_to_string(other, NULL, 0) == 49);
    REFUSED(rsr_startpoint_to_string(other, NULL, 1) >= 0, EINVAL);
    REFUSED(rsr_startpoint_via(other, "qmp") != NULL, EPROTONOSUPPORT);
    REFUSED(rsr_send(other, 1, buffer) == 0, ECONNREFUSED);
    CHECK(strstr(rsr_error(), "local=nobody") && strstr(rsr_error(), "zcrp=127.0.0.1:1") && strstr(rsr_error(), "smoke"));
    rsr_startpoint_free(other);

    /* Handlers that are not there, are added, and read what is not there. */
    endpoint = rsr_endpoint_open("local=", handlers, 1);
    CHECK(endpoint != NULL);
    self = rsr_endpoint_startpoint(endpoint);
    REFUSED(rsr_endpoint_counter(endpoint, "luck") >= 0, ENOENT);
    REFUSED(rsr_endpoint_set_handler(endpoint, handlers[1]) == 0, EINVAL);
    CHECK(rsr_send(self, 77, buffer) == 0);
    handlers[0].run = read_wrongly;
    handlers[0].argument = &told[1];
    CHECK(rsr_endpoint_set_handler(endpoint, handlers[0]) == 0);
    CHECK(rsr_buffer_clear(buffer) == 0);
    CHECK(rsr_buffer_put_bytes(buffer, "a\0b", 3) == 0 && rsr_buffer_put_bytes(buffer, "?", 1) == 0);
    CHECK(rsr_buffer_put_u32(buffer, UINT32_MAX) == 0);
    CHECK(rsr_send(self, 1, buffer) == 0);
    await(told[0], &byte, 1);
    CHECK(rsr_endpoint_counter(endpoint, "unknown_handlers") == 1);
    CHECK(rsr_endpoint_counter(endpoint, "requests") == 1);
    rsr_endpoint_close(endpoint);
    REFUSED(rsr_send(self, 1, buffer) == 0, ECONNREFUSED);
    rsr_startpoint_free(self);

    /* An endpoint may be closed by its own handler. */
    handlers[0].run = close_myself;
    handlers[0].argument = &state;
    state.told = told[1];
    state.endpoint = rsr_endpoint_open("local=,zcrp=127.0.0.1:0", handlers, 1);
    CHECK(state.endpoint != NULL);
    self = rsr_endpoint_startpoint(state.endpoint);
    other = rsr_startpoint_via(self, "zcrp");
    CHECK(rsr_send(other, 1, buffer) == 0);
    await(told[0], &byte, 1);
    rsr_startpoint_free(other);
    rsr_startpoint_free(self);
    rsr_buffer_free(buffer);
    puts("every error was told");
    return 0;
}
