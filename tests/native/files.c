/* For LD_PRELOAD: makes the files below GPUENV_FAULTY_FOLDER faulty, in the way that GPUENV_FILE_FAULT names:
 *
 * unreadable: opening fails with EACCES, for root too;
 * slow: opening takes 0.05 s;
 * hung: opening never returns, as on a network file system whose server does not answer;
 * dying: half of a file is read, or half of one write is made; later calls fail with EIO;
 * full: every write fails with ENOSPC;
 * lying: statvfs reports much free space, and fsync succeeds without effect.
 *
 * The loader opens its files by other means, so they are not faulty.
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

static atomic_int touched[MOST]; /* by descriptor: 0 not in the folder, 1 opened, 2 used once */

static int is(const char *how) {
    const char *fault = getenv("GPUENV_FILE_FAULT");
    return fault && strcmp(fault, how) == 0;
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

/* Applies the fault of an open before it is made; -1 if it is not made. */
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

static int after(int file, int in_folder) {
    if (file >= 0 && file < MOST) atomic_store(&touched[file], in_folder == 1);
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
        int in_folder = before(path);                                             \
        return in_folder < 0 ? -1 : after(NEXT(name)(path, flags, mode), in_folder);   \
    }
OPENING(open)
OPENING(open64)

#define OPENING_AT(name)                                                        \
    VISIBLE int name(int at, const char *path, int flags, ...) {                \
        MODE(flags, mode)                                                       \
        int in_folder = before(path);                                                \
        return in_folder < 0 ? -1 : after(NEXT(name)(at, path, flags, mode), in_folder);  \
    }
OPENING_AT(openat)
OPENING_AT(openat64)

VISIBLE int close(int file) {
    after(file, 0);
    return NEXT(close)(file);
}

/* 1 at the first use of a file in the folder, -1 with EIO at every later one, else 0. */
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
    struct stat status;
    int in_folder = use(file);
    if (in_folder < 0) return -1;
    if (in_folder && fstat(file, &status) == 0 && status.st_size > 1 && count > (size_t)status.st_size / 2)
        count = (size_t)status.st_size / 2;
    return NEXT(read)(file, into, count);
}

VISIBLE ssize_t write(int file, const void *from, size_t count) {
    int in_folder = use(file);
    if (in_folder < 0) return -1;
    if (file >= 0 && file < MOST && atomic_load(&touched[file]) && is("full")) {
        errno = ENOSPC;
        return -1;
    }
    return NEXT(write)(file, from, in_folder && count > 1 ? count / 2 : count);
}

VISIBLE int fsync(int file) {
    if (file >= 0 && file < MOST && atomic_load(&touched[file]) && is("lying")) return 0;
    return NEXT(fsync)(file);
}

static void report_free_space(struct statvfs *status) { status->f_bfree = status->f_bavail = status->f_blocks = (fsblkcnt_t)1 << 40; }

VISIBLE int statvfs(const char *path, struct statvfs *status) {
    int result = NEXT(statvfs)(path, status);
    if (result == 0 && below(path) && is("lying")) report_free_space(status);
    return result;
}

VISIBLE int statvfs64(const char *path, struct statvfs64 *status) {
    int result = NEXT(statvfs64)(path, status);
    if (result == 0 && below(path) && is("lying")) report_free_space((struct statvfs *)status);
    return result;
}
