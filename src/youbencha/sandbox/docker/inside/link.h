/* One connection through the relay. */
#ifndef LINK_H
#define LINK_H

#include <stddef.h>

enum { BUFFER = 32 * 1024 };

struct flow {
    char data[BUFFER];
    size_t at, end;
    int ended; /* nothing more comes in */
    int done;  /* and all of it went out, or nobody wants it any more */
};

/* One connection: end 0 is the program's, end 1 the harness's. to[i] is on its way to end i. */
struct link {
    struct link *next;
    const char *socket;
    int fd[2]; /* -1: not connected yet */
    struct flow to[2];
};

/* Set when descriptors, memory or the other end's queue are full: who waits shall not wait long. */
extern int must_look_again;

struct link *accept_link(int listener, const char *socket);
int link_goes_on(struct link *link);
int link_events(struct link *link, int end);
void close_link(struct link *link);

#endif
