/* borrowed_test.c - memory of others: who frees it, and when, whoever still reads it. */
#include <pthread.h>

#include "toy/toy.h"
#include "values/dlpack.h"

/* ---- who frees, and when ---------------------------------------------------------------- */

typedef enum { TENSOR, TWICE, EXPORT, LEGACY, HOLDERS } holder;

static void let_one_go(holder which, keel_tensor *tensor,
                       DLManagedTensorVersioned *versioned,
                       DLManagedTensor *legacy) {
  if (which == EXPORT)
    versioned->deleter(versioned);
  else if (which == LEGACY)
    legacy->deleter(legacy);
  else
    keel_tensor_release(tensor);
}

/* The k-th of the 24 orders of four. */
static void order_of(int k, holder *order) {
  holder left[HOLDERS] = {TENSOR, TWICE, EXPORT, LEGACY};
  for (int n = HOLDERS; n > 0; n--) {
    int at = k % n;
    k /= n;
    order[HOLDERS - n] = left[at];
    left[at] = left[n - 1];
  }
}

TEST_THAT(the_last_of_all_holders_frees_once) {
  for (int k = 0; k < 24; k++) {
    atomic_int deleted = 0;
    holder order[HOLDERS];
    keel_tensor *tensor = keel_tensor_retain(take(make_pairs(&deleted), 0));
    DLManagedTensorVersioned *versioned = lend(tensor, 0);
    DLManagedTensor *legacy = NULL;
    expect_ok(keel_tensor_to_dlpack_legacy(tensor, 0, &legacy));
    order_of(k, order);
    for (int i = 0; i < HOLDERS; i++) {
      assert_int_equal(deleted, 0);
      let_one_go(order[i], tensor, versioned, legacy);
    }
    assert_int_equal(deleted, 1);
  }
}

/* From here to there and back and on: each struct is freed by who holds it. */
TEST_THAT(a_chain_of_libraries_ends_at_its_beginning) {
  const float want[] = {0, -1, 2, -3};
  atomic_int deleted = 0;
  keel_tensor *first = take(make_pairs(&deleted), 0), *second = NULL;
  expect_ok(keel_tensor_from_dlpack(context, lend(first, 0), 0, &second));
  assert_ptr_equal(keel_tensor_data(first), keel_tensor_data(second));
  keel_tensor_release(first);
  DLManagedTensorVersioned *last = lend(second, 0);
  keel_tensor_release(second);
  assert_int_equal(deleted, 0);
  assert_memory_equal(last->dl_tensor.data, want, sizeof want);
  last->deleter(last);
  assert_int_equal(deleted, 1);
}

static void *release_there(void *managed) {
  DLManagedTensorVersioned *versioned = managed;
  versioned->deleter(versioned);
  return NULL;
}

TEST_THAT(any_thread_may_free) {
  enum { THREADS = 4 };
  pthread_t threads[THREADS];
  atomic_int deleted = 0;
  keel_tensor *tensor = take(make_pairs(&deleted), 0);
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(
        pthread_create(&threads[i], NULL, release_there, lend(tensor, 0)), 0);
  keel_tensor_release(tensor);
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  assert_int_equal(deleted, 1);
}

TEST_THAT(nobody_is_told_where_nobody_asks) {
  atomic_int deleted = 0;
  given *from = make_pairs(&deleted);
  from->versioned.deleter = NULL;
  keel_tensor_release(take(from, 0));
  keel_tensor_release(take(from, KEEL_DLPACK_COPY));
  assert_int_equal(deleted, 0);
  wipe(from);
}

/* y = relu of a constant, whose tensor is released before the program is. */
static void run_constant(uint64_t offset, int deleted_at_once, float first) {
  const float want[] = {first, 0, first + 2, 0};
  atomic_int deleted = 0;
  given *from = make_pairs(&deleted);
  from->versioned.dl_tensor.byte_offset = offset;
  keel_tensor *tensor = take(from, 0), *y = NULL;
  keel_builder *builder = create_builder(context, "constant");
  keel_value x = keel_builder_constant(builder, tensor);
  keel_builder_output(builder, "y", op(builder, "Relu", x, KEEL_ABSENT));
  keel_tensor_release(tensor);
  assert_int_equal(deleted, deleted_at_once);
  keel_program *program = finish_program(builder);
  keel_plan *plan = create_plan(program, NULL);
  expect_ok(keel_plan_run(plan, NULL, 0, &y, 1));
  expect_floats(y, want, 4);
  RELEASE(y, plan);
  assert_int_equal(deleted, deleted_at_once);
  keel_program_release(program);
  assert_int_equal(deleted, 1);
}

