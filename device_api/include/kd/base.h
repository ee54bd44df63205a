/* kd/base.h - definitions that every other header uses.
 *
 * Versions, statuses, element types and opaque handles. Everywhere in kd, sizes
 * are in bytes and times in nanoseconds, unless a comment states elements.
 * Strings are UTF-8 and NUL-terminated. SPDX-License-Identifier: Apache-2.0 */
#ifndef KD_BASE_H
#define KD_BASE_H

#include <stddef.h>
#include <stdint.h>

/* The version of the ABI that these headers describe.
 *
 * MAJOR is part of the entry symbol's name; it changes only when something that
 * exists changes or is removed. MINOR increases when a field, slot, flag or
 * constant is appended. Neither side may ever require equal versions: each
 * states the version it was built with and the lowest that it can work with,
 * and they are compatible if each one's version is at least the other's
 * lowest. */
#define KD_ABI_MAJOR              0
#define KD_ABI_MINOR              10
#define KD_VERSION(major, minor)  (((uint32_t)(major) << 16) | (uint32_t)(minor))
#define KD_ABI_VERSION            KD_VERSION(KD_ABI_MAJOR, KD_ABI_MINOR)
#define KD_VERSION_MAJOR(version) ((uint32_t)(version) >> 16)
#define KD_VERSION_MINOR(version) ((uint32_t)(version)&0xffffu)

/* The newest op semantics that these headers know: in domain "ai.onnx" ONNX's
 * up to this opset, in domain "keel" those of this ABI version. */
#define KD_OPSET 28u

/* The rules that keep old plugins working in new hosts, and new plugins in old
 * hosts:
 *
 * - Every table and descriptor begins with `struct_size`, the size its writer
 *   knew. Fields are only ever appended. A reader treats a field beyond
 *   `struct_size` as zero, and ignores the tail of a larger struct.
 * - Zero always means "default" and NULL "not supported", so an absent field
 *   never changes the meaning of the others.
 * - A feature that a reader must understand is a bit in a `flags` field, one of
 *   bits 0 to 23: a reader that does not know the bit refuses the object with
 *   KD_UNIMPLEMENTED. Bits 24 to 31 (KD_HINTS) are hints, which a reader may
 *   ignore.
 * - `reserved` fields are zero, and readers ignore them.
 * - Structs marked "frozen" never grow; a static assertion checks their size.
 * - No struct contains an enum, bool, bit-field, long or size_t.
 * - Functions have the platform's C calling convention (cdecl on 32-bit
 *   Windows).
 * - Neither side is called from a forked child process or a signal handler. */

/* The bits of a flags word that are hints. */
#define KD_HINTS 0xff000000u

/* Marks a result that the receiver owns and must give back through the same
 * table. */
#define KD_OWNED

#if defined(_WIN32)
#define KD_EXPORT __declspec(dllexport)
#elif defined(__GNUC__)
#define KD_EXPORT __attribute__((visibility("default")))
#else
#define KD_EXPORT
#endif
#if defined(__GNUC__)
#define KD_PRINTF(string, first) __attribute__((format(printf, string, first)))
#else
#define KD_PRINTF(string, first)
#endif

#if defined(__cplusplus)
#define KD_STATIC_ASSERT(condition, text) static_assert(condition, text)
#else
#define KD_STATIC_ASSERT(condition, text) _Static_assert(condition, text)
#endif

/* The result of a call: zero, or why it failed. The numbers 0 to 16 are gRPC's
 * (and Abseil's), so bindings can map them one to one. A reader treats a number
 * that it does not know as KD_UNKNOWN; the message has details. Negative numbers
 * are reserved. */
typedef int32_t kd_status;

#define KD_OK                  0
#define KD_CANCELLED           1
#define KD_UNKNOWN             2
#define KD_INVALID_ARGUMENT    3
#define KD_DEADLINE_EXCEEDED   4
#define KD_NOT_FOUND           5
#define KD_ALREADY_EXISTS      6
#define KD_PERMISSION_DENIED   7
#define KD_OUT_OF_MEMORY       8
#define KD_FAILED_PRECONDITION 9
#define KD_ABORTED             10
#define KD_OUT_OF_RANGE        11
#define KD_UNIMPLEMENTED       12
#define KD_INTERNAL            13
#define KD_UNAVAILABLE         14
#define KD_DATA_LOSS           15
#define KD_UNAUTHENTICATED     16
#define KD_DEVICE_LOST         17
#define KD_INCOMPATIBLE        18
#define KD_BUSY                19

