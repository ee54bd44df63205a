/* external.c - memory of others, and memory for others.
 *
 * A buffer is its memory, whoever has that: what is no piece of malloc's is in a list, by its
 * address, so that release knows it. Mostly the list is empty. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/shared.h"
#include "cpu.h"

#define ALIGNMENT 16 /* as plugin.c says of the space */

typedef struct piece {
  struct piece *next;
  const void *address;
  shared_memory shared; /* at NULL: memory of the application */
  bool exported;        /* made here for others */
} piece;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static piece *pieces;
static atomic_uint count;

static kd_status external_add(const void *address, const shared_memory *shared,
                              bool exported) {
  piece *new = malloc(sizeof *new);
  if (!new) return FAIL(KD_OUT_OF_MEMORY, "no memory for a buffer");
  pthread_mutex_lock(&lock);
  *new = (piece){pieces, address, *shared, exported};
  pieces = new;
  atomic_fetch_add(&count, 1);
  pthread_mutex_unlock(&lock);
  return KD_OK;
}

bool cpu_external_release(kd_buffer *buffer) {
  if (!atomic_load_explicit(&count, memory_order_relaxed)) return false;
  pthread_mutex_lock(&lock);
  piece **at = &pieces;
  while (*at && (*at)->address != (const void *)buffer)
    at = &(*at)->next;
  piece *found = *at;
  if (found) {
    *at = found->next;
    atomic_fetch_sub(&count, 1);
  }
  pthread_mutex_unlock(&lock);
  if (!found) return false;
  shared_end(&found->shared);
  free(found);
  return true;
}

kd_status cpu_external_allocate(const kd_allocation *wanted,
                                kd_buffer **out_buffer, void **out_address) {
  shared_memory shared = {NULL, 0, -1};
  if (wanted->export_kind != KD_EXTERNAL_SHARED_FD)
    return FAIL(KD_UNIMPLEMENTED,
                "the CPU's memory can't be exported as kind %u",
                wanted->export_kind);
  int error = shared_make(wanted->size, &shared);
  if (error)
    return FAIL(KD_OUT_OF_MEMORY, "no file in memory of %llu bytes: %s",
                (unsigned long long)wanted->size, strerror(error));
  kd_status status = external_add(shared.at, &shared, true);
  if (status != KD_OK) {
    shared_end(&shared);
    return status;
  }
  *out_buffer = (kd_buffer *)(void *)shared.at;
  *out_address = shared.at;
  return KD_OK;
}

/* ---- the table ------------------------------------------------------------------------- */

static kd_status cpu_external_import_memory(kd_device *device,
                                            const kd_external *memory,
                                            kd_buffer **out_buffer,
                                            void **out_address) {
  (void)device;
  shared_memory shared = {NULL, 0, -1};
  char *at = (char *)(uintptr_t)memory->handle;
  if ((memory->kind != KD_EXTERNAL_HOST_POINTER &&
       memory->kind != KD_EXTERNAL_SHARED_FD) ||
      !memory->size || memory->offset % ALIGNMENT)
    return FAIL(KD_UNIMPLEMENTED,
                "the CPU takes no memory of kind %u and %llu bytes at %llu",
                memory->kind, (unsigned long long)memory->size,
                (unsigned long long)memory->offset);
  if (memory->kind == KD_EXTERNAL_SHARED_FD) {
    kd_status status = shared_open(cpu_host, memory, &shared);
    if (status != KD_OK) return status;
    at = shared.at;
  } else if ((uintptr_t)at % ALIGNMENT) {
    return FAIL(KD_UNIMPLEMENTED, "the CPU takes memory at a multiple of %d",
                ALIGNMENT);
  }
  at += memory->offset;
  kd_status status = external_add(at, &shared, false);
  if (status != KD_OK) {
    if (shared.at) munmap(shared.at, (size_t)shared.size);
    return status; /* the descriptor is still the caller's */
  }
  *out_buffer = (kd_buffer *)(void *)at;
  *out_address = at;
  return KD_OK;
}

static kd_status cpu_external_export_memory(kd_device *device,
                                            kd_buffer *buffer,
                                            kd_external *out_memory) {
  (void)device;
  int file = -1;
  bool found = false;
  uint64_t size = 0;
  pthread_mutex_lock(&lock);
  for (const piece *p = pieces; p && !found; p = p->next)
    if (p->address == (const void *)buffer && p->exported &&
        out_memory->kind == KD_EXTERNAL_SHARED_FD) {
      found = true;
      size = p->shared.size;
      file = shared_descriptor(&p->shared);
    }
  pthread_mutex_unlock(&lock);
  if (!found)
    return FAIL(KD_UNIMPLEMENTED,
                "the buffer was not made to be exported as kind %u",
                out_memory->kind);
  if (file < 0)
    return FAIL(KD_UNAVAILABLE, "no descriptor is left: %s", strerror(errno));
  out_memory->handle = (uint64_t)file;
  out_memory->offset = 0;
  out_memory->size = size;
  out_memory->access = KD_READ | KD_WRITE;
  return KD_OK;
}

const kd_external_table cpu_external = {
    .struct_size = sizeof(kd_external_table),
    .import_memory = cpu_external_import_memory,
    .export_memory = cpu_external_export_memory,
};
