/* What there is no memory for is an error, and not the end of the program. */
#include "rsr_common.h"

#include "huge.h"

#define HUGE ((size_t)3 << 30)

int main(void) {
    rsr_buffer_t *buffer = rsr_buffer_create();
    const void *data = huge(HUGE);
    limit_memory((size_t)256 << 20);
    CHECK(rsr_buffer_put_bytes(buffer, "ahoy", 4) == 0);
    REFUSED(rsr_buffer_put_bytes(buffer, data, HUGE) == 0, ENOMEM);
    REFUSED(rsr_buffer_put_f64_array(buffer, (const double *)data, HUGE / 8) == 0, ENOMEM);
    /* Nothing has changed. */
    CHECK(rsr_buffer_size(buffer) == 8);
    CHECK(rsr_buffer_put_bytes(buffer, "aye", 3) == 0 && rsr_buffer_size(buffer) == 15);
    rsr_buffer_free(buffer);
    printf("nothing was copied\n");
    return 0;
}
