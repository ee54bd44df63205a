/* vendor.c - ops that plugins bring, beside those of the table. */
#include "ops/vendor.h"
#include "device/context.h"
#include "ops/registry.h"

#include <ctype.h>
#include <kd/help.h>
#include <limits.h>

#include "layers/layers.h"
#include "ops/node.h"

/* ---- finding ------------------------------------------------------------------ */

const keel_schema *keel_op_at(const keel_context *context, uint32_t index) {
  if (index < keel_schema_count()) return keel_schema_at(index);
  index -= keel_schema_count();
  return context && index < context->vendor_op_count
             ? context->vendor_ops[index]
             : NULL;
}

const keel_schema *keel_op_find(const keel_context *context, const char *domain,
                                const char *name) {
  const keel_schema *schema = keel_schema_find(domain, name);
  for (uint32_t i = 0; !schema && context && i < context->vendor_op_count; i++)
    if (!strcmp(context->vendor_ops[i]->name, name) &&
        !strcmp(context->vendor_ops[i]->domain, domain ? domain : ""))
      schema = context->vendor_ops[i];
  return schema;
}

static void in_small_letters(const char *name, char *to, size_t capacity) {
  size_t i = 0;
  for (; name[i] && i + 1 < capacity; i++)
    to[i] = (char)tolower((unsigned char)name[i]);
  to[i] = 0;
}

/* An op of the domain whose name differs in a letter, in two where it is long, or in
 * capitals. */
static const char *near_name(const keel_context *context, const char *domain,
                             const char *name) {
  const char *near = NULL;
  const keel_schema *schema = NULL;
  char small[64], other[64];
  in_small_letters(name, small, sizeof small);
  unsigned least = strlen(small) < 8 ? 2 : 3;
  if (strlen(small) < 3) return NULL;
  for (uint32_t i = 0; (schema = keel_op_at(context, i)); i++) {
    if (strcmp(schema->domain, domain) != 0) continue;
    in_small_letters(schema->name, other, sizeof other);
    unsigned distance = keel_distance(small, other);
    if (distance < least) {
      least = distance;
      near = schema->name;
    }
  }
  return near;
}

/* Domains of all ops; and of those that have an op of the name the one that is written most
 * like `domain`, or NULL. */
static const char *list_domains(const keel_context *context, const char *domain,
                                const char *name, keel_text *out) {
  const char *last = "", *other = NULL;
  unsigned least = UINT_MAX;
  const keel_schema *schema = NULL;
  for (uint32_t i = 0; (schema = keel_op_at(context, i)); i++) {
    unsigned distance = strcmp(schema->name, name) != 0
                            ? UINT_MAX
                            : keel_distance(schema->domain, domain);
    if (distance < least) {
      least = distance;
      other = schema->domain;
    }
    if (!strcmp(schema->domain, last)) continue;
    last = schema->domain;
    bool listed = false;
    for (uint32_t k = 0; k < i && !listed; k++)
      listed = !strcmp(keel_op_at(context, k)->domain, last);
    if (!listed) keel_text_add(out, "%s%s", out->size ? ", " : "", last);
  }
  return other;
}

keel_status keel_op_missing(const keel_context *context, const char *domain,
                            const char *name) {
  bool plain = !domain || !*domain;
  if (plain) domain = "ai.onnx";
  const char *near = near_name(context, domain, name);
  keel_text domains = {0};
  const char *other = list_domains(context, domain, name, &domains);
  char more[300];
  if (near)
    snprintf(more, sizeof more, "did you mean %s?", near);
  else if (other)
    snprintf(more, sizeof more, "%s::%s is another op of that name", other,
             name);
  else
    snprintf(more, sizeof more,
             "`keel ops` lists those of the domains %s; a plugin can bring"
             " more",
             keel_text_get(&domains));
  keel_text_free(&domains);
  const char *out = keel_registry_get()->left_out;
  return keel_fail(
      KD_NOT_FOUND, "there is no op %s%s%s; %s%s%s", plain ? "" : domain,
      plain ? "" : "::", name, more,
      *out ? "; this libkeel is built without the op sets (KEEL_OPSETS)" : "",
      out);
}

