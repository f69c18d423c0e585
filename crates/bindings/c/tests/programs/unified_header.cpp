// The header is C++ too, twice over, and beside the others; handles go well with unique_ptr.
#include "pinnace.h"
#include "qmp.h"
#include "vrp.h"
#include "zcrp.h"
#include "pinnace.h"

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

struct Close {
    void operator()(pinnace_connection_t *connection) const { pinnace_close(connection, 1000); }
    void operator()(pinnace_listener_t *listener) const { pinnace_listener_close(listener); }
};
using Connection = std::unique_ptr<pinnace_connection_t, Close>;
using Listener = std::unique_ptr<pinnace_listener_t, Close>;

int main() {
    char there[64];
    pinnace_options options = PINNACE_OPTIONS_INIT;
    pinnace_send_options special = PINNACE_SEND_OPTIONS_INIT;
    pinnace_completion completion = PINNACE_COMPLETION_INIT;
    options.exclude = "shared-memory, qmp";
    pinnace_endpoint_t *endpoint = pinnace_endpoint_open("127.0.0.1:0", &options);
    Listener listener(pinnace_endpoint_listen(endpoint, nullptr));
    if (!listener || pinnace_endpoint_address(endpoint, there, sizeof there) <= 0)
        return 1;
    Connection client(pinnace_connect((std::string("pinnace://") + there + "?size=100&direction=duplex").c_str()));
    Connection server(pinnace_accept(listener.get(), 20000));
    if (!client || !server)
        return std::fputs(pinnace_error(), stderr), 1;
    std::string text = "ahoy";
    iovec part = {text.data(), text.size()};
    pinnace_delivery_t *delivery = nullptr;
    if (pinnace_sendv(client.get(), &part, 1, &special, &delivery) != 0)
        return std::fputs(pinnace_error(), stderr), 1;
    pinnace_received received = PINNACE_RECEIVED_INIT;
    if (pinnace_recv(server.get(), &received, 20000) != 1)
        return std::fputs(pinnace_error(), stderr), 1;
    if (std::string_view(static_cast<char *>(received.data), received.length) != text)
        return 1;
    pinnace_received_free(&received);
    if (pinnace_delivery_wait(delivery, &completion, 20000) != 0 || completion.error != 0)
        return std::fputs(pinnace_error(), stderr), 1;
    pinnace_endpoint_close(endpoint);
    std::puts("from C++");
    return 0;
}
