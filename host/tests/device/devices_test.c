/* devices_test.c - StableHLO's programs over several devices, as JAX sends them: what a device
 * gets of each value, and what two of them make of it.
 *
 * data/stablehlo/devices: mapped.mlirbc (jax.shard_map with each kind of collective),
 * pmap.mlirbc (x / psum(x)), split.mlirbc (a jitted sum(tanh(a @ w)), a split by rows),
 * broadcast.mlirbc (written by hand: that of partition 1, + replica_id). */
#include <math.h>
#include <unistd.h>

#include <keel/group.h>

#include "one_context.h"

#ifdef SIM_PLUGIN

#define FOLDER TEST_DATA "/stablehlo/devices/"

enum { MEMBERS = 2 };

static keel_group *group;

SETUP(begin) {
  const char *paths[] = {SIM_PLUGIN, CPU_PLUGIN};
  keel_context_params params =
      OPENS(KEEL_ONLY_NAMED | KEEL_ALLOW_REFUSED, paths, 2, .workers = 2);
  unsetenv("KEEL_SIM_LOSE");
  expect_ok(keel_open(&params, &context));
  keel_device *devices[] = {keel_device_at(context, 0),
                            keel_device_at(context, 1)};
  expect_ok(keel_group_create(devices, MEMBERS, &group));
  return 0;
}

SETUP(end) {
  RELEASE(group, context);
  return 0;
}

/* ---- helpers ---------------------------------------------------------------------- */

/* Element i, j of the whole value. */
static float at_a(int64_t i, int64_t j) {
  return (float)(i * 4 + j) / 8 - 2;
}
static float at_w(int64_t i, int64_t j) {
  return (float)((i * 3 + j * 5) % 7) / 4 - 1;
}

static keel_tensor *matrix(float (*at)(int64_t, int64_t), int64_t first,
                           int64_t rows, int64_t columns) {
  float data[64];
  for (int64_t i = 0; i < rows * columns; i++)
    data[i] = at(first + i / columns, i % columns);
  return create_tensor(context, KD_F32, DIMS(rows, columns), data);
}

static float product(int64_t row, int64_t column) {
  float sum = 0;
  for (int64_t k = 0; k < 4; k++)
    sum += at_a(row, k) * at_w(k, column);
  return sum;
}

static void expect_values(keel_tensor *tensor, int64_t rows,
                          float (*want)(int64_t, int64_t, int64_t),
                          int64_t rank) {
  float data[64];
  expect_ok(keel_tensor_wait(tensor));
  assert_int_equal(keel_tensor_dims(tensor)[0], rows);
  expect_ok(keel_tensor_read(tensor, data, (size_t)rows * 4 * sizeof(float)));
  for (int64_t i = 0; i < rows * 4; i++) {
    float value = want(rank, i / 4, i % 4);
    if (fabsf(data[i] - value) > 1e-5f)
      fail_msg("rank %lld, %lld, %lld: %g is not %g", (long long)rank,
               (long long)(i / 4), (long long)(i % 4), (double)data[i],
               (double)value);
  }
}

/* One run of each member. give: the arguments of a member, whose number it returns */
static void run_all(keel_program *program,
                    uint32_t (*give)(uint32_t rank, keel_tensor **values),
                    keel_tensor *(*outputs)[8], uint32_t output_count) {
  keel_tensor *members[MEMBERS];
  keel_plan *plans[MEMBERS];
  expect_ok(keel_group_members(group, members));
  for (uint32_t r = 0; r < MEMBERS; r++) {
    keel_tensor *in[8];
    plans[r] = create_plan(program,
                           PLAN_PARAMS(.device = keel_group_device(group, r)));
    uint32_t n = give(r, in);
    in[n++] = members[r];
    expect_ok(keel_plan_begin(plans[r], NULL, in, n, outputs[r], output_count));
    release_all(in, n);
  }
  for (uint32_t r = 0; r < MEMBERS; r++)
    keel_plan_release(plans[r]);
}

static void expect_port(keel_program *program, bool output, uint32_t index,
                        int64_t rows, const char *sharding) {
  keel_port port;
  expect_ok(output ? keel_program_output(program, index, &port)
                   : keel_program_input(program, index, &port));
  if (rows) assert_int_equal(port.dims[0], rows);
  if (sharding)
    assert_string_equal(port.sharding, sharding);
  else
    assert_null(port.sharding);
}

/* ---- tests ------------------------------------------------------------------------- */

#define ROWS_IN_TWO "{devices=[2,1]<=[2]}"

static uint32_t give_whole(uint32_t rank, keel_tensor **values) {
  (void)rank;
  values[0] = matrix(at_a, 0, 8, 4);
  values[1] = matrix(at_w, 0, 4, 4);
  return 2;
}

static float want_sum(int64_t rank, int64_t i, int64_t j) {
  (void)rank;
  return product(i, j) + product(4 + i, j);
}
static float want_all(int64_t rank, int64_t i, int64_t j) {
  (void)rank;
  return at_a(i, j);
}
static float want_part(int64_t rank, int64_t i, int64_t j) {
  return want_sum(0, rank * 2 + i, j);
}
static float want_other(int64_t rank, int64_t i, int64_t j) {
  return at_a((1 - rank) * 4 + i, j) + (float)rank;
}
static float want_exchanged(int64_t rank, int64_t i, int64_t j) {
  return at_a(i / 2 * 4 + rank * 2 + i % 2, j);
}