/* ---- comparing ---------------------------------------------------------------- */

static bool same_text(const char *a, const char *b) {
  return a && b ? !strcmp(a, b) : a == b;
}

/* Variables are the same where they tie the same arguments: numbers may differ. */
static bool same_params(const keel_schema *a, const keel_schema *b) {
  uint32_t count = a->input_count + a->output_count;
  for (uint32_t i = 0; i < count; i++) {
    const keel_param *x = &a->inputs[i], *y = &b->inputs[i];
    if (strcmp(x->name, y->name) != 0 || x->types != y->types ||
        x->optional != y->optional || x->variadic != y->variadic ||
        x->mixed != y->mixed || (x->variable < 0) != (y->variable < 0))
      return false;
    for (uint32_t k = 0; k < i; k++)
      if ((a->inputs[k].variable == x->variable) !=
          (b->inputs[k].variable == y->variable))
        return false;
  }
  return true;
}

static bool same_default(const keel_attr_rule *a, const keel_attr_rule *b) {
  if (a->has_default != b->has_default) return false;
  if (!a->has_default) return true;
  return a->kind == KD_ATTR_INT     ? a->i == b->i
         : a->kind == KD_ATTR_FLOAT ? !memcmp(&a->f, &b->f, sizeof a->f)
                                    : same_text(a->s, b->s);
}

bool keel_schema_equal(const keel_schema *a, const keel_schema *b) {
  if (strcmp(a->name, b->name) != 0 || strcmp(a->domain, b->domain) != 0 ||
      a->since != b->since || a->flags != b->flags ||
      a->input_count != b->input_count || a->output_count != b->output_count ||
      a->attr_count != b->attr_count || a->value_inputs != b->value_inputs ||
      !same_params(a, b))
    return false;
  for (uint32_t i = 0; i < a->attr_count; i++) {
    const keel_attr_rule *x = &a->attrs[i], *y = &b->attrs[i];
    if (strcmp(x->name, y->name) != 0 || x->kind != y->kind ||
        x->required != y->required || !same_default(x, y) ||
        !same_text(x->choices, y->choices))
      return false;
  }
  return true;
}

/* ---- shapes ------------------------------------------------------------------- */

/* The values that the definition names. False: one is not known yet. */
static bool take_values(const keel_infer *infer, keel_tensor **constants) {
  uint32_t reads = infer->op->schema->value_inputs;
  for (uint32_t i = 0; i < infer->input_count && i < 32; i++) {
    if (!(reads >> i & 1) || !infer->in[i]) continue;
    constants[i] = infer->values ? infer->values[i] : NULL;
    if (!constants[i]) return false;
  }
  return true;
}

static kd_dtype dtype_of(const keel_infer *infer, uint32_t index) {
  uint32_t last = infer->op->schema->output_count - 1; /* may be variadic */
  return infer->dtypes[index < last ? index : last];
}

/* The plugin's answer for one output, as a type. */
static keel_status take_type(keel_infer *infer, uint32_t index,
                             const kd_op_type *said) {
  const keel_schema *schema = infer->op->schema;
  const keel_param *param = keel_schema_output(schema, index);
  const char *plugin = schema->plugin_op.plugin;
  kd_dtype bound = dtype_of(infer, index);
  if (said->rank == KD_RANK_UNKNOWN || said->dtype == KD_NONE)
    return keel_infer_fail(
        infer, KD_INTERNAL,
        "plugin %s's shape function does not set the type of %s", plugin,
        param->name);
  if (said->rank > KD_MAX_RANK)
    return keel_infer_fail(infer, KD_INTERNAL,
                           "plugin %s's shape function gives %s rank %u",
                           plugin, param->name, (unsigned)said->rank);
  if ((bound != KD_NONE && said->dtype != bound) ||
      said->dtype >= KD_DTYPE_COUNT ||
      (param->types && !(param->types & KD_TYPES(said->dtype))))
    return keel_infer_fail(
        infer, KD_INTERNAL,
        "plugin %s's shape function gives %s the type %s, which its"
        " definition does not allow",
        plugin, param->name, kd_dtype_name(said->dtype));
  for (uint32_t i = 0; i < said->rank; i++)
    if (said->dims[i] < 0)
      return keel_infer_fail(infer, KD_INTERNAL,
                             "plugin %s's shape function gives %s %lld elements"
                             " in dimension %u",
                             plugin, param->name, (long long)said->dims[i],
                             (unsigned)i);
  keel_status status =
      keel_type_of(said->dtype, said->rank, said->dims, &infer->out[index]);
  if (status == KD_OK) return KD_OK;
  char why[300];
  snprintf(why, sizeof why, "%s", keel_message());
  return keel_infer_fail(infer, status, "%s: %s", param->name, why);
}

