/* The line to the harness: what it says, and what it is told. */
#include "inside.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { LONGEST_ORDER = 64 * 1024 * 1024 };

int life = -1;

int dial(const char *path, int flags)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    strcpy(address.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) < 0) {
        int number = errno;
        close(fd);
        errno = number;
        return -1;
    }
    return fd;
}

void tell(const char *format, ...)
{
    char line[8192];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (length >= (int)sizeof line)
        length = sizeof line - 1;
    send(life, line, length, MSG_NOSIGNAL);
}

_Noreturn void fail(int code, const char *step, const char *about)
{
    int number = errno;
    tell("failed %s %d %s\n", step, number, about ? about : strerror(number));
    _exit(code);
}

/* The order begins with its length, eight hexadecimal digits, and the three descriptors ride along with them. */
char *receive_order(int stdio[3], size_t *length)
{
    char head[9] = {0};
    char control[CMSG_SPACE(3 * sizeof(int))];
    struct iovec piece = {head, 8};
    struct msghdr message = {
        .msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    if (recvmsg(life, &message, MSG_CMSG_CLOEXEC | MSG_WAITALL) != 8)
        _exit(LIFELINE_LOST);
    struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
    *length = strtoul(head, NULL, 16);
    if (!rights || rights->cmsg_len != CMSG_LEN(3 * sizeof(int)) || *length > LONGEST_ORDER) {
        errno = EPROTO;
        fail(FAILED, "order", NULL);
    }
    memcpy(stdio, CMSG_DATA(rights), 3 * sizeof(int));
    char *order = malloc(*length + 1);
    if (!order)
        fail(FAILED, "order", NULL);
    order[*length] = 0;
    for (size_t have = 0; have < *length;) {
        ssize_t got = recv(life, order + have, *length - have, 0);
        if (got <= 0)
            _exit(LIFELINE_LOST);
        have += got;
    }
    return order;
}

/* `t`: end it. */
int harness_says_end(void)
{
    char word;
    ssize_t got = recv(life, &word, 1, MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
        _exit(LIFELINE_LOST); /* the kernel ends all the others with us */
    return got == 1;
}
