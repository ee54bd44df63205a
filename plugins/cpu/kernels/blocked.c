/* blocked.c - f32 convolutions and pooling by oneDNN, in its blocked layout.
 *
 * Weights are a constant of the program and are brought into oneDNN's order
 * when the kernel is made. The work is cut into equal parts, one for each of
 * the host's threads: by images where there are several, else by channels;
 * each part is one oneDNN primitive on its piece of the tensors. */
#include <stdatomic.h>

#include "families/window.h"
#include "kernels.h"
#include "onednn.h"
#include "tiles.h"

/* The CPU's own layout: dims are N, C, spatial...; elements lie as N, C/b, spatial..., b,
 * where b is block_of() and divides C. */
#define BLOCKED KD_LAYOUT_OWN

struct kd_kernel {
  dnnl_primitive_t primitive; /* of one part */
  dnnl_memory_desc_t source, weights, bias, target;
  int64_t parts;
  bool by_image, has_sum;
  void *packed;                                   /* weights of all parts */
  uint64_t weights_size, bias_size, scratch_size; /* bytes of one part */
  uint64_t source_step, target_step; /* bytes from a part to the next */
};

static int64_t block_of(void) {
  return cpu_isa() == 2 ? 16 : 8;
}

/* The tag of a tensor with that many dimensions and layout. */
static dnnl_format_tag_t tag_of(uint32_t rank, bool blocked) {
  static const dnnl_format_tag_t plain[] = {dnnl_abc, dnnl_abcd, dnnl_abcde};
  static const dnnl_format_tag_t by16[] = {dnnl_aBc16b, dnnl_aBcd16b,
                                           dnnl_aBcde16b};
  static const dnnl_format_tag_t by8[] = {dnnl_aBc8b, dnnl_aBcd8b,
                                          dnnl_aBcde8b};
  return !blocked           ? plain[rank - 3]
         : block_of() == 16 ? by16[rank - 3]
                            : by8[rank - 3];
}

static bool is_blocked(const kd_type *type) {
  return type->layout == BLOCKED;
}

/* Without space, both layouts are the same, and rows are what all kernels take. */
static bool is_point(const kd_type *type) {
  return product(type->dims, 2, type->rank) == 1;
}

static kd_status describe(const cpu_dnnl *dnnl, uint32_t rank,
                          const int64_t *dims, bool blocked,
                          dnnl_memory_desc_t *out_desc) {
  dnnl_status_t status = dnnl->memory_desc_init_by_tag(
      out_desc, (int)rank, dims, dnnl_f32, tag_of(rank, blocked));
  return status == dnnl_success
             ? KD_OK
             : FAIL(KD_UNIMPLEMENTED, "oneDNN takes no such tensor");
}

static void destroy_parts(const cpu_dnnl *dnnl, kd_kernel *kernel) {
  if (kernel->primitive) dnnl->primitive_destroy(kernel->primitive);
  free(kernel->packed);
  free(kernel);
}

void cpu_destroy_blocked(kd_kernel *kernel) {
  destroy_parts(cpu_dnnl_get(), kernel);
}

/* ---- making a convolution ------------------------------------------------------- */

/* A window as the node has it, with types instead of data. */
static bool node_window(const kd_node *node, const kd_type *x, const kd_type *y,
                        const int64_t *kernel, window *w) {
  kd_tensor in = {.dims = x->dims, .rank = x->rank};
  kd_tensor out = {.dims = y->dims, .rank = y->rank};
  return window_read(cpu_host, node, &in, &out, kernel, 0, w);
}

/* How many parts, and along what. */
static void choose_parts(kd_kernel *kernel, int64_t images, int64_t channels,
                         int64_t group) {
  int64_t width = cpu_host->worker_count(cpu_host);
  kernel->parts = 1;
  kernel->by_image = true;
  if (images % width == 0) {
    kernel->parts = width;
  } else if (images == 1 && group == 1) {
    kernel->by_image = false;
    for (int64_t n = width; n > 1 && kernel->parts == 1; n--)
      if (channels % (n * block_of()) == 0) kernel->parts = n;
  }
}