TEST_THAT(constants_hold_the_memory_or_a_copy) {
  run_constant(0, 0, 0);
  run_constant(64, 0, 16);
  run_constant(8, 1, 2); /* each run would copy it */
}

/* ---- work in flight ------------------------------------------------------------------------ */

/* A run that waits for its other input reads the memory after all others let go. */
TEST_THAT(a_run_that_waits_keeps_the_memory) {
  const int64_t pairs[] = {2, 2};
  const float ones[] = {1, 1, 1, 1}, want[] = {1, 0, 3, -2};
  atomic_int deleted = 0;
  keel_tensor *in[2] = {take(make_pairs(&deleted), 0), NULL}, *y = NULL,
              *value = NULL;
  keel_builder *builder = create_builder(context, "late");
  keel_value a = keel_builder_input(builder, "a", KD_F32, 2, pairs);
  keel_value b = keel_builder_input(builder, "b", KD_F32, 2, pairs);
  keel_plan *plan = plan_giving(builder, op(builder, "Add", a, b), NULL);
  expect_ok(keel_tensor_promise(context, &in[1]));
  expect_ok(keel_plan_begin(plan, NULL, in, 2, &y, 1));
  keel_tensor_release(in[0]);
  assert_int_equal(deleted, 0);
  value = create_tensor(context, KD_F32, 2, pairs, ones);
  expect_ok(keel_tensor_fulfil(in[1], value));
  expect_floats(y, want, 4);
  RELEASE(value, in[1], y, plan);
  assert_int_equal(deleted, 1);
}

/* The queue is held up by a product, and the copy to it waits behind that. */
TEST_THAT(a_copy_in_flight_keeps_the_memory) {
  const float want[] = {0, 0, 2, 0}, seven = 7, ones[] = {1, 1};
  atomic_int deleted = 0;
  keel_context *before = context;
  context = open_with(CPU_PLUGIN, TOY("queue"), KEEL_NO_WORKERS);
  toy_state *gated = toy_of(TOY("queue"));
  keel_device *queue = keel_device_at(context, 1);
  keel_tensor *pair[2] = {floats(context, 2, ones), NULL}, *held = NULL;
  expect_ok(keel_tensor_create(context, KD_F32, 0, NULL, &seven, &pair[1]));
  atomic_store(&gated->gate, 1);
  held = call_op_on(queue, context, "Mul", pair, 2);
  keel_tensor *x = take(make_pairs(&deleted), 0), *y = relu(queue, x);
  keel_tensor_release(x);
  assert_int_equal(deleted, 0);
  atomic_store(&gated->gate, 0);
  expect_floats(y, want, 4);
  release_all(pair, 2);
  RELEASE(held, y, context);
  context = before;
  assert_int_equal(deleted, 1);
}

/* ---- devices that work on host addresses ------------------------------------------------------ */

static keel_context *outer;
static keel_device *late; /* which begins its work when somebody waits */
static const toy_state *toy;

SETUP(open_late) {
  outer = context;
  context = open_with(TOY("late"), NULL, KEEL_NO_WORKERS);
  toy = toy_of(TOY("late"));
  late = keel_device_at(context, 0);
  return 0;
}

SETUP(close_late) {
  keel_close(context);
  context = outer;
  return 0;
}

TEST_BETWEEN(aligned_memory_is_read_where_it_lies, open_late, close_late) {
  const float want[] = {0, 0, 2, 0};
  atomic_int deleted = 0;
  given *from = make_pairs(&deleted);
  const void *memory = from->memory;
  keel_tensor *x = take(from, 0), *y = relu(late, x);
  assert_ptr_equal(toy->input, memory);
  keel_tensor_release(x); /* the device has not read it yet */
  assert_int_equal(deleted, 1);
  expect_floats(y, want, 4);
  keel_tensor_release(y);
}

