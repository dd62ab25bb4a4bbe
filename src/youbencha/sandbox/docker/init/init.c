/*
 * init: process 1 of a youBencha container.
 *
 * The container has no network. This program is all that connects it with the harness:
 *
 *   - The channel, a Unix socket. The harness sends the start order over it, with stdin, stdout and stderr as open
 *     descriptors: output goes straight into the harness's own files (real CLIs lose output to pipes), and the engine
 *     never stores the command or its keys. Reports go back. When the channel closes, however the harness ended, this
 *     program exits, and with process 1 the kernel kills every process in the container.
 *   - The relay: connections to 127.0.0.1:PORT are forwarded to a Unix socket of the harness. Nothing else leads out.
 *
 * It is process 1 itself, not a helper of the agent, because process 1 cannot be killed from inside its container: an
 * agent that kills all other processes keeps its gateway and stays under the harness's control.
 *
 * One static program that needs nothing from the image. Usage: init /path/to/channel.sock
 *
 * Order of this file: time, the channel, the relay, the start order, checks before the start, starting the program, its
 * terminal, ending everything, the main loop.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

/* Exit codes of this program where the agent's program has none. */
enum { EXIT_FAILED = 125, EXIT_NOT_EXECUTABLE = 126, EXIT_NOT_FOUND = 127, EXIT_CHANNEL_LOST = 137 };

enum {
    MAX_ORDER_BYTES = 64 * 1024 * 1024,
    MAX_LISTENERS = 32,
    MAX_LEFTOVERS = 20,
    RELAY_BUFFER = 32 * 1024,
    TERMINAL_BUFFER = 16 * 1024,
    MAX_ROUNDS = 16, /* pieces that one connection or the terminal may move before the others have their turn */
    RETRY_MS = 20,   /* when descriptors or memory are short, or a killed process has not ended yet */
    REAP_MS = 2,
    KILL_FOR_MS = 5000, /* a process that hangs in the kernel must not keep this program from ending */
    GATEWAY_ANSWERS_WITHIN_S = 15,
};


/* ---- Time ---- */

static long long now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000LL + now.tv_nsec / 1000;
}

static void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000L}, NULL);
}


/* ---- The channel to the harness ---- */

static int channel = -1;

