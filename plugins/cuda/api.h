/* api.h - the CUDA driver API and NVRTC, found when the plugin opens: it is built without
 * CUDA's headers, and loads on a machine without a driver.
 *
 * Names, values and signatures are those of the "CUDA Driver API" and "NVRTC" reference
 * manuals (13.0), of versions that drivers since 11.4 have; tests/header_test.c compares
 * them with cuda.h where that is there. */
#ifndef KEEL_CUDA_API_H
#define KEEL_CUDA_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef int cu_result; /* CUresult */
typedef int cu_device; /* CUdevice */
typedef struct cu_context_of *cu_context;
typedef struct cu_stream_of *cu_stream;
typedef struct cu_event_of *cu_event;
typedef struct cu_module_of *cu_module;
typedef struct cu_function_of *cu_function;
typedef struct cu_graph_of *cu_graph;
typedef struct cu_graph_exec_of *cu_graph_exec;
typedef struct cu_pool_of *cu_pool;
typedef unsigned long long cu_pointer; /* CUdeviceptr */
typedef struct cu_uuid {
  unsigned char bytes[16];
} cu_uuid;
typedef struct cu_update_info { /* CUgraphExecUpdateResultInfo */
  int result;
  void *node, *from;
} cu_update_info;
typedef void (*cu_host_function)(void *context);

/* CUresult */
enum {
  CU_OK = 0,
  CU_INVALID_VALUE = 1,
  CU_OUT_OF_MEMORY = 2,
  CU_NOT_INITIALIZED = 3,
  CU_DEINITIALIZED = 4,
  CU_DEVICE_UNAVAILABLE = 46,
  CU_NO_DEVICE = 100,
  CU_NO_BINARY_FOR_GPU = 209,
  CU_ECC_UNCORRECTABLE = 214,
  CU_NVLINK_UNCORRECTABLE = 220,
  CU_OPERATING_SYSTEM = 304,
  CU_NOT_READY = 600,
  CU_ILLEGAL_ADDRESS = 700,
  CU_LAUNCH_OUT_OF_RESOURCES = 701,
  CU_LAUNCH_TIMEOUT = 702,
  CU_CONTEXT_IS_DESTROYED = 709,
  CU_ASSERT = 710,
  CU_HARDWARE_STACK_ERROR = 714,
  CU_ILLEGAL_INSTRUCTION = 715,
  CU_MISALIGNED_ADDRESS = 716,
  CU_INVALID_ADDRESS_SPACE = 717,
  CU_INVALID_PC = 718,
  CU_LAUNCH_FAILED = 719,
  CU_NOT_SUPPORTED = 801,
  CU_UNKNOWN = 999
};

/* CUdevice_attribute */
enum {
  CU_GROUP_SIZE = 1,
  CU_CLOCK = 13, /* kilohertz, as the next */
  CU_MULTIPROCESSORS = 16,
  CU_INTEGRATED = 18,
  CU_MEMORY_CLOCK = 36,
  CU_MEMORY_BUS = 37,
  CU_CACHE = 38,
  CU_COMPUTE_MAJOR = 75,
  CU_COMPUTE_MINOR = 76,
  CU_SHARED_MEMORY = 97,
  CU_MEMORY_POOLS = 115
};

/* flags and modes of several enumerations */
enum {
  CU_NON_BLOCKING = 1,    /* CU_STREAM_NON_BLOCKING */
  CU_BLOCKING_SYNC = 1,   /* CU_EVENT_BLOCKING_SYNC */
  CU_DISABLE_TIMING = 2,  /* CU_EVENT_DISABLE_TIMING */
  CU_HOST_PORTABLE = 1,   /* CU_MEMHOSTALLOC_PORTABLE */
  CU_CAPTURE_RELAXED = 2, /* CU_STREAM_CAPTURE_MODE_RELAXED */
  CU_POOL_THRESHOLD = 4   /* CU_MEMPOOL_ATTR_RELEASE_THRESHOLD */
};

#define CU_OLDEST_DRIVER 11040

