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
 * One static file that needs nothing of the image. Usage: inside /path/to/lifeline.sock
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
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

enum {
    MOST_LISTENERS = 32,
    BUFFER = 32 * 1024,
    LONGEST_ORDER = 64 * 1024 * 1024,
    ROUNDS = 16,          /* pieces that one connection may move before the others have their turn */
    AGAIN_MS = 20,        /* when descriptors or the other end's queue are full: look again after this */
    PROBE_S = 15,
    KILL_FOR_MS = 5000,   /* a process that hangs in the kernel cannot keep us from ending */
    MOST_LEFTOVERS = 20,
    FAILED = 125, NOT_EXECUTABLE = 126, NOT_FOUND = 127, LIFELINE_LOST = 137,
};

static int life = -1;

/* ---- telling the harness ------------------------------------------------------------------------------------- */

static void tell(const char *format, ...)
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

static _Noreturn void fail(int code, const char *step, const char *about)
{
    int number = errno;
    tell("failed %s %d %s\n", step, number, about ? about : strerror(number));
    _exit(code);
}

static long long now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000LL + now.tv_nsec / 1000;
}

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000L}, NULL);
}

/* ---- what to do ---------------------------------------------------------------------------------------------- */

struct order {
    char **argv, **env;
    const char *cwd;
    int probe;     /* a port, or 0 */
    int alone;     /* whether there must be no way out */
    int terminal;  /* whether stdout and stderr shall be a terminal */
    int grace_ms;
};

struct listener {
    int fd;
    const char *socket;
    int ready; /* somebody calls */
};

static struct listener listeners[MOST_LISTENERS];
static int listener_count;

static int dial(const char *path, int flags)
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

/* The order begins with its length, eight hexadecimal digits, and the three descriptors ride along with them. */
static char *receive_order(int stdio[3], size_t *length)
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

static void open_relay(char *port_and_path)
{
    char *path = strchr(port_and_path, '=');
    if (!path)
        return;
    listen_on(AF_INET, atoi(port_and_path), path + 1);
    listen_on(AF_INET6, atoi(port_and_path), path + 1);
}

/* The image's own variables (PATH, above all) stay, unless the order says otherwise. */
static void set_variable(char **env, int *count, char *given)
{
    size_t name = strcspn(given, "=") + 1;
    for (int i = 0; i < *count; i++)
        if (strncmp(env[i], given, name) == 0) {
            env[i] = given;
            return;
        }
    env[(*count)++] = given;
}

/* Strings that each end with a zero byte; the first letter says what one is. */
static struct order read_order(char *text, size_t length)
{
    int strings = 0, inherited = 0, argc = 0;
    for (size_t i = 0; i < length; i++)
        strings += text[i] == 0;
    while (environ[inherited])
        inherited++;
    struct order order = {.cwd = "/"};
    order.argv = calloc(strings + 1, sizeof(char *));
    order.env = calloc(strings + inherited + 1, sizeof(char *));
    if (!order.argv || !order.env)
        fail(FAILED, "order", NULL);
    memcpy(order.env, environ, inherited * sizeof(char *));
    for (char *each = text; each < text + length; each += strlen(each) + 1) {
        char *value = each + 1;
        switch (*each) {
        case 'a': order.argv[argc++] = value; break;
        case 'e': set_variable(order.env, &inherited, value); break;
        case 'c': order.cwd = value; break;
        case 'r': open_relay(value); break;
        case 'p': order.probe = atoi(value); break;
        case 'n': order.alone = 1; break;
        case 't': order.terminal = 1; break;
        case 'g': order.grace_ms = atoi(value); break;
        }
    }
    return order;
}

/* ---- the relay ----------------------------------------------------------------------------------------------- */

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

static struct link *links;
static int must_look_again;

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

