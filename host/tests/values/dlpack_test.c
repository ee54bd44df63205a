/* dlpack_test.c - what comes from other libraries and goes to them: what is shared, what is
 * copied, and what is refused. */
#include "dlpack.h"
#include "toy/toy.h"

#include <pthread.h>
#include <unistd.h>

/* ---- what comes through --------------------------------------------------------------- */

static const struct {
  kd_dtype dtype;
  uint8_t code, bits;
} types[] = {
    {KD_I4, 0, 4},          {KD_I8, 0, 8},      {KD_I16, 0, 16},
    {KD_I32, 0, 32},        {KD_I64, 0, 64},    {KD_U4, 1, 4},
    {KD_U8, 1, 8},          {KD_U16, 1, 16},    {KD_U32, 1, 32},
    {KD_U64, 1, 64},        {KD_F16, 2, 16},    {KD_F32, 2, 32},
    {KD_F64, 2, 64},        {KD_BF16, 4, 16},   {KD_C64, 5, 64},
    {KD_C128, 5, 128},      {KD_BOOL, 6, 8},    {KD_F8E4M3FN, 10, 8},
    {KD_F8E4M3FNUZ, 11, 8}, {KD_F8E5M2, 12, 8}, {KD_F8E5M2FNUZ, 13, 8},
    {KD_F8E8M0, 14, 8},     {KD_F4E2M1, 17, 4}, {KD_I2, 0, 2},
    {KD_U2, 1, 2},
};

static void expect_shape(const DLTensor *out, int64_t a, int64_t b) {
  assert_int_equal(out->device.device_type, 1);
  assert_int_equal(out->device.device_id, 0);
  assert_int_equal(out->ndim, 2);
  assert_int_equal(out->dtype.lanes, 1);
  assert_int_equal(out->shape[0], a);
  assert_int_equal(out->shape[1], b);
  assert_int_equal(out->strides[0], b);
  assert_int_equal(out->strides[1], 1);
  assert_int_equal(out->byte_offset, 0);
}

TEST_THAT(every_type_goes_in_and_comes_out) {
  const int64_t dims[] = {4, 6};
  bool met[KD_DTYPE_COUNT] = {[KD_NONE] = true, [KD_STRING] = true};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    atomic_int deleted = 0;
    given *from = make(&deleted, 2, dims);
    from->versioned.dl_tensor.dtype.code = types[i].code;
    from->versioned.dl_tensor.dtype.bits = types[i].bits;
    const void *memory = from->memory;
    keel_tensor *tensor = take(from, 0);
    assert_int_equal(keel_tensor_dtype(tensor), types[i].dtype);
    assert_int_equal(keel_tensor_elements(tensor), 24);
    assert_int_equal(keel_tensor_size(tensor), 3 * types[i].bits);
    assert_ptr_equal(keel_tensor_data(tensor), memory);
    assert_null(keel_tensor_device(tensor));
    DLManagedTensorVersioned *to = lend(tensor, 0);
    assert_int_equal(to->version.major, 1);
    assert_int_equal(to->flags, READ_ONLY);
    assert_int_equal(to->dl_tensor.dtype.code, types[i].code);
    assert_int_equal(to->dl_tensor.dtype.bits, types[i].bits);
    assert_ptr_equal(to->dl_tensor.data, memory);
    expect_shape(&to->dl_tensor, 4, 6);
    keel_tensor_release(tensor);
    assert_int_equal(deleted, 0);
    to->deleter(to);
    assert_int_equal(deleted, 1);
    met[types[i].dtype] = true;
  }
  for (kd_dtype dtype = 0; dtype < KD_DTYPE_COUNT; dtype++)
    if (!met[dtype]) fail_msg("%s is not tried", keel_dtype_name(dtype));
}

