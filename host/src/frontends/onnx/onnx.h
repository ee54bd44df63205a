/* onnx.h - ONNX files: models become programs, protobufs become values. */
#ifndef KEEL_ONNX_H
#define KEEL_ONNX_H

#include <keel/program.h>

#include "base/base.h"

/* Reads a model. `path` names it in messages and finds external data.
 * file: from keel_file_open; it is the program's from then on, whose large constants stay in
 * it. Where it fails it may be the caller's still. */
keel_status keel_onnx_load(keel_context *context, const char *path,
                           keel_file *file, keel_program **out_program);

/* Reads a TensorProto, SequenceProto or OptionalProto (KEEL_FILE_*). */
keel_status keel_onnx_value(keel_context *context, const char *path,
                            const uint8_t *data, uint64_t size, uint32_t kind,
                            keel_tensor **out_value);

#endif /* KEEL_ONNX_H */
