/* A libcuda with one GPU of 96 MiB at 0000:18:00.0, whose memory is this process's. TRACE: a file that gets the number of
 * bytes that were not zero when memory was given back. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
typedef unsigned long long ptr;
#define MIB (1024UL * 1024UL)
#ifndef USED
#define USED 1 /* MiB that somebody, at least the driver, keeps */
#endif
static size_t total = 96 * MIB, taken = USED * MIB;
static struct { ptr at; size_t size; } chunks[256];
static int ready, device, current;
int cuInit(unsigned int flags) {
#ifdef NOT_READY
    return 802;
#endif
#ifdef HANGS
    for (;;) sleep(1);
#endif
    ready = 1;
    return 0;
}
int cuGetErrorName(int code, const char **name) {
    *name = code == 802 ? "CUDA_ERROR_SYSTEM_NOT_READY" : code == 101 ? "CUDA_ERROR_INVALID_DEVICE" : "CUDA_ERROR_UNKNOWN";
    return 0;
}
int cuDeviceGetByPCIBusId(int *found, const char *address) {
    if (!ready) return 3;
    if (strcmp(address, "0000:18:00.0")) return 101;
    *found = device = 7;
    return 0;
}
int cuDevicePrimaryCtxRetain(void **context, int which) {
    if (which != device) return 101;
    *context = &current;
    return 0;
}
int cuCtxSetCurrent(void *context) { current = context == &current; return current ? 0 : 201; }
int cuCtxSynchronize(void) { return current ? 0 : 201; }
int cuMemGetInfo_v2(size_t *free, size_t *all) {
    if (!current) return 201;
    *free = total - taken;
    *all = total;
    return 0;
}
int cuMemAlloc_v2(ptr *at, size_t size) {
    if (!current) return 201;
    if (taken + size > total) return 2;
    void *memory = malloc(size);
    memset(memory, 0x5a, size); /* what the tenant before left */
    taken += size;
    for (int n = 0; n < 256; n++)
        if (!chunks[n].size) {
            chunks[n].at = *at = (ptr)memory;
            chunks[n].size = size;
            return 0;
        }
    return 999;
}
int cuMemsetD32_v2(ptr at, unsigned int word, size_t count) {
    unsigned int *words = (unsigned int *)at;
#ifdef DOES_NOT_CLEAR
    if (!word) return 0;
#endif
    for (size_t n = 0; n < count; n++) words[n] = word;
#ifdef BAD_BIT
    if (word == 0xAAAAAAAA && count > 4 * MIB) words[4 * MIB] ^= 1;
#endif
    return 0;
}
int cuMemcpyDtoD_v2(ptr to, ptr from, size_t size) { memmove((void *)to, (void *)from, size); return 0; }
int cuMemcpyDtoH_v2(void *to, ptr from, size_t size) { memcpy(to, (void *)from, size); return 0; }
int cuMemFree_v2(ptr at) {
    for (int n = 0; n < 256; n++)
        if (chunks[n].size && chunks[n].at == at) {
#ifdef TRACE
            size_t left = 0;
            for (size_t m = 0; m < chunks[n].size; m++) left += ((char *)at)[m] != 0;
            FILE *file = fopen(TRACE, "a");
            fprintf(file, "%zu %zu\n", chunks[n].size, left);
            fclose(file);
#endif
            free((void *)at);
            taken -= chunks[n].size;
            chunks[n].size = 0;
            return 0;
        }
    return 1;
}
