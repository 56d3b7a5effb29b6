/* libcuda.so.1 of a machine that exists only as a profile: the part of the driver API that lists the visible GPUs. */
#define _POSIX_C_SOURCE 200809L

#include "stub.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, INVALID_VALUE = 1, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101 };

struct visible { int gpu, instance; };

static struct visible visible[STUB_GPUS];
static int visible_count;
static int initialised;

/* --- which devices a process sees -------------------------------------------------------------------------- */

static int in_pci_order(int a, int b) {
    struct stub_pci x = stub_gpu_pci(a), y = stub_gpu_pci(b);
    if (x.domain != y.domain) return x.domain < y.domain;
    if (x.bus != y.bus) return x.bus < y.bus;
    return x.device <= y.device;
}

/* FASTEST_FIRST is not documented by NVIDIA; here: higher compute capability, then more memory. */
static int faster_or_equal(int a, int b) {
    int a_major, a_minor, b_major, b_minor;
    stub_gpu_capability(a, &a_major, &a_minor);
    stub_gpu_capability(b, &b_major, &b_minor);
    if (a_major != b_major) return a_major > b_major;
    if (a_minor != b_minor) return a_minor > b_minor;
    return stub_gpu_memory(a, WHOLE_GPU) >= stub_gpu_memory(b, WHOLE_GPU);
}

/* Ordinals count only the GPUs whose device nodes this process may open. */
static int enumerate(int *order) {
    const char *wanted = getenv("CUDA_DEVICE_ORDER");
    int by_pci = wanted && strcmp(wanted, "PCI_BUS_ID") == 0;
    int count = 0;
    for (int gpu = 0; gpu < stub_gpu_count(); gpu++) {
        if (stub_gpu_number(gpu, WHOLE_GPU, "denied", 0)) continue;
        int place = count++; /* insertion keeps equals in the order of the profile */
        for (; place > 0; place--) {
            int before = order[place - 1];
            if (by_pci ? in_pci_order(before, gpu) : faster_or_equal(before, gpu)) break;
            order[place] = before;
        }
        order[place] = gpu;
    }
    return count;
}

/* One entry of CUDA_VISIBLE_DEVICES; 0: invalid, which ends the list. */
static int by_ordinal(const char *entry, const int *order, int count, struct visible *out) {
    char *end;
    long ordinal = strtol(entry, &end, 10); /* like the driver, "1x" is 1 */
    if (end == entry || ordinal < 0 || ordinal >= count) return 0;
    *out = (struct visible){order[ordinal], WHOLE_GPU};
    return 1;
}

static int by_gpu_uuid(const char *entry, const int *order, int count, struct visible *out) {
    char uuid[96];
    int matches = 0;
    for (int place = 0; place < count; place++) {
        stub_gpu_uuid(order[place], WHOLE_GPU, uuid, sizeof uuid);
        if (strncmp(uuid, entry, strlen(entry)) != 0) continue;
        *out = (struct visible){order[place], WHOLE_GPU};
        matches++;
    }
    return matches == 1;
}

/* MIG-<uuid>, or MIG-GPU-<uuid>/<gpu instance>/<compute instance> as before R470. */
static int by_mig_uuid(const char *entry, const int *order, int count, struct visible *out) {
    char uuid[96], legacy[128];
    for (int place = 0; place < count; place++)
        for (int gpu = order[place], instance = 0; instance < stub_instance_count(gpu); instance++) {
            stub_gpu_uuid(gpu, WHOLE_GPU, uuid, sizeof uuid);
            snprintf(legacy, sizeof legacy, "MIG-%s/%u/%u", uuid, stub_gpu_instance_id(gpu, instance),
                     stub_compute_instance_id(gpu, instance));
            stub_gpu_uuid(gpu, instance, uuid, sizeof uuid);
            if (strcmp(entry, uuid) != 0 && strcmp(entry, legacy) != 0) continue;
            *out = (struct visible){gpu, instance};
            return 1;
        }
    return 0;
}

static int kind_of(const char *entry) {
    return strncmp(entry, "GPU-", 4) == 0 ? 'G' : strncmp(entry, "MIG-", 4) == 0 ? 'M' : 'O';
}

static char *trim(char *text) {
    while (isspace((unsigned char)*text)) text++;
    char *end = text + strlen(text);
    while (end > text && isspace((unsigned char)end[-1])) end--;
    *end = '\0';
    return text;
}

