/* library.c - finding the functions of cuBLASLt, cuDNN and NCCL. They stay, as the driver does. */
#include "library.h"

#include <dlfcn.h>
#include <stdio.h>

lt_api lt;
dnn_api dnn;
nccl_api nccl;

/* NULL: it is none of the names, and `why` says so, and what follows. */
static void *library_open(const char *path, const char *const *names,
                          const char *what, const char *follows, char *why,
                          size_t size) {
  void *library = cuda_open_library(path, names);
  if (!library)
    snprintf(why, size, "there is no %s (%.200s)%s", what, dlerror(), follows);
  return library;
}

/* Finds a function of `library`; else the opener returns a text. */
#define LIBRARY_FIND(what, api, name, symbol, old) \
  if (!cuda_find(library, #symbol, &(api).name))   \
    return what " has no " #symbol ": it is " old ", and is not used";
const char *lt_api_open(const char *path) {
  static const char *const names[] = {
      "libcublasLt.so.13", "/usr/local/cuda/lib64/libcublasLt.so.13",
      "libcublasLt.so.12", "/usr/local/cuda/lib64/libcublasLt.so.12", NULL};
  const char *const *known = names + (cu.version < 13000 ? 2 : 0);
  static char why[400];
  lt.version = 0;
  void *library =
      library_open(path, known, "cuBLASLt",
                   ": products of matrices run on Keel's own kernels, which use"
                   " no tensor cores",
                   why, sizeof why);
  if (!library) return why;
#define LT_FIND(name, symbol, arguments) \
  LIBRARY_FIND("cuBLASLt", lt, name, symbol, "older than 12.0")
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
  void *library =
      library_open(path, names, "cuDNN",
                   ": convolutions run on Keel's own kernels, which use no"
                   " tensor cores",
                   why, sizeof why);
  if (!library) return why;
#define DNN_FIND(name, symbol, arguments) \
  LIBRARY_FIND("cuDNN", dnn, name, symbol, "none of the versions 8 and 9")
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
  void *library = library_open(path, names, "NCCL", "", why, sizeof why);
  if (!library) return why;
#define NCCL_FIND(name, symbol, arguments) \
  LIBRARY_FIND("NCCL", nccl, name, symbol, "older than 2.10")
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
