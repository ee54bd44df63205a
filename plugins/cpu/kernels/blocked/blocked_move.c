/* blocked_move.c - ops that move whole blocks of channels: Concat and Slice along the channels,
 * one copy a block; and which Resize works on blocks. */
#include "blocked.h"
#include "kernels.h"

/* ---- channels that are joined --------------------------------------------------------- */

/* Whether a Concat joins whole blocks: along the channels, and the last input alone may have
 * a block that is filled up. */
static bool joins_blocks(const kd_node *node) {
  const kd_node_table *read = cpu_host->node;
  uint32_t count = read->input_count(node);
  kd_type x;
  for (uint32_t i = 0; i < count; i++) {
    if (read->input_type(node, i, &x) != KD_OK || x.dtype != KD_F32 ||
        x.rank < 3 || (i + 1 < count && x.dims[1] % cpu_block() != 0))
      return false;
    x.layout = BLOCKED;
    if (!cpu_layout_size(NULL, &x)) return false;
  }
  int64_t axis = read->attr_int(node, "axis", 1);
  return count > 0 && (axis == 1 || axis == 1 - (int64_t)x.rank);
}

/* Blocks, if half of what is joined lies in them already: the rest is less to bring. */
uint32_t cpu_join_prefers(const kd_node *node) {
  const kd_node_table *read = cpu_host->node;
  int64_t blocked = 0, all = 0;
  if (!joins_blocks(node)) return KD_LAYOUT_ROW_MAJOR;
  for (uint32_t i = 0; i < read->input_count(node); i++) {
    kd_type x;
    if (read->input_type(node, i, &x) != KD_OK) return KD_LAYOUT_ROW_MAJOR;
    all += x.dims[1];
    if (is_blocked(&x)) blocked += x.dims[1];
  }
  return 2 * blocked >= all ? BLOCKED : KD_LAYOUT_ROW_MAJOR;
}

CPU_SUPPORTS(join) {
  const kd_node_table *read = cpu_host->node;
  kd_type type;
  if (!joins_blocks(node) || read->output_type(node, 0, &type) != KD_OK ||
      !is_blocked(&type))
    return KD_UNIMPLEMENTED;
  for (uint32_t i = 0; i < read->input_count(node); i++)
    if (read->input_type(node, i, &type) != KD_OK || !is_blocked(&type))
      return KD_UNIMPLEMENTED;
  return KD_OK;
}

typedef struct join_work {
  const kd_launch *launch;
  int64_t plane, blocks; /* elements of a block; blocks of an image */
} join_work;

static void join_blocks(void *context, int64_t begin, int64_t end) {
  const join_work *work = context;
  const kd_launch *launch = work->launch;
  float *y = launch->outputs[0].data;
  for (int64_t i = begin; i < end; i++) {
    int64_t image = i / work->blocks, at = i % work->blocks, count = 0;
    const kd_tensor *x = launch->inputs;
    for (;; x++, at -= count) {
      count = cpu_filled(x->dims[1]) / cpu_block();
      if (at < count) break;
    }
    memcpy(y + i * work->plane,
           (const float *)x->data + (image * count + at) * work->plane,
           (size_t)work->plane * sizeof *y);
  }
}

CPU_KERNEL(cpu_run_concat_blocked) {
  const kd_tensor *y = &launch->outputs[0];
  join_work work = {.launch = launch,
                    .plane = product(y->dims, 2, y->rank) * cpu_block(),
                    .blocks = cpu_filled(y->dims[1]) / cpu_block()};
  cpu_host->parallel_for(cpu_host, y->dims[0] * work.blocks,
                         CPU_GRAIN / work.plane + 1, join_blocks, &work);
  return KD_OK;
}

/* Whether input 0 and the output do. */
static bool lie_in_blocks(const kd_node *node) {
  kd_type x, y;
  return cpu_host->node->input_type(node, 0, &x) == KD_OK &&
         cpu_host->node->output_type(node, 0, &y) == KD_OK && is_blocked(&x) &&
         is_blocked(&y);
}

/* ---- channels that are cut out ---------------------------------------------------------- */

/* Constants of integers that a node has as input `input`; false: not so. `count`: how many
 * there are; if the input is not there, -1. */
static bool read_integers(const kd_node *node, uint32_t input, int64_t *list,
                          int64_t *out_count) {
  const kd_node_table *read = cpu_host->node;
  kd_type type;
  kd_tensor tensor;
  *out_count = -1;
  if (input >= read->input_count(node) ||
      read->input_type(node, input, &type) != KD_OK)
    return true;
  if (read->constant(node, input, &tensor) != KD_OK) return false;
  *out_count = kd_elements(&tensor);
  if (*out_count > KD_MAX_RANK) return false;
  for (int64_t i = 0; i < *out_count; i++)
    list[i] = int_at(&tensor, i);
  return true;
}

