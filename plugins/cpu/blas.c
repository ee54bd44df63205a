/* blas.c - opens OpenBLAS so that it suits the host's one thread pool.
 *
 * OpenBLAS reads two variables while it loads: the number of its threads, which
 * must be one (the host's threads share the work, and its own pool would fight
 * them), and the core type, which old versions guess wrong on new processors:
 * 0.3.21 takes an AVX-512 AMD for a Haswell and gives half its speed. On
 * other processors AVX-512 gains nothing, because two halves of a vector
 * share one unit; a few microseconds of multiplications tell which it is. Setting
 * variables with setenv would race with getenv in other threads, so `environ`
 * is exchanged for a longer copy during the load, and back: readers see one
 * whole list or the other. */
#include "blas.h"

#include <dlfcn.h>
#include <pthread.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "common/clock.h"
#include "cpu.h"
#include "system/environment.h"

extern char **environ;

static cpu_blas library;
static const cpu_blas *found;
static pthread_once_t once = PTHREAD_ONCE_INIT;

#if defined(__x86_64__)

/* Ten sums at once, so that latency is hidden. */
#define FMA_LOOP(type, set, fma, add)            \
  type sum[10], x = set(0.999f), y = set(1e-9f); \
  for (int i = 0; i < 10; i++)                   \
    sum[i] = set((float)i);                      \
  for (int k = 0; k < 2000; k++)                 \
    for (int i = 0; i < 10; i++)                 \
      sum[i] = fma(sum[i], x, y);                \
  for (int i = 1; i < 10; i++)                   \
    sum[0] = add(sum[0], sum[i]);

__attribute__((target("avx2,fma"))) static float fma_256(void) {
  FMA_LOOP(__m256, _mm256_set1_ps, _mm256_fmadd_ps, _mm256_add_ps)
  return _mm256_cvtss_f32(sum[0]);
}

__attribute__((target("avx512f"))) static float fma_512(void) {
  FMA_LOOP(__m512, _mm512_set1_ps, _mm512_fmadd_ps, _mm512_add_ps)
  return _mm512_cvtss_f32(sum[0]);
}

static double time_of(float (*loop)(void)) {
  volatile float sink = 0;
  double best = 1e9;
  for (int i = 0; i < 8; i++) {
    uint64_t begin = clock_now();
    sink += loop();
    double time = (double)(clock_now() - begin);
    best = time < best ? time : best;
  }
  (void)sink;
  return best;
}

/* Whether wide vectors do more in the same time. */
static bool wide_is_faster(void) {
  return cpu_isa() == 2 && time_of(fma_512) < 1.5 * time_of(fma_256);
}

static const char *best_core(void) {
  static char wide[] = "OPENBLAS_CORETYPE=SkylakeX";
  static char narrow[] = "OPENBLAS_CORETYPE=Haswell";
  return cpu_isa() == 0 ? NULL : wide_is_faster() ? wide : narrow;
}

#else

static const char *best_core(void) {
  return NULL; /* OpenBLAS's own choice */
}

#endif

static bool is_set(const char *name) {
  return keel_environment(name) != NULL;
}

static void *open_tuned(void) {
  static char threads[] = "OPENBLAS_NUM_THREADS=1";
  const char *core = is_set("OPENBLAS_CORETYPE") ? NULL : best_core();
  size_t count = 0;
  while (environ && environ[count])
    count++;
  char **longer = calloc(count + 3, sizeof *longer), **before = environ;
  if (!longer) return NULL;
  size_t to = 0;
  longer[to++] = threads; /* the first one of a name counts */
  if (core) longer[to++] = (char *)(uintptr_t)core;
  for (size_t i = 0; i < count; i++)
    longer[to++] = before[i];
  environ = longer;
  void *handle = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  environ = before;
  free(longer);
  return handle;
}

static void blas_open_library(void) {
#ifdef KEEL_WITH_OPENBLAS
  void *handle = open_tuned();
  if (!handle) {
    const char *why = dlerror();
    cpu_host->log(cpu_host, KD_LOG_WARNING,
                  "no OpenBLAS (%s), which the option products wants;"
                  " install libopenblas0",
                  why ? why : "out of memory");
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
  if (set_threads) set_threads(1); /* where the program had loaded it before */
  cpu_host->log(
      cpu_host, KD_LOG_INFO, "OpenBLAS for %s%s",
      core ? core() : "an unknown core",
      is_set("OPENBLAS_CORETYPE") ? ", as OPENBLAS_CORETYPE says" : "");
  found = &library;
#else
  (void)open_tuned;
  (void)library;
#endif
}

const cpu_blas *cpu_blas_get(void) {
  pthread_once(&once, blas_open_library);
  return found;
}
