/* aliases_test.c - outputs that lie where inputs do (kd_alias): values stay what they were for
 * all who hold them, nothing is copied that nobody else needs, and loops write in place. */
#include <stdatomic.h>

#include "device/device.h"
#include "layers/layers.h"
#define WORKERS 2
#include "with_cpu.h"

enum { ROWS = 4, COLUMNS = 3, SIZE = ROWS * COLUMNS };

static atomic_int copies; /* calls of memory.copy */

static void count(void *unused, uint32_t level, const char *line) {
  (void)unused, (void)level;
  if (strstr(line, "trace: memory.copy(")) copies++;
}

static keel_tensor *matrix(const float *data) {
  return create_tensor(context, KD_F32, DIMS(ROWS, COLUMNS), data);
}

/* Row `row` of a matrix becomes `number`. */
static keel_value put_row(keel_builder *builder, keel_value value, int64_t row,
                          float number) {
  const int64_t dims[] = {1, COLUMNS}, rows[] = {row, row, row};
  const float numbers[] = {number, number, number};
  const keel_value in[] = {value, add_constant(builder, KD_I64, 2, dims, rows),
                           add_constant(builder, KD_F32, 2, dims, numbers)};
  return keel_builder_op(builder, "ScatterElements", NULL, 0, in, 3);
}

static keel_plan *plan_of(keel_builder *builder, keel_device *device) {
  return finish_plan(builder, PLAN_PARAMS(.device = device));
}

/* Three updates, one behind the other, of what the caller holds. */
static void try_updates(keel_device *device, bool counted) {
  static const float data[SIZE] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  static const float want[SIZE] = {30, 30, 30, 10, 10, 10, 7, 8, 9, 20, 20, 20};
  float got[SIZE];
  keel_builder *builder = create_builder(context, "updates");
  keel_value x = keel_builder_input(builder, "x", KD_F32, DIMS(ROWS, COLUMNS));
  keel_value y = put_row(builder, put_row(builder, x, 1, 10), 3, 20);
  keel_builder_output(builder, "y", put_row(builder, y, 0, 30));
  keel_plan *plan = plan_of(builder, device);
  keel_tensor *here = matrix(data), *in = NULL, *out[8] = {NULL};
  expect_ok(keel_tensor_to(here, device, &in));
  for (int run = 0; run < 8; run++) {
    copies = 0;
    expect_ok(keel_plan_run(plan, &in, 1, &out[run], 1));
    /* the first run makes values; then what is handed out has a place of its own; what is
     * recorded has its copies inside */
    if (counted && run < 2) assert_int_equal(copies, run + 1);
  }
  for (int run = 0; run < 8; run++) {
    expect_ok(keel_tensor_read(out[run], got, sizeof got));
    assert_memory_equal(got, want, sizeof want);
    keel_tensor_release(out[run]);
  }
  expect_ok(keel_tensor_read(in, got, sizeof got));
  assert_memory_equal(got, data, sizeof data); /* nobody wrote there */
  RELEASE(in, here, plan);
}

/* The updated value and the one before are both handed out. */
static void try_both(keel_device *device) {
  static const float data[SIZE] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  const int64_t dims[] = {ROWS, COLUMNS};
  float got[2][SIZE];
  keel_builder *builder = create_builder(context, "both");
  keel_value x =
      op(builder, "Neg", keel_builder_input(builder, "x", KD_F32, 2, dims),
         KEEL_ABSENT);
  keel_value y = put_row(builder, x, 1, 10);
  keel_builder_output(builder, "y", y);
  keel_builder_output(builder, "x_", x);
  keel_builder_output(builder, "z", op(builder, "Neg", y, KEEL_ABSENT));
  keel_plan *plan = plan_of(builder, device);
  keel_tensor *in = matrix(data), *out[3];
  for (int run = 0; run < 6; run++) {
    expect_ok(keel_plan_run(plan, &in, 1, out, 3));
    for (int i = 0; i < 2; i++)
      expect_ok(keel_tensor_read(out[i], got[i], sizeof got[i]));
    for (int i = 0; i < SIZE; i++) {
      assert_true(got[1][i] == -data[i]);
      assert_true(got[0][i] == (i / COLUMNS == 1 ? 10 : -data[i]));
    }
    release_all(out, 3);
  }
  RELEASE(in, plan);
}

/* A row that the caller gives, written over a constant, in each run anew. */
static void try_constant(keel_device *device) {
  static const float data[SIZE] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  const int64_t dims[] = {ROWS, COLUMNS}, row_dims[] = {1, COLUMNS};
  const int64_t rows[] = {2, 2, 2};
  keel_builder *builder = create_builder(context, "constant");
  const keel_value in[] = {
      add_constant(builder, KD_F32, 2, dims, data),
      add_constant(builder, KD_I64, 2, row_dims, rows),
      keel_builder_input(builder, "x", KD_F32, 2, row_dims)};
  keel_value y = keel_builder_op(builder, "ScatterElements", NULL, 0, in, 3);
  keel_builder_output(builder, "y", op(builder, "Neg", y, KEEL_ABSENT));
  keel_plan *plan = plan_of(builder, device);
  for (int run = 0; run < 6; run++) {
    const float row[] = {(float)run, (float)-run, 100};
    float got[SIZE];
    keel_tensor *x = create_tensor(context, KD_F32, 2, row_dims, row);
    keel_tensor *out = output_of(plan, &x, 1);
    expect_ok(keel_tensor_read(out, got, sizeof got));
    for (int i = 0; i < SIZE; i++)
      assert_true(got[i] == (i / COLUMNS == 2 ? -row[i % COLUMNS] : -data[i]));
    RELEASE(x, out);
  }
  keel_plan_release(plan);
}

