/* group_test.c - devices that work together: by themselves where one plugin has them all and
 * can, else through copies and kernels; late values, failures, lost devices, threads. */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "layers/layers.h"
#include "one_context.h"
#include "ranks/group/group.h"

#ifdef SIM_PLUGIN

enum { SIZE = 6 };

static keel_device *members[3];
static atomic_int complaints;

static void count_errors(void *unused, uint32_t level, const char *line) {
  (void)unused;
  if (level != KD_LOG_ERROR) return;
  print_message("%s\n", line);
  atomic_fetch_add(&complaints, 1);
}

static void open_plugins(const char *const *paths, uint32_t count,
                         const char *const *options, uint32_t option_count) {
  keel_context_params params = OPENS(
      KEEL_ONLY_NAMED | KEEL_ALLOW_REFUSED, paths, count, .options = options,
      .option_count = option_count, .workers = 2, .log = count_errors);
  atomic_store(&complaints, 0);
  expect_ok(keel_open(&params, &context));
}

SETUP(open_sim) {
  const char *paths[] = {SIM_PLUGIN, CPU_PLUGIN};
  unsetenv("KEEL_SIM_LOSE");
  expect_ok(keel_layers_set("validation"));
  open_plugins(paths, 2, NULL, 0);
  for (uint32_t i = 0; i < 3; i++)
    members[i] = keel_device_at(context, i);
  return 0;
}

SETUP(close_all) {
  keel_close(context);
  expect_ok(keel_layers_set(""));
  assert_int_equal(atomic_load(&complaints), 0);
  return 0;
}

static keel_group *group_of(keel_device *const *devices, uint32_t count) {
  keel_group *group = NULL;
  expect_ok(keel_group_create(devices, count, &group));
  assert_int_equal(keel_group_size(group), count);
  return group;
}

/* Of member `rank`: 10 rank + 1, + 2 ... */
static keel_tensor *value_of(uint32_t rank, int64_t count) {
  float data[64];
  for (int64_t i = 0; i < count; i++)
    data[i] = (float)(10 * (int64_t)rank + i + 1);
  return floats(context, count, data);
}

static void expect_on(keel_tensor *tensor, keel_device *device,
                      const float *want, size_t count) {
  expect_ok(keel_tensor_wait(tensor));
  if (keel_tensor_device(tensor)) /* the CPU works in host memory, too */
    assert_ptr_equal(keel_tensor_device(tensor), device);
  expect_floats(tensor, want, count);
}

static float reduced(uint32_t reduction, uint32_t count, int64_t at) {
  float all = (float)(at + 1);
  for (uint32_t r = 1; r < count; r++) {
    float x = (float)(10 * (int64_t)r + at + 1);
    all = reduction == KD_REDUCE_SUM       ? all + x
          : reduction == KD_REDUCE_PRODUCT ? all * x
          : reduction == KD_REDUCE_MIN     ? (x < all ? x : all)
                                           : (x > all ? x : all);
  }
  return all;
}

/* ---- what every group does -------------------------------------------------------- */

static void check_reductions(keel_group *group) {
  uint32_t n = keel_group_size(group);
  for (uint32_t reduction = 0; reduction < 4; reduction++) {
    keel_tensor *in[3], *out[3], *part[3];
    float want[SIZE];
    for (uint32_t r = 0; r < n; r++)
      in[r] = value_of(r, SIZE);
    for (int64_t i = 0; i < SIZE; i++)
      want[i] = reduced(reduction, n, i);
    expect_ok(keel_group_all_reduce(group, reduction, in, out));
    expect_ok(keel_group_reduce_scatter(group, reduction, in, part));
    for (uint32_t r = 0; r < n; r++) {
      expect_on(out[r], keel_group_device(group, r), want, SIZE);
      expect_on(part[r], keel_group_device(group, r), want + r * (SIZE / n),
                SIZE / n);
    }
    release_all(in, n);
    release_all(out, n);
    release_all(part, n);
  }
}

