/* imported.c - opens libraries that are called by address. */
#include "system/imported.h"

#include <dlfcn.h>
#include <string.h>

bool keel_import(const char *file, const char *const *names, size_t count,
                 void *functions) {
  void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  for (size_t i = 0; library && i < count; i++) {
    void *found = dlsym(library, names[i]);
    if (!found) {
      dlclose(library);
      return false;
    }
    memcpy((char *)functions + i * sizeof found, &found, sizeof found);
  }
  return library != NULL;
}
