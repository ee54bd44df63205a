/* verify.h - checks programs that were read from Keel's own file formats. */
#ifndef KEEL_VERIFY_H
#define KEEL_VERIFY_H

#include "program/function.h"

/* Checks that each value is made once and before it is read, that nested functions get what
 * they capture, and that ops fit their inputs; records each value's maker, sorts nodes and
 * infers types.
 * Returns KD_OK, KD_DATA_LOSS (the message begins with `path`), KD_INVALID_ARGUMENT (a
 * shape function's), KD_OUT_OF_MEMORY. */
keel_status keel_program_verify(keel_program *program, const char *path);

/* Finds an op's schema, for a file written with the semantics of opset `since`. Returns
 * KD_OK, KD_UNIMPLEMENTED (no such op), KD_INCOMPATIBLE (different semantics). */
keel_status keel_verify_op(const keel_context *context, const char *path,
                           const char *domain, const char *name, uint32_t since,
                           const keel_schema **out_schema);

/* The device that a file names. Returns KD_OK, KD_NOT_FOUND. */
keel_status keel_verify_device(keel_context *context, const char *path,
                               const char *name, keel_device **out_device);

#endif /* KEEL_VERIFY_H */
