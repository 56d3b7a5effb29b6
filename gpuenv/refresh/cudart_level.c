/* A libcuda.so.1 that reports the CUDA level in GPUENV_CUDA_LEVEL (12040 is 12.4) and has no GPU: enough for a real
   cudart to say whether it accepts such a driver. */
#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default")))
enum { SUCCESS = 0, NO_DEVICE = 100 };

API int cuDriverGetVersion(int *out) {
    const char *level = getenv("GPUENV_CUDA_LEVEL");
    *out = level ? atoi(level) : 0;
    return SUCCESS;
}

API int cuInit(unsigned flags) {
    (void)flags;
    return NO_DEVICE;
}

static int no_device(void) { return NO_DEVICE; }

/* CUDA 11 has no fifth argument. A cudart requests the function of a CUDA version, as in cudaTypedefs.h of CUDA 12:
   PFN_cuGetProcAddress_v11030 and PFN_cuGetProcAddress_v12000. */
API int cuGetProcAddress(const char *name, void **out, int version, unsigned long long flags);

API int cuGetProcAddress_v2(const char *name, void **out, int version, unsigned long long flags, int *found) {
    (void)flags;
    if (found) *found = 0;
    if (!strcmp(name, "cuDriverGetVersion")) *out = (void *)cuDriverGetVersion;
    else if (!strcmp(name, "cuInit")) *out = (void *)cuInit;
    else if (!strcmp(name, "cuGetProcAddress"))
        *out = version < 12000 ? (void *)cuGetProcAddress : (void *)cuGetProcAddress_v2;
    else *out = (void *)no_device;
    return SUCCESS;
}

API int cuGetProcAddress(const char *name, void **out, int version, unsigned long long flags) {
    return cuGetProcAddress_v2(name, out, version, flags, 0);
}
