/* misaligned_test.c - weights that stay where an ONNX file has them, wherever they
 * begin. */
#include <keel/debug.h>

#include <unistd.h>

#include "files.h"
#include "one_context.h"
#include "onnx.h"
#include "plan/plan.h"

enum { SIDE = 256, ROWS = 5, LAYERS = 6, BYTES = SIDE * SIDE * 4 };

/* products: an option of the plugin, which is asked when it is opened. */
static void open_cpu(const char *products) {
  const char *const plugins[] = {CPU_PLUGIN};
  const char *const options[] = {"cpu.regions=off", products};
  const keel_context_params params =
      OPENS(KEEL_ONLY_NAMED, plugins, 1, .options = options,
            .option_count = products ? 2 : 1, .workers = 1);
  expect_ok(keel_open(&params, &context));
}

SETUP(start) {
  open_cpu(NULL);
  return 0;
}

SETUP(start_openblas) {
  open_cpu("cpu.products=openblas");
  return 0;
}

static const int64_t matrix[] = {SIDE, SIDE}, open_rows[] = {-1, SIDE},
                     fixed_rows[] = {ROWS, SIDE};

static onnx_name node(const char *op, onnx_name a, onnx_name b) {
  const onnx_name *pair[] = {&a, &b, NULL};
  return onnx_node(op, pair, "");
}

/* y = x w1 w2 ... : weights that kernels of products take. */
static onnx_name chain(const int64_t *rows) {
  onnx_begin();
  onnx_name y = onnx_input(2, rows);
  for (int i = 0; i < LAYERS; i++)
    y = node(i % 2 ? "Gemm" : "MatMul", y, onnx_weight(2, matrix, 0, 0.1F));
  return y;
}

static void write_chain(const char *path) {
  onnx_finish(chain(fixed_rows), path);
}

static void write_open(const char *path) {
  onnx_finish(chain(open_rows), path);
}

/* Weights that others read: of any op, on the left of a product, or as its output. */
static void write_others(const char *path) {
  onnx_begin();
  onnx_name x = onnx_input(2, matrix);
  for (int i = 0; i < LAYERS; i++) {
    onnx_name w = onnx_weight(2, matrix, 0, 0.1F);
    x = i % 3 == 0   ? node("Add", x, w)
        : i % 3 == 1 ? node("MatMul", w, x)
                     : node("MatMul", x, node("Add", w, w));
  }
  onnx_finish(x, path);
}

enum { CHANNELS = 64, TALL = 14, PLANES = CHANNELS * TALL * TALL / SIDE };

/* The same of convolutions. */
static void write_convolutions(const char *path) {
  const int64_t rows[] = {PLANES, SIDE}, taps[] = {CHANNELS, CHANNELS, 3, 3},
                image[] = {1, CHANNELS, TALL, TALL};
  onnx_begin();
  onnx_name y = onnx_input(2, rows);
  y = node("Reshape", y, onnx_longs(4, image));
  for (int i = 0; i < LAYERS; i++) {
    onnx_name w = onnx_weight(4, taps, 0, 0.1F);
    const onnx_name *pair[] = {&y, &w, NULL};
    y = onnx_node("Conv", pair, "pads=1,1,1,1");
  }
  onnx_finish(node("Reshape", y, onnx_longs(2, rows)), path);
}

static keel_program *load(const char *path) {
  return load_program(context, path);
}

/* Of constants, how many are ragged. */
static uint32_t ragged_in(const keel_function *list) {
  uint32_t count = 0;
  for (const keel_function *at = list; at; at = at->next)
    for (uint32_t i = 0; i < at->value_count; i++)
      count += at->values[i].constant &&
               keel_tensor_misaligned(at->values[i].constant);
  return count;
}

/* The program of a file that `write` writes; the file is gone, its bytes are not. binary: by
 * way of Keel's own form, in which all begins where it should. */
static keel_program *program_of(void (*write)(const char *path), bool binary) {
  char path[] = "/tmp/keel-ragged-XXXXXX";
  make_file(path);
  write(path);
  keel_program *program = load(path);
  if (binary) {
    expect_ok(keel_program_save(program, path, 0));
    keel_program_release(program);
    program = load(path);
    assert_int_equal(ragged_in(program->functions), 0);
  }
  unlink(path);
  return program;
}

static keel_plan *plan_of(keel_program *program, uint32_t flags) {
  return create_plan(program, PLAN_PARAMS(.flags = flags));
}

