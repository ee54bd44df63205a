/* named.h - which defect a faulty plugin has: the one that a variable names. */
#ifndef KC_NAMED_H
#define KC_NAMED_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Copies what the variable says: rules change the environment. "": it is not set. */
static inline void named_by(char out_variant[64], const char *variable) {
  const char *name = getenv(variable);
  snprintf(out_variant, 64, "%s", name ? name : "");
}

/* Many a kernel asks this of each element: most names differ in the first letter. */
static inline bool named(const char *variant, const char *name) {
  return *variant == *name && !strcmp(variant, name);
}

#endif /* KC_NAMED_H */
