/* import.h - shared by the files of the ONNX frontend. */
#ifndef KEEL_ONNX_IMPORT_H
#define KEEL_ONNX_IMPORT_H

#include "device/device.h"
#include "frontends/onnx/onnx.h"
#include "onnx.pb-c.h"
#include "program/function.h"

typedef Onnx__ModelProto onnx_model;
typedef Onnx__GraphProto onnx_graph;
typedef Onnx__NodeProto onnx_node;
typedef Onnx__AttributeProto onnx_attr;
typedef Onnx__TensorProto onnx_tensor;
typedef Onnx__ValueInfoProto onnx_value_info;
typedef Onnx__FunctionProto onnx_function;

/* The newest version of ONNX's IR of which onnx.proto has every field. */
#define KEEL_ONNX_IR 14

/* A protobuf from bytes of any origin: its depth and what it allocates are
 * bounded before protobuf-c sees it, and a field that onnx.proto does not have is
 * refused. The raw_data of tensors is not copied: keel_onnx_raw
 * says where it lies in `data`. Free with keel_onnx_free. */
keel_status keel_onnx_unpack(const char *path,
                             const ProtobufCMessageDescriptor *kind,
                             const uint8_t *data, uint64_t size,
                             ProtobufCMessage **out_message);
void keel_onnx_free(ProtobufCMessage *message);

/* A tensor's raw_data; data is NULL if it has none. */
typedef struct keel_onnx_bytes {
  const uint8_t *data;
  uint64_t size;
} keel_onnx_bytes;
keel_onnx_bytes keel_onnx_raw(const onnx_tensor *proto);

/* A tensor of a TensorProto. `path` is the file it came from; mapping: of that file, in
 * which large data stay, wherever they begin (mapping.h), or NULL. */
keel_status keel_onnx_tensor(keel_context *context, const char *path,
                             const onnx_tensor *proto, keel_mapping *mapping,
                             keel_tensor **out_tensor);

/* A SparseTensorProto as a tensor that has all elements. */
keel_status keel_onnx_sparse(keel_context *context, const char *path,
                             const Onnx__SparseTensorProto *proto,
                             keel_tensor **out_tensor);

/* Copies constants that begin where kernels can't read them, unless it is the kernels'
 * affair, which bring them into a form of their own. */
keel_status keel_onnx_settle(keel_program *program);

#endif /* KEEL_ONNX_IMPORT_H */
