/* keel/error.h - how calls of the application's API report failures.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef KEEL_ERROR_H
#define KEEL_ERROR_H

#include <kd/base.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KEEL_API KD_EXPORT

/* The result of a call: KD_OK (0), or one of the statuses of kd/base.h, which
 * devices and applications share. */
typedef kd_status keel_status;

/* Why the last call on this thread failed: what, where, why, and what to do.
 * One line or more, without a newline at the end; "" before the first failure.
 * Printable UTF-8: in names that are not, '?' replaces the bytes in question.
 * Numbers have a point in every locale.
 * Valid until the next failing call on this thread. */
KEEL_API const char *keel_message(void);

/* "OUT_OF_MEMORY" for KD_OUT_OF_MEMORY, and so on; "?" for other numbers. */
KEEL_API const char *keel_status_name(keel_status status);

/* The name of an element type ("f32"), and the type with a name, which may also
 * be ONNX's ("float"); KD_NONE for an unknown name. */
KEEL_API const char *keel_dtype_name(kd_dtype dtype);
KEEL_API kd_dtype keel_dtype_of(const char *name);

/* Bytes of one element; 0 for a type whose elements are not whole bytes. */
KEEL_API uint32_t keel_dtype_size(kd_dtype dtype);

#ifdef __cplusplus
}
#endif
#endif /* KEEL_ERROR_H */
