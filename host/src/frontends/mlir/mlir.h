/* mlir.h - programs as text, in MLIR's generic syntax.
 *
 * Syntax: "MLIR Language Reference" and "Builtin Dialect" of LLVM 19. The text needs no dialect but
 * builtin: mlir-opt takes it with --allow-unregistered-dialect.
 *
 *   "keel.program"() ({          the program's own function: one block
 *   ^bb0(%0: tensor<1x4xf32>):   its inputs
 *     %1 = "keel.constant"() {value = dense<...> : tensor<4xf32>} : () -> ...
 *     %2 = "keel.none"() : () -> none          an argument that is left out
 *     %3 = "onnx.Add"(%0, %1) {...} : (...) -> ...
 *     "keel.return"(%3) : (...) -> ()          its outputs
 *   }) {inputs = [...], ...} : () -> ()        names and declared types of its ports
 *
 * An op of domain D is "D.Name"; ai.onnx is "onnx". Nested functions are regions, which get what
 * they read from outside as their last arguments; `keel.graphs` names them. Other attributes of
 * Keel's own begin with "keel." too: name, device, blocked. Types that are not tensors:
 * !keel.sequence, !keel.optional, !keel.optional_sequence, and !keel.value for unknown types.
 *
 * Compiled forms of regions have no text: they are left out, and plans compile. */
#ifndef KEEL_MLIR_H
#define KEEL_MLIR_H

#include "program/function.h"

/* The version of the ops above; a reader refuses later ones. */
#define KEEL_MLIR_VERSION 1

/* Constants larger than a few elements are left out: for looking at, not for reading
 * back. */
#define KEEL_MLIR_SHORT 0x1u

/* Writes a function, those nested in it, and what they hold.
 * Returns KD_OK, KD_OUT_OF_MEMORY, KD_UNIMPLEMENTED (a constant of a type that has no
 * text: f8 and 4-bit), or a constant's failure. */
keel_status keel_mlir_write(const keel_function *main,
                            const keel_device *device, uint32_t flags,
                            FILE *file);

/* ---- types: types.c ---------------------------------------------------------- */

/* MLIR's name of an element type ("i64" for KD_I64, "ui8" for KD_U8), and the type of a
 * name; NULL, KD_NONE for none. */
const char *keel_mlir_dtype_name(kd_dtype dtype);
kd_dtype keel_mlir_dtype_of(const char *name, size_t size);

#endif /* KEEL_MLIR_H */
