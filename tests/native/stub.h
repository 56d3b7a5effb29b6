/* Shared by the stub libraries: the machine profile, the injected faults, and the facts that both APIs report. */
#ifndef GPUENV_STUB_H
#define GPUENV_STUB_H

#include <stddef.h>

/* All symbols except the API are hidden, so that two stubs in one process cannot bind to each other's internals. */
#define API __attribute__((visibility("default")))

enum { STUB_GPUS = 64, STUB_INSTANCES = 16, WHOLE_GPU = -1, NO_GPU = -1 };

/* The profile: key=value lines of the file named by GPUENV_STUB, read when the library is loaded. */
const char *stub_text(const char *key, const char *fallback);
long long stub_number(const char *key, long long fallback);

/* gpu.<gpu>.<field>, or gpu.<gpu>.mig.<instance>.<field> unless the instance is WHOLE_GPU. */
const char *stub_gpu_text(int gpu, int instance, const char *field, const char *fallback);
long long stub_gpu_number(int gpu, int instance, const char *field, long long fallback);

/* Applies the faults injected into a function: delay, then crash, then the return value (0: none). */
int stub_enter(const char *api, const char *function);
int stub_enter_at(const char *api, const char *function, int gpu);

/* The facts on which NVML and libcuda must agree, with their defaults. */
struct stub_pci { unsigned domain, bus, device; };

int stub_gpu_count(void);
int stub_instance_count(int gpu);
void stub_gpu_name(int gpu, int instance, char *out, size_t size);
void stub_gpu_uuid(int gpu, int instance, char *out, size_t size);
int stub_parse_pci(const char *text, struct stub_pci *out);
struct stub_pci stub_gpu_pci(int gpu);
void stub_gpu_capability(int gpu, int *major, int *minor);
unsigned long long stub_gpu_memory(int gpu, int instance);
unsigned stub_gpu_instance_id(int gpu, int instance);
unsigned stub_compute_instance_id(int gpu, int instance);
void stub_uuid_bytes(const char *uuid, unsigned char out[16]);

#endif