typedef struct conv_plan {
  const cpu_dnnl *dnnl;
  kd_kernel *kernel;
  kd_type x, w, y;
  window win;
  int64_t group;
  bool has_bias;
  cpu_activation activation;
} conv_plan;

static dnnl_status_t conv_attributes(const conv_plan *plan,
                                     dnnl_primitive_attr_t *out_attr) {
  const cpu_dnnl *dnnl = plan->dnnl;
  dnnl_post_ops_t ops = NULL;
  dnnl_status_t status = dnnl->primitive_attr_create(out_attr);
  if (status == dnnl_success) status = dnnl->post_ops_create(&ops);
  if (status == dnnl_success && plan->kernel->has_sum)
    status = dnnl->post_ops_append_sum(ops, 1);
  const cpu_activation *act = &plan->activation;
  if (status == dnnl_success && act->relu)
    status = dnnl->post_ops_append_eltwise(ops, 1, dnnl_eltwise_relu, 0, 0);
  if (status == dnnl_success && act->clip)
    status = dnnl->post_ops_append_eltwise(ops, 1, dnnl_eltwise_clip, act->low,
                                           act->high);
  if (status == dnnl_success)
    status = dnnl->primitive_attr_set_post_ops(*out_attr, ops);
  if (status == dnnl_success)
    status = dnnl->primitive_attr_set_scratchpad_mode(
        *out_attr, dnnl_scratchpad_mode_user);
  if (ops) dnnl->post_ops_destroy(ops);
  return status;
}

/* Dims of the weights of one part, with the group in front where there is one.
 */
static int weight_dims(const conv_plan *plan, int64_t *dims) {
  int64_t outs =
      plan->y.dims[1] / (plan->kernel->by_image ? 1 : plan->kernel->parts);
  int at = 0;
  if (plan->group > 1) dims[at++] = plan->group;
  dims[at++] = outs / plan->group;
  dims[at++] = plan->w.dims[1];
  for (uint32_t i = 2; i < plan->w.rank; i++)
    dims[at++] = plan->w.dims[i];
  return at;
}

static dnnl_status_t describe_conv(conv_plan *plan,
                                   dnnl_primitive_desc_t *out_desc) {
  const cpu_dnnl *dnnl = plan->dnnl;
  kd_kernel *kernel = plan->kernel;
  const window *w = &plan->win;
  dnnl_memory_desc_t any_weights;
  dnnl_convolution_desc_t desc;
  dnnl_primitive_attr_t attr = NULL;
  dnnl_dims_t dims, dilation = {0}, outs = {0};
  int rank = weight_dims(plan, dims);
  outs[0] = plan->group > 1 ? dims[0] * dims[1] : dims[0];
  for (int i = 0; i < w->space; i++)
    dilation[i] = w->dilation[i] - 1;
  dnnl_status_t status = dnnl->memory_desc_init_by_tag(
      &any_weights, rank, dims, dnnl_f32, dnnl_format_tag_any);
  if (status == dnnl_success)
    status =
        dnnl->memory_desc_init_by_tag(&kernel->bias, 1, outs, dnnl_f32, dnnl_a);
  if (status == dnnl_success)
    status = dnnl->dilated_convolution_forward_desc_init(
        &desc, dnnl_forward_inference, dnnl_convolution_direct, &kernel->source,
        &any_weights, plan->has_bias ? &kernel->bias : NULL, &kernel->target,
        w->stride, dilation, w->begin, w->end);
  if (status == dnnl_success) status = conv_attributes(plan, &attr);
  if (status == dnnl_success)
    status =
        dnnl->primitive_desc_create(out_desc, &desc, attr, dnnl->engine, NULL);
  if (attr) dnnl->primitive_attr_destroy(attr);
  return status;
}

