/* params.c - parameters as applications give them. */
#include "base/params.h"

keel_status keel_params_read(const char *name, const void *given,
                             uint64_t struct_size, size_t least, void *out,
                             size_t size) {
  memset(out, 0, size);
  if (!given) return KD_OK;
  if (struct_size < least)
    return keel_fail(KD_INVALID_ARGUMENT,
                     "%s.struct_size is %llu, and must be sizeof(%s)", name,
                     (unsigned long long)struct_size, name);
  memcpy(out, given, struct_size < size ? (size_t)struct_size : size);
  return KD_OK;
}

keel_status keel_params_flags(const char *what, uint32_t flags,
                              uint32_t known) {
  return flags & ~known ? keel_fail(KD_INVALID_ARGUMENT, "%s has no flags 0x%x",
                                    what, (unsigned)(flags & ~known))
                        : KD_OK;
}
