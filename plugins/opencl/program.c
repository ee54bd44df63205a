/* program.c - sources to programs: kept by the device, and by the host's store under a
 * digest of device, driver, options and source. */
#include <string.h>

#include "opencl.h"

static kd_status build(kd_device *d, cl_program program) {
  cl_int code =
      cl.BuildProgram(program, 1, &d->id, d->build_options, NULL, NULL);
  char log[3072] = "";
  if (code != CL_SUCCESS && code != CL_BUILD_PROGRAM_FAILURE)
    return ocl_failed(code, "clBuildProgram");
  cl.GetProgramBuildInfo(program, d->id, CL_PROGRAM_BUILD_LOG, sizeof log - 1,
                         log, NULL);
  if (code == CL_SUCCESS && strstr(log, "warning"))
    ocl_host->log(ocl_host, KD_LOG_WARNING, "a kernel: %s", log);
  if (code == CL_SUCCESS) return KD_OK;
  ocl_host->log(ocl_host, KD_LOG_ERROR, "a kernel does not compile: %s", log);
  return FAIL(KD_INTERNAL, "OpenCL: a kernel does not compile on %s: %.300s",
              d->name, log);
}

static cl_program from_store(kd_device *d, const fam_key *key) {
  void *blob = NULL;
  size_t size = 0;
  cl_int code = CL_SUCCESS, good = CL_SUCCESS;
  const unsigned char *binary = fam_store_get(ocl_host, key, &blob, &size);
  if (!binary) return NULL;
  cl_program program = cl.CreateProgramWithBinary(d->context, 1, &d->id, &size,
                                                  &binary, &good, &code);
  ocl_host->release(ocl_host, blob);
  if (program && (good != CL_SUCCESS ||
                  cl.BuildProgram(program, 1, &d->id, d->build_options, NULL,
                                  NULL) != CL_SUCCESS)) {
    cl.ReleaseProgram(program);
    program = NULL;
  }
  return program;
}

static void to_store(const fam_key *key, cl_program program) {
  size_t size = 0;
  if (cl.GetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof size, &size,
                        NULL) != CL_SUCCESS ||
      !size)
    return;
  unsigned char *blob = ocl_host->allocate(ocl_host, FAM_STORE_HEAD + size, 0);
  if (!blob) return;
  unsigned char *binary = blob + FAM_STORE_HEAD;
  if (cl.GetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof binary, &binary,
                        NULL) == CL_SUCCESS)
    fam_store_put(ocl_host, key, blob, size);
  ocl_host->release(ocl_host, blob);
}

static kd_status make(kd_device *d, const char *source, const fam_key *key,
                      void **out) {
  cl_int code = CL_SUCCESS;
  *out = from_store(d, key);
  if (*out) return KD_OK;
  ocl_host->zone_begin(ocl_host, "opencl compile");
  cl_program program =
      cl.CreateProgramWithSource(d->context, 1, &source, NULL, &code);
  kd_status status = program ? build(d, program)
                             : ocl_failed(code, "clCreateProgramWithSource");
  ocl_host->zone_end(ocl_host);
  if (status != KD_OK) {
    if (program) cl.ReleaseProgram(program);
    return status;
  }
  to_store(key, program);
  *out = program;
  return KD_OK;
}

static void drop(kd_device *d, void *program) {
  (void)d;
  cl.ReleaseProgram(program);
}

kd_status ocl_program_get(kd_device *d, const char *source, cl_program *out) {
  void *program = NULL;
  fam_key key = fam_key_begin();
  fam_key_add(&key, d->name, strlen(d->name) + 1);
  fam_key_add(&key, d->driver, strlen(d->driver) + 1);
  fam_key_add(&key, d->build_options, strlen(d->build_options) + 1);
  fam_key_add(&key, source, strlen(source));
  kd_status status = fam_programs_get(&d->programs, source, &key, &program);
  if (status == KD_OK) *out = program;
  return status;
}

void ocl_programs_begin(kd_device *d) {
  d->programs.host = ocl_host;
  d->programs.device = d;
  d->programs.make = make;
  d->programs.release = drop;
  fam_programs_begin(&d->programs);
}
