/* values_test.c - tensors as futures, errors as values, files. */
#include <pthread.h>
#include <unistd.h>

#include "files.h"
#include "one_context.h"
#include "values/type.h"

SETUP(open_none) {
  context = open_with(NULL, NULL, 1);
  return 0;
}

TEST_THAT(equal_types_are_one_object) {
  const int64_t dims[] = {2, 3}, others[] = {3, 2};
  const keel_type *a = NULL, *b = NULL, *c = NULL;
  expect_ok(keel_type_of(KD_F32, 2, dims, &a));
  expect_ok(keel_type_of(KD_F32, 2, dims, &b));
  expect_ok(keel_type_of(KD_F32, 2, others, &c));
  assert_ptr_equal(a, b);
  assert_ptr_not_equal(a, c);
  assert_int_equal(a->elements, 6);
}

enum { MANY_TYPES = 100000 };

/* Each thread meets the same types, in an order of its own. */
static void *meet_types(void *argument) {
  const keel_type **met = argument;
  uint64_t step = (uintptr_t)met / sizeof *met % 2 ? 7919 : 104729;
  for (uint64_t i = 0; i < MANY_TYPES; i++) {
    uint64_t at = i * step % MANY_TYPES;
    const int64_t dims[] = {0, (int64_t)at, 3, 224};
    if (keel_type_of(KD_F32, 4, dims, &met[at]) != KD_OK) return met;
  }
  return NULL;
}

TEST_THAT(types_stay_one_object_while_their_table_grows) {
  enum { THREADS = 4 };
  static const keel_type *met[THREADS][MANY_TYPES];
  pthread_t threads[THREADS];
  keel_stats before, after;
  keel_get_stats(context, &before);
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, meet_types, met[i]), 0);
  for (int i = 0; i < THREADS; i++) {
    void *failed = NULL;
    pthread_join(threads[i], &failed);
    assert_null(failed);
  }
  for (int64_t at = 0; at < MANY_TYPES; at++) {
    for (int i = 1; i < THREADS; i++)
      assert_ptr_equal(met[i][at], met[0][at]);
    assert_int_equal(met[0][at]->dims[1], at);
  }
  keel_get_stats(context, &after);
  assert_true(after.type_bytes >= before.type_bytes + 64 * MANY_TYPES);
  assert_true(after.type_bytes <= before.type_bytes + 160 * MANY_TYPES);
}

TEST_THAT(types_that_no_tensor_can_have_are_refused) {
  const int64_t huge[] = {INT64_MAX, 2}, negative[] = {-2},
                zero[] = {0, INT64_C(1) << 40}, vast[] = {0, INT64_MAX};
  const keel_type *type = NULL;
  assert_int_equal(keel_type_of(KD_F32, 2, huge, &type), KD_INVALID_ARGUMENT);
  assert_int_equal(keel_type_of(KD_F32, 1, negative, &type),
                   KD_INVALID_ARGUMENT);
  assert_int_equal(keel_type_of(99, 0, NULL, &type), KD_UNIMPLEMENTED);
  assert_int_equal(keel_type_of(KD_F32, 17, huge, &type), KD_INVALID_ARGUMENT);
  expect_ok(keel_type_of(KD_F32, 2, zero, &type));
  assert_int_equal(type->elements, 0);
  /* nothing is in it, but its strides would overflow */
  assert_int_equal(keel_type_of(KD_F32, 2, vast, &type), KD_INVALID_ARGUMENT);
}

TEST_THAT(data_goes_in_and_comes_out) {
  const float data[] = {1, 2, 3};
  float small[2];
  keel_tensor *tensor = floats(context, 3, data);
  char text[32];
  expect_floats(tensor, data, 3);
  assert_string_equal(keel_tensor_text(tensor, text, sizeof text), "f32[3]");
  assert_int_equal(keel_tensor_read(tensor, small, sizeof small),
                   KD_INVALID_ARGUMENT);
  keel_tensor_release(tensor);
}

static void count_call(void *argument) {
  ++*(int *)argument;
}

