/* The first message: one program sends, another receives. Here both are one program.
 *
 *     cc 01_first_message.c $(pkg-config --cflags --libs pinnace)
 */
#include <pinnace.h>
#include <stdio.h>

int main(void) {
    char there[64] = "";
    struct pinnace_received m = PINNACE_RECEIVED_INIT;
    /* The receiver listens at an address. Port 0 lets the system choose a free one. */
    pinnace_listener_t *listener = pinnace_listen("127.0.0.1:0", NULL);
    pinnace_listener_address(listener, there, sizeof there);
    /* The sender says whom it wants to talk to; "pinnace://host:port?loss=5%&run=4KiB" would say how as well. */
    pinnace_connection_t *to = pinnace_connect(there), *from = pinnace_accept(listener, 8000);
    /* Whatever failed before, NULL is an error here, and pinnace_error says all of it. */
    if (pinnace_send(to, "ahoy", 4) == 0 && pinnace_recv(from, &m, -1) == 1)
        printf("received %.*s by %s\n", (int)m.length, (char *)m.data, pinnace_method(to));
    else
        fprintf(stderr, "%s\n", pinnace_error());
    /* What is open is closed when the program ends. */
    return 0;
}
