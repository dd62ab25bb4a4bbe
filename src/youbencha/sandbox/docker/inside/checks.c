/* Checks before the program starts: no way out, and the gateway answers. */
#include "inside.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { PROBE_S = 15 };

static int only_loopback_in(const char *routes, int device_first)
{
    char line[512], device[64];
    FILE *file = fopen(routes, "re");
    if (!file)
        return errno == ENOENT; /* no IPv6 */
    if (device_first && !fgets(line, sizeof line, file)) /* its headline */
        line[0] = 0;
    int alone = 1;
    while (alone && fgets(line, sizeof line, file)) {
        char *last = strrchr(line, ' ');
        if (sscanf(device_first || !last ? line : last, "%63s", device) == 1)
            alone = strcmp(device, "lo") == 0;
    }
    fclose(file);
    return alone;
}

/* Connecting a datagram socket sends nothing: it only asks the kernel for a route. */
static int has_route_to(const char *where)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(53)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(53)};
    int is_v4 = inet_pton(AF_INET, where, &v4.sin_addr) == 1;
    if (!is_v4)
        inet_pton(AF_INET6, where, &v6.sin6_addr);
    int fd = socket(is_v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return 0;
    int found = connect(fd, is_v4 ? (void *)&v4 : (void *)&v6, is_v4 ? sizeof v4 : sizeof v6) == 0;
    close(fd);
    return found;
}

void check_alone(void)
{
    static const char *places[] = {"1.1.1.1", "10.0.0.1", "172.17.0.1", "192.168.0.1", "169.254.169.254", "100.64.0.1",
                                   "2606:4700:4700::1111", "fd00::1", "fe80::1"};
    errno = 0;
    if (!only_loopback_in("/proc/net/route", 1) || !only_loopback_in("/proc/net/ipv6_route", 0))
        fail(FAILED, "alone", "there is a route that leads out");
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (has_route_to(places[i])) {
            errno = 0;
            fail(FAILED, "alone", places[i]);
        }
}

void check_gateway(int port)
{
    static const char request[] = "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n";
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval patience = {.tv_sec = PROBE_S};
    char answer[64] = {0};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        fail(FAILED, "gateway", NULL);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) < 0
        || send(fd, request, sizeof request - 1, MSG_NOSIGNAL) < 0)
        fail(FAILED, "gateway", NULL);
    ssize_t got = recv(fd, answer, 12, MSG_WAITALL); /* `HTTP/1.1 200` */
    if (got < 0)
        fail(FAILED, "gateway", NULL);
    if (got < 12 || strncmp(answer, "HTTP/1.", 7) != 0 || strcmp(answer + 8, " 200") != 0) {
        errno = 0;
        answer[strcspn(answer, "\r\n")] = 0;
        fail(FAILED, "gateway", got ? answer : "it closed the connection");
    }
    close(fd);
}
