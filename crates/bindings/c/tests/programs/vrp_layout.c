/* Types and functions, as specs/vrp.md, section 7, has them: this compiles only if each is what it should be. */
#include "vrp_common.h"

static void (*const init)(void) = vrp_init;
static void (*const shut_down)(void) = vrp_shutdown;
static vrp_buffer_t (*const construct)(void *data, size_t size) = vrp_buffer_construct;
static void (*const destroy)(vrp_buffer_t) = vrp_buffer_destroy;
static void (*const add_critical)(vrp_buffer_t, void *data, size_t size) = vrp_buffer_add_critical;
static void (*const set_loss_rate)(vrp_buffer_t, int max, int cons) = vrp_buffer_set_loss_rate;
static vrp_outgoing_t (*const out)(const char *host, int port, int max, int cons, int packet_size) =
    vrp_outgoing_construct;
static int (*const connects[2])(vrp_outgoing_t) = {vrp_outgoing_connect, vrp_outgoing_open};
static int (*const out_fd)(vrp_outgoing_t) = vrp_outgoing_fd;
static void (*const out_callback)(int fd, vrp_outgoing_t) = vrp_outgoing_read_callback;
static int (*const send_frame_)(vrp_outgoing_t, vrp_buffer_t) = vrp_outgoing_send_frame;
static void (*const out_close)(vrp_outgoing_t) = vrp_outgoing_close;
static vrp_incoming_t (*const in)(int *port, void (*handler)(vrp_in_buffer_t)) = vrp_incoming_construct;
static void (*const set_source)(vrp_incoming_t, void *) = vrp_incoming_set_source;
static int (*const in_fd)(vrp_incoming_t) = vrp_incoming_fd;
static void (*const in_callback)(int fd, vrp_incoming_t) = vrp_incoming_read_callback;
static void (*const in_close)(vrp_incoming_t) = vrp_incoming_close;

int main(void) {
    struct vrp_in_buffer frame;
    vrp_in_buffer_t pointer = &frame;
    void **data = &pointer->data;
    size_t *size = &pointer->size;
    void **source = &pointer->source;
    int *loss_num = &pointer->loss_num;
    void ***lost = &pointer->lost;
    size_t *granularity = &pointer->loss_granularity;
    CHECK((void *)data == (void *)pointer && (char *)size > (char *)data && (char *)source > (char *)size);
    CHECK((char *)loss_num > (char *)source && (char *)lost > (char *)loss_num && (char *)granularity > (char *)lost);
    CHECK(init && shut_down && construct && destroy && add_critical && set_loss_rate && out && connects[0] && connects[1]);
    CHECK(out_fd && out_callback && send_frame_ && out_close && in && set_source && in_fd && in_callback && in_close);
    puts("as the specification has it");
    return 0;
}
