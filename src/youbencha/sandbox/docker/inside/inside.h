/*
 * inside: the first program of a youBencha container.
 *
 * The container has no network. This program is its process 1, and all that connects it with the harness:
 *
 *   - The lifeline, a Unix socket. Over it the harness sends what to run, and stdin, stdout and stderr as open
 *     descriptors: so output goes straight into the harness's own files (real CLIs lose output to pipes), and neither
 *     the command nor its keys are ever stored by the engine. When the lifeline ends, however the harness ended, this
 *     program exits, and with process 1 the kernel kills everything in the container.
 *   - Relays: 127.0.0.1:PORT is carried to a Unix socket of the harness. Nothing else leads out.
 *
 * It is process 1 itself, not a helper of the agent's, because process 1 cannot be killed from inside its container:
 * an agent that clears away all other processes neither loses its gateway nor escapes the lifeline.
 *
 *
 * One static program that needs nothing of the image. Usage: inside /path/to/lifeline.sock
 */
#ifndef INSIDE_H
#define INSIDE_H

#define _GNU_SOURCE
#include <poll.h>
#include <stddef.h>
#include <sys/types.h>

enum {
    AGAIN_MS = 20, /* when something is short, or does not end: look again after this */
    FAILED = 125, NOT_EXECUTABLE = 126, NOT_FOUND = 127, LIFELINE_LOST = 137,
};

/* lifeline.c: the line to the harness */
extern int life;
int dial(const char *path, int flags);
char *receive_order(int stdio[3], size_t *length);
int harness_says_end(void);
__attribute__((format(printf, 1, 2))) void tell(const char *format, ...);
_Noreturn void fail(int code, const char *step, const char *about);

/* order.c: what to do */
struct order {
    char **argv, **env;
    const char *cwd;
    int probe;     /* a port, or 0 */
    int alone;     /* whether there must be no way out */
    int terminal;  /* whether stdout and stderr shall be a terminal */
    int grace_ms;
    int settle_ms; /* for what a program that ended by itself did not wait for */
};
struct order read_order(char *text, size_t length);

/* relay.c: says what it waits for, is shown what came, and moves bytes */
void open_relay(char *port_and_path);
size_t relay_waits(void);
void relay_ask(struct pollfd *fds);
int relay_patience(int timeout_ms);
void relay_look(const struct pollfd *fds);
void relay_move(void);

/* checks.c, filter.c: before the program starts */
void check_alone(void);
void check_gateway(int port);
void allow_only_known_sockets(void);

/* loader.c: what a program needs to be loaded */
const char *missing_loader(const char *path);

/* program.c: the program, until it runs */
pid_t start_program(struct order *order, int stdio[3], int *starting);

/* terminal.c: one for the program, if it wants one */
struct terminal {
    int ours, output; /* -1: there is none */
};
struct terminal give_terminal(int stdio[3]);
void copy_terminal(struct terminal *terminal);

/* ending.c: the program's end, and everybody's */
extern pid_t program;
extern int program_status;
int reap(void);
void ask_all_to_end(void);
void tell_leftovers(void);
void end_everything(long long kill_at);
_Noreturn void tell_the_end(long long started, long long ended, int by_itself);

/* clock.c */
long long now_us(void);
void pause_ms(long ms);

#endif
