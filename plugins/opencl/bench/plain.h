/* plain.h - OpenCL without Keel, for the benchmarks: the first device, and a queue. */
#ifndef KEEL_OPENCL_PLAIN_H
#define KEEL_OPENCL_PLAIN_H

#include <stdio.h>
#include <stdlib.h>

#include "api.h"

static struct {
  cl_device_id device;
  cl_context context;
  cl_command_queue queue;
} plain;

/* Ends the program where a call failed. */
static inline void need_cl(cl_int code, const char *what) {
  if (code == CL_SUCCESS) return;
  fprintf(stderr, "%s: error %d\n", what, code);
  exit(1);
}

static inline void plain_open(void) {
  cl_platform_id platform = NULL;
  cl_int code = CL_SUCCESS;
  const char *why = cl_api_open();
  if (why) {
    fprintf(stderr, "%s\n", why);
    exit(1);
  }
  need_cl(cl.GetPlatformIDs(1, &platform, NULL), "clGetPlatformIDs");
  need_cl(cl.GetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &plain.device, NULL),
          "clGetDeviceIDs");
  plain.context = cl.CreateContext(NULL, 1, &plain.device, NULL, NULL, &code);
  need_cl(code, "clCreateContext");
  plain.queue = cl.CreateCommandQueue(plain.context, plain.device, 0, &code);
  need_cl(code, "clCreateCommandQueue");
}

static inline cl_mem plain_buffer(size_t size) {
  cl_int code = CL_SUCCESS;
  cl_mem memory =
      cl.CreateBuffer(plain.context, CL_MEM_READ_WRITE, size, NULL, &code);
  need_cl(code, "clCreateBuffer");
  return memory;
}

#endif /* KEEL_OPENCL_PLAIN_H */
