/* A program that is there, and yet "not found": the kernel means the other program that has to load it. */
#include "inside.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

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

/* The name of the missing one; NULL if that is not what is wrong. */
const char *missing_loader(const char *path)
{
    static char name[256];
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0)
        return NULL;
    int found = read_linker(file, name, sizeof name);
    if (!found) {
        memset(name, 0, sizeof name);
        found = read_interpreter(file, name, sizeof name);
    }
    close(file);
    return found && *name && access(name, F_OK) < 0 && errno == ENOENT ? name : NULL;
}
