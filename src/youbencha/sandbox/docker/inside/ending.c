/* The end: who ended and how, who is left, and that nobody is. */
#include "inside.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    KILL_FOR_MS = 5000, /* a process that hangs in the kernel cannot keep us from ending */
    MOST_LEFTOVERS = 20,
};

pid_t program;
int program_status = -1; /* as waitpid tells it; -1 while it runs */

/* Collect whoever ended. Whether anybody is left: all of a container descend from process 1. */
int reap(void)
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

void ask_all_to_end(void)
{
    kill(-1, SIGTERM);
    kill(-1, SIGCONT); /* a stopped process acts on SIGTERM only when it goes on */
}

void tell_leftovers(void)
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

void end_everything(long long kill_at)
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

_Noreturn void tell_the_end(long long started, long long ended, int by_itself)
{
    struct rusage usage;
    getrusage(RUSAGE_CHILDREN, &usage);
    long long cpu = microseconds(usage.ru_utime) + microseconds(usage.ru_stime);
    int status = program_status < 0 ? SIGKILL : program_status;
    tell("ended %d %d %lld %lld %ld %ld %ld\n", status, by_itself, ended - started, cpu, usage.ru_maxrss,
         counter("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control", "oom_kill"),
         counter("/sys/fs/cgroup/pids.events", "/sys/fs/cgroup/pids/pids.events", "max"));
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}
