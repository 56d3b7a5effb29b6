/* For LD_AUDIT, rtld-audit(7): hides this host's driver and CUDA toolkit from glibc's loader on a simulated machine.
   The loader finds libcuda and libnvidia-ml only below the machine's root, by any name or path. It finds the libraries
   of a toolkit there and in environments, but neither in a toolkit's own folders of the host nor through the loader's
   cache and default folders. Other loaders, such as musl's, ignore LD_AUDIT. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { FROM_CACHE = 0x08, FROM_DEFAULT = 0x40 }; /* LA_SER_CONFIG, LA_SER_DEFAULT of glibc's <link.h> */

#define API __attribute__((visibility("default")))

/* The libraries that CuPy and cuda-pathfinder load, and their dependencies. */
static const char *const toolkit[] = {
    "libcudart.so", "libnvrtc.so", "libnvrtc-builtins.so", "libnvJitLink.so", "libcublas.so", "libcublasLt.so",
    "libcufft.so", "libcurand.so", "libcusolver.so", "libcusparse.so", "libnvvm.so",
};

static int begins(const char *text, const char *with) {
    return strncmp(text, with, strlen(with)) == 0;
}

/* Declared here, since <link.h> of musl lacks them. */
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
