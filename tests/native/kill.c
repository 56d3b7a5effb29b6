/* Ends a process with SIGKILL before its N-th call that changes a file system, or counts these calls; sets its clock.
 *
 * For LD_PRELOAD. KILL_AT=N: which call is not made any more; COUNT_TO=FILE: how many there were, written at exit;
 * CLOCK_BACK=S: the time of day is S seconds earlier; CLOCK_HOW: "stands" (it does not go on), "jumps" (from the third
 * question on, it is a day earlier and a day later in turn), "slow" (it goes at a tenth of its speed). All are taken out
 * of the environment at once, so that children are left alone.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static atomic_long calls;
static long kill_at, clock_back;
static char count_to[4096];
static enum { RIGHT, STANDS, JUMPS, SLOW } clock_how;
static atomic_long asked;
static time_t first;
static pid_t counted;

__attribute__((constructor)) static void begin(void) {
    const char *at = getenv("KILL_AT"), *to = getenv("COUNT_TO");
    const char *back = getenv("CLOCK_BACK");
    kill_at = at ? atol(at) : 0;
    clock_back = back ? atol(back) : 0;
    if (to) snprintf(count_to, sizeof count_to, "%s", to);
    const char *how = getenv("CLOCK_HOW");
    clock_how = !how ? RIGHT : !strcmp(how, "stands") ? STANDS : !strcmp(how, "jumps") ? JUMPS : SLOW;
    counted = getpid();
    unsetenv("KILL_AT");
    unsetenv("COUNT_TO");
    unsetenv("CLOCK_BACK");
    unsetenv("CLOCK_HOW");
}

__attribute__((destructor)) static void end(void) {
    if (!count_to[0] || getpid() != counted) return;
    FILE *file = fopen(count_to, "w");
    if (file) {
        fprintf(file, "%ld\n", atomic_load(&calls));
        fclose(file);
    }
}

static void step(void) {
    if (getpid() == counted && atomic_fetch_add(&calls, 1) + 1 == kill_at) kill(counted, SIGKILL);
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define VISIBLE __attribute__((visibility("default")))

/* gpuenv ends by this, which runs no destructor. */
VISIBLE void _exit(int code) {
    end();
    syscall(SYS_exit_group, code);
    __builtin_unreachable();
}

VISIBLE int rename(const char *from, const char *to) { step(); return NEXT(rename)(from, to); }
VISIBLE int renameat(int a, const char *from, int b, const char *to) { step(); return NEXT(renameat)(a, from, b, to); }
VISIBLE int unlink(const char *path) { step(); return NEXT(unlink)(path); }
VISIBLE int unlinkat(int at, const char *path, int flags) { step(); return NEXT(unlinkat)(at, path, flags); }
VISIBLE int mkdir(const char *path, mode_t mode) { step(); return NEXT(mkdir)(path, mode); }
VISIBLE int rmdir(const char *path) { step(); return NEXT(rmdir)(path); }
VISIBLE int fsync(int file) { step(); return NEXT(fsync)(file); }

static void spoil_clock(struct timespec *told) {
    long times = atomic_fetch_add(&asked, 1);
    if (times == 0) first = told->tv_sec;
    if (clock_how == STANDS) *told = (struct timespec){first, 0};
    if (clock_how == JUMPS && times > 2) told->tv_sec += times % 2 ? 86400 : -86400;
    if (clock_how == SLOW) told->tv_sec = first + (told->tv_sec - first) / 10;
    told->tv_sec -= clock_back;
}

VISIBLE int clock_gettime(clockid_t which, struct timespec *told) {
    int result = NEXT(clock_gettime)(which, told);
    if (result == 0 && which == CLOCK_REALTIME) spoil_clock(told);
    return result;
}

VISIBLE time_t time(time_t *put) {
    struct timespec told = {0};
    clock_gettime(CLOCK_REALTIME, &told);
    if (put) *put = told.tv_sec;
    return told.tv_sec;
}

static mode_t mode_of(int flags, va_list more) { return flags & (O_CREAT | __O_TMPFILE) ? va_arg(more, mode_t) : 0; }

#define OPENING(name)                                        \
    VISIBLE int name(const char *path, int flags, ...) {     \
        va_list more;                                        \
        va_start(more, flags);                               \
        mode_t mode = mode_of(flags, more);                  \
        va_end(more);                                        \
        if (flags & O_CREAT) step();                         \
        return NEXT(name)(path, flags, mode);                \
    }
OPENING(open)
OPENING(open64)
