/* order_test.c - ops that order elements, where some are NaN: as NumPy has it, on each
 * device, and each place once.
 *
 * usage: families_order DEVICE */
#include <keel/keel.h>
#include <math.h>
#include <stdbool.h>
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

/* ---- long lines, which groups may share ------------------------------------------------ */

enum { LINES = 3, LONGEST = 1000 };

static float element(int64_t line, int64_t i) {
  return line == 1 && i % 97 == 60 ? NAN : (float)((i * 37 + line) % 11);
}

static int64_t best_of(int64_t line, int64_t n, bool largest, bool last) {
  int64_t best = 0;
  for (int64_t i = 1; i < n; i++) {
    float x = element(line, i), y = element(line, best);
    bool beats = (largest ? x > y : x < y) || (isnan(x) && !isnan(y));
    bool equal = x == y || (isnan(x) && isnan(y));
    if (beats || (last && equal)) best = i;
  }
  return best;
}

/* Lines of n elements, side by side (axis 0) or one behind the other; how many are wrong. */
static int long_lines(int64_t n, int64_t axis, bool largest, bool last) {
  static float data[LINES * LONGEST];
  const int64_t dims[] = {axis ? LINES : n, axis ? n : LINES};
  const keel_attr attrs[] = {KEEL_INT("axis", axis), KEEL_INT("keepdims", 0),
                             KEEL_INT("select_last_index", last)};
  const char *op = largest ? "ArgMax" : "ArgMin";
  keel_tensor *x = NULL, *y = NULL;
  int64_t got[LINES] = {-1, -1, -1};
  int wrong = 0;
  for (int64_t line = 0; line < LINES; line++)
    for (int64_t i = 0; i < n; i++)
      data[axis ? line * n + i : i * LINES + line] = element(line, i);
  keel_status status = keel_tensor_create(context, KD_F32, 2, dims, data, &x);
  if (status == KD_OK) status = keel_call(context, op, attrs, 3, &x, 1, &y, 1);
  if (status == KD_OK) keel_tensor_read(y, got, sizeof got);
  for (int64_t line = 0; line < LINES; line++) {
    if (got[line] == best_of(line, n, largest, last)) continue;
    fprintf(stderr, "%s of %lld, axis %lld, last %d: line %lld gives %lld\n",
            op, (long long)n, (long long)axis, last, (long long)line,
            (long long)got[line]);
    wrong++;
  }
  keel_tensor_release(x);
  keel_tensor_release(y);
  return wrong;
}

static int all_long_lines(void) {
  static const int64_t sizes[] = {63, 64, 70, 255, 256, 300, LONGEST};
  int wrong = 0;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    for (int how = 0; how < 8; how++)
      wrong += long_lines(sizes[i], how & 1, how & 2, how & 4);
  return wrong;
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
  if (all_long_lines()) failed = 1;
  keel_device_pop();
  keel_close(context);
  if (!failed) printf("NaN in order: as NumPy has it\n");
  return failed;
}
