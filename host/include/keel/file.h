/* keel/file.h - values in files.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef KEEL_FILE_H
#define KEEL_FILE_H

#include <keel/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The message type of a .pb file, which the file itself does not contain. */
#define KEEL_FILE_TENSOR   0u /* onnx.TensorProto */
#define KEEL_FILE_SEQUENCE 1u /* onnx.SequenceProto */
#define KEEL_FILE_OPTIONAL 2u /* onnx.OptionalProto */

/* Reads a value: a NumPy array (.npy, format 1.0 to 3.0) or, if Keel was built
 * with protobuf-c, an ONNX protobuf of the given kind. The file's first bytes
 * tell which.
 * Returns KD_OK, KD_NOT_FOUND, KD_PERMISSION_DENIED, KD_DATA_LOSS (the message
 * says what is damaged), KD_UNIMPLEMENTED (an element type that Keel does not
 * have), KD_OUT_OF_MEMORY. */
KEEL_API keel_status keel_value_load(keel_context *context, const char *path,
                                     uint32_t kind,
                                     KD_OWNED keel_tensor **out_value);

/* Writes a tensor to a .npy file, which is replaced completely or not at all.
 * bf16 is written as f32, which represents it exactly. Returns KD_OK,
 * KD_INVALID_ARGUMENT (not a tensor), KD_PERMISSION_DENIED, KD_UNAVAILABLE. */
KEEL_API keel_status keel_value_save(keel_tensor *value, const char *path);

#ifdef __cplusplus
}
#endif
#endif /* KEEL_FILE_H */