static void check_moves(keel_group *group) {
  uint32_t n = keel_group_size(group);
  keel_tensor *in[3], *out[3], *sent = NULL;
  float all[3 * SIZE];
  for (uint32_t r = 0; r < n; r++) {
    in[r] = value_of(r, SIZE);
    for (int i = 0; i < SIZE; i++)
      all[(int)r * SIZE + i] = (float)(10 * (int)r + i + 1);
  }
  expect_ok(keel_group_all_gather(group, in, out));
  for (uint32_t r = 0; r < n; r++)
    expect_on(out[r], keel_group_device(group, r), all, n * SIZE);
  release_all(out, n);
  for (uint32_t root = 0; root < n; root++) {
    expect_ok(keel_group_broadcast(group, root, in[root], out));
    for (uint32_t r = 0; r < n; r++)
      expect_on(out[r], keel_group_device(group, r), all + root * SIZE, SIZE);
    expect_ok(keel_group_send(group, root, out[n - 1 - root], &sent));
    expect_on(sent, keel_group_device(group, root), all + root * SIZE, SIZE);
    keel_tensor_release(sent);
    release_all(out, n);
  }
  expect_ok(keel_group_all_to_all(group, in, out));
  for (uint32_t r = 0; r < n; r++) {
    float turned[SIZE];
    for (uint32_t i = 0; i < SIZE; i++)
      turned[i] = all[i / (SIZE / n) * SIZE + r * (SIZE / n) + i % (SIZE / n)];
    expect_on(out[r], keel_group_device(group, r), turned, SIZE);
  }
  release_all(out, n);
  release_all(in, n);
}

/* Eight reductions, a gathering, an all-to-all, and a broadcast of each member. */
static void check_all(keel_device *const *devices, uint32_t count,
                      bool direct) {
  keel_group *group = group_of(devices, count);
  keel_group_counts counts;
  check_reductions(group);
  check_moves(group);
  keel_group_count(group, &counts);
  assert_int_equal(counts.direct, direct ? 10 + count : 0);
  assert_int_equal(counts.staged, direct ? 0 : 10 + count);
  keel_group_release(group);
}

TEST_BETWEEN(one_plugins_devices_do_it_themselves, open_sim, close_all) {
  check_all(members, 2, true);
}

TEST_BETWEEN(any_devices_do_it_through_the_host, open_sim, close_all) {
  keel_device *mixed[] = {members[2], members[1]};
  check_all(mixed, 2, false);
  check_all(members, 3, false);
  check_all(mixed, 1, false);
}

/* What the plugin can't do the host does: here, integers. */
TEST_BETWEEN(what_the_plugin_lacks_the_host_does, open_sim, close_all) {
  keel_group *group = group_of(members, 2);
  const int64_t dims[] = {3}, a[] = {1, 2, 3}, b[] = {INT64_C(1) << 40, 5, 6};
  int64_t got[3];
  keel_tensor *in[2], *out[2];
  keel_group_counts counts;
  keel_tensor_create(context, KD_I64, 1, dims, a, &in[0]);
  keel_tensor_create(context, KD_I64, 1, dims, b, &in[1]);
  expect_ok(keel_group_all_reduce(group, KD_REDUCE_SUM, in, out));
  for (int r = 0; r < 2; r++) {
    expect_ok(keel_tensor_read(out[r], got, sizeof got));
    for (int i = 0; i < 3; i++)
      assert_true(got[i] == a[i] + b[i]);
  }
  keel_group_count(group, &counts);
  assert_int_equal(counts.staged, 1);
  release_all(in, 2);
  release_all(out, 2);
  keel_group_release(group);
}

/* ---- late values -------------------------------------------------------------------- */

