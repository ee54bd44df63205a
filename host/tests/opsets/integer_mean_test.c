/* integer_mean_test.c - means of integers are exact, cut toward zero, also where the sum has more
 * than 64 bits; sums and products wrap. */
#include <kd/help.h>

#include "on_devices.h"

__extension__ typedef __int128 big;

enum { MOST = 1024 };

static const kd_dtype types[] = {KD_I64, KD_U64, KD_I32, KD_U32};

static bool is_signed(kd_dtype dtype) {
  return (KD_TYPES(dtype) & KD_TYPES_SIGNED) != 0;
}

static big element(kd_dtype dtype, const void *data, int64_t i) {
  return dtype == KD_I64   ? (big)((const int64_t *)data)[i]
         : dtype == KD_U64 ? (big)((const uint64_t *)data)[i]
         : dtype == KD_I32 ? (big)((const int32_t *)data)[i]
                           : (big)((const uint32_t *)data)[i];
}

static void put(kd_dtype dtype, void *data, int64_t i, big value) {
  uint64_t bits = (uint64_t)value;
  memcpy((char *)data + (size_t)i * kd_dtype_size(dtype), &bits,
         kd_dtype_size(dtype));
}

/* The type's ends and what is beside them, both signs, and all bits. */
static void fill(kd_dtype dtype, void *data, int64_t count, unsigned kind) {
  int bits = (int)kd_dtype_size(dtype) * 8;
  big top = ((big)1 << (is_signed(dtype) ? bits - 1 : bits)) - 1;
  big least = is_signed(dtype) ? -top - 1 : 0;
  uint64_t state = 1;
  for (int64_t i = 0; i < count; i++) {
    state =
        state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    put(dtype, data, i,
        kind == 0   ? top
        : kind == 1 ? least
        : kind == 2 ? top - i
        : kind == 3 ? least + i
        : kind == 4 ? (i % 2 ? top : least)
        : kind == 5 ? (i % 3 ? least + 1 : top)
        : kind == 6 ? (big)(i % 7) - (is_signed(dtype) ? 5 : 0)
                    : (big)(state ^ state >> 29));
  }
}
enum { KINDS = 8 };

/* Of [outer, n, inner] over the middle. */
static void check(const char *op, kd_dtype dtype, unsigned kind, int64_t outer,
                  int64_t n, int64_t inner) {
  static uint64_t x[MOST], want[MOST];
  const int64_t dims[] = {outer, n, inner}, one = 1, axis = 1;
  const keel_attr keepdims = KEEL_INT("keepdims", 0);
  bool product = !strcmp(op, "ReduceProd"), mean = !strcmp(op, "ReduceMean");
  fill(dtype, x, outer * n * inner, kind);
  for (int64_t i = 0; i < outer * inner; i++) {
    big sum = product;
    for (int64_t k = 0; k < n; k++) {
      big v = element(dtype, x, (i / inner * n + k) * inner + i % inner);
      sum = product ? (big)((uint64_t)sum * (uint64_t)v) : sum + v;
    }
    put(dtype, want, i, mean && n ? sum / n : sum);
  }
  call c = {.op = op,
            .attrs = &keepdims,
            .attr_count = 1,
            .in = {create_tensor(context, dtype, 3, dims, x),
                   create_tensor(context, KD_I64, 1, &one, &axis)},
            .in_count = 2,
            .out_count = 1};
  known result = {dtype, 2, {outer, inner}, want};
  call_everywhere(&c, check_known, &result);
  release_all(c.in, c.in_count);
}

static void check_shapes(const char *op, kd_dtype dtype, unsigned kind) {
  check(op, dtype, kind, 1, 2, 1);
  check(op, dtype, kind, 3, 5, 1);
  check(op, dtype, kind, 2, 3, 4);
  check(op, dtype, kind, 1, 301, 1); /* a group for each */
  check(op, dtype, kind, 2, 256, 1); /* by four */
  check(op, dtype, kind, 1, 257, 2);
}

TEST_THAT(a_mean_is_exact) {
  for (int t = 0; t < 4; t++)
    for (unsigned kind = 0; kind < KINDS; kind++)
      check_shapes("ReduceMean", types[t], kind);
}

TEST_THAT(a_mean_of_nothing_is_zero) {
  for (int t = 0; t < 4; t++)
    check("ReduceMean", types[t], 0, 2, 0, 2);
}

TEST_THAT(sums_and_products_wrap) {
  for (int t = 0; t < 4; t++)
    for (unsigned kind = 0; kind < KINDS; kind += 7) {
      check_shapes("ReduceSum", types[t], kind);
      check_shapes("ReduceProd", types[t], kind);
    }
}

RUN_TESTS(open_all_devices, close_context)
