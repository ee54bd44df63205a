/* imported.h - libraries that are opened, and called by address.
 *
 * What a program is linked with comes first in the search of every library that it opens: a
 * plugin with a copy of cJSON would call the host's. No other library finds the functions of one
 * that is opened here, and Keel does not call the application's of the same names. */
#ifndef KEEL_IMPORTED_H
#define KEEL_IMPORTED_H

#include <stdbool.h>
#include <stddef.h>

/* A pointer to a function, with its name and type, for lists of a library's functions:
 *
 *   #define ZIP_FUNCTIONS(X) X(zip_open) X(zip_close)
 *   typedef struct zip { ZIP_FUNCTIONS(KEEL_IMPORTED_FIELD) } zip; */
#define KEEL_IMPORTED_FIELD(name) __typeof__(name) *name;
#define KEEL_IMPORTED_NAME(name)  #name,

/* Opens a library, which stays open, and writes its functions' addresses, one behind the other.
 * Returns false where there is no such library, or it lacks one of them. */
bool keel_import(const char *file, const char *const *names, size_t count,
                 void *functions);

#endif /* KEEL_IMPORTED_H */