static int connect_to(const char *path, int flags)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    strcpy(address.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) < 0) {
        int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

/* Send one line. Names chosen by the agent may be in it, so a line feed must not begin another report. */
__attribute__((format(printf, 1, 2))) static void report(const char *format, ...)
{
    char line[8192];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (length < 0)
        return;
    if (length > (int)sizeof line - 1)
        length = sizeof line - 1;
    for (int i = 0; i < length; i++)
        if (line[i] == '\n')
            line[i] = '?';
    line[length] = '\n'; /* in place of the final zero byte */
    send(channel, line, length + 1, MSG_NOSIGNAL);
}

/* Report that a step before the program's start failed, and exit. `reason` NULL: what errno says. */
static _Noreturn void fail(int exit_code, const char *step, const char *reason)
{
    int error = errno;
    report("failed %s %d %s", step, error, reason ? reason : strerror(error));
    _exit(exit_code);
}

/* The order begins with its length, eight hexadecimal digits, and the three descriptors come with them. */
static char *receive_order(int stdio[3], size_t *length)
{
    char head[9] = {0};
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(3 * sizeof(int))];
    struct iovec piece = {head, 8};
    struct msghdr message = {
        .msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    if (recvmsg(channel, &message, MSG_CMSG_CLOEXEC | MSG_WAITALL) != 8)
        _exit(EXIT_CHANNEL_LOST);
    struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
    *length = strtoul(head, NULL, 16);
    if (!rights || rights->cmsg_len != CMSG_LEN(3 * sizeof(int)) || *length > MAX_ORDER_BYTES) {
        errno = EPROTO;
        fail(EXIT_FAILED, "order", NULL);
    }
    memcpy(stdio, CMSG_DATA(rights), 3 * sizeof(int));
    char *text = malloc(*length + 1);
    if (!text)
        fail(EXIT_FAILED, "order", NULL);
    text[*length] = 0;
    for (size_t have = 0; have < *length;) {
        ssize_t got = recv(channel, text + have, *length - have, 0);
        if (got <= 0)
            _exit(EXIT_CHANNEL_LOST);
        have += got;
    }
    return text;
}

/* Whether the harness asks to end everything: one byte. A closed channel ends the container at once. */
static int harness_asks_to_end(void)
{
    char word;
    ssize_t got = recv(channel, &word, 1, MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
        _exit(EXIT_CHANNEL_LOST);
    return got == 1;
}


/* ---- The relay: one connection ---- */

struct flow {
    char data[RELAY_BUFFER];
    size_t start, end;
    int ended; /* nothing more comes in */
    int done;  /* and all of it went out, or the receiver does not read any more */
};

/* Side 0 is the program's, side 1 the harness's. to[i] is on its way to side i. */
struct connection {
    struct connection *next;
    const char *socket_path;
    int fd[2]; /* -1: not connected yet */
    struct flow to[2];
};

/* Set when descriptors, memory or the harness's backlog are exhausted: then poll waits RETRY_MS at most. */
static int must_retry;

static int is_shortage(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS || error == EAGAIN;
}

static struct connection *accept_connection(int listener, const char *socket_path)
{
    struct connection *connection = malloc(sizeof *connection);
    if (!connection) {
        must_retry = 1;
        return NULL;
    }
    connection->fd[0] = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (connection->fd[0] < 0) {
        must_retry |= errno != EAGAIN && is_shortage(errno);
        free(connection);
        return NULL;
    }
    connection->fd[1] = -1;
    connection->socket_path = socket_path;
    for (int i = 0; i < 2; i++) { /* not calloc: buffers that are never touched cost no memory */
        struct flow *flow = &connection->to[i];
        flow->start = flow->end = 0;
        flow->ended = flow->done = 0;
    }
    return connection;
}

static void close_connection(struct connection *connection)
{
    close(connection->fd[0]);
    if (connection->fd[1] >= 0)
        close(connection->fd[1]);
    free(connection);
}

/* Returns whether the connection is to be kept. */
static int connect_to_harness(struct connection *connection)
{
    connection->fd[1] = connect_to(connection->socket_path, SOCK_NONBLOCK);
    if (connection->fd[1] >= 0)
        return 1;
    if (is_shortage(errno)) {
        must_retry = 1;
        return 1;
    }
    /* No server listens: the program shall see a reset, not an empty answer. */
    setsockopt(connection->fd[0], SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger));
    return 0;
}

/* Move what is on its way to side i. Each side may end what it sends and still receive. */
static void move_bytes(struct connection *connection, int i)
{
    struct flow *flow = &connection->to[i];
    int from = connection->fd[1 - i], into = connection->fd[i];
    for (int round = 0; round < MAX_ROUNDS && !flow->done; round++) {
        if (flow->start == flow->end && !flow->ended) {
            ssize_t got = recv(from, flow->data, RELAY_BUFFER, 0);
            if (got < 0 && (errno == EAGAIN || errno == EINTR))
                return;
            flow->start = 0;
            flow->end = got > 0 ? got : 0;
            flow->ended = got <= 0;
        }
        if (flow->start < flow->end) {
            ssize_t sent = send(into, flow->data + flow->start, flow->end - flow->start, MSG_NOSIGNAL);
            if (sent < 0 && (errno == EAGAIN || errno == EINTR))
                return;
            if (sent >= 0) {
                flow->start += sent;
                continue;
            }
            shutdown(from, SHUT_RD); /* the receiver has left; the other direction may still have much to send */
            flow->done = 1;
        } else if (flow->ended) {
            shutdown(into, SHUT_WR);
            flow->done = 1;
        }
    }
}

/* Returns whether the connection goes on. */
static int move_connection(struct connection *connection)
{
    if (connection->fd[1] < 0 && !connect_to_harness(connection))
        return 0;
    if (connection->fd[1] >= 0) {
        move_bytes(connection, 0);
        move_bytes(connection, 1);
    }
    return !(connection->to[0].done && connection->to[1].done);
}

/* What to wait for on one side. 0: leave it out of poll, for which a closed socket is always ready. */
static int events_of(struct connection *connection, int side)
{
    struct flow *out = &connection->to[side], *in = &connection->to[1 - side];
    int events = 0;
    if (connection->fd[1] < 0)
        return 0;
    if (!out->done && out->start < out->end)
        events |= POLLOUT;
    if (!in->done && !in->ended && in->start == in->end)
        events |= POLLIN;
    return events;
}


/* ---- The relay: listeners, and all connections in the main loop ---- */

struct listener {
    int fd;
    const char *socket_path;
    int ready; /* a client waits to be accepted */
};

static struct listener listeners[MAX_LISTENERS];
static int listener_count;
static struct connection *connections;

static void listen_on(int family, int port, const char *socket_path)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int is_v4 = family == AF_INET, on = 1;
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && !is_v4)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    if (fd >= 0 && listener_count < MAX_LISTENERS
        && bind(fd, is_v4 ? (void *)&v4 : (void *)&v6, is_v4 ? sizeof v4 : sizeof v6) == 0 && listen(fd, 1024) == 0)
        listeners[listener_count++] = (struct listener){fd, socket_path, 0};
    else if (is_v4)
        fail(EXIT_FAILED, "relay", NULL);
    else if (fd >= 0) /* many containers have no IPv6 at all, and IPv4 is enough */
        close(fd);
}

