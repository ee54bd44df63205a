/* link_direct_test.c - exchanges from device to device: a module that stands in for MPI, and a
 * thread that plays the other rank with a simulated device of its own. link_devices.sh has the
 * same between processes. */
#include <dlfcn.h>
#include <keel/link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "device/device.h"
#include "eager/launch.h"
#include "layers/layers.h"
#include "one_context.h"

#ifdef SIM_PLUGIN

enum { COUNT = 3 };

static keel_device *devices[2];
static keel_link *ranks;
static uint64_t (*last_gathered)(void *out_bytes);
static atomic_int
    complaints; /* of the validation layer: what is left at the end, too */

static void count_errors(void *unused, uint32_t level, const char *line) {
  (void)unused;
  if (level != KD_LOG_ERROR) return;
  print_message("%s\n", line);
  atomic_fetch_add(&complaints, 1);
}

/* As link/joined.c has it: what the first rank gives the others. */
typedef struct invitation {
  kd_status status;
  kd_group_id id;
} invitation;

/* ---- the other rank ------------------------------------------------------------------------ */

/* What it does, and what it gets. */
typedef struct other_rank {
  pthread_t thread;
  bool gives, leaves;
  kd_group *group;
  kd_stream *stream;
  float got[COUNT];
  kd_status status;
} other_rank;

static const kd_collective_table *table(void) {
  return &devices[1]->plugin->collectives;
}

static kd_status join_group(other_rank *self) {
  char bytes[512];
  invitation invited;
  while (last_gathered(bytes) != sizeof invited)
    usleep(1000);
  memcpy(&invited, bytes, sizeof invited);
  const kd_join what = {
      .struct_size = sizeof what, .rank = 1, .size = 2, .id = &invited.id};
  kd_status status = table()->join(devices[1]->handle, &what, &self->group);
  while (status == KD_OK &&
         (status = table()->status(self->group)) == KD_BUSY) {
    status = KD_OK;
    usleep(1000);
  }
  return status;
}

static kd_tensor view_of(const keel_tensor *tensor) {
  kd_tensor view = {.size = tensor->type->bytes,
                    .dims = tensor->type->dims,
                    .dtype = tensor->type->dtype,
                    .rank = tensor->type->rank};
  keel_launch_point(&view, tensor);
  return view;
}

/* A sum, of 10, 20, 30. */
static kd_status sum_up(other_rank *self) {
  const float data[COUNT] = {10, 20, 30};
  const kd_stream_table *streams = &devices[1]->plugin->streams;
  const kd_memory_table *memory = &devices[1]->plugin->memory;
  keel_tensor *x = floats(context, COUNT, data), *in = NULL;
  expect_ok(keel_tensor_on(&devices[1]->heap, x->type, &in));
  keel_tensor_release(x);
  expect_ok(streams->create(devices[1]->handle, 0, 0, &self->stream));
  expect_ok(memory->copy_in(devices[1]->handle, NULL, data, in->buffer->handle,
                            in->offset, sizeof data));
  kd_tensor view = view_of(in);
  const kd_collective what = {.struct_size = sizeof what,
                              .kind = KD_ALL_REDUCE,
                              .reduction = KD_REDUCE_SUM,
                              .streams = &self->stream,
                              .inputs = &view,
                              .outputs = &view};
  kd_status status = table()->enqueue(self->group, &what);
  if (status == KD_OK) status = streams->synchronize(self->stream);
  if (status == KD_OK)
    status = memory->copy_out(devices[1]->handle, NULL, in->buffer->handle,
                              in->offset, self->got, sizeof self->got);
  streams->destroy(self->stream);
  keel_tensor_release(in);
  return status;
}

static void *play(void *context_of) {
  other_rank *self = context_of;
  self->status = join_group(self);
  if (self->status == KD_OK && self->gives) self->status = sum_up(self);
  if (self->status == KD_OK && self->leaves) {
    usleep(20000);
    table()->abort(self->group);
  }
  return NULL;
}

static void begin_other(other_rank *self) {
  assert_int_equal(pthread_create(&self->thread, NULL, play, self), 0);
}

static void end_other(other_rank *self) {
  if (self->group) table()->destroy(self->group);
}

/* ---- this rank ---------------------------------------------------------------------------- */

SETUP(open_all) {
  const char *paths[] = {SIM_PLUGIN, CPU_PLUGIN};
  const keel_context_params params =
      OPENS(KEEL_ONLY_NAMED, paths, 2, .workers = 2, .log = count_errors);
  expect_ok(keel_layers_set("validation"));
  expect_ok(keel_open(&params, &context));
  for (uint32_t i = 0; i < 2; i++) {
    devices[i] = keel_device_at(context, i);
    expect_ok(keel_device_ready(devices[i]));
  }
  void *library = dlopen(LINK_STANDIN, RTLD_NOW);
  assert_non_null(library);
  *(void **)(void *)&last_gathered = dlsym(library, "link_standin_gathered");
  assert_non_null(last_gathered);
  return 0;
}

SETUP(end_all) {
  return keel_layers_set("");
}

static keel_tensor *open_link(uint64_t timeout) {
  const keel_link_params params = {
      .struct_size = sizeof params, .module = LINK_STANDIN, .timeout = timeout};
  char forgotten[2] = "", both[4];
  keel_tensor *member = NULL;
  setenv("KEEL_STANDIN", "well", 1);
  expect_ok(keel_link_open(context, &params, &ranks));
  expect_ok(keel_link_gather(ranks, forgotten, 2, both)); /* the last id */
  expect_ok(keel_link_member(ranks, devices[0], &member));
  return member;
}

static keel_tensor *begin(const char *op, keel_tensor *member, keel_tensor *x) {
  keel_tensor *inputs[] = {member, x},
              *y = call_op(context, op, NULL, 0, inputs, 2);
  return y;
}

