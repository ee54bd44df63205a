/* hostile.h - programs of unknown origin: their inputs, and a run of one. For the tests
 * that look for crashes; what a run gives does not matter here.
 *
 * A file of inputs has their count, then, for each, element type (0: absent), rank, both
 * 32 bits, dimensions and the size of the data, 64 bits each, and the data. */
#ifndef KEEL_HOSTILE_H
#define KEEL_HOSTILE_H

#include <kd/kd.h>

#include "testing.h"

#define HOSTILE_MOST 64 /* inputs, or outputs */

typedef struct hostile_inputs {
  keel_tensor *tensors[HOSTILE_MOST];
  uint32_t count;
} hostile_inputs;

static inline void hostile_inputs_drop(hostile_inputs *inputs) {
  for (uint32_t i = 0; i < HOSTILE_MOST; i++)
    keel_tensor_release(inputs->tensors[i]);
  *inputs = (hostile_inputs){0};
}

static inline void hostile_get(FILE *file, void *to, size_t size) {
  assert_int_equal(fread(to, 1, size, file), size);
}

/* Reads a file of inputs; false: there is none. */
static inline bool hostile_inputs_read(keel_context *context, const char *path,
                                       hostile_inputs *out) {
  FILE *file = fopen(path, "rb");
  *out = (hostile_inputs){0};
  if (!file) return false;
  hostile_get(file, &out->count, sizeof out->count);
  assert_in_range(out->count, 0, HOSTILE_MOST);
  for (uint32_t i = 0; i < out->count; i++) {
    uint32_t head[2];
    int64_t dims[KD_MAX_RANK];
    uint64_t size = 0;
    hostile_get(file, head, sizeof head);
    assert_in_range(head[1], 0, KD_MAX_RANK);
    if (head[1]) hostile_get(file, dims, head[1] * sizeof *dims);
    hostile_get(file, &size, sizeof size);
    void *data = calloc(size + 1, 1);
    assert_non_null(data);
    hostile_get(file, data, size);
    if (head[0])
      expect_ok(keel_tensor_create(context, (kd_dtype)head[0], head[1], dims,
                                   data, &out->tensors[i]));
    free(data);
  }
  fclose(file);
  return true;
}

/* Inputs as the program declares them, open dimensions 2; false: it does not say. */
static inline bool hostile_inputs_make(keel_context *context,
                                       const keel_program *program,
                                       hostile_inputs *out) {
  *out = (hostile_inputs){.count = keel_program_input_count(program)};
  bool whole = out->count <= HOSTILE_MOST;
  for (uint32_t i = 0; i < out->count && whole; i++) {
    keel_port port;
    int64_t dims[KD_MAX_RANK];
    keel_program_input(program, i, &port);
    whole = port.rank != KEEL_RANK_UNKNOWN && port.rank <= KD_MAX_RANK;
    for (uint32_t k = 0; whole && k < port.rank; k++)
      dims[k] = port.dims[k] < 0 ? 2 : port.dims[k];
    whole = whole && keel_tensor_create(context, port.dtype, port.rank, dims,
                                        NULL, &out->tensors[i]) == KD_OK;
  }
  if (!whole) hostile_inputs_drop(out);
  return whole;
}

/* Plans and runs it, `times` times, with a limit of time each; returns the first failure. */
static inline keel_status hostile_run(keel_program *program,
                                      const hostile_inputs *inputs,
                                      uint32_t flags, int times,
                                      uint64_t timeout) {
  keel_tensor *outputs[HOSTILE_MOST] = {0};
  uint32_t count = keel_program_output_count(program);
  keel_plan *plan = NULL;
  if (count > HOSTILE_MOST) return KD_OK;
  keel_status status =
      keel_plan_create(program, PLAN_PARAMS(.flags = flags), &plan);
  for (int i = 0; i < times && status == KD_OK; i++) {
    status = keel_plan_run_with(plan, RUN_PARAMS(.timeout = timeout),
                                inputs->tensors, inputs->count, outputs, count);
    for (uint32_t k = 0; k < count; k++) {
      keel_tensor_release(outputs[k]);
      outputs[k] = NULL;
    }
  }
  keel_plan_release(plan);
  return status;
}

#endif /* KEEL_HOSTILE_H */
