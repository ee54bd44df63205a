/* stablehlo_test.c - StableHLO's portable artifacts: what they compute, and what damage to
 * them does. tests/data/stablehlo holds them, with inputs and results of JAX;
 * stablehlo_samples.py has made these.
 *
 * With files as arguments each function of each is written out instead, one line a file:
 * StableHLO's own artifacts (stablehlo/tests/vhlo) must all be read. */
#include <dirent.h>
#include <math.h>
#include <unistd.h>

#define WORKERS 0
#include "program/hostile.h"
#include "with_cpu.h"

#include "frontends/stablehlo/lower.h"

#define FOLDER  TEST_DATA "/stablehlo"
#define LARGEST 65536

/* Loading goes on one thread, at which ThreadSanitizer has nothing to see. */
#ifdef __SANITIZE_THREAD__
#define EACH_BYTE 31
#else
#define EACH_BYTE 1
#endif

typedef struct sample {
  char path[512];
  uint8_t data[LARGEST];
  size_t size;
} sample;

/* Calls `look` with each artifact of the folder. */
static void each_sample(void (*look)(const sample *s)) {
  struct dirent **entries = NULL;
  sample *s = malloc(sizeof *s);
  assert_non_null(s);
  int found = scandir(FOLDER, &entries, NULL, alphasort), seen = 0;
  for (int i = 0; i < found; i++) {
    const char *end = strstr(entries[i]->d_name, ".mlirbc");
    if (end) {
      snprintf(s->path, sizeof s->path, FOLDER "/%s", entries[i]->d_name);
      FILE *file = fopen(s->path, "rb");
      assert_non_null(file);
      s->size = fread(s->data, 1, LARGEST, file);
      fclose(file);
      look(s);
      seen++;
    }
    free(entries[i]);
  }
  free(entries);
  free(s);
  assert_true(seen >= 9);
}

/* ---- results ------------------------------------------------------------------------- */

static void read_beside(const sample *s, const char *end,
                        hostile_inputs *values) {
  char path[512];
  snprintf(path, sizeof path, "%s", s->path);
  snprintf(strstr(path, ".mlirbc"), 8, "%s", end);
  assert_true(hostile_inputs_read(context, path, values));
}

static void expect_same(const sample *s, uint32_t number, keel_tensor *have,
                        keel_tensor *want) {
  uint64_t size = keel_tensor_size(want);
  assert_int_equal(keel_tensor_dtype(have), keel_tensor_dtype(want));
  assert_int_equal(keel_tensor_size(have), size);
  uint8_t *a = calloc(size + 1, 1), *b = calloc(size + 1, 1);
  expect_ok(keel_tensor_read(have, a, size));
  expect_ok(keel_tensor_read(want, b, size));
  if (memcmp(a, b, size) != 0)
    fail_msg("%s: result %u is not that of JAX", s->path, (unsigned)number);
  free(a);
  free(b);
}

static void run_sample(const sample *s) {
  hostile_inputs in, want;
  keel_tensor *have[HOSTILE_MOST];
  keel_program *program = load_program(context, s->path);
  read_beside(s, ".in", &in);
  read_beside(s, ".out", &want);
  assert_int_equal(keel_program_input_count(program), in.count);
  assert_int_equal(keel_program_output_count(program), want.count);
  keel_plan *plan = create_plan(program, NULL);
  for (int round = 0; round < 2; round++) {
    expect_ok(keel_plan_run(plan, in.tensors, in.count, have, want.count));
    for (uint32_t i = 0; i < want.count; i++)
      expect_same(s, i, have[i], want.tensors[i]);
    release_all(have, want.count);
  }
  RELEASE(plan, program);
  hostile_inputs_drop(&in);
  hostile_inputs_drop(&want);
}

TEST_THAT(samples_run) {
  each_sample(run_sample);
}

TEST_THAT(ports_are_named) {
  keel_port port;
  keel_program *program = load_program(context, FOLDER "/affine_1_17_0.mlirbc");
  expect_ok(keel_program_input(program, 1, &port));
  assert_string_equal(port.name, "arg1");
  assert_int_equal(port.dtype, KD_F32);
  assert_int_equal(port.rank, 2);
  assert_int_equal(port.dims[0], 3);
  expect_ok(keel_program_output(program, 0, &port));
  assert_string_equal(port.name, "result0");
  keel_program_release(program);
}

static void expect_donated(const char *path) {
  keel_program *program = load_program(context, path);
  for (uint32_t i = 0; i < 3; i++) {
    keel_port port;
    expect_ok(keel_program_input(program, i, &port));
    assert_int_equal(port.flags, i < 2 ? KEEL_PORT_DONATED : 0);
    assert_int_equal(port.rank, 2);
  }
  keel_program_release(program);
}

/* Also after it has been kept in Keel's own forms. */
TEST_THAT(what_is_donated_is_said_of_inputs) {
  static const char *const paths[] = {FOLDER "/descent_0_9_0.mlirbc",
                                      FOLDER "/descent_1_17_0.mlirbc"};
  for (int i = 0; i < 2; i++) {
    char kept[] = "/tmp/keel_donated_XXXXXX.mlir";
    int file = mkstemps(kept, 5);
    assert_true(file >= 0);
    close(file);
    expect_donated(paths[i]);
    keel_program *program = load_program(context, paths[i]);
    for (uint32_t text = 0; text < 2; text++) {
      expect_ok(keel_program_save(program, kept, text ? KEEL_SAVE_TEXT : 0));
      expect_donated(kept);
    }
    keel_program_release(program);
    unlink(kept);
  }
}

