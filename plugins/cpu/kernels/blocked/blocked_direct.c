/* blocked_direct.c - f32 convolutions by direct.c in the blocked layout: those that oneDNN has
 * no code for, or slower code, and those whose parts would leave threads idle (is_thin). */
#include "blocked.h"
#include "conv/direct.h"
#include "kernels.h"
#include "shared.h"

/* Of one part's planes: more than the second cache holds are read too slowly. */
#define PART_BYTES (384 * 1024)

struct kd_kernel {
  cpu_direct d;
  cpu_activation act;
  bool has_sum;
  cpu_shared *packed;
};

/* What a node asks for; false: what is not taken here. */
static bool blocked_direct_read_node(const kd_node *node, kd_kernel *kernel) {
  cpu_conv_node n;
  cpu_direct *d = &kernel->d;
  if (!cpu_read_conv(node, &n)) return false;
  bool whole = n.ins % cpu_block() == 0 && n.outs % cpu_block() == 0;
  bool wide = n.outs > cpu_block(); /* one block goes faster along the image */
  *d = (cpu_direct){.w = n.w,
                    .images = n.images,
                    .groups = n.groups,
                    .ins = n.ins,
                    .outs = n.outs,
                    .blocks_in = n.blocks_in,
                    .blocks_out = n.blocks_out};
  d->across =
      d->blocks_in && d->blocks_out && (d->groups == 1 || (whole && wide));
  kernel->act = n.act;
  kernel->has_sum = n.has_sum;
  return true;
}

static bool blocked_direct_takes(const kd_node *node, kd_kernel *kernel) {
  return blocked_direct_read_node(node, kernel) &&
         (kernel->d.blocks_in || kernel->d.blocks_out) &&
         cpu_is_constant(node, 1);
}

CPU_SUPPORTS(direct) {
  kd_kernel kernel = {0};
  return blocked_direct_takes(node, &kernel) ? KD_OK : KD_UNIMPLEMENTED;
}

/* Whether blocked_conv.c would leave threads without work, or give them so few blocks that
 * oneDNN's registers stay empty: AVX2 wants two at once. */
static bool is_thin(const cpu_direct *d) {
  int64_t threads = cpu_host->worker_count(cpu_host);
  int64_t blocks = cpu_filled(d->outs) / cpu_block();
  if (d->images > 1)
    return d->images < threads || (blocks == 1 && cpu_isa() == 1);
  return blocks < 2 * threads && (cpu_isa() == 1 || blocks % threads != 0);
}

kd_status cpu_prefers_direct(kd_device *device, const kd_node *node) {
  kd_kernel kernel = {0};
  cpu_direct *d = &kernel.d;
  (void)device;
  if (!blocked_direct_takes(node, &kernel) || !d->blocks_in || !d->blocks_out)
    return KD_UNIMPLEMENTED;
  if (d->groups > 1) {
    bool single = d->ins == 1 && d->outs == 1;
    bool whole = d->ins % cpu_block() == 0 && d->outs % cpu_block() == 0;
    bool one = d->outs == cpu_block() && cpu_isa() == 1;
    return !single && (!whole || one) ? KD_OK : KD_UNIMPLEMENTED;
  }
  if (d->w.space == 1 && d->w.dilation[0] > 1) return KD_OK;
  cpu_direct_plan(d);
  return is_thin(d) && cpu_direct_part(d) <= PART_BYTES ? KD_OK
                                                        : KD_UNIMPLEMENTED;
}

static bool blocked_direct_pack(void *context, const kd_tensor *weights,
                                void **out_data, void **out_more) {
  const cpu_direct *d = context;
  (void)out_more;
  *out_data = cpu_weights_alloc((size_t)cpu_direct_weights(d) * sizeof(float));
  if (*out_data) cpu_direct_pack(d, weights->data, *out_data);
  return *out_data != NULL;
}

static kd_status blocked_direct_make(kd_kernel *kernel, const kd_node *node) {
  cpu_direct *d = &kernel->d;
  cpu_direct_plan(d);
  cpu_share_key key = {0,
                       d->across ? "direct across" : "direct",
                       {d->units, d->unit, d->groups, d->outs, d->ins, d->depth,
                        d->taps, d->block}};
  return cpu_share_get(node, 1, &key, blocked_direct_pack, d, &kernel->packed);
}

void cpu_destroy_direct(kd_kernel *kernel) {
  cpu_share_drop(kernel->packed);
  free(kernel);
}

CPU_CREATE(direct) {
  static const cpu_conv_kind kind = {sizeof(kd_kernel),
                                     blocked_direct_read_node,
                                     blocked_direct_make, cpu_destroy_direct};
  return cpu_make_conv(&kind, node, out_kernel);
}

/* The weights, which are packed. */
uint64_t cpu_taken_direct(kd_kernel *kernel) {
  return kernel->packed ? 2 : 0;
}

CPU_WORKSPACE(direct) {
  return cpu_direct_room(&self->d);
}

CPU_KERNEL(cpu_run_direct_blocked) {
  const kd_tensor *bias = kd_has_input(launch, 2) ? &launch->inputs[2] : NULL;
  cpu_finish finish = {.dtype = KD_F32, .act = self->act};
  if (self->has_sum) finish.z = launch->inputs[3].data;
  cpu_direct_run run = {.d = &self->d,
                        .x = launch->inputs[0].data,
                        .packed = self->packed->data,
                        .bias = bias ? bias->data : NULL,
                        .y = launch->outputs[0].data,
                        .finish = &finish,
                        .room = launch->workspace.data};
  cpu_direct_start(&run);
  cpu_fill_up(&launch->outputs[0]);
  return KD_OK;
}
