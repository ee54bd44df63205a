/* blocked_conv.c - f32 convolutions and pooling by oneDNN, in its blocked layout (blocked.h).
 *
 * Weights are a constant of the program, brought into oneDNN's order when the kernel is made.
 * The work is cut into parts, one for each of the host's threads: by images where there are
 * several, else by blocks of channels or by groups; each part is one oneDNN primitive on its
 * piece of the tensors. Parts are of two sizes at most, which differ by one image, block or
 * group. The channels that fill up the last block are computed like the others, from zero
 * weights, and made zero again where an input is infinite or NaN. */
#include <stdatomic.h>

#include "blocked.h"
#include "families/window.h"
#include "kernels.h"
#include "onednn.h"
#include "shared.h"

/* All parts of one size. */
typedef struct shape {
  dnnl_primitive_t primitive;
  dnnl_memory_desc_t source, weights, bias, target;
  uint64_t weights_size, scratch_size; /* bytes of one part */
} shape;

/* How work is cut: `units` of it, each so many images or channels. */
typedef struct cut {
  bool by_image;
  int64_t units, parts;
  int64_t images, ins, outs,
      groups; /* of a unit; ins, groups: 0 where parts share */
} cut;

struct kd_kernel {
  shape shapes
      [2]; /* of the first parts, which may have one unit more, and of the rest */
  cut cut;
  bool has_sum;
  cpu_shared *packed; /* weights of all parts, those of the first shape first */
  int64_t outs;       /* channels of the output, without what fills them up */
  uint64_t source_unit, target_unit; /* bytes */
};

/* ---- parts ------------------------------------------------------------------------ */

/* Parts that have a unit more than the rest. */
static int64_t larger_parts(const cut *c) {
  return c->units % c->parts;
}

static int64_t units_of(const cut *c, int which) {
  return c->units / c->parts + (which == 0 && larger_parts(c) > 0);
}

/* Shape 0 serves all parts where they are equal. */
static int shape_count(const cut *c) {
  return larger_parts(c) > 0 ? 2 : 1;
}

static int shape_at(const cut *c, int64_t part) {
  int64_t larger = larger_parts(c);
  return larger > 0 && part >= larger;
}

static int64_t first_unit(const cut *c, int64_t part) {
  int64_t larger = larger_parts(c), least = c->units / c->parts;
  return part * least + (part < larger ? part : larger);
}

/* The channels that lie in memory: of rows, those that there are. */
static int64_t lying_channels(const kd_type *type, bool blocked) {
  return blocked ? cpu_filled(type->dims[1]) : type->dims[1];
}

/* As many equal parts as there are threads, if there are units for them. x and y: with
 * the channels that lie in memory. ins: whether a part reads its own channels alone. */
static cut cut_work(int64_t images, int64_t ins, int64_t outs, int64_t group,
                    bool own_ins) {
  int64_t width = cpu_host->worker_count(cpu_host), block = cpu_block();
  cut c = {.by_image = true, .units = images, .images = 1, .parts = 1};
  if (images == 1 && outs > block) {
    c = (cut){.images = 1, .outs = block, .units = outs / block, .parts = 1};
    if (own_ins) c.ins = block;
    if (group > 1) { /* groups whose channels are whole blocks */
      c.groups = 1;
      while (c.groups < group && (c.groups * (ins / group) % block != 0 ||
                                  c.groups * (outs / group) % block != 0))
        c.groups++;
      if (group % c.groups) c.groups = group;
      c.units = group / c.groups;
      c.ins = ins / c.units;
      c.outs = outs / c.units;
    }
  }
  c.parts = c.units < width ? c.units : width;
  return c;
}

static kd_status blocked_conv_describe(const cpu_dnnl *dnnl, uint32_t rank,
                                       const int64_t *dims, bool blocked,
                                       dnnl_memory_desc_t *out_desc) {
  static const dnnl_format_tag_t plain[] = {dnnl_abc, dnnl_abcd, dnnl_abcde};
  static const dnnl_format_tag_t by16[] = {dnnl_aBc16b, dnnl_aBcd16b,
                                           dnnl_aBcde16b};
  static const dnnl_format_tag_t by8[] = {dnnl_aBc8b, dnnl_aBcd8b,
                                          dnnl_aBcde8b};
  dnnl_format_tag_t tag = !blocked            ? plain[rank - 3]
                          : cpu_block() == 16 ? by16[rank - 3]
                                              : by8[rank - 3];
  dnnl_status_t status =
      dnnl->memory_desc_init_by_tag(out_desc, (int)rank, dims, dnnl_f32, tag);
  return status == dnnl_success
             ? KD_OK
             : FAIL(KD_UNIMPLEMENTED, "oneDNN takes no such tensor");
}

