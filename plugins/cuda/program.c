/* program.c - sources to functions: compiled by NVRTC for the device's architecture, kept
 * by the device, and by the host's store under a digest of architecture, driver, options
 * and source. */
#include <stdio.h>
#include <string.h>

#include "cudev.h"

/* No contraction of products and sums: results are those of every other device. Division,
 * roots and subnormals are exact by default. */
static const char *const fixed_options[] = {"--fmad=false", "-default-device",
                                            "-w"};
enum { FIXED = sizeof fixed_options / sizeof *fixed_options };

/* The architecture itself, or the newest that NVRTC knows before it; 0: none. */
static int choose_architecture(int wanted) {
  int archs[128], count = 0, best = 0;
  if (rtc.GetNumSupportedArchs(&count) != 0 || count < 1 || count > 128 ||
      rtc.GetSupportedArchs(archs) != 0)
    return 0;
  for (int i = 0; i < count; i++)
    if (archs[i] <= wanted && archs[i] > best) best = archs[i];
  return best;
}

static kd_status said(const kd_host *host, rtc_program program, int code) {
  char log[2048] = "";
  size_t size = 0;
  if (rtc.GetProgramLogSize(program, &size) == 0 && size < sizeof log)
    rtc.GetProgramLog(program, log);
  host->log(host, KD_LOG_ERROR, "a kernel does not compile: %s", log);
  return host->fail(KD_INTERNAL, "CUDA: a kernel does not compile (%d): %.300s",
                    code, log);
}

static kd_status get_code(const kd_host *host, rtc_program program, bool exact,
                          size_t head, char **out_code, size_t *out_size) {
  size_t size = 0;
  int code =
      exact ? rtc.GetCUBINSize(program, &size) : rtc.GetPTXSize(program, &size);
  char *text = code == 0 && size ? host->allocate(host, head + size, 0) : NULL;
  if (!text)
    return host->fail(KD_OUT_OF_MEMORY, "no memory for %zu bytes of a kernel",
                      size);
  code = exact ? rtc.GetCUBIN(program, text + head)
               : rtc.GetPTX(program, text + head);
  if (code != 0) {
    host->release(host, text);
    return host->fail(KD_INTERNAL, "NVRTC gives no code (%d)", code);
  }
  *out_code = text;
  *out_size = size;
  return KD_OK;
}

kd_status cuda_compile(const kd_host *host, int architecture,
                       const char *source, size_t head, char **out_code,
                       size_t *out_size) {
  char target[48];
  const char *options[FIXED + 1] = {target};
  rtc_program program = NULL;
  if (!rtc.version)
    return host->fail(KD_UNAVAILABLE,
                      "there is no NVRTC to compile a kernel with");
  int known = choose_architecture(architecture);
  if (!known)
    return host->fail(
        KD_UNIMPLEMENTED, "NVRTC %d.%d compiles for no GPU as old as sm_%d",
        rtc.version / 1000, rtc.version % 1000 / 10, architecture);
  bool exact = known == architecture;
  snprintf(target, sizeof target, "--gpu-architecture=%s_%d",
           exact ? "sm" : "compute", known);
  for (int i = 0; i < FIXED; i++)
    options[i + 1] = fixed_options[i];
  if (rtc.CreateProgram(&program, source, "family.cu", 0, NULL, NULL) != 0)
    return host->fail(KD_OUT_OF_MEMORY, "no memory for a kernel's source");
  int code = rtc.CompileProgram(program, FIXED + 1, options);
  kd_status status =
      code == 0 ? get_code(host, program, exact, head, out_code, out_size)
                : said(host, program, code);
  rtc.DestroyProgram(&program);
  return status;
}

/* ---- a device's ------------------------------------------------------------------------ */

/* What is on either side of a module: it goes with its function. */
typedef struct loaded {
  cu_module module;
  cu_function function;
  size_t size; /* of the code, of which the driver gives nothing back */
  char code[];
} loaded;

static kd_status cuda_program_load(kd_device *d, const void *code, size_t size,
                                   loaded **out) {
  loaded *l = cuda_host->allocate(cuda_host, sizeof *l + size, 0);
  if (!l) return FAIL(KD_OUT_OF_MEMORY, "no memory for a kernel");
  memcpy(l->code, code, size);
  l->size = size;
  const char *call = "cuModuleLoadData";
  cu_result result = cu.ModuleLoadData(&l->module, code);
  if (result == CU_OK) {
    call = "cuModuleGetFunction";
    result = cu.ModuleGetFunction(&l->function, l->module, "family");
    if (result != CU_OK) cu.ModuleUnload(l->module);
  }
  if (result != CU_OK) {
    cuda_host->release(cuda_host, l);
    return cuda_failed(d, result, call);
  }
  *out = l;
  return KD_OK;
}

static kd_status cuda_program_compile(kd_device *d, const char *source,
                                      void **out, void **out_code,
                                      size_t *out_size) {
  char *code = NULL;
  loaded *l = NULL;
  cuda_host->zone_begin(cuda_host, "cuda compile");
  kd_status status = cuda_compile(cuda_host, d->architecture, source,
                                  FAM_STORE_HEAD, &code, out_size);
  cuda_host->zone_end(cuda_host);
  if (status == KD_OK)
    status = cuda_program_load(d, code + FAM_STORE_HEAD, *out_size, &l);
  *out_code = code;
  *out = l;
  return status;
}

static void cuda_program_drop(kd_device *d, void *program) {
  loaded *l = program;
  (void)d;
  cu.ModuleUnload(l->module);
  cuda_host->release(cuda_host, l);
}

static fam_key cuda_program_key_of(kd_device *d, const char *source) {
  /* not NVRTC's version: what it made runs where it is not installed, too */
  const int versions[] = {d->architecture, cu.version};
  fam_key key = fam_key_begin();
  fam_key_add(&key, versions, sizeof versions);
  for (int i = 0; i < FIXED; i++)
    fam_key_add(&key, fixed_options[i], strlen(fixed_options[i]) + 1);
  fam_key_add(&key, source, strlen(source));
  return key;
}

static kd_status cuda_program_code_of(kd_device *d, const fam_key *key,
                                      void *program, void **out_code,
                                      size_t *out_size) {
  const loaded *l = program;
  (void)d;
  (void)key;
  *out_code = cuda_host->allocate(cuda_host, l->size, 0);
  if (!*out_code) return FAIL(KD_OUT_OF_MEMORY, "no memory for code");
  memcpy(*out_code, l->code, l->size);
  *out_size = l->size;
  return KD_OK;
}

static kd_status adopt(kd_device *d, const void *code, size_t size,
                       void **out_program) {
  loaded *l = NULL;
  CU_ENTER(d);
  kd_status status = cuda_program_load(d, code, size, &l);
  cuda_leave();
  if (status == KD_OK) *out_program = l;
  return status;
}

kd_status cuda_program_get(kd_device *d, const char *source,
                           cu_function *out_function) {
  void *program = NULL;
  kd_status status = fam_programs_get(&d->programs, source, &program);
  if (status == KD_OK) *out_function = ((loaded *)program)->function;
  return status;
}

const fam_compiler cuda_compiler = {
    .key = cuda_program_key_of,
    .compile = cuda_program_compile,
    .load = adopt,
    .code = cuda_program_code_of,
    .release = cuda_program_drop,
};
