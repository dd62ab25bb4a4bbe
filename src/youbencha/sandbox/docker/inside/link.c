/* One connection: bytes go both ways, and each side may end what it says while it still listens. */
#include "inside.h"
#include "link.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ROUNDS = 16 }; /* pieces that one connection may move before the others have their turn */

int must_look_again;

static void pump(struct link *link, int i)
{
    struct flow *flow = &link->to[i];
    int from = link->fd[1 - i], into = link->fd[i];
    for (int round = 0; round < ROUNDS && !flow->done; round++) {
        if (flow->at == flow->end && !flow->ended) {
            ssize_t got = recv(from, flow->data, BUFFER, 0);
            if (got < 0 && (errno == EAGAIN || errno == EINTR))
                return;
            flow->at = 0;
            flow->end = got > 0 ? got : 0;
            flow->ended = got <= 0;
        }
        if (flow->at < flow->end) {
            ssize_t sent = send(into, flow->data + flow->at, flow->end - flow->at, MSG_NOSIGNAL);
            if (sent < 0 && (errno == EAGAIN || errno == EINTR))
                return;
            if (sent >= 0) {
                flow->at += sent;
                continue;
            }
            shutdown(from, SHUT_RD); /* nobody reads there any more; the other direction may still have much to say */
            flow->done = 1;
        } else if (flow->ended) {
            shutdown(into, SHUT_WR);
            flow->done = 1;
        }
    }
}

static int is_short_of_something(int number)
{
    return number == EMFILE || number == ENFILE || number == ENOMEM || number == ENOBUFS || number == EAGAIN;
}

/* Whether the connection goes on. */
static int connect_link(struct link *link)
{
    link->fd[1] = dial(link->socket, SOCK_NONBLOCK);
    if (link->fd[1] >= 0)
        return 1;
    if (is_short_of_something(errno)) {
        must_look_again = 1;
        return 1;
    }
    /* Nobody is there: the program shall see a reset, not an empty answer. */
    setsockopt(link->fd[0], SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger));
    return 0;
}

struct link *accept_link(int listener, const char *socket)
{
    struct link *link = malloc(sizeof *link);
    if (!link) {
        must_look_again = 1;
        return NULL;
    }
    link->fd[0] = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (link->fd[0] < 0) {
        must_look_again |= errno != EAGAIN && is_short_of_something(errno);
        free(link);
        return NULL;
    }
    link->fd[1] = -1;
    link->socket = socket;
    for (int i = 0; i < 2; i++) /* not calloc: memory that is never touched costs nothing */
        link->to[i].at = link->to[i].end = link->to[i].ended = link->to[i].done = 0;
    return link;
}

int link_goes_on(struct link *link)
{
    if (link->fd[1] < 0 && !connect_link(link))
        return 0;
    if (link->fd[1] >= 0) {
        pump(link, 0);
        pump(link, 1);
    }
    return !(link->to[0].done && link->to[1].done);
}

/* What each end is waited for. An end that nothing is wanted of is left out: a closed one would wake us for ever. */
int link_events(struct link *link, int end)
{
    struct flow *out = &link->to[end], *in = &link->to[1 - end];
    int events = 0;
    if (link->fd[1] < 0)
        return 0;
    if (!out->done && out->at < out->end)
        events |= POLLOUT;
    if (!in->done && !in->ended && in->at == in->end)
        events |= POLLIN;
    return events;
}

void close_link(struct link *link)
{
    close(link->fd[0]);
    if (link->fd[1] >= 0)
        close(link->fd[1]);
    free(link);
}
