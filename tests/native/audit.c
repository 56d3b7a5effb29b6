/* For LD_AUDIT: keeps glibc's loader from this host's driver and CUDA toolkit, which a simulated machine does not have:
   rtld-audit(7). Whatever is asked for, and from wherever (the loader's cache, a run path, a whole path), libcuda and
   libnvidia-ml are found below the machine's root or not at all. The libraries of a toolkit are found there and in
   environments: in their own folders of a system, and through the loader's cache and default folders, they are not.
   Other loaders, musl's for one, know no such thing and do not load this. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { FROM_CACHE = 0x08, FROM_DEFAULT = 0x40 }; /* LA_SER_CONFIG, LA_SER_DEFAULT of glibc's <link.h> */

#define API __attribute__((visibility("default")))

/* Those that CuPy and cuda-pathfinder load, and their dependencies. */
static const char *const toolkit[] = {
    "libcudart.so", "libnvrtc.so", "libnvrtc-builtins.so", "libnvJitLink.so", "libcublas.so", "libcublasLt.so",
    "libcufft.so", "libcurand.so", "libcusolver.so", "libcusparse.so", "libnvvm.so",
};

static int begins(const char *text, const char *with) {
    return strncmp(text, with, strlen(with)) == 0;
}

/* Declared by nobody here: <link.h> of musl has none of it. */
API unsigned la_version(unsigned version);
API char *la_objsearch(const char *path, uintptr_t *cookie, unsigned flag);

API unsigned la_version(unsigned version) {
    return version;
}

static int is_hidden(const char *path, unsigned found) {
    const char *slash = strrchr(path, '/');
    if (!slash) return 0;
    if (begins(slash + 1, "libcuda.so") || begins(slash + 1, "libnvidia-ml.so")) return 1;
    if (!(found & (FROM_CACHE | FROM_DEFAULT)) && !begins(path, "/usr/local/cuda") && !begins(path, "/opt/cuda")) return 0;
    for (size_t number = 0; number < sizeof toolkit / sizeof *toolkit; number++)
        if (begins(slash + 1, toolkit[number])) return 1;
    return 0;
}

API char *la_objsearch(const char *path, uintptr_t *cookie, unsigned found) {
    (void)cookie;
    const char *root = getenv("GPUENV_DRIVER_ROOT");
    return root && !begins(path, root) && is_hidden(path, found) ? NULL : (char *)path;
}
