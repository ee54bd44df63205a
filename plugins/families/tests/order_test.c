/* order_test.c - ops that order elements, where some are NaN: as NumPy has it, on each
 * device, and each place once.
 *
 * usage: families_order DEVICE */
#include <keel/keel.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static keel_context *context;

/* The places that `op` gives of {NaN, 1, NaN, 2, -3}; attribute NULL: none. */
static keel_status places(const char *op, const char *attribute, int64_t value,
                          uint32_t count, int64_t *out) {
  const int64_t five = 5, one = 1;
  const float data[] = {NAN, 1, NAN, 2, -3};
  const keel_attr attr = KEEL_INT(attribute, value);
  keel_tensor *in[2] = {NULL}, *got[2] = {NULL};
  uint32_t outputs = count > 1 ? 2 : 1; /* TopK: values, places */
  keel_status status =
      keel_tensor_create(context, KD_F32, 1, &five, data, &in[0]);
  if (status == KD_OK)
    status = keel_tensor_create(context, KD_I64, 1, &one, &five, &in[1]);
  if (status == KD_OK)
    status = keel_call(context, op, &attr, attribute ? 1 : 0, in, outputs, got,
                       outputs);
  if (status == KD_OK)
    status = keel_tensor_read(got[outputs - 1], out, count * sizeof *out);
  for (int i = 0; i < 2; i++) {
    keel_tensor_release(in[i]);
    keel_tensor_release(got[i]);
  }
  return status;
}

int main(int argc, char **argv) {
  static const struct {
    const char *op, *attribute;
    int64_t value;
    uint32_t count;
    int64_t want[5];
  } rows[] = {{"ArgMax", NULL, 0, 1, {0}},
              {"ArgMin", NULL, 0, 1, {0}},
              {"ArgMax", "select_last_index", 1, 1, {2}},
              {"ArgMin", "select_last_index", 1, 1, {2}},
              {"TopK", "largest", 1, 5, {0, 2, 3, 1, 4}},
              {"TopK", "largest", 0, 5, {4, 1, 3, 0, 2}}};
  keel_device *device = NULL;
  int failed = 0;
  if (argc != 2 || keel_open(NULL, &context) != KD_OK ||
      keel_device_find(context, argv[1], &device) != KD_OK ||
      keel_device_push(device) != KD_OK) {
    fprintf(stderr, "usage: families_order DEVICE: %s\n", keel_message());
    return 2;
  }
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    int64_t got[5] = {-1, -1, -1, -1, -1};
    if (places(rows[i].op, rows[i].attribute, rows[i].value, rows[i].count,
               got) == KD_OK &&
        !memcmp(got, rows[i].want, rows[i].count * sizeof *got))
      continue;
    fprintf(stderr, "%s (row %d) on %s: %lld %lld %lld %lld %lld %s\n",
            rows[i].op, (int)i, argv[1], (long long)got[0], (long long)got[1],
            (long long)got[2], (long long)got[3], (long long)got[4],
            keel_message());
    failed = 1;
  }
  keel_device_pop();
  keel_close(context);
  if (!failed) printf("NaN in order: as NumPy has it\n");
  return failed;
}
