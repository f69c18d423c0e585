/* Closes and frees all that it has, and exits at once: nothing of the library's looks like a leak. */
#include <pinnace.h>
#include <stdio.h>

int main(void)
{
    struct pinnace_received message = PINNACE_RECEIVED_INIT;
    char address[64];
    pinnace_listener_t *listener = pinnace_listen("127.0.0.1:0", NULL);
    if (pinnace_listener_address(listener, address, sizeof address) < 0)
        return 1;
    for (int i = 0; i < 3; i++) {
        pinnace_connection_t *client = pinnace_connect(address), *server = pinnace_accept(listener, 10000);
        if (pinnace_send(client, "ahoy", 4) || pinnace_recv(server, &message, 10000) != 1)
            return 1;
        pinnace_received_free(&message);
        if (pinnace_close(client, 10000) || pinnace_close(server, 10000))
            return 1;
    }
    pinnace_listener_close(listener);
    puts("all is closed");
    return 0;
}
