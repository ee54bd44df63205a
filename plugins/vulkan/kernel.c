/* kernel.c - passes of the families' plans as pipelines, with their parameters. */
#include <string.h>

#include "vlk.h"

void vlk_program_drop(vlk_program *p) {
  if (atomic_fetch_sub_explicit(&p->users, 1, memory_order_acq_rel) > 1) return;
  if (p->params) vlk_release(p->device, p->params);
  vlk_host->release(vlk_host, p);
}

static kd_status vulkan_kernel_compile(kd_device *d, const fam_pass *pass,
                                       void **out) {
  if (pass->groups > (uint64_t)VLK_GRID * VLK_GRID)
    return FAIL(KD_UNIMPLEMENTED, "%llu work-groups",
                (unsigned long long)pass->groups);
  char *source = fam_glsl(vlk_host, &d->families.dialect, pass);
  if (!source) return FAIL(KD_OUT_OF_MEMORY, "no memory for a kernel's source");
  vlk_program *p = vlk_host->allocate(vlk_host, sizeof *p, 0);
  kd_status status =
      p ? KD_OK : FAIL(KD_OUT_OF_MEMORY, "no memory for a kernel");
  if (p) memset(p, 0, sizeof *p);
  if (status == KD_OK) {
    p->device = d;
    atomic_store(&p->users, 1);
    p->groups = (uint32_t)pass->groups;
    p->buffer_count = pass->buffer_count;
    status = vlk_pipeline_get(d, source, &p->pipeline);
  }
  vlk_host->release(vlk_host, source);
  if (status == KD_OK) {
    uint32_t count = pass->param_count ? pass->param_count : 1;
    status =
        vlk_allocate(d, VLK_PARAMS, count * sizeof *pass->params, &p->params);
    if (status == KD_OK)
      memcpy(vlk_mapped(p->params), pass->params, count * sizeof *pass->params);
  }
  if (status != KD_OK) {
    if (p) vlk_program_drop(p);
    return status;
  }
  *out = p;
  return KD_OK;
}

static kd_status can(kd_device *d, const fam_pass *pass) {
  char *source = fam_glsl(vlk_host, &d->families.dialect, pass);
  if (!source) return FAIL(KD_OUT_OF_MEMORY, "no memory for a kernel's source");
  bool there = vlk_is_built(source);
  vlk_host->release(vlk_host, source);
  return there
             ? KD_OK
             : FAIL(KD_UNIMPLEMENTED,
                    "the kernel was not built with the plugin, and there is no"
                    " shaderc");
}

static void vulkan_kernel_drop(kd_device *d, void *program) {
  (void)d;
  vlk_program_drop(program);
}

void vlk_kernels_begin(kd_device *d) {
  d->families.host = vlk_host;
  d->families.name = d->name;
  if (!vlk_has_compiler()) d->families.can = can;
  d->families.source = fam_glsl;
  d->families.compile = vulkan_kernel_compile;
  d->families.release = vulkan_kernel_drop;
  d->families.run = vlk_do;
  d->families.memory = &vlk_memory;
  d->families.streams = &vlk_streams;
  d->families.marks = &vlk_marks;
  d->families.recorder = &vlk_recorder;
  d->families.programs = &d->programs;
}