/* Descriptions of each shape's tensors, and the steps between units. */
static kd_status describe_parts(const cpu_dnnl *dnnl, kd_kernel *kernel,
                                const kd_type *x, const kd_type *y) {
  const cut *c = &kernel->cut;
  dnnl_dims_t in = {0}, out = {0};
  for (uint32_t i = 0; i < x->rank; i++) {
    in[i] = x->dims[i];
    out[i] = y->dims[i];
  }
  kd_status status = KD_OK;
  in[1] = lying_channels(x, is_blocked(x));
  out[1] = lying_channels(y, true);
  int64_t ins = product(in, 2, x->rank), outs = product(out, 2, y->rank);
  uint64_t source = (uint64_t)(c->by_image ? in[1] : c->ins);
  uint64_t target = (uint64_t)(c->by_image ? out[1] : c->outs);
  kernel->source_unit = source * (uint64_t)ins * sizeof(float);
  kernel->target_unit = target * (uint64_t)outs * sizeof(float);
  for (int i = 0; i < shape_count(c) && status == KD_OK; i++) {
    int64_t units = units_of(c, i);
    if (c->by_image) {
      in[0] = out[0] = units;
    } else {
      out[1] = units * c->outs;
      if (c->ins) in[1] = units * c->ins;
    }
    status = blocked_conv_describe(dnnl, x->rank, in, is_blocked(x),
                                   &kernel->shapes[i].source);
    if (status == KD_OK)
      status = blocked_conv_describe(dnnl, y->rank, out, true,
                                     &kernel->shapes[i].target);
  }
  return status;
}

static void note_scratch(const cpu_dnnl *dnnl, shape *s,
                         dnnl_primitive_desc_t desc) {
  const dnnl_memory_desc_t *scratch =
      dnnl->primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0);
  s->scratch_size =
      scratch ? (dnnl->memory_desc_get_size(scratch) + 63) & ~UINT64_C(63) : 0;
}

static void destroy_parts(const cpu_dnnl *dnnl, kd_kernel *kernel) {
  for (int i = 0; i < 2; i++)
    if (kernel->shapes[i].primitive)
      dnnl->primitive_destroy(kernel->shapes[i].primitive);
  cpu_share_drop(kernel->packed);
  free(kernel);
}

void cpu_destroy_blocked(kd_kernel *kernel) {
  destroy_parts(cpu_dnnl_get(), kernel);
}

/* ---- making a convolution --------------------------------------------------------- */

/* A window as the node has it, with types instead of data. */
static bool node_window(const kd_node *node, const kd_type *x, const kd_type *y,
                        const int64_t *kernel, window *w) {
  kd_tensor in = {.dims = x->dims, .rank = x->rank};
  kd_tensor out = {.dims = y->dims, .rank = y->rank};
  return window_read(cpu_host, node, &in, &out, kernel, 0, w);
}

typedef struct conv_plan {
  const cpu_dnnl *dnnl;
  kd_kernel *kernel;
  kd_type x, w, y; /* of `win` */
  int64_t x_dims[KD_MAX_RANK], w_dims[KD_MAX_RANK], y_dims[KD_MAX_RANK];
  window win;
  int64_t group, ins, outs; /* channels as they lie */
  bool has_bias;
  cpu_activation activation;
} conv_plan;

static dnnl_status_t add_activation(const cpu_dnnl *dnnl, dnnl_post_ops_t ops,
                                    const cpu_activation *act) {
  static const dnnl_alg_kind_t kinds[] = {
      [CPU_LAST_RELU] = dnnl_eltwise_relu,
      [CPU_LAST_CLIP] = dnnl_eltwise_clip,
      [CPU_LAST_SILU] = dnnl_eltwise_swish,
      [CPU_LAST_HARD_SWISH] = dnnl_eltwise_hardswish,
      [CPU_LAST_LEAKY_RELU] = dnnl_eltwise_relu};
  bool clip = act->last == CPU_LAST_CLIP;
  float alpha = clip                               ? act->low
                : act->last == CPU_LAST_SILU       ? 1
                : act->last == CPU_LAST_LEAKY_RELU ? act->alpha
                                                   : 0;
  return act->last == CPU_LAST_NONE
             ? dnnl_success
             : dnnl->post_ops_append_eltwise(ops, 1, kinds[act->last], alpha,
                                             clip ? act->high : 0);
}

