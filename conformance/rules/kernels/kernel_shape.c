/* kernel_shape.c - shapes that kernels must take: empty, of any rank, odd, large. */
#include "rules/kernels/kernel.h"
#include "rules/ops/cases.h"
#include "rules/rules.h"

/* False where the device has no kernel for it. */
static bool try_shape(const char *op, uint32_t rank, const int64_t *dims,
                      uint32_t inputs) {
  kc_random random = {17};
  kc_op_case one = kc_case_floats(op, inputs, rank, dims, &random);
  bool tried = kc_try_op(&one.op, &kc_plain);
  kc_case_free(&one);
  return tried;
}

/* Elementwise, reducing and moving ops that the device has, on one shape. */
static void shape_case(uint32_t rank, const int64_t *dims) {
  static const char *const ops[] = {"Relu", "Neg",       "Exp",     "Add",
                                    "Mul",  "ReduceSum", "Softmax", "Transpose",
                                    "Tanh", "ReduceMax", "Abs"};
  bool any = false;
  for (size_t i = 0; i < KC_COUNT_OF(ops); i++)
    any |= try_shape(ops[i], rank, dims, i == 3 || i == 4 ? 2 : 1);
  if (!any) kc_unclaimed("it has none of the ops to try");
  kc_check(true, " ");
}

void kernel_empty(void) {
  static const int64_t shapes[][3] = {
      {0, 0, 0}, {0, 3, 4}, {3, 0, 4}, {3, 4, 0}};
  kc_device();
  for (size_t i = 0; i < KC_COUNT_OF(shapes); i++)
    if (kc_case("dims=%lldx%lldx%lld", (long long)shapes[i][0],
                (long long)shapes[i][1], (long long)shapes[i][2])) {
      static const char *const ops[] = {"Relu", "Neg", "Exp",
                                        "Add",  "Mul", "Transpose",
                                        "Tanh", "Abs", "Cast"};
      bool any = false;
      for (size_t k = 0; k < KC_COUNT_OF(ops); k++)
        any |= try_shape(ops[k], 3, shapes[i], k == 3 || k == 4 ? 2 : 1);
      if (!any) kc_unclaimed("it has none of the ops to try");
      kc_check(true, " ");
    }
}

void kernel_ranks(void) {
  kc_device();
  for (uint32_t rank = 0; rank <= 8; rank++) {
    static const int64_t dims[8] = {2, 1, 3, 1, 2, 1, 2, 3};
    if (kc_case("rank=%u", rank)) shape_case(rank, dims);
  }
}

void kernel_odd_shapes(void) {
  static const int64_t sizes[] = {1,   2,   3,   7,   13,  15,   16,   17,  31,
                                  32,  33,  63,  64,  65,  97,   127,  128, 129,
                                  255, 256, 257, 511, 513, 1021, 1025, 4099};
  kc_device();
  for (size_t i = 0; i < KC_COUNT_OF(sizes); i++) {
    int64_t dims[2] = {sizes[i] > 200 ? 1 : 3, sizes[i]};
    if (kc_case("n=%lld", (long long)sizes[i])) shape_case(2, dims);
  }
}

void kernel_odd_products(void) {
  static const int64_t sizes[] = {1,  2,  3,  5,  7,  8,  9,
                                  15, 16, 17, 31, 33, 63, 65};
  kc_device();
  bool any = false;
  for (size_t i = 0; i < KC_COUNT_OF(sizes); i++) {
    int64_t m = sizes[i], n = sizes[(i * 5 + 3) % KC_COUNT_OF(sizes)];
    int64_t k = sizes[(i * 3 + 7) % KC_COUNT_OF(sizes)];
    int64_t a[2] = {m, k}, b[2] = {k, n};
    kc_random random = {i + 1};
    kc_op_case one = kc_case_floats("MatMul", 1, 2, a, &random);
    kc_case_add(&one, kc_floats(2, b, &random));
    if (kc_case("m=%lld,n=%lld,k=%lld", (long long)m, (long long)n,
                (long long)k))
      any |= kc_try_op(&one.op, &kc_plain);
    kc_case_free(&one);
  }
  if (!any && !kc.only && kc_case("none")) kc_unclaimed("it has no f32 MatMul");
}
