/* replay.c - a script of the OpenCL plugin (option "script") by OpenCL alone: all of
 * it once, then its last run again and again, from its first command until its results
 * are on the host.
 *
 * usage: opencl_replay SCRIPT [ROUNDS [FILE]]     FILE: gets what was copied to the host
 *                                               last */
#include "families/bench/replay.h"

#include "plain.h"

static cl_mem *buffers;
static cl_kernel *kernels; /* by command: arguments stay */
static char *result;       /* of the last copy to the host */
static uint64_t result_size;

static void prepare(const replay_script *s) {
  cl_program *programs = calloc(s->source_count + 1, sizeof *programs);
  cl_device_fp_config exact = 0;
  cl_int code = CL_SUCCESS;
  plain_open();
  buffers = calloc(s->buffer_count + 1, sizeof *buffers);
  kernels = calloc(s->command_count + 1, sizeof *kernels);
  if (!programs || !buffers || !kernels) replay_fail("no memory");
  cl.GetDeviceInfo(plain.device, CL_DEVICE_SINGLE_FP_CONFIG, sizeof exact,
                   &exact, NULL);
  const char *options = exact & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT
                            ? "-cl-std=CL1.2 -w"
                              " -cl-fp32-correctly-rounded-divide-sqrt"
                            : "-cl-std=CL1.2 -w";
  for (uint32_t i = 0; i < s->source_count; i++) {
    size_t size = (size_t)s->source_sizes[i];
    programs[i] = cl.CreateProgramWithSource(plain.context, 1, &s->sources[i],
                                             &size, &code);
    need_cl(code, "clCreateProgramWithSource");
    need_cl(cl.BuildProgram(programs[i], 1, &plain.device, options, NULL, NULL),
            "clBuildProgram");
  }
  for (uint32_t i = 0; i < s->buffer_count; i++)
    buffers[i] = plain_buffer((size_t)s->sizes[i]);
  for (uint32_t i = 0; i < s->command_count; i++) {
    const replay_command *c = &s->commands[i];
    if (c->kind == 'O' && c->size > result_size) result_size = c->size;
    if (c->kind != 'L') continue;
    kernels[i] = cl.CreateKernel(programs[c->source], "family", &code);
    need_cl(code, "clCreateKernel");
    for (uint32_t b = 0; b < c->buffer_count; b++) {
      const cl_mem none = NULL;
      cl_ulong offset = c->offsets[b];
      need_cl(
          cl.SetKernelArg(
              kernels[i], 2 * b, sizeof none,
              c->buffers[b] == UINT32_MAX ? &none : &buffers[c->buffers[b]]),
          "clSetKernelArg");
      need_cl(cl.SetKernelArg(kernels[i], 2 * b + 1, sizeof offset, &offset),
              "clSetKernelArg");
    }
    const uint32_t zero = 0;
    need_cl(
        cl.SetKernelArg(kernels[i], 2 * c->buffer_count,
                        c->param_bytes ? (size_t)c->param_bytes : sizeof zero,
                        c->param_bytes ? c->params : &zero),
        "clSetKernelArg");
  }
  free(programs);
  result = calloc(1, (size_t)result_size + 1);
  if (!result) replay_fail("no memory");
}

static void run(const replay_command *c, cl_kernel kernel) {
  size_t group = (size_t)c->group, items = (size_t)(c->groups * c->group);
  cl_mem first = c->kind == 'L' ? NULL : buffers[c->buffers[0]];
  size_t at = (size_t)c->offsets[0], size = (size_t)c->size;
  switch (c->kind) {
    case 'L':
      if (items)
        need_cl(cl.EnqueueNDRangeKernel(plain.queue, kernel, 1, NULL, &items,
                                        &group, 0, NULL, NULL),
                "clEnqueueNDRangeKernel");
      break;
    case 'I':
      need_cl(cl.EnqueueWriteBuffer(plain.queue, first, CL_FALSE, at, size,
                                    c->bytes, 0, NULL, NULL),
              "clEnqueueWriteBuffer");
      break;
    case 'O':
      result_size = c->size;
      need_cl(cl.EnqueueReadBuffer(plain.queue, first, CL_FALSE, at, size,
                                   result, 0, NULL, NULL),
              "clEnqueueReadBuffer");
      break;
    case 'C':
      need_cl(
          cl.EnqueueCopyBuffer(plain.queue, first, buffers[c->buffers[1]], at,
                               (size_t)c->offsets[1], size, 0, NULL, NULL),
          "clEnqueueCopyBuffer");
      break;
    default:
      need_cl(cl.EnqueueFillBuffer(plain.queue, first, c->bytes,
                                   (size_t)c->pattern_size, at, size, 0, NULL,
                                   NULL),
              "clEnqueueFillBuffer");
  }
}

static double run_from(const replay_script *s, uint32_t first) {
  double begin = now();
  for (uint32_t i = first; i < s->command_count; i++)
    run(&s->commands[i], kernels[i]);
  need_cl(cl.Finish(plain.queue), "clFinish");
  return now() - begin;
}

static const void *last_result(uint64_t *out_size) {
  *out_size = result_size;
  return result;
}

int main(int argc, char **argv) {
  static const replay_api api = {.name = "opencl_replay",
                                 .prepare = prepare,
                                 .run_from = run_from,
                                 .result = last_result};
  int status = replay_main(&api, argc, argv);
  free(buffers);
  free(kernels);
  free(result);
  return status;
}