/* `PORT=PATH` */
static void open_relay(char *port_and_path)
{
    char *path = strchr(port_and_path, '=');
    if (!path)
        return;
    listen_on(AF_INET, atoi(port_and_path), path + 1);
    listen_on(AF_INET6, atoi(port_and_path), path + 1);
}

static size_t count_relay_fds(void)
{
    size_t count = listener_count;
    for (struct connection *each = connections; each; each = each->next)
        count += 2;
    return count;
}

/* No client is accepted while a connection waits for its second descriptor: else first ones could take them all. */
static void fill_relay_fds(struct pollfd *fds)
{
    for (int i = 0; i < listener_count; i++)
        *fds++ = (struct pollfd){must_retry ? -1 : listeners[i].fd, POLLIN, 0};
    for (struct connection *each = connections; each; each = each->next)
        for (int side = 0; side < 2; side++) {
            int events = events_of(each, side);
            *fds++ = (struct pollfd){events ? each->fd[side] : -1, events, 0};
        }
}

/* Remember what poll found. NULL: nothing. */
static void note_relay_fds(const struct pollfd *fds)
{
    for (int i = 0; i < listener_count; i++)
        listeners[i].ready = fds && fds[i].revents;
    must_retry = 0;
}

static void move_relay(void)
{
    for (int i = 0; i < listener_count; i++) {
        struct connection *accepted =
            listeners[i].ready ? accept_connection(listeners[i].fd, listeners[i].socket_path) : NULL;
        if (accepted) {
            accepted->next = connections;
            connections = accepted;
        }
    }
    for (struct connection **at = &connections; *at;) {
        struct connection *connection = *at;
        if (move_connection(connection)) {
            at = &connection->next;
            continue;
        }
        *at = connection->next;
        close_connection(connection);
    }
}


/* ---- The start order ---- */

struct order {
    char **argv, **env;
    const char *cwd;
    int probe_port; /* whose server must answer before the start; 0: none */
    int isolated;   /* refuse to start where there is a route out */
    int terminal;   /* stdout and stderr are to be a terminal */
    int grace_ms;   /* between SIGTERM and SIGKILL */
    int settle_ms;  /* for processes that a program which ended by itself did not wait for */
};

/* The image's own variables (PATH, above all) stay, unless the order sets them. */
static void set_variable(char **env, int *count, char *given)
{
    size_t name_length = strcspn(given, "=") + 1;
    for (int i = 0; i < *count; i++)
        if (strncmp(env[i], given, name_length) == 0) {
            env[i] = given;
            return;
        }
    env[(*count)++] = given;
}

