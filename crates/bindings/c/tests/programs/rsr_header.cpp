// The header is C++ too, twice over, and beside the others.
#include "rsr.h"
#include "zcrp.h"
#include "rsr.h"

#include <cstdio>

static void run(rsr_request_t *, void *done) {
    *static_cast<volatile bool *>(done) = true;
}

int main() {
    volatile bool done = false;
    rsr_handler handler = {1, run, const_cast<bool *>(&done)};
    rsr_endpoint_t *endpoint = rsr_endpoint_open("local=", &handler, 1);
    rsr_buffer_t *buffer = rsr_buffer_create();
    if (endpoint == nullptr || buffer == nullptr)
        return 1;
    rsr_startpoint_t *startpoint = rsr_endpoint_startpoint(endpoint);
    if (rsr_send(startpoint, 1, buffer) != 0)
        return 1;
    rsr_endpoint_close(endpoint);
    if (!done)
        return 1;
    rsr_startpoint_free(startpoint);
    rsr_buffer_free(buffer);
    std::puts("from C++");
    return 0;
}
