/* pages.c - memory for weights: in huge pages, where the system gives them.
 *
 * Weights are read from end to end in each run. In pages of 4 KiB that takes a walk through
 * the page tables every 64 lines of the cache, which costs most on virtual machines. */
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
