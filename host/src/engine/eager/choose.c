/* choose.c - chooses the kernel definition and the device for a node. */
#include <kd/help.h>

#include "device/context.h"
#include "device/lost.h"
#include "eager/call_site.h"
#include "layers/layers.h"
#include "memory/mapping.h"

static bool allows(uint64_t types, const keel_type *type) {
  return !type || (types & KD_TYPES(type->dtype));
}

static bool types_fit(const kd_kernel_def *def, const struct kd_node *node) {
  for (uint32_t i = 0; i < node->input_count; i++) {
    uint32_t at = i < KD_MAX_TYPED_INPUTS ? i : KD_MAX_TYPED_INPUTS - 1;
    if (!allows(def->input_types[at], node->inputs[i])) return false;
  }
  for (uint32_t i = 0; i < node->output_count; i++) {
    uint32_t at = i < KD_MAX_TYPED_OUTPUTS ? i : KD_MAX_TYPED_OUTPUTS - 1;
    if (!allows(def->output_types[at], node->outputs[i])) return false;
  }
  return true;
}

/* Whether the definition supports the node's layouts, as far as its flags say. */
static bool layouts_fit(const kd_kernel_def *def, const struct kd_node *node) {
  if (!node->layouts && !node->output_layout) return true;
  if (def->flags & KD_KERNEL_OWN_LAYOUT) return true;
  if (!(def->flags & KD_KERNEL_LAYOUT_AGNOSTIC)) return false;
  for (uint32_t i = 0; i < node->input_count; i++)
    if (node->inputs[i] != node->outputs[0] ||
        keel_node_layout(node, i) != node->output_layout)
      return false;
  return true;
}

static bool choose_fits(keel_device *device, const kd_kernel_def *def,
                        const struct kd_node *node) {
  uint32_t opset = node->op->schema->since;
  if ((def->opset_min && opset < def->opset_min) || opset > def->opset_max ||
      !layouts_fit(def, node) || !types_fit(def, node))
    return false;
  if (!def->supports) return true;
  if (keel_device_enter(device) != KD_OK) return false;
  keel_status status = keel_layers_enter("kernel.supports");
  uint64_t began = keel_now();
  if (status == KD_OK) status = def->supports(device->handle, node);
  keel_layers_exit(&device->context->log, "kernel.supports", began, status);
  keel_lost_leave(device);
  return status == KD_OK;
}

static const kd_kernel_def *best_on(keel_device *device,
                                    const struct kd_node *node) {
  const keel_schema *schema = node->op->schema;
  const keel_kernel_list *list =
      keel_device_kernels(device, schema->domain, schema->name);
  for (uint32_t i = 0; list && i < list->count; i++)
    if (keel_device_ready(device) == KD_OK &&
        choose_fits(device, list->defs[i], node))
      return list->defs[i];
  return NULL;
}

/* Output types count too: attributes may determine them, as Cast's `to` does. */
static void add_types(keel_text *out, const keel_type *const *types,
                      uint32_t count) {
  char type[160];
  for (uint32_t i = 0; i < count && i < 12; i++)
    keel_text_add(out, "%s%s", i ? ", " : "",
                  keel_type_text(types[i], type, sizeof type));
}

static keel_status nothing_fits(keel_context *context, keel_device *wanted,
                                const struct kd_node *node, const char *where) {
  keel_text args = {0};
  keel_text_add(&args, "(");
  add_types(&args, node->inputs, node->input_count);
  keel_text_add(&args, ") -> ");
  add_types(&args, node->outputs, node->output_count);
  char why[512] = "";
  if (keel_has_error()) snprintf(why, sizeof why, " (%s)", keel_message());
  const keel_schema *schema = node->op->schema;
  bool known = false;
  for (uint32_t i = 0; i < context->device_count; i++)
    known |= keel_device_kernels(keel_devices(context)[i], schema->domain,
                                 schema->name) != NULL;
  keel_fail(KD_UNIMPLEMENTED,
            known ? "no device takes %s%s%s%s%s; asked for %s%s"
                  : "no device has a kernel for %s%s%s%s%s; asked for %s%s",
            schema->name, keel_text_get(&args), where && *where ? " \"" : "",
            where ? where : "", where && *where ? "\"" : "",
            wanted ? wanted->name : "any", why);
  keel_text_free(&args);
  return KD_UNIMPLEMENTED;
}