TEST_THAT(wrapped_memory_is_given_back_once) {
  static const float data[] = {1, 2};
  int calls = 0;
  keel_tensor *tensor = NULL;
  expect_ok(keel_tensor_wrap(context, KD_F32, DIMS(2), data, count_call, &calls,
                             &tensor));
  assert_ptr_equal(keel_tensor_data(tensor), data);
  keel_tensor_retain(tensor);
  keel_tensor_release(tensor);
  assert_int_equal(calls, 0);
  keel_tensor_release(tensor);
  assert_int_equal(calls, 1);
}

TEST_THAT(a_promise_is_pending_until_it_is_kept) {
  const float data[] = {5};
  keel_tensor *promise = NULL, *value = floats(context, 1, data);
  expect_ok(keel_tensor_promise(context, &promise));
  assert_int_equal(keel_tensor_query(promise), KD_BUSY);
  expect_ok(keel_tensor_fulfil(promise, value));
  expect_floats(promise, data, 1);
  assert_int_equal(keel_tensor_fulfil(promise, value), KD_FAILED_PRECONDITION);
  RELEASE(promise, value);
}

TEST_THAT(a_broken_promise_says_why) {
  keel_tensor *promise = create_promise(context);
  expect_ok(keel_tensor_fail(promise, KD_DATA_LOSS, "the sensor is off"));
  expect_fails(keel_tensor_wait(promise), KD_DATA_LOSS, "the sensor is off");
  keel_tensor_release(promise);
}

static void *keep_promise(void *argument) {
  keel_tensor **pair = argument;
  usleep(2000);
  keel_tensor_fulfil(pair[0], pair[1]);
  return NULL;
}

typedef struct told {
  atomic_uint calls;
  keel_status status;
  float value;
  char text[64];
} told;

static void note_done(void *argument, keel_tensor *tensor, keel_status status) {
  told *self = argument;
  self->status = status;
  snprintf(self->text, sizeof self->text, "%s", status ? keel_message() : "");
  if (status == KD_OK) keel_tensor_read(tensor, &self->value, sizeof(float));
  atomic_fetch_add(&self->calls, 1);
}

TEST_THAT(a_function_is_called_when_a_value_is_there) {
  const float data[] = {11};
  pthread_t thread;
  told first = {0}, second = {0}, late = {0};
  keel_tensor *pair[2] = {NULL, floats(context, 1, data)};
  expect_ok(keel_tensor_promise(context, &pair[0]));
  expect_ok(keel_tensor_on_done(pair[0], note_done, &first));
  expect_ok(keel_tensor_on_done(pair[0], note_done, &second));
  assert_int_equal(first.calls, 0);
  pthread_create(&thread, NULL, keep_promise, pair);
  pthread_join(thread, NULL);
  expect_ok(keel_tensor_on_done(pair[0], note_done, &late));
  const told *const all[] = {&first, &second, &late};
  for (int i = 0; i < 3; i++) {
    assert_int_equal(all[i]->calls, 1);
    expect_ok(all[i]->status);
    assert_float_equal(all[i]->value, 11, 0);
  }
  release_all(pair, 2);
}

TEST_THAT(a_function_is_called_when_a_value_fails) {
  told first = {0}, late = {0};
  keel_tensor *promise = create_promise(context);
  expect_ok(keel_tensor_on_done(promise, note_done, &first));
  expect_ok(keel_tensor_fail(promise, KD_DATA_LOSS, "the sensor is off"));
  expect_ok(keel_tensor_on_done(promise, note_done, &late));
  assert_int_equal(first.calls + late.calls, 2);
  assert_int_equal(first.status, KD_DATA_LOSS);
  assert_int_equal(late.status, KD_DATA_LOSS);
  assert_string_equal(first.text, "the sensor is off");
  assert_string_equal(late.text, "the sensor is off");
  keel_tensor_release(promise);
}

TEST_THAT(waiting_sees_what_another_thread_gives) {
  const float data[] = {7};
  pthread_t thread;
  keel_tensor *pair[2] = {NULL, floats(context, 1, data)};
  expect_ok(keel_tensor_promise(context, &pair[0]));
  pthread_create(&thread, NULL, keep_promise, pair);
  expect_ok(keel_tensor_wait(pair[0]));
  expect_floats(pair[0], data, 1);
  pthread_join(thread, NULL);
  release_all(pair, 2);
}

