/* fuzz_test.c - 1,000 mutated models in each form, and 200 mutated manifests: an error
 * or a result each, and no crash. The seed is fixed; each model is loaded, planned
 * and, where it has no loop, run. */
#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files.h"
#include "program/image.h"
#include "testing.h"

#define DATA      "/usr/share/libonnx-testdata/data"
#define MODELS    1000
#define MANIFESTS 200

static uint64_t seed = 20261121;

static uint64_t next_random(void) {
  uint64_t z = (seed += UINT64_C(0x9e3779b97f4a7c15));
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

/* Flips, overwrites, cuts, repeats. Returns the new size. */
static size_t mutate(uint8_t *data, size_t size) {
  int times = 1 + (int)(next_random() % 4);
  for (int i = 0; i < times && size > 4; i++) {
    size_t at = next_random() % size;
    switch (next_random() % 5) {
      case 0:
        data[at] ^= (uint8_t)(1u << next_random() % 8);
        break;
      case 1:
        data[at] = (uint8_t)next_random();
        break;
      case 2:
        data[at] = 0xff;
        break;
      case 3:
        size = next_random() % 8 ? size : at;
        break;
      default: {
        size_t length = 1 + next_random() % 8, from = next_random() % size;
        for (size_t k = 0; k < length && at + k < size && from + k < size; k++)
          data[at + k] = data[from + k];
      }
    }
  }
  return size;
}

static bool has_loop(const uint8_t *data, size_t size) {
  for (size_t i = 0; i + 4 <= size; i++)
    if (!memcmp(data + i, "Loop", 4)) return true;
  return false;
}

static void run_program(keel_context *context, keel_program *program) {
  keel_tensor *in[32] = {0}, *out[32] = {0};
  keel_plan *plan = NULL;
  uint32_t n = keel_program_input_count(program);
  uint32_t m = keel_program_output_count(program);
  if (n > 32 || m > 32 || keel_plan_create(program, NULL, &plan) != KD_OK)
    return;
  bool whole = true;
  for (uint32_t i = 0; i < n && whole; i++) {
    keel_port port;
    int64_t dims[16];
    keel_program_input(program, i, &port);
    whole = port.rank != KEEL_RANK_UNKNOWN;
    for (uint32_t k = 0; whole && k < port.rank; k++)
      dims[k] = port.dims[k] < 0 ? 1 : port.dims[k];
    whole = whole && keel_tensor_create(context, port.dtype, port.rank, dims,
                                        NULL, &in[i]) == KD_OK;
  }
  if (whole) keel_plan_run(plan, in, n, out, m);
  for (int i = 0; i < 32; i++) {
    RELEASE(in[i], out[i]);
  }
  keel_plan_release(plan);
}

static int collect(char (*paths)[512], int capacity) {
  static const char *const sets[] = {"node", "pytorch-converted",
                                     "pytorch-operator", "simple"};
  int count = 0;
  for (int s = 0; s < 4; s++) {
    char folder[128];
    struct dirent **entries = NULL;
    snprintf(folder, sizeof folder, "%s/%s", DATA, sets[s]);
    int found = scandir(folder, &entries, NULL, alphasort);
    for (int i = 0; i < found; i++) {
      if (entries[i]->d_name[0] != '.' && count < capacity)
        snprintf(paths[count++], sizeof *paths, "%s/%s/model.onnx", folder,
                 entries[i]->d_name);
      free(entries[i]);
    }
    free(entries);
  }
  return count;
}

typedef enum form { ONNX, TEXT, BINARY, AHEAD } form;

/* For the device with a compiler, whose compiled forms are in the file then. */
static keel_status compile_ahead(keel_context *context,
                                 keel_program **program) {
  keel_plan_params params = {.struct_size = sizeof params};
  keel_program *made = NULL;
  expect_ok(keel_device_find(context, "graph_npu", &params.device));
  keel_status status = keel_program_compile(*program, &params, &made);
  keel_program_release(*program);
  *program = made;
  return status;
}

/* The model in another form, in its file's place; false: it can't be read. */
static bool convert(keel_context *context, const char *from, const char *to,
                    form form) {
  keel_program *program = NULL;
  keel_status status = keel_program_load(context, from, &program);
  if (status == KD_OK && form == AHEAD)
    status = compile_ahead(context, &program);
  if (status == KD_OK)
    status = keel_program_save(program, to, form == TEXT ? KEEL_SAVE_TEXT : 0);
  keel_program_release(program);
  return status == KD_OK;
}

/* Damage behind a right sum is what a reader must find for itself. */
static void seal(uint8_t *data, size_t size) {
  image_head head;
  if (size < sizeof head || next_random() % 8 == 0) return;
  memcpy(&head, data, sizeof head);
  if (next_random() % 4) head.file_size = size;
  if (head.head_size <= head.data && head.data <= size)
    head.check = keel_hash(KEEL_HASH_SEED, data + head.head_size,
                           head.data - head.head_size);
  memcpy(data, &head, sizeof head);
}

static void mutate_models(form form) {
  static char paths[1200][512];
  char fuzzed[] = "/tmp/keel-fuzz-XXXXXX";
  int count = collect(paths, 1200), loaded = 0, tried = 0;
  const char *const plugins[] = {CPU_PLUGIN, GRAPH_NPU_PLUGIN};
  keel_context_params params =
      OPENS(KEEL_ONLY_NAMED, plugins, form == AHEAD ? 2 : 1,
            .memory_limit = UINT64_C(64) << 20);
  if (!count) skip(); /* libonnx-testdata is not there */
  keel_context *context = open_params(&params);
  make_file(fuzzed);
  for (int i = 0; i < MODELS; i++) {
    size_t size = 0;
    const char *path = paths[next_random() % (uint64_t)count];
    if (form != ONNX) {
      if (!convert(context, path, fuzzed, form)) continue;
      path = fuzzed;
    }
    uint8_t *data = (uint8_t *)read_bytes(path, &size);
    keel_program *program = NULL;
    if (!data) continue;
    size = mutate(data, size);
    if (form == BINARY || form == AHEAD) seal(data, size);
    write_bytes(fuzzed, data, size);
    if (getenv("KEEL_FUZZ_TRACE")) fprintf(stderr, "%d %s\n", i, path);
    tried++;
    if (keel_program_load(context, fuzzed, &program) == KD_OK) {
      loaded++;
      if (!has_loop(data, size)) run_program(context, program);
    } else {
      assert_true(*keel_message() != 0);
    }
    keel_program_release(program);
    free(data);
  }
  print_message("%d of %d mutants still load\n", loaded, tried);
  unlink(fuzzed);
  keel_close(context);
}

TEST_THAT(mutated_models_give_errors) {
  mutate_models(ONNX);
}

TEST_THAT(mutated_texts_give_errors) {
  mutate_models(TEXT);
}

TEST_THAT(mutated_images_give_errors) {
  mutate_models(BINARY);
}

TEST_THAT(mutated_compiled_programs_give_errors) {
  setenv("XDG_CACHE_HOME", "/dev/null/none", 1); /* mutants leave nothing */
  mutate_models(AHEAD);
}

TEST_THAT(mutated_manifests_give_errors) {
  static const char text[] =
      "{\"library\": \"" CPU_PLUGIN
      "\", \"name\": \"cpu\", \"vendor\":"
      " \"Keel\", \"version\": \"0.1\", \"abi\": \"0.9\", \"options\":"
      " {\"isa\": \"base\"}}";
  char folder[] = "/tmp/keel-fuzz-XXXXXX", path[64];
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/m.json", folder);
  for (int i = 0; i < MANIFESTS; i++) {
    uint8_t data[sizeof text];
    memcpy(data, text, sizeof text);
    write_bytes(path, data, mutate(data, sizeof text - 1));
    keel_context *context = open_with(path, NULL, KEEL_NO_WORKERS);
    keel_plugin_info info;
    expect_ok(keel_plugin_at(context, 0, &info));
    assert_true(info.status == KD_OK || *info.reason);
    keel_close(context);
  }
  unlink(path);
  rmdir(folder);
}

RUN_TESTS(NULL, NULL)