static keel_status choose_it(keel_context *context, keel_device *wanted,
                             const struct kd_node *node, const char *where,
                             keel_device **out_device,
                             const kd_kernel_def **out_def) {
  keel_device *first = wanted ? wanted : context->default_device;
  if (first && atomic_load(&first->lost)) return keel_device_fail_lost(first);
  keel_clear_error();
  for (int i = -2; i < (int)context->device_count; i++) {
    keel_device *device = i == -2   ? first
                          : i == -1 ? context->default_device
                                    : keel_devices(context)[i];
    const kd_kernel_def *def = device ? best_on(device, node) : NULL;
    if (def) {
      *out_device = device;
      *out_def = def;
      return KD_OK;
    }
  }
  return nothing_fits(context, wanted, node, where);
}

keel_status keel_choose_kernel(keel_context *context, keel_device *wanted,
                               struct kd_node *node, const char *where,
                               keel_device **out_device,
                               const kd_kernel_def **out_def) {
  KEEL_TRY(keel_mapping_hold_copies(node->constants, node->input_count));
  keel_status status =
      choose_it(context, wanted, node, where, out_device, out_def);
  keel_mapping_release_copies(node->constants, node->input_count, true);
  return status;
}

/* Why a device was not chosen: it has no kernel for the op, none of these types, or one
 * whose `supports` says no. */
static void say_why_not(keel_device *device, const struct kd_node *node,
                        keel_text *out) {
  const keel_schema *schema = node->op->schema;
  keel_clear_error();
  keel_text_add(out, "%s has no kernel for %s", device->name, schema->name);
  if (!keel_device_kernels(device, schema->domain, schema->name)) return;
  keel_text_add(out, "(");
  add_types(out, node->inputs, node->input_count);
  keel_text_add(out, ") -> (");
  add_types(out, node->outputs, node->output_count);
  keel_text_add(out, ")");
  best_on(device, node);
  if (keel_has_error()) keel_text_add(out, " (%s)", keel_message());
}

keel_status keel_choose_on(keel_device *device, struct kd_node *node) {
  if (atomic_load(&device->lost)) return keel_device_fail_lost(device);
  KEEL_TRY(keel_device_ready(device));
  KEEL_TRY(keel_mapping_hold_copies(node->constants, node->input_count));
  bool takes = best_on(device, node) != NULL;
  keel_text why = {0};
  if (!takes) say_why_not(device, node, &why);
  keel_mapping_release_copies(node->constants, node->input_count, true);
  if (!takes) keel_fail(KD_UNIMPLEMENTED, "%s", keel_text_get(&why));
  keel_text_free(&why);
  return takes ? KD_OK : KD_UNIMPLEMENTED;
}

bool keel_choose_may(keel_device *device, const struct kd_node *node) {
  const keel_schema *schema = node->op->schema;
  const keel_kernel_list *list =
      keel_device_kernels(device, schema->domain, schema->name);
  for (uint32_t i = 0; list && i < list->count; i++)
    if (types_fit(list->defs[i], node)) return true;
  return false;
}

void keel_choose_tell(keel_context *context, keel_device *wanted,
                      const struct kd_node *node, const char *where,
                      keel_device *chosen) {
  if (context->log.level < KD_LOG_DEBUG) return;
  keel_device *first = wanted ? wanted : context->default_device;
  keel_text why = {0};
  if (first && first != chosen) say_why_not(first, node, &why);
  keel_log_line(&context->log, KD_LOG_DEBUG, "%s%s%s on %s%s%s",
                node->op->schema->name, *where ? " " : "", where, chosen->name,
                why.size ? ": " : "", why.size ? keel_text_get(&why) : "");
  keel_text_free(&why);
}

bool keel_may_block(const keel_opdef *op) {
  const keel_context *context = op->context;
  for (uint32_t i = 0;
       !keel_schema_hosted(op->schema) && i < context->device_count; i++) {
    const keel_kernel_list *list = keel_device_kernels(
        keel_devices(context)[i], op->schema->domain, op->schema->name);
    for (uint32_t k = 0; list && k < list->count; k++)
      if (list->defs[k]->flags & KD_KERNEL_BLOCKING) return true;
  }
  return false;
}
