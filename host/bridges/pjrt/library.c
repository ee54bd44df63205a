/* library.c - the table that GetPjrtApi returns. */
#include <string.h>

#include "bridge.h"

/* What is not there says so by its name. */
#define SLOT(name)
#define NONE(name)                                                  \
  static pjrt_error *none_##name(void *args) {                      \
    (void)args;                                                     \
    return pjrt_fail_text(KD_UNIMPLEMENTED,                         \
                          "Keel's PJRT plugin has no PJRT_" #name); \
  }
#include "slots.def"

/* The same as a function of the table: a struct's pointer comes as any pointer does. */
#define SLOT(name)                             \
  static pjrt_error *call_##name(void *args) { \
    return pjrt_##name(args);                  \
  }
#define NONE(name)
#include "slots.def"

static const pjrt_api api = {
    .struct_size = sizeof api,
    .version = {.struct_size = sizeof api.version,
                .major = PJRT_MAJOR,
                .minor = PJRT_MINOR},
    .functions =
        {
#define SLOT(name) [PJRT_SLOT_##name] = call_##name,
#define NONE(name) [PJRT_SLOT_##name] = none_##name,
#include "slots.def"
        },
};

/* NOLINTBEGIN(readability-identifier-naming): PJRT gives the name */
KD_EXPORT const pjrt_api *GetPjrtApi(void);

KD_EXPORT const pjrt_api *GetPjrtApi(void) {
  return &api;
}
/* NOLINTEND(readability-identifier-naming) */