/* One line per status: its name, its text, and what the user can do. */
#define KD_STATUS_LIST(X)                                                  \
  X(OK, "ok", "nothing")                                                   \
  X(CANCELLED, "cancelled", "nothing: it was requested")                   \
  X(UNKNOWN, "unknown error", "read the message")                          \
  X(INVALID_ARGUMENT, "invalid argument", "correct the named argument")    \
  X(DEADLINE_EXCEEDED, "deadline exceeded", "allow more time")             \
  X(NOT_FOUND, "not found", "check the name or path")                      \
  X(ALREADY_EXISTS, "already exists", "use another name")                  \
  X(PERMISSION_DENIED, "permission denied", "check owner and permissions") \
  X(OUT_OF_MEMORY, "out of memory", "use smaller sizes or free something") \
  X(FAILED_PRECONDITION, "failed precondition", "first do what is named")  \
  X(ABORTED, "aborted", "try the whole operation again")                   \
  X(OUT_OF_RANGE, "out of range", "correct the named index or size")       \
  X(UNIMPLEMENTED, "not supported", "use another device or op")            \
  X(INTERNAL, "internal error", "report it, with the message")             \
  X(UNAVAILABLE, "unavailable", "try again later, or check the driver")    \
  X(DATA_LOSS, "data loss", "fetch the file or data again")                \
  X(UNAUTHENTICATED, "unauthenticated", "give valid credentials")          \
  X(DEVICE_LOST, "device lost", "close the device and open it again")      \
  X(INCOMPATIBLE, "incompatible versions", "upgrade the older side")       \
  X(BUSY, "busy", "wait until earlier work is done, then try again")

/* Element types. The numbers are those of ONNX's TensorProto.DataType
 * (onnx.proto, IR version 12). A reader treats a number that it does not know
 * as an unsupported type. Numbers up to 47 are reserved for ONNX, 48 to 62 for
 * Keel; from 0x80000000 up they are a vendor's own.
 *
 * Types smaller than a byte are packed, the first element in the lowest bits;
 * unused bits of the last byte are zero. A tensor of such a type begins on a
 * byte boundary, is always row-major, and has no strides. */
typedef uint32_t kd_dtype;

#define KD_NONE        0u /* an absent optional argument */
#define KD_F32         1u
#define KD_U8          2u
#define KD_I8          3u
#define KD_U16         4u
#define KD_I16         5u
#define KD_I32         6u
#define KD_I64         7u
#define KD_STRING      8u /* never crosses the ABI as tensor data */
#define KD_BOOL        9u /* one byte, 0 or 1 */
#define KD_F16         10u
#define KD_F64         11u
#define KD_U32         12u
#define KD_U64         13u
#define KD_C64         14u /* complex of two f32 */
#define KD_C128        15u /* complex of two f64 */
#define KD_BF16        16u
#define KD_F8E4M3FN    17u
#define KD_F8E4M3FNUZ  18u
#define KD_F8E5M2      19u
#define KD_F8E5M2FNUZ  20u
#define KD_U4          21u /* two to a byte */
#define KD_I4          22u
#define KD_F4E2M1      23u
#define KD_F8E8M0      24u /* just the exponent: a power of two, or NaN */
#define KD_U2          25u /* four to a byte */
#define KD_I2          26u
#define KD_DTYPE_COUNT 27u /* grows with the list */

/* A set of element types, for the type masks of kernel definitions. Bit 63
 * stands for all vendors' types; `supports` tells them apart. */
#define KD_TYPES(dtype) (UINT64_C(1) << ((dtype) < 63u ? (dtype) : 63u))

/* Handles. The plugin defines the first group, the host the second; the other
 * side only holds the pointer and never looks inside. */
typedef struct kd_instance kd_instance; /* a plugin that a host has opened */
typedef struct kd_device kd_device;     /* an open device */
typedef struct kd_buffer kd_buffer;     /* an allocation of device memory */
typedef struct kd_stream kd_stream;     /* an in-order queue of work */
typedef struct kd_event kd_event;       /* a point in a stream's work */
typedef struct kd_kernel kd_kernel;     /* an instance of a kernel definition */
typedef struct kd_capture kd_capture;   /* recorded work of a stream */
typedef struct kd_region kd_region;     /* a compiled part of a graph */

typedef struct kd_node kd_node;   /* an op in a program; the host's */
typedef struct kd_graph kd_graph; /* a graph of nodes; the host's */

#endif /* KD_BASE_H */
