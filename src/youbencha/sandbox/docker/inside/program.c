/* The program: from the order to its first instruction. */
#include "inside.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

static void try(const char *path, char **argv, char **env)
{
    execve(path, argv, env);
    int number = errno;
    const char *missing = number == ENOENT ? missing_loader(path) : NULL;
    errno = number;
    if (missing)
        fail(NOT_FOUND, "loader", missing);
}

/* As execvpe, but a file that is no program is an error, never a shell's script. */
static void execute(char **argv, char **env)
{
    char candidate[4096 + 256];
    const char *path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    int worst = ENOENT;
    if (strchr(argv[0], '/')) {
        try(argv[0], argv, env);
        return;
    }
    for (char **each = env; *each; each++)
        if (strncmp(*each, "PATH=", 5) == 0)
            path = *each + 5;
    for (const char *end; path; path = *end ? end + 1 : NULL) {
        end = path + strcspn(path, ":");
        const char *slash = end > path ? "/" : "";
        size_t length = snprintf(candidate, sizeof candidate, "%.*s%s%s", (int)(end - path), path, slash, argv[0]);
        if (length >= sizeof candidate)
            continue;
        try(candidate, argv, env);
        if (errno == EACCES)
            worst = EACCES;
        else if (errno != ENOENT && errno != ENOTDIR)
            return;
    }
    errno = worst;
}

static _Noreturn void be_the_program(struct order *order, const int stdio[3], int starting)
{
    if (order->alone) {
        check_alone();
        allow_only_known_sockets();
    }
    if (order->probe)
        check_gateway(order->probe);
    setsid();
    for (int fd = 0; fd < 3; fd++)
        if (dup2(stdio[fd], fd) < 0)
            fail(FAILED, "stdio", NULL);
    if (order->terminal)
        ioctl(1, TIOCSCTTY, 0);
    if (chdir(order->cwd) < 0)
        fail(FAILED, "cwd", NULL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    long long now = now_us();
    (void)!write(starting, &now, sizeof now);
    execute(order->argv, order->env);
    fail(errno == ENOENT ? NOT_FOUND : NOT_EXECUTABLE, "exec", NULL);
}

/* `starting` brings the time of the start, and then closes by itself. */
pid_t start_program(struct order *order, int stdio[3], int *starting)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
        fail(FAILED, "start", NULL);
    pid_t pid = fork();
    if (pid < 0)
        fail(FAILED, "start", NULL);
    if (pid == 0)
        be_the_program(order, stdio, ends[1]);
    close(ends[1]);
    for (int i = 0; i < 3; i++) /* what we kept open, the program's readers and writers would wait for */
        close(stdio[i]);
    *starting = ends[0];
    return pid;
}
