/* expand.c - ops that devices have no kernel for, written with simpler ones.
 *
 * The bodies stand beside the ops, in host/src/defs/ops.def, which has their syntax; ops whose
 * form depends on ranks and attributes are written by functions of their own (keel_op_rule). */
#include <ctype.h>
#include <float.h>
#include <kd/help.h>

#include "device/context.h"
#include "eager/call_site.h"
#include "ops/registry.h"
#include "opsets/onnx/passes.h"
#include "opsets/terms.h"
#include "system/locale.h"

#define DEPTH_MOST 8
#define NAMES      16
#define ATTRS      16

/* ---- reading a body ------------------------------------------------------------ */

typedef struct expansion {
  keel_function *function;
  keel_node node; /* a copy: the function's nodes may move */
  const char *at;
  char names[NAMES]; /* one letter each */
  uint32_t values[NAMES];
  uint32_t count;
} expansion;

static keel_status constant(expansion *all, double number,
                            uint32_t *out_value) {
  uint32_t first = all->node.input_count ? all->node.inputs[0] : KEEL_ABSENT;
  const keel_type *type =
      first == KEEL_ABSENT ? NULL : all->function->values[first].type;
  keel_tensor *tensor = NULL;
  float narrow = number > FLT_MAX    ? FLT_MAX
                 : number < -FLT_MAX ? -FLT_MAX
                                     : (float)number;
  if (!type || (type->dtype != KD_F32 && type->dtype != KD_F64))
    return keel_fail(KD_UNIMPLEMENTED,
                     "%s of %s has no kernel, and is not written with simpler"
                     " ops",
                     all->node.op->schema->name,
                     type ? keel_dtype_name(type->dtype) : "an unknown type");
  KEEL_TRY(keel_tensor_create(
      all->function->context, type->dtype, 0, NULL,
      type->dtype == KD_F32 ? (const void *)&narrow : (const void *)&number,
      &tensor));
  *out_value = keel_function_constant(all->function, "", tensor);
  keel_tensor_release(tensor);
  return *out_value == KEEL_ABSENT ? KD_OUT_OF_MEMORY : KD_OK;
}

static uint32_t expand_number_at(expansion *all) {
  return (uint32_t)strtoul(all->at, (char **)(uintptr_t)&all->at, 10);
}

/* One argument, or the value that is set. */
static keel_status read_value(expansion *all, bool set, uint32_t *out_value) {
  all->at += strspn(all->at, " ");
  if (*all->at == '$' || *all->at == '%') {
    bool input = *all->at++ == '$';
    uint32_t index = expand_number_at(all);
    uint32_t count = input ? all->node.input_count : all->node.output_count;
    *out_value = index >= count ? KEEL_ABSENT
                 : input        ? all->node.inputs[index]
                                : all->node.outputs[index];
    return KD_OK;
  }
  if (*all->at == '@' || *all->at == '#') {
    bool list = *all->at == '#';
    char name[32];
    size_t size = strspn(++all->at, "abcdefghijklmnopqrstuvwxyz");
    snprintf(name, sizeof name, "%.*s", (int)size, all->at);
    all->at += size;
    if (list) {
      int64_t number = keel_attr_int(all->node.op, name, -1);
      keel_emit e = keel_emit_for(all->function, &all->node);
      *out_value = keel_emit_int(&e, number);
      return e.status;
    }
    return constant(all, (double)keel_attr_float(all->node.op, name, 0),
                    out_value);
  }
  if (isalpha((unsigned char)*all->at)) {
    char name = *all->at++;
    for (uint32_t i = 0; i < all->count && !set; i++)
      if (all->names[i] == name) *out_value = all->values[i];
    if (!set) return KD_OK;
    *out_value = keel_function_value(all->function, "");
    all->names[all->count] = name;
    all->values[all->count++] = *out_value;
    return *out_value == KEEL_ABSENT ? KD_OUT_OF_MEMORY : KD_OK;
  }
  double number = strtod(all->at, (char **)(uintptr_t)&all->at);
  return constant(all, number, out_value);
}

