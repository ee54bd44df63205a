/* keel/op.h - running single ops.
 *
 * Ops, attributes and their meaning are ONNX's at opset 28 (domain "ai.onnx",
 * which may be omitted), and Keel's own in domain "keel".
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef KEEL_OP_H
#define KEEL_OP_H

#include <keel/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An attribute: a name, and one value of the kind that `kind` says, a KD_ATTR_*
 * number of kd/host.h. Borrowed for the call. */
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
  struct keel_builder *body; /* of ops in programs: program.h */
} keel_attr;

#define KEEL_INT(NAME, VALUE) \
  { .name = (NAME), .kind = 2, .i = (VALUE) }
#define KEEL_FLOAT(NAME, VALUE) \
  { .name = (NAME), .kind = 1, .f = (VALUE) }
#define KEEL_STRING(NAME, VALUE) \
  { .name = (NAME), .kind = 3, .s = (VALUE) }
#define KEEL_BODY(NAME, BUILDER) \
  { .name = (NAME), .kind = 5, .body = (BUILDER) }
#define KEEL_INTS(NAME, COUNT, VALUES) \
  { .name = (NAME), .kind = 7, .count = (COUNT), .ints = (VALUES) }

/* An op with its attributes, prepared for repeated calls. Any number of threads
 * may call one at once. */
typedef struct keel_op keel_op;

/* Prepares an op.
 *
 * op      "Relu", or with a domain "keel::FusedConv"
 * device  where it runs; NULL: the scope of the call decides
 * Returns KD_OK, KD_NOT_FOUND (no such op; the message suggests similar ones),
 * KD_INVALID_ARGUMENT (attribute unknown, missing or of the wrong kind). */
KEEL_API keel_status keel_op_prepare(keel_context *context, const char *op,
                                     const keel_attr *attrs,
                                     uint32_t attr_count, keel_device *device,
                                     KD_OWNED keel_op **out_op);

/* Frees an op, all of whose calls have returned. NULL does nothing. */
KEEL_API void keel_op_release(keel_op *op);

/* Runs an op. If the inputs' types are known, types and shapes are checked
 * before the call returns. If an input is pending, so are the outputs; if one
 * has failed, so have they.
 *
 * inputs   NULL entries are absent optional arguments
 * outputs  receives output_count values; the caller releases each
 * Returns KD_OK (each output is ready, pending or failed), or why the call was
 * refused, with op, argument and shapes (outputs are then NULL). */
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

/* Ops of domain "keel" that the runtime runs on every device. Brackets mark
 * optional arguments.
 *
 * Random numbers. They depend on the inputs alone (Philox 4x32-10, Salmon et
 * al. 2011) and are the same on every device. Each value of the counter gives
 * new numbers: increment it at each call.
 *
 *   Uniform(seed, counter, shape) -> Y   in [0, 1); attribute dtype is ONNX's
 *   Normal(seed, counter, shape) -> Y    mean 0, variance 1; dtype as above
 *
 * Resources keep their content between ops and between runs. A resource is a
 * value: its holders can pass it to any op or run, from any thread; it is freed
 * with its last reference. Each op on a resource is atomic. In a run, the
 * ops on a resource act as if they ran one after the other in the program's
 * order, where nested functions count at their node; ops that only read run
 * concurrently. A run with one resource as two of its inputs is refused. After
 * a change that failed, later ops on the resource do not run, even with
 * KEEL_RUN_PARTIAL. Outside of runs, ops wait for pending inputs, so that calls
 * take effect in order.
 *
 *   Variable(initial) -> variable            holds a tensor, in the memory of
 *                                            the device scope's device;
 *                                            any_shape=1: of any shape
 *   VariableRead(variable) -> value
 *   VariableAssign(variable, value) -> value of the type that it holds
 *
 *   Counter([start]) -> counter              holds an i64, initially 0, that
 *                                            wraps around
 *   CounterAdd(counter, [by]) -> before      adds 1, or `by`
 *
 *   Table(absent) -> table                   maps i64 keys to rows of the type
 *                                            of `absent`, in host memory
 *   TableInsert(table, keys, rows) -> count  inserts or replaces one row per
 *                                            key; if keys have shape K and a
 *                                            row R, rows have K, R; returns the
 *                                            number of entries
 *   TableFind(table, keys) -> rows, [found]  `absent` for missing keys
 *   TableErase(table, keys) -> erased        how many were there
 *   TableEntries(table) -> keys, [rows]      all, in ascending key order
 *
 * Exchanges between the members of a group, each of which runs the op. member is a handle
 * (keel_group_members) and a resource; ops on it keep the program's order. Semantics are those
 * of MPI's operations of the same name. `ranks` divides the group into subgroups: its first
 * `size` ranks are one, and so on, each rank once; without it all members are one subgroup, in
 * rank order. Rows are along the first dimension. The output is in the memory of the member's
 * device. Outside of runs, the output is pending until all members have called; the call itself
 * waits for a pending X, so a single thread calls for all members before it passes one of the
 * outputs to the next exchange.
 *
 *   AllReduce(member, X) -> Y      reduction (sum, product, min or max) of all X,
 *                                  the same bits for each member
 *   AllGather(member, X) -> Y      the rows of all, joined; size is required
 *   ReduceScatter(member, X) -> Y  this member's block of the rows, reduced;
 *                                  size is required
 *   AllToAll(member, X) -> Y       block i of the rows goes to member i; size
 *                                  is required
 *   Broadcast(member, X) -> Y      X of the subgroup's first rank
 *   Permute(member, X) -> Y        X of the rank that sends to this one: pairs
 *                                  has from, to, from, to ...; zeros if no rank
 *                                  does
 *   Send(member, X) -> Y           sends X to rank `to`; Y is X, pending until
 *                                  the group no longer needs X's memory
 *   Receive(member) -> Y           the next X of rank `from`, which must be of
 *                                  type dtype and shape
 *   Rank(member) -> rank           an i64
 *
 * Send and Receive involve two members alone. Values from one rank to another arrive in the
 * order of the Sends. In a run, a Send or Receive that waits for the other rank, or for its X,
 * holds up no other exchange except later messages between the same ranks. */

#ifdef __cplusplus
}
#endif
#endif /* KEEL_OP_H */
