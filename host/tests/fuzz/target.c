/* target.c - what libFuzzer calls with bytes of its own making. FUZZ_WHAT says what they
 * are taken for: a program (ONNX, Keel's binary form or its text, told apart by what is in
 * it), which is loaded, planned and run; a value; or a plugin's manifest. */
#include <keel/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/base.h"
#include "loader/loader.h"
#include "program/hostile.h"

#define PROGRAM  1
#define VALUE    2
#define MANIFEST 3

#define MEMORY (UINT64_C(256) << 20)
#define LIMIT  UINT64_C(500000000) /* nanoseconds */

static keel_context *context;
static char path[64]; /* a file in memory, which each input is written to */
static int file = -1;

static void open_all(void) {
  const char *const plugins[] = {CPU_PLUGIN, GRAPH_NPU_PLUGIN};
  keel_context_params params = {.struct_size = sizeof params,
                                .flags = KEEL_ONLY_NAMED,
                                .plugins = plugins,
                                .plugin_count = 2,
                                .workers = KEEL_NO_WORKERS,
                                .memory_limit = MEMORY};
  setenv("KEEL_LOG", "error", 1);
  setenv("XDG_CACHE_HOME", "/dev/null/none", 1);
  file = memfd_create("keel-fuzz", MFD_CLOEXEC);
  snprintf(path, sizeof path, "/proc/self/fd/%d", file);
  if (file < 0 || keel_open(&params, &context) != KD_OK) abort();
}

static void put(const uint8_t *data, size_t size) {
  if (ftruncate(file, 0) != 0 || pwrite(file, data, size, 0) != (ssize_t)size)
    abort();
}

#if FUZZ_WHAT == PROGRAM
static void look_at_input(void) {
  keel_program *program = NULL;
  hostile_inputs inputs;
  if (keel_program_load(context, path, &program) != KD_OK) return;
  if (hostile_inputs_make(context, program, &inputs))
    hostile_run(program, &inputs, 0, 2, LIMIT);
  hostile_inputs_drop(&inputs);
  keel_program_release(program);
}
#elif FUZZ_WHAT == VALUE
static void look_at_input(void) {
  for (uint32_t kind = 0; kind < 3; kind++) {
    keel_tensor *value = NULL;
    if (keel_value_load(context, path, kind, &value) == KD_OK)
      keel_tensor_release(value);
  }
}
#else
static void look_at_input(void) {
  keel_arena arena = {0};
  keel_candidate candidate = {0};
  keel_manifest_read(&arena, path, &candidate);
  keel_arena_free(&arena);
}
#endif

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (!context) open_all();
  put(data, size);
  look_at_input();
  return 0;
}
