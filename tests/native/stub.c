#define _POSIX_C_SOURCE 200809L

#include "stub.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct entry { char *key, *value; };

static struct entry *entries;
static size_t entry_count;

static char *trim(char *text) {
    while (isspace((unsigned char)*text)) text++;
    char *end = text + strlen(text);
    while (end > text && isspace((unsigned char)end[-1])) end--;
    *end = '\0';
    return text;
}

static void add(char *line) {
    line = trim(line);
    if (*line == '\0' || *line == '#') return;
    char *equals = strchr(line, '=');
    if (!equals) {
        fprintf(stderr, "gpuenv stub: no '=' in the line \"%s\"\n", line);
        return;
    }
    *equals = '\0';
    struct entry *grown = realloc(entries, (entry_count + 1) * sizeof *entries);
    if (!grown) return;
    entries = grown;
    entries[entry_count].key = strdup(trim(line));
    entries[entry_count].value = strdup(trim(equals + 1));
    entry_count++;
}

/* A constructor needs no lock, and no symbol newer than the oldest glibc the library is mounted into. */
__attribute__((constructor)) static void load(void) {
    const char *path = getenv("GPUENV_STUB");
    if (!path || !*path) return;
    FILE *file = fopen(path, "r");
    if (!file) {
        fprintf(stderr, "gpuenv stub: cannot read %s: %s\n", path, strerror(errno));
        return;
    }
    char *line = NULL;
    size_t size = 0;
    while (getline(&line, &size, file) >= 0) add(line);
    free(line);
    fclose(file);
}

/* From the end, so that a line appended to a profile overrides it. */
const char *stub_text(const char *key, const char *fallback) {
    for (size_t i = entry_count; i-- > 0;)
        if (strcmp(entries[i].key, key) == 0) return entries[i].value;
    return fallback;
}

/* Base 16 with 0x, else 10: a leading zero is no octal number here. */
static long long parse(const char *text) {
    int hex = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
    return text[0] == '-' ? strtoll(text, NULL, 10) : (long long)strtoull(text, NULL, hex ? 16 : 10);
}

long long stub_number(const char *key, long long fallback) {
    const char *text = stub_text(key, NULL);
    return text ? parse(text) : fallback;
}

const char *stub_gpu_text(int gpu, int instance, const char *field, const char *fallback) {
    char key[128];
    if (instance == WHOLE_GPU)
        snprintf(key, sizeof key, "gpu.%d.%s", gpu, field);
    else
        snprintf(key, sizeof key, "gpu.%d.mig.%d.%s", gpu, instance, field);
    return stub_text(key, fallback);
}

long long stub_gpu_number(int gpu, int instance, const char *field, long long fallback) {
    const char *text = stub_gpu_text(gpu, instance, field, NULL);
    return text ? parse(text) : fallback;
}

/* The most exact key wins: function@gpu, function, *@gpu, *. */
static const char *fault(const char *api, const char *kind, const char *function, int gpu) {
    const char *names[] = {function, "*"};
    char key[160];
    for (int i = 0; i < 2; i++) {
        snprintf(key, sizeof key, "%s.%s.%s@%d", api, kind, names[i], gpu);
        const char *text = gpu == NO_GPU ? NULL : stub_text(key, NULL);
        if (text) return text;
        *strrchr(key, '@') = '\0';
        text = stub_text(key, NULL);
        if (text) return text;
    }
    return NULL;
}

static void hold(const char *text) {
    if (strcmp(text, "forever") == 0)
        for (;;) pause();
    double seconds = strtod(text, NULL);
    struct timespec left = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {}
}

static void crash(const char *how) {
    if (strcmp(how, "segv") == 0) {
        volatile int *volatile nowhere = NULL; /* a real memory fault, not a signal sent by the process itself */
        *nowhere = 1;
    }
    if (strncmp(how, "exit", 4) == 0) _exit(how[4] == ':' ? atoi(how + 5) : 1);
    abort();
}

/* One call a line, appended to the file that the profile names, so that a test can check what a program calls. */
static void record(const char *api, const char *function) {
    const char *path = stub_text("calls", NULL);
    FILE *file = path ? fopen(path, "a") : NULL;
    if (!file) return;
    fprintf(file, "%s %s\n", api, function);
    fclose(file);
}

