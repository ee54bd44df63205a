/* eager.c - single ops: by name, prepared, on a promised input, and an error.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <keel/keel.h>
#include <stdio.h>

static int failed(const char *what) {
  fprintf(stderr, "eager: %s: %s\n", what, keel_message());
  return 1;
}

static void print(const char *name, keel_tensor *tensor) {
  float data[4] = {0};
  if (keel_tensor_read(tensor, data, sizeof data) != KD_OK)
    printf("%s failed: %s\n", name, keel_message());
  else
    printf("%s = %g %g %g %g\n", name, (double)data[0], (double)data[1],
           (double)data[2], (double)data[3]);
}

int main(void) {
  keel_context *context = NULL;
  keel_tensor *x = NULL, *relu = NULL, *sum = NULL, *late = NULL, *bad = NULL;
  keel_tensor *promise = NULL, *odd = NULL;
  keel_op *add = NULL;
  const float data[] = {-1, 2, -3, 4};
  const int64_t four = 4, three = 3;
  int result = 1;

  if (keel_open(NULL, &context) != KD_OK) return failed("open");
  if (keel_tensor_create(context, KD_F32, 1, &four, data, &x) != KD_OK ||
      keel_tensor_create(context, KD_F32, 1, &three, data, &odd) != KD_OK) {
    failed("tensor");
    goto done;
  }

  /* by name */
  if (keel_call(context, "Relu", NULL, 0, &x, 1, &relu, 1) != KD_OK) {
    failed("Relu");
    goto done;
  }
  print("Relu(x)", relu);

  /* prepared once, called often */
  keel_tensor *two[] = {x, relu};
  if (keel_op_prepare(context, "Add", NULL, 0, NULL, &add) != KD_OK ||
      keel_op_call(add, two, 2, &sum, 1) != KD_OK) {
    failed("Add");
    goto done;
  }
  print("x + Relu(x)", sum);

  /* an input that comes later: the call returns at once */
  keel_tensor *pending[] = {x, NULL};
  if (keel_tensor_promise(context, &promise) != KD_OK) {
    failed("promise");
    goto done;
  }
  pending[1] = promise;
  if (keel_op_call(add, pending, 2, &late, 1) != KD_OK ||
      keel_tensor_fulfil(promise, sum) != KD_OK) {
    failed("deferred Add");
    goto done;
  }
  print("x + promised", late);

  /* shapes that do not fit are refused by name */
  keel_tensor *unequal[] = {x, odd};
  if (keel_op_call(add, unequal, 2, &bad, 1) == KD_OK) {
    fprintf(stderr, "eager: adding f32[4] and f32[3] should have failed\n");
    goto done;
  }
  printf("as it should: %s\n", keel_message());
  result = 0;

done:
  keel_tensor_release(bad);
  keel_tensor_release(late);
  keel_tensor_release(promise);
  keel_tensor_release(sum);
  keel_tensor_release(relu);
  keel_tensor_release(odd);
  keel_tensor_release(x);
  keel_op_release(add);
  keel_close(context);
  return result;
}
