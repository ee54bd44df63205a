/* native.h - a driver's own handles, by their kinds. */
#ifndef PLUGINS_NATIVE_H
#define PLUGINS_NATIVE_H

#include <kd/kd.h>
#include <stddef.h>
#include <stdint.h>

typedef struct native_handle {
  kd_native_kind kind;
  uint64_t number;
} native_handle;

static inline uint64_t native_number(const void *handle) {
  return (uint64_t)(uintptr_t)handle;
}

/* The one of the kind. `has` says which there are: "X: a device has the native kind Y". */
static inline kd_status native_give(const kd_host *host, const char *has,
                                    const native_handle *handles, size_t count,
                                    kd_native_kind kind, uint64_t *out_handle) {
  for (size_t i = 0; i < count; i++)
    if (handles[i].kind == kind) {
      *out_handle = handles[i].number;
      return KD_OK;
    }
  return host->fail(KD_UNIMPLEMENTED, "%s, and not 0x%x", has, (unsigned)kind);
}

#endif /* PLUGINS_NATIVE_H */