TEST_THAT(scalars_and_empty_tensors_come_through) {
  const int64_t none[] = {3, 0};
  const float zero = 0;
  atomic_int deleted = 0;
  keel_tensor *scalar = take(make(&deleted, 0, NULL), 0);
  assert_int_equal(keel_tensor_rank(scalar), 0);
  expect_floats(scalar, &zero, 1);
  DLManagedTensorVersioned *to = lend(scalar, 0);
  assert_int_equal(to->dl_tensor.ndim, 0);
  to->deleter(to);
  keel_tensor_release(scalar);

  given *from = make(&deleted, 2, none);
  from->versioned.dl_tensor.data = NULL;
  keel_tensor *empty = take(from, 0);
  assert_int_equal(keel_tensor_elements(empty), 0);
  to = lend(empty, 0);
  assert_null(to->dl_tensor.data);
  assert_int_equal(to->flags, READ_ONLY);
  assert_int_equal(to->dl_tensor.shape[1], 0);
  to->deleter(to);
  keel_tensor_release(empty);
  assert_int_equal(deleted, 2);
}

TEST_THAT(an_offset_leads_to_the_first_element) {
  const float want[] = {16, -17, 18, -19};
  atomic_int deleted = 0;
  given *from = make_pairs(&deleted);
  const char *memory = from->memory;
  from->versioned.dl_tensor.byte_offset = 64;
  keel_tensor *tensor = take(from, 0);
  assert_ptr_equal(keel_tensor_data(tensor), memory + 64);
  expect_floats(tensor, want, 4);
  keel_tensor_release(tensor);
  assert_int_equal(deleted, 1);
}

TEST_THAT(tensors_without_a_version_go_both_ways) {
  const float want[] = {0, -1, 2, -3};
  atomic_int deleted = 0;
  given *from = make_pairs(&deleted);
  const void *memory = from->memory;
  keel_tensor *tensor = NULL;
  DLManagedTensor *to = NULL;
  assert_int_equal(
      keel_tensor_from_dlpack_legacy(context, &from->legacy, 0, &tensor),
      KD_OK);
  expect_floats(tensor, want, 4);
  assert_int_equal(keel_tensor_to_dlpack_legacy(tensor, 0, &to), KD_OK);
  assert_ptr_equal(to->dl_tensor.data, memory);
  expect_shape(&to->dl_tensor, 2, 2);
  keel_tensor_release(tensor);
  assert_int_equal(deleted, 0);
  to->deleter(to);
  assert_int_equal(deleted, 1);
}

/* ---- strides and alignment ------------------------------------------------------------------ */

static void expect_refused(given *from, uint32_t flags, keel_status status,
                           const char *why) {
  keel_tensor *tensor = (keel_tensor *)(void *)from;
  assert_int_equal(
      keel_tensor_from_dlpack(context, &from->versioned, flags, &tensor),
      status);
  assert_null(tensor);
  expect_message(why);
  assert_int_equal(*from->deleted, 0);
}

static void strided(const int64_t *dims, const int64_t *strides, int64_t first,
                    const float *want, size_t count) {
  atomic_int deleted = 0;
  given *from = make(&deleted, 3, dims);
  from->versioned.dl_tensor.strides = from->strides;
  from->versioned.dl_tensor.byte_offset = 4 * (uint64_t)first;
  memcpy(from->strides, strides, 3 * sizeof *strides);
  expect_refused(from, 0, KD_FAILED_PRECONDITION, "KEEL_DLPACK_MAY_COPY");
  keel_tensor *tensor = take(from, KEEL_DLPACK_MAY_COPY);
  assert_int_equal(deleted, 1);
  assert_memory_equal(keel_tensor_dims(tensor), dims, 3 * sizeof *dims);
  expect_floats(tensor, want, count);
  keel_tensor_release(tensor);
}

TEST_THAT(strided_elements_take_a_copy) {
  /* transposed */
  strided((const int64_t[]){1, 2, 3}, (const int64_t[]){6, 1, 2}, 0,
          (const float[]){0, 2, 4, -1, -3, -5}, 6);
  /* a part of each row */
  strided((const int64_t[]){2, 2, 2}, (const int64_t[]){8, 4, 1}, 2,
          (const float[]){2, -3, 6, -7, 10, -11, 14, -15}, 8);
  /* from the end */
  strided((const int64_t[]){1, 1, 4}, (const int64_t[]){0, 0, -1}, 3,
          (const float[]){-3, 2, -1, 0}, 4);
  /* one row for all */
  strided((const int64_t[]){3, 1, 2}, (const int64_t[]){0, 0, 1}, 0,
          (const float[]){0, -1, 0, -1, 0, -1}, 6);
}

