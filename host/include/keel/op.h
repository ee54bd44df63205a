/* keel/op.h - running single ops.
 *
 * Ops, attributes and their meaning are ONNX's at opset 28 (domain "ai.onnx",
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

/* Ops of the domain "keel" that the runtime does on every device. [] is optional.
 *
 * Random numbers, functions of their inputs (Philox 4x32-10, Salmon et al. 2011) and the
 * same on every device. Each counter gives numbers of its own: count the calls.
 *
 *   Uniform(seed, counter, shape) -> Y   in [0, 1); attribute dtype, of ONNX's numbers
 *   Normal(seed, counter, shape) -> Y    of mean 0 and variance 1; so too
 *
 * Resources keep their content between ops and between runs. A resource is a value: who
 * holds one can hand it to any op or run, from any thread, and when nobody does it is
 * freed. Each op is one step that others see whole or not at all. In a run, ops that
 * touch a resource act as if they ran one after the other in the program's order, and
 * nested functions count where their node stands; ops that only look run at once. A run
 * is refused that is given one resource as two inputs. What comes behind a change that
 * failed is not done, in KEEL_RUN_PARTIAL too. Called singly, they wait for inputs that
 * are pending, so that calls take effect in their order.
 *
 *   Variable(initial) -> variable            holds a tensor, in the memory of the device
 *                                            that it is made on, the scope's; attribute
 *                                            any_shape=1: of any shape
 *   VariableRead(variable) -> value
 *   VariableAssign(variable, value) -> value  of the type that it holds
 *
 *   Counter([start]) -> counter              holds an i64, at first 0, that wraps
 *   CounterAdd(counter, [by]) -> before      adds 1, or `by`
 *
 *   Table(absent) -> table                   holds rows of the type of `absent` by i64
 *                                            keys, in host memory
 *   TableInsert(table, keys, rows) -> count  one row a key, or new rows for keys that are
 *                                            there; with keys of shape K and rows of R,
 *                                            rows has K, R; count: entries, afterwards
 *   TableFind(table, keys) -> rows, [found]  `absent` for keys that are not there
 *   TableErase(table, keys) -> erased        how many were there
 *   TableEntries(table) -> keys, [rows]      all, by rising keys */

#ifdef __cplusplus
}
#endif
#endif /* KEEL_OP_H */