/* The list ends at the first invalid entry or change of kind; an entry given twice leaves nothing visible. */
static int select_listed(char *list, const int *order, int count, struct visible *out) {
    int chosen = 0, kind = 0;
    for (char *rest = list; rest && chosen < STUB_GPUS;) {
        char *comma = strchr(rest, ',');
        if (comma) *comma = '\0';
        char *entry = trim(rest);
        rest = comma ? comma + 1 : NULL;
        if (kind && kind_of(entry) != kind) break;
        kind = kind_of(entry);
        struct visible found;
        if (!(kind == 'G'   ? by_gpu_uuid(entry, order, count, &found)
              : kind == 'M' ? by_mig_uuid(entry, order, count, &found)
                            : by_ordinal(entry, order, count, &found)))
            break;
        for (int i = 0; i < chosen; i++)
            if (out[i].gpu == found.gpu && out[i].instance == found.instance) return 0;
        out[chosen++] = found;
    }
    return chosen;
}

/* A GPU in MIG mode is represented by its first instance; a process that sees an instance sees no other device. */
static int apply_mig(struct visible *list, int count) {
    int kept = 0;
    for (int i = 0; i < count; i++) {
        struct visible entry = list[i];
        if (entry.instance == WHOLE_GPU && stub_gpu_number(entry.gpu, WHOLE_GPU, "mig", 0) == 1) {
            if (stub_instance_count(entry.gpu) == 0) continue;
            entry.instance = 0;
        }
        if (entry.instance != WHOLE_GPU) {
            list[0] = entry;
            return 1;
        }
        list[kept++] = entry;
    }
    return kept;
}

static int find_visible(struct visible *out) {
    int order[STUB_GPUS], count = enumerate(order);
    const char *listed = getenv("CUDA_VISIBLE_DEVICES");
    int chosen = 0;
    if (listed) {
        char *list = strdup(listed);
        if (list) chosen = select_listed(list, order, count, out);
        free(list);
    } else {
        for (; chosen < count; chosen++) out[chosen] = (struct visible){order[chosen], WHOLE_GPU};
    }
    return apply_mig(out, chosen);
}

/* --- the library ------------------------------------------------------------------------------------------- */

#define ENTER()                                     \
    do {                                            \
        int fault_ = stub_enter("cuda", __func__);  \
        if (fault_) return fault_;                  \
        if (!initialised) return NOT_INITIALIZED;   \
    } while (0)

/* After this, `seen` is the device; @N of a fault is the GPU's index in the profile, not its ordinal. */
#define ENTER_DEVICE(ordinal, argument)                                                  \
    int known_ = initialised && (ordinal) >= 0 && (ordinal) < visible_count;             \
    struct visible seen = known_ ? visible[ordinal] : (struct visible){NO_GPU, WHOLE_GPU}; \
    do {                                                                                 \
        int fault_ = stub_enter_at("cuda", __func__, seen.gpu);                          \
        if (fault_) return fault_;                                                       \
        if (!initialised) return NOT_INITIALIZED;                                        \
        if (!(argument)) return INVALID_VALUE;                                           \
        if (!known_) return INVALID_DEVICE;                                              \
    } while (0)

API int cuDriverGetVersion(int *out) {
    int fault = stub_enter("cuda", __func__); /* needs no initialisation */
    if (fault) return fault;
    if (!out) return INVALID_VALUE;
    *out = (int)stub_number("cuda.driver", stub_number("driver.cuda", 13000));
    return SUCCESS;
}

API int cuInit(unsigned flags) {
    int fault = stub_enter("cuda", __func__);
    if (fault) return fault;
    if (flags) return INVALID_VALUE;
    if (initialised) return SUCCESS;
    visible_count = find_visible(visible);
    if (visible_count == 0) return NO_DEVICE;
    initialised = 1;
    return SUCCESS;
}

