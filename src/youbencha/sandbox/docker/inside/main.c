/* All together: one loop that waits for the harness, the program and the relay. */
#include "inside.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

struct watch {
    int signals;
    int starting; /* -1 once the start is told */
    struct terminal terminal;
};

static void wait_for_something(struct watch *watch, long long kill_at)
{
    static struct pollfd *fds;
    static size_t room;
    size_t needed = 4 + relay_waits();
    if (needed > room) {
        struct pollfd *more = realloc(fds, 2 * needed * sizeof *fds);
        if (!more) {
            pause_ms(AGAIN_MS);
            relay_look(NULL);
            return;
        }
        fds = more;
        room = 2 * needed;
    }
    fds[0] = (struct pollfd){life, POLLIN, 0};
    fds[1] = (struct pollfd){watch->signals, POLLIN, 0};
    fds[2] = (struct pollfd){watch->starting, POLLIN, 0};
    fds[3] = (struct pollfd){watch->terminal.ours, POLLIN, 0};
    relay_ask(fds + 4);
    long long left_ms = kill_at ? (kill_at - now_us() + 999) / 1000 : -1;
    int timeout = kill_at ? (left_ms > 0 ? (int)left_ms : 0) : -1;
    int found = poll(fds, needed, relay_patience(timeout));
    relay_look(found > 0 ? fds + 4 : NULL);
}

/* Whether the harness says so or the docker CLI's `stop` is the same to us. Who is inside, and so has a number here, is
 * not obeyed. */
static int is_asked_to_end(int signals)
{
    struct signalfd_siginfo signal;
    int asked = 0;
    while (read(signals, &signal, sizeof signal) == sizeof signal)
        asked |= signal.ssi_signo == SIGTERM && signal.ssi_pid == 0;
    return harness_says_end() || asked;
}

static int open_signals(void)
{
    sigset_t watched;
    sigemptyset(&watched);
    sigaddset(&watched, SIGCHLD);
    sigaddset(&watched, SIGTERM);
    sigprocmask(SIG_BLOCK, &watched, NULL);
    return signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
}

static struct watch start(struct order *order, int stdio[3])
{
    struct watch watch = {.signals = open_signals(), .terminal = {-1, -1}};
    if (watch.signals < 0)
        fail(FAILED, "start", NULL);
    if (order->terminal)
        watch.terminal = give_terminal(stdio);
    program = start_program(order, stdio, &watch.starting);
    return watch;
}

/* Where the program could not be started, that was told before: what comes first counts. */
static void tell_if_ready(struct watch *watch, long long *started)
{
    ssize_t got = sizeof *started;
    while (watch->starting >= 0 && got == sizeof *started)
        got = read(watch->starting, started, sizeof *started);
    if (watch->starting < 0 || got != 0)
        return;
    tell("ready\n");
    close(watch->starting);
    watch->starting = -1;
}

static void take_first_descriptors(void)
{
    int spare;
    do /* until 0, 1 and 2 are taken, so that nothing of ours gets these numbers */
        spare = open("/dev/null", O_RDWR);
    while (spare >= 0 && spare <= 2);
    close(spare);
}

/* Until those whom the program did not wait for have ended by themselves, or shall be ended. */
static void settle(struct watch *watch, long long until)
{
    while (reap() && now_us() < until && !is_asked_to_end(watch->signals)) {
        wait_for_something(watch, until);
        relay_move();
        copy_terminal(&watch->terminal);
    }
}

int main(int argc, char **argv)
{
    int stdio[3];
    size_t length;
    if (argc != 2 || getpid() != 1) { /* elsewhere, kill(-1) would hit more than a container */
        fputs("This is the first program of a youBencha container.\n", stderr);
        return FAILED;
    }
    take_first_descriptors();
    prctl(PR_SET_DUMPABLE, 0); /* the agent, who is the same user, can neither trace us nor see our descriptors */
    life = dial(argv[1], 0);
    if (life < 0)
        return LIFELINE_LOST;
    char *text = receive_order(stdio, &length);
    struct order order = read_order(text, length);
    struct watch watch = start(&order, stdio);
    long long started = now_us(), kill_at = 0;
    int asked = 0;
    while (reap() && program_status < 0) {
        wait_for_something(&watch, kill_at);
        tell_if_ready(&watch, &started);
        if (is_asked_to_end(watch.signals) && !asked) {
            asked = 1;
            kill_at = now_us() + order.grace_ms * 1000LL;
            ask_all_to_end();
        }
        if (kill_at && now_us() >= kill_at) {
            kill(-1, SIGKILL);
            kill_at = now_us() + AGAIN_MS * 1000LL;
        }
        relay_move();
        copy_terminal(&watch.terminal);
    }
    long long ended = now_us();
    tell_if_ready(&watch, &started);
    if (!asked) {
        settle(&watch, ended + order.settle_ms * 1000LL);
        if (reap())
            tell_leftovers();
        kill_at = now_us() + order.grace_ms * 1000LL;
    }
    end_everything(kill_at);
    copy_terminal(&watch.terminal);
    tell_the_end(started, ended, !asked);
}
