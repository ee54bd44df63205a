/* memory_test.c - values at addresses: found as they are, cut by others that are
 * put over them, assembled from parts; against an array of bytes that is
 * written and read the same way. */
#include "../bridge.h"
#include "tests.h"

#define SIZE 1024

/* ---- what the bridge has of ONNX Runtime and its own contexts ------------------- */

static ort_status *create_status(int code, const char *message) {
  (void)code;
  return (ort_status *)strdup(message);
}

static const ort_api api = {.CreateStatus = create_status};
const ort_api *ort = &api;

runtime *runtime_retain(runtime *one) {
  one->users++;
  return one;
}

void runtime_release(runtime *one) {
  if (one) one->users--;
}

typedef struct fixture {
  runtime held, other;
  ort_allocator *allocator;
  uint8_t *base; /* of SIZE addresses */
} fixture;

static int open_fixture(void **state) {
  fixture *f = calloc(1, sizeof *f);
  const keel_context_params params = {.struct_size = sizeof params,
                                      .flags = KEEL_ONLY_NAMED,
                                      .workers = KEEL_NO_WORKERS};
  *state = f;
  if (keel_open(&params, &f->held.context) != KD_OK ||
      keel_open(&params, &f->other.context) != KD_OK)
    return -1;
  if (memory_create(&f->held, NULL, NULL, &f->allocator)) return -1;
  f->base = f->allocator->Alloc(f->allocator, SIZE);
  return f->base ? 0 : -1;
}

static int close_fixture(void **state) {
  fixture *f = *state;
  f->allocator->Free(f->allocator, f->base);
  memory_destroy(f->allocator);
  /* nothing is left of any value */
  int left = (int)(f->held.users + f->other.users);
  keel_close(f->held.context);
  keel_close(f->other.context);
  free(f);
  return left;
}

static keel_tensor *tensor_of(keel_context *context, const void *data,
                              int64_t size) {
  keel_tensor *made = NULL;
  assert_int_equal(keel_tensor_create(context, KD_U8, 1, &size, data, &made),
                   KD_OK);
  return made;
}

static memory_want want_of(const fixture *f, const void *address,
                           const int64_t *size) {
  return (memory_want){.address = address,
                       .size = (uint64_t)*size,
                       .held = (runtime *)&f->held,
                       .dtype = KD_U8,
                       .rank = 1,
                       .dims = size};
}

/* ---- tests ---------------------------------------------------------------------- */

TEST_THAT(a_value_is_found_as_it_is) {
  fixture *f = *state;
  const int64_t size = 5;
  keel_tensor *value = tensor_of(f->held.context, "abcd", size), *got = NULL;
  assert_null(memory_put(f->base + 64, &f->held, value));
  memory_want want = want_of(f, f->base + 64, &size);
  assert_null(memory_get(&want, &got));
  assert_ptr_equal(got, value);
  keel_tensor_release(got);

  /* the same bytes of another type, and for another context, are others */
  const int64_t dims[2] = {1, 5};
  want.rank = 2;
  want.dims = dims;
  assert_null(memory_get(&want, &got));
  assert_ptr_not_equal(got, value);
  assert_int_equal(keel_tensor_rank(got), 2);
  keel_tensor_release(got);
  want = want_of(f, f->base + 64, &size);
  want.held = &f->other;
  assert_null(memory_get(&want, &got));
  assert_ptr_not_equal(got, value);
  assert_string_equal(keel_tensor_data(got), "abcd");
  keel_tensor_release(got);
  keel_tensor_release(value);
}

TEST_THAT(it_goes_when_the_memory_does) {
  fixture *f = *state;
  void *address = f->allocator->Alloc(f->allocator, 100);
  uint32_t users = f->other.users;
  keel_tensor *value = tensor_of(f->other.context, "xyz", 4);
  assert_null(memory_put(address, &f->other, value));
  keel_tensor_release(value);
  assert_int_equal(f->other.users, users + 1);
  assert_true(memory_at(address, NULL));
  f->allocator->Free(f->allocator, address);
  assert_int_equal(f->other.users, users);
  assert_false(memory_at(address, NULL));
}

