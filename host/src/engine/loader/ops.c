/* ops.c - the ops that a plugin brings: from its definitions to schemas. */
#include <ctype.h>

#include "device/context.h"
#include "loader/library.h"
#include "loader/loader.h"
#include "ops/vendor.h"

#define INPUTS_MOST    32u
#define OUTPUTS_MOST   KD_MAX_TYPED_OUTPUTS
#define ATTRS_MOST     64u
#define VARIABLES_MOST 8u
#define OPS_MOST       10000u
#define STRIDE_MOST    4096u

#define PARAM_FLAGS (KD_PARAM_OPTIONAL | KD_PARAM_VARIADIC)
#define ATTR_FLAGS  (KD_OP_ATTR_REQUIRED | KD_OP_ATTR_DEFAULT)

/* A definition while it is read. */
typedef struct reading {
  keel_plugin *plugin;
  const kd_op_def *def;
  char what[160]; /* "plugin.so: op com.acme::Blob" */
} reading;

static keel_status ops_bad(const reading *r, const char *format, ...)
    KD_PRINTF(2, 3);

static keel_status ops_bad(const reading *r, const char *format, ...) {
  char why[300];
  va_list args;
  va_start(args, format);
  vsnprintf(why, sizeof why, format, args);
  va_end(args);
  return keel_fail(KD_INCOMPATIBLE, "%s: op %s: %s", r->plugin->path, r->what,
                   why);
}

/* Whether a host may step an array by the size that its first member states. */
static bool good_stride(const void *array, size_t least, size_t alignment,
                        size_t *out_stride) {
  uint32_t size = 0;
  memcpy(&size, array, sizeof size);
  *out_stride = size;
  return size >= least && size % alignment == 0 && size <= STRIDE_MOST;
}

/* Copies one of an array; fields that its struct lacks are zero. */
static void copy_one(void *to, size_t size, const void *array, size_t stride,
                     uint32_t index) {
  memset(to, 0, size);
  memcpy(to, (const char *)array + index * stride,
         stride < size ? stride : size);
}

/* Letters, digits, _ and, in domains, dots and dashes: a name that can be written in a
 * model, in text and on a command line. */
static bool good_name(const char *name, const char *also) {
  size_t size = name ? strlen(name) : 0;
  if (size == 0 || size > 63 || !isalpha((unsigned char)*name)) return false;
  for (const char *at = name; *at; at++)
    if (!isalnum((unsigned char)*at) && *at != '_' && !strchr(also, *at))
      return false;
  return name[size - 1] != '.';
}

/* ---- parameters --------------------------------------------------------------- */

static keel_status read_param(const reading *r, const kd_op_param *from,
                              bool last, bool output, keel_param *to) {
  const char *kind = output ? "output" : "input";
  if (!good_name(from->name, ""))
    return ops_bad(r,
                   "an %s's name is %s%s%s; it must be letters, digits and _",
                   kind, from->name ? "\"" : "",
                   from->name ? from->name : "NULL", from->name ? "\"" : "");
  if (from->variable > VARIABLES_MOST)
    return ops_bad(r, "%s %s has variable %u, and there are 1 to %u", kind,
                   from->name, (unsigned)from->variable, VARIABLES_MOST);
  if ((from->flags & KD_PARAM_VARIADIC) && !last)
    return ops_bad(r, "%s %s is variadic, and not the last", kind, from->name);
  KEEL_TRY(keel_flags_of_op(r->plugin, r->what, from->name, from->flags,
                            PARAM_FLAGS));
  *to = (keel_param){.name = from->name,
                     .types = from->types,
                     .variable = (int8_t)((int)from->variable - 1),
                     .optional = (from->flags & KD_PARAM_OPTIONAL) != 0,
                     .variadic = (from->flags & KD_PARAM_VARIADIC) != 0};
  to->mixed = to->variadic && to->variable < 0;
  return KD_OK;
}

static keel_status ops_read_params(const reading *r, const kd_op_param *array,
                                   uint32_t count, bool output,
                                   keel_param *to) {
  size_t stride = 0;
  if (count && (!array || !good_stride(array, sizeof *array,
                                       _Alignof(kd_op_param), &stride)))
    return ops_bad(r, "%u %s of struct_size %zu", (unsigned)count,
                   output ? "outputs" : "inputs", stride);
  for (uint32_t i = 0; i < count; i++) {
    kd_op_param param;
    copy_one(&param, sizeof param, array, stride, i);
    KEEL_TRY(read_param(r, &param, i + 1 == count, output, &to[i]));
  }
  return KD_OK;
}

/* Arguments of one variable have one set of types: an output's is decided by them. */
static keel_status check_variables(const reading *r,
                                   const keel_schema *schema) {
  uint32_t count = schema->input_count + schema->output_count;
  for (uint32_t i = 0; i < count; i++)
    for (uint32_t k = 0; k < i; k++) {
      const keel_param *a = &schema->inputs[i], *b = &schema->inputs[k];
      if (a->variable >= 0 && a->variable == b->variable &&
          a->types != b->types)
        return ops_bad(r, "%s and %s have variable %d, and other types",
                       b->name, a->name, a->variable + 1);
      if (!strcmp(a->name, b->name) &&
          (i < schema->input_count) == (k < schema->input_count))
        return ops_bad(r, "two arguments are named %s", a->name);
    }
  return KD_OK;
}

