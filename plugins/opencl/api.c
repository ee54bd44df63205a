/* api.c - finding OpenCL's functions. */
#include "api.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

cl_api cl;
static void *loader;

static int api_find(const char *name, void *slot) {
  char symbol[64];
  snprintf(symbol, sizeof symbol, "cl%s", name);
  void *found = dlsym(loader, symbol);
  memcpy(slot, &found, sizeof found);
  return found != NULL;
}

static void close_loader(void) {
  if (loader) dlclose(loader);
  loader = NULL;
}

const char *cl_api_open(void) {
  static char why[256];
  loader = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!loader) {
    snprintf(why, sizeof why, "there is no OpenCL loader: %s", dlerror());
    return why;
  }
#define CL_FIND(name)                                                        \
  if (!api_find(#name, &cl.name)) {                                          \
    snprintf(why, sizeof why,                                                \
             "the OpenCL loader has no cl" #name ": older than OpenCL 1.2"); \
    close_loader();                                                          \
    return why;                                                              \
  }
  CL_NEEDED(CL_FIND)
#undef CL_FIND
  return NULL;
}

int cl_commands_find(cl_platform_id platform, cl_commands *out) {
  int all = 1;
#define CL_FIND(slot, name)                                                  \
  do {                                                                       \
    void *found = cl.GetExtensionFunctionAddressForPlatform(platform, name); \
    memcpy(&out->slot, &found, sizeof found);                                \
    all = all && found;                                                      \
  } while (0)
  CL_FIND(Create, "clCreateCommandBufferKHR");
  CL_FIND(Finalize, "clFinalizeCommandBufferKHR");
  CL_FIND(Release, "clReleaseCommandBufferKHR");
  CL_FIND(Enqueue, "clEnqueueCommandBufferKHR");
  CL_FIND(NDRangeKernel, "clCommandNDRangeKernelKHR");
  CL_FIND(CopyBuffer, "clCommandCopyBufferKHR");
  CL_FIND(FillBuffer, "clCommandFillBufferKHR");
#undef CL_FIND
  if (!all) memset(out, 0, sizeof *out);
  return all;
}
