/* libnvidia-ml.so.1 of a machine that exists only as a profile; README.md lists the keys. */
#define _POSIX_C_SOURCE 200809L

#include "stub.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SUCCESS = 0,
    UNINITIALIZED = 1,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    CORRUPTED_INFOROM = 14,
    ARGUMENT_VERSION_MISMATCH = 25,
};

/* A handle is the address of one of these; the last column is the GPU itself. */
struct device { int gpu, instance; };

static struct device devices[STUB_GPUS][STUB_INSTANCES + 1];
static int initialised; /* nvmlInit and nvmlShutdown count */

static struct device *handle_of(int gpu, int instance) {
    struct device *device = &devices[gpu][instance == WHOLE_GPU ? STUB_INSTANCES : instance];
    *device = (struct device){gpu, instance};
    return device;
}

static int is_handle(const struct device *device) {
    uintptr_t first = (uintptr_t)devices, address = (uintptr_t)device;
    return address >= first && address < first + sizeof devices && (address - first) % sizeof *device == 0;
}

static int device_fault(const char *function, const struct device *device, int argument_given) {
    int known = is_handle(device);
    int fault = stub_enter_at("nvml", function, known ? device->gpu : NO_GPU);
    if (fault) return fault;
    if (!initialised) return UNINITIALIZED;
    return known && argument_given ? SUCCESS : INVALID_ARGUMENT;
}

/* Faults first, so that a fault of every function also affects a library that is not initialised. */
#define ENTER()                                                  \
    do {                                                         \
        int fault_ = stub_enter("nvml", __func__);               \
        if (fault_) return fault_;                               \
        if (!initialised) return UNINITIALIZED;                  \
    } while (0)

#define ENTER_DEVICE(device, argument)                                        \
    do {                                                                      \
        int fault_ = device_fault(__func__, device, (argument) != NULL);      \
        if (fault_) return fault_;                                            \
    } while (0)

/* Functions that fail for a MIG instance. */
#define ENTER_GPU(device, argument)                              \
    do {                                                         \
        ENTER_DEVICE(device, argument);                          \
        if (device->instance != WHOLE_GPU) return NOT_SUPPORTED; \
    } while (0)

/* Functions that fail for a whole GPU. */
#define ENTER_INSTANCE(device, argument)                         \
    do {                                                         \
        ENTER_DEVICE(device, argument);                          \
        if (device->instance == WHOLE_GPU) return NOT_SUPPORTED; \
    } while (0)

static int copy(const char *text, char *out, unsigned size) {
    if (!out) return INVALID_ARGUMENT;
    if (!text) return NOT_SUPPORTED;
    if (strlen(text) >= size) return INSUFFICIENT_SIZE;
    strcpy(out, text);
    return SUCCESS;
}

static const char *text_of(const struct device *device, const char *field) {
    return stub_gpu_text(device->gpu, device->instance, field, NULL);
}

static long long number_of(const struct device *device, const char *field, long long fallback) {
    return stub_gpu_number(device->gpu, device->instance, field, fallback);
}

/* An optional quantity: NOT_SUPPORTED if the profile lacks it. */
static int optional(const struct device *device, const char *field, unsigned *out) {
    if (!text_of(device, field)) return NOT_SUPPORTED;
    *out = (unsigned)number_of(device, field, 0);
    return SUCCESS;
}

#define OPTIONAL(function, field)                               \
    API int function(struct device *device, unsigned *out) {    \
        ENTER_GPU(device, out);                                 \
        return optional(device, field, out);                    \
    }

/* The current and the pending state; pending is current unless the profile has it. */
#define CURRENT_AND_PENDING(function, field)                                      \
    API int function(struct device *device, unsigned *current, unsigned *pending) { \
        ENTER_GPU(device, current);                                               \
        if (!pending) return INVALID_ARGUMENT;                                    \
        if (optional(device, field, current)) return NOT_SUPPORTED;               \
        *pending = (unsigned)number_of(device, field ".pending", *current);       \
        return SUCCESS;                                                           \
    }

/* --- the library ------------------------------------------------------------------------------------------- */

API int nvmlInit_v2(void) {
    int fault = stub_enter("nvml", __func__);
    if (!fault) initialised++;
    return fault;
}

API int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    int fault = stub_enter("nvml", __func__);
    if (!fault) initialised++;
    return fault;
}