TEST_BETWEEN(late_values_are_waited_for_by_nobody, open_sim, close_all) {
  for (uint32_t count = 2; count <= 3; count++) {
    keel_group *group = group_of(members, count);
    keel_tensor *in[3], *out[3], *last = value_of(count - 1, SIZE);
    float want[SIZE];
    for (uint32_t r = 0; r + 1 < count; r++)
      in[r] = value_of(r, SIZE);
    for (int64_t i = 0; i < SIZE; i++)
      want[i] = reduced(KD_REDUCE_SUM, count, i);
    keel_tensor_promise(context, &in[count - 1]);
    expect_ok(keel_group_all_reduce(group, KD_REDUCE_SUM, in, out));
    keel_group_release(group); /* the call has it */
    for (uint32_t r = 0; r < count; r++)
      assert_int_equal(keel_tensor_query(out[r]), KD_BUSY);
    keel_tensor_fulfil(in[count - 1], last);
    for (uint32_t r = 0; r < count; r++)
      expect_on(out[r], members[r], want, SIZE);
    keel_tensor_release(last);
    release_all(in, count);
    release_all(out, count);
  }
}

TEST_BETWEEN(a_value_that_fails_fails_for_all, open_sim, close_all) {
  keel_group *group = group_of(members, 2);
  keel_tensor *in[2] = {value_of(0, SIZE), NULL}, *out[2];
  keel_tensor_promise(context, &in[1]);
  for (int late = 1; late >= 0; late--) {
    expect_ok(keel_group_all_gather(group, in, out));
    if (late) keel_tensor_fail(in[1], KD_DATA_LOSS, "the line was cut");
    for (int r = 0; r < 2; r++) {
      assert_int_equal(keel_tensor_wait(out[r]), KD_DATA_LOSS);
      assert_non_null(strstr(keel_message(), "the line was cut"));
    }
    release_all(out, 2);
  }
  release_all(in, 2);
  keel_group_release(group);
}

/* ---- what is refused ----------------------------------------------------------------- */

TEST_BETWEEN(wrong_use_is_named_with_rank_and_device, open_sim, close_all) {
  keel_group *group = group_of(members, 2), *none = NULL;
  keel_device *twice[] = {members[0], members[0]};
  keel_tensor *in[2] = {value_of(0, SIZE), value_of(1, SIZE - 1)}, *out[2];
  expect_fails(keel_group_create(twice, 2, &none), KD_INVALID_ARGUMENT,
               "is rank 0 and 1");
  expect_fails(keel_group_create(twice, 0, &none), KD_INVALID_ARGUMENT,
               "a group of 0 devices");
  expect_fails(keel_group_all_reduce(group, KD_REDUCE_SUM, in, out),
               KD_INVALID_ARGUMENT,
               "all_reduce of a group of 2 devices: rank 1 (sim:1) has"
               " f32[5], and another type than rank 0");
  assert_null(out[0]);
  expect_fails(keel_group_all_reduce(group, 9, in, out), KD_INVALID_ARGUMENT,
               "no reduction 9");
  keel_tensor *odd[2] = {in[1], in[1]};
  expect_fails(keel_group_reduce_scatter(group, KD_REDUCE_SUM, odd, out),
               KD_INVALID_ARGUMENT, "can't be parted");
  expect_fails(keel_group_broadcast(group, 2, in[0], out), KD_INVALID_ARGUMENT,
               "broadcast from rank 2");
  odd[1] = NULL;
  expect_fails(keel_group_all_gather(group, odd, out), KD_INVALID_ARGUMENT,
               "rank 1 (sim:1) has no value");
  release_all(in, 2);
  keel_group_release(group);
}

