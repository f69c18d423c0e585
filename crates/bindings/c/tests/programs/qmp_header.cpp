// The header is C++ as well: a short conversation.
#include "qmp.h"

#include <cstdio>
#include <cstring>
#include <netinet/in.h>

int main() {
    sockaddr_in here;
    std::memset(&here, 0, sizeof here);
    here.sin_family = AF_INET;
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof here;
    int listener = qmp_socket(AF_INET, SOCK_STREAM, 0);
    if (listener < 0 || qmp_bind(listener, reinterpret_cast<sockaddr *>(&here), sizeof here) != 0 ||
        qmp_listen(listener, SOMAXCONN) != 0 ||
        qmp_getsockname(listener, reinterpret_cast<sockaddr *>(&here), &length) != 0)
        return 1;
    int client = qmp_socket(AF_INET, SOCK_STREAM, 0);
    if (qmp_connect(client, reinterpret_cast<sockaddr *>(&here), length) != 0)
        return 1;
    int server = qmp_accept(listener, nullptr, nullptr);
    char words[9] = "";
    if (qmp_send(client, "from C++", 8, MSG_NOSIGNAL) != 8 || qmp_recv(server, words, 8, MSG_WAITALL) != 8)
        return 1;
    std::puts(words);
    return qmp_close(client) + qmp_close(server) + qmp_close(listener);
}