TEST_THAT(strides_that_say_nothing_are_packed) {
  const int64_t dims[] = {1, 2, 1, 2};
  atomic_int deleted = 0;
  given *from = make(&deleted, 4, dims);
  const void *memory = from->memory;
  from->versioned.dl_tensor.strides = from->strides;
  memcpy(from->strides, (const int64_t[]){99, 2, -5, 1}, 4 * sizeof(int64_t));
  keel_tensor *tensor = take(from, 0);
  assert_ptr_equal(keel_tensor_data(tensor), memory);
  keel_tensor_release(tensor);
  assert_int_equal(deleted, 1);

  from = make(&deleted, DIMS(0, 2));
  from->versioned.dl_tensor.strides = from->strides;
  from->strides[0] = INT64_MAX;
  keel_tensor_release(take(from, 0));
  assert_int_equal(deleted, 2);
}

TEST_THAT(elements_off_their_alignment_take_a_copy) {
  atomic_int deleted = 0;
  float want[4];
  given *from = make_pairs(&deleted);
  from->versioned.dl_tensor.byte_offset = 2;
  memcpy(want, from->memory + 2, sizeof want);
  expect_refused(from, 0, KD_FAILED_PRECONDITION, "not aligned");
  keel_tensor *tensor = take(from, KEEL_DLPACK_MAY_COPY);
  assert_int_equal(deleted, 1);
  expect_floats(tensor, want, 4);
  keel_tensor_release(tensor);

  /* of two parts of 4 bytes */
  from = make_pairs(&deleted);
  const char *memory = from->memory;
  from->versioned.dl_tensor.dtype =
      (DLDataType){.code = 5, .bits = 64, .lanes = 1};
  from->versioned.dl_tensor.byte_offset = 4;
  tensor = take(from, 0);
  assert_ptr_equal(keel_tensor_data(tensor), memory + 4);
  keel_tensor_release(tensor);
  assert_int_equal(deleted, 2);
}

/* ---- copies ------------------------------------------------------------------------------------ */

TEST_THAT(a_copy_in_is_kept_apart) {
  const float want[] = {0, -1, 2, -3};
  atomic_int deleted = 0;
  given *from = make_pairs(&deleted);
  const void *memory = from->memory;
  keel_tensor *tensor = take(from, KEEL_DLPACK_COPY);
  assert_int_equal(deleted, 1);
  assert_ptr_not_equal(keel_tensor_data(tensor), memory);
  expect_floats(tensor, want, 4);
  keel_tensor_release(tensor);
}

TEST_THAT(a_copy_out_may_be_written) {
  const float data[] = {5, 6};
  keel_tensor *tensor = floats(context, 2, data);
  DLManagedTensorVersioned *shared = lend(tensor, KEEL_DLPACK_MAY_COPY);
  assert_int_equal(shared->flags, READ_ONLY);
  assert_ptr_equal(shared->dl_tensor.data, keel_tensor_data(tensor));
  DLManagedTensorVersioned *copy = lend(tensor, KEEL_DLPACK_COPY);
  assert_int_equal(copy->flags, COPIED);
  assert_memory_equal(copy->dl_tensor.data, data, sizeof data);
  memset(copy->dl_tensor.data, 0, sizeof data);
  expect_floats(tensor, data, 2);
  keel_tensor_release(tensor);
  copy->deleter(copy);
  shared->deleter(shared);
}

TEST_THAT(what_the_host_does_not_reach_takes_a_copy) {
  const float data[] = {-5, 6}, want[] = {0, 6};
  keel_context *before = context;
  context = open_with(CPU_PLUGIN, TOY("queue"), KEEL_NO_WORKERS);
  keel_tensor *x = floats(context, 2, data);
  keel_tensor *y = relu(keel_device_at(context, 1), x);
  DLManagedTensorVersioned *out = NULL;
  expect_fails(keel_tensor_to_dlpack(y, 0, &out), KD_FAILED_PRECONDITION,
               "queue:0");
  expect_message("keel_tensor_to");
  assert_null(out);
  out = lend(y, KEEL_DLPACK_MAY_COPY);
  assert_int_equal(out->flags, COPIED);
  assert_memory_equal(out->dl_tensor.data, want, sizeof want);
  out->deleter(out);
  RELEASE(x, y, context);
  context = before;
}

/* ---- what is refused ------------------------------------------------------------------------------ */