/* Brings the weights of all parts into the order that the primitive wants. */
static dnnl_status_t pack_weights(const conv_plan *plan,
                                  const kd_tensor *weights) {
  const cpu_dnnl *dnnl = plan->dnnl;
  kd_kernel *kernel = plan->kernel;
  static const dnnl_format_tag_t tags[] = {dnnl_abc, dnnl_abcd, dnnl_abcde,
                                           dnnl_abcdef};
  dnnl_dims_t dims;
  int rank = weight_dims(plan, dims);
  dnnl_memory_desc_t plain;
  dnnl_primitive_desc_t desc = NULL;
  dnnl_primitive_t reorder = NULL;
  uint64_t plain_size = weights->size;
  int64_t copies = kernel->by_image ? 1 : kernel->parts;
  plain_size /= (uint64_t)copies;
  dnnl_status_t status = dnnl->memory_desc_init_by_tag(
      &plain, rank, dims, dnnl_f32, tags[rank - 3]);
  kernel->packed = cpu_weights_alloc(kernel->weights_size * (uint64_t)copies);
  if (status == dnnl_success && !kernel->packed) status = dnnl_out_of_memory;
  if (status == dnnl_success)
    status = dnnl->reorder_primitive_desc_create(
        &desc, &plain, dnnl->engine, &kernel->weights, dnnl->engine, NULL);
  if (status == dnnl_success) status = dnnl->primitive_create(&reorder, desc);
  for (int64_t i = 0; i < copies && status == dnnl_success; i++) {
    dnnl_memory_t from = NULL, to = NULL;
    char *source = (char *)weights->data + (uint64_t)i * plain_size;
    char *target = (char *)kernel->packed + (uint64_t)i * kernel->weights_size;
    status = dnnl->memory_create(&from, &plain, dnnl->engine, source);
    if (status == dnnl_success)
      status = dnnl->memory_create(&to, &kernel->weights, dnnl->engine, target);
    dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
    if (status == dnnl_success)
      status = dnnl->primitive_execute(reorder, dnnl->stream, 2, args);
    if (from) dnnl->memory_destroy(from);
    if (to) dnnl->memory_destroy(to);
  }
  if (reorder) dnnl->primitive_destroy(reorder);
  if (desc) dnnl->primitive_desc_destroy(desc);
  return status;
}

/* Descriptions of one part's tensors, and the steps between parts. */
static kd_status describe_parts(const cpu_dnnl *dnnl, kd_kernel *kernel,
                                const kd_type *x, const kd_type *y,
                                bool source_channels) {
  dnnl_dims_t in = {0}, out = {0};
  for (uint32_t i = 0; i < x->rank; i++) {
    in[i] = x->dims[i];
    out[i] = y->dims[i];
  }
  int64_t parts = kernel->parts;
  if (kernel->by_image) {
    in[0] /= parts;
    out[0] /= parts;
  } else {
    out[1] /= parts;
    if (source_channels) in[1] /= parts;
  }
  kd_status status =
      describe(dnnl, x->rank, in, is_blocked(x), &kernel->source);
  if (status == KD_OK)
    status = describe(dnnl, y->rank, out, is_blocked(y) || source_channels,
                      &kernel->target);
  kernel->source_step = kernel->by_image || source_channels
                            ? (uint64_t)product(in, 0, x->rank) * sizeof(float)
                            : 0;
  kernel->target_step = (uint64_t)product(out, 0, y->rank) * sizeof(float);
  return status;
}

static void note_sizes(const cpu_dnnl *dnnl, kd_kernel *kernel,
                       dnnl_primitive_desc_t desc) {
  const dnnl_memory_desc_t *scratch =
      dnnl->primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0);
  kernel->scratch_size =
      scratch ? (dnnl->memory_desc_get_size(scratch) + 63) & ~UINT64_C(63) : 0;
}

