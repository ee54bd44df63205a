/* sources_test.c - the families' kernels compile for every architecture that the plugin is
 * for. NVRTC needs no GPU for that.
 *
 * usage: cuda_sources [--all] [--part K/N] [FILE...]
 * The kernels that models use most, and those in FILEs, which the plugin's option "script"
 * wrote; each for one architecture in turn.
 *   --all       for all of them
 *   --part K/N  every Nth kernel, from the Kth
 * Exit status 77 where there is no NVRTC. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cudev.h"
#include "families/nodes.h"
#include "families/script_read.h"
#include "pad.h"
#include "turn.h"

static const int archs[] = {75, 80, 90, 100, 120};
enum { ARCHS = sizeof archs / sizeof *archs, MOST = 65536, THREADS = 2 };
static uint32_t each = 1; /* architectures of a kernel */
static uint32_t part = 1, parts = 1;

const kd_host *cuda_host;

static char **sources;
static uint32_t source_count, room;
static atomic_uint next, compiled, failures;

/* No device is opened here, and no driver called. */
kd_status cuda_failed(kd_device *d, cu_result code, const char *call) {
  (void)d;
  (void)code;
  (void)call;
  return KD_INTERNAL;
}

kd_status cuda_enter(kd_device *d) {
  (void)d;
  return KD_OK;
}

void cuda_leave(void) {}

/* ---- sources --------------------------------------------------------------------------- */

static bool take(void *context, const char *source) {
  (void)context;
  for (uint32_t i = 0; i < source_count; i++)
    if (!strcmp(sources[i], source)) return true;
  if (source_count == room) {
    room = room * 2 + 256;
    char **more = realloc(sources, room * sizeof *more);
    if (!more) return false;
    sources = more;
  }
  sources[source_count] = strdup(source);
  return sources[source_count++] != NULL;
}

static bool read_script(const char *path) {
  replay_script script = replay_read(path);
  bool good = true;
  for (uint32_t i = 0; good && i < script.source_count; i++) {
    char *source = strndup(script.sources[i], (size_t)script.source_sizes[i]);
    good = source && take(NULL, source);
    free(source);
  }
  printf("%s: %u kernels\n", path, script.source_count);
  replay_free(&script);
  return good;
}

/* Of those that are to be compiled. */
static bool in_part(uint32_t source) {
  return source % parts == part - 1;
}

static void *work(void *context) {
  (void)context;
  for (;;) {
    uint32_t at = atomic_fetch_add(&next, 1);
    if (at >= source_count * each) return NULL;
    if (!in_part(at / each)) continue;
    const char *source = sources[at / each];
    /* in turn, where a kernel is not for all of them */
    int arch = archs[at % ARCHS];
    char *code = NULL;
    size_t size = 0;
    if (cuda_compile(&fam_plain_host, arch, source, 0, &code, &size) != KD_OK) {
      if (atomic_fetch_add(&failures, 1) < 3)
        fprintf(stderr, "for sm_%d:\n%s\n", arch, source);
      continue;
    }
    atomic_fetch_add(&compiled, 1);
    free(code);
  }
}

/* As a vector; four bytes may be a word, too. */
static bool at_once(const char *source, const char *code, const char *access,
                    const char *buffer) {
  static const char *const bytes[] = {"u8", "i8", "bool"};
  char text[32];
  for (int v = 2; v <= 4; v += 2) {
    snprintf(text, sizeof text, "%s.global.v%d", access, v);
    if (strstr(code, text)) return true;
  }
  snprintf(text, sizeof text, "%s.global.u32", access);
  if (!strstr(code, text)) return false;
  for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) {
    snprintf(text, sizeof text, "S_%s *%s", bytes[i], buffer);
    if (strstr(source, text)) return true;
  }
  return false;
}

/* Kernels whose items make four neighbours read and write them at once: PTX, for an
 * architecture that nobody knows, says so. */
static bool by_vectors(uint32_t count) {
  uint32_t looked_at = 0, good = 0;
  for (uint32_t i = 0; i < count; i++) {
    if (!in_part(i) || !strstr(sources[i], "#define VEC4")) continue;
    char *code = NULL;
    size_t size = 0;
    looked_at++;
    if (cuda_compile(&fam_plain_host, 9999, sources[i], 0, &code, &size) !=
        KD_OK)
      continue;
    bool reads = strstr(sources[i], "#define INPUTS 0") ||
                 at_once(sources[i], code, "ld", "X0_");
    bool writes =
        !strstr(sources[i], " made;") || at_once(sources[i], code, "st", "Z_");
    if (reads && writes)
      good++;
    else
      fprintf(stderr, "not by vectors:\n%s\n", sources[i]);
    free(code);
  }
  printf("%u of %u kernels go by vectors\n", good, looked_at);
  return looked_at && good == looked_at;
}

int main(int argc, char **argv) {
  const fam_dialect dialect = {.float64 = true,
                               .math64 = true,
                               .int64 = true,
                               .vec4 = true,
                               .keeps_nan = true};
  pthread_t threads[THREADS];
  const char *why = rtc_api_open(NULL);
  cuda_host = &fam_plain_host;
  if (why) {
    printf("skipped: %s\n", why);
    return 77;
  }
  if (!fam_each_source(&dialect, fam_cuda, take, NULL) ||
      !take(NULL, cuda_turn) || !take(NULL, cuda_pad_2) ||
      !take(NULL, cuda_pad_4) || !take(NULL, cuda_pad_8))
    return 1;
  uint32_t own = source_count;
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "--all"))
      each = ARCHS;
    else if (!strcmp(argv[i], "--part") && i + 1 < argc) {
      char *end = NULL;
      part = (uint32_t)strtoul(argv[++i], &end, 10);
      parts = *end == '/' ? (uint32_t)strtoul(end + 1, &end, 10) : 0;
      if (*end || !part || part > parts) {
        fprintf(stderr, "%s is no part: K/N, K from 1 to N\n", argv[i]);
        return 1;
      }
    } else if (!read_script(argv[i]))
      return 1;
  }
  printf("%u sources, NVRTC %d.%d\n", source_count, rtc.version / 1000,
         rtc.version % 1000 / 10);
  fflush(stdout);
  for (int i = 0; i < THREADS; i++)
    if (pthread_create(&threads[i], NULL, work, NULL) != 0) return 1;
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  bool vectors = by_vectors(own);
  for (uint32_t i = 0; i < source_count; i++)
    free(sources[i]);
  free(sources);
  printf("%u compiled for %s sm_75, sm_80, sm_90, sm_100, sm_120, %u failed\n",
         compiled, each == 1 ? "one in turn of" : "each of", failures);
  return failures || !vectors;
}
