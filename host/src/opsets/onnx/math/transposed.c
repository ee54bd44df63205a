/* transposed.c - products of matrices beside a Transpose: a Gemm reads a transposed operand as it
 * is, and a transposed result is the product of the transposed operands, the other way round.
 * Gradients have this form. */
#include "device/device.h"
#include "opsets/onnx/passes.h"

typedef struct transposed {
  keel_function *function;
  keel_uses uses;
} transposed;

/* A Transpose of a matrix. */
static bool is_transpose(const transposed *all, const keel_node *node) {
  const int64_t *perm = NULL;
  const keel_type *type = keel_pass_is(node, "Transpose")
                              ? keel_pass_type(all->function, node->inputs[0])
                              : NULL;
  if (!type || type->rank != 2 || node->dead) return false;
  return keel_attr_ints(node->op, "perm", &perm) != 2 || perm[0] == 1;
}

/* The operand as a Gemm reads it; *out_transposed: transposed. */
static uint32_t operand(const transposed *all, const keel_node *product,
                        uint32_t index, bool *out_transposed) {
  uint32_t value = product->inputs[index];
  const keel_node *node = keel_pass_maker(all->function, value);
  *out_transposed =
      node && is_transpose(all, node) && node->device == product->device;
  return *out_transposed ? node->inputs[0] : value;
}

/* The Transpose that alone reads a product, or NULL. */
static keel_node *transpose_behind(const transposed *all,
                                   const keel_node *product) {
  uint32_t value = product->outputs[0], at = all->uses.reader[value];
  keel_node *node = all->uses.counts[value] == 1 && at != KEEL_ABSENT
                        ? &all->function->nodes[at]
                        : NULL;
  return node && is_transpose(all, node) && node->device == product->device
             ? node
             : NULL;
}

static bool is_matrix(const transposed *all, uint32_t value) {
  const keel_type *type =
      value == KEEL_ABSENT ? NULL : keel_pass_type(all->function, value);
  return type && type->rank == 2 && !all->function->values[value].constant &&
         (type->dtype == KD_F32 || type->dtype == KD_F64 ||
          type->dtype == KD_F16 || type->dtype == KD_BF16);
}

static keel_status transposed_replace(transposed *all, keel_node *product,
                                      keel_node *behind, keel_device *where) {
  bool turns[2];
  uint32_t *inputs = keel_arena_take(all->function->arena, 2 * sizeof *inputs);
  if (!inputs) return KD_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < 2; i++)
    inputs[i] = operand(all, product, i, &turns[i]);
  if (behind) {
    uint32_t first = inputs[0];
    bool turns_first = turns[0];
    inputs[0] = inputs[1];
    inputs[1] = first;
    turns[0] = !turns[1];
    turns[1] = !turns_first;
  }
  const keel_attr attrs[] = {KEEL_INT("transA", turns[0]),
                             KEEL_INT("transB", turns[1])};
  keel_node made = behind ? *behind : *product;
  made.name = product->name;
  made.inputs = inputs;
  made.input_count = 2;
  KEEL_TRY(keel_opdef_create(all->function->context,
                             keel_schema_find("", "Gemm"), attrs, 2, NULL,
                             &made.op));
  if (!keel_pass_takes(all->function, where, &made)) {
    keel_opdef_release(made.op);
    return KD_OK;
  }
  keel_node *last = behind ? behind : product;
  keel_opdef_release(last->op);
  *last = made;
  if (behind) product->dead = true;
  return KD_OK;
}

static keel_status transposed_visit(transposed *all, keel_device *device,
                                    keel_node *product) {
  keel_device *where = product->device ? product->device : device;
  bool turns[2];
  if (product->dead || !where || !keel_pass_is(product, "MatMul") ||
      !is_matrix(all, product->inputs[0]) ||
      !is_matrix(all, product->inputs[1]) ||
      !keel_device_kernels(where, "ai.onnx", "Gemm"))
    return KD_OK;
  keel_node *behind = transpose_behind(all, product);
  operand(all, product, 0, &turns[0]);
  operand(all, product, 1, &turns[1]);
  return turns[0] || turns[1] || behind
             ? transposed_replace(all, product, behind, where)
             : KD_OK;
}

keel_status keel_pass_transposed(keel_function *function, keel_device *device) {
  transposed all = {.function = function};
  keel_status status = keel_uses_count(function, &all.uses);
  for (uint32_t i = 0; status == KD_OK && i < function->node_count; i++)
    status = transposed_visit(&all, device, &function->nodes[i]);
  keel_uses_drop(&all.uses);
  return status;
}
