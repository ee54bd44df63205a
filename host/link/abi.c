/* abi.c - finds a library of MPI's standard ABI, and its functions. */
#include "abi.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "system/environment.h"

/* NOLINTBEGIN(readability-identifier-naming): MPI's names */
#define DEFINE(name, parameters) int(*name) parameters;
ABI_FUNCTIONS(DEFINE)
/* NOLINTEND(readability-identifier-naming) */

/* Functions, and where they go. */
#define PLACE(name, parameters) {#name, (void *)&(name)},
static const struct {
  const char *name;
  void *place;
} functions[] = {ABI_FUNCTIONS(PLACE)};

static void *library; /* stays: MPI has threads and handlers of its own */
static char problem[1024];

/* POSIX has functions in data pointers here. */
static int abi_find(void *from, const char *name, void *place) {
  void *found = dlsym(from, name);
  if (found) *(void **)place = found;
  return found != NULL;
}

/* Older libraries have other handles and constants, and not this function. */
static int has_abi(void *from, const char *file) {
  int (*get_version)(int *, int *) = NULL;
  int major = 0, minor = 0;
  if (!abi_find(from, "MPI_Abi_get_version", (void *)&get_version)) {
    snprintf(problem, sizeof problem,
             "%s is not a library of MPI's standard ABI: it has no "
             "MPI_Abi_get_version, which MPI 5 brings; for an older MPI, Keel "
             "is built with a module of its own",
             file);
    return 0;
  }
  get_version(&major, &minor);
  if (major != ABI_MAJOR)
    snprintf(problem, sizeof problem,
             "%s has version %d.%d of MPI's standard ABI, and this module is"
             " for version %d",
             file, major, minor, ABI_MAJOR);
  return major == ABI_MAJOR;
}

static int has_functions(void *from, const char *file) {
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
    if (!abi_find(from, functions[i].name, functions[i].place)) {
      snprintf(problem, sizeof problem, "%s has no %s", file,
               functions[i].name);
      return 0;
    }
  return 1;
}

/* The first library that can be opened; if none can, reports the error of the first. */
static void *open_one_of(const char *const *files, const char **out_file) {
  for (size_t i = 0; files[i]; i++) {
    void *opened = dlopen(files[i], RTLD_NOW | RTLD_LOCAL);
    *out_file = files[i];
    if (opened) return opened;
    const char *words = dlerror();
    if (!i)
      snprintf(problem, sizeof problem,
               "the library of MPI's standard ABI, which MPI 5 brings, can't be"
               " opened (KEEL_MPI_LIBRARY may name it): %s",
               words ? words : files[i]);
  }
  return NULL;
}

const char *abi_open(void) {
  const char *said = keel_environment("KEEL_MPI_LIBRARY"), *file = NULL;
  const char *const names[] = {"libmpi_abi.so.1", "libmpi_abi.so", NULL};
  const char *const named[] = {said, NULL};
  if (library) return NULL;
  void *opened = open_one_of(said && *said ? named : names, &file);
  if (!opened) return problem;
  if (!has_abi(opened, file) || !has_functions(opened, file)) {
    dlclose(opened);
    return problem;
  }
  library = opened;
  return NULL;
}