API int nvmlShutdown(void) {
    ENTER();
    initialised--;
    return SUCCESS;
}

API const char *nvmlErrorString(int result) {
    static const char *const texts[] = {
        "Success", "Uninitialized", "Invalid Argument", "Not Supported", "Insufficient Permissions",
        "Already Initialized", "Not Found", "Insufficient Size", "Insufficient External Power", "Driver Not Loaded",
        "Timeout", "Interrupt Request Issue", "NVML Shared Library Not Found", "Function Not Found",
        "Corrupted infoROM", "GPU is lost", "GPU requires reset", "GPU access blocked by the operating system",
        "Driver/library version mismatch", "In use by another client", "Insufficient Memory", "No Data",
        "vGPU ECC is not supported", "Insufficient Resources", "Frequency Not Supported", "Argument Version Mismatch",
        "Deprecated", "Not Ready", "GPU Not Found", "Invalid State", "Reset Type Not Supported",
    };
    stub_enter("nvml", __func__); /* it has no return code to replace */
    return result >= 0 && (size_t)result < sizeof texts / sizeof *texts ? texts[result] : "Unknown Error";
}

static const char *driver_version(void) {
    return stub_text("driver.version", "580.95.05");
}

API int nvmlSystemGetDriverVersion(char *out, unsigned size) {
    ENTER();
    return copy(driver_version(), out, size);
}

API int nvmlSystemGetNVMLVersion(char *out, unsigned size) {
    ENTER();
    char usual[80];
    snprintf(usual, sizeof usual, "%lld.%s", stub_number("driver.cuda", 13000) / 1000, driver_version());
    return copy(stub_text("nvml.version", usual), out, size);
}

static int cuda_level(int *out) {
    if (!out) return INVALID_ARGUMENT;
    *out = (int)stub_number("driver.cuda", 13000);
    return SUCCESS;
}

API int nvmlSystemGetCudaDriverVersion(int *out) {
    ENTER();
    return cuda_level(out);
}

API int nvmlSystemGetCudaDriverVersion_v2(int *out) {
    ENTER();
    return cuda_level(out);
}

/* --- finding devices --------------------------------------------------------------------------------------- */

API int nvmlDeviceGetCount_v2(unsigned *out) {
    ENTER();
    if (!out) return INVALID_ARGUMENT;
    *out = (unsigned)stub_number("nvml.count", stub_gpu_count());
    return SUCCESS;
}

API int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct device **out) {
    int fault = stub_enter_at("nvml", __func__, index < STUB_GPUS ? (int)index : NO_GPU);
    if (fault) return fault;
    if (!initialised) return UNINITIALIZED;
    if (!out || index >= (unsigned)stub_gpu_count()) return INVALID_ARGUMENT;
    *out = handle_of((int)index, WHOLE_GPU);
    return SUCCESS;
}

API int nvmlDeviceGetHandleByUUID(const char *uuid, struct device **out) {
    ENTER();
    if (!uuid || !out) return INVALID_ARGUMENT;
    char own[96];
    for (int gpu = 0; gpu < stub_gpu_count(); gpu++)
        for (int instance = WHOLE_GPU; instance < stub_instance_count(gpu); instance++) {
            stub_gpu_uuid(gpu, instance, own, sizeof own);
            if (strcmp(uuid, own) != 0) continue;
            *out = handle_of(gpu, instance);
            return SUCCESS;
        }
    return NOT_FOUND;
}

API int nvmlDeviceGetHandleByPciBusId_v2(const char *address, struct device **out) {
    ENTER();
    struct stub_pci wanted;
    if (!address || !out || !stub_parse_pci(address, &wanted)) return INVALID_ARGUMENT;
    for (int gpu = 0; gpu < stub_gpu_count(); gpu++) {
        struct stub_pci own = stub_gpu_pci(gpu);
        if (own.domain != wanted.domain || own.bus != wanted.bus || own.device != wanted.device) continue;
        *out = handle_of(gpu, WHOLE_GPU);
        return SUCCESS;
    }
    return NOT_FOUND;
}

/* --- identity ---------------------------------------------------------------------------------------------- */

API int nvmlDeviceGetIndex(struct device *device, unsigned *out) {
    ENTER_DEVICE(device, out);
    *out = (unsigned)(device->instance == WHOLE_GPU ? device->gpu : device->instance);
    return SUCCESS;
}

