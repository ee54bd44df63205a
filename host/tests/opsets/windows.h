/* windows.h - convolutions of many shapes beside sums in double: what is wanted, in programs,
 * where tensors may lie in blocks, and in single calls. */
#ifndef KEEL_TESTS_WINDOWS_H
#define KEEL_TESTS_WINDOWS_H

#include "testing.h"

enum { WINDOW_DIMS = 3 };

typedef enum follow { NOTHING, RELU, SUM, SILU } follow;

typedef struct shape {
  uint32_t space;
  int64_t images, groups, ins, outs; /* ins, outs: of a group */
  int64_t in[WINDOW_DIMS], kernel[WINDOW_DIMS], stride[WINDOW_DIMS],
      dilation[WINDOW_DIMS];
  int64_t pads[2 * WINDOW_DIMS];
  follow last;
} shape;

/* Element i of an input: x is `salt` 1, weights 2, the bias 3, what is added 4. */
typedef float filler(int64_t i, int salt);

typedef struct trial {
  keel_context *context;
  const shape *shapes;
  size_t count;
  filler *fill;
  /* Differences that pass: this much of 1 and the value; or so many times what the suite's
   * bound is made of, the unit of f32 times sqrt(k) times the norm of the terms and the sum.
   * None: equal. */
  double relative, units;
} trial;

void windows_in_programs(const trial *t);
void windows_in_calls(const trial *t);

/* What a program makes of one shape: elements, at most `count`. */
size_t windows_output(const trial *t, const shape *s, float *out, size_t count);

/* The CPU with an option (NULL: none; also where the processor has not what it wants). */
keel_context *windows_open(const char *option, int32_t workers);

/* Setups, and what ends them: *state is a context with the processor's best instructions and
 * one thread, or four; with those of AVX2 or of x86-64 itself, and three. */
int windows_one(void **state);
int windows_four(void **state);
int windows_avx2(void **state);
int windows_base(void **state);
int windows_close(void **state);

#define WINDOWS_TEST(test, setup) \
  cmocka_unit_test_setup_teardown(test, windows_##setup, windows_close)

/* Fillers: integers from -4 to 4; numbers from -1 to 1, all bits in use. */
float windows_integer(int64_t i, int salt);
float windows_number(int64_t i, int salt);

#endif /* KEEL_TESTS_WINDOWS_H */
