/* environment.h - how the environment is read: by all of host, plugins and suite, here alone.
 *
 * A process with more rights than the user that started it (setuid, setgid, capabilities of
 * its file) reads none of it: every variable counts as not set. */
#ifndef KEEL_ENVIRONMENT_H
#define KEEL_ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>

static inline bool keel_trusts_environment(void) {
  return getauxval(AT_SECURE) == 0;
}

/* The variable's value, or NULL. */
static inline const char *keel_environment(const char *name) {
  return keel_trusts_environment() ? getenv(name) : NULL;
}

/* A folder as the XDG Base Directory Specification has it: of a variable, or `below` the
 * user's home. Paths that are not absolute count as not set. False: there is none, or
 * `room` is too little for it. */
static inline bool keel_user_folder(const char *variable, const char *below,
                                    char *out_path, size_t room) {
  const char *set = keel_environment(variable);
  const char *home = keel_environment("HOME");
  int size = set && *set == '/' ? snprintf(out_path, room, "%s", set)
             : home && *home == '/'
                 ? snprintf(out_path, room, "%s/%s", home, below)
                 : -1;
  return size >= 0 && (size_t)size < room;
}

#endif /* KEEL_ENVIRONMENT_H */
