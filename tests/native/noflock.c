/* A file system that keeps no locks, as a network's without its lock daemon: for LD_PRELOAD. */
#include <errno.h>

__attribute__((visibility("default"))) int flock(int file, int operation) {
    (void)file;
    (void)operation;
    errno = ENOLCK;
    return -1;
}