/* ---- attributes --------------------------------------------------------------- */

static keel_status ops_read_attr(const reading *r, const kd_op_attr *from,
                                 keel_attr_rule *to) {
  if (!good_name(from->name, ""))
    return ops_bad(
        r,
        "an attribute's name is %s%s%s; it must be letters, digits and"
        " _",
        from->name ? "\"" : "", from->name ? from->name : "NULL",
        from->name ? "\"" : "");
  if (from->kind == KD_ATTR_ABSENT || from->kind > KD_ATTR_STRINGS ||
      from->kind == KD_ATTR_GRAPH)
    return ops_bad(r, "attribute %s has kind %u, which no attribute can have",
                   from->name, (unsigned)from->kind);
  KEEL_TRY(keel_flags_of_op(r->plugin, r->what, from->name, from->flags,
                            ATTR_FLAGS));
  bool has_default = (from->flags & KD_OP_ATTR_DEFAULT) != 0;
  bool plain = from->kind == KD_ATTR_INT || from->kind == KD_ATTR_FLOAT ||
               (from->kind == KD_ATTR_STRING && from->s);
  if (has_default && (!plain || (from->flags & KD_OP_ATTR_REQUIRED)))
    return ops_bad(
        r,
        "attribute %s can't have a default: it is required, a list or a"
        " tensor, or its string is NULL",
        from->name);
  *to = (keel_attr_rule){.name = from->name,
                         .kind = from->kind,
                         .required = (from->flags & KD_OP_ATTR_REQUIRED) != 0,
                         .has_default = has_default,
                         .i = from->i,
                         .f = from->f,
                         .s = from->s};
  return KD_OK;
}

static keel_status read_attrs(const reading *r, keel_attr_rule *to) {
  const kd_op_def *def = r->def;
  size_t stride = 0;
  if (def->attr_count &&
      (!def->attrs || !good_stride(def->attrs, sizeof *def->attrs,
                                   _Alignof(kd_op_attr), &stride)))
    return ops_bad(r, "%u attributes of struct_size %zu",
                   (unsigned)def->attr_count, stride);
  for (uint32_t i = 0; i < def->attr_count; i++) {
    kd_op_attr attr;
    copy_one(&attr, sizeof attr, def->attrs, stride, i);
    KEEL_TRY(ops_read_attr(r, &attr, &to[i]));
    for (uint32_t k = 0; k < i; k++)
      if (!strcmp(to[k].name, attr.name))
        return ops_bad(r, "two attributes are named %s", attr.name);
  }
  return KD_OK;
}

/* ---- one op ------------------------------------------------------------------- */

static keel_status check_head(const reading *r) {
  const kd_op_def *def = r->def;
  if (!good_name(def->name, "") || !good_name(def->domain, ".-"))
    return ops_bad(r,
                   "its name or domain is NULL, or not of letters, digits, _"
                   " and, in the domain, dots and dashes");
  if (!strcmp(def->domain, "ai.onnx") || !strcmp(def->domain, "keel") ||
      !strcmp(def->domain, "onnx"))
    return ops_bad(r, "domain \"%s\" is not a vendor's", def->domain);
  if (!def->version) return ops_bad(r, "its version is 0; the first is 1");
  if (!def->output_count || def->output_count > OUTPUTS_MOST ||
      def->input_count > INPUTS_MOST || def->attr_count > ATTRS_MOST)
    return ops_bad(
        r,
        "%u inputs, %u outputs, %u attributes; it can have %u, 1 to %u,"
        " and %u",
        (unsigned)def->input_count, (unsigned)def->output_count,
        (unsigned)def->attr_count, INPUTS_MOST, OUTPUTS_MOST, ATTRS_MOST);
  if (def->input_count < 32 && def->value_inputs >> def->input_count)
    return ops_bad(r, "value_inputs 0x%x names an input that it does not have",
                   (unsigned)def->value_inputs);
  if (!def->infer && !def->input_count)
    return ops_bad(r,
                   "it has no shape function, and no input to take a shape of");
  return keel_flags_of_op(r->plugin, r->what, "it", def->flags, 0);
}