static keel_tensor *run(keel_plan *plan, int64_t rows) {
  float *data = malloc((size_t)(rows * SIDE + 1) * sizeof *data);
  assert_non_null(data);
  for (int64_t i = 0; i < rows * SIDE; i++)
    data[i] = (float)((i * 7919) % 41 - 20) / 64;
  keel_tensor *x = create_tensor(context, KD_F32, DIMS(rows, SIDE), data);
  keel_tensor *y = output_of(plan, &x, 1);
  keel_tensor_release(x);
  free(data);
  return y;
}

/* Both give the same, to the last bit. */
static void expect_same(keel_plan *plan, keel_plan *other, int64_t rows) {
  keel_tensor *a = run(plan, rows), *b = run(other, rows);
  assert_memory_equal(keel_tensor_data(a), keel_tensor_data(b),
                      (size_t)(rows * SIDE) * sizeof(float));
  RELEASE(a, b);
}

/* What kernels have packed is shared by those for other shapes. This comes first: memory that
 * others freed would be used again. */
TEST_THAT(shapes_share_what_is_packed) {
#ifdef KEEL_SANITIZED
  skip(); /* what is freed stays in memory */
#endif
  keel_program *program = program_of(write_open, false);
  keel_plan *plan = plan_of(program, 0);
  uint64_t before = 0;
  for (int64_t i = 0; i < 16; i++) { /* the second time a shape has a plan */
    keel_tensor_release(run(plan, 2 + i / 2));
    if (i == 1) before = resident("RssAnon:");
  }
  uint64_t after = resident("RssAnon:");
  if (before && after > before + 3 * LAYERS * BYTES)
    fail_msg("%llu bytes more for seven shapes, of weights of %d",
             (unsigned long long)(after - before), LAYERS * BYTES);
  RELEASE(plan, program);
}

/* They are read there when kernels are made, copied for no longer than that. */
TEST_THAT(weights_of_products_stay_in_the_file) {
  uint64_t none = live_bytes(context);
  keel_program *program = program_of(write_chain, false);
  assert_true(ragged_in(program->functions) >= LAYERS / 2);
  assert_true(live_bytes(context) < none + LAYERS * BYTES / 2);
  keel_plan *plan = plan_of(program, 0);
  keel_tensor_release(run(plan, ROWS));
  assert_true(live_bytes(context) < none + LAYERS * BYTES / 2);
  keel_program *straight = program_of(write_chain, true);
  keel_plan *other = plan_of(straight, 0), *second = plan_of(program, 0);
  for (int i = 0; i < 3; i++) {
    expect_same(plan, other, ROWS);
    expect_same(second, other, ROWS);
  }
  RELEASE(plan, other, second, program, straight);
}

/* Kernels for other shapes read the file again, when the program is gone as well. */
TEST_THAT(other_shapes_find_them_again) {
  const int64_t rows[] = {5, 1, 7, 5, 64, 1, 7, 64, 3, 0};
  uint64_t none = live_bytes(context);
  keel_program *program = program_of(write_open, false);
  keel_program *straight = program_of(write_open, true);
  keel_plan *plan = plan_of(program, 0), *other = plan_of(straight, 0);
  assert_true(ragged_in(program->functions) >= LAYERS / 2);
  keel_program_release(program);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    expect_same(plan, other, rows[i]);
  assert_true(live_bytes(context) < none + LAYERS * BYTES / 2);
  RELEASE(plan, other, straight);
}

TEST_THAT(weights_of_convolutions_stay_in_the_file) {
  keel_program *program = program_of(write_convolutions, false);
  keel_program *straight = program_of(write_convolutions, true);
  assert_true(ragged_in(program->functions) >= LAYERS / 2);
  keel_plan *plan = plan_of(program, 0), *other = plan_of(straight, 0);
  for (int i = 0; i < 3; i++)
    expect_same(plan, other, PLANES);
  RELEASE(plan, other, program, straight);
}

TEST_THAT(weights_that_others_read_are_copied) {
  keel_program *program = program_of(write_others, false);
  keel_program *straight = program_of(write_others, true);
  assert_int_equal(ragged_in(program->functions), 0);
  keel_plan *plan = plan_of(program, 0), *other = plan_of(straight, 0);
  for (int i = 0; i < 3; i++)
    expect_same(plan, other, SIDE);
  RELEASE(plan, other, program, straight);
}