/* Strings that each end with a zero byte. The first letter is the field, the rest its value. Relays are opened here. */
static struct order read_order(char *text, size_t length)
{
    int strings = 0, variables = 0, argc = 0;
    for (size_t i = 0; i < length; i++)
        strings += text[i] == 0;
    while (environ[variables])
        variables++;
    struct order order = {.cwd = "/"};
    order.argv = calloc(strings + 1, sizeof(char *));
    order.env = calloc(strings + variables + 1, sizeof(char *));
    if (!order.argv || !order.env)
        fail(EXIT_FAILED, "order", NULL);
    memcpy(order.env, environ, variables * sizeof(char *));
    for (char *each = text; each < text + length; each += strlen(each) + 1) {
        char *value = each + 1;
        switch (*each) {
        case 'a': order.argv[argc++] = value; break;
        case 'e': set_variable(order.env, &variables, value); break;
        case 'c': order.cwd = value; break;
        case 'r': open_relay(value); break;
        case 'p': order.probe_port = atoi(value); break;
        case 'n': order.isolated = 1; break;
        case 't': order.terminal = 1; break;
        case 'g': order.grace_ms = atoi(value); break;
        case 's': order.settle_ms = atoi(value); break;
        }
    }
    if (argc == 0) {
        errno = EPROTO;
        fail(EXIT_FAILED, "order", NULL);
    }
    return order;
}


/* ---- Checks before the program starts: no route out, and the gateway answers ---- */

static int only_loopback_in(const char *routes, int device_is_first)
{
    char line[512], device[64];
    FILE *file = fopen(routes, "re");
    if (!file)
        return errno == ENOENT; /* no IPv6 */
    if (device_is_first && !fgets(line, sizeof line, file)) /* its heading */
        line[0] = 0;
    int only_loopback = 1;
    while (only_loopback && fgets(line, sizeof line, file)) {
        char *last = strrchr(line, ' ');
        if (sscanf(device_is_first || !last ? line : last, "%63s", device) == 1)
            only_loopback = strcmp(device, "lo") == 0;
    }
    fclose(file);
    return only_loopback;
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

static void check_isolation(void)
{
    static const char *places[] = {"1.1.1.1", "10.0.0.1", "172.17.0.1", "192.168.0.1", "169.254.169.254", "100.64.0.1",
                                   "2606:4700:4700::1111", "fd00::1", "fe80::1"};
    errno = 0;
    if (!only_loopback_in("/proc/net/route", 1) || !only_loopback_in("/proc/net/ipv6_route", 0))
        fail(EXIT_FAILED, "alone", "there is a route that leads out");
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (has_route_to(places[i])) {
            errno = 0;
            fail(EXIT_FAILED, "alone", places[i]);
        }
}

static void check_gateway(int port)
{
    static const char request[] = "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n";
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval timeout = {.tv_sec = GATEWAY_ANSWERS_WITHIN_S};
    char answer[64] = {0};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        fail(EXIT_FAILED, "gateway", NULL);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) < 0
        || send(fd, request, sizeof request - 1, MSG_NOSIGNAL) < 0)
        fail(EXIT_FAILED, "gateway", NULL);
    ssize_t got = recv(fd, answer, 12, MSG_WAITALL); /* `HTTP/1.1 200` */
    if (got < 0)
        fail(EXIT_FAILED, "gateway", NULL);
    if (got < 12 || strncmp(answer, "HTTP/1.", 7) != 0 || strcmp(answer + 8, " 200") != 0) {
        errno = 0;
        answer[strcspn(answer, "\r\n")] = 0;
        fail(EXIT_FAILED, "gateway", got ? answer : "it closed the connection");
    }
    close(fd);
}

