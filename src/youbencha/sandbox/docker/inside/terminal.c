/* A terminal for the program, copied to where its output belongs. */
#include "inside.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

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

/* In place of stdout and stderr. */
struct terminal give_terminal(int stdio[3])
{
    int theirs;
    struct terminal terminal = {.ours = open_terminal(&theirs), .output = fcntl(stdio[1], F_DUPFD_CLOEXEC, 0)};
    dup2(theirs, stdio[1]);
    dup2(theirs, stdio[2]);
    close(theirs);
    return terminal;
}

void copy_terminal(struct terminal *terminal)
{
    char data[16 * 1024];
    for (ssize_t got; terminal->ours >= 0;) {
        got = read(terminal->ours, data, sizeof data);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        for (ssize_t at = 0, wrote; at < got; at += wrote)
            if ((wrote = write(terminal->output, data + at, got - at)) < 0)
                break; /* a full disk must not stop the program */
        if (got <= 0) { /* Linux's way to say that nobody writes any more */
            close(terminal->ours);
            terminal->ours = -1;
        }
    }
}
