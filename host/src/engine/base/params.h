/* params.h - parameters as applications give them: structs that begin with struct_size, which may
 * be of an older or a newer Keel. */
#ifndef KEEL_PARAMS_H
#define KEEL_PARAMS_H

#include "base/base.h"

/* Copies the parameters that the application knows into `out`, a struct of `type`, and zeros for
 * the others. given: NULL gives zeros alone. least: bytes that every version has, the size up to
 * the first field that may be left out. Returns KD_OK, KD_INVALID_ARGUMENT: struct_size is less, as
 * where it is not set. */
#define KEEL_READ_PARAMS(type, given, least, out)                             \
  keel_params_read(#type, given, (given) ? (given)->struct_size : 0, (least), \
                   (out), sizeof(type))
keel_status keel_params_read(const char *name, const void *given,
                             uint64_t struct_size, size_t least, void *out,
                             size_t size);

/* Returns KD_OK, KD_INVALID_ARGUMENT: flags other than those known. what: "a plan" */
keel_status keel_params_flags(const char *what, uint32_t flags, uint32_t known);

#endif /* KEEL_PARAMS_H */