/* One at a time, and none while another still waits for its second descriptor: else first halves could take them all. */
static void accept_link(struct listener *listener)
{
    struct link *link = malloc(sizeof *link);
    if (!link) {
        must_look_again = 1;
        return;
    }
    link->fd[0] = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (link->fd[0] < 0) {
        must_look_again |= errno != EAGAIN && is_short_of_something(errno);
        free(link);
        return;
    }
    link->fd[1] = -1;
    link->socket = listener->socket;
    for (int i = 0; i < 2; i++) /* not calloc: memory that is never touched costs nothing */
        link->to[i].at = link->to[i].end = link->to[i].ended = link->to[i].done = 0;
    link->next = links;
    links = link;
}

static int link_goes_on(struct link *link)
{
    if (link->fd[1] < 0 && !connect_link(link))
        return 0;
    if (link->fd[1] >= 0) {
        pump(link, 0);
        pump(link, 1);
    }
    return !(link->to[0].done && link->to[1].done);
}

static void move_bytes(void)
{
    for (struct link **at = &links; *at;) {
        struct link *link = *at;
        if (link_goes_on(link)) {
            at = &link->next;
            continue;
        }
        *at = link->next;
        close(link->fd[0]);
        if (link->fd[1] >= 0)
            close(link->fd[1]);
        free(link);
    }
}

/* What each end is waited for. An end that nothing is wanted of is left out: a closed one would wake us for ever. */
static int link_events(struct link *link, int end)
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

/* ---- checks before the program starts -------------------------------------------------------------------------- */

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

static void check_alone(void)
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

#if defined(__x86_64__)
enum { NATIVE = AUDIT_ARCH_X86_64, SOCKET_32 = 359 };
#elif defined(__aarch64__)
enum { NATIVE = AUDIT_ARCH_AARCH64, SOCKET_32 = 281 };
#else
#error "which system calls open a socket here?"
#endif
enum { SOCKETCALL_32 = 102, IO_URING_SETUP = 425 };

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define IF(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, yes, no)
#define ANSWER(what) BPF_STMT(BPF_RET | BPF_K, what)

/*
 * Not every socket is bound to a network: vsock leads from a virtual machine to its host, Bluetooth into the air, and
 * no missing route stops them. So programs get the families that a missing network does stop, and no io_uring, which
 * opens sockets past this filter. Older engines allow all that by default.
 */