TEST_THAT(sequences_hold_their_items) {
  const float data[] = {1};
  keel_tensor *item = floats(context, 1, data), *sequence = NULL, *out = NULL;
  keel_tensor *items[] = {item, item};
  expect_ok(keel_sequence_create(context, items, 2, &sequence));
  keel_tensor_release(item);
  assert_int_equal(keel_sequence_length(sequence), 2);
  expect_ok(keel_sequence_at(sequence, -1, &out));
  expect_floats(out, data, 1);
  keel_tensor_release(out);
  assert_int_equal(keel_sequence_at(sequence, 2, &out), KD_OUT_OF_RANGE);
  keel_tensor_release(sequence);
}

TEST_THAT(a_numpy_file_comes_back_as_it_was) {
  const float data[] = {1, -2, 3, 4, 5, 6};
  char path[] = "/tmp/keel-values-XXXXXX";
  keel_tensor *in = NULL;
  make_file(path);
  keel_tensor *out = create_tensor(context, KD_F32, DIMS(2, 3), data);
  expect_ok(keel_value_save(out, path));
  expect_ok(keel_value_load(context, path, KEEL_FILE_TENSOR, &in));
  assert_int_equal(keel_tensor_rank(in), 2);
  expect_floats(in, data, 6);
  assert_int_equal(truncate(path, 140), 0);
  keel_tensor_release(in);
  expect_fails(keel_value_load(context, path, KEEL_FILE_TENSOR, &in),
               KD_DATA_LOSS, "truncated");
  unlink(path);
  keel_tensor_release(out);
}

TEST_THAT(memory_stays_under_its_limit) {
  const int64_t large = 1 << 22;
  keel_tensor *tensor = NULL;
  keel_context_params params = {.struct_size = sizeof params,
                                .flags = KEEL_ONLY_NAMED | KEEL_ALLOW_REFUSED,
                                .memory_limit = 1 << 20};
  keel_context *own = open_params(&params);
  expect_fails(keel_tensor_create(own, KD_F32, 1, &large, NULL, &tensor),
               KD_OUT_OF_MEMORY, "limit");
  keel_close(own);
}

/* A .npy file of one header's words and these bytes. */
static keel_tensor *load_npy(const char *descr, const char *shape,
                             const void *data, size_t size) {
  const char begin[] = "\x93NUMPY\x01\x00\x76"; /* and 0: its length, 118 */
  char path[] = "/tmp/keel-values-XXXXXX", header[119];
  keel_tensor *read = NULL;
  FILE *file = fdopen(mkstemp(path), "w");
  assert_non_null(file);
  snprintf(header, sizeof header,
           "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr,
           shape);
  fwrite(begin, 1, sizeof begin, file);
  fprintf(file, "%-117s\n", header);
  fwrite(data, 1, size, file);
  assert_int_equal(fclose(file), 0);
  expect_ok(keel_value_load(context, path, KEEL_FILE_TENSOR, &read));
  unlink(path);
  return read;
}

TEST_THAT(numpy_files_of_either_byte_order_are_read) {
  static const struct {
    const char *descr;
    const char *data;
    size_t size;
    const char *want;
  } cases[] = {
      {">f4", "\x3f\x80\0\0", 4, "\0\0\x80\x3f"},
      {"=f4", "\0\0\x80\x3f", 4, "\0\0\x80\x3f"},
      {">i2", "\1\2", 2, "\2\1"},
      {">u8", "\1\2\3\4\5\6\7\10", 8, "\10\7\6\5\4\3\2\1"},
      {">c8", "\1\2\3\4\5\6\7\10", 8, "\4\3\2\1\10\7\6\5"},
      {"|i1", "\7", 1, "\7"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    keel_tensor *read =
        load_npy(cases[i].descr, "1,", cases[i].data, cases[i].size);
    assert_int_equal(keel_tensor_size(read), cases[i].size);
    assert_memory_equal(keel_tensor_data(read), cases[i].want, cases[i].size);
    keel_tensor_release(read);
  }
}

RUN_TESTS(open_none, close_context)