/* One op, called by name. */
static void try_call(keel_device *device) {
  static const float data[SIZE] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  const int64_t dims[] = {1, COLUMNS}, rows[] = {2, 2, 2};
  float got[SIZE];
  keel_tensor *in[] = {matrix(data), NULL, NULL}, *out = NULL;
  expect_ok(keel_tensor_create(context, KD_I64, 2, dims, rows, &in[1]));
  expect_ok(keel_tensor_create(context, KD_F32, 2, dims, data, &in[2]));
  out = call_op_on(device, context, "ScatterElements", in, 3);
  expect_ok(keel_tensor_read(out, got, sizeof got));
  assert_memory_equal(got, data, 6 * sizeof *got);
  assert_memory_equal(got + 6, data, 3 * sizeof *got);
  assert_memory_equal(keel_tensor_data(in[0]), data, sizeof data);
  release_all(in, 3);
  keel_tensor_release(out);
}

static void try_device(const char *plugin) {
  const char *paths[] = {CPU_PLUGIN, plugin};
  const keel_context_params params =
      OPENS(KEEL_ONLY_NAMED | KEEL_ALLOW_REFUSED, paths, 2,
            .workers = KEEL_NO_WORKERS, .log = count);
  expect_ok(keel_layers_set("trace"));
  expect_ok(keel_open(&params, &context));
  keel_device *device = keel_device_at(context, 1);
  if (device) {
    try_updates(device, true);
    try_both(device);
    try_constant(device);
    try_call(device);
  } else {
    print_message("no device: %s\n", plugin);
  }
  keel_close(context);
  expect_ok(keel_layers_set(""));
}

/* ---- the tests -------------------------------------------------------------------- */

TEST_BETWEEN(a_value_that_is_held_stays, open_cpu, close_context) {
  keel_device *device = keel_device_at(context, 0);
  try_updates(device, false);
  try_both(device);
  try_constant(device);
  try_call(device);
}

TEST_THAT(only_what_is_held_is_copied_on_a_device) {
#ifdef SIM_PLUGIN
  try_device(SIM_PLUGIN);
#endif
  try_device(OPENCL_PLUGIN);
  try_device(VULKAN_PLUGIN);
}

/* A recurrent op's last state may lie where its first one did. */
TEST_BETWEEN(state_may_be_carried_in_place, open_cpu, close_context) {
  enum { HIDDEN = 3 };
  const int64_t x_dims[] = {1, 1, 2}, w_dims[] = {1, 4 * HIDDEN, 2};
  const int64_t r_dims[] = {1, 4 * HIDDEN, HIDDEN}, h_dims[] = {1, 1, HIDDEN};
  const keel_attr hidden = KEEL_INT("hidden_size", HIDDEN);
  float w[24], r[36], first[2][HIDDEN], last[2][HIDDEN];
  for (int i = 0; i < 24; i++)
    w[i] = (float)(i % 5) * 0.1f - 0.2f;
  for (int i = 0; i < 36; i++)
    r[i] = (float)(i % 7) * 0.1f - 0.3f;
  for (int held = 0; held < 2; held++) {
    keel_value out[3];
    keel_builder *builder = create_builder(context, "lstm");
    keel_value x = keel_builder_input(builder, "x", KD_F32, 3, x_dims);
    keel_value h =
        op(builder, "Neg", keel_builder_input(builder, "h", KD_F32, 3, h_dims),
           KEEL_ABSENT);
    keel_value c = op(builder, "Abs", h, KEEL_ABSENT);
    const keel_value in[] = {x,
                             add_constant(builder, KD_F32, 3, w_dims, w),
                             add_constant(builder, KD_F32, 3, r_dims, r),
                             KEEL_ABSENT,
                             KEEL_ABSENT,
                             h,
                             c};
    expect_ok(keel_builder_op_n(builder, "LSTM", &hidden, 1, in, 7, out, 3));
    keel_builder_output(builder, "h", op(builder, "Neg", out[1], KEEL_ABSENT));
    keel_builder_output(builder, "c", op(builder, "Neg", out[2], KEEL_ABSENT));
    if (held) keel_builder_output(builder, "h0", h);
    if (held) keel_builder_output(builder, "c0", c);
    keel_plan *plan = plan_of(builder, NULL);
    const float data[] = {1, -2, 3};
    keel_tensor *given[2] = {NULL, NULL}, *got[4];
    keel_tensor_create(context, KD_F32, 3, x_dims, data, &given[0]);
    keel_tensor_create(context, KD_F32, 3, h_dims, data, &given[1]);
    for (int run = 0; run < 4; run++) {
      expect_ok(keel_plan_run(plan, given, 2, got, held ? 4 : 2));
      float(*to)[HIDDEN] = held || run ? last : first;
      keel_tensor_read(got[0], to[0], sizeof to[0]);
      keel_tensor_read(got[1], to[1], sizeof to[1]);
      assert_memory_equal(to, first, sizeof first);
      release_all(got, (held ? 4 : 2));
    }
    release_all(given, 2);
    keel_plan_release(plan);
  }
}

RUN_TESTS(NULL, NULL)
