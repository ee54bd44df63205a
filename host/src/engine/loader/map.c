/* map.c - a plugin's file in this process, or a copy of it.
 *
 * The dynamic linker maps a file once per process. If another libkeel of this process has the
 * plugin open, and it takes one host at a time, this one maps a copy: a file in memory, which has
 * variables of its own. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "loader/library.h"
#include "loader/loader.h"

keel_status keel_plugin_map(keel_plugin *plugin) {
  const keel_library *library = plugin->shared;
  const char *path = library->copy ? library->copy : plugin->path;
  if (plugin->library) dlclose(plugin->library);
  plugin->copied = library->copy != NULL;
  keel_plugin_enter(plugin);
  plugin->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  keel_plugin_leave();
  if (plugin->library) return KD_OK;
  const char *why = dlerror();
  return keel_fail(KD_UNAVAILABLE, "%s: the dynamic linker says: %s",
                   plugin->path, why ? why : "nothing");
}

/* All of a file, to a descriptor. */
static bool copy_file(const char *path, int to) {
  char piece[65536];
  ssize_t size = 0;
  int from = open(path, O_RDONLY | O_CLOEXEC);
  if (from < 0) return false;
  while ((size = read(from, piece, sizeof piece)) > 0) {
    ssize_t at = 0;
    while (at < size) {
      ssize_t written = write(to, piece + at, (size_t)(size - at));
      if (written <= 0) break;
      at += written;
    }
    if (at < size) break;
  }
  close(from);
  return size == 0;
}

/* Copies stay: the dynamic linker knows what it mapped by the descriptor's name, and a later load
 * of the plugin takes the same. */
typedef struct copy {
  struct copy *next;
  uint64_t device_id, inode; /* of the file, as it was copied */
  char path[32];
} copy;
static copy *copies; /* under the lock of the libraries' list */

keel_status keel_library_copy(keel_library *library) {
  copy *c = copies;
  while (c &&
         (c->inode != library->inode || c->device_id != library->device_id))
    c = c->next;
  if (!c) {
    c = calloc(1, sizeof *c);
    if (!c) return keel_no_memory(sizeof *c);
    int file = memfd_create(library->path, MFD_CLOEXEC);
    if (file < 0 || !copy_file(library->path, file)) {
      if (file >= 0) close(file);
      free(c);
      return keel_fail(
          KD_ALREADY_EXISTS,
          "%s: another host in this process has it open, it takes one at a"
          " time, and it can't be copied: %s",
          library->path, strerror(errno));
    }
    *c = (copy){.next = copies,
                .device_id = library->device_id,
                .inode = library->inode};
    snprintf(c->path, sizeof c->path, "/proc/self/fd/%d", file);
    copies = c;
  }
  library->copy = c->path;
  return KD_OK;
}