static dnnl_status_t conv_attributes(const conv_plan *plan,
                                     dnnl_primitive_attr_t *out_attr) {
  const cpu_dnnl *dnnl = plan->dnnl;
  dnnl_post_ops_t ops = NULL;
  dnnl_status_t status = dnnl->primitive_attr_create(out_attr);
  if (status == dnnl_success) status = dnnl->post_ops_create(&ops);
  if (status == dnnl_success && plan->kernel->has_sum)
    status = dnnl->post_ops_append_sum(ops, 1);
  if (status == dnnl_success)
    status = add_activation(dnnl, ops, &plan->activation);
  if (status == dnnl_success)
    status = dnnl->primitive_attr_set_post_ops(*out_attr, ops);
  if (status == dnnl_success)
    status = dnnl->primitive_attr_set_scratchpad_mode(
        *out_attr, dnnl_scratchpad_mode_user);
  if (ops) dnnl->post_ops_destroy(ops);
  return status;
}

/* Dims of the weights of a part of one shape, with the group in front where there is one. */
static int weight_dims(const conv_plan *plan, int which, int64_t *dims) {
  const cut *c = &plan->kernel->cut;
  int64_t units = units_of(c, which);
  int64_t outs = c->by_image ? plan->outs : units * c->outs;
  int64_t groups = c->by_image || !c->groups ? plan->group : units * c->groups;
  int at = 0;
  if (plan->group > 1) dims[at++] = groups;
  dims[at++] = outs / groups;
  dims[at++] = plan->group > 1 ? plan->w.dims[1] : plan->ins;
  for (uint32_t i = 2; i < plan->w.rank; i++)
    dims[at++] = plan->w.dims[i];
  return at;
}

static dnnl_status_t describe_conv(conv_plan *plan, int which,
                                   dnnl_primitive_desc_t *out_desc) {
  const cpu_dnnl *dnnl = plan->dnnl;
  shape *s = &plan->kernel->shapes[which];
  const window *w = &plan->win;
  dnnl_memory_desc_t any_weights;
  dnnl_convolution_desc_t desc;
  dnnl_primitive_attr_t attr = NULL;
  dnnl_dims_t dims, dilation = {0}, outs = {0};
  int rank = weight_dims(plan, which, dims);
  outs[0] = plan->group > 1 ? dims[0] * dims[1] : dims[0];
  for (int i = 0; i < w->space; i++)
    dilation[i] = w->dilation[i] - 1;
  dnnl_status_t status = dnnl->memory_desc_init_by_tag(
      &any_weights, rank, dims, dnnl_f32, dnnl_format_tag_any);
  if (status == dnnl_success)
    status = dnnl->memory_desc_init_by_tag(&s->bias, 1, outs, dnnl_f32, dnnl_a);
  if (status == dnnl_success)
    status = dnnl->dilated_convolution_forward_desc_init(
        &desc, dnnl_forward_inference, dnnl_convolution_direct, &s->source,
        &any_weights, plan->has_bias ? &s->bias : NULL, &s->target, w->stride,
        dilation, w->begin, w->end);
  if (status == dnnl_success) status = conv_attributes(plan, &attr);
  if (status == dnnl_success)
    status =
        dnnl->primitive_desc_create(out_desc, &desc, attr, dnnl->engine, NULL);
  if (attr) dnnl->primitive_attr_destroy(attr);
  return status;
}

/* The weights with zeros for the channels that fill up blocks; the constant's own data
 * where there are none. free() it in the first case. NULL: no memory. */
static float *filled_weights(const conv_plan *plan, const kd_tensor *weights) {
  int64_t taps = product(plan->w.dims, 2, plan->w.rank);
  int64_t ins = plan->group > 1 ? plan->w.dims[1] : plan->ins;
  int64_t outs =
      plan->group > 1 ? plan->group * (plan->outs / plan->group) : plan->outs;
  if (ins == plan->w.dims[1] && outs == plan->w.dims[0]) return weights->data;
  float *all = calloc((size_t)(outs * ins * taps), sizeof *all);
  int64_t row = plan->w.dims[1] * taps;
  for (int64_t o = 0; all && o < plan->w.dims[0]; o++)
    memcpy(all + o * ins * taps, (const float *)weights->data + o * row,
           (size_t)row * sizeof *all);
  return all;
}

