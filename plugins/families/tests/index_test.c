/* index_test.c - constant indices on a device: good ones give what they name, one that is
 * out of range is an error that names it.
 *
 * usage: families_index DEVICE */
#include <keel/keel.h>
#include <stdio.h>
#include <string.h>

static keel_context *context;

static keel_value constant(keel_builder *builder, kd_dtype dtype, uint32_t rank,
                           const int64_t *dims, const void *data) {
  keel_tensor *tensor = NULL;
  keel_tensor_create(context, dtype, rank, dims, data, &tensor);
  keel_value value = keel_builder_constant(builder, tensor);
  keel_tensor_release(tensor);
  return value;
}

/* op of x = {1, 2, 3, 4}, indices {0, -4, last}, and, for a scatter, updates. */
static keel_status run(const char *op, int64_t last, keel_device *device,
                       float *out) {
  const int64_t four = 4, three = 3, pairs[2] = {3, 1};
  const int64_t indices[3] = {0, -4, last};
  const float updates[3] = {5, 6, 7}, data[4] = {1, 2, 3, 4};
  const int nd = strstr(op, "ND") != NULL, scatter = op[0] == 'S';
  keel_builder *builder = NULL;
  keel_program *program = NULL;
  keel_plan *plan = NULL;
  keel_tensor *x = NULL, *y = NULL;
  const keel_plan_params params = {.struct_size = sizeof params,
                                   .device = device};
  keel_builder_create(context, op, &builder);
  const keel_value in[3] = {
      keel_builder_input(builder, "x", KD_F32, 1, &four),
      constant(builder, KD_I64, nd ? 2 : 1, nd ? pairs : &three, indices),
      constant(builder, KD_F32, 1, &three, updates)};
  keel_builder_output(
      builder, "y", keel_builder_op(builder, op, NULL, 0, in, scatter ? 3 : 2));
  keel_status status = keel_builder_finish(builder, &program);
  if (status == KD_OK) status = keel_plan_create(program, &params, &plan);
  if (status == KD_OK)
    status = keel_tensor_create(context, KD_F32, 1, &four, data, &x);
  if (status == KD_OK) status = keel_plan_run(plan, &x, 1, &y, 1);
  if (status == KD_OK)
    status = keel_tensor_read(y, out, (scatter ? 4 : 3) * sizeof *out);
  keel_tensor_release(x);
  keel_tensor_release(y);
  keel_plan_release(plan);
  keel_program_release(program);
  keel_builder_destroy(builder);
  return status;
}

int main(int argc, char **argv) {
  static const struct {
    const char *op;
    float want[4];
  } rows[] = {{"Gather", {1, 1, 3, 0}},
              {"GatherElements", {1, 1, 3, 0}},
              {"GatherND", {1, 1, 3, 0}},
              {"ScatterElements", {6, 2, 7, 4}},
              {"ScatterND", {6, 2, 7, 4}}};
  keel_device *device = NULL;
  int failed = 0;
  if (argc != 2 || keel_open(NULL, &context) != KD_OK ||
      keel_device_find(context, argv[1], &device) != KD_OK) {
    fprintf(stderr, "usage: families_index DEVICE: %s\n", keel_message());
    return 2;
  }
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    float got[4] = {0};
    if (run(rows[i].op, 2, device, got) != KD_OK ||
        memcmp(got, rows[i].want, sizeof got) != 0) {
      fprintf(stderr, "%s: %g %g %g %g %s\n", rows[i].op, (double)got[0],
              (double)got[1], (double)got[2], (double)got[3], keel_message());
      failed = 1;
    }
    for (int64_t bad = -5; bad < 5; bad += 9)
      if (run(rows[i].op, bad, device, got) == KD_OK ||
          !strstr(keel_message(), bad < 0 ? "-5" : "4")) {
        fprintf(stderr, "%s: index %lld is no error: %s\n", rows[i].op,
                (long long)bad, keel_message());
        failed = 1;
      }
  }
  keel_close(context);
  if (!failed) printf("constant indices: right, and refused\n");
  return failed;
}
