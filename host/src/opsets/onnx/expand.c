/* expand.c - ops that devices have no kernel for, written with simpler ones: by the texts of
 * host/src/defs/ops.def, or by what their rules have (keel_op_rule). */
#include <ctype.h>
#include <kd/help.h>

#include "device/context.h"
#include "eager/call_site.h"
#include "ops/registry.h"
#include "opsets/onnx/passes.h"
#include "opsets/terms.h"
#include "opsets/text.h"
#include "system/locale.h"

#define DEPTH_MOST 8

/* ---- by a text ----------------------------------------------------------------- */

/* Whether a text has numbers, which are exact enough in f32 and f64 alone. */
static bool has_numbers(const char *body) {
  for (const char *at = body; *at; at++) {
    if (*at == '[' || *at == '{') at += strcspn(at, "]}");
    bool begins = at == body ||
                  !(isalnum((unsigned char)at[-1]) || strchr("$%^_", at[-1]));
    if (*at == '@' || (begins && isdigit((unsigned char)*at))) return true;
  }
  return false;
}

static void expand_by(keel_emit *all, const char *body) {
  const keel_type *type = keel_emit_type(all, 0);
  if (has_numbers(body) &&
      (!type || (type->dtype != KD_F32 && type->dtype != KD_F64)))
    all->status =
        keel_fail(KD_UNIMPLEMENTED,
                  "%s of %s has no kernel, and is not written with simpler ops",
                  all->node.op->schema->name,
                  type ? keel_dtype_name(type->dtype) : "an unknown type");
  else
    keel_emit_text(all, body);
}

/* Sum of any number: one Add after the other. */
static void expand_sum(keel_emit *all) {
  uint32_t total = keel_emit_in(all, 0);
  for (uint32_t i = 1; i < all->node.input_count; i++)
    total = keel_emit_binary(all, "Add", total, keel_emit_in(all, i));
  keel_emit_give(all, 0, total);
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

typedef struct runnable {
  const keel_context *context;
  int depth;
} runnable;

static bool op_can_run(void *of, const char *op) {
  const runnable *r = of;
  return has_kernel(r->context, "ai.onnx", op) ||
         (r->depth < DEPTH_MOST && expand_choose(r->context, op, r->depth + 1));
}

/* Whether the ops of a body, or of their bodies, all have kernels: else the
 * error had better name the op that the user knows. */
static bool can_run(const keel_context *context, const char *body, int depth) {
  runnable r = {context, depth};
  return keel_text_ops(body, op_can_run, &r);
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

/* Writes a node by a function, or by a text. */
static keel_status write_simpler(keel_function *function, uint32_t index,
                                 void (*write)(keel_emit *all),
                                 const char *text) {
  keel_emit all = {.function = function, .node = function->nodes[index]};
  function->nodes[index].dead = true;
  if (write)
    write(&all);
  else
    keel_emit_text(&all, text);
  return all.status;
}

static keel_status expand_visit(keel_function *function, keel_device *device,
                                uint32_t index) {
  const keel_node *node = &function->nodes[index];
  const keel_schema *schema = node->op->schema;
  const keel_context *context = function->context;
  if (node->dead || keel_schema_hosted(schema)) return KD_OK;
  if (schema->expand || schema->body)
    return expand_stays(function, device, node)
               ? KD_OK
               : write_simpler(function, index, schema->expand, schema->body);
  if (has_kernel(context, schema->domain, schema->name)) return KD_OK;
  if (!strcmp(schema->name, "Sum") && node->input_count > 1 &&
      has_kernel(context, "ai.onnx", "Add"))
    return write_simpler(function, index, expand_sum, NULL);
  const char *body = body_of(context, node);
  if (!body) return KD_OK;
  keel_emit all = {.function = function, .node = *node};
  function->nodes[index].dead = true;
  expand_by(&all, body);
  return all.status;
}

keel_status keel_expand_all_of(keel_function *function, const char *domain,
                               const char *op) {
  uint32_t count = function->node_count;
  for (uint32_t i = 0; i < count; i++) {
    const keel_schema *schema = function->nodes[i].op->schema;
    if (function->nodes[i].dead || strcmp(schema->name, op) != 0 ||
        strcmp(schema->domain, domain) != 0)
      continue;
    KEEL_TRY(write_simpler(function, i, schema->expand, schema->body));
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