API int nvmlDeviceGetName(struct device *device, char *out, unsigned size) {
    ENTER_DEVICE(device, out);
    char name[96];
    stub_gpu_name(device->gpu, device->instance, name, sizeof name);
    return copy(name, out, size);
}

API int nvmlDeviceGetUUID(struct device *device, char *out, unsigned size) {
    ENTER_DEVICE(device, out);
    char uuid[96];
    stub_gpu_uuid(device->gpu, device->instance, uuid, sizeof uuid);
    return copy(uuid, out, size);
}

API int nvmlDeviceGetSerial(struct device *device, char *out, unsigned size) {
    ENTER_GPU(device, out);
    return copy(text_of(device, "serial"), out, size);
}

API int nvmlDeviceGetMinorNumber(struct device *device, unsigned *out) {
    ENTER_GPU(device, out);
    *out = (unsigned)number_of(device, "minor", device->gpu);
    return SUCCESS;
}

struct pci_head { char address[16]; unsigned domain, bus, device, id; };
struct pci_v2 { struct pci_head head; unsigned subsystem, reserved[4]; };
struct pci_v3 { struct pci_head head; unsigned subsystem; char address[32]; };

static struct pci_head pci_head(const struct device *device) {
    struct stub_pci pci = stub_gpu_pci(device->gpu);
    struct pci_head head = {"", pci.domain, pci.bus, pci.device, (unsigned)number_of(device, "pci.device", 0x233010de)};
    snprintf(head.address, sizeof head.address, "%04X:%02X:%02X.0", pci.domain & 0xffff, pci.bus & 0xff, pci.device & 0xff);
    return head;
}

static unsigned subsystem(const struct device *device) {
    return (unsigned)number_of(device, "pci.subsystem", 0x16c110de);
}

/* The oldest structure ends at the device id: its callers have no room for more. */
API int nvmlDeviceGetPciInfo(struct device *device, struct pci_head *out) {
    ENTER_GPU(device, out);
    *out = pci_head(device);
    return SUCCESS;
}

API int nvmlDeviceGetPciInfo_v2(struct device *device, struct pci_v2 *out) {
    ENTER_GPU(device, out);
    *out = (struct pci_v2){pci_head(device), subsystem(device), {0}};
    return SUCCESS;
}

API int nvmlDeviceGetPciInfo_v3(struct device *device, struct pci_v3 *out) {
    ENTER_GPU(device, out);
    struct stub_pci pci = stub_gpu_pci(device->gpu);
    *out = (struct pci_v3){pci_head(device), subsystem(device), ""};
    snprintf(out->address, sizeof out->address, "%08X:%02X:%02X.0", pci.domain, pci.bus, pci.device);
    return SUCCESS;
}

API int nvmlDeviceGetCudaComputeCapability(struct device *device, int *major, int *minor) {
    ENTER_DEVICE(device, major);
    if (!minor) return INVALID_ARGUMENT;
    stub_gpu_capability(device->gpu, major, minor);
    return SUCCESS;
}

static unsigned usual_architecture(int gpu) {
    int major, minor;
    stub_gpu_capability(gpu, &major, &minor);
    switch (major) {
    case 3: case 5: case 6: return (unsigned)(major == 3 ? 2 : major - 2);
    case 7: return minor < 5 ? 5 : 6;
    case 8: return minor < 9 ? 7 : 8;
    case 9: return 9;
    case 10: case 11: case 12: return 10;
    default: return 0xffffffff;
    }
}

API int nvmlDeviceGetArchitecture(struct device *device, unsigned *out) {
    ENTER_DEVICE(device, out);
    *out = (unsigned)stub_gpu_number(device->gpu, WHOLE_GPU, "architecture", usual_architecture(device->gpu));
    return SUCCESS;
}

API int nvmlDeviceGetBrand(struct device *device, unsigned *out) {
    ENTER_DEVICE(device, out);
    return optional(&(struct device){device->gpu, WHOLE_GPU}, "brand", out);
}

/* --- memory ------------------------------------------------------------------------------------------------ */

struct memory { unsigned long long total, free, used; };
struct memory_v2 { unsigned version; unsigned long long total, reserved, free, used; };

