/* imported.h - libraries that are opened, and called by address.
 *
 * What a program is linked with comes first in the search of every library that it opens: a
 * plugin with a copy of cJSON would call the host's. No other library finds the functions of one
 * that is opened here, and Keel does not call the application's of the same names. */
#ifndef KEEL_IMPORTED_H
#define KEEL_IMPORTED_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

/* A pointer to a function, with its name and type, for lists of a library's functions:
 *
 *   #define ZIP_FUNCTIONS(X) X(zip_open) X(zip_close)
 *   typedef struct zip { ZIP_FUNCTIONS(KEEL_IMPORTED_FIELD) } zip; */
#define KEEL_IMPORTED_FIELD(name) __typeof__(name) *name;
#define KEEL_IMPORTED_NAME(name)  #name,

/* Opens a library, which stays open, and writes its functions' addresses, one behind the other.
 * Returns false where the library is not there, or lacks one of the functions. */
bool keel_import(const char *file, const char *const *names, size_t count,
                 void *functions);

/* Defines `get`, which opens the library when it is first called, and returns the functions of
 * LIST, a `type`; NULL where the library is not there. Any thread may call it. */
#define KEEL_IMPORT_WITH(get, type, file, LIST)                            \
  static type imported;                                                    \
  static bool is_there;                                                    \
  static void import(void) {                                               \
    static const char *const names[] = {LIST(KEEL_IMPORTED_NAME)};         \
    is_there =                                                             \
        keel_import(file, names, sizeof names / sizeof *names, &imported); \
  }                                                                        \
  const type *get(void) {                                                  \
    static pthread_once_t once = PTHREAD_ONCE_INIT;                        \
    pthread_once(&once, import);                                           \
    return is_there ? &imported : NULL;                                    \
  }

#endif /* KEEL_IMPORTED_H */