/* What a node asks for, in parts that suit the threads. */
static kd_status read_plan(const kd_node *node, conv_plan *plan) {
  const kd_node_table *read = cpu_host->node;
  kd_type other;
  plan->group = read->attr_int(node, "group", 1);
  read->input_type(node, 0, &plan->x);
  read->input_type(node, 1, &plan->w);
  read->output_type(node, 0, &plan->y);
  plan->has_bias = read->input_type(node, 2, &other) == KD_OK;
  plan->kernel->has_sum = read->input_type(node, 3, &other) == KD_OK;
  choose_parts(plan->kernel, plan->x.dims[0], plan->y.dims[1], plan->group);
  kd_status status = cpu_read_activation(node, &plan->activation);
  if (status == KD_OK)
    status =
        describe_parts(plan->dnnl, plan->kernel, &plan->x, &plan->y, false);
  if (status != KD_OK) return status;
  return node_window(node, &plan->x, &plan->y, plan->w.dims + 2, &plan->win)
             ? KD_OK
             : FAIL(KD_UNIMPLEMENTED, "too many dimensions");
}

/* Whether oneDNN has code for it, not just the loop that it checks others against. */
static bool is_fast(const kd_node *node) {
  kd_kernel kernel = {0};
  conv_plan plan = {.dnnl = cpu_dnnl_get(), .kernel = &kernel};
  dnnl_primitive_desc_t desc = NULL;
  const char *name = NULL;
  if (read_plan(node, &plan) != KD_OK ||
      describe_conv(&plan, &desc) != dnnl_success)
    return false;
  plan.dnnl->primitive_desc_query(desc, dnnl_query_impl_info_str, 0,
                                  (void *)&name);
  bool fast = name && !strstr(name, "ref");
  plan.dnnl->primitive_desc_destroy(desc);
  return fast;
}

