/* api.h - OpenCL's functions, found in the ICD loader when the plugin opens: a
 * machine without one still loads the plugin, and is told why it has no device. */
#ifndef KEEL_OPENCL_API_H
#define KEEL_OPENCL_API_H

#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <CL/cl_ext.h>

/* clang-format off */
#define CL_NEEDED(X) \
  X(GetPlatformIDs) X(GetPlatformInfo) X(GetDeviceIDs) X(GetDeviceInfo) \
  X(CreateContext) X(ReleaseContext) X(CreateCommandQueue) \
  X(ReleaseCommandQueue) X(RetainCommandQueue) X(GetCommandQueueInfo) \
  X(CreateBuffer) X(ReleaseMemObject) \
  X(CreateProgramWithSource) X(CreateProgramWithBinary) X(BuildProgram) \
  X(ReleaseProgram) X(GetProgramInfo) X(GetProgramBuildInfo) X(CreateKernel) \
  X(ReleaseKernel) X(SetKernelArg) X(EnqueueNDRangeKernel) \
  X(EnqueueReadBuffer) X(EnqueueWriteBuffer) X(EnqueueCopyBuffer) \
  X(EnqueueFillBuffer) X(EnqueueMapBuffer) X(EnqueueUnmapMemObject) \
  X(EnqueueMarkerWithWaitList) X(EnqueueBarrierWithWaitList) X(Flush) \
  X(Finish) X(WaitForEvents) X(GetEventInfo) X(RetainEvent) X(ReleaseEvent) \
  X(SetEventCallback) X(GetEventProfilingInfo) \
  X(GetExtensionFunctionAddressForPlatform)
/* clang-format on */

typedef struct cl_api {
#define CL_FIELD(name) __typeof__(&cl##name) name;
  CL_NEEDED(CL_FIELD)
#undef CL_FIELD
} cl_api;

extern cl_api cl;

/* cl_khr_command_buffer, of a platform whose device has it. */
typedef struct cl_commands {
  clCreateCommandBufferKHR_fn Create;
  clFinalizeCommandBufferKHR_fn Finalize;
  clReleaseCommandBufferKHR_fn Release;
  clEnqueueCommandBufferKHR_fn Enqueue;
  clCommandNDRangeKernelKHR_fn NDRangeKernel;
  clCommandCopyBufferKHR_fn CopyBuffer;
  clCommandFillBufferKHR_fn FillBuffer;
} cl_commands;

/* False, and all NULL, where one is missing. */
int cl_commands_find(cl_platform_id platform, cl_commands *out);

/* Finds all of them. NULL, or why not. */
const char *cl_api_open(void);

#endif /* KEEL_OPENCL_API_H */