/* memory.total=none: a GPU that shares the host's memory and reports no size. */
static int memory_of(const struct device *device, struct memory *out) {
    const char *total = text_of(device, "memory.total");
    if (total && strcmp(total, "none") == 0) return NOT_SUPPORTED;
    out->total = stub_gpu_memory(device->gpu, device->instance);
    out->free = (unsigned long long)number_of(device, "memory.free", (long long)out->total);
    out->used = out->total - out->free;
    return SUCCESS;
}

API int nvmlDeviceGetMemoryInfo(struct device *device, struct memory *out) {
    ENTER_DEVICE(device, out);
    return memory_of(device, out);
}

API int nvmlDeviceGetMemoryInfo_v2(struct device *device, struct memory_v2 *out) {
    ENTER_DEVICE(device, out);
    if (out->version != (sizeof *out | 2u << 24)) return ARGUMENT_VERSION_MISMATCH;
    struct memory memory;
    int refused = memory_of(device, &memory);
    if (refused) return refused;
    out->total = memory.total;
    out->free = memory.free;
    out->reserved = (unsigned long long)number_of(device, "memory.reserved", 0);
    out->used = memory.used - out->reserved; /* version 1 counts the reserved part as used */
    return SUCCESS;
}

/* --- modes ------------------------------------------------------------------------------------------------- */

API int nvmlDeviceGetComputeMode(struct device *device, unsigned *out) {
    ENTER_GPU(device, out);
    *out = (unsigned)number_of(device, "compute_mode", 0);
    return SUCCESS;
}

OPTIONAL(nvmlDeviceGetPersistenceMode, "persistence")
OPTIONAL(nvmlDeviceGetVirtualizationMode, "virtualization")
CURRENT_AND_PENDING(nvmlDeviceGetMigMode, "mig")
CURRENT_AND_PENDING(nvmlDeviceGetEccMode, "ecc")

/* --- MIG --------------------------------------------------------------------------------------------------- */

/* Zero, not an error, where MIG is off or unknown. */
API int nvmlDeviceGetMaxMigDeviceCount(struct device *device, unsigned *out) {
    ENTER_GPU(device, out);
    *out = number_of(device, "mig", 0) == 1 ? (unsigned)number_of(device, "mig.max", 7) : 0;
    return SUCCESS;
}

API int nvmlDeviceGetMigDeviceHandleByIndex(struct device *device, unsigned index, struct device **out) {
    ENTER_GPU(device, out);
    if (number_of(device, "mig", 0) != 1) return NOT_SUPPORTED;
    if (index >= (unsigned)stub_instance_count(device->gpu)) return NOT_FOUND;
    *out = handle_of(device->gpu, (int)index);
    return SUCCESS;
}

API int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(struct device *device, struct device **out) {
    ENTER_DEVICE(device, out);
    if (device->instance == WHOLE_GPU) return INVALID_ARGUMENT;
    *out = handle_of(device->gpu, WHOLE_GPU);
    return SUCCESS;
}

API int nvmlDeviceIsMigDeviceHandle(struct device *device, unsigned *out) {
    ENTER_DEVICE(device, out);
    *out = device->instance != WHOLE_GPU;
    return SUCCESS;
}

API int nvmlDeviceGetGpuInstanceId(struct device *device, unsigned *out) {
    ENTER_INSTANCE(device, out);
    *out = stub_gpu_instance_id(device->gpu, device->instance);
    return SUCCESS;
}

API int nvmlDeviceGetComputeInstanceId(struct device *device, unsigned *out) {
    ENTER_INSTANCE(device, out);
    *out = stub_compute_instance_id(device->gpu, device->instance);
    return SUCCESS;
}

struct attributes {
    unsigned multiprocessors, copy_engines, decoders, encoders, jpegs, ofas, gpu_slices, compute_slices;
    unsigned long long memory_mib;
};

API int nvmlDeviceGetAttributes_v2(struct device *device, struct attributes *out) {
    ENTER_INSTANCE(device, out);
    *out = (struct attributes){
        .multiprocessors = (unsigned)number_of(device, "multiprocessors", 16),
        .copy_engines = (unsigned)number_of(device, "copy_engines", 1),
        .decoders = (unsigned)number_of(device, "decoders", 1),
        .encoders = (unsigned)number_of(device, "encoders", 0),
        .jpegs = (unsigned)number_of(device, "jpegs", 1),
        .ofas = (unsigned)number_of(device, "ofas", 0),
        .gpu_slices = (unsigned)number_of(device, "gpu_slices", 1),
        .compute_slices = (unsigned)number_of(device, "compute_slices", 1),
        .memory_mib = stub_gpu_memory(device->gpu, device->instance) >> 20,
    };
    return SUCCESS;
}

