/* For LD_AUDIT: keeps glibc's loader from the host's own driver, which a pretend machine does not have: rtld-audit(7).
   Whatever is asked for, and from wherever (the loader's cache, a run path, a whole path), libcuda and libnvidia-ml are
   found below the machine's root or not at all. Other loaders, musl's for one, know no such thing and do not load this. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default")))

static int begins(const char *text, const char *with) {
    return strncmp(text, with, strlen(with)) == 0;
}

/* Declared by nobody here: <link.h> of musl has none of it. */
API unsigned la_version(unsigned version);
API char *la_objsearch(const char *path, uintptr_t *cookie, unsigned flag);

API unsigned la_version(unsigned version) {
    return version;
}

API char *la_objsearch(const char *path, uintptr_t *cookie, unsigned flag) {
    (void)cookie;
    (void)flag;
    const char *root = getenv("GPUENV_DRIVER_ROOT"), *slash = strrchr(path, '/');
    int of_a_driver = slash && (begins(slash + 1, "libcuda.so") || begins(slash + 1, "libnvidia-ml.so"));
    return of_a_driver && root && !begins(path, root) ? NULL : (char *)path;
}
