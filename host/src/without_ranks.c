/* without_ranks.c - the functions of ranks/ in a libkeel without it: what makes a group, a link or a
 * split says why it can't, so that nothing reaches the others. */
#include <keel/group.h>
#include <keel/link.h>
#include <keel/phases.h>
#include <keel/split.h>

#include "base/base.h"

#ifndef KEEL_OPSET_RANKS

#pragma GCC diagnostic ignored "-Wunused-parameter"

static keel_status refuse_ranks(void) {
  return keel_fail(KD_UNIMPLEMENTED,
                   "this libkeel was built without groups, ranks and splits of "
                   "programs: `ranks` is not in KEEL_OPSETS");
}

#define REFUSED(name, ...)        \
  keel_status name(__VA_ARGS__) { \
    return refuse_ranks();        \
  }

REFUSED(keel_group_create, keel_device *const *devices, uint32_t count,
        keel_group **out_group)
REFUSED(keel_group_all_reduce, keel_group *group, uint32_t reduction,
        keel_tensor *const *inputs, keel_tensor **outputs)
REFUSED(keel_group_all_gather, keel_group *group, keel_tensor *const *inputs,
        keel_tensor **outputs)
REFUSED(keel_group_reduce_scatter, keel_group *group, uint32_t reduction,
        keel_tensor *const *inputs, keel_tensor **outputs)
REFUSED(keel_group_broadcast, keel_group *group, uint32_t root,
        keel_tensor *input, keel_tensor **outputs)
REFUSED(keel_group_send, keel_group *group, uint32_t to, keel_tensor *tensor,
        keel_tensor **out_tensor)
REFUSED(keel_program_batch, const keel_program *program)
REFUSED(keel_group_members, keel_group *group, keel_tensor **members)
void keel_group_release(keel_group *group) {}
void keel_group_count(const keel_group *group, keel_group_counts *out_counts) {}
uint32_t keel_group_size(const keel_group *group) {
  return 0;
}
keel_device *keel_group_device(const keel_group *group, uint32_t rank) {
  return NULL;
}

REFUSED(keel_link_open, keel_context *context, const keel_link_params *params,
        keel_link **out_link)
REFUSED(keel_link_member, keel_link *link, keel_device *device,
        keel_tensor **out_member)
REFUSED(keel_link_check, keel_link *link, const keel_program *program)
REFUSED(keel_link_gather, keel_link *link, const void *bytes, uint64_t size,
        void *out_bytes)
uint32_t keel_link_launched(void) {
  return 0;
}
void keel_link_close(keel_link *link) {}
void keel_link_look(keel_link *link, keel_link_facts *out_facts) {}
void keel_link_abort(keel_link *link, int status, const char *text) {}

REFUSED(keel_program_phases, const keel_program *program, double bytes_as,
        void (*found)(void *context, const keel_phase *phase), void *context)
REFUSED(keel_split_measure, keel_device *device, keel_split_speed *out_speed)
REFUSED(keel_program_split, const keel_program *program,
        const keel_split_params *params, keel_program **out_program,
        keel_split_facts *out_facts)

#endif /* KEEL_OPSET_RANKS */