static void allow_only_known_sockets(void)
{
    static struct sock_filter filter[] = {
        /*  0 */ LOAD(arch),
        /*  1 */ IF(NATIVE, 0, 4),
        /*  2 */ LOAD(nr),
        /*  3 */ BPF_STMT(BPF_ALU | BPF_AND | BPF_K, ~0x40000000u), /* x32 numbers the same calls anew */
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
        /* 15 */ ANSWER(SECCOMP_RET_ERRNO | EAFNOSUPPORT),
        /* 16 */ ANSWER(SECCOMP_RET_ERRNO | ENOSYS),
        /* 17 */ ANSWER(SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
        fail(FAILED, "alone", NULL);
}

static void check_gateway(int port)
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

/* ---- the program ----------------------------------------------------------------------------------------------- */

/* As execvpe, but a file that is no program is an error, never a shell's script. */
static void execute(char **argv, char **env)
{
    char candidate[4096 + 256];
    const char *path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    int worst = ENOENT;
    if (strchr(argv[0], '/')) {
        execve(argv[0], argv, env);
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
        execve(candidate, argv, env);
        if (errno == EACCES)
            worst = EACCES;
        else if (errno != ENOENT && errno != ENOTDIR)
            return;
    }
    errno = worst;
}

static int open_terminal(int *theirs)
{
    int unlock = 0;
    int ours = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    if (ours < 0 || ioctl(ours, TIOCSPTLCK, &unlock) < 0)
        fail(FAILED, "terminal", NULL);
    *theirs = ioctl(ours, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    struct termios settings;
    if (*theirs < 0 || tcgetattr(*theirs, &settings) < 0)
        fail(FAILED, "terminal", NULL);
    settings.c_oflag &= ~OPOST; /* the bytes as they were written: no CR before each LF */
    settings.c_lflag &= ~ECHO;
    tcsetattr(*theirs, TCSANOW, &settings);
    ioctl(*theirs, TIOCSWINSZ, &(struct winsize){.ws_row = 50, .ws_col = 200});
    return ours;
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

/* ---- the end --------------------------------------------------------------------------------------------------- */

static pid_t program;
static int program_status = -1; /* as waitpid tells it; -1 while it runs */

/* Collect whoever ended. Whether anybody is left: all of a container descend from process 1. */
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

static void ask_all_to_end(void)
{
    kill(-1, SIGTERM);
    kill(-1, SIGCONT); /* a stopped process acts on SIGTERM only when it goes on */
}

static void tell_leftovers(void)
{
    DIR *processes = opendir("/proc");
    int told = 0;
    for (struct dirent *each; processes && told < MOST_LEFTOVERS && (each = readdir(processes));) {
        char path[64], name[4096];
        int pid = atoi(each->d_name);
        if (pid <= 1)
            continue;
        snprintf(path, sizeof path, "/proc/%d/exe", pid);
        ssize_t length = readlink(path, name, sizeof name - 1);
        if (length <= 0 && errno == ENOENT) /* ended already, and waits for its parent to notice */
            continue;
        for (ssize_t i = 0; i < length; i++)
            if (name[i] == '\n')
                name[i] = '?';
        tell("left %.*s\n", length > 0 ? (int)length : 1, length > 0 ? name : "?");
        told++;
    }
    if (processes)
        closedir(processes);
}

static void end_everything(long long kill_at)
{
    if (!reap())
        return;
    ask_all_to_end();
    while (reap() && now_us() < kill_at)
        pause_ms(2);
    for (long long give_up = now_us() + KILL_FOR_MS * 1000LL; reap() && now_us() < give_up; pause_ms(2))
        kill(-1, SIGKILL);
}

/* How often the kernel had to enforce a limit of ours; -1 if it does not say. */
static long counter(const char *file, const char *older_file, const char *key)
{
    char name[64];
    long value, found = -1;
    FILE *counters = fopen(file, "re");
    if (!counters)
        counters = fopen(older_file, "re");
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

static _Noreturn void tell_the_end(long long started, long long ended)
{
    struct rusage usage;
    getrusage(RUSAGE_CHILDREN, &usage);
    long long cpu = microseconds(usage.ru_utime) + microseconds(usage.ru_stime);
    int status = program_status < 0 ? SIGKILL : program_status;
    tell("ended %d %lld %lld %ld %ld %ld\n", status, ended - started, cpu, usage.ru_maxrss,
         counter("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control", "oom_kill"),
         counter("/sys/fs/cgroup/pids.events", "/sys/fs/cgroup/pids/pids.events", "max"));
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

/* ---- all together ---------------------------------------------------------------------------------------------- */

struct watch {
    int signals, terminal, output;
    int starting; /* brings the time, and then closes by itself, when the program is started; -1 once that is told */
};

static void copy_terminal(struct watch *watch)
{
    char data[16 * 1024];
    for (ssize_t got; watch->terminal >= 0;) {
        got = read(watch->terminal, data, sizeof data);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        for (ssize_t at = 0, wrote; at < got; at += wrote)
            if ((wrote = write(watch->output, data + at, got - at)) < 0)
                break; /* a full disk must not stop the program */
        if (got <= 0) { /* Linux's way to say that nobody writes any more */
            close(watch->terminal);
            watch->terminal = -1;
        }
    }
}

static void wait_for_something(struct watch *watch, long long kill_at)
{
    static struct pollfd *fds;
    static size_t room;
    size_t count = 4, needed = 4 + listener_count;
    for (struct link *link = links; link; link = link->next)
        needed += 2;
    if (needed > room) {
        struct pollfd *more = realloc(fds, 2 * needed * sizeof *fds);
        if (!more) {
            pause_ms(AGAIN_MS);
            must_look_again = 0;
            return;
        }
        fds = more;
        room = 2 * needed;
    }
    fds[0] = (struct pollfd){life, POLLIN, 0};
    fds[1] = (struct pollfd){watch->signals, POLLIN, 0};
    fds[2] = (struct pollfd){watch->starting, POLLIN, 0};
    fds[3] = (struct pollfd){watch->terminal, POLLIN, 0};
    for (int i = 0; i < listener_count; i++)
        fds[count++] = (struct pollfd){must_look_again ? -1 : listeners[i].fd, POLLIN, 0};
    for (struct link *link = links; link; link = link->next)
        for (int end = 0; end < 2; end++) {
            int events = link_events(link, end);
            fds[count++] = (struct pollfd){events ? link->fd[end] : -1, events, 0};
        }
    long long left_ms = kill_at ? (kill_at - now_us() + 999) / 1000 : -1;
    int timeout = kill_at ? (left_ms > 0 ? (int)left_ms : 0) : -1;
    if (must_look_again && (timeout < 0 || timeout > AGAIN_MS))
        timeout = AGAIN_MS;
    int found = poll(fds, count, timeout);
    for (int i = 0; i < listener_count; i++)
        listeners[i].ready = found > 0 && fds[4 + i].revents;
    must_look_again = 0;
}

/* What the harness says: `t`, end it. Whether the docker CLI's `stop` said so is the same to us. */
static int is_asked_to_end(int signals)
{
    struct signalfd_siginfo signal;
    int asked = 0;
    while (read(signals, &signal, sizeof signal) == sizeof signal)
        asked |= signal.ssi_signo == SIGTERM;
    char word;
    ssize_t got = recv(life, &word, 1, MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
        _exit(LIFELINE_LOST); /* the kernel ends all the others with us */
    return asked || got == 1;
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
    int starting[2], theirs = -1;
    struct watch watch = {.signals = open_signals(), .terminal = -1, .output = -1};
    if (watch.signals < 0 || pipe2(starting, O_CLOEXEC | O_NONBLOCK) < 0)
        fail(FAILED, "start", NULL);
    if (order->terminal) {
        watch.terminal = open_terminal(&theirs);
        watch.output = fcntl(stdio[1], F_DUPFD_CLOEXEC, 0);
        dup2(theirs, stdio[1]);
        dup2(theirs, stdio[2]);
        close(theirs);
    }
    program = fork();
    if (program < 0)
        fail(FAILED, "start", NULL);
    if (program == 0)
        be_the_program(order, stdio, starting[1]);
    close(starting[1]);
    for (int i = 0; i < 3; i++) /* what we kept open, the program's readers and writers would wait for */
        close(stdio[i]);
    watch.starting = starting[0];
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

int main(int argc, char **argv)
{
    int stdio[3];
    size_t length;
    if (argc != 2 || getpid() != 1) { /* elsewhere, kill(-1) would hit more than a container */
        fputs("This is the first program of a youBencha container.\n", stderr);
        return FAILED;
    }
    int spare;
    do /* until 0, 1 and 2 are taken, so that nothing of ours gets these numbers */
        spare = open("/dev/null", O_RDWR);
    while (spare >= 0 && spare <= 2);
    close(spare);
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
        for (int i = 0; i < listener_count; i++)
            if (listeners[i].ready)
                accept_link(&listeners[i]);
        move_bytes();
        copy_terminal(&watch);
    }
    long long ended = now_us();
    tell_if_ready(&watch, &started);
    if (!asked && reap())
        tell_leftovers();
    end_everything(asked ? kill_at : ended + order.grace_ms * 1000LL);
    copy_terminal(&watch);
    tell_the_end(started, ended);
}
