/* microsoft.h - what the files of com.microsoft share. */
#ifndef KEEL_MICROSOFT_H
#define KEEL_MICROSOFT_H

#include "opsets/tables.h"

/* A row of the domain. */
#define MICROSOFT(name, types, params, attrs, shape)                          \
  {                                                                           \
    "com.microsoft", name, 1, types, params, attrs, keel_shape_##shape, 0, 0, \
        KEEL_BY_KERNEL, NULL                                                  \
  }

#endif /* KEEL_MICROSOFT_H */
