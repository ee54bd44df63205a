/* kd/help.h - conveniences for plugin authors, written only in terms of the
 * other headers: they are optional, and not part of the ABI.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef KD_HELP_H
#define KD_HELP_H

#include <kd/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Whether a struct that the other side wrote is long enough to have `field`. */
#define KD_HAS(pointer, field)                                           \
  ((pointer)->struct_size >=                                             \
   (size_t)((const char *)&(pointer)->field - (const char *)(pointer)) + \
       sizeof((pointer)->field))

/* Sets of types that many definitions use. */
#define KD_TYPES_FLOAT \
  (KD_TYPES(KD_F16) | KD_TYPES(KD_BF16) | KD_TYPES(KD_F32) | KD_TYPES(KD_F64))
#define KD_TYPES_SIGNED \
  (KD_TYPES(KD_I8) | KD_TYPES(KD_I16) | KD_TYPES(KD_I32) | KD_TYPES(KD_I64))
#define KD_TYPES_UNSIGNED \
  (KD_TYPES(KD_U8) | KD_TYPES(KD_U16) | KD_TYPES(KD_U32) | KD_TYPES(KD_U64))
#define KD_TYPES_INT    (KD_TYPES_SIGNED | KD_TYPES_UNSIGNED)
#define KD_TYPES_NUMBER (KD_TYPES_FLOAT | KD_TYPES_INT)
#define KD_TYPES_PLAIN  (KD_TYPES_NUMBER | KD_TYPES(KD_BOOL))

/* Bits of one element; 0 for strings and unknown numbers. */
static inline uint32_t kd_dtype_bits(kd_dtype dtype) {
  static const uint8_t bits[KD_DTYPE_COUNT] = {
      0,  32,  8,  8, 16, 16, 32, 64, 0, 8, 16, 64, 32, 64,
      64, 128, 16, 8, 8,  8,  8,  4,  4, 4, 8,  2,  2};
  return dtype < KD_DTYPE_COUNT ? bits[dtype] : 0;
}

/* Bytes of one element; 0 for types smaller than a byte, too. */
static inline uint32_t kd_dtype_size(kd_dtype dtype) {
  return kd_dtype_bits(dtype) / 8;
}

/* "f32" for KD_F32, and so on; "?" for an unknown number. */
static inline const char *kd_dtype_name(kd_dtype dtype) {
  static const char *const name[KD_DTYPE_COUNT] = {
      "none",       "f32",    "u8",         "i8",   "u16",  "i16",
      "i32",        "i64",    "str",        "bool", "f16",  "f64",
      "u32",        "u64",    "c64",        "c128", "bf16", "f8e4m3fn",
      "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz", "u4",   "i4",   "f4e2m1",
      "f8e8m0",     "u2",     "i2"};
  return dtype < KD_DTYPE_COUNT ? name[dtype] : "?";
}

/* The name of a status: "OUT_OF_MEMORY"; "?" for an unknown number. */
static inline const char *kd_status_name(kd_status status) {
#define KD_STATUS_NAME_OF(name, text, hint) #name,
  static const char *const names[] = {KD_STATUS_LIST(KD_STATUS_NAME_OF)};
#undef KD_STATUS_NAME_OF
  return status >= 0 && status < (kd_status)(sizeof names / sizeof *names)
             ? names[status]
             : "?";
}

/* The number of elements in a tensor. */
static inline int64_t kd_elements(const kd_tensor *tensor) {
  int64_t count = 1;
  for (uint32_t i = 0; i < tensor->rank; i++)
    count *= tensor->dims[i];
  return count;
}

/* The data of an input or output, on a device with addresses. */
static inline const void *kd_input(const kd_launch *launch, uint32_t index) {
  return launch->inputs[index].data;
}
static inline void *kd_output(const kd_launch *launch, uint32_t index) {
  return launch->outputs[index].data;
}

/* Whether an optional argument is present. */
static inline int kd_has_input(const kd_launch *launch, uint32_t index) {
  return index < launch->input_count && launch->inputs[index].dtype != KD_NONE;
}
static inline int kd_has_output(const kd_launch *launch, uint32_t index) {
  return index < launch->output_count &&
         launch->outputs[index].dtype != KD_NONE;
}

#ifdef __cplusplus
}
#endif
#endif /* KD_HELP_H */
