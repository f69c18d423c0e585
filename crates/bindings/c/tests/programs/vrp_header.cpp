// The header is C++ too, twice over.
#include "vrp.h"
#include "vrp.h"

#include <cstdio>

static void never(vrp_in_buffer_t frame) {
    std::printf("%d\n", frame->loss_num);
}

int main() {
    vrp_init();
    int port = 0;
    vrp_incoming_t incoming = vrp_incoming_construct(&port, never);
    vrp_outgoing_t outgoing = vrp_outgoing_construct("::1", port, -1, -1, -1);
    vrp_buffer_t buffer = vrp_buffer_construct(nullptr, 0);
    if (incoming == nullptr || outgoing == nullptr || buffer == nullptr)
        return 1;
    vrp_buffer_destroy(buffer);
    vrp_outgoing_close(outgoing);
    vrp_incoming_close(incoming);
    vrp_shutdown();
    std::puts("from C++");
    return 0;
}
