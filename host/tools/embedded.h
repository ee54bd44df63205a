/* embedded.h - text files that the `keel` command contains (cmake/embed.cmake). */
#ifndef KEEL_EMBEDDED_H
#define KEEL_EMBEDDED_H

typedef struct embedded {
  const char *name; /* NULL ends a list */
  const char *text;
} embedded;

/* Of `keel new-plugin`: samples/new_plugin and samples/minimal_plugin. */
extern const embedded templates[];

#endif /* KEEL_EMBEDDED_H */