/* ---- damage ------------------------------------------------------------------------------- */

/* A file of any bytes is a program, is damaged, or has what is not there. */
static void load_bytes(const uint8_t *data, size_t size) {
  keel_program *program = NULL;
  keel_status status =
      keel_program_load_memory(context, "damaged", data, size, &program);
  if (status != KD_OK && status != KD_DATA_LOSS && status != KD_UNIMPLEMENTED)
    fail_msg("%s: %s", keel_status_name(status), keel_message());
  if (status != KD_OK && !strstr(keel_message(), "damaged:"))
    fail_msg("it does not name the file: %s", keel_message());
  keel_program_release(program);
}

static void cut_off(const sample *s) {
  /* a copy that ends with the file: what reads beyond it is seen */
  for (size_t size = 5; size < s->size; size += EACH_BYTE) {
    uint8_t *data = malloc(size);
    assert_non_null(data);
    memcpy(data, s->data, size);
    load_bytes(data, size);
    free(data);
  }
}

TEST_THAT(files_that_are_cut_off) {
  each_sample(cut_off);
}

static void change_each(const sample *s) {
  static const uint8_t masks[] = {0xff, 0x01, 0x80, 0x10};
  uint8_t *data = malloc(s->size);
  assert_non_null(data);
  memcpy(data, s->data, s->size);
  for (size_t i = 4; i < s->size; i += EACH_BYTE)
    for (size_t k = 0; k < sizeof masks; k++) {
      data[i] ^= masks[k];
      load_bytes(data, s->size);
      data[i] ^= masks[k];
    }
  free(data);
}

TEST_THAT(files_with_a_changed_byte) {
  each_sample(change_each);
}

static void expect_refused(const uint8_t *data, size_t size, keel_status wanted,
                           const char *part) {
  keel_program *program = NULL;
  assert_int_equal(
      keel_program_load_memory(context, "m.mlirbc", data, size, &program),
      wanted);
  assert_null(program);
  expect_message(part);
}

TEST_THAT(messages) {
  static const uint8_t later[] = "ML\xefR\x0fX\0";
  static const uint8_t nothing[] = "ML\xefR\x0dX\0";
  static const uint8_t endless[] = "ML\xefR\x0dXYZ";
  static const uint8_t large[] = "ML\xefR\x0dX\0\x00\xff\x00";
  expect_refused(later, sizeof later - 1, KD_UNIMPLEMENTED,
                 "m.mlirbc: is MLIR bytecode of version 7, and Keel reads 0 to"
                 " 6");
  expect_refused(nothing, sizeof nothing - 1, KD_DATA_LOSS,
                 "the section of strings is missing");
  expect_refused(endless, sizeof endless - 1, KD_DATA_LOSS,
                 "the producer's name does not end");
  expect_refused(large, sizeof large - 1, KD_DATA_LOSS,
                 "m.mlirbc: is damaged at byte 9: section 0 has 127 bytes");
}

/* ---- StableHLO's own artifacts -------------------------------------------------------------- */

typedef struct counts {
  unsigned written, refused, failed;
} counts;

/* Reads a file anew and writes out its function with a number. False: it has none. */
static bool write_out(const char *path, keel_file *file, uint32_t number,
                      counts *all) {
  hlo *h = calloc(1, sizeof *h);
  keel_program *program = NULL;
  const char *name = NULL;
  assert_non_null(h);
  h->context = context;
  keel_status status = bytecode_read(path, file->data, file->size, &h->v.file);
  if (status == KD_OK) status = vhlo_types(&h->v);
  const bytecode_block *top = &h->v.file.top;
  bool there = status == KD_OK && top->op_count == 1 &&
               top->ops[0].region_count == 1 &&
               number < top->ops[0].regions[0].op_count;
  if (there) {
    const bytecode_op *function = &top->ops[0].regions[0].ops[number];
    status = vhlo_string(&h->v, function, "sym_name", &name);
    if (status == KD_OK) status = hlo_program(h, name, &program);
    all->written += status == KD_OK;
    all->refused += status == KD_UNIMPLEMENTED;
  }
  if (status != KD_OK && status != KD_UNIMPLEMENTED) {
    printf("%s\n", keel_message());
    all->failed++;
  } else if (status != KD_OK && getenv("KEEL_TEST_WHY")) {
    printf("%s\n", keel_message());
  }
  keel_program_release(program);
  bytecode_free(&h->v.file);
  free(h);
  return there;
}

static int read_artifacts(int count, char **paths) {
  unsigned failed = 0;
  context = open_with(CPU_PLUGIN, NULL, 0);
  for (int i = 0; i < count; i++) {
    counts all = {0};
    keel_file file = {0};
    if (keel_file_open(paths[i], &file) != KD_OK) {
      printf("%s\n", keel_message());
      failed++;
      continue;
    }
    for (uint32_t k = 0; write_out(paths[i], &file, k, &all); k++)
      continue;
    keel_file_close(&file);
    printf("%s: of its functions %u are written out, %u refused, %u fail\n",
           paths[i], all.written, all.refused, all.failed);
    failed += all.failed || !(all.written + all.refused);
  }
  keel_close(context);
  printf("%d files, %u fail\n", count, failed);
  return failed ? 1 : 0;
}

int main(int argc, char **argv) {
  if (argc > 1) return read_artifacts(argc - 1, argv + 1);
  return tests_run(open_cpu, close_context);
}