/* Brings the weights of a shape's parts into the order that its primitive wants. */
static dnnl_status_t pack_shape(const conv_plan *plan, int which,
                                const float *from, char *to, int64_t copies) {
  static const dnnl_format_tag_t tags[] = {dnnl_abc, dnnl_abcd, dnnl_abcde,
                                           dnnl_abcdef};
  const cpu_dnnl *dnnl = plan->dnnl;
  shape *s = &plan->kernel->shapes[which];
  dnnl_dims_t dims;
  dnnl_memory_desc_t plain;
  dnnl_primitive_desc_t desc = NULL;
  dnnl_primitive_t reorder = NULL;
  int rank = weight_dims(plan, which, dims);
  int64_t each = product(dims, 0, (uint32_t)rank);
  dnnl_status_t status = dnnl->memory_desc_init_by_tag(
      &plain, rank, dims, dnnl_f32, tags[rank - 3]);
  if (status == dnnl_success)
    status = dnnl->reorder_primitive_desc_create(
        &desc, &plain, dnnl->engine, &s->weights, dnnl->engine, NULL);
  if (status == dnnl_success) status = dnnl->primitive_create(&reorder, desc);
  for (int64_t i = 0; i < copies && status == dnnl_success; i++) {
    dnnl_memory_t source = NULL, target = NULL;
    status = dnnl->memory_create(&source, &plain, dnnl->engine,
                                 (void *)(uintptr_t)(from + i * each));
    if (status == dnnl_success)
      status = dnnl->memory_create(&target, &s->weights, dnnl->engine,
                                   to + (uint64_t)i * s->weights_size);
    dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, source}, {DNNL_ARG_TO, target}};
    if (status == dnnl_success)
      status = dnnl->primitive_execute(reorder, dnnl->stream, 2, args);
    if (source) dnnl->memory_destroy(source);
    if (target) dnnl->memory_destroy(target);
  }
  if (reorder) dnnl->primitive_destroy(reorder);
  if (desc) dnnl->primitive_desc_destroy(desc);
  return status;
}

/* Parts of one shape that have weights of their own. */
static int64_t weight_copies(const cut *c, int which) {
  if (c->by_image) return 1;
  int64_t larger = larger_parts(c);
  return larger == 0 ? c->parts : which == 0 ? larger : c->parts - larger;
}

static bool pack_weights(void *context, const kd_tensor *weights,
                         void **out_data, void **out_more) {
  conv_plan *plan = context;
  kd_kernel *kernel = plan->kernel;
  const cut *c = &kernel->cut;
  uint64_t bytes = 0;
  float *from = filled_weights(plan, weights);
  for (int i = 0; i < shape_count(c); i++)
    bytes += kernel->shapes[i].weights_size * (uint64_t)weight_copies(c, i);
  *out_data = cpu_weights_alloc(bytes);
  (void)out_more;
  dnnl_status_t status = from && *out_data ? dnnl_success : dnnl_out_of_memory;
  const float *part = from;
  char *to = *out_data;
  for (int i = 0; i < shape_count(c) && status == dnnl_success; i++) {
    dnnl_dims_t dims;
    int64_t copies = weight_copies(c, i);
    status = pack_shape(plan, i, part, to, copies);
    if (!c->by_image)
      part += copies * product(dims, 0, (uint32_t)weight_dims(plan, i, dims));
    to += (uint64_t)copies * kernel->shapes[i].weights_size;
  }
  if (from != weights->data) free(from);
  return status == dnnl_success;
}

/* FNV-1a of a description. */
static uint64_t form_hash(const void *bytes, size_t size) {
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  for (size_t i = 0; i < size; i++)
    hash = (hash ^ ((const unsigned char *)bytes)[i]) * UINT64_C(0x100000001b3);
  return hash;
}

/* The form depends on oneDNN's description of it, and on how it is cut into parts. */
static kd_status find_weights(const kd_node *node, conv_plan *plan) {
  kd_kernel *kernel = plan->kernel;
  const cut *c = &kernel->cut;
  cpu_share_key key = {
      0, "oneDNN", {c->by_image, c->outs, plan->ins, plan->outs}};
  for (int i = 0; i < shape_count(c); i++) {
    const shape *s = &kernel->shapes[i];
    key.numbers[4 + 2 * i] = (int64_t)form_hash(&s->weights, sizeof s->weights);
    key.numbers[5 + 2 * i] = weight_copies(c, i);
  }
  return cpu_share_get(node, 1, &key, pack_weights, plan, &kernel->packed);
}