static keel_status vendor_ask(keel_infer *infer, const kd_op_call *call) {
  const keel_plugin_op *own = &infer->op->schema->plugin_op;
  keel_clear_error();
  keel_status status = keel_layers_enter("op.infer");
  if (status == KD_OK) status = own->infer(call);
  if (status == KD_OK) return KD_OK;
  char why[600];
  snprintf(why, sizeof why, "%s",
           keel_has_error() ? keel_message() : "no reason is given");
  if (status != KD_INVALID_ARGUMENT && status != KD_UNIMPLEMENTED &&
      status != KD_OUT_OF_MEMORY)
    status = KD_INTERNAL;
  return keel_infer_fail(infer, status, "%s", why);
}

static keel_status declared_shapes(keel_infer *infer, keel_tensor **constants,
                                   const keel_type *const *none,
                                   kd_op_type *outputs) {
  struct kd_node node = {.op = infer->op,
                         .name = infer->where,
                         .input_count = infer->input_count,
                         .output_count = infer->output_count,
                         .inputs = infer->in,
                         .outputs = none,
                         .constants = constants};
  kd_op_call call = {.struct_size = sizeof call,
                     .output_count = infer->output_count,
                     .host = infer->op->schema->plugin_op.host,
                     .node = &node,
                     .outputs = outputs};
  for (uint32_t i = 0; i < infer->output_count; i++) {
    outputs[i].dtype = dtype_of(infer, i);
    outputs[i].rank = KD_RANK_UNKNOWN;
  }
  KEEL_TRY(vendor_ask(infer, &call));
  for (uint32_t i = 0; i < infer->output_count; i++)
    KEEL_TRY(take_type(infer, i, &outputs[i]));
  return KD_OK;
}

/* Each has the shape of the first input. */
static keel_status shapes_same(keel_infer *infer) {
  const keel_type *first = keel_infer_in(infer, 0);
  if (!first)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "has no first input to take the shape of");
  for (uint32_t i = 0; i < infer->output_count; i++) {
    kd_op_type type = {.dtype = dtype_of(infer, i), .rank = first->rank};
    memcpy(type.dims, first->dims, first->rank * sizeof *type.dims);
    KEEL_TRY(take_type(infer, i, &type));
  }
  return KD_OK;
}

keel_status keel_shape_plugin_op(keel_infer *infer) {
  if (!infer->op->schema->plugin_op.infer) return shapes_same(infer);
  keel_tensor **constants =
      calloc((size_t)infer->input_count + 1, sizeof(keel_tensor *));
  const keel_type **none =
      calloc((size_t)infer->output_count + 1, sizeof(keel_type *));
  kd_op_type *outputs =
      calloc((size_t)infer->output_count + 1, sizeof *outputs);
  keel_status status = KD_OK;
  if (!constants || !none || !outputs)
    status = keel_no_memory(infer->output_count * sizeof *outputs);
  else if (!take_values(infer, constants))
    infer->unknown = true;
  else
    status = declared_shapes(infer, constants, none, outputs);
  free(constants);
  free(none);
  free(outputs);
  return status;
}