static const struct error { int code; const char *name, *text; } errors[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {4, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
    {34, "CUDA_ERROR_STUB_LIBRARY", "CUDA driver is a stub library"},
    {46, "CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA-capable device(s) is/are busy or unavailable"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {102, "CUDA_ERROR_DEVICE_NOT_LICENSED", "device doesn't have valid Grid license"},
    {200, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {209, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
    {214, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered"},
    {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the provided PTX was compiled with an unsupported toolchain."},
    {304, "CUDA_ERROR_OPERATING_SYSTEM", "OS call failed or operation not supported on this OS"},
    {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {800, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
    {801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {802, "CUDA_ERROR_SYSTEM_NOT_READY", "system not yet initialized"},
    {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "system has unsupported display driver / cuda driver combination"},
    {804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE", "forward compatibility was attempted on non supported HW"},
    {805, "CUDA_ERROR_MPS_CONNECTION_FAILED",
     "MPS client failed to connect to the MPS control daemon or the MPS server"},
    {999, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

static const struct error *error_of(int code) {
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].code == code) return &errors[i];
    return NULL;
}

API int cuGetErrorName(int code, const char **out) {
    int fault = stub_enter("cuda", __func__);
    if (fault) return fault;
    if (!out) return INVALID_VALUE;
    const struct error *error = error_of(code);
    *out = error ? error->name : NULL;
    return error ? SUCCESS : INVALID_VALUE;
}

API int cuGetErrorString(int code, const char **out) {
    int fault = stub_enter("cuda", __func__);
    if (fault) return fault;
    if (!out) return INVALID_VALUE;
    const struct error *error = error_of(code);
    *out = error ? error->text : NULL;
    return error ? SUCCESS : INVALID_VALUE;
}

API int cuDeviceGetCount(int *out) {
    ENTER();
    if (!out) return INVALID_VALUE;
    *out = (int)stub_number("cuda.count", visible_count);
    return SUCCESS;
}

API int cuDeviceGet(int *out, int ordinal) {
    ENTER_DEVICE(ordinal, out);
    *out = ordinal;
    return SUCCESS;
}

API int cuDeviceGetName(char *out, int size, int device) {
    ENTER_DEVICE(device, out);
    if (size <= 0) return INVALID_VALUE;
    if (stub_gpu_number(seen.gpu, seen.instance, "name.endless", 0)) memset(out, 'x', (size_t)size);
    else stub_gpu_name(seen.gpu, seen.instance, out, (size_t)size);
    return SUCCESS;
}

/* The first version names the GPU even where the process sees only an instance of it. */
API int cuDeviceGetUuid(unsigned char out[16], int device) {
    ENTER_DEVICE(device, out);
    char uuid[96];
    stub_gpu_uuid(seen.gpu, WHOLE_GPU, uuid, sizeof uuid);
    stub_uuid_bytes(uuid, out);
    return SUCCESS;
}

API int cuDeviceGetUuid_v2(unsigned char out[16], int device) {
    ENTER_DEVICE(device, out);
    char uuid[96];
    stub_gpu_uuid(seen.gpu, seen.instance, uuid, sizeof uuid);
    stub_uuid_bytes(uuid, out);
    return SUCCESS;
}

API int cuDeviceTotalMem_v2(size_t *out, int device) {
    ENTER_DEVICE(device, out);
    long long usual = (long long)stub_gpu_memory(seen.gpu, seen.instance);
    *out = (size_t)stub_gpu_number(seen.gpu, seen.instance, "memory.cuda", usual);
    return SUCCESS;
}

API int cuDeviceGetAttribute(int *out, int attribute, int device) {
    ENTER_DEVICE(device, out);
    struct stub_pci pci = stub_gpu_pci(seen.gpu);
    int major, minor;
    stub_gpu_capability(seen.gpu, &major, &minor);
    switch (attribute) {
    case 16: *out = (int)stub_gpu_number(seen.gpu, seen.instance, "multiprocessors", 0); break;
    case 33: *out = (int)pci.bus; break;
    case 34: *out = (int)pci.device; break;
    case 50: *out = (int)pci.domain; break;
    case 75: *out = major; break;
    case 76: *out = minor; break;
    default: *out = 0;
    }
    return SUCCESS;
}

API int cuDeviceGetPCIBusId(char *out, int size, int device) {
    ENTER_DEVICE(device, out);
    if (size < 13) return INVALID_VALUE;
    struct stub_pci pci = stub_gpu_pci(seen.gpu);
    snprintf(out, (size_t)size, "%04x:%02x:%02x.0", pci.domain, pci.bus, pci.device);
    return SUCCESS;
}