int stub_enter_at(const char *api, const char *function, int gpu) {
    record(api, function);
    const char *text = fault(api, "delay", function, gpu);
    if (text) hold(text);
    text = fault(api, "crash", function, gpu);
    if (text && *text) crash(text);
    text = fault(api, "return", function, gpu);
    return text ? (int)parse(text) : 0;
}

int stub_enter(const char *api, const char *function) {
    return stub_enter_at(api, function, NO_GPU);
}

static int bounded(long long value, int limit) {
    return value < 0 ? 0 : value > limit ? limit : (int)value;
}

int stub_gpu_count(void) {
    return bounded(stub_number("gpu.count", 0), STUB_GPUS);
}

int stub_instance_count(int gpu) {
    if (stub_gpu_number(gpu, WHOLE_GPU, "mig", 0) != 1) return 0;
    return bounded(stub_gpu_number(gpu, WHOLE_GPU, "mig.count", 0), STUB_INSTANCES);
}

void stub_gpu_name(int gpu, int instance, char *out, size_t size) {
    const char *name = stub_gpu_text(gpu, WHOLE_GPU, "name", "NVIDIA H100 80GB HBM3");
    snprintf(out, size, "%s", name);
    if (instance == WHOLE_GPU) return;
    const char *own = stub_gpu_text(gpu, instance, "name", NULL);
    if (own)
        snprintf(out, size, "%s", own);
    else
        snprintf(out, size, "%s MIG %s", name, stub_gpu_text(gpu, instance, "profile", "1g.10gb"));
}

void stub_gpu_uuid(int gpu, int instance, char *out, size_t size) {
    const char *own = stub_gpu_text(gpu, instance, "uuid", NULL);
    if (own)
        snprintf(out, size, "%s", own);
    else if (instance == WHOLE_GPU)
        snprintf(out, size, "GPU-00000000-0000-0000-0000-%012x", (unsigned)gpu);
    else
        snprintf(out, size, "MIG-00000000-0000-0000-%04x-%012x", (unsigned)gpu, (unsigned)instance);
}

int stub_parse_pci(const char *text, struct stub_pci *out) {
    unsigned function;
    if (sscanf(text, "%x:%x:%x.%x", &out->domain, &out->bus, &out->device, &function) == 4) return 1;
    out->domain = 0;
    return sscanf(text, "%x:%x.%x", &out->bus, &out->device, &function) == 3;
}

struct stub_pci stub_gpu_pci(int gpu) {
    struct stub_pci pci = {0, (unsigned)gpu + 1, 0};
    const char *text = stub_gpu_text(gpu, WHOLE_GPU, "pci", NULL);
    if (text && !stub_parse_pci(text, &pci)) fprintf(stderr, "gpuenv stub: gpu.%d.pci=%s is no PCI address\n", gpu, text);
    return pci;
}

void stub_gpu_capability(int gpu, int *major, int *minor) {
    *major = *minor = 0;
    sscanf(stub_gpu_text(gpu, WHOLE_GPU, "cc", "9.0"), "%d.%d", major, minor);
}

unsigned long long stub_gpu_memory(int gpu, int instance) {
    long long usual = instance == WHOLE_GPU ? 80LL << 30 : 9728LL << 20;
    return (unsigned long long)stub_gpu_number(gpu, instance, "memory.total", usual);
}

unsigned stub_gpu_instance_id(int gpu, int instance) {
    return (unsigned)stub_gpu_number(gpu, instance, "gi", instance + 7);
}

unsigned stub_compute_instance_id(int gpu, int instance) {
    return (unsigned)stub_gpu_number(gpu, instance, "ci", 0);
}

void stub_uuid_bytes(const char *uuid, unsigned char out[16]) {
    memset(out, 0, 16);
    const char *digits = strchr(uuid, '-'); /* after GPU- or MIG-; a bare UUID has 8 digits there instead */
    if (!digits || digits - uuid == 8) digits = uuid;
    for (int nibble = 0; *digits && nibble < 32; digits++) {
        if (!isxdigit((unsigned char)*digits)) continue;
        int value = isdigit((unsigned char)*digits) ? *digits - '0' : tolower((unsigned char)*digits) - 'a' + 10;
        out[nibble / 2] |= (unsigned char)(nibble % 2 ? value : value << 4);
        nibble++;
    }
}
