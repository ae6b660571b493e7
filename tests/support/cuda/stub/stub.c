/* A stand-in for libcuda.so.1: enough of the driver API to run the real adapter over it, without a device.

   Device memory is host memory: copies and memsets really happen, at the call.  Kernels do not run: a launch reads its
   parameters, as the loaded PTX text declares them, and writes them to the call log.  Handles and ranges are
   validated, and contexts looked after.  The vyre_stub_* functions read the log and make calls fail.

   Structures hold what the driver's ABI holds, in its order; cuda.h is not needed. */

#include "code.h"
#include "contexts.h"
#include "graphs.h"
#include "memory.h"

/* ---------------------------------------------------------------- errors and the driver's log */
static Result cuGetErrorName(Result code, const char **name) {
    *name = code ? "CUDA_ERROR_OF_THE_STUB" : "CUDA_SUCCESS";
    return SUCCESS;
}

static Result cuGetErrorString(Result code, const char **text) { return cuGetErrorName(code, text); }

static Result cuLogsCurrent(unsigned *iterator, unsigned flags) {
    ENTER(NOTHING, "%u", flags);
    *iterator = (unsigned)driver_log.length;
    return SUCCESS;
}

static Result cuLogsDumpToMemory(unsigned *iterator, char *buffer, size_t *nbytes, unsigned flags) {
    ENTER(NOTHING, "%u, %zu, %u", *iterator, *nbytes, flags);
    log_reads++;
    size_t length = driver_log.length - *iterator;
    if (length >= *nbytes) length = *nbytes - 1;
    memcpy(buffer, driver_log.text + *iterator, length);
    buffer[length] = 0;
    *nbytes = length;
    *iterator = (unsigned)driver_log.length;
    return SUCCESS;
}

/* ---------------------------------------------------------------- for tests */

/* Copies the log of calls and empties it; its length.  With no buffer, only the length. */
EXPORT size_t vyre_stub_log(char *buffer, size_t nbytes) {
    __attribute__((cleanup(unlock), unused)) int held = lock();
    size_t length = call_log.length;
    if (!buffer || nbytes < length) return length;
    memcpy(buffer, call_log.text, length);
    call_log.length = 0;
    return length;
}

/* The nth call of a function from now on fails with code; 0: every one.  Without a name: no call fails any more. */
EXPORT void vyre_stub_fail(const char *name, int nth, int code) {
    __attribute__((cleanup(unlock), unused)) int held = lock();
    if (!name) {
        order_count = 0;
        return;
    }
    if (order_count == LENGTH(orders)) abort();
    Order *order = &orders[order_count++];
    *order = (Order){.every = nth == 0, .countdown = nth, .code = code};
    snprintf(order->name, sizeof order->name, "%s", name);
}

/* Without recording, launches do nothing at all: what is left is the price of calling. */
EXPORT void vyre_stub_record(int on) { recording = on; }

EXPORT int vyre_stub_log_reads(void) { return log_reads; }

/* ---------------------------------------------------------------- how the bindings find functions */
#define FUNCTION(name) {#name, (void *)name}
static const struct {
    const char *name;
    void *function;
} FUNCTIONS[] = {
    FUNCTION(cuInit), FUNCTION(cuDriverGetVersion), FUNCTION(cuDeviceGetCount), FUNCTION(cuDeviceGet),
    FUNCTION(cuDeviceGetName), FUNCTION(cuDeviceGetUuid), FUNCTION(cuDeviceTotalMem), FUNCTION(cuDeviceGetAttribute),
    FUNCTION(cuDevicePrimaryCtxRetain), FUNCTION(cuDevicePrimaryCtxRelease), FUNCTION(cuDevicePrimaryCtxReset),
    FUNCTION(cuCtxCreate), FUNCTION(cuCtxDestroy), FUNCTION(cuCtxSetCurrent), FUNCTION(cuCtxGetCurrent),
    FUNCTION(cuCtxGetDevice), FUNCTION(cuCtxSynchronize), FUNCTION(cuStreamCreateWithPriority),
    FUNCTION(cuStreamDestroy), FUNCTION(cuStreamSynchronize), FUNCTION(cuStreamQuery), FUNCTION(cuStreamWaitEvent),
    FUNCTION(cuEventCreate), FUNCTION(cuEventDestroy), FUNCTION(cuEventRecord), FUNCTION(cuEventQuery),
    FUNCTION(cuEventSynchronize), FUNCTION(cuEventElapsedTime), FUNCTION(cuMemGetInfo), FUNCTION(cuMemPoolCreate),
    FUNCTION(cuMemPoolDestroy), FUNCTION(cuMemPoolTrimTo), FUNCTION(cuMemPoolSetAttribute),
    FUNCTION(cuMemPoolGetAttribute), FUNCTION(cuMemAllocFromPoolAsync), FUNCTION(cuMemFreeAsync), FUNCTION(cuMemAlloc),
    FUNCTION(cuMemFree), FUNCTION(cuMemHostAlloc), FUNCTION(cuMemHostGetDevicePointer), FUNCTION(cuMemFreeHost),
    FUNCTION(cuMemcpyHtoDAsync),
    FUNCTION(cuMemcpyDtoHAsync), FUNCTION(cuMemcpyDtoDAsync), FUNCTION(cuMemsetD8Async),
    FUNCTION(cuPointerGetAttribute), FUNCTION(cuLibraryLoadData), FUNCTION(cuLibraryUnload),
    FUNCTION(cuLibraryGetKernel), FUNCTION(cuKernelGetAttribute), FUNCTION(cuKernelSetAttribute),
    FUNCTION(cuKernelGetParamInfo), FUNCTION(cuOccupancyMaxActiveBlocksPerMultiprocessor), FUNCTION(cuLaunchKernelEx),
    FUNCTION(cuGraphCreate), FUNCTION(cuGraphDestroy), FUNCTION(cuGraphAddMemcpyNode), FUNCTION(cuGraphAddMemsetNode),
    FUNCTION(cuGraphAddKernelNode), FUNCTION(cuGraphAddEventRecordNode), FUNCTION(cuGraphKernelNodeSetAttribute),
    FUNCTION(cuGraphInstantiateWithFlags), FUNCTION(cuGraphUpload), FUNCTION(cuGraphExecDestroy),
    FUNCTION(cuGraphExecMemcpyNodeSetParams), FUNCTION(cuGraphExecMemsetNodeSetParams),
    FUNCTION(cuGraphExecKernelNodeSetParams), FUNCTION(cuGraphLaunch), FUNCTION(cuGetErrorName),
    FUNCTION(cuGetErrorString), FUNCTION(cuLogsCurrent), FUNCTION(cuLogsDumpToMemory),
};

/* What every function that is not listed does. */
static Result unlisted(void) {
    __attribute__((cleanup(unlock), unused)) int held = lock();
    note("unlisted()\n");
    return SUCCESS;
}

EXPORT Result cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status) {
    (void)version, (void)flags;
    if (status) *status = 0;
    *function = (void *)unlisted;
    if (!strncmp(name, "cuGetProcAddress", strlen("cuGetProcAddress"))) *function = (void *)cuGetProcAddress_v2;
    for (int i = 0; i < LENGTH(FUNCTIONS); i++)
        if (!strcmp(FUNCTIONS[i].name, name)) *function = FUNCTIONS[i].function;
    return SUCCESS;
}

EXPORT Result cuGetProcAddress(const char *name, void **function, int version, uint64_t flags) {
    return cuGetProcAddress_v2(name, function, version, flags, NULL);
}
