/* What to do, as the harness wrote it down. */
#include "inside.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
struct order read_order(char *text, size_t length)
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
        case 's': order.settle_ms = atoi(value); break;
        }
    }
    return order;
}