/* Twice the value, which goes, behind so many kernels of the device that it is not known soon. */
static keel_tensor *late(keel_tensor *x) {
  expect_ok(keel_device_push(devices[0]));
  for (int i = 0; i < 400; i++) {
    keel_tensor *next = call_op(context, "Neg", NULL, 0, &x, 1);
    keel_tensor_release(x);
    x = next;
  }
  keel_tensor *pair[] = {x, x},
              *sum = call_op(context, "Add", NULL, 0, pair, 2);
  keel_tensor_release(x);
  keel_device_pop();
  return sum;
}

TEST_THAT(values_go_from_device_to_device) {
  const float data[COUNT] = {1, 2, 3}, sum[COUNT] = {12, 24, 36};
  other_rank other = {.gives = true};
  keel_link_facts facts;
  keel_tensor *member = open_link(UINT64_C(10000000000)),
              *x = floats(context, COUNT, data);
  begin_other(&other);
  x = late(x);
  keel_tensor *y = begin("keel::AllReduce", member, x);
  expect_floats(y, sum, COUNT);
  assert_ptr_equal(keel_tensor_device(y), devices[0]);
  pthread_join(other.thread, NULL);
  expect_ok(other.status);
  assert_memory_equal(other.got, sum, sizeof sum);
  keel_link_look(ranks, &facts);
  assert_int_equal(facts.direct, 1);
  assert_int_equal(facts.bytes, sizeof data);
  RELEASE(y, x, member);
  keel_link_close(ranks);
  end_other(&other);
}

/* The plugin has no integers; all ranks know that alike. */
TEST_THAT(what_the_plugin_lacks_the_module_does) {
  const int64_t dims[] = {2}, data[] = {INT64_C(1) << 40, 5};
  int64_t got[2];
  other_rank other = {0};
  keel_link_facts facts;
  keel_tensor *member = open_link(UINT64_C(10000000000));
  begin_other(&other);
  keel_tensor *x = create_tensor(context, KD_I64, 1, dims, data);
  keel_tensor *y = begin("keel::Broadcast", member, x);
  expect_ok(keel_tensor_read(y, got, sizeof got));
  assert_memory_equal(got, data, sizeof data);
  pthread_join(other.thread, NULL);
  expect_ok(other.status);
  keel_link_look(ranks, &facts);
  assert_int_equal(facts.exchanges, 1);
  assert_int_equal(facts.direct, 0);
  RELEASE(y, x, member);
  keel_link_close(ranks);
  end_other(&other);
}

/* Pieces of a long value go on while others are copied; the rest is whole. */
TEST_THAT(long_values_go_in_pieces) {
  enum { LENGTH = 1000001 };
  static int64_t data[LENGTH], got[LENGTH];
  other_rank other = {0};
  keel_link_facts facts;
  keel_tensor *x = NULL, *there = NULL;
  for (int64_t i = 0; i < LENGTH; i++)
    data[i] = i * i;
  keel_tensor *member = open_link(UINT64_C(10000000000));
  begin_other(&other);
  expect_ok(keel_tensor_create(context, KD_I64, DIMS(LENGTH), data, &x));
  expect_ok(keel_device_push(devices[0]));
  expect_ok(keel_call(context, "keel::Copy", NULL, 0, &x, 1, &there, 1));
  keel_device_pop();
  keel_tensor *y = begin("keel::Broadcast", member, there);
  expect_ok(keel_tensor_read(y, got, sizeof got));
  assert_memory_equal(got, data, sizeof data);
  pthread_join(other.thread, NULL);
  expect_ok(other.status);
  keel_link_look(ranks, &facts);
  assert_int_equal(facts.pieces, 1);
  assert_int_equal(facts.bytes, sizeof data);
  RELEASE(y, there, x, member);
  keel_link_close(ranks);
  end_other(&other);
}

static void expect_end(keel_tensor *member, keel_status status,
                       const char *says) {
  const float data[COUNT] = {1, 2, 3};
  keel_tensor *x = floats(context, COUNT, data);
  keel_tensor *y = begin("keel::AllReduce", member, x);
  assert_int_equal(keel_tensor_wait(y), status);
  expect_message(says);
  RELEASE(y, x, member);
  keel_link_close(ranks);
}

TEST_THAT(a_rank_that_does_not_join_is_not_waited_for) {
  expect_end(open_link(300000000), KD_DEADLINE_EXCEEDED, "after 0.3 s: rank 0");
}

TEST_THAT(a_rank_that_gives_nothing_is_not_waited_for) {
  other_rank other = {0};
  keel_tensor *member = open_link(300000000);
  begin_other(&other);
  expect_end(member, KD_DEADLINE_EXCEEDED, "after 0.3 s: rank 0 waits in #1");
  pthread_join(other.thread, NULL);
  expect_ok(other.status);
  assert_int_equal(table()->status(other.group), KD_ABORTED);
  end_other(&other);
}

TEST_THAT(a_rank_that_gives_up_ends_the_exchange) {
  other_rank other = {.leaves = true};
  keel_tensor *member = open_link(UINT64_C(10000000000));
  begin_other(&other);
  expect_end(member, KD_ABORTED, "an exchange with other ranks failed");
  pthread_join(other.thread, NULL);
  end_other(&other);
}

/* Streams, events and groups; the validation layer knows them. */
TEST_THAT(nothing_is_left) {
  keel_close(context);
  assert_int_equal(atomic_load(&complaints), 0);
}

int main(void) {
  setenv("KEEL_SIM", "slow", 1); /* legal, if odd: see late() */
  return tests_run(open_all, end_all);
}

#else

int main(void) {
  return 77;
}

#endif