/* Whether zeros stay zeros behind the convolution. */
static bool keeps_zero(const cpu_activation *act) {
  return act->low <= 0 && act->high >= 0;
}

/* Reads the types, with as few dimensions as the window needs. */
static bool read_types(const kd_node *node, conv_plan *plan) {
  const kd_node_table *read = cpu_host->node;
  window *w = &plan->win;
  read->input_type(node, 0, &plan->x);
  read->input_type(node, 1, &plan->w);
  read->output_type(node, 0, &plan->y);
  if (!node_window(node, &plan->x, &plan->y, plan->w.dims + 2, w)) return false;
  window_fold(w, CPU_NARROW);
  for (int i = 0; i < 2; i++) {
    plan->x_dims[i] = plan->x.dims[i];
    plan->w_dims[i] = plan->w.dims[i];
    plan->y_dims[i] = plan->y.dims[i];
  }
  for (int i = 0; i < w->space; i++) {
    plan->x_dims[2 + i] = w->in[i];
    plan->w_dims[2 + i] = w->kernel[i];
    plan->y_dims[2 + i] = w->out[i];
  }
  plan->x.rank = plan->w.rank = plan->y.rank = (uint32_t)w->space + 2;
  plan->x.dims = plan->x_dims;
  plan->w.dims = plan->w_dims;
  plan->y.dims = plan->y_dims;
  return true;
}

/* What a node asks for, in parts that suit the threads. */
static kd_status read_plan(const kd_node *node, conv_plan *plan) {
  const kd_node_table *read = cpu_host->node;
  kd_kernel *kernel = plan->kernel;
  kd_type other;
  plan->group = read->attr_int(node, "group", 1);
  if (!read_types(node, plan))
    return FAIL(KD_UNIMPLEMENTED, "too many dimensions");
  plan->has_bias = read->input_type(node, 2, &other) == KD_OK;
  kernel->has_sum = read->input_type(node, 3, &other) == KD_OK;
  kernel->outs = plan->y.dims[1];
  plan->ins = lying_channels(&plan->x, is_blocked(&plan->x));
  plan->outs = lying_channels(&plan->y, true);
  bool filled = plan->ins != plan->x.dims[1] || plan->outs != plan->y.dims[1];
  if (plan->group > 1 && filled) {
    /* what fills up channels is groups of their own: one channel each */
    if (plan->group != plan->x.dims[1] || plan->group != plan->y.dims[1])
      return FAIL(KD_UNIMPLEMENTED, "groups that are no whole blocks");
    plan->group = plan->ins;
  }
  kernel->cut =
      cut_work(plan->x.dims[0], plan->ins, plan->outs, plan->group, false);
  kd_status status = cpu_read_activation(node, &plan->activation);
  if (status == KD_OK && filled && !keeps_zero(&plan->activation))
    status = FAIL(KD_UNIMPLEMENTED, "an activation that makes more of 0");
  return status == KD_OK
             ? describe_parts(plan->dnnl, kernel, &plan->x, &plan->y)
             : status;
}

/* Whether oneDNN has code for it, not just the loop that it checks others against. */
static bool is_fast(const kd_node *node) {
  kd_kernel kernel = {0};
  conv_plan plan = {.dnnl = cpu_dnnl_get(), .kernel = &kernel};
  if (read_plan(node, &plan) != KD_OK) return false;
  bool fast = true;
  for (int i = 0; i < shape_count(&kernel.cut) && fast; i++) {
    dnnl_primitive_desc_t desc = NULL;
    const char *name = NULL;
    fast = describe_conv(&plan, i, &desc) == dnnl_success;
    if (!fast) continue;
    plan.dnnl->primitive_desc_query(desc, dnnl_query_impl_info_str, 0,
                                    (void *)&name);
    fast = name && !strstr(name, "ref");
    plan.dnnl->primitive_desc_destroy(desc);
  }
  return fast;
}