/* X(field, symbol, arguments) */
/* clang-format off */
#define CU_FUNCTIONS(X) \
  X(Init, cuInit, (unsigned flags)) \
  X(DriverGetVersion, cuDriverGetVersion, (int *version)) \
  X(GetErrorName, cuGetErrorName, (cu_result code, const char **name)) \
  X(GetErrorString, cuGetErrorString, (cu_result code, const char **text)) \
  X(DeviceGetCount, cuDeviceGetCount, (int *count)) \
  X(DeviceGet, cuDeviceGet, (cu_device *device, int index)) \
  X(DeviceGetName, cuDeviceGetName, (char *name, int size, cu_device device)) \
  X(DeviceGetUuid, cuDeviceGetUuid, (cu_uuid *uuid, cu_device device)) \
  X(DeviceTotalMem, cuDeviceTotalMem_v2, (size_t *bytes, cu_device device)) \
  X(DeviceGetAttribute, cuDeviceGetAttribute, \
    (int *value, int what, cu_device device)) \
  X(DeviceCanAccessPeer, cuDeviceCanAccessPeer, \
    (int *can, cu_device from, cu_device to)) \
  X(DeviceGetDefaultMemPool, cuDeviceGetDefaultMemPool, \
    (cu_pool *pool, cu_device device)) \
  X(MemPoolSetAttribute, cuMemPoolSetAttribute, \
    (cu_pool pool, int what, void *value)) \
  X(MemPoolTrimTo, cuMemPoolTrimTo, (cu_pool pool, size_t keep)) \
  X(DevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, \
    (cu_context *context, cu_device device)) \
  X(DevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, (cu_device device)) \
  X(CtxPushCurrent, cuCtxPushCurrent_v2, (cu_context context)) \
  X(CtxPopCurrent, cuCtxPopCurrent_v2, (cu_context *context)) \
  X(CtxGetStreamPriorityRange, cuCtxGetStreamPriorityRange, \
    (int *least, int *greatest)) \
  X(MemGetInfo, cuMemGetInfo_v2, (size_t *free, size_t *total)) \
  X(MemAlloc, cuMemAlloc_v2, (cu_pointer *memory, size_t size)) \
  X(MemFree, cuMemFree_v2, (cu_pointer memory)) \
  X(MemAllocAsync, cuMemAllocAsync, \
    (cu_pointer *memory, size_t size, cu_stream stream)) \
  X(MemFreeAsync, cuMemFreeAsync, (cu_pointer memory, cu_stream stream)) \
  X(MemHostAlloc, cuMemHostAlloc, \
    (void **memory, size_t size, unsigned flags)) \
  X(MemFreeHost, cuMemFreeHost, (void *memory)) \
  X(MemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, \
    (cu_pointer to, const void *from, size_t size, cu_stream stream)) \
  X(MemcpyDtoHAsync, cuMemcpyDtoHAsync_v2, \
    (void *to, cu_pointer from, size_t size, cu_stream stream)) \
  X(MemcpyAsync, cuMemcpyAsync, \
    (cu_pointer to, cu_pointer from, size_t size, cu_stream stream)) \
  X(MemcpyPeerAsync, cuMemcpyPeerAsync, \
    (cu_pointer to, cu_context to_context, cu_pointer from, \
     cu_context from_context, size_t size, cu_stream stream)) \
  X(MemsetD8Async, cuMemsetD8Async, \
    (cu_pointer at, unsigned char value, size_t count, cu_stream stream)) \
  X(MemsetD16Async, cuMemsetD16Async, \
    (cu_pointer at, unsigned short value, size_t count, cu_stream stream)) \
  X(MemsetD32Async, cuMemsetD32Async, \
    (cu_pointer at, unsigned value, size_t count, cu_stream stream)) \
  X(MemsetD2D32Async, cuMemsetD2D32Async, \
    (cu_pointer at, size_t pitch, unsigned value, size_t width, \
     size_t height, cu_stream stream)) \
  X(StreamCreateWithPriority, cuStreamCreateWithPriority, \
    (cu_stream *stream, unsigned flags, int priority)) \
  X(StreamDestroy, cuStreamDestroy_v2, (cu_stream stream)) \
  X(StreamSynchronize, cuStreamSynchronize, (cu_stream stream)) \
  X(StreamGetCtx, cuStreamGetCtx, (cu_stream stream, cu_context *context)) \
  X(StreamQuery, cuStreamQuery, (cu_stream stream)) \
  X(StreamWaitEvent, cuStreamWaitEvent, \
    (cu_stream stream, cu_event event, unsigned flags)) \
  X(LaunchHostFunc, cuLaunchHostFunc, \
    (cu_stream stream, cu_host_function call, void *context)) \
  X(EventCreate, cuEventCreate, (cu_event *event, unsigned flags)) \
  X(EventDestroy, cuEventDestroy_v2, (cu_event event)) \
  X(EventRecord, cuEventRecord, (cu_event event, cu_stream stream)) \
  X(EventQuery, cuEventQuery, (cu_event event)) \
  X(EventSynchronize, cuEventSynchronize, (cu_event event)) \
  X(EventElapsedTime, cuEventElapsedTime, \
    (float *milliseconds, cu_event begin, cu_event end)) \
  X(ModuleLoadData, cuModuleLoadData, (cu_module *module, const void *image)) \
  X(ModuleUnload, cuModuleUnload, (cu_module module)) \
  X(ModuleGetFunction, cuModuleGetFunction, \
    (cu_function *function, cu_module module, const char *name)) \
  X(LaunchKernel, cuLaunchKernel, \
    (cu_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, \
     unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared, \
     cu_stream stream, void **arguments, void **extra)) \
  X(StreamBeginCapture, cuStreamBeginCapture_v2, (cu_stream stream, int mode)) \
  X(StreamEndCapture, cuStreamEndCapture, (cu_stream stream, cu_graph *graph)) \
  X(GraphInstantiate, cuGraphInstantiateWithFlags, \
    (cu_graph_exec *exec, cu_graph graph, unsigned long long flags)) \
  X(GraphLaunch, cuGraphLaunch, (cu_graph_exec exec, cu_stream stream)) \
  X(GraphDestroy, cuGraphDestroy, (cu_graph graph)) \
  X(GraphExecDestroy, cuGraphExecDestroy, (cu_graph_exec exec))
