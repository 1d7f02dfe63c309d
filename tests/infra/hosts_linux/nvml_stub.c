/* A libnvidia-ml with one good card, one that is too hot with an ECC error, and none elsewhere. */
#include <string.h>
#include <unistd.h>
#ifndef SERIAL
#define SERIAL "1653024999999"
#endif
typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct { unsigned int gpu, memory; } utilization_t;
static int good = 1, hot = 2;
int nvmlInit_v2(void) { return 0; }
int nvmlSystemGetDriverVersion(char *text, unsigned int length) { strncpy(text, "550.90.07", length); return 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char *address, void **handle) {
#ifdef HANGS_WHILE /* a file is there */
    while (!access(HANGS_WHILE, F_OK)) usleep(10000);
#endif
    if (!strcmp(address, "0000:18:00.0")) { *handle = &good; return 0; }
    if (!strcmp(address, "0000:2a:00.0")) { *handle = &hot; return 0; }
    return 15; /* the GPU is lost */
}
int nvmlDeviceGetName(void *handle, char *text, unsigned int length) { strncpy(text, "NVIDIA H200", length); return 0; }
int nvmlDeviceGetSerial(void *handle, char *text, unsigned int length) {
    if (handle == &hot) return 3; /* not supported */
    strncpy(text, SERIAL, length);
    return 0;
}
int nvmlDeviceGetUUID(void *handle, char *text, unsigned int length) { strncpy(text, "GPU-0d1f", length); return 0; }
int nvmlDeviceGetMemoryInfo(void *handle, memory_t *memory) {
    memory->total = 151397597184ULL; memory->used = 1024; memory->free = memory->total - 1024;
    return 0;
}
int nvmlDeviceGetUtilizationRates(void *handle, utilization_t *use) { use->gpu = 7; use->memory = 3; return 0; }
int nvmlDeviceGetTemperature(void *handle, unsigned int sensor, unsigned int *value) {
    *value = handle == &hot ? 99 : 41;
    return 0;
}
int nvmlDeviceGetIndex(void *handle, unsigned int *value) { *value = handle == &hot; return 0; }
int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned int *count, void *infos) {
    *count = handle == &hot ? 2 : 0;
    return *count ? 7 : 0; /* no room was given */
}
int nvmlDeviceGetRemappedRows(void *handle, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed) {
    *corrected = *uncorrected = *failed = 0;
#ifdef ALL_PENDING
    *pending = 1;
#else
    *pending = handle == &hot;
#endif
    return 0;
}
int nvmlDeviceGetCurrPcieLinkWidth(void *handle, unsigned int *value) { *value = handle == &hot ? 8 : 16; return 0; }
int nvmlDeviceGetMaxPcieLinkWidth(void *handle, unsigned int *value) { *value = 16; return 0; }
int nvmlDeviceGetNvLinkState(void *handle, unsigned int link, unsigned int *active) {
    if (link >= 18) return 2; /* no such link */
    *active = !(handle == &hot && link == 3);
    return 0;
}
int nvmlDeviceGetPowerUsage(void *handle, unsigned int *value) { *value = 75500; return 0; }
int nvmlDeviceGetTotalEccErrors(void *handle, unsigned int kind, unsigned int counter, unsigned long long *count) {
    *count = handle == &hot ? 2 : 0;
#ifdef SICK_WHILE /* a file is there */
    if (!access(SICK_WHILE, F_OK)) *count = 2;
#endif
    return 0;
}