CPU_SUPPORTS(conv) {
  const kd_node_table *read = cpu_host->node;
  kd_type x, w, y;
  if (read->input_type(node, 0, &x) != KD_OK ||
      read->input_type(node, 1, &w) != KD_OK ||
      read->output_type(node, 0, &y) != KD_OK || x.rank < 3 || x.rank > 5)
    return KD_UNIMPLEMENTED;
  if (!is_blocked(&y) || !cpu_is_constant(node, 1) || !cpu_dnnl_get())
    return KD_UNIMPLEMENTED;
  for (uint32_t i = 0; i < x.rank; i++)
    if (y.dims[i] < 1 || x.dims[i] < 1) return KD_UNIMPLEMENTED;
  /* groups: only those that oneDNN has fast in this layout */
  int64_t group = read->attr_int(node, "group", 1);
  if (group > 1 && !is_blocked(&x)) return KD_UNIMPLEMENTED;
  /* rows as input: a first layer's, of grey or colour; oneDNN's others are a loop */
  if (!is_blocked(&x) && x.dims[1] != 1 && x.dims[1] != 3)
    return KD_UNIMPLEMENTED;
  cpu_activation activation;
  if (cpu_read_activation(node, &activation) != KD_OK) return KD_UNIMPLEMENTED;
  kd_type z;
  if (read->input_count(node) > 3 && read->input_type(node, 3, &z) == KD_OK &&
      !is_blocked(&z))
    return KD_UNIMPLEMENTED;
  return is_fast(node) ? KD_OK : KD_UNIMPLEMENTED;
}

static dnnl_status_t make_shape(conv_plan *plan, int which) {
  const cpu_dnnl *dnnl = plan->dnnl;
  shape *s = &plan->kernel->shapes[which];
  dnnl_primitive_desc_t desc = NULL;
  dnnl_status_t made = describe_conv(plan, which, &desc);
  if (made == dnnl_success) made = dnnl->primitive_create(&s->primitive, desc);
  if (made == dnnl_success) {
    s->weights = *dnnl->primitive_desc_query_md(desc, dnnl_query_weights_md, 0);
    s->weights_size = dnnl->memory_desc_get_size(&s->weights);
    note_scratch(dnnl, s, desc);
  }
  if (desc) dnnl->primitive_desc_destroy(desc);
  return made;
}

CPU_CREATE(conv) {
  conv_plan plan = {.dnnl = cpu_dnnl_get(),
                    .kernel = calloc(1, sizeof *plan.kernel)};
  if (!plan.kernel || !plan.dnnl) {
    free(plan.kernel);
    return FAIL(KD_OUT_OF_MEMORY, "no memory for a convolution");
  }
  kd_status status = read_plan(node, &plan);
  if (status == KD_OK) {
    dnnl_status_t made = dnnl_success;
    for (int i = 0; i < shape_count(&plan.kernel->cut) && made == dnnl_success;
         i++)
      made = make_shape(&plan, i);
    if (made == dnnl_success)
      status = find_weights(node, &plan);
    else
      status = FAIL(made == dnnl_out_of_memory ? KD_OUT_OF_MEMORY : KD_INTERNAL,
                    "oneDNN makes no such convolution (status %d)", (int)made);
  }
  if (status != KD_OK) {
    destroy_parts(plan.dnnl, plan.kernel);
    return status;
  }
  *out_kernel = plan.kernel;
  return KD_OK;
}

/* The weights, which are packed. */
uint64_t cpu_taken_conv(kd_kernel *kernel) {
  return kernel->packed ? 2 : 0;
}

/* ---- running ---------------------------------------------------------------------- */

/* Bytes of a bias that is filled up; 0: the input is read where it lies. */
static uint64_t filled_bias(const kd_kernel *kernel, const kd_launch *launch) {
  int64_t outs = cpu_filled(kernel->outs);
  return outs != kernel->outs && launch->input_count > 2
             ? ((uint64_t)outs * sizeof(float) + 63) & ~UINT64_C(63)
             : 0;
}

static uint64_t scratch_step(const kd_kernel *kernel) {
  uint64_t one = kernel->shapes[0].scratch_size;
  uint64_t two = kernel->shapes[1].scratch_size;
  return one > two ? one : two;
}

CPU_WORKSPACE(blocked) {
  return filled_bias(self, launch) +
         scratch_step(self) * (uint64_t)self->cut.parts;
}

typedef struct parts_work {
  const kd_kernel *kernel;
  const kd_launch *launch;
  const char *bias; /* of all channels, or NULL */
  char *scratch;
  bool conv;
  atomic_int failed;
} parts_work;

typedef struct arguments {
  const cpu_dnnl *dnnl;
  dnnl_exec_arg_t list[6];
  int count;
  dnnl_status_t status;
} arguments;

static void add_argument(arguments *args, int kind,
                         const dnnl_memory_desc_t *desc, const void *data) {
  dnnl_memory_t memory = NULL;
  if (args->status == dnnl_success)
    args->status = args->dnnl->memory_create(&memory, desc, args->dnnl->engine,
                                             (void *)(uintptr_t)data);
  if (args->status == dnnl_success)
    args->list[args->count++] = (dnnl_exec_arg_t){kind, memory};
}

