/* library.c - finding the functions of cuBLASLt, cuDNN and NCCL. They stay, as the driver does. */
#include "library.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

lt_api lt;
dnn_api dnn;
nccl_api nccl;

static bool is_off(const char *path) {
  return path && !strcmp(path, "off");
}

const char *lt_api_open(const char *path) {
  static const char *const names[] = {
      "libcublasLt.so.13", "/usr/local/cuda/lib64/libcublasLt.so.13",
      "libcublasLt.so.12", "/usr/local/cuda/lib64/libcublasLt.so.12", NULL};
  const char *const *known = names + (cu.version < 13000 ? 2 : 0);
  static char why[400];
  lt.version = 0;
  if (is_off(path)) return NULL;
  void *library = cuda_open_library(path, known);
  if (!library) {
    snprintf(why, sizeof why,
             "there is no cuBLASLt (%.200s): products of matrices run on Keel's"
             " own kernels, which use no tensor cores",
             dlerror());
    return why;
  }
#define LT_FIND(name, symbol, arguments)         \
  if (!cuda_find(library, #symbol, &lt.name))    \
    return "cuBLASLt has no " #symbol            \
           ": it is older than 12.0, and is not" \
           " used";
  LT_FUNCTIONS(LT_FIND)
#undef LT_FIND
  if (!cuda_find(library, "cublasLtGetVersion", &lt.GetVersion) ||
      !cuda_find(library, "cublasLtGetStatusName", &lt.GetStatusName))
    return "cuBLASLt does not say its version, and is not used";
  lt.version = (int)lt.GetVersion();
  if (lt.version >= 120000) return NULL;
  snprintf(why, sizeof why,
           "cuBLASLt %d.%d is older than 12.0, and is not used",
           lt.version / 10000, lt.version % 10000 / 100);
  lt.version = 0;
  return why;
}

const char *dnn_api_open(const char *path) {
  static const char *const names[] = {
      "libcudnn.so.9", "/usr/local/cuda/lib64/libcudnn.so.9", "libcudnn.so.8",
      "/usr/local/cuda/lib64/libcudnn.so.8", NULL};
  static char why[400];
  dnn.version = 0;
  if (is_off(path)) return NULL;
  void *library = cuda_open_library(path, names);
  if (!library) {
    snprintf(why, sizeof why,
             "there is no cuDNN (%.200s): convolutions run on Keel's own"
             " kernels, which use no tensor cores",
             dlerror());
    return why;
  }
#define DNN_FIND(name, symbol, arguments)              \
  if (!cuda_find(library, #symbol, &dnn.name))         \
    return "cuDNN has no " #symbol                     \
           ": it is none of the versions 8 and 9, and" \
           " is not used";
  DNN_FUNCTIONS(DNN_FIND)
#undef DNN_FIND
  if (!cuda_find(library, "cudnnGetVersion", &dnn.GetVersion) ||
      !cuda_find(library, "cudnnGetErrorString", &dnn.GetErrorString))
    return "cuDNN does not say its version, and is not used";
  size_t version = dnn.GetVersion();
  /* up to 8.x in thousands, from 9.0 in tens of thousands */
  dnn.version =
      (int)(version >= 90000 ? version
                             : version / 1000 * 10000 + version % 1000);
  if (dnn.version >= 80000) return NULL;
  snprintf(why, sizeof why, "cuDNN %d.%d is older than 8.0, and is not used",
           dnn.version / 10000, dnn.version % 10000 / 100);
  dnn.version = 0;
  return why;
}

const char *nccl_api_open(const char *path) {
  static const char *const names[] = {
      "libnccl.so.2", "/usr/local/cuda/lib64/libnccl.so.2", NULL};
  static char why[400];
  nccl.version = 0;
  void *library = cuda_open_library(path, names);
  if (!library) {
    snprintf(why, sizeof why, "there is no NCCL (%.200s)", dlerror());
    return why;
  }
#define NCCL_FIND(name, symbol, arguments)      \
  if (!cuda_find(library, #symbol, &nccl.name)) \
    return "NCCL has no " #symbol ": it is older than 2.10, and is not used";
  NCCL_FUNCTIONS(NCCL_FIND)
#undef NCCL_FIND
  int version = 0;
  if (!cuda_find(library, "ncclGetVersion", &nccl.GetVersion) ||
      !cuda_find(library, "ncclGetErrorString", &nccl.GetErrorString) ||
      nccl.GetVersion(&version) != NCCL_OK)
    return "NCCL does not say its version, and is not used";
  if (version < 21000) { /* bf16 came with 2.10 */
    snprintf(why, sizeof why,
             "NCCL (version %d) is older than 2.10, and is"
             " not used",
             version);
    return why;
  }
  nccl.version = version;
  nccl.joins = version >= 21400;
#define NCCL_FIND_TOO(name, symbol, arguments) \
  if (!cuda_find(library, #symbol, &nccl.name)) nccl.joins = 0;
  NCCL_JOINING(NCCL_FIND_TOO)
#undef NCCL_FIND_TOO
  return NULL;
}
