/* parts.c - slices, transposes and their kin that kernels read where they lie.
 *
 * Where all that read the result are kernels of the device that made its source, and take
 * strides (KD_KERNEL_STRIDED) and any begin (KD_KERNEL_ANY_OFFSET) where the part has such,
 * keel::Part stands in the op's place: the source's memory, seen otherwise. What is apart is
 * read once only, as a copy would be; what is packed, as often as one likes. */
#include <kd/help.h>

#include "device/device.h"
#include "eager/call_site.h"
#include "ops/registry.h"
#include "passes/parts.h"
#include "passes/passes.h"

typedef struct keel_parts {
  keel_function *function;
  keel_device *device; /* of nodes that name none */
  uint32_t values;     /* those that there were before */
  keel_uses uses;
} parts;

const keel_type *keel_parts_type(const parts *all, uint32_t value) {
  const keel_type *type =
      value < all->values ? all->function->values[value].type : NULL;
  return type && keel_type_known(type) ? type : NULL;
}

/* ---- the part ------------------------------------------------------------------- */

static void parts_pack(keel_strides *p, const keel_type *type) {
  int64_t step = 1;
  *p = (keel_strides){.rank = type->rank};
  for (uint32_t i = type->rank; i-- > 0; step *= type->dims[i])
    p->strides[i] = step;
}

/* All of a node's first input. */
static void take_source(const parts *all, const keel_node *node,
                        const keel_type *in, keel_strides *out) {
  const int64_t *strides = NULL;
  bool first = true;
  parts_pack(out, in);
  for (uint32_t value = node->inputs[0];; first = false) {
    uint32_t maker = all->function->values[value].producer;
    const keel_node *from =
        maker == KEEL_ABSENT ? NULL : &all->function->nodes[maker];
    if (!from || !from->part) return;
    out->begin += keel_attr_int(from->op, "offset", 0);
    if (first) keel_attr_ints(from->op, "strides", &strides);
    for (uint32_t i = 0; first && strides && i < in->rank; i++)
      out->strides[i] = strides[i];
    value = from->inputs[0];
  }
}

int64_t keel_parts_ints(const parts *all, const keel_node *node, uint32_t input,
                        int64_t *out_values, uint32_t capacity) {
  if (input >= node->input_count || node->inputs[input] == KEEL_ABSENT)
    return 0;
  const keel_tensor *tensor =
      all->function->values[node->inputs[input]].constant;
  const void *data = tensor ? keel_tensor_host_data(tensor) : NULL;
  if (!data || tensor->type->rank > 1 ||
      tensor->type->elements > (int64_t)capacity ||
      (tensor->type->dtype != KD_I64 && tensor->type->dtype != KD_I32))
    return -1;
  for (int64_t i = 0; i < tensor->type->elements; i++)
    out_values[i] = tensor->type->dtype == KD_I64 ? ((const int64_t *)data)[i]
                                                  : ((const int32_t *)data)[i];
  return tensor->type->elements;
}

/* Output `index` of a node, as a part of its first input. */
static bool find_part(const parts *all, const keel_node *node, uint32_t index,
                      keel_strides *out) {
  const keel_type *in = keel_parts_type(all, node->inputs[0]),
                  *to = keel_parts_type(all, node->outputs[index]);
  if (!in || !to || !kd_dtype_size(in->dtype) || !to->elements) return false;
  take_source(all, node, in, out);
  const keel_schema *schema = node->op->schema;
  return !node->dead && schema->view && schema->view(all, node, index, out);
}

static bool parts_is_packed(const keel_strides *p, const keel_type *type) {
  int64_t step = 1;
  for (uint32_t i = type->rank; i-- > 0; step *= type->dims[i])
    if (type->dims[i] != 1 && p->strides[i] != step) return false;
  return true;
}

/* ---- readers -------------------------------------------------------------------- */

/* Whether an output must lie where the input does. */
static bool is_written_to(const kd_kernel_def *def, uint32_t input) {
  for (uint32_t i = 0; i < def->alias_count; i++)
    if (def->aliases[i].input == input &&
        (def->aliases[i].flags & KD_ALIAS_MUST))
      return true;
  return false;
}

/* The device that a node runs on, and its kernel's flags for an input; NULL: it is not a kernel,
 * reads the input on the host, or is not known yet. */
static keel_device *reader_of(const parts *all, const keel_node *node,
                              uint32_t value, uint32_t *out_flags) {
  keel_device *wanted = node->device ? node->device : all->device;
  keel_device *device = NULL;
  const kd_kernel_def *def = NULL;
  keel_view view;
  if (keel_schema_hosted(node->op->schema) || node->region || !wanted)
    return NULL;
  bool known = keel_view_make(all->function, node, &view) &&
               keel_choose_kernel(all->function->context, wanted, &view.node,
                                  node->name, &device, &def) == KD_OK;
  keel_view_drop(&view);
  for (uint32_t i = 0; known && i < node->input_count; i++)
    if (node->inputs[i] == value &&
        (i >= 32 || (def->host_inputs >> i & 1) || is_written_to(def, i)))
      known = false;
  *out_flags = def ? def->flags : 0;
  return known ? device : NULL;
}