static const char *part_weights(const kd_kernel *kernel, int64_t part) {
  const cut *c = &kernel->cut;
  int which = shape_at(c, part);
  int64_t before = which ? weight_copies(c, 0) : 0; /* parts of shape 0 */
  int64_t own = c->by_image ? 0 : part - (which ? before : 0);
  return (const char *)kernel->packed->data +
         (uint64_t)before * kernel->shapes[0].weights_size +
         (uint64_t)own * kernel->shapes[which].weights_size;
}

static void add_conv_arguments(const parts_work *work, int64_t part,
                               const shape *s, uint64_t unit, char *target,
                               arguments *args) {
  const kd_kernel *kernel = work->kernel;
  const kd_launch *launch = work->launch;
  const cut *c = &kernel->cut;
  add_argument(args, DNNL_ARG_WEIGHTS, &s->weights, part_weights(kernel, part));
  if (work->bias)
    add_argument(
        args, DNNL_ARG_BIAS, &s->bias,
        work->bias +
            (c->by_image ? 0 : unit * (uint64_t)c->outs * sizeof(float)));
  if (kernel->has_sum && launch->inputs[3].data != launch->outputs[0].data)
    memcpy(target, (char *)launch->inputs[3].data + unit * kernel->target_unit,
           (uint64_t)units_of(c, shape_at(c, part)) * kernel->target_unit);
}

static void blocked_conv_run_part(parts_work *work, int64_t part) {
  const kd_kernel *kernel = work->kernel;
  const kd_launch *launch = work->launch;
  const shape *s = &kernel->shapes[shape_at(&kernel->cut, part)];
  arguments args = {.dnnl = cpu_dnnl_get(), .status = dnnl_success};
  uint64_t unit = (uint64_t)first_unit(&kernel->cut, part);
  char *target = (char *)launch->outputs[0].data + unit * kernel->target_unit;
  add_argument(&args, DNNL_ARG_SRC, &s->source,
               (char *)launch->inputs[0].data + unit * kernel->source_unit);
  add_argument(&args, DNNL_ARG_DST, &s->target, target);
  if (work->conv) add_conv_arguments(work, part, s, unit, target, &args);
  dnnl_dims_t bytes = {(int64_t)s->scratch_size};
  dnnl_memory_desc_t scratch;
  if (bytes[0] && args.status == dnnl_success) {
    args.status =
        args.dnnl->memory_desc_init_by_tag(&scratch, 1, bytes, dnnl_u8, dnnl_a);
    add_argument(&args, DNNL_ARG_SCRATCHPAD, &scratch,
                 work->scratch + (uint64_t)part * scratch_step(kernel));
  }
  if (args.status == dnnl_success)
    args.status = args.dnnl->primitive_execute(s->primitive, args.dnnl->stream,
                                               args.count, args.list);
  for (int k = 0; k < args.count; k++)
    args.dnnl->memory_destroy(args.list[k].memory);
  if (args.status != dnnl_success)
    atomic_store(&work->failed, (int)args.status);
}

static void blocked_conv_run_parts(void *context, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; i++)
    blocked_conv_run_part(context, i);
}

static kd_status blocked_conv_run_all(parts_work *work) {
  cpu_host->parallel_for(cpu_host, work->kernel->cut.parts, 1,
                         blocked_conv_run_parts, work);
  return work->failed
             ? FAIL(KD_INTERNAL, "oneDNN fails with status %d", work->failed)
             : KD_OK;
}

CPU_KERNEL(cpu_run_conv_blocked) {
  parts_work work = {.kernel = self, .launch = launch, .conv = true};
  uint64_t fill = filled_bias(self, launch);
  work.scratch = (char *)launch->workspace.data + fill;
  if (kd_has_input(launch, 2)) work.bias = launch->inputs[2].data;
  if (work.bias && fill) {
    char *bias = launch->workspace.data;
    memset(bias, 0, fill);
    memcpy(bias, work.bias, (size_t)self->outs * sizeof(float));
    work.bias = bias;
  }
  kd_status status = blocked_conv_run_all(&work);
  /* weights that are zero make no number of an infinity */
  cpu_fill_up(&launch->outputs[0]);
  return status;
}

CPU_KERNEL(cpu_run_pool_blocked) {
  parts_work work = {
      .kernel = self, .launch = launch, .scratch = launch->workspace.data};
  return blocked_conv_run_all(&work);
}

/* ---- pooling ---------------------------------------------------------------------- */

