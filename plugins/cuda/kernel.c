/* kernel.c - passes of the families' plans as CUDA functions. */
#include <string.h>

#include "cudev.h"

#define MOST_GROUPS 2147483647u /* of a grid's first dimension */

/* A library where it does it, or the pass's kernel. In the context. */
static kd_status kernel_choose(kd_device *d, const fam_pass *pass,
                               const char *source, cuda_program *p) {
  kd_status status =
      pass->what == FAM_GEMM   ? cuda_product_make(d, pass, &p->call)
      : pass->what == FAM_CONV ? cuda_convolution_make(d, pass, &p->call)
                               : KD_OK;
  return status == KD_OK && !p->call ? cuda_program_get(d, source, &p->function)
                                     : status;
}

static kd_status cuda_kernel_compile(kd_device *d, const fam_pass *pass,
                                     void **out) {
  uint32_t count = pass->param_count ? pass->param_count : 1;
  if (pass->groups > MOST_GROUPS)
    return FAIL(KD_UNIMPLEMENTED, "%llu groups are more than a grid has",
                (unsigned long long)pass->groups);
  cuda_program *p =
      cuda_host->allocate(cuda_host, sizeof *p + count * sizeof *p->params, 0);
  char *source = fam_cuda(cuda_host, &d->families.dialect, pass);
  kd_status status =
      p && source ? cuda_enter(d)
                  : FAIL(KD_OUT_OF_MEMORY, "no memory for a kernel's source");
  if (status == KD_OK) {
    memset(p, 0, sizeof *p);
    status = kernel_choose(d, pass, source, p);
    cuda_leave();
  }
  if (status == KD_OK && p->call) {
    p->source = source;
    source = NULL;
  }
  if (source) cuda_host->release(cuda_host, source);
  if (status != KD_OK) {
    if (p) cuda_host->release(cuda_host, p);
    return status;
  }
  atomic_init(&p->users, 1);
  p->groups = (unsigned)pass->groups;
  p->group = pass->group;
  p->buffer_count = pass->buffer_count;
  p->param_count = count;
  memcpy(p->params, pass->params, count * sizeof *p->params);
  *out = p;
  return KD_OK;
}

void cuda_program_take(cuda_program *p) {
  /* relaxed: the caller has it from who holds it */
  atomic_fetch_add_explicit(&p->users, 1, memory_order_relaxed);
}

static void cuda_kernel_drop(kd_device *d, void *program) {
  cuda_program *p = program;
  (void)d;
  /* acq_rel: the last one to let go frees what the others read */
  if (atomic_fetch_sub_explicit(&p->users, 1, memory_order_acq_rel) > 1) return;
  if (p->call) p->call->destroy(p->call);
  if (p->source) cuda_host->release(cuda_host, p->source);
  cuda_host->release(cuda_host, p);
}

/* Without NVRTC: what the store has. */
static kd_status can(kd_device *d, const fam_pass *pass) {
  void *program = NULL;
  kd_status status = cuda_kernel_compile(d, pass, &program);
  if (status == KD_OK) cuda_kernel_drop(d, program);
  return status == KD_UNAVAILABLE ? KD_UNIMPLEMENTED : status;
}

static bool has_library(kd_device *d, bool convolution) {
  if (cuda_enter(d) != KD_OK) return false;
  bool has = convolution ? cuda_dnn(d) != NULL : cuda_lt(d) != NULL;
  cuda_leave();
  return has;
}

void cuda_kernels_begin(kd_device *d) {
  d->families.host = cuda_host;
  d->families.name = d->name;
  d->families.source = fam_cuda;
  d->families.can = rtc.version ? NULL : can;
  d->families.compile = cuda_kernel_compile;
  d->families.release = cuda_kernel_drop;
  d->families.run = cuda_do;
  d->families.marks = &cuda_marks;
  d->families.recorder = &cuda_recorder;
  d->families.programs = &d->programs;
  d->families.has_library = has_library;
}