/* The attributes that * or + take over. */
static uint32_t take_attrs(expansion *all, keel_attr *attrs) {
  uint32_t count = 0;
  bool keep = *all->at == '+';
  if (*all->at == '(') return 0;
  all->at++;
  for (uint32_t i = 0; i < all->node.op->attr_count && count < ATTRS; i++) {
    attrs[count] = all->node.op->attrs[i].value;
    count += !keep || strcmp(attrs[count].name, "keepdims") != 0;
  }
  return count;
}

/* "value = Op(arguments)"; the new node has its types inferred. */
static keel_status read_statement(expansion *all) {
  uint32_t inputs[4], target = KEEL_ABSENT, count = 0;
  char name[32];
  keel_attr attrs[ATTRS];
  keel_opdef *op = NULL;
  KEEL_TRY(read_value(all, true, &target));
  all->at += strspn(all->at, " =");
  size_t size = strcspn(all->at, "*+(");
  snprintf(name, sizeof name, "%.*s", (int)size, all->at);
  all->at += size;
  uint32_t attr_count = take_attrs(all, attrs);
  while (*all->at != ')') {
    all->at++; /* ( or , */
    KEEL_TRY(read_value(all, false, &inputs[count++]));
  }
  all->at++;
  all->at += strspn(all->at, "; ");
  while (count && inputs[count - 1] == KEEL_ABSENT)
    count--;
  KEEL_TRY(keel_opdef_create(all->function->context, keel_schema_find("", name),
                             attrs, attr_count, NULL, &op));
  keel_node *node = NULL;
  KEEL_TRY(keel_function_node(all->function, op, all->node.name, inputs, count,
                              &target, 1, &node));
  node->device = all->node.device;
  return keel_function_infer(all->function, node);
}

static keel_status expand(keel_function *function, uint32_t index,
                          const char *body) {
  expansion all = {
      .function = function, .node = function->nodes[index], .at = body};
  function->nodes[index].dead = true;
  while (*all.at)
    KEEL_TRY(read_statement(&all));
  return KD_OK;
}

/* Sum of any number: one Add after the other. */
static keel_status expand_sum(keel_function *function, uint32_t index) {
  keel_node sum = function->nodes[index];
  uint32_t total = sum.inputs[0];
  function->nodes[index].dead = true;
  for (uint32_t i = 1; i < sum.input_count; i++) {
    bool last = i + 1 == sum.input_count;
    uint32_t pair[] = {total, sum.inputs[i]};
    keel_opdef *op = NULL;
    keel_node *node = NULL;
    total = last ? sum.outputs[0] : keel_function_value(function, "");
    if (total == KEEL_ABSENT) return KD_OUT_OF_MEMORY;
    KEEL_TRY(keel_opdef_create(function->context, keel_schema_find("", "Add"),
                               NULL, 0, NULL, &op));
    KEEL_TRY(
        keel_function_node(function, op, sum.name, pair, 2, &total, 1, &node));
    node->device = sum.device;
    KEEL_TRY(keel_function_infer(function, node));
  }
  return KD_OK;
}

/* ---- the pass ------------------------------------------------------------------- */

static bool has_kernel(const keel_context *context, const char *domain,
                       const char *op) {
  for (uint32_t i = 0; i < context->device_count; i++)
    if (keel_device_kernels(keel_devices(context)[i], domain, op)) return true;
  return false;
}

static const char *expand_choose(const keel_context *context, const char *op,
                                 int depth);

/* Whether the ops of a body, or of their bodies, all have kernels: else the
 * error had better name the op that the user knows. */