CPU_SUPPORTS(pool) {
  const kd_node_table *read = cpu_host->node;
  kd_type x, y;
  if (read->output_count(node) != 1 || read->input_type(node, 0, &x) != KD_OK ||
      read->output_type(node, 0, &y) != KD_OK || x.rank < 3 || x.rank > 5 ||
      !is_blocked(&x) || !cpu_dnnl_get())
    return KD_UNIMPLEMENTED;
  /* a point an image lies the same in both layouts, if its blocks are full */
  if (!is_blocked(&y) && (!is_point(&y) || y.dims[1] % cpu_block()))
    return KD_UNIMPLEMENTED;
  for (uint32_t i = 0; i < x.rank; i++)
    if (y.dims[i] < 1 || x.dims[i] < 1) return KD_UNIMPLEMENTED;
  return KD_OK;
}

static void pool_window(const kd_node *node, const kd_type *x, const kd_type *y,
                        window *w) {
  node_window(node, x, y, NULL, w);
  bool global = !strncmp(cpu_host->node->op(node), "Global", 6);
  for (int i = 0; i < w->space; i++) {
    if (global) w->kernel[i] = w->in[i];
    /* ceil_mode lets the last window reach further than the padding */
    int64_t reach = (w->out[i] - 1) * w->stride[i] +
                    (w->kernel[i] - 1) * w->dilation[i] + 1;
    int64_t covered = w->in[i] + w->begin[i];
    w->end[i] = reach > covered ? reach - covered : 0;
    w->dilation[i] -= 1; /* oneDNN counts what lies between */
  }
}

static dnnl_alg_kind_t pool_kind(const kd_node *node) {
  const kd_node_table *read = cpu_host->node;
  bool average = strstr(read->op(node), "Average") != NULL;
  return !average ? dnnl_pooling_max
         : read->attr_int(node, "count_include_pad", 0)
             ? dnnl_pooling_avg_include_padding
             : dnnl_pooling_avg_exclude_padding;
}

static dnnl_status_t make_pool(const cpu_dnnl *dnnl, dnnl_alg_kind_t kind,
                               const window *w, shape *s) {
  dnnl_pooling_v2_desc_t desc;
  dnnl_primitive_desc_t made = NULL;
  dnnl_primitive_attr_t attr = NULL;
  dnnl_status_t result = dnnl->pooling_v2_forward_desc_init(
      &desc, dnnl_forward_inference, kind, &s->source, &s->target, w->stride,
      w->kernel, w->dilation, w->begin, w->end);
  if (result == dnnl_success) result = dnnl->primitive_attr_create(&attr);
  if (result == dnnl_success)
    result = dnnl->primitive_attr_set_scratchpad_mode(
        attr, dnnl_scratchpad_mode_user);
  if (result == dnnl_success)
    result =
        dnnl->primitive_desc_create(&made, &desc, attr, dnnl->engine, NULL);
  if (result == dnnl_success) {
    note_scratch(dnnl, s, made);
    result = dnnl->primitive_create(&s->primitive, made);
  }
  if (attr) dnnl->primitive_attr_destroy(attr);
  if (made) dnnl->primitive_desc_destroy(made);
  return result;
}

CPU_CREATE(pool) {
  const kd_node_table *read = cpu_host->node;
  const cpu_dnnl *dnnl = cpu_dnnl_get();
  kd_kernel *kernel = calloc(1, sizeof *kernel);
  kd_type x, y;
  window w;
  if (!kernel || !dnnl) {
    free(kernel);
    return FAIL(KD_OUT_OF_MEMORY, "no memory for a pooling");
  }
  read->input_type(node, 0, &x);
  read->output_type(node, 0, &y);
  pool_window(node, &x, &y, &w);
  int64_t channels = lying_channels(&x, true);
  kernel->outs = y.dims[1];
  kernel->cut = cut_work(x.dims[0], channels, channels, 1, true);
  kd_status status = describe_parts(dnnl, kernel, &x, &y);
  for (int i = 0; i < shape_count(&kernel->cut) && status == KD_OK; i++) {
    dnnl_status_t made =
        make_pool(dnnl, pool_kind(node), &w, &kernel->shapes[i]);
    if (made != dnnl_success)
      status = FAIL(KD_INTERNAL, "oneDNN makes no such pooling (status %d)",
                    (int)made);
  }
  if (status != KD_OK) {
    destroy_parts(dnnl, kernel);
    return status;
  }
  *out_kernel = kernel;
  return KD_OK;
}
