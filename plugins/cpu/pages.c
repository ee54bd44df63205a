/* pages.c - memory for weights: in huge pages, where the system gives them.
 *
 * Weights are read from end to end in each run. In pages of 4 KiB that takes a walk through
 * the page tables every 64 lines of the cache, which costs most on virtual machines. */
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "cpu.h"

#define LINE ((size_t)64)
#define HUGE ((size_t)2 << 20)

static size_t rounded(size_t bytes, size_t to) {
  return (bytes + to - 1) / to * to;
}

void *cpu_weights_alloc(size_t bytes) {
  if (bytes < HUGE) return aligned_alloc(LINE, rounded(bytes, LINE));
  void *memory = aligned_alloc(HUGE, rounded(bytes, HUGE));
#ifdef MADV_HUGEPAGE
  /* the last part stays in small pages: a huge one would be mostly empty */
  if (memory) (void)madvise(memory, bytes / HUGE * HUGE, MADV_HUGEPAGE);
#endif
  return memory;
}

/* ---- small ones together -------------------------------------------------------------------- */

/* Matrices of less than a huge page lie in it together. */
struct cpu_region {
  char *memory;
  size_t used, size;
  uint64_t users; /* and one for the region that is filled now */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static cpu_region *filled; /* now; NULL: none */

#define REGION ((size_t)32 << 20)

/* Under the lock. */
static void pages_let_go(cpu_region *region) {
  if (!region || --region->users) return;
  free(region->memory);
  free(region);
}

static cpu_region *region_new(size_t bytes) {
  cpu_region *region = calloc(1, sizeof *region);
  if (!region) return NULL;
  region->size = bytes > REGION ? rounded(bytes, LINE) : REGION;
  region->memory = cpu_weights_alloc(region->size);
  region->users = 1;
  if (region->memory) return region;
  free(region);
  return NULL;
}

void *cpu_weights_take(size_t bytes, cpu_region **out_region) {
  void *taken = NULL;
  bytes = rounded(bytes, LINE);
  pthread_mutex_lock(&lock);
  if (!filled || filled->size - filled->used < bytes) {
    cpu_region *fresh = region_new(bytes);
    if (fresh) {
      pages_let_go(filled);
      filled = fresh;
    }
  }
  if (filled && filled->size - filled->used >= bytes) {
    taken = filled->memory + filled->used;
    filled->used += bytes;
    filled->users++;
    *out_region = filled;
  }
  pthread_mutex_unlock(&lock);
  return taken;
}

void cpu_weights_drop(cpu_region *region) {
  pthread_mutex_lock(&lock);
  pages_let_go(region);
  if (filled && filled->users == 1) { /* nobody's any more */
    pages_let_go(filled);
    filled = NULL;
  }
  pthread_mutex_unlock(&lock);
}