static bool can_run(const keel_context *context, const char *body, int depth) {
  for (const char *at = strchr(body, '='); at; at = strchr(at, '=')) {
    char op[32];
    at += 1 + strspn(at + 1, " ");
    snprintf(op, sizeof op, "%.*s", (int)strcspn(at, "*+("), at);
    if (!has_kernel(context, "ai.onnx", op) &&
        (depth == DEPTH_MOST || !expand_choose(context, op, depth + 1)))
      return false;
  }
  return true;
}

/* The op's first body that can run, or NULL. */
static const char *expand_choose(const keel_context *context, const char *op,
                                 int depth) {
  const keel_registry *all = keel_registry_get();
  for (uint32_t i = 0; i < all->table_count; i++)
    for (uint32_t k = 0; k < all->tables[i]->body_count; k++) {
      const keel_op_body *body = &all->tables[i]->bodies[k];
      if (!strcmp(body->op, op) && can_run(context, body->text, depth))
        return body->text;
    }
  return NULL;
}

static const char *body_of(const keel_context *context, const keel_node *node) {
  const keel_schema *schema = node->op->schema;
  bool tanh_gelu =
      !strcmp(schema->name, "Gelu") &&
      strcmp(keel_attr_string(node->op, "approximate", "none"), "none") != 0;
  return strcmp(schema->domain, "ai.onnx") != 0 || tanh_gelu
             ? NULL
             : expand_choose(context, schema->name, 0);
}

/* Whether a node's own device has a kernel for it; where it has no device, any. */
static bool expand_stays(const keel_function *function, keel_device *device,
                         const keel_node *node) {
  const keel_schema *schema = node->op->schema;
  if (node->device) device = node->device;
  return device ? keel_pass_may_take(function, device, node)
                : has_kernel(function->context, schema->domain, schema->name);
}

static keel_status write_simpler(keel_function *function, uint32_t index,
                                 void (*write)(keel_emit *all)) {
  keel_emit all = {.function = function, .node = function->nodes[index]};
  function->nodes[index].dead = true;
  write(&all);
  return all.status;
}

static keel_status expand_visit(keel_function *function, keel_device *device,
                                uint32_t index) {
  const keel_node *node = &function->nodes[index];
  const keel_schema *schema = node->op->schema;
  const keel_context *context = function->context;
  void (*write)(keel_emit *) = schema->expand;
  if (node->dead || keel_schema_hosted(schema)) return KD_OK;
  if (write)
    return expand_stays(function, device, node)
               ? KD_OK
               : write_simpler(function, index, write);
  if (has_kernel(context, schema->domain, schema->name)) return KD_OK;
  if (!strcmp(schema->name, "Sum") && node->input_count > 1 &&
      has_kernel(context, "ai.onnx", "Add"))
    return expand_sum(function, index);
  const char *body = body_of(context, node);
  return body ? expand(function, index, body) : KD_OK;
}

keel_status keel_expand_all_of(keel_function *function, const char *domain,
                               const char *op) {
  uint32_t count = function->node_count;
  for (uint32_t i = 0; i < count; i++) {
    const keel_schema *schema = function->nodes[i].op->schema;
    if (function->nodes[i].dead || strcmp(schema->name, op) != 0 ||
        strcmp(schema->domain, domain) != 0)
      continue;
    KEEL_TRY(write_simpler(function, i, schema->expand));
  }
  return KD_OK;
}

static keel_status visit_all(keel_function *function, keel_device *device) {
  for (int depth = 0; depth < DEPTH_MOST; depth++) {
    uint32_t before = function->node_count;
    for (uint32_t i = 0; i < before; i++)
      KEEL_TRY(expand_visit(function, device, i));
    if (function->node_count == before) break;
  }
  KEEL_TRY(keel_function_sort(function));
  return keel_function_types(function);
}

keel_status keel_pass_expand(keel_function *function, keel_device *device) {
  keel_plain plain = keel_plain_begin(); /* functions are text with numbers */
  keel_status status = visit_all(function, device);
  keel_plain_end(plain);
  return status;
}
