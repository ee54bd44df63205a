/* call_site.h - a call site: a prepared op, or a node of a plan. It caches, per
 * combination of input types, the kernel and the output types (a specialisation), so
 * that a call in the steady state only compares pointers. */
#ifndef KEEL_CALL_SITE_H
#define KEEL_CALL_SITE_H

#include "eager/cache.h"
#include "program/region.h"

#define KEEL_CALL_SITE_SLOTS 8
#define KEEL_CALL_SITE_MORE  256 /* a power of two */

/* A call site's cache entry for one combination of input types. */
typedef struct keel_specialisation {
  keel_device *wanted; /* the requested device */
  keel_instance *instance;
  keel_device *device; /* instance->device */
  uint32_t input_count, output_count;
  bool outputs_known; /* the output types hold for every call */
  /* by input: its layout in the call; NULL: all row-major */
  uint32_t *came;
  /* these types (in `types`), with layouts as the kernel gets them */
  struct kd_node node;
  const keel_type *types[]; /* of inputs, then outputs */
} keel_specialisation;

/* Specialisations beyond those in the slots, by a hash of their types: of kernels that serve all
 * sizes, or that have no state, so that memory for kernels stays bounded. */
typedef struct keel_more_specs {
  _Atomic(keel_specialisation *) slots[KEEL_CALL_SITE_MORE];
} keel_more_specs;

typedef struct keel_call_site {
  keel_opdef *op;
  const char *where;   /* the node's name, or "" */
  keel_device *pinned; /* where it must run, or NULL */
  /* by input; NULL for an input that is not constant; or NULL */
  keel_tensor **constants;
  /* no new specialisations: the host's copies of constants are gone */
  bool settled;
  /* sites of its program's other plans have the same constants, and other sizes */
  bool varies;
  uint32_t output_layout; /* of output 0, as the layout pass chose */
  struct keel_executable *const *graphs; /* nested functions, by attribute */
  const keel_region *region;             /* the region of keel::Region */
  const keel_type *part;                 /* of keel::Part: its output's type */
  uint64_t *copy_time; /* accumulates the time of moving inputs; or NULL */
  uint32_t ticket;     /* for a profile by the devices' clocks, or 0 */
  /* Filled in order, once each, with release; read with acquire. Freed with the call
   * site. */
  _Atomic(keel_specialisation *) slots[KEEL_CALL_SITE_SLOTS];
  /* NULL: there are none. Stored once with release, read with acquire. */
  _Atomic(keel_more_specs *) more;
} keel_call_site;

void keel_call_site_init(keel_call_site *site, keel_opdef *op,
                         const char *where, keel_device *pinned);
void keel_call_site_deinit(keel_call_site *site);

/* Runs the op on ready inputs.
 *
 * scope    the device to run on if the call site is not pinned; NULL: the inputs' device,
 *          else the default
 * donated  bit i: input i is not needed after the call, so an output may reuse its memory
 * Returns KD_OK (outputs are ready; keel::Copy's may be pending), or the failure (outputs
 * are NULL). */
keel_status keel_call_site_run(keel_call_site *site, keel_device *scope,
                               keel_tensor *const *inputs, uint32_t n,
                               keel_tensor **outputs, uint32_t m,
                               uint32_t donated);

/* Whether any device's kernel for the op may block the calling thread for long. */
bool keel_may_block(const keel_opdef *op);

/* Chooses a kernel definition and a device for inferred types, for calls and for placement.
 * The device may differ from `wanted`. */
keel_status keel_choose_kernel(keel_context *context, keel_device *wanted,
                               struct kd_node *node, const char *where,
                               keel_device **out_device,
                               const kd_kernel_def **out_def);

/* Whether a device itself has a kernel for a node: KD_OK, or KD_UNIMPLEMENTED (the message
 * says why not), or why the device can't be asked. */
keel_status keel_choose_on(keel_device *device, struct kd_node *node);

/* Whether it has one for these element types, as far as they are known, whatever the
 * sizes. */
bool keel_choose_may(keel_device *device, const struct kd_node *node);

/* At KEEL_LOG=debug: where a node runs and, if not where it was wanted, why not. */
void keel_choose_tell(keel_context *context, keel_device *wanted,
                      const struct kd_node *node, const char *where,
                      keel_device *chosen);

#endif /* KEEL_CALL_SITE_H */
