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

/* Of code, which may be from anywhere. */
static kd_status opencl_program_load(kd_device *d, const void *code,
                                     size_t size, void **out) {
  cl_int error = CL_SUCCESS, good = CL_SUCCESS;
  const unsigned char *binary = code;
  cl_program program = cl.CreateProgramWithBinary(d->context, 1, &d->id, &size,
                                                  &binary, &good, &error);
  if (!program) return ocl_failed(error, "clCreateProgramWithBinary");
  if (good == CL_SUCCESS)
    good = cl.BuildProgram(program, 1, &d->id, d->build_options, NULL, NULL);
  if (good != CL_SUCCESS) {
    cl.ReleaseProgram(program);
    return ocl_failed(good, "a program of a binary");
  }
  *out = program;
  return KD_OK;
}

/* `head` free bytes, and the code behind; NULL: the driver gives none. */
static unsigned char *opencl_program_code_of(cl_program program, size_t head,
                                             size_t *out_size) {
  size_t size = 0;
  if (cl.GetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof size, &size,
                        NULL) != CL_SUCCESS ||
      !size)
    return NULL;
  unsigned char *blob = ocl_host->allocate(ocl_host, head + size, 0);
  if (!blob) return NULL;
  unsigned char *binary = blob + head;
  if (cl.GetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof binary, &binary,
                        NULL) != CL_SUCCESS) {
    ocl_host->release(ocl_host, blob);
    return NULL;
  }
  *out_size = size;
  return blob;
}

static kd_status code(kd_device *d, const fam_key *key, void *program,
                      void **out_code, size_t *out_size) {
  (void)key;
  *out_code = opencl_program_code_of(program, 0, out_size);
  return *out_code
             ? KD_OK
             : FAIL(KD_UNIMPLEMENTED, "%s gives no code of a program", d->name);
}

static kd_status opencl_program_compile(kd_device *d, const char *source,
                                        void **out, void **out_code,
                                        size_t *out_size) {
  cl_int code = CL_SUCCESS;
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
  *out_code = opencl_program_code_of(program, FAM_STORE_HEAD, out_size);
  *out = program;
  return KD_OK;
}

static void opencl_program_drop(kd_device *d, void *program) {
  (void)d;
  cl.ReleaseProgram(program);
}

static fam_key opencl_program_key_of(kd_device *d, const char *source) {
  fam_key key = fam_key_begin();
  fam_key_add(&key, d->name, strlen(d->name) + 1);
  fam_key_add(&key, d->driver, strlen(d->driver) + 1);
  fam_key_add(&key, d->build_options, strlen(d->build_options) + 1);
  fam_key_add(&key, source, strlen(source));
  return key;
}

kd_status ocl_program_get(kd_device *d, const char *source, cl_program *out) {
  void *program = NULL;
  kd_status status = fam_programs_get(&d->programs, source, &program);
  if (status == KD_OK) *out = program;
  return status;
}

const fam_compiler ocl_compiler = {
    .key = opencl_program_key_of,
    .compile = opencl_program_compile,
    .load = opencl_program_load,
    .code = code,
    .release = opencl_program_drop,
};