TEST_THAT(mapped) {
  keel_tensor *out[MEMBERS][8];
  keel_program *program = load_program(context, FOLDER "mapped.mlirbc");
  assert_int_equal(keel_program_input_count(program), 3);
  keel_port port;
  expect_ok(keel_program_input(program, 2, &port));
  assert_string_equal(port.name, "keel.member");
  assert_int_equal(port.flags, KEEL_PORT_RESOURCE);
  expect_port(program, false, 0, 8, NULL);
  expect_port(program, true, 0, 4, NULL);
  expect_port(program, true, 2, 2, ROWS_IN_TWO);
  expect_port(program, true, 3, 4, ROWS_IN_TWO);
  run_all(program, give_whole, out, 5);
  for (uint32_t r = 0; r < MEMBERS; r++) {
    expect_values(out[r][0], 4, want_sum, r);
    expect_values(out[r][1], 8, want_all, r);
    expect_values(out[r][2], 2, want_part, r);
    expect_values(out[r][3], 4, want_other, r);
    expect_values(out[r][4], 4, want_exchanged, r);
    release_all(out[r], 5);
  }
  keel_program_release(program);
}

static float at_one(int64_t i, int64_t j) {
  return (float)(i * 3 + j + 1);
}

static uint32_t give_row(uint32_t rank, keel_tensor **values) {
  values[0] = matrix(at_one, rank, 1, 3);
  return 1;
}

TEST_THAT(pmap) {
  keel_tensor *out[MEMBERS][8];
  keel_program *program = load_program(context, FOLDER "pmap.mlirbc");
  expect_port(program, false, 0, 1, ROWS_IN_TWO);
  expect_port(program, true, 0, 1, ROWS_IN_TWO);
  run_all(program, give_row, out, 1);
  for (uint32_t r = 0; r < MEMBERS; r++) {
    float want[3];
    for (int64_t j = 0; j < 3; j++)
      want[j] = at_one(r, j) / (at_one(0, j) + at_one(1, j));
    expect_ok(keel_tensor_wait(out[r][0]));
    float data[3];
    expect_ok(keel_tensor_read(out[r][0], data, sizeof data));
    for (int64_t j = 0; j < 3; j++)
      assert_true(fabsf(data[j] - want[j]) < 1e-6f);
    keel_tensor_release(out[r][0]);
  }
  keel_program_release(program);
}

TEST_THAT(broadcast) {
  keel_tensor *out[MEMBERS][8];
  keel_program *program = load_program(context, FOLDER "broadcast.mlirbc");
  run_all(program, give_row, out, 1);
  for (uint32_t r = 0; r < MEMBERS; r++) {
    float data[3];
    expect_ok(keel_tensor_wait(out[r][0]));
    expect_ok(keel_tensor_read(out[r][0], data, sizeof data));
    for (int64_t j = 0; j < 3; j++)
      assert_true(data[j] == at_one(1, j));
    keel_tensor_release(out[r][0]);
  }
  keel_program_release(program);
}

static uint32_t give_part(uint32_t rank, keel_tensor **values) {
  values[0] = matrix(at_a, (int64_t)rank * 4, 4, 4);
  values[1] = matrix(at_w, 0, 4, 4);
  return 2;
}

/* What nobody maps is gathered first: each device has the whole result. */
TEST_THAT(split) {
  keel_tensor *out[MEMBERS][8];
  float want = 0, have = 0;
  keel_program *program = load_program(context, FOLDER "split.mlirbc");
  expect_port(program, false, 0, 4, ROWS_IN_TWO);
  expect_port(program, false, 1, 4, NULL);
  expect_port(program, true, 0, 0, NULL);
  run_all(program, give_part, out, 1);
  for (int64_t i = 0; i < 8; i++)
    for (int64_t j = 0; j < 4; j++)
      want += tanhf(product(i, j));
  for (uint32_t r = 0; r < MEMBERS; r++) {
    expect_ok(keel_tensor_wait(out[r][0]));
    expect_ok(keel_tensor_read(out[r][0], &have, sizeof have));
    assert_true(fabsf(have - want) < 1e-4f);
    keel_tensor_release(out[r][0]);
  }
  keel_program_release(program);
}

/* A plan has what its program said, and outlives it. */
TEST_THAT(a_plan_says_it_too) {
  keel_port port;
  keel_program *program = load_program(context, FOLDER "pmap.mlirbc");
  keel_plan *plan = create_plan(program, NULL);
  keel_program_release(program);
  expect_ok(keel_plan_input(plan, 0, &port));
  assert_string_equal(port.sharding, ROWS_IN_TWO);
  keel_plan_release(plan);
}

/* Without the handle of a group it does not begin. */
TEST_THAT(alone) {
  keel_program *program = load_program(context, FOLDER "pmap.mlirbc");
  keel_plan *plan = create_plan(program, NULL);
  keel_tensor *in[] = {matrix(at_one, 0, 1, 3), NULL}, *out = NULL;
  in[1] = in[0];
  expect_fails(keel_plan_run(plan, in, 2, &out, 1), KD_INVALID_ARGUMENT,
               "takes a member, and got a f32[1,3]");
  assert_null(out);
  RELEASE(in[0], plan, program);
}

/* Files written by hand: refused/replicas.mlirbc (a permutation without a channel), many.mlirbc (a
 * mesh of 7 axes of 1024), uneven.mlirbc (7 rows in two parts). */
TEST_THAT(what_is_refused) {
  static const char *const cases[][2] = {
      {"replicas", "it is among replicas; Keel runs one replica"},
      {"many", "a mesh has more than 1024 devices"},
      {"uneven", "dimension 0 of a value does not divide evenly into 2 shards"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char path[512];
    keel_program *program = NULL;
    snprintf(path, sizeof path, FOLDER "refused/%s.mlirbc", cases[i][0]);
    expect_fails(keel_program_load(context, path, &program), KD_UNIMPLEMENTED,
                 cases[i][1]);
    assert_null(program);
  }
}

RUN_TESTS(begin, end)

#else
int main(void) {
  return 77;
}
#endif
