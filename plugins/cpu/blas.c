/* blas.c - opens OpenBLAS so that it suits the host's one thread pool.
 *
 * OpenBLAS reads two variables while it loads: the number of its threads, which
 * must be one (the host's threads share the work, and its own pool would fight
 * them), and the core type, which old versions guess wrong on new processors:
 * 0.3.21 takes an AVX-512 AMD for a Haswell and gives half its speed. Setting
 * variables with setenv would race with getenv in other threads, so `environ`
 * is exchanged for a longer copy during the load, and back: readers see one
 * whole list or the other. */
#include "blas.h"

#include <dlfcn.h>
#include <pthread.h>

#include "cpu.h"

extern char **environ;

static cpu_blas library;
static const cpu_blas *found;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static bool is_set(const char *name) {
  return getenv(name) != NULL;
}

static void *open_tuned(void) {
  static char threads[] = "OPENBLAS_NUM_THREADS=1";
  static char core[] = "OPENBLAS_CORETYPE=SkylakeX";
  size_t count = 0;
  while (environ && environ[count])
    count++;
  char **longer = calloc(count + 3, sizeof *longer), **before = environ;
  if (!longer)
    return NULL;
  size_t to = 0;
  longer[to++] = threads; /* the first one of a name counts */
  if (cpu_isa() == 2 && !is_set("OPENBLAS_CORETYPE"))
    longer[to++] = core;
  for (size_t i = 0; i < count; i++)
    longer[to++] = before[i];
  environ = longer;
  void *handle = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  environ = before;
  free(longer);
  return handle;
}

static void open_library(void) {
#ifdef KEEL_WITH_OPENBLAS
  void *handle = open_tuned();
  if (!handle) {
    const char *why = dlerror();
    cpu_host->log(cpu_host, KD_LOG_WARNING,
                  "no OpenBLAS (%s): matrix products are slow; install"
                  " libopenblas0", why ? why : "out of memory");
    return;
  }
  void (*set_threads)(int) = NULL;
  const char *(*core)(void) = NULL;
  *(void **)&library.sgemm = dlsym(handle, "cblas_sgemm");
  *(void **)&library.dgemm = dlsym(handle, "cblas_dgemm");
  *(void **)&set_threads = dlsym(handle, "openblas_set_num_threads");
  *(void **)&core = dlsym(handle, "openblas_get_corename");
  if (!library.sgemm || !library.dgemm) {
    cpu_host->log(cpu_host, KD_LOG_WARNING,
                  "libopenblas.so.0 lacks cblas_sgemm; it is not used");
    dlclose(handle);
    return;
  }
  if (set_threads)
    set_threads(1); /* where the program had loaded it before */
  cpu_host->log(cpu_host, KD_LOG_INFO, "OpenBLAS for %s",
                core ? core() : "an unknown core");
  found = &library;
#else
  (void)open_tuned;
  (void)library;
#endif
}

const cpu_blas *cpu_blas_get(void) {
  pthread_once(&once, open_library);
  return found;
}