static keel_status ops_read_op(reading *r, keel_schema *schema) {
  const kd_op_def *def = r->def;
  keel_arena *arena = &r->plugin->context->arena;
  snprintf(r->what, sizeof r->what, "%s::%s", def->domain ? def->domain : "?",
           def->name ? def->name : "?");
  KEEL_TRY(check_head(r));
  uint32_t count = def->input_count + def->output_count;
  keel_param *params = keel_arena_take(arena, count * sizeof *params);
  keel_attr_rule *attrs =
      keel_arena_take(arena, (def->attr_count + 1) * sizeof *attrs);
  if (!params || !attrs) return KD_OUT_OF_MEMORY;
  *schema = (keel_schema){
      .domain = def->domain,
      .name = def->name,
      .since = def->version,
      .inputs = params,
      .outputs = params + def->input_count,
      .input_count = def->input_count,
      .output_count = def->output_count,
      .attrs = attrs,
      .attr_count = def->attr_count,
      .value_inputs = def->value_inputs,
      .infer = keel_shape_plugin_op,
      .plugin_op = {.plugin = r->plugin->table.name,
                    .host = &r->plugin->shared->host,
                    .infer = def->infer},
  };
  KEEL_TRY(ops_read_params(r, def->inputs, def->input_count, false, params));
  KEEL_TRY(ops_read_params(r, def->outputs, def->output_count, true,
                           params + def->input_count));
  KEEL_TRY(check_variables(r, schema));
  for (uint32_t i = 0; i < schema->input_count; i++)
    if (!params[i].optional) schema->least_inputs = i + 1;
  return read_attrs(r, attrs);
}

/* ---- all ---------------------------------------------------------------------- */

static keel_status ops_refuse(keel_plugin *plugin, const kd_op_def *def) {
  keel_refused_op *op = keel_arena_take(&plugin->context->arena, sizeof *op);
  if (!op) return KD_OUT_OF_MEMORY;
  *op = (keel_refused_op){def->domain, def->name, plugin->refused_ops};
  plugin->refused_ops = op;
  return KD_OK;
}

/* Looks for an earlier definition of the op. Returns KD_OK (none, or an equal one),
 * KD_ALREADY_EXISTS (another one). */
static keel_status ops_compare(const reading *r, const keel_schema *schema,
                               bool *out_same) {
  const keel_plugin *plugin = r->plugin;
  const keel_schema *other =
      keel_op_find(plugin->context, schema->domain, schema->name);
  for (uint32_t i = 0; !other && i < plugin->op_count; i++)
    if (!strcmp(plugin->ops[i].name, schema->name) &&
        !strcmp(plugin->ops[i].domain, schema->domain))
      return ops_bad(r, "it is defined twice");
  *out_same = other && keel_schema_equal(other, schema);
  if (!other || *out_same) return KD_OK;
  return keel_fail(KD_ALREADY_EXISTS,
                   "%s: op %s is defined differently by %s%s: only one"
                   " definition can be used",
                   plugin->path, r->what,
                   other->plugin_op.plugin ? "plugin " : "Keel",
                   other->plugin_op.plugin ? other->plugin_op.plugin : "");
}

static keel_status read_one(keel_plugin *plugin, const kd_op_def *def) {
  reading r = {.plugin = plugin, .def = def};
  bool same = false;
  keel_status status = ops_read_op(&r, &plugin->ops[plugin->op_count]);
  if (status == KD_OK)
    status = ops_compare(&r, &plugin->ops[plugin->op_count], &same);
  if (status == KD_OK) {
    plugin->op_count += !same; /* the first one stands for both */
    return KD_OK;
  }
  if (status != KD_ALREADY_EXISTS && status != KD_UNIMPLEMENTED) return status;
  keel_log_line(&plugin->context->log, KD_LOG_WARNING,
                "%s; it is not used, and no kernel for it", keel_message());
  return ops_refuse(plugin, def);
}

keel_status keel_ops_read(keel_plugin *plugin) {
  const kd_plugin *table = &plugin->table;
  size_t stride = 0;
  plugin->ops = NULL;
  plugin->op_count = 0;
  plugin->refused_ops = NULL;
  if (!table->op_count) return KD_OK;
  if (!table->ops || table->op_count > OPS_MOST ||
      !good_stride(table->ops, END_OF(kd_op_def, infer), _Alignof(kd_op_def),
                   &stride))
    return keel_fail(KD_INCOMPATIBLE,
                     "%s: %u op definitions of struct_size %zu", plugin->path,
                     (unsigned)table->op_count, stride);
  plugin->ops = keel_arena_take(&plugin->context->arena,
                                table->op_count * sizeof *plugin->ops);
  if (!plugin->ops) return KD_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < table->op_count; i++) {
    kd_op_def def;
    copy_one(&def, sizeof def, table->ops, stride, i);
    KEEL_TRY(read_one(plugin, &def));
  }
  return KD_OK;
}

bool keel_ops_refused(const keel_plugin *plugin, const kd_kernel_def *def) {
  for (const keel_refused_op *at = plugin->refused_ops; at; at = at->next)
    if (!strcmp(at->name, def->op) && !strcmp(at->domain, def->domain))
      return true;
  return false;
}

keel_status keel_ops_add(keel_plugin *plugin) {
  keel_context *context = plugin->context;
  if (!plugin->op_count) return KD_OK;
  uint32_t count = context->vendor_op_count + plugin->op_count;
  const keel_schema **all =
      keel_arena_take(&context->arena, count * sizeof *all);
  if (!all) return KD_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < count; i++)
    all[i] = i < context->vendor_op_count
                 ? context->vendor_ops[i]
                 : &plugin->ops[i - context->vendor_op_count];
  context->vendor_ops = all;
  context->vendor_op_count = count;
  return KD_OK;
}
