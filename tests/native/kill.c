/* For LD_PRELOAD: kills a process before its N-th change of a file system, counts such calls, or spoils its clock.
 *
 * KILL_AT=N: the call before which SIGKILL ends the process; COUNT_TO=FILE: gets the number of calls at exit;
 * CLOCK_BACK=S: the time of day is S seconds earlier; CLOCK_HOW: "stands" (the clock is stopped), "jumps" (from the
 * third call on, a day earlier and a day later in turn), "slow" (a tenth of its speed). All are removed from the
 * environment at once, so that children are not affected.
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
static enum { RIGHT, STOPPED, JUMPS, SLOW } clock_how;
static atomic_long clock_calls;
static time_t first;
static pid_t counted;

__attribute__((constructor)) static void begin(void) {
    const char *at = getenv("KILL_AT"), *to = getenv("COUNT_TO");
    const char *back = getenv("CLOCK_BACK");
    kill_at = at ? atol(at) : 0;
    clock_back = back ? atol(back) : 0;
    if (to) snprintf(count_to, sizeof count_to, "%s", to);
    const char *how = getenv("CLOCK_HOW");
    clock_how = !how ? RIGHT : !strcmp(how, "stands") ? STOPPED : !strcmp(how, "jumps") ? JUMPS : SLOW;
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

/* gpuenv exits by this call, which runs no destructor. */
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

static void spoil_clock(struct timespec *now) {
    long times = atomic_fetch_add(&clock_calls, 1);
    if (times == 0) first = now->tv_sec;
    if (clock_how == STOPPED) *now = (struct timespec){first, 0};
    if (clock_how == JUMPS && times > 2) now->tv_sec += times % 2 ? 86400 : -86400;
    if (clock_how == SLOW) now->tv_sec = first + (now->tv_sec - first) / 10;
    now->tv_sec -= clock_back;
}

VISIBLE int clock_gettime(clockid_t which, struct timespec *now) {
    int result = NEXT(clock_gettime)(which, now);
    if (result == 0 && which == CLOCK_REALTIME) spoil_clock(now);
    return result;
}

VISIBLE time_t time(time_t *put) {
    struct timespec now = {0};
    clock_gettime(CLOCK_REALTIME, &now);
    if (put) *put = now.tv_sec;
    return now.tv_sec;
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