TEST_THAT(eager_runs_read_them) {
  keel_program *program = program_of(write_chain, false);
  keel_plan *plan = plan_of(program, 0),
            *eager = plan_of(program, KEEL_PLAN_EAGER);
  for (int i = 0; i < 2; i++) {
    keel_tensor *a = run(plan, ROWS), *b = run(eager, ROWS);
    const float *x = keel_tensor_data(a), *y = keel_tensor_data(b);
    for (int k = 0; k < ROWS * SIDE; k++) /* by kernels of other shapes */
      assert_true(x[k] - y[k] < 1e-4F && y[k] - x[k] < 1e-4F);
    RELEASE(a, b);
  }
  RELEASE(plan, eager, program);
}

/* Bytes that a file has not are no tensor's: it fails where it is loaded. */
TEST_THAT(files_that_are_cut_off_are_refused) {
  char path[] = "/tmp/keel-ragged-XXXXXX";
  keel_program *program = NULL;
  int file = mkstemp(path);
  assert_true(file >= 0);
  write_chain(path);
  off_t whole = lseek(file, 0, SEEK_END);
  for (off_t size = whole - 1; size > 0; size = size * 3 / 4) {
    assert_int_equal(ftruncate(file, size), 0);
    assert_int_equal(keel_program_load(context, path, &program), KD_DATA_LOSS);
  }
  close(file);
  unlink(path);
}

/* Kernels that take nothing, though others of their device do: after the first run the
 * weights lie where each launch finds them, once for all shapes. */
TEST_BETWEEN(kernels_that_read_them_in_each_run, start_openblas,
             close_context) {
  uint64_t none = live_bytes(context);
  keel_program *program = program_of(write_chain, false);
  keel_program *straight = program_of(write_chain, true);
  keel_plan *plan = plan_of(program, 0), *other = plan_of(straight, 0);
  assert_true(ragged_in(program->functions) >= LAYERS / 2);
  assert_true(ragged_in(plan->functions) >= LAYERS / 2);
  for (int i = 0; i < 3; i++)
    expect_same(plan, other, ROWS);
  assert_int_equal(ragged_in(plan->functions), 0);
  assert_true(live_bytes(context) < none + LAYERS * BYTES * 3 / 2);
  keel_plan *second = plan_of(program, 0);
  expect_same(second, other, ROWS);
  assert_true(live_bytes(context) < none + LAYERS * BYTES * 3 / 2);
  RELEASE(second, plan, other, program, straight);
}

/* The same for the plan for all shapes and its versions. */
TEST_BETWEEN(all_shapes_read_the_same_copies, start_openblas, close_context) {
  const int64_t rows[] = {5, 1, 7, 5, 64, 1, 7, 64, 3, 2, 64, 3, 5, 2};
  uint64_t none = live_bytes(context);
  keel_program *program = program_of(write_open, false);
  keel_program *straight = program_of(write_open, true);
  keel_plan *plan = plan_of(program, 0), *other = plan_of(straight, 0);
  for (int round = 0; round < 3; round++)
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
      expect_same(plan, other, rows[i]);
  assert_int_equal(ragged_in(plan->functions), 0);
  assert_true(live_bytes(context) < none + LAYERS * BYTES * 3 / 2);
  RELEASE(plan, other, program, straight);
  assert_true(live_bytes(context) < none + LAYERS * BYTES / 2);
}

/* y = x + r w1 + r w2 ... : products of constants. */
static void write_constants(const char *path) {
  const int64_t row[] = {1, SIDE};
  onnx_begin();
  onnx_name y = onnx_input(2, fixed_rows);
  for (int i = 0; i < LAYERS; i++) {
    onnx_name r = onnx_weight(2, row, 0, 0.1F);
    y = node("Add", y, node("MatMul", r, onnx_weight(2, matrix, 0, 0.1F)));
  }
  onnx_finish(y, path);
}

/* What is folded is read once, and leaves nothing but the result. */
TEST_BETWEEN(folded_weights_leave_no_copy, start_openblas, close_context) {
  uint64_t none = live_bytes(context);
  keel_program *program = program_of(write_constants, false);
  assert_true(ragged_in(program->functions) >= LAYERS / 2);
  keel_plan *plan = plan_of(program, 0);
  keel_tensor_release(run(plan, ROWS));
  assert_true(live_bytes(context) < none + LAYERS * BYTES / 2);
  RELEASE(plan, program);
}

int main(void) {
  around_each(start, close_context);
  return tests_run(NULL, NULL);
}
