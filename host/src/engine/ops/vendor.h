/* vendor.h - all ops of a context: those of Keel's table, and those that plugins define. */
#ifndef KEEL_VENDOR_H
#define KEEL_VENDOR_H

#include "ops/schema.h"

/* Finds an op by name; NULL if there is none. domain "" is "ai.onnx".
 * context  NULL: those of the table alone */
const keel_schema *keel_op_find(const keel_context *context, const char *domain,
                                const char *name);

/* All ops: the table's, in its order, then those that plugins brought; NULL past the
 * last. */
const keel_schema *keel_op_at(const keel_context *context, uint32_t index);

/* Fails with "no op ...", suggesting a similar name, or the existing domains. Returns
 * KD_NOT_FOUND. */
keel_status keel_op_missing(const keel_context *context, const char *domain,
                            const char *name);

/* Whether two schemas are the same op: name, version, arguments and attributes. */
bool keel_schema_equal(const keel_schema *a, const keel_schema *b);

/* The shape function of plugins' ops: calls the plugin's, and checks its result. */
keel_status keel_shape_plugin_op(keel_infer *infer);

#endif /* KEEL_VENDOR_H */
