/* run_model.c - the shortest way to run a model: zeros in, types out.
 *
 *   run_model MODEL.onnx [DEVICE]
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <keel/keel.h>
#include <stdio.h>
#include <stdlib.h>

static int failed(void) {
  fprintf(stderr, "run_model: %s\n", keel_message());
  return 1;
}

/* A tensor of zeros for an input; open dimensions become 1. */
static keel_status zeros(keel_context *context, const keel_port *port,
                         keel_tensor **out_tensor) {
  int64_t dims[16];
  for (uint32_t i = 0; i < port->rank && i < 16; i++)
    dims[i] = port->dims[i] < 0 ? 1 : port->dims[i];
  return keel_tensor_create(context, port->dtype, port->rank, dims, NULL,
                            out_tensor);
}

static int run(keel_context *context, keel_plan *plan) {
  uint32_t n = keel_plan_input_count(plan);
  uint32_t m = keel_plan_output_count(plan);
  keel_tensor **values = calloc(n + m + 1, sizeof *values);
  keel_status status = values ? KD_OK : KD_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < n && status == KD_OK; i++) {
    keel_port port;
    keel_plan_input(plan, i, &port);
    status = zeros(context, &port, &values[i]);
  }
  if (status == KD_OK) status = keel_plan_run(plan, values, n, values + n, m);
  for (uint32_t i = 0; i < m && status == KD_OK; i++) {
    char type[200];
    keel_port port;
    keel_plan_output(plan, i, &port);
    printf("%s: %s\n", port.name,
           keel_tensor_text(values[n + i], type, sizeof type));
  }
  for (uint32_t i = 0; values && i < n + m; i++)
    keel_tensor_release(values[i]);
  free(values);
  return status == KD_OK ? 0 : failed();
}

int main(int argc, char **argv) {
  keel_context *context = NULL;
  keel_program *program = NULL;
  keel_plan *plan = NULL;
  keel_plan_params params = {.struct_size = sizeof params};
  if (argc < 2 || argc > 3) {
    fprintf(stderr, "usage: run_model MODEL.onnx [DEVICE]\n");
    return 2;
  }
  int result = 1;
  if (keel_open(NULL, &context) != KD_OK ||
      keel_device_find(context, argc > 2 ? argv[2] : NULL, &params.device) !=
          KD_OK ||
      keel_program_load(context, argv[1], &program) != KD_OK ||
      keel_plan_create(program, &params, &plan) != KD_OK)
    failed();
  keel_program_release(program); /* the plan has what it needs */
  if (plan) result = run(context, plan);
  keel_plan_release(plan);
  keel_close(context);
  return result;
}