/* --- health ------------------------------------------------------------------------------------------------ */

API int nvmlDeviceGetTotalEccErrors(struct device *device, unsigned type, unsigned counter, unsigned long long *out) {
    static const char *const fields[2][2] = {
        {"ecc.volatile.corrected", "ecc.aggregate.corrected"},
        {"ecc.volatile.uncorrected", "ecc.aggregate.uncorrected"},
    };
    ENTER_GPU(device, out);
    if (type > 1 || counter > 1) return INVALID_ARGUMENT;
    if (number_of(device, "ecc", 0) != 1) return NOT_SUPPORTED;
    *out = (unsigned long long)number_of(device, fields[type][counter], 0);
    return SUCCESS;
}

/* A profile gives counts; the addresses and times only have to differ. */
static int retired_pages(const struct device *device, unsigned cause, unsigned *count, unsigned long long *addresses,
                         unsigned long long *times) {
    if (cause > 1) return INVALID_ARGUMENT;
    const char *field = cause == 0 ? "retired.single" : "retired.double";
    unsigned retired, room = *count;
    if (optional(device, field, &retired)) return NOT_SUPPORTED;
    *count = retired;
    if (retired > room) return INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < retired && addresses; i++) {
        addresses[i] = 0x10000ULL * (i + 1);
        if (times) times[i] = 1700000000ULL + i;
    }
    return SUCCESS;
}

API int nvmlDeviceGetRetiredPages_v2(struct device *device, unsigned cause, unsigned *count,
                                     unsigned long long *addresses, unsigned long long *times) {
    ENTER_GPU(device, count);
    return retired_pages(device, cause, count, addresses, times);
}

/* The older form, without times. */
API int nvmlDeviceGetRetiredPages(struct device *device, unsigned cause, unsigned *count, unsigned long long *addresses) {
    ENTER_GPU(device, count);
    return retired_pages(device, cause, count, addresses, NULL);
}

OPTIONAL(nvmlDeviceGetRetiredPagesPendingStatus, "retired.pending")

API int nvmlDeviceGetRemappedRows(struct device *device, unsigned *corrected, unsigned *uncorrected, unsigned *pending,
                                  unsigned *failure) {
    static const char *const fields[] = {
        "remapped.corrected", "remapped.uncorrected", "remapped.pending", "remapped.failure",
    };
    ENTER_GPU(device, corrected);
    unsigned *const out[] = {corrected, uncorrected, pending, failure};
    int known = 0;
    for (int i = 0; i < 4; i++) {
        if (!out[i]) return INVALID_ARGUMENT;
        known |= text_of(device, fields[i]) != NULL;
        *out[i] = (unsigned)number_of(device, fields[i], 0);
    }
    return known ? SUCCESS : NOT_SUPPORTED;
}

API int nvmlDeviceGetTemperature(struct device *device, unsigned sensor, unsigned *out) {
    ENTER_GPU(device, out);
    return sensor == 0 ? optional(device, "temperature", out) : INVALID_ARGUMENT;
}

struct temperature { unsigned version, sensor; int value; };

API int nvmlDeviceGetTemperatureV(struct device *device, struct temperature *out) {
    ENTER_GPU(device, out);
    if (out->version != (sizeof *out | 1u << 24)) return ARGUMENT_VERSION_MISMATCH;
    if (out->sensor != 0) return INVALID_ARGUMENT;
    if (!text_of(device, "temperature")) return NOT_SUPPORTED;
    out->value = (int)number_of(device, "temperature", 0);
    return SUCCESS;
}

OPTIONAL(nvmlDeviceGetPowerUsage, "power.usage")
OPTIONAL(nvmlDeviceGetEnforcedPowerLimit, "power.limit")
OPTIONAL(nvmlDeviceGetPowerManagementDefaultLimit, "power.limit.default")

API int nvmlDeviceValidateInforom(struct device *device) {
    ENTER_GPU(device, device);
    if (!text_of(device, "inforom.valid")) return NOT_SUPPORTED;
    return number_of(device, "inforom.valid", 1) ? SUCCESS : CORRUPTED_INFOROM;
}