/* Whether all readers of a value, which node `maker` makes, are kernels of `device` with
 * these flags. */
static bool all_take(const parts *all, uint32_t maker, uint32_t value,
                     const keel_device *device, uint32_t needed) {
  uint32_t left = all->uses.counts[value], flags = 0;
  bool any = left > 0;
  for (uint32_t i = maker + 1; left && i < all->function->node_count; i++) {
    const keel_node *node = &all->function->nodes[i];
    uint32_t own = 0;
    for (uint32_t k = 0; !node->dead && k < node->input_count; k++)
      own += node->inputs[k] == value;
    if (!own) continue;
    left -= own;
    if (reader_of(all, node, value, &flags) != device ||
        (flags & needed) != needed)
      return false;
  }
  return any && !left; /* the remaining one is an output of the function */
}

/* Whether an output of node `maker` can be a part. */
static bool may_be_part(const parts *all, uint32_t maker, uint32_t index,
                        const keel_device *device) {
  const keel_node *node = &all->function->nodes[maker];
  uint32_t value = node->outputs[index], needed = 0;
  keel_strides p;
  if (value == KEEL_ABSENT || !find_part(all, node, index, &p)) return false;
  const keel_type *type = keel_parts_type(all, value);
  uint64_t begin = (uint64_t)(p.begin + p.offset) * kd_dtype_size(type->dtype);
  uint32_t alignment = device->space.alignment ? device->space.alignment : 64;
  if (begin % alignment) needed |= KD_KERNEL_ANY_OFFSET;
  if (!parts_is_packed(&p, type)) {
    needed |= KD_KERNEL_STRIDED;
    if (all->uses.counts[value] > 1) return false;
  }
  return all_take(all, maker, value, device, needed);
}

/* ---- the pass ------------------------------------------------------------------- */

static keel_status add_part(parts *all, uint32_t index, uint32_t output,
                            keel_device *device) {
  keel_function *function = all->function;
  const keel_node *from = &function->nodes[index];
  uint32_t source = from->inputs[0], value = from->outputs[output];
  const char *name = from->name;
  const keel_type *type = function->values[value].type;
  keel_strides p;
  find_part(all, from, output, &p);
  const keel_attr attrs[] = {
      {.name = "offset", .kind = KD_ATTR_INT, .i = p.offset},
      {.name = "strides",
       .kind = KD_ATTR_INTS,
       .ints = p.strides,
       .count = p.rank}};
  keel_opdef *op = NULL;
  keel_node *node = NULL;
  KEEL_TRY(keel_opdef_create(function->context, keel_schema_of_kind(KEEL_PART),
                             attrs, parts_is_packed(&p, type) ? 1 : 2, NULL,
                             &op));
  KEEL_TRY(
      keel_function_node(function, op, name, &source, 1, &value, 1, &node));
  node->device = device;
  node->part = type;
  return KD_OK;
}

/* Whether a value lies in a layout of a device's own, where strides say nothing. */
static bool is_laid_out(const keel_function *function, uint32_t value) {
  uint32_t maker = function->values[value].producer;
  const keel_node *node = maker == KEEL_ABSENT ? NULL : &function->nodes[maker];
  return node && node->output_layout && node->outputs[0] == value;
}

static keel_status parts_visit(parts *all, uint32_t index) {
  const keel_node *node = &all->function->nodes[index];
  uint32_t flags = 0, outputs = node->output_count;
  if (!node->input_count || node->inputs[0] == KEEL_ABSENT ||
      node->output_layout || is_laid_out(all->function, node->inputs[0]))
    return KD_OK;
  keel_device *device = reader_of(all, node, node->inputs[0], &flags);
  bool may = device != NULL;
  for (uint32_t i = 0; may && i < outputs; i++)
    may = may_be_part(all, index, i, device);
  if (!may) return KD_OK;
  for (uint32_t i = 0; i < outputs; i++)
    KEEL_TRY(add_part(all, index, i, device)); /* may move the nodes */
  all->function->nodes[index].dead = true;
  return KD_OK;
}

keel_status keel_pass_parts(keel_function *function, keel_device *device) {
  parts all = {
      .function = function, .device = device, .values = function->value_count};
  keel_status status = keel_uses_count(function, &all.uses);
  uint32_t count = function->node_count;
  for (uint32_t i = 0; status == KD_OK && i < count; i++)
    if (!function->nodes[i].dead) status = parts_visit(&all, i);
  keel_uses_drop(&all.uses);
  return status == KD_OK ? keel_function_sort(function) : status;
}
