/* Files below a folder that are slow, hung, closed to everybody, or end in the middle: for LD_PRELOAD.
 *
 * GPUENV_FAULTY_FOLDER=FOLDER: which files. GPUENV_FILE_FAULT: unreadable (EACCES, for root too), slow (0.05 s for each
 * file that is opened), hung (an open never returns, as on a network's file system whose server is gone), dying (half of a file,
 * or one write, and then EIO), full (every write ends with ENOSPC), lying (no byte is ever missing room, and nothing
 * that was synced was). What the loader itself opens, it opens by other means.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define VISIBLE __attribute__((visibility("default")))
#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define MOST 1024

static atomic_int touched[MOST]; /* by descriptor: 0 not ours, 1 opened, 2 used once */

static int is(const char *how) {
    const char *told = getenv("GPUENV_FILE_FAULT");
    return told && strcmp(told, how) == 0;
}

static int below(const char *path) {
    const char *folder = getenv("GPUENV_FAULTY_FOLDER");
    size_t length = folder ? strlen(folder) : 0;
    return length && path && strncmp(path, folder, length) == 0 && (path[length] == '/' || path[length] == 0);
}

static void wait_for(long seconds, long nanoseconds) {
    struct timespec left = {seconds, nanoseconds};
    while (nanosleep(&left, &left) == -1 && errno == EINTR) continue;
}

/* What happens to an open before it is made; -1 where it is not made. */
static int before(const char *path) {
    if (!below(path)) return 0;
    if (is("slow")) wait_for(0, 50000000);
    if (is("hung")) wait_for(LONG_MAX, 0);
    if (is("unreadable")) {
        errno = EACCES;
        return -1;
    }
    return 1;
}

static int after(int file, int ours) {
    if (file >= 0 && file < MOST) atomic_store(&touched[file], ours == 1);
    return file;
}

#define MODE(flags, mode)                            \
    mode_t mode = 0;                                 \
    if ((flags) & (O_CREAT | __O_TMPFILE)) {         \
        va_list more;                                \
        va_start(more, flags);                       \
        mode = va_arg(more, mode_t);                 \
        va_end(more);                                \
    }

#define OPENING(name)                                                        \
    VISIBLE int name(const char *path, int flags, ...) {                     \
        MODE(flags, mode)                                                    \
        int ours = before(path);                                             \
        return ours < 0 ? -1 : after(NEXT(name)(path, flags, mode), ours);   \
    }
OPENING(open)
OPENING(open64)

#define OPENING_AT(name)                                                        \
    VISIBLE int name(int at, const char *path, int flags, ...) {                \
        MODE(flags, mode)                                                       \
        int ours = before(path);                                                \
        return ours < 0 ? -1 : after(NEXT(name)(at, path, flags, mode), ours);  \
    }
OPENING_AT(openat)
OPENING_AT(openat64)

VISIBLE int close(int file) {
    after(file, 0);
    return NEXT(close)(file);
}

/* Whether this is the first use of one of our files; -1 with EIO at every later one. */
static int use(int file) {
    if (file < 0 || file >= MOST || !is("dying")) return 0;
    int was = atomic_load(&touched[file]);
    if (was == 2) {
        errno = EIO;
        return -1;
    }
    if (was == 1) atomic_store(&touched[file], 2);
    return was;
}

VISIBLE ssize_t read(int file, void *into, size_t count) {
    struct stat told;
    int ours = use(file);
    if (ours < 0) return -1;
    if (ours && fstat(file, &told) == 0 && told.st_size > 1 && count > (size_t)told.st_size / 2)
        count = (size_t)told.st_size / 2;
    return NEXT(read)(file, into, count);
}

VISIBLE ssize_t write(int file, const void *from, size_t count) {
    int ours = use(file);
    if (ours < 0) return -1;
    if (file >= 0 && file < MOST && atomic_load(&touched[file]) && is("full")) {
        errno = ENOSPC;
        return -1;
    }
    return NEXT(write)(file, from, ours && count > 1 ? count / 2 : count);
}

VISIBLE int fsync(int file) {
    if (file >= 0 && file < MOST && atomic_load(&touched[file]) && is("lying")) return 0;
    return NEXT(fsync)(file);
}

static void roomy(struct statvfs *told) { told->f_bfree = told->f_bavail = told->f_blocks = (fsblkcnt_t)1 << 40; }

VISIBLE int statvfs(const char *path, struct statvfs *told) {
    int result = NEXT(statvfs)(path, told);
    if (result == 0 && below(path) && is("lying")) roomy(told);
    return result;
}

VISIBLE int statvfs64(const char *path, struct statvfs64 *told) {
    int result = NEXT(statvfs64)(path, told);
    if (result == 0 && below(path) && is("lying")) roomy((struct statvfs *)told);
    return result;
}