struct licence_expiry { unsigned year; unsigned short month, day, hour, minute, second; unsigned char status; };
struct licensable { int code; unsigned state; char info[128], product[128]; unsigned enabled; struct licence_expiry expiry; };
struct licensables { int supported; unsigned count; struct licensable features[3]; };

/* One feature, the vGPU itself. */
API int nvmlDeviceGetGridLicensableFeatures_v4(struct device *device, struct licensables *out) {
    ENTER_GPU(device, out);
    if (!text_of(device, "licensed")) return NOT_SUPPORTED;
    memset(out, 0, sizeof *out);
    out->supported = 1;
    out->count = 1;
    out->features[0].code = 1;
    out->features[0].state = out->features[0].enabled = (unsigned)number_of(device, "licensed", 0);
    return SUCCESS;
}

static int clock_of(const struct device *device, const char *prefix, unsigned type, unsigned *out) {
    static const char *const names[] = {"graphics", "sm", "memory", "video"};
    if (type > 3) return INVALID_ARGUMENT;
    char field[32];
    snprintf(field, sizeof field, "%s.%s", prefix, names[type]);
    return optional(device, field, out);
}

API int nvmlDeviceGetClockInfo(struct device *device, unsigned type, unsigned *out) {
    ENTER_GPU(device, out);
    return clock_of(device, "clock", type, out);
}

API int nvmlDeviceGetMaxClockInfo(struct device *device, unsigned type, unsigned *out) {
    ENTER_GPU(device, out);
    return clock_of(device, "clock.max", type, out);
}

static int clock_reasons(const struct device *device, unsigned long long *out) {
    if (!text_of(device, "clock.reasons")) return NOT_SUPPORTED;
    *out = (unsigned long long)number_of(device, "clock.reasons", 0);
    return SUCCESS;
}

API int nvmlDeviceGetCurrentClocksThrottleReasons(struct device *device, unsigned long long *out) {
    ENTER_GPU(device, out);
    return clock_reasons(device, out);
}

API int nvmlDeviceGetCurrentClocksEventReasons(struct device *device, unsigned long long *out) {
    ENTER_GPU(device, out);
    return clock_reasons(device, out);
}

/* --- links ------------------------------------------------------------------------------------------------- */

OPTIONAL(nvmlDeviceGetCurrPcieLinkGeneration, "pcie.generation")
OPTIONAL(nvmlDeviceGetMaxPcieLinkGeneration, "pcie.generation.max")
OPTIONAL(nvmlDeviceGetCurrPcieLinkWidth, "pcie.width")
OPTIONAL(nvmlDeviceGetMaxPcieLinkWidth, "pcie.width.max")
OPTIONAL(nvmlDeviceGetPcieReplayCounter, "pcie.replays")

API int nvmlDeviceGetNvLinkState(struct device *device, unsigned link, unsigned *out) {
    ENTER_GPU(device, out);
    char field[32];
    snprintf(field, sizeof field, "nvlink.%u", link);
    return optional(device, field, out);
}

/* <relation>.A.B[.detail] or <relation>.B.A[.detail], the detailed key first. */
static int between(const char *relation, const struct device *a, const struct device *b, int detail, unsigned *out) {
    const int pairs[2][2] = {{a->gpu, b->gpu}, {b->gpu, a->gpu}};
    char key[64];
    for (int i = 0; i < 4; i++) {
        int length = snprintf(key, sizeof key, "%s.%d.%d", relation, pairs[i % 2][0], pairs[i % 2][1]);
        if (i < 2) snprintf(key + length, sizeof key - (size_t)length, ".%d", detail);
        if (!stub_text(key, NULL)) continue;
        *out = (unsigned)stub_number(key, 0);
        return SUCCESS;
    }
    return NOT_SUPPORTED;
}

API int nvmlDeviceGetTopologyCommonAncestor(struct device *device, struct device *other, unsigned *out) {
    ENTER_GPU(device, out);
    return is_handle(other) ? between("topology", device, other, 0, out) : INVALID_ARGUMENT;
}

API int nvmlDeviceGetP2PStatus(struct device *device, struct device *other, unsigned capability, unsigned *out) {
    ENTER_GPU(device, out);
    return is_handle(other) ? between("p2p", device, other, (int)capability, out) : INVALID_ARGUMENT;
}

/* --- the NVSwitch fabric ----------------------------------------------------------------------------------- */

