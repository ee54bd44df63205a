/* site.h - a place from which one op is called again and again: a prepared op,
 * or a node of a plan. It remembers, for the types it met, which kernel to run
 * and what comes out, so that a call in the steady state compares pointers. */
#ifndef KEEL_SITE_H
#define KEEL_SITE_H

#include "eager/cache.h"
#include "program/region.h"

#define KEEL_SITE_SLOTS 8

/* A met combination of input types. */
typedef struct keel_binding {
  keel_device *wanted; /* what was asked for */
  keel_instance *instance;
  keel_device *device; /* instance->device */
  uint32_t input_count, output_count;
  bool outputs_known; /* types of the outputs hold for every call */
  uint32_t *came;     /* by input: the layout that it came in; NULL: rows all */
  struct kd_node
      node; /* these very types, in `types`; layouts as the kernel has them */
  const keel_type *types[]; /* of inputs, then outputs */
} keel_binding;

typedef struct keel_site {
  keel_opdef *op;
  const char *where;       /* the node's name, or "" */
  keel_device *pinned;     /* where it must run, or NULL */
  keel_tensor **constants; /* by input, NULL where not; or NULL */
  bool
      settled; /* it runs what it has: the host's copies of constants are gone */
  uint32_t output_layout;           /* that the layout pass wants of output 0 */
  struct keel_fplan *const *graphs; /* nested functions, by attribute */
  const keel_region *region;        /* what keel::Region stands for */
  const keel_type *part;            /* of keel::Part: its output's type */
  uint64_t *copy_time; /* where the time of moving inputs is added, or NULL */
  uint32_t ticket;     /* of a profile by devices' clocks, or 0 */
  /* Filled from the first, each once, with release; acquired. Gone with the site. */
  _Atomic(keel_binding *) slots[KEEL_SITE_SLOTS];
} keel_site;

void keel_site_init(keel_site *site, keel_opdef *op, const char *where,
                    keel_device *pinned);
void keel_site_deinit(keel_site *site);

/* Runs the op on ready inputs.
 *
 * scope    the device to run on where the site is not pinned; NULL: inputs
 *          decide, then the default
 * donated  bit i: nobody needs input i after the call, so that its memory may
 *          become the output's
 * Returns KD_OK with all outputs ready (keel::Copy's may be pending), or why not,
 * with outputs NULL. */
keel_status keel_site_call(keel_site *site, keel_device *scope,
                           keel_tensor *const *inputs, uint32_t n,
                           keel_tensor **outputs, uint32_t m, uint32_t donated);

/* Whether any device's kernel for the op may take long on the host. */
bool keel_may_block(const keel_opdef *op);

/* Picks a definition and a device for types that were inferred; used by calls
 * and by placement. `out_def` may come from another device than `wanted`. */
keel_status keel_choose_kernel(keel_context *context, keel_device *wanted,
                               struct kd_node *node, const char *where,
                               keel_device **out_device,
                               const kd_kernel_def **out_def);

#endif /* KEEL_SITE_H */