/* clang-format on */

typedef struct cu_api {
#define CU_FIELD(name, symbol, arguments) cu_result(*name) arguments;
  CU_FUNCTIONS(CU_FIELD)
#undef CU_FIELD
  /* cuGraphExecUpdate_v2, of drivers since 12.0; or NULL */
  cu_result (*GraphExecUpdate)(cu_graph_exec exec, cu_graph graph,
                               cu_update_info *info);
  int version; /* of the driver: 1000 major + 10 minor */
} cu_api;

extern cu_api cu;

/* ---- NVRTC ------------------------------------------------------------------------- */

typedef struct rtc_program_of *rtc_program;

/* clang-format off */
#define RTC_FUNCTIONS(X) \
  X(Version, nvrtcVersion, (int *major, int *minor)) \
  X(GetNumSupportedArchs, nvrtcGetNumSupportedArchs, (int *count)) \
  X(GetSupportedArchs, nvrtcGetSupportedArchs, (int *archs)) \
  X(CreateProgram, nvrtcCreateProgram, \
    (rtc_program *program, const char *source, const char *name, int headers, \
     const char *const *header_texts, const char *const *header_names)) \
  X(DestroyProgram, nvrtcDestroyProgram, (rtc_program *program)) \
  X(CompileProgram, nvrtcCompileProgram, \
    (rtc_program program, int count, const char *const *options)) \
  X(GetProgramLogSize, nvrtcGetProgramLogSize, \
    (rtc_program program, size_t *size)) \
  X(GetProgramLog, nvrtcGetProgramLog, (rtc_program program, char *log)) \
  X(GetCUBINSize, nvrtcGetCUBINSize, (rtc_program program, size_t *size)) \
  X(GetCUBIN, nvrtcGetCUBIN, (rtc_program program, char *code)) \
  X(GetPTXSize, nvrtcGetPTXSize, (rtc_program program, size_t *size)) \
  X(GetPTX, nvrtcGetPTX, (rtc_program program, char *code))
/* clang-format on */

typedef struct rtc_api {
#define RTC_FIELD(name, symbol, arguments) int(*name) arguments;
  RTC_FUNCTIONS(RTC_FIELD)
#undef RTC_FIELD
  int version; /* as the driver's; 0: there is none */
} rtc_api;

extern rtc_api rtc;

/* The library at `path`, or, where that is NULL, the first of the names that is there; it
 * stays. NULL: dlerror says why. */
void *cuda_open_library(const char *path, const char *const *names);
/* Puts a function's address into the pointer at `slot`; false: there is no such one. */
bool cuda_find(void *library, const char *symbol, void *slot);

/* Finds the driver in `path`; NULL: where the system has it. NULL, or why not. */
const char *cu_api_open(const char *path);
/* The same for NVRTC; of several, the newest. Once for a process. */
const char *rtc_api_open(const char *path);

#endif /* KEEL_CUDA_API_H */
