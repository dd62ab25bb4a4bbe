/* The relay: 127.0.0.1:PORT is carried to a Unix socket of the harness, in one loop and no process of its own. */
#include "inside.h"
#include "link.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MOST_LISTENERS = 32 };

struct listener {
    int fd;
    const char *socket;
    int ready; /* somebody calls */
};

static struct listener listeners[MOST_LISTENERS];
static int listener_count;
static struct link *links;

static void listen_on(int family, int port, const char *socket_path)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int is_v4 = family == AF_INET, on = 1;
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && !is_v4)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    if (fd >= 0 && listener_count < MOST_LISTENERS
        && bind(fd, is_v4 ? (void *)&v4 : (void *)&v6, is_v4 ? sizeof v4 : sizeof v6) == 0 && listen(fd, 1024) == 0)
        listeners[listener_count++] = (struct listener){fd, socket_path, 0};
    else if (is_v4)
        fail(FAILED, "relay", NULL);
    else if (fd >= 0) /* many containers have no IPv6 at all, and nobody misses it */
        close(fd);
}

void open_relay(char *port_and_path)
{
    char *path = strchr(port_and_path, '=');
    if (!path)
        return;
    listen_on(AF_INET, atoi(port_and_path), path + 1);
    listen_on(AF_INET6, atoi(port_and_path), path + 1);
}

/* How many descriptors it waits for. */
size_t relay_waits(void)
{
    size_t count = listener_count;
    for (struct link *link = links; link; link = link->next)
        count += 2;
    return count;
}

/* No new connection while another still waits for its second descriptor: else first halves could take them all. */
void relay_ask(struct pollfd *fds)
{
    for (int i = 0; i < listener_count; i++)
        *fds++ = (struct pollfd){must_look_again ? -1 : listeners[i].fd, POLLIN, 0};
    for (struct link *link = links; link; link = link->next)
        for (int end = 0; end < 2; end++) {
            int events = link_events(link, end);
            *fds++ = (struct pollfd){events ? link->fd[end] : -1, events, 0};
        }
}

int relay_patience(int timeout_ms)
{
    return must_look_again && (timeout_ms < 0 || timeout_ms > AGAIN_MS) ? AGAIN_MS : timeout_ms;
}

/* At what was found for us; NULL if nothing was. */
void relay_look(const struct pollfd *fds)
{
    for (int i = 0; i < listener_count; i++)
        listeners[i].ready = fds && fds[i].revents;
    must_look_again = 0;
}

static void accept_one(struct listener *listener)
{
    struct link *link = accept_link(listener->fd, listener->socket);
    if (link) {
        link->next = links;
        links = link;
    }
}

void relay_move(void)
{
    for (int i = 0; i < listener_count; i++)
        if (listeners[i].ready)
            accept_one(&listeners[i]);
    for (struct link **at = &links; *at;) {
        struct link *link = *at;
        if (link_goes_on(link)) {
            at = &link->next;
            continue;
        }
        *at = link->next;
        close_link(link);
    }
}