TEST_THAT(bad_tensors_stay_the_callers) {
  static int64_t ones[17] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
#define REFUSED(STATUS, WHY, ...)                         \
  do {                                                    \
    atomic_int deleted = 0;                               \
    given *g = make_pairs(&deleted);                      \
    DLTensor *t = &g->versioned.dl_tensor;                \
    __VA_ARGS__;                                          \
    (void)t;                                              \
    expect_refused(g, KEEL_DLPACK_MAY_COPY, STATUS, WHY); \
    g->versioned.deleter(&g->versioned);                  \
    assert_int_equal(deleted, 1);                         \
  } while (0)
  REFUSED(KD_INCOMPATIBLE, "DLPack 2.0", g->versioned.version.major = 2);
  REFUSED(KD_INCOMPATIBLE, "version 1", g->versioned.version.major = 0);
  REFUSED(KD_UNIMPLEMENTED, "flags 0x200", g->versioned.flags = 1u << 9);
  REFUSED(KD_UNIMPLEMENTED, "pack them", g->versioned.flags = 4);
  REFUSED(KD_INVALID_ARGUMENT, "-1 dimensions", t->ndim = -1);
  REFUSED(KD_INVALID_ARGUMENT, "no shape", t->shape = NULL);
  REFUSED(KD_INVALID_ARGUMENT, "dimension 1", g->shape[1] = -1);
  REFUSED(KD_INVALID_ARGUMENT, "without data", t->data = NULL);
  REFUSED(KD_INVALID_ARGUMENT, "byte offset", t->byte_offset = UINT64_MAX);
  REFUSED(KD_UNIMPLEMENTED, "CUDA memory", t->device.device_type = 2);
  REFUSED(KD_UNIMPLEMENTED, "kind -7", t->device.device_type = -7);
  REFUSED(KD_UNIMPLEMENTED, "kind 5", t->device.device_type = 5);
  REFUSED(KD_UNIMPLEMENTED, "code 200", t->dtype.code = 200);
  REFUSED(KD_UNIMPLEMENTED, "24 bits", t->dtype.bits = 24);
  REFUSED(KD_UNIMPLEMENTED, "4 elements", t->dtype.lanes = 4);
  REFUSED(KD_UNIMPLEMENTED, "0 elements", t->dtype.lanes = 0);
  REFUSED(KD_INVALID_ARGUMENT, "too large",
          g->shape[0] = g->shape[1] = INT64_C(1) << 40);
  REFUSED(KD_INVALID_ARGUMENT, "at most 16", t->ndim = 17; t->shape = ones);
  REFUSED(KD_INVALID_ARGUMENT, "stride 0", t->strides = g->strides;
          g->strides[0] = INT64_MAX / 2);
  REFUSED(KD_UNIMPLEMENTED, "i4", t->dtype.code = 0; t->dtype.bits = 4;
          t->strides = g->strides);
#undef REFUSED
}

TEST_THAT(a_copy_without_room_frees_nothing) {
  const keel_context_params params = {
      .struct_size = sizeof params,
      .flags = KEEL_ONLY_NAMED | KEEL_ALLOW_REFUSED,
      .memory_limit = 8};
  atomic_int deleted = 0;
  DLManagedTensorVersioned *out = NULL;
  keel_context *before = context;
  assert_int_equal(keel_open(&params, &context), KD_OK);
  given *from = make_pairs(&deleted);
  expect_refused(from, KEEL_DLPACK_COPY, KD_OUT_OF_MEMORY, "limit");
  keel_tensor *tensor = take(from, 0);
  assert_int_equal(keel_tensor_to_dlpack(tensor, KEEL_DLPACK_COPY, &out),
                   KD_OUT_OF_MEMORY);
  assert_null(out);
  keel_tensor_release(tensor);
  assert_int_equal(deleted, 1);
  keel_close(context);
  context = before;
}

TEST_THAT(what_others_hold_is_counted) {
  atomic_int deleted = 0;
  DLManagedTensor *legacy = NULL;
  keel_tensor *tensor = take(make_pairs(&deleted), 0);
  DLManagedTensorVersioned *managed = lend(tensor, 0);
  assert_int_equal(keel_tensor_to_dlpack_legacy(tensor, 0, &legacy), KD_OK);
  keel_tensor_release(tensor);
  assert_int_equal(keel_dlpack_count(context), 2);
  managed->deleter(managed);
  assert_int_equal(keel_dlpack_count(context), 1);
  legacy->deleter(legacy);
  assert_int_equal(keel_dlpack_count(context), 0);
  assert_int_equal(deleted, 1);
}