TEST_THAT(addresses_are_those_that_were_given) {
  fixture *f = *state;
  memory_place place;
  int here = 0;
  assert_true(memory_at(f->base, &place));
  assert_ptr_equal(place.held, &f->held);
  assert_true(memory_at(f->base + SIZE - 1, NULL));
  assert_false(memory_at(&here, NULL));
  assert_false(memory_at(NULL, NULL));
  assert_null(f->allocator->Alloc(f->allocator, 0));
  assert_null(f->allocator->Alloc(f->allocator, SIZE_MAX / 2));
  f->allocator->Free(f->allocator, NULL);
}

TEST_THAT(what_does_not_fit_is_refused) {
  fixture *f = *state;
  keel_tensor *value = tensor_of(f->held.context, NULL, 16);
  ort_status *status = memory_put(f->base + SIZE - 15, &f->held, value);
  assert_non_null(status);
  assert_non_null(strstr((char *)status, "16 bytes"));
  free(status);
  assert_null(memory_put(f->base + SIZE - 16, &f->held, value));
  keel_tensor_release(value);
}

TEST_THAT(many_ranges_are_told_apart) {
  fixture *f = *state;
  enum { COUNT = 300 };
  uint8_t *at[COUNT];
  for (int i = 0; i < COUNT; i++) {
    at[i] = f->allocator->Alloc(f->allocator, 8);
    keel_tensor *value = tensor_of(f->held.context, &i, sizeof i);
    assert_null(memory_put(at[i], &f->held, value));
    keel_tensor_release(value);
  }
  for (int i = 0; i < COUNT; i += 2)
    f->allocator->Free(f->allocator, at[i]);
  for (int i = 0; i < COUNT; i++) {
    int got = -1;
    assert_int_equal(memory_at(at[i], NULL), i % 2);
    assert_null(memory_read(at[i], &got, sizeof got));
    assert_int_equal(got, i % 2 ? i : -1);
  }
  for (int i = 1; i < COUNT; i += 2)
    f->allocator->Free(f->allocator, at[i]);
}

/* Puts random bytes somewhere; a value that nobody has written is 0. */
static void put_some(fixture *f, uint8_t *model, uint32_t *seed) {
  uint8_t bytes[SIZE];
  size_t begin = (size_t)rand_r(seed) % SIZE;
  size_t size = 1 + (size_t)rand_r(seed) % (SIZE - begin);
  if (rand_r(seed) % 2) size = size % 40 + 1;
  if (size > SIZE - begin) size = SIZE - begin;
  for (size_t i = 0; i < size; i++)
    bytes[i] = (uint8_t)rand_r(seed);
  runtime *held = rand_r(seed) % 2 ? &f->held : &f->other;
  keel_tensor *value = tensor_of(held->context, bytes, (int64_t)size);
  assert_null(memory_put(f->base + begin, held, value));
  keel_tensor_release(value);
  memcpy(model + begin, bytes, size);
}

TEST_THAT(bytes_are_those_that_were_last_put) {
  fixture *f = *state;
  uint8_t model[SIZE] = {0}, got[SIZE] = {0};
  uint32_t seed = 24;
  keel_tensor *zero = tensor_of(f->held.context, NULL, SIZE);
  assert_null(memory_put(f->base, &f->held, zero));
  keel_tensor_release(zero);
  for (int i = 0; i < 2000; i++) {
    put_some(f, model, &seed);
    assert_null(memory_read(f->base, got, SIZE));
    assert_memory_equal(got, model, SIZE);
    size_t begin = (size_t)rand_r(&seed) % SIZE;
    int64_t size = 1 + rand_r(&seed) % (int64_t)(SIZE - begin);
    keel_tensor *part = NULL;
    memory_want want = want_of(f, f->base + begin, &size);
    assert_null(memory_get(&want, &part));
    assert_memory_equal(keel_tensor_data(part), model + begin, (size_t)size);
    keel_tensor_release(part);
  }
}

int main(void) {
  around_each(open_fixture, close_fixture);
  return tests_run(NULL, NULL);
}