/* Whether a Slice takes whole blocks of channels, and all of the other dimensions. */
static bool cuts_blocks(const kd_node *node) {
  int64_t starts[KD_MAX_RANK], axes[KD_MAX_RANK], steps[KD_MAX_RANK];
  int64_t count = 0, axis_count = 0, step_count = 0;
  kd_type x, y;
  if (cpu_host->node->input_type(node, 0, &x) != KD_OK ||
      cpu_host->node->output_type(node, 0, &y) != KD_OK || x.dtype != KD_F32 ||
      !read_integers(node, 1, starts, &count) ||
      !read_integers(node, 3, axes, &axis_count) ||
      !read_integers(node, 4, steps, &step_count))
    return false;
  for (uint32_t d = 0; d < x.rank; d++)
    if (d != 1 && y.dims[d] != x.dims[d]) return false;
  for (int64_t i = 0; i < count; i++) {
    int64_t axis = axis_count < 0 ? i : axes[i], start = starts[i];
    int64_t size = x.dims[1];
    if (step_count >= 0 && steps[i] != 1) return false;
    if (axis != 1 && axis != 1 - (int64_t)x.rank) continue;
    start += start < 0 ? size : 0;
    start = start < 0 ? 0 : start;
    if (start % cpu_block() ||
        (y.dims[1] % cpu_block() && start + y.dims[1] != size))
      return false;
  }
  return true;
}

CPU_SUPPORTS(cut) {
  return lie_in_blocks(node) && cuts_blocks(node) ? KD_OK : KD_UNIMPLEMENTED;
}

typedef struct cut_work {
  const float *x;
  float *y;
  int64_t plane; /* elements of a block */
  int64_t from, image,
      count; /* blocks: to the first; of x's and of y's image */
} cut_work;

static void cut_blocks(void *context, int64_t begin, int64_t end) {
  const cut_work *work = context;
  for (int64_t i = begin; i < end; i++) {
    int64_t at = i / work->count * work->image + work->from + i % work->count;
    memcpy(work->y + i * work->plane, work->x + at * work->plane,
           (size_t)work->plane * sizeof *work->y);
  }
}

CPU_KERNEL(cpu_run_slice_blocked) {
  const kd_tensor *x = &launch->inputs[0], *y = &launch->outputs[0];
  int64_t block = cpu_block(), start = 0;
  for (int64_t i = 0; i < kd_elements(&launch->inputs[1]); i++) {
    int64_t axis = kd_has_input(launch, 3) ? int_at(&launch->inputs[3], i) : i;
    if (axis_of(axis, x->rank) == 1) start = int_at(&launch->inputs[1], i);
  }
  start += start < 0 ? x->dims[1] : 0;
  cut_work work = {.x = x->data,
                   .y = y->data,
                   .plane = product(y->dims, 2, y->rank) * block,
                   .from = (start < 0 ? 0 : start) / block,
                   .image = cpu_filled(x->dims[1]) / block,
                   .count = cpu_filled(y->dims[1]) / block};
  cpu_host->parallel_for(cpu_host, y->dims[0] * work.count,
                         CPU_GRAIN / (work.plane + 1) + 1, cut_blocks, &work);
  return KD_OK;
}

/* ---- images of another size --------------------------------------------------------------- */

/* Whether a Resize leaves images and channels as they are. */
static bool resizes_space(const kd_node *node) {
  const kd_node_table *read = cpu_host->node;
  kd_type x, y, type;
  kd_tensor scales;
  if (read->input_type(node, 0, &x) != KD_OK ||
      read->output_type(node, 0, &y) != KD_OK || x.dtype != KD_F32 ||
      x.dims[0] != y.dims[0] || x.dims[1] != y.dims[1] ||
      !strcmp(read->attr_string(node, "coordinate_transformation_mode", ""),
              "tf_crop_and_resize") ||
      strcmp(read->attr_string(node, "keep_aspect_ratio_policy", "stretch"),
             "stretch") != 0)
    return false;
  if (read->input_count(node) < 3 || read->input_type(node, 2, &type) != KD_OK)
    return true; /* by sizes */
  if (read->constant(node, 2, &scales) != KD_OK) return false;
  const int64_t *axes = NULL;
  int64_t axis_count = read->attr_ints(node, "axes", &axes);
  for (int64_t i = 0; i < kd_elements(&scales); i++) {
    int64_t axis = axis_count < 0 ? i : i < axis_count ? axes[i] : 0;
    axis += axis < 0 ? x.rank : 0;
    if (axis < 2 && cpu_get(scales.data, scales.dtype, i) != 1) return false;
  }
  return true;
}

CPU_SUPPORTS(resize) {
  return lie_in_blocks(node) && resizes_space(node) ? KD_OK : KD_UNIMPLEMENTED;
}

/* As it comes; a Resize that makes more of rows makes it in blocks, where those are wanted. */
uint32_t cpu_move_prefers(const kd_node *node, uint32_t argument) {
  const kd_node_table *read = cpu_host->node;
  kd_type x, y;
  bool resize = !strcmp(read->op(node), "Resize");
  if (argument != 0 && argument != read->input_count(node))
    return KD_LAYOUT_ROW_MAJOR;
  if (read->input_type(node, 0, &x) != KD_OK ||
      read->output_type(node, 0, &y) != KD_OK || !cpu_can_block(x) ||
      !cpu_can_block(y) || !(resize ? resizes_space(node) : cuts_blocks(node)))
    return KD_LAYOUT_ROW_MAJOR;
  bool grows =
      resize && product(y.dims, 2, y.rank) >= 2 * product(x.dims, 2, x.rank);
  return is_blocked(&x) || grows ? BLOCKED : KD_LAYOUT_ROW_MAJOR;
}
