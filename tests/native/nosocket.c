/* For LD_PRELOAD: refuses every socket and every look-up of a name, and logs the calls to the file NOSOCKET_LOG.
 *
 * Children inherit both variables, so that a whole tree of processes is logged.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define VISIBLE __attribute__((visibility("default")))

static void note(const char *what, const char *about) {
    const char *path = getenv("NOSOCKET_LOG");
    int file = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
    char line[256];
    if (file < 0) return;
    int length = snprintf(line, sizeof line, "%d %s %s\n", (int)getpid(), what, about);
    if (write(file, line, (size_t)length) < 0) abort();
    close(file);
}

VISIBLE int socket(int family, int type, int protocol) {
    char about[64];
    snprintf(about, sizeof about, "family %d type %d protocol %d", family, type, protocol);
    note("socket", about);
    errno = EACCES;
    return -1;
}

VISIBLE int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **found) {
    (void)service;
    (void)hints;
    *found = NULL;
    note("getaddrinfo", node ? node : "");
    return EAI_FAIL;
}
