/* ready.c - compiling and launching a plan's passes. */
#include "families/ready.h"

#include <string.h>

void fam_plan_begin(fam_plan *plan, const fam_driver *driver) {
  plan->host = driver->host;
  plan->float64 = driver->dialect.float64;
  plan->math64 = driver->dialect.math64;
  plan->int64 = driver->dialect.int64;
  plan->vec4 = driver->dialect.vec4;
  plan->crowds = driver->dialect.crowds;
  plan->shared = driver->shared;
  plan->wide = driver->wide;
  plan->lanes = driver->lanes;
}

void fam_ready_free(const fam_driver *driver, kd_device *device,
                    fam_ready *ready) {
  for (uint32_t i = 0; ready->programs && i < ready->plan.count; i++)
    if (ready->programs[i]) driver->release(device, ready->programs[i]);
  if (ready->programs) driver->host->release(driver->host, ready->programs);
  ready->programs = NULL;
  fam_free(&ready->plan);
}

kd_status fam_ready_compile(const fam_driver *driver, kd_device *device,
                            fam_ready *ready) {
  size_t size = (ready->plan.count + 1) * sizeof *ready->programs;
  ready->programs = driver->host->allocate(driver->host, size, 0);
  if (!ready->programs)
    return driver->host->fail(KD_OUT_OF_MEMORY, "no memory for kernels");
  memset(ready->programs, 0, size);
  for (uint32_t i = 0; i < ready->plan.count; i++) {
    if (!ready->plan.passes[i].groups) continue;
    kd_status status =
        driver->compile(device, &ready->plan.passes[i], &ready->programs[i]);
    if (status != KD_OK) return status;
  }
  return KD_OK;
}

static kd_status run_pass(const fam_driver *driver, kd_device *device,
                          kd_stream *stream, const fam_pass *pass,
                          void *program, const kd_launch *launch) {
  fam_command command; /* not zeroed: a launch reads no other field */
  command.kind = FAM_LAUNCH;
  command.program = program;
  command.size = 0;
  command.buffer_count = pass->buffer_count;
  for (uint32_t i = 0; i < pass->buffer_count; i++) {
    const fam_buffer *buffer = &pass->buffers[i];
    const kd_tensor *tensor = buffer->place == FAM_INPUT
                                  ? &launch->inputs[buffer->index]
                                  : &launch->outputs[buffer->index];
    command.buffers[i] = tensor->buffer;
    command.offsets[i] = tensor->offset;
  }
  if (driver->script) fam_script_add(driver->script, driver, &command, pass);
  return fam_run(driver, device, stream, &command, launch->correlation);
}

kd_status fam_ready_run(const fam_driver *driver, kd_device *device,
                        kd_stream *stream, const fam_ready *ready,
                        const kd_launch *launch) {
  kd_status status = KD_OK;
  if (driver->range)
    driver->range(launch->node ? driver->host->node->op(launch->node)
                               : "region");
  for (uint32_t i = 0; status == KD_OK && i < ready->plan.count; i++)
    if (ready->programs[i])
      status = run_pass(driver, device, stream, &ready->plan.passes[i],
                        ready->programs[i], launch);
  if (driver->range) driver->range(NULL);
  return status;
}

bool fam_has_type(const fam_driver *driver, kd_dtype dtype) {
  if (dtype == KD_F64) return driver->dialect.float64;
  if (dtype == KD_I64 || dtype == KD_U64 || dtype == KD_C64)
    return driver->dialect.int64;
  return dtype <= KD_I2;
}

kd_status fam_has_types(const fam_driver *driver, const fam_op *op) {
  for (uint32_t i = 0; i < op->in_count + op->out_count; i++) {
    kd_dtype dtype =
        i < op->in_count ? op->in[i].dtype : op->out[i - op->in_count].dtype;
    if (!fam_has_type(driver, dtype))
      return driver->host->fail(KD_UNIMPLEMENTED, "%s has no %s", driver->name,
                                kd_dtype_name(dtype));
  }
  return KD_OK;
}