TEST_BETWEEN(a_failing_plugin_is_named, open_sim, close_all) {
  keel_group *group = group_of(members, 2), *none = NULL;
  keel_tensor *in[2] = {value_of(0, SIZE), value_of(1, SIZE)}, *out[2];
  expect_ok(keel_layers_set("fault:collective.enqueue=1:INTERNAL"));
  expect_fails(keel_group_all_reduce(group, KD_REDUCE_SUM, in, out),
               KD_INTERNAL, "while a group of 2 devices did all_reduce");
  expect_ok(keel_group_all_reduce(group, KD_REDUCE_SUM, in, out));
  release_all(out, 2);
  expect_ok(keel_layers_set("fault:collective.create=1:OUT_OF_MEMORY"));
  expect_fails(keel_group_create(members, 2, &none), KD_OUT_OF_MEMORY,
               "made a group");
  assert_null(none);
  expect_ok(keel_layers_set("validation"));
  release_all(in, 2);
  keel_group_release(group);
}

/* ---- lost devices ---------------------------------------------------------------------- */

TEST_BETWEEN(a_lost_member_fails_the_call_and_comes_back, open_sim, close_all) {
  setenv("KEEL_SIM_LOSE", "1", 1);
  keel_group *group = group_of(members, 2);
  keel_tensor *in[2] = {value_of(0, SIZE), value_of(1, SIZE)}, *out[2];
  keel_tensor *there = NULL, *y = NULL;
  expect_ok(keel_tensor_to(in[0], members[0], &there));
  keel_op *op = prepare_op(context, "Neg", NULL, 0, members[0]);
  float back[SIZE];
  keel_status status = keel_op_call(op, &there, 1, &y, 1);
  if (status == KD_OK) status = keel_tensor_read(y, back, sizeof back);
  assert_int_equal(status, KD_DEVICE_LOST);
  expect_fails(keel_group_all_reduce(group, KD_REDUCE_SUM, in, out),
               KD_DEVICE_LOST, "sim:0 was lost");
  RELEASE(there, y);
  unsetenv("KEEL_SIM_LOSE");
  assert_int_equal(keel_device_reopen(members[0]), KD_FAILED_PRECONDITION);
  keel_group_release(group);
  expect_ok(keel_device_reopen(members[0]));
  check_all(members, 2, true);
  keel_op_release(op);
  release_all(in, 2);
}

/* ---- threads ------------------------------------------------------------------------------ */

static keel_group *forward, *backward;

static void *reduce_often(void *number) {
  uint32_t turned = (uint32_t)(uintptr_t)number % 2;
  keel_group *group = turned ? backward : forward;
  keel_tensor *in[2] = {value_of(0, SIZE), value_of(1, SIZE)};
  float want[SIZE];
  for (int64_t i = 0; i < SIZE; i++)
    want[i] = reduced(KD_REDUCE_SUM, 2, i);
  for (int i = 0; i < 100; i++) {
    keel_tensor *out[2];
    if (keel_group_all_reduce(group, KD_REDUCE_SUM, in, out) != KD_OK)
      return (void *)(uintptr_t) "refused";
    float got[SIZE];
    for (int r = 0; r < 2; r++) {
      if (keel_tensor_read(out[r], got, sizeof got) != KD_OK ||
          memcmp(got, want, sizeof got) != 0)
        return (void *)(uintptr_t) "wrong";
    }
    release_all(out, 2);
  }
  release_all(in, 2);
  return NULL;
}

/* Each group in another order of the same devices. */
TEST_BETWEEN(groups_that_share_devices_do_not_lock_up, open_sim, close_all) {
  keel_device *turned[] = {members[1], members[0]};
  pthread_t threads[4];
  forward = group_of(members, 2);
  backward = group_of(turned, 2);
  for (uintptr_t i = 0; i < 4; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, reduce_often, (void *)i),
                     0);
  for (int i = 0; i < 4; i++) {
    void *wrong = NULL;
    pthread_join(threads[i], &wrong);
    if (wrong) fail_msg("%s", (const char *)wrong);
  }
  RELEASE(forward, backward);
}

/* ---- real plugins ---------------------------------------------------------------------- */