kd_status cpu_supports_conv(kd_device *device, const kd_node *node) {
  const kd_node_table *read = cpu_host->node;
  kd_type x, w, y;
  kd_tensor weights;
  (void)device;
  if (read->input_type(node, 0, &x) != KD_OK ||
      read->input_type(node, 1, &w) != KD_OK ||
      read->output_type(node, 0, &y) != KD_OK || x.rank < 3 || x.rank > 5)
    return KD_UNIMPLEMENTED;
  if (!is_blocked(&y) || read->constant(node, 1, &weights) != KD_OK ||
      !cpu_dnnl_get())
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

kd_status cpu_create_conv(kd_device *device, const kd_kernel_def *def,
                          const kd_node *node, kd_kernel **out_kernel) {
  const kd_node_table *read = cpu_host->node;
  kd_tensor weights;
  (void)device;
  (void)def;
  conv_plan plan = {.dnnl = cpu_dnnl_get(),
                    .kernel = calloc(1, sizeof *plan.kernel)};
  if (!plan.kernel || !plan.dnnl) {
    free(plan.kernel);
    return FAIL(KD_OUT_OF_MEMORY, "no memory for a convolution");
  }
  kd_status status = read_plan(node, &plan);
  dnnl_primitive_desc_t desc = NULL;
  dnnl_status_t made = dnnl_unimplemented;
  if (status == KD_OK) status = read->constant(node, 1, &weights);
  if (status == KD_OK) made = describe_conv(&plan, &desc);
  if (status == KD_OK && made == dnnl_success)
    made = plan.dnnl->primitive_create(&plan.kernel->primitive, desc);
  if (status == KD_OK && made == dnnl_success) {
    plan.kernel->weights =
        *plan.dnnl->primitive_desc_query_md(desc, dnnl_query_weights_md, 0);
    plan.kernel->weights_size =
        plan.dnnl->memory_desc_get_size(&plan.kernel->weights);
    plan.kernel->bias_size =
        plan.dnnl->memory_desc_get_size(&plan.kernel->bias);
    note_sizes(plan.dnnl, plan.kernel, desc);
    made = pack_weights(&plan, &weights);
  }
  if (desc) plan.dnnl->primitive_desc_destroy(desc);
  if (status == KD_OK && made != dnnl_success)
    status = FAIL(KD_INTERNAL, "oneDNN makes no such convolution (status %d)",
                  (int)made);
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

/* ---- running --------------------------------------------------------------------- */

uint64_t cpu_blocked_workspace(kd_kernel *kernel, const kd_launch *launch) {
  (void)launch;
  return kernel->scratch_size * (uint64_t)kernel->parts;
}

typedef struct parts_work {
  const kd_kernel *kernel;
  const kd_launch *launch;
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
                         const dnnl_memory_desc_t *desc, void *data) {
  dnnl_memory_t memory = NULL;
  if (args->status == dnnl_success)
    args->status =
        args->dnnl->memory_create(&memory, desc, args->dnnl->engine, data);
  if (args->status == dnnl_success)
    args->list[args->count++] = (dnnl_exec_arg_t){kind, memory};
}

static void run_part(parts_work *work, int64_t i) {
  const kd_kernel *kernel = work->kernel;
  const kd_launch *launch = work->launch;
  arguments args = {.dnnl = cpu_dnnl_get(), .status = dnnl_success};
  uint64_t part = (uint64_t)i, channels = kernel->by_image ? 0 : part;
  char *target = (char *)launch->outputs[0].data + part * kernel->target_step;
  add_argument(&args, DNNL_ARG_SRC, &kernel->source,
               (char *)launch->inputs[0].data + part * kernel->source_step);
  add_argument(&args, DNNL_ARG_DST, &kernel->target, target);
  if (work->conv) {
    add_argument(&args, DNNL_ARG_WEIGHTS, &kernel->weights,
                 (char *)kernel->packed + channels * kernel->weights_size);
    if (kd_has_input(launch, 2))
      add_argument(
          &args, DNNL_ARG_BIAS, &kernel->bias,
          (char *)launch->inputs[2].data + channels * kernel->bias_size);
    if (kernel->has_sum && launch->inputs[3].data != launch->outputs[0].data)
      memcpy(target,
             (char *)launch->inputs[3].data + part * kernel->target_step,
             kernel->target_step);
  }
  dnnl_dims_t bytes = {(int64_t)kernel->scratch_size};
  dnnl_memory_desc_t scratch;
  if (bytes[0] && args.status == dnnl_success) {
    args.status =
        args.dnnl->memory_desc_init_by_tag(&scratch, 1, bytes, dnnl_u8, dnnl_a);
    add_argument(&args, DNNL_ARG_SCRATCHPAD, &scratch,
                 (char *)launch->workspace.data + part * kernel->scratch_size);
  }
  if (args.status == dnnl_success)
    args.status = args.dnnl->primitive_execute(
        kernel->primitive, args.dnnl->stream, args.count, args.list);
  for (int k = 0; k < args.count; k++)
    args.dnnl->memory_destroy(args.list[k].memory);
  if (args.status != dnnl_success)
    atomic_store(&work->failed, (int)args.status);
}

static void run_parts(void *context, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; i++)
    run_part(context, i);
}

static kd_status run_all(const kd_kernel *kernel, const kd_launch *launch,
                         bool conv) {
  parts_work work = {kernel, launch, conv, 0};
  cpu_host->parallel_for(cpu_host, kernel->parts, 1, run_parts, &work);
  return work.failed
             ? FAIL(KD_INTERNAL, "oneDNN fails with status %d", work.failed)
             : KD_OK;
}

CPU_KERNEL(cpu_run_conv_blocked) {
  (void)stream;
  return run_all(self, launch, true);
}

CPU_KERNEL(cpu_run_pool_blocked) {
  (void)stream;
  return run_all(self, launch, false);
}

/* ---- pooling ----------------------------------------------------------------------- */

kd_status cpu_supports_pool(kd_device *device, const kd_node *node) {
  const kd_node_table *read = cpu_host->node;
  kd_type x, y;
  (void)device;
  if (read->output_count(node) != 1 || read->input_type(node, 0, &x) != KD_OK ||
      read->output_type(node, 0, &y) != KD_OK || x.rank < 3 || x.rank > 5 ||
      !is_blocked(&x) || !cpu_dnnl_get())
    return KD_UNIMPLEMENTED;
  /* without space, both layouts are the same */
  if (!is_blocked(&y) && product(y.dims, 2, y.rank) != 1)
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

kd_status cpu_create_pool(kd_device *device, const kd_kernel_def *def,
                          const kd_node *node, kd_kernel **out_kernel) {
  const kd_node_table *read = cpu_host->node;
  const cpu_dnnl *dnnl = cpu_dnnl_get();
  kd_kernel *kernel = calloc(1, sizeof *kernel);
  kd_type x, y;
  window w;
  (void)device;
  (void)def;
  if (!kernel || !dnnl) {
    free(kernel);
    return FAIL(KD_OUT_OF_MEMORY, "no memory for a pooling");
  }
  read->input_type(node, 0, &x);
  read->output_type(node, 0, &y);
  pool_window(node, &x, &y, &w);
  choose_parts(kernel, x.dims[0], y.dims[1], 1);
  kd_status status = describe_parts(dnnl, kernel, &x, &y, true);
  bool average = strstr(read->op(node), "Average") != NULL;
  dnnl_alg_kind_t kind = !average ? dnnl_pooling_max
                         : read->attr_int(node, "count_include_pad", 0)
                             ? dnnl_pooling_avg_include_padding
                             : dnnl_pooling_avg_exclude_padding;
  dnnl_pooling_v2_desc_t desc;
  dnnl_primitive_desc_t made = NULL;
  dnnl_primitive_attr_t attr = NULL;
  dnnl_status_t result = dnnl_unimplemented;
  if (status == KD_OK)
    result = dnnl->pooling_v2_forward_desc_init(
        &desc, dnnl_forward_inference, kind, &kernel->source, &kernel->target,
        w.stride, w.kernel, w.dilation, w.begin, w.end);
  if (result == dnnl_success) result = dnnl->primitive_attr_create(&attr);
  if (result == dnnl_success)
    result = dnnl->primitive_attr_set_scratchpad_mode(
        attr, dnnl_scratchpad_mode_user);
  if (result == dnnl_success)
    result =
        dnnl->primitive_desc_create(&made, &desc, attr, dnnl->engine, NULL);
  if (result == dnnl_success) {
    note_sizes(dnnl, kernel, made);
    result = dnnl->primitive_create(&kernel->primitive, made);
  }
  if (attr) dnnl->primitive_attr_destroy(attr);
  if (made) dnnl->primitive_desc_destroy(made);
  if (result != dnnl_success) {
    destroy_parts(dnnl, kernel);
    return FAIL(KD_INTERNAL, "oneDNN makes no such pooling (status %d)",
                (int)result);
  }
  *out_kernel = kernel;
  return KD_OK;
}

/* ---- channels that are scaled --------------------------------------------------------- */

/* The input of a Mul that is blocked, where the other has one element a channel; else 2. */
static uint32_t scaled_input(const kd_node *node) {
  kd_type in[2];
  for (uint32_t i = 0; i < 2; i++)
    if (cpu_host->node->input_type(node, i, &in[i]) != KD_OK ||
        in[i].dtype != KD_F32)
      return 2;
  if (in[0].rank != in[1].rank || in[0].rank < 3) return 2;
  for (uint32_t i = 0; i < 2; i++) {
    const kd_type *x = &in[i], *by = &in[1 - i];
    if (is_blocked(x) && by->dims[1] == x->dims[1] && is_point(by) &&
        (by->dims[0] == x->dims[0] || by->dims[0] == 1))
      return i;
  }
  return 2;
}

static uint32_t scale_prefers(const kd_node *node, uint32_t argument) {
  uint32_t scaled = scaled_input(node);
  return scaled < 2 && (argument == scaled || argument == 2)
             ? BLOCKED
             : KD_LAYOUT_ROW_MAJOR;
}

kd_status cpu_supports_scale(kd_device *device, const kd_node *node) {
  uint32_t scaled = scaled_input(node);
  kd_type by, y;
  (void)device;
  return scaled < 2 &&
                 cpu_host->node->input_type(node, 1 - scaled, &by) == KD_OK &&
                 cpu_host->node->output_type(node, 0, &y) == KD_OK &&
                 !is_blocked(&by) && is_blocked(&y)
             ? KD_OK
             : KD_UNIMPLEMENTED;
}

typedef struct scale_work {
  const float *x, *by;
  float *y;
  int64_t space, block, blocks; /* blocks: of an image */
  bool each_image;
} scale_work;

static void scale_blocks(void *context, int64_t begin, int64_t end) {
  const scale_work *work = context;
  int64_t b = work->block;
  for (int64_t i = begin; i < end; i++) {
    const float *by = work->by + (work->each_image ? i : i % work->blocks) * b;
    const float *x = work->x + i * work->space * b;
    float *y = work->y + i * work->space * b;
    if (b == 16)
      for (int64_t s = 0; s < work->space; s++)
        for (int64_t c = 0; c < 16; c++)
          y[s * 16 + c] = x[s * 16 + c] * by[c];
    else
      for (int64_t s = 0; s < work->space; s++)
        for (int64_t c = 0; c < 8; c++)
          y[s * 8 + c] = x[s * 8 + c] * by[c];
  }
}

CPU_KERNEL(cpu_run_scale_blocked) {
  (void)self;
  (void)stream;
  uint32_t scaled = launch->inputs[0].layout == BLOCKED ? 0 : 1;
  const kd_tensor *x = &launch->inputs[scaled];
  const kd_tensor *by = &launch->inputs[1 - scaled];
  scale_work work = {.x = x->data,
                     .by = by->data,
                     .y = launch->outputs[0].data,
                     .space = product(x->dims, 2, x->rank),
                     .block = block_of(),
                     .blocks = x->dims[1] / block_of(),
                     .each_image = by->dims[0] > 1};
  cpu_host->parallel_for(cpu_host, x->dims[0] * work.blocks,
                         CPU_GRAIN / (work.space * work.block) + 1,
                         scale_blocks, &work);
  return KD_OK;
}

/* ---- the layout ----------------------------------------------------------------------- */

uint64_t cpu_layout_size(kd_device *device, const kd_type *type) {
  (void)device;
  if (!cpu_isa() || type->layout != BLOCKED || type->dtype != KD_F32 ||
      type->rank < 3 || type->rank > 5)
    return 0;
  uint64_t size = sizeof(float);
  for (uint32_t i = 0; i < type->rank; i++)
    if (type->dims[i] < 1 ||
        __builtin_mul_overflow(size, (uint64_t)type->dims[i], &size))
      return 0;
  return type->dims[1] % block_of() ? 0 : size;
}

static bool can_block(kd_type type) {
  type.layout = BLOCKED;
  return cpu_layout_size(NULL, &type) > 0;
}

/* A convolution that looks at more than a point, or at single channels. What it does to
 * each element is worth that rows are brought into blocks first. */
static bool has_windows(const kd_node *node) {
  kd_type w;
  int64_t taps = 1;
  if (cpu_host->node->input_type(node, 1, &w) != KD_OK) return false;
  for (uint32_t i = 2; i < w.rank; i++)
    taps *= w.dims[i];
  return taps > 1 || cpu_host->node->attr_int(node, "group", 1) > 1;
}

/* x: input 0 as it lies, or will. */
static uint32_t conv_prefers(const kd_node *node, uint32_t argument, kd_type x,
                             kd_type y) {
  bool takes_rows = x.dims[1] == 1 || x.dims[1] == 3;
  bool fits = can_block(y) && (is_blocked(&x) || takes_rows);
  if (argument == 0)
    return is_blocked(&x) || (can_block(x) && can_block(y) && has_windows(node))
               ? BLOCKED
               : KD_LAYOUT_ROW_MAJOR;
  bool sum = argument == 3 && argument < cpu_host->node->input_count(node);
  bool out = argument == cpu_host->node->input_count(node);
  return fits && (sum || out) ? BLOCKED : KD_LAYOUT_ROW_MAJOR;
}

uint32_t cpu_layout_preferred(kd_device *device, const kd_node *node,
                              uint32_t argument) {
  const kd_node_table *read = cpu_host->node;
  kd_type x, y;
  (void)device;
  if (read->input_type(node, 0, &x) != KD_OK ||
      read->output_type(node, 0, &y) != KD_OK || x.rank < 3 || x.rank > 5 ||
      x.dtype != KD_F32)
    return KD_LAYOUT_ROW_MAJOR;
  if (!strcmp(read->op(node), "Mul")) return scale_prefers(node, argument);
  if (strstr(read->op(node), "Conv"))
    return is_point(&x) && is_point(&y) ? KD_LAYOUT_ROW_MAJOR
                                        : conv_prefers(node, argument, x, y);
  if (!is_blocked(&x)) return KD_LAYOUT_ROW_MAJOR;
  return argument == 0 || (argument == 1 && !is_point(&y) && can_block(y))
             ? BLOCKED
             : KD_LAYOUT_ROW_MAJOR;
}

typedef struct reorder_work {
  const float *from;
  float *to;
  int64_t space, block;
  bool to_blocked;
} reorder_work;

/* One block of channels: a [block, space] matrix and its transpose. */
static void reorder_blocks(void *context, int64_t begin, int64_t end) {
  const reorder_work *work = context;
  const cpu_tiles *tiles = cpu_tiles_get();
  int64_t n = work->space, b = work->block;
  for (int64_t i = begin; i < end; i++) {
    const float *from = work->from + i * n * b;
    float *to = work->to + i * n * b;
    if (work->to_blocked)
      tiles->turn(from, n, b, n, to, b);
    else
      tiles->turn(from, b, n, b, to, n);
  }
}

/* own: which of the two states the layout. */
static kd_status reorder(const kd_tensor *x, const kd_tensor *y,
                         const kd_tensor *own) {
  const kd_type type = {.dims = own->dims,
                        .dtype = own->dtype,
                        .rank = own->rank,
                        .layout = own->layout};
  if (!cpu_layout_size(NULL, &type))
    return FAIL(KD_UNIMPLEMENTED, "the CPU has no layout %#x for this type",
                own->layout);
  reorder_work work = {.from = x->data,
                       .to = y->data,
                       .space = product(x->dims, 2, x->rank),
                       .block = block_of(),
                       .to_blocked = own == y};
  cpu_host->parallel_for(cpu_host, kd_elements(x) / (work.space * work.block),
                         CPU_GRAIN / (work.space * work.block) + 1,
                         reorder_blocks, &work);
  return KD_OK;
}

kd_status cpu_layout_from_rows(kd_device *device, kd_stream *stream,
                               const kd_tensor *source,
                               const kd_tensor *target) {
  (void)device;
  (void)stream;
  return reorder(source, target, target);
}

kd_status cpu_layout_to_rows(kd_device *device, kd_stream *stream,
                             const kd_tensor *source, const kd_tensor *target) {
  (void)device;
  (void)stream;
  return reorder(source, target, source);
}
