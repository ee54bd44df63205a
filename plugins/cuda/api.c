/* api.c - finding the driver's functions and NVRTC's. They stay: both keep threads and
 * handlers at exit that would run into the void. */
#include "api.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

cu_api cu;
rtc_api rtc;

bool cuda_find(void *library, const char *symbol, void *slot) {
  void *found = dlsym(library, symbol);
  memcpy(slot, &found, sizeof found);
  return found != NULL;
}

void *cuda_open_library(const char *path, const char *const *names) {
  void *library = NULL;
  if (path) return dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  for (; *names && !library; names++)
    library = dlopen(*names, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  return library;
}

const char *cu_api_open(const char *path) {
  static const char *const names[] = {"libcuda.so.1", NULL};
  static char why[400];
  void *library = cuda_open_library(path, names);
  if (!library) {
    snprintf(why, sizeof why, "there is no NVIDIA driver: %.300s", dlerror());
    return why;
  }
  if (!cuda_find(library, "cuDriverGetVersion", &cu.DriverGetVersion) ||
      cu.DriverGetVersion(&cu.version) != CU_OK) {
    return "the NVIDIA driver does not say its version";
  }
#define CU_FIND(name, symbol, arguments)                               \
  if (!cuda_find(library, #symbol, &cu.name)) {                        \
    snprintf(why, sizeof why,                                          \
             "the NVIDIA driver is for CUDA %d.%d and has no " #symbol \
             "; drivers for CUDA %d.%d and later do",                  \
             cu.version / 1000, cu.version % 1000 / 10,                \
             CU_OLDEST_DRIVER / 1000, CU_OLDEST_DRIVER % 1000 / 10);   \
    return why;                                                        \
  }
  CU_FUNCTIONS(CU_FIND)
#undef CU_FIND
  cuda_find(library, "cuGraphExecUpdate_v2", &cu.GraphExecUpdate);
  return NULL;
}

const char *rtc_api_open(const char *path) {
  /* the newest first: newer than the driver works, too, as programs are for one
   * architecture, not for one driver */
  static const char *const names[] = {"libnvrtc.so.13",
                                      "/usr/local/cuda/lib64/libnvrtc.so.13",
                                      "libnvrtc.so.12",
                                      "/usr/local/cuda/lib64/libnvrtc.so.12",
                                      "libnvrtc.so.11.2",
                                      "/usr/local/cuda/lib64/libnvrtc.so.11.2",
                                      "libnvrtc.so",
                                      "/usr/local/cuda/lib64/libnvrtc.so",
                                      NULL};
  static char why[400];
  int major = 0, minor = 0;
  void *library = cuda_open_library(path, names);
  rtc.version = 0;
  if (!library) {
    snprintf(why, sizeof why,
             "there is no NVRTC, which compiles kernels (%.200s); install the"
             " CUDA toolkit's libnvrtc",
             dlerror());
    return why;
  }
#define RTC_FIND(name, symbol, arguments)      \
  if (!cuda_find(library, #symbol, &rtc.name)) \
    return "NVRTC has no " #symbol ": it is older than CUDA 11.2";
  RTC_FUNCTIONS(RTC_FIND)
#undef RTC_FIND
  if (rtc.Version(&major, &minor) != 0) return "NVRTC does not say its version";
  rtc.version = 1000 * major + 10 * minor;
  return NULL;
}