struct fabric { unsigned char cluster[16]; unsigned status, clique; unsigned char state; };
struct fabric_v2 { unsigned version; unsigned char cluster[16]; unsigned status, clique; unsigned char state; unsigned health; };
struct fabric_v3 { struct fabric_v2 v2; unsigned char summary; };

static int fabric_of(const struct device *device, struct fabric *out) {
    if (!text_of(device, "fabric.state")) return NOT_SUPPORTED;
    out->state = (unsigned char)number_of(device, "fabric.state", 0);
    out->status = (unsigned)number_of(device, "fabric.status", 0);
    out->clique = (unsigned)number_of(device, "fabric.clique", 0);
    stub_uuid_bytes(stub_gpu_text(device->gpu, WHOLE_GPU, "fabric.cluster", ""), out->cluster);
    return SUCCESS;
}

API int nvmlDeviceGetGpuFabricInfo(struct device *device, struct fabric *out) {
    ENTER_GPU(device, out);
    return fabric_of(device, out);
}

API int nvmlDeviceGetGpuFabricInfoV(struct device *device, struct fabric_v3 *out) {
    ENTER_GPU(device, out);
    int newer = out->v2.version == (sizeof(struct fabric_v3) | 3u << 24);
    if (!newer && out->v2.version != (sizeof(struct fabric_v2) | 2u << 24)) return ARGUMENT_VERSION_MISMATCH;
    struct fabric known;
    int refused = fabric_of(device, &known);
    if (refused) return refused;
    memcpy(out->v2.cluster, known.cluster, sizeof known.cluster);
    out->v2.status = known.status;
    out->v2.clique = known.clique;
    out->v2.state = known.state;
    out->v2.health = (unsigned)number_of(device, "fabric.health", 0);
    if (newer) out->summary = (unsigned char)number_of(device, "fabric.summary", 0);
    return SUCCESS;
}

/* --- processes --------------------------------------------------------------------------------------------- */

struct process { unsigned pid; unsigned long long memory; unsigned gpu_instance, compute_instance; };
struct process_v1 { unsigned pid; unsigned long long memory; };

/* processes=PID:BYTES[:GI:CI],...; BYTES may be none, as under WDDM and in containers. */
static unsigned processes_of(const struct device *device, struct process *out, unsigned room) {
    const char *text = stub_gpu_text(device->gpu, WHOLE_GPU, "processes", "");
    unsigned found = 0;
    for (; text && *text; text = strchr(text, ',') ? strchr(text, ',') + 1 : NULL) {
        struct process process = {0, ~0ULL, ~0U, ~0U};
        if (sscanf(text, "%u:%llu:%u:%u", &process.pid, &process.memory, &process.gpu_instance,
                   &process.compute_instance) < 2)
            sscanf(text, "%u:none:%u:%u", &process.pid, &process.gpu_instance, &process.compute_instance);
        if (device->instance != WHOLE_GPU &&
            (process.gpu_instance != stub_gpu_instance_id(device->gpu, device->instance) ||
             process.compute_instance != stub_compute_instance_id(device->gpu, device->instance)))
            continue;
        if (found < room) out[found] = process;
        found++;
    }
    return found;
}

static int running(const struct device *device, unsigned *count, void *out, int version) {
    enum { MOST = 256 };
    struct process found[MOST];
    unsigned room = *count;
    *count = processes_of(device, found, MOST);
    if (*count > MOST) *count = MOST;
    if (*count > room) return INSUFFICIENT_SIZE;
    if (*count && !out) return INVALID_ARGUMENT;
    for (unsigned i = 0; i < *count; i++) {
        if (version == 1)
            ((struct process_v1 *)out)[i] = (struct process_v1){found[i].pid, found[i].memory};
        else
            ((struct process *)out)[i] = found[i];
    }
    return SUCCESS;
}

API int nvmlDeviceGetComputeRunningProcesses(struct device *device, unsigned *count, void *out) {
    ENTER_DEVICE(device, count);
    return running(device, count, out, 1);
}

API int nvmlDeviceGetComputeRunningProcesses_v2(struct device *device, unsigned *count, void *out) {
    ENTER_DEVICE(device, count);
    return running(device, count, out, 2);
}

API int nvmlDeviceGetComputeRunningProcesses_v3(struct device *device, unsigned *count, void *out) {
    ENTER_DEVICE(device, count);
    return running(device, count, out, 3);
}