TEST_BETWEEN(other_memory_is_copied_for_the_device, open_late, close_late) {
  const float want[] = {16, 0, 18, 0};
  atomic_int deleted = 0;
  given *from = make_pairs(&deleted);
  const char *memory = from->memory;
  from->versioned.dl_tensor.byte_offset = 64; /* the device wants 256 */
  keel_tensor *x = take(from, 0), *y = relu(late, x);
  assert_ptr_equal(keel_tensor_data(x), memory + 64);
  assert_ptr_not_equal(toy->input, memory + 64);
  keel_tensor_release(x);
  assert_int_equal(deleted, 1);
  expect_floats(y, want, 4);
  keel_tensor_release(y);
}

/* Memory of the host's pool is another tensor's soon after. */
TEST_BETWEEN(pooled_memory_is_not_read_late, open_late, close_late) {
  enum { MANY = 256 };
  const float data[] = {0, -1, 2, -3}, others[] = {9, 9, 9, 9},
              want[] = {0, 0, 2, 0};
  keel_tensor *all[MANY];
  int aligned = MANY;
  for (int i = 0; i < MANY; i++) {
    all[i] = floats(context, 4, data);
    if ((uintptr_t)keel_tensor_data(all[i]) % 256 == 0) aligned = i;
  }
  assert_in_range(aligned, 0, MANY - 1); /* one that the device could read */
  keel_tensor *y = relu(late, all[aligned]);
  const void *at = keel_tensor_data(all[aligned]);
  keel_tensor_release(all[aligned]);
  all[aligned] = floats(context, 4, others);
  assert_ptr_equal(keel_tensor_data(all[aligned]), at);
  expect_floats(y, want, 4);
  keel_tensor_release(y);
  release_all(all, MANY);
}

TEST_BETWEEN(what_a_device_still_makes_is_waited_for, open_late, close_late) {
  const float want[] = {0, 0, 2, 0};
  atomic_int deleted = 0;
  keel_tensor *x = take(make_pairs(&deleted), 0), *y = relu(late, x);
  assert_ptr_equal(keel_tensor_device(y), late);
  DLManagedTensorVersioned *to = lend(y, 0);
  assert_memory_equal(to->dl_tensor.data, want, sizeof want);
  keel_tensor *other = relu(late, x);
  assert_memory_equal(keel_tensor_data(other), want, sizeof want);
  RELEASE(other, y);
  assert_memory_equal(to->dl_tensor.data, want, sizeof want);
  to->deleter(to);
  keel_tensor_release(x);
  assert_int_equal(deleted, 1);
}

/* Nothing is waited for between the runs of a plan: what one still reads is not overwritten
 * for the next. */
TEST_BETWEEN(plans_read_each_input_where_it_lies, open_late, close_late) {
  enum { RUNS = 9 };
  atomic_int deleted = 0;
  keel_tensor *in[RUNS], *out[RUNS];
  keel_builder *builder = create_builder(context, "again");
  keel_value x = keel_builder_input(builder, "x", KD_F32, DIMS(2, 2));
  keel_plan *plan = plan_giving(builder, op(builder, "Relu", x, KEEL_ABSENT),
                                PLAN_PARAMS(.device = late));
  for (int i = 0; i < RUNS; i++) {
    given *from = make_pairs(&deleted);
    uint64_t offset = i % 3 ? 64 : 0; /* the device wants 256 */
    from->versioned.dl_tensor.byte_offset = offset;
    ((float *)(void *)(from->memory + offset))[0] = (float)i;
    const void *at = from->memory + offset;
    in[i] = take(from, 0);
    expect_ok(keel_plan_run(plan, &in[i], 1, &out[i], 1));
    assert_int_equal(toy->input == at, offset == 0);
  }
  for (int i = 0; i < RUNS; i++) {
    const float want[] = {(float)i, 0, i % 3 ? 18 : 2, 0};
    expect_floats(out[i], want, 4);
    RELEASE(out[i], in[i]);
    assert_int_equal(deleted, i + 1);
  }
  keel_plan_release(plan);
}

RUN_TESTS(open_cpu, close_context)
