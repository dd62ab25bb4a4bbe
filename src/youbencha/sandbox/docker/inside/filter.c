/* Which sockets the program may open at all. */
#include "inside.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

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
void allow_only_known_sockets(void)
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
    struct sock_fprog whole = {sizeof filter / sizeof *filter, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &whole) < 0)
        fail(FAILED, "alone", NULL);
}
