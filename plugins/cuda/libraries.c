/* libraries.c - a device's handles of cuBLASLt and cuDNN: opened with the library at their
 * first use, as both take long to load. */
#include <string.h>

#include "common/options.h"
#include "cudev.h"

typedef struct cuda_libraries {
  pthread_mutex_t lock; /* of all that follows */
  bool tried_lt, tried_dnn;
  lt_handle lt;
  dnn_handle dnn;
  pthread_mutex_t dnn_lock; /* a handle has one stream at a time */
} cuda_libraries;

/* The libraries are the process's. */
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

kd_status cuda_libraries_begin(kd_device *d) {
  cuda_libraries *all = cuda_host->allocate(cuda_host, sizeof *all, 0);
  if (!all) return FAIL(KD_OUT_OF_MEMORY, "no memory for a device");
  memset(all, 0, sizeof *all);
  pthread_mutex_init(&all->lock, NULL);
  pthread_mutex_init(&all->dnn_lock, NULL);
  d->libraries = all;
  return KD_OK;
}

void cuda_libraries_end(kd_device *d) {
  cuda_libraries *all = d->libraries;
  if (!all) return;
  if (all->lt) lt.Destroy(all->lt);
  if (all->dnn) dnn.Destroy(all->dnn);
  pthread_mutex_destroy(&all->lock);
  pthread_mutex_destroy(&all->dnn_lock);
  cuda_host->release(cuda_host, all);
  d->libraries = NULL;
}

static void warn(const kd_device *d, const char *what, const char *status) {
  cuda_host->log(cuda_host, KD_LOG_WARNING,
                 "cuda:%u: %s does not start (%s), and is not used", d->index,
                 what, status);
}

/* Under the device's lock: whether the process has the library, which is opened where no
 * device has asked yet. */
static bool libraries_open(const char *option, const int *version,
                           const char *(*open)(const char *path)) {
  const char *why = NULL;
  if (option_is(cuda_host, option, "off")) return false;
  pthread_mutex_lock(&opening);
  if (!*version) why = open(cuda_host->option(cuda_host, option));
  pthread_mutex_unlock(&opening);
  if (why) cuda_host->log_text(cuda_host, KD_LOG_WARNING, why);
  return *version != 0;
}

lt_handle cuda_lt(kd_device *d) {
  cuda_libraries *all = d->libraries;
  pthread_mutex_lock(&all->lock);
  if (!all->tried_lt && libraries_open("cublaslt", &lt.version, lt_api_open)) {
    int status = lt.Create(&all->lt);
    if (status != 0) all->lt = NULL;
    if (status != 0) warn(d, "cuBLASLt", lt.GetStatusName(status));
  }
  all->tried_lt = true;
  lt_handle handle = all->lt;
  pthread_mutex_unlock(&all->lock);
  return handle;
}

dnn_handle cuda_dnn(kd_device *d) {
  cuda_libraries *all = d->libraries;
  pthread_mutex_lock(&all->lock);
  if (!all->tried_dnn && libraries_open("cudnn", &dnn.version, dnn_api_open)) {
    int status = dnn.Create(&all->dnn);
    if (status != 0) all->dnn = NULL;
    if (status != 0) warn(d, "cuDNN", dnn.GetErrorString(status));
  }
  all->tried_dnn = true;
  dnn_handle handle = all->dnn;
  pthread_mutex_unlock(&all->lock);
  return handle;
}

void cuda_dnn_lock(kd_device *d) {
  pthread_mutex_lock(&d->libraries->dnn_lock);
}

void cuda_dnn_unlock(kd_device *d) {
  pthread_mutex_unlock(&d->libraries->dnn_lock);
}

uint32_t cuda_buffer_named(const fam_pass *pass, const char *name) {
  for (uint32_t i = 0; i < pass->buffer_count; i++)
    if (!strcmp(pass->buffers[i].name, name)) return i;
  return UINT32_MAX;
}

/* ---- memory that calls use ------------------------------------------------------------- */

static void libraries_give(kd_device *d, cuda_lane *lane) {
  if (!lane->scratch.memory) return;
  if (d->pool) {
    cu.MemFreeAsync(lane->scratch.memory, lane->queue);
  } else {
    cu.StreamSynchronize(lane->queue);
    cu.MemFree(lane->scratch.memory);
  }
  lane->scratch = (cuda_scratch){0};
}

kd_status cuda_lane_reserve(kd_device *d, cuda_lane *lane, size_t size) {
  if (size <= lane->scratch.size) return KD_OK;
  libraries_give(d, lane);
  CU_TRY(d, "cuMemAllocAsync",
         d->pool ? cu.MemAllocAsync(&lane->scratch.memory, size, lane->queue)
                 : cu.MemAlloc(&lane->scratch.memory, size));
  lane->scratch.size = size;
  return KD_OK;
}

void cuda_lane_release(kd_device *d, cuda_lane *lane) {
  libraries_give(d, lane);
}
