/* onednn.c - opens oneDNN so that it suits the host's one thread pool.
 *
 * Debian's oneDNN is built with OpenMP. Each thread that calls it is told to
 * have a team of one, and the plugin deals the work out to the host's threads
 * itself: measured on ResNet-50's convolutions, two halves of the channels on
 * two threads take what one OpenMP team of two takes. */

#include "onednn.h"

#include <dlfcn.h>
#include <pthread.h>

#include "cpu.h"

static cpu_dnnl library;
static const cpu_dnnl *found;
static void (*set_team)(int);
static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Thread_local bool alone;

static bool onednn_load(void *handle) {
#define DNNL_LOAD(name)                                                 \
  *(void **)&library.name = dlsym(handle, "dnnl_" #name);               \
  if (!library.name) {                                                  \
    cpu_host->log(cpu_host, KD_LOG_WARNING,                             \
                  "libdnnl.so.2 lacks dnnl_" #name "; it is not used"); \
    return false;                                                       \
  }
  DNNL_FUNCTIONS(DNNL_LOAD)
#undef DNNL_LOAD
  *(void **)&set_team = dlsym(handle, "omp_set_num_threads");
  if (set_team) set_team(1);
  return library.engine_create(&library.engine, dnnl_cpu, 0) == dnnl_success &&
         library.stream_create(&library.stream, library.engine,
                               dnnl_stream_default_flags) == dnnl_success;
}

static void onednn_open_library(void) {
  void *handle = dlopen("libdnnl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char *why = dlerror();
    cpu_host->log(cpu_host, KD_LOG_INFO,
                  "no oneDNN (%s): convolutions are products", why ? why : "");
    return;
  }
  if (onednn_load(handle))
    found = &library;
  else
    dlclose(handle);
}

const cpu_dnnl *cpu_dnnl_get(void) {
  pthread_once(&once, onednn_open_library);
  if (found && set_team && !alone) {
    set_team(1); /* OpenMP keeps this number for each thread */
    alone = true;
  }
  return found;
}
