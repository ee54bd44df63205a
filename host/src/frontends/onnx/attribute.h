/* attribute.h - the attributes of nodes, and what they refer to in functions. */
#ifndef KEEL_ONNX_ATTRIBUTE_H
#define KEEL_ONNX_ATTRIBUTE_H

#include "scope.h"

/* A tensor, retained. A tensor in a function is read once for all its calls. mapping: of the file,
 * where it may stay there. */
keel_status onnx_read_tensor(const scope *scope, const onnx_tensor *proto,
                             keel_mapping *mapping, keel_tensor **out_tensor);

/* The attribute of a name, or NULL. */
const onnx_attr *onnx_find_attr(onnx_attr *const *attrs, size_t count,
                                const char *name);

/* An attribute, or what it refers to in a function's body: an attribute of the call or, where that
 * is missing, the function's default. NULL: neither exists, or it is empty. *scope: where the
 * attribute is written. */
keel_status onnx_resolve_attr(scope **scope, const onnx_node *node,
                              const onnx_attr *attr,
                              const onnx_attr **out_attr);

/* Graph attributes are imported by the caller. */
keel_status onnx_read_attr(const scope *scope, const onnx_node *node,
                           const onnx_attr *from, keel_attr *to);

#endif /* KEEL_ONNX_ATTRIBUTE_H */
