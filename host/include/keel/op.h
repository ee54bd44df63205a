/* keel/op.h - running single ops.
 *
 * Ops, attributes and their meaning are ONNX's at opset 18 (domain "ai.onnx",
 * written as no domain), and keel's own in domain "keel".
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef KEEL_OP_H
#define KEEL_OP_H

#include <keel/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An attribute: a name and one value of the kind that `kind` says, with the
 * KD_ATTR_* numbers of kd/host.h. Borrowed for the call. */
typedef struct keel_attr {
  const char *name;
  uint32_t kind;
  uint32_t count; /* of ints, floats, strings */
  int64_t i;
  float f;
  const char *s;
  const int64_t *ints;
  const float *floats;
  const char *const *strings;
  keel_tensor *tensor;
} keel_attr;

#define KEEL_INT(NAME, VALUE) \
  { .name = (NAME), .kind = 2, .i = (VALUE) }
#define KEEL_FLOAT(NAME, VALUE) \
  { .name = (NAME), .kind = 1, .f = (VALUE) }
#define KEEL_STRING(NAME, VALUE) \
  { .name = (NAME), .kind = 3, .s = (VALUE) }
#define KEEL_INTS(NAME, COUNT, VALUES) \
  { .name = (NAME), .kind = 7, .count = (COUNT), .ints = (VALUES) }

/* An op with its attributes, prepared to be called often. Any number of threads
 * may call one at once. */
typedef struct keel_op keel_op;

/* Prepares an op.
 *
 * op      "Relu", or with a domain "keel::FusedConv"
 * device  where it runs; NULL: the scope of the call decides
 * Returns KD_OK, KD_NOT_FOUND (no such op; the message names near ones),
 * KD_INVALID_ARGUMENT (attribute unknown, missing or of the wrong kind). */
KEEL_API keel_status keel_op_prepare(keel_context *context, const char *op,
                                     const keel_attr *attrs,
                                     uint32_t attr_count, keel_device *device,
                                     KD_OWNED keel_op **out_op);

/* Frees it; calls of it must have returned. NULL does nothing. */
KEEL_API void keel_op_release(keel_op *op);

/* Runs it. Types and shapes are always checked before it returns, when the
 * inputs' types are known. Where an input is pending, so are the outputs; where
 * one has failed, so have they.
 *
 * inputs   NULL entries are absent optional arguments
 * outputs  receives output_count values; each is the caller's to release
 * Returns KD_OK (each output is ready, pending or failed), or why the call
 * was refused, with op, argument and shapes (outputs are then NULL). */
KEEL_API keel_status keel_op_call(keel_op *op, keel_tensor *const *inputs,
                                  uint32_t input_count,
                                  KD_OWNED keel_tensor **outputs,
                                  uint32_t output_count);

/* Finds or prepares the op, then runs it as keel_op_call does. */
KEEL_API keel_status keel_call(keel_context *context, const char *op,
                               const keel_attr *attrs, uint32_t attr_count,
                               keel_tensor *const *inputs, uint32_t input_count,
                               KD_OWNED keel_tensor **outputs,
                               uint32_t output_count);

#ifdef __cplusplus
}
#endif
#endif /* KEEL_OP_H */