#if defined(__x86_64__)
enum { NATIVE_ARCH = AUDIT_ARCH_X86_64, SOCKET_32 = 359 };
#elif defined(__aarch64__)
enum { NATIVE_ARCH = AUDIT_ARCH_AARCH64, SOCKET_32 = 281 };
#else
#error "which system calls open a socket on this architecture?"
#endif
enum { SOCKETCALL_32 = 102, IO_URING_SETUP = 425 };

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define IF(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, yes, no)
#define RETURN(what) BPF_STMT(BPF_RET | BPF_K, what)

/*
 * Some sockets do not need a route: vsock leads from a virtual machine to its host, Bluetooth to other devices. So
 * programs get only the families that a missing network does stop, and no io_uring, which opens sockets past this
 * filter. Older engines allow all of that by default.
 */
static void restrict_sockets(void)
{
    static struct sock_filter filter[] = {
        /*  0 */ LOAD(arch),
        /*  1 */ IF(NATIVE_ARCH, 0, 4),
        /*  2 */ LOAD(nr),
        /*  3 */ BPF_STMT(BPF_ALU | BPF_AND | BPF_K, ~0x40000000u), /* x32 has other numbers for the same calls */
        /*  4 */ IF(IO_URING_SETUP, 11, 0),
        /*  5 */ IF(SYS_socket, 4, 11),
        /*  6 */ LOAD(nr), /* a program of 32 bits */
        /*  7 */ IF(SOCKETCALL_32, 8, 0),
        /*  8 */ IF(IO_URING_SETUP, 7, 0),
        /*  9 */ IF(SOCKET_32, 0, 7),
        /* 10 */ LOAD(args[0]),
        /* 11 */ IF(AF_UNIX, 5, 0),
        /* 12 */ IF(AF_INET, 4, 0),
        /* 13 */ IF(AF_INET6, 3, 0),
        /* 14 */ IF(AF_NETLINK, 2, 0),
        /* 15 */ RETURN(SECCOMP_RET_ERRNO | EAFNOSUPPORT),
        /* 16 */ RETURN(SECCOMP_RET_ERRNO | ENOSYS),
        /* 17 */ RETURN(SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
        fail(EXIT_FAILED, "alone", NULL);
}


/* ---- A program that exists and is still "not found": what is missing is the loader that it names ---- */

/* What an ELF file names as its dynamic linker. */
static int read_linker(int file, char *name, size_t room)
{
    Elf64_Ehdr head;
    Elf64_Phdr part;
    if (pread(file, &head, sizeof head, 0) != sizeof head || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0)
        return 0;
    for (int i = 0; head.e_ident[EI_CLASS] == ELFCLASS64 && i < head.e_phnum; i++) {
        if (pread(file, &part, sizeof part, head.e_phoff + i * sizeof part) != sizeof part)
            return 0;
        if (part.p_type == PT_INTERP && part.p_filesz < room)
            return pread(file, name, part.p_filesz, part.p_offset) == (ssize_t)part.p_filesz;
    }
    return 0;
}

/* What a script names in its first line: #!NAME */
static int read_interpreter(int file, char *name, size_t room)
{
    if (pread(file, name, room - 1, 0) < 3 || name[0] != '#' || name[1] != '!')
        return 0;
    size_t blanks = 2 + strspn(name + 2, " \t");
    memmove(name, name + blanks, room - blanks);
    name[strcspn(name, " \t\r\n")] = 0;
    return 1;
}

/* The name of the missing loader; NULL if that is not what is wrong. */
static const char *missing_loader(const char *path)
{
    static char name[256];
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0)
        return NULL;
    memset(name, 0, sizeof name);
    int found = read_linker(file, name, sizeof name);
    if (!found) {
        memset(name, 0, sizeof name);
        found = read_interpreter(file, name, sizeof name);
    }
    close(file);
    return found && *name && access(name, F_OK) < 0 && errno == ENOENT ? name : NULL;
}


/* ---- Starting the program ---- */

/* Returns only if it fails, with errno set. */
static void execute_file(const char *path, char **argv, char **env)
{
    execve(path, argv, env);
    int error = errno;
    const char *missing = error == ENOENT ? missing_loader(path) : NULL;
    errno = error;
    if (missing)
        fail(EXIT_NOT_FOUND, "loader", missing);
}

/* Like execvpe, but a file that is not executable code is an error, never run as a shell script. */
static void execute(char **argv, char **env)
{
    char candidate[4096 + 256];
    const char *path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    int error = ENOENT;
    if (strchr(argv[0], '/')) {
        execute_file(argv[0], argv, env);
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
        execute_file(candidate, argv, env);
        if (errno == EACCES)
            error = EACCES;
        else if (errno != ENOENT && errno != ENOTDIR)
            return;
    }
    errno = error;
}

/* In the forked child. Every descriptor of this program but 0, 1 and 2 closes at exec. */
static _Noreturn void become_program(struct order *order, const int stdio[3], int started_pipe)
{
    if (order->isolated) {
        check_isolation();
        restrict_sockets();
    }
    if (order->probe_port)
        check_gateway(order->probe_port);
    setsid();
    for (int fd = 0; fd < 3; fd++)
        if (dup2(stdio[fd], fd) < 0)
            fail(EXIT_FAILED, "stdio", NULL);
    if (order->terminal)
        ioctl(1, TIOCSCTTY, 0);
    if (chdir(order->cwd) < 0)
        fail(EXIT_FAILED, "cwd", NULL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    long long now = now_us();
    (void)!write(started_pipe, &now, sizeof now);
    execute(order->argv, order->env);
    fail(errno == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE, "exec", NULL);
}

/* `started_pipe` brings the time of the start, and closes by itself when the program runs. */
static pid_t start_program(struct order *order, int stdio[3], int *started_pipe)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
        fail(EXIT_FAILED, "start", NULL);
    pid_t pid = fork();
    if (pid < 0)
        fail(EXIT_FAILED, "start", NULL);
    if (pid == 0)
        become_program(order, stdio, ends[1]);
    close(ends[1]);
    for (int i = 0; i < 3; i++) /* whoever reads or writes the other end would wait for our copies */
        close(stdio[i]);
    *started_pipe = ends[0];
    return pid;
}


/* ---- The program's terminal, copied to the harness's file ---- */

struct terminal {
    int master, output; /* -1: there is none */
};

static int open_terminal(int *slave)
{
    int unlock = 0;
    int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    if (master < 0 || ioctl(master, TIOCSPTLCK, &unlock) < 0)
        fail(EXIT_FAILED, "terminal", NULL);
    *slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    struct termios settings;
    if (*slave < 0 || tcgetattr(*slave, &settings) < 0)
        fail(EXIT_FAILED, "terminal", NULL);
    settings.c_oflag &= ~OPOST; /* the bytes as they were written: no CR before each LF */
    settings.c_lflag &= ~ECHO;
    tcsetattr(*slave, TCSANOW, &settings);
    ioctl(*slave, TIOCSWINSZ, &(struct winsize){.ws_row = 50, .ws_col = 65535});
    return master;
}

/* Put a terminal in place of stdout and stderr. The program inherits no other descriptor of it: hence dup3. */
static struct terminal give_terminal(int stdio[3])
{
    int slave;
    struct terminal terminal = {.master = open_terminal(&slave), .output = fcntl(stdio[1], F_DUPFD_CLOEXEC, 3)};
    if (terminal.output < 0 || dup3(slave, stdio[1], O_CLOEXEC) < 0 || dup3(slave, stdio[2], O_CLOEXEC) < 0)
        fail(EXIT_FAILED, "terminal", NULL);
    close(slave);
    return terminal;
}

/* Returns whether there may be more: a program that writes without pause must not keep the main loop here. */
static int copy_terminal(struct terminal *terminal)
{
    char data[TERMINAL_BUFFER];
    for (int round = 0; terminal->master >= 0; round++) {
        if (round == MAX_ROUNDS)
            return 1;
        ssize_t got = read(terminal->master, data, sizeof data);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return 0;
        for (ssize_t at = 0, wrote; at < got; at += wrote)
            if ((wrote = write(terminal->output, data + at, got - at)) < 0)
                break; /* a full disk must not stop the program */
        if (got <= 0) { /* Linux's way to say that no process has it open any more */
            close(terminal->master);
            terminal->master = -1;
        }
    }
    return 0;
}


/* ---- Ending: the program, and every other process ---- */

static pid_t program;
static int program_status = -1; /* as waitpid returns it; -1 while it runs */

/* Collect processes that ended. Returns whether any is left: all of a container descend from process 1. */
static int reap(void)
{
    for (;;) {
        int status;
        pid_t pid = waitpid(-1, &status, WNOHANG);
        if (pid == program && pid > 0)
            program_status = status;
        if (pid < 0 && errno == EINTR)
            continue;
        if (pid <= 0)
            return pid == 0;
    }
}

static void terminate_all(void)
{
    kill(-1, SIGTERM);
    kill(-1, SIGCONT); /* a stopped process acts on SIGTERM only when it continues */
}

static void report_leftovers(void)
{
    DIR *processes = opendir("/proc");
    int reported = 0;
    for (struct dirent *each; processes && reported < MAX_LEFTOVERS && (each = readdir(processes));) {
        char path[64], name[4096];
        int pid = atoi(each->d_name);
        if (pid <= 1)
            continue;
        snprintf(path, sizeof path, "/proc/%d/exe", pid);
        ssize_t length = readlink(path, name, sizeof name);
        if (length <= 0 && errno == ENOENT) /* a zombie whose parent has not noticed yet */
            continue;
        report("left %.*s", length > 0 ? (int)length : 1, length > 0 ? name : "?");
        reported++;
    }
    if (processes)
        closedir(processes);
}

static void end_everything(long long kill_at)
{
    if (!reap())
        return;
    terminate_all();
    while (reap() && now_us() < kill_at)
        sleep_ms(REAP_MS);
    for (long long give_up = now_us() + KILL_FOR_MS * 1000LL; reap() && now_us() < give_up; sleep_ms(REAP_MS))
        kill(-1, SIGKILL);
}

/* How often the kernel enforced a limit of the container; -1 if it does not say. `file_v1`: with cgroups of version 1. */
static long read_counter(const char *file, const char *file_v1, const char *key)
{
    char name[64];
    long value, found = -1;
    FILE *counters = fopen(file, "re");
    if (!counters)
        counters = fopen(file_v1, "re");
    while (counters && fscanf(counters, "%63s %ld", name, &value) == 2)
        if (strcmp(name, key) == 0)
            found = value;
    if (counters)
        fclose(counters);
    return found;
}

static long long microseconds(struct timeval time)
{
    return time.tv_sec * 1000000LL + time.tv_usec;
}

static _Noreturn void report_end(long long started, long long ended, int by_itself)
{
    struct rusage usage;
    getrusage(RUSAGE_CHILDREN, &usage);
    long long cpu = microseconds(usage.ru_utime) + microseconds(usage.ru_stime);
    int status = program_status < 0 ? SIGKILL : program_status;
    report("ended %d %d %lld %lld %ld %ld %ld", status, by_itself, ended - started, cpu, usage.ru_maxrss,
           read_counter("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control", "oom_kill"),
           read_counter("/sys/fs/cgroup/pids.events", "/sys/fs/cgroup/pids/pids.events", "max"));
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}


/* ---- The main loop: waits for the harness, the program, its terminal and the relay ---- */

struct watch {
    int signals;
    int started_pipe; /* -1 once the start is reported */
    struct terminal terminal;
};

static void wait_for_events(struct watch *watch, long long deadline)
{
    static struct pollfd *fds;
    static size_t room;
    size_t needed = 4 + count_relay_fds();
    if (needed > room) {
        struct pollfd *more = realloc(fds, 2 * needed * sizeof *fds);
        if (!more) {
            sleep_ms(RETRY_MS);
            note_relay_fds(NULL);
            return;
        }
        fds = more;
        room = 2 * needed;
    }
    fds[0] = (struct pollfd){channel, POLLIN, 0};
    fds[1] = (struct pollfd){watch->signals, POLLIN, 0};
    fds[2] = (struct pollfd){watch->started_pipe, POLLIN, 0};
    fds[3] = (struct pollfd){watch->terminal.master, POLLIN, 0};
    fill_relay_fds(fds + 4);
    long long left_ms = (deadline - now_us() + 999) / 1000;
    int timeout = !deadline ? -1 : left_ms > 0 ? (int)left_ms : 0;
    if (must_retry && (timeout < 0 || timeout > RETRY_MS))
        timeout = RETRY_MS;
    int found = poll(fds, needed, timeout);
    note_relay_fds(found > 0 ? fds + 4 : NULL);
}

/*
 * A SIGTERM from outside the container (`docker stop`) is the same as the harness's request. One from inside has a
 * process number here, and no program can forge the kernel's own SI_USER with a process number of 0.
 */
static int is_asked_to_end(int signals)
{
    struct signalfd_siginfo signal;
    int asked = 0;
    while (read(signals, &signal, sizeof signal) == sizeof signal)
        asked |= signal.ssi_signo == SIGTERM && signal.ssi_pid == 0 && signal.ssi_code == SI_USER;
    return harness_asks_to_end() || asked;
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
        fail(EXIT_FAILED, "start", NULL);
    if (order->terminal)
        watch.terminal = give_terminal(stdio);
    program = start_program(order, stdio, &watch.started_pipe);
    return watch;
}

/* If the program could not be started, the child has reported that already, and the first report counts. */
static void report_start(struct watch *watch, long long *started)
{
    ssize_t got = sizeof *started;
    while (watch->started_pipe >= 0 && got == sizeof *started)
        got = read(watch->started_pipe, started, sizeof *started);
    if (watch->started_pipe < 0 || got != 0)
        return;
    report("ready");
    close(watch->started_pipe);
    watch->started_pipe = -1;
}

/* Until the processes that the program did not wait for have ended by themselves, or the time is over. */
static void settle(struct watch *watch, long long deadline)
{
    while (reap() && now_us() < deadline && !is_asked_to_end(watch->signals)) {
        wait_for_events(watch, deadline);
        move_relay();
        copy_terminal(&watch->terminal);
    }
}

static void reserve_standard_descriptors(void)
{
    int spare;
    do /* until 0, 1 and 2 are taken, so that nothing of ours gets these numbers */
        spare = open("/dev/null", O_RDWR);
    while (spare >= 0 && spare <= 2);
    close(spare);
}

int main(int argc, char **argv)
{
    int stdio[3];
    size_t length;
    if (argc != 2 || getpid() != 1) { /* elsewhere, kill(-1) would hit more than a container */
        fputs("This is the first program of a youBencha container.\n", stderr);
        return EXIT_FAILED;
    }
    reserve_standard_descriptors();
    prctl(PR_SET_DUMPABLE, 0); /* the agent is the same user, but can neither trace us nor see our descriptors */
    channel = connect_to(argv[1], 0);
    if (channel < 0)
        return EXIT_CHANNEL_LOST;
    char *text = receive_order(stdio, &length);
    struct order order = read_order(text, length);
    struct watch watch = start(&order, stdio);
    long long started = now_us(), kill_at = 0;
    int asked = 0;
    while (reap() && program_status < 0) {
        wait_for_events(&watch, kill_at);
        report_start(&watch, &started);
        if (is_asked_to_end(watch.signals) && !asked) {
            asked = 1;
            kill_at = now_us() + order.grace_ms * 1000LL;
            terminate_all();
        }
        if (kill_at && now_us() >= kill_at) {
            kill(-1, SIGKILL);
            kill_at = now_us() + RETRY_MS * 1000LL;
        }
        move_relay();
        copy_terminal(&watch.terminal);
    }
    long long ended = now_us();
    report_start(&watch, &started);
    if (!asked) {
        settle(&watch, ended + order.settle_ms * 1000LL);
        if (reap())
            report_leftovers();
        kill_at = now_us() + order.grace_ms * 1000LL;
    }
    end_everything(kill_at);
    while (copy_terminal(&watch.terminal))
        ;
    report_end(started, ended, !asked);
}
