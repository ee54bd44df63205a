/* products.c - brings what follows a product into keel::FusedMatMul, where the device has
 * that: a bias, a sum, an activation. */
#include "device/device.h"
#include "opsets/onnx/passes.h"

typedef struct products {
  keel_function *function;
  keel_uses uses;
} products;

/* A product and what goes with it; `last` makes `value`, the result so far. */
typedef struct fused {
  uint32_t product, last, value, bias, sum;
  uint32_t gone[4], gone_count; /* nodes, besides the last one */
  const char *activation;
} fused;

static const keel_type *products_type_of(const products *all, uint32_t value) {
  return keel_pass_type(all->function, value);
}

/* The node that alone reads the result so far, once, on the same device; NULL: none. */
static const keel_node *reader(const products *all, const fused *f) {
  const keel_node *nodes = all->function->nodes;
  uint32_t at = all->uses.reader[f->value];
  return all->uses.counts[f->value] == 1 && at != KEEL_ABSENT &&
                 nodes[at].device == nodes[f->product].device &&
                 nodes[at].output_count == 1
             ? &nodes[at]
             : NULL;
}

static void products_take(const products *all, fused *f,
                          const keel_node *node) {
  f->gone[f->gone_count++] = f->last;
  f->last = (uint32_t)(node - all->function->nodes);
  f->value = node->outputs[0];
}

/* The operand that an Add adds to the result so far, whose type stays; KEEL_ABSENT: it is not such
 * an Add. */
static uint32_t products_added(const products *all, const fused *f,
                               const keel_node *node) {
  if (!node || !keel_pass_is(node, "Add") ||
      products_type_of(all, node->outputs[0]) !=
          products_type_of(all, f->value))
    return KEEL_ABSENT;
  return node->inputs[node->inputs[0] == f->value];
}

static void take_bias(const products *all, fused *f) {
  const keel_node *add = reader(all, f);
  uint32_t other = products_added(all, f, add);
  const keel_type *type = products_type_of(all, other),
                  *whole = products_type_of(all, f->value);
  if (!type || type->rank != 1 || !all->function->values[other].constant ||
      type->dims[0] != whole->dims[whole->rank - 1])
    return;
  f->bias = other;
  products_take(all, f, add);
}

static void take_sum(const products *all, fused *f) {
  const keel_node *add = reader(all, f);
  uint32_t other = products_added(all, f, add);
  if (other == KEEL_ABSENT ||
      products_type_of(all, other) != products_type_of(all, f->value))
    return;
  f->sum = other;
  products_take(all, f, add);
}

static void take_activation(const products *all, fused *f) {
  keel_activation act;
  const keel_node *nodes = all->function->nodes;
  if (!keel_pass_activation(all->function, &all->uses, f->value,
                            nodes[f->product].device, &act))
    return;
  f->activation = act.name;
  if (act.gate != KEEL_ABSENT) f->gone[f->gone_count++] = act.gate;
  products_take(all, f, &nodes[act.last]);
}

static keel_status products_replace(products *all, const fused *f,
                                    keel_device *where) {
  keel_node *nodes = all->function->nodes;
  const keel_attr attr = KEEL_STRING("activation", f->activation);
  uint32_t *inputs = keel_arena_take(all->function->arena, 4 * sizeof *inputs);
  keel_node made = nodes[f->last];
  if (!inputs) return KD_OUT_OF_MEMORY;
  inputs[0] = nodes[f->product].inputs[0];
  inputs[1] = nodes[f->product].inputs[1];
  inputs[2] = f->bias;
  inputs[3] = f->sum;
  made.name = nodes[f->product].name;
  made.inputs = inputs;
  made.input_count = f->sum != KEEL_ABSENT ? 4 : f->bias != KEEL_ABSENT ? 3 : 2;
  KEEL_TRY(keel_opdef_create(all->function->context,
                             keel_schema_find("keel", "FusedMatMul"), &attr, 1,
                             NULL, &made.op));
  if (!keel_pass_takes(all->function, where, &made)) {
    keel_opdef_release(made.op);
    return KD_OK;
  }
  keel_opdef_release(nodes[f->last].op);
  nodes[f->last] = made;
  for (uint32_t i = 0; i < f->gone_count; i++)
    nodes[f->gone[i]].dead = true;
  return KD_OK;
}

/* A product by a constant matrix, which its kernel packs. */
static bool is_by_weights(const products *all, const keel_node *node) {
  const keel_tensor *weights =
      keel_pass_is(node, "MatMul") && node->inputs[1] != KEEL_ABSENT
          ? all->function->values[node->inputs[1]].constant
          : NULL;
  return weights && weights->type && weights->type->rank == 2 &&
         node->output_count == 1 && products_type_of(all, node->outputs[0]);
}

static keel_status products_visit(products *all, keel_device *device,
                                  uint32_t index) {
  const keel_node *node = &all->function->nodes[index];
  keel_device *where = node->device ? node->device : device;
  if (!where || !is_by_weights(all, node) ||
      !keel_device_kernels(where, "keel", "FusedMatMul"))
    return KD_OK;
  fused f = {.product = index,
             .last = index,
             .value = node->outputs[0],
             .bias = KEEL_ABSENT,
             .sum = KEEL_ABSENT,
             .activation = "none"};
  take_bias(all, &f);
  take_sum(all, &f);
  take_activation(all, &f);
  return f.last == index ? KD_OK : products_replace(all, &f, where);
}

keel_status keel_pass_products(keel_function *function, keel_device *device) {
  products all = {.function = function};
  keel_status status = keel_uses_count(function, &all.uses);
  for (uint32_t i = 0; status == KD_OK && i < function->node_count; i++)
    if (!function->nodes[i].dead) status = products_visit(&all, device, i);
  keel_uses_drop(&all.uses);
  return status;
}
