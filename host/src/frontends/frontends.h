/* frontends.h - the kinds of files that programs are read from. */
#ifndef KEEL_FRONTENDS_H
#define KEEL_FRONTENDS_H

#include <keel/program.h>

#include "base/base.h"

typedef struct keel_frontend {
  /* Whether a file is for it, by how it begins. */
  bool (*is)(const void *data, uint64_t size);
  /* Makes a program of it. `path` names it in messages, and finds what lies beside it. The
   * file is closed afterwards, unless the program keeps it (keel_mapping_create). */
  keel_status (*load)(keel_context *context, const char *path, keel_file *file,
                      keel_program **out_program);
} keel_frontend;

#define FRONTEND(name) extern const keel_frontend keel_frontend_##name;
#include "frontends/frontends.def"
#undef FRONTEND

#endif /* KEEL_FRONTENDS_H */
