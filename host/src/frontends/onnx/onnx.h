/* onnx.h - ONNX's protobufs of values. Models: keel_frontend_onnx. */
#ifndef KEEL_ONNX_H
#define KEEL_ONNX_H

#include <keel/program.h>

#include "base/base.h"

/* Reads a TensorProto, SequenceProto or OptionalProto (KEEL_FILE_*). */
keel_status keel_onnx_value(keel_context *context, const char *path,
                            const uint8_t *data, uint64_t size, uint32_t kind,
                            keel_tensor **out_value);

#endif /* KEEL_ONNX_H */
