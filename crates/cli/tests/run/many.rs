//! Many connections at once between two hosts. Needs root.

use crate::hosts::{Hosts, at, compiled};
use crate::stage::{Server, client, installed, through};

/// The server takes connections late and one by one, answers all of them in turn, and says how many different peers it saw. The
/// client says its own port on each connection, and sends more and more bytes there and back again.
const MANY: &str = r#"
#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
enum { MANY = 150, LONGEST = 40000 };
static struct pollfd fds[MANY];
static int port(struct sockaddr_in *at) { return ntohs(at->sin_port); }
static int all(int fd, char *bytes, size_t len, int writes)
{
    while (len > 0) {
        ssize_t count = writes ? write(fd, bytes, len) : read(fd, bytes, len);
        if (count <= 0)
            return 0;
        bytes += count;
        len -= count;
    }
    return 1;
}
static int serve(int listener)
{
    static char bytes[LONGEST], seen[65536];
    int differ = 0, left = MANY;
    usleep(700000);
    for (int i = 0; i < MANY; i++) {
        struct sockaddr_in peer;
        socklen_t len = sizeof peer;
        int said, fd = accept(listener, (struct sockaddr *)&peer, &len);
        fds[i] = (struct pollfd){ .fd = fd, .events = POLLIN };
        if (fd < 0 || !all(fd, (char *)&said, sizeof said, 0) || said != port(&peer))
            return 2;
        differ += !seen[said];
        seen[said] = 1;
    }
    printf("%d\n", differ);
    while (left > 0) {
        if (poll(fds, MANY, 20000) <= 0)
            return 3;
        for (int i = 0; i < MANY; i++) {
            if (!fds[i].revents)
                continue;
            ssize_t count = read(fds[i].fd, bytes, sizeof bytes);
            if (count < 0 || (count && !all(fds[i].fd, bytes, count, 1)))
                return 4;
            if (count)
                continue;
            left--;
            close(fds[i].fd);
            fds[i].fd = -1;
        }
    }
    return 0;
}
int main(int argc, char **argv)
{
    static char sent[LONGEST], got[LONGEST];
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(7901) }, mine;
    (void)argv;
    inet_pton(AF_INET, "10.79.0.2", &at.sin_addr);
    if (argc > 1)
        return bind(listener, (struct sockaddr *)&at, sizeof at) || listen(listener, 1) ? 1 : serve(listener);
    for (int i = 0; i < MANY; i++) {
        socklen_t len = sizeof mine;
        int fd = socket(AF_INET, SOCK_STREAM, 0), said;
        fds[i].fd = fd;
        if (connect(fd, (struct sockaddr *)&at, sizeof at) || getsockname(fd, (struct sockaddr *)&mine, &len))
            return 5;
        said = port(&mine);
        if (!all(fd, (char *)&said, sizeof said, 1))
            return 6;
    }
    for (int len = 1; len <= LONGEST; len *= 7) {
        for (int i = 0; i < MANY; i++) {
            memset(sent, i + len, len);
            if (!all(fds[i].fd, sent, len, 1))
                return 7;
        }
        for (int i = 0; i < MANY; i++) {
            memset(sent, i + len, len);
            if (!all(fds[i].fd, got, len, 0) || memcmp(sent, got, len))
                return 8;
        }
    }
    for (int i = 0; i < MANY; i++)
        if (shutdown(fds[i].fd, SHUT_WR) || read(fds[i].fd, got, 1) != 0)
            return 9;
    puts("all");
    return 0;
}
"#;

#[test]
fn many_connections_at_once_are_told_apart_and_served() {
    let (Some(cc), Some(hosts)) = (installed("cc", "gcc libc6-dev"), Hosts::new()) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let program = &*compiled(&cc, folder.path(), MANY);
    let server = Server::start(through(true, &at(&hosts.far), &[program, "server"]), folder.path(), 7901, true);
    let (out, said) = client(through(true, &at(&hosts.near), &[program]));
    assert_eq!(out, "all\n", "{said}");
    assert_eq!(said.matches("connected to 10.79.0.2:7901 by QMP").count(), 150, "{said}");
    let printed = server.said();
    assert_eq!(server.finish(), Some(0), "{printed}");
    assert_eq!(crate::stage::printed(folder.path(), 7901), b"150\n", "{printed}");
}