static void open_cuda(const char *nccl, keel_device **out_pair) {
  const char *paths[] = {CUDA_PLUGIN, CPU_PLUGIN};
  char option[512];
  snprintf(option, sizeof option, "cuda.nccl=%s", nccl);
  const char *options[] = {"cuda.driver=" STANDINS "/standin_driver.so",
                           "cuda.nvrtc=" STANDINS "/standin_nvrtc.so", option};
  open_plugins(paths, 2, options, 3);
  expect_ok(keel_device_find(context, "cuda:0", &out_pair[0]));
  expect_ok(keel_device_find(context, "cuda:1", &out_pair[1]));
}

/* First: the library is opened once for the process. Copies alone, no launch. */
TEST_THAT(without_nccl_the_host_does_it) {
  keel_device *pair[2];
  keel_group_counts counts;
  if (access(STANDINS "/standin_nccl.so", R_OK) != 0) skip();
  open_cuda("/none/libnccl.so.2", pair);
  keel_group *group = group_of(pair, 2);
  keel_tensor *in = value_of(1, SIZE), *out[2];
  const float want[SIZE] = {11, 12, 13, 14, 15, 16};
  expect_ok(keel_group_broadcast(group, 0, in, out));
  for (int i = 0; i < 2; i++)
    expect_on(out[i], pair[i], want, SIZE);
  keel_group_count(group, &counts);
  assert_int_equal(counts.staged, 1);
  keel_tensor_release(in);
  release_all(out, 2);
  RELEASE(group, context);
}

/* Its part never comes: NCCL's work on the other device would wait for it for ever. */
TEST_THAT(a_lost_gpu_holds_up_no_other) {
  keel_device *pair[2];
  if (access(STANDINS "/standin_nccl.so", R_OK) != 0) skip();
  LEAKS_OFF();
  setenv("STANDIN_LOSE", "1", 1);
  setenv("STANDIN_SLOW", "50", 1);
  open_cuda(STANDINS "/standin_nccl.so", pair);
  keel_group *group = group_of(pair, 2);
  keel_tensor *in[2] = {value_of(0, SIZE), value_of(1, SIZE)}, *out[2];
  float got[SIZE];
  keel_op *op = prepare_op(context, "Neg", NULL, 0, pair[0]);
  keel_tensor *negative = NULL;
  expect_ok(keel_op_call(op, in, 1, &negative, 1));
  expect_ok(keel_group_all_reduce(group, KD_REDUCE_SUM, in, out));
  for (int i = 0; i < 2; i++)
    assert_int_equal(keel_tensor_read(out[i], got, sizeof got), KD_DEVICE_LOST);
  assert_non_null(strstr(keel_message(), "its work with others was aborted"));
  unsetenv("STANDIN_LOSE");
  unsetenv("STANDIN_SLOW");
  RELEASE(op, negative);
  release_all(in, 2);
  release_all(out, 2);
  RELEASE(group, context);
  LEAKS_ON();
}

TEST_THAT(opencl_and_the_cpu_work_together) {
  const char *paths[] = {OPENCL_PLUGIN, CPU_PLUGIN};
  keel_device *pair[2];
  if (access(OPENCL_PLUGIN, R_OK) != 0) skip();
  open_plugins(paths, 2, NULL, 0);
  bool both = keel_device_find(context, "opencl:0", &pair[0]) == KD_OK &&
              keel_device_find(context, "cpu:0", &pair[1]) == KD_OK;
  if (both) check_all(pair, 2, false);
  keel_close(context);
  if (!both) skip();
}

/* NCCL, or the stand-in for it, does it; without it, the host. */
static void check_cuda(const char *nccl, bool direct) {
  keel_device *pair[2];
  open_cuda(nccl, pair);
  check_all(pair, 2, direct);
  keel_close(context);
}

TEST_THAT(cuda_devices_work_by_nccl) {
  if (access(STANDINS "/standin_nccl.so", R_OK) != 0) skip();
  check_cuda("off", false);
  check_cuda(STANDINS "/standin_nccl.so", true);
}

RUN_TESTS(NULL, NULL)

#else

int main(void) {
  return 77;
}

#endif