TEST_THAT(wrong_arguments_are_named) {
  const float one = 1;
  atomic_int deleted = 0;
  keel_tensor *tensor = NULL;
  DLManagedTensorVersioned *out = NULL;
  DLManagedTensor *legacy = NULL;
  assert_int_equal(keel_tensor_from_dlpack(context, NULL, 0, &tensor),
                   KD_INVALID_ARGUMENT);
  assert_int_equal(keel_tensor_from_dlpack_legacy(context, NULL, 0, &tensor),
                   KD_INVALID_ARGUMENT);
  given *from = make_pairs(&deleted);
  expect_refused(from, 4, KD_INVALID_ARGUMENT, "0x4");
  from->legacy.dl_tensor.dtype.lanes = 2;
  assert_int_equal(
      keel_tensor_from_dlpack_legacy(context, &from->legacy, 0, &tensor),
      KD_UNIMPLEMENTED);
  assert_int_equal(deleted, 0);
  wipe(from);
  tensor = floats(context, 1, &one);
  assert_int_equal(keel_tensor_to_dlpack(tensor, 8, &out), KD_INVALID_ARGUMENT);
  assert_int_equal(keel_tensor_to_dlpack_legacy(tensor, 8, &legacy),
                   KD_INVALID_ARGUMENT);
  keel_tensor_release(tensor);
  assert_null(out);
  assert_null(legacy);
}

TEST_THAT(what_is_no_tensor_is_not_lent) {
  DLManagedTensorVersioned *out = NULL;
  keel_tensor *sequence = NULL, *promise = NULL;
  assert_int_equal(keel_sequence_create(context, NULL, 0, &sequence), KD_OK);
  expect_fails(keel_tensor_to_dlpack(sequence, KEEL_DLPACK_COPY, &out),
               KD_INVALID_ARGUMENT, "a sequence");
  assert_int_equal(keel_tensor_promise(context, &promise), KD_OK);
  assert_int_equal(keel_tensor_fail(promise, KD_DATA_LOSS, "the sensor is off"),
                   KD_OK);
  expect_fails(keel_tensor_to_dlpack(promise, 0, &out), KD_DATA_LOSS,
               "the sensor is off");
  assert_null(out);
  RELEASE(sequence, promise);
}

static void *keep_promise(void *argument) {
  keel_tensor **pair = argument;
  usleep(2000);
  keel_tensor_fulfil(pair[0], pair[1]);
  return NULL;
}

TEST_THAT(a_pending_value_is_waited_for) {
  const float data[] = {7};
  pthread_t thread;
  keel_tensor *pair[2] = {NULL, floats(context, 1, data)};
  assert_int_equal(keel_tensor_promise(context, &pair[0]), KD_OK);
  assert_int_equal(pthread_create(&thread, NULL, keep_promise, pair), 0);
  DLManagedTensorVersioned *out = lend(pair[0], 0);
  pthread_join(thread, NULL);
  assert_ptr_equal(out->dl_tensor.data, keel_tensor_data(pair[1]));
  assert_memory_equal(out->dl_tensor.data, data, sizeof data);
  release_all(pair, 2);
  out->deleter(out);
}

/* ---- keel_tensor_wrap, which all of the above rests on --------------------------------------------- */

static void count_call(void *calls) {
  ++*(int *)calls;
}

TEST_THAT(wrapped_elements_off_their_alignment_are_copied) {
  const float want[] = {3, 4};
  _Alignas(64) char memory[64];
  int calls = 0;
  keel_tensor *tensor = NULL;
  memcpy(memory + 1, want, sizeof want);
  assert_int_equal(keel_tensor_wrap(context, KD_F32, DIMS(2), memory + 1,
                                    count_call, &calls, &tensor),
                   KD_OK);
  assert_int_equal(calls, 1);
  memset(memory, 0, sizeof memory);
  expect_floats(tensor, want, 2);
  keel_tensor_release(tensor);
  assert_int_equal(calls, 1);
}

RUN_TESTS(open_cpu, close_context)
